// SPDX-License-Identifier: GPL-2.0-only
//! What the results of an experiment must show, as its file says, and whether they do.

use serde::{Deserialize, Serialize};
use threadwise_machine::wrong::{Step, Wrong};
use threadwise_metrics::percent_more;

use crate::evaluate::{Evaluation, RunResult, SchedulerResult};
use crate::experiment::{Experiment, LeftOut};
use crate::run::Label;

/// A `[[must]]` of an experiment file: a bound of a figure, on its mean over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Must {
    /// Of which scheduler.
    pub scheduler: String,
    /// Which figure.
    pub what: What,
    /// In this run of the file; without it, in all that `of` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Vec<String>>,
    /// In which runs of the file.
    #[serde(default)]
    pub of: Of,
    /// What of them.
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
    /// Compared with this scheduler, the file's first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    baseline: String,
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
    /// How much more the times of the program vary that varies most (eq. 5) than under the first scheduler, in percent, where
    /// programs draw the same phases in every round.
    Jitter,
    /// How many more instructions the guest needs than under the first scheduler, in percent.
    Instructions,
    /// What misses of all accesses to last-level caches, in percent, where the lab models them.
    Misses,
    /// How much more energy all packages take than under the first scheduler, in percent.
    Energy,
}

/// Runs whose figures have a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Those of several programs.
    #[default]
    Together,
    /// All.
    All,
}

/// What of the figures of several runs has a bound.
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
    pub must: Must,
    /// What is, in the unit of [`What`]; none where these results have no such figure.
    pub is: Option<f64>,
    /// Whether that is there and within the bound.
    pub holds: bool,
}

/// Has an experiment's `[[must]]`s compare with its first scheduler, whichever are left later.
///
/// # Errors
/// If one speaks of what is not in the file, or of a figure that is never there.
pub(crate) fn settle(experiment: &mut Experiment) -> Result<(), Wrong> {
    let baseline = experiment.schedulers[0].name.clone();
    for (nth, must) in experiment.musts.iter().enumerate() {
        must.check(experiment, &baseline).map_err(|(key, what)| {
            let at = [Step::Key("must"), Step::Nth(nth), Step::Key(key)];
            Wrong::new(&at, what)
        })?;
    }
    for must in &mut experiment.musts {
        must.baseline.clone_from(&baseline);
    }
    Ok(())
}

/// What results say to what must be, but for what must be of runs and schedulers that were left out.
pub(crate) fn findings(evaluation: &Evaluation) -> Vec<Finding> {
    let musts = evaluation.measurement.experiment.musts.iter();
    let applies = |must: &&Must| must.only.is_none_or(|label| label == evaluation.label);
    let finding = |must: &Must| {
        let is = must.figure(evaluation).filter(|is| is.is_finite());
        Finding {
            must: must.clone(),
            is,
            holds: is.is_some_and(|is| match (must.at_least, must.at_most) {
                (Some(least), _) => is >= least,
                (_, most) => most.is_some_and(|most| is <= most),
            }),
        }
    };
    musts
        .filter(applies)
        .filter(|must| must.is_measured(evaluation))
        .map(finding)
        .collect()
}

impl Must {
    /// Whether it speaks of what is there; if not, which key is wrong, and why.
    fn check(&self, experiment: &Experiment, baseline: &str) -> Result<(), (&'static str, String)> {
        if !experiment.schedulers.iter().any(|one| one.name == self.scheduler) {
            return Err(("scheduler", format!("{:?} is no scheduler", self.scheduler)));
        }
        if self.is_relative() && self.scheduler == baseline {
            let what = format!("{baseline:?} is the first scheduler, which others are compared with");
            return Err(("scheduler", what));
        }
        let runs: Vec<&Vec<String>> = experiment.runs.iter().filter(|run| self.is_of(run)).collect();
        match &self.run {
            Some(run) if runs.is_empty() => return Err(("run", format!("{run:?} is no run"))),
            Some(_) if self.take != Take::Mean || self.of != Of::Together => {
                return Err(("run", String::from("with run there is no take, and no of")));
            }
            None if runs.is_empty() => return Err(("of", String::from("no run is of several programs"))),
            _ => {}
        }
        let is_there = |run: &&Vec<String>| match self.what {
            What::Gain | What::Energy => true,
            What::Jitter => experiment.same_phases,
            What::Misses => experiment.caches.is_some(),
            What::OfBound | What::Fairness => run.len() > 1,
            What::OverSequential => experiment.is_in_two_orders(run),
            What::Instructions => run.iter().all(|name| experiment.program(name).is_timed()),
        };
        if let Some(run) = runs.iter().find(|run| !is_there(run)) {
            return Err(("what", format!("run {run:?} has no such figure")));
        }
        match [self.at_least, self.at_most]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()[..]
        {
            [bound] if bound.is_finite() => Ok(()),
            _ => Err((
                "what",
                String::from("it needs either at_least or at_most, a number"),
            )),
        }
    }

    /// Whether it is of how much more there is than under the first scheduler.
    fn is_relative(&self) -> bool {
        matches!(
            self.what,
            What::Gain | What::Jitter | What::Instructions | What::Energy
        )
    }

    /// Whether these results are of its runs and its scheduler, and of that which it compares with; and of what
    /// it speaks of, if that can be left out.
    fn is_measured(&self, evaluation: &Evaluation) -> bool {
        let is_without = &evaluation.measurement.experiment.without;
        if self.what == What::Misses && is_without.contains(&LeftOut::Caches) {
            return false;
        }
        let mut runs = evaluation.runs.iter().filter(|result| self.is_of(&result.run));
        runs.any(|result| {
            let has = |name: &str| result.schedulers.iter().any(|of| of.scheduler == name);
            let first = result.schedulers.first();
            let is_compared = first.is_some_and(|first| first.scheduler == self.baseline);
            has(&self.scheduler) && (is_compared || !self.is_relative())
        })
    }

    /// Whether it is of this run.
    fn is_of(&self, run: &[String]) -> bool {
        match &self.run {
            Some(one) => one == run,
            None => self.of == Of::All || run.len() > 1,
        }
    }

    /// The figure that has a bound; none if one of its runs is without one, and no number if there is no run.
    fn figure(&self, evaluation: &Evaluation) -> Option<f64> {
        let runs = evaluation.runs.iter().filter(|result| self.is_of(&result.run));
        let figures = runs.map(|result| self.of_run(result));
        let figures = figures.collect::<Option<Vec<f64>>>()?;
        match self.take {
            Take::Mean => Some(figures.iter().sum::<f64>() / figures.len() as f64),
            Take::Least => figures.into_iter().reduce(f64::min),
        }
    }

    fn of_run(&self, result: &RunResult) -> Option<f64> {
        let mut of_all = result.schedulers.iter();
        let ours = of_all.find(|result| result.scheduler == self.scheduler)?;
        let first = result.schedulers.first()?;
        let is_compared = first.scheduler == self.baseline;
        let joules = |result: &SchedulerResult| -> f64 { result.joules.iter().map(|of| of.mean).sum() };
        let jitter = |result: &SchedulerResult| result.jitter.iter().map(|of| of.value).fold(0.0, f64::max);
        match self.what {
            What::Gain => Some(percent_more(
                ours.over_baseline.as_ref().filter(|_| is_compared)?.ratio,
            )),
            What::OfBound => Some(100.0 * ours.share_of_bound.as_ref()?.mean),
            What::OverSequential => Some(percent_more(ours.over_sequential.as_ref()?.ratio)),
            What::Fairness => Some(ours.fairness.as_ref()?.mean),
            What::Jitter => Some(more_jitter(jitter(ours), jitter(first)))
                .filter(|_| is_compared)
                .map(percent_more),
            What::Instructions => Some(percent_more(
                ours.instructions_over_baseline
                    .as_ref()
                    .filter(|_| is_compared)?
                    .ratio,
            )),
            What::Misses => Some(100.0 * ours.misses.as_ref()?.mean),
            What::Energy => Some(joules(ours) / joules(first))
                .filter(|_| is_compared)
                .map(percent_more),
        }
    }
}

/// Jitter over another's; of that there may be none, as in simulations, and then a little is ten thousand times as much.
fn more_jitter(ours: f64, first: f64) -> f64 {
    let ratio = ours / first;
    if ratio.is_nan() { 1.0 } else { ratio.min(10_000.0) }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let must = &self.must;
        let what = match must.what {
            What::Gain => "gain",
            What::OfBound => "share of the fluid bound",
            What::OverSequential => "gain over one after the other",
            What::Fairness => "fairness",
            What::Jitter => "jitter",
            What::Instructions => "instructions",
            What::Misses => "misses",
            What::Energy => "energy",
        };
        let of = match (&must.run, must.take, must.of) {
            (Some(run), ..) => run.join(" and "),
            (None, Take::Mean, Of::Together) => String::from("the mean of programs together"),
            (None, Take::Least, Of::Together) => String::from("the least of programs together"),
            (None, Take::Mean, Of::All) => String::from("the mean of all"),
            (None, Take::Least, Of::All) => String::from("the least of all"),
        };
        let (bound, end) = match (must.at_least, must.at_most) {
            (Some(least), _) => ("at least", least),
            (_, most) => ("at most", most.unwrap_or(f64::NAN)),
        };
        let in_unit = |value: f64| must.what.in_unit(value);
        let holds = if self.holds { "holds" } else { "DOES NOT HOLD" };
        let is = self.is.map_or_else(|| String::from("not known here"), in_unit);
        write!(
            f,
            "{holds}: {what} of {}, {of}, must be {bound} {}, is {is}",
            must.scheduler,
            in_unit(end),
        )
    }
}

impl What {
    fn in_unit(self, value: f64) -> String {
        match self {
            What::Gain | What::OverSequential | What::Jitter | What::Instructions | What::Energy => {
                format!("{value:+.2} %")
            }
            What::OfBound | What::Misses => format!("{value:.2} %"),
            What::Fairness => format!("{value:.3}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::evaluate::evaluate;
    use crate::evaluate::tests::{EXPERIMENT, measurement};
    use crate::governor::CacheUse;
    use crate::run::Sample;

    /// Alone ours does as much as the kernel's scheduler, together 45 % more.
    fn found(must: &str) -> Vec<Finding> {
        let mut measured = measurement();
        measured.experiment.musts = vec![toml::from_str(must).unwrap()];
        settle(&mut measured.experiment).unwrap();
        evaluate(measured).unwrap().findings
    }

    #[test]
    fn a_bound_holds_or_does_not() {
        for (must, is, holds) in [
            ("what = 'gain'\nrun = ['A']\nat_least = -1.0", 0.0, true),
            ("what = 'gain'\nrun = ['A']\nat_least = 1.0", 0.0, false),
            ("what = 'gain'\nat_least = 45.0", 45.45, true),
            ("what = 'gain'\nat_most = 45.0", 45.45, false),
            ("what = 'gain'\nat_least = 46.0\nonly = 'lab'", 45.45, false),
            ("what = 'gain'\nof = 'all'\nat_least = 15.0", 15.15, true),
            (
                "what = 'gain'\nof = 'all'\ntake = 'least'\nat_least = 1.0",
                0.0,
                false,
            ),
            // A does three quarters of what it does alone, B half.
            ("what = 'fairness'\nat_least = 0.7", 0.667, false),
        ] {
            let found = found(&format!("scheduler = 'ours'\n{must}"));
            let as_said = (found[0].is.unwrap() - is).abs() < 0.01 && found[0].holds == holds;
            assert!(as_said, "{must}: {found:?}");
            assert_eq!(found[0].to_string().starts_with("holds: "), holds);
        }
        let other = found("scheduler = 'ours'\nwhat = 'gain'\nat_least = 1.0\nonly = 'simulated'");
        assert!(other.is_empty(), "{other:?}");
    }

    #[test]
    fn a_figure_that_is_not_there_does_not_hold() {
        let found = found("scheduler = 'ours'\nwhat = 'energy'\nat_most = 0.0");
        assert!(!found[0].holds, "{found:?}");
        let said = "DOES NOT HOLD: energy of ours, the mean of programs together, must be at most +0.00 %, is not known here";
        assert_eq!(found[0].to_string(), said);
    }

    #[test]
    fn instructions_are_bounded_where_programs_are_timed() {
        let text = EXPERIMENT.replace(
            "synthetic = { ratio = \"1:1\", phase_units = 1 }",
            "command = [\"a\"]\ntime_label = \"s\"",
        );
        let must = |run: &str, most: f64| {
            format!(
                "runs = [[\"A\"], [\"B\"]]\n{text}\n[[must]]\nscheduler = 'ours'\nwhat = 'instructions'\nrun = ['{run}']\nat_most = {most:.1}\n"
            )
        };
        let mut measured = measurement();
        measured.samples.retain(|sample| sample.run.len() == 1);
        for sample in &mut measured.samples {
            sample.instructions = Some(if sample.scheduler == "ours" { 120 } else { 100 });
        }
        for (most, holds) in [(21.0, true), (19.0, false)] {
            measured.experiment = Experiment::from_toml(&must("A", most), Path::new("t.toml")).unwrap();
            let found = evaluate(measured.clone()).unwrap().findings;
            assert!(
                (found[0].is.unwrap() - 20.0).abs() < 1e-9 && found[0].holds == holds,
                "{found:?}"
            );
        }
        let refused = Experiment::from_toml(&must("B", 1.0), Path::new("t.toml")).unwrap_err();
        assert!(refused.to_string().contains("has no such figure"), "{refused}");
    }

    #[test]
    fn energy_is_that_of_all_packages() {
        let mut measured = measurement();
        for sample in &mut measured.samples {
            sample.joules = if sample.scheduler == "ours" {
                vec![3.0, 4.0]
            } else {
                vec![5.0, 5.0]
            };
        }
        let must = "scheduler = 'ours'\nwhat = 'energy'\nat_most = -25.0";
        measured.experiment.musts = vec![toml::from_str(must).unwrap()];
        settle(&mut measured.experiment).unwrap();
        let found = evaluate(measured).unwrap().findings;
        assert!(
            (found[0].is.unwrap() + 30.0).abs() < 1e-9 && found[0].holds,
            "{found:?}"
        );
    }

    #[test]
    fn misses_are_bounded_where_caches_are_modelled() {
        let mut measured = measurement();
        for sample in &mut measured.samples {
            let misses = if sample.scheduler == "ours" { 10 } else { 20 };
            sample.caches = Some(CacheUse {
                accesses: 100,
                misses,
                stalled: 0.0,
            });
        }
        for (scheduler, most, holds) in [
            ("ours", 11.0, true),
            ("ours", 9.0, false),
            ("kernel", 19.0, false),
        ] {
            let must = format!("scheduler = '{scheduler}'\nwhat = 'misses'\nof = 'all'\nat_most = {most:.1}");
            measured.experiment.musts = vec![toml::from_str(&must).unwrap()];
            let refused = settle(&mut measured.experiment).unwrap_err();
            assert!(refused.to_string().contains("has no such figure"), "{refused}");
            measured.experiment.caches = Some(16);
            settle(&mut measured.experiment).unwrap();
            let found = evaluate(measured.clone()).unwrap().findings;
            assert!(found[0].holds == holds, "{found:?}");
            measured.experiment.caches = None;
        }
    }

    /// Under the kernel's scheduler B varies most, in the ratio 1 to 1.2; under ours A does, 1 to 1.05.
    #[test]
    fn jitter_is_that_of_the_program_that_varies_most() {
        let mut measured = measurement();
        measured.experiment.same_phases = true;
        let together = |of: &&mut Sample| of.run.len() == 2;
        for sample in measured.samples.iter_mut().filter(together) {
            let varied = if sample.scheduler == "ours" {
                [1.05, 1.0]
            } else {
                [1.0, 1.2]
            };
            for (performance, by) in sample.performance.iter_mut().zip(varied) {
                *performance = if sample.round == 0 { 100.0 } else { 100.0 * by };
            }
        }
        // Of the times 1 and 1 / x the deviation over the mean is (x - 1) / (x + 1), but for a factor that both have.
        let is = 100.0 * ((0.05 / 2.05) / (0.2 / 2.2) - 1.0);
        for (most, holds) in [(-73.0, true), (-74.0, false)] {
            let must = format!("scheduler = 'ours'\nwhat = 'jitter'\nat_most = {most:.1}");
            measured.experiment.musts = vec![toml::from_str(&must).unwrap()];
            settle(&mut measured.experiment).unwrap();
            let found = evaluate(measured.clone()).unwrap().findings;
            assert!(
                (found[0].is.unwrap() - is).abs() < 1e-6 && found[0].holds == holds,
                "{found:?}"
            );
        }
        // What does not vary at all under the first scheduler does so as much under another, or more.
        let over_none = [0.0, 0.1].map(|ours| more_jitter(ours, 0.0));
        assert_eq!(over_none, [1.0, 10_000.0]);
    }

    #[test]
    fn nobody_is_compared_with_another_than_the_files_first() {
        let must = "scheduler = 'ours'\nwhat = 'gain'\nat_least = -1000.0";
        let mut measured = measurement();
        measured.experiment.musts = vec![toml::from_str(must).unwrap()];
        settle(&mut measured.experiment).unwrap();
        measured.experiment.schedulers[0].name = "other".into();
        for sample in &mut measured.samples {
            sample.scheduler = sample.scheduler.replace("kernel", "other");
        }
        let found = evaluate(measured).unwrap().findings;
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn what_it_speaks_of_must_be_there() {
        for (must, said) in [
            (
                "'theirs'\nwhat = 'gain'\nat_least = 1.0",
                "\"theirs\" is no scheduler",
            ),
            (
                "'kernel'\nwhat = 'gain'\nat_least = 1.0",
                "is the first scheduler",
            ),
            (
                "'ours'\nwhat = 'gain'\nrun = ['B', 'A']\nat_least = 1.0",
                "is no run",
            ),
            (
                "'ours'\nwhat = 'gain'\nrun = ['A']\ntake = 'least'\nat_least = 1.0",
                "no take",
            ),
            (
                "'ours'\nwhat = 'fairness'\nrun = ['A']\nat_least = 1.0",
                "no such figure",
            ),
            (
                "'ours'\nwhat = 'over-sequential'\nat_least = 1.0",
                "no such figure",
            ),
            // Phases that differ from round to round are no jitter of the scheduler's.
            ("'ours'\nwhat = 'jitter'\nat_most = -80.0", "no such figure"),
            ("'ours'\nwhat = 'gain'", "at_least or at_most"),
            ("'ours'\nwhat = 'gain'\nat_least = nan", "a number"),
            ("'ours'\nwhat = 'gain'\nat_least = 1.0\nat_most = 2.0", "either"),
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
