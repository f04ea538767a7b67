// SPDX-License-Identifier: GPL-2.0-only
//! When the timer looks again: often while somebody is due, seldom beside those whose turns are long, never beside nobody.

use proptest::prelude::*;
use threadwise_policy::{
    BOOST_WHOLE, Class, Due, Kick, LOOK_MOST_NS, LOOK_QUIET_NS, Look, ROTATION_CPUS, ROTATION_MARKS,
    ROTATION_QUEUES, Task, Timer, Tunables, look_takes,
};

const MS: u64 = 1_000_000;
const SHORTEST: u64 = MS / 8;

/// What a look found: queues that held somebody and others, whether these were all, and when the first is due.
#[derive(Clone, Copy, Debug)]
struct Found {
    held: u32,
    empty: u32,
    all: bool,
    due_ns: u64,
}

/// All of the queues that may hold something, three, do, with turns that last for long.
const LONG_TURNS: Found = Found {
    held: 3,
    empty: 0,
    all: true,
    due_ns: 90 * MS,
};

/// As many as it looks at, of more.
const SOME: Found = Found {
    held: ROTATION_QUEUES,
    all: false,
    ..LONG_TURNS
};

fn look_at(look: &mut Look, found: Found) {
    look.begin(0, 8);
    (0..found.held).for_each(|_| look.found(true));
    (0..found.empty).for_each(|_| look.found(false));
    look.in_ns = look.in_ns.min(found.due_ns);
    if found.all {
        look.has_all();
    }
}

fn again(look: &mut Look, found: Found, nr_cpus: u32) -> Option<u64> {
    look_at(look, found);
    look.again(SHORTEST, false, nr_cpus)
}

#[test]
fn looks_are_rare_only_where_nobody_at_any_queue_is_due() {
    let mut look = Look::default();
    assert_eq!(again(&mut look, LONG_TURNS, 8), Some(LOOK_QUIET_NS));
    let due = |due_ns| Found { due_ns, ..LONG_TURNS };
    assert_eq!(again(&mut look, due(20 * MS), 8), Some(20 * MS));
    assert_eq!(again(&mut look, due(3 * MS), 8), Some(3 * MS));
    // Four of eight queues at a look: the second has been at as many as there are CPUs.
    assert_eq!(again(&mut look, SOME, 8), Some(LOOK_MOST_NS));
    assert_eq!(again(&mut look, SOME, 8), Some(LOOK_QUIET_NS));
}

#[test]
fn on_more_cpus_than_a_look_sees_one_round_of_the_queues_is_not_enough() {
    let nr_cpus = ROTATION_CPUS as u32;
    assert_eq!(
        again(&mut Look::default(), LONG_TURNS, nr_cpus),
        Some(LOOK_QUIET_NS)
    );
    // Its three queues are all that hold something, but their foremost is compared with sixteen CPUs of seventeen.
    let mut look = Look::default();
    for _ in 0..5 {
        assert_eq!(again(&mut look, LONG_TURNS, nr_cpus + 1), Some(LOOK_MOST_NS));
    }
    assert_eq!(again(&mut look, LONG_TURNS, nr_cpus + 1), Some(LOOK_QUIET_NS));
}

/// After this the timer has to look at all queues again before it may be quiet.
#[test]
fn whoever_may_need_a_look_has_it_before_long() {
    let disturbances: [fn(&mut Look); 5] = [
        Look::disturb,
        Look::expect,
        |look| look.found(false),
        |look| {
            look.again(SHORTEST, true, 32);
        },
        |look| look.in_ns = 2 * MS,
    ];
    for (nth, disturbance) in disturbances.into_iter().enumerate() {
        let mut look = Look::default();
        let quiet = |look: &mut Look| (0..9).find(|_| again(look, SOME, 32) == Some(LOOK_QUIET_NS));
        assert_eq!(quiet(&mut look), Some(7), "disturbance {nth}");
        assert_eq!(quiet(&mut look), Some(0), "disturbance {nth}");
        // Amid a look.
        look_at(&mut look, SOME);
        disturbance(&mut look);
        assert!(
            look.again(SHORTEST, false, 32) <= Some(LOOK_MOST_NS),
            "disturbance {nth}"
        );
        assert_eq!(quiet(&mut look), Some(7), "disturbance {nth}");
    }
    // Between two looks.
    let mut look = Look::default();
    for _ in 0..8 {
        again(&mut look, SOME, 32);
    }
    look.disturb();
    assert_eq!(again(&mut look, SOME, 32), Some(LOOK_MOST_NS));
}

#[test]
fn who_is_queued_is_looked_after_in_a_step_or_after_those_before_it() {
    let task = |class, step_ns, boost_left| Task {
        vtime: 0,
        here_ns: 0,
        class,
        nr_waiting: 0,
        boost_left,
        waits_us: 0,
        step_ns,
    };
    let tun = Tunables {
        serial_turn_ns: 3 * MS,
        ..Tunables::default()
    };
    // The timer runs for long, for somebody who goes before all of these or after them.
    let (first, last) = (0_u64.wrapping_sub(1000 * MS), 1000 * MS);
    let runs = |until_ns, key| Timer {
        until_ns,
        key,
        armed: true,
    };
    let look_for = |task, nr_threads, key| runs(1000 * MS, key).look_for(&task, nr_threads, 0, &tun);
    for class in [Class::Senior, Class::Parallel] {
        let of_step = |step_ns| task(class, step_ns, BOOST_WHOLE);
        assert_eq!(look_for(of_step(MS as u32), 8, last), Some(MS));
        assert_eq!(look_for(of_step(MS as u32), 8, first), Some(LOOK_MOST_NS));
        assert_eq!(look_for(of_step(30 * MS as u32), 8, first), Some(30 * MS));
    }
    // Who is always serial and found no CPU waits for others such, which have their turns. One without a boost goes by its vtime.
    let serial = |boost_left| task(Class::Serial, MS as u32, boost_left);
    assert_eq!(look_for(serial(1), 2, last), Some(3 * MS));
    assert_eq!(look_for(serial(1), 2, first), Some(LOOK_MOST_NS));
    assert_eq!(look_for(serial(1), 3, last), Some(MS));
    assert_eq!(look_for(serial(1), 0, last), Some(MS));
    assert_eq!(look_for(serial(0), 2, last), Some(MS));
    // It looks before that, or before that of one that is not the foremost.
    let soon = |key| runs(MS + MS / 2, key).look_for(&serial(0), 8, 0, &tun);
    assert_eq!((soon(last), soon(first)), (Some(MS), None));
    assert_eq!(runs(MS, last).look_for(&serial(0), 8, 0, &tun), None);
    // Where it does not run anybody is the foremost, whose key it has from then on.
    for (mut timer, key, in_ns) in [
        (
            Timer {
                key: first,
                ..Timer::default()
            },
            0,
            MS,
        ),
        (runs(1000 * MS, last), 0, MS),
        (runs(1000 * MS, first), first, LOOK_MOST_NS),
    ] {
        let parallel = task(Class::Parallel, MS as u32, BOOST_WHOLE);
        assert_eq!(
            (timer.look_for(&parallel, 8, 0, &tun), timer.key),
            (Some(in_ns), key)
        );
    }
}

/// Each tenth of a second those that wait for long go forward once in each queue, of which a look sees a few, or all there are.
#[test]
fn those_that_wait_for_long_go_forward_in_all_queues_each_tenth_of_a_second() {
    let mut look = Look::default();
    let mut aged = |now_ns, nr_queues| {
        look.begin(now_ns, 8);
        let nr = (0..nr_queues).filter(|_| look.ages()).count();
        if nr_queues == 3 {
            look.has_all();
        }
        nr
    };
    assert_eq!(aged(99 * MS, 5), 0);
    assert_eq!([100, 101, 102].map(|ms| aged(ms * MS, 5)), [5, 3, 0]);
    assert_eq!(aged(199 * MS, 5), 0);
    assert_eq!(
        [200, 201].map(|ms| aged(ms * MS, 3)),
        [3, 0],
        "it has been at all"
    );
}

#[test]
fn cpus_that_go_over_look_first_but_not_again_and_again() {
    let mut look = Look::default();
    let early: Vec<bool> = [true, true, true, false, true]
        .into_iter()
        .map(|went_over| look.is_early(went_over))
        .collect();
    assert_eq!(early, [true, false, true, false, true]);
    // Those that go over amid a look are followed in the shortest step.
    look_at(&mut look, LONG_TURNS);
    assert_eq!(look.again(SHORTEST, true, 8), Some(SHORTEST));
}

#[test]
fn marks_over_empty_queues_do_not_keep_the_timer_running() {
    let mut look = Look::default();
    let nobody = |empty, all| Found {
        held: 0,
        empty,
        all,
        due_ns: 90 * MS,
    };
    let nobody_in = |look: &mut Look, found, nr_cpus| (again(look, found, nr_cpus), look.saw_nobody(nr_cpus));
    // Nobody waits where nothing is marked; a mark may be a moment before whoever is queued.
    assert_eq!(again(&mut look, nobody(0, true), 8), None);
    let empty = |look: &mut Look| nobody_in(look, nobody(3, true), 8);
    let (first, second) = ((Some(SHORTEST), false), (Some(LOOK_MOST_NS), true));
    assert_eq!(empty(&mut look), first);
    assert_eq!(
        empty(&mut look),
        second,
        "nobody is said to wait, and it makes sure"
    );
    assert_eq!(empty(&mut look).0, None);
    // Somebody who comes has them looked at anew.
    assert_eq!(empty(&mut look), first);
    look.expect();
    assert_eq!(empty(&mut look), first);
    assert_eq!(empty(&mut look), second);
    assert_eq!(
        nobody_in(&mut look, LONG_TURNS, 8),
        (Some(LOOK_QUIET_NS), false),
        "it came late"
    );
    // Where there are more than it looked at it goes on at once, as often as it takes to see them all.
    let nr_cpus = 8 * ROTATION_MARKS as u32;
    for _ in 0..9 {
        assert_eq!(nobody_in(&mut look, nobody(17, false), nr_cpus), first);
    }
    assert_eq!(nobody_in(&mut look, nobody(17, false), nr_cpus), second);
    assert_eq!(nobody_in(&mut look, nobody(17, false), nr_cpus).0, None);
}

#[test]
fn the_timer_is_started_if_it_does_not_look_in_time() {
    // Until when it was started, and how soon it is to look: whether it is started, whether only if it runs.
    for (armed, until_ns, in_ns, starts, hastens) in [
        (false, 101 * MS, MS, true, false),
        (true, 101 * MS, MS, false, false),
        (true, 101 * MS + 1, MS, true, true),
        (true, 100 * MS + 1, 0, true, true),
        (true, 100 * MS, 0, false, false),
        // Late, as hosts and interrupts make it, and lost.
        (true, 92 * MS, 0, false, false),
        (true, 92 * MS - 1, 0, true, false),
        (true, 92 * MS - 1, LOOK_QUIET_NS, true, false),
    ] {
        let what = (armed, until_ns, in_ns);
        let timer = Timer {
            until_ns,
            key: 0,
            armed,
        };
        assert_eq!(timer.starts(100 * MS, in_ns), starts, "{what:?}");
        assert_eq!(timer.hastens(100 * MS, in_ns), hastens, "{what:?}");
        let is_lost = until_ns < 92 * MS;
        assert_eq!(timer.stopped(100 * MS), !armed || is_lost, "{what:?}");
    }
}

/// A task of this class and vtime, which steps by a millisecond.
fn task(class: Class, vtime: u64) -> Task {
    Task {
        vtime,
        here_ns: 0,
        class,
        nr_waiting: 1,
        boost_left: BOOST_WHOLE,
        waits_us: 0,
        step_ns: MS as u32,
    }
}

/// One CPU for each queue that holds somebody; the first of a class that does not find out by itself is sent.
#[test]
fn as_many_cpus_are_kicked_as_queues_hold_somebody_and_one_is_sent() {
    let mut look = Look::default();
    for (kicks, done) in [
        (vec![], vec![]),
        (vec![(Due::Later, true)], vec![Kick::AndSend]),
        (
            vec![
                (Due::Same, false),
                (Due::Earlier, true),
                (Due::Same, true),
                (Due::Later, true),
            ],
            vec![Kick::Kick, Kick::Kick, Kick::AndSend, Kick::Kick],
        ),
    ] {
        look.begin(0, 8);
        kicks.iter().for_each(|_| look.waits());
        let of_all: Vec<Kick> = kicks
            .iter()
            .map(|&(due, foremost)| look.kick(due, foremost))
            .collect();
        assert_eq!(of_all, done);
        assert_eq!(look.kick(Due::Later, true), Kick::Not);
    }
}

/// And for nobody but these does it look again soon.
#[test]
fn who_is_due_and_is_not_kicked_hastens_no_look() {
    let (tun, mut look) = (Tunables::default(), Look::default());
    let (running, waiting) = (task(Class::Parallel, 10 * MS), task(Class::Parallel, 5 * MS));
    look.begin(0, 8);
    assert_eq!(look.due(&running, &waiting, 0, &tun), None);
    assert_eq!(look.in_ns, LOOK_QUIET_NS);
    assert_eq!(look.due(&running, &waiting, 3 * MS, &tun), None);
    assert_eq!(look.in_ns, 3 * MS);
    look.waits();
    assert_eq!(look.due(&running, &waiting, 0, &tun), Some(Due::Same));
    assert_eq!(look.in_ns, MS);
    let serial = task(Class::Serial, 5 * MS);
    assert_eq!(look.due(&running, &serial, 0, &tun), Some(Due::Later));
    assert_eq!(look.due(&serial, &waiting, 0, &tun), Some(Due::Earlier));
}

#[test]
fn what_looks_take_is_a_mean() {
    let after = |looks: &[u64]| looks.iter().fold(0, |mean, &took_ns| look_takes(mean, took_ns));
    assert!((39_900..=40_000).contains(&after(&[40_000; 150])));
    // Clocks may advance in steps that are longer than a look.
    let stepping: Vec<u64> = (0..600)
        .map(|look| if look % 4 == 0 { 160_000 } else { 0 })
        .collect();
    assert!(
        (30_000..50_000).contains(&after(&stepping)),
        "{}",
        after(&stepping)
    );
    // One during which a hypervisor stopped the CPU says little.
    assert_eq!(after(&[0, u64::MAX]), MS / 16);
}

proptest! {
    #[test]
    fn while_somebody_waits_it_looks_and_in_bounded_time(
        looks in prop::collection::vec((1..=ROTATION_QUEUES, 0..=13_u32, any::<bool>(), 1..200 * MS), 1..40),
        nr_cpus in 1..200_u32,
    ) {
        let mut look = Look::default();
        for (held, empty, all, due_ns) in looks {
            let in_ns = again(&mut look, Found { held, empty, all, due_ns }, nr_cpus);
            prop_assert!(in_ns.is_some_and(|in_ns| in_ns <= due_ns.min(LOOK_QUIET_NS)));
            prop_assert!(empty == 0 || in_ns <= Some(LOOK_MOST_NS));
        }
    }
}
