// SPDX-License-Identifier: GPL-2.0-only
//! Who gets the faster CPUs.

mod common;

use proptest::prelude::*;
use threadwise_policy::{
    Choice, Class, Group, Place, Search, Seat, Tunables, is_faster, looks_for_better, loss_of_speed, worth,
};

use common::{CLASSES, MS, group, task, tunables, turns_of_80_ms};

#[test]
fn a_better_cpu_is_looked_for_where_one_may_be_found_and_once() {
    let unequal = |mode, smt| Class::Serial.search(true, mode, smt);
    assert_eq!([unequal(false, false), unequal(true, true)], [Search::Place; 2]);
    for (class, mode, smt, search) in [
        (Class::Serial, true, true, Search::Spot),
        (Class::Parallel, true, false, Search::Spot),
        (Class::Parallel, false, true, Search::Seat),
        (Class::Serial, false, false, Search::Nowhere),
        // Modes are for programs.
        (Class::Kernel, true, true, Search::Seat),
        (Class::Kernel, true, false, Search::Nowhere),
    ] {
        assert_eq!(class.search(false, mode, smt), search, "{class:?} {mode} {smt}");
    }
    // Who comes was offered the idle ones, who makes way may have looked a moment ago.
    for (comes, looked, unequal, looks) in [
        (true, false, false, false),
        (true, true, true, true),
        (false, false, false, true),
        (false, false, true, true),
        (false, true, true, false),
    ] {
        let what = (comes, looked, unequal);
        assert_eq!(looks_for_better(comes, looked, unequal), looks, "{what:?}");
    }
}

#[test]
fn what_a_slower_cpu_kept_is_worth_a_look_until_it_looks_again() {
    let tun = tunables();
    for look_ns in [0, MS / 100, MS] {
        let again = tun.slice(true, true, look_ns) + 10 * MS;
        assert!(tun.kept_recently(0, look_ns) && tun.kept_recently(again - 1, look_ns));
        assert!(!tun.kept_recently(again, look_ns));
    }
}

#[test]
fn parallel_tasks_take_turns_on_a_fast_cpu() {
    let tun = Tunables::default();
    let at = |vtime, class| task(class, vtime);
    let (behind, ahead) = (10 * MS, 10 * MS + tun.rotate_ns + 1);
    for class in [Class::Parallel, Class::Senior] {
        assert!(tun.takes_turn(&at(behind, class), &at(ahead, class), -1000));
        assert!(
            !tun.takes_turn(&at(behind, class), &at(ahead - 2, class), 1 << 20),
            "a migration for less than a step of the rotation"
        );
        assert!(!tun.takes_turn(&at(behind, class), &at(u64::MAX / 4, Class::Serial), 1 << 20));
        for other in [Class::Kernel, Class::Serial] {
            assert!(!tun.takes_turn(&at(behind, other), &at(ahead, class), 1 << 20));
        }
    }
    assert!(
        tun.takes_turn(&at(ahead, Class::Senior), &at(behind, Class::Parallel), 0),
        "the senior program has the fast CPU"
    );
}

/// Two serial programs on a fast CPU and one of half its speed, which ask at each tick of 4 ms: both get equally far, and
/// exchanges are rare.
#[test]
fn serial_tasks_take_turns_on_the_fast_cpu() {
    let tun = turns_of_80_ms();
    let serial = task(Class::Serial, 0);
    let (programs, mut work, mut nr_exchanges) = ([group(0), group(7 * MS)], [0, 0], 0);
    let mut fast = 0;
    for _ in 0..1000 {
        let slow = 1 - fast;
        work[fast] += 4 * MS;
        work[slow] += 2 * MS;
        assert_eq!(loss_of_speed(Class::Serial, 4 * MS, 1024, 100), 0);
        programs[slow].lose(loss_of_speed(Class::Serial, 4 * MS, 512, 100));
        let lost_more = programs[slow].lost_more_there(&serial, &serial, &programs[fast], &tun);
        if tun.takes_turn(&serial, &serial, lost_more) {
            (fast, nr_exchanges) = (slow, nr_exchanges + 1);
        }
    }
    let apart = work[0].abs_diff(work[1]);
    assert!(apart < 60 * MS, "{work:?}");
    assert!((30..=60).contains(&nr_exchanges), "{nr_exchanges} in 4 s");
    assert_eq!(
        loss_of_speed(Class::Parallel, 4 * MS, 512, 100),
        0,
        "all of them have slow CPUs alike"
    );
    let lost = |weight| loss_of_speed(Class::Serial, 4 * MS, 512, weight);
    assert_eq!(lost(50), lost(100) / 2, "who weighs less waits for longer");
    // Beside a parallel task it does not matter. Who slept for long, or is new, is raised to two turns before the other.
    let lost_ms = |ms: u64| group(ms * MS).lost();
    let more = |class, behind: &Group, there: &Group| {
        let more = behind.lost_more_there(&serial, &task(class, 0), there, &tun);
        (more, behind.lost(), there.lost())
    };
    let (old, new, apart) = (group(900 * MS), group(0), ((2 * tun.senior_turn_ns) >> 10) as u32);
    assert_eq!(more(Class::Parallel, &old, &new), (0, lost_ms(900), lost_ms(0)));
    let raised = lost_ms(900) - apart;
    assert_eq!(
        more(Class::Serial, &old, &new),
        (apart as i32, lost_ms(900), raised)
    );
    let (old, new) = (group(900 * MS), group(0));
    assert_eq!(
        more(Class::Serial, &new, &old),
        (-(apart as i32), raised, lost_ms(900))
    );
    // Programs that are never parallel compete there only.
    assert!(tun.counts_loss(1, true) && !tun.counts_loss(1, false));
    assert!(!tun.counts_loss(2, false) && tun.counts_loss(3, false));
}

/// A CPU that shares no core, idle or with a task of this class.
fn place(capacity: u32, running: Option<Class>) -> Place {
    Place {
        capacity,
        seat: Seat {
            shared: false,
            beside_serial: false,
            same_cpu: false,
            same_core: false,
            first: true,
        },
        idle: running.is_none(),
        fast: capacity > 512,
        class: running.unwrap_or(Class::Parallel),
    }
}

/// Which of these places a task chooses that runs on a CPU of this capacity and worth, or is bound for one (0).
fn chosen_from(class: Class, (own, here): (u32, u32), places: &[Place]) -> Option<usize> {
    let mut choice = Choice::on(own, here);
    let mut best = None;
    for (nth, place) in places.iter().enumerate() {
        if choice.is_now(class, place) {
            best = Some(nth);
        }
    }
    best
}

/// The same of a CPU that shares no core.
fn chosen(class: Class, own: u32, places: &[Place]) -> Option<usize> {
    chosen_from(class, (own, own), places)
}

#[test]
fn serial_tasks_get_the_fast_cpu_and_nobody_takes_it_from_them() {
    let goes = |class, here, there| chosen(class, here, &[there]).is_some();
    let fast = |running| place(1024, running);
    assert!(goes(Class::Serial, 512, fast(Some(Class::Parallel))));
    assert!(goes(Class::Serial, 512, fast(Some(Class::Senior))));
    assert!(!goes(Class::Serial, 512, fast(Some(Class::Serial))));
    assert!(!goes(Class::Serial, 512, fast(Some(Class::Kernel))));
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert!(goes(class, 512, fast(None)), "an idle fast CPU is for everybody");
        assert!(!goes(class, 1024, fast(None)), "not from an equal one");
        assert!(!goes(class, 1000, fast(None)), "a few MHz are not worth it");
    }
    assert!(!goes(Class::Kernel, 512, fast(None)), "bound kernel threads stay");
    assert!(!goes(Class::Senior, 512, fast(Some(Class::Parallel))));
    assert!(
        !goes(Class::Serial, 0, place(512, Some(Class::Parallel))),
        "by class alone only fast ones are taken"
    );
    assert!(!goes(Class::Serial, 1024, place(512, None)), "never down");
    assert!(is_faster(900, 800) && !is_faster(899, 800), "an eighth");
}

#[test]
fn an_idle_cpu_goes_before_one_that_is_taken_and_the_last_one_before_others() {
    let busy = place(1024, Some(Class::Parallel));
    let idle = |capacity| place(capacity, None);
    let last = |mut there: Place| {
        there.seat.same_cpu = true;
        there
    };
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(chosen(class, 0, &[busy, idle(1024), idle(1024)]), Some(1));
        assert_eq!(chosen(class, 0, &[idle(1024), last(idle(1000))]), Some(1));
        assert_eq!(chosen(class, 0, &[last(idle(700)), idle(1024)]), Some(1));
    }
    assert_eq!(chosen(Class::Serial, 0, &[busy, last(busy)]), Some(1));
    assert_eq!(
        chosen(Class::Serial, 0, &[busy, idle(700)]),
        Some(0),
        "an eighth more is worth taking it"
    );
    assert_eq!(
        chosen(Class::Serial, 0, &[last(idle(700)), busy]),
        Some(1),
        "whichever is seen first"
    );
    assert_eq!(chosen(Class::Parallel, 0, &[busy, idle(700)]), Some(1));
}

/// A hardware thread of a fast core on which another runs, a serial task or not; idle, or with a task of this class.
fn sibling(serial: bool, running: Option<Class>) -> Place {
    let mut there = place(1024, running);
    there.seat.shared = true;
    there.seat.beside_serial = serial;
    there
}

#[test]
fn half_of_a_fast_core_is_worth_less_than_a_whole_one_that_is_somewhat_slower() {
    let (whole, slow) = (place(1024, None), place(768, None));
    let shared = sibling(false, None);
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(chosen(class, 0, &[shared, whole]), Some(1));
        assert_eq!(chosen(class, 0, &[whole, shared]), Some(0));
        assert_eq!(chosen(class, 0, &[shared, slow]), Some(1));
        assert_eq!(
            chosen(class, 0, &[shared, place(512, None)]),
            Some(0),
            "5/8 of it is worth more than half"
        );
        let here = (1024, worth(class, 1024, true, false));
        assert_eq!(chosen_from(class, here, &[slow]), Some(0), "who shares leaves");
    }
    let beside = |class| chosen(class, 0, &[sibling(true, None), place(300, None)]);
    assert_eq!(beside(Class::Parallel), Some(1), "a serial task keeps its core");
    assert_eq!(beside(Class::Serial), Some(0));
    assert_eq!(
        chosen(Class::Parallel, 0, &[sibling(true, None), shared]),
        Some(1)
    );
}

#[test]
fn no_cpu_is_taken_because_of_what_cores_share() {
    let (lone, idle) = (place(1024, Some(Class::Parallel)), sibling(false, None));
    let here = (1024, worth(Class::Serial, 1024, true, false));
    assert_eq!(chosen_from(Class::Serial, here, &[lone]), None);
    assert_eq!(chosen(Class::Serial, 0, &[lone, idle]), Some(1));
    assert_eq!(chosen(Class::Serial, 0, &[idle, lone]), Some(0));
    // For its speed it is, but not where half of it is less than a whole slow one.
    assert_eq!(chosen(Class::Serial, 0, &[lone, place(768, None)]), Some(0));
    let shared = sibling(false, Some(Class::Parallel));
    assert_eq!(chosen(Class::Serial, 0, &[shared, place(768, None)]), Some(1));
    assert_eq!(chosen(Class::Serial, 512, &[shared]), Some(0));
}

#[test]
fn a_look_for_a_place_ends_where_none_can_be_better() {
    let mut choice = Choice::default();
    assert!(!choice.is_made(1024), "none was seen");
    assert!(choice.is_now(Class::Serial, &place(1024, Some(Class::Parallel))));
    assert!(!choice.is_made(1024), "another may be idle");
    assert!(choice.is_made(900), "slower ones matter no more");
    assert!(choice.is_now(Class::Serial, &place(1000, None)));
    assert!(choice.is_made(1024));
    let mut slow = Choice::default();
    assert!(slow.is_now(Class::Serial, &place(600, None)));
    assert!(!slow.is_made(1024));
    let mut shared = Choice::default();
    assert!(shared.is_now(Class::Serial, &sibling(false, None)));
    assert!(!shared.is_made(700), "a whole core that is worth about as much");
    assert!(shared.is_now(Class::Serial, &place(700, None)));
    assert!(
        Choice::on(1024, 1024).is_made(1024),
        "who is on a fast CPU looks at none"
    );
    assert!(!Choice::on(1024, 640).is_made(768), "who shares its core does");
}

proptest! {
    /// Whatever is seen, who chooses a place gains an eighth of worth by it, takes a CPU for an eighth of speed only, and finds an
    /// idle one that would do.
    #[test]
    fn what_is_chosen_is_worth_it(
        seen in prop::collection::vec((1u32..=1024, any::<bool>(), any::<bool>(), prop::option::of(0usize..4)), 1..12),
        own in 0u32..=1024,
    ) {
        let places: Vec<Place> = seen
            .iter()
            .map(|&(capacity, shared, beside_serial, running)| {
                let mut there = place(capacity, running.map(|class| CLASSES[class]));
                there.seat.shared = shared;
                there.seat.beside_serial = beside_serial;
                there
            })
            .collect();
        let of = |class, there: &Place| worth(class, there.capacity, there.seat.shared, there.seat.beside_serial);
        for class in [Class::Serial, Class::Senior, Class::Parallel] {
            let best = chosen(class, own, &places).map(|nth| &places[nth]);
            let idle = places.iter().filter(|there| there.idle && is_faster(of(class, there), own));
            if let Some(best) = best {
                prop_assert!(is_faster(of(class, best), own));
                prop_assert!(best.idle || (class == Class::Serial && is_faster(best.capacity, own)));
            } else {
                prop_assert_eq!(idle.count(), 0);
            }
        }
    }

    /// Of two CPUs at most one is faster, so that a task never moves back and forth; zero is no surprise.
    #[test]
    fn faster_is_asymmetric(a: u32, b: u32) {
        let (a, b) = (a % 1025, b % 1025);
        prop_assert!(!(is_faster(a, b) && is_faster(b, a)));
        prop_assert!(!is_faster(a, a));
    }
}
