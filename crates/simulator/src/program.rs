// SPDX-License-Identifier: GPL-2.0-only
//! What programs do, as the simulator sees it.

use crate::Ns;
use crate::kernel::CpuIndex;

/// Something that threads sleep on until another wakes them, as on a futex. Each program has its own, except for those from
/// [`SHARED`] on.
pub type Futex = u32;

/// From here on futexes are one and the same for all programs, as in memory that processes share. Nobody spins on them.
pub const SHARED: Futex = 1 << 31;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes: so many nanoseconds on the fastest CPU. This is the work that counts.
    Compute(Ns),
    /// The same, but what it does is not work: a system call, bookkeeping.
    Overhead(Ns),
    /// Sleeps until somebody wakes this futex.
    Wait(Futex),
    /// Spins until somebody wakes this futex: it stays ready, and what it does is not work.
    Spin(Futex),
    /// The same, but for so many nanoseconds on the fastest CPU at the most.
    SpinFor(Futex, Ns),
    /// Wakes all that wait for or spin on this futex.
    Wake(Futex),
    /// Wakes the one that has waited the longest for this futex, and all that spin on it: they see memory change.
    WakeOne(Futex),
    /// Lets others go first (`sched_yield`).
    Yield,
    /// Begins one more thread of its program, which has the next number.
    Fork,
    /// Uses memory so from now on, which takes no time.
    Use(Memory),
    /// Sleeps for so long.
    Sleep(Ns),
    /// Is gone for good.
    Exit,
}

/// How a thread uses memory while it computes. Nothing is known of it by default: it never misses a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What it touches again and again, evenly, in bytes.
    pub working_set_bytes: u64,
    /// Accesses that reach the last-level cache in a microsecond of computing on the fastest CPU; with 0 it leaves memory
    /// alone.
    pub accesses_per_us: u32,
    /// Whether its working set is that of its program, which threads that share a cache have there once.
    pub is_shared: bool,
    /// Which of several working sets that it uses one after the other.
    pub buffer: u32,
    /// Whether prefetchers see its accesses coming: misses take bandwidth then, but nobody waits for them.
    pub is_streamed: bool,
}

impl Memory {
    /// The same while it leaves memory alone, but has its working set.
    pub fn at_rest(self) -> Self {
        Self {
            accesses_per_us: 0,
            ..self
        }
    }
}

/// A program of threads that share memory: its threads' next steps may depend on what the others did.
pub trait Program {
    /// How many threads it has at first; they are numbered from 0 and all begin at once.
    fn nr_threads(&self) -> usize;

    /// What the thread does now, at `now`, that its last step is done, at first and after each. Nothing happens between
    /// this and the beginning of the step, so no wake-up is lost.
    fn next(&mut self, thread: usize, now: Ns) -> Step;

    /// How long the serial phase after the present parallel one will be, in nanoseconds on the fastest CPU, as far as the
    /// program knows. Nobody is told but who foresees ([`crate::schedulers::Fluid`]).
    fn serial_ahead(&self) -> Ns {
        0
    }

    /// The thread's weight, 1 to 10000 where 100 is nice 0, if it is not that of the program.
    fn weight(&self, _thread: usize) -> Option<u32> {
        None
    }

    /// The CPUs that the thread may run on; those of the program, if there are none.
    fn cpus(&self, _thread: usize) -> &[CpuIndex] {
        &[]
    }

    /// How the thread uses memory until it says otherwise ([`Step::Use`]).
    fn memory(&self, _thread: usize) -> Memory {
        Memory::default()
    }
}
