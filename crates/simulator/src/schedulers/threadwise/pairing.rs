// SPDX-License-Identifier: GPL-2.0-only
//! What tasks need of a last-level cache (`pairing.bpf.h`).

use threadwise_policy::{Need, PairingBy, pairs};

use super::Threadwise;
use crate::kernel::{Kernel, TaskIndex};

impl Threadwise {
    /// By what pairing goes: hardware counters are there.
    fn pairs_by(&self, kernel: &Kernel) -> PairingBy {
        let (nr_llcs, unequal) = (kernel.domains.nr_llcs(), self.nr_faster > 0);
        match self.pairing {
            _ if !pairs(self.mode, nr_llcs, unequal, kernel.cpus.len()) => PairingBy::Off,
            PairingBy::Auto => PairingBy::Counters,
            by => by,
        }
    }

    /// Takes what a task's counters say into what is known of it (`note_runtime`).
    pub(super) fn note_counts(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        if self.pairs_by(kernel) != PairingBy::Counters && !self.alternating.counts() {
            return;
        }
        let counts = kernel.sample(task);
        if let Some(counts) = &counts {
            self.tasks[task].need.note(counts);
        }
        if self.alternating.counts() {
            self.alternating.note_work(kernel.tasks[task].program, counts);
        }
    }

    /// What a task needs of its last-level cache.
    pub(super) fn need_of(&self, kernel: &Kernel, task: TaskIndex) -> u32 {
        match self.pairs_by(kernel) {
            PairingBy::Counters => self.tasks[task].need.need(),
            PairingBy::Resident => {
                let cache = kernel.cache_bytes(kernel.domains.llc_of(kernel.tasks[task].cpu));
                let nr_ready = self.nr_ready_of(kernel, kernel.tasks[task].program);
                Need::of_resident(kernel.resident_bytes(task), cache.unwrap_or(0), nr_ready)
            }
            _ => 0,
        }
    }
}
