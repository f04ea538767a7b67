// SPDX-License-Identifier: GPL-2.0-only
//! The machine for people: a tree and a line of plain text, and a picture.

mod svg;
mod tree;

pub use svg::{Picture, Tenant};

use crate::level::names;
use crate::machine::{Cache, CacheKind, Machine};

impl Machine {
    /// A tree for a terminal, one line for each run of equal siblings, ending in a newline.
    pub fn render_tree(&self) -> String {
        tree::render(self)
    }

    /// A picture, as a document of its own that may also be put into a page: levels as boxes within boxes, CPUs with
    /// their numbers, capacities where they differ. It is readable on light and dark ground.
    pub fn render_svg(&self) -> String {
        svg::render(self, None).svg
    }

    /// The same picture with who has which CPU in place of capacities: `tenants` by CPU, fewer than there are CPUs if the last
    /// have none.
    pub fn render_tenants(&self, tenants: &[Option<Tenant>]) -> Picture {
        svg::render(self, Some(tenants))
    }

    /// One line: how many CPUs, cores, LLCs and packages there are, and what is special.
    pub fn summary(&self) -> String {
        let mut parts = vec![count(self.nr_cpus(), "CPU"), count(self.nr_cores(), "core")];
        parts.extend([count(self.nr_llcs(), "LLC"), count(self.nr_packages(), "package")]);
        if let Some(numa) = self.level(names::NUMA) {
            parts.push(count(numa.groups().len(), "NUMA node"));
        }
        if !self.is_symmetric() {
            parts.push("unequal capacities".to_string());
        }
        if !self.offline.is_empty() {
            parts.push(format!("{} offline", count(self.offline.len(), "CPU")));
        }
        if let Some(lab) = &self.lab {
            parts.push(format!("{} MIPS in the lab", lab.mips));
            if lab.hides_smt {
                parts.push("SMT hidden from its kernel".to_string());
            }
        }
        if self.hardware.power.is_some() {
            parts.push("power figures".to_string());
        }
        parts.join(", ")
    }
}

fn count(nr: usize, what: &str) -> String {
    format!("{nr} {what}{}", if nr == 1 { "" } else { "s" })
}

/// `L2 512 KiB`, `L1d 48 KiB`, `L3`.
fn cache_label(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = cache
        .size_bytes
        .map_or(String::new(), |bytes| format!(" {}", size(bytes)));
    format!("L{}{kind}{size}", cache.level)
}

/// In the largest unit that needs no fraction.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.trailing_zeros() as usize / 10).min(UNITS.len() - 1);
    match bytes {
        0 => "0 B".to_string(),
        _ => format!("{} {}", bytes >> (10 * unit), UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_no_fraction() {
        let cases = [
            (0, "0 B"),
            (1000, "1000 B"),
            (48 << 10, "48 KiB"),
            (1536 << 10, "1536 KiB"),
            (1 << 30, "1 GiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(size(u64::MAX), "18446744073709551615 B");
        assert_eq!(size(1 << 63), "8388608 TiB");
    }

    #[test]
    fn the_summary() {
        let amp = Machine::load("amp-8").unwrap();
        assert_eq!(
            amp.summary(),
            "8 CPUs, 8 cores, 1 LLC, 1 package, unequal capacities, 160 MIPS in the lab"
        );
    }
}
