// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise lab`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use threadwise_lab::exec::{self, Job};
use threadwise_lab::experiment::{Experiment, LeftOut, Scheduler};
use threadwise_lab::governor::{CacheModel, Governing};
use threadwise_lab::guest::{self, Guest, Kernel};
use threadwise_lab::run::{self, Progress};
use threadwise_lab::{Error, table};
use threadwise_machine::Machine;
use threadwise_machine::wrong::{Step, Wrong};

use crate::experiment::{self, Recording, Task, in_file, progress_bar};
use crate::report::{file_name, save, try_to_write};

/// Above this share of lost time `lab exec` warns. It starts programs, new code for QEMU to translate, within what it
/// counts; so it is laxer than an experiment.
const EXEC_LOST_LIMIT: f64 = 0.05;

/// A command of the lab.
#[derive(clap::Subcommand)]
pub enum Command {
    Run(RunOptions),
    Exec(ExecOptions),
    Serve(ServeOptions),
}

/// The guest to boot.
///
/// It holds this program, busybox (as `sh` and `busybox`), and what --program names.
#[derive(clap::Args)]
pub struct GuestOptions {
    /// A machine of the zoo, a machine file, or a synthetic string with a rate
    #[arg(long, short, default_value = "smp-8")]
    machine: String,

    /// Millions of instructions a second of its fastest CPU [default: what its file says]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true)]
    mips: Option<u32>,

    /// Model last-level caches by one set in so many (1, 2, 4, ... 64): the machine's file gives their size and what a miss
    /// takes a CPU of 2000 MIPS; here it takes as many instructions
    #[arg(long, value_name = "ONE_IN", value_parser = cache_model)]
    caches: Option<CacheModel>,

    /// Take this program into the guest too; may be repeated
    #[arg(long = "program")]
    programs: Vec<String>,

    /// A folder with the kernel to boot: vmlinuz, config and release [default: what `make setup` downloaded]
    #[arg(long)]
    kernel: Option<PathBuf>,

    /// Boot the kernel with this argument too, such as isolcpus=3 or preempt=full; may be repeated
    #[arg(long = "kernel-argument", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
}

impl GuestOptions {
    /// Boots it, with more programs than these.
    fn boot<'a>(&'a self, more: impl Iterator<Item = &'a String>, profiled: bool) -> Result<Guest> {
        let machine = Machine::load(&self.machine)?;
        let mut kernel = Kernel::in_folder(&self.kernel.clone().map_or_else(default_kernel, Ok)?)?;
        kernel.arguments.clone_from(&self.kernel_arguments);
        let mut image = run::base_image(&kernel)?;
        for name in self.programs.iter().chain(more) {
            run::add_foreign(&mut image, name)?;
        }
        let governing = Governing {
            mips: self.mips,
            caches: self.caches,
            without_acceleration: false,
            without_standstill: false,
            profiled,
        };
        Ok(Guest::boot(
            &machine,
            &governing,
            &kernel,
            &image,
            &AtomicBool::new(false),
        )?)
    }
}

fn cache_model(text: &str) -> Result<CacheModel, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number"))
        .and_then(CacheModel::of_one_in)
}

/// Boot a machine, run one command in it, and print what it printed.
///
/// The guest holds this program, busybox (as `sh` and `busybox`), the scheduler, the command's program, and what
/// --program names. Its exit status is the command's.
#[derive(clap::Args)]
pub struct ExecOptions {
    #[command(flatten)]
    guest: GuestOptions,

    /// Attach this scheduler first, such as "scx_threadwise --slice-us 2000"
    #[arg(long)]
    scheduler: Option<String>,

    /// Count where the instructions of the run go, write them to this file as JSON and the largest to the terminal
    #[arg(long)]
    profile: Option<PathBuf>,

    /// Give up after so many seconds of the machine's time
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    deadline: u64,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

/// Boot a machine and run one command after the other in it, until the input ends: JSON lines in,
/// JSON lines out.
///
/// A line such as
///
///   {"scheduler": ["scx_threadwise"], "command": ["sh", "-c", "nproc"], "deadline_s": 60}
///
/// attaches the scheduler, runs the command, ends what that left running, stops the scheduler, and
/// is answered by
///
///   {"status": 0, "stdout": "8\n", "stderr": "", "elapsed_ns": 31000000, "lost": 0, "late": 0.002,
///    "stood_still_ns": 7000000,
///    "scheduler": {"thrown_out": false, "status": 0, "log": "..."}}
///
/// where `lost` is the share of the machine's time that the host could not deliver, and `late` what
/// it delivered late: above 0.01 and 0.02, compare no speeds. For `stood_still_ns` of the host's time
/// the machine's stood still. With --caches there is "caches": {"accesses": ..., "misses": ...,
/// "stalled": ...} too. Without "scheduler" it is the kernel's; with "governed": false the CPUs are
/// as fast as the host can. A line that cannot be carried out is answered by {"error": "..."}; a
/// guest that panics, or does not finish the command within the deadline, ends all.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct ServeOptions {
    #[command(flatten)]
    guest: GuestOptions,
}

/// Boot the experiment's machine and compare its schedulers on its programs.
///
/// An experiment is a TOML file such as those in experiments/: a machine, how long and how often
/// programs run, which of them run together (runs), and
///
///   [[scheduler]]  a name and the command that attaches it; the first is what the others are
///                  compared with
///   [[program]]    a name and what runs: synthetic = { ratio, phase_units, threads }, or a command
///   [[must]]       what the results must show: scheduler, what (gain, of-bound, over-sequential,
///                  fairness, jitter with same_phases, instructions, misses or energy), at_least or
///                  at_most; in which run, or of all; only in the lab or simulated
///
/// All schedulers see the same seeds in one boot, and every round turns their order. A sample that
/// the host kept from running is void and taken again. Each sample is kept at once: --resume goes on
/// with an interrupted run. With --no-store that goes to EXPERIMENT.incomplete.json, which
/// `threadwise report` reads. Exit status: 0 done, 1 with --strict if a must does not hold, 2 an
/// error.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct RunOptions {
    #[command(flatten)]
    pub experiment: experiment::Options,

    /// Do not model this; a run that is gone on with has what it had
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<LeftOut>,

    /// Model last-level caches by one set in so many (1, 2, 4, ... 64), instead of what the file says
    #[arg(long, value_name = "ONE_IN", value_parser = cache_model, conflicts_with = "resume")]
    caches: Option<CacheModel>,

    /// Compare with other sched_ext schedulers too, whether the file names them or not; --peers is --peers=usual
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "usual",
        conflicts_with = "resume"
    )]
    peers: Option<Peers>,

    /// These of the file's schedulers only (and of the others, with --peers), by name; gains are relative to the first that is left
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    schedulers: Vec<String>,

    /// A folder with the kernel to boot: vmlinuz, config and release [default: what `make setup` downloaded]
    #[arg(long)]
    kernel: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(options) => compare(options),
        Command::Exec(options) => exec(options),
        Command::Serve(options) => serve(&options),
    }
}

/// Has SIGINT and SIGTERM end this process with its guest and that one's files. Who waits for a command, or for a line of
/// the input, has nothing that would be lost.
fn end_on_signals() -> Result<()> {
    let end = || {
        eprintln!("threadwise: interrupted");
        guest::exit_without_folders(2);
    };
    ctrlc::set_handler(end).context("cannot handle signals")
}

fn exec(options: ExecOptions) -> Result<ExitCode> {
    options.profile.as_deref().map_or(Ok(()), try_to_write)?;
    end_on_signals()?;
    let scheduler: Vec<String> = options
        .scheduler
        .iter()
        .flat_map(|line| line.split_whitespace())
        .map(String::from)
        .collect();
    let job = Job {
        scheduler,
        command: options.command,
        deadline_s: options.deadline,
        governed: true,
    };
    let named = job.scheduler.first().into_iter().chain(job.command.first());
    let mut guest = options.guest.boot(named, options.profile.is_some())?;
    let done = exec::exec(&mut guest, &job)?;
    print!("{}", done.stdout);
    eprint!("{}", done.stderr);
    match done.scheduler {
        Some(end) if end.thrown_out => bail!("the scheduler was thrown out: {}", end.log),
        Some(end) if end.status != Some(0) => {
            bail!("the scheduler ended with {:?}: {}", end.status, end.log)
        }
        _ => {}
    }
    if done.lost > EXEC_LOST_LIMIT {
        eprintln!(
            "threadwise: the host could not keep up, the machine lost {:.1} % of its time: compare no speeds, or lower --mips",
            done.lost * 100.0
        );
    }
    if let Some(caches) = done.caches {
        eprintln!(
            "threadwise: {} accesses got as far as a last-level cache, {} of them ({:.1} %) missed it, for {:.1} % of busy time",
            caches.accesses,
            caches.misses,
            caches.miss_rate() * 100.0,
            caches.stalled * 100.0
        );
    }
    if let Some(path) = options.profile {
        let profile = guest.profile()?;
        // What was counted is told all the same.
        eprint!("{}", table::profile(&profile));
        save(&path, &serde_json::to_string_pretty(&profile)?)?;
    }
    guest.power_off();
    Ok(done
        .status
        .and_then(|status| u8::try_from(status).ok())
        .map_or(ExitCode::from(2), ExitCode::from))
}

fn serve(options: &ServeOptions) -> Result<ExitCode> {
    end_on_signals()?;
    let mut guest = options.guest.boot(std::iter::empty(), false)?;
    for line in std::io::stdin().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(job) => match exec::exec(&mut guest, &job) {
                Ok(done) => serde_json::to_value(done)?,
                Err(error @ Error::InGuest(_)) => json!({ "error": error.to_string() }),
                Err(error) => return Err(error.into()),
            },
            Err(error) => json!({ "error": format!("no request: {error}") }),
        };
        println!("{answer}");
    }
    guest.power_off();
    Ok(ExitCode::SUCCESS)
}

fn compare(options: RunOptions) -> Result<ExitCode> {
    let kernel = options.kernel.clone().map_or_else(default_kernel, Ok);
    let kernel = kernel.and_then(|folder| Ok(Kernel::in_folder(&folder)?));
    // What is wrong with an experiment is said first; a run is gone on with on its own kernel.
    let kernel = match options.experiment.is_resumed() {
        true => Ok(kernel?),
        false => kernel,
    };
    let release = kernel.as_ref().map_or("", |kernel| &kernel.release);
    let Task {
        mut experiment,
        earlier,
        mut recording,
        ..
    } = options.experiment.task(release)?;
    options.change(&mut experiment)?;
    programs_can_run(&experiment).map_err(|wrong| in_file(&wrong, options.experiment.file()))?;
    let kernel = kernel?;
    let bar = progress_bar();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("cannot handle signals")?;
    let mut unrecorded = None;
    let outcome = run::run(&experiment, &kernel, earlier, &stop, |progress| {
        show(&bar, &progress);
        if let Err(error) = record(&mut recording, &progress) {
            stop.store(true, Ordering::Relaxed);
            unrecorded.get_or_insert(error);
        }
    })?;
    bar.finish_and_clear();
    let failure = outcome.failure.as_ref().map(ToString::to_string);
    let kept = match unrecorded {
        Some(error) => Err(error),
        None => recording.end(failure.as_deref()),
    };
    let aside = PathBuf::from(format!("{}.incomplete.json", file_name(&experiment.name)));
    match (outcome.failure, kept) {
        (Some(failure), kept) => Err(given_up(failure, kept, || write_aside(&aside, &recording))),
        (None, Ok(_)) => options.experiment.report(outcome.measurement),
        (None, Err(error)) => Err(unkept(error, options.experiment.report(outcome.measurement))),
    }
}

/// Writes what was measured by a run that is given up and that no store keeps, as `runs export` would: it is not lost, but it is
/// no result either. Says where it is, or why it is nowhere, which is no reason to tell nothing else.
fn write_aside(path: &Path, recording: &Recording) -> String {
    let write = || -> Result<()> {
        let record = recording.record()?.context("the run had not begun")?;
        save(path, &serde_json::to_string(&record)?)
    };
    match write() {
        Ok(()) => {
            let path = path.display();
            format!("what was measured until then is in {path}, for threadwise report {path}")
        }
        Err(error) => format!("what was measured until then is in no file ({error:#})"),
    }
}

/// What is said of a run that failed: why, and how to go on, or where what was measured is.
fn given_up(
    failure: Error,
    kept: Result<Option<i64>, threadwise_report::Error>,
    aside: impl FnOnce() -> String,
) -> anyhow::Error {
    let (failure, what_is_left) = match (failure, kept) {
        (failure, Ok(None)) => (failure.into(), aside()),
        (failure, Ok(Some(id))) => {
            let resume = format!("go on with: threadwise lab run --resume {id}");
            (failure.into(), resume)
        }
        // What cannot be kept is not measured on: that is why it was interrupted.
        (Error::Interrupted, Err(error)) => (
            anyhow::Error::from(error),
            String::from("what the store took until then can be gone on with"),
        ),
        (failure, Err(error)) => (failure.into(), format!("it is not kept as ended ({error})")),
    };
    failure.context(format!("given up; {what_is_left}"))
}

/// What is said of a run that was measured to its end and could not be kept so.
fn unkept(error: threadwise_report::Error, reported: Result<ExitCode>) -> anyhow::Error {
    let results = match reported {
        Ok(_) => String::from("its results are printed"),
        Err(why) => format!("nor could its results be reported ({why:#})"),
    };
    anyhow::Error::from(error).context(format!("the run is not kept as complete; {results}"))
}

/// The other sched_ext schedulers, as `scripts/peers` builds them.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Peers {
    /// bpfland, cosmos, rusty and lavd, which `make peers` builds
    Usual,
    /// beerland, cake, flash, p2dq and pandemonium too, which `make peers ALL=1` builds
    All,
}

impl Peers {
    fn names(self) -> &'static [&'static str] {
        const ALL: [&str; 9] = [
            "bpfland",
            "cosmos",
            "rusty",
            "lavd",
            "beerland",
            "cake",
            "flash",
            "p2dq",
            "pandemonium",
        ];
        match self {
            Self::Usual => &ALL[..4],
            Self::All => &ALL,
        }
    }
}

impl RunOptions {
    /// What they say instead of the experiment's file, as far as that is of the lab alone.
    pub fn change(&self, experiment: &mut Experiment) -> Result<()> {
        match self.experiment.is_resumed() {
            false => {
                let known = experiment.without.clone();
                let more = self.without.iter().filter(|part| !known.contains(part));
                experiment.without.extend(more);
            }
            true if self.without.iter().all(|part| experiment.without.contains(part)) => {}
            true => bail!("the run was begun with what --without leaves out now; begin another"),
        }
        if self.caches.is_some() && experiment.without.contains(&LeftOut::Caches) {
            bail!("--caches models what the experiment, or --without, leaves out");
        }
        experiment.caches = self.caches.map(|model| model.one_in).or(experiment.caches);
        self.choose_schedulers(experiment)
    }

    /// Those of them are compared too that are not yet, if that is asked for, and who is not asked for is left out.
    pub fn choose_schedulers(&self, experiment: &mut Experiment) -> Result<()> {
        let schedulers = &mut experiment.schedulers;
        for &name in self.peers.map_or(&[][..], Peers::names) {
            if schedulers.iter().all(|other| other.name != name) {
                schedulers.push(Scheduler {
                    name: name.into(),
                    command: vec![format!("scx_{name}")],
                });
            }
        }
        let is_there = |name: &String| schedulers.iter().any(|scheduler| scheduler.name == *name);
        if let Some(unknown) = self.schedulers.iter().find(|name| !is_there(name)) {
            let names: Vec<&str> = schedulers
                .iter()
                .map(|scheduler| scheduler.name.as_str())
                .collect();
            bail!(
                "--schedulers {unknown:?}: the experiment has {}; --peers adds {}, and --peers=all all of {}",
                names.join(", "),
                Peers::Usual.names().join(", "),
                Peers::All.names().join(", ")
            );
        }
        if !self.schedulers.is_empty() {
            schedulers.retain(|scheduler| self.schedulers.contains(&scheduler.name));
        }
        Ok(())
    }
}

/// Whether the lab can run all programs of an experiment.
fn programs_can_run(experiment: &Experiment) -> Result<(), Wrong> {
    for (nth, program) in experiment.programs.iter().enumerate() {
        let wrong = |key, what: &str| {
            let at = [Step::Key("program"), Step::Nth(nth), Step::Key(key)];
            Wrong::new(&at, format!("program {:?} {what}", program.name))
        };
        if program.uses_memory() && experiment.caches.is_none() {
            let what = "uses memory, and the lab models caches only if the experiment says caches = 16 (one set in 16); \
                        `threadwise sim run` simulates it";
            return Err(wrong("synthetic", what));
        }
        if program.rtapp.is_some() {
            let what = "is described by an rt-app file, which the lab does not run; `threadwise sim run` simulates it";
            return Err(wrong("rtapp", what));
        }
        if program.stages.is_some() {
            let what = "is of stages, which the lab does not run; `threadwise sim run` simulates it";
            return Err(wrong("stages", what));
        }
    }
    Ok(())
}

/// Keeps what has happened.
fn record(recording: &mut Recording, progress: &Progress) -> Result<(), threadwise_report::Error> {
    match progress {
        Progress::Booted(measurement) => recording.begin(measurement),
        Progress::Sampled(sample) => recording.sample(sample),
        _ => Ok(()),
    }
}

/// Where `make setup` leaves the kernel.
pub fn default_kernel() -> Result<PathBuf> {
    Ok(threadwise_lab::cache_folder()
        .context("neither HOME nor THREADWISE_CACHE is set")?
        .join("kernel"))
}

fn show(bar: &ProgressBar, progress: &Progress) {
    match progress {
        Progress::Booted(_) | Progress::Sampled(_) => {}
        Progress::Booting => bar.set_message("booting the guest"),
        Progress::Switching(scheduler) => bar.set_message(format!("attaching {scheduler}")),
        Progress::Running(scheduler, run, number, total) => {
            bar.set_length(u64::from(*total));
            bar.set_position(u64::from(number - 1));
            bar.set_message(format!("{} under {scheduler}", run.join(" + ")));
        }
        // The bar's own println() says nothing where there is no terminal.
        Progress::Lost => bar.suspend(|| {
            eprintln!("the emulator lost the guest (Oops: int3), and its round is taken again in another");
        }),
        Progress::Void(sample) => bar.suspend(|| eprintln!("void, will repeat: {}", run::why_void(sample))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    /// Which schedulers `lab run experiments/two-apps.toml` compares with these options.
    fn chosen(options: &[&str]) -> Vec<String> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/two-apps.toml");
        let line = Line::parse_from([&["run", file], options].concat());
        let mut experiment = Experiment::from_file(file.as_ref()).unwrap();
        line.options.choose_schedulers(&mut experiment).unwrap();
        experiment
            .schedulers
            .into_iter()
            .map(|scheduler| scheduler.name)
            .collect()
    }

    #[test]
    fn why_a_run_failed_is_said_whatever_becomes_of_its_file_and_record() {
        let failure = || Error::InGuest(String::from("A ended with 1"));
        let full = || threadwise_report::Error::Incomparable(String::from("the disk is full"));
        let says = |error: anyhow::Error, parts: &[&str]| {
            let said = format!("{error:#}");
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
            said
        };
        let in_x = || String::from("it is in x");
        let stored = || -> String { panic!("the store has it") };
        let resumable = given_up(failure(), Ok(Some(7)), stored);
        says(resumable, &["--resume 7", "A ended with 1"]);
        says(
            given_up(failure(), Ok(None), in_x),
            &["it is in x", "A ended with 1"],
        );
        let not_kept = given_up(failure(), Err(full()), stored);
        says(not_kept, &["the disk is full", "A ended with 1"]);
        let by_us = given_up(Error::Interrupted, Err(full()), stored);
        let said = says(by_us, &["the disk is full"]);
        assert!(!said.contains("interrupted"), "nobody did: {said}");
        let complete = unkept(full(), Ok(ExitCode::SUCCESS));
        says(complete, &["results are printed", "the disk is full"]);
    }

    #[test]
    fn what_no_store_keeps_is_a_file_that_can_be_read_as_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/two-apps.toml");
        let line = Line::parse_from(["run", file, "--no-store"]);
        let mut recording = line.options.experiment.task("7.2").unwrap().recording;
        let path = folder.path().join("x.json");
        assert!(write_aside(&path, &recording).contains("in no file (the run had not begun)"));
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/runs/phases.json");
        let mut measurement = threadwise_report::Record::from_file(kept.as_ref())
            .unwrap()
            .measurement;
        let samples = std::mem::take(&mut measurement.samples);
        recording.begin(&measurement).unwrap();
        samples
            .iter()
            .for_each(|sample| recording.sample(sample).unwrap());
        assert_eq!(recording.end(Some("interrupted")).unwrap(), None);
        let said = write_aside(&path, &recording);
        assert!(said.contains("x.json, for threadwise report"), "{said}");
        let record = threadwise_report::Record::from_file(&path).unwrap();
        assert_eq!(record.failure.as_deref(), Some("interrupted"));
        assert_eq!(record.measurement.samples.len(), samples.len());
        record.evaluate().unwrap();
        let nowhere = write_aside(&path.join("x"), &recording);
        assert!(nowhere.contains("in no file (cannot write"), "{nowhere}");
    }

    #[test]
    fn schedulers_are_compared_in_the_order_of_the_file_and_the_peers_after_them() {
        assert_eq!(chosen(&[]), ["kernel", "threadwise"]);
        let peers = ["kernel", "threadwise", "bpfland", "cosmos", "rusty", "lavd"];
        assert_eq!(chosen(&["--peers"]), peers);
        let all = chosen(&["--peers=all"]);
        assert!(
            all.len() == 11 && all.starts_with(&peers.map(String::from)),
            "{all:?}"
        );
        assert_eq!(
            chosen(&["--peers", "--schedulers", "lavd,kernel"]),
            ["kernel", "lavd"]
        );
        assert_eq!(chosen(&["--schedulers", "threadwise"]), ["threadwise"]);
    }
}
