// SPDX-License-Identifier: GPL-2.0-only
//! How many threads of a program are ready over time, as thread-essence, Fig. 1 shows it of "equake".
//!
//! A sampler looks at the state of each thread of the program in /proc: a thread in state R is running or runnable, which is
//! what the scheduler calls ready. Threads that wait actively are ready too. What happens between two looks is not seen;
//! children of the program are not counted.
//!
//! Start at [`trace`].

mod picture;
mod sampler;
mod series;

use std::io;

pub use sampler::{Spec, trace};
pub use series::{Point, SCHEMA, Series};

/// Why there is no series.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to run.
    #[error("no command to run")]
    NoCommand,
    /// Looks cannot be that near to each other.
    #[error(
        "an interval of {ns} ns between two looks is out of range: it must be from 100000 to 10000000000"
    )]
    Interval {
        /// What was asked for.
        ns: u64,
    },
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Its threads cannot be looked at.
    #[error("cannot read {path}: {source}")]
    Proc {
        /// The file.
        path: String,
        /// The system's reason.
        source: io::Error,
    },
    /// It ended before the first look.
    #[error("{program} ended before it was looked at: use a shorter interval or a longer run")]
    TooShort {
        /// Its name.
        program: String,
    },
}
