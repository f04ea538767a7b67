// SPDX-License-Identifier: GPL-2.0-only
//! Mutexes, conditions, barriers and semaphores as the C library makes them: a word that threads look at, and a futex to
//! sleep on while it says no. Whoever comes at the right moment may overtake those that wait.

use std::collections::VecDeque;

use crate::Ns;
use crate::program::{Futex, Step};

/// What has to be done before a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Done,
    /// This step, then it goes on.
    Then(Step),
    /// This step, then it asks again.
    Again(Step),
}

/// The futex on which a thread of a program waits for being chosen itself.
pub(crate) fn own_futex(thread: usize) -> Futex {
    2 * thread as Futex
}

/// The futex of a program's object of that number.
pub(crate) fn object_futex(number: usize) -> Futex {
    2 * number as Futex + 1
}

/// A mutex: pthread_mutex_t. Unlocked by whoever does it, as those without error checking are.
#[derive(Clone, Debug)]
pub(crate) struct Mutex {
    pub(crate) futex: Futex,
    /// How long who finds it taken spins before it sleeps (PTHREAD_MUTEX_ADAPTIVE_NP), on the fastest CPU.
    pub(crate) spin_ns: Ns,
    pub(crate) is_taken: bool,
}

impl Mutex {
    /// `has_spun`: whether it spun already for this lock.
    pub(crate) fn lock(&mut self, has_spun: &mut bool) -> Verdict {
        if !self.is_taken {
            self.is_taken = true;
            return Verdict::Done;
        }
        if self.spin_ns > 0 && !std::mem::replace(has_spun, true) {
            return Verdict::Again(Step::SpinFor(self.futex, self.spin_ns));
        }
        Verdict::Again(Step::Wait(self.futex))
    }

    pub(crate) fn unlock(&mut self) -> Verdict {
        self.is_taken = false;
        Verdict::Then(Step::WakeOne(self.futex))
    }
}

/// A condition: pthread_cond_t. A thread waits from when it is in the queue, so nothing is lost between that and its sleep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    waiting: VecDeque<usize>,
}

impl Condition {
    pub(crate) fn enter(&mut self, thread: usize) {
        self.waiting.push_back(thread);
    }

    /// Whether this thread has been signalled; else it sleeps.
    pub(crate) fn wait(&self, thread: usize) -> Verdict {
        if self.waiting.contains(&thread) {
            Verdict::Again(Step::Wait(own_futex(thread)))
        } else {
            Verdict::Done
        }
    }

    pub(crate) fn signal(&mut self) -> Verdict {
        match self.waiting.pop_front() {
            Some(thread) => Verdict::Then(Step::WakeOne(own_futex(thread))),
            None => Verdict::Done,
        }
    }

    pub(crate) fn nr_waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// A barrier of a fixed number of uses.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) futex: Futex,
    pub(crate) users: u64,
    pub(crate) arrived: u64,
    pub(crate) generation: u64,
}

impl Barrier {
    /// Comes to it: the last wakes the others. The generation to wait for the end of.
    pub(crate) fn arrive(&mut self) -> (u64, Verdict) {
        let generation = self.generation;
        self.arrived += 1;
        if self.arrived < self.users {
            return (generation, Verdict::Done);
        }
        self.arrived = 0;
        self.generation += 1;
        (generation, Verdict::Then(Step::Wake(self.futex)))
    }

    pub(crate) fn wait(&self, generation: u64) -> Verdict {
        if self.generation > generation {
            Verdict::Done
        } else {
            Verdict::Again(Step::Wait(self.futex))
        }
    }
}

/// A semaphore: sem_t.
#[derive(Clone, Debug)]
pub(crate) struct Semaphore {
    pub(crate) futex: Futex,
    pub(crate) count: u64,
}

impl Semaphore {
    pub(crate) fn post(&mut self) -> Verdict {
        self.count += 1;
        Verdict::Then(Step::WakeOne(self.futex))
    }

    pub(crate) fn take(&mut self) -> Verdict {
        if self.count == 0 {
            return Verdict::Again(Step::Wait(self.futex));
        }
        self.count -= 1;
        Verdict::Done
    }
}
