// SPDX-License-Identifier: GPL-2.0-only
//! What programs do, as the simulator sees it.

use crate::Ns;

/// Something that threads of a program sleep on until another wakes them, as on a futex.
pub type Futex = u32;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes: so many nanoseconds on the fastest CPU. This is the work that counts.
    Compute(Ns),
    /// Sleeps until somebody wakes this futex.
    Wait(Futex),
    /// Spins until somebody wakes this futex: it stays ready, and what it does is not work.
    Spin(Futex),
    /// Wakes all that wait for or spin on this futex.
    Wake(Futex),
    /// Sleeps for so long.
    Sleep(Ns),
    /// Is gone for good.
    Exit,
}

/// A program of threads that share memory: its threads' next steps may depend on what the others did.
pub trait Program {
    /// How many threads it has; they are numbered from 0 and all begin at once.
    fn nr_threads(&self) -> usize;

    /// What the thread does now that its last step is done, at first and after each. Nothing happens between this and
    /// the beginning of the step, so no wake-up is lost.
    fn next(&mut self, thread: usize) -> Step;
}
