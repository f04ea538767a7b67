// SPDX-License-Identifier: GPL-2.0-only
//! Where programs are at home (`home.bpf.h`).

use threadwise_policy::{Group, founds_home, keeps_home};

use super::Threadwise;
use crate::kernel::{Kernel, TaskIndex};

impl Threadwise {
    /// Where the home of a program is kept, or that of those that share memory with it; and how many of their threads are ready.
    pub(super) fn find_home(&self, kernel: &Kernel, program: usize) -> (usize, u32) {
        match self.shares.iter().find(|share| share.contains(&program)) {
            Some(share) => {
                let there = share.iter().filter_map(|&program| self.groups.get(program));
                (share[0], there.map(Group::nr_ready).sum())
            }
            None => (program, self.nr_ready_of(kernel, program)),
        }
    }

    /// The first ready one of the threads that share memory has their home where it is.
    pub(super) fn count_in_share(&mut self, kernel: &Kernel, task: TaskIndex) {
        let program = kernel.tasks[task].program;
        if !self.shares.iter().any(|share| share.contains(&program)) {
            return;
        }
        let (home, nr_ready) = self.find_home(kernel, program);
        if founds_home(nr_ready - 1) {
            self.homes[home] = Some(kernel.domains.llc_of(kernel.tasks[task].cpu));
        }
    }

    /// The last-level cache in which the program is kept with so many ready threads.
    pub(super) fn home_of(&self, kernel: &Kernel, program: usize, nr_ready: u32) -> Option<usize> {
        self.homes[program].filter(|&home| keeps_home(nr_ready, kernel.domains.nr_cores(home)))
    }
}
