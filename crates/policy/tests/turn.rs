// SPDX-License-Identifier: GPL-2.0-only
//! The senior program's boost lasts for its turn, and programs that lose alike have CPUs by weight.

use proptest::prelude::*;
use threadwise_policy::{
    BOOST_WHOLE, CAPACITY_ONE, Class, Group, SetBack, Task, Tunables, Waiting, vtime_charge,
};

const MS: u64 = 1_000_000;

/// A phase as old as those that have no end.
const LONG: u64 = 300 * MS;

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

/// A program of eight threads on eight CPUs, which are alike, so that one vtime says where all are.
struct Program {
    group: Group,
    vtime: u64,
    weight: u32,
    /// How many milliseconds its threads ran.
    ran: u64,
    /// How often it became senior.
    nr_turns: u32,
    seen: u32,
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
            ran: 0,
            nr_turns: 0,
            seen: 0,
        }
    }

    fn run(&mut self, ns: u64) {
        self.vtime = vtime_charge(self.vtime, ns, self.weight, CAPACITY_ONE);
        self.ran += ns;
    }

    fn wait(&self, ns: u64, nr_waiting: u32) {
        let waiting = Waiting {
            waited_ns: ns,
            weight: self.weight,
            nr_waiting,
            nr_ready: 8,
            nr_threads: 8,
            nr_cpus: 8,
        };
        (0..8).for_each(|_| self.group.lose(waiting.loss()));
    }
}

/// Lets two programs that never end their phases compete for so many milliseconds, the first of them senior: who is due to make way
/// shares the CPUs with the other, unless it is set back. Returns them, and for how many milliseconds both ran.
fn compete(mut programs: [Program; 2], sets_back: bool, nr_ms: u32) -> ([Program; 2], u64) {
    let (tun, mut set_back, mut senior, mut shared) = (Tunables::default(), SetBack::default(), 0, 0);
    for _ in 0..nr_ms {
        let other = 1 - senior;
        let vtime = set_back.vtime(programs[senior].vtime, programs[senior].seen);
        (programs[senior].vtime, programs[senior].seen) = (vtime, set_back.now);
        let (first, second) = (
            task(Class::Senior, vtime),
            task(Class::Parallel, programs[other].vtime),
        );
        let is_due = tun.due_in(&first, &second) == 0;
        let goes_on = is_due && sets_back && tun.is_set_back(&first, &second, LONG);
        if goes_on {
            set_back.advance(&tun);
        }
        if is_due && !goes_on {
            shared += 1;
            for program in &mut programs {
                program.run(MS / 2);
                program.wait(MS / 2, 1);
            }
        } else {
            programs[senior].run(MS);
            programs[other].wait(MS, 1);
        }
        if programs[other].group.claims(Some(&programs[senior].group), &tun) {
            senior = other;
            programs[senior].nr_turns += 1;
            set_back.hand_over();
        }
    }
    (programs, shared)
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
    let (stuck, shared) = compete(begin(), false, 10_000);
    assert_eq!(shared, 10_000, "both are on the CPUs for ever");
    assert_eq!(stuck[1].nr_turns, 0);
    let (programs, shared) = compete(begin(), true, 10_000);
    assert!(programs.iter().all(|program| program.nr_turns > 50));
    assert_eq!(shared, 0);
}

#[test]
fn only_a_parallel_program_in_a_long_phase_has_the_senior_one_set_back() {
    let tun = Tunables::default();
    let senior = task(Class::Senior, 0);
    let is_set_back = |running: &Task, waiting: Task| tun.is_set_back(running, &waiting, LONG);
    assert!(is_set_back(&senior, task(Class::Parallel, 0)));
    for class in [Class::Kernel, Class::Serial, Class::Senior] {
        assert!(!is_set_back(&senior, task(class, 0)), "{class:?}");
    }
    for class in [Class::Kernel, Class::Serial, Class::Parallel] {
        assert!(
            !is_set_back(&task(class, 0), task(Class::Parallel, 0)),
            "{class:?}"
        );
    }
    assert!(
        !tun.is_set_back(&senior, &task(Class::Parallel, 0), LONG - 1),
        "that phase may end"
    );
    let beside = |nr_waiting, waits_us, boost_left| Task {
        nr_waiting,
        waits_us,
        boost_left,
        ..task(Class::Parallel, 0)
    };
    assert!(is_set_back(&senior, beside(2, 0, BOOST_WHOLE)));
    assert!(
        !is_set_back(&senior, beside(3, 0, BOOST_WHOLE)),
        "boosts shrink among many"
    );
    assert!(
        !is_set_back(&senior, beside(1, 0, BOOST_WHOLE / 2)),
        "and beside serial crowds"
    );
    assert!(is_set_back(&senior, beside(1, 400_000, BOOST_WHOLE)));
    assert!(
        !is_set_back(&senior, beside(1, 400_001, BOOST_WHOLE)),
        "a wait has a bound"
    );
}

#[test]
fn a_light_program_has_its_part_among_three() {
    // Each goes first that has lost most, for a turn.
    let shares = |weights: [u32; 3], nr_waiting: u32| {
        let mut programs = weights.map(|weight| Program::new(0, 0, weight));
        let (tun, mut senior) = (Tunables::default(), 0);
        for _ in 0..30_000 {
            programs[senior].ran += MS;
            for other in (0..3).filter(|&other| other != senior) {
                programs[other].wait(MS, nr_waiting);
            }
            let claims = |&other: &usize| {
                other != senior && programs[other].group.claims(Some(&programs[senior].group), &tun)
            };
            senior = (0..3).find(claims).unwrap_or(senior);
        }
        programs.map(|program| program.ran as f64 / (30_000 * MS) as f64)
    };
    for (weights, light) in [
        ([100, 100, 50], 0.2),
        ([100, 100, 20], 0.09),
        ([100, 100, 100], 0.333),
    ] {
        let found = shares(weights, 2)[2];
        assert!(
            (found - light).abs() < 0.03,
            "{weights:?}: {found}, {light} is its part"
        );
    }
    let heavy = shares([100, 100, 300], 2)[2];
    assert!((heavy - 0.6).abs() < 0.04, "{heavy}");
    // Were waits weighed as beside one.
    assert!(shares([100, 100, 50], 1)[2] < 0.1);
}

proptest! {
    /// However far two programs' vtimes and losses lie apart, each has its turns, they share by weight, and hardly ever at a time.
    #[test]
    fn two_programs_have_turns_wherever_they_begin(
        lead in -100i64..=200, lost_more in -150i64..=150, weight in prop::sample::select(vec![20u32, 33, 50, 100, 200, 300]),
    ) {
        let vtime = (1_000 * MS).wrapping_add_signed(lead * MS as i64);
        let lost = (1_000 * MS).wrapping_add_signed(lost_more * MS as i64);
        let begin = [Program::new(vtime, lost, 100), Program::new(1_000 * MS, 1_000 * MS, weight)];
        let (programs, shared) = compete(begin, true, 20_000);
        prop_assert!(shared < 400, "both at a time for {shared} ms");
        let [first, second] = programs.map(|program| (program.ran as f64, program.nr_turns));
        prop_assert!(first.1 > 10 && second.1 > 10, "{first:?} {second:?}");
        let (share, due) = (second.0 / (first.0 + second.0), f64::from(weight) / (100.0 + f64::from(weight)));
        prop_assert!((share - due).abs() < 0.05, "{share}, {due} is its part");
    }

    /// All tasks of a program are set back by the same in a turn, whenever they are looked at; those of the next begin at nothing.
    #[test]
    fn tasks_are_set_back_together(
        begin: u32, stale: u32, looks in prop::collection::vec(any::<bool>(), 1..20), vtime: u64,
    ) {
        let tun = Tunables::default();
        let mut set_back = SetBack { now: begin, at_first: begin };
        // Last looked at before the turn began, at most half of the range ago.
        let mut seen = begin.wrapping_sub(stale >> 1);
        let mut at = vtime;
        for &looks in &looks {
            set_back.advance(&tun);
            if looks {
                at = set_back.vtime(at, seen);
                seen = set_back.now;
            }
        }
        let turn_ns = tun.senior_turn_ns >> 10 << 10;
        let end = set_back.vtime(at, seen);
        prop_assert_eq!(vtime.wrapping_sub(end), looks.len() as u64 * turn_ns);
        set_back.hand_over();
        prop_assert_eq!(set_back.vtime(end, seen), end);
    }
}
