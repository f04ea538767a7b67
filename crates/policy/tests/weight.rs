// SPDX-License-Identifier: GPL-2.0-only
//! What a task weighs among those that run, and whose vtime the clock follows.

use proptest::prelude::*;
use threadwise_policy::{
    BOOST_WHOLE, CAPACITY_ONE, Class, MEAN_WEIGHT_ONE, Task, Tunables, is_light, mean_weight, vtime_charge,
    weighed_ns, weight_among,
};

const MS: u64 = 1_000_000;

/// Weights of nice 0 and 19.
const ONE: u32 = 100;
const LEAST: u32 = 1;

/// The mean weight after so long, counted every 16 ms, in which CPUs' work of so long each was of tasks of these weights.
fn after(mean: u32, ms: u64, ran: &[(u32, u64)]) -> u32 {
    let ran_ns = ran.iter().map(|&(_, ns)| ns).sum();
    let weighed = ran.iter().map(|&(weight, ns)| weighed_ns(weight, ns)).sum();
    (0..ms / 16).fold(mean, |mean, _| mean_weight(mean, ran_ns, weighed, 16 * MS))
}

#[test]
fn where_all_are_of_nice_0_or_heavier_nothing_is_scaled() {
    for weight in [ONE, 300, 10_000] {
        let mean = after(MEAN_WEIGHT_ONE, 10_000, &[(weight, 128 * MS)]);
        assert_eq!(mean, MEAN_WEIGHT_ONE);
        for weight in [1, 15, 100, 1_000, 10_000] {
            assert_eq!(weight_among(weight, mean), weight);
        }
    }
}

/// However many CPUs ran them, and for however short.
#[test]
fn lighter_ones_among_their_like_weigh_half_of_nice_0_and_stay_apart_by_weight() {
    for ran_ns in [20_000, 16 * MS, 1024 * 16 * MS] {
        let mean = after(MEAN_WEIGHT_ONE, 400, &[(LEAST, ran_ns)]);
        assert!((45..=50).contains(&weight_among(LEAST, mean)), "{mean}");
        let by_three = f64::from(weight_among(3 * LEAST, mean)) / f64::from(weight_among(LEAST, mean));
        assert!((by_three - 3.0).abs() < 0.05, "{by_three}");
        // The first of nice 0 is not owed much by it for long.
        let back = after(mean, 48, &[(ONE, ran_ns)]);
        assert_eq!(weight_among(ONE, back), ONE);
    }
    // After a time in which nobody waited, what was is forgotten.
    assert_eq!(mean_weight(MEAN_WEIGHT_ONE, MS, MS, 1_000 * MS), 1 << 16);
    assert_eq!(mean_weight(MEAN_WEIGHT_ONE, 0, 0, 1_000 * MS), MEAN_WEIGHT_ONE);
    assert_eq!(weight_among(LEAST, 0), LEAST, "nothing is known");
}

/// Kernel threads of nice -20 that run for a hundredth are no reason to take all others for light.
#[test]
fn few_heavy_ones_do_not_make_the_others_light() {
    let mean = after(MEAN_WEIGHT_ONE, 2_000, &[(10_000, MS / 10), (LEAST, 16 * MS)]);
    assert!(!is_light(weight_among(LEAST, mean)), "{mean}");
    let mean = after(MEAN_WEIGHT_ONE, 2_000, &[(10_000, MS), (11, 15 * MS)]);
    assert!(!is_light(weight_among(11, mean)), "{mean}");
}

#[test]
fn who_is_light_is_so_for_a_while_after_the_last_of_nice_0() {
    let is_light_after = |ms| {
        is_light(weight_among(
            LEAST,
            after(MEAN_WEIGHT_ONE, ms, &[(LEAST, 128 * MS)]),
        ))
    };
    assert!(is_light_after(160) && !is_light_after(320));
}

/// A program of nice 19 has a turn of 10 ms beside one of nice 0.
#[test]
fn a_short_turn_of_the_lighter_one_does_not_hide_the_heavier() {
    let mean = after(MEAN_WEIGHT_ONE, 16, &[(LEAST, 80 * MS), (ONE, 48 * MS)]);
    assert_eq!(
        [LEAST, ONE].map(|weight| weight_among(weight, mean)),
        [LEAST, ONE]
    );
}

fn running(vtime: u64) -> Task {
    Task {
        vtime,
        class: Class::Parallel,
        nr_waiting: 1,
        boost_left: BOOST_WHOLE,
        here_ns: 0,
        waits_us: 0,
        step_ns: 0,
    }
}

#[test]
fn the_clock_follows_light_ones_as_time_goes_on_and_others_at_once() {
    let clock = |weight, vtime, ago_ns| {
        let moved = Tunables::default().clock(100, &running(vtime), weight, ago_ns, true);
        moved - 100
    };
    assert_eq!(clock(ONE, 100 + 900 * MS, 0), 900 * MS);
    assert_eq!(clock(33, 100 + 900 * MS, 0), 900 * MS, "of nice 5");
    for light in [LEAST, 15, 24] {
        assert_eq!(clock(light, 100 + 900 * MS, 3 * MS), 3 * MS, "as long ago");
        assert_eq!(clock(light, 100 + 900 * MS, 0), 0, "another one just did");
        assert_eq!(
            clock(light, 100 + 2 * MS, 3 * MS),
            2 * MS,
            "no further than it is"
        );
        assert_eq!(
            clock(light, 100 + 900 * MS, 900 * MS),
            20 * MS,
            "no more than a slice at once"
        );
        assert_eq!(clock(light, 99, 3 * MS), 0, "never back");
    }
}

/// Two light tasks beside a heavier one that runs for so many parts of a hundred, on one CPU: by when each of them has run for a
/// millisecond since the clock stood where it was, the other is before it by as much.
#[test]
fn light_ones_take_turns_beside_few_heavier_ones() {
    let tun = Tunables::default();
    for part in [1, 2, 3, 5, 10] {
        let mean = after(
            MEAN_WEIGHT_ONE,
            2_000,
            &[(ONE, part * 16 * MS / 100), (LEAST, (100 - part) * 16 * MS / 100)],
        );
        let weight = weight_among(LEAST, mean);
        let mut clock = 0;
        let mut vtime = 0;
        for _ in 0..10 {
            let before = clock;
            vtime = vtime_charge(vtime, MS, weight, CAPACITY_ONE);
            clock = tun.clock(clock, &running(vtime), weight, MS, true);
            assert!(
                clock - before >= MS,
                "beside {part} of a hundred: {}",
                clock - before
            );
        }
    }
}

proptest! {
    /// Whatever runs for how long, the mean is between those before and those that ran, and comes near.
    #[test]
    fn the_mean_lies_between(mean in 1u32 << 16..=100 << 16, weight in 1u32..=10_000, ran in 1u64..1 << 50, in_ns: u64) {
        let own = weight.min(ONE) << 16;
        let after = mean_weight(mean, ran, weighed_ns(weight, ran), in_ns);
        // What is shifted out of long times is less than a millionth, of what they ran or of what they weighed.
        let lost = (own >> 20) + 1;
        prop_assert!((mean.min(own) - lost..=mean.max(own) + lost).contains(&after), "{after}");
        let near = (0..40).fold(mean, |mean, _| mean_weight(mean, ran, weighed_ns(weight, ran), 16 * MS));
        prop_assert!(near.abs_diff(own) <= 100, "{near} after 40 times {own}");
        let (light, heavy) = (weight_among(weight.div_ceil(2), after), weight_among(weight, after));
        prop_assert!((1..=10_000).contains(&light) && light <= heavy);
    }
}
