// SPDX-License-Identifier: GPL-2.0-only
//! Which parallel program goes before the others, and that all have turns.

mod common;

use proptest::prelude::*;
use threadwise_policy::{Group, Tunables, Waiting};

use common::{MS, group, loss, turns_of_80_ms};

#[test]
fn whoever_lost_more_by_half_a_turn_is_senior() {
    let tun = turns_of_80_ms();
    let (first, little, more) = (group(1000 * MS), group(1039 * MS), group(1041 * MS));
    let beside_first = |group: &Group| group.claims(Some(&first), &tun);
    assert!(!beside_first(&first), "nobody outranks itself");
    assert!(!beside_first(&little) && beside_first(&more));
    assert!(!first.claims(Some(&more), &tun) && !first.claims(Some(&little), &tun));
    (0..6).for_each(|_| assert!(first.sub() > 0));
    assert!(beside_first(&little), "its phase is over");
}

#[test]
fn what_was_lost_is_neither_forgotten_at_a_vacant_place_nor_remembered_for_ever() {
    let tun = turns_of_80_ms();
    let (owed, other) = (group(5000 * MS), group(4950 * MS));
    assert!(other.claims(None, &tun) && owed.claims(None, &tun));
    assert_eq!(
        owed.lost().wrapping_sub(other.lost()),
        loss(5000 * MS, 1) - loss(4950 * MS, 1)
    );
    // Phases that follow each other change nothing; who comes after a second, or for the first time, begins beside the first.
    let senior_lost = owed.lost();
    other.begin(10_000 * MS, 0, senior_lost);
    assert_eq!(other.lost(), senior_lost, "it never had a phase");
    other.lose(7);
    other.begin(10_900 * MS, 0, senior_lost);
    assert_eq!(other.lost(), senior_lost + 7);
    other.begin(12_000 * MS, 0, senior_lost);
    assert_eq!(other.lost(), senior_lost);
}

#[test]
fn a_program_loses_its_waiting_threads_part_of_the_time() {
    let waiting = |weight, nr_ready, nr_threads| {
        let waiting = Waiting {
            waited_ns: 8000 * 1024,
            weight,
            nr_ready,
            nr_threads,
            nr_cpus: 8,
        };
        waiting.loss()
    };
    assert_eq!(
        [waiting(100, 8, 8), waiting(100, 1, 8), waiting(100, 4, 4)],
        [1000, 1000, 2000]
    );
    assert_eq!(waiting(100, 40, 100), 200, "more are ready than there are CPUs");
    assert_eq!(
        waiting(100, 3, 100),
        1000,
        "of a hundred threads no more than CPUs run"
    );
    assert_eq!([waiting(50, 8, 8), waiting(300, 8, 8)], [500, 3000]);
    assert_eq!(waiting(10_000, 8, 8), waiting(1000, 8, 8));
    assert_eq!(waiting(100, 0, 0), 8000, "nothing is known");
    // Who waited for days is not owed them, nor does what it lost wrap.
    let most = loss(u64::MAX, 1);
    assert!(most == loss(70_000 * MS, 1) && most as i32 > 0);
}

/// The turns, in milliseconds and in order, of so many programs that never end their phases, of which all wait that are not senior:
/// whose each is, and how long.
fn turns_of(nr_programs: usize, tun: &Tunables) -> Vec<(usize, u64)> {
    let programs: Vec<Group> = (0..nr_programs).map(|_| group(0)).collect();
    let (mut senior, mut turn_ms, mut turns) = (0, 0, Vec::new());
    for _ in 0..2000 * nr_programs {
        let others: Vec<usize> = (0..nr_programs).filter(|&program| program != senior).collect();
        others
            .iter()
            .for_each(|&other| (0..8).for_each(|_| programs[other].lose(loss(MS, 8))));
        turn_ms += 1;
        for other in others {
            if programs[other].claims(Some(&programs[senior]), tun) {
                turns.push((senior, std::mem::take(&mut turn_ms)));
                senior = other;
            }
        }
    }
    turns
}

#[test]
fn who_never_sleeps_has_equal_turns() {
    let turns = turns_of(2, &turns_of_80_ms());
    assert!(turns.len() >= 20);
    assert!(
        turns[1..].iter().all(|(_, turn)| (79..=83).contains(turn)),
        "they are as long as they are set: {turns:?}"
    );
}

#[test]
fn however_many_compete_all_have_turns() {
    for nr_programs in [3, 4, 8, 30] {
        let turns = turns_of(nr_programs, &turns_of_80_ms());
        let of = |program| {
            turns
                .iter()
                .filter(|turn| turn.0 == program)
                .map(|turn| turn.1)
                .sum::<u64>()
        };
        let times: Vec<u64> = (0..nr_programs).map(of).collect();
        assert!(
            times.iter().all(|&time_ms| (1800..=2200).contains(&time_ms)),
            "{nr_programs}: {times:?}"
        );
    }
    // Nobody who is alone hands anything on.
    assert_eq!(turns_of(1, &turns_of_80_ms()), []);
}

proptest! {
    /// Of two programs at most one takes the other's place, also where losses wrap, and none is further from the first than
    /// two turns when it asks.
    #[test]
    fn seniority_is_an_order(first: u32, second: u32) {
        let (tun, groups) = (turns_of_80_ms(), [group(0), group(0)]);
        groups[0].lose(first);
        groups[1].lose(second);
        let takes = groups[1].claims(Some(&groups[0]), &tun);
        let apart = groups[1].lost().wrapping_sub(groups[0].lost()) as i32;
        prop_assert!(apart.unsigned_abs() <= loss(160 * MS, 1));
        prop_assert_eq!(takes, apart > loss(40 * MS, 1) as i32);
        prop_assert!(!takes || !groups[0].claims(Some(&groups[1]), &tun));
    }
}
