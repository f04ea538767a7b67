// SPDX-License-Identifier: GPL-2.0-only
//! What pairing promises: needs follow the counters, exchanges even caches out, and they come to an end.

use proptest::prelude::*;
use threadwise_policy::{Counts, Mode, Need, Pair, Reading, Rest, looks_for_exchange, pairs};

/// Instructions of which a task's counts tell enough.
const ENOUGH: u64 = 1_000_000;

fn counted(per_thousand: &[u64]) -> Need {
    let mut need = Need::default();
    for misses in per_thousand {
        need.note(&Counts {
            instructions: ENOUGH,
            misses: misses * ENOUGH / 1000,
        });
    }
    need
}

#[test]
fn needs_are_misses_an_instruction_and_follow_them_in_some_samples() {
    assert_eq!(counted(&[]).need(), 0);
    // One of 16 instructions is the most.
    assert_eq!(counted(&[62]).need(), Need::ONE * 62 * 16 / 1000);
    assert_eq!(counted(&[500]).need(), Need::ONE);
    // A phase that begins to miss: a quarter of the way each time.
    let steps: Vec<u32> = (1..9)
        .map(|nr| counted(&[&[0][..], &vec![50; nr]].concat()).need())
        .collect();
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    assert!(
        steps[0] < Need::ONE / 4 && steps[7] > Need::ONE * 7 / 10,
        "{steps:?}"
    );
}

#[test]
fn counts_that_are_lost_too_few_or_wrong_change_nothing() {
    let known = counted(&[30, 30]).need();
    let after = |counts: &[Counts]| {
        let mut need = counted(&[30, 30]);
        counts.iter().for_each(|counts| need.note(counts));
        need.need()
    };
    let of = |instructions, misses| Counts { instructions, misses };
    assert_eq!(after(&[of(0, 0); 3]), known, "lost");
    assert_eq!(after(&[of(ENOUGH - 1, 900_000)]), known, "too few to tell");
    assert_ne!(
        after(&[of(ENOUGH / 2, 0); 2]),
        known,
        "two that are enough together"
    );
    assert_eq!(
        after(&[of(ENOUGH, ENOUGH + 1)]),
        known,
        "more misses than instructions"
    );
}

#[test]
fn resident_sets_count_as_the_part_of_the_cache_that_they_take() {
    const MB: u64 = 1 << 20;
    assert_eq!(Need::of_resident(MB, 4 * MB, 1), Need::ONE / 4);
    assert_eq!(
        Need::of_resident(64 * MB, 4 * MB, 1),
        Need::ONE,
        "no more than all of it"
    );
    assert_eq!(
        Need::of_resident(4 * MB, 4 * MB, 4),
        Need::ONE / 4,
        "four threads share it"
    );
    assert_eq!(
        Need::of_resident(MB, 0, 1),
        0,
        "the size of the cache is not known"
    );
    assert_eq!(
        Need::of_resident(1 << 50, 1 << 40, 0),
        Need::ONE,
        "no arithmetic overflows"
    );
    assert_eq!(Need::of_resident(MB, 1000, 1), 0, "a cache of less than a page");
}

#[test]
fn memory_heavy_tasks_are_paired_with_cpu_heavy_ones() {
    let (heavy, light) = (40_000, 100);
    let gain = |own_need, other_need, own_sum, other_sum| {
        Pair {
            own_need,
            other_need,
            own_sum,
            other_sum,
        }
        .gain()
    };
    let (both_heavy, both_light, mixed) = (2 * 40_000, 2 * 100, 40_100);
    assert_eq!(
        gain(heavy, light, both_heavy, both_light),
        both_heavy - both_light
    );
    assert_eq!(gain(light, heavy, both_light, both_heavy), 0, "one side asks");
    assert_eq!(gain(heavy, light, mixed, mixed), 0, "it is even");
    assert_eq!(
        gain(heavy, heavy - 3000, both_heavy - 3000, mixed + 36_000),
        0,
        "not worth cold caches"
    );
    assert_eq!(gain(heavy, heavy - 3000, 77_000, 70_000), 0, "nor is a twentieth");
    assert_eq!(
        gain(45_000, 17_000, 100_000, 60_000),
        24_000,
        "from 40,000 apart to 16,000, the other way"
    );
}

#[test]
fn counters_that_took_turns_or_were_opened_anew_tell_nothing() {
    let read = |counter, enabled_ns, running_ns| Reading {
        counter,
        enabled_ns,
        running_ns,
    };
    let last = read(1000, 50, 40);
    assert!(
        last.is_whole_until(&read(1500, 60, 50)),
        "it waited once, long ago"
    );
    assert!(!last.is_whole_until(&read(1500, 60, 49)), "it had to wait");
    assert!(!last.is_whole_until(&read(10, 60, 50)), "it began anew");
    assert!(!last.is_whole_until(&read(1500, 20, 10)), "it was opened anew");
    assert!(
        !Reading::default().is_whole_until(&read(9, 3, 3)),
        "it was never read"
    );
}

const MS: u64 = 1_000_000;
/// The first rest, and the longest.
const REST: u64 = 64 * MS;
const QUIET: u64 = REST << 8;

/// At which of these times, in order, a task changes places if it is to at each.
fn changes(times: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut rest = Rest::default();
    let mut change = |&now: &u64| {
        let may = rest.may_change(now);
        if may {
            rest.note_change(now);
        }
        may
    };
    times.into_iter().filter(|now| change(now)).collect()
}

#[test]
fn who_keeps_changing_places_rests_twice_as_long_each_time() {
    let every_ms = |ms: u64| changes((1..=ms).map(|now| now * MS));
    let gaps: Vec<u64> = every_ms(3 * QUIET / MS)
        .windows(2)
        .map(|two| two[1] - two[0])
        .collect();
    let due: Vec<u64> = (0..9).map(|nr| REST << nr).chain([QUIET]).collect();
    assert_eq!(gaps[..9], due[..9], "it doubles");
    assert!(gaps[9..].iter().all(|&gap| gap == QUIET), "it has a bound");
    // Who was quiet for long rests as one who never changed places.
    let late = 100 * QUIET;
    let times = (1..=5000).map(|now| now * MS);
    let after: Vec<u64> = changes(times.clone().chain(times.map(|now| late + now)));
    let (before, after): (Vec<u64>, Vec<u64>) = after.into_iter().partition(|&now| now < late);
    assert_eq!(before.len(), after.len());
    // A clock that is behind does not end a rest.
    let mut rest = Rest::default();
    rest.note_change(10 * MS);
    assert!(!rest.may_change(9 * MS) && rest.may_change(10 * MS + REST));
}

/// A task that came to a CPU while another was to change places rests in its stead, whether it rested or not.
#[test]
fn who_rests_in_the_stead_of_another_rests_no_longer_and_no_less() {
    let after = |times: &[u64]| {
        let mut rest = Rest::default();
        times.iter().for_each(|&now| rest.note_change(now));
        rest
    };
    let often = after(&[10 * MS; 100]);
    assert!(!often.may_change(10 * MS + QUIET - 1) && often.may_change(10 * MS + QUIET));
    // One of another CPU, whose clock is behind.
    let behind = after(&[10 * MS, 10 * MS, 9 * MS]);
    assert!(!behind.may_change(9 * MS + 4 * REST - 1) && behind.may_change(9 * MS + 4 * REST));
}

/// Caches with the needs of what runs behind them.
type Caches = Vec<Vec<u32>>;

fn sum(cache: &[u32]) -> u64 {
    cache.iter().map(|&need| u64::from(need)).sum()
}

/// A cache, and a task behind it.
type Seat = (usize, usize);

#[test]
fn exchanges_are_looked_for_seldom_on_a_machine_that_one_look_takes_in() {
    const MS: u64 = 1_000_000;
    let looks = |nr_cpus, looked_ms, exchanged_ms| {
        let nobody_waits = looks_for_exchange(nr_cpus, false, looked_ms * MS, exchanged_ms * MS);
        assert!(!looks_for_exchange(
            nr_cpus,
            true,
            looked_ms * MS,
            exchanged_ms * MS
        ));
        nobody_waits
    };
    assert!(looks(64, 32, 10));
    assert!(!looks(64, 31, 10) && !looks(64, 32, 9) && !looks(65, 32, 10));
}

/// The best exchange that any task would ask for, and its gain.
fn best(caches: &Caches) -> Option<(u64, Seat, Seat)> {
    let tasks = |cache: usize| (0..caches[cache].len()).map(move |task| (cache, task));
    let all: Vec<Seat> = (0..caches.len()).flat_map(tasks).collect();
    let pairs = all
        .iter()
        .flat_map(|&own| all.iter().map(move |&other| (own, other)));
    pairs
        .filter(|(own, other)| own.0 != other.0)
        .map(|(own, other)| {
            let pair = Pair {
                own_need: caches[own.0][own.1],
                other_need: caches[other.0][other.1],
                own_sum: sum(&caches[own.0]),
                other_sum: sum(&caches[other.0]),
            };
            (pair.gain(), own, other)
        })
        .filter(|&(gain, ..)| gain > 0)
        .max()
}

proptest! {
    #[test]
    fn exchanges_grow_with_the_logarithm_of_the_time_whatever_counters_say(
        gaps in prop::collection::vec(prop_oneof![1..REST * 4, 1..QUIET, Just(QUIET), 1..QUIET * 3], 1..400)
    ) {
        let times = gaps.iter().scan(0u64, |now, gap| {
            *now += gap;
            Some(*now)
        });
        let changes = changes(times);
        for (nr, &first) in changes.iter().enumerate() {
            for (more, &last) in changes[nr..].iter().enumerate() {
                let (after, nr_changes) = (last - first, more as u64 + 1);
                let slow = after / QUIET + 10;
                prop_assert!(nr_changes <= slow, "{nr_changes} in {after} ns");
                if nr == 0 && after < QUIET {
                    let most = 2 + u64::from((after / REST + 1).ilog2());
                    prop_assert!(nr_changes <= most, "{nr_changes} in {after} ns from the first");
                }
            }
        }
    }

    #[test]
    fn exchanges_come_to_an_end_at_which_caches_are_as_even_as_exchanges_make_them(
        caches in prop::collection::vec(prop::collection::vec(0..=Need::ONE, 1..6), 2..5)
    ) {
        let mut caches: Caches = caches;
        let squares = |caches: &Caches| caches.iter().map(|cache| u128::from(sum(cache)).pow(2)).sum::<u128>();
        let mut before = squares(&caches);
        let mut nr = 0;
        while let Some((gain, own, other)) = best(&caches) {
            let moved = (caches[own.0][own.1], caches[other.0][other.1]);
            (caches[own.0][own.1], caches[other.0][other.1]) = (moved.1, moved.0);
            let after = squares(&caches);
            prop_assert!(after < before, "a gain of {gain} is none");
            before = after;
            // The other one does not ask for the same two to go back.
            let back = Pair {
                own_need: moved.0,
                other_need: moved.1,
                own_sum: sum(&caches[other.0]),
                other_sum: sum(&caches[own.0]),
            };
            prop_assert_eq!(back.gain(), 0);
            nr += 1;
            prop_assert!(nr <= 60, "it does not end");
        }
    }
}

#[test]
fn tasks_are_paired_where_a_mode_spreads_them_over_caches_of_equal_cpus() {
    assert!(pairs(Mode::Performance, 2, false, 64));
    for (mode, nr_llcs, unequal, nr_cpus) in [
        (Mode::Near, 2, false, 8),
        (Mode::Powersave, 2, false, 8),
        (Mode::Performance, 1, false, 8),
        (Mode::Performance, 2, true, 8),
        (Mode::Performance, 2, false, 65),
    ] {
        assert!(
            !pairs(mode, nr_llcs, unequal, nr_cpus),
            "{mode:?} {nr_llcs} {unequal} {nr_cpus}"
        );
    }
}
