// SPDX-License-Identifier: GPL-2.0-only
//! The nine variants of IPFwd (blackbox, section 4.3) and what each stresses.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use threadwise_machine::{Cache, CacheKind, Machine};

use super::Error;

/// What P does with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum Variant {
    /// One look-up in a table that fits into the L1 data cache.
    #[default]
    #[value(name = "hash1_L1")]
    #[serde(rename = "hash1_L1")]
    Hash1L1,
    /// One look-up in a table that fits into the L2 cache.
    #[value(name = "hash1_L2")]
    #[serde(rename = "hash1_L2")]
    Hash1L2,
    /// One look-up in a table that no cache holds.
    #[value(name = "hash1_Mem")]
    #[serde(rename = "hash1_Mem")]
    Hash1Mem,
    /// Three look-ups, each by what the one before found, in a table that fits into the L1 data cache.
    #[value(name = "hashN_L1")]
    #[serde(rename = "hashN_L1")]
    HashNL1,
    /// Three such look-ups in a table that fits into the L2 cache.
    #[value(name = "hashN_L2")]
    #[serde(rename = "hashN_L2")]
    HashNL2,
    /// Three such look-ups in a table that no cache holds.
    #[value(name = "hashN_Mem")]
    #[serde(rename = "hashN_Mem")]
    HashNMem,
    /// hash1_L1, then integer additions.
    #[value(name = "intadd")]
    #[serde(rename = "intadd")]
    IntAdd,
    /// hash1_L1, then integer multiplications.
    #[value(name = "intmul")]
    #[serde(rename = "intmul")]
    IntMul,
    /// hash1_L1, then integer divisions.
    #[value(name = "intdiv")]
    #[serde(rename = "intdiv")]
    IntDiv,
}

/// Which memory the forwarding table takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryClass {
    /// Half of the smallest L1 data cache of the machine: packets need the rest.
    L1,
    /// Half of the smallest L2 cache.
    L2,
    /// Four times the largest last-level cache, but at most 256 MiB.
    Mem,
}

/// An integer instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Addition.
    Add,
    /// Multiplication.
    Multiply,
    /// Division.
    Divide,
}

impl Variant {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 9] = [
        Self::Hash1L1,
        Self::Hash1L2,
        Self::Hash1Mem,
        Self::HashNL1,
        Self::HashNL2,
        Self::HashNMem,
        Self::IntAdd,
        Self::IntMul,
        Self::IntDiv,
    ];

    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash1L1 => "hash1_L1",
            Self::Hash1L2 => "hash1_L2",
            Self::Hash1Mem => "hash1_Mem",
            Self::HashNL1 => "hashN_L1",
            Self::HashNL2 => "hashN_L2",
            Self::HashNMem => "hashN_Mem",
            Self::IntAdd => "intadd",
            Self::IntMul => "intmul",
            Self::IntDiv => "intdiv",
        }
    }

    /// Look-ups for each packet. N is three in the paper's experiments.
    pub fn lookups(self) -> u32 {
        match self {
            Self::HashNL1 | Self::HashNL2 | Self::HashNMem => 3,
            _ => 1,
        }
    }

    /// Where the table lies.
    pub fn memory(self) -> MemoryClass {
        match self {
            Self::Hash1L2 | Self::HashNL2 => MemoryClass::L2,
            Self::Hash1Mem | Self::HashNMem => MemoryClass::Mem,
            _ => MemoryClass::L1,
        }
    }

    /// What P computes at the end, if anything.
    pub fn operation(self) -> Option<Operation> {
        match self {
            Self::IntAdd => Some(Operation::Add),
            Self::IntMul => Some(Operation::Multiply),
            Self::IntDiv => Some(Operation::Divide),
            _ => None,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryClass {
    const MAX_MEM_BYTES: u64 = 256 << 20;

    /// The size of a table of this class on the machine that this runs on, in bytes.
    ///
    /// # Errors
    /// [`Error::UnknownCache`] if the kernel does not tell.
    pub fn table_bytes_here(self) -> Result<u64, Error> {
        let host = Machine::host().map_err(|error| Error::UnknownCache {
            cache: self.cache(),
            reason: error.to_string(),
        })?;
        self.table_bytes(host.caches()).ok_or(Error::UnknownCache {
            cache: self.cache(),
            reason: "the kernel does not tell it in /sys/devices/system/cpu/cpu*/cache".to_owned(),
        })
    }

    /// The size of a table of this class on a machine with these caches, in bytes.
    pub fn table_bytes(self, caches: &[Cache]) -> Option<u64> {
        let for_data = || caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let sizes = |level| {
            for_data()
                .filter(move |cache| cache.level == level)
                .filter_map(|cache| cache.size_bytes)
        };
        match self {
            Self::L1 => sizes(1).min().map(|bytes| bytes / 2),
            Self::L2 => sizes(2).min().map(|bytes| bytes / 2),
            Self::Mem => {
                let last = for_data().map(|cache| cache.level).max()?;
                let bytes = sizes(last).max()?;
                Some(bytes.saturating_mul(4).min(Self::MAX_MEM_BYTES))
            }
        }
    }

    fn cache(self) -> &'static str {
        match self {
            Self::L1 => "L1 data cache",
            Self::L2 => "L2 cache",
            Self::Mem => "last-level cache",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(level: u8, kind: CacheKind, kib: u64) -> Cache {
        Cache {
            level,
            kind,
            size_bytes: Some(kib << 10),
            cpus: Vec::new(),
        }
    }

    #[test]
    fn names_are_those_of_the_paper_everywhere() {
        for variant in Variant::ALL {
            let name = variant.name();
            assert_eq!(variant.to_possible_value().unwrap().get_name(), name);
            assert_eq!(serde_json::to_string(&variant).unwrap(), format!("\"{name}\""));
        }
    }

    #[test]
    fn classes_follow_the_caches() {
        let caches = [
            cache(1, CacheKind::Data, 48),
            cache(1, CacheKind::Data, 32),
            cache(1, CacheKind::Instruction, 16),
            cache(2, CacheKind::Unified, 2048),
            cache(3, CacheKind::Unified, 8 << 10),
        ];
        assert_eq!(MemoryClass::L1.table_bytes(&caches), Some(16 << 10));
        assert_eq!(MemoryClass::L2.table_bytes(&caches), Some(1 << 20));
        assert_eq!(MemoryClass::Mem.table_bytes(&caches), Some(32 << 20));
        assert_eq!(
            MemoryClass::Mem.table_bytes(&[cache(3, CacheKind::Unified, 1 << 20)]),
            Some(256 << 20)
        );
        assert_eq!(MemoryClass::L2.table_bytes(&caches[..3]), None);
        assert_eq!(MemoryClass::Mem.table_bytes(&[]), None);
    }
}
