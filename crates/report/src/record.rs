// SPDX-License-Identifier: GPL-2.0-only
//! What is known of a run: enough to repeat it, and to make every table of it again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use threadwise_lab::evaluate::{Evaluation, evaluate};
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::{Measurement, Sample, boots_of_rounds};
use threadwise_machine::Machine;

use crate::error::Error;
use crate::repeat;
use crate::timeline::Timeline;

/// Names the layout of the JSON that a record is written as.
pub const SCHEMA: &str = "threadwise.run/1";

/// What was run and on what, as it was known when it began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The command, with its arguments.
    pub command: Vec<String>,
    /// The text of the experiment file.
    pub experiment_text: String,
    /// The text of the machine file, if it was one.
    pub machine_text: Option<String>,
    /// The machine, as `threadwise topo --format json` prints it.
    pub machine: serde_json::Value,
    /// The operating system and processor of the host.
    pub host: String,
}

impl Manifest {
    /// That of an experiment which begins now, on this host, by this process's command line. `text` is its file's.
    ///
    /// # Errors
    /// If the machine cannot be read.
    pub fn now(text: &str, machine: &str) -> Result<Self, Error> {
        let loaded = Machine::load(machine)?;
        Ok(Self {
            command: command_line(),
            experiment_text: text.to_string(),
            machine_text: Machine::text_of(machine)?,
            machine: serde_json::to_value(&loaded).expect("a machine has string keys only"),
            host: host(),
        })
    }

    /// The machine as it was.
    ///
    /// # Errors
    /// If what is stored is none.
    pub fn machine(&self) -> Result<Machine, Error> {
        let text = self.machine.to_string();
        Ok(Machine::from_json(&text, "the run's machine")?)
    }
}

/// This process's, with the program as it is called and not where it lies.
fn command_line() -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(program) = words.first_mut()
        && let Some((_, name)) = program.rsplit_once('/')
    {
        *program = name.to_string();
    }
    words
}

/// Kernel release and processor of the host; what of them cannot be read is left out.
pub fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("", |(_, name)| name.trim());
    let nr = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    format!("Linux {}, {nr} CPUs, {model}", release.trim())
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is measured now.
    Running,
    /// All of it was measured.
    Complete,
    /// It ended early, and can be resumed.
    Interrupted,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            State::Running => "running",
            State::Complete => "complete",
            State::Interrupted => "interrupted",
        })
    }
}

/// A run with everything that was measured in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its number in the store that it is from.
    pub id: i64,
    /// The file that it was read from, if it was.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// When it began: UTC, ISO 8601.
    pub began: String,
    /// How far it has come.
    pub state: State,
    /// Why it ended early.
    pub failure: Option<String>,
    /// What was run and on what.
    pub manifest: Manifest,
    /// What was measured.
    pub measurement: Measurement,
    /// What ran where and when, of what was simulated.
    pub timelines: Vec<Timeline>,
}

impl Record {
    /// Reads a file that `threadwise runs export` wrote.
    ///
    /// # Errors
    /// If it cannot be read or holds none.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
            what: "read",
            path: path.into(),
            source,
        })?;
        let fail = |problem: String| Error::NoRun {
            path: path.into(),
            problem,
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(fail(format!("its schema is {other:?}, not {SCHEMA:?}"))),
            None => return Err(fail(String::from("it names no schema"))),
        }
        let record: Self = serde_json::from_value(value).map_err(|error| fail(error.to_string()))?;
        record.check().map_err(fail)?;
        Ok(Self {
            file: Some(path.into()),
            ..record
        })
    }

    /// What its user calls it: a file has the number that it had in another store.
    pub fn called(&self) -> String {
        match &self.file {
            Some(path) => format!("the run in {}", path.display()),
            None => format!("run {}", self.id),
        }
    }

    /// The numbers of the report.
    ///
    /// # Errors
    /// If there are fewer than two complete rounds.
    pub fn evaluate(&self) -> Result<Evaluation, Error> {
        self.check_rounds()?;
        Ok(evaluate(self.measurement.clone())?)
    }

    /// Whether there are rounds enough for a spread.
    ///
    /// # Errors
    /// [`Error::TooFewRounds`] says how to come by more.
    pub(crate) fn check_rounds(&self) -> Result<(), Error> {
        let measured = &self.measurement;
        let complete = boots_of_rounds(&measured.experiment, &measured.samples).len();
        if complete >= 2 {
            return Ok(());
        }
        let command = repeat::command_of(measured.label);
        let (state, what_to_do) = match (self.state, &self.file) {
            (State::Running, None) => ("is measured now and has", String::from("wait for them")),
            (State::Complete, _) => ("has", format!("make another with threadwise {command}")),
            (_, None) => (
                "was interrupted after",
                format!("go on with threadwise {command} --resume {}", self.id),
            ),
            (_, Some(_)) => (
                "was interrupted after",
                format!("go on with threadwise {command} --resume where it is kept, and export it anew"),
            ),
        };
        Err(Error::TooFewRounds {
            called: self.called(),
            state,
            complete,
            rounds: measured.experiment.rounds,
            what_to_do,
        })
    }

    /// Whether what was read can be evaluated and shown: others may have written it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let experiment = &self.measurement.experiment;
        experiment.check().map_err(|wrong| wrong.to_string())?;
        let mut taken = BTreeSet::new();
        for sample in &self.measurement.samples {
            let wrong = |what: &str| {
                let (run, scheduler, round) = (&sample.run, &sample.scheduler, sample.round);
                Err(format!(
                    "a sample of {run:?} under {scheduler:?} in round {round} {what}"
                ))
            };
            if let Some(what) = wrong_with(sample, experiment) {
                return wrong(what);
            }
            // A round that was interrupted is taken again in another boot.
            let of = (sample.round, sample.boot, &sample.scheduler, &sample.run);
            if !sample.void && !taken.insert(of) {
                return wrong("is there twice");
            }
        }
        self.timelines.iter().try_for_each(Timeline::check)?;
        let nr_cpus = self
            .manifest
            .machine()
            .map_err(|error| error.to_string())?
            .nr_cpus();
        if self
            .timelines
            .iter()
            .any(|timeline| timeline.cpus.len() != nr_cpus)
        {
            return Err(format!("a timeline is not of the machine's {nr_cpus} CPUs"));
        }
        Ok(())
    }
}

/// Why a sample cannot be one of this experiment, if it cannot. A void one has no performance.
fn wrong_with(sample: &Sample, experiment: &Experiment) -> Option<&'static str> {
    let mut schedulers = experiment.schedulers.iter();
    let is_known = experiment.runs.contains(&sample.run)
        && schedulers.any(|scheduler| scheduler.name == sample.scheduler)
        && sample.round < experiment.rounds;
    let is_share = |share| (0.0..=1.0).contains(&share);
    let is_performance = |value: &f64| value.is_finite() && *value > 0.0;
    if !is_known || (!sample.void && sample.performance.len() != sample.run.len()) {
        Some("is none of its experiment's")
    } else if !is_share(sample.idle) || !is_share(sample.lost) {
        Some("has a share of idle or lost time that is not between 0 and 1")
    } else if !sample.void && !sample.performance.iter().all(is_performance) {
        Some("has a performance that is not above zero")
    } else {
        None
    }
}
