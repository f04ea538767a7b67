// SPDX-License-Identifier: GPL-2.0-only
//! The paper's own case: IPFwd on an UltraSPARC T2, computed.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use common::{Bench, profile, size, store};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_model::sharing::IPFWD_VARIANTS;
use threadwise_placement::{
    Assignments, Computed, Evaluation, Experiment, Leaf, Predicted, Predictor, Reading, Runner, Sampler,
    Tables, best_of_all, count, deal, evaluate, manifest,
};

const ROLES: usize = 3;

const READINGS: [Reading; 3] = [Reading::Literal, Reading::ForeignOnly, Reading::Excess];

/// Profiles with noise as the paper's runs hardly had, then measures the sample.
fn study(
    variant: &str,
    (instances, seed): (usize, u64),
    sample: &[Vec<Leaf>],
    balanced: &[Vec<Leaf>],
) -> [Evaluation; 3] {
    let t2 = Bench::t2();
    let layouts = t2.layouts();
    let campaign = t2.campaign(&layouts, size(ROLES, instances));
    let store = store();
    let mut runner = Computed::new(&t2.machine, variant, 0.002, seed).unwrap();
    let tables = profile(&campaign, Reading::Literal, &mut runner, &store);
    READINGS.map(|reading| {
        let mut predictor = Predictor::new(&tables, &t2.tree, &layouts, &t2.scope, (ROLES, reading)).unwrap();
        evaluate(&campaign, &mut predictor, (sample, balanced), &mut runner, &store).unwrap()
    })
}

/// The paper's bounds (section 5): with the first choice at most 2.8 % lost, with the best of five 1.4 %.
fn check(variant: &str, [literal, foreign_only, excess]: &[Evaluation; 3]) {
    assert!(excess.top1 <= 0.028, "{variant}: {excess:?}");
    assert!(excess.top5 <= 0.014, "{variant}: {excess:?}");
    // The figure shows something: most assignments lose much more.
    assert!(
        excess.naive_mean > 0.05 && excess.naive_worst > 0.15,
        "{variant}: {excess:?}"
    );
    // Why `excess` is the default: the paper's own reading counts collisions of an instance with itself twice.
    assert!(
        excess.prediction_error < literal.prediction_error,
        "{variant}: {literal:?} {excess:?}"
    );
    assert!(
        excess.rank_correlation > literal.rank_correlation,
        "{variant}: {literal:?} {excess:?}"
    );
    assert!(
        excess.prediction_error < 1.3 * foreign_only.prediction_error,
        "{variant}: {foreign_only:?} {excess:?}"
    );
}

#[test]
fn all_assignments_of_six_threads() {
    let t2 = Bench::t2();
    let sample: Vec<_> = Assignments::new(&t2.tree, 6).unwrap().collect();
    assert_eq!(sample.len(), 1526);
    let balanced = vec![deal(&t2.tree, 6, &mut Pcg64::new(1, 1)).unwrap()];
    for variant in IPFWD_VARIANTS {
        check(variant, &study(variant, (2, 1), &sample, &balanced));
    }
}

/// What is chosen does not hang on the noise: of hash1_L1 and hash1_L2 three classes are equal in the tables, of which one
/// loses 3.8 %. Seeds of which a choice by prediction alone takes that one are among these.
#[test]
fn classes_that_tie_are_told_apart() {
    let t2 = Bench::t2();
    let layouts = t2.layouts();
    let campaign = t2.campaign(&layouts, size(ROLES, 2));
    let mut nr_lost_by_prediction_alone = 0;
    for variant in IPFWD_VARIANTS {
        let truth = |placed: &[Leaf]| {
            let cpus = |threads: &[Leaf]| Some(threads.iter().map(|&leaf| t2.tree.cpu(leaf)).collect());
            let instances: Vec<_> = placed.chunks(ROLES).map(cpus).collect();
            let mut exact = Computed::new(&t2.machine, variant, 0.0, 1).unwrap();
            exact.run(&instances).unwrap().iter().sum::<f64>()
        };
        let best = Assignments::new(&t2.tree, 6)
            .unwrap()
            .map(|placed| truth(&placed));
        let best = best.fold(0.0, f64::max);
        for seed in 1..=8 {
            let store = store();
            let mut runner = Computed::new(&t2.machine, variant, 0.002, seed).unwrap();
            let tables = profile(&campaign, Reading::Literal, &mut runner, &store);
            let how = (ROLES, Reading::Excess);
            let mut predictor = Predictor::new(&tables, &t2.tree, &layouts, &t2.scope, how).unwrap();
            let plain = best_of_all(&t2.tree, &mut predictor, 6, 5).unwrap().into_sorted();
            let ranking = campaign.ranking(&store).unwrap();
            let chosen = ranking.first_of_all(&mut predictor, &plain).unwrap();
            let loss = |placed: &[Leaf]| 1.0 - truth(placed) / best;
            assert!(loss(&chosen[0].placed) <= 0.028, "{variant} {seed}: {chosen:?}");
            let of_five = chosen.iter().map(|it| loss(&it.placed)).fold(1.0, f64::min);
            assert!(of_five <= 0.014, "{variant} {seed}: {of_five}");
            nr_lost_by_prediction_alone += u32::from(loss(&plain[0].placed) > 0.028);
            // The same by another way: all in one list.
            let all: Vec<_> = Assignments::new(&t2.tree, 6)
                .unwrap()
                .map(|placed| Predicted {
                    performance: predictor.predict(&placed),
                    placed,
                })
                .collect();
            assert_eq!(ranking.sort(all)[..5], chosen, "{variant} {seed}");
        }
    }
    assert!(nr_lost_by_prediction_alone >= 2);
}

#[test]
fn a_thousand_assignments_of_24_threads() {
    let t2 = Bench::t2();
    let mut random = Pcg64::new(1, 1);
    let mut sampler = Sampler::new(&t2.tree, 24).unwrap();
    let sample: Vec<_> = (0..1000).map(|_| sampler.draw(&mut random)).collect();
    let balanced: Vec<_> = (0..100)
        .map(|_| deal(&t2.tree, 24, &mut random).unwrap())
        .collect();
    for variant in IPFWD_VARIANTS {
        check(variant, &study(variant, (8, 1), &sample, &balanced));
    }
}

#[test]
fn the_manifest_has_the_entries_of_the_table() {
    let t2 = Bench::t2();
    let layouts = t2.layouts();
    // As many instances as fill a core reach every entry.
    for (roles, instances) in [(2, 8), (3, 8), (4, 8)] {
        let how = (size(roles, instances), Reading::Literal);
        let experiments = manifest(&t2.tree, &t2.scope, &layouts, how).unwrap();
        let counts = count(&t2.tree, &t2.scope, roles, 1).unwrap();
        assert_eq!(
            experiments.len().to_string(),
            (counts.base + counts.slowdown).to_string()
        );
        for experiment in &experiments {
            assert_eq!(*experiment, experiment.to_string().parse().unwrap());
        }
    }
    let how = (size(ROLES, 2), Reading::Literal);
    let two = manifest(&t2.tree, &t2.scope, &layouts, how).unwrap();
    assert_eq!(two.len(), 11 + 300);
}

#[test]
fn settings_isolate_the_target() {
    let t2 = Bench::t2();
    let layouts = t2.layouts();
    let how = (size(ROLES, 8), Reading::Literal);
    let experiments = manifest(&t2.tree, &t2.scope, &layouts, how).unwrap();
    let mut nr_set = 0;
    for experiment in &experiments {
        let Experiment::Beside(beside) = experiment else {
            continue;
        };
        let Some(setting) = experiment.setting(&layouts, &t2.scope, ROLES) else {
            continue;
        };
        nr_set += 1;
        let all: Vec<Leaf> = setting.instances.concat();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{experiment}: two threads on one CPU");
        assert!(
            setting.instances.iter().all(|threads| threads.len() == ROLES),
            "{experiment}"
        );
        // The target's core runs what the entry says, and its other threads have theirs for themselves.
        let on_core = |core| {
            all.iter()
                .filter(|&&leaf| t2.scope.member_of(leaf) == core)
                .count()
        };
        let target = setting.instances[0][usize::from(beside.role)];
        let nr_beside = beside
            .layout
            .0
            .to_le_bytes()
            .iter()
            .filter(|&&byte| byte != 0)
            .count();
        assert_eq!(on_core(t2.scope.member_of(target)), nr_beside, "{experiment}");
        for (role, &leaf) in setting.instances[0].iter().enumerate() {
            if role != usize::from(beside.role) {
                assert_eq!(on_core(t2.scope.member_of(leaf)), 1, "{experiment}: {setting:?}");
            }
        }
    }
    assert_eq!(nr_set, 2100);
}

/// Tables of random figures; every so many entries one is missing.
fn random_tables(experiments: &[Experiment], missing: u64) -> Tables {
    let mut tables = Tables::default();
    let mut random = Pcg64::new(3, 3);
    for experiment in experiments {
        let any = 1.0 + (random.next_u64() % 1000) as f64 / 1000.0;
        match experiment {
            _ if random.next_u64().is_multiple_of(missing) => {}
            Experiment::Base(placed) => tables.set_base(placed, any),
            Experiment::Beside(beside) => tables.set_beside(*beside, any),
            _ => unreachable!(),
        }
    }
    tables
}

#[test]
fn what_differs_is_all_that_is_computed() {
    // A predictor that has seen other assignments says what a new one says.
    let t2 = Bench::t2();
    let layouts = t2.layouts();
    let how = (size(ROLES, 8), Reading::Literal);
    let experiments = manifest(&t2.tree, &t2.scope, &layouts, how).unwrap();
    let tables = random_tables(&experiments, u64::MAX);
    let mut sampler = Sampler::new(&t2.tree, 24).unwrap();
    let mut random = Pcg64::new(4, 4);
    for reading in READINGS {
        let new = || Predictor::new(&tables, &t2.tree, &layouts, &t2.scope, (ROLES, reading)).unwrap();
        let mut old = new();
        let mut placed = sampler.draw(&mut random);
        for step in 0..300 {
            if step % 10 == 0 {
                placed = sampler.draw(&mut random);
            } else {
                placed.swap(random.next_u64() as usize % 24, random.next_u64() as usize % 24);
            }
            assert_eq!(
                old.predict(&placed).to_bits(),
                new().predict(&placed).to_bits(),
                "{reading:?} {placed:?}"
            );
        }
    }
}

#[test]
fn what_is_predicted_together_is_what_is_predicted_alone() {
    for (source, roles, instances) in [
        ("core:4 pipe:2 pu:2", 3, 2),
        ("core:4 pipe:2 pu:2", 1, 4),
        ("package:2 core:2 pu:2", 2, 2),
        ("amp-8", 2, 2),
        ("core:3 pu:4", 4, 1),
    ] {
        let bench = Bench::load(source);
        let (tree, scope, layouts) = (&bench.tree, &bench.scope, bench.layouts());
        let how = (size(roles, instances), Reading::Literal);
        let experiments = manifest(tree, scope, &layouts, how).unwrap();
        let tables = random_tables(&experiments, 20);
        for reading in READINGS {
            let new = || Predictor::new(&tables, tree, &layouts, scope, (roles, reading)).unwrap();
            let (mut together, mut alone) = (new(), new());
            let mut assignments = Assignments::new(tree, roles * instances).unwrap();
            let mut listed = Assignments::new(tree, roles * instances).unwrap();
            let mut nr_known = 0;
            while let Some(first) = assignments.advance_all_but_last() {
                let (placed, places) = (assignments.current(), assignments.last_places());
                together.predict_each(placed, first, places, |placed, performance| {
                    listed.advance().unwrap();
                    assert_eq!(listed.current(), placed, "{source}");
                    let expected = alone.predict(placed);
                    assert_eq!(
                        performance.to_bits(),
                        expected.to_bits(),
                        "{source} {reading:?} {placed:?}"
                    );
                    nr_known += u32::from(!expected.is_nan());
                });
                // Other predictions in between do no harm.
                if nr_known % 7 == 0 {
                    let other = listed.current().iter().rev().copied().collect::<Vec<_>>();
                    assert_eq!(
                        together.predict(&other).to_bits(),
                        alone.predict(&other).to_bits()
                    );
                    together.predict(listed.current());
                }
            }
            assert_eq!(listed.advance(), None, "{source}");
            assert!(nr_known > 3, "{source}: {nr_known}");
        }
    }
}
