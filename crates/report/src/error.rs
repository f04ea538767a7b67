// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// An error of a report or of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store holds something else, or was written by a later version.
    #[error("{path} is no store of runs: {problem}. Give another --store")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        problem: String,
    },
    /// SQLite cannot do it.
    #[error("store {path}: {source}. Mend or delete the file, give another --store, or --no-store")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: rusqlite::Error,
    },
    /// A stored run cannot be read.
    #[error("run {id} in {path} is damaged: {problem}. Delete it with: threadwise runs delete {id}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The run.
        id: i64,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no such run.
    #[error("{wanted:?} is no run in {path} and no file: threadwise runs list shows them")]
    Unknown {
        /// The store.
        path: PathBuf,
        /// What was asked for.
        wanted: String,
    },
    /// A file is no run.
    #[error("{path} holds no run: {problem}. threadwise runs export writes such files")]
    NoRun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file that says what is reproduced is wrong.
    #[error("{path}: {problem}")]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A run cannot be gone on with.
    #[error("run {id} cannot be resumed: {why}")]
    NotResumable {
        /// The run.
        id: i64,
        /// Why not, and what to do.
        why: String,
    },
    /// Two runs have nothing in common.
    #[error("nothing to compare: {0}")]
    Incomparable(String),
    /// A file operation failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// What it was done on.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A figure could not be computed.
    #[error(transparent)]
    Metrics(#[from] threadwise_metrics::Error),
    /// The samples could not be evaluated.
    #[error(transparent)]
    Lab(Box<threadwise_lab::Error>),
    /// The machine could not be read back.
    #[error(transparent)]
    Machine(Box<threadwise_machine::Error>),
}

impl From<threadwise_lab::Error> for Error {
    fn from(error: threadwise_lab::Error) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl From<threadwise_machine::Error> for Error {
    fn from(error: threadwise_machine::Error) -> Self {
        Self::Machine(Box::new(error))
    }
}
