// SPDX-License-Identifier: GPL-2.0-only
//! Hardware threads share pipelines, pipelines share cores.

use std::rc::Rc;

use threadwise_machine::{Lab, Machine, names};

use super::{Groups, Rate};
use crate::kernel::CpuIndex;

/// What each of `nr` units of a group has, 1 or more, of `rate`, which one has alone: together they are that fast, and
/// `gain_percent` of it faster with each further one.
///
/// It is what the lab's governor does to the hardware threads of a core (`slowdown` in lab/corespeed.c). With 24 %
/// two threads are 1.24 times as fast as one; Hyper-Threading gave 15 to 30 % (Marr et al., Intel Technology Journal 6(1),
/// 2002). A thread that spins counts like any other.
pub(super) fn share(rate: Rate, nr: u64, gain_percent: u64) -> Rate {
    rate * (100 + (nr - 1) * gain_percent) / (100 * nr)
}

/// The levels whose units share their speed. A level's units are the groups of the next such level within, or CPUs; so a
/// thread has of its pipe what the pipe's threads leave it, of what the pipe has of its core.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipelines {
    /// Innermost first.
    shared: Vec<Shared>,
}

#[derive(Clone, Debug)]
struct Shared {
    /// Its place among the machine's levels, outermost first.
    level: usize,
    groups: Rc<Groups>,
    gain_percent: u64,
    /// Units that run, by group.
    nr_running: Vec<u64>,
}

impl Pipelines {
    /// Cores of more than one CPU, with the lab's gain, and what the machine's file says of other levels.
    pub(super) fn new(machine: &Machine) -> Self {
        let core = machine
            .lab()
            .map_or(Lab::SMT_GAIN_PERCENT, |lab| lab.smt_gain_percent);
        let gain = |name: &str| match name {
            names::CORE => machine.has_smt().then_some(core),
            _ => machine
                .hardware()
                .sharing
                .iter()
                .find(|sharing| sharing.level == name)
                .map(|sharing| sharing.gain_percent),
        };
        let shared = |(level, name): (usize, &str)| {
            let groups = Rc::new(Groups::of_level(machine, name));
            Some(Shared {
                level,
                gain_percent: u64::from(gain(name)?),
                nr_running: vec![0; groups.members.len()],
                groups,
            })
        };
        let names = machine.levels().iter().map(|level| level.name());
        let mut shared: Vec<Shared> = names.enumerate().filter_map(shared).collect();
        shared.reverse();
        Self { shared }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// A CPU begins or ceases to run; the outermost level where that changes somebody's share, or `own`.
    pub(super) fn change(&mut self, cpu: CpuIndex, starts: bool, own: usize) -> usize {
        let mut touched = own;
        for shared in &mut self.shared {
            let nr = &mut shared.nr_running[shared.groups.of[cpu]];
            let before = *nr;
            *nr = if starts { before + 1 } else { before - 1 };
            touched = shared.level;
            // Further out it still is one unit that runs.
            if before > 0 && *nr > 0 {
                break;
            }
        }
        touched
    }

    /// What a CPU that runs has of `alone`.
    pub(super) fn share(&self, alone: Rate, cpu: CpuIndex) -> Rate {
        self.shared.iter().fold(alone, |rate, shared| {
            let nr = shared.nr_running[shared.groups.of[cpu]];
            share(rate, nr.max(1), shared.gain_percent)
        })
    }
}
