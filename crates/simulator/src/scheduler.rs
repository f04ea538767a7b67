// SPDX-License-Identifier: GPL-2.0-only
//! What a scheduler is asked, as sched_ext asks it (`struct sched_ext_ops` in kernel/sched/ext_internal.h).

use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// Why a task is enqueued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// It woke up (`SCX_ENQ_WAKEUP`).
    pub wakeup: bool,
    /// It was in a CPU's local queue and could not run there at once (`SCX_ENQ_REENQ`).
    pub sent_back: bool,
    /// It is the only one that its CPU could run (`SCX_ENQ_LAST`); asked for by [`Scheduler::wants_last`].
    pub last: bool,
    /// `select_cpu` was asked for it (`SCX_ENQ_CPU_SELECTED`).
    pub selected: bool,
    /// It was ready all the time, and is moved: its CPU goes offline, or the CPUs on which it may run changed.
    pub moved: bool,
}

/// A scheduler. Each call may use what [`Kernel`] offers; a task that is handed over in `enqueue` must be put somewhere.
pub trait Scheduler {
    /// A task begins; they come in the order of their numbers.
    fn enable(&mut self, _kernel: &Kernel, _task: TaskIndex) {}

    /// The CPU on which a task that wakes up is to be enqueued, not asked for one that is bound; it may insert it there at once ([`Kernel::insert_direct`]).
    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex;

    /// A ready task has no CPU.
    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue);

    /// A CPU has nothing in its local queue and its task `running`, if that is still ready, no slice. It goes on with
    /// that one unless another is put into its local queue.
    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>);

    /// A task is ready now.
    fn runnable(&mut self, _kernel: &mut Kernel, _task: TaskIndex) {}

    /// A task is not ready any more: it `sleeps` or has ended, or else it is [`Scheduler::runnable`] again at once, elsewhere or
    /// with other CPUs to run on.
    fn quiescent(&mut self, _kernel: &mut Kernel, _task: TaskIndex, _sleeps: bool) {}

    /// A task that the scheduler holds ([`Kernel::hold`]) is taken away from it; if it stays ready it is enqueued again.
    fn dequeue(&mut self, _kernel: &mut Kernel, _task: TaskIndex) {}

    /// In how many of its queues a task waits that it was given to hold ([`Kernel::hold`]): one, or it is lost or runs twice.
    fn nr_held(&self, _task: TaskIndex) -> usize {
        0
    }

    /// A tick of a CPU that is not idle, or a time that was asked for ([`Kernel::set_alarm`]).
    fn tick(&mut self, _kernel: &mut Kernel, _cpu: CpuIndex) {}

    /// A CPU is not there any more (`ops.cpu_offline`), and with it what it was woken up for.
    fn cpu_offline(&mut self, _kernel: &mut Kernel, _cpu: CpuIndex) {}

    /// The timer that [`Kernel::start_timer`] started has expired.
    fn timer(&mut self, _kernel: &mut Kernel) {}

    /// The other timer ([`Kernel::start_other_timer`]) has expired.
    fn other_timer(&mut self, _kernel: &mut Kernel) {}

    /// Whether a task is not to run now, even where a CPU is idle.
    fn withholds(&self, _kernel: &Kernel, _task: TaskIndex) -> bool {
        false
    }

    /// The running task lets others go first; it has no slice any more (`yield_task_scx()` without `ops.yield`).
    fn yielded(&mut self, _kernel: &mut Kernel, _task: TaskIndex) {}

    /// Whether a task without a slice is enqueued also where nothing else could run (`SCX_OPS_ENQ_LAST`).
    fn wants_last(&self) -> bool {
        false
    }

    /// Whether a task that wakes up while its CPU still switches away from it, to idle, is enqueued there without
    /// `select_cpu` being asked (`SCX_OPS_ALLOW_QUEUED_WAKEUP`).
    fn allows_queued_wakeups(&self) -> bool {
        false
    }

    /// How far a task is in weighted run time, if that is what the scheduler goes by. It may fall, but not to before
    /// [`Scheduler::clock`].
    fn vtime(&self, _task: TaskIndex) -> Option<u64> {
        None
    }

    /// The current vtime, which never goes back. Both wrap.
    fn clock(&self) -> u64 {
        0
    }

    /// The vtime at which the last parallel phase of the task's program began.
    fn phase_base(&self, _kernel: &Kernel, _task: TaskIndex) -> u64 {
        self.clock()
    }

    /// What the scheduler promises of its own state between events.
    ///
    /// # Errors
    /// What does not hold.
    fn check(&self, _kernel: &Kernel) -> Result<(), String> {
        Ok(())
    }
}
