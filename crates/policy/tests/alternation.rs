// SPDX-License-Identifier: GPL-2.0-only
//! What alternation promises: turns begin only where they paid, trials become rare, and nobody waits for long.

use proptest::prelude::*;
use threadwise_policy::alternation::{Alternation, Look, PROGRAMS, Work, exceed_cache};
use threadwise_policy::{Class, Counts, Members, Need, Witness};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const TURN: u64 = 300 * MS;

/// What programs do in a millisecond, beside each other and in a turn of their own.
struct Rates {
    beside: [u64; PROGRAMS],
    turn: [u64; PROGRAMS],
}

/// As would be counted of two programs whose sets fill the cache each: beside each other they miss half of the time.
const AMMP_AND_WUPWISE: Rates = Rates {
    beside: [500_000, 480_000, 0, 0],
    turn: [1_900_000, 2_000_000, 0, 0],
};

/// Two that miss, but get on well enough on half of the CPUs each.
const BALANCED: Rates = Rates {
    beside: [1_200_000, 1_300_000, 0, 0],
    turn: [1_900_000, 2_000_000, 0, 0],
};

/// A machine on which two programs run, looked at as often as it asks for.
struct Machine {
    alternation: Alternation,
    look: Look,
    /// When trials ended, and the share of the time in which programs had turns.
    trials: Vec<u64>,
    in_turns_ns: u64,
    /// The longest that a program had to wait.
    longest_wait_ns: u64,
    waits_since: [Option<u64>; PROGRAMS],
}

impl Machine {
    fn new() -> Self {
        Self {
            alternation: Alternation::default(),
            look: Look {
                members: 0b11,
                ready: 0b11,
                ..Look::default()
            },
            trials: Vec::new(),
            in_turns_ns: 0,
            longest_wait_ns: 0,
            waits_since: [None; PROGRAMS],
        }
    }

    /// Runs for so long; `count` makes of what was done since the last look what counters say.
    fn run(&mut self, rates: &Rates, ns: u64, mut count: impl FnMut(u64, Work) -> Work) {
        let end = self.look.now_ns + ns;
        while self.look.now_ns < end {
            let before = self.alternation.nr_trials();
            self.alternation.look(&self.look);
            if self.alternation.nr_trials() > before {
                self.trials.push(self.look.now_ns);
            }
            let (held, in_ns) = (self.alternation.held(), self.alternation.look_in_ns());
            self.note_waits(held);
            let rate = |program: usize| match self.alternation.takes_turns() {
                true if held >> program & 1 == 1 => 0,
                true => rates.turn[program],
                false => rates.beside[program],
            };
            let of: [u64; PROGRAMS] = std::array::from_fn(|program| rate(program) * (in_ns / MS));
            let done = Work {
                of,
                machine: of.iter().sum(),
                nr_samples: 10,
                nr_lost: 0,
            };
            let counted = count(self.look.now_ns, done);
            for program in 0..PROGRAMS {
                self.look.done.of[program] += counted.of[program];
            }
            self.look.done.machine += counted.machine;
            self.look.done.nr_samples += counted.nr_samples;
            self.look.done.nr_lost += counted.nr_lost;
            self.in_turns_ns += if self.alternation.takes_turns() { in_ns } else { 0 };
            self.look.now_ns += in_ns;
        }
    }

    fn note_waits(&mut self, held: u32) {
        let now = self.look.now_ns;
        for (program, since) in self.waits_since.iter_mut().enumerate() {
            *since = (held >> program & 1 == 1).then(|| since.unwrap_or(now));
            let waited = since.map_or(0, |since| now - since);
            self.longest_wait_ns = self.longest_wait_ns.max(waited);
        }
    }
}

fn ran(rates: &Rates, ns: u64) -> Machine {
    let mut machine = Machine::new();
    machine.run(rates, ns, |_, done| done);
    machine
}

#[test]
fn programs_that_fill_the_cache_each_run_one_after_the_other() {
    let machine = ran(&AMMP_AND_WUPWISE, 60 * SECOND);
    assert!(machine.in_turns_ns > 50 * SECOND, "{}", machine.in_turns_ns);
    assert!(
        machine.trials.len() >= 2,
        "it is tried again: {:?}",
        machine.trials
    );
    assert!(
        machine.longest_wait_ns <= TURN + 20 * MS,
        "{}",
        machine.longest_wait_ns
    );
    assert_eq!(
        ran(&AMMP_AND_WUPWISE, 1500 * MS).in_turns_ns,
        0,
        "they get going first"
    );
}

#[test]
fn a_trial_that_was_lost_is_no_mark_for_turns() {
    // What is done beside each other is lost from now on, or in turns, so the next trial says nothing, and turns go on.
    for in_turns in [false, true] {
        let mut machine = ran(&AMMP_AND_WUPWISE, 20 * SECOND);
        assert!(machine.alternation.takes_turns());
        let before = machine.trials.len();
        for _ in 0..6000 {
            let is_lost = machine.alternation.takes_turns() == in_turns;
            machine.run(&AMMP_AND_WUPWISE, 10 * MS, |_, done| {
                if is_lost { lost(&done) } else { done }
            });
        }
        assert!(machine.trials.len() > before && machine.alternation.takes_turns());
        // They end when they bring less than was done beside each other in the last trial that told.
        let worse = Rates {
            turn: [500_000, 500_000, 0, 0],
            ..AMMP_AND_WUPWISE
        };
        machine.run(&worse, 2 * SECOND, |_, done| done);
        assert!(!machine.alternation.takes_turns());
    }
}

#[test]
fn programs_that_get_on_beside_each_other_stay_so() {
    let machine = ran(&BALANCED, 60 * SECOND);
    assert!(machine.trials.len() >= 2, "{:?}", machine.trials);
    let tried_ns = machine.trials.len() as u64 * 2 * TURN;
    assert!(
        machine.in_turns_ns <= tried_ns + 100 * MS,
        "{} in {:?}",
        machine.in_turns_ns,
        machine.trials
    );
    // A tenth more is not worth it, a sixth is.
    let more = |percent: u64| Rates {
        beside: [1_000_000, 1_000_000, 0, 0],
        turn: [20_000 * percent, 20_000 * percent, 0, 0],
    };
    assert!(!ran(&more(110), 20 * SECOND).alternation.takes_turns());
    assert!(ran(&more(117), 20 * SECOND).alternation.takes_turns());
    // Nor is what one pays for: the first has a third less of its own.
    let one_pays = Rates {
        beside: [900_000, 100_000, 0, 0],
        turn: [1_200_000, 2_000_000, 0, 0],
    };
    assert!(!ran(&one_pays, 20 * SECOND).alternation.takes_turns());
    // A fifth less is little.
    let one_pays_little = Rates {
        turn: [1_440_000, 1_200_000, 0, 0],
        ..one_pays
    };
    assert!(ran(&one_pays_little, 20 * SECOND).alternation.takes_turns());
}

/// What counters say of this that lost it.
fn lost(done: &Work) -> Work {
    Work {
        nr_samples: done.nr_samples,
        nr_lost: done.nr_samples,
        ..Work::default()
    }
}

#[test]
fn samples_that_are_lost_change_nothing() {
    let of = |rates: &Rates, is_lost: &dyn Fn(u64) -> bool| {
        let mut machine = Machine::new();
        machine.run(
            rates,
            60 * SECOND,
            |now, done| {
                if is_lost(now) { lost(&done) } else { done }
            },
        );
        machine
    };
    // One in fifty.
    for (rates, pays) in [(&AMMP_AND_WUPWISE, true), (&BALANCED, false)] {
        let machine = of(rates, &|now| now / (10 * MS) % 50 == 7);
        assert_eq!(machine.alternation.takes_turns(), pays);
    }
    // All of those of one half of each trial: it tells nothing, and they stay beside each other.
    for in_turns in [false, true] {
        let mut machine = Machine::new();
        for _ in 0..6000 {
            let is_lost = machine.alternation.takes_turns() == in_turns;
            machine.run(&AMMP_AND_WUPWISE, 10 * MS, |_, done| {
                if is_lost { lost(&done) } else { done }
            });
        }
        let nr_trials = machine.trials.len() as u64;
        assert!(nr_trials > 0 && !machine.alternation.takes_turns());
        assert!(machine.in_turns_ns <= nr_trials * (2 * TURN + 20 * MS));
        assert_eq!(machine.in_turns_ns > 0, in_turns);
    }
    let machine = of(&AMMP_AND_WUPWISE, &|_| true);
    assert_eq!(machine.in_turns_ns, 0, "nothing is known, and nothing done");
    // What was chosen stays when nothing is counted any more.
    let mut machine = ran(&AMMP_AND_WUPWISE, 6 * SECOND);
    assert!(machine.alternation.takes_turns());
    machine.run(&AMMP_AND_WUPWISE, 60 * SECOND, |_, done| lost(&done));
    assert!(machine.alternation.takes_turns());
    machine.run(&AMMP_AND_WUPWISE, 60 * SECOND, |_, _| Work::default());
    assert!(machine.alternation.takes_turns(), "there are no samples");
    // Where nothing is done in either half, neither is better.
    let mut machine = Machine::new();
    machine.run(&AMMP_AND_WUPWISE, 60 * SECOND, |_, done| Work {
        nr_samples: done.nr_samples,
        ..Work::default()
    });
    assert!(!machine.trials.is_empty() && !machine.alternation.takes_turns());
}

#[test]
fn turns_end_when_they_do_not_pay_any_more() {
    let mut machine = ran(&AMMP_AND_WUPWISE, 6 * SECOND);
    assert!(machine.alternation.takes_turns());
    let now_small = Rates {
        beside: [4_000_000, 4_000_000, 0, 0],
        turn: [400_000, 400_000, 0, 0],
    };
    machine.run(&now_small, 2 * SECOND, |_, done| done);
    assert!(!machine.alternation.takes_turns(), "before the next trial");
}

#[test]
fn who_comes_or_goes_ends_turns_and_trials_follow_each_other_slowly_all_the_same() {
    let mut machine = ran(&AMMP_AND_WUPWISE, 6 * SECOND);
    assert!(machine.alternation.takes_turns());
    machine.look.members = 0b111;
    machine.run(&AMMP_AND_WUPWISE, 10 * MS, |_, done| done);
    assert!(!machine.alternation.takes_turns() && machine.alternation.held() == 0);
    assert_eq!(machine.alternation.nr_trials(), 0);
    // What was found without it chooses nothing where trials with it tell nothing.
    machine.run(&AMMP_AND_WUPWISE, 60 * SECOND, |_, done| lost(&done));
    assert!(machine.alternation.nr_trials() > 0 && !machine.alternation.takes_turns());
    // One comes and goes each second and a half, each five, or in the middle of each trial: a ninth of the time, at most, is spent on
    // trials.
    for every in (2..=10)
        .map(|half| half * 500 * MS + 290 * MS)
        .chain([1500 * MS, 3150 * MS, 5 * SECOND])
    {
        let mut machine = Machine::new();
        for nr in 0..(200 * SECOND / every) {
            machine.look.members = if nr % 2 == 0 { 0b11 } else { 0b111 };
            machine.look.ready = machine.look.members;
            machine.run(&BALANCED, every, |_, done| done);
        }
        assert!(
            machine.in_turns_ns <= 200 * SECOND / 9,
            "{every}: {}",
            machine.in_turns_ns
        );
    }
}

#[test]
fn a_turn_ends_when_its_program_has_nothing_to_run() {
    let mut machine = ran(&AMMP_AND_WUPWISE, 6 * SECOND);
    let other = machine.alternation.held();
    machine.look.ready = other;
    machine.run(&AMMP_AND_WUPWISE, 30 * MS, |_, done| done);
    assert_eq!(machine.alternation.held(), 0b11 & !other);
    // Nobody has: the turn stays where it is.
    machine.look.ready = 0;
    machine.run(&AMMP_AND_WUPWISE, SECOND, |_, done| done);
    assert_eq!(machine.alternation.held(), 0b11 & !other);
}

#[test]
fn one_look_without_work_ends_no_turn_and_the_next_that_is_ready_has_it() {
    let three = Rates {
        beside: [500_000, 500_000, 500_000, 0],
        turn: [3_000_000, 3_000_000, 3_000_000, 0],
    };
    let mut machine = Machine::new();
    (machine.look.members, machine.look.ready) = (0b111, 0b111);
    machine.run(&three, 6 * SECOND, |_, done| done);
    assert!(machine.alternation.takes_turns(), "each had one in the trial");
    let held = machine.alternation.held();
    while machine.alternation.held() == held {
        machine.run(&three, 10 * MS, |_, done| done);
    }
    // Whose turn has just begun, the next, and the one after that.
    let first = 0b111 & !machine.alternation.held();
    let after = |program: u32| if program == 0b100 { 0b001 } else { program << 1 };
    let last = after(after(first));
    let mut turn_after = |ready| {
        machine.look.ready = ready;
        machine.run(&three, 10 * MS, |_, done| done);
        0b111 & !machine.alternation.held()
    };
    let absent = 0b111 & !first;
    assert_eq!([absent, 0b111, absent].map(&mut turn_after), [first; 3]);
    assert_eq!(turn_after(last), last, "the next is not ready");
    assert_eq!(turn_after(first), last, "it is missed for the first time");
}

#[test]
fn it_is_looked_at_the_more_often_the_more_there_is_to_see() {
    let look_in_ns = |members| {
        let mut alternation = Alternation::default();
        alternation.look(&Look {
            members,
            ready: members,
            ..Look::default()
        });
        alternation.look_in_ns()
    };
    let in_turns_ns = ran(&AMMP_AND_WUPWISE, 6 * SECOND).alternation.look_in_ns();
    assert!(in_turns_ns < look_in_ns(0b11) && look_in_ns(0b11) < look_in_ns(0b1));
}

#[test]
fn without_counters_sets_that_exceed_the_cache_together_take_turns() {
    const MB: u64 = 1 << 20;
    let exceed =
        |sets: [u64; 2], was| exceed_cache(&[sets[0] * MB, sets[1] * MB, 900 * MB, 0], 0b11, 16 * MB, was);
    assert!(exceed([12, 12], false), "each fits, both do not");
    assert!(!exceed([8, 8], false), "both fit");
    assert!(exceed([7, 8], true) && !exceed([7, 8], false), "a little less");
    let mut alternation = Alternation::default();
    let (mut switches, mut took_turns) = (0, false);
    for step in 0..100_000u64 {
        let look = Look {
            now_ns: step * 10 * MS,
            members: 0b11,
            ready: 0b11,
            done: Work::default(),
        };
        // Whatever resident sets do.
        alternation.look_by_resident(&look, step % 3 > 0);
        switches += u32::from(alternation.takes_turns() && !took_turns);
        took_turns = alternation.takes_turns();
    }
    assert!((2..=8).contains(&switches), "{switches} times in 1000 s");
    let mut alone = Alternation::default();
    for now_ns in (0..1000).map(|step| step * 100 * MS) {
        let look = Look {
            now_ns,
            members: 0b1,
            ready: 0b1,
            done: Work::default(),
        };
        alone.look_by_resident(&look, true);
        assert!(!alone.takes_turns(), "nobody has turns alone");
    }
}

/// Who is there when these have so many ready threads.
fn there(members: &mut Members, now_ns: u64, cache_bytes: Option<u64>, ready: &[u32]) -> Look {
    let mut look = Look {
        now_ns,
        ..Look::default()
    };
    members.look_at(&mut look, cache_bytes, |id| u32::from(ready.contains(&id)) * 8);
    look
}

const MISSES: Witness = Witness {
    id: 7,
    class: Class::Parallel,
    resident_bytes: 0,
    need: Need::ONE / 64,
};

#[test]
fn parallel_programs_that_miss_often_are_members_until_they_have_had_nothing_to_run_for_a_second() {
    let mut members = Members::default();
    for no_member in [
        Witness {
            class: Class::Serial,
            ..MISSES
        },
        Witness {
            class: Class::Kernel,
            ..MISSES
        },
        Witness {
            need: MISSES.need - 1,
            ..MISSES
        },
    ] {
        members.consider(&no_member, None, 0);
    }
    assert_eq!(there(&mut members, 0, None, &[7]).members, 0);
    members.consider(&MISSES, None, 0);
    members.consider(
        &Witness {
            class: Class::Senior,
            id: 9,
            ..MISSES
        },
        None,
        5 * MS,
    );
    members.consider(&MISSES, None, 6 * MS);
    let look = there(&mut members, 10 * MS, None, &[9]);
    assert_eq!((look.members, look.ready), (0b11, 0b10), "each is one");
    // A clock that is behind takes nobody away.
    assert_eq!(there(&mut members, 0, None, &[]).members, 0b11);
    assert_eq!(there(&mut members, 1000 * MS, None, &[9]).members, 0b11);
    assert_eq!(
        there(&mut members, 1001 * MS, None, &[9]).members,
        0b10,
        "7 is gone"
    );
    // Its place is free again, and no more than four have one.
    for id in 11..20 {
        members.consider(&Witness { id, ..MISSES }, None, 1001 * MS);
    }
    let look = there(&mut members, 1002 * MS, None, &[9, 11, 12, 13, 14]);
    assert_eq!((look.members, look.ready), (0b1111, 0b1111));
}

#[test]
fn without_counters_members_are_those_whose_sets_fill_the_cache_and_fit() {
    const MB: u64 = 1 << 20;
    let is_member = |begins_mb: u64, has_mb: u64| {
        let mut members = Members::default();
        for mb in [begins_mb, has_mb] {
            let task = Witness {
                resident_bytes: mb * MB,
                need: 0,
                ..MISSES
            };
            members.consider(&task, Some(16 * MB), 0);
        }
        there(&mut members, 0, Some(16 * MB), &[7]).members == 1
    };
    assert!(!is_member(1, 1), "too small to matter");
    assert!(is_member(2, 2) && is_member(16, 16));
    assert!(!is_member(17, 17), "it does not begin to take part");
    assert!(is_member(16, 18), "nor ends to");
    assert!(!is_member(16, 19), "it does not fit alone");
    let mut members = Members::default();
    for (id, mb) in [(7, 12), (9, 12)] {
        members.consider(
            &Witness {
                id,
                resident_bytes: mb * MB,
                ..MISSES
            },
            Some(16 * MB),
            0,
        );
    }
    let both = there(&mut members, 0, Some(16 * MB), &[7, 9]);
    assert!(members.exceed_cache(&both, 16 * MB, false));
    let one = Look {
        members: 0b01,
        ..both
    };
    assert!(!members.exceed_cache(&one, 16 * MB, false));
}

#[test]
fn who_waits_for_its_turn_is_known_by_its_name_until_it_has_it() {
    let mut members = Members::default();
    for id in [7, 9] {
        members.consider(&Witness { id, ..MISSES }, None, 0);
    }
    assert_eq!([7, 9, 11].map(|id| members.held_as(id)), [None; 3]);
    assert!(
        members.hold(0b10) && !members.hold(0b10),
        "the second time nothing is new"
    );
    assert_eq!([7, 9, 11].map(|id| members.held_as(id)), [None, Some(1), None]);
    assert!(members.hold(0b01) && members.hold(0));
    assert_eq!([7, 9].map(|id| members.held_as(id)), [None; 2]);
    // Work of members is theirs, that of others the machine's alone, and what was lost is nobody's.
    let mut work = Work::default();
    let counts = Counts {
        instructions: 100,
        misses: 1,
    };
    members.note_work(&mut work, 9, Some(&counts));
    members.note_work(&mut work, 11, Some(&counts));
    members.note_work(&mut work, 7, None);
    let told = Work {
        of: [0, 100, 0, 0],
        machine: 200,
        nr_samples: 3,
        nr_lost: 1,
    };
    assert_eq!(work, told);
}

proptest! {
    #[test]
    fn trials_grow_with_the_logarithm_of_the_time_whatever_counters_say(
        said in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, 0u64..20, 0u64..20), 1..50),
        seconds in 20u64..400
    ) {
        let mut machine = Machine::new();
        let mut nr = 0;
        machine.run(&BALANCED, seconds * SECOND, |_, _| {
            nr += 1;
            let (one, other, nr_samples, nr_lost) = said[nr % said.len()];
            Work { of: [one, other, 0, 0], machine: one + other, nr_samples, nr_lost: nr_lost.min(nr_samples) }
        });
        // The first rest is 16 rounds of two turns.
        let most = 2 + u64::from((seconds * SECOND / (16 * 2 * TURN) + 1).ilog2());
        prop_assert!(machine.trials.len() as u64 <= most, "{:?} in {seconds} s", machine.trials);
        let begins = machine.trials.len() as u64;
        prop_assert!(machine.longest_wait_ns <= TURN + 20 * MS, "{} after {begins}", machine.longest_wait_ns);
    }
}
