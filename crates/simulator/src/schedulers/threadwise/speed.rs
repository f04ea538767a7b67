// SPDX-License-Identifier: GPL-2.0-only
//! Fast CPUs for those who gain most by them (`speed.bpf.h`).

use threadwise_policy::{
    CALL_SCAN, CAPACITY_ONE, Class, FASTER_SCAN, Place as Spot, Task, is_faster, look_takes,
};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    /// A CPU faster than one of capacity `here` to which a task of this class goes, and whether it is taken from another.
    pub(super) fn find_faster(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        here: u32,
    ) -> Option<(CpuIndex, bool)> {
        for &cpu in self.faster.iter().take(FASTER_SCAN) {
            if !kernel.may_run(task, cpu) {
                continue;
            }
            let mut there = Spot {
                capacity: self.capacities[cpu],
                idle: true,
                class: Class::Kernel,
            };
            if there.attracts(class, here) && kernel.claim_idle(cpu) {
                return Some((cpu, false));
            }
            there.idle = false;
            if let Some(running) = kernel.cpus[cpu].running {
                there.class = self.class_of(kernel, running);
            }
            if there.attracts(class, here) {
                return Some((cpu, true));
            }
        }
        None
    }

    /// By how much more the program of one task has lost than that of another.
    fn lost_more(&self, kernel: &Kernel, task: TaskIndex, than: TaskIndex) -> i32 {
        let group = |task: TaskIndex| &self.groups[kernel.tasks[task].program];
        group(task).lose_near(group(than), &self.tun)
    }

    /// Asks one of the slower CPUs for its task: to exchange it for `running`, whose turn on this one is over, or, where that
    /// is none, to have something to do.
    pub(super) fn call_from_slower(
        &mut self,
        kernel: &mut Kernel,
        fast: CpuIndex,
        running: Option<(TaskIndex, &Task)>,
    ) {
        let total = kernel.cpus.len();
        let mut first: Option<(Task, CpuIndex)> = None;
        for step in 1..total.min(CALL_SCAN) {
            let cpu = (fast + step) % total;
            let Some(index) = kernel.cpus[cpu].running.filter(|&task| {
                is_faster(self.capacities[fast], self.capacities[cpu]) && kernel.may_run(task, fast)
            }) else {
                continue;
            };
            let ahead_ns = kernel.now - kernel.tasks[index].exec_start;
            let task = self.look_at(kernel, index, ahead_ns, false);
            let takes = |(there, running): (TaskIndex, &Task)| {
                // Parallel ones do not go by it, and it changes what their programs have lost.
                let both_serial = task.class == Class::Serial && running.class == Class::Serial;
                let lost_more = if both_serial {
                    self.lost_more(kernel, index, there)
                } else {
                    0
                };
                self.tun.takes_turn(&task, running, lost_more)
            };
            if running.is_none_or(takes) && first.is_none_or(|(first, _)| self.tun.goes_first(&task, &first))
            {
                first = Some((task, cpu));
            }
        }
        if let Some((_, cpu)) = first {
            self.called_to[cpu] = running.map(|_| fast);
            kernel.kick_preempt(cpu);
        }
    }

    /// A CPU has nothing to do: if it is a fast one, it gets what runs on a slower one.
    pub(super) fn pull_from_slower(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let recently = self
            .slower_kept_at
            .is_some_and(|at| self.tun.kept_recently(kernel.now - at, self.look_takes()));
        if recently && self.faster.contains(&cpu) {
            self.call_from_slower(kernel, cpu, None);
        }
    }

    /// A CPU keeps its task. If it is a fast one, that may have had its turn there.
    pub(super) fn give_turn(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: TaskIndex, task: &Task) {
        if self.faster.is_empty() {
            return;
        }
        if self.capacities[cpu] < CAPACITY_ONE {
            self.slower_kept_at = Some(kernel.now);
        }
        self.cpu_look_ns = look_takes(self.cpu_look_ns, kernel.keep_takes(cpu));
        let goes = task.class != Class::Kernel && kernel.tasks[running].bound_to.is_none();
        if self.faster.contains(&cpu) && goes {
            self.call_from_slower(kernel, cpu, Some((running, task)));
        }
    }
}
