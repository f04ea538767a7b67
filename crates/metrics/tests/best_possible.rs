// SPDX-License-Identifier: GPL-2.0-only
//! Whether the interval for the best possible performance holds a known endpoint as often as it says.
//!
//! The same check has to fail for estimators that are known to be wrong.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_metrics::{BestPossible, best_possible};

/// Performances of this and more, so that all are above zero.
const BASE: f64 = 10.0;
/// Every distribution here ends one above the base.
const ENDPOINT: f64 = BASE + 1.0;
const NR_DRAWS: usize = 200;

/// A number between 0 and 1, exclusive.
fn unit(generator: &mut Pcg64) -> f64 {
    ((generator.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// The `rank`-th smallest of `of` uniform numbers: beta distributed with parameters `rank` and `of + 1 - rank`.
fn beta<const RANK: usize, const OF: usize>(generator: &mut Pcg64) -> f64 {
    let mut numbers = [0.0; OF];
    numbers.fill_with(|| unit(generator));
    numbers.sort_by(f64::total_cmp);
    numbers[RANK - 1]
}

/// A Generalized Pareto distribution with shape -`K`/10 that ends at 1.
fn pareto<const K: u32>(generator: &mut Pcg64) -> f64 {
    1.0 - unit(generator).powf(f64::from(K) / 10.0)
}

/// A reversed Weibull distribution that ends at 1, of shape 3.
fn weibull(generator: &mut Pcg64) -> f64 {
    1.0 - 0.3 * (-unit(generator).ln()).powf(1.0 / 3.0)
}

fn exponential(generator: &mut Pcg64) -> f64 {
    -unit(generator).ln()
}

/// 2000 assignments of which each performs one of 200 ways; drawing one of them gives many ties.
fn population(generator: &mut Pcg64) -> f64 {
    let assignment = (unit(generator) * 2000.0).floor();
    let performance = 1.0 - (assignment / 2000.0).powf(0.5);
    (performance * 200.0).round() / 200.0
}

type Distribution = fn(&mut Pcg64) -> f64;

const BOUNDED: [(&str, Distribution); 8] = [
    ("uniform", unit),
    ("pareto, shape -0.7", pareto::<7>),
    ("pareto, shape -0.5", pareto::<5>),
    ("pareto, shape -0.2", pareto::<2>),
    ("beta(2, 3)", beta::<2, 4>),
    ("beta(5, 5)", beta::<5, 9>),
    ("reversed Weibull", weibull),
    ("population with ties", population),
];

/// Samples of `n` performances, one for each seed.
fn draws(distribution: Distribution, n: usize) -> impl Iterator<Item = Vec<f64>> {
    (0..NR_DRAWS).map(move |seed| {
        let mut generator = Pcg64::new(seed as u128, 7);
        (0..n).map(|_| BASE + distribution(&mut generator)).collect()
    })
}

/// The share of draws in which `interval` holds the endpoint.
fn coverage(distribution: Distribution, n: usize, interval: impl Fn(&[f64]) -> (f64, f64)) -> f64 {
    let holds = |sample: &Vec<f64>| {
        let (low, high) = interval(sample);
        low <= ENDPOINT && ENDPOINT <= high
    };
    draws(distribution, n).filter(holds).count() as f64 / NR_DRAWS as f64
}

/// What 200 draws and tails that are Pareto only in the limit leave of 95 %.
fn covers(share: f64) -> bool {
    share >= 0.88
}

fn ends(best: &BestPossible) -> (f64, f64) {
    (best.low, best.high.unwrap_or(f64::INFINITY))
}

fn at(confidence: f64) -> impl Fn(&[f64]) -> (f64, f64) {
    move |sample| ends(&best_possible(sample, confidence).expect("performances above zero"))
}

fn largest(sample: &[f64]) -> f64 {
    sample.iter().copied().fold(0.0, f64::max)
}

/// The middle of the upper ends' distances from the endpoint.
fn median_excess(distribution: Distribution, n: usize) -> f64 {
    let mut excess: Vec<f64> = draws(distribution, n)
        .map(|sample| at(0.95)(&sample).1 - ENDPOINT)
        .collect();
    excess.sort_by(f64::total_cmp);
    excess[NR_DRAWS / 2]
}

#[test]
fn intervals_hold_the_endpoint() {
    for (name, distribution) in BOUNDED {
        for n in [100, 300, 1000] {
            let share = coverage(distribution, n, at(0.95));
            assert!(covers(share), "{name}, {n} samples: {share}");
        }
    }
}

#[test]
fn the_check_of_coverage_can_fail() {
    for (name, distribution) in &BOUNDED[..7] {
        let naive = coverage(*distribution, 1000, |sample| (largest(sample), largest(sample)));
        assert!(!covers(naive), "best sample, {name}: {naive}");
        let too_narrow = coverage(*distribution, 1000, at(0.4));
        assert!(!covers(too_narrow), "40 % interval, {name}: {too_narrow}");
    }
    // Half the chi-squared quantile with 1 degree of freedom, 1.9207 = -ln(1 - 0.8535).
    let wilks = coverage(beta::<5, 9>, 1000, at(0.8535));
    assert!(!covers(wilks), "1 degree of freedom: {wilks}");
}

#[test]
fn intervals_are_of_use() {
    // An interval that is always infinite would hold every endpoint.
    for (name, distribution) in &BOUNDED[..3] {
        let excess = median_excess(*distribution, 1000);
        assert!(excess < 0.5, "{name}: {excess}");
    }
}

#[test]
fn an_endless_tail_has_no_bound() {
    let endless = |sample: &Vec<f64>| best_possible(sample, 0.95).unwrap().high.is_none();
    let nr_endless = draws(exponential, 1000).filter(endless).count();
    assert!(nr_endless >= NR_DRAWS * 9 / 10, "{nr_endless} of {NR_DRAWS}");
    // Most exponential samples are a little likelier with some endpoint far away: without `high` it means nothing. A
    // heavier tail has no estimate either.
    let heavy = |generator: &mut Pcg64| unit(generator).powf(-0.5);
    let without = |sample: &Vec<f64>| best_possible(sample, 0.95).unwrap().estimate.is_none();
    let nr_without = draws(heavy, 1000).filter(without).count();
    assert!(nr_without >= NR_DRAWS * 9 / 10, "{nr_without} of {NR_DRAWS}");
}
