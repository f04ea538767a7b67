// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that tasks take from what runs there (`preempt.bpf.h`).

use threadwise_policy::{Class, Group, Task, passed_over, victim_scan};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    /// Whether a task of this class takes the CPU of what runs there, and whether that could go nowhere else.
    fn look_at_victim(
        &self,
        kernel: &Kernel,
        (index, task): (TaskIndex, &Task),
        wakes: bool,
        cpu: CpuIndex,
    ) -> Option<bool> {
        let until = self.stays_until[cpu].get();
        if passed_over(task.class, until, self.nr_parallel, kernel.now) || !kernel.may_run(index, cpu) {
            return None;
        }
        let Some(running) = kernel.cpus[cpu].running else {
            self.stays_until[cpu].set(self.tun.stays_until(Class::Kernel, 0, kernel.now));
            return None;
        };
        let class = self.class_of(kernel, running);
        let here_ns = kernel.now - kernel.tasks[running].arrived;
        self.stays_until[cpu].set(self.tun.stays_until(class, here_ns, kernel.now));
        let program = kernel.tasks[index].program;
        let is_own = kernel.tasks[running].program == program;
        let nr_own_threads = if is_own { kernel.nr_threads[program] } else { 0 };
        if !self.tun.may_take(task.class, class, wakes, nr_own_threads) {
            return None;
        }
        let ahead_ns = kernel.now - kernel.tasks[running].exec_start;
        let there = self.look_at(kernel, running, ahead_ns, false);
        let [is_bound, only_here] = [index, running].map(|of| kernel.tasks[of].bound_to.is_some());
        let turns_out = self.tun.turns_out(&there, only_here, is_bound);
        (turns_out || self.tun.preempts(task, &there)).then_some(only_here)
    }

    /// The CPU whose running task this one takes over.
    pub(super) fn find_victim(
        &self,
        kernel: &Kernel,
        index: TaskIndex,
        task: &Task,
        wakes: bool,
    ) -> Option<CpuIndex> {
        if passed_over(
            task.class,
            self.all_stay_until.get(),
            self.nr_parallel,
            kernel.now,
        ) {
            return None;
        }
        let (nr, prev) = (kernel.cpus.len(), kernel.tasks[index].cpu);
        let nr_looks = victim_scan(task.class, nr as u32) as usize;
        let mut bound = None;
        for step in 0..nr_looks {
            let cpu = (prev + step) % nr;
            match self.look_at_victim(kernel, (index, task), wakes, cpu) {
                Some(false) => return Some(cpu),
                Some(true) => bound = bound.or(Some(cpu)),
                None => {}
            }
        }
        if bound.is_none() && nr_looks == nr && kernel.tasks[index].bound_to.is_none() {
            let first = self.stays_until.iter().map(|until| until.get()).min();
            self.all_stay_until.set(first.unwrap_or(0));
        }
        bound
    }

    /// Programs in a parallel phase are counted rightly; and while a CPU is not looked at because it cannot be taken, it runs a
    /// serial task that just came, or nobody.
    ///
    /// # Errors
    /// How many there are, or which CPU does not.
    pub(super) fn check_stays(&self, kernel: &Kernel) -> Result<(), String> {
        let is_parallel = |group: &&Group| group.nr_ready() > self.tun.serial_threshold;
        let nr_parallel = self.groups.iter().filter(is_parallel).count();
        if nr_parallel as u32 != self.nr_parallel {
            let counted = self.nr_parallel;
            return Err(format!(
                "{nr_parallel} programs are parallel, counted as {counted}"
            ));
        }
        for (cpu, state) in kernel.cpus.iter().enumerate() {
            let until = self.all_stay_until.get().max(self.stays_until[cpu].get());
            let Some(task) = state.running else { continue };
            if !passed_over(Class::Serial, until, self.nr_parallel, kernel.now) {
                continue;
            }
            let here_ns = kernel.now - kernel.tasks[task].arrived;
            let class = self.class_of(kernel, task);
            if !matches!(class, Class::Kernel | Class::Serial) || !self.tun.just_came(here_ns) {
                return Err(format!(
                    "CPU {cpu} is passed over until {until} ns, and task {task}, {class:?}, has been there for {here_ns} ns"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::beside_others;
    use super::*;

    #[test]
    fn cpus_that_are_passed_over_and_are_to_be_had_trip() {
        let (world, mut ours) = beside_others("core:2", "inf:1", 1);
        ours.check_stays(&world.kernel).expect("nobody is passed over");
        let own = world.kernel.tasks[0].cpu;
        for until in [&ours.all_stay_until, &ours.stays_until[own]] {
            until.set(world.kernel.now + 1);
            let wrong = ours.check_stays(&world.kernel).unwrap_err();
            assert!(
                wrong.contains("passed over until 10000001 ns, and task 0"),
                "{wrong}"
            );
            until.set(0);
        }
        ours.nr_parallel = 1;
        let wrong = ours.check_stays(&world.kernel).unwrap_err();
        assert_eq!(wrong, "0 programs are parallel, counted as 1");
    }

    /// A task that has been there for a turn makes way for one that is owed much, unless the CPU is said to stay.
    #[test]
    fn a_cpu_that_stays_is_not_looked_at() {
        let (mut world, ours) = beside_others("core:1", "1:inf", 2);
        let running = world.kernel.cpus[0].running.expect("one runs");
        let waking = 1 - running;
        world.kernel.tasks[running].arrived = 0;
        let there = ours.look_at(&world.kernel, running, 0, false);
        let owed = Task {
            vtime: there.vtime.wrapping_sub(100_000_000),
            ..ours.look_at(&world.kernel, waking, 0, true)
        };
        let taken = |ours: &Threadwise| ours.find_victim(&world.kernel, waking, &owed, true);
        assert_eq!(taken(&ours), Some(0));
        ours.stays_until[0].set(world.kernel.now + 1);
        assert_eq!(taken(&ours), None);
    }
}
