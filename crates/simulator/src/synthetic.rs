// SPDX-License-Identifier: GPL-2.0-only
//! The synthetic benchmark of thread-essence, Fig. 4, step by step as `crates/workload` performs it.

use threadwise_workload::Ratio;
use threadwise_workload::synthetic::phases::{Draws, Round, Rounds};
use threadwise_workload::synthetic::{Distribution, Wait};

use crate::Ns;
use crate::program::{Futex, Memory, Program, Step};

/// Workers sleep on it until the next parallel phase.
const FORK: Futex = 0;
/// The main thread sleeps on it until all have arrived.
const JOIN: Futex = 1;

/// Rounds of a parallel phase of all threads, a join, and a serial phase of the main thread. With the same seed the phases
/// have the lengths that the real program gives them.
pub struct Synthetic {
    threads: usize,
    wait: Wait,
    unit_ns: Ns,
    memory: Memory,
    rounds: Rounds,
    round: Round,
    /// Threads that have not arrived at the join.
    absent: usize,
    /// Counts parallel phases, and the last that each thread took part in.
    generation: u64,
    seen: Vec<u64>,
    state: Vec<State>,
}

/// What a thread did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing: it has just begun, or waited for a fork.
    Waited,
    /// The main thread woke the workers.
    Forked,
    /// Its part of the parallel phase.
    Computed,
    /// The main thread waited for the join, or was the last to arrive.
    Joined,
}

impl Synthetic {
    /// A program of `ratio` whose phases have a mean of `phase_units` work units a thread, each of which takes `unit_ns` on
    /// the fastest CPU; their lengths are uniform.
    pub fn new(ratio: Ratio, phase_units: u64, unit_ns: Ns, threads: usize, wait: Wait, seed: u64) -> Self {
        let draws = Draws::new(Distribution::default(), seed);
        Self::drawn(ratio, phase_units, unit_ns, threads, wait, draws)
    }

    /// The same, with lengths drawn in this way.
    pub fn drawn(
        ratio: Ratio,
        phase_units: u64,
        unit_ns: Ns,
        threads: usize,
        wait: Wait,
        draws: Draws,
    ) -> Self {
        Self {
            threads,
            wait,
            unit_ns,
            memory: Memory::default(),
            rounds: Rounds::new(ratio, phase_units, draws),
            round: Round {
                parallel_units_per_thread: 0,
                serial_units: 0,
            },
            absent: 0,
            generation: 0,
            seen: vec![0; threads],
            state: vec![State::Waited; threads],
        }
    }

    /// The same, whose threads use memory like this while they compute.
    pub fn with_memory(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    fn pause(&self, futex: Futex) -> Step {
        match self.wait {
            Wait::Passive => Step::Wait(futex),
            Wait::Active => Step::Spin(futex),
        }
    }

    fn compute_parallel(&mut self, thread: usize) -> Step {
        self.state[thread] = State::Computed;
        self.seen[thread] = self.generation;
        Step::Compute(self.round.parallel_units_per_thread * self.unit_ns)
    }

    /// The main thread begins a round.
    fn begin_round(&mut self) -> Step {
        self.round = self.rounds.next_round();
        if self.round.parallel_units_per_thread == 0 {
            return self.serial_phase();
        }
        self.absent = self.threads;
        self.generation += 1;
        self.state[0] = State::Forked;
        Step::Wake(FORK)
    }

    fn serial_phase(&mut self) -> Step {
        self.state[0] = State::Waited;
        Step::Compute(self.round.serial_units * self.unit_ns)
    }

    fn main_thread(&mut self) -> Step {
        match self.state[0] {
            State::Waited => self.begin_round(),
            State::Forked => self.compute_parallel(0),
            State::Computed => {
                self.absent -= 1;
                self.state[0] = State::Joined;
                if self.absent > 0 {
                    self.pause(JOIN)
                } else {
                    self.main_thread()
                }
            }
            State::Joined => self.serial_phase(),
        }
    }

    fn worker(&mut self, thread: usize) -> Step {
        if self.state[thread] == State::Computed {
            self.absent -= 1;
            if self.absent == 0 {
                self.state[thread] = State::Waited;
                return Step::Wake(JOIN);
            }
        }
        // The next phase may have begun while this one was still waking the main thread.
        if self.seen[thread] < self.generation {
            return self.compute_parallel(thread);
        }
        self.state[thread] = State::Waited;
        self.pause(FORK)
    }
}

impl Program for Synthetic {
    fn nr_threads(&self) -> usize {
        self.threads
    }

    fn next(&mut self, thread: usize, _now: Ns) -> Step {
        if thread == 0 {
            self.main_thread()
        } else {
            self.worker(thread)
        }
    }

    fn serial_ahead(&self) -> Ns {
        self.round.serial_units * self.unit_ns
    }

    fn memory(&self, _thread: usize) -> Memory {
        self.memory
    }
}
