// SPDX-License-Identifier: GPL-2.0-only
//! How fast each CPU is, from the best source that the tree has.
//!
//! On AMD processors with preferred cores `highest_perf` is a rank: it says which cores come first, not how much
//! faster they are (Documentation/admin-guide/pm/amd-pstate.rst, "amd-pstate Preferred Core"), and cores of one
//! kind may lie far apart in it. The kernel has its own scale of 166 or 196 for all of them
//! (amd_get_boost_ratio_numerator in arch/x86/kernel/acpi/cppc.c), by which it writes their highest frequencies.

use super::CPU;
use super::tree::Tree;
use crate::error::Error;
use crate::id::CpuId;
use crate::machine::{CapacitySource, MAX_CAPACITY};

/// There on Intel's hybrid processors only.
const HYBRID: &str = "sys/devices/cpu_atom/cpus";

/// There where the driver amd-pstate ranks cores.
const RANKED: &str = "cpufreq/amd_pstate_prefcore_ranking";

/// A capacity for each CPU, 1 to 1024, the fastest 1024; and where they come from.
pub(super) fn read(tree: &mut Tree, cpus: &[CpuId]) -> Result<(Vec<u32>, CapacitySource), Error> {
    let sources = [
        (CapacitySource::CpuCapacity, "cpu_capacity"),
        (CapacitySource::AcpiCppc, "acpi_cppc/highest_perf"),
        (CapacitySource::MaxFreq, "cpufreq/cpuinfo_max_freq"),
    ];
    let is_hybrid = tree.exists(HYBRID);
    let is_ranked = cpus
        .first()
        .is_some_and(|cpu| tree.exists(&format!("{CPU}/cpu{cpu}/{RANKED}")));
    for (source, name) in sources {
        if is_ranked && source == CapacitySource::AcpiCppc {
            continue;
        }
        let Some(speeds) = speeds(tree, cpus, name, source)? else {
            continue;
        };
        // With SMT on, the kernel leaves the capacities of a hybrid x86 processor unscaled and writes 1024 for
        // all (hybrid_init_cpu_capacity_scaling in drivers/cpufreq/intel_pstate.c); amd-pstate never scales them,
        // though cores of Zen 4 and Zen 4c differ. That is no answer.
        let is_unscaled =
            source == CapacitySource::CpuCapacity && speeds.iter().all(|speed| *speed == speeds[0]);
        if is_unscaled && (is_hybrid || is_ranked) {
            continue;
        }
        return Ok((scale(&speeds), source));
    }
    Ok((vec![MAX_CAPACITY; cpus.len()], CapacitySource::Assumed))
}

/// A speed above 0 for each CPU in the source's own unit; none when the source does not know one.
fn speeds(
    tree: &Tree,
    cpus: &[CpuId],
    name: &str,
    source: CapacitySource,
) -> Result<Option<Vec<u64>>, Error> {
    let mut speeds = Vec::new();
    for cpu in cpus {
        let path = format!("{CPU}/cpu{cpu}/{name}");
        let number = match tree.number(&path) {
            // Some firmware announces the register and fails when it is read.
            Err(Error::Read { .. }) if source == CapacitySource::AcpiCppc => None,
            other => other?,
        };
        match number {
            None | Some(0) => return Ok(None),
            Some(speed @ 1..=0xffff_ffff) => speeds.push(speed as u64),
            Some(other) => {
                return Err(tree.wrong_value(&path, &other.to_string(), "a speed of 0 to 4294967295"));
            }
        }
    }
    Ok(Some(speeds))
}

/// Rounded to the nearest, at least 1. The speeds have 32 bits, so that the product fits.
fn scale(speeds: &[u64]) -> Vec<u32> {
    let fastest = speeds.iter().copied().max().unwrap_or(1).max(1);
    let to_capacity = |speed: &u64| (speed * u64::from(MAX_CAPACITY) + fastest / 2) / fastest;
    speeds
        .iter()
        .map(|speed| to_capacity(speed).max(1) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn the_fastest_has_1024_and_the_slowest_at_least_1() {
        assert_eq!(scale(&[5_400_000, 2_700_000]), [1024, 512]);
        assert_eq!(scale(&[160, 160]), [1024, 1024]);
        assert_eq!(scale(&[0xffff_ffff, 1]), [1024, 1]);
        assert_eq!(scale(&[3, 2]), [1024, 683]);
    }
}
