// SPDX-License-Identifier: GPL-2.0-only
//! A program whose speed is that of memory: threads that read and write the lines of a working set.
//!
//! It stands in for the programs of "Process Scheduling Challenges in the Era of Multi-core Processors"
//! (multicore-scheduling), Tables 1 and 2: a set that fits into a cache or does not, an order in which prefetchers and
//! caches help or do not, threads that share the set (SPECjbb, IMDS) or have one each (SPECfp_rate). There is no order
//! without locality besides [`Pattern::Random`] in a set larger than all caches.
//!
//! Start at [`run`].

mod args;
pub(crate) mod lines;
mod program;
mod report;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use args::Args;
pub use lines::LINE_BYTES;
pub use program::run;
pub use report::{Report, SCHEMA};

use crate::signals;

/// In which order lines are accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other, round and round: prefetchers know what comes next.
    Sequential,
    /// Each line says which comes next, in one random cycle through all: every access waits for the one before.
    #[default]
    Chase,
    /// Random lines, independent of each other: several accesses can be under way at a time.
    Random,
}

/// Whose the lines are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Each thread has a working set of its own.
    #[default]
    Private,
    /// All threads have the same one. Writes are atomic.
    Shared,
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Threads; at least 1. The calling thread sleeps.
    pub threads: u32,
    /// The working set: of each thread if private, of all together if shared. At least a line, at most
    /// [`Spec::MAX_BYTES`]; rounded down to whole lines.
    pub bytes: u64,
    /// The order of accesses.
    pub pattern: Pattern,
    /// Whose the lines are.
    pub sharing: Sharing,
    /// The working set is the beginning of this file, which is made, or made longer, if need be: one memory for all processes that name
    /// it, a shared-memory segment if it is in `/dev/shm`. It is only read, and has no chain, so that no process waits
    /// for what another writes.
    pub file: Option<PathBuf>,
    /// Of 100 accesses so many write too; 0 to 100.
    pub write_percent: u32,
    /// Steps of a calculation in registers between two accesses, some ten instructions each.
    pub compute: u32,
    /// How long to run; above zero.
    pub duration: Duration,
    /// End after so many accesses of each thread, if that is earlier.
    pub accesses: Option<u64>,
    /// Seed of random orders.
    pub seed: u64,
    /// When to start, on CLOCK_MONOTONIC in ns; `None` is at once.
    pub start_at_ns: Option<u64>,
    /// SIGINT and SIGTERM end the run early instead of what they did before. One run of a process at a time can.
    pub catch_interrupts: bool,
}

impl Spec {
    /// The largest working set, 64 GiB.
    pub const MAX_BYTES: u64 = 64 << 30;
}

impl Default for Spec {
    /// One thread that chases through 4 MiB for 10 s and writes nothing; signals are left alone.
    fn default() -> Self {
        Self {
            threads: 1,
            bytes: 4 << 20,
            pattern: Pattern::default(),
            sharing: Sharing::default(),
            file: None,
            write_percent: 0,
            compute: 0,
            duration: Duration::from_secs(10),
            accesses: None,
            seed: 1,
            start_at_ns: None,
            catch_interrupts: false,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the specification is out of range.
    #[error("{what} of {value} is out of range: it must be from {least} to {most}")]
    OutOfRange {
        /// What it is, with an article.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The least that is possible.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The working sets do not fit into memory.
    #[error("no memory for a working set of {bytes} bytes: ask for less, or for fewer threads")]
    NoMemory {
        /// The size of one.
        bytes: u64,
    },
    /// A file is to be the working set, and something else goes only with memory of its own.
    #[error("a working set in a file is shared and only read, in an order without chain: {what}")]
    OfFile {
        /// What does not go with it, and what would.
        what: &'static str,
    },
    /// A file cannot be the working set.
    #[error("cannot have {bytes} bytes of {path} as working set: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// How much of it was asked for.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The common start had passed before the working sets were there.
    #[error("the start time {start_at_ns} ns is past: it was {now_ns} ns when the working sets were ready")]
    StartPassed {
        /// What was asked for.
        start_at_ns: u64,
        /// When the program was ready.
        now_ns: u64,
    },
    /// Memory does not hold what was written.
    #[error("{written} writes were made, but the lines hold {held}: memory or this program is broken")]
    Lost {
        /// What the threads wrote.
        written: u64,
        /// What the lines hold.
        held: u64,
    },
    /// A thread could not be created.
    #[error("cannot create thread {thread}: {source}; ask for fewer threads or raise `ulimit -u`")]
    Thread {
        /// The one that failed, from 0.
        thread: u32,
        /// The system's reason.
        source: io::Error,
    },
    /// Interrupts cannot be caught.
    #[error(transparent)]
    Signals(#[from] signals::Error),
}
