// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise sim`.

mod check;
mod load;
mod parallel;
mod replay;
mod rtapp;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use clap::builder::RangedI64ValueParser;
use indicatif::ProgressBar;
use threadwise_lab::experiment::{Experiment, Program, Scheduler, Stages, Synthetic};
use threadwise_lab::run::{Label, Measurement, Sample, VERSION, asymmetry};
use threadwise_machine::Machine;
use threadwise_machine::wrong::{Step, Wrong};
use threadwise_policy::{AlternateBy, Mode, PairingBy, TunableOptions, Tunables};
use threadwise_report::timeline as report;
use threadwise_simulator::programs::{Assumptions, Scripted, Staged, play, weight_of_nice};
use threadwise_simulator::schedulers::{Known, Threadwise};
use threadwise_simulator::timeline::Drawing;
use threadwise_simulator::{Costs, Mechanism, World};
use threadwise_workload::memory::Sharing;
use threadwise_workload::rtapp::File;
use threadwise_workload::synthetic;
use threadwise_workload::synthetic::phases::Draws;
use threadwise_workload::synthetic::work::UNIT_INSTRUCTIONS;

use self::parallel::in_order;
use crate::experiment::{self, Task, in_file, machine_of, progress_bar};

/// The piece of each run of which a record has the timeline: long enough for some phases of 20 ms, after programs that start
/// together have drifted apart.
const PIECE_FROM_NS: u64 = 1_000_000_000;
const PIECE_NS: u64 = 60_000_000;

/// A command of the simulator.
#[derive(clap::Subcommand)]
pub enum Command {
    // What their help says stands with their options: a line here would hide all but itself.
    Run(RunOptions),
    Timeline(TimelineOptions),
    Check(check::Options),
    Rtapp(rtapp::Options),
    Replay(replay::Options),
    /// Simulate one of Tables 1 to 6 of thread-essence: every way to place the threads, 2 to 8 cores
    ///
    /// The tables are about threads that each have a place on some core: alone on it, or by turns with others. Here every such
    /// placement runs on the simulator, at no costs, and the table's cells are the least, the mean and the greatest of what a
    /// program gets over what it gets alone. `threadwise model table` computes the same exactly. The greatest speedup of a parallel
    /// program in Table 6 is over all placements here; the paper has that beside serial programs.
    Table(crate::model::table::Options),
}

/// Compare an experiment's schedulers on its synthetic programs, in a simulation of its machine.
///
/// The experiment is one of those that `threadwise lab run` carries out; its programs may also be described by rt-app files, or
/// be of stages in which from one to all of their threads work (`stages`, experiments/stages.toml). What the kernel's own work costs is that of the lab's
/// guest at the experiment's rate. Throughputs are also given as a share of what perfect sharing that puts
/// phases first as ours does would reach ("of bound"). Its schedulers are known by their names:
///
/// threadwise: ours without options, the very code that decides in the kernel;
/// kernel: the kernel's own (EEVDF);
/// kernel-told: that, told how fast CPUs are, as drivers of hybrid processors tell it;
/// round-robin: one queue for all CPUs;
/// o1: that of Linux 2.6, which knows nothing of hardware threads;
/// core-queue: Molnar's, that with one queue for each core;
/// paper: that with what thread-essence, section VII says, and no more;
/// naive: each thread on a CPU at random;
/// balanced: threads spread evenly over cores and kept there;
/// clairvoyant: no scheduler but a mark, for machines whose CPUs differ in speed only. It shares CPUs perfectly, knows how long phases
/// last, and pays nothing: neither for switches and moves nor what the kernel's work costs the others.
///
/// What tunes ours, such as --slice-us, is no option here: the experiment says it, as
/// command = ["scx_threadwise", "--slice-us", "2000"] of a scheduler.
///
/// Whether ours knows which CPUs share cores on a machine whose kernel does not depends on --machine in its command, as in
/// the lab. Where the machine's file gives power figures, the table has what its packages consumed in the time of a run.
///
/// Each sample is kept at once: --resume goes on with an interrupted run. Exit status: 0 done, 1 with --strict if a must does
/// not hold, 2 an error, or interrupted.
#[derive(clap::Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub experiment: experiment::Options,

    /// Model the machine without this
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<Mechanism>,

    /// Last-level caches of so many KiB each, instead of what the machine's file says
    #[arg(long, value_name = "KIB", value_parser = RangedI64ValueParser::<u64>::new().range(1..=1 << 30), allow_negative_numbers = true)]
    llc_kib: Option<u64>,

    /// How long a task that moves to another core takes to refill that core's own caches, in microseconds; 0 by default, as the lab's
    /// CPUs have none
    #[arg(long, value_name = "US", value_parser = RangedI64ValueParser::<u64>::new().range(0..=100_000), allow_negative_numbers = true)]
    migration_us: Option<u64>,

    /// These schedulers instead of the file's; gains are relative to the first
    #[arg(long, value_delimiter = ',', conflicts_with = "resume")]
    schedulers: Vec<String>,
}

impl RunOptions {
    /// What they say instead of the experiment's file, as far as that is of simulations alone.
    pub fn change(&self, experiment: &mut Experiment) -> Result<()> {
        if !self.schedulers.is_empty() {
            let named = self.schedulers.iter().map(|name| named(name));
            experiment.schedulers = named.collect::<Result<_>>()?;
            experiment.check().map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }

    /// What a migration costs, if it does.
    fn migration_us(&self) -> Option<u64> {
        self.migration_us.filter(|&us| us > 0)
    }

    /// What to add to the machine's name, so that nobody takes the one for the other.
    fn changes(&self) -> String {
        let mut changes = String::new();
        for mechanism in &self.without {
            changes += &format!(" without {}", format!("{mechanism:?}").to_lowercase());
        }
        if let Some(kib) = self.llc_kib {
            changes += &format!(" with caches of {kib} KiB");
        }
        if let Some(us) = self.migration_us() {
            changes += &format!(" where a migration takes {us} us");
        }
        changes
    }
}

/// Show what ran where and when in one run of an experiment.
///
/// In the terminal there is a row for each CPU: a letter is the program that had most of that time, a capital letter while more of
/// its threads were ready than a serial phase has; a dot is idle time. With --format perfetto, a JSON file for
/// <https://ui.perfetto.dev>: a track for each CPU and program, an arrow from who woke a thread to where it ran next, and a mark
/// where one took over a CPU or went to a faster one.
#[derive(clap::Args)]
pub struct TimelineOptions {
    /// The experiment file
    experiment: PathBuf,

    /// Which of its schedulers [default: the last]
    #[arg(long)]
    scheduler: Option<String>,

    /// Which of its runs, from 1 [default: the last]
    #[arg(long)]
    run: Option<usize>,

    /// The seed, instead of the file's
    #[arg(long)]
    seed: Option<u64>,

    /// Begin so many milliseconds after the start
    #[arg(long, default_value_t = 1000.0, value_parser = milliseconds, allow_negative_numbers = true)]
    from_ms: f64,

    /// Show so many milliseconds
    #[arg(long, default_value_t = 50.0, value_parser = some_milliseconds, allow_negative_numbers = true)]
    for_ms: f64,

    /// Characters a row
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    columns: u16,

    /// For whom
    #[arg(long, value_enum, default_value_t = TimelineFormat::Text)]
    format: TimelineFormat,
}

/// How a timeline is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TimelineFormat {
    /// For the terminal
    Text,
    /// For https://ui.perfetto.dev
    Perfetto,
}

/// Up to a minute, in which some millions of things happen.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ms) if (0.0..=60_000.0).contains(&ms) => Ok(ms),
        _ => Err(String::from("not 0 to 60000 milliseconds")),
    }
}

/// As many, and more than none.
fn some_milliseconds(text: &str) -> Result<f64, String> {
    match milliseconds(text) {
        Ok(ms) if ms > 0.0 => Ok(ms),
        _ => Err(String::from("not above 0 and up to 60000 milliseconds")),
    }
}

/// Carries the command out.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(options) => {
            let mut task = options.experiment.task("")?;
            options.change(&mut task.experiment)?;
            if options.llc_kib.is_some() && task.experiment.memory_user().is_none() {
                bail!("--llc-kib changes nothing: no program of the experiment uses memory");
            }
            let foresees = |scheduler: &Scheduler| Known::named(&scheduler.name) == Some(Known::Clairvoyant);
            if options.migration_us().is_some() && task.experiment.schedulers.iter().any(foresees) {
                bail!("--migration-us is not for clairvoyant, which pays nothing");
            }
            let change = |world: &mut World| {
                for &mechanism in &options.without {
                    world.switch_off(mechanism);
                }
                if let Some(kib) = options.llc_kib {
                    world.resize_caches(kib << 10);
                }
                if let Some(us) = options.migration_us() {
                    world.charge_migrations(us * 1000);
                }
            };
            let measurement = simulate(task, &options, &change)?;
            return options.experiment.report(measurement);
        }
        Command::Timeline(options) => show(&options)?,
        Command::Check(options) => return check::run(&options),
        Command::Rtapp(options) => return rtapp::run(&options),
        Command::Replay(options) => return replay::run(&options),
        Command::Table(options) => table::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A scheduler as an experiment would name it.
fn named(name: &str) -> Result<Scheduler> {
    check::known(name)?;
    Ok(Scheduler {
        name: name.into(),
        command: Vec::new(),
    })
}

/// Draws one run.
fn show(options: &TimelineOptions) -> Result<()> {
    let mut experiment = Experiment::from_file(&options.experiment)?;
    experiment.seed = options.seed.unwrap_or(experiment.seed);
    let (machine, mips) = prepare(&experiment).map_err(|wrong| in_file(&wrong, Some(&options.experiment)))?;
    let number = options.run.unwrap_or(experiment.runs.len());
    let run = number
        .checked_sub(1)
        .and_then(|index| experiment.runs.get(index))
        .with_context(|| {
            format!(
                "{} has runs 1 to {}, no {number}",
                experiment.name,
                experiment.runs.len()
            )
        })?;
    let schedulers = &experiment.schedulers;
    let scheduler = match &options.scheduler {
        Some(name) => schedulers
            .iter()
            .find(|scheduler| scheduler.name == *name)
            .with_context(|| format!("{} has no scheduler {name:?}", experiment.name))?,
        None => schedulers.last().expect("an experiment has schedulers"),
    };
    let from = (options.from_ms * 1e6) as u64;
    let to = from + (options.for_ms * 1e6).max(1.0) as u64;
    let mut world = world(&machine, mips, scheduler, seed_of(&experiment, 0))?;
    world.record();
    start(&mut world, &experiment, &machine, mips, 0, run)?;
    world.run_until(to).map_err(anyhow::Error::msg)?;
    let drawing = Drawing {
        names: run,
        serial_threshold: threshold_of(scheduler)?,
        from,
        to,
    };
    let timeline = world.into_timeline();
    match options.format {
        TimelineFormat::Perfetto => println!("{}", timeline.perfetto(&drawing)),
        TimelineFormat::Text => {
            println!(
                "[simulated] {} under {}, {} ms from {} ms on, {:.3} ms a column",
                run.join(" and "),
                scheduler.name,
                options.for_ms,
                options.from_ms,
                options.for_ms / f64::from(options.columns)
            );
            print!("{}", timeline.text(&drawing, usize::from(options.columns)));
        }
    }
    Ok(())
}

/// `change`: how the machine is modelled otherwise than its file says, as the options ask for.
fn simulate(task: Task, options: &RunOptions, change: &(dyn Fn(&mut World) + Sync)) -> Result<Measurement> {
    let Task {
        experiment,
        earlier,
        begun_on,
        mut recording,
    } = task;
    let (machine, mips) = prepare(&experiment).map_err(|wrong| {
        // Schedulers that are named on the command line stand in no line of it.
        let is_there = options.schedulers.is_empty() || !wrong.is_of("scheduler");
        in_file(&wrong, options.experiment.file().filter(|_| is_there))
    })?;
    let modelled = format!("{}{}", machine.name(), options.changes());
    if let Some(begun_on) = begun_on.filter(|begun_on| *begun_on != modelled) {
        bail!(
            "the run was begun on machine {begun_on}, and would go on with {modelled}: give --without, --llc-kib and \
             --migration-us as they were"
        );
    }
    let mut measurement = Measurement {
        label: Label::Simulated,
        experiment: experiment.clone(),
        machine: modelled,
        nr_cpus: machine.nr_cpus(),
        asymmetry: match options.without.contains(&Mechanism::Speeds) {
            true => 1.0,
            false => asymmetry(&machine),
        },
        smt: machine.has_smt(),
        kernel: String::new(),
        qemu: String::new(),
        version: VERSION.to_string(),
        scheduler_versions: Vec::new(),
        samples: Vec::new(),
    };
    recording.begin(&measurement)?;
    let taken: BTreeSet<_> = earlier.iter().map(key).collect();
    let mut samples = earlier;
    let all =
        (0..experiment.rounds).flat_map(|round| of_each(&experiment).map(move |(run, by)| (round, run, by)));
    let jobs: Vec<_> = all
        .filter(|&(round, run, scheduler)| !taken.contains(&(round, scheduler.name.clone(), run.clone())))
        .collect();
    let bar = progress_bar();
    let is_done = end_on_signals(&bar, recording.id())?;
    bar.set_length((taken.len() + jobs.len()) as u64);
    bar.set_position(taken.len() as u64);
    let play = |&(round, run, scheduler): &(u32, &Vec<String>, &Scheduler)| {
        let mut world = world(&machine, mips, scheduler, seed_of(&experiment, round))?;
        change(&mut world);
        start(&mut world, &experiment, &machine, mips, round, run)?;
        sample(&experiment, world, mips, round, run, scheduler)
    };
    in_order(&jobs, play, |sample| {
        bar.set_message(format!("{} under {}", sample.run.join(" + "), sample.scheduler));
        recording.sample(&sample)?;
        samples.push(sample);
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    recording.timelines(&timelines(&experiment, &machine, mips, change)?)?;
    recording.end(None)?;
    is_done.store(true, Ordering::Relaxed);
    measurement.samples = samples;
    Ok(measurement)
}

/// Has SIGINT and SIGTERM end this process at once, and say how to go on with the run that is kept, if one is: each sample is in
/// the store as soon as it is taken. Nothing is said any more once all is measured, which whoever has it in hand is to say.
fn end_on_signals(bar: &ProgressBar, kept: Option<i64>) -> Result<Arc<AtomicBool>> {
    let is_done = Arc::new(AtomicBool::new(false));
    let (bar, done) = (bar.clone(), is_done.clone());
    let how = match kept {
        Some(id) => format!("go on with: threadwise sim run --resume {id}"),
        None => String::from("nothing is kept (--no-store)"),
    };
    let end = move || {
        if !done.load(Ordering::Relaxed) {
            bar.finish_and_clear();
            eprintln!("threadwise: interrupted; {how}");
        }
        std::process::exit(2);
    };
    ctrlc::set_handler(end).context("cannot handle signals")?;
    Ok(is_done)
}

/// The runs of a round, each under each scheduler.
fn of_each(experiment: &Experiment) -> impl Iterator<Item = (&Vec<String>, &Scheduler)> {
    let runs = experiment.runs.iter();
    runs.flat_map(|run| {
        experiment
            .schedulers
            .iter()
            .map(move |scheduler| (run, scheduler))
    })
}

/// What a sample is of.
fn key(sample: &Sample) -> (u32, String, Vec<String>) {
    (sample.round, sample.scheduler.clone(), sample.run.clone())
}

/// A piece of each run under each scheduler in the first round, to look at.
fn timelines(
    experiment: &Experiment,
    machine: &Machine,
    mips: u32,
    change: &(dyn Fn(&mut World) + Sync),
) -> Result<Vec<report::Timeline>> {
    let from_ns = PIECE_FROM_NS.min((experiment.seconds * 0.5e9) as u64);
    let piece = from_ns..from_ns + PIECE_NS;
    let jobs: Vec<_> = of_each(experiment).collect();
    let play = |&(run, scheduler): &(&Vec<String>, &Scheduler)| {
        let mut world = world(machine, mips, scheduler, seed_of(experiment, 0))?;
        change(&mut world);
        world.record();
        start(&mut world, experiment, machine, mips, 0, run)?;
        world.run_until(piece.end).map_err(anyhow::Error::msg)?;
        let happened = world.into_timeline();
        let within = |from: u64, to: u64, what: usize| {
            let span = report::Span(from.max(piece.start), to.min(piece.end), what);
            (span.0 < span.1).then_some(span)
        };
        let mut cpus = vec![Vec::new(); machine.nr_cpus()];
        for ran in happened.runs() {
            cpus[ran.cpu].extend(within(ran.from, ran.to, happened.program_of(ran.task)));
        }
        let mut phases = vec![Vec::new(); run.len()];
        for phase in happened.phases(threshold_of(scheduler)?) {
            phases[phase.program].extend(within(phase.from, phase.to, usize::from(phase.parallel)));
        }
        Ok(report::Timeline {
            run: run.clone(),
            scheduler: scheduler.name.clone(),
            seed: experiment.seed,
            from_ns: piece.start,
            to_ns: piece.end,
            cpus,
            phases,
        })
    };
    let mut timelines = Vec::new();
    in_order(&jobs, play, |timeline| {
        timelines.push(timeline);
        Ok(())
    })?;
    Ok(timelines)
}

/// The experiment's machine and rate, if all of it can be simulated.
fn prepare(experiment: &Experiment) -> Result<(Machine, u32), Wrong> {
    let machine = machine_of(experiment)?;
    let wrong = |key, what: String| Wrong::new(&[Step::Key(key)], what);
    let mips = experiment.mips.or(machine.lab().map(|lab| lab.mips)).ok_or_else(|| {
        let name = machine.name();
        let what = format!(
            "machine {name} has no rate; add mips = 60 to the experiment, or [lab] mips = 60 to the machine's file"
        );
        wrong("machine", what)
    })?;
    if !(1..=100_000).contains(&mips) {
        let what = format!("mips = {mips} is not between 1 and 100000");
        return Err(wrong("mips", what));
    }
    for (nth, program) in experiment.programs.iter().enumerate() {
        program_can_be_simulated(program, nth, &machine)?;
    }
    for (nth, scheduler) in experiment.schedulers.iter().enumerate() {
        scheduler_can_be_simulated(scheduler, experiment, &machine).map_err(|error| {
            Wrong::new(
                &[Step::Key("scheduler"), Step::Nth(nth), Step::Key("command")],
                format!("{error:#}"),
            )
        })?;
    }
    if !experiment.without.is_empty() {
        let what = "the experiment says what the lab leaves out; in a simulation that is --without";
        return Err(wrong("without", what.to_owned()));
    }
    Ok((machine, mips))
}

fn program_can_be_simulated(program: &Program, nth: usize, machine: &Machine) -> Result<(), Wrong> {
    let name = &program.name;
    let wrong = |key, what: String| {
        let at = [Step::Key("program"), Step::Nth(nth), Step::Key(key)];
        Wrong::new(&at, format!("program {name:?}: {what}"))
    };
    if let Some(file) = &program.rtapp {
        described(file, machine).map_err(|error| wrong("rtapp", format!("{error:#}")))?;
    } else if program.synthetic.is_none() && program.stages.is_none() {
        let what = "it is a command; only synthetic programs, those of stages, and those that rt-app files describe, can be \
                    simulated";
        return Err(wrong("command", what.to_owned()));
    }
    if program.uses_memory() && machine.hardware().memory.is_none() {
        let what = format!(
            "it uses memory, of which machine {} says nothing; add [memory] latency_ns = 100 to the machine's file",
            machine.name()
        );
        return Err(wrong("synthetic", what));
    }
    Ok(())
}

fn scheduler_can_be_simulated(
    scheduler: &Scheduler,
    experiment: &Experiment,
    machine: &Machine,
) -> Result<()> {
    let name = &scheduler.name;
    let Some(ours) = Ours::of(scheduler)? else {
        return check::known(name).map(|_| ());
    };
    if ours.machine.is_some_and(|machine| machine != experiment.machine) {
        bail!(
            "scheduler {name:?}: one that is told of another machine than {} cannot be simulated",
            experiment.machine
        );
    }
    if ours.alternate == AlternateBy::Resident && machine.nr_llcs() != 1 {
        bail!("scheduler {name:?}: --alternate resident is for machines with one last-level cache");
    }
    Ok(())
}

/// One run of the programs under one scheduler.
fn sample(
    experiment: &Experiment,
    mut world: World,
    mips: u32,
    round: u32,
    run: &[String],
    scheduler: &Scheduler,
) -> Result<Sample> {
    world
        .run_until((experiment.seconds * 1e9) as u64)
        .map_err(anyhow::Error::msg)?;
    let outcome = world.outcome();
    let rate = |work_ns: f64| work_ns / unit_ns(mips) as f64 / experiment.seconds;
    for (program, name) in outcome.programs.iter().zip(run) {
        ensure!(
            program.work_ns > 0.0,
            "{name} got nothing done in {} s under {}: let programs run for longer (--seconds)",
            experiment.seconds,
            scheduler.name
        );
    }
    Ok(Sample {
        round,
        boot: 0,
        scheduler: scheduler.name.clone(),
        run: run.to_vec(),
        performance: outcome
            .programs
            .iter()
            .map(|program| rate(program.work_ns))
            .collect(),
        orders: None,
        idle: outcome.idle,
        lost: 0.0,
        late: 0.0,
        stood_still_s: 0.0,
        caches: None,
        instructions: None,
        host_s: None,
        joules: outcome.joules,
        void: false,
    })
}

/// A unit of work on the fastest CPU.
fn unit_ns(mips: u32) -> u64 {
    UNIT_INSTRUCTIONS * 1000 / u64::from(mips)
}

/// What the machine and schedulers draw from in a round.
fn seed_of(experiment: &Experiment, round: u32) -> u64 {
    experiment.seed + u64::from(round)
}

/// Starts the programs of a run.
fn start(
    world: &mut World,
    experiment: &Experiment,
    machine: &Machine,
    mips: u32,
    round: u32,
    run: &[String],
) -> Result<()> {
    let exact_ns = UNIT_INSTRUCTIONS as f64 * 1000.0 / f64::from(mips);
    ensure!(
        exact_ns < 1.01 * unit_ns(mips) as f64,
        "a unit of work takes {exact_ns:.2} ns at {mips} million instructions a second, and simulated time is in whole ones: \
         simulate at most 10000"
    );
    if machine.has_smt() || experiment.same_phases {
        world.scatter(seed_of(experiment, round));
    }
    for name in run {
        let program = experiment.program(name);
        let seed = program.seed(experiment, round);
        let started: Box<dyn threadwise_simulator::Program> = match program {
            Program {
                rtapp: Some(file), ..
            } => Box::new(described(file, machine)?),
            Program {
                synthetic: Some(synthetic),
                ..
            } => Box::new(simulated(synthetic, unit_ns(mips), machine, seed)),
            Program {
                stages: Some(stages), ..
            } => Box::new(staged(stages, unit_ns(mips), machine, seed)),
            _ => unreachable!("can_be_simulated() has seen that it is one of these"),
        };
        world.start(started, weight_of_nice(program.nice), program.bound_to);
    }
    Ok(())
}

/// A program of stages.
fn staged(stages: &Stages, unit_ns: u64, machine: &Machine, seed: u64) -> Staged {
    let threads = stages.threads.unwrap_or(machine.nr_cpus() as u32) as usize;
    let draws = Draws::new(stages.distribution, seed);
    let drawn = synthetic::stages::Stages::new(threads, stages.phase_units, draws, seed);
    Staged::new(threads, drawn, unit_ns)
}

/// The program that an rt-app file describes.
fn described(file: &Path, machine: &Machine) -> Result<Scripted> {
    let described = play(&File::load(file)?, &Assumptions::of_server(machine))
        .with_context(|| file.display().to_string())?;
    load::require_threads(
        described
            .scripts
            .iter()
            .map(|script| script.instances as usize)
            .sum(),
    )?;
    Ok(Scripted::new(described))
}

/// With how many ready threads a program is serial, as this scheduler has it, or ours without options.
fn threshold_of(scheduler: &Scheduler) -> Result<u32> {
    let tunables = Ours::of(scheduler)?.map_or_else(Tunables::default, |ours| ours.tunables.tunables());
    Ok(tunables.serial_threshold)
}

/// What of the command line of our scheduler can be simulated.
#[derive(clap::Parser)]
struct Ours {
    #[command(flatten)]
    tunables: TunableOptions,

    #[arg(long)]
    machine: Option<String>,

    // `auto` depends on a platform.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,

    #[arg(long, value_enum, default_value_t)]
    pairing: PairingBy,

    #[arg(long, value_enum, default_value_t)]
    alternate: AlternateBy,
}

impl Ours {
    /// The command of a scheduler in an experiment, if that is ours.
    fn of(scheduler: &Scheduler) -> Result<Option<Self>> {
        if scheduler.command.first().map(String::as_str) != Some("scx_threadwise") {
            return Ok(None);
        }
        let ours = Self::try_parse_from(&scheduler.command)
            .with_context(|| format!("scheduler {:?}: this command cannot be simulated", scheduler.name))?;
        if ours.pairing == PairingBy::Faults || ours.alternate == AlternateBy::Faults {
            bail!(
                "scheduler {:?}: page faults are not simulated; use counters or resident",
                scheduler.name
            );
        }
        Ok(Some(ours))
    }
}

fn world(machine: &Machine, mips: u32, scheduler: &Scheduler, seed: u64) -> Result<World> {
    world_with(machine, mips, scheduler, seed, |costs| costs)
}

/// An idle machine under this scheduler where the kernel's work takes something else than in the lab.
fn world_with(
    machine: &Machine,
    mips: u32,
    scheduler: &Scheduler,
    seed: u64,
    change: impl FnOnce(Costs) -> Costs,
) -> Result<World> {
    let capacities: Vec<u32> = machine.cpus().iter().map(|cpu| cpu.capacity).collect();
    let Some(ours) = Ours::of(scheduler)? else {
        let known = check::known(&scheduler.name)?;
        let costs = match (known, known.costs_in_lab(mips, machine, &capacities)) {
            // Who pays nothing does so everywhere.
            (Known::Clairvoyant, costs) => costs,
            (_, costs) => change(costs),
        };
        let mut world = known.world_drawn(machine, costs, Tunables::default(), seed);
        world.seed(seed);
        return Ok(world);
    };
    let tunables = ours.tunables.tunables();
    let is_told = ours.machine.is_some();
    let known = if is_told { &capacities[..] } else { &[] };
    let costs = change(Known::Threadwise.costs_in_lab(mips, machine, known));
    let mut world = World::new(machine, costs, |kernel| {
        let made = match is_told {
            true => Threadwise::told(kernel, tunables),
            false => Threadwise::new(kernel, tunables).untold_of_speeds(),
        };
        made.with_mode(ours.mode)
            .pairing_by(ours.pairing)
            .alternating_by(ours.alternate)
    });
    world.seed(seed);
    Ok(world)
}

fn simulated(
    synthetic: &Synthetic,
    unit_ns: u64,
    machine: &Machine,
    seed: u64,
) -> threadwise_simulator::Synthetic {
    threadwise_simulator::Synthetic::drawn(
        synthetic.ratio,
        synthetic.phase_units,
        unit_ns,
        synthetic.nr_threads(machine) as usize,
        synthetic.wait,
        Draws::new(synthetic.distribution, seed),
    )
    .with_memory(
        synthetic
            .memory
            .map_or_else(Default::default, |memory| threadwise_simulator::Memory {
                working_set_bytes: memory.working_set_kib << 10,
                accesses_per_us: memory.accesses_per_us,
                is_shared: memory.sharing == Sharing::Shared,
                ..Default::default()
            }),
    )
}
