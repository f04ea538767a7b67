// SPDX-License-Identifier: GPL-2.0-only
//! Running experiments until the figures are narrow enough, and keeping every one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rand_pcg::Pcg64;
use threadwise_metrics::{Summary, relative_noise};

use crate::experiment::Size;
use crate::random::shuffle;
use crate::run::{RunError, Runner};
use crate::spec::Precision;
use crate::store::{Recorded, Store, StoreError};
use crate::tables::Tables;
use crate::{Canonical, Error, Experiment, Layouts, Leaf, Ranking, Scope, Tree};

/// Every so many runs the control is run again.
const CONTROL_EVERY: usize = 25;

/// So many of its runs tell how far they spread.
const CONTROL_KNOWN: usize = 8;

/// At the end it is run again after at least so many.
const CONTROL_LEAST: usize = 5;

/// What a workload is measured on, and how.
pub struct Campaign<'a> {
    /// The machine's interchangeable hardware.
    pub tree: &'a Tree,
    /// How far threads disturb each other.
    pub scope: &'a Scope,
    /// What may run beside a thread.
    pub layouts: &'a Layouts<'a>,
    /// The workload's threads and instances.
    pub size: Size,
    /// How often experiments are repeated.
    pub precision: Precision,
    /// The seed of their order.
    pub seed: u64,
    /// Ends the campaign when it is set; what has been measured is kept.
    pub interrupted: &'a AtomicBool,
}

/// Why a campaign ended early. All that was measured is in its store.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A run failed.
    #[error("{experiment}")]
    Run {
        /// What was run.
        experiment: Experiment,
        /// Why it gave no figure.
        source: RunError,
    },
    /// It was interrupted.
    #[error("interrupted: all that was measured is kept, the same command goes on")]
    Interrupted,
    /// What was asked for cannot be run.
    #[error(transparent)]
    Asked(#[from] Error),
    /// A result could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else uses the machine.
    #[error(
        "the same experiment gave {now:.4} after {before:.4} before, again and again: something else uses this \
         machine; end it, or allow more with `precision.relative` (now {relative})"
    )]
    Noisy {
        /// The control's last figure.
        now: f64,
        /// Its median.
        before: f64,
        /// The precision that was asked for.
        relative: f64,
    },
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Experiments that are narrow enough, or were repeated often enough.
    pub done: usize,
    /// All.
    pub all: usize,
    /// Runs in this session, the control's not included.
    pub runs: usize,
    /// Void because the control had changed: runs of this session, or the last ones before it.
    pub void: usize,
    /// Seconds that the rest will take at the pace so far, if each experiment is run as often as it has to be.
    pub seconds_left: f64,
}

impl Campaign<'_> {
    /// Runs each of the experiments until its interval is narrow enough, in random order, round by round: first each
    /// that has fewer than the least runs, then again those that vary. What the store has already is not run again.
    /// Experiments for which the machine has no room are left out. Calls `report` after each run, and when runs are void.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub fn run(
        &self,
        experiments: &[Experiment],
        runner: &mut dyn Runner,
        store: &Store,
        report: impl FnMut(&Progress),
    ) -> Result<BTreeMap<Experiment, Vec<f64>>, CampaignError> {
        let mut all = experiments.iter();
        // The kernel places threads anew in each run, so its runs differ by more than a disturbance may.
        let is_steady = |it: &Experiment| !matches!(it, Experiment::Kernel(_));
        let first = all.find(|&it| is_steady(it) && self.has_room(it));
        let mut control = Control::new(first.cloned(), store)?;
        self.run_under(&mut control, experiments, (runner, store), report)
    }

    /// As [`Campaign::run`], under a control that earlier experiments were run under as well.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub(crate) fn run_under(
        &self,
        control: &mut Control,
        experiments: &[Experiment],
        (runner, store): (&mut dyn Runner, &Store),
        mut report: impl FnMut(&Progress),
    ) -> Result<BTreeMap<Experiment, Vec<f64>>, CampaignError> {
        let mut seen = BTreeSet::new();
        let experiments: Vec<&Experiment> = experiments
            .iter()
            .filter(|&it| self.has_room(it) && seen.insert(it))
            .collect();
        let mut random = Pcg64::new(u128::from(self.seed), 0xb1ac_b0c5);
        let mut progress = Progress {
            all: experiments.len(),
            ..Progress::default()
        };
        let begun = Instant::now();
        let mut runs_left = 0;
        let open = |known: &Samples| -> Vec<&Experiment> {
            experiments
                .iter()
                .copied()
                .filter(|it| !self.is_done(known.of(it)))
                .collect()
        };
        let mut known = Samples::read(store)?;
        if open(&known).len() * self.precision.min as usize >= CONTROL_EVERY {
            control.prepare(self, runner, store)?;
            known = Samples::read(store)?;
        }
        let mut round = Vec::new();
        loop {
            let is_due = match round.pop() {
                Some(experiment) => {
                    let performance = self.measure(experiment, runner, store)?;
                    runs_left -= self.runs_left(known.of(experiment));
                    known.add(experiment, performance);
                    runs_left += self.runs_left(known.of(experiment));
                    progress.runs += 1;
                    control.runs_since += 1;
                    if control.experiment.as_ref() == Some(experiment) && control.seen.len() < CONTROL_KNOWN {
                        control.see(performance);
                    }
                    if self.is_done(known.of(experiment)) {
                        progress.done += 1;
                    }
                    let run_seconds = begun.elapsed().as_secs_f64() / progress.runs as f64;
                    progress.seconds_left = run_seconds * runs_left as f64;
                    report(&progress);
                    control.runs_since >= CONTROL_EVERY
                }
                None => {
                    round = open(&known);
                    runs_left = round.iter().map(|it| self.runs_left(known.of(it))).sum();
                    shuffle(&mut round, &mut random);
                    progress.done = experiments.len() - round.len();
                    // The last runs are checked as well, where they are more than the control itself would be.
                    if round.is_empty() && control.runs_since < CONTROL_LEAST {
                        break;
                    }
                    round.is_empty()
                }
            };
            if is_due {
                let void = control.check(self, runner, store)?;
                if void > 0 {
                    progress.void += void;
                    known = Samples::read(store)?;
                    round.clear();
                    report(&progress);
                }
            }
        }
        let samples = experiments
            .into_iter()
            .map(|it| (it.clone(), known.of(it).to_vec()));
        Ok(samples.collect())
    }

    /// Runs two experiments alternately, so many times each, and records it. The performance of each, in pairs.
    ///
    /// # Errors
    /// [`CampaignError`].
    pub fn compare(
        &self,
        experiments: [&Experiment; 2],
        rounds: usize,
        runner: &mut dyn Runner,
        store: &Store,
    ) -> Result<[Vec<f64>; 2], CampaignError> {
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for nr in [round % 2, (round + 1) % 2] {
                measured[nr].push(self.measure(experiments[nr], runner, store)?);
            }
        }
        Ok(measured)
    }

    /// Runs an experiment once and records it. The performance of its observed instances together.
    fn measure(
        &self,
        experiment: &Experiment,
        runner: &mut dyn Runner,
        store: &Store,
    ) -> Result<f64, CampaignError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(CampaignError::Interrupted);
        }
        let fail = |source| match source {
            RunError::Interrupted => CampaignError::Interrupted,
            source => CampaignError::Run {
                experiment: experiment.clone(),
                source,
            },
        };
        let setting = experiment.setting(self.layouts, self.scope, self.size.roles);
        let (instances, nr_observed) = match setting {
            Some(setting) => {
                let cpus = |threads: &Vec<Leaf>| threads.iter().map(|&leaf| self.tree.cpu(leaf)).collect();
                let pinned = setting
                    .instances
                    .iter()
                    .map(|threads| Some(cpus(threads)))
                    .collect();
                (pinned, setting.nr_observed)
            }
            None => match experiment {
                Experiment::Kernel(instances) => (vec![None; *instances], *instances),
                _ => {
                    let problem = "the machine has no room for its threads".to_string();
                    return Err(fail(RunError::Program(problem)));
                }
            },
        };
        let all = runner.run(&instances).map_err(fail)?;
        let Some(observed) = all.get(..nr_observed) else {
            let problem = format!("{} figures for {} instances", all.len(), instances.len());
            return Err(fail(RunError::Program(problem)));
        };
        let performance = observed.iter().sum();
        store.record(experiment, performance, &all)?;
        Ok(performance)
    }

    pub(crate) fn has_room(&self, experiment: &Experiment) -> bool {
        matches!(experiment, Experiment::Kernel(_))
            || experiment
                .setting(self.layouts, self.scope, self.size.roles)
                .is_some()
    }

    fn is_done(&self, samples: &[f64]) -> bool {
        let nr = samples.len() as u32;
        let Precision { relative, min, max } = self.precision;
        nr >= max || nr >= min && half_width(samples).is_some_and(|width| width <= relative)
    }

    /// Those of the experiments that the machine has room for and the store knows nothing of.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn nr_missing(&self, experiments: &[Experiment], store: &Store) -> Result<usize, StoreError> {
        let known = Samples::read(store)?;
        let is_missing = |it: &&Experiment| self.has_room(it) && known.of(it).is_empty();
        Ok(experiments.iter().filter(is_missing).count())
    }

    /// Of results, how many were run as often as allowed and still vary by more than was asked for, and by how much the
    /// worst of them does: half its 95 % interval, relative to its mean.
    pub fn wide(&self, runs: &BTreeMap<Experiment, Vec<f64>>) -> (usize, f64) {
        let widths = runs.values().filter_map(|runs| half_width(runs));
        let wide = widths.filter(|&width| width > self.precision.relative);
        wide.fold((0, 0.0), |(nr, most), width| (nr + 1, width.max(most)))
    }

    /// How often an experiment with these samples has to be run yet, at least.
    fn runs_left(&self, samples: &[f64]) -> usize {
        match self.is_done(samples) {
            true => 0,
            false => (self.precision.min as usize).saturating_sub(samples.len()).max(1),
        }
    }

    /// How predictions from the store's tables are ranked: those that differ by less than the runs of its entries spread
    /// are equal. Only entries tell how far they spread: the kernel places threads anew in each run, so its runs differ by
    /// more than noise.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn ranking(&self, store: &Store) -> Result<Ranking<'_>, StoreError> {
        let mut samples = Samples::read(store)?.0;
        samples.retain(|it, _| matches!(it, Experiment::Base(_) | Experiment::Beside(_)));
        let noise = relative_noise(samples.values().map(Vec::as_slice)).unwrap_or(0.0);
        let runs: usize = samples.values().map(Vec::len).sum();
        let nr = samples.len();
        let runs_each = runs as f64 / nr.max(1) as f64;
        let noise_of_entries = noise / runs_each.max(1.0).sqrt();
        Ok(Ranking::new(
            self.tree,
            self.scope,
            self.size.roles,
            noise_of_entries,
        ))
    }

    /// The tables as far as the store has them: the mean of each entry's runs.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tables(&self, store: &Store) -> Result<Tables, StoreError> {
        let mut tables = Tables::default();
        let mut across = Vec::new();
        for (experiment, samples) in Samples::read(store)?.0 {
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            match experiment {
                Experiment::Across(at) => across.push((at, mean)),
                Experiment::Base(placed) => tables.set_base(&placed, mean),
                Experiment::Beside(beside) => tables.set_beside(beside, mean),
                Experiment::Assignment(_) | Experiment::Kernel(_) => {}
            }
        }
        let mut canonical = Canonical::new(self.tree);
        let mut target = Vec::new();
        for (at, mean) in across {
            // Relative to the target alone, in the same place.
            let setting = Experiment::Across(at).setting(self.layouts, self.scope, self.size.roles);
            if let Some(setting) = setting {
                canonical.of(&setting.instances[0], &mut target);
                if let Some(alone) = tables.base(&target) {
                    tables.set_across(at, alone / mean);
                }
            }
        }
        Ok(tables)
    }
}

/// Half the 95 % interval of a mean, relative to it; none for fewer than two runs.
fn half_width(samples: &[f64]) -> Option<f64> {
    let summary = Summary::of(samples).ok()?;
    Some(summary.ci95 / summary.mean)
}

/// What the store has of each experiment.
struct Samples(BTreeMap<Experiment, Vec<f64>>);

impl Samples {
    fn read(store: &Store) -> Result<Samples, StoreError> {
        let mut samples = BTreeMap::<_, Vec<f64>>::new();
        for run in store.runs()? {
            samples.entry(run.experiment).or_default().push(run.performance);
        }
        Ok(Samples(samples))
    }

    fn of(&self, experiment: &Experiment) -> &[f64] {
        self.0.get(experiment).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, experiment: &Experiment, performance: f64) {
        self.0.entry(experiment.clone()).or_default().push(performance);
    }
}

/// One experiment that is repeated now and then: when it is not what it was, neither were the runs since.
pub(crate) struct Control {
    experiment: Option<Experiment>,
    /// Its runs, in this session or before.
    seen: Vec<f64>,
    runs_since: usize,
    /// Of its own runs, those that came between: void as well where those are.
    prepared: usize,
    /// Of the runs seen, those after which it was not checked yet.
    unchecked: usize,
    failures: u32,
}

impl Control {
    /// Runs that came after the last of its own have not been checked by it, whoever made them; but of those that are
    /// longer ago than a control may be another one checked most. Comparisons have none.
    pub(crate) fn new(experiment: Option<Experiment>, store: &Store) -> Result<Self, StoreError> {
        let mut runs = store.runs()?;
        // Those that were merged had a control where they were made.
        runs.retain(|run| run.is_own);
        let is_own = |run: &Recorded| Some(&run.experiment) == experiment.as_ref();
        let seen: Vec<f64> = runs
            .iter()
            .filter(|&run| is_own(run))
            .map(|run| run.performance)
            .collect();
        Ok(Control {
            runs_since: if seen.is_empty() {
                0
            } else {
                let since = runs.iter().rev().take_while(|&run| !is_own(run));
                since.take(CONTROL_EVERY).count()
            },
            prepared: 0,
            unchecked: 0,
            seen,
            experiment,
            failures: 0,
        })
    }

    /// Runs the control until it is known how its runs spread.
    fn prepare(
        &mut self,
        campaign: &Campaign,
        runner: &mut dyn Runner,
        store: &Store,
    ) -> Result<(), CampaignError> {
        let Some(experiment) = self.experiment.clone() else {
            return Ok(());
        };
        while self.seen.len() < CONTROL_KNOWN {
            self.see(campaign.measure(&experiment, runner, store)?);
            self.prepared += 1;
        }
        Ok(())
    }

    /// Another run of it, which is not checked yet.
    fn see(&mut self, performance: f64) {
        self.seen.push(performance);
        self.unchecked += 1;
    }

    /// Repeats the control. Says how many runs are void.
    fn check(
        &mut self,
        campaign: &Campaign,
        runner: &mut dyn Runner,
        store: &Store,
    ) -> Result<usize, CampaignError> {
        let since = std::mem::take(&mut self.runs_since);
        let prepared = std::mem::take(&mut self.prepared);
        let Some(experiment) = &self.experiment else {
            return Ok(0);
        };
        let now = campaign.measure(experiment, runner, store)?;
        let before = median(&self.seen).unwrap_or(now);
        if self.seen.len() < CONTROL_KNOWN
            || (now - before).abs() <= self.tolerance(campaign.precision.relative)
        {
            self.seen.push(now);
            (self.unchecked, self.failures) = (0, 0);
            return Ok(0);
        }
        self.failures += 1;
        store.void_last(since + prepared + 1)?;
        if self.failures == 3 {
            let relative = campaign.precision.relative;
            return Err(CampaignError::Noisy {
                now,
                before,
                relative,
            });
        }
        // Those that are void are no measure of others, and how runs spread is known anew.
        let checked = self
            .seen
            .len()
            .saturating_sub(std::mem::take(&mut self.unchecked));
        self.seen.truncate(checked);
        self.prepare(campaign, runner, store)?;
        Ok(since)
    }

    /// What a single run may be off: three times the precision that is asked of a mean, or six times the spread that
    /// its runs have had (by the median of their distances from the median, which an outlier does not move).
    fn tolerance(&self, relative: f64) -> f64 {
        let before = median(&self.seen).unwrap_or(0.0);
        let distances: Vec<f64> = self.seen.iter().map(|run| (run - before).abs()).collect();
        // A normal distribution's standard deviation is 1.4826 times that median.
        let spread = 1.4826 * median(&distances).unwrap_or(0.0);
        (3.0 * relative * before).max(6.0 * spread)
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
