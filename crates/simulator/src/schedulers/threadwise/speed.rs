// SPDX-License-Identifier: GPL-2.0-only
//! Fast CPUs for those who gain most by them (`speed.bpf.h`).

use threadwise_policy::{
    CALL_SCAN, CAPACITY_ONE, Choice, Class, PLACE_SCAN, Place as Candidate, Seat, Task, answers_call,
    is_faster, look_takes, worth,
};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    pub(super) fn is_fast(&self, cpu: CpuIndex) -> bool {
        self.places[..self.nr_faster].contains(&cpu)
    }

    /// What a CPU is worth to a task of this class that runs there, or would.
    pub(super) fn worth_of(&self, kernel: &Kernel, class: Class, cpu: CpuIndex) -> u32 {
        let (shared, beside_serial) = match self.has_smt {
            true => self.look_at_core(kernel, cpu),
            false => (false, false),
        };
        worth(class, self.capacities[cpu], shared, beside_serial)
    }

    /// A CPU as a task sees it that ran on `prev`.
    fn place_at(&self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex, prev: CpuIndex) -> Candidate {
        let alone = Seat {
            shared: false,
            beside_serial: false,
            same_cpu: cpu == prev,
            same_core: false,
            first: true,
        };
        let running = kernel.cpus[cpu].running;
        Candidate {
            capacity: self.capacities[cpu],
            seat: match self.has_smt {
                true => self.seat_of(kernel, task, cpu, prev),
                false => alone,
            },
            idle: kernel.is_idle(cpu),
            fast: self.is_fast(cpu),
            class: running.map_or(Class::Kernel, |running| self.class_of(kernel, running)),
        }
    }

    /// The best CPU for a task of this class that ran on `prev`, and runs there or not, claimed if it is idle, and whether it is taken
    /// from another.
    pub(super) fn find_place(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        prev: CpuIndex,
        runs: bool,
    ) -> Option<(CpuIndex, bool)> {
        if kernel.tasks[task].bound_to.is_some() {
            return None;
        }
        let (mut choice, mut best) = (Choice::default(), None);
        if runs {
            choice = Choice::on(self.capacities[prev], self.worth_of(kernel, class, prev));
        } else if (self.has_smt || self.is_fast(prev)) && kernel.may_run(task, prev) {
            let is_first = choice.is_now(class, &self.place_at(kernel, task, prev, prev));
            best = is_first.then_some(prev);
        }
        for cpu in self.places.iter().copied().take(PLACE_SCAN) {
            if choice.is_made(self.capacities[cpu]) {
                break;
            }
            if cpu == prev || !kernel.may_run(task, cpu) {
                continue;
            }
            if choice.is_now(class, &self.place_at(kernel, task, cpu, prev)) {
                best = Some(cpu);
            }
        }
        best.filter(|&cpu| !choice.idle || kernel.claim_idle(cpu))
            .map(|cpu| (cpu, !choice.idle))
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
        let start = self.call_cursors[fast];
        let most = if running.is_some() { CALL_SCAN } else { PLACE_SCAN };
        let (mut nr_seen, mut first): (usize, Option<(Task, CpuIndex)>) = (0, None);
        for step in start..start + total {
            let cpu = (fast + step) % total;
            if !is_faster(self.capacities[fast], self.capacities[cpu]) {
                continue;
            }
            if nr_seen == most {
                break;
            }
            nr_seen += 1;
            // The others are for the next look.
            if nr_seen == most {
                self.call_cursors[fast] = (step + 1) % total;
            }
            let running_there = kernel.cpus[cpu].running;
            let Some(index) = running_there.filter(|&task| kernel.may_run(task, fast)) else {
                continue;
            };
            let ahead_ns = kernel.now - kernel.tasks[index].exec_start;
            let task = self.look_at(kernel, index, ahead_ns, false);
            let [there, here] = [fast, cpu].map(|cpu| self.worth_of(kernel, task.class, cpu));
            if !is_faster(there, here) {
                continue;
            }
            let takes = |(there, running): (TaskIndex, &Task)| {
                let [group, other] = [index, there].map(|task| &self.groups[kernel.tasks[task].program]);
                let lost_more = group.lost_more_there(&task, running, other, &self.tun);
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
        if recently && self.is_fast(cpu) {
            self.call_from_slower(kernel, cpu, None);
        }
    }

    /// A CPU keeps its task. If it is a fast one, that may have had its turn there.
    pub(super) fn give_turn(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: TaskIndex, task: &Task) {
        if self.capacities[cpu] < CAPACITY_ONE {
            self.slower_kept_at = Some(kernel.now);
        }
        self.cpu_look_ns = look_takes(self.cpu_look_ns, kernel.keep_takes(cpu));
        let goes = answers_call(task.class) && kernel.tasks[running].bound_to.is_none();
        if self.is_fast(cpu) && goes {
            self.call_from_slower(kernel, cpu, Some((running, task)));
        }
    }
}
