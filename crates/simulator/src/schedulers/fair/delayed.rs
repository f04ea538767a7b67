// SPDX-License-Identifier: GPL-2.0-only
//! Delayed dequeue (DELAY_DEQUEUE, DELAY_ZERO; Linux 6.12 and later): who goes to sleep with more than its share stays in
//! its CPU's queue, and counts there, until it would be its turn. If it is woken before, it waits there, whoever is idle.

use super::Fair;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Fair {
    /// `dequeue_entity()`: whether who goes to sleep on this CPU is in its queue from here on.
    pub(super) fn delay_dequeue(
        &mut self,
        cpu: CpuIndex,
        task: TaskIndex,
        running: Option<TaskIndex>,
    ) -> bool {
        let others = running.filter(|&running| running != task);
        self.queues[cpu].delayed.push(task);
        let is_eligible = self
            .mean(cpu, others)
            .is_none_or(|mean| self.entities[task].vruntime <= mean);
        if is_eligible {
            self.queues[cpu].delayed.retain(|&delayed| delayed != task);
        }
        self.entities[task].is_delayed = !is_eligible;
        !is_eligible
    }

    /// `pick_next_entity()`: the next that does not sleep; those that do and whose turn it is leave on the way.
    pub(super) fn pick(
        &mut self,
        kernel: &Kernel,
        cpu: CpuIndex,
        running: Option<TaskIndex>,
    ) -> Option<TaskIndex> {
        loop {
            let earliest = self.earliest(kernel, cpu, running)?;
            if !self.entities[earliest].is_delayed {
                return Some(earliest);
            }
            self.leave(cpu, earliest, running);
            self.forget_delayed(cpu, earliest);
        }
    }

    /// `ttwu_runnable()`: whether who is woken is still in a queue, and may stay there.
    pub(super) fn stays_where_it_is(&mut self, kernel: &Kernel, task: TaskIndex) -> bool {
        let cpu = kernel.tasks[task].cpu;
        let is_delayed = self.entities[task].is_delayed;
        if is_delayed && (!kernel.may_run(task, cpu) || !kernel.is_online(cpu)) {
            self.leave(cpu, task, kernel.cpus[cpu].running);
            self.forget_delayed(cpu, task);
        }
        self.entities[task].is_delayed
    }

    /// `requeue_delayed_entity()`: whether who comes to this queue was in it all the time. If it has become eligible
    /// meanwhile, that counts for nothing.
    pub(super) fn requeue_delayed(&mut self, kernel: &Kernel, cpu: CpuIndex, task: TaskIndex) -> bool {
        if !self.entities[task].is_delayed {
            return false;
        }
        // Bound tasks are asked about nowhere else.
        let was_on = self.queues.iter().position(|queue| queue.delayed.contains(&task));
        let is_here = was_on == Some(cpu);
        if let Some(was_on) = was_on {
            self.leave(was_on, task, kernel.cpus[was_on].running);
            self.forget_delayed(was_on, task);
        }
        is_here && self.entities[task].lag < 0
    }

    /// It is out of its queue, with no lag that it would have to be paid back.
    fn forget_delayed(&mut self, cpu: CpuIndex, task: TaskIndex) {
        self.queues[cpu].delayed.retain(|&delayed| delayed != task);
        let entity = &mut self.entities[task];
        entity.is_delayed = false;
        entity.lag = entity.lag.min(0);
    }
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::*;
    use crate::kernel::Doing;
    use crate::scheduler::Scheduler;
    use crate::schedulers::Known;
    use crate::{Costs, Synthetic};

    #[test]
    fn who_sleeps_with_more_than_its_share_stays_and_who_ends_does_not() {
        let machine = Machine::load("core:1").expect("a machine");
        let mut world = Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default());
        for _ in 0..2 {
            let ratio = "inf:1".parse().expect("a ratio");
            let program = Synthetic::new(ratio, 1000, 1000, 1, Wait::Passive, 1);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(100_000).expect("it runs");
        let kernel = &mut world.kernel;
        let running = kernel.cpus[0].running.expect("one runs");
        for (doing, stays) in [(Doing::SleepTime, true), (Doing::Next, false)] {
            let mut fair = Fair::new(kernel);
            (0..2).for_each(|task| fair.enable(kernel, task));
            fair.entities[running].vruntime = 1_000_000_000;
            fair.queues[0].waiting.push(1 - running);
            kernel.tasks[running].doing = doing;
            fair.quiescent(kernel, running, true);
            assert_eq!(fair.queues[0].delayed.contains(&running), stays);
        }
    }
}
