// SPDX-License-Identifier: GPL-2.0-only
//! `scx_threadwise`: loads the BPF program, reports its statistics, and unloads it.
//!
//! The scheduling decisions are in `policy/`; the hooks that apply them in `bpf/main.bpf.c`.
//! Start at [`run`].

mod alternation;
#[allow(clippy::all, missing_docs)]
mod bpf_intf;
mod bpf_skel;
mod calibrate;
mod cgroups;
mod configure;
mod cores;
mod mode;
mod newcomers;
mod online;
mod options;
mod pairing;
mod programs;
mod record;
mod scheduler;
mod speeds;
mod stats;

use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use clap::Parser;
use crossbeam_channel::Receiver;
use scx_utils::build_id;

use options::Options;
use scheduler::{Ended, Scheduler};

/// So many restarts in a row, each of which failed or was asked for after less than this, are no progress. That the kernel asks
/// for one is noticed at the loader's next look.
const HASTY_RESTARTS: u32 = 5;
const HASTY: Duration = Duration::from_secs(2);
const GIVEN_UP: &str = "given up after five restarts in a row that failed, or that the kernel asked for within 2 s each: start \
                        again once CPUs stay as they are";

/// The command's name, as it appears in messages.
const NAME: &str = "scx_threadwise";

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> Result<()> {
    if options.version {
        println!("{NAME} {}", build_id::full_version(env!("CARGO_PKG_VERSION")));
        return Ok(());
    }
    if options.help_stats {
        return stats::server_data(0).describe_meta(&mut std::io::stdout(), None);
    }
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .with_max_level(if options.verbose {
            tracing::Level::DEBUG
        } else {
            tracing::Level::INFO
        })
        .init();
    let shutdown = Arc::new(AtomicBool::new(false));
    let (signal, signals) = crossbeam_channel::unbounded();
    let flag = shutdown.clone();
    ctrlc::set_handler(move || {
        flag.store(true, Ordering::Relaxed);
        // Only a program that ends has nobody who listens.
        let _ = signal.send(());
    })
    .context("cannot handle signals")?;

    if let Some(seconds) = options.monitor {
        return stats::monitor(Duration::from_secs_f64(seconds), options.format, shutdown);
    }
    scheduler::check_kernel()?;
    if let Some(seconds) = options.stats {
        let (format, shutdown) = (options.format, shutdown.clone());
        std::thread::spawn(move || stats::monitor(Duration::from_secs_f64(seconds), format, shutdown));
    }
    schedule(&options, &shutdown, &signals)
}

/// Runs the scheduler until it is told to stop or the kernel ends it; the kernel may ask for a restart, for example when a CPU was
/// plugged in, and CPUs of which it was not told do.
fn schedule(options: &Options, shutdown: &AtomicBool, signals: &Receiver<()>) -> Result<()> {
    if let Some(path) = &options.record {
        record::begin(path)?;
    }
    let mut attempts = Attempts::default();
    loop {
        let mut object = MaybeUninit::uninit();
        let mut scheduler = match Scheduler::attach(options, &mut object) {
            Ok(scheduler) => scheduler,
            Err(error) => {
                attempts.failed(error)?;
                if shutdown.load(Ordering::Relaxed) {
                    return Ok(());
                }
                continue;
            }
        };
        let attached = Instant::now();
        tracing::info!("{NAME} schedules this machine; press Ctrl-C to hand it back");
        match scheduler.serve(shutdown, signals)? {
            Ended::Detached(exit) if !exit.should_restart() => return Ok(()),
            Ended::Newcomers | Ended::Detached(_) => attempts.lasted(attached.elapsed())?,
        }
    }
}

/// How the scheduler fared until now.
#[derive(Debug, Default)]
struct Attempts {
    /// Whether it was attached at all.
    was_attached: bool,
    /// How many restarts in a row were asked for in haste, or failed.
    hasty: u32,
}

impl Attempts {
    /// A restart was asked for after so long.
    ///
    /// # Errors
    /// If too many were, each in haste.
    fn lasted(&mut self, lasted: Duration) -> Result<()> {
        self.was_attached = true;
        self.hasty = if lasted < HASTY { self.hasty + 1 } else { 0 };
        ensure!(!self.are_too_many(), GIVEN_UP);
        Ok(())
    }

    /// It could not be attached. What fails at first does so again, but who starts anew because CPUs come may find that others go
    /// meanwhile.
    ///
    /// # Errors
    /// That error, if the scheduler was never attached, or if this was the last of too many restarts.
    fn failed(&mut self, error: Error) -> Result<()> {
        if !self.was_attached {
            return Err(error);
        }
        self.hasty += 1;
        if self.are_too_many() {
            return Err(error.context(GIVEN_UP));
        }
        tracing::warn!("cannot start anew, trying again: {error:#}");
        Ok(())
    }

    fn are_too_many(&self) -> bool {
        self.hasty >= HASTY_RESTARTS
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn restarts_that_are_noticed_at_the_next_look_are_hasty() {
        let hasty_after = |lasted| {
            let mut attempts = Attempts {
                was_attached: true,
                hasty: 2,
            };
            attempts.lasted(lasted).expect("not too many");
            attempts.hasty
        };
        assert_eq!(hasty_after(scheduler::LOOK_INTERVAL), 3);
        assert_eq!(hasty_after(Duration::from_millis(20)), 3);
        assert_eq!(hasty_after(3 * scheduler::LOOK_INTERVAL), 0);
    }

    #[test]
    fn a_restart_that_fails_is_tried_again_but_not_for_ever_and_no_first_start_is() {
        let fails = |attempts: &mut Attempts| attempts.failed(anyhow!("CPU 3 is gone"));
        let first = fails(&mut Attempts::default()).expect_err("it never was attached");
        assert_eq!(first.to_string(), "CPU 3 is gone");

        let mut attempts = Attempts::default();
        for _ in 0..2 {
            attempts.lasted(2 * HASTY).expect("it went well");
            for _ in 1..HASTY_RESTARTS {
                fails(&mut attempts).expect("it may try again");
            }
        }
        let last = format!("{:#}", fails(&mut attempts).expect_err("that was the last"));
        assert!(
            last.starts_with("given up after five restarts") && last.ends_with(": CPU 3 is gone"),
            "{last}"
        );
    }
}
