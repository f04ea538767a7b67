// SPDX-License-Identifier: GPL-2.0-only
//! Where programs are at home, and that their threads come there.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use threadwise_policy::{Llc, Pair, Stay, founds_home, keeps_home, leaves_cache};

#[test]
fn a_program_is_kept_in_its_cache_while_it_fits_and_finds_one_anew_when_alone() {
    let kept: Vec<u32> = (0..8).filter(|&nr_ready| keeps_home(nr_ready, 4)).collect();
    assert_eq!(kept, [2, 3, 4]);
    assert!(founds_home(0) && !founds_home(1));
}

#[test]
fn a_home_is_left_that_has_too_little_room_for_one_that_has_enough() {
    let llc = |nr_at_home| Llc {
        nr_cpus: 4,
        nr_at_home,
    };
    assert!(llc(5).is_left_for(&llc(1), 3, false));
    assert!(!llc(5).is_left_for(&llc(1), 3, true), "it is bound");
    assert!(!llc(5).is_left_for(&llc(2), 3, false), "there is no room either");
    assert!(!llc(4).is_left_for(&llc(0), 3, false), "all have room");
}

#[test]
fn who_is_bound_elsewhere_does_not_count_at_home() {
    let counts = |home, is_bound| Stay::new(home, 1).counts_at_home(is_bound);
    assert!(counts(Some(1), true) && counts(Some(0), false));
    assert!(!counts(Some(0), true) && !counts(None, false));
}

#[test]
fn who_changes_places_drives_nobody_from_home() {
    let stay = |home, here| Stay::new(home, here);
    assert_eq!(stay(Some(1), 0).gain(&stay(Some(0), 1)), 2);
    assert_eq!(stay(Some(1), 0).gain(&stay(None, 1)), 1);
    assert_eq!(stay(Some(1), 0).gain(&stay(Some(2), 1)), 1);
    assert_eq!(
        stay(Some(1), 0).gain(&stay(Some(1), 1)),
        0,
        "the other is at home"
    );
    assert_eq!(stay(Some(0), 0).gain(&stay(Some(0), 1)), 0, "so is this one");
    assert_eq!(stay(Some(2), 0).gain(&stay(Some(2), 1)), 0, "nobody comes home");
    assert_eq!(stay(None, 0).gain(&stay(None, 1)), 0);
}

#[test]
fn only_who_is_away_or_has_no_home_and_needs_a_cache_gains_by_an_exchange() {
    let stay = |home, here| Stay::new(home, here);
    assert!(stay(Some(1), 0).may_gain(0) && stay(None, 0).may_gain(1));
    assert!(!stay(Some(0), 0).may_gain(1) && !stay(None, 0).may_gain(0));
    let pair = Pair {
        own_need: 40_000,
        other_need: 100,
        own_sum: 80_000,
        other_sum: 200,
    };
    let gain = |own, other| stay(own, 0).exchange_gain(&stay(other, 1), &pair);
    assert!(pair.gain() > 0 && gain(None, None) == pair.gain());
    assert_eq!((gain(Some(1), None), gain(Some(1), Some(0))), (1, 2));
    assert_eq!(gain(None, Some(1)), 0, "whatever it needs, the other is at home");
    assert_eq!(gain(None, Some(0)), 0, "who is away asks for itself");
}

#[test]
fn who_lost_its_cpu_waits_for_a_moment_before_it_leaves_its_cache() {
    assert!(leaves_cache(true, 0), "who woke up goes at once");
    assert!(!leaves_cache(false, 0) && leaves_cache(false, 1_000_000));
}

/// As many programs as caches, each of as many threads as a cache has cores, all running: the program of each CPU's thread, and
/// where programs are at home.
#[derive(Clone, Debug)]
struct Full {
    nr_cores: usize,
    at: Vec<usize>,
    homes: Vec<usize>,
}

impl Full {
    fn stay(&self, cpu: usize) -> Stay {
        Stay::new(Some(self.homes[self.at[cpu]]), cpu / self.nr_cores)
    }

    fn llc(&self, llc: usize) -> Llc {
        let at_home = self.at.iter().filter(|&&program| self.homes[program] == llc);
        Llc {
            nr_cpus: self.nr_cores as u32,
            nr_at_home: at_home.count() as u32,
        }
    }

    /// How many have no room behind the cache where they are at home.
    fn nr_without_room(&self) -> u32 {
        let llcs = (0..self.at.len() / self.nr_cores).map(|llc| self.llc(llc));
        llcs.map(|llc| llc.nr_at_home.saturating_sub(llc.nr_cpus)).sum()
    }

    fn nr_away(&self) -> usize {
        let is_away = |&cpu: &usize| self.homes[self.at[cpu]] != cpu / self.nr_cores;
        (0..self.at.len()).filter(is_away).count()
    }

    /// A CPU's look at its task, as `exchange()` in exchange.bpf.h: whether something came of it.
    fn look(&mut self, cpu: usize) -> bool {
        let (program, here) = (self.at[cpu], cpu / self.nr_cores);
        let home = self.homes[program];
        if home == here {
            return false;
        }
        if self
            .llc(home)
            .is_left_for(&self.llc(here), self.nr_cores as u32, false)
        {
            self.homes[program] = here;
            return true;
        }
        let elsewhere = (0..self.at.len()).filter(|other| other / self.nr_cores != here);
        let gain = |&other: &usize| self.stay(cpu).gain(&self.stay(other));
        let best = elsewhere.max_by_key(gain).filter(|other| gain(other) > 0);
        if let Some(other) = best {
            self.at.swap(cpu, other);
        }
        best.is_some()
    }
}

fn full() -> impl Strategy<Value = Full> {
    (2usize..6, 2usize..6).prop_flat_map(|(nr_caches, nr_cores)| {
        let threads: Vec<usize> = (0..nr_caches * nr_cores).map(|cpu| cpu / nr_cores).collect();
        let homes = proptest::collection::vec(0..nr_caches, nr_caches);
        (Just(threads).prop_shuffle(), homes).prop_map(move |(at, homes)| Full { nr_cores, at, homes })
    })
}

proptest! {
    #[test]
    fn wherever_programs_began_each_has_a_cache_in_the_end(mut world in full()) {
        let nr = world.at.len();
        // Every round but the last one moves a home or brings a task home.
        for _ in 0..2 * nr {
            let mut has_changed = false;
            for cpu in 0..nr {
                let before = world.clone();
                if world.look(cpu) {
                    let moved = world.nr_without_room() < before.nr_without_room();
                    let came = world.homes == before.homes && world.nr_away() < before.nr_away();
                    prop_assert!(moved || came, "{before:?} {world:?}");
                    has_changed = true;
                }
            }
            if !has_changed {
                break;
            }
        }
        prop_assert_eq!(world.nr_away(), 0, "{:?}", world);
    }
}
