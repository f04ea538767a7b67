// SPDX-License-Identifier: GPL-2.0-only
//! What programs lose, and which of them is senior (`seniority.bpf.h`).

use threadwise_policy::{Ages, Class, Task, Waiting, is_counted};

use super::{Threadwise, uptime};
use crate::Ns;
use crate::kernel::{Kernel, TaskIndex};

impl Threadwise {
    /// Whether a program has threads enough to be parallel (`tw_is_counted()`).
    pub(super) fn is_counted(&self, kernel: &Kernel, program: usize) -> bool {
        is_counted(kernel.nr_threads[program], self.tun.serial_threshold)
    }

    pub(super) fn counts_loss(&self, kernel: &Kernel, program: usize) -> bool {
        self.tun
            .counts_loss(kernel.nr_threads[program], self.nr_faster > 0)
    }

    pub(super) fn loss(&self, kernel: &Kernel, task: TaskIndex, waited_ns: Ns) -> u32 {
        let state = &kernel.tasks[task];
        if !self.counts_loss(kernel, state.program) {
            return 0;
        }
        let waiting = Waiting {
            waited_ns,
            weight: self.weight_of(kernel, task),
            nr_ready: self.groups[state.program].nr_ready(),
            nr_threads: kernel.nr_threads[state.program],
            nr_cpus: kernel.cpus.len() as u32,
        };
        waiting.loss()
    }

    pub(super) fn claim_seniority(&mut self, kernel: &Kernel, task: &mut Task, group: usize) {
        if task.class != Class::Parallel {
            return;
        }
        let first = self.senior.map(|senior| &self.groups[senior]);
        if self.groups[group].claims(first, &self.tun) {
            self.hand_over(kernel, group);
            task.class = Class::Senior;
        }
    }

    pub(super) fn hand_over(&mut self, kernel: &Kernel, group: usize) {
        self.senior_since = kernel.now;
        self.senior = Some(group);
        self.senior_lost = self.groups[group].lost();
        if self.last_senior.replace(group) != Some(group) {
            self.nr_handovers += 1;
        }
    }

    /// A task is to make way for the first of a queue: the turn of its program may be over.
    pub(super) fn end_turn(
        &mut self,
        kernel: &Kernel,
        (prev, task): (TaskIndex, &Task),
        (waiting, first): (TaskIndex, &Task),
    ) {
        let [senior, other] = [prev, waiting].map(|task| kernel.tasks[task].program);
        let [age_ns, other_age_ns] =
            [senior, other].map(|program| self.groups[program].age_ns(uptime(kernel)));
        let ages = Ages {
            turn_ns: kernel.now - self.senior_since,
            phases_ns: age_ns.min(other_age_ns),
        };
        if self.tun.is_used_up(task, first, &ages) {
            self.hand_over(kernel, other);
            self.groups[senior].end_turn_for(&self.groups[other], &self.tun);
        }
    }
}
