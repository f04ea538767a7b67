// SPDX-License-Identifier: GPL-2.0-only
//! One command after the other in a guest, each under a scheduler of its own or the kernel's.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::governor::CacheUse;
use crate::guest::Guest;
use crate::protocol::{Request, Response};

/// A command to carry out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The scheduler to attach before it and to stop after it, with its arguments; empty for the kernel's.
    #[serde(default)]
    pub scheduler: Vec<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Give up if the command takes longer than so many seconds.
    #[serde(default = "default_deadline_s")]
    pub deadline_s: u64,
    /// Whether the CPUs have the machine's speed meanwhile, or are as fast as the host can, where no speed matters.
    #[serde(default = "default_governed")]
    pub governed: bool,
}

fn default_deadline_s() -> u64 {
    120
}

fn default_governed() -> bool {
    true
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// From its start to its end, in nanoseconds.
    pub elapsed_ns: u64,
    /// The share of the time that the CPUs wanted to run and the host could not deliver; 0 if they were not governed.
    pub lost: f64,
    /// The share of quanta that came late, but could be caught up.
    #[serde(default)]
    pub late: f64,
    /// For how long the machine's time stood still meanwhile because the host was late, in nanoseconds of the host's.
    #[serde(default)]
    pub stood_still_ns: u64,
    /// What the last-level caches did meanwhile, if they are modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheUse>,
    /// How its scheduler fared, if it had one.
    pub scheduler: Option<SchedulerEnd>,
}

/// How a scheduler ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulerEnd {
    /// Whether it was no longer there when the command ended.
    pub thrown_out: bool,
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// All that it printed.
    pub log: String,
}

/// Carries a command out. Whatever it leaves running is ended, and its scheduler is stopped.
///
/// # Errors
/// If the scheduler cannot be attached or the command cannot be started, and as [`Guest::ask`].
pub fn exec(guest: &mut Guest, job: &Job) -> Result<Done, Error> {
    if job.scheduler.is_empty() {
        let (done, _) = run(guest, job)?;
        guest.learn_symbols()?;
        return Ok(done);
    }
    guest.start_scheduler(job.scheduler.clone())?;
    let ran = match run(guest, job) {
        // A guest that is gone has none to stop.
        Err(error) if !matches!(error, Error::InGuest(_)) => return Err(error),
        ran => ran,
    };
    guest.learn_symbols()?;
    // Also if the command could not be started: whoever is next asks for another scheduler.
    let (status, log) = guest.stop_scheduler()?;
    let (done, thrown_out) = ran?;
    Ok(Done {
        scheduler: Some(SchedulerEnd {
            thrown_out,
            status,
            log,
        }),
        ..done
    })
}

/// Runs the command under whatever scheduler there is, and says whether that was thrown out.
fn run(guest: &mut Guest, job: &Job) -> Result<(Done, bool), Error> {
    guest.governed = job.governed;
    let request = Request::Run {
        commands: vec![job.command.clone()],
        start_delay_ns: 0,
    };
    let deadline = Duration::from_secs(job.deadline_s);
    let (response, counted) = guest.ask_counting(&request, Duration::ZERO, None, deadline)?;
    let Response::Ran {
        mut outputs,
        scheduler_lost,
    } = response
    else {
        return Err(Error::InGuest(format!(
            "an unexpected answer to a run: {response:?}"
        )));
    };
    let output = outputs
        .pop()
        .ok_or_else(|| Error::InGuest("nothing ran".into()))?;
    let done = Done {
        status: output.status,
        stdout: output.stdout,
        stderr: output.stderr,
        elapsed_ns: output.elapsed_ns,
        lost: counted.all.lost_share(),
        late: counted.all.late_share(),
        stood_still_ns: counted.stood_still.as_nanos() as u64,
        caches: counted.all.cache_use(),
        scheduler: None,
    };
    Ok((done, scheduler_lost.is_some()))
}
