// SPDX-License-Identifier: GPL-2.0-only
//! What was produced before: runs of the simulator and the lab, and what other commands printed. All of it is in the store of
//! runs.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use threadwise_lab::run::VERSION;
use threadwise_machine::Machine;
use threadwise_report::page::Shown;
use threadwise_report::reproduction::{Form, Output, Source};
use threadwise_report::store::{Printed, Store};
use threadwise_report::{Record, State};

use super::{Job, Made, as_json, failed};

/// Keeps what is produced.
pub struct Keeper {
    store: Store,
    /// What was kept before counts for nothing.
    is_anew: bool,
}

/// How a job's command is started.
pub struct Arguments {
    /// Its arguments.
    pub words: Vec<String>,
    /// The folder of the file that they name, which is deleted with this.
    _scratch: TempDir,
}

impl Keeper {
    /// Keeps in this store.
    pub fn new(store: Store, is_anew: bool) -> Self {
        Self { store, is_anew }
    }

    /// What the job produced before, if that is complete.
    pub fn kept(&self, job: &Job) -> Result<Option<Made>> {
        if self.is_anew {
            return Ok(None);
        }
        if job.experiment.is_some() {
            let run = self.run(job, State::Complete)?;
            return run
                .map(|record| of_run(job.source, record, None, None))
                .transpose();
        }
        let printed = self.store.output(VERSION, &job.arguments)?;
        Ok(printed.map(|printed| Made {
            output: Output::Made(printed.output),
            state: String::from("kept from before"),
            seconds: None,
            shown: None,
            repeat: None,
        }))
    }

    /// The number of a run of the job that another process measures now.
    pub fn running(&self, job: &Job) -> Result<Option<i64>> {
        let run = match job.experiment {
            Some(_) => self.run(job, State::Running)?,
            None => None,
        };
        Ok(run.map(|record| record.id))
    }

    /// How to start it, or to go on with it.
    pub fn arguments(&self, job: &Job) -> Result<Arguments> {
        let scratch =
            tempfile::tempdir().context("cannot create a folder for what a command needs meanwhile")?;
        let file = scratch.path().join("scratch").display().to_string();
        let interrupted = match &job.experiment {
            Some(_) if !self.is_anew => self.run(job, State::Interrupted)?,
            _ => None,
        };
        let words: Vec<String> = match interrupted {
            Some(record) => resume(&job.arguments, record.id),
            None => job
                .arguments
                .iter()
                .map(|word| word.replace("{scratch}", &file))
                .collect(),
        };
        let mut words = as_json(&words);
        if job.experiment.is_some() {
            words.extend([String::from("--store"), self.store.path().display().to_string()]);
        }
        Ok(Arguments {
            words,
            _scratch: scratch,
        })
    }

    /// Keeps what it printed; a run has kept itself.
    pub fn keep(&self, job: &Job, output: Value, seconds: f64) -> Result<Made> {
        if job.experiment.is_some() {
            let record = self.run(job, State::Complete)?;
            let record =
                record.with_context(|| format!("the run of {:?} is not in the store", job.source.name))?;
            return of_run(job.source, record, Some(output), Some(seconds));
        }
        let printed = Printed { output, seconds };
        self.store.keep_output(VERSION, &job.arguments, &printed)?;
        Ok(Made {
            output: Output::Made(printed.output),
            state: String::from("done"),
            seconds: Some(seconds),
            shown: None,
            repeat: None,
        })
    }

    /// What there is of a run that failed: its complete rounds, if they can be evaluated.
    pub fn part_of(&self, job: &Job, why: &str, seconds: f64) -> Result<Made> {
        let interrupted = match job.experiment {
            Some(_) => self.run(job, State::Interrupted)?,
            None => None,
        };
        let Some(record) = interrupted.filter(|record| record.evaluate().is_ok()) else {
            return Ok(failed(why.into(), Some(seconds)));
        };
        let made = of_run(job.source, record, None, Some(seconds))?;
        Ok(Made {
            state: format!("{}, not complete: {why}", made.state),
            ..made
        })
    }

    /// The latest run in this state of the same command, version, experiment and machine.
    fn run(&self, job: &Job, state: State) -> Result<Option<Record>> {
        let (experiment, text) = job.experiment.as_ref().expect("only experiments have runs");
        let machine = serde_json::to_value(Machine::load(&experiment.machine)?)?;
        let listed = self.store.list()?;
        let label = match job.source.form {
            Form::Lab => "lab",
            Form::Computed | Form::Simulated | Form::Measured => "simulated",
        };
        let entries = listed.iter().rev().filter(|entry| {
            entry.state == state
                && entry.version == VERSION
                && entry.label == label
                && entry.experiment == experiment.name
        });
        for entry in entries {
            // One that is damaged is none.
            let Ok(record) = self.store.load(entry.id) else {
                continue;
            };
            let manifest = &record.manifest;
            let is_same = started_by(&manifest.command, &job.arguments)
                && manifest.experiment_text == *text
                && manifest.machine == machine;
            if is_same {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// A run that was measured before, maybe by another version, and stands in a file.
pub fn stored(source: &Source, path: &Path) -> Result<Made> {
    let record = Record::from_file(path)?;
    let (began, version) = (record.began.clone(), record.measurement.version.clone());
    let repeat = record.manifest.command.get(1..).map(super::command);
    let made = of_run(source, record, None, None)?;
    Ok(Made {
        state: format!(
            "measured before: {}, of {began}, with threadwise {version}",
            path.display()
        ),
        repeat,
        ..made
    })
}

/// Whether a command line has these arguments, and after them only what [`Keeper::arguments`] adds.
fn started_by(command: &[String], arguments: &[String]) -> bool {
    command
        .get(1..)
        .and_then(|words| words.strip_prefix(arguments))
        .is_some_and(|more| more.first().is_some_and(|word| word == "--format"))
}

/// Goes on with a run: what is booted or modelled has to be said again, what is run has not.
fn resume(arguments: &[String], id: i64) -> Vec<String> {
    let mut words: Vec<String> = arguments[..2].to_vec();
    words.extend([String::from("--resume"), id.to_string()]);
    for option in ["--kernel", "--without", "--llc-kib"] {
        if let Some(place) = arguments.iter().position(|word| word == option) {
            words.extend(arguments[place..].iter().take(2).cloned());
        }
    }
    words
}

/// A run of which `printed` is the evaluation, if it is at hand: another takes a second where there are many pairs.
fn of_run(source: &Source, record: Record, printed: Option<Value>, seconds: Option<f64>) -> Result<Made> {
    let id = record.id;
    let when = match seconds {
        Some(_) => String::new(),
        None => format!(" of {}", record.began),
    };
    let (output, shown) = match (source.is_drawn, printed) {
        (true, _) => {
            let shown = Shown::new(record)?;
            (serde_json::to_value(&shown.evaluation)?, Some(shown))
        }
        (false, Some(printed)) => (printed, None),
        (false, None) => (serde_json::to_value(record.evaluate()?)?, None),
    };
    let void = match output["nr_void"].as_u64() {
        None | Some(0) => String::new(),
        Some(nr) => format!(", {nr} samples void and repeated"),
    };
    Ok(Made {
        state: format!("run {id}{when}, {} rounds{void}", output["nr_rounds"]),
        output: Output::Made(output),
        seconds,
        shown,
        repeat: None,
    })
}

#[cfg(test)]
mod tests {
    use super::resume;

    #[test]
    fn what_a_run_is_modelled_with_is_said_again() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let begun =
            words("sim run experiments/packages.toml --without caches,refill --rounds 3 --llc-kib 16384");
        let resumed = words("sim run --resume 7 --without caches,refill --llc-kib 16384");
        assert_eq!(resume(&begun, 7), resumed);
    }
}
