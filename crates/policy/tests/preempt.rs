// SPDX-License-Identifier: GPL-2.0-only
//! Who takes the CPU of a task that runs.

mod common;

use std::cmp::Ordering;

use proptest::prelude::*;
use threadwise_policy::{
    Beside, CAPACITY_ONE, Class, Due, Origin, Run, Task, Tunables, follows_senior, here_ns, makes_room,
    may_preempt, passed_over, runs_at_once, victim_scan, vtime_most,
};

use common::{ALONE, CLASSES, MS, task, task_among, tunables};

#[test]
fn whoever_is_due_is_due_beside_one_of_a_class() {
    let due = |running, waiting, in_ns| Due::of(&task(running, 0), &task(waiting, 0), in_ns);
    assert_eq!(due(Class::Parallel, Class::Serial, 1), None);
    assert_eq!(due(Class::Parallel, Class::Serial, 0), Some(Due::Later));
    assert_eq!(due(Class::Senior, Class::Senior, 0), Some(Due::Same));
    assert_eq!(due(Class::Serial, Class::Parallel, 0), Some(Due::Earlier));
}

#[test]
fn a_serial_task_makes_way_at_once_for_who_may_go_nowhere_else() {
    let tun = tunables();
    let in_ns = |class, running_bound, waiting_bound| {
        let beside = Beside {
            running_bound,
            waiting_bound,
            of_one_program: false,
        };
        tun.makes_way_in(&mut task(class, 0), &task(class, 0), beside)
    };
    assert_eq!(in_ns(Class::Serial, false, true), 0);
    let turn = tun.due_in(&task(Class::Serial, 0), &task(Class::Serial, 0));
    for (class, running_bound, waiting_bound, expected) in [
        (Class::Serial, false, false, turn),
        (Class::Serial, true, true, turn),
        (
            Class::Parallel,
            false,
            true,
            tun.due_in(&task(Class::Parallel, 0), &task(Class::Parallel, 0)),
        ),
    ] {
        assert_eq!(in_ns(class, running_bound, waiting_bound), expected, "{class:?}");
        assert!(expected > 0);
    }
}

#[test]
fn only_parallel_tasks_make_way_for_a_new_senior_program_at_once() {
    for class in [Class::Kernel, Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(follows_senior(class), class == Class::Parallel, "{class:?}");
    }
}

#[test]
fn only_serial_tasks_search_for_a_cpu_to_take_and_not_for_long() {
    assert_eq!(
        [1, 8, 64, 1024].map(|nr_cpus| victim_scan(Class::Serial, nr_cpus)),
        [1, 8, 64, 64]
    );
    for class in [Class::Kernel, Class::Senior, Class::Parallel] {
        assert_eq!(victim_scan(class, 1024), 1, "{class:?}");
    }
    assert_eq!(CLASSES.map(may_preempt), [true, true, true, false]);
    assert_eq!(CLASSES.map(runs_at_once), [true, false, false, false]);
}

#[test]
fn only_bound_tasks_turn_a_serial_one_out() {
    for class in [Class::Kernel, Class::Serial, Class::Senior, Class::Parallel] {
        let running = task(class, 0);
        assert_eq!(makes_room(&running, false, true), class == Class::Serial);
        assert!(!makes_room(&running, true, true), "both may go nowhere else");
        assert!(!makes_room(&running, false, false));
    }
    // As they wake up they do so at once, but not again and again.
    let tun = tunables();
    let here_for = |class, here_ns| Task {
        here_ns,
        ..task(class, 0)
    };
    let step_ns = tun.rotate_ns as u32;
    let serial = here_for(Class::Serial, step_ns);
    assert!(tun.turns_out(&serial, false, true));
    assert!(!tun.turns_out(&here_for(Class::Serial, step_ns - 1), false, true));
    assert!(!tun.turns_out(&serial, false, false) && !tun.turns_out(&serial, true, true));
    assert!(!tun.turns_out(&here_for(Class::Parallel, step_ns), false, true));
}

proptest! {
    /// A task preempts only what is of a later class and behind it, and a serial one another that is due to make way for it.
    #[test]
    fn nobody_preempts_upwards(a: u64, b: u64, ca in 1usize..4, cb in 1usize..4, na in 0u32..100, nb in 0u32..100) {
        let (waking, running) = (task_among(na, CLASSES[ca], a), task_among(nb, CLASSES[cb], b));
        let preempts = match ca.cmp(&cb) {
            Ordering::Less => tunables().goes_first(&waking, &running),
            Ordering::Equal => ca == 1 && tunables().due_in(&running, &waking) == 0,
            Ordering::Greater => false,
        };
        prop_assert_eq!(tunables().preempts(&waking, &running), preempts);
    }

    /// A vtime brought up to date is not beyond what is said without bringing it up to date, and so a serial task that surely
    /// goes on is not preempted by a serial one, whatever a closer look finds. Where its turn has begun and nobody is owed much
    /// that is sure.
    #[test]
    fn who_surely_stays_is_not_preempted(
        now: u64, apart in prop_oneof![-20i64..20, -1000i64..1000], ahead in -1000i64..1000, before in 0u64..200 * MS,
        since in prop_oneof![0..MS, 0..200 * MS],
        weight in 1u32..=10_000, capacity in 100u32..=CAPACITY_ONE, here in 0u64..200 * MS, woke: bool, unboosted in 0u32..2,
        nr in 0u32..20, nr_beside in 0u32..20,
    ) {
        let tun = tunables();
        let from = |ms: i64| now.wrapping_add_signed(ms * MS as i64);
        let origin = if woke { Origin::Waking } else { Origin::Charge };
        let run = Run { before_ns: before, since_ns: since, weight, capacity, nr_waiting: nr, origin, unboosted, ..ALONE };
        let left = if unboosted == 0 { run.boost_left } else { 0 };
        let at = |vtime| Task { here_ns: here_ns(here), boost_left: left, ..task_among(nr, Class::Serial, vtime) };
        let (running, most) = (
            at(tun.vtime_advance(from(apart), &run, now, Class::Serial)),
            at(vtime_most(from(apart), &run, now)),
        );
        prop_assert!(most.vtime.wrapping_sub(running.vtime) as i64 >= 0);
        let waking = task_among(nr_beside, Class::Serial, from(ahead));
        let stays = tun.surely_stays(&most, &waking);
        prop_assert!(!stays || !tun.preempts(&waking, &running));
        let owed = most.vtime.wrapping_sub(waking.vtime) as i64;
        let turn_ns = if owed > 2 * tun.serial_turn_ns as i64 { tun.rotate_ns } else { tun.serial_turn_ns };
        prop_assert_eq!(stays, here < turn_ns);
        // Who came within a step goes on whoever wakes up.
        prop_assert_eq!(tun.just_came(here), here < tun.rotate_ns);
        let is_taken = tun.preempts(&waking, &running) || tun.turns_out(&running, false, true);
        prop_assert!(!tun.just_came(here) || !is_taken);
    }

    /// While a CPU is passed over, neither the serial task that was seen there nor one that came later is taken by a serial one
    /// that wakes up; afterwards, beside a parallel program, and for who is of another class, CPUs are looked at.
    #[test]
    fn who_is_passed_over_would_not_be_taken(
        now in 1u64 << 40..1 << 60, here in 0u64..3 * MS, later in 0u64..3 * MS, came_later in 0u64..3 * MS,
        owed in 0i64..1000, parallel in 0u32..2, class in 0usize..4, turn in 0u64..3 * MS,
        was_free: bool,
    ) {
        let tun = Tunables { serial_turn_ns: turn, ..tunables() };
        let then = now + later;
        // A serial task was there, or none of ours, and then only what came since counts.
        let seen = if was_free { (Class::Kernel, 0) } else { (Class::Serial, here) };
        let (until, here) = (tun.stays_until(seen.0, seen.1, now), seen.1);
        let arrived = (now - here + came_later).min(then);
        let running = Task { here_ns: here_ns(then - arrived), ..task_among(1, Class::Serial, then) };
        let waking = task_among(1, Class::Serial, then.wrapping_sub(owed as u64 * MS));
        let is_taken = tun.preempts(&waking, &running) || tun.turns_out(&running, false, true);
        let is = passed_over(Class::Serial, until, 0, then);
        prop_assert!(!is || !is_taken);
        prop_assert_eq!(is, here + later < tun.rotate_ns.min(turn));
        prop_assert!(!passed_over(Class::Serial, until, parallel + 1, then));
        prop_assert_eq!(passed_over(CLASSES[class], until, 0, then), is && CLASSES[class] == Class::Serial);
        for class in [Class::Senior, Class::Parallel] {
            prop_assert!(!passed_over(Class::Serial, tun.stays_until(class, here, now), 0, then));
        }
    }
}
