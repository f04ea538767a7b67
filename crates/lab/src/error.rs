// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or process operation failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        what: &'static str,
        /// What it was done on.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Something that `make setup` installs is not there.
    #[error("{what} is missing: run make setup")]
    Missing {
        /// The tool or file.
        what: String,
    },
    /// A program to take into the guest is not there.
    #[error(
        "the program {name} is neither beside threadwise nor on PATH: make build makes ours and installs Debian's, \
         make peers builds other schedulers"
    )]
    NoProgram {
        /// Its name.
        name: String,
    },
    /// The experiment file is wrong.
    #[error("{path}: {message}")]
    Experiment {
        /// The file.
        path: PathBuf,
        /// The place in it and what is wrong.
        message: String,
    },
    /// The machine file or string is wrong.
    #[error(transparent)]
    Machine(#[from] threadwise_machine::Error),
    /// The machine cannot be emulated.
    #[error("machine {machine}: {message}")]
    Unsuitable {
        /// The machine's name.
        machine: String,
        /// Why, and what to do.
        message: String,
    },
    /// The guest panicked, hung or went away.
    #[error("the guest {what}; the end of its console:\n{console}")]
    Guest {
        /// What it did, as a predicate.
        what: String,
        /// The last lines of its console.
        console: String,
    },
    /// The guest did not answer in time.
    #[error("the guest did not {what} within {} s; the end of its console:\n{console}", after.as_secs())]
    Hung {
        /// What it should have done, as a verb.
        what: String,
        /// The deadline.
        after: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// Something in the guest answered that it failed.
    #[error("in the guest: {0}")]
    InGuest(String),
    /// The scheduler under test ended while a program ran.
    #[error("scheduler {scheduler} was thrown out during {run}; its last words:\n{log}")]
    ThrownOut {
        /// The scheduler's name.
        scheduler: String,
        /// The run that was under way.
        run: String,
        /// The end of its log and of the kernel's.
        log: String,
    },
    /// The host could not keep up with the emulated machine.
    #[error(
        "the host could not keep up in {attempts} attempts at {run}; in the last one {why}. Stop what else runs on \
         this machine, or lower mips, with --mips or in the machine file"
    )]
    Overloaded {
        /// The run.
        run: String,
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt in which the host was late was void.
        why: String,
    },
    /// The host kept up, but a program took longer to load than the programs of a run wait for each other.
    #[error(
        "in {attempts} attempts at {run} the host kept up, but a program was not loaded at the common start: raise \
         start_delay_s in the experiment, or mips, with --mips or in the machine file"
    )]
    NotLoaded {
        /// The run.
        run: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
    /// A figure could not be computed from what was measured.
    #[error("cannot evaluate the results: {0}")]
    Metrics(#[from] threadwise_metrics::Error),
    /// The fluid bound of the experiment's programs could not be computed.
    #[error("cannot compute the fluid bound: {0}")]
    Model(#[from] threadwise_model::fluid::Error),
}

impl Error {
    /// Whether a guest ended as only an emulated one does: it met the breakpoint that the kernel sets while it patches code, as for a
    /// scheduler that attaches or detaches, after that was taken back. The more CPUs and schedulers, the more often: under QEMU 10.0, with 32
    /// and 64 CPUs and five schedulers, in three of nine rounds.
    pub fn is_the_emulators(&self) -> bool {
        matches!(self, Self::Guest { console, .. } | Self::Hung { console, .. } if console.contains("Oops: int3"))
    }

    /// The same of the last of so many guests, and what to do.
    pub(crate) fn of_many(self, nr_lost: u32) -> Self {
        match self {
            Self::Guest { what, console } => Self::Guest {
                what: format!(
                    "{what}, and it is the emulator's fault: so were {nr_lost} in a row before a round was complete. With fewer CPUs or \
                     schedulers that is rarer"
                ),
                console,
            },
            other => other,
        }
    }
}

/// Names the operation and the path of an I/O error.
pub(crate) fn io_error(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
    let path = path.as_ref().to_path_buf();
    move |source| Error::Io { what, path, source }
}
