// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs' speeds in the form in which the BPF program wants them.

use std::cmp::Reverse;

use threadwise_machine::Machine;
use threadwise_policy::{CAPACITY_ONE, is_faster};

use crate::bpf_intf::tw_limits_TW_MAX_CPUS;

/// Who is fast, and who is faster than the slowest.
#[derive(Debug, PartialEq, Eq)]
pub struct Speeds {
    /// By CPU; what the machine does not show counts as fast.
    pub capacities: Vec<u32>,
    /// The CPUs that are faster than the slowest, the fastest first.
    pub faster: Vec<u16>,
}

impl Speeds {
    /// The speeds of a machine of at most `TW_MAX_CPUS` CPUs; others are left out.
    pub fn of(machine: &Machine) -> Self {
        let mut capacities = vec![CAPACITY_ONE; tw_limits_TW_MAX_CPUS as usize];
        for cpu in machine.cpus() {
            if let Some(slot) = capacities.get_mut(cpu.id.0 as usize) {
                *slot = cpu.capacity;
            }
        }
        let slowest = machine
            .cpus()
            .iter()
            .map(|cpu| cpu.capacity)
            .min()
            .unwrap_or(CAPACITY_ONE);
        let mut faster: Vec<(u32, u16)> = machine
            .cpus()
            .iter()
            .filter(|cpu| is_faster(cpu.capacity, slowest))
            .filter_map(|cpu| Some((cpu.capacity, u16::try_from(cpu.id.0).ok()?)))
            .filter(|(_, cpu)| u32::from(*cpu) < tw_limits_TW_MAX_CPUS)
            .collect();
        faster.sort_by_key(|&(capacity, cpu)| (Reverse(capacity), cpu));
        Self {
            capacities,
            faster: faster.into_iter().map(|(_, cpu)| cpu).collect(),
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
        assert_eq!(speeds.faster, [0]);
        assert!(
            Speeds::of(&Machine::load("smp-8").expect("in the zoo"))
                .faster
                .is_empty()
        );
    }
}
