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

use anyhow::{Context, Result, ensure};
use clap::Parser;
use crossbeam_channel::Receiver;
use scx_utils::build_id;

use options::Options;
use scheduler::{Ended, Scheduler};

/// So many restarts in a row, each after less than this, are no progress. That the kernel asks for one is noticed at the
/// loader's next look.
const HASTY_RESTARTS: u32 = 5;
const HASTY: Duration = Duration::from_secs(2);

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
    let mut hasty = 0;
    loop {
        let attached = Instant::now();
        let mut object = MaybeUninit::uninit();
        let mut scheduler = Scheduler::attach(options, &mut object)?;
        tracing::info!("{NAME} schedules this machine; press Ctrl-C to hand it back");
        match scheduler.serve(shutdown, signals)? {
            Ended::Newcomers => continue,
            Ended::Detached(exit) if !exit.should_restart() => return Ok(()),
            Ended::Detached(_) => {}
        }
        hasty = hasty_restarts(hasty, attached.elapsed());
        ensure!(
            hasty < HASTY_RESTARTS,
            "the kernel asked for {hasty} restarts within {HASTY:?} each: given up"
        );
    }
}

/// How many restarts in a row were asked for in haste, one more having been asked for after so long.
fn hasty_restarts(before: u32, lasted: Duration) -> u32 {
    if lasted < HASTY { before + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_that_are_noticed_at_the_next_look_are_hasty() {
        assert_eq!(hasty_restarts(2, scheduler::LOOK_INTERVAL), 3);
        assert_eq!(hasty_restarts(2, Duration::from_millis(20)), 3);
        assert_eq!(hasty_restarts(2, 3 * scheduler::LOOK_INTERVAL), 0);
    }
}
