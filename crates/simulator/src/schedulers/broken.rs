// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers that go wrong, each in one way, to see that checkers notice. Otherwise they are round robin.

use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, QueueIndex, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};
use crate::schedulers::RoundRobin;

const SLICE_NS: Ns = 1_000_000;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every twentieth task that is enqueued is kept for ever.
    Forgets,
    /// All tasks are sent to the first CPU, and no other takes any.
    Crowds,
    /// Tasks are sent to CPUs where they may not run.
    IgnoresAffinity,
    /// Tasks are sent to the CPU where they are, also when they were sent back from there.
    Insists,
    /// Who was queued last runs first.
    LastInFirstOut,
    /// A task's vtime falls whenever it is enqueued.
    VtimeBack,
    /// The clock of vtimes falls whenever a task is enqueued.
    ClockBack,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Forgets,
        Self::Crowds,
        Self::IgnoresAffinity,
        Self::Insists,
        Self::LastInFirstOut,
        Self::VtimeBack,
        Self::ClockBack,
    ];

    /// The name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forgets => "broken-forgets",
            Self::Crowds => "broken-crowds",
            Self::IgnoresAffinity => "broken-affinity",
            Self::Insists => "broken-insists",
            Self::LastInFirstOut => "broken-lifo",
            Self::VtimeBack => "broken-vtime",
            Self::ClockBack => "broken-clock",
        }
    }

    /// What the checker that notices says.
    pub fn noticed_as(self) -> &'static str {
        match self {
            Self::Forgets => "holds it and does not know of it",
            Self::LastInFirstOut => "has waited since",
            Self::Crowds => "has been idle since",
            Self::IgnoresAffinity => "where it may not run",
            Self::Insists => "were sent back",
            Self::VtimeBack => "the vtime of task",
            Self::ClockBack => "the clock goes back",
        }
    }
}

/// A scheduler that goes wrong.
pub struct Broken {
    inner: RoundRobin,
    /// Another queue than that of `inner`.
    queue: QueueIndex,
    how: How,
    nr: u64,
}

impl Broken {
    /// Wrong in this way.
    pub fn new(kernel: &mut Kernel, how: How) -> Self {
        Self {
            inner: RoundRobin::new(kernel, SLICE_NS),
            queue: kernel.create_queues(1),
            how,
            nr: 0,
        }
    }
}

impl Scheduler for Broken {
    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        match self.how {
            How::Crowds => 0,
            _ => self.inner.select_cpu(kernel, task, prev),
        }
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        self.nr += 1;
        match self.how {
            How::Forgets if self.nr.is_multiple_of(20) => kernel.hold(task),
            How::Crowds => kernel.insert_queue(task, self.queue, SLICE_NS, self.nr),
            How::IgnoresAffinity if !why.sent_back => {
                let cpu = self.nr as usize % kernel.cpus.len();
                kernel.insert_local(task, cpu, SLICE_NS, false);
            }
            How::Insists => kernel.insert_local(task, kernel.tasks[task].cpu, SLICE_NS, false),
            How::LastInFirstOut => {
                kernel.insert_queue(task, self.queue, SLICE_NS, u64::MAX / 4 - self.nr);
                if let Some(idle) = kernel.claim_any_idle(task) {
                    kernel.kick(idle);
                }
            }
            _ => self.inner.enqueue(kernel, task, why),
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        let takes = self.how != How::Crowds || cpu == 0;
        if !(takes && kernel.move_to_local(cpu, self.queue)) {
            self.inner.dispatch(kernel, cpu, running);
        }
    }

    fn vtime(&self, _task: TaskIndex) -> Option<u64> {
        (self.how == How::VtimeBack).then(|| 0u64.wrapping_sub(self.nr))
    }

    fn clock(&self) -> u64 {
        match self.how {
            How::ClockBack => 0u64.wrapping_sub(self.nr),
            _ => 0,
        }
    }
}
