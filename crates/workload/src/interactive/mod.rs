// SPDX-License-Identifier: GPL-2.0-only
//! A program that somebody waits for: it sleeps, runs for a short while, and says how late it was woken up.
//!
//! One process with one thread; who wants several starts several. Start at [`run`].

mod args;
mod report;

use std::hint::black_box;
use std::time::Duration;

pub use args::Args;
pub use report::{Latency, Report, SCHEMA};

use crate::signals::{self, Interrupts};
use crate::stop::{Stop, now_ns};
use crate::synthetic::work::work_unit;
use crate::synthetic::{Distribution, Draws};

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// How long it sleeps on average, uniformly between nothing and twice as long; from [`Spec::LEAST_SLEEP`].
    pub sleep: Duration,
    /// Work units of some 400 instructions each time it is awake.
    pub units: u64,
    /// How long to run; above zero.
    pub duration: Duration,
    /// Seed of the times that it sleeps.
    pub seed: u64,
    /// SIGINT and SIGTERM end the run early instead of what they did before. One run of a process at a time can.
    pub catch_interrupts: bool,
}

impl Spec {
    /// What is kept of each time that it wakes up has to fit into memory.
    pub const LEAST_SLEEP: Duration = Duration::from_micros(10);
}

impl Default for Spec {
    /// 10 s; asleep for 5 ms, awake for the time of 20 units; signals are left alone.
    fn default() -> Self {
        Self {
            sleep: Duration::from_millis(5),
            units: 20,
            duration: Duration::from_secs(10),
            seed: 1,
            catch_interrupts: false,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It would wake up too often.
    #[error("it cannot sleep for {asked:?}: 10 us at least")]
    TooShort {
        /// What was asked for.
        asked: Duration,
    },
    /// It was never woken up.
    #[error("it slept until the end: let it run for longer than {sleep:?}, which it sleeps on average")]
    Asleep {
        /// How long it sleeps on average.
        sleep: Duration,
    },
    /// Interrupts cannot be caught.
    #[error(transparent)]
    Signals(#[from] signals::Error),
}

/// Runs on the calling thread.
///
/// A latency is the time from when the timer was to expire to when the thread asks the clock, in user space. Leaks some hundred
/// bytes per run, which a late signal handler may still read.
///
/// # Errors
/// If the time to sleep is too short, or so long that it never woke up, or interrupts cannot be caught.
pub fn run(spec: &Spec) -> Result<Report, Error> {
    if spec.sleep < Spec::LEAST_SLEEP {
        return Err(Error::TooShort { asked: spec.sleep });
    }
    let stop: &'static Stop = Box::leak(Box::default());
    let _interrupts = spec
        .catch_interrupts
        .then(|| Interrupts::catch(stop))
        .transpose()?;
    let as_ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    // The kernel lets timers expire late by 50 us otherwise, whatever the scheduler does.
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let started_at_ns = now_ns();
    let end_ns = started_at_ns.saturating_add(as_ns(spec.duration));
    let mut late_ns = Vec::new();
    for draw in Draws::new(Distribution::Uniform, spec.seed) {
        let sleep_ns = (as_ns(spec.sleep) as f64 * draw) as u64;
        let due_ns = now_ns().saturating_add(sleep_ns);
        if due_ns >= end_ns {
            stop.sleep_until(end_ns);
            break;
        }
        stop.sleep_until(due_ns);
        if stop.is_set() {
            break;
        }
        late_ns.push(now_ns().saturating_sub(due_ns));
        black_box((0..spec.units).fold(spec.seed, |state, _| work_unit(state)));
    }
    let duration_s = (now_ns() - started_at_ns).max(1) as f64 / 1e9;
    let latency = Latency::of(&late_ns).ok_or(Error::Asleep { sleep: spec.sleep })?;
    Ok(Report {
        schema: SCHEMA.to_owned(),
        sleep_us: spec.sleep.as_secs_f64() * 1e6,
        units: spec.units,
        seed: spec.seed,
        started_at_ns,
        duration_s,
        interrupted: stop.was_interrupted(),
        wakeups: late_ns.len() as u64,
        latency_us: latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_it_wakes_up_is_counted() {
        let spec = Spec {
            sleep: Duration::from_millis(1),
            duration: Duration::from_millis(300),
            ..Spec::default()
        };
        let report = run(&spec).unwrap();
        // It cannot wake up more often than the same draws without any latency.
        let mut asleep_s = 0.0;
        let most = Draws::new(Distribution::Uniform, 1).take_while(|draw| {
            asleep_s += draw * 1e-3;
            asleep_s < 0.3
        });
        assert!((1..=most.count() as u64).contains(&report.wakeups), "{report:?}");
        let latency = report.latency_us;
        assert!(0.0 < latency.median && latency.median <= latency.p99 && latency.p99 <= latency.most);
        assert!(!report.interrupted && report.duration_s >= 0.3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let never = Spec {
            sleep: Duration::from_secs(3600),
            duration: Duration::from_millis(5),
            ..Spec::default()
        };
        assert!(matches!(run(&never), Err(Error::Asleep { .. })));
        let restless = Spec {
            sleep: Duration::from_nanos(9_999),
            ..Spec::default()
        };
        assert!(matches!(run(&restless), Err(Error::TooShort { .. })));
    }
}
