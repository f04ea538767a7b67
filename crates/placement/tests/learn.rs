// SPDX-License-Identifier: GPL-2.0-only
//! Learning the tables from a part of their experiments, on an UltraSPARC T2, computed.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Bench, size, store};
use rand_pcg::Pcg64;
use threadwise_machine::CpuId;
use threadwise_model::sharing::{IPFWD_VARIANTS, Message, Program, Region, Sharing, Stage, Work, ipfwd};
use threadwise_placement::{
    Assignments, Beside, Campaign, CampaignError, Computed, Effort, Experiment, Fallback, Layouts, Leaf,
    Learned, Plan, Predictor, Reading, RunError, Runner, Sampler, Selection, Size, Store, Tables, learn,
    manifest, search,
};

const ROLES: usize = 3;

/// As the tests of the full tables have it: relative, of a run.
const NOISE: f64 = 0.002;

/// Of the order of experiments and of the noise.
const SEEDS: [u64; 2] = [1, 2];

/// An UltraSPARC T2 and a workload.
struct T2 {
    bench: Bench,
    size: Size,
    seed: u64,
}

impl T2 {
    fn new(roles: usize, instances: usize) -> T2 {
        T2 {
            bench: Bench::t2(),
            size: size(roles, instances),
            seed: 1,
        }
    }

    fn campaign<'a>(&'a self, layouts: &'a Layouts<'a>) -> Campaign<'a> {
        Campaign {
            seed: self.seed,
            ..self.bench.campaign(layouts, self.size)
        }
    }

    fn runner(&self, program: &Program) -> Computed {
        Computed::with_program(&self.bench.machine, program.clone(), NOISE, self.seed).unwrap()
    }

    fn sample(&self, nr: usize, seed: u128) -> Vec<Vec<Leaf>> {
        let mut random = Pcg64::new(seed, 1);
        let mut sampler = Sampler::new(&self.bench.tree, self.size.roles * self.size.instances).unwrap();
        (0..nr).map(|_| sampler.draw(&mut random)).collect()
    }

    /// What the model says without noise.
    fn truth(&self, program: &Program, sample: &[Vec<Leaf>]) -> Vec<f64> {
        let run = |placed: &Vec<Leaf>| {
            let instances: Vec<_> = placed.chunks(self.size.roles).map(<[Leaf]>::to_vec).collect();
            self.run(program, &instances).iter().sum()
        };
        sample.iter().map(run).collect()
    }

    fn run(&self, program: &Program, instances: &[Vec<Leaf>]) -> Vec<f64> {
        let mut runner = Computed::with_program(&self.bench.machine, program.clone(), 0.0, 1).unwrap();
        let cpus =
            |threads: &Vec<Leaf>| Some(threads.iter().map(|&leaf| self.bench.tree.cpu(leaf)).collect());
        let instances: Vec<_> = instances.iter().map(cpus).collect();
        runner.run(&instances).unwrap()
    }

    fn learn(&self, program: &Program, plan: &Plan) -> Learned {
        let layouts = self.bench.layouts();
        learn(
            &self.campaign(&layouts),
            &mut self.runner(program),
            &store(),
            plan,
        )
        .unwrap()
    }

    /// Losses of the first choice and of the best of five, against the best of the sample.
    fn losses(&self, tables: &Tables, sample: &[Vec<Leaf>], truth: &[f64]) -> [f64; 2] {
        let layouts = self.bench.layouts();
        let how = (self.size.roles, Reading::Excess);
        let mut predictor =
            Predictor::new(tables, &self.bench.tree, &layouts, &self.bench.scope, how).unwrap();
        let mut order: Vec<(f64, f64)> = sample
            .iter()
            .zip(truth)
            .map(|(placed, &truth)| (predictor.predict(placed), truth))
            .collect();
        assert!(order.iter().all(|(predicted, _)| predicted.is_finite()));
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = greatest(truth.iter().copied());
        [1, 5].map(|nr| 1.0 - greatest(order[..nr].iter().map(|of| of.1)) / best)
    }
}

fn greatest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

fn plan(budget: usize, candidates: &[Vec<Leaf>], selection: Selection) -> Plan<'_> {
    Plan {
        budget,
        candidates,
        reading: Reading::Excess,
        selection,
        climbs: 0,
    }
}

/// The share of the held-out entries of the manifest that the 95 % interval covers.
fn coverage(t2: &T2, program: &Program, learned: &Learned) -> f64 {
    let layouts = t2.bench.layouts();
    let campaign = t2.campaign(&layouts);
    let how = (t2.size, Reading::Literal);
    let experiments = manifest(&t2.bench.tree, &t2.bench.scope, &layouts, how).unwrap();
    let mut runner = Computed::with_program(&t2.bench.machine, program.clone(), 0.0, 1).unwrap();
    let runs = campaign.run(&experiments, &mut runner, &store(), |_| {}).unwrap();
    let (mut covered, mut all) = (0.0, 0.0);
    for (experiment, runs) in runs {
        let (low, high) = learned.interval(&experiment).unwrap();
        if !learned.is_measured(&experiment) {
            all += 1.0;
            covered += f64::from(u8::from(low <= runs[0] && runs[0] <= high));
        }
    }
    covered / all
}

/// A pipeline of `nr` stages that differ in how much they compute, multiply, read and wait.
fn pipeline(nr: usize) -> Program {
    let stage = |at: usize| {
        let vary = |by: usize, from: usize| ((at * by + 3) % from) as f64 / from as f64;
        let multiplications = if at % 4 == 1 { 30.0 } else { 0.0 };
        Stage {
            name: format!("S{at}"),
            work: Work {
                instructions: 90.0 + 160.0 * vary(7, 11) + multiplications,
                loads: 10.0 + 20.0 * vary(5, 7),
                stores: 8.0,
                taken_branches: 10.0,
                multiplications,
                divisions: 0.0,
                stall_cycles: 250.0 * vary(3, 5),
            },
            accesses: vec![15.0, 10.0, if at.is_multiple_of(3) { 6.0 } else { 0.0 }],
        }
    };
    let region = |name: &str, bytes, sharing| Region {
        name: name.to_string(),
        bytes,
        sharing,
    };
    Program {
        name: format!("pipeline of {nr}"),
        stages: (0..nr).map(stage).collect(),
        regions: vec![
            region("private", 768.0, Sharing::Thread),
            region("packets", 768.0, Sharing::Instance),
            region("table", 262144.0, Sharing::Instance),
        ],
        message: Message {
            sender_reads: 1.0,
            receiver_reads: 2.0,
        },
        poll: ipfwd("intadd").unwrap().poll,
    }
}

/// All entries as the model says them: what the full tables would have, where they are too large to list.
#[derive(Clone)]
struct Full(&'static T2, &'static Layouts<'static>, Program);

impl std::fmt::Debug for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Full({})", self.2.name)
    }
}

impl Full {
    fn new(roles: usize, instances: usize, program: &Program) -> Full {
        let t2: &'static T2 = Box::leak(Box::new(T2::new(roles, instances)));
        Full(t2, Box::leak(Box::new(t2.bench.layouts())), program.clone())
    }

    fn tables(&self) -> Tables {
        let mut tables = Tables::default();
        tables.set_fallback(Arc::new(self.clone()));
        tables
    }

    fn of(&self, experiment: &Experiment) -> Option<f64> {
        let setting = experiment.setting(self.1, &self.0.bench.scope, self.0.size.roles)?;
        Some(self.0.run(&self.2, &setting.instances)[0])
    }
}

impl Fallback for Full {
    fn base(&self, placed: &[Leaf]) -> Option<f64> {
        self.of(&Experiment::Base(placed.to_vec()))
    }

    fn beside(&self, beside: &Beside) -> Option<f64> {
        self.of(&Experiment::Beside(*beside))
    }
}

/// What a case came to. Losses are against the best of the sample: of the first choice and of the best of five.
struct Case {
    name: String,
    active: [f64; 2],
    /// Where it was asked for.
    random: Option<[f64; 2]>,
    full: [f64; 2],
    coverage: f64,
}

fn of_variant(variant: &str, t2: &T2, sample: &[Vec<Leaf>], selections: &[Selection]) -> Case {
    let layouts = t2.bench.layouts();
    let how = (t2.size, Reading::Literal);
    let all = manifest(&t2.bench.tree, &t2.bench.scope, &layouts, how).unwrap();
    let nr_all = all.len();
    let program = ipfwd(variant).unwrap();
    let truth = t2.truth(&program, sample);
    let learn = |selection| {
        let learned = t2.learn(&program, &plan(nr_all / 10, sample, selection));
        assert!(learned.nr_experiments <= nr_all / 10);
        learned
    };
    let active = learn(Selection::Active);
    let random = selections
        .contains(&Selection::Random)
        .then(|| learn(Selection::Random));
    let full = Full::new(ROLES, t2.size.instances, &program).tables();
    let case = Case {
        name: format!("{variant}, {} of {nr_all} experiments", active.nr_experiments),
        active: t2.losses(&active.tables, sample, &truth),
        random: random.map(|random| t2.losses(&random.tables, sample, &truth)),
        full: t2.losses(&full, sample, &truth),
        coverage: coverage(t2, &program, &active),
    };
    println!(
        "{}: active {:.4?} random {:.4?} full {:.4?} covered {:.3}",
        case.name, case.active, case.random, case.full, case.coverage
    );
    case
}

/// The paper's bounds for the full tables (blackbox-scheduler, section 5.2) hold with a tenth of the experiments in most
/// cases, and the intervals are honest.
fn check(cases: &[Case]) {
    let nr = cases.len() as f64;
    let share = |is_good: fn(&Case) -> bool| cases.iter().filter(|case| is_good(case)).count() as f64 / nr;
    let mean = |of: fn(&Case) -> f64| cases.iter().map(of).sum::<f64>() / nr;
    let (first, five) = (
        share(|case| case.active[0] <= 0.028),
        share(|case| case.active[1] <= 0.014),
    );
    let (active, full) = (mean(|case| case.active[0]), mean(|case| case.full[0]));
    let coverage = mean(|case| case.coverage);
    let least = cases.iter().map(|case| case.coverage).fold(1.0, f64::min);
    println!(
        "{nr} cases: within bounds {first:.3} {five:.3}; mean losses: active {active:.4} \
         full {full:.4}; coverage {coverage:.3}, least {least:.3}"
    );
    assert!(five >= 0.95 && first >= 0.85, "{first} {five}");
    assert!(active <= 0.01, "{active}");
    // The whole tables, ten times as many experiments, are hardly better.
    assert!(active <= full + 0.01, "{active} {full}");
    let both: Vec<_> = cases
        .iter()
        .filter_map(|case| Some((case.active[0], case.random?[0])))
        .collect();
    let sums = both
        .iter()
        .fold((0.0, 0.0), |sums, of| (sums.0 + of.0, sums.1 + of.1));
    // Experiments that are chosen are worth at least as much as as many at random.
    assert!(sums.0 <= sums.1 + 0.005 * both.len() as f64, "{sums:?}");
    assert!((0.85..=1.0).contains(&coverage), "{coverage}");
}

#[test]
fn all_assignments_of_six_threads_from_a_tenth() {
    let mut t2 = T2::new(ROLES, 2);
    let sample: Vec<_> = Assignments::new(&t2.bench.tree, 6).unwrap().collect();
    let mut cases = Vec::new();
    // So few experiments leave something to luck.
    for seed in SEEDS {
        t2.seed = seed;
        let selections = match seed {
            1 => &[Selection::Active, Selection::Random][..],
            _ => &[Selection::Active],
        };
        cases.extend(IPFWD_VARIANTS.map(|variant| of_variant(variant, &t2, &sample, selections)));
    }
    check(&cases);
}

#[test]
fn a_thousand_assignments_of_24_threads_from_a_tenth() {
    let t2 = T2::new(ROLES, 8);
    let sample = t2.sample(1000, 1);
    let variants = ["hash1_L1", "hashN_L2", "intadd"];
    let cases = variants.map(|variant| of_variant(variant, &t2, &sample, &[Selection::Active]));
    check(&cases);
    // With 211 experiments all are.
    let is_within = |case: &Case| case.active[0] <= 0.028 && case.active[1] <= 0.014;
    assert!(cases.iter().all(is_within));
}

/// What learning chooses of all assignments, not only of the sample: gains over the best of the sample of the first
/// choice and of the best of five, all measured.
fn gains(t2: &T2, program: &Program, learned: &Learned, best: f64) -> [f64; 2] {
    let five: Vec<_> = learned.best.iter().take(5).map(|of| of.placed.clone()).collect();
    let measured = t2.truth(program, &five);
    [measured[0], greatest(measured.into_iter())].map(|performance| performance / best - 1.0)
}

#[test]
fn eight_threads_need_less_than_two_thousand() {
    let t2 = T2::new(8, 4);
    let program = pipeline(8);
    let sample = t2.sample(1000, 1);
    let truth = t2.truth(&program, &sample);
    let best = greatest(truth.iter().copied());
    let mean = truth.iter().sum::<f64>() / 1000.0;
    println!("8 threads: a random assignment loses {:.4}", 1.0 - mean / best);
    let full = t2.losses(&Full::new(8, 4, &program).tables(), &sample, &truth);
    println!("8 threads: full {full:.4?}");
    // What is asked next serves the sample, or all assignments.
    let [for_sample, for_all] = [0, 300].map(|climbs| {
        let how = Plan {
            climbs,
            ..plan(700, &sample, Selection::Active)
        };
        let learned = t2.learn(&program, &how);
        let losses = t2.losses(&learned.tables, &sample, &truth);
        let gains = gains(&t2, &program, &learned, best);
        println!(
            "8 threads, {climbs} climbs, {} experiments: losses {losses:.4?}, gains {gains:.4?}",
            learned.nr_experiments,
        );
        (losses, gains)
    });
    // As good as all 727,776 entries on the sample; the paper's own bound.
    assert!(for_sample.0[0] <= full[0] + 0.01 && for_sample.0[0] <= 0.028);
    // 1,000 random assignments, measured, are more experiments, and worse.
    assert!(for_all.1[0] > 0.0);
}

/// With 48 threads random assignments and changes of the best are far from the best (they lost 1.4 to 3.2 %): each round
/// anneals.
#[test]
fn many_instances_are_searched_too() {
    let t2 = T2::new(ROLES, 16);
    let sample = t2.sample(1000, 1);
    for variant in ["hash1_L1", "hashN_L1"] {
        let program = ipfwd(variant).unwrap();
        let full = Full::new(ROLES, t2.size.instances, &program).tables();
        let (layouts, how) = (t2.bench.layouts(), (t2.size, Reading::Excess));
        let effort = Effort {
            nr_nodes: 0,
            ..Effort::default()
        };
        let found = search(&full, &t2.bench.tree, &layouts, &t2.bench.scope, how, effort).unwrap();
        let searched = t2.truth(&program, &[found.best.placed])[0];
        let plan = Plan {
            climbs: 300,
            ..plan(211, &sample, Selection::Active)
        };
        let [first, five] = gains(&t2, &program, &t2.learn(&program, &plan), searched);
        println!("{variant}, 48 threads: {first:.4} {five:.4} beside whole tables and a search");
        assert!(five > -0.02, "{variant}: {first} {five}");
    }
}

#[test]
fn thirty_two_threads_are_within_reach() {
    let t2 = T2::new(32, 1);
    let program = pipeline(32);
    let sample = t2.sample(1000, 1);
    let best = greatest(t2.truth(&program, &sample).into_iter());
    let how = Plan {
        climbs: 400,
        ..plan(600, &sample, Selection::Active)
    };
    let learned = t2.learn(&program, &how);
    let gains = gains(&t2, &program, &learned, best);
    println!(
        "32 threads, {} experiments: gains {gains:.4?}",
        learned.nr_experiments
    );
    // Against the best of more random assignments than were measured here.
    assert!(gains[0] > 0.0 && gains[1] > 0.0, "{gains:?}");
}

/// Fails after some runs, as a process does that is killed.
struct Killed<'a> {
    runner: &'a mut Computed,
    left: usize,
}

impl Runner for Killed<'_> {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        self.left = self.left.checked_sub(1).ok_or(RunError::Interrupted)?;
        self.runner.run(instances)
    }

    fn label(&self) -> String {
        self.runner.label()
    }
}

#[test]
fn it_goes_on_where_it_was_ended() {
    let t2 = T2::new(ROLES, 2);
    let layouts = t2.bench.layouts();
    let campaign = t2.campaign(&layouts);
    let sample = t2.sample(200, 1);
    let plan = plan(24, &sample, Selection::Active);
    let runner = || Computed::new(&t2.bench.machine, "intmul", 0.0, 1).unwrap();
    let all = store();
    let at_once = learn(&campaign, &mut runner(), &all, &plan).unwrap();
    let pieces = store();
    for _ in 0..3 {
        let mut killed = Killed {
            runner: &mut runner(),
            left: 5,
        };
        let error = learn(&campaign, &mut killed, &pieces, &plan).unwrap_err();
        assert!(matches!(error, CampaignError::Interrupted), "{error}");
    }
    let at_last = learn(&campaign, &mut runner(), &pieces, &plan).unwrap();
    assert_eq!(at_once.best, at_last.best);
    // The same experiments, whatever the control was run beside.
    let experiments = |store: &Store| -> BTreeSet<String> {
        store
            .runs()
            .unwrap()
            .iter()
            .map(|run| run.experiment.to_string())
            .collect()
    };
    assert_eq!(experiments(&all), experiments(&pieces));
    // Once more runs nothing.
    let mut killed = Killed {
        runner: &mut runner(),
        left: 0,
    };
    let again = learn(&campaign, &mut killed, &pieces, &plan).unwrap();
    assert_eq!(at_once.best, again.best);
}

/// Of few assignments, of which a random sample has each many times.
#[test]
fn each_of_the_best_is_listed_once() {
    let bench = Bench::load("core:4 pu:2");
    let layouts = bench.layouts();
    let campaign = bench.campaign(&layouts, size(ROLES, 2));
    let mut random = Pcg64::new(1, 1);
    let mut sampler = Sampler::new(&bench.tree, 2 * ROLES).unwrap();
    let sample: Vec<_> = (0..1000).map(|_| sampler.draw(&mut random)).collect();
    let all: Vec<_> = Assignments::new(&bench.tree, 2 * ROLES).unwrap().collect();
    for climbs in [0, 300] {
        let plan = Plan {
            climbs,
            ..plan(20, &sample, Selection::Active)
        };
        let mut runner = Computed::new(&bench.machine, "intadd", 0.0, 1).unwrap();
        let learned = learn(&campaign, &mut runner, &store(), &plan).unwrap();
        let best = learned.best.into_iter().map(|it| it.placed);
        let distinct: BTreeSet<_> = best.clone().collect();
        assert_eq!((best.len(), distinct.len()), (all.len(), all.len()));
    }
}

#[test]
fn nonsense_is_refused() {
    let t2 = T2::new(ROLES, 2);
    let layouts = t2.bench.layouts();
    let campaign = t2.campaign(&layouts);
    let good = t2.sample(5, 1);
    let refuse = |plan: &Plan, expected: &str| {
        let mut runner = Computed::new(&t2.bench.machine, "intadd", 0.0, 1).unwrap();
        let error = learn(&campaign, &mut runner, &store(), plan)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    refuse(
        &plan(0, &good, Selection::Active),
        "the budget must be at least 1",
    );
    refuse(&plan(9, &[], Selection::Active), "candidates must be at least 1");
    for bad in [vec![0, 1, 2], vec![0, 1, 2, 3, 4, 4], vec![0, 1, 2, 3, 4, 64]] {
        refuse(
            &plan(9, &[bad], Selection::Active),
            "is no assignment of 6 threads",
        );
    }
    // However small a budget is, it is kept to.
    for budget in 1..8 {
        for selection in [Selection::Active, Selection::Random] {
            let mut runner = Computed::new(&t2.bench.machine, "intadd", 0.0, 1).unwrap();
            let learned = learn(&campaign, &mut runner, &store(), &plan(budget, &good, selection)).unwrap();
            assert!(learned.nr_experiments <= budget);
        }
    }
}
