// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs' speeds in the form in which the BPF program wants them.

use threadwise_machine::Machine;
use threadwise_policy::{CAPACITY_ONE, fastest_first};

use crate::bpf_intf::tw_limits_TW_MAX_CPUS;

/// Who is fast, and who is faster than the slowest.
#[derive(Debug, PartialEq, Eq)]
pub struct Speeds {
    /// By CPU; what the machine does not show counts as fast.
    pub capacities: Vec<u32>,
    /// Its CPUs, the fastest first.
    pub places: Vec<u16>,
    /// How many of them are faster than the slowest.
    pub nr_faster: usize,
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
        let (places, nr_faster) = fastest_first(&known);
        Self {
            capacities,
            places: places.into_iter().map(|index| cpus[index].0).collect(),
            nr_faster,
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
        assert_eq!((speeds.places[0], speeds.nr_faster, speeds.slowest), (0, 1, 512));
        let speeds = Speeds::of(&Machine::load("smp-8").expect("in the zoo"));
        assert_eq!((speeds.places.len(), speeds.nr_faster), (8, 0));
    }
}
