// SPDX-License-Identifier: GPL-2.0-only
//! Tasks are charged for what they ran, and looked at while they wait: programs compete by that (`charge.bpf.h`).

use threadwise_policy::{Class, Task, is_beside_others, is_light, loss_of_speed};

use super::{Threadwise, uptime};
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    /// What a task is, and whether it has no boost although it is serial.
    pub(super) fn charge(&mut self, kernel: &Kernel, task: TaskIndex, waking: bool) -> (Task, bool) {
        let mut found = self.look_at(kernel, task, 0, waking);
        let unboosted = self.goes_unboosted(kernel, task, found.class);
        let picked = Task {
            vtime: self.tasks[task].vtime,
            ..found
        };
        let weight = self.weight_of(kernel, task);
        let ran_ns = kernel.tasks[task].ran - self.tasks[task].charged_ns;
        let light_ago_ns = if is_light(weight) {
            uptime(kernel) - self.light_at
        } else {
            0
        };
        // Also if it ran nothing: who makes way is charged as it is looked at and as it is queued, so that the clock follows it to
        // where it left.
        let moved = self
            .tun
            .clock(self.vtime_now, &picked, weight, light_ago_ns, self.tasks_wait);
        assert!(
            moved.wrapping_sub(self.vtime_now) < 1 << 63,
            "the clock never goes back"
        );
        if moved != self.vtime_now && light_ago_ns > 0 {
            self.light_at = uptime(kernel);
        }
        self.vtime_now = moved;
        let waited_ns = kernel.tasks[task].waited - self.tasks[task].waited_ns;
        let group = &self.groups[kernel.tasks[task].program];
        group.lose(self.loss(kernel, task, waited_ns.saturating_sub(self.tasks[task].told_ns)));
        self.crowd.add(found.class, ran_ns, waited_ns);
        let capacity = self.capacities[kernel.tasks[task].cpu];
        if self.nr_faster > 0 {
            group.lose(loss_of_speed(found.class, ran_ns, capacity, weight));
        }
        if is_beside_others(&picked, self.tasks_wait) {
            self.crowd.weigh(kernel.tasks[task].weight, ran_ns);
        }
        let context = &mut self.tasks[task];
        context.waited_ns = kernel.tasks[task].waited;
        // It may have been put back with another affinity, or sent back, and goes on waiting.
        if waited_ns > 0 {
            context.told_ns = 0;
        }
        context.charged_ns = kernel.tasks[task].ran;
        context.nr_sleeps = kernel.tasks[task].nr_sleeps;
        context.vtime = found.vtime;
        if matches!(found.class, Class::Senior | Class::Parallel) {
            context.phase = self.groups[kernel.tasks[task].program].phase();
        }
        self.claim_seniority(kernel, &mut found, kernel.tasks[task].program);
        (found, unboosted)
    }

    pub(super) fn look_at_waiting(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) -> Task {
        let mut found = self.look_at_charged(kernel, task, cpu);
        let waiting_ns = kernel.now - kernel.tasks[task].waits_since;
        let loss = self.loss(kernel, task, waiting_ns.saturating_sub(self.tasks[task].told_ns));
        // What is too little to count is told later.
        if loss > 0 {
            self.groups[kernel.tasks[task].program].lose(loss);
            self.tasks[task].told_ns = waiting_ns;
        }
        self.claim_seniority(kernel, &mut found, kernel.tasks[task].program);
        found
    }
}
