// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers that go wrong, each in one way, to see that checkers notice. Otherwise they are round robin, or ours where it is what
//! ours promises of its own state that does not hold.

use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, Place, QueueIndex, TaskIndex, work};
use crate::queue::key_at;
use crate::scheduler::{Enqueue, Scheduler};
use crate::schedulers::{RoundRobin, Threadwise};
use threadwise_policy::Tunables;

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
    /// A CPU that looks for something to do is given who runs on another.
    RunsTwice,
    /// Every twentieth task is put into two queues.
    QueuesTwice,
    /// Each tick counts a nanosecond of work that nobody did.
    Conjures,
    /// Ours, but every twentieth thread that goes to sleep is counted as ready still.
    Miscounts,
    /// Ours, but every twentieth task is put into a queue and nobody is told.
    QueuesUnseen,
    /// Ours, but every twentieth task is queued under a key of its own.
    Miskeys,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Forgets,
        Self::Crowds,
        Self::IgnoresAffinity,
        Self::Insists,
        Self::LastInFirstOut,
        Self::VtimeBack,
        Self::ClockBack,
        Self::RunsTwice,
        Self::QueuesTwice,
        Self::Conjures,
        Self::Miscounts,
        Self::QueuesUnseen,
        Self::Miskeys,
    ];

    fn is_ours(self) -> bool {
        matches!(self, Self::Miscounts | Self::QueuesUnseen | Self::Miskeys)
    }

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
            Self::RunsTwice => "broken-twice",
            Self::QueuesTwice => "broken-queues",
            Self::Conjures => "broken-work",
            Self::Miscounts => "broken-counts",
            Self::QueuesUnseen => "broken-unseen",
            Self::Miskeys => "broken-keys",
        }
    }
}

/// A scheduler that goes wrong.
pub struct Broken {
    inner: Box<dyn Scheduler>,
    /// Another queue than those of `inner`.
    queue: QueueIndex,
    how: How,
    nr: u64,
    nr_sleeps: u64,
}

impl Broken {
    /// Wrong in this way.
    pub fn new(kernel: &mut Kernel, how: How) -> Self {
        let inner: Box<dyn Scheduler> = if how.is_ours() {
            Box::new(Threadwise::new(kernel, Tunables::default()))
        } else {
            Box::new(RoundRobin::new(kernel, SLICE_NS))
        };
        Self {
            inner,
            queue: kernel.create_queues(1),
            how,
            nr: 0,
            nr_sleeps: 0,
        }
    }
}

impl Scheduler for Broken {
    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        self.inner.enable(kernel, task);
    }

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
            // Our queues are the first: one for each CPU.
            How::QueuesUnseen if self.nr.is_multiple_of(20) => {
                let key = self.inner.vtime(task).unwrap_or_default();
                kernel.insert_queue(task, kernel.tasks[task].cpu, SLICE_NS, key);
            }
            How::Miskeys => {
                self.inner.enqueue(kernel, task, why);
                if let Place::Queue(queue) = kernel.tasks[task].place
                    && self.nr.is_multiple_of(20)
                {
                    let key = key_at(kernel.tasks[task].position);
                    kernel.move_within(task, queue, key.wrapping_sub(3_000_000));
                }
            }
            How::Insists => kernel.insert_local(task, kernel.tasks[task].cpu, SLICE_NS, false),
            // Past `insert_queue()`, which refuses it.
            How::QueuesTwice if self.nr.is_multiple_of(20) => {
                let (first, second) = (kernel.create_queues(1), self.queue);
                kernel.insert_queue(task, first, SLICE_NS, 0);
                kernel.queues[second].insert(task, 0, self.nr);
            }
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
        if self.how == How::RunsTwice {
            let elsewhere =
                |task: &TaskIndex| matches!(kernel.tasks[*task].place, Place::On(other) if other != cpu);
            if let Some(task) = (0..kernel.tasks.len()).find(elsewhere) {
                // Past `insert_local()`, which refuses it.
                kernel.cpus[cpu].local.push_back(task);
                return;
            }
        }
        let takes = self.how != How::Crowds || cpu == 0;
        if !(takes && kernel.move_to_local(cpu, self.queue)) {
            self.inner.dispatch(kernel, cpu, running);
        }
    }

    fn runnable(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        self.inner.runnable(kernel, task);
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex, sleeps: bool) {
        if self.how == How::Miscounts && sleeps {
            self.nr_sleeps += 1;
            if self.nr_sleeps.is_multiple_of(20) {
                return;
            }
        }
        self.inner.quiescent(kernel, task, sleeps);
    }

    fn dequeue(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        self.inner.dequeue(kernel, task);
    }

    fn nr_held(&self, task: TaskIndex) -> usize {
        self.inner.nr_held(task)
    }

    fn tick(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        self.inner.tick(kernel, cpu);
        let running = kernel.cpus[cpu].running.filter(|_| self.how == How::Conjures);
        if let Some(task) = running {
            kernel.tasks[task].done += work(1);
        }
    }

    fn cpu_offline(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        self.inner.cpu_offline(kernel, cpu);
    }

    fn timer(&mut self, kernel: &mut Kernel) {
        self.inner.timer(kernel);
    }

    fn other_timer(&mut self, kernel: &mut Kernel) {
        self.inner.other_timer(kernel);
    }

    fn withholds(&self, kernel: &Kernel, task: TaskIndex) -> bool {
        self.inner.withholds(kernel, task)
    }

    fn yielded(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        self.inner.yielded(kernel, task);
    }

    fn wants_last(&self) -> bool {
        self.inner.wants_last()
    }

    fn allows_queued_wakeups(&self) -> bool {
        self.inner.allows_queued_wakeups()
    }

    fn vtime(&self, task: TaskIndex) -> Option<u64> {
        match self.how {
            How::VtimeBack => Some(0u64.wrapping_sub(self.nr)),
            _ => self.inner.vtime(task),
        }
    }

    fn clock(&self) -> u64 {
        match self.how {
            How::ClockBack => 0u64.wrapping_sub(self.nr),
            _ => self.inner.clock(),
        }
    }

    fn phase_base(&self, kernel: &Kernel, task: TaskIndex) -> u64 {
        match self.how {
            How::VtimeBack | How::ClockBack => self.clock(),
            _ => self.inner.phase_base(kernel, task),
        }
    }

    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        self.inner.check(kernel)
    }
}
