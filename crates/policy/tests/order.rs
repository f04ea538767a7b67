// SPDX-License-Identifier: GPL-2.0-only
//! Who of those that wait goes first.

mod common;

use proptest::prelude::*;
use threadwise_policy::{BOOST_WHOLE, CAPACITY_ONE, Class, Keys, Task, vtime_charge, waits_us};

use common::{CLASSES, MS, boosts, task, task_among, tunables};

#[test]
fn who_waits_for_long_has_its_turn_whatever_the_others_weigh() {
    // Two serial tasks of nice -20 and a parallel one, all bound to one CPU; how long until the parallel one's turn? What the
    // others run moves their vtimes by a hundredth of it.
    let t = tunables();
    let wait_ms = |is_first: bool| {
        let (now, mut hogs) = (1000 * MS, [1000 * MS; 2]);
        for waited in 0..100_000 {
            let parallel = Task {
                waits_us: waits_us(waited * MS),
                ..task_among(2, Class::Parallel, now)
            };
            let [running, waiting] = hogs.map(|vtime| task_among(2, Class::Serial, vtime));
            if t.yields(&running, &parallel) && (is_first || t.goes_first(&parallel, &waiting)) {
                return waited;
            }
            hogs[0] = vtime_charge(hogs[0], MS, 10_000, CAPACITY_ONE);
            hogs.swap(0, 1);
        }
        panic!("it never has its turn");
    };
    let waits = [true, false].map(wait_ms);
    assert!(waits.iter().all(|wait| (700..=810).contains(wait)), "{waits:?}");
}

#[test]
fn who_is_alone_does_not_go_before_all_that_wait_elsewhere() {
    // Eight of eighty serial programs are alone on their CPUs, the others wait for one CPU. Where one may go on beside
    // the other it is for what it ran less, not because fewer wait beside it.
    let alone = |ahead_ms| task(Class::Serial, 1000 * MS + ahead_ms * MS);
    let waiting = task_among(71, Class::Serial, 1000 * MS);
    assert!(tunables().yields(&alone(2), &waiting) && !tunables().yields(&alone(1), &waiting));
    // And parallel ones wait for neither of them long.
    let parallel = task_among(71, Class::Parallel, 1000 * MS);
    assert!(
        tunables().yields(&alone(2), &parallel),
        "its boost is that of the long queue"
    );
    let parallel = task(Class::Parallel, 1000 * MS);
    assert!(
        !tunables().yields(&alone(200), &parallel),
        "where nobody else waits it is not"
    );
}

#[test]
fn queues_stay_of_one_length() {
    // What waits in another queue is later for a CPU unless that is longer, or its class is earlier.
    let seen = |theirs: &Task, mine: &Task| tunables().vtime_seen(theirs, Some(mine), false);
    let elsewhere = |nr_theirs, class, nr_mine| {
        let mine = task_among(nr_mine, Class::Parallel, 0);
        seen(&task_among(nr_theirs, class, 100 * MS), &mine)
    };
    let [senior, mine] = [100 * MS, 0].map(|vtime| task_among(1, Class::Senior, vtime));
    assert_eq!(seen(&senior, &mine), 110 * MS);
    let t = tunables();
    assert_eq!(
        t.vtime_seen(&senior, Some(&mine), true),
        111 * MS,
        "behind another cache"
    );
    assert_eq!(t.vtime_seen(&senior, None, false), 100 * MS, "nobody waits here");
    let [serial, mine] = [100 * MS, 0].map(|vtime| task_among(1, Class::Serial, vtime));
    assert_eq!(
        seen(&serial, &mine),
        100 * MS,
        "no boost of theirs has to last for a turn"
    );
    assert_eq!(elsewhere(2, Class::Parallel, 1), 100 * MS);
    assert_eq!(elsewhere(1, Class::Senior, 1), 100 * MS);
    assert_eq!(elsewhere(1, Class::Parallel, 1), 110 * MS);
    assert_eq!(elsewhere(1, Class::Parallel, 2), 110 * MS);
}

/// Keys are made anew where their boosts are of less than half, or more than twice, what they would be now.
#[test]
fn keys_are_stale_where_boosts_have_halved() {
    let t = tunables();
    let stale = |then: u32, now: u32| {
        let mut keys = Keys::default();
        keys.renew(then, BOOST_WHOLE);
        t.keys_are_stale(&keys, now, BOOST_WHOLE)
    };
    // 200 ms beside two, 128 beside three, 89 beside four, 65 beside five.
    assert!(!stale(0, 2) && !stale(0, 3) && !stale(3, 0) && !stale(3, 4));
    assert!(stale(0, 4) && stale(4, 2) && stale(3, 6) && stale(6, 3));
    // 11 ms beside fifteen, 9.9 beside sixteen: what is less than 10 ms apart is as good.
    assert!(stale(15, 1_000) && !stale(16, 1_000));
    let left = |then, now| {
        let mut keys = Keys::default();
        keys.begin(&task_among(0, Class::Serial, 0), then);
        t.keys_are_stale(&keys, 0, now)
    };
    assert!(left(BOOST_WHOLE, BOOST_WHOLE / 3) && left(0, BOOST_WHOLE / 10) && !left(0, 0));
    assert!(!left(BOOST_WHOLE, BOOST_WHOLE / 2) && !left(0, BOOST_WHOLE / 30));
}

#[test]
fn keys_hold_as_long_as_somebody_waits_and_are_made_anew_in_some_looks() {
    let mut keys = Keys::default();
    keys.renew(7, 5);
    let renewed = keys;
    keys.begin(&task_among(1, Class::Serial, 0), BOOST_WHOLE);
    assert_eq!(keys, renewed);
    keys.begin(&task_among(0, Class::Serial, 0), BOOST_WHOLE);
    assert_eq!(
        (keys.nr_waiting, keys.boost_left, keys.nr_looks),
        (0, BOOST_WHOLE, 0)
    );
    let looks = |nr_waiting| {
        keys.renew(nr_waiting, BOOST_WHOLE);
        keys.nr_looks
    };
    assert_eq!([1, 16, 17, 32, 33].map(looks), [2, 2, 3, 3, 4]);
}

proptest! {
    /// Waiting counts from 0.2 s for each task of the CPU on, to the microsecond, in a queue as beside who runs, and does not wrap.
    #[test]
    fn a_wait_counts_when_it_is_long(
        vtime: u64, c in 1usize..4, nr in 0u32..100, waits_ns in prop_oneof![0..5000 * MS, any::<u64>()], more_ns in 0..2 * MS,
    ) {
        let at = |waits_us| Task { waits_us, ..task_among(nr, CLASSES[c], vtime) };
        let waits = at(waits_us(waits_ns));
        let age = waits_ns.min(3_600_000 * MS).saturating_sub(200 * MS * u64::from((nr + 1).min(16))) / 1000 * 1000;
        prop_assert_eq!(tunables().key(&at(0)).wrapping_sub(tunables().key(&waits)), age);
        let [before, after] = [vtime.wrapping_sub(1), vtime.wrapping_add(1)];
        let moves = |all| [before, vtime, after].map(|key| waits.moves_in_queue(key, vtime, all));
        prop_assert_eq!(moves(false), [age > 0, false, false]);
        prop_assert_eq!(moves(true), [true, false, true]);
        // Who runs makes way so much sooner for it.
        let just = at(waits_us(200 * MS * u64::from((nr + 1).min(16)) + more_ns));
        let (due, younger) = (tunables().due_in(&at(0), &just), tunables().due_in(&at(0), &at(0)));
        // Serial ones have turns.
        prop_assert!(c == 1 || due == younger.saturating_sub(more_ns / 1000 * 1000));
    }

    /// Serial before senior before parallel at equal vtime, by exactly the boosts, however many wait.
    #[test]
    fn keys_order_classes(vtime: u64, nr_waiting in 0u32..1000) {
        let (serial, senior) = boosts(nr_waiting);
        let key = |class| tunables().key(&task_among(nr_waiting, class, vtime));
        let gap = |class| key(Class::Parallel).wrapping_sub(key(class));
        prop_assert_eq!((gap(Class::Serial), gap(Class::Senior)), (serial, senior));
        prop_assert!(serial > senior && senior > 0);
    }

    /// Of two tasks of a class in one queue the one of lower vtime goes first, however many waited when each was queued, until one
    /// of them waits for longer than is usual beside as many as wait now.
    #[test]
    fn keys_of_a_queue_go_by_one_boost(
        a: u64, lead in 1u64..1 << 40, class in 0usize..4, na in 0u32..100, nb in 0u32..100, nr in 0u32..100,
        left in 0..=BOOST_WHOLE, waits_ms in 0u32..10_000,
    ) {
        let (t, keys) = (tunables(), Keys { nr_waiting: nr, boost_left: left, nr_looks: 0 });
        let (x, y) = (task_among(na, CLASSES[class], a.wrapping_add(lead)), task_among(nb, CLASSES[class], a));
        let [first, second] = [&x, &y].map(|task| t.key_in(&keys, task, false));
        prop_assert_eq!(first.wrapping_sub(second), lead);
        prop_assert_eq!(t.key_in(&keys, &x, true), x.vtime);
        prop_assert!(na != nr || left != BOOST_WHOLE || t.key_in(&keys, &x, false) == t.key(&x));
        let waits = Task { waits_us: 1_000 * waits_ms, ..x };
        prop_assert_eq!(first.wrapping_sub(t.key_in(&keys, &waits, false)), t.key(&x).wrapping_sub(t.key(&waits)));
    }

    /// Of tasks in one queue, the one that goes first has the smaller key.
    #[test]
    fn keys_and_comparisons_agree(
        a: u64, lead in 0u64..1 << 40, ca in 1usize..4, cb in 1usize..4, nr_waiting in 0u32..100,
    ) {
        let at = |class: usize, vtime| task_among(nr_waiting, CLASSES[class], vtime);
        let (x, y, t) = (at(ca, a), at(cb, a.wrapping_add(lead)), tunables());
        prop_assert_eq!(t.goes_first(&x, &y), (t.key(&x).wrapping_sub(t.key(&y)) as i64) < 0);
    }
}
