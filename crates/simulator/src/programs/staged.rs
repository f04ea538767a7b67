// SPDX-License-Identifier: GPL-2.0-only
//! A program of stages in which from one to all of its threads work, and after each of which all meet.

use threadwise_workload::synthetic::stages::{Stage, Stages};

use crate::Ns;
use crate::program::{Futex, Program, Step};

/// The main thread sleeps on it until the others have done their part; thread t sleeps on t until it has one.
const JOIN: Futex = 0;

/// In each stage the main thread wakes as many others as take part, one by one, does its own part, and waits for theirs.
pub struct Staged {
    stages: Stages,
    unit_ns: Ns,
    stage: Stage,
    /// How many others the main thread has woken in this stage.
    nr_woken: usize,
    /// How many others have not done their part.
    nr_absent: usize,
    /// Whether each thread has a part to do.
    has_part: Vec<bool>,
    /// Whether it has just done it; the main thread at first, so that a stage begins.
    is_done: Vec<bool>,
}

impl Staged {
    /// A program of so many threads with these stages, whose work units take `unit_ns` on the fastest CPU.
    pub fn new(threads: usize, stages: Stages, unit_ns: Ns) -> Self {
        Self {
            stages,
            unit_ns,
            stage: Stage { active: 0, units: 0 },
            nr_woken: 0,
            nr_absent: 0,
            has_part: vec![false; threads],
            is_done: (0..threads).map(|thread| thread == 0).collect(),
        }
    }

    fn part(&mut self, thread: usize) -> Step {
        self.has_part[thread] = false;
        self.is_done[thread] = true;
        // Never nothing, or a program of empty stages would stop time.
        Step::Compute((self.stage.units * self.unit_ns).max(1))
    }

    fn main_thread(&mut self) -> Step {
        if self.is_done[0] {
            if self.nr_absent > 0 {
                return Step::Wait(JOIN);
            }
            self.is_done[0] = false;
            self.stage = self.stages.next_stage();
            self.stage.active = self.stage.active.clamp(1, self.has_part.len());
            self.nr_absent = self.stage.active - 1;
            self.nr_woken = 0;
            self.has_part[1..self.stage.active].fill(true);
        }
        if self.nr_woken + 1 < self.stage.active {
            self.nr_woken += 1;
            return Step::WakeOne(self.nr_woken as Futex);
        }
        self.part(0)
    }

    fn worker(&mut self, thread: usize) -> Step {
        if std::mem::replace(&mut self.is_done[thread], false) {
            self.nr_absent -= 1;
            if self.nr_absent == 0 {
                return Step::WakeOne(JOIN);
            }
        }
        if self.has_part[thread] {
            return self.part(thread);
        }
        Step::Wait(thread as Futex)
    }
}

impl Program for Staged {
    fn nr_threads(&self) -> usize {
        self.has_part.len()
    }

    fn next(&mut self, thread: usize, _now: Ns) -> Step {
        if thread == 0 {
            self.main_thread()
        } else {
            self.worker(thread)
        }
    }
}
