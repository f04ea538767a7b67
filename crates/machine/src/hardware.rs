// SPDX-License-Identifier: GPL-2.0-only
//! What a machine file says of the hardware beyond topology and capacities: what its units share, where its memory is, how
//! fast its cores get when others are idle, and what power it takes. All of it is optional; what is left out is not known.
//! The simulator uses all of it; the lab governs what levels share and accelerates, models caches and what memory takes where it
//! is asked to, and knows nothing of bandwidth and power.
//!
//! ```toml
//! [[sharing]]            # units of a level that share its speed, as hardware threads share a core (lab.smt_gain_percent)
//! level = "pipe"
//! gain_percent = 0       # what each further unit within it that runs adds to the speed of one
//! [memory]
//! latency_ns = 100       # what an access takes longer that misses the last-level cache
//! bandwidth_mb_s = 10666 # of each group of `level`; endless without it
//! level = "package"      # whose CPUs share the bandwidth ("package")
//! [acceleration]
//! mhz = [3000, 2666]     # of each core of a package while one, two, ... of its cores are busy; the last for all more
//! [power]                # in milliwatts
//! package_active_mw = 24000  # the part of a package that its cores share, while one of them is busy (C0)
//! package_idle_mw = 8000     # a package of which no core is busy
//! core_active_mw = 24000     # a core that is busy, at the last step of the acceleration
//! core_idle_mw = 6000        # a core that is idle (C1 and deeper) beside a busy one of its package
//! ```

use std::ops::Range;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::error::Error;
use crate::level::{Level, names};

/// The highest figures: well beyond any machine, and far from what would overflow.
const MAX_LATENCY_NS: u32 = 1_000_000;
const MAX_BANDWIDTH_MB_S: u32 = 100_000_000;
const MAX_MHZ: u32 = 1_000_000;
const MAX_MW: u32 = 10_000_000;

/// What is known of the hardware beyond topology and capacities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hardware {
    /// Levels whose units share speed, but for the core.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sharing: Vec<Sharing>,
    /// Where what misses the last-level caches comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The clock of a package's cores in MHz while 1, 2, ... of them are busy; the last for all more. Never rises. Empty
    /// where it is always the same; capacities are those at the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceleration_mhz: Vec<u32>,
    /// What packages and cores take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
}

impl Hardware {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// A level whose units share speed: each group is as fast as one unit alone, and a little faster with each further one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// One of the machine's levels, neither `core` nor `pu`.
    pub level: String,
    /// What each further unit that runs adds, 0 to 100 % of the speed of one.
    pub gain_percent: u32,
}

/// Memory behind last-level caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What an access takes longer that misses the last-level cache, 1 ns to 1 ms.
    pub latency_ns: u32,
    /// Of each group of `level`, in millions of bytes a second, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_mb_s: Option<u32>,
    /// The level whose CPUs share the bandwidth.
    pub level: String,
}

/// Power, in milliwatts: the model of multicore-scheduling ("Multi-core Power Management", "Scheduling for Optimal Power
/// Savings"), in which what the cores of a package share stays in C0 while one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Power {
    /// The part of a package that its cores share, while one of them is busy.
    pub package_active_mw: u32,
    /// A package of which no core is busy, its cores included.
    pub package_idle_mw: u32,
    /// A busy core at the last step of the acceleration.
    pub core_active_mw: u32,
    /// An idle core of a package of which another is busy: it cannot leave the others' voltage and clock.
    pub core_idle_mw: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharingEntry {
    level: Spanned<String>,
    gain_percent: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryEntry {
    latency_ns: Spanned<u32>,
    bandwidth_mb_s: Option<Spanned<u32>>,
    level: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccelerationEntry {
    mhz: Spanned<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PowerEntry {
    package_active_mw: Spanned<u32>,
    package_idle_mw: Spanned<u32>,
    core_active_mw: Spanned<u32>,
    core_idle_mw: Spanned<u32>,
}

/// The machine file's entries.
pub(crate) struct Entries<'a> {
    pub sharing: &'a [SharingEntry],
    pub memory: Option<&'a MemoryEntry>,
    pub acceleration: Option<&'a AccelerationEntry>,
    pub power: Option<&'a PowerEntry>,
}

impl Entries<'_> {
    /// What they say of a machine with these levels; `at` makes an error of a place in the file, a key and a problem.
    pub fn read(
        &self,
        levels: &[Level],
        at: &impl Fn(Range<usize>, &str, String) -> Error,
    ) -> Result<Hardware, Error> {
        Ok(Hardware {
            sharing: sharing(self.sharing, levels, at)?,
            memory: self.memory.map(|entry| memory(entry, levels, at)).transpose()?,
            acceleration_mhz: self
                .acceleration
                .map_or(Ok(Vec::new()), |entry| acceleration(entry, at))?,
            power: self.power.map(|entry| power(entry, at)).transpose()?,
        })
    }
}

/// A number that must be within a range.
fn number(
    value: &Spanned<u32>,
    range: std::ops::RangeInclusive<u32>,
    key: &str,
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<u32, Error> {
    let number = *value.get_ref();
    if range.contains(&number) {
        return Ok(number);
    }
    let problem = format!("{number} is not within {} and {}", range.start(), range.end());
    Err(at(value.span(), key, problem))
}

fn level(
    value: &Spanned<String>,
    levels: &[Level],
    key: &str,
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<String, Error> {
    let known: Vec<&str> = levels.iter().map(Level::name).collect();
    if known.contains(&value.get_ref().as_str()) {
        return Ok(value.get_ref().clone());
    }
    let problem = format!(
        "the machine has no level {:?}, only {}",
        value.get_ref(),
        known.join(", ")
    );
    Err(at(value.span(), key, problem))
}

fn sharing(
    entries: &[SharingEntry],
    levels: &[Level],
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<Vec<Sharing>, Error> {
    let mut found: Vec<Sharing> = Vec::new();
    for (nr, entry) in entries.iter().enumerate() {
        let key = format!("sharing[{nr}].level");
        let wrong = |problem: &str| Err(at(entry.level.span(), &key, problem.to_string()));
        let level = level(&entry.level, levels, &key, at)?;
        match level.as_str() {
            names::CORE => return wrong("what hardware threads add to their core is lab.smt_gain_percent"),
            names::PU => return wrong("a CPU has no units that could share it"),
            _ if found.iter().any(|known| known.level == level) => {
                return wrong("an earlier entry is of the same level");
            }
            _ => {}
        }
        let key = format!("sharing[{nr}].gain_percent");
        let gain_percent = number(&entry.gain_percent, 0..=100, &key, at)?;
        found.push(Sharing { level, gain_percent });
    }
    Ok(found)
}

fn memory(
    entry: &MemoryEntry,
    levels: &[Level],
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<Memory, Error> {
    let bandwidth = |value| number(value, 1..=MAX_BANDWIDTH_MB_S, "memory.bandwidth_mb_s", at);
    Ok(Memory {
        latency_ns: number(&entry.latency_ns, 1..=MAX_LATENCY_NS, "memory.latency_ns", at)?,
        bandwidth_mb_s: entry.bandwidth_mb_s.as_ref().map(bandwidth).transpose()?,
        level: entry
            .level
            .as_ref()
            .map_or(Ok(names::PACKAGE.to_string()), |value| {
                level(value, levels, "memory.level", at)
            })?,
    })
}

fn acceleration(
    entry: &AccelerationEntry,
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<Vec<u32>, Error> {
    let mhz = entry.mhz.get_ref();
    let wrong = |problem: String| Err(at(entry.mhz.span(), "acceleration.mhz", problem));
    if mhz.is_empty() {
        return wrong("there is no clock; give that of one busy core first".to_string());
    }
    if let Some(wrong_mhz) = mhz.iter().find(|mhz| !(1..=MAX_MHZ).contains(*mhz)) {
        return wrong(format!("{wrong_mhz} is not within 1 and {MAX_MHZ}"));
    }
    if let Some(pair) = mhz.windows(2).find(|pair| pair[0] < pair[1]) {
        return wrong(format!(
            "{} follows {}; with more busy cores no core is faster",
            pair[1], pair[0]
        ));
    }
    Ok(mhz.clone())
}

fn power(entry: &PowerEntry, at: &impl Fn(Range<usize>, &str, String) -> Error) -> Result<Power, Error> {
    let mw = |value, key: &str| number(value, 0..=MAX_MW, &format!("power.{key}"), at);
    Ok(Power {
        package_active_mw: mw(&entry.package_active_mw, "package_active_mw")?,
        package_idle_mw: mw(&entry.package_idle_mw, "package_idle_mw")?,
        core_active_mw: mw(&entry.core_active_mw, "core_active_mw")?,
        core_idle_mw: mw(&entry.core_idle_mw, "core_idle_mw")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    const GOOD: &str = "name = \"m\"\ntopology = \"package:2 l2:1(size=4MB) core:2 pipe:2 pu:2\"\n\
                        [[sharing]]\nlevel = \"pipe\"\ngain_percent = 10\n\
                        [memory]\nlatency_ns = 100\nbandwidth_mb_s = 5000\n\
                        [acceleration]\nmhz = [3000, 2666]\n\
                        [power]\npackage_active_mw = 4\npackage_idle_mw = 1\ncore_active_mw = 3\ncore_idle_mw = 2\n";

    #[test]
    fn all_keys() {
        let machine = Machine::from_toml(GOOD, "m.toml").unwrap();
        let hardware = machine.hardware();
        assert_eq!(
            *hardware,
            Hardware {
                sharing: vec![Sharing {
                    level: "pipe".to_string(),
                    gain_percent: 10
                }],
                memory: Some(Memory {
                    latency_ns: 100,
                    bandwidth_mb_s: Some(5000),
                    level: "package".to_string()
                }),
                acceleration_mhz: vec![3000, 2666],
                power: Some(Power {
                    package_active_mw: 4,
                    package_idle_mw: 1,
                    core_active_mw: 3,
                    core_idle_mw: 2
                }),
            }
        );
        assert!(!hardware.is_unknown());
        let plain = Machine::from_toml("name = \"p\"\ntopology = \"core:2\"\n", "p.toml").unwrap();
        assert!(plain.hardware().is_unknown());
    }

    #[test]
    fn errors_name_line_and_key() {
        for (from, to, expected) in [
            (
                "\"pipe\"",
                "\"pip\"",
                "m.toml:4: sharing[0].level: the machine has no level \"pip\", only package, llc, core, pipe, pu",
            ),
            (
                "\"pipe\"",
                "\"core\"",
                "m.toml:4: sharing[0].level: what hardware threads add to their core is lab.smt_gain_percent",
            ),
            (
                "\"pipe\"",
                "\"pu\"",
                "m.toml:4: sharing[0].level: a CPU has no units",
            ),
            (
                "= 10\n",
                "= 10\n[[sharing]]\nlevel = \"pipe\"\ngain_percent = 0\n",
                "m.toml:7: sharing[1].level: an earlier entry",
            ),
            (
                "= 10\n",
                "= 101\n",
                "m.toml:5: sharing[0].gain_percent: 101 is not within 0 and 100",
            ),
            (
                "= 100\n",
                "= 0\n",
                "m.toml:7: memory.latency_ns: 0 is not within 1 and 1000000",
            ),
            (
                "= 5000",
                "= 0",
                "m.toml:8: memory.bandwidth_mb_s: 0 is not within",
            ),
            (
                "= 5000",
                "= 5000\nlevel = \"bus\"",
                "m.toml:9: memory.level: the machine has no level \"bus\"",
            ),
            (
                "[3000, 2666]",
                "[]",
                "m.toml:10: acceleration.mhz: there is no clock",
            ),
            (
                "[3000, 2666]",
                "[3000, 0]",
                "m.toml:10: acceleration.mhz: 0 is not within 1 and",
            ),
            (
                "[3000, 2666]",
                "[2666, 3000]",
                "m.toml:10: acceleration.mhz: 3000 follows 2666; with more busy cores",
            ),
            (
                "core_idle_mw = 2",
                "core_idle_mw = 10000001",
                "m.toml:15: power.core_idle_mw: 10000001 is not within 0 and 10000000",
            ),
            (
                "core_idle_mw = 2\n",
                "",
                "m.toml:11: missing field `core_idle_mw`",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = Machine::from_toml(&GOOD.replace(from, to), "m.toml")
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
