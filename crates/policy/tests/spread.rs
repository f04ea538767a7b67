// SPDX-License-Identifier: GPL-2.0-only
//! Which of the idle CPUs a task gets in a mode.

use threadwise_policy::{Class, Mode, SPILL_NONE, Seat, Spot, spill};

/// Puts single-threaded programs, or the threads of one, on the idle CPUs of least rank, one after the other: 2 packages with 4
/// cores of 2 hardware threads. The CPUs in order.
fn fill(mode: Mode, nr: usize, one_program: bool) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    for _ in 0..nr {
        let busy = |package: usize| taken.iter().filter(|&&cpu| cpu / 8 == package).count() as u32;
        let rank = |cpu: usize| {
            let spot = Spot {
                seat: Seat {
                    shared: taken.contains(&(cpu ^ 1)),
                    beside_serial: false,
                    same_cpu: false,
                    same_core: false,
                    first: cpu.is_multiple_of(2),
                },
                spill: match one_program {
                    true => {
                        let home = taken.first().map(|first| first / 8);
                        spill(home, cpu / 8, home == Some(cpu / 8), taken.len() as u32 + 1, 4)
                    }
                    false => SPILL_NONE,
                },
                away: false,
                nr_busy_package: busy(cpu / 8),
                nr_busy_llc: busy(cpu / 8),
            };
            spot.rank(mode)
        };
        let best = (0..16)
            .filter(|cpu| !taken.contains(cpu) && rank(*cpu).is_some())
            .min_by_key(|&cpu| rank(cpu));
        taken.push(best.expect("there are 16 CPUs"));
    }
    taken
}

#[test]
fn tasks_are_spread_for_performance_and_packed_for_power() {
    // multicore-scheduling, Figs. 5 and 6: four tasks on two quad-core packages.
    assert_eq!(fill(Mode::Performance, 4, false), [0, 8, 2, 10]);
    assert_eq!(fill(Mode::Powersave, 4, false), [0, 2, 4, 6]);
    // Whole cores before siblings, everywhere; and a package is full before the next one is woken.
    assert!(
        fill(Mode::Performance, 8, false)
            .iter()
            .all(|cpu| cpu.is_multiple_of(2))
    );
    assert_eq!(fill(Mode::Powersave, 9, false), [0, 2, 4, 6, 1, 3, 5, 7, 8]);
    // A program's threads stay in one cache as long as they fit.
    assert_eq!(fill(Mode::Performance, 4, true), [0, 2, 4, 6]);
    assert_eq!(fill(Mode::Performance, 6, true), [0, 2, 4, 6, 8, 10]);
    assert_eq!(fill(Mode::Near, 3, false), [0, 2, 4]);
}

#[test]
fn what_outgrows_its_home_takes_other_caches_in_one_order() {
    // Two packages of three caches of two cores; at home behind the second.
    let order = |nr_ready| {
        let mut caches: Vec<usize> = (0..6).collect();
        let place = |&cache: &usize| spill(Some(1), cache, cache / 3 == 0, nr_ready, 2);
        caches.sort_by_key(place);
        let places: Vec<u8> = caches.iter().map(place).collect();
        (caches, places)
    };
    let (caches, places) = order(3);
    assert_eq!(caches, [1, 0, 2, 3, 5, 4]);
    assert!(places.is_sorted_by(|less, more| less < more), "{places:?}");
    assert_eq!(order(7), order(3));
    let (caches, places) = order(2);
    assert!(caches[0] == 1 && places[1..].iter().all(|&place| place == SPILL_NONE));
    // One thread, and who has no home, goes where there is room; and no place is beyond.
    assert_eq!(spill(Some(1), 1, true, 1, 2), SPILL_NONE);
    assert_eq!(spill(None, 1, true, 7, 2), SPILL_NONE);
    assert!(spill(Some(0), 63, false, 7, 2) < SPILL_NONE);
}

#[test]
fn who_rests_goes_to_another_cache_last_of_all() {
    let spot = |away: bool, spill: u8, shared: bool, busy: u32| Spot {
        seat: Seat {
            shared,
            beside_serial: shared,
            same_cpu: false,
            same_core: false,
            first: true,
        },
        spill,
        away,
        nr_busy_package: busy,
        nr_busy_llc: busy,
    };
    let all = [0, SPILL_NONE]
        .into_iter()
        .flat_map(|spill| [false, true].map(|shared| (spill, shared)))
        .flat_map(|(spill, shared)| [0, 5000].map(|busy| (spill, shared, busy)));
    for mode in [Mode::Performance, Mode::Powersave] {
        let ranks = |away: bool| {
            let all = all.clone();
            all.map(move |(spill, shared, busy)| spot(away, spill, shared, busy).rank(mode).unwrap())
        };
        assert!(ranks(false).max() < ranks(true).min(), "{mode:?}");
    }
    // Whole cores before the home's siblings, for performance, and the home before where nobody is.
    let rank = |spill, shared, busy| spot(false, spill, shared, busy).rank(Mode::Performance);
    assert!(rank(SPILL_NONE, false, 5000) < rank(0, true, 0));
    assert!(rank(0, false, 5000) < rank(1, false, 0));
}

#[test]
fn packages_go_before_caches_and_whole_cores_and_the_home_between_them_for_power() {
    let rank = |mode: Mode, shared, spill, nr_busy_package, nr_busy_llc| {
        let seat = Seat {
            shared,
            beside_serial: false,
            same_cpu: false,
            same_core: false,
            first: true,
        };
        let spot = Spot {
            seat,
            spill,
            away: false,
            nr_busy_package,
            nr_busy_llc,
        };
        spot.rank(mode)
    };
    let spread = |package, llc| rank(Mode::Performance, false, SPILL_NONE, package, llc);
    assert!(spread(1, 1) < spread(2, 0), "the package of which less is busy");
    assert!(spread(2, 0) < spread(2, 1), "and the cache in it");
    let packed = |shared, spill, package, llc| rank(Mode::Powersave, shared, spill, package, llc);
    assert!(packed(true, SPILL_NONE, 3, 0) < packed(false, 0, 2, 2));
    assert!(packed(false, SPILL_NONE, 3, 0) < packed(true, 0, 3, 3));
    assert!(packed(false, 0, 3, 0) < packed(false, 1, 3, 3));
    assert!(packed(false, 0, 3, 2) < packed(false, 0, 3, 1));
}

#[test]
fn the_cpu_that_a_task_left_is_first_among_equals() {
    let spot = |same_cpu, nr_busy_package| Spot {
        seat: Seat {
            shared: false,
            beside_serial: false,
            same_cpu,
            same_core: same_cpu,
            first: true,
        },
        spill: SPILL_NONE,
        away: false,
        nr_busy_package,
        nr_busy_llc: nr_busy_package,
    };
    for mode in [Mode::Performance, Mode::Powersave] {
        assert!(spot(true, 1).rank(mode) < spot(false, 1).rank(mode));
        assert!(
            spot(true, 5000).rank(mode).is_some(),
            "more than a rank can tell apart"
        );
    }
    for mode in [Mode::Performance, Mode::Powersave] {
        assert!(
            !spot(true, 1).is_left_for(&spot(false, 1), Class::Parallel, mode),
            "for what is worth as much"
        );
    }
    // Two of four in one package: a third comes, or one goes.
    assert!(spot(true, 1).is_left_for(&spot(false, 0), Class::Parallel, Mode::Performance));
    assert!(!spot(true, 1).is_left_for(&spot(false, 2), Class::Parallel, Mode::Performance));
    assert!(spot(true, 1).is_left_for(&spot(false, 2), Class::Parallel, Mode::Powersave));
    assert!(!spot(true, 1).is_left_for(&spot(false, 0), Class::Parallel, Mode::Powersave));
    assert!(spot(true, 2).rank(Mode::Performance) > spot(false, 1).rank(Mode::Performance));
}

/// With a mode, too, a serial task's core is left to it where another one has room, and else nothing else decides.
#[test]
fn who_runs_beside_a_serial_task_leaves_it_its_core_whatever_the_mode() {
    let spot = |beside_serial, same_cpu, nr_busy| Spot {
        seat: Seat {
            shared: true,
            beside_serial,
            same_cpu,
            same_core: same_cpu,
            first: true,
        },
        spill: SPILL_NONE,
        away: false,
        nr_busy_package: nr_busy,
        nr_busy_llc: nr_busy,
    };
    for mode in [Mode::Performance, Mode::Powersave] {
        for class in [Class::Parallel, Class::Senior] {
            assert!(spot(true, true, 2).is_left_for(&spot(false, false, 2), class, mode));
            assert!(!spot(true, true, 2).is_left_for(&spot(true, false, 2), class, mode));
            assert!(!spot(false, true, 2).is_left_for(&spot(false, false, 2), class, mode));
        }
        for class in [Class::Serial, Class::Kernel] {
            assert!(!spot(true, true, 2).is_left_for(&spot(false, false, 2), class, mode));
        }
    }
    // What the mode wants comes first.
    let (full, empty) = (spot(false, false, 5), spot(false, false, 0));
    assert!(!spot(true, true, 2).is_left_for(&full, Class::Parallel, Mode::Performance));
    assert!(!spot(true, true, 2).is_left_for(&empty, Class::Parallel, Mode::Powersave));
}
