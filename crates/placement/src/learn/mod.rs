// SPDX-License-Identifier: GPL-2.0-only
//! The tables from a small part of their experiments.
//!
//! The paper measures every entry of the Base Time Table and the Slowdown Table, which grows out of reach with the
//! threads of a program (blackbox-scheduler, section 3.2). Here only some are measured. A regression over who meets
//! whom at which distance supplies the others, each with an interval, and the next experiments are those whose
//! uncertainty matters most to the assignments that are presently predicted to be the best.
//!
//! It does not replace the tables: what was measured stays as it was, the [`Predictor`] asks for the rest. Interference
//! beyond the scope is not learned, as it is not in the tables.
//!
//! Start at [`learn`].

mod complete;
mod design;
mod features;
mod gaussian;
mod uses;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::campaign::{Campaign, CampaignError, Control, Progress};
use crate::run::Runner;
use crate::search::anneal;
use crate::select::{Best, Predicted, nr_orders};
use crate::tables::{Beside, Tables};
use crate::{Canonical, Error, Experiment, Leaf, Predictor, Reading, Store};
use complete::{Completion, Surprises, is_alone};
use features::{Features, Point};
use gaussian::{Expected, Pool};
use uses::uses;

/// Half the width of the 95 % interval of a normal distribution, in standard deviations.
pub(crate) const NORMAL_95: f64 = 1.959964;

/// What to learn for.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Different experiments at most, at least 1. Each is repeated as the campaign's precision says.
    pub budget: usize,
    /// The assignments among which is to be chosen, or a random sample of them; at least one.
    pub candidates: &'a [Vec<Leaf>],
    /// How the tables will be read.
    pub reading: Reading,
    /// How experiments are chosen.
    pub selection: Selection,
    /// How many changes are tried on each of the best candidates in search of a better one that is none of the
    /// candidates, beside an annealing that begins anywhere; 0 keeps to them. Each is predicted, not measured.
    pub climbs: usize,
}

/// How experiments are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// By how much their uncertainty matters to the best assignments.
    Active,
    /// At random among what candidates use: what active selection is compared with.
    Random,
}

/// What was learned.
#[derive(Debug)]
pub struct Learned {
    /// Both tables: measured where measured, expected elsewhere.
    pub tables: Tables,
    /// Different experiments that were used, at most the budget.
    pub nr_experiments: usize,
    /// Whether the entries that the best assignments use are known as precisely as the campaign asks for. Without it
    /// the budget was the limit, or there were no more experiments.
    pub is_narrow: bool,
    /// The assignments that are predicted to be the best, the best first: of the candidates and of what climbing and annealing
    /// found. Each is there once, but for the order of instances.
    pub best: Vec<Predicted>,
    measured: BTreeSet<Experiment>,
    completion: Arc<Completion>,
}

impl Learned {
    /// Whether an experiment was run; its table entry is then no expectation.
    pub fn is_measured(&self, experiment: &Experiment) -> bool {
        self.measured.contains(experiment)
    }

    /// The 95 % interval in which the performance of a base or beside experiment is expected, as the regression sees it
    /// even where it was measured; in units of performance. None for other experiments and where nothing is known.
    pub fn interval(&self, experiment: &Experiment) -> Option<(f64, f64)> {
        let Expected { mean, sd } = self.completion.expect(experiment)?;
        Some(((mean - NORMAL_95 * sd).exp(), (mean + NORMAL_95 * sd).exp()))
    }
}

/// Of [`Learned::best`], where each is there in as many orders of its instances as [`nr_orders`] says.
const NR_BEST: usize = 64;

/// So many of the best assignments say what matters.
const NR_TOP: usize = 16;

/// Each round anneals with so many predictions for each change that is tried on a candidate.
const ANNEALED: u64 = 100;

/// Candidates for a round, by their score.
const MAX_POOL: usize = 300;

/// Rounds whose surprises still tell: later regressions know more.
const NR_RECENT: usize = 4;

/// Of an entry that none of the best assignments uses: it is measured for them when nothing else is left.
const LEAST_WEIGHT: f64 = 1e-6;

/// So many rounds more, though all seems to be known, may still be a surprise.
const NARROW_ROUNDS: usize = 2;

/// One of so many experiments is chosen for its own uncertainty, whatever it matters.
const EXPLORE_EVERY: usize = 4;

/// Runs experiments, by rounds, until the budget is used up or what matters is known well enough.
///
/// The same campaign on the same store goes on where it was ended: what is stored is not run again.
///
/// # Errors
/// [`CampaignError`]; [`CampaignError::Asked`] for a budget of 0, no candidates, and candidates that are no assignments
/// of the campaign's workload.
pub fn learn(
    campaign: &Campaign,
    runner: &mut dyn Runner,
    store: &Store,
    plan: &Plan,
) -> Result<Learned, CampaignError> {
    learn_watched(campaign, (runner, store), plan, |_| {})
}

/// As [`learn`]; calls `report` after each run. All that is to be done is the budget, of which something may be left.
///
/// # Errors
/// Those of [`learn`].
pub fn learn_watched(
    campaign: &Campaign,
    (runner, store): (&mut dyn Runner, &Store),
    plan: &Plan,
    mut report: impl FnMut(&Progress),
) -> Result<Learned, CampaignError> {
    check(campaign, plan)?;
    let (mut runs_before, mut void_before) = (0, 0);
    let mut study = Study::new(campaign, plan);
    let first = study.first();
    study.choose(first, plan.budget);
    let mut control = Control::new(study.chosen.first().cloned(), store)?;
    let batch = plan.budget.div_ceil(12).max(3);
    loop {
        let (mut runs_now, mut void_now) = (0, 0);
        let runs = campaign.run_under(&mut control, &study.chosen, (&mut *runner, store), |progress| {
            let (left, in_round) = (plan.budget - progress.done, progress.all - progress.done);
            let rounds = left as f64 / in_round.max(1) as f64;
            (runs_now, void_now) = (progress.runs, progress.void);
            report(&Progress {
                all: plan.budget,
                runs: runs_before + progress.runs,
                void: void_before + progress.void,
                seconds_left: progress.seconds_left * rounds,
                ..*progress
            });
        })?;
        runs_before += runs_now;
        void_before += void_now;
        study.learn_from(&runs);
        let learned = study.predict(batch)?;
        let left = plan.budget.saturating_sub(study.chosen.len());
        if left == 0 {
            return Ok(learned);
        }
        let next = match plan.selection {
            Selection::Active => study.most_telling(&learned, batch.min(left)),
            Selection::Random => Some(design::at_random(campaign, plan, 4 * batch, &mut study.random)),
        };
        let Some(next) = next else {
            return Ok(Learned {
                is_narrow: true,
                ..learned
            });
        };
        if study.choose(next, batch.min(left)) == 0 {
            return Ok(learned);
        }
    }
}

fn check(campaign: &Campaign, plan: &Plan) -> Result<(), Error> {
    if plan.budget == 0 {
        return Err(Error::Zero { what: "the budget" });
    }
    if plan.candidates.is_empty() {
        return Err(Error::Zero {
            what: "the number of candidates",
        });
    }
    let nr_leaves = campaign.tree.nr_leaves();
    let nr_threads = campaign.size.roles * campaign.size.instances;
    crate::check_fit(campaign.tree, nr_threads)?;
    let is_good = |placed: &Vec<Leaf>| {
        let leaves: BTreeSet<_> = placed.iter().collect();
        let is_there = |leaf: &&Leaf| usize::from(**leaf) < nr_leaves;
        leaves.len() == nr_threads && placed.len() == nr_threads && leaves.iter().all(is_there)
    };
    match plan.candidates.iter().find(|placed| !is_good(placed)) {
        Some(placed) => Err(Error::Assignment {
            problem: format!(
                "{placed:?} is no assignment of {nr_threads} threads to {nr_leaves} hardware threads, one on each"
            ),
        }),
        None => Ok(()),
    }
}

/// What is known while learning.
struct Study<'a> {
    campaign: &'a Campaign<'a>,
    plan: &'a Plan<'a>,
    random: Pcg64,
    references: BTreeMap<(u8, u8), Experiment>,
    /// In the order in which they were chosen.
    chosen: Vec<Experiment>,
    is_chosen: BTreeSet<Experiment>,
    /// The mean of each experiment's runs.
    measured: BTreeMap<Experiment, f64>,
    completion: Arc<Completion>,
    /// How far the expectations of the last rounds were off.
    recent: VecDeque<Surprises>,
    /// Rounds in a row after which all that matters was known well enough.
    narrow_rounds: usize,
    /// Assignments that climbing and annealing have found.
    found: Vec<Vec<Leaf>>,
}

impl<'a> Study<'a> {
    fn new(campaign: &'a Campaign, plan: &'a Plan) -> Self {
        Study {
            campaign,
            plan,
            random: Pcg64::new(u128::from(campaign.seed), 0x1ea2),
            references: design::references(campaign),
            chosen: Vec::new(),
            is_chosen: BTreeSet::new(),
            measured: BTreeMap::new(),
            completion: Arc::new(Completion::new(
                Features::new(campaign.tree, campaign.layouts, campaign.size.roles),
                &BTreeMap::new(),
                &BTreeMap::new(),
                &Surprises::default(),
            )),
            recent: VecDeque::new(),
            narrow_rounds: 0,
            found: Vec::new(),
        }
    }

    fn first(&mut self) -> Vec<Experiment> {
        let references: BTreeSet<_> = self.references.values().cloned().collect();
        let mut first: Vec<_> = references.into_iter().collect();
        match self.plan.selection {
            Selection::Active => {
                let features = &self.completion.features;
                first.extend(design::design(
                    self.campaign,
                    self.plan,
                    features,
                    &mut self.random,
                ));
            }
            Selection::Random => {
                let nr = self.plan.budget / 3 + 2;
                first.extend(design::at_random(self.campaign, self.plan, nr, &mut self.random));
            }
        }
        first
    }

    /// Adds at most `nr` experiments that are new, have room and are not measured as another one. Says how many.
    fn choose(&mut self, experiments: Vec<Experiment>, nr: usize) -> usize {
        let before = self.chosen.len();
        for experiment in experiments {
            let is_known = matches!(&experiment, Experiment::Beside(beside) if is_alone(beside));
            if self.chosen.len() - before < nr
                && !is_known
                && self.campaign.has_room(&experiment)
                && self.is_chosen.insert(experiment.clone())
            {
                self.chosen.push(experiment);
            }
        }
        self.chosen.len() - before
    }

    fn learn_from(&mut self, runs: &BTreeMap<Experiment, Vec<f64>>) {
        let mean = |runs: &Vec<f64>| runs.iter().sum::<f64>() / runs.len() as f64;
        let before = std::mem::take(&mut self.measured);
        self.measured = runs.iter().map(|(of, runs)| (of.clone(), mean(runs))).collect();
        let mut surprises = Surprises::default();
        for (experiment, &performance) in &self.measured {
            if !before.contains_key(experiment) && performance > 0.0 {
                self.completion
                    .note_surprise(experiment, performance, &mut surprises);
            }
        }
        self.recent.push_back(surprises);
        while self.recent.len() > NR_RECENT {
            self.recent.pop_front();
        }
        let surprises = Surprises {
            base: self.recent.iter().flat_map(|of| of.base.clone()).collect(),
            beside: self.recent.iter().flat_map(|of| of.beside.clone()).collect(),
        };
        let campaign = self.campaign;
        self.completion = Arc::new(Completion::new(
            Features::new(campaign.tree, campaign.layouts, campaign.size.roles),
            &self.measured,
            &self.references,
            &surprises,
        ));
    }

    fn tables(&self) -> Tables {
        let mut tables = Tables::default();
        for (experiment, &performance) in &self.measured {
            match experiment {
                Experiment::Base(placed) => tables.set_base(placed, performance),
                Experiment::Beside(beside) => tables.set_beside(*beside, performance),
                Experiment::Across(_) | Experiment::Assignment(_) | Experiment::Kernel(_) => {}
            }
        }
        tables.set_fallback(self.completion.clone());
        tables
    }

    /// What is predicted now; climbs from the best `batch` candidates.
    fn predict(&mut self, batch: usize) -> Result<Learned, Error> {
        let tables = self.tables();
        let Campaign {
            tree, layouts, scope, ..
        } = *self.campaign;
        let how = (self.campaign.size.roles, self.plan.reading);
        let mut predictor = Predictor::new(&tables, tree, layouts, scope, how)?;
        let nr_best = NR_BEST * nr_orders(self.campaign.size.instances);
        let mut best = Best::new(nr_best);
        let mut canonical = Canonical::new(tree);
        let mut form = Vec::new();
        let mut seen = BTreeSet::new();
        // Of few assignments a random sample has each many times.
        for placed in self.plan.candidates.iter().chain(&self.found) {
            canonical.of(placed, &mut form);
            if seen.insert(form.clone()) {
                best.see(placed, predictor.predict(placed));
            }
        }
        let mut best = best.into_sorted();
        if self.plan.climbs > 0 {
            let mut all = Best::new(nr_best);
            let mut seen = BTreeSet::new();
            let nr_threads = self.campaign.size.roles * self.campaign.size.instances;
            let nr_predictions = ANNEALED * self.plan.climbs as u64;
            let annealed = anneal::best(tree, &mut predictor, nr_threads, nr_predictions, &mut self.random);
            for from in best.iter().chain(&annealed) {
                canonical.of(&from.placed, &mut form);
                if seen.insert(form.clone()) {
                    all.see(&from.placed, from.performance);
                }
            }
            let is_new = |it: &Predicted| !self.found.contains(&it.placed);
            let annealed = annealed.filter(is_new).map(|it| it.placed);
            self.found.extend(annealed);
            for from in best.iter().take(batch) {
                let placed = self.climb(&mut predictor, from);
                canonical.of(&placed, &mut form);
                if seen.insert(form.clone()) {
                    all.see(&form, predictor.predict(&form));
                    self.found.push(form.clone());
                }
            }
            best = all.into_sorted();
        }
        Ok(Learned {
            tables,
            nr_experiments: self.chosen.len(),
            is_narrow: false,
            best,
            measured: self.measured.keys().cloned().collect(),
            completion: self.completion.clone(),
        })
    }

    /// Moves threads, or exchanges two, as long as that is predicted to be better.
    fn climb(&mut self, predictor: &mut Predictor, from: &Predicted) -> Vec<Leaf> {
        let (mut placed, mut best) = (from.placed.clone(), from.performance);
        let nr_leaves = self.campaign.tree.nr_leaves() as u64;
        for _ in 0..self.plan.climbs {
            let thread = (self.random.next_u64() % placed.len() as u64) as usize;
            let to = (self.random.next_u64() % nr_leaves) as Leaf;
            let old = placed[thread];
            let other = placed.iter().position(|&leaf| leaf == to);
            placed[thread] = to;
            if let Some(other) = other {
                placed[other] = old;
            }
            if other == Some(thread) {
                continue;
            }
            let performance = predictor.predict(&placed);
            if performance > best {
                best = performance;
                continue;
            }
            if let Some(other) = other {
                placed[other] = to;
            }
            placed[thread] = old;
        }
        placed
    }

    /// Whether so little of the budget is left that it goes to the assignments that are about to be chosen.
    fn is_ending(&self) -> bool {
        self.plan.budget.saturating_sub(self.chosen.len()) <= self.plan.budget / 4
    }

    fn is_measured(&self, experiment: &Experiment) -> bool {
        self.is_chosen.contains(experiment)
    }

    /// The experiments whose uncertainty matters most. None when all that matters is known well enough.
    fn most_telling(&mut self, learned: &Learned, nr: usize) -> Option<Vec<Experiment>> {
        let nr_top = NR_TOP.max(nr / self.campaign.size.instances);
        let matters = self.matters(learned, nr_top);
        let relative = self.campaign.precision.relative;
        let is_narrow = matters.values().all(|(_, sd)| NORMAL_95 * sd <= relative);
        self.narrow_rounds = if is_narrow { self.narrow_rounds + 1 } else { 0 };
        if self.narrow_rounds > NARROW_ROUNDS {
            return None;
        }
        let mut scored: Vec<(Experiment, f64, f64)> = matters
            .into_iter()
            .map(|(of, (weight, sd))| (of, weight, sd))
            .collect();
        scored.sort_by(|a, b| (b.1.sqrt() * b.2).total_cmp(&(a.1.sqrt() * a.2)));
        scored.truncate(MAX_POOL);
        let known: BTreeSet<Experiment> = scored.iter().map(|(of, ..)| of.clone()).collect();
        let others = design::at_random(self.campaign, self.plan, MAX_POOL / 3, &mut self.random);
        let others: BTreeSet<Experiment> = others
            .into_iter()
            .filter(|of| !known.contains(of) && !self.is_measured(of) && self.campaign.has_room(of))
            .filter(|of| !matches!(of, Experiment::Beside(beside) if is_alone(beside)))
            .collect();
        let weighted = scored.into_iter().map(|(of, weight, _)| (of, weight));
        let all: Vec<_> = weighted
            .chain(others.into_iter().map(|of| (of, LEAST_WEIGHT)))
            .collect();
        Some(self.take_together(all, nr))
    }

    /// By entry how much it matters, a sum over the best assignments' instances, and its standard deviation.
    fn matters(&self, learned: &Learned, nr_top: usize) -> BTreeMap<Experiment, (f64, f64)> {
        let mut expected: BTreeMap<Beside, Expected> = BTreeMap::new();
        let mut matters: BTreeMap<Experiment, (f64, f64)> = BTreeMap::new();
        let mut note = |experiment: Experiment, sd: f64, weight: f64| {
            if !self.is_measured(&experiment) && sd > 0.0 && self.campaign.has_room(&experiment) {
                matters.entry(experiment).or_insert((0.0, sd)).0 += weight;
            }
        };
        let mut expect = |beside: &Beside| {
            *expected.entry(*beside).or_insert_with(|| {
                let experiment = Experiment::Beside(*beside);
                let measured = self.measured.get(&experiment);
                let known = measured.map(|performance| Expected {
                    mean: performance.ln(),
                    sd: 0.0,
                });
                let unknown = Expected { mean: 0.0, sd: 0.0 };
                known
                    .or_else(|| self.completion.expect(&experiment))
                    .unwrap_or(unknown)
            })
        };
        for (rank, top) in learned.best.iter().take(nr_top).enumerate() {
            // The first choice counts most, the fifth half of it.
            let weight = 1.0 / (1.0 + rank as f64 / 4.0);
            for uses in uses(self.campaign, self.plan.reading, &top.placed) {
                let slowdowns: Vec<(f64, f64)> = (uses.threads.iter())
                    .map(|(entry, divisor)| {
                        let (all, over) = (expect(entry), divisor.as_ref().map(&mut expect));
                        let alone = || self.completion.alone(entry).unwrap_or(all.mean);
                        let (mean, sd) = over.map_or_else(|| (alone(), 0.0), |over| (over.mean, over.sd));
                        (mean - all.mean, all.sd.hypot(sd))
                    })
                    .collect();
                let largest = slowdowns.iter().map(|of| of.0).fold(0.0, f64::max);
                for ((entry, divisor), (mean, sd)) in uses.threads.iter().zip(slowdowns) {
                    // Of an instance only the thread that is slowed down most counts, so others matter if they may be it.
                    if mean + NORMAL_95 * sd >= largest {
                        for at in [Some(entry), divisor.as_ref()].into_iter().flatten() {
                            note(Experiment::Beside(*at), expect(at).sd, weight);
                        }
                    }
                }
                let base = Experiment::Base(uses.base);
                let sd = self.completion.expect(&base).map_or(1.0, |expected| expected.sd);
                note(base, sd, weight);
            }
        }
        matters
    }

    /// Takes the largest score one after the other; each lowers those of its like.
    fn take_together(&self, all: Vec<(Experiment, f64)>, nr: usize) -> Vec<Experiment> {
        let (bases, besides): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(of, _)| matches!(of, Experiment::Base(_)));
        let features = &self.completion.features;
        let point = |(of, _): &(Experiment, f64)| match of {
            Experiment::Base(placed) => features.of_base(placed),
            Experiment::Beside(beside) => features.of_beside(beside),
            Experiment::Across(_) | Experiment::Assignment(_) | Experiment::Kernel(_) => Point::default(),
        };
        let pool_of = |some: &[(Experiment, f64)], gaussian| {
            let points = some.iter().map(point).collect();
            Option::map(gaussian, |gaussian| Pool::new(gaussian, points))
        };
        let mut groups = [
            (pool_of(&bases, self.completion.base.as_ref()), bases),
            (pool_of(&besides, self.completion.beside.as_ref()), besides),
        ];
        let mut taken = Vec::new();
        let mut is_taken: BTreeSet<(usize, usize)> = BTreeSet::new();
        for turn in 1..=nr {
            let mut best: Option<(f64, usize, usize)> = None;
            for (group, (pool, some)) in groups.iter().enumerate() {
                for (at, (_, weight)) in some.iter().enumerate() {
                    // Where there is no regression yet, anything is better than nothing.
                    let sd = pool.as_ref().map_or(1.0, |pool| pool.sd(at));
                    let weight = if turn % EXPLORE_EVERY == 0 && !self.is_ending() {
                        1.0
                    } else {
                        weight.sqrt()
                    };
                    let score = sd * weight;
                    if best.is_none_or(|(most, ..)| score > most) && !is_taken.contains(&(group, at)) {
                        best = Some((score, group, at));
                    }
                }
            }
            let Some((_, group, at)) = best else { break };
            is_taken.insert((group, at));
            taken.push(groups[group].1[at].0.clone());
            if let Some(pool) = &mut groups[group].0 {
                pool.take(at);
            }
        }
        taken
    }
}
