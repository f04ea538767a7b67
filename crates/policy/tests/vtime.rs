// SPDX-License-Identifier: GPL-2.0-only
//! What a task has had: its vtime stays near the current one, and that moves on.

mod common;

use proptest::prelude::*;
use threadwise_policy::{BOOST_WHOLE, CAPACITY_ONE, Class, Group, Origin, Run, Tunables, vtime_charge};

use common::{ALONE, CLASSES, MS, boosts, group, task, task_among, tunables};

#[test]
fn weights_divide_time_and_speed_multiplies_it() {
    assert_eq!(vtime_charge(5, 1000, 100, CAPACITY_ONE), 1005);
    assert_eq!(vtime_charge(0, 1000, 200, CAPACITY_ONE), 500);
    assert_eq!(vtime_charge(0, 1000, 1, CAPACITY_ONE), 100_000);
    assert_eq!(vtime_charge(u64::MAX, 1, 100, CAPACITY_ONE), 0, "vtime wraps");
    assert_eq!(vtime_charge(0, 1000, 100, 512), 500, "half the work was done");
}

#[test]
fn what_was_run_under_the_serial_boost_is_forgiven() {
    let t = tunables();
    let bound = |vtime, class| t.vtime_bound(vtime, &ALONE, 100 * MS, class, false);
    assert_eq!(bound(140 * MS, Class::Serial), 101 * MS);
    assert_eq!(bound(60 * MS, Class::Serial), 60 * MS, "nothing is given");
    assert_eq!(bound(140 * MS, Class::Senior), 140 * MS);
    assert_eq!(bound(140 * MS, Class::Parallel), 140 * MS);
    // Time, not vtime, or a light one would be forgiven all it runs.
    let light = Run { weight: 25, ..ALONE };
    let kept = t.vtime_bound(140 * MS, &light, 100 * MS, Class::Serial, false);
    assert_eq!(kept, 104 * MS);
}

#[test]
fn who_is_ahead_of_nobody_moves_the_clock() {
    // Eight programs that are always serial, one on each of eight CPUs, each charged for slices of 20 ms. The current vtime goes
    // with them, or one that sleeps most of the time would be owed nothing at its waking.
    let t = tunables();
    let after_20_slices = |nr_waiting: u32, others_wait: u32| {
        let run = Run {
            since_ns: 20 * MS,
            nr_waiting,
            others_wait,
            ..ALONE
        };
        let (mut now, mut vtimes) = (1000 * MS, [1000 * MS; 8]);
        for _ in 0..20 {
            for vtime in &mut vtimes {
                let picked = task_among(nr_waiting, Class::Serial, *vtime);
                now = t.clock(now, &picked, 100, 0, others_wait == 1);
                *vtime = t.vtime_advance(*vtime, &run, now, Class::Serial);
            }
        }
        now - 1000 * MS
    };
    assert_eq!(after_20_slices(0, 0), 19 * 20 * MS);
    assert_eq!(after_20_slices(0, 1), 0, "somebody waits elsewhere");
    assert_eq!(
        after_20_slices(1, 1),
        19 * 2 * MS,
        "beside them, two windows a slice"
    );
    // A light one keeps no more than others do, or a window's time where that is more: it would run away from them with the clock.
    let bound = |weight, nr_waiting, others_wait| {
        let run = Run {
            weight,
            nr_waiting,
            others_wait,
            ..ALONE
        };
        t.vtime_bound(900 * MS, &run, 100 * MS, Class::Serial, false) / MS - 100
    };
    assert_eq!([100, 25, 1].map(|weight| bound(weight, 0, 0)), [20, 20, 100]);
    assert_eq!([100, 25, 1].map(|weight| bound(weight, 0, 1)), [1, 4, 100]);
    assert_eq!(
        [100, 25, 1].map(|weight| bound(weight, 1, 0)),
        [2, 8, 200],
        "one waits here"
    );
}

#[test]
fn a_newcomer_waits_for_one_lag_whoever_is_before_it() {
    // The time that all who wait beside it can run on their credit, by how many and of which weight they are.
    let (t, now) = (tunables(), 1000 * MS);
    let credit_ms = |nr_waiting: u32, weight: u32| {
        let run = Run {
            weight,
            nr_waiting,
            ..ALONE
        };
        let behind = now - t.vtime_bound(0, &run, now, Class::Serial, false);
        f64::from(nr_waiting + 1) * behind as f64 * f64::from(weight) / 100.0 / MS as f64
    };
    assert!((credit_ms(0, 100) - 400.0).abs() < 0.1);
    assert!((credit_ms(4, 100) - 400.0).abs() < 0.1);
    assert!(
        (credit_ms(0, 10_000) - 400.0).abs() < 0.1,
        "nice -20 stays for no longer"
    );
    assert!((credit_ms(4, 10_000) - 400.0).abs() < 0.1);
    assert!((credit_ms(99, 100) - 100.0 * 10.0).abs() < 0.1, "10 ms each");
}

#[test]
fn who_is_boosted_less_keeps_its_place_while_it_waits() {
    // A parallel task that waited until serial ones had used up their boost is not set back for it when it ran.
    let (t, now) = (tunables(), 1000 * MS);
    let serial_key = t.key(&task(Class::Serial, now));
    // Whatever it weighs, up to about nice -10.
    for (class, weight) in [
        (Class::Senior, 100),
        (Class::Parallel, 100),
        (Class::Parallel, 15),
        (Class::Parallel, 932),
    ] {
        let run = Run {
            since_ns: MS,
            weight,
            ..ALONE
        };
        let vtime = serial_key + now - t.key(&task(class, now));
        let ran = t.vtime_advance(vtime, &run, now, class);
        assert_eq!(
            ran,
            vtime_charge(vtime, MS, weight, CAPACITY_ONE),
            "{class:?} of {weight}"
        );
    }
}

#[test]
fn who_has_a_cpu_for_itself_does_not_move_the_others_clock() {
    let clock = |vtime, nr_waiting, others_wait| {
        tunables().clock(
            100,
            &task_among(nr_waiting, Class::Parallel, vtime),
            100,
            0,
            others_wait,
        )
    };
    assert_eq!(clock(101, 1, true), 101);
    assert_eq!(clock(101, 0, false), 101, "nobody waits anywhere");
    assert_eq!(clock(101, 0, true), 100);
    assert_eq!(clock(99, 1, true), 100, "never back");
    let senior = |vtime| tunables().clock(100, &task_among(1, Class::Senior, vtime), 100, 0, true);
    let (_, boost) = boosts(1);
    assert_eq!(senior(100 + boost), 100, "its boost is no progress");
    assert_eq!(senior(101 + boost), 101);
    let wrapped = tunables().clock(u64::MAX, &task_among(1, Class::Parallel, 1), 100, 0, true);
    assert_eq!(wrapped, 1, "where vtimes wrap");
}

#[test]
fn threads_start_with_a_phase_side_by_side() {
    let (t, began_ns, base) = (tunables(), 5000 * MS, 100 * MS);
    let group = group(0);
    group.begin(began_ns, base, 0);
    // Of 40 ms that it ran.
    let run_of = |group: &Group, seen, ready_ns, slept, after_ns: i64| {
        let mut run = Run {
            since_ns: 40 * MS,
            ..ALONE
        };
        let now_ns = began_ns.wrapping_add_signed(after_ns);
        run.find_origin(group, seen, ready_ns, slept, now_ns, t.serial_threshold);
        run
    };
    let starts = |seen, ready_ns, after_ms: i64| {
        run_of(&group, seen, ready_ns, true, after_ms * MS as i64).origin == Origin::Phase
    };
    assert!(starts(0, 0, 1), "who wakes up with the others");
    assert!(starts(0, 30 * MS, 30), "who found an idle CPU then");
    assert!(starts(0, 90 * MS, 30), "who ran before, serially");
    assert!(!starts(0, 0, 30), "who comes later");
    assert!(!starts(group.phase(), 0, 1), "who has started");
    assert!(starts(0, 0, 0) && starts(0, 0, -1), "a clock that is behind");
    let serial = Group::default();
    serial.begin(began_ns, base, 0);
    assert_ne!(
        run_of(&serial, 0, 0, true, 0).origin,
        Origin::Phase,
        "its threads sleep again"
    );
    // What it ran before its phase began, or before it slept, counts apart.
    let parts = |run: Run| (run.origin, run.before_ns / MS, run.since_ns / MS);
    let at_first = run_of(&group, 0, 90 * MS, false, 30 * MS as i64);
    assert_eq!(at_first.before_ns + at_first.since_ns, 40 * MS);
    assert!(
        at_first.since_ns.abs_diff(30 * MS) < 65_536,
        "what it ran of its phase: {at_first:?}"
    );
    let slept = run_of(&group, group.phase(), 5 * MS, true, 30 * MS as i64);
    assert_eq!(parts(slept), (Origin::Waking, 35, 5));
    let went_on = run_of(&group, group.phase(), 90 * MS, false, 30 * MS as i64);
    assert_eq!(parts(went_on), (Origin::Charge, 0, 40));
    // Who had to wait ran for less than it was ready.
    let waited = |seen, slept| parts(run_of(&group, seen, 70 * MS, slept, 60 * MS as i64));
    assert_eq!(waited(group.phase(), true), (Origin::Waking, 0, 40));
    assert_eq!(waited(0, false), (Origin::Phase, 0, 40));
    // One is owed 60 ms, another owes 40; when it matters first the clock is 20 ms further.
    let now = base + 20 * MS;
    let run = Run {
        before_ns: 7 * MS,
        since_ns: 3 * MS,
        origin: Origin::Phase,
        ..ALONE
    };
    let at = t.vtime_advance(group.base(now), &run, now, Class::Parallel);
    assert!(
        (base + 3 * MS - at) < 65_536,
        "what it ran since counts, and nothing before: {at}"
    );
    let waking = Run {
        origin: Origin::Waking,
        ..run
    };
    let [owed, owes] = [60 * MS, 140 * MS].map(|vtime| t.vtime_advance(vtime, &waking, now, Class::Parallel));
    assert!(owes - owed > 20 * MS, "as long as the phase may be, without that");
}

#[test]
fn who_found_an_idle_cpu_has_run_and_who_waits_has_not() {
    // Two threads slept while another program ran 20 ms. One found an idle CPU and ran 2 ms, the other waits.
    let (t, now) = (tunables(), 100 * MS);
    let run = |since_ns, origin| Run {
        since_ns,
        origin,
        ..ALONE
    };
    let at = |since_ns| t.vtime_advance(80 * MS, &run(since_ns, Origin::Waking), now, Class::Parallel);
    assert_eq!((at(0), at(2 * MS)), (99 * MS, 101 * MS));
    let ran = task(Class::Parallel, at(2 * MS + 1));
    assert!(t.yields(&ran, &task(Class::Parallel, at(0))));
    let awake = t.vtime_advance(80 * MS, &run(2 * MS, Origin::Charge), now, Class::Parallel);
    assert_eq!(awake, 82 * MS, "who did not sleep keeps its credit");
}

proptest! {
    /// A task is never further from the current vtime than its span, ahead by a boost more if it is senior, behind by what
    /// others are boosted more; one that wakes up has no more credit than the window, or 10 ms if it is serial. Also where
    /// vtime wraps.
    #[test]
    fn vtimes_stay_near_now(
        vtime: u64, now: u64, woke: bool, c in 0usize..4, weight in 1u32..=10_000,
        nr_waiting in prop_oneof![0u32..20, 0u32..100_000],
        serial in 0u64..=1000, senior in 0u64..=500,
    ) {
        let t = Tunables { serial_boost_ns: serial * MS, senior_boost_ns: senior * MS, ..tunables() };
        let (serial, senior) = (t.boost(serial * MS, nr_waiting, BOOST_WHOLE), t.boost(senior * MS, nr_waiting, BOOST_WHOLE));
        let run = Run { weight, nr_waiting, ..ALONE };
        let bound = |vtime| t.vtime_bound(vtime, &run, now, CLASSES[c], woke);
        let after = bound(vtime);
        let from_now = after.wrapping_sub(now) as i64;
        let span = (t.vtime_lag_ns / u64::from(nr_waiting + 1)).max(10 * MS);
        let most = serial.max(senior);
        let (lead, outrun) = match CLASSES[c] {
            Class::Kernel | Class::Serial => (0, most - serial),
            Class::Senior => (senior, most - senior),
            Class::Parallel => (0, most),
        };
        let beyond = |most: u32, ns: u64| ns * u64::from(most) / u64::from(weight.max(most));
        let behind = match (woke, CLASSES[c]) {
            (true, Class::Senior | Class::Parallel) => t.vtime_window_ns,
            (true, _) => beyond(100, 10 * MS) + beyond(1000, outrun),
            (false, _) => beyond(100, span) + beyond(1000, outrun),
        };
        let span = beyond(100, span);
        prop_assert!((-(behind as i64)..=(span + lead) as i64).contains(&from_now));
        prop_assert_eq!(bound(after), after);
    }

    /// Whoever runs moves on: a task at the end of its bounds moves the clock, and so comes to be overtaken, whatever it
    /// weighs and however many wait.
    #[test]
    fn nobody_runs_in_place(
        now: u64, c in 0usize..4, weight in 1u32..=10_000, nr_waiting in prop_oneof![1u32..20, 1u32..100_000],
    ) {
        let run = Run { weight, nr_waiting, ..ALONE };
        let vtime = tunables().vtime_bound(now.wrapping_add(1 << 40), &run, now, CLASSES[c], false);
        let moved = tunables().clock(now, &task_among(nr_waiting, CLASSES[c], vtime), weight, 1, true);
        prop_assert!((moved.wrapping_sub(now) as i64) > 0);
    }
}
