// SPDX-License-Identifier: GPL-2.0-only
//! What the policy promises, for all inputs.

use proptest::prelude::*;
use threadwise_policy::{Class, Group, Task, Tunables, vtime_charge};

const MS: u64 = 1_000_000;

fn tunables() -> Tunables {
    Tunables {
        slice_ns: MS,
        rotate_ns: MS,
        serial_boost_ns: 200 * MS,
        senior_boost_ns: 100 * MS,
        vtime_window_ns: MS,
        serial_threshold: 2,
    }
}

fn task(class: Class, vtime: u64) -> Task {
    Task { vtime, class }
}

#[test]
fn the_paper_s_threshold_is_more_than_two() {
    let group = Group::default();
    let classes: Vec<Class> = (1..=4).map(|tid| tunables().class_of(group.add(tid), false)).collect();
    assert_eq!(classes, [Class::Serial, Class::Serial, Class::Parallel, Class::Parallel]);
    assert_eq!(tunables().class_of(group.ready(), true), Class::Senior);
    assert_eq!(tunables().class_of(Group::default().add(1), true), Class::Serial, "serial goes before senior");
}

#[test]
fn the_last_ready_thread_is_named() {
    let group = Group::default();
    for tid in [7, 4_194_303, 12] {
        group.add(tid);
    }
    assert_eq!(group.sub(7).last(), None, "two are left");
    assert_eq!(group.sub(12).last(), Some(4_194_303));
    assert_eq!(group.sub(4_194_303).last(), None, "none is left");
}

#[test]
fn counts_and_names_survive_concurrency() {
    let group = Group::default();
    std::thread::scope(|scope| {
        for tid in 1..=8 {
            let group = &group;
            scope.spawn(move || {
                for _ in 0..20_000 {
                    assert!(group.add(tid).count() >= 1);
                    let after = group.sub(tid);
                    // A torn count and sum would name a thread that does not exist.
                    assert!(after.last().is_none_or(|last| (1..=8).contains(&last) && last != tid));
                }
            });
        }
    });
    assert_eq!(group.ready().count(), 0);
    assert_eq!(group.ready(), Group::default().ready());
}

#[test]
fn a_quarter_of_a_million_ready_threads_fit() {
    let group = Group::default();
    let largest_tid = (1 << 22) - 1;
    for _ in 0..1 << 18 {
        group.add(largest_tid);
    }
    assert_eq!(group.ready().count(), 1 << 18);
}

#[test]
fn weights_divide_time() {
    assert_eq!(vtime_charge(5, 1000, 100), 1005);
    assert_eq!(vtime_charge(0, 1000, 200), 500);
    assert_eq!(vtime_charge(0, 1000, 1), 100_000);
    assert_eq!(vtime_charge(u64::MAX, 1, 100), 0, "vtime wraps");
}

#[test]
fn what_was_run_under_the_serial_boost_is_forgiven() {
    let t = tunables();
    assert_eq!(t.vtime_forgive(500 * MS, 100 * MS, Class::Serial), 101 * MS);
    assert_eq!(t.vtime_forgive(50 * MS, 100 * MS, Class::Serial), 50 * MS, "nothing is given");
    for class in [Class::Senior, Class::Parallel] {
        assert_eq!(t.vtime_forgive(500 * MS, 100 * MS, class), 500 * MS);
    }
}

#[test]
fn threads_rotate_in_steps_and_the_senior_program_has_a_turn() {
    let t = tunables();
    let waiting = t.key(&task(Class::Parallel, 1000 * MS));
    assert!(!t.yields(&task(Class::Parallel, 1001 * MS), waiting));
    assert!(t.yields(&task(Class::Parallel, 1002 * MS), waiting), "a step of the rotation");
    assert!(!t.yields(&task(Class::Senior, 1101 * MS), waiting));
    assert!(t.yields(&task(Class::Senior, 1102 * MS), waiting), "the turn is over");
}

proptest! {
    /// Whatever the interleaving, the count is the number of additions less that of subtractions.
    #[test]
    fn counts_do_not_drift(events in proptest::collection::vec(1u32..1 << 22, 0..200)) {
        let group = Group::default();
        for &tid in &events { group.add(tid); }
        prop_assert_eq!(group.ready().count() as usize, events.len());
        for &tid in events.iter().rev() { group.sub(tid); }
        prop_assert_eq!(group.ready(), Group::default().ready());
    }

    /// A waking task is at most a window from the current vtime, also where vtime wraps.
    #[test]
    fn waking_tasks_are_near_now(vtime: u64, now: u64) {
        let after = tunables().vtime_on_wakeup(vtime, now);
        prop_assert!(after.wrapping_sub(now) as i64 <= MS as i64);
        prop_assert!(after.wrapping_sub(now) as i64 >= -(MS as i64));
    }

    /// The boosts are bounded: a task that is ahead by the difference preempts nobody, so whoever waits
    /// long enough is served.
    #[test]
    fn the_boosts_are_bounded(now: u64, ahead in 0u64..10_000) {
        let t = tunables();
        let at = |class, ahead| task(class, now.wrapping_add(ahead * MS));
        prop_assert_eq!(t.preempts(&at(Class::Serial, ahead), &at(Class::Parallel, 0)), ahead < 200);
        prop_assert_eq!(t.preempts(&at(Class::Senior, ahead), &at(Class::Parallel, 0)), ahead < 100);
        prop_assert_eq!(t.preempts(&at(Class::Serial, ahead), &at(Class::Senior, 0)), ahead < 100);
    }

    /// A task preempts only what is of a later class; bound kernel threads preempt everything.
    #[test]
    fn nobody_preempts_upwards(a: u64, b: u64, ca in 0usize..3, cb in 0usize..3) {
        const CLASSES: [Class; 3] = [Class::Serial, Class::Senior, Class::Parallel];
        let (t, waking, running) = (tunables(), task(CLASSES[ca], a), task(CLASSES[cb], b));
        prop_assert!(ca < cb || !t.preempts(&waking, &running));
        prop_assert!(t.preempts(&task(Class::Kernel, a), &running));
    }

    /// Serial before senior before parallel at equal vtime, by exactly the boosts.
    #[test]
    fn keys_order_classes(vtime: u64) {
        let t = tunables();
        let gap = |class| t.key(&task(Class::Parallel, vtime)).wrapping_sub(t.key(&task(class, vtime)));
        prop_assert_eq!(gap(Class::Serial), t.serial_boost_ns);
        prop_assert_eq!(gap(Class::Senior), t.senior_boost_ns);
    }

    /// Nobody yields to a task that is behind it in order, so that two tasks never swap back and forth.
    #[test]
    fn yielding_is_asymmetric(a: u64, lead in 0u64..1 << 40, ca in 0usize..3, cb in 0usize..3) {
        const CLASSES: [Class; 3] = [Class::Serial, Class::Senior, Class::Parallel];
        let (t, x, y) = (tunables(), task(CLASSES[ca], a), task(CLASSES[cb], a.wrapping_add(lead)));
        prop_assert!(!(t.yields(&x, t.key(&y)) && t.yields(&y, t.key(&x))));
    }
}
