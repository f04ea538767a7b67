// SPDX-License-Identifier: GPL-2.0-only
//! What the results of an experiment must show, as its file says, and whether they do.

use serde::{Deserialize, Serialize};
use threadwise_machine::wrong::{Step, Wrong};

use crate::evaluate::{Evaluation, RunResult, SchedulerResult};
use crate::experiment::Experiment;
use crate::run::Label;

/// A `[[must]]` of an experiment file: a bound of a figure, on its mean over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Must {
    /// Of which scheduler.
    pub scheduler: String,
    /// Which figure.
    pub what: What,
    /// In this run of the file; without it, in all runs of several programs, or all where none has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// What of all runs.
    #[serde(default)]
    pub take: Take,
    /// The least that it may be, or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// In the lab only, or simulated only; without it, in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Label>,
}

/// A figure that has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// How much more work is done than under the first scheduler, in percent.
    Gain,
    /// What is done of the fluid bound, in percent.
    OfBound,
    /// How much more is done than by the same programs one after the other, in percent.
    OverSequential,
    /// The smallest speedup over the largest (eq. 3), from 0 to 1.
    Fairness,
    /// How much more energy all packages take than under the first scheduler, in percent.
    Energy,
}

/// What of the figures of all runs has a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// Their mean.
    #[default]
    Mean,
    /// The least of them.
    Least,
}

/// Whether results are as they must be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What must be.
    pub must: String,
    /// What is.
    pub is: f64,
    /// Whether that is within the bound.
    pub holds: bool,
}

/// Whether an experiment's `[[must]]`s speak of its own schedulers and runs.
pub(crate) fn check(experiment: &Experiment) -> Result<(), Wrong> {
    for (nth, must) in experiment.musts.iter().enumerate() {
        let wrong = |key: &'static str, what: String| {
            Wrong::new(&[Step::Key("must"), Step::Nth(nth), Step::Key(key)], what)
        };
        if !experiment.schedulers.iter().any(|one| one.name == must.scheduler) {
            return Err(wrong(
                "scheduler",
                format!("{:?} is no scheduler", must.scheduler),
            ));
        }
        if let Some(run) = must.run.as_ref().filter(|run| !experiment.runs.contains(run)) {
            return Err(wrong("run", format!("{run:?} is no run")));
        }
        if must.at_least.is_some() == must.at_most.is_some() {
            return Err(Wrong::new(
                &[Step::Key("must"), Step::Nth(nth)],
                "it needs either at_least or at_most",
            ));
        }
    }
    Ok(())
}

/// What results say to what must be. What they have no figure for, as runs that were left out, is not looked at.
pub(crate) fn findings(evaluation: &Evaluation) -> Vec<Finding> {
    let musts = evaluation.measurement.experiment.musts.iter();
    let applies = |must: &&Must| must.only.is_none_or(|label| label == evaluation.label);
    musts
        .filter(applies)
        .filter_map(|must| {
            let is = figure(must, evaluation)?;
            Some(Finding {
                must: must.said(),
                is,
                holds: must.at_least.is_none_or(|least| is >= least)
                    && must.at_most.is_none_or(|most| is <= most),
            })
        })
        .collect()
}

/// The figure that has a bound; none if a run of several is without one.
fn figure(must: &Must, evaluation: &Evaluation) -> Option<f64> {
    let runs = &evaluation.runs;
    if let Some(run) = &must.run {
        return of_run(must, runs.iter().find(|result| result.run == *run)?);
    }
    let has_several = runs.iter().any(|result| result.run.len() > 1);
    let counts = |result: &&RunResult| !has_several || result.run.len() > 1;
    let figures = runs.iter().filter(counts).map(|result| of_run(must, result));
    let figures = figures.collect::<Option<Vec<f64>>>()?;
    match must.take {
        Take::Mean => Some(figures.iter().sum::<f64>() / figures.len() as f64),
        Take::Least => figures.into_iter().reduce(f64::min),
    }
}

fn of_run(must: &Must, result: &RunResult) -> Option<f64> {
    let of = |result: &'_ SchedulerResult| result.scheduler == must.scheduler;
    let ours = result.schedulers.iter().find(|result| of(result))?;
    let percent_more = |ratio: f64| 100.0 * (ratio - 1.0);
    let joules = |result: &SchedulerResult| -> f64 { result.joules.iter().map(|of| of.mean).sum() };
    match must.what {
        What::Gain => Some(percent_more(ours.over_baseline.as_ref()?.ratio)),
        What::OfBound => Some(100.0 * ours.share_of_bound.as_ref()?.mean),
        What::OverSequential => Some(percent_more(ours.over_sequential.as_ref()?.ratio)),
        What::Fairness => Some(ours.fairness.as_ref()?.mean),
        What::Energy if ours.joules.is_empty() => None,
        What::Energy => Some(percent_more(joules(ours) / joules(&result.schedulers[0]))),
    }
}

impl Must {
    /// In words.
    fn said(&self) -> String {
        let what = match self.what {
            What::Gain => "gain",
            What::OfBound => "share of the fluid bound",
            What::OverSequential => "gain over one after the other",
            What::Fairness => "fairness",
            What::Energy => "energy",
        };
        let of = match (&self.run, self.take) {
            (Some(run), _) => run.join(" and "),
            (None, Take::Mean) => String::from("the mean of all"),
            (None, Take::Least) => String::from("the least of all"),
        };
        let bound = match (self.at_least, self.at_most) {
            (Some(least), _) => format!("at least {}", self.what.in_unit(least)),
            (_, most) => format!("at most {}", self.what.in_unit(most.unwrap_or(f64::INFINITY))),
        };
        format!("{}: {what}, {of}: {bound}", self.scheduler)
    }
}

impl What {
    fn in_unit(self, value: f64) -> String {
        match self {
            What::Gain | What::OverSequential | What::Energy => format!("{value:+} %"),
            What::OfBound => format!("{value} %"),
            What::Fairness => value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::evaluate::evaluate;
    use crate::evaluate::tests::{EXPERIMENT, measurement};

    /// Alone ours does as much as the kernel's scheduler, together 45 % more.
    fn found(must: &str) -> Vec<Finding> {
        let mut measured = measurement();
        measured.experiment.musts = vec![toml::from_str(must).unwrap()];
        evaluate(measured).unwrap().must
    }

    #[test]
    fn a_bound_holds_or_does_not() {
        let gain = "scheduler = 'ours'\nwhat = 'gain'\n";
        for (must, is, holds) in [
            ("run = ['A']\nat_least = -1.0", 0.0, true),
            ("run = ['A']\nat_least = 1.0", 0.0, false),
            ("at_least = 45.0", 45.45, true),
            ("at_most = 45.0", 45.45, false),
            ("take = 'least'\nat_least = 46.0\nonly = 'lab'", 45.45, false),
        ] {
            let found = found(&format!("{gain}{must}"));
            let as_said = (found[0].is - is).abs() < 0.01 && found[0].holds == holds;
            assert!(as_said, "{must}: {found:?}");
        }
        for other in [
            "what = 'gain'\nat_least = 1.0\nonly = 'simulated'",
            "what = 'energy'\nat_most = 0.0",
            "what = 'over-sequential'\nat_least = 0.0",
        ] {
            let found = found(&format!("scheduler = 'ours'\n{other}"));
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn what_it_speaks_of_must_be_there() {
        for (must, said) in [
            (
                "'theirs'\nwhat = 'gain'\nat_least = 1.0",
                "\"theirs\" is no scheduler",
            ),
            (
                "'ours'\nwhat = 'gain'\nrun = ['B', 'A']\nat_least = 1.0",
                "is no run",
            ),
            ("'ours'\nwhat = 'gain'", "at_least or at_most"),
            ("'ours'\nwhat = 'luck'\nat_least = 1.0", "luck"),
        ] {
            let text = format!("{EXPERIMENT}\n[[must]]\nscheduler = {must}\n");
            let message = Experiment::from_toml(&text, Path::new("t.toml"))
                .unwrap_err()
                .to_string();
            assert!(message.contains(said) && message.contains("line "), "{message}");
        }
    }
}
