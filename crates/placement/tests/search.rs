// SPDX-License-Identifier: GPL-2.0-only
//! The search finds what trying all assignments finds, and its bound holds for any tables.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, profile, size, store};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_model::sharing::IPFWD_VARIANTS;
use threadwise_placement::{
    Assignments, Computed, Effort, Error, Experiment, Found, Predicted, Predictor, Reading, Sampler, Scope,
    Size, TOLERANCE, Tables, best_of_all, manifest, search,
};

const READINGS: [Reading; 3] = [Reading::Literal, Reading::ForeignOnly, Reading::Excess];

impl Bench {
    /// What the model says of a variant of IPFwd.
    fn ipfwd(&self, variant: &str, size: Size) -> Tables {
        let layouts = self.layouts();
        let campaign = self.campaign(&layouts, size);
        let mut runner = Computed::new(&self.machine, variant, 0.0, 1).unwrap();
        profile(&campaign, Reading::Literal, &mut runner, &store())
    }

    /// Any performances from 1 to 2, one in `missing` left out; 0 leaves none out. What runs beside a thread helps it as
    /// often as it hurts.
    fn random(&self, size: Size, missing: u64, random: &mut Pcg64) -> Tables {
        let mut tables = Tables::default();
        for experiment in
            manifest(&self.tree, &self.scope, &self.layouts(), (size, Reading::Literal)).unwrap()
        {
            let performance = 1.0 + (random.next_u64() % 1000) as f64 / 1000.0;
            if missing > 0 && random.next_u64().is_multiple_of(missing) {
                continue;
            }
            match experiment {
                Experiment::Base(placed) => tables.set_base(&placed, performance),
                Experiment::Beside(beside) => tables.set_beside(beside, performance),
                _ => unreachable!(),
            }
        }
        tables
    }

    fn search(&self, tables: &Tables, asked: (Size, Reading), effort: Effort) -> Result<Found, Error> {
        search(tables, &self.tree, &self.layouts(), &self.scope, asked, effort)
    }

    fn predict(&self, tables: &Tables, (size, reading): (Size, Reading), placed: &[u16]) -> f64 {
        let layouts = self.layouts();
        let mut predictor =
            Predictor::new(tables, &self.tree, &layouts, &self.scope, (size.roles, reading)).unwrap();
        predictor.predict(placed)
    }
}

/// Machines and workloads of which all assignments can be tried. The second has three levels, the third two kinds of
/// cores.
const SMALL: [(&str, &str, Size); 8] = [
    ("core:3 pu:2", "core", size(2, 3)),
    ("package:2 core:2 pu:2", "core", size(2, 3)),
    ("amp-8", "core", size(2, 2)),
    ("amp-8", "llc", size(2, 2)),
    ("package:2 core:2 pu:2", "package", size(3, 2)),
    ("core:2 pipe:2 pu:2", "core", size(2, 4)),
    ("core:2 pipe:2 pu:2", "core", size(1, 5)),
    ("package:2 core:2 pu:2", "pu", size(3, 2)),
];

/// Branch and bound alone, without an assignment to begin with.
const BRANCH_ONLY: Effort = Effort {
    nr_predictions: 0,
    nr_nodes: 10_000_000,
    seed: 1,
};

/// Calls `check` with random tables, one entry in `missing` left out, and the best of all assignments.
fn on_small(missing: u64, mut check: impl FnMut(&Bench, &Tables, (Size, Reading), Option<Predicted>)) {
    let mut random = Pcg64::new(5, 5);
    for (machine, scope, size) in SMALL {
        let mut bench = Bench::load(machine);
        bench.scope = Scope::new(&bench.machine, &bench.tree, scope).unwrap();
        for _ in 0..4 {
            let tables = bench.random(size, missing, &mut random);
            for reading in READINGS {
                let layouts = bench.layouts();
                let asked = (size.roles, reading);
                let mut predictor =
                    Predictor::new(&tables, &bench.tree, &layouts, &bench.scope, asked).unwrap();
                let threads = size.roles * size.instances;
                let best = best_of_all(&bench.tree, &mut predictor, threads, 1).unwrap();
                check(
                    &bench,
                    &tables,
                    (size, reading),
                    best.into_sorted().into_iter().next(),
                );
            }
        }
    }
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 2.0 * TOLERANCE * b
}

#[test]
fn as_good_as_the_best_of_all() {
    on_small(0, |bench, tables, asked, best| {
        let best = best.unwrap().performance;
        for effort in [
            BRANCH_ONLY,
            Effort {
                nr_predictions: 4000,
                ..BRANCH_ONLY
            },
        ] {
            let found = bench.search(tables, asked, effort).unwrap();
            assert!(found.is_proven, "{asked:?}: {found:?}");
            assert!(
                is_close(found.best.performance, best),
                "{asked:?}: {found:?}, not {best}"
            );
            assert!(is_close(found.bound, best), "{asked:?}: {found:?}, not {best}");
            let predicted = bench.predict(tables, asked, &found.best.placed);
            assert!(
                is_close(predicted, found.best.performance),
                "{asked:?}: {found:?}"
            );
        }
    });
}

#[test]
fn the_bound_holds_wherever_the_search_ends() {
    let mut nr_open = 0;
    on_small(0, |bench, tables, asked, best| {
        let best = best.unwrap().performance;
        for nr_nodes in [0, 1, 10, 100, 1000] {
            let effort = Effort {
                nr_predictions: 8,
                nr_nodes,
                seed: 1,
            };
            let found = bench.search(tables, asked, effort).unwrap();
            assert!(found.nr_nodes <= nr_nodes);
            assert!(
                found.bound >= best * (1.0 - TOLERANCE),
                "{asked:?}: {found:?} below {best}"
            );
            assert!(found.best.performance <= best * (1.0 + TOLERANCE));
            assert!(
                !found.is_proven || is_close(found.best.performance, best),
                "{asked:?}: {found:?}"
            );
            nr_open += usize::from(!found.is_proven);
        }
    });
    assert!(nr_open > 0, "no search was cut short");
}

/// What a bound must not take for granted: that no thread is faster beside others than in the layout of the threads
/// placed so far. With none placed that is instances times the best base.
#[test]
fn a_bound_that_takes_company_for_harm_is_broken() {
    let mut nr_broken = 0;
    on_small(0, |bench, tables, asked, best| {
        let base = |placed: Vec<_>| tables.base(&placed).unwrap();
        let alone = Assignments::new(&bench.tree, asked.0.roles).unwrap().map(base);
        let broken = asked.0.instances as f64 * alone.fold(0.0, f64::max);
        let found = bench
            .search(
                tables,
                asked,
                Effort {
                    nr_predictions: 8,
                    nr_nodes: 0,
                    seed: 1,
                },
            )
            .unwrap();
        assert!(found.bound >= best.as_ref().unwrap().performance * (1.0 - TOLERANCE));
        nr_broken += usize::from(broken < 0.999 * best.unwrap().performance);
    });
    assert!(nr_broken > 5, "{nr_broken}");
}

#[test]
fn what_cannot_be_predicted_is_not_the_best() {
    let (mut nr_found, mut nr_none) = (0, 0);
    for missing in [2, 4, 10] {
        on_small(missing, |bench, tables, asked, best| {
            for effort in [
                BRANCH_ONLY,
                Effort {
                    nr_predictions: 4000,
                    ..BRANCH_ONLY
                },
            ] {
                let found = bench.search(tables, asked, effort);
                match (&best, found) {
                    (Some(best), Ok(found)) => {
                        nr_found += 1;
                        assert!(found.is_proven, "{asked:?}: {found:?}");
                        assert!(
                            is_close(found.best.performance, best.performance),
                            "{asked:?}: {found:?}"
                        );
                    }
                    (None, Err(Error::Unpredictable { .. })) => nr_none += 1,
                    (best, found) => panic!("{asked:?}: {found:?}, not {best:?}"),
                }
            }
        });
    }
    assert!(nr_found > 0 && nr_none > 0, "{nr_found} {nr_none}");
}

#[test]
fn nothing_can_be_searched() {
    let t2 = Bench::t2();
    let search = |size| {
        t2.search(
            &Tables::default(),
            (size, Reading::Excess),
            Effort {
                nr_predictions: 80,
                ..BRANCH_ONLY
            },
        )
    };
    assert_eq!(search(size(3, 2)), Err(Error::Unpredictable { threads: 6 }));
    assert_eq!(search(size(3, 0)), Err(Error::Zero { what: "threads" }));
    assert_eq!(
        search(size(3, 22)),
        Err(Error::TooManyThreads {
            threads: 66,
            cpus: 64
        })
    );
}

#[test]
fn equal_effort_gives_equal_results() {
    let t2 = Bench::t2();
    let size = size(3, 11);
    let tables = t2.ipfwd("hash1_L1", size);
    let effort = Effort {
        nr_predictions: 20_000,
        nr_nodes: 2000,
        seed: 7,
    };
    let search = || t2.search(&tables, (size, Reading::Excess), effort).unwrap();
    let found = search();
    assert_eq!(found, search());
    assert_eq!(found.nr_nodes, 2000);
}

#[test]
fn eight_instances_on_the_t2_are_proven() {
    let t2 = Bench::t2();
    let size = size(3, 8);
    let effort = Effort {
        nr_nodes: 20_000_000,
        ..Effort::default()
    };
    for variant in IPFWD_VARIANTS {
        let tables = t2.ipfwd(variant, size);
        let found = t2.search(&tables, (size, Reading::Excess), effort).unwrap();
        assert!(
            found.nr_nodes < effort.nr_nodes / 4,
            "{variant}: {} nodes",
            found.nr_nodes
        );
        assert!(found.is_proven, "{variant}: {found:?}");
        let predicted = t2.predict(&tables, (size, Reading::Excess), &found.best.placed);
        assert!(
            is_close(predicted, found.best.performance),
            "{variant}: {found:?}"
        );
    }
}

#[test]
fn twenty_one_instances_on_the_t2_come_close_to_the_bound() {
    let t2 = Bench::t2();
    let asked = (size(3, 21), Reading::Excess);
    let tables = t2.ipfwd("intadd", asked.0);
    let found = t2
        .search(
            &tables,
            asked,
            Effort {
                nr_nodes: 0,
                ..Effort::default()
            },
        )
        .unwrap();
    let layouts = t2.layouts();
    let mut predictor = Predictor::new(&tables, &t2.tree, &layouts, &t2.scope, (3, asked.1)).unwrap();
    let mut sampler = Sampler::new(&t2.tree, 63).unwrap();
    let mut random = Pcg64::new(1, 1);
    let best = (0..20_000)
        .map(|_| predictor.predict(&sampler.draw(&mut random)))
        .fold(0.0, f64::max);
    assert!(best <= found.best.performance, "{best}: {found:?}");
    assert!(found.best.performance <= found.bound, "{found:?}");
    assert!(found.bound < 1.01 * found.best.performance, "{found:?}");
}

#[test]
fn sixteen_instances_of_four_threads_stay_below_the_bound() {
    let t2 = Bench::t2();
    let asked = (size(4, 16), Reading::Excess);
    let tables = t2.random(asked.0, 0, &mut Pcg64::new(1, 1));
    let effort = Effort {
        nr_predictions: 100_000,
        nr_nodes: 0,
        seed: 1,
    };
    let found = t2.search(&tables, asked, effort).unwrap();
    assert!(found.best.performance <= found.bound, "{found:?}");
    // Far from what no table could exceed.
    assert!(found.bound < 1.5 * found.best.performance, "{found:?}");
}
