// SPDX-License-Identifier: GPL-2.0-only
//! Fork and join for one main thread and its workers, with few system calls.
//!
//! A fork is a bump of a generation counter and one wake of all that sleep on it; a join is a countdown that wakes the
//! main thread at most once, and not at all when the main thread arrives last. With active waiting there is no system
//! call. The stop of a run needs nothing here: whoever waits is waiting for threads that notice the stop within a
//! unit, and [`Dismiss`] releases the workers afterwards.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::futex;

/// How threads wait for each other at the fork and at the join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Sleep in the kernel (futex): a waiting thread is not ready.
    #[default]
    Passive,
    /// Spin with a PAUSE instruction: a waiting thread stays ready, as with `OMP_WAIT_POLICY=active`.
    Active,
}

/// The meeting point of a main thread and its workers.
///
/// The main thread forks only after a join, so a worker never misses a generation.
#[derive(Debug)]
pub struct Team {
    threads: u32,
    wait: Wait,
    /// Counts forks; workers sleep on it.
    generation: AtomicU32,
    /// Units of each thread in the phase of the current generation.
    units: AtomicU64,
    /// Set before the last generation: workers leave.
    dismissed: AtomicBool,
    /// Threads that have not arrived at the join yet; the main thread sleeps on it.
    absent: AtomicU32,
}

impl Team {
    /// A team of `threads`, the main thread included, that first meets at [`Team::join`] or [`Team::arrive`].
    pub fn new(threads: u32, wait: Wait) -> Self {
        Self {
            threads,
            wait,
            generation: AtomicU32::new(0),
            units: AtomicU64::new(0),
            dismissed: AtomicBool::new(false),
            absent: AtomicU32::new(threads),
        }
    }

    /// Main thread: has each worker perform `units`. Must be followed by [`Team::join`].
    pub fn fork(&self, units: u64) {
        self.units.store(units, Ordering::Relaxed);
        self.absent.store(self.threads, Ordering::Relaxed);
        self.next_generation();
    }

    /// Main thread: waits until every worker has arrived.
    pub fn join(&self) {
        // The last to arrive sees 1. If that is a worker, the main thread sleeps or is about to.
        let mut absent = self.absent.fetch_sub(1, Ordering::AcqRel) - 1;
        while absent != 0 {
            pause(self.wait, &self.absent, absent);
            absent = self.absent.load(Ordering::Acquire);
        }
    }

    /// Worker: arrives at the join.
    pub fn arrive(&self) {
        let is_last = self.absent.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.wait == Wait::Passive {
            futex::wake_all(&self.absent);
        }
    }

    /// Worker: waits for the fork after generation `seen`, updates it, and returns the units to perform; None at the
    /// end. Before the first fork workers wait passively in either mode, as the program has not started yet.
    pub fn next_phase(&self, seen: &mut u32) -> Option<u64> {
        let wait = if *seen == 0 { Wait::Passive } else { self.wait };
        let last = *seen;
        while *seen == last {
            pause(wait, &self.generation, last);
            *seen = self.generation.load(Ordering::Acquire);
        }
        let dismissed = self.dismissed.load(Ordering::Relaxed);
        (!dismissed).then(|| self.units.load(Ordering::Relaxed))
    }

    /// Publishes what was stored before and wakes the workers. Spinning workers sleep in generation 0 only.
    fn next_generation(&self) {
        let last = self.generation.fetch_add(1, Ordering::Release);
        if self.wait == Wait::Passive || last == 0 {
            futex::wake_all(&self.generation);
        }
    }
}

/// Waits a moment, or until `word` no longer holds `value` if waiting is passive.
fn pause(wait: Wait, word: &AtomicU32, value: u32) {
    match wait {
        Wait::Passive => futex::wait(word, value),
        Wait::Active => std::hint::spin_loop(),
    }
}

/// Sends the workers home when dropped, so that no way out of a run leaves them waiting.
#[derive(Debug)]
pub struct Dismiss<'a>(pub &'a Team);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.dismissed.store(true, Ordering::Relaxed);
        self.0.next_generation();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `forks` phases of growing size; returns what each worker was asked to do in all.
    fn meet(threads: u32, wait: Wait, forks: u64) -> Vec<u64> {
        let team = Team::new(threads, wait);
        std::thread::scope(|scope| {
            let _dismiss = Dismiss(&team);
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(|| worker(&team))).collect();
            team.join();
            for units in 0..forks {
                team.fork(units);
                team.join();
            }
            drop(Dismiss(&team));
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        })
    }

    fn worker(team: &Team) -> u64 {
        let (mut seen, mut sum) = (0, 0);
        team.arrive();
        while let Some(units) = team.next_phase(&mut seen) {
            sum += units;
            team.arrive();
        }
        sum
    }

    #[test]
    fn every_worker_takes_part_in_every_fork() {
        assert_eq!(meet(4, Wait::Passive, 2000), [1_999_000; 3]);
        assert_eq!(meet(3, Wait::Active, 50), [1225; 2]);
    }

    #[test]
    fn a_team_of_one_never_waits() {
        assert_eq!(meet(1, Wait::Passive, 10), [0; 0]);
    }
}
