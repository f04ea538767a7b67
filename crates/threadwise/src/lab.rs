// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise lab`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use threadwise_lab::evaluate::evaluate;
use threadwise_lab::experiment::Experiment;
use threadwise_lab::guest::Kernel;
use threadwise_lab::run::{self, Progress};
use threadwise_lab::table;

use crate::Format;

/// A command of the lab.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Boot the experiment's machine and compare its schedulers on its programs
    Run(RunOptions),
}

/// Boot the experiment's machine and compare its schedulers on its programs.
#[derive(clap::Args)]
pub struct RunOptions {
    /// The experiment file
    experiment: PathBuf,

    /// Repeat everything so often, instead of what the file says
    #[arg(long)]
    rounds: Option<u32>,

    /// Let synthetic programs run so long, instead of what the file says
    #[arg(long)]
    seconds: Option<f64>,

    /// The first seed, instead of the file's
    #[arg(long)]
    seed: Option<u64>,

    /// A folder with the kernel to boot: vmlinuz, config and release [default: what `make setup` downloaded]
    #[arg(long)]
    kernel: Option<PathBuf>,

    /// Write the results to this file too, as JSON
    #[arg(long, short)]
    output: Option<PathBuf>,

    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Carries the command out.
pub fn run(command: Command) -> Result<()> {
    let Command::Run(options) = command;
    let mut experiment = Experiment::from_file(&options.experiment)?;
    experiment.rounds = options.rounds.unwrap_or(experiment.rounds);
    experiment.seconds = options.seconds.unwrap_or(experiment.seconds);
    experiment.seed = options.seed.unwrap_or(experiment.seed);
    experiment.check().map_err(anyhow::Error::msg)?;
    let kernel = Kernel::in_folder(&options.kernel.map_or_else(default_kernel, Ok)?)?;
    let bar = progress_bar();
    let outcome = run::run(&experiment, &kernel, |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    if let Some(failure) = outcome.failure {
        // What was measured is not lost, but it is no result either.
        let path = format!("{}.incomplete.json", experiment.name);
        std::fs::write(&path, serde_json::to_string_pretty(&outcome.measurement)?)
            .with_context(|| format!("cannot write {path}"))?;
        return Err(anyhow::Error::from(failure).context(format!("given up; what was measured until then is in {path}")));
    }
    let evaluation = evaluate(outcome.measurement)?;
    let json = serde_json::to_string_pretty(&evaluation)?;
    if let Some(path) = options.output {
        std::fs::write(&path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match options.format {
        Format::Text => print!("{}", table::render(&evaluation)),
        Format::Json => println!("{json}"),
    }
    Ok(())
}

/// Where `make setup` leaves the kernel.
fn default_kernel() -> Result<PathBuf> {
    let cache = std::env::var_os("THREADWISE_CACHE").map(PathBuf::from);
    let xdg = || std::env::var_os("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("threadwise"));
    let home = || std::env::var_os("HOME").map(|folder| PathBuf::from(folder).join(".cache/threadwise"));
    Ok(cache.or_else(xdg).or_else(home).context("neither HOME nor THREADWISE_CACHE is set")?.join("kernel"))
}

/// On a terminal only: indicatif hides it elsewhere.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len} {eta}").expect("a constant template");
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}

fn show(bar: &ProgressBar, progress: &Progress) {
    match progress {
        Progress::Booting => bar.set_message("booting the guest"),
        Progress::Switching(scheduler) => bar.set_message(format!("attaching {scheduler}")),
        Progress::Running(scheduler, run, number, total) => {
            bar.set_length(u64::from(*total));
            bar.set_position(u64::from(number - 1));
            bar.set_message(format!("{} under {scheduler}", run.join(" + ")));
        }
        Progress::Void(lost) => {
            bar.println(format!("void, will repeat: the host lost {:.2} % of the machine's time", lost * 100.0));
        }
    }
}
