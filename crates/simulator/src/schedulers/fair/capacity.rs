// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that differ, where the kernel is told (`sched_asym_cpucap_active()`, kernel/sched/fair.c, Linux 7.2): who wakes up goes to an
//! idle CPU that is fast enough for what it ran of late, and what runs on one that is not is moved to a faster one that is idle.
//!
//! Modelled for machines of one last-level cache without hardware threads. A new task goes where one that wakes up would.

use super::Fair;
use crate::kernel::{Cpu, CpuIndex, Kernel, TaskIndex};

/// A task fits where so many times what it runs is less than the CPU can do (`fits_capacity()`).
const ROOM: f64 = 1.25;
/// A CPU is faster where it can do so many times as much (`capacity_greater()`).
const GREATER: f64 = 1078.0 / 1024.0;

/// What CPUs can do.
#[derive(Clone, Debug)]
pub(super) struct Capacities {
    /// By CPU, 1 for the fastest.
    of: Vec<f64>,
    differ: bool,
}

impl Capacities {
    fn new(of: Vec<f64>) -> Self {
        let differ = of.iter().any(|&capacity| capacity < 1.0);
        Self { of, differ }
    }

    pub(super) fn of(kernel: &Kernel) -> Self {
        let most = kernel.cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(1);
        let of = |cpu: &Cpu| f64::from(cpu.capacity) / f64::from(most);
        Self::new(kernel.cpus.iter().map(of).collect())
    }

    /// Of a kernel that takes them for equal.
    pub(super) fn equal(nr_cpus: usize) -> Self {
        Self::new(vec![1.0; nr_cpus])
    }

    pub(super) fn get(&self, cpu: CpuIndex) -> f64 {
        self.of[cpu]
    }

    /// In all, 1024 for the fastest CPU.
    pub(super) fn sum(&self, cpus: &[CpuIndex]) -> i64 {
        cpus.iter()
            .map(|&cpu| (1024.0 * self.of[cpu]).round() as i64)
            .sum()
    }

    fn fits(&self, utilization: f64, cpu: CpuIndex) -> bool {
        ROOM * utilization < self.of[cpu]
    }

    fn is_greater(&self, cpu: CpuIndex, than: CpuIndex) -> bool {
        self.of[cpu] > GREATER * self.of[than]
    }
}

impl Fair {
    /// Whether it knows that CPUs differ.
    pub(super) fn knows_capacities(&self) -> bool {
        self.capacities.differ
    }

    /// `asym_fits_cpu()`.
    pub(super) fn fits(&self, task: TaskIndex, cpu: CpuIndex) -> bool {
        !self.knows_capacities() || self.capacities.fits(self.utilization.of_task(task), cpu)
    }

    /// `select_idle_capacity()`: of the CPUs that are looked at, from that on which it ran on, the first idle one that is fast
    /// enough, or else the fastest.
    pub(super) fn select_idle_capacity(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        nr_to_look_at: usize,
    ) -> Option<CpuIndex> {
        let nr = kernel.cpus.len();
        let ring = (0..nr).map(|step| (prev + step) % nr);
        let allowed = ring.filter(|&cpu| kernel.may_run(task, cpu)).take(nr_to_look_at);
        let idle: Vec<CpuIndex> = allowed.filter(|&cpu| kernel.is_idle(cpu)).collect();
        let fitting = idle.iter().copied().find(|&cpu| self.fits(task, cpu));
        // The first of equal ones.
        let fastest = || {
            let rank = |&cpu: &CpuIndex| self.capacities.get(cpu);
            idle.iter()
                .copied()
                .rev()
                .max_by(|a, b| rank(a).total_cmp(&rank(b)))
        };
        let found = fitting.or_else(fastest)?;
        kernel.claim_idle(found).then_some(found)
    }

    /// What runs on a CPU that is too slow for it while it may run on others (`update_misfit_status()`).
    fn misfit(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        let running = kernel.cpus[cpu].running?;
        let allowed = kernel.tasks[running].allowed.as_ref();
        let is_bound = allowed.is_some_and(|allowed| allowed.only().is_some());
        let is_fastest = self.capacities.get(cpu) >= 1.0;
        (!is_bound && !is_fastest && !self.fits(running, cpu)).then_some(running)
    }

    /// Whether anything runs where it is too slow for it.
    pub(super) fn has_misfit(&self, kernel: &Kernel) -> bool {
        self.knows_capacities() && (0..kernel.cpus.len()).any(|cpu| self.misfit(kernel, cpu).is_some())
    }

    /// A task that a faster CPU takes from a slower one, and that one (`migrate_misfit`). Where tasks wait those go first.
    pub(super) fn misfit_for(&self, kernel: &Kernel, to: CpuIndex) -> Option<(CpuIndex, TaskIndex)> {
        let waits = self.queues.iter().any(|queue| !queue.waiting.is_empty());
        if waits || !self.knows_capacities() {
            return None;
        }
        let nr = kernel.cpus.len();
        let others = (1..nr).map(|step| (to + step) % nr);
        let mut slower = others.filter(|&cpu| self.capacities.is_greater(to, cpu));
        slower.find_map(|cpu| {
            let task = self.misfit(kernel, cpu)?;
            kernel.may_run(task, to).then_some((cpu, task))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_fits_with_a_fifth_to_spare_and_a_twentieth_is_no_more() {
        let unequal = Capacities::new(vec![1.0, 0.5, 0.49]);
        assert!(unequal.fits(0.39, 1) && !unequal.fits(0.41, 1));
        assert!(!unequal.fits(1.0, 0), "nobody who always runs fits anywhere");
        assert!(unequal.is_greater(0, 1) && !unequal.is_greater(1, 2));
        assert_eq!(unequal.sum(&[0, 1]), 1536);
        assert!(unequal.differ && !Capacities::equal(2).differ);
    }
}
