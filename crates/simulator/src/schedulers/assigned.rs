// SPDX-License-Identifier: GPL-2.0-only
//! Static assignments: each thread has its CPU and stays there, whatever the others do.
//!
//! The baselines of blackbox-scheduler, section 4.4: naive (threads at random) and balanced (threads spread evenly over cores,
//! then over the hardware threads of each). Threads of one CPU take turns.

use std::collections::VecDeque;

use threadwise_machine::Machine;

use crate::Ns;
use crate::faults::Dice;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};

const SLICE_NS: Ns = 1_000_000;

/// How CPUs are given to threads.
enum Dealing {
    Random(Dice),
    /// One after the other, in this order.
    Balanced(Vec<CpuIndex>),
}

/// Each thread on its CPU.
pub struct Assigned {
    dealing: Dealing,
    /// By task.
    assigned: Vec<CpuIndex>,
    /// Those that wait, by CPU.
    waiting: Vec<VecDeque<TaskIndex>>,
}

impl Assigned {
    /// A CPU at random for each.
    pub fn naive(kernel: &Kernel, seed: u64) -> Self {
        Self::new(kernel, Dealing::Random(Dice::new(seed, 0)))
    }

    /// The same number on each core, and on each CPU of it, as far as that goes.
    pub fn balanced(kernel: &Kernel, machine: &Machine) -> Self {
        Self::new(kernel, Dealing::Balanced(cores_first(machine)))
    }

    fn new(kernel: &Kernel, dealing: Dealing) -> Self {
        Self {
            dealing,
            assigned: Vec::new(),
            waiting: vec![VecDeque::new(); kernel.cpus.len()],
        }
    }

    /// Its CPU, or where that is offline or forbidden the next.
    fn cpu_for(&self, kernel: &mut Kernel, task: TaskIndex) -> CpuIndex {
        kernel.online_for(task, self.assigned[task])
    }
}

/// The first hardware thread of each core, then the second of each.
pub(crate) fn cores_first(machine: &Machine) -> Vec<CpuIndex> {
    let cpus = machine.cpus();
    let rank = |index: usize| {
        let before = cpus[..index].iter();
        before.filter(|cpu| cpu.core == cpus[index].core).count()
    };
    let mut order: Vec<CpuIndex> = (0..cpus.len()).collect();
    order.sort_by_key(|&index| (rank(index), index));
    order
}

impl Scheduler for Assigned {
    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        let nr = kernel.cpus.len();
        self.assigned.push(match &mut self.dealing {
            Dealing::Random(dice) => dice.below(nr as u64) as usize,
            Dealing::Balanced(order) => order[task % nr],
        });
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, _prev: CpuIndex) -> CpuIndex {
        let cpu = self.cpu_for(kernel, task);
        if kernel.claim_idle(cpu) {
            kernel.insert_direct(task, SLICE_NS, false);
        }
        cpu
    }

    /// One that is moved keeps its place among those that wait, or where CPUs come and go it would always be the last.
    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        let cpu = self.cpu_for(kernel, task);
        kernel.tasks[task].cpu = cpu;
        kernel.hold(task);
        let since = |task: TaskIndex| kernel.tasks[task].waits_since;
        let waiting = &mut self.waiting[cpu];
        let place = match why.moved {
            true => waiting.partition_point(|&other| since(other) <= since(task)),
            false => waiting.len(),
        };
        waiting.insert(place, task);
        if kernel.claim_idle(cpu) {
            kernel.kick(cpu);
        }
    }

    fn nr_held(&self, task: TaskIndex) -> usize {
        let waiting = self.waiting.iter().flatten();
        waiting.filter(|&&waiting| waiting == task).count()
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        if let Some(task) = self.waiting[cpu].pop_front() {
            kernel.insert_local(task, cpu, SLICE_NS, false);
        } else if let Some(running) = running {
            kernel.set_slice(running, SLICE_NS);
        }
    }

    fn dequeue(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        self.waiting[cpu].retain(|&waiting| waiting != task);
    }
}
