// SPDX-License-Identifier: GPL-2.0-only
//! What the commands that carry out experiments have in common.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle, WeakProgressBar};
use threadwise_lab::evaluate::evaluate;
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::{Measurement, Sample, VERSION};
use threadwise_lab::table;
use threadwise_machine::Machine;
use threadwise_machine::wrong::{Step, Wrong};
use threadwise_report::store::Store;
use threadwise_report::timeline::Timeline;
use threadwise_report::{Error, Manifest, Record};

use crate::Format;
use crate::report::{save, try_to_write};
use crate::runs::StoreOptions;

/// Which experiment, and what becomes of its results.
#[derive(clap::Args)]
pub struct Options {
    /// The experiment file
    #[arg(required_unless_present = "resume")]
    experiment: Option<PathBuf>,

    /// Go on with a run that was interrupted: its number, or last
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "runs", "rounds", "seconds", "seed", "phase_units", "same_phases", "machine", "mips", "no_store"])]
    resume: Option<String>,

    /// Only this of the file's runs, such as "A + B", and what each program of it does alone; may be said several times
    #[arg(long = "run", value_name = "RUN")]
    runs: Vec<String>,

    /// Repeat everything so often, instead of what the file says
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000), allow_negative_numbers = true)]
    rounds: Option<u32>,

    /// Let synthetic programs run so long, instead of what the file says
    #[arg(long, value_parser = seconds, allow_negative_numbers = true)]
    seconds: Option<f64>,

    /// The first round's seed, instead of the file's; each further round has the next
    #[arg(long)]
    seed: Option<u64>,

    /// Let the phases of synthetic programs have this mean, in units of work of each thread, instead of what the file says;
    /// 3,000 take 20 ms at 60 million instructions a second
    #[arg(long, value_name = "UNITS")]
    phase_units: Option<u64>,

    /// Let programs draw the same phases in every round, as if the file said same_phases = true: rounds then differ by
    /// what the scheduler and the machine do, and jitter (eq. 5) is theirs alone
    #[arg(long)]
    same_phases: bool,

    /// Use this machine instead of the file's: a name from machines/, a file, or a string such as "package:1 llc:1 core:64 pu:1".
    /// Schedulers are started as the file says, and what it says that results must show is not asked for
    #[arg(long)]
    machine: Option<String>,

    /// Give the fastest CPU so many million instructions a second, instead of what the experiment's or the machine's
    /// file says: with fewer a slow host is done sooner
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true)]
    mips: Option<u32>,

    /// Exit with status 1 if the results do not show what the file says they must ([[must]])
    #[arg(long)]
    strict: bool,

    /// Write the results to this file too, as JSON
    #[arg(long, short)]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreOptions,

    /// Keep no record of this run
    #[arg(long, conflicts_with = "store")]
    no_store: bool,

    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// As an experiment's file may say.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err(String::from("not 0.1 to 600 seconds")),
    }
}

/// What is to be done: an experiment from its start, or the rest of one.
pub struct Task {
    /// The experiment.
    pub experiment: Experiment,
    /// What was measured before it was interrupted.
    pub earlier: Vec<Sample>,
    /// The machine that it was measured on then, as it was modelled.
    pub begun_on: Option<String>,
    /// Where it is recorded.
    pub recording: Recording,
}

/// A run that is recorded as it goes; in memory only, with --no-store.
pub struct Recording {
    store: Store,
    is_kept: bool,
    manifest: Manifest,
    id: Option<i64>,
}

impl Options {
    /// What is to be done. `kernel` is the release that would be booted, empty where none is.
    pub fn task(&self, kernel: &str) -> Result<Task> {
        self.output.as_deref().map_or(Ok(()), try_to_write)?;
        if let Some(wanted) = &self.resume {
            let store = self.store.open()?;
            let record = store.resume(store.find(wanted)?, VERSION, kernel)?;
            return Ok(Task {
                experiment: record.measurement.experiment,
                earlier: record.measurement.samples,
                begun_on: Some(record.measurement.machine),
                recording: Recording {
                    store,
                    is_kept: true,
                    manifest: record.manifest,
                    id: Some(record.id),
                },
            });
        }
        let path = self
            .experiment
            .as_ref()
            .expect("clap wants it where nothing is resumed");
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        // Only the lab has a kernel.
        let experiment = self.changed(Experiment::from_toml(&text, path)?, !kernel.is_empty())?;
        machine_of(&experiment).map_err(|wrong| match &self.machine {
            Some(machine) => anyhow!("--machine {machine:?}: {wrong}"),
            None => in_file(&wrong, Some(path)),
        })?;
        Ok(Task {
            recording: Recording {
                store: match self.no_store {
                    true => Store::in_memory()?,
                    false => self.store.open_or_create()?,
                },
                is_kept: !self.no_store,
                manifest: Manifest::now(&text, &experiment.machine)?,
                id: None,
            },
            experiment,
            earlier: Vec::new(),
            begun_on: None,
        })
    }

    /// The experiment file, if no run is gone on with.
    pub fn file(&self) -> Option<&Path> {
        self.experiment.as_deref()
    }

    /// Whether a run is gone on with.
    pub fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }

    /// With what the options say instead of the file.
    pub fn changed(&self, mut experiment: Experiment, in_lab: bool) -> Result<Experiment> {
        if !self.runs.is_empty() {
            choose_runs(&mut experiment, &self.runs)?;
        }
        experiment.rounds = self.rounds.unwrap_or(experiment.rounds);
        experiment.seconds = self.seconds.unwrap_or(experiment.seconds);
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment.same_phases |= self.same_phases;
        if let Some(machine) = &self.machine {
            experiment.machine.clone_from(machine);
            experiment.musts.clear();
        }
        if let Some(units) = self.phase_units {
            set_phases(&mut experiment, units)?;
        }
        let mips = match experiment.lab_mips {
            Some(_) if in_lab => &mut experiment.lab_mips,
            _ => &mut experiment.mips,
        };
        *mips = self.mips.or(*mips);
        experiment.check().map_err(anyhow::Error::msg)?;
        Ok(experiment)
    }

    /// Evaluates, writes and prints.
    pub fn report(&self, measurement: Measurement) -> Result<ExitCode> {
        let evaluation = evaluate(measurement)?;
        let json = serde_json::to_string_pretty(&evaluation)?;
        let written = self.output.as_ref().map_or(Ok(()), |path| save(path, &json));
        match self.format {
            Format::Text => print!("{}", table::render(&evaluation)),
            Format::Json => println!("{json}"),
        }
        // What took hours is printed all the same.
        written?;
        let findings = &evaluation.findings;
        ensure!(
            !self.strict || !findings.is_empty(),
            "--strict: nothing that the file says these results must show was looked at; it says so in [[must]], of its own \
             runs and schedulers"
        );
        let holds = findings.iter().all(|finding| finding.holds);
        Ok(ExitCode::from(u8::from(self.strict && !holds)))
    }
}

/// Leaves those runs of an experiment that are asked for, and those of one program that is in them.
fn choose_runs(experiment: &mut Experiment, chosen: &[String]) -> Result<()> {
    let name = |run: &Vec<String>| run.join(" + ");
    let runs = &experiment.runs;
    for wanted in chosen {
        ensure!(
            runs.iter().any(|run| name(run) == *wanted),
            "--run {wanted:?}: the experiment has {:?}",
            runs.iter().map(name).collect::<Vec<_>>()
        );
    }
    let (kept, left): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(|run| chosen.contains(&name(run)));
    let alone = |run: &&Vec<String>| run.len() == 1 && kept.iter().any(|kept| kept.contains(&run[0]));
    experiment.runs = left.iter().filter(alone).chain(&kept).cloned().collect();
    // What must be of all runs need not be of some.
    experiment.musts.retain(|must| must.run.is_some());
    Ok(())
}

/// Lets the phases of synthetic programs, and stages, have this mean.
fn set_phases(experiment: &mut Experiment, units: u64) -> Result<()> {
    let programs = &mut experiment.programs;
    let lengths: Vec<&mut u64> = programs
        .iter_mut()
        .flat_map(|program| {
            let phases = program.synthetic.as_mut().map(|of| &mut of.phase_units);
            phases
                .into_iter()
                .chain(program.stages.as_mut().map(|of| &mut of.phase_units))
        })
        .collect();
    ensure!(
        !lengths.is_empty(),
        "--phase-units: no program of experiment {:?} is synthetic",
        experiment.name
    );
    lengths.into_iter().for_each(|length| *length = units);
    Ok(())
}

/// What is wrong with an experiment, with the file that it is from, if it is from one, and the line.
pub fn in_file(wrong: &Wrong, path: Option<&Path>) -> anyhow::Error {
    let text = path.and_then(|path| Some((path, std::fs::read_to_string(path).ok()?)));
    match text {
        Some((path, text)) => anyhow!("{}: {}", path.display(), wrong.in_file(&text)),
        None => anyhow!("{wrong}"),
    }
}

/// The machine that an experiment names.
///
/// # Errors
/// If there is none, what is wrong with its file, or a program that is bound to a CPU that it does not have.
pub fn machine_of(experiment: &Experiment) -> Result<Machine, Wrong> {
    let machine = Machine::load(&experiment.machine)
        .map_err(|error| Wrong::new(&[Step::Key("machine")], format!("machine: {error}")))?;
    for (nth, program) in experiment.programs.iter().enumerate() {
        let is_there = |cpu: usize| cpu < machine.nr_cpus();
        if let Some(cpu) = program.bound_to.filter(|&cpu| !is_there(cpu)) {
            let at = [Step::Key("program"), Step::Nth(nth), Step::Key("bound_to")];
            let (name, machine) = (&program.name, machine.name());
            return Err(Wrong::new(
                &at,
                format!("program {name:?}: bound_to = {cpu}, which {machine} has not"),
            ));
        }
    }
    Ok(machine)
}

impl Recording {
    /// The run begins, or it is gone on with by the same emulator and schedulers; `measurement` has no samples yet.
    pub fn begin(&mut self, measurement: &Measurement) -> Result<(), Error> {
        match self.id {
            Some(id) => self.store.go_on(id, measurement),
            None => {
                self.id = Some(self.store.begin(&self.manifest, measurement)?);
                Ok(())
            }
        }
    }

    /// Its number where it is kept; none with --no-store.
    pub fn id(&self) -> Option<i64> {
        self.id.filter(|_| self.is_kept)
    }

    /// What is recorded, if it has begun.
    pub fn record(&self) -> Result<Option<Record>, Error> {
        self.id.map(|id| self.store.load(id)).transpose()
    }

    /// A sample was taken.
    pub fn sample(&self, sample: &Sample) -> Result<(), Error> {
        self.id.map_or(Ok(()), |id| self.store.add_sample(id, sample))
    }

    /// What ran where and when is known.
    pub fn timelines(&self, timelines: &[Timeline]) -> Result<(), Error> {
        let Some(id) = self.id else {
            return Ok(());
        };
        let store = &self.store;
        store.at_once(|| timelines.iter().try_for_each(|one| store.add_timeline(id, one)))
    }

    /// The run ends; returns its number where it is kept.
    pub fn end(&self, failure: Option<&str>) -> Result<Option<i64>, Error> {
        self.id.map_or(Ok(()), |id| self.store.end(id, failure))?;
        let kept = self.id();
        if let Some(id) = kept.filter(|_| failure.is_none()) {
            eprintln!("threadwise: kept as run {id}; threadwise report {id} writes a page about it");
        }
        Ok(kept)
    }
}

/// How often a log is told how far it is.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// On a terminal; elsewhere, where indicatif hides it, a line each minute.
pub fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len} {eta}")
        .expect("a constant template");
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(250));
    if bar.is_hidden() {
        let followed = bar.downgrade();
        std::thread::spawn(move || tell(&followed, TELL_EVERY, std::io::stderr()));
    }
    bar
}

/// Writes how far a bar is, again and again, until it is finished or nobody has it any more.
fn tell(bar: &WeakProgressBar, every: Duration, mut to: impl Write) {
    loop {
        std::thread::sleep(every);
        let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) else {
            return;
        };
        let (done, all) = (bar.position(), bar.length().unwrap_or(0));
        writeln!(to, "{} {done}/{all}", bar.message()).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn a_log_is_told_how_far_it_is() {
        let (reader, writer) = std::io::pipe().unwrap();
        let bar = ProgressBar::hidden();
        bar.set_length(7);
        bar.set_position(3);
        bar.set_message("runs");
        let followed = bar.downgrade();
        let teller = std::thread::spawn(move || tell(&followed, Duration::from_millis(20), writer));
        let mut told = String::new();
        let mut reader = BufReader::new(reader);
        reader.read_line(&mut told).unwrap();
        assert_eq!(told, "runs 3/7\n");
        // It ends with the bar.
        bar.finish_and_clear();
        teller.join().unwrap();
    }
}
