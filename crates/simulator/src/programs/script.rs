// SPDX-License-Identifier: GPL-2.0-only
//! What the threads of a program do, written down: stages of operations that repeat.

use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::Memory;

/// A mutex, condition, barrier, semaphore or timer of a program, numbered from 0 in its kind.
pub type Object = usize;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Work of so many nanoseconds on the fastest CPU.
    Compute(Ns),
    /// Work until so many nanoseconds have passed, run or not.
    RunFor(Ns),
    /// Sleeps for so long: a timer, or a device that takes its time.
    Sleep(Ns),
    /// Sleeps until so long after the timer's last expiry.
    Timer {
        /// Which.
        timer: Object,
        /// How long.
        period: Ns,
    },
    /// Takes a mutex.
    Lock(Object),
    /// Gives a mutex back.
    Unlock(Object),
    /// Gives the mutex back, waits for the condition, takes the mutex.
    Wait {
        /// For what.
        condition: Object,
        /// Which.
        mutex: Object,
    },
    /// Wakes one that waits for the condition.
    Signal(Object),
    /// Wakes all that wait for the condition.
    Broadcast(Object),
    /// Waits until as many have come as the barrier has users.
    Barrier(Object),
    /// Adds one to a semaphore.
    Post(Object),
    /// Takes one from a semaphore.
    Take(Object),
    /// Begins a thread of the script of that number.
    Fork(usize),
    /// Lets others go first.
    Yield,
    /// Uses memory so from now on.
    Use(Memory),
}

/// Operations, one after the other, and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What is done.
    pub ops: Vec<Op>,
    /// How often; without end if not given.
    pub repeats: Option<u64>,
}

/// What one kind of thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What its threads are called.
    pub name: String,
    /// How many of them begin with the program.
    pub instances: u32,
    /// How long they sleep first.
    pub delay: Ns,
    /// 1 to 10000, where 100 is nice 0.
    pub weight: u32,
    /// The CPUs that they may run on; all, if none are given.
    pub cpus: Vec<CpuIndex>,
    /// One after the other.
    pub stages: Vec<Stage>,
    /// How often they go through all; without end if not given.
    pub passes: Option<u64>,
}

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerKind {
    /// Whether each thread has its own.
    pub unique: bool,
    /// Whether an expiry that came too late to sleep for does not move the ones after it.
    pub absolute: bool,
}

/// A program: its scripts, and what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Play {
    /// Its kinds of threads.
    pub scripts: Vec<Script>,
    /// How many mutexes there are.
    pub nr_mutexes: usize,
    /// How long who finds a mutex taken spins before it sleeps, in nanoseconds on the fastest CPU.
    pub spin_ns: Ns,
    /// How many conditions there are.
    pub nr_conditions: usize,
    /// The users of each barrier.
    pub barriers: Vec<u64>,
    /// How many semaphores there are, all 0 at first.
    pub nr_semaphores: usize,
    /// The timers.
    pub timers: Vec<TimerKind>,
    /// Whether the slacks of a stage's timers are added up, instead of the last one counting.
    pub cumulative_slack: bool,
}
