// SPDX-License-Identifier: GPL-2.0-only
//! The synthetic benchmark of thread-essence, Fig. 4, as a program of real threads.
//!
//! A round is a parallel phase, in which all threads perform work units, a join, and a serial phase, in which only the
//! main thread is ready. The pseudo-code of Fig. 4 divides the serial length by the number of cores although each
//! thread performs the whole of `parallel_iterations`; equation 1 does not, and equation 1 is what the labels of the
//! paper's tables mean, so [`phases::Rounds`] follows it.
//!
//! The library prints nothing and never takes more threads than it reports. Start at [`run`].

mod args;
pub mod phases;
pub mod probe;
mod program;
mod reading;
mod report;
pub mod stages;
mod team;
pub mod work;

use std::io;
use std::time::Duration;

pub use args::Args;
pub use phases::{Distribution, Draws};
pub use program::run;
pub use reading::Reading;
pub use report::{Report, SCHEMA};
pub use team::Wait;

use crate::Ratio;
use crate::memory::LINE_BYTES;
use crate::signals;
pub use crate::stop::{Stop, now_ns};

/// The longest mean phase, in work units: whole numbers up to some thousand times this are exact in `f64`.
pub const MAX_PHASE_UNITS: u64 = 1 << 40;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Parallel to serial work.
    pub ratio: Ratio,
    /// Threads in a parallel phase, the calling thread included; at least 1.
    pub threads: u32,
    /// How long to run; above zero.
    pub duration: Duration,
    /// Mean phase length.
    pub phase: PhaseLength,
    /// Distribution of the phase lengths.
    pub distribution: Distribution,
    /// How threads wait for each other.
    pub wait: Wait,
    /// Seed of the phase lengths, and of what is read.
    pub seed: u64,
    /// What threads read while they work; nothing by default.
    pub reading: Option<Reading>,
    /// When to start the first phase, on CLOCK_MONOTONIC in ns; `None` is at once.
    pub start_at_ns: Option<u64>,
    /// SIGINT and SIGTERM end the run early instead of what they did before. One run of a process at a time can.
    pub catch_interrupts: bool,
}

impl Default for Spec {
    /// A (1:1) program with a thread for each CPU available, for 10 s, with phases of 20 ms; signals are left alone.
    fn default() -> Self {
        Self {
            ratio: "1:1".parse().expect("1:1 is a ratio"),
            threads: args::available_cpus(),
            duration: Duration::from_secs(10),
            phase: PhaseLength::Milliseconds(20.0),
            distribution: Distribution::default(),
            wait: Wait::default(),
            seed: 1,
            reading: None,
            start_at_ns: None,
            catch_interrupts: false,
        }
    }
}

/// The mean length of a phase for each thread that is ready in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhaseLength {
    /// In work units, 1 to [`MAX_PHASE_UNITS`]: the same on every run and machine.
    Units(u64),
    /// In ms of one thread at its best, above zero: calibrated at the start, so it varies.
    Milliseconds(f64),
}

/// Why the benchmark did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program has at least one thread.
    #[error("a program of 0 threads does nothing: ask for 1 or more")]
    NoThreads,
    /// Nothing can be measured in no time.
    #[error("a run of 0 s measures nothing: ask for a duration above zero")]
    NoDuration,
    /// The mean phase length is out of range.
    #[error("a mean phase of {phase:?} is out of range: it must be from 1 to {MAX_PHASE_UNITS} work units")]
    PhaseLength {
        /// What was asked for.
        phase: PhaseLength,
    },
    /// What threads are to read is out of range.
    #[error(
        "reading {reading:?} is out of range: it needs a line of {LINE_BYTES} bytes and an access in 1000 units"
    )]
    Reading {
        /// What was asked for.
        reading: Reading,
    },
    /// The working sets do not fit into memory.
    #[error("no memory for working sets of {bytes} bytes: ask for less, or for fewer threads")]
    NoMemory {
        /// The size of one.
        bytes: u64,
    },
    /// The common start had passed before all threads were there.
    #[error(
        "the start time {start_at_ns} ns is past: it was {now_ns} ns on CLOCK_MONOTONIC when the threads were ready; \
         allow {late_ns} ns more, and give --phase-units to skip the calibration"
    )]
    StartPassed {
        /// What was asked for.
        start_at_ns: u64,
        /// When the program was ready.
        now_ns: u64,
        /// The difference.
        late_ns: u64,
    },
    /// Another run of this process catches SIGINT and SIGTERM.
    #[error(
        "another run in this process catches SIGINT and SIGTERM already: set catch_interrupts for one at a time"
    )]
    InterruptsTaken,
    /// A thread could not be created.
    #[error(
        "cannot create thread {thread} of {threads}: {source}; ask for fewer threads or raise `ulimit -u`"
    )]
    Thread {
        /// The one that failed; the main thread is 1.
        thread: u32,
        /// All that were asked for.
        threads: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// A system call failed that should not.
    #[error("{call} failed: {source}")]
    System {
        /// Its name.
        call: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl From<signals::Error> for Error {
    fn from(error: signals::Error) -> Self {
        match error {
            signals::Error::InterruptsTaken => Self::InterruptsTaken,
            signals::Error::System { call, source } => Self::System { call, source },
        }
    }
}
