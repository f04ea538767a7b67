// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise lab`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use threadwise_lab::guest::{Guest, Kernel};
use threadwise_lab::protocol::{Request, Response};
use threadwise_lab::run::{self, Progress};
use threadwise_lab::table;
use threadwise_machine::Machine;

use crate::experiment::{self, progress_bar};

/// Above this share of lost time `lab exec` warns. It starts programs, new code for QEMU to translate, within what it
/// counts; so it is laxer than an experiment.
const EXEC_LOST_LIMIT: f64 = 0.05;

/// A command of the lab.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Boot the experiment's machine and compare its schedulers on its programs
    Run(RunOptions),
    /// Boot a machine, run one command in it, and print what it printed
    Exec(ExecOptions),
}

/// Boot a machine, run one command in it, and print what it printed.
///
/// The guest holds this program, busybox (as `sh` and `busybox`), the scheduler, the command's program, and what
/// --program names. Its exit status is the command's.
#[derive(clap::Args)]
pub struct ExecOptions {
    /// A machine of the zoo, a machine file, or a synthetic string with a rate
    #[arg(long, short, default_value = "smp-8")]
    machine: String,

    /// Millions of instructions a second of its fastest CPU [default: what its file says]
    #[arg(long)]
    mips: Option<u32>,

    /// Attach this scheduler first, such as "scx_threadwise --slice-us 2000"
    #[arg(long)]
    scheduler: Option<String>,

    /// Count where the instructions of the run go, write them to this file as JSON and the largest to the terminal
    #[arg(long)]
    profile: Option<PathBuf>,

    /// Take this program into the guest too; may be repeated
    #[arg(long = "program")]
    programs: Vec<String>,

    /// Give up after so many seconds
    #[arg(long, default_value_t = 120)]
    deadline: u64,

    /// A folder with the kernel to boot: vmlinuz, config and release [default: what `make setup` downloaded]
    #[arg(long)]
    kernel: Option<PathBuf>,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

/// Boot the experiment's machine and compare its schedulers on its programs.
#[derive(clap::Args)]
pub struct RunOptions {
    #[command(flatten)]
    experiment: experiment::Options,

    /// A folder with the kernel to boot: vmlinuz, config and release [default: what `make setup` downloaded]
    #[arg(long)]
    kernel: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(options) => compare(options),
        Command::Exec(options) => exec(options),
    }
}

fn exec(options: ExecOptions) -> Result<ExitCode> {
    let machine = Machine::load(&options.machine)?;
    let kernel = Kernel::in_folder(&options.kernel.map_or_else(default_kernel, Ok)?)?;
    let scheduler: Vec<String> = options
        .scheduler
        .iter()
        .flat_map(|line| line.split_whitespace())
        .map(String::from)
        .collect();
    let mut image = run::base_image(&kernel)?;
    for name in options
        .programs
        .iter()
        .chain(scheduler.first())
        .chain(options.command.first())
    {
        run::add_foreign(&mut image, name)?;
    }
    let mut guest = Guest::boot(&machine, options.mips, &kernel, &image, options.profile.is_some())?;
    let deadline = Duration::from_secs(options.deadline);
    if !scheduler.is_empty() {
        guest.ask(&Request::StartScheduler { command: scheduler }, deadline)?;
    }
    let request = Request::Run {
        commands: vec![options.command],
        start_delay_ns: 0,
    };
    let (response, counted, _) = guest.ask_counting(&request, Duration::ZERO, deadline)?;
    let Response::Ran {
        outputs,
        scheduler_lost,
        ..
    } = response
    else {
        bail!("the guest gave an unexpected answer");
    };
    let output = outputs.first().context("the guest ran nothing")?;
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    if let Some(log) = scheduler_lost {
        bail!("the scheduler was thrown out: {log}");
    }
    if counted.lost_share() > EXEC_LOST_LIMIT {
        eprintln!(
            "threadwise: the host could not keep up, the machine lost {:.1} % of its time: compare no speeds, or lower --mips",
            counted.lost_share() * 100.0
        );
    }
    if let Some(path) = options.profile {
        let profile = guest.profile(deadline)?;
        std::fs::write(&path, serde_json::to_string_pretty(&profile)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprint!("{}", table::profile(&profile));
    }
    guest.power_off();
    Ok(output
        .status
        .and_then(|status| u8::try_from(status).ok())
        .map_or(ExitCode::from(2), ExitCode::from))
}

fn compare(options: RunOptions) -> Result<ExitCode> {
    let experiment = options.experiment.load()?;
    let kernel = Kernel::in_folder(&options.kernel.map_or_else(default_kernel, Ok)?)?;
    let bar = progress_bar();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot handle signals")?;
    let outcome = run::run(&experiment, &kernel, &stop, |progress| show(&bar, &progress))?;
    bar.finish_and_clear();
    if let Some(failure) = outcome.failure {
        // What was measured is not lost, but it is no result either.
        let path = format!("{}.incomplete.json", experiment.name);
        std::fs::write(&path, serde_json::to_string_pretty(&outcome.measurement)?)
            .with_context(|| format!("cannot write {path}"))?;
        return Err(anyhow::Error::from(failure)
            .context(format!("given up; what was measured until then is in {path}")));
    }
    options.experiment.report(outcome.measurement)?;
    Ok(ExitCode::SUCCESS)
}

/// Where `make setup` leaves the kernel.
fn default_kernel() -> Result<PathBuf> {
    let cache = std::env::var_os("THREADWISE_CACHE").map(PathBuf::from);
    let xdg = || std::env::var_os("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("threadwise"));
    let home = || std::env::var_os("HOME").map(|folder| PathBuf::from(folder).join(".cache/threadwise"));
    Ok(cache
        .or_else(xdg)
        .or_else(home)
        .context("neither HOME nor THREADWISE_CACHE is set")?
        .join("kernel"))
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
            bar.println(format!(
                "void, will repeat: the host lost {:.2} % of the machine's time",
                lost * 100.0
            ));
        }
    }
}
