// SPDX-License-Identifier: GPL-2.0-only
//! Equations 1 to 23 by their numbers, and any joint phase of k programs, against what is counted: for 100 random machines.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use proptest::collection::vec;
use proptest::prelude::*;
use threadwise_metrics::Performance;
use threadwise_model::tables::{
    EQUATIONS, Equation, Error, Fairness, Machine, Others, Phase, Rational, Scheduler, Speedup, Table,
};

fn machine(cores: u32, asymmetry: f64) -> Machine {
    Machine::new(cores, Rational::from_float(asymmetry).unwrap()).unwrap()
}

fn close(exact: &Rational, expected: f64) -> bool {
    (exact.to_f64().unwrap() - expected).abs() < 1e-12 * expected.abs().max(1.0)
}

fn value(equation: u32, machine: &Machine, programs: u32) -> Rational {
    let mut found = Equation::new(equation, machine, programs).unwrap();
    assert_eq!((found.equation, found.values.len()), (equation, 1));
    found.values.remove(0).value
}

/// The least, mean and greatest speedup of a program over all ways to place threads on cores of these speeds as evenly
/// as possible. Each way is built by hand: which cores have one thread more, and how many of the program's threads each
/// core has. Cores of the same speed and load are taken together, and ways are weighted by how many they stand for.
fn count_placements(speeds: &[f64], all_threads: u32, mine: u32, alone: f64) -> (f64, f64, f64) {
    let cores = speeds.len() as u32;
    let (least_load, more) = (all_threads / cores, all_threads % cores);
    let (mut least, mut greatest, mut sum, mut weights) = (f64::INFINITY, 0.0f64, 0.0, 0.0);
    for crowded in subsets(cores, more) {
        let loads: Vec<u32> = (0..cores)
            .map(|core| least_load + u32::from(crowded.contains(&core)))
            .collect();
        // (threads of mine placed, speed so far, ways) after each core.
        let mut ways: Vec<(u32, f64, f64)> = vec![(0, 0.0, 1.0)];
        for (speed, load) in speeds.iter().zip(&loads) {
            let next = ways.iter().flat_map(|&(placed, got, count)| {
                (0..=(*load).min(mine - placed)).map(move |here| {
                    let share = speed * f64::from(here) / f64::from((*load).max(1));
                    (placed + here, got + share, count * choose(*load, here))
                })
            });
            ways = next.collect();
        }
        for (_, got, count) in ways.into_iter().filter(|(placed, ..)| *placed == mine) {
            least = least.min(got / alone);
            greatest = greatest.max(got / alone);
            sum += count * got / alone;
            weights += count;
        }
    }
    (least, sum / weights, greatest)
}

fn choose(n: u32, k: u32) -> f64 {
    (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
}

fn subsets(n: u32, size: u32) -> Vec<Vec<u32>> {
    let all = (0u32..1 << n).filter(|mask| mask.count_ones() == size);
    all.map(|mask| (0..n).filter(|bit| mask >> bit & 1 == 1).collect())
        .collect()
}

/// The speedup of a program in this phase, counted.
fn counted(n: u32, a: f64, phase: Phase, others: Others, scheduler: Scheduler) -> (f64, f64, f64) {
    let speeds: Vec<f64> = (0..n).map(|core| if core == 0 { a } else { 1.0 }).collect();
    let serial = others.serial + u32::from(phase == Phase::Serial);
    let parallel = others.parallel + u32::from(phase == Phase::Parallel);
    let (mine, alone) = match phase {
        Phase::Serial => (1, a),
        Phase::Parallel => (n, f64::from(n - 1) + a),
    };
    match (phase, scheduler) {
        // Serial threads alone use as many cores as they are, the large one among them.
        (Phase::Serial, _) if parallel == 0 || scheduler == Scheduler::Proposed => {
            count_placements(&speeds[..serial as usize], serial, 1, alone)
        }
        (_, Scheduler::Proposed) => count_placements(&speeds[serial as usize..], parallel * n, mine, alone),
        _ => count_placements(&speeds, serial + parallel * n, mine, alone),
    }
}

fn assert_counted(found: &Speedup, counted: (f64, f64, f64)) -> Result<(), TestCaseError> {
    prop_assert!(
        close(&found.min, counted.0),
        "min {} for {}",
        found.min,
        counted.0
    );
    prop_assert!(
        close(&found.avg, counted.1),
        "avg {} for {}",
        found.avg,
        counted.1
    );
    prop_assert!(
        close(&found.max, counted.2),
        "max {} for {}",
        found.max,
        counted.2
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Equations 6 to 23 as the paper prints them, term by term, before it simplifies.
    #[test]
    fn equations_are_what_the_paper_prints(cores in 2u32..200, a in 1.0f64..=2.0) {
        let machine = machine(cores, a);
        let n = f64::from(cores);
        let all = n - 1.0 + a;
        let most_pp = ((n - 2.0) / 2.0 + 2.0 * a / 2.0) / all;
        let least_pp = (n / 2.0 + 0.0 * a / 2.0) / all;
        let one_each = ((n - 1.0) / 2.0 + a / 2.0) / all;
        let equal = n / (2.0 * n) * (n - 1.0) / (2.0 * n - 1.0);
        let most_ps = (0.5 + a + (n - 2.0)) / all;
        let least_ps = (n - 2.0 + 2.0 * 0.5) / all;
        for (equation, expected) in [
            (6, a),
            (7, all),
            (8, 1.0),
            (9, 1.0 / a),
            (10, 0.5 / a + 0.5),
            (11, most_pp),
            (12, least_pp),
            (13, equal * most_pp + 2.0 * n / (2.0 * n) * n / (2.0 * n - 1.0) * one_each + equal * least_pp),
            (14, 0.5 / a),
            (15, 1.0),
            (16, 2.0 / (n + 1.0) * (1.0 / n * 0.5 + (n - 1.0) / n / (2.0 * a))
                + (n - 1.0) / (n + 1.0) * (1.0 / n + (n - 1.0) / n / a)),
            (17, most_ps),
            (18, least_ps),
            (19, 1.0 / all * (2.0 / (n + 1.0) * (1.0 / n * (n - 1.0 + a / 2.0) + (n - 1.0) / n * (n - 1.5 + a))
                + (n - 1.0) / (n + 1.0) * (1.0 / n * (n - 1.0) + (n - 1.0) / n * (n - 2.0 + a)))),
            (20, 1.0 / a),
            (21, least_pp / most_pp),
            (22, (0.5 / a / most_ps).min(most_ps / (0.5 / a))),
            (23, least_ps.min(1.0 / least_ps)),
        ] {
            let found = value(equation, &machine, 2);
            prop_assert!(close(&found, expected), "eq. {}: {} for {}", equation, found, expected);
        }
        // The print of eq. 13, whose third term repeats the first, is no half unless a is 1.
        let printed = 2.0 * equal * most_pp + (1.0 - 2.0 * equal) * one_each;
        prop_assert!(a == 1.0 || printed > 0.5 + 1e-12 * (a - 1.0));
    }

    /// Any joint phase of up to six programs, counted; for two these are Tables 1 and 5.
    #[test]
    fn joint_phases_are_what_is_counted(n in 2u32..7, a in 1.0f64..=2.0, k in 0.0f64..1.0, serial in 0.0f64..1.0) {
        let machine = machine(n, a);
        let k = 2 + (f64::from(n - 1) * k) as u32;
        let serial = (f64::from(k) * serial) as u32;
        let others = Others { serial, parallel: k - 1 - serial };
        for scheduler in [Scheduler::Baseline, Scheduler::Proposed] {
            for phase in [Phase::Serial, Phase::Parallel] {
                let found = machine.speedup_beside(phase, others, scheduler).unwrap();
                assert_counted(&found, counted(n, a, phase, others, scheduler))?;
            }
        }
    }

    /// Tables 4 and 6 are the extremes over all joint phases. For Table 6's last maximum that holds only where parallel
    /// programs cannot have more of the large core than serial ones leave of the small ones.
    #[test]
    fn tables_4_and_6_are_the_extremes_over_joint_phases(n in 2u32..40, a in 1.0f64..=2.0, k in 0.0f64..1.0) {
        let exact = machine(n, a);
        let k = 2 + (f64::from(n - 1) * k) as u32;
        for scheduler in [Scheduler::Baseline, Scheduler::Proposed] {
            for phase in [Phase::Serial, Phase::Parallel] {
                let all: Vec<Speedup> = (0..k)
                    .map(|serial| Others { serial, parallel: k - 1 - serial })
                    .map(|others| exact.speedup_beside(phase, others, scheduler).unwrap())
                    .collect();
                let (min, max) = exact.speedup_among(k, phase, scheduler).unwrap();
                let found_min = all.iter().map(|speedup| &speedup.min).min().unwrap();
                let found_max = all.iter().map(|speedup| &speedup.max).max().unwrap();
                prop_assert_eq!(found_min, &min);
                let (n, k) = (f64::from(n), f64::from(k));
                let crowd = a + (n - k) / k;
                let is_exceeded = phase == Phase::Parallel && scheduler == Scheduler::Proposed && crowd > n - k + 1.0;
                if is_exceeded {
                    prop_assert!(close(found_max, crowd / (n - 1.0 + a)), "{} for {}", found_max, crowd);
                } else {
                    prop_assert!(close(found_max, max.to_f64().unwrap()), "{} for {}", found_max, max);
                }
            }
        }
    }

    /// Fairness bounds of k programs from what is counted; for two they are Table 3.
    #[test]
    fn fairness_among_more(n in 2u32..7, a in 1.0f64..=2.0, k in 0.0f64..1.0) {
        let machine = machine(n, a);
        let k = 2 + (f64::from(n - 1) * k) as u32;
        let counted = |phase, serial, parallel| counted(n, a, phase, Others { serial, parallel }, Scheduler::Baseline);
        let (serial, parallel) = (counted(Phase::Serial, 0, k - 1), counted(Phase::Parallel, 1, k - 2));
        let (all_serial, all_parallel) = (counted(Phase::Serial, k - 1, 0), counted(Phase::Parallel, 0, k - 1));
        for (of, x, y) in [
            (Fairness::BothSerial, all_serial.0, all_serial.2),
            (Fairness::SerialLoses, serial.0, parallel.2),
            (Fairness::ParallelLoses, serial.2, parallel.0),
            (Fairness::BothParallel, all_parallel.0, all_parallel.2),
        ] {
            let found = machine.fairness_bound_among(of, k).unwrap();
            prop_assert!(close(&found, (x / y).min(y / x)), "{:?}: {} for {} and {}", of, found, x, y);
            if k == 2 {
                prop_assert_eq!(found, machine.fairness_bound(of));
            }
        }
    }

    /// Equations 1 to 5 exactly, against what the metrics crate computes from measurements.
    #[test]
    fn measured_quantities(values in vec(1u32..1_000_000, 2..8), cores in 1u32..200) {
        let exact: Vec<Rational> = values.iter().map(|value| Rational::from_integer(BigInt::from(*value))).collect();
        let floats: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        let of = |equation: u32, given: &[Rational]| Equation::of_values(equation, given, cores).unwrap();
        let first = |equation: u32, given: &[Rational]| of(equation, given).values.remove(0).value;
        let speedup = Performance { together: floats[0], alone: floats[1] }.speedup().unwrap();
        prop_assert!(close(&first(2, &exact[..2]), speedup));
        prop_assert!(close(&first(3, &exact), threadwise_metrics::fairness(&floats).unwrap()));
        let times = threadwise_metrics::speedup_from_times(floats[0], &floats[1..]).unwrap();
        prop_assert!(close(&first(4, &exact), times));
        let jitter = of(5, &exact).irrational.unwrap();
        prop_assert!((jitter - threadwise_metrics::jitter(&floats).unwrap()).abs() < 1e-12);
        // A program of this ratio spends I_p/n and I_s, in that proportion, when it is alone on equal cores.
        let ratio = of(1, &exact[..2]).values;
        let (p, s) = (&ratio[0].value, &ratio[1].value);
        prop_assert!(p.min(s) == &Rational::from_integer(1.into()));
        prop_assert_eq!(p * Rational::from_integer(cores.into()) * &exact[1], s * &exact[0]);
    }
}

#[test]
fn equations_and_tables_agree_where_both_have_a_value() {
    let machine = machine(8, 1.5);
    let table = |number, row: usize, column: usize| {
        Table::new(number, &machine, 2).unwrap().rows[row].cells[column]
            .value
            .clone()
    };
    for (equation, row, column) in [
        (9, 0, 0),
        (10, 0, 1),
        (8, 0, 2),
        (14, 1, 0),
        (16, 1, 1),
        (15, 1, 2),
        (18, 2, 0),
        (19, 2, 1),
        (17, 2, 2),
        (12, 3, 0),
        (13, 3, 1),
        (11, 3, 2),
    ] {
        assert_eq!(
            value(equation, &machine, 2),
            table(1, row, column),
            "eq. {equation}"
        );
    }
    for (equation, row) in [(20, 0), (22, 1), (23, 2), (21, 3)] {
        assert_eq!(value(equation, &machine, 2), table(3, row, 0), "eq. {equation}");
    }
}

#[test]
fn what_no_equation_is_about_is_refused() {
    let machine = machine(8, 1.0);
    assert_eq!(EQUATIONS, 1..=23);
    for equation in [0, 24] {
        assert_eq!(
            Equation::new(equation, &machine, 2),
            Err(Error::NoEquation { equation })
        );
        assert_eq!(
            Equation::of_values(equation, &[], 8),
            Err(Error::NoEquation { equation })
        );
    }
    assert_eq!(
        Equation::new(3, &machine, 2),
        Err(Error::NeedsValues { equation: 3 })
    );
    assert_eq!(
        Equation::of_values(16, &[], 8),
        Err(Error::TakesNoValues { equation: 16 })
    );
    for programs in [1, 9] {
        assert_eq!(
            Equation::new(16, &machine, programs),
            Err(Error::Programs { programs, cores: 8 })
        );
    }
    let one = Rational::from_integer(1.into());
    let zero = Rational::from_integer(0.into());
    for equation in 1..=5 {
        let is_wrong = |values: &[Rational]| {
            matches!(
                Equation::of_values(equation, values, 8),
                Err(Error::Values { .. })
            )
        };
        assert!(
            is_wrong(&[]) && is_wrong(std::slice::from_ref(&one)) && is_wrong(&[one.clone(), zero.clone()]),
            "{equation}"
        );
    }
    let two = [one.clone(), one];
    assert_eq!(Equation::of_values(1, &two, 0), Err(Error::Cores { cores: 0 }));
}
