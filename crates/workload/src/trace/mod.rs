// SPDX-License-Identifier: GPL-2.0-only
//! What was recorded by `perf sched record` (Linux 6.12 and later), as `perf sched script` prints it: who ran how long, who
//! slept, and who woke whom.
//!
//! Read are sched_switch, sched_waking (or sched_wakeup) and sched_wakeup_new; other events are passed over. Idle tasks are
//! no tasks, and the kernel's migration threads and what they wake belong to the scheduler that was recorded, not to the
//! programs: they are left out. Threads are put together to programs where perf prints their process, as it does with
//! `perf sched script -F comm,pid,tid,cpu,time,event,trace`.
//!
//! What a trace does not tell: a wake-up by an interrupt that came while a task ran counts as that task's.
//!
//! Start at [`Trace::parse`].

mod chains;
mod line;

use std::path::Path;

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// Something that a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It ran for so many nanoseconds, in one piece or several.
    Ran(u64),
    /// It slept for so long, until a timer or a device woke it.
    Slept(u64),
    /// It slept until another task woke it, that one.
    Awaited(usize),
    /// It woke this one, an index into [`Trace::tasks`].
    Woke(usize),
}

/// A task that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTask {
    /// Its thread id.
    pub tid: u32,
    /// Its process, if perf printed it.
    pub tgid: Option<u32>,
    /// Its last name.
    pub comm: String,
    /// Its last priority, as the kernel counts: 100 to 139 for nice -20 to 19, below 100 for real-time tasks, below 0 for
    /// those with a deadline.
    pub prio: i32,
    /// Whether it is a kernel thread, by its name.
    pub is_kernel_thread: bool,
    /// The CPU of a kernel thread that is bound to one, by its name.
    pub bound_to: Option<u32>,
    /// What it did, in this order.
    pub deeds: Vec<Deed>,
    /// From each wake-up to when it ran, in nanoseconds.
    pub latencies_ns: Vec<u64>,
}

impl RecordedTask {
    /// How long it ran, in nanoseconds.
    pub fn ran_ns(&self) -> u64 {
        let ran = |deed: &Deed| match deed {
            Deed::Ran(ns) => *ns,
            _ => 0,
        };
        self.deeds.iter().map(ran).sum()
    }
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// As they appear first.
    pub tasks: Vec<RecordedTask>,
    /// From the first line to the last, in nanoseconds.
    pub span_ns: u64,
    /// CPUs that something happened on.
    pub nr_cpus: usize,
    /// Sleeps whose end was not recorded, which count as ended by a timer.
    pub nr_unexplained: usize,
}

impl Trace {
    /// Reads what perf printed.
    ///
    /// # Errors
    /// If a line is none of perf's, time goes back, or nobody ran.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut chains = chains::Chains::default();
        let mut last = 0;
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            let wrong = |what: String| Error { line: number, what };
            if text.trim().is_empty() || text.trim_start().starts_with('#') {
                continue;
            }
            let line = line::parse(text).map_err(wrong)?;
            if line.at_ns < last {
                return Err(wrong(String::from(
                    "time goes back; perf prints events in their order",
                )));
            }
            last = line.at_ns;
            chains.add(&line);
        }
        let trace = chains.finish();
        if trace.tasks.is_empty() {
            let what = format!("there is no task in it; lines look like this: {}", line::FORM);
            return Err(Error { line: 1, what });
        }
        Ok(trace)
    }

    /// Whether a file begins like one that `perf record` wrote.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_perf_data(path: &Path) -> std::io::Result<bool> {
        use std::io::Read;
        let mut magic = Vec::new();
        std::fs::File::open(path)?.take(8).read_to_end(&mut magic)?;
        Ok(magic == b"PERFILE2")
    }
}
