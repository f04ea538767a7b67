// SPDX-License-Identifier: GPL-2.0-only
//! The algorithm of thread-essence, section VII, to the letter: what it adds to the O(1) scheduler ([`super::O1`]).
//!
//! A thread group with more than two ready threads is parallel. A serial thread's dynamic priority is ten better. When at
//! least two programs are parallel and each has as many active threads as there are cores or more, the first to enter
//! its phase is boosted until that ends or a timeout gives its place to the next. The load balancer moves running
//! threads, and the only one of a slow core, to a fast one; threads of a program that becomes serial are rescheduled on
//! the idlest core, where a core counts as much as it is fast (CPU_POWER).
//!
//! The paper gives neither the senior boost nor the timeout. Here the boost is seven priorities: less than ten, so that serial
//! threads go first, and the least with which a thread of nice 0 that never sleeps counts as interactive. Else it would
//! wait in the expired array for all others at the end of each slice, boosted or not. The timeout is 100 ms.

use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

const SERIAL_THRESHOLD: usize = 2;
const SERIAL_BOOST: i32 = 10;
const SENIOR_BOOST: i32 = 7;
const SENIOR_TURN_NS: Ns = 100_000_000;

/// What is known of programs.
pub(crate) struct Essence {
    nr_cpus: usize,
    nr_ready: Vec<usize>,
    /// Parallel programs in the order of their entering the phase, but for those whose turn was over.
    parallel: Vec<usize>,
    senior_since: Ns,
    /// Whether boosts may have changed since it was last asked.
    changed: bool,
}

impl Essence {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        Self {
            nr_cpus,
            nr_ready: Vec::new(),
            parallel: Vec::new(),
            senior_since: 0,
            changed: false,
        }
    }

    /// Whether boosts may have changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn is_serial(&self, program: usize) -> bool {
        self.nr_ready
            .get(program)
            .is_none_or(|&nr| nr <= SERIAL_THRESHOLD)
    }

    /// By how much the priority of this program's threads is better.
    pub(crate) fn boost(&self, program: usize) -> i32 {
        if self.is_serial(program) {
            return SERIAL_BOOST;
        }
        let fills = |&program: &usize| self.nr_ready[program] >= self.nr_cpus;
        let compete = self.parallel.len() > 1 && self.parallel.iter().all(fills);
        match self.parallel.first() {
            Some(&senior) if compete && senior == program => SENIOR_BOOST,
            _ => 0,
        }
    }

    pub(crate) fn runnable(&mut self, kernel: &Kernel, task: TaskIndex) {
        let program = kernel.tasks[task].program;
        if self.nr_ready.len() <= program {
            self.nr_ready.resize(program + 1, 0);
        }
        self.nr_ready[program] += 1;
        if self.nr_ready[program] == SERIAL_THRESHOLD + 1 {
            if self.parallel.is_empty() {
                self.senior_since = kernel.now;
            }
            self.parallel.push(program);
        }
        // A program may fill the machine now.
        self.changed |=
            self.nr_ready[program] == SERIAL_THRESHOLD + 1 || self.nr_ready[program] == self.nr_cpus;
    }

    /// Whether the program has become serial.
    pub(crate) fn quiescent(&mut self, kernel: &Kernel, task: TaskIndex) -> bool {
        let program = kernel.tasks[task].program;
        self.nr_ready[program] -= 1;
        let becomes_serial = self.nr_ready[program] == SERIAL_THRESHOLD;
        if becomes_serial {
            if self.parallel.first() == Some(&program) {
                self.senior_since = kernel.now;
            }
            self.parallel.retain(|&parallel| parallel != program);
        }
        self.changed |= becomes_serial || self.nr_ready[program] + 1 == self.nr_cpus;
        becomes_serial
    }

    /// "In order to avoid starvation, following a timeout the seniority boost is applied to the other application."
    pub(crate) fn tick(&mut self, now: Ns) {
        if self.parallel.len() > 1 && now - self.senior_since > SENIOR_TURN_NS {
            self.parallel.rotate_left(1);
            self.changed = true;
            self.senior_since = now;
        }
    }

    /// The CPU for a task that wakes up: a serial one goes to the idlest.
    pub(crate) fn select(
        &self,
        kernel: &Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        nr_ready: impl Fn(CpuIndex) -> usize,
    ) -> CpuIndex {
        let program = kernel.tasks[task].program;
        // It is not counted yet.
        if self
            .nr_ready
            .get(program)
            .is_some_and(|&nr| nr >= SERIAL_THRESHOLD)
        {
            return prev;
        }
        let may_run = |&cpu: &CpuIndex| kernel.is_online(cpu) && kernel.may_run(task, cpu);
        let load = |&cpu: &CpuIndex| {
            let capacity = kernel.cpus[cpu].capacity as usize;
            (
                (nr_ready(cpu) + 1) * 1024 * 1024 / capacity,
                usize::from(cpu != prev),
                cpu,
            )
        };
        let cpus = 0..kernel.cpus.len();
        cpus.filter(may_run).min_by_key(load).unwrap_or(prev)
    }

    /// A faster CPU that is idle, claimed, for what runs here.
    pub(crate) fn better(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        here: CpuIndex,
    ) -> Option<CpuIndex> {
        let capacity = kernel.cpus[here].capacity;
        (0..self.nr_cpus).find(|&cpu| {
            kernel.cpus[cpu].capacity > capacity && kernel.may_run(task, cpu) && kernel.claim_idle(cpu)
        })
    }
}
