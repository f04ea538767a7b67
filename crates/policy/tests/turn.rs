// SPDX-License-Identifier: GPL-2.0-only
//! A turn ends with its boost, so that programs in phases without an end have turns, and CPUs by weight, wherever they begin.

use proptest::prelude::*;
use threadwise_policy::{
    Ages, BOOST_WHOLE, CAPACITY_ONE, Class, Group, Task, Tunables, Waiting, vtime_charge,
};

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

const NR_CPUS: usize = 8;

/// A program of eight threads, each bound to one of eight CPUs.
#[derive(Debug)]
struct Program {
    group: Group,
    vtimes: [u64; NR_CPUS],
    weights: [u32; NR_CPUS],
    ran_ns: u64,
    /// How often it became senior.
    nr_turns: u32,
}

impl Program {
    fn new(vtime: u64, lost_ns: u64, weight: u32) -> Self {
        let group = Group::default();
        (0..NR_CPUS).for_each(|_| assert!(group.add() > 0));
        group.lose((lost_ns >> 10) as u32);
        Self {
            group,
            vtimes: [vtime; NR_CPUS],
            weights: [weight; NR_CPUS],
            ran_ns: 0,
            nr_turns: 0,
        }
    }

    fn run(&mut self, cpu: usize) {
        self.vtimes[cpu] = vtime_charge(self.vtimes[cpu], MS, self.weights[cpu], CAPACITY_ONE);
        self.ran_ns += MS;
    }

    fn wait(&self, cpu: usize) {
        let waiting = Waiting {
            waited_ns: MS,
            weight: self.weights[cpu],
            nr_ready: NR_CPUS as u32,
            nr_threads: NR_CPUS as u32,
            nr_cpus: NR_CPUS as u32,
        };
        self.group.lose(waiting.loss());
    }
}

/// Who is senior, and since when.
struct Place {
    senior: usize,
    since_ms: u64,
}

/// Who runs on a CPU for the next millisecond: the senior program's thread, or the first that waits where that is due to make way.
/// If the turn is over thereby, that becomes senior.
fn runs_on(
    cpu: usize,
    programs: &mut [Program],
    place: &mut Place,
    ms: u64,
    boosts_end_turns: bool,
) -> usize {
    let (tun, senior) = (Tunables::default(), place.senior);
    let others = (0..programs.len()).filter(|&other| other != senior);
    let next = others
        .min_by_key(|&other| programs[other].vtimes[cpu])
        .expect("another");
    let nr_waiting = programs.len() as u32 - 1;
    let of = |program: usize, class| task(class, programs[program].vtimes[cpu], nr_waiting);
    let (first, second) = (of(senior, Class::Senior), of(next, Class::Parallel));
    if tun.due_in(&first, &second) > 0 {
        return senior;
    }
    let ages = Ages {
        turn_ns: (ms - place.since_ms) * MS,
        phases_ns: LONG,
    };
    if boosts_end_turns && tun.is_used_up(&first, &second, &ages) {
        programs[senior].group.end_turn_for(&programs[next].group, &tun);
        programs[next].nr_turns += 1;
        *place = Place {
            senior: next,
            since_ms: ms,
        };
    }
    next
}

/// Lets programs that never end their phases compete for so many milliseconds, the first of them senior. Says for how many of them
/// several programs were on CPUs.
fn compete(programs: &mut [Program], boosts_end_turns: bool, nr_ms: u64) -> u64 {
    let (tun, mut shared_ms) = (Tunables::default(), 0);
    let mut place = Place {
        senior: 0,
        since_ms: 0,
    };
    for ms in 0..nr_ms {
        let before = place.senior;
        let mut on_cpus: Vec<usize> = (0..NR_CPUS)
            .map(|cpu| runs_on(cpu, programs, &mut place, ms, boosts_end_turns))
            .collect();
        if place.senior != before {
            on_cpus = vec![place.senior; NR_CPUS];
        }
        shared_ms += u64::from(on_cpus.iter().any(|program| *program != on_cpus[0]));
        for (cpu, &on_cpu) in on_cpus.iter().enumerate() {
            programs[on_cpu].run(cpu);
            let others = programs.iter().enumerate().filter(|(index, _)| *index != on_cpu);
            others.for_each(|(_, program)| program.wait(cpu));
        }
        let claims = |&other: &usize| {
            other != place.senior
                && programs[other]
                    .group
                    .claims(Some(&programs[place.senior].group), &tun)
        };
        if let Some(senior) = (0..programs.len()).find(claims) {
            programs[senior].nr_turns += 1;
            place = Place { senior, since_ms: ms };
        }
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
    compete(&mut stuck, false, 10_000);
    assert_eq!(stuck[1].nr_turns, 0, "CPUs rotate between both for ever");
    let mut programs = begin();
    let shared_ms = compete(&mut programs, true, 10_000);
    assert!(shared_ms < 20, "{shared_ms}");
    let are_75_ms = |program: &Program| (60..75).contains(&program.nr_turns);
    assert!(programs.iter().all(are_75_ms), "{programs:?}");
}

/// One light thread is a boost ahead again in each turn of its program.
#[test]
fn no_turn_is_very_short_whoever_runs_ahead() {
    for weight in [33, 11, 1] {
        let mut programs = [(); 2].map(|()| Program::new(1000 * MS, 1000 * MS, 100));
        programs[0].weights[3] = weight;
        compete(&mut programs, true, 10_000);
        // 9.4 ms at least.
        let are_turns = |program: &Program| (60..535).contains(&program.nr_turns);
        assert!(
            programs.iter().all(are_turns),
            "a thread of weight {weight}: {programs:?}"
        );
    }
}

#[test]
fn only_long_phases_have_a_turn_end_with_its_boost() {
    let tun = Tunables::default();
    let least_ns = tun.senior_turn_ns / 8;
    let used_up = |senior: &Task, waiting: &Task, turn_ns, phases_ns| {
        tun.is_used_up(senior, waiting, &Ages { turn_ns, phases_ns })
    };
    let of = |class| task(class, 0, 1);
    let (senior, parallel) = (of(Class::Senior), of(Class::Parallel));
    assert!(used_up(&senior, &parallel, least_ns, LONG));
    assert!(
        !used_up(&senior, &parallel, least_ns, LONG - 1),
        "a phase may end by itself"
    );
    assert!(
        !used_up(&senior, &parallel, least_ns - 1, LONG),
        "the turn has just begun"
    );
    for class in [Class::Kernel, Class::Serial, Class::Senior] {
        assert!(!used_up(&senior, &of(class), least_ns, LONG), "{class:?}");
    }
    for class in [Class::Kernel, Class::Serial, Class::Parallel] {
        assert!(!used_up(&of(class), &parallel, least_ns, LONG), "{class:?}");
    }
    let beside = |of_senior, of_waiting, boost_left| {
        let waiting = Task {
            boost_left,
            ..task(Class::Parallel, 0, of_waiting)
        };
        used_up(&task(Class::Senior, 0, of_senior), &waiting, least_ns, LONG)
    };
    assert!(beside(10, 1, BOOST_WHOLE) && beside(1, 10, BOOST_WHOLE));
    let among_many = beside(11, 1, BOOST_WHOLE) || beside(1, 11, BOOST_WHOLE);
    assert!(!among_many, "no boost is left");
    assert!(
        !beside(1, 1, BOOST_WHOLE / 11),
        "nor beside a crowd of serial tasks"
    );
}

/// The share of each of these programs that begin side by side.
fn shares(weights: &[u32]) -> Vec<f64> {
    let mut programs: Vec<Program> = weights
        .iter()
        .map(|&weight| Program::new(1000 * MS, 1000 * MS, weight))
        .collect();
    compete(&mut programs, true, 60_000);
    programs
        .iter()
        .map(|program| program.ran_ns as f64 / (NR_CPUS as u64 * 60_000 * MS) as f64)
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
        for (share, &weight) in shares(weights).iter().zip(weights) {
            let due = f64::from(weight) / f64::from(sum);
            assert!(
                (share - due).abs() < 0.15 * due,
                "{weights:?}: {share}, {due} is due"
            );
        }
    }
}

proptest! {
    /// However far two programs' vtimes and losses lie apart, each has its turns, they share by weight, and hardly ever at a time.
    #[test]
    fn two_programs_have_turns_wherever_they_begin(
        lead in -100i64..=200, lost_more in -150i64..=150,
        weight in prop::sample::select(vec![20u32, 33, 50, 100, 200, 300]),
    ) {
        let vtime = (1_000 * MS).wrapping_add_signed(lead * MS as i64);
        let lost = (1_000 * MS).wrapping_add_signed(lost_more * MS as i64);
        let mut programs = [Program::new(vtime, lost, 100), Program::new(1_000 * MS, 1_000 * MS, weight)];
        let shared_ms = compete(&mut programs, true, 20_000);
        prop_assert!(shared_ms < 200, "both at a time for {} ms", shared_ms);
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
        let added = senior.lost().wrapping_sub(lost.wrapping_add_signed(more)) as i32;
        prop_assert!(added <= 0, "{} more than it lost", added);
        prop_assert!(!senior.claims(Some(&other), &tun));
    }
}
