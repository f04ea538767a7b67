// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a core, in the form in which the BPF program wants it.

use threadwise_machine::Machine;

use crate::bpf_intf::tw_limits_TW_MAX_CPUS;

/// By CPU; what the machine does not show has its core for itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Cores {
    /// The next CPU of the same core, after the last the first.
    pub siblings: Vec<u16>,
    /// The first CPU of the same core.
    pub first: Vec<u16>,
}

impl Cores {
    /// The cores of a machine of at most `TW_MAX_CPUS` CPUs; others are left out.
    pub fn of(machine: &Machine) -> Self {
        let alone: Vec<u16> = (0..tw_limits_TW_MAX_CPUS as u16).collect();
        let mut cores = Self {
            siblings: alone.clone(),
            first: alone,
        };
        for cpu in machine.cpus() {
            let core: Vec<usize> = machine
                .core_cpus(cpu.core)
                .iter()
                .map(|id| id.0 as usize)
                .filter(|&id| id < cores.first.len())
                .collect();
            if let Some(at) = core.iter().position(|&id| id == cpu.id.0 as usize) {
                cores.siblings[core[at]] = core[(at + 1) % core.len()] as u16;
                cores.first[core[at]] = core[0] as u16;
            }
        }
        cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_of_a_core_form_a_ring() {
        let cores = Cores::of(&Machine::from_synthetic("core:2 pu:3").expect("a machine"));
        assert_eq!(cores.siblings[..8], [1, 2, 0, 4, 5, 3, 6, 7]);
        assert_eq!(cores.first[..8], [0, 0, 0, 3, 3, 3, 6, 7]);
    }
}
