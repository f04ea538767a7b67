// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs' speeds in the form in which the BPF program wants them.

use threadwise_machine::Machine;
use threadwise_policy::{CAPACITY_ONE, faster_than_slowest};

use crate::bpf_intf::tw_limits_TW_MAX_CPUS;

/// Who is fast, and who is faster than the slowest.
#[derive(Debug, PartialEq, Eq)]
pub struct Speeds {
    /// By CPU; what the machine does not show counts as fast.
    pub capacities: Vec<u32>,
    /// The CPUs that are faster than the slowest, the fastest first.
    pub faster: Vec<u16>,
    /// The capacity of the slowest.
    pub slowest: u32,
}

impl Speeds {
    /// The speeds of a machine of at most `TW_MAX_CPUS` CPUs; others are left out.
    pub fn of(machine: &Machine) -> Self {
        let cpus = machine.cpus().iter();
        Self::from_capacities(
            cpus.filter_map(|cpu| Some((u16::try_from(cpu.id.0).ok()?, cpu.capacity)))
                .collect(),
        )
    }

    /// The speeds of these CPUs.
    pub fn from_capacities(mut cpus: Vec<(u16, u32)>) -> Self {
        cpus.retain(|&(cpu, _)| u32::from(cpu) < tw_limits_TW_MAX_CPUS);
        let mut capacities = vec![CAPACITY_ONE; tw_limits_TW_MAX_CPUS as usize];
        for &(cpu, capacity) in &cpus {
            capacities[usize::from(cpu)] = capacity;
        }
        let known: Vec<u32> = cpus.iter().map(|&(_, capacity)| capacity).collect();
        Self {
            capacities,
            faster: faster_than_slowest(&known)
                .into_iter()
                .map(|index| cpus[index].0)
                .collect(),
            slowest: known.into_iter().min().unwrap_or(CAPACITY_ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_come_first_and_equal_ones_are_not_faster() {
        let speeds = Speeds::of(&Machine::load("amp-8").expect("in the zoo"));
        assert_eq!((speeds.capacities[0], speeds.capacities[7]), (1024, 512));
        assert_eq!((&speeds.faster[..], speeds.slowest), (&[0][..], 512));
        assert!(
            Speeds::of(&Machine::load("smp-8").expect("in the zoo"))
                .faster
                .is_empty()
        );
    }
}
