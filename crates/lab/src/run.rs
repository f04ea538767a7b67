// SPDX-License-Identifier: GPL-2.0-only
//! Carries an experiment out: one boot, the schedulers in alternating order, every run in every round.
//!
//! A run during which the host fell behind is void and repeated; a scheduler that is thrown out, a
//! guest that hangs or panics end the experiment. Nothing of that is ever averaged in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use threadwise_machine::Machine;
use threadwise_metrics::TwoOrders;
use threadwise_workload::synthetic;

use crate::error::Error;
use crate::experiment::{Experiment, Program, Scheduler, find_program};
use crate::governor::CacheUse;
use crate::guest::{Guest, Kernel, qemu_version};
use crate::image::Image;
use crate::orders;
use crate::protocol::{Output, Request, Response};

/// A run during which more than this of the time that the emulated CPUs wanted to run was lost is void.
pub const LOST_LIMIT: f64 = 0.01;
/// So is one of whose quanta more than this share came late: what was caught up was late for those who waited for it. None is
/// late while the machine's time can stand still. Where it goes on, a neighbour that takes 3 of each 10 ms makes it 3.5 to 7.4 %, and
/// programs get 1 to 2 % less done.
pub const LATE_LIMIT: f64 = 0.02;
/// How often a void run is repeated before the experiment is given up.
const ATTEMPTS: u32 = 8;
/// If more than this was lost in each of so many attempts, nobody disturbs the host: it is too slow for time to go on.
const HOPELESS_LOST: f64 = 0.8;
const HOPELESS_ATTEMPTS: u32 = 3;
/// The experiment is given up with so many guests in a row that were lost to the emulator before a round was complete.
const LOST_GUESTS: u32 = 3;
/// How long to wait after a void run: twice as long each time, up to a limit.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// How long synthetic programs may take to load, end and report by the machine's time, beside twice the time that they are to run.
const REPORT_DEADLINE: Duration = Duration::from_secs(20);
/// Other programs may take so long beside that, since those that are told how long to run may need it to set up.
const COMMAND_DEADLINE: Duration = Duration::from_secs(300);

/// One run of one or more programs under one scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The round, from 0.
    pub round: u32,
    /// In which of the experiment's boots it was taken, from 0: one that was interrupted goes on in another.
    #[serde(default)]
    pub boot: u32,
    /// The scheduler's name.
    pub scheduler: String,
    /// The programs' names.
    pub run: Vec<String>,
    /// Each program's performance: work units a second, or one over seconds.
    pub performance: Vec<f64>,
    /// What was measured of two programs in two orders; their performances are one over their mean times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<TwoOrders>,
    /// The share of CPU time in which CPUs executed nothing: while programs run that do so for the experiment's seconds, or, where others take part, from
    /// the common start to the end of the last one.
    pub idle: f64,
    /// The share of the time that the CPUs wanted to run and the host could not deliver.
    pub lost: f64,
    /// The share of quanta that came late, but could be caught up.
    pub late: f64,
    /// For how many seconds of the host's the machine's time stood still because the host was late, while programs were loaded
    /// too.
    #[serde(default)]
    pub stood_still_s: f64,
    /// What the last-level caches did, where they are modelled in the lab; counted when `idle` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheUse>,
    /// Instructions of the guest, its kernel's included, from the request to start the programs to the end of the last; not
    /// simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// How many seconds the host took for what was counted so; not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_s: Option<f64>,
    /// What each package consumed, in joules, where that was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joules: Vec<f64>,
    /// Whether the sample is void because too much was lost, or a program was not even loaded at the common start; then
    /// nothing goes by its performance, if it has one.
    pub void: bool,
}

/// The version of threadwise: its commit, or that of its packages if it was built without git.
pub const VERSION: &str = env!("THREADWISE_VERSION");

/// How numbers came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// Measured in a real kernel on an emulated machine.
    #[default]
    Lab,
    /// Simulated.
    Simulated,
}

impl Label {
    /// As it stands in tables.
    pub fn name(self) -> &'static str {
        match self {
            Label::Lab => "lab",
            Label::Simulated => "simulated",
        }
    }
}

/// Everything that was measured, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// How it came about.
    #[serde(default)]
    pub label: Label,
    /// The experiment.
    pub experiment: Experiment,
    /// The machine's name.
    pub machine: String,
    /// CPUs.
    pub nr_cpus: usize,
    /// The fastest CPU over the slowest: a in the paper's equations.
    pub asymmetry: f64,
    /// Whether hardware threads share cores. The paper's equations know no such machine.
    #[serde(default)]
    pub smt: bool,
    /// The guest kernel's release; empty where there was none.
    pub kernel: String,
    /// What emulated it, as QEMU calls itself.
    #[serde(default)]
    pub qemu: String,
    /// The version of threadwise that measured: its commit, or that of its packages if it was built without git.
    #[serde(default)]
    pub version: String,
    /// What each of the experiment's schedulers says of its version; nothing for the kernel's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduler_versions: Vec<String>,
    /// All samples, the void ones included.
    pub samples: Vec<Sample>,
}

impl Measurement {
    /// The schedulers that said their versions, each with what it said.
    pub fn versioned_schedulers(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self
            .experiment
            .schedulers
            .iter()
            .map(|scheduler| scheduler.name.as_str());
        let versions = self.scheduler_versions.iter().map(String::as_str);
        names.zip(versions).filter(|(_, version)| !version.is_empty())
    }
}

/// What was measured until the end, or until the experiment had to be given up.
#[derive(Debug)]
pub struct Outcome {
    /// The samples so far.
    pub measurement: Measurement,
    /// Why it ended early.
    pub failure: Option<Error>,
}

/// What happens, for whoever watches.
pub enum Progress<'a> {
    /// The guest is being booted.
    Booting,
    /// It has come up: what is measured now, without its samples.
    Booted(&'a Measurement),
    /// A scheduler is being attached or detached.
    Switching(&'a str),
    /// A run begins: scheduler, programs, its number and how many there are.
    Running(&'a str, &'a [String], u32, u32),
    /// A sample has been taken, void or not.
    Sampled(&'a Sample),
    /// A run was void.
    Void(&'a Sample),
    /// The emulator lost the guest, and rounds that are not complete are taken in another.
    Lost,
}

/// Boots a guest with the programs that the experiment names and carries it out, or what can be of it until `stop`.
/// `earlier` samples of it, from boots that were interrupted, are gone on from: rounds that they have in full are not
/// taken again.
///
/// # Errors
/// A wrong experiment, or a guest that does not come up. What goes wrong later is in the [`Outcome`]:
/// a guest that fails ([but one](Error::is_the_emulators)), a scheduler that is thrown out, a host that cannot keep up.
pub fn run(
    experiment: &Experiment,
    kernel: &Kernel,
    earlier: Vec<Sample>,
    stop: &AtomicBool,
    mut watch: impl FnMut(Progress),
) -> Result<Outcome, Error> {
    let machine = Machine::load(&experiment.machine)?;
    let mut image = base_image(kernel)?;
    for name in experiment.foreign_programs() {
        add_foreign(&mut image, name)?;
    }
    let qemu = qemu_version()?;
    watch(Progress::Booting);
    let boot = || Guest::boot(&machine, &experiment.governing(), kernel, &image, stop);
    let mut guest = boot()?;
    let schedulers = experiment.schedulers.iter();
    let scheduler_versions = schedulers
        .map(|scheduler| version_of(scheduler, &mut guest))
        .collect::<Result<_, _>>()?;
    let mut measurement = Measurement {
        label: Label::Lab,
        experiment: experiment.clone(),
        machine: machine.name().to_string() + &experiment.left_out(),
        nr_cpus: machine.nr_cpus(),
        asymmetry: asymmetry(&machine),
        smt: machine.has_smt(),
        kernel: guest.release.clone(),
        qemu,
        version: VERSION.to_string(),
        scheduler_versions,
        samples: Vec::new(),
    };
    watch(Progress::Booted(&measurement));
    let mut samples = earlier;
    let mut session = Session {
        guest,
        experiment,
        machine: &machine,
        stop,
        boot: samples.iter().map(|sample| sample.boot + 1).max().unwrap_or(0),
        done: boots_of_rounds(experiment, &samples).into_keys().collect(),
        current: None,
    };
    let mut nr_lost = 0;
    let failure = loop {
        let Err(error) = session.all_rounds(&mut samples, &mut watch) else {
            break None;
        };
        let done: BTreeSet<u32> = boots_of_rounds(experiment, &samples).into_keys().collect();
        let is_further = done.len() > session.done.len();
        nr_lost = if is_further { 1 } else { nr_lost + 1 };
        if stop.load(Ordering::Relaxed) || !error.is_the_emulators() {
            break Some(error);
        }
        if done.len() == experiment.rounds as usize {
            // It was lost when the last scheduler was detached.
            break None;
        }
        if nr_lost >= LOST_GUESTS {
            break Some(error.of_many(nr_lost));
        }
        watch(Progress::Lost);
        watch(Progress::Booting);
        session.guest = match boot() {
            Ok(guest) => guest,
            Err(error) => break Some(error),
        };
        (session.boot, session.done, session.current) = (session.boot + 1, done, None);
    };
    // Ctrl-C reaches QEMU too; that the guest is gone is then no news.
    let failure = failure.map(|error| {
        if stop.load(Ordering::Relaxed) {
            Error::Interrupted
        } else {
            error
        }
    });
    if failure.is_none() {
        session.guest.power_off();
    }
    measurement.samples = samples;
    Ok(Outcome { measurement, failure })
}

/// The rounds that were measured in full, and in which boot. Of a round that was interrupted and taken again in another
/// boot only that one counts: schedulers are compared within a boot.
pub fn boots_of_rounds(experiment: &Experiment, samples: &[Sample]) -> BTreeMap<u32, u32> {
    let mut taken = BTreeMap::<_, BTreeSet<_>>::new();
    for sample in samples.iter().filter(|sample| !sample.void) {
        let of_round = taken.entry((sample.round, sample.boot)).or_default();
        of_round.insert((&sample.scheduler, &sample.run));
    }
    let nr_of_round = experiment.schedulers.len() * experiment.runs.len();
    let complete = taken.into_iter().filter(|(_, runs)| runs.len() == nr_of_round);
    complete.map(|(round_and_boot, _)| round_and_boot).collect()
}

/// The fastest CPU over the slowest: a in the paper's equations.
pub fn asymmetry(machine: &Machine) -> f64 {
    let capacity = |fold: fn(u32, u32) -> u32| {
        let capacities = machine.cpus().iter().map(|cpu| cpu.capacity);
        f64::from(capacities.reduce(fold).unwrap_or(1024))
    };
    capacity(u32::max) / capacity(u32::min)
}

/// An image with our own programs: the command, which is the guest's init too, and busybox.
///
/// # Errors
/// If one of them is missing.
pub fn base_image(kernel: &Kernel) -> Result<Image, Error> {
    let mut image = Image::default();
    let own = std::env::current_exe().map_err(|source| Error::Io {
        what: "find",
        path: "this program".into(),
        source,
    })?;
    image.add_program("threadwise", &own)?;
    image.add("init", &own);
    let busybox = find_program("busybox").ok_or_else(|| Error::Missing {
        what: String::from("busybox (busybox-static)"),
    })?;
    image.add_program("busybox", &busybox)?;
    image.add_program("sh", &busybox)?;
    image.add(
        Path::new("boot").join(format!("config-{}", kernel.release)),
        &kernel.config,
    );
    Ok(image)
}

/// The programs that every image has.
const IN_EVERY_IMAGE: [&str; 3] = ["threadwise", "busybox", "sh"];

/// The first program or file that an experiment takes into the guest and that is not here, in the order of their names.
pub fn missing_program(experiment: &Experiment) -> Option<&str> {
    let mut names = experiment.foreign_programs().into_iter();
    names.find(|name| !IN_EVERY_IMAGE.contains(name) && find_program(name).is_none())
}

/// Adds a program that is found on PATH or beside this one, if it is none of the base image's; or a file, by its path.
///
/// # Errors
/// If it is not found.
pub fn add_foreign(image: &mut Image, name: &str) -> Result<(), Error> {
    if IN_EVERY_IMAGE.contains(&name) {
        return Ok(());
    }
    let host = find_program(name).ok_or_else(|| Error::NoProgram { name: name.into() })?;
    image.add_program(name, &host)
}

/// What a sched_ext scheduler (`scx_…`) prints first when it is asked for its version; nothing if it does not know how to answer.
/// Whatever else starts one is not asked: it might go on for ever.
fn version_of(scheduler: &Scheduler, guest: &mut Guest) -> Result<String, Error> {
    let Some(program) = scheduler
        .command
        .first()
        .filter(|program| program.starts_with("scx_"))
    else {
        return Ok(String::new());
    };
    let request = Request::Run {
        commands: vec![vec![program.clone(), String::from("--version")]],
        start_delay_ns: 0,
    };
    let answer = guest.ask(&request, REPORT_DEADLINE)?;
    let Response::Ran { outputs, .. } = answer else {
        return Ok(String::new());
    };
    let said = outputs.first().filter(|output| output.status == Some(0));
    Ok(said
        .and_then(|output| output.stdout.lines().next())
        .unwrap_or_default()
        .to_owned())
}

/// The order turns in every round, so that neither scheduler always comes after the other.
fn alternating(schedulers: &[Scheduler], round: u32) -> Vec<&Scheduler> {
    if round.is_multiple_of(2) {
        schedulers.iter().collect()
    } else {
        schedulers.iter().rev().collect()
    }
}

struct Session<'a> {
    guest: Guest,
    experiment: &'a Experiment,
    machine: &'a Machine,
    /// Set from outside to end after the sample that is being taken.
    stop: &'a AtomicBool,
    /// Which of the experiment's boots this is.
    boot: u32,
    /// Rounds that earlier boots have in full.
    done: BTreeSet<u32>,
    /// The sched_ext scheduler that is attached.
    current: Option<&'a Scheduler>,
}

impl<'a> Session<'a> {
    fn all_rounds(
        &mut self,
        samples: &mut Vec<Sample>,
        watch: &mut impl FnMut(Progress),
    ) -> Result<(), Error> {
        let experiment = self.experiment;
        let of_round = (experiment.schedulers.len() * experiment.runs.len()) as u32;
        let total = experiment.rounds * of_round;
        let mut number = self.done.len() as u32 * of_round;
        for round in 0..experiment.rounds {
            if self.done.contains(&round) {
                continue;
            }
            for scheduler in alternating(&experiment.schedulers, round) {
                self.switch_to(scheduler, watch)?;
                for run in &experiment.runs {
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(Error::Interrupted);
                    }
                    number += 1;
                    watch(Progress::Running(&scheduler.name, run, number, total));
                    self.sample(round, scheduler, run, samples, watch)?;
                }
            }
        }
        self.stop_current()
    }

    fn switch_to(&mut self, scheduler: &'a Scheduler, watch: &mut impl FnMut(Progress)) -> Result<(), Error> {
        if self.current.map(|current| &current.name) == Some(&scheduler.name) {
            return Ok(());
        }
        watch(Progress::Switching(&scheduler.name));
        self.stop_current()?;
        if !scheduler.command.is_empty() {
            self.guest.start_scheduler(scheduler.command.clone())?;
            self.current = Some(scheduler);
        }
        Ok(())
    }

    fn stop_current(&mut self) -> Result<(), Error> {
        let Some(scheduler) = self.current.take() else {
            return Ok(());
        };
        match self.guest.stop_scheduler()? {
            (Some(0), _) => Ok(()),
            (status, log) => Err(Error::InGuest(format!(
                "{} ended with {status:?}:\n{log}",
                scheduler.name
            ))),
        }
    }

    /// Takes a sample, again while it is void; the void ones are kept, marked as such.
    fn sample(
        &mut self,
        round: u32,
        scheduler: &Scheduler,
        run: &[String],
        samples: &mut Vec<Sample>,
        watch: &mut impl FnMut(Progress),
    ) -> Result<(), Error> {
        let (mut least_lost, mut attempts) = (1.0_f64, 0);
        while attempts < ATTEMPTS && (attempts < HOPELESS_ATTEMPTS || least_lost < HOPELESS_LOST) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if attempts > 0 {
                // Whoever disturbs us may be gone in a while.
                std::thread::sleep((FIRST_PAUSE * 2u32.pow(attempts - 1)).min(LONGEST_PAUSE));
            }
            let sample = self.take(round, scheduler, run)?;
            watch(Progress::Sampled(&sample));
            samples.push(sample.clone());
            if !sample.void {
                return Ok(());
            }
            watch(Progress::Void(&sample));
            least_lost = least_lost.min(sample.lost);
            attempts += 1;
        }
        let run = format!("{} under {}", run.join(" + "), scheduler.name);
        let first = samples.len() - attempts as usize;
        Err(given_up(run, &samples[first..]))
    }

    fn take(&mut self, round: u32, scheduler: &Scheduler, run: &[String]) -> Result<Sample, Error> {
        let programs: Vec<_> = run.iter().map(|name| self.experiment.program(name)).collect();
        let commands: Vec<_> = programs
            .iter()
            .map(|program| program.command(self.experiment, self.machine, round))
            .collect();
        let start_delay = Duration::from_secs_f64(self.experiment.start_delay_s);
        let in_two_orders = self.experiment.is_in_two_orders(run);
        let request = if in_two_orders {
            orders::request(&commands)
        } else {
            Request::Run {
                commands,
                start_delay_ns: start_delay.as_nanos() as u64,
            }
        };
        // What starts together does so after the delay; synthetic programs end when they were told to.
        let settle = match programs.iter().all(|program| program.waits_for_start()) {
            true => start_delay,
            false => Duration::ZERO,
        };
        let seconds = Duration::from_secs_f64(self.experiment.seconds);
        let running = programs.iter().all(|program| program.runs_for_seconds());
        let running = running.then_some(seconds);
        let deadline = deadline(self.experiment, &programs, in_two_orders);
        let (answer, counted) = self.guest.ask_counting(&request, settle, running, deadline)?;
        let Response::Ran {
            outputs,
            scheduler_lost,
        } = answer
        else {
            return Err(Error::InGuest(format!(
                "an unexpected answer to a run: {answer:?}"
            )));
        };
        let label = run.join(" + ");
        if let Some(log) = scheduler_lost {
            return Err(Error::ThrownOut {
                scheduler: scheduler.name.clone(),
                run: label,
                log,
            });
        }
        let (lost, late) = (counted.all.lost_share(), counted.all.late_share());
        let started_late = outputs.iter().any(started_late);
        let void = host_was_late(lost, late) || started_late;
        let (performance, orders) = if started_late {
            (Vec::new(), None)
        } else if in_two_orders {
            let measured = orders::measured(&programs, &outputs)?;
            (
                measured.mean_times().map(|time| 1.0 / time).to_vec(),
                Some(measured),
            )
        } else {
            let read = programs.iter().zip(&outputs);
            let read = read.map(|(program, output)| performance(output, program));
            let read = read.collect::<Result<Vec<_>, _>>();
            // What is void is repeated, whatever it says.
            (if void { read.unwrap_or_default() } else { read? }, None)
        };
        let (in_window, window) = counted.window;
        Ok(Sample {
            round,
            boot: self.boot,
            scheduler: scheduler.name.clone(),
            run: run.to_vec(),
            performance,
            orders,
            idle: in_window.idle_share(self.machine.nr_cpus(), window),
            lost,
            late,
            stood_still_s: counted.stood_still.as_secs_f64(),
            caches: in_window.cache_use(),
            instructions: Some(counted.all.instructions),
            host_s: Some(counted.host.as_secs_f64()),
            joules: Vec::new(),
            void,
        })
    }
}

/// When a run's programs are given up, from the request on. In two orders two of them run one after the other.
fn deadline(experiment: &Experiment, programs: &[&Program], in_two_orders: bool) -> Duration {
    let running = Duration::from_secs_f64(experiment.start_delay_s + 2.0 * experiment.seconds);
    let beside = match programs.iter().all(|program| program.synthetic.is_some()) {
        true => REPORT_DEADLINE,
        false => COMMAND_DEADLINE,
    };
    (running + beside) * if in_two_orders { 2 } else { 1 }
}

/// Whether the host served a sample's guest too late for what was measured to count, for these shares of its time.
fn host_was_late(lost: f64, late: f64) -> bool {
    lost > LOST_LIMIT || late > LATE_LIMIT
}

/// Why a run is given up whose attempts were all void: it is the programs only if the host was late in none of them.
fn given_up(run: String, samples: &[Sample]) -> Error {
    let attempts = samples.len() as u32;
    let mut last_first = samples.iter().rev();
    match last_first.find(|sample| host_was_late(sample.lost, sample.late)) {
        None => Error::NotLoaded { run, attempts },
        Some(sample) => Error::Overloaded {
            run,
            attempts,
            why: why_void(sample),
        },
    }
}

/// Why a sample is void, in words.
pub fn why_void(sample: &Sample) -> String {
    let share = |share: f64, limit: f64, what: &str| {
        let tolerated = limit * 100.0;
        (share > limit).then(|| {
            format!(
                "{:.1} % of {what} (at most {tolerated} % is tolerated)",
                share * 100.0
            )
        })
    };
    let lost = share(sample.lost, LOST_LIMIT, "the emulated machine's time was lost");
    let late = share(sample.late, LATE_LIMIT, "its steps came late");
    match (lost, late) {
        (Some(lost), Some(late)) => format!("{lost}, and {late}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => String::from("a program was not loaded in time"),
    }
}

/// Whether a synthetic benchmark was not ready at the common start: the host kept it from loading.
fn started_late(output: &Output) -> bool {
    output.status != Some(0) && output.stderr.contains("the start time") && output.stderr.contains("is past")
}

/// Work a second, as a program says, or one over the seconds that a command says or takes.
pub(crate) fn performance(output: &Output, program: &Program) -> Result<f64, Error> {
    let name = &program.name;
    if output.status != Some(0) {
        let said = format!("{}{}", output.stderr, output.stdout);
        return Err(Error::InGuest(format!(
            "{name} ended with {:?}: {said}",
            output.status
        )));
    }
    if program.synthetic.is_some() {
        let report: synthetic::Report = serde_json::from_str(&output.stdout)
            .map_err(|error| Error::InGuest(format!("{name} reported {:?} ({error})", output.stdout)))?;
        // A figure of nothing can be neither averaged nor compared, and the whole run could not be evaluated.
        return Some(report.work_units_per_s)
            .filter(|rate| rate.is_finite() && *rate > 0.0)
            .ok_or_else(|| {
                Error::InGuest(format!(
                    "{name} starved: it did no unit of work in {} s. Let programs run longer (--seconds), or leave the \
                     scheduler out that lets it starve (--schedulers)",
                    report.duration_s
                ))
            });
    }
    if let Some(figure) = &program.figure {
        return figure_in(figure, &output.stdout)
            .filter(|figure| figure.is_finite() && *figure > 0.0)
            .ok_or_else(|| {
                Error::InGuest(format!(
                    "{name} printed no line of JSON with a {figure:?} above zero: {:?}",
                    output.stdout
                ))
            });
    }
    let after = |label: &str, what: &str| {
        number_after(label, &output.stdout)
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or_else(|| {
                Error::InGuest(format!(
                    "{name} printed no {what} after {label:?}: {:?}",
                    output.stdout
                ))
            })
    };
    match (&program.figure_label, &program.time_label) {
        (Some(label), _) => after(label, "figure above zero"),
        (None, Some(label)) => Ok(1.0 / after(label, "seconds")?),
        (None, None) => Ok(1e9 / output.elapsed_ns as f64),
    }
}

/// The field of the first line of JSON that has it.
fn figure_in(field: &str, text: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let json: serde_json::Value = serde_json::from_str(line).ok()?;
        json.get(field)?.as_f64()
    })
}

/// The number that follows the label in the text.
fn number_after(label: &str, text: &str) -> Option<f64> {
    let (_, after) = text.split_once(label)?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(status: Option<i32>) -> Output {
        Output {
            status,
            stdout: String::from("x"),
            stderr: String::from("no memory"),
            elapsed_ns: 500_000_000,
        }
    }

    #[test]
    fn rounds_alternate() {
        let named = |name: &str| Scheduler {
            name: name.into(),
            command: Vec::new(),
        };
        let both = [named("a"), named("b")];
        let order = |round| {
            alternating(&both, round)
                .iter()
                .map(|s| s.name.as_str())
                .collect::<String>()
        };
        assert_eq!([order(0), order(1), order(2)], ["ab", "ba", "ab"]);
    }

    #[test]
    fn commands_may_run_for_the_seconds_of_their_experiment() {
        let text = |more: &str| {
            format!(
                "name = \"x\"\ndescription = \"x\"\nmachine = \"smp-8\"\nseconds = 600\nrounds = 2\nseed = 1\n\
                 start_delay_s = 60\n[[scheduler]]\nname = \"kernel\"\n[[program]]\nname = \"A\"\n{more}"
            )
        };
        let of = |more: &str, in_two_orders| {
            let experiment = Experiment::from_toml(&text(more), Path::new("x")).unwrap();
            let program = experiment.program("A");
            deadline(&experiment, &[program], in_two_orders).as_secs()
        };
        let command = "command = [\"a\", \"{seconds}\"]";
        assert_eq!(of(command, false), 300 + 2 * 600 + 60);
        assert_eq!(of(command, true), 2 * (300 + 2 * 600 + 60));
        let synthetic = "synthetic = { ratio = \"1:1\", phase_units = 3000 }";
        assert_eq!(of(synthetic, false), 20 + 2 * 600 + 60);
    }

    #[test]
    fn a_late_start_is_told_from_a_failure() {
        let late = Output {
            stderr: "threadwise: the start time 5 ns is past: it was 6 ns".into(),
            ..output(Some(2))
        };
        assert!(started_late(&late) && !started_late(&output(Some(2))) && !started_late(&output(Some(0))));
    }

    #[test]
    fn programs_that_load_too_slowly_are_not_given_slower_cpus() {
        let sample = |lost: f64, late: f64| {
            let json = format!(
                "{{\"round\":0,\"scheduler\":\"kernel\",\"run\":[\"A\"],\"performance\":[],\"idle\":0.0,\"lost\":{lost},\
                 \"late\":{late},\"void\":true}}"
            );
            serde_json::from_str::<Sample>(&json).unwrap()
        };
        let why = |lost, late| {
            let samples = [sample(lost, late), sample(0.0, 0.01)];
            given_up("A under kernel".into(), &samples).to_string()
        };
        let slow = why(0.0, 0.01);
        assert!(
            slow.contains("2 attempts at A under kernel")
                && slow.contains("raise start_delay_s")
                && !slow.contains("lower mips"),
            "{slow}"
        );
        for overloaded in [why(0.5, 0.0), why(0.0, 0.5)] {
            assert!(
                overloaded.contains("lower mips") && !overloaded.contains("start_delay_s"),
                "{overloaded}"
            );
        }
    }

    #[test]
    fn a_failed_program_is_no_sample() {
        let command = |time_label: Option<&str>| Program {
            name: "A".into(),
            command: vec!["a".into()],
            time_label: time_label.map(String::from),
            ..Program::default()
        };
        let error = performance(&output(Some(1)), &command(None))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("A ended with") && error.contains("no memory"),
            "{error}"
        );
        assert!(performance(&output(None), &command(None)).is_err());
        assert_eq!(performance(&output(Some(0)), &command(None)).unwrap(), 2.0);
        assert!(
            performance(&output(Some(0)), &command(Some("Time:"))).is_err(),
            "it printed x"
        );
        let timed = Output {
            stdout: "  Total time: 0.250 [sec]\n".into(),
            ..output(Some(0))
        };
        assert_eq!(performance(&timed, &command(Some("Total time:"))).unwrap(), 4.0);
        let counted = |label: &str| Program {
            figure_label: Some(label.into()),
            ..command(None)
        };
        assert_eq!(performance(&timed, &counted("Total time:")).unwrap(), 0.25);
        for stdout in [
            "",
            "Throughput 0 MB/sec",
            "Throughput -1",
            "Throughput inf",
            "Throughput MB",
        ] {
            let wrong = Output {
                stdout: stdout.into(),
                ..output(Some(0))
            };
            let error = performance(&wrong, &counted("Throughput")).unwrap_err();
            assert!(error.to_string().contains("\"Throughput\""), "{error}");
        }
    }

    #[test]
    fn a_synthetic_program_that_did_nothing_is_no_sample() {
        let program = Program {
            name: "A".into(),
            synthetic: Some(toml::from_str("ratio = \"1:1\"\nphase_units = 3000").unwrap()),
            ..Program::default()
        };
        let did = |units_per_s: &str| {
            let report = format!(
                r#"{{"schema":"x","ratio":"1:1","threads":1,"seed":1,"phase_units":3000,"calibrated_units_per_s":null,
                "distribution":"uniform","wait":"passive","started_at_ns":1,"duration_s":4.0,"interrupted":false,
                "work_units":0,"work_units_per_s":{units_per_s},"rounds":0,"parallel_units":0,"serial_units":0,
                "units_per_thread":[0],"parallel_s":0.0,"serial_s":0.0}}"#
            );
            let output = Output {
                stdout: report,
                ..output(Some(0))
            };
            performance(&output, &program)
        };
        assert_eq!(did("2.5").unwrap(), 2.5);
        let error = did("0.0").unwrap_err().to_string();
        assert!(
            error.contains("A starved") && error.contains("in 4 s") && error.contains("--seconds"),
            "{error}"
        );
    }

    #[test]
    fn a_figure_is_read_from_a_line_of_json() {
        let program = Program {
            name: "A".into(),
            command: vec!["a".into()],
            figure: Some("rate".into()),
            ..Program::default()
        };
        let said = |stdout: &str| {
            let output = Output {
                stdout: stdout.into(),
                ..output(Some(0))
            };
            performance(&output, &program)
        };
        assert_eq!(said("hello\n{\"x\":1}\n{\"rate\":2.5}\n").unwrap(), 2.5);
        for wrong in ["", "rate 2.5", "{\"rate\":0}", "{\"rate\":\"2.5\"}", "{\"x\":1}"] {
            let error = said(wrong).unwrap_err().to_string();
            assert!(error.contains("\"rate\""), "{error}");
        }
    }
}
