// SPDX-License-Identifier: GPL-2.0-only
//! One queue for all CPUs, first in, first out.

use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, QueueIndex, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};

/// Round robin: every ready task has the same slice, one after the other, on whichever CPU is next.
///
/// With a slice that is short against phases and no costs this is the fluid model's sharing without knowledge of phases
/// (thread-essence, section VI: all ready threads have equal shares of all cores).
pub struct RoundRobin {
    queue: QueueIndex,
    slice_ns: Ns,
    nr_queued: u64,
}

impl RoundRobin {
    /// With slices of this length; they end at ticks.
    pub fn new(kernel: &mut Kernel, slice_ns: Ns) -> Self {
        Self {
            queue: kernel.create_queues(1),
            slice_ns,
            nr_queued: 0,
        }
    }
}

impl Scheduler for RoundRobin {
    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        let Some(cpu) = kernel.select_idle(task, prev) else {
            return prev;
        };
        kernel.insert_direct(task, self.slice_ns, false);
        cpu
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, _why: Enqueue) {
        self.nr_queued += 1;
        kernel.insert_queue(task, self.queue, self.slice_ns, self.nr_queued);
        if let Some(idle) = kernel.claim_any_idle(task) {
            kernel.kick(idle);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        if !kernel.move_to_local(cpu, self.queue)
            && let Some(running) = running
        {
            kernel.set_slice(running, self.slice_ns);
        }
    }

    /// It may have been woken up for a task that no other CPU knows of.
    fn cpu_offline(&mut self, kernel: &mut Kernel, _cpu: CpuIndex) {
        let waiting: Vec<TaskIndex> = kernel.queues[self.queue].iter().collect();
        for task in waiting {
            if let Some(idle) = kernel.claim_any_idle(task) {
                kernel.kick(idle);
            }
        }
    }
}
