// SPDX-License-Identifier: GPL-2.0-only
//! How a campaign runs its experiments: in which order, how often, and what it makes of a machine that changes.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::{Bench, size, store};
use threadwise_machine::CpuId;
use threadwise_placement::spec::Precision;
use threadwise_placement::{
    Campaign, CampaignError, Experiment, Progress, Reading, RunError, Runner, Store, manifest,
};

type Pinned = Vec<Option<Vec<CpuId>>>;

type Done = Result<BTreeMap<Experiment, Vec<f64>>, CampaignError>;

/// Gives the figures of a function of what runs, how often that ran before, and how many runs there were.
struct Scripted<F> {
    figure: F,
    seen: BTreeMap<Pinned, usize>,
    order: Vec<Pinned>,
}

impl<F: FnMut(&Pinned, usize, usize) -> f64> Scripted<F> {
    fn new(figure: F) -> Self {
        Scripted {
            figure,
            seen: BTreeMap::new(),
            order: Vec::new(),
        }
    }
}

impl<F: FnMut(&Pinned, usize, usize) -> f64> Runner for Scripted<F> {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let pinned = instances.to_vec();
        let nr_before = self.seen.entry(pinned.clone()).or_default();
        let figure = (self.figure)(&pinned, *nr_before, self.order.len());
        *nr_before += 1;
        self.order.push(pinned);
        Ok(vec![figure; instances.len()])
    }

    fn label(&self) -> String {
        "scripted".into()
    }
}

/// What a campaign of all entries ended with, with its store and how many experiments there are.
fn campaign(
    runner: &mut dyn Runner,
    (min, max, seed): (u32, u32, u64),
    report: impl FnMut(&Progress),
) -> (Done, Store, usize) {
    let bench = Bench::load("core:4 pipe:2 pu:2");
    let layouts = bench.layouts();
    let size = size(3, 2);
    let campaign = Campaign {
        precision: Precision {
            relative: 0.02,
            min,
            max,
        },
        seed,
        ..bench.campaign(&layouts, size)
    };
    let experiments = manifest(&bench.tree, &bench.scope, &layouts, (size, Reading::Literal)).unwrap();
    let store = store();
    let done = campaign.run(&experiments, runner, &store, report);
    (done, store, experiments.len())
}

#[test]
fn experiments_are_run_in_an_order_of_the_seed() {
    let order = |seed| {
        let mut runner = Scripted::new(|_: &Pinned, _, _| 100.0);
        let (done, _, nr) = campaign(&mut runner, (1, 1, seed), |_| {});
        assert!(done.unwrap().len() == nr && nr > 50, "{nr}");
        runner.order
    };
    let (one, other) = (order(1), order(2));
    assert_eq!(one, order(1));
    assert_ne!(one, other);
    let sorted = |mut order: Vec<Pinned>| {
        order.sort();
        order
    };
    assert_ne!(one, sorted(one.clone()));
    assert_eq!(sorted(one), sorted(other), "the same experiments");
}

#[test]
fn an_experiment_is_repeated_until_its_interval_is_narrow() {
    // Some are steady, some vary by a percent, some by ten.
    let spread = |pinned: &Pinned| match pinned.iter().flatten().flatten().map(|cpu| cpu.0).sum::<u32>() % 3 {
        0 => 0.0,
        1 => 1.0,
        _ => 10.0,
    };
    let mut runner = Scripted::new(|pinned: &Pinned, nr_before, _| {
        let sign = if nr_before % 2 == 0 { 1.0 } else { -1.0 };
        100.0 + sign * spread(pinned)
    });
    let (done, ..) = campaign(&mut runner, (2, 9, 1), |_| {});
    let mut times = BTreeMap::<u32, Vec<usize>>::new();
    for runs in done.unwrap().into_values() {
        let per_instance = runs[0] / (runs[0] / 100.0).round();
        times
            .entry((per_instance - 100.0).round() as u32)
            .or_default()
            .push(runs.len());
    }
    // The control runs more often.
    let usual = |spread: u32| {
        let mut times = times[&spread].clone();
        times.sort_unstable();
        times[times.len() / 2]
    };
    assert_eq!((usual(0), usual(10)), (2, 9));
    assert!((3..9).contains(&usual(1)), "{times:?}");
}

#[test]
fn what_was_measured_while_something_else_ran_is_repeated() {
    // Something else takes half of the machine from the 40th run to the 60th.
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if (40..60).contains(&nr) { 50.0 } else { 100.0 });
    let mut void = 0;
    let (done, store, nr) = campaign(&mut runner, (1, 1, 1), |progress| void = progress.void);
    assert_eq!(done.unwrap().len(), nr);
    assert!(void >= 20, "{void}");
    let wrong = store
        .runs()
        .unwrap()
        .iter()
        .filter(|run| run.performance % 100.0 != 0.0)
        .count();
    assert_eq!(wrong, 0);
}

#[test]
fn a_machine_that_stays_different_ends_the_campaign() {
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if nr >= 40 { 50.0 } else { 100.0 });
    let (done, store, _) = campaign(&mut runner, (1, 1, 1), |_| {});
    let error = done.unwrap_err();
    assert!(matches!(error, CampaignError::Noisy { .. }), "{error}");
    assert!(
        error.to_string().contains("something else uses this machine"),
        "{error}"
    );
    assert!(
        store
            .runs()
            .unwrap()
            .iter()
            .all(|run| run.performance % 100.0 == 0.0)
    );
}

#[test]
fn the_time_left_is_told_from_the_first_round_on() {
    let begun = Instant::now();
    let mut runner = Scripted::new(|_: &Pinned, _, _| {
        std::thread::sleep(Duration::from_millis(4));
        100.0
    });
    let mut told = Vec::new();
    let (done, _, nr) = campaign(&mut runner, (3, 3, 1), |progress| {
        told.push((begun.elapsed().as_secs_f64(), progress.seconds_left));
    });
    done.unwrap();
    let whole = begun.elapsed().as_secs_f64();
    // In the middle of the first round, and of the second: nothing is done before the third.
    for (at, left) in [told[nr / 2], told[nr + nr / 2]] {
        let ratio = left / (whole - at);
        assert!(
            (0.5..2.0).contains(&ratio),
            "{left} s told, {} s it was",
            whole - at
        );
    }
    assert_eq!(told.last().unwrap().1, 0.0);
}

/// Runs so many times, then the program dies.
struct Dies {
    left: usize,
}

impl Runner for Dies {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(RunError::Program("exited with status 1".into()));
        };
        self.left = left;
        Ok(vec![100.0; instances.len()])
    }

    fn label(&self) -> String {
        "dies".into()
    }
}

#[test]
fn a_run_that_fails_leaves_what_was_measured_before_and_nothing_else() {
    let (done, store, _) = campaign(&mut Dies { left: 12 }, (1, 1, 1), |_| {});
    let error = done.unwrap_err();
    let CampaignError::Run { source, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(source.to_string(), "exited with status 1");
    assert_eq!(store.runs().unwrap().len(), 12);
}

/// The kernel places threads anew in each run: what its runs differ by is no noise of the tables.
#[test]
fn the_kernels_placements_do_not_widen_ties() {
    let bench = Bench::load("core:4 pipe:2 pu:2");
    let layouts = bench.layouts();
    let campaign = bench.campaign(&layouts, size(3, 2));
    let store = store();
    let base = Experiment::Base(vec![0, 1, 2]);
    for performance in [1000.0, 1001.0] {
        store.record(&base, performance, &[performance]).unwrap();
    }
    let of_entries = campaign.ranking(&store).unwrap().tie();
    for performance in [500.0, 1500.0, 1000.0] {
        let kernel = Experiment::Kernel(2);
        store
            .record(&kernel, performance, &[performance / 2.0; 2])
            .unwrap();
    }
    assert_eq!(campaign.ranking(&store).unwrap().tie(), of_entries);
    // Two runs a thousandth apart: 0.0005 times the square root of 2 each, and their mean 0.0005.
    assert!((of_entries - 4.899 * 0.0005).abs() < 1e-5, "{of_entries}");
}

/// The first experiments of a machine whose store has runs of them: 100 each of the first, then `figure` of the second.
/// Runs some of them, and says what is left of the second's.
fn after(
    (nr_control, nr_others, figure): (usize, usize, f64),
    nr_experiments: usize,
    runner: &mut dyn Runner,
    report: impl FnMut(&Progress),
) -> Vec<f64> {
    let bench = Bench::load("core:4 pipe:2 pu:2");
    let layouts = bench.layouts();
    let size = size(3, 2);
    let campaign = bench.campaign(&layouts, size);
    let mut all = manifest(&bench.tree, &bench.scope, &layouts, (size, Reading::Literal)).unwrap();
    let other = all.remove(1);
    let store = store();
    let of = |experiment: &Experiment, nr: usize, figure: f64| {
        (0..nr).for_each(|_| store.record(experiment, figure, &[figure]).unwrap());
    };
    of(&all[0], nr_control, 100.0);
    of(&other, nr_others, figure);
    campaign
        .run(&all[..nr_experiments], runner, &store, report)
        .unwrap();
    let mut left = store.runs().unwrap();
    left.retain(|run| run.experiment == other);
    left.into_iter().map(|run| run.performance).collect()
}

#[test]
fn one_bad_run_of_a_control_does_not_void_what_others_checked() {
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if nr == 1 { 50.0 } else { 100.0 });
    // One run of something new, then the control.
    let left = after((8, 60, 100.0), 2, &mut runner, |_| {});
    assert!((35..60).contains(&left.len()), "{}", left.len());
}

#[test]
fn what_came_before_a_control_was_known_is_checked_too() {
    // The machine was disturbed before, and is when the control is checked first.
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if (7..23).contains(&nr) { 50.0 } else { 100.0 });
    let left = after((1, 10, 50.0), 40, &mut runner, |_| {});
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn void_runs_are_told_where_nothing_is_repeated() {
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if nr == 0 { 50.0 } else { 100.0 });
    let mut void = 0;
    let left = after((8, 10, 100.0), 1, &mut runner, |progress| void = progress.void);
    assert_eq!((left.len(), void), (0, 10));
}

#[test]
fn the_kernels_placement_is_no_control() {
    let bench = Bench::load("core:4 pipe:2 pu:2");
    let layouts = bench.layouts();
    let campaign = Campaign {
        precision: Precision {
            relative: 0.02,
            min: 12,
            max: 12,
        },
        ..bench.campaign(&layouts, size(3, 2))
    };
    let store = store();
    let kernel = Experiment::Kernel(2);
    // Placed well at first, and badly later.
    let mut runner = Scripted::new(|_: &Pinned, _, nr| if nr < 8 { 100.0 } else { 50.0 });
    let mut run = || {
        let runs = campaign.run(std::slice::from_ref(&kernel), &mut runner, &store, |_| {});
        runs.unwrap()[&kernel].len()
    };
    assert_eq!((run(), run()), (12, 12));
    assert_eq!(store.runs().unwrap().len(), 12);
}
