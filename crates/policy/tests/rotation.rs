// SPDX-License-Identifier: GPL-2.0-only
//! When a task that runs makes way for one that waits: in steps, by turns, or not before its slice is over.

mod common;

use proptest::prelude::*;
use threadwise_policy::{Beside, Class, Task, Tunables, goes_on_until_due, here_ns, longer_look};

use common::{CLASSES, MS, task, task_among, tunables};

#[test]
fn steps_grow_with_the_phase_and_with_what_a_look_takes() {
    let tun = tunables();
    let us = |class, age_us: u64, look_us: u64| tun.step(class, age_us * 1000, look_us * 1000) / 1000;
    let [least, most] = [125, tun.rotate_ns / 1000];
    for class in [Class::Senior, Class::Parallel] {
        assert_eq!((us(class, 0, 0), us(class, 10_000_000, 5)), (least, most));
        // Looks take a third of the time at most.
        assert_eq!((us(class, 0, 100), us(class, 0, 1_000)), (300, 3_000));
        let mut before = 0;
        for age_us in (0..50).map(|n| n * n * 40) {
            let step_us = us(class, age_us, 5);
            assert!(step_us >= before);
            before = step_us;
            // Half a step lost at a phase's end, and a look and a move for each.
            let best = ((15 * age_us) as f64).sqrt();
            let as_set = [least, most].contains(&step_us);
            assert!(
                as_set || (0.8..1.25).contains(&(step_us as f64 / best)),
                "{step_us} after {age_us}"
            );
        }
    }
    assert_eq!(us(Class::Serial, 0, 0), most);
    // Who set a step as short as that has it.
    let short = Tunables {
        rotate_ns: 100_000,
        ..tun
    };
    assert_eq!(short.step(Class::Parallel, 10 * MS, 0), 100_000);
    // The largest there are.
    let long = Tunables {
        rotate_ns: 1_000 * MS,
        ..tun
    };
    assert!((25 * MS..50 * MS).contains(&long.step(Class::Parallel, u64::MAX, MS)));
    assert!((5 * MS..10 * MS).contains(&long.step(Class::Parallel, u64::MAX, 40_000)));
    // Where looks take long steps grow beyond what is set, to sixteen of them.
    assert_eq!(tun.step(Class::Parallel, u64::MAX, MS / 20), tun.rotate_ns);
    assert_eq!(tun.step(Class::Parallel, u64::MAX, MS), 16 * MS);
    assert!(us(Class::Parallel, 2_000, 5) > least);
    // Two go by the longer of their steps.
    let at = |vtime, step_ns| Task {
        step_ns,
        ..task(Class::Parallel, vtime)
    };
    assert_eq!(tun.due_in(&at(0, 125_000), &at(0, 125_000)), 125_001);
    assert_eq!(tun.due_in(&at(0, 125_000), &at(0, 300_000)), 300_001);
    assert_eq!(tun.due_in(&at(0, 300_000), &at(0, 125_000)), 300_001);
    assert_eq!(tun.due_in(&at(125_001, 125_000), &at(0, 125_000)), 0);
    assert_eq!(tun.look_in(&at(0, 125_000), &at(0, 125_000), 0), 125_000);
}

#[test]
fn a_serial_task_has_a_turn_beside_other_serial_ones() {
    let tun = tunables();
    let waiting = |class| task(class, 0);
    let running = |class, here_ns| Task {
        here_ns,
        ..task(class, tunables().rotate_ns + 1)
    };
    let turn = tun.serial_turn_ns;
    for (here_ns, left) in
        [(0, turn), (turn - 1, 1), (turn, 0), (u64::MAX, 0)].map(|(ago_ns, left)| (here_ns(ago_ns), left))
    {
        let (running, waiting) = (running(Class::Serial, here_ns), waiting(Class::Serial));
        assert_eq!(tun.due_in(&running, &waiting), left);
        assert_eq!(tun.yields(&running, &waiting), left == 0);
        assert_eq!(tun.preempts(&waiting, &running), left == 0);
    }
    // Who is owed two turns has one after a step.
    let ahead = |vtime, ago_ns| Task {
        here_ns: here_ns(ago_ns),
        ..task(Class::Serial, vtime)
    };
    let preempts = |vtime, ago_ns| tun.preempts(&waiting(Class::Serial), &ahead(vtime, ago_ns));
    assert!(!preempts(2 * turn, tun.rotate_ns) && preempts(2 * turn + 1, tun.rotate_ns));
    assert!(!preempts(100 * turn, tun.rotate_ns - 1));
    assert_eq!(tun.slice_of(Class::Serial, 1000), turn);
    assert_eq!(tun.slice_of(Class::Parallel, 1000), tun.slice_ns);
    // Looks that take long leave either their part of the time.
    assert_eq!(tun.slice_of(Class::Parallel, tun.slice_ns), 16 * tun.slice_ns);
    assert_eq!(tun.slice_of(Class::Serial, turn), 16 * turn);
    assert_eq!(tun.slice_of(Class::Serial, turn / 20), turn);
    assert_eq!([longer_look(3, 2), longer_look(2, 3)], [3, 3]);
    let both = |class, due_ns| tun.look_in(&task(class, 0), &task(Class::Serial, 0), due_ns);
    assert_eq!(
        (both(Class::Serial, 0), both(Class::Serial, 2 * turn)),
        (turn, 2 * turn)
    );
    assert_eq!(
        (both(Class::Parallel, 0), both(Class::Parallel, turn)),
        (tun.rotate_ns, turn)
    );
    // Who made way for another takes its CPU from none of its kind.
    let may_take = |of, wakes| tun.may_take(Class::Serial, of, wakes, 0);
    assert!(may_take(Class::Serial, true) && !may_take(Class::Serial, false));
    assert!(
        may_take(Class::Parallel, true) && may_take(Class::Parallel, false) && !may_take(Class::Kernel, true)
    );
    // Nor does one that wakes up from a thread of its own class and program, if that can be parallel at all.
    let from_its_own = |of, nr_threads| tun.may_take(Class::Serial, of, true, nr_threads);
    assert!(!from_its_own(Class::Serial, 3) && from_its_own(Class::Parallel, 3));
    assert!(from_its_own(Class::Serial, 2));
    // Who is ahead by less than a step of the rotation goes on after its turn too.
    assert_eq!(
        tun.due_in(&task(Class::Serial, 0), &waiting(Class::Serial)),
        tun.rotate_ns + 1
    );
    // It is for serial tasks beside each other only.
    let came = |class| Task {
        here_ns: 0,
        ..task(class, 500 * MS)
    };
    assert!(tun.preempts(&waiting(Class::Serial), &came(Class::Parallel)));
    assert!(tun.yields(&came(Class::Parallel), &waiting(Class::Parallel)));
    assert!(tun.yields(&came(Class::Serial), &waiting(Class::Parallel)));
}

#[test]
fn who_came_long_ago_is_not_taken_for_one_that_just_came() {
    let turn_ns = tunables().serial_turn_ns;
    for ago_ns in [turn_ns, 1 << 32, (1 << 40) + 5, u64::MAX] {
        assert!(u64::from(here_ns(ago_ns)) >= turn_ns, "{ago_ns}");
    }
}

/// Threads of a program that share the only CPU that they may use reach their barrier no sooner by short steps.
#[test]
fn who_is_bound_to_a_cpu_rotates_by_turns() {
    let tun = tunables();
    let (short, turn) = (
        tun.step(Class::Parallel, 10 * MS, 0) as u32,
        tun.serial_turn_ns as u32,
    );
    assert!(short < turn);
    let of = |class, step_ns| Task {
        step_ns,
        ..task(class, 0)
    };
    let step_beside = |running: &Task, of_one_program, both_bound| {
        let mut running = *running;
        let beside = Beside {
            running_bound: both_bound,
            waiting_bound: true,
            of_one_program,
        };
        let waiting = task(running.class, 0);
        tun.makes_way_in(&mut running, &waiting, beside);
        running.step_ns
    };
    for class in [Class::Senior, Class::Parallel] {
        assert_eq!(step_beside(&of(class, short), true, true), turn);
        let long = of(class, 16 * MS as u32);
        assert_eq!(
            step_beside(&long, true, true),
            long.step_ns,
            "where looks take long"
        );
        // The barrier may be reached sooner if one of them runs elsewhere, and others meet at none.
        assert_eq!(step_beside(&of(class, short), true, false), short);
        assert_eq!(step_beside(&of(class, short), false, true), short);
    }
    // These have their turns by when they came.
    assert_eq!(step_beside(&of(Class::Serial, short), true, true), short);
}

#[test]
fn who_is_alone_is_left_alone() {
    let slices = |look_ns| [true, false].map(|others_wait| tunables().slice(others_wait, false, look_ns));
    assert_eq!(slices(0), [MS, 20 * MS]);
    // Looks take no more than a sixteenth of it.
    assert_eq!(slices(MS / 20), [MS, 20 * MS]);
    assert_eq!(slices(MS / 2), [8 * MS, 20 * MS]);
    assert_eq!(slices(MS), [16 * MS, 20 * MS]);
    // Unless there is a faster CPU to look for.
    assert_eq!(tunables().slice(false, true, 0), MS);
    assert!(goes_on_until_due(MS, false) && !goes_on_until_due(0, false) && !goes_on_until_due(MS, true));
    // Beside others until they are due, which is later for who is heavier; looked at neither all the time nor never.
    for (class, due_ns, weight, slice_ns) in [
        (Class::Serial, 0, 100, MS),
        (Class::Parallel, MS / 2, 100, MS),
        (Class::Senior, 7 * MS, 100, 7 * MS),
        (Class::Senior, 7 * MS, 200, 14 * MS),
        (Class::Parallel, 7 * MS, 50, 3 * MS + MS / 2),
        (Class::Serial, 7 * MS, 1, MS),
        (Class::Serial, 2_000 * MS, 10_000, 20 * MS),
        (Class::Parallel, 50 * MS, 100, 20 * MS),
        (Class::Senior, 50 * MS, 100, 50 * MS),
        (Class::Senior, 2_000 * MS, 10_000, 60 * MS),
    ] {
        assert_eq!(
            tunables().slice_beside(class, due_ns, weight),
            slice_ns,
            "{class:?} {due_ns} {weight}"
        );
    }
    let longer = Tunables {
        slice_ns: 100 * MS,
        ..tunables()
    };
    assert_eq!(longer.slice_beside(Class::Serial, 30 * MS, 100), 100 * MS);
    // Nor is what is set cut short where nobody is due before that.
    assert_eq!(
        [true, false].map(|others_wait| longer.slice(others_wait, false, 0)),
        [100 * MS; 2]
    );
    for class in [Class::Serial, Class::Senior] {
        assert_eq!(longer.slice_beside(class, 200 * MS, 100), 100 * MS, "{class:?}");
    }
}

#[test]
fn threads_rotate_in_steps_and_the_senior_program_has_a_turn() {
    let waiting = task(Class::Parallel, 1000 * MS);
    let due_in = |class, vtime| tunables().due_in(&task(class, vtime), &waiting);
    let yields = |class, vtime| tunables().yields(&task(class, vtime), &waiting);
    assert!(!yields(Class::Parallel, 1001 * MS));
    assert!(yields(Class::Parallel, 1002 * MS), "a step of the rotation");
    assert_eq!(due_in(Class::Parallel, 998 * MS), 3 * MS + 1);
    assert_eq!(due_in(Class::Parallel, 1001 * MS + 1), 0);
    // Behind another cache it waits a step longer.
    let across = task(Class::Parallel, tunables().vtime_seen(&waiting, None, true));
    assert!(!tunables().yields(&task(Class::Parallel, 1002 * MS), &across));
    assert!(tunables().yields(&task(Class::Parallel, 1003 * MS), &across));
    assert!(!yields(Class::Senior, 1101 * MS));
    assert!(yields(Class::Senior, 1102 * MS), "its boost is used up");
}

proptest! {
    /// Nobody yields to a task that is behind it in order, so that two tasks never swap back and forth.
    #[test]
    fn yielding_is_asymmetric(
        a: u64, lead in 0u64..1 << 40, ca in 1usize..4, cb in 1usize..4, na in 0u32..100, nb in 0u32..100,
    ) {
        let (x, y) = (task_among(na, CLASSES[ca], a), task_among(nb, CLASSES[cb], a.wrapping_add(lead)));
        let t = tunables();
        prop_assert!(!(t.yields(&x, &y) && t.yields(&y, &x)));
        prop_assert!(!(t.goes_first(&x, &y) && t.goes_first(&y, &x)));
    }
}
