// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong before anything is run.

/// Why a question about assignments has no answer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A machine beyond what a place in an assignment can number.
    #[error("a machine of {nr} hardware threads is too large: 65,535 is the most")]
    TooManyCpus {
        /// Its hardware threads.
        nr: usize,
    },
    /// More threads than places.
    #[error(
        "{threads} threads do not fit on {cpus} hardware threads, one on each: ask for fewer threads or instances"
    )]
    TooManyThreads {
        /// Threads of all instances.
        threads: usize,
        /// Hardware threads.
        cpus: usize,
    },
    /// Nothing to assign.
    #[error("{what} must be at least 1")]
    Zero {
        /// Of what.
        what: &'static str,
    },
    /// Tables that nobody could fill.
    #[error(
        "the tables have {nr} entries, 2,000,000 are the most: select with --budget, which needs \
         only some of them"
    )]
    TooManyExperiments {
        /// Entries of both tables.
        nr: String,
    },
    /// An unknown level.
    #[error("the machine has no level \"{level}\"; it has {known}")]
    UnknownLevel {
        /// What was asked for.
        level: String,
        /// What there is.
        known: String,
    },
    /// Nothing lies between.
    #[error("a \"{level}\" does not hold several of a \"{scope}\": `beyond` must name a level further out")]
    NotBeyond {
        /// What was asked for.
        level: String,
        /// The scope's level.
        scope: String,
    },
    /// A Slowdown Table over too much hardware.
    #[error(
        "a Slowdown Table over the {cpus} hardware threads of a \"{level}\" is out of reach: \
         {max} is the most, choose a level further in"
    )]
    ScopeTooLarge {
        /// The level.
        level: String,
        /// Hardware threads of one of its members.
        cpus: usize,
        /// The most.
        max: usize,
    },
    /// No assignment that the tables have all entries for.
    #[error(
        "no assignment of {threads} threads could be predicted: the tables lack entries; go on profiling, or search longer"
    )]
    Unpredictable {
        /// Threads of all instances.
        threads: usize,
    },
    /// An assignment that is none.
    #[error("{problem}")]
    Assignment {
        /// What is wrong with it, and what to do.
        problem: String,
    },
}
