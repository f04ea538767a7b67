// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use threadwise_lab::run::Label;

use crate::repeat;

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
    /// The store, or its folder, cannot be opened or made.
    #[error("cannot open store {path}: {why}. Give another --store, or --no-store")]
    Unopened {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The store can be read, and should be written to.
    #[error(
        "store {path} may not be written to: give yourself write access to it and its folder, or give another --store, or \
         --no-store"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The store's file is damaged.
    #[error("store {path}: {source}. Mend or delete the file, or give another --store")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite says of it.
        source: rusqlite::Error,
    },
    /// SQLite cannot do it, for any other reason.
    #[error("store {path}: {source}. Try again when that is mended, or give another --store, or --no-store")]
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
    /// A run is gone on with by another command: it is a simulation, or one of the lab, and the other was asked for.
    #[error("run {id} was {}: go on with threadwise {} --resume {id}", came_about(*label), repeat::command_of(*label))]
    OtherKind {
        /// The run.
        id: i64,
        /// What it is.
        label: Label,
    },
    /// A run has fewer than two complete rounds, so that nothing of it has a spread.
    #[error("{called} {state} {complete} of {rounds} rounds, and two are needed: {what_to_do}")]
    TooFewRounds {
        /// What its user calls the run.
        called: String,
        /// What became of it, as far as it matters.
        state: &'static str,
        /// Rounds that were measured in full.
        complete: usize,
        /// Rounds of the experiment.
        rounds: u32,
        /// As a command, if there is one.
        what_to_do: String,
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

impl Error {
    /// Of a store in which SQLite failed: what can be done about it depends on why.
    pub(crate) fn of_store(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign {
                path,
                problem: String::from("no SQLite file"),
            },
            Some(ErrorCode::CannotOpen) => Self::Unopened {
                path,
                why: source.to_string(),
            },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, source },
            _ => Self::Sqlite { path, source },
        }
    }
}

fn came_about(label: Label) -> &'static str {
    match label {
        Label::Lab => "measured in the lab",
        Label::Simulated => "simulated",
    }
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
