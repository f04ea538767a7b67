// SPDX-License-Identifier: GPL-2.0-only
//! What the lab asks of the agent in the guest, and its answers: one JSON value a line over a
//! virtio port. One request is answered before the next is sent.

use serde::{Deserialize, Serialize};

/// The name of the virtio port, as it appears in `/sys/class/virtio-ports/*/name`.
pub const PORT_NAME: &str = "threadwise.lab";

/// Stands in a command for the CLOCK_MONOTONIC time, in nanoseconds, at which the run starts.
pub const START_PLACEHOLDER: &str = "{start}";

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Starts a sched_ext scheduler and waits until it is enabled.
    StartScheduler {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// Stops it and waits until the kernel's scheduler is back.
    StopScheduler,
    /// Starts these programs together and waits for all of them.
    Run {
        /// Program and arguments of each.
        commands: Vec<Vec<String>>,
        /// How long after now [`START_PLACEHOLDER`] is, in nanoseconds.
        start_delay_ns: u64,
    },
    /// Starts these streams together and waits for all of them; in each, programs run one after the other.
    RunStreams {
        /// Program and arguments of each program of each stream.
        streams: Vec<Vec<Vec<String>>>,
    },
    /// Asks for the kernel's symbols.
    Symbols,
    /// Switches the machine off. There is no answer.
    PowerOff,
}

impl Request {
    /// Whether programs run, which are what is measured.
    pub fn runs_programs(&self) -> bool {
        matches!(self, Self::Run { .. } | Self::RunStreams { .. })
    }
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// Sent once, after booting.
    Booted {
        /// The kernel's release.
        kernel: String,
        /// Online CPUs.
        nr_cpus: usize,
    },
    /// The scheduler is attached.
    SchedulerStarted {
        /// The name under which the kernel has it.
        ops: String,
    },
    /// The kernel's own scheduler is back.
    SchedulerStopped {
        /// Everything that the scheduler printed.
        log: String,
        /// Its exit status; none if a signal ended it.
        status: Option<i32>,
    },
    /// All programs have ended.
    Ran {
        /// One a program, in the order of the request, stream by stream.
        outputs: Vec<Output>,
        /// If the scheduler did not last: the end of its log and of the kernel's.
        scheduler_lost: Option<String>,
    },
    /// The kernel's symbols.
    Symbols {
        /// /proc/kallsyms.
        kallsyms: String,
    },
    /// The request could not be carried out.
    Failed {
        /// Why.
        message: String,
    },
}

/// What one program left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Output {
    /// Exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about, and in a last line by which signal it ended, if by one.
    pub stderr: String,
    /// From its start to its end, in nanoseconds.
    pub elapsed_ns: u64,
}
