// SPDX-License-Identifier: GPL-2.0-only
//! Replays a trace: each task runs as long as it was recorded to, sleeps as long where nobody is known to have woken it, and
//! else until the task that woke it has come as far as it had then.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use threadwise_workload::trace::{Deed, Trace};

use super::weights;
use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::{Program, SHARED, Step};

/// `DEFAULT_PRIO` (include/linux/sched/prio.h).
const NICE_0_PRIO: i32 = 120;

/// A process of a trace, with those of its threads that were recorded. A trace's CPUs count as the fastest.
pub struct Replay {
    trace: Rc<Trace>,
    /// The task of each thread, an index into the trace's.
    tasks: Vec<usize>,
    /// How many of each thread's deeds are done.
    done: Vec<usize>,
    shared: Rc<RefCell<Shared>>,
    bound_to: Vec<Option<CpuIndex>>,
}

/// What the processes of a replay share.
struct Shared {
    /// How often each task was woken and has not waited for it yet.
    woken: Vec<u64>,
    ended: Vec<Option<Ns>>,
}

/// When each task of a replay ended.
#[derive(Clone)]
pub struct Ends(Rc<RefCell<Shared>>);

impl Ends {
    /// When this one did, an index into the trace's tasks.
    pub fn of(&self, task: usize) -> Option<Ns> {
        self.0.borrow().ended[task]
    }
}

impl Replay {
    /// The processes of a trace, for a machine of so many CPUs. Threads whose process is not known are each a process of
    /// their own, and so is each kernel thread.
    pub fn of(trace: &Rc<Trace>, nr_cpus: usize) -> (Vec<Self>, Ends) {
        let mut processes: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (index, task) in trace.tasks.iter().enumerate() {
            let process = match task.tgid {
                Some(tgid) if !task.is_kernel_thread => (tgid, 0),
                _ => (task.tid, 1),
            };
            processes.entry(process).or_default().push(index);
        }
        let shared = Rc::new(RefCell::new(Shared {
            woken: vec![0; trace.tasks.len()],
            ended: vec![None; trace.tasks.len()],
        }));
        let bound_to = |&task: &usize| {
            let cpu = trace.tasks[task].bound_to.map(|cpu| cpu as CpuIndex);
            cpu.filter(|&cpu| cpu < nr_cpus)
        };
        let replay = |tasks: Vec<usize>| Self {
            trace: Rc::clone(trace),
            done: vec![0; tasks.len()],
            bound_to: tasks.iter().map(bound_to).collect(),
            tasks,
            shared: Rc::clone(&shared),
        };
        (processes.into_values().map(replay).collect(), Ends(shared))
    }

    /// The task of each of its threads, an index into the trace's.
    pub fn tasks(&self) -> &[usize] {
        &self.tasks
    }
}

impl Program for Replay {
    fn nr_threads(&self) -> usize {
        self.tasks.len()
    }

    fn next(&mut self, thread: usize, now: Ns) -> Step {
        let task = self.tasks[thread];
        let Some(&deed) = self.trace.tasks[task].deeds.get(self.done[thread]) else {
            self.shared.borrow_mut().ended[task] = Some(now);
            return Step::Exit;
        };
        let futex = |task: usize| SHARED + task as u32;
        let mut shared = self.shared.borrow_mut();
        let step = match deed {
            Deed::Ran(ns) => Step::Compute(ns),
            Deed::Slept(ns) => Step::Sleep(ns),
            Deed::Awaited(_) if shared.woken[task] == 0 => return Step::Wait(futex(task)),
            Deed::Awaited(_) => {
                shared.woken[task] -= 1;
                Step::Overhead(0)
            }
            Deed::Woke(other) => {
                shared.woken[other] += 1;
                Step::WakeOne(futex(other))
            }
        };
        self.done[thread] += 1;
        step
    }

    /// Real-time and deadline tasks go first of all, which no weight says: they have that of nice -20.
    fn weight(&self, thread: usize) -> Option<u32> {
        let prio = self.trace.tasks[self.tasks[thread]].prio;
        Some(weights::of_nice(prio.saturating_sub(NICE_0_PRIO)))
    }

    fn cpus(&self, thread: usize) -> &[CpuIndex] {
        self.bound_to[thread].as_slice()
    }
}
