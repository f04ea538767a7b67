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
        let known: Vec<u32> = machine.cpus().iter().map(|cpu| cpu.capacity).collect();
        let faster = faster_than_slowest(&known)
            .into_iter()
            .map(|index| machine.cpus()[index].id.0)
            .filter(|&cpu| cpu < tw_limits_TW_MAX_CPUS)
            .map(|cpu| cpu as u16)
            .collect();
        Self { capacities, faster }
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
