// SPDX-License-Identifier: GPL-2.0-only
//! The forwarding table.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::{Error, Spec};

/// Size of an entry: a cache line, so that two look-ups touch two lines unless they find the same entry.
pub const ENTRY_BYTES: u64 = 64;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry {
    /// What the next look-up of the same packet depends on; a permutation of the entries' indexes.
    link: u32,
    next_hop: u16,
}

const _: () = assert!(size_of::<Entry>() as u64 == ENTRY_BYTES);

/// A hash table by destination address. There are no chains: an entry serves all that hash to it, as in IPFwd.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
}

impl Table {
    /// A table of `bytes`, rounded down to whole entries, whose links are a random permutation.
    ///
    /// # Errors
    /// If the size is out of range or there is no memory for it.
    pub fn new(bytes: u64, seed: u64) -> Result<Self, Error> {
        if !(ENTRY_BYTES..=Spec::MAX_TABLE_BYTES).contains(&bytes) {
            return Err(Error::OutOfRange {
                what: "a forwarding table",
                value: bytes,
                expected: format!("from {ENTRY_BYTES} to {} bytes", Spec::MAX_TABLE_BYTES),
            });
        }
        // The limit keeps the number of entries below 2^28.
        let nr = (bytes / ENTRY_BYTES) as u32;
        let mut entries = Vec::new();
        entries
            .try_reserve_exact(nr as usize)
            .map_err(|_| Error::TableMemory { bytes })?;
        let links = permutation(nr, seed);
        entries.extend(links.into_iter().map(|link| Entry {
            link,
            next_hop: link as u16,
        }));
        Ok(Self { entries })
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.entries.len() as u64 * ENTRY_BYTES
    }

    /// The next hop for `destination` after `lookups` look-ups, of which each but the first needs the entry that the
    /// one before found; `visit` sees the index of each entry.
    #[inline]
    pub fn next_hop(&self, destination: u32, lookups: u32, mut visit: impl FnMut(usize)) -> u16 {
        let (mut link, mut next_hop) = (0, 0);
        for _ in 0..lookups {
            let index = self.index(destination, link);
            visit(index);
            let entry = &self.entries[index];
            (link, next_hop) = (entry.link, entry.next_hop);
        }
        next_hop
    }

    /// Scales the upper half of a hash to the number of entries, which need not be a power of two.
    #[inline]
    fn index(&self, destination: u32, link: u32) -> usize {
        let key = u64::from(destination) << 32 | u64::from(link);
        (((hash(key) >> 32) * self.entries.len() as u64) >> 32) as usize
    }
}

/// The finaliser of MurmurHash3 (fmix64 in aappleby/smhasher:src/MurmurHash3.cpp): every bit of the key moves every
/// bit of the hash.
#[inline]
fn hash(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// The numbers below `nr` in random order (Fisher and Yates).
fn permutation(nr: u32, seed: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..nr).collect();
    let mut generator = generator(seed);
    for last in (1..numbers.len()).rev() {
        let other = ((generator.next_u64() >> 32) * (last as u64 + 1)) >> 32;
        numbers.swap(last, other as usize);
    }
    numbers
}

/// PCG XSL 128/64 of this seed, with a stream that the generated packets do not have.
fn generator(seed: u64) -> Pcg64 {
    Pcg64::new(u128::from(seed), 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use threadwise_machine::{Cache, CacheKind};

    use super::super::source::{Generator, PacketSource};
    use super::super::variant::{MemoryClass, Variant};
    use super::super::{ipv4, packet::Packet};
    use super::*;

    const L1D: u64 = 32 << 10;
    const L2: u64 = 1 << 20;
    const LLC: u64 = 8 << 20;

    fn table(class: MemoryClass) -> Table {
        let cache = |level, bytes| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: Some(bytes),
            cpus: Vec::new(),
        };
        let caches = [cache(1, L1D), cache(2, L2), cache(3, LLC)];
        Table::new(class.table_bytes(&caches).unwrap(), 1).unwrap()
    }

    /// Bytes of the distinct cache lines that the look-ups of `packets` generated packets touch, and the look-ups.
    fn footprint(variant: Variant, packets: u32) -> (u64, u64) {
        let table = table(variant.memory());
        let mut generator = Generator::new(8, 64, 1);
        let mut packet = Packet::default();
        let (mut lines, mut lookups) = (BTreeSet::new(), 0);
        for _ in 0..packets {
            generator.receive(&mut packet).unwrap();
            let destination = ipv4::destination(ipv4::header(packet.frame_mut()).unwrap());
            table.next_hop(destination, variant.lookups(), |index| {
                lines.insert(&raw const table.entries[index] as usize / 64);
                lookups += 1;
            });
        }
        (lines.len() as u64 * 64, lookups)
    }

    #[test]
    fn each_class_touches_what_its_name_says() {
        for variant in [Variant::Hash1L1, Variant::HashNL1, Variant::IntDiv] {
            let (bytes, _) = footprint(variant, 10_000);
            assert!((L1D / 4..=L1D / 2).contains(&bytes), "{variant} {bytes}");
        }
        for variant in [Variant::Hash1L2, Variant::HashNL2] {
            let (bytes, _) = footprint(variant, 100_000);
            assert!((2 * L1D..=L2 / 2).contains(&bytes), "{variant} {bytes}");
        }
        for variant in [Variant::Hash1Mem, Variant::HashNMem] {
            let (bytes, _) = footprint(variant, 400_000);
            assert!(bytes > 2 * LLC, "{variant} {bytes}");
        }
    }

    #[test]
    fn a_packet_has_one_or_three_lookups() {
        for variant in Variant::ALL {
            let name = variant.name();
            let expected = if name.starts_with("hashN") { 3 } else { 1 };
            assert_eq!(footprint(variant, 50).1, 50 * expected, "{name}");
        }
    }

    #[test]
    fn memory_is_not_read_again_soon() {
        // Of 1000 successive look-ups of the class Mem nearly all must miss: they find different entries, far apart.
        let table = table(MemoryClass::Mem);
        let mut seen = Vec::new();
        for destination in 0..1000 {
            table.next_hop(0x0a00_0000 + destination, 1, |index| seen.push(index));
        }
        let neighbours = seen
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 64)
            .count();
        let distinct: BTreeSet<_> = seen.iter().collect();
        assert!(
            distinct.len() > 990 && neighbours < 10,
            "{} {neighbours}",
            distinct.len()
        );
    }

    #[test]
    fn a_later_lookup_depends_on_the_entry_found_before() {
        let (table, mut other) = (table(MemoryClass::L2), table(MemoryClass::L2));
        for entry in &mut other.entries {
            entry.link ^= 1;
        }
        let path = |table: &Table, destination| {
            let mut path = Vec::new();
            table.next_hop(destination, 3, |index| path.push(index));
            path
        };
        for destination in 0..100 {
            let (here, there) = (path(&table, destination), path(&other, destination));
            assert_eq!(here[0], there[0]);
            assert_ne!(here[1..], there[1..]);
        }
    }

    #[test]
    fn links_are_a_permutation_of_the_seed() {
        let mut links = permutation(1000, 3);
        assert_eq!(links, permutation(1000, 3));
        assert_ne!(links, permutation(1000, 4));
        links.sort_unstable();
        assert!(links.into_iter().eq(0..1000));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for bytes in [0, 63, Spec::MAX_TABLE_BYTES + 1, u64::MAX] {
            assert!(
                matches!(Table::new(bytes, 1), Err(Error::OutOfRange { .. })),
                "{bytes}"
            );
        }
        assert_eq!(Table::new(130, 1).unwrap().bytes(), 128);
    }
}
