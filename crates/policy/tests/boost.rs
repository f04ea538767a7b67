// SPDX-License-Identifier: GPL-2.0-only
//! How far ahead tasks are placed: less beside many, and never so far that others wait for long.

mod common;

use proptest::prelude::*;
use threadwise_policy::{
    BOOST_WHOLE, CROWD_PERIOD_NS, Class, Run, Task, boost_left, serial_ready, serial_ready_ns,
};

use common::{ALONE, MS, boosts, task, task_among, tunables};

#[test]
fn boosted_tasks_keep_others_waiting_for_a_bounded_time_however_many_there_are() {
    let boost = |nr_waiting| boosts(nr_waiting).0;
    assert_eq!((boost(0), boost(2), boost(6)), (200 * MS, 200 * MS, 50 * MS));
    for nr_waiting in [1u32, 2, 10, 100, 10_000, u32::MAX - 1, u32::MAX] {
        let together = u128::from(boost(nr_waiting)) * u128::from(nr_waiting);
        assert!(together <= 2 * u128::from(200 * MS), "{nr_waiting}: {together}");
        assert!(boost(nr_waiting) <= boost(nr_waiting - 1), "{nr_waiting}");
    }
}

/// Ready serial tasks in 256ths.
fn serial(nr: u32) -> u32 {
    nr << 8
}

#[test]
fn boosts_are_whole_beside_few_serial_tasks_and_nothing_where_they_fill_the_machine() {
    for (nr, left) in [
        (0, BOOST_WHOLE),
        (4, BOOST_WHOLE),
        (6, BOOST_WHOLE / 2),
        (8, 0),
        (80, 0),
    ] {
        assert_eq!(boost_left(serial(nr), 8), left, "{nr}");
    }
    let boost = |left| tunables().boost(200 * MS, 1, left);
    assert_eq!(
        [BOOST_WHOLE, BOOST_WHOLE / 2, 0].map(boost),
        [200 * MS, 100 * MS, 0]
    );
    // A parallel task that waits for serial ones that fill the machine goes on with the others, and not a boost later.
    let at = |class, vtime| Task {
        boost_left: 0,
        ..task_among(1, class, vtime)
    };
    let (running, waiting) = (at(Class::Serial, 1002 * MS), at(Class::Parallel, 1000 * MS));
    assert!(tunables().yields(&running, &waiting));
    assert!(!tunables().yields(
        &Task {
            boost_left: BOOST_WHOLE,
            ..running
        },
        &Task {
            boost_left: BOOST_WHOLE,
            ..waiting
        }
    ));
}

#[test]
fn serial_tasks_are_counted_by_the_time_that_they_are_ready() {
    let period = CROWD_PERIOD_NS;
    // Eight that share their CPUs with as many others: each runs half of the time and waits as long.
    let half = serial_ready_ns(period / 2, period / 2);
    let after = |periods, each| (0..periods).fold(0, |nr, _| serial_ready(nr, 8 * each, period));
    assert_eq!(after(1, half), serial(2), "a quarter of what is new");
    assert!((serial(7)..=serial(8)).contains(&after(20, half)));
    // Of 80 that are bound to one CPU one runs at a time, and each waits for the 79 others: they are three, not 80.
    let bound = serial_ready_ns(period / 80, 79 * period / 80);
    assert_eq!(80 * bound / period, 3);
    // Who ran long ago and is charged now, because nobody waited meanwhile, counts for a slice at most.
    assert_eq!(serial_ready_ns(1000 * MS, 0), 20 * MS);
    // As many as there were long ago are not there now.
    assert_eq!(serial_ready(serial(24), 0, 1000 * MS), 0);
}

#[test]
fn a_parallel_task_s_wait_among_serial_ones_is_bounded_however_many_there_are() {
    // All are bound to one CPU. Whoever runs is charged a step and queued again; how long until the parallel one's turn?
    let t = tunables();
    let wait_ms = |serial: u32| {
        let mut queue = vec![1000 * MS; serial as usize];
        let parallel = t.key(&task_among(serial, Class::Parallel, 1000 * MS));
        let mut waited = 0;
        loop {
            let (first, vtime) = queue
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|(_, vtime)| *vtime)
                .unwrap();
            if t.key(&task_among(serial, Class::Serial, vtime)) > parallel {
                return waited;
            }
            queue[first] += MS;
            waited += 1;
        }
    };
    let waits = [1, 2, 8, 50, 500].map(wait_ms);
    assert!(
        waits
            .iter()
            .zip([1, 2, 8, 50, 500])
            .all(|(wait, serial)| *wait <= 400 + serial),
        "{waits:?}"
    );
    assert!(waits[0] > 150, "the boost is worth something: {waits:?}");
}

#[test]
fn beside_a_bound_parallel_task_a_bound_serial_one_goes_by_its_vtime() {
    let t = tunables();
    for (ago_ns, expected) in [
        (0, true),
        (1000 * MS - 1, true),
        (1000 * MS, false),
        (u64::MAX, false),
    ] {
        let few = t.goes_unboosted(t.serial_threshold, ago_ns);
        assert_eq!(few, expected, "{ago_ns}");
        // Other CPUs may wait for the main thread of a program that has parallel phases.
        assert!(!t.goes_unboosted(t.serial_threshold + 1, ago_ns));
    }
    // Beside it boosts do not count, whoever has one.
    let parallel = task(Class::Parallel, 0);
    let unboosted = |vtime| Task {
        boost_left: 0,
        ..task(Class::Serial, vtime)
    };
    assert_eq!(t.key(&unboosted(0)), t.key(&parallel));
    assert!(t.goes_first(&parallel, &unboosted(1)) && t.goes_first(&unboosted(0), &task(Class::Parallel, 1)));
    for class in [Class::Serial, Class::Senior] {
        assert!(t.goes_first(&unboosted(0), &task(class, 1)) && t.goes_first(&task(class, 0), &unboosted(1)));
    }
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert!(!t.goes_first(&unboosted(1), &task(class, 0)), "{class:?}");
    }
    // What it runs is not forgiven, as that of a boosted one is but for a window's time; and it may be as far behind as a
    // parallel one.
    let bound_as = |vtime, class, unboosted, woke| {
        let run = Run { unboosted, ..ALONE };
        t.vtime_bound(vtime, &run, 10_000 * MS, class, woke)
    };
    let bound = |vtime, class, unboosted| bound_as(vtime, class, unboosted, false);
    assert_eq!(bound(10_020 * MS, Class::Serial, 1), 10_020 * MS);
    assert_eq!(
        bound(10_020 * MS, Class::Serial, 0),
        10_000 * MS + t.vtime_window_ns
    );
    assert_eq!(bound(0, Class::Serial, 1), bound(0, Class::Parallel, 0));
    // When it wakes up it brings 10 ms, as others do.
    assert_eq!(bound_as(0, Class::Serial, 1, true), 9_990 * MS);
    assert_eq!(bound_as(0, Class::Serial, 0, true), 9_990 * MS);
}

proptest! {
    /// The boosts are bounded: a task that is ahead by the difference preempts nobody, so whoever waits
    /// long enough is served. What counts is the longer queue.
    #[test]
    fn the_boosts_are_bounded(now: u64, ahead in 0u64..400 * MS, a in 0u32..100, b in 0u32..100) {
        let (serial, senior) = boosts(a.max(b));
        let preempts = |waking, running| {
            let waking = task_among(a, waking, now.wrapping_add(ahead));
            tunables().preempts(&waking, &task_among(b, running, now))
        };
        prop_assert_eq!(preempts(Class::Serial, Class::Parallel), ahead < serial);
        prop_assert_eq!(preempts(Class::Senior, Class::Parallel), ahead < senior);
        prop_assert_eq!(preempts(Class::Serial, Class::Senior), ahead < serial - senior);
    }

    /// The more serial tasks are ready, the less is left of boosts, and never more than all.
    #[test]
    fn what_is_left_of_boosts_falls(nr: u32, more: u32, nr_cpus in 1u32..=1024) {
        let (fewer, more) = (nr.min(more), nr.max(more));
        prop_assert!(boost_left(more, nr_cpus) <= boost_left(fewer, nr_cpus));
        prop_assert!(boost_left(fewer, nr_cpus) <= BOOST_WHOLE);
    }

    /// Their number lies between what it was and what it is now.
    #[test]
    fn the_number_of_serial_tasks_is_a_mean(before in 0u32..1 << 24, ready_ns in 0u64..1 << 48, in_ns in 1u64..1 << 40) {
        let now = ((ready_ns << 8) / in_ns).min(1 << 24) as u32;
        let mean = serial_ready(before, ready_ns, in_ns);
        prop_assert!((before.min(now)..=before.max(now)).contains(&mean), "{mean} of {before} and {now}");
    }
}
