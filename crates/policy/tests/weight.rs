// SPDX-License-Identifier: GPL-2.0-only
//! What a task weighs among those that run, and whose vtime the clock follows.

use proptest::prelude::*;
use threadwise_policy::{BOOST_WHOLE, Class, MEAN_WEIGHT_ONE, Task, Tunables, mean_weight, weight_among};

const MS: u64 = 1_000_000;

/// Weights of nice 0 and 19.
const ONE: u32 = 100;
const LEAST: u32 = 1;

/// The mean weight after each CPU ran tasks of this weight for so long, in slices of 10 ms.
fn after(mean: u32, weight: u32, ms: u64, nr_cpus: u32) -> u32 {
    (0..ms / 10 * u64::from(nr_cpus)).fold(mean, |mean, _| mean_weight(mean, weight, 10 * MS, nr_cpus))
}

#[test]
fn where_all_are_of_nice_0_nothing_is_scaled() {
    let mean = after(MEAN_WEIGHT_ONE, ONE, 10_000, 8);
    assert_eq!(mean, MEAN_WEIGHT_ONE);
    for weight in [1, 15, 100, 1_000, 10_000] {
        assert_eq!(weight_among(weight, mean), weight);
    }
}

#[test]
fn lighter_ones_among_their_like_weigh_half_of_nice_0_and_stay_apart_by_weight() {
    for nr_cpus in [1, 8, 64] {
        let mean = after(MEAN_WEIGHT_ONE, LEAST, 2_000, nr_cpus);
        assert!((48..=50).contains(&weight_among(LEAST, mean)), "{mean}");
        let by_three = weight_among(3 * LEAST, mean) as f64 / weight_among(LEAST, mean) as f64;
        assert!((by_three - 3.0).abs() < 0.05, "{by_three}");
    }
}

#[test]
fn a_short_turn_of_the_lighter_one_does_not_hide_the_heavier() {
    let mean = after(MEAN_WEIGHT_ONE, LEAST, 40, 8);
    assert!(
        weight_among(LEAST, mean) < 3 && weight_among(ONE, mean) < 150,
        "{mean}"
    );
}

#[test]
fn the_clock_follows_none_that_is_light_beside_the_others() {
    let tunables = Tunables::default();
    let running = Task {
        vtime: 101,
        class: Class::Parallel,
        nr_waiting: 1,
        boost_left: BOOST_WHOLE,
        here_ns: 0,
        waits_us: 0,
        step_ns: 0,
    };
    let clock = |weight, mean| tunables.clock(100, &running, weight_among(weight, mean), true);
    for (weight, mean, moved) in [
        (ONE, MEAN_WEIGHT_ONE, 101),
        (33, MEAN_WEIGHT_ONE, 101),
        (15, MEAN_WEIGHT_ONE, 100),
        (LEAST, MEAN_WEIGHT_ONE, 100),
        (LEAST, after(MEAN_WEIGHT_ONE, LEAST, 2_000, 8), 101),
        (ONE, after(MEAN_WEIGHT_ONE, 10_000, 3_000, 8), 101),
    ] {
        assert_eq!(clock(weight, mean), moved, "{weight} among {mean}");
    }
}

proptest! {
    /// Whatever runs for how long, the mean comes no further than its weight, and those that are heavier stay so.
    #[test]
    fn the_mean_lies_between(mean in 1u32 << 16..=10_000 << 16, weight in 1u32..=10_000, ran: u64, nr_cpus in 0u32..1 << 16) {
        let after = mean_weight(mean, weight, ran, nr_cpus);
        prop_assert!((mean.min(weight << 16)..=mean.max(weight << 16)).contains(&after));
        let (light, heavy) = (weight_among(weight / 2 + 1, after), weight_among(weight, after));
        prop_assert!((1..=10_000).contains(&light) && light <= heavy.max(1) || weight < 2);
    }
}
