// SPDX-License-Identifier: GPL-2.0-only
//! Tables 1 to 6 against placements that are counted one by one, and against what the paper prints.

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use proptest::prelude::*;
use threadwise_model::tables::{Error, Fairness, Joint, Machine, Phase, Rational, Scheduler, Speedup, Table};

fn rational(above: u64, below: u64) -> Rational {
    Rational::new(BigInt::from(above), BigInt::from(below))
}

fn machine(cores: u32, asymmetry: f64) -> Machine {
    Machine::new(cores, Rational::from_float(asymmetry).expect("finite")).expect("in range")
}

/// What A and B get of one placement, and how likely it is.
struct Placement {
    likely: f64,
    a: f64,
    b: f64,
}

/// All placements of the threads of two programs on n cores, up to the order of equal cores: as evenly as possible,
/// each with the same chance. Core 0 is the large one. Speeds are summed thread by thread.
fn placements(n: u32, a: f64, joint: Joint) -> Vec<Placement> {
    let speed = |core: u32| if core == 0 { a } else { 1.0 };
    let alone = |phase| match phase {
        Phase::Serial => a,
        Phase::Parallel => (0..n).map(speed).sum(),
    };
    let mut found = Vec::new();
    let mut push = |likely: f64, got_a: f64, got_b: f64| {
        found.push(Placement {
            likely,
            a: got_a / alone(joint.a),
            b: got_b / alone(joint.b),
        });
    };
    match (joint.a, joint.b) {
        // Two threads: one on the large core, the other on a small one.
        (Phase::Serial, Phase::Serial) => {
            push(0.5, speed(0), speed(1));
            push(0.5, speed(1), speed(0));
        }
        // n + 1 threads: the serial one is on `core`, and `shared` is the core with two threads. On n + 1 places
        // it is equally likely, of which the shared core has two.
        (Phase::Serial, Phase::Parallel) | (Phase::Parallel, Phase::Serial) => {
            let all = alone(Phase::Parallel);
            for shared in 0..n {
                for core in 0..n {
                    let places = if core == shared { 2.0 } else { 1.0 };
                    let mine = speed(core) * if core == shared { 0.5 } else { 1.0 };
                    let likely = places / f64::from(n + 1) / f64::from(n);
                    match joint.a {
                        Phase::Serial => push(likely, mine, all - mine),
                        Phase::Parallel => push(likely, all - mine, mine),
                    }
                }
            }
        }
        // 2n threads: 0, 1 or 2 of A's on the large core. The others of either program have halves of small cores.
        (Phase::Parallel, Phase::Parallel) => {
            let (threads, all) = (f64::from(n), f64::from(2 * n));
            for on_large in [0u32, 1, 2] {
                let likely = match on_large {
                    1 => 2.0 * threads / all * threads / (all - 1.0),
                    _ => threads / all * (threads - 1.0) / (all - 1.0),
                };
                let got = |large: u32| 0.5 * (f64::from(large) * speed(0) + f64::from(n - large) * speed(1));
                push(likely, got(on_large), got(2 - on_large));
            }
        }
    }
    found
}

fn close(exact: &Rational, expected: f64) -> bool {
    (exact.to_f64().expect("finite") - expected).abs() < 1e-12
}

/// The sum with what each addition rounds off carried along (Neumaier): there are 40,000 placements on 200 cores.
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut rest) = (0.0f64, 0.0);
    for value in values {
        let next = sum + value;
        rest += if sum.abs() >= value.abs() {
            sum - next + value
        } else {
            value - next + sum
        };
        sum = next;
    }
    sum + rest
}

fn check_speedup(found: &Speedup, placements: &[Placement]) {
    let values = || placements.iter().map(|placement| placement.a);
    assert!(close(&found.min, values().fold(f64::INFINITY, f64::min)));
    assert!(close(&found.max, values().fold(0.0, f64::max)));
    let mean = sum(placements.iter().map(|placement| placement.likely * placement.a));
    assert!(close(&found.avg, mean), "{} for {mean}", found.avg);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Tables 1 and 2: the placements of threads that are all equal. On two cores with both parallel too.
    #[test]
    fn phases_unknown(n in 2u32..200, a in 1.0f64..=2.0) {
        for joint in Joint::ALL {
            check_speedup(&machine(n, a).speedup(joint, Scheduler::Baseline), &placements(n, a, joint));
        }
    }

    /// Table 5: of the same placements, those in which the serial thread has the large core for itself.
    #[test]
    fn serial_boost(n in 2u32..200, a in 1.0f64..=2.0) {
        for joint in Joint::ALL {
            let mut kept = placements(n, a, joint);
            match (joint.a, joint.b) {
                (Phase::Serial, Phase::Parallel) => kept.retain(|placement| placement.a == 1.0),
                (Phase::Parallel, Phase::Serial) => kept.retain(|placement| placement.b == 1.0),
                _ => (),
            }
            let likely = sum(kept.iter().map(|placement| placement.likely));
            kept.iter_mut().for_each(|placement| placement.likely /= likely);
            check_speedup(&machine(n, a).speedup(joint, Scheduler::Proposed), &kept);
        }
    }

    /// Table 3: the least fair of all pairs of a best and a worst case.
    #[test]
    fn fairness(n in 2u32..200, a in 1.0f64..=2.0) {
        let machine = machine(n, a);
        let extremes = |joint: Joint| {
            let placements = placements(n, a, joint);
            let values = placements.iter().map(|placement| placement.a);
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
        };
        let [ss, sp, ps, pp] = Joint::ALL.map(extremes);
        let fair = |x: f64, y: f64| (x / y).min(y / x);
        prop_assert!(close(&machine.fairness_bound(Fairness::BothSerial), fair(ss.0, ss.1)));
        prop_assert!(close(&machine.fairness_bound(Fairness::SerialLoses), fair(sp.0, ps.1)));
        prop_assert!(close(&machine.fairness_bound(Fairness::ParallelLoses), fair(ps.0, sp.1)));
        prop_assert!(close(&machine.fairness_bound(Fairness::BothParallel), fair(pp.0, pp.1)));
    }

    /// Tables 4 and 6: the sums over cores of the placements that the paper describes, and for two programs the
    /// extremes of Tables 1 and 5 over what the other one does.
    #[test]
    fn many_programs(n in 2u32..200, a in 1.0f64..=2.0, part in 0.0f64..=1.0) {
        let machine = machine(n, a);
        let k = 2 + (f64::from(n - 2) * part) as u32;
        let all = f64::from(n - 1) + a;
        let among = |phase, scheduler| machine.speedup_among(k, phase, scheduler).expect("in range");
        let (min, max) = among(Phase::Serial, Scheduler::Baseline);
        prop_assert!(close(&min, 1.0 / f64::from(k) / a) && close(&max, 1.0));
        let (min, max) = among(Phase::Serial, Scheduler::Proposed);
        prop_assert!(close(&min, 1.0 / a) && close(&max, 1.0));
        // Each of n threads shares a small core with k - 1 others.
        let crowded: f64 = (0..n).map(|_| 1.0 / f64::from(k)).sum::<f64>() / all;
        // The large core alone, k - 1 halves, the other small ones alone.
        let halves: f64 = a + (1..n).map(|core| if core < k { 0.5 } else { 1.0 }).sum::<f64>();
        let (min, max) = among(Phase::Parallel, Scheduler::Baseline);
        prop_assert!(close(&min, crowded) && close(&max, halves / all));
        // The large core and the k - 2 small ones after it are taken.
        let left: f64 = (0..n).map(|core| if core < k - 1 { 0.0 } else { 1.0 }).sum();
        let (min, max) = among(Phase::Parallel, Scheduler::Proposed);
        prop_assert!(close(&min, crowded) && close(&max, left / all));
        for scheduler in [Scheduler::Baseline, Scheduler::Proposed] {
            let [ss, sp, ps, pp] = Joint::ALL.map(|joint| machine.speedup(joint, scheduler));
            let two = |phase| machine.speedup_among(2, phase, scheduler).expect("in range");
            prop_assert_eq!(two(Phase::Serial), (ss.min.min(sp.min), ss.max.max(sp.max)));
            // With serial boost the paper's maximum is for serial others; where 2a > n, (P,P) has a larger one.
            let max = match scheduler {
                Scheduler::Baseline => ps.max.max(pp.max),
                Scheduler::Proposed => ps.max,
            };
            prop_assert_eq!(two(Phase::Parallel), (ps.min.min(pp.min), max));
        }
    }
}

/// The value in this row and column of a table for 8 cores and 2 programs.
fn cell(table: u32, asymmetry: u64, case: &str, column: &str) -> Rational {
    let machine = Machine::new(8, rational(asymmetry, 1)).expect("in range");
    let table = Table::new(table, &machine, 2).expect("a table");
    let row = table
        .rows
        .into_iter()
        .find(|row| row.case == case)
        .expect("a row");
    let cell = row.cells.into_iter().find(|cell| cell.column == column);
    cell.expect("a column").value
}

#[test]
fn what_the_paper_s_formulas_give_for_eight_cores() {
    assert_eq!(cell(1, 2, "(S,P)", "avg"), rational(1, 2), "eq. 16: 9 / (2 * 9)");
    assert_eq!(cell(1, 2, "(P,S)", "max"), rational(17, 18), "eq. 17: 8.5 / 9");
    assert_eq!(cell(1, 2, "(P,P)", "max/min"), rational(5, 4));
    assert_eq!(cell(2, 1, "(S,P)", "avg"), rational(8, 9));
    assert_eq!(cell(2, 1, "(P,P)", "max/min"), rational(1, 1));
    assert_eq!(cell(3, 2, "(S,P) case 1", "fairness"), rational(9, 34), "eq. 22");
    assert_eq!(cell(3, 2, "(P,P)", "fairness"), rational(4, 5), "eq. 21");
    assert_eq!(cell(4, 2, "Serial", "max/min"), rational(4, 1), "ka");
    assert_eq!(cell(5, 2, "(P,S)", "avg"), rational(7, 9));
    assert_eq!(cell(6, 2, "Parallel", "max"), rational(7, 9));
}

#[test]
fn what_is_out_of_range_is_refused() {
    let new = |cores, above, below| Machine::new(cores, rational(above, below)).map(|_| ());
    assert_eq!(new(1, 1, 1), Err(Error::Cores { cores: 1 }));
    for (above, below) in [(99, 100), (201, 100)] {
        let asymmetry = rational(above, below);
        assert_eq!(new(8, above, below), Err(Error::Asymmetry { asymmetry }));
    }
    let machine = Machine::new(8, rational(2, 1)).expect("in range");
    for programs in [0, 1, 9] {
        let error = Error::Programs { programs, cores: 8 };
        assert_eq!(Table::new(4, &machine, programs), Err(error));
    }
    assert_eq!(Table::new(7, &machine, 2), Err(Error::NoTable { table: 7 }));
    assert_eq!(Table::new(2, &machine, 2), Err(Error::Symmetric));
}
