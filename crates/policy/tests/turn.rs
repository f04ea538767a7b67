// SPDX-License-Identifier: GPL-2.0-only
//! A turn ends with its boost, so that programs in phases without an end have turns, and CPUs by weight, wherever they begin.

use proptest::prelude::*;
use threadwise_policy::{BOOST_WHOLE, CAPACITY_ONE, Class, Group, Task, Tunables, Waiting, vtime_charge};

const MS: u64 = 1_000_000;

/// A phase as old as those that have no end.
const LONG: u64 = 300 * MS;

fn task(class: Class, vtime: u64, nr_waiting: u32) -> Task {
    Task {
        vtime,
        here_ns: 0,
        class,
        nr_waiting,
        boost_left: BOOST_WHOLE,
        waits_us: 0,
        step_ns: MS as u32,
    }
}

/// A program of eight threads on eight CPUs, which are alike, so that one vtime says where all are.
#[derive(Debug)]
struct Program {
    group: Group,
    vtime: u64,
    weight: u32,
    ran_ns: u64,
    /// How often it became senior.
    nr_turns: u32,
}

impl Program {
    fn new(vtime: u64, lost_ns: u64, weight: u32) -> Self {
        let group = Group::default();
        (0..8).for_each(|_| assert!(group.add() > 0));
        group.lose((lost_ns >> 10) as u32);
        Self {
            group,
            vtime,
            weight,
            ran_ns: 0,
            nr_turns: 0,
        }
    }

    fn run(&mut self, ns: u64) {
        self.vtime = vtime_charge(self.vtime, ns, self.weight, CAPACITY_ONE);
        self.ran_ns += ns;
    }

    fn wait(&self, ns: u64) {
        let waiting = Waiting {
            waited_ns: ns,
            weight: self.weight,
            nr_ready: 8,
            nr_threads: 8,
            nr_cpus: 8,
        };
        (0..8).for_each(|_| self.group.lose(waiting.loss()));
    }
}

/// Lets programs that never end their phases compete for so many milliseconds, the first of them senior. Whose task is due to make way
/// shares the CPUs with the other, or its turn ends. Says for how long they shared them.
fn compete(programs: &mut [Program], boosts_end_turns: bool, nr_ms: u64) -> u64 {
    let (tun, mut senior, mut shared_ms) = (Tunables::default(), 0, 0);
    let nr_waiting = programs.len() as u32 - 1;
    for _ in 0..nr_ms {
        // The other whose task is first in each queue.
        let others = (0..programs.len()).filter(|&other| other != senior);
        let next = others.min_by_key(|&other| programs[other].vtime).unwrap();
        let [first, second] = [(senior, Class::Senior), (next, Class::Parallel)]
            .map(|(program, class)| task(class, programs[program].vtime, nr_waiting));
        let is_due = tun.due_in(&first, &second) == 0;
        let mut becomes = None;
        if is_due && boosts_end_turns && tun.is_used_up(&first, &second, LONG) {
            programs[senior].group.end_turn_for(&programs[next].group, &tun);
            becomes = Some(next);
        }
        let on_cpus = match (is_due, becomes) {
            (true, None) => vec![senior, next],
            (_, becomes) => vec![becomes.unwrap_or(senior)],
        };
        shared_ms += u64::from(on_cpus.len() == 2);
        for (index, program) in programs.iter_mut().enumerate() {
            let part = MS / on_cpus.len() as u64;
            if on_cpus.contains(&index) {
                program.run(part);
                program.wait(MS - part);
            } else {
                program.wait(MS);
            }
        }
        let place = becomes.unwrap_or(senior);
        let claims = |&other: &usize| {
            other != place && programs[other].group.claims(Some(&programs[place].group), &tun)
        };
        let then = (0..programs.len()).find(claims).unwrap_or(place);
        if then != senior {
            programs[then].nr_turns += 1;
        }
        senior = then;
    }
    shared_ms
}

#[test]
fn no_turn_lasts_for_ever_because_its_boost_does_not() {
    // As they were found in the lab: the senior program is a boost ahead, and has lost 40 ms more.
    let begin = || {
        [
            Program::new(1102 * MS, 1040 * MS, 100),
            Program::new(1000 * MS, 1000 * MS, 100),
        ]
    };
    let mut stuck = begin();
    let shared_ms = compete(&mut stuck, false, 10_000);
    assert_eq!(
        (shared_ms, stuck[1].nr_turns),
        (10_000, 0),
        "both are on the CPUs for ever"
    );
    let mut programs = begin();
    assert_eq!(compete(&mut programs, true, 10_000), 0);
    assert!(
        programs.iter().all(|program| program.nr_turns > 50),
        "{programs:?}"
    );
}

#[test]
fn only_long_phases_have_a_turn_end_with_its_boost() {
    let tun = Tunables::default();
    let used_up = |senior, waiting, age_ns| tun.is_used_up(&task(senior, 0, 1), &task(waiting, 0, 1), age_ns);
    assert!(used_up(Class::Senior, Class::Parallel, LONG));
    assert!(
        !used_up(Class::Senior, Class::Parallel, LONG - 1),
        "that may end by itself"
    );
    for class in [Class::Kernel, Class::Serial, Class::Senior] {
        assert!(!used_up(Class::Senior, class, LONG), "{class:?}");
    }
    for class in [Class::Kernel, Class::Serial, Class::Parallel] {
        assert!(!used_up(class, Class::Parallel, LONG), "{class:?}");
    }
    let beside = |of_senior, of_waiting, boost_left| {
        let waiting = Task {
            boost_left,
            ..task(Class::Parallel, 0, of_waiting)
        };
        tun.is_used_up(&task(Class::Senior, 0, of_senior), &waiting, LONG)
    };
    assert!(beside(10, 1, BOOST_WHOLE) && beside(1, 10, BOOST_WHOLE));
    assert!(
        !beside(11, 1, BOOST_WHOLE) && !beside(1, 11, BOOST_WHOLE),
        "no boost is left among many"
    );
    assert!(
        !beside(1, 1, BOOST_WHOLE / 11),
        "nor beside a crowd of serial tasks"
    );
}

/// The share of each of these programs that begin side by side.
fn shares(weights: &[u32], boosts_end_turns: bool) -> Vec<f64> {
    let mut programs: Vec<Program> = weights
        .iter()
        .map(|&weight| Program::new(1000 * MS, 1000 * MS, weight))
        .collect();
    compete(&mut programs, boosts_end_turns, 60_000);
    programs
        .iter()
        .map(|program| program.ran_ns as f64 / (60_000 * MS) as f64)
        .collect()
}

#[test]
fn programs_share_by_weight_however_many_they_are() {
    for weights in [
        &[100, 50][..],
        &[100, 20],
        &[300, 100],
        &[100, 100, 50],
        &[300, 300, 100],
        &[195, 195, 100],
        &[100, 20, 20],
        &[100, 100, 100, 100],
        &[50, 100, 100, 200, 100],
        &[100; 8],
    ] {
        let sum: u32 = weights.iter().sum();
        for (share, &weight) in shares(weights, true).iter().zip(weights) {
            let due = f64::from(weight) / f64::from(sum);
            assert!(
                (share - due).abs() < 0.15 * due,
                "{weights:?}: {share}, {due} is due"
            );
        }
    }
}

proptest! {
    /// However far two programs' vtimes and losses lie apart, each has its turns, they share by weight, and never at a time.
    #[test]
    fn two_programs_have_turns_wherever_they_begin(
        lead in -100i64..=200, lost_more in -150i64..=150,
        weight in prop::sample::select(vec![20u32, 33, 50, 100, 200, 300]),
    ) {
        let vtime = (1_000 * MS).wrapping_add_signed(lead * MS as i64);
        let lost = (1_000 * MS).wrapping_add_signed(lost_more * MS as i64);
        let mut programs = [Program::new(vtime, lost, 100), Program::new(1_000 * MS, 1_000 * MS, weight)];
        let shared_ms = compete(&mut programs, true, 20_000);
        prop_assert_eq!(shared_ms, 0);
        let [first, second] = &programs;
        prop_assert!(first.nr_turns > 10 && second.nr_turns > 10, "{:?}", programs);
        let share = second.ran_ns as f64 / (first.ran_ns + second.ran_ns) as f64;
        let due = f64::from(weight) / (100.0 + f64::from(weight));
        prop_assert!((share - due).abs() < 0.05, "{}, {} is its part", share, due);
    }

    /// Whose turn ends has lost half a turn less than who follows, and a little: it waits for a whole turn, and claims nothing now.
    #[test]
    fn who_makes_way_waits_for_a_turn(lost: u32, more in -1_000_000i32..1_000_000) {
        let tun = Tunables::default();
        let of = |lost| {
            let group = Group::default();
            (0..3).for_each(|_| assert!(group.add() > 0));
            group.lose(lost);
            group
        };
        let (senior, other) = (of(lost.wrapping_add_signed(more)), of(lost));
        senior.end_turn_for(&other, &tun);
        let half = (tun.senior_turn_ns >> 11) as i32;
        let less = other.lost().wrapping_sub(senior.lost()) as i32;
        prop_assert!(less > half, "{} more", -less);
        prop_assert!(less == half + 1 || senior.lost() == lost.wrapping_add_signed(more), "no more than needed");
        prop_assert!(!senior.claims(Some(&other), &tun));
    }
}
