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

    /// A task is not ready any more.
    fn quiescent(&mut self, _kernel: &mut Kernel, _task: TaskIndex) {}

    /// A tick of a CPU that is not idle, or a time that was asked for ([`Kernel::set_alarm`]).
    fn tick(&mut self, _kernel: &mut Kernel, _cpu: CpuIndex) {}

    /// The timer that [`Kernel::start_timer`] started has expired.
    fn timer(&mut self, _kernel: &mut Kernel) {}

    /// Whether a task without a slice is enqueued also where nothing else could run (`SCX_OPS_ENQ_LAST`).
    fn wants_last(&self) -> bool {
        false
    }
}
