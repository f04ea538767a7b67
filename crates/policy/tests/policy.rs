// SPDX-License-Identifier: GPL-2.0-only
//! What the policy promises, for all inputs.

use std::cmp::Ordering;

use proptest::prelude::*;
use threadwise_policy::{
    BOOST_WHOLE, Beside, CAPACITY_ONE, CROWD_PERIOD_NS, Choice, Class, Due, Group, Keys, Mode, Origin, Place,
    Run, SPILL_NONE, Search, Seat, Spot, Task, Tunables, Waiting, boost_left, clock_ahead, follows_senior,
    goes_on_until_due, here_ns, is_counted, is_faster, longer_look, look_takes, looks_for_better,
    looks_for_seat, loss_of_speed, makes_room, may_preempt, passed_over, phase_began, phase_ended,
    runs_at_once, serial_ready, serial_ready_ns, spill, victim_scan, vtime_charge, vtime_most, waits_us,
    worth,
};

const MS: u64 = 1_000_000;

/// Round numbers; what holds does so for any, and the defaults are nobody's promise.
fn tunables() -> Tunables {
    Tunables {
        senior_boost_ns: 100 * MS,
        vtime_lag_ns: 400 * MS,
        ..Tunables::default()
    }
}

/// A task that nobody waits beside, and whose turn has been over for long.
fn task(class: Class, vtime: u64) -> Task {
    task_among(0, class, vtime)
}

fn task_among(nr_waiting: u32, class: Class, vtime: u64) -> Task {
    Task {
        vtime,
        here_ns: here_ns(u64::MAX),
        class,
        nr_waiting,
        boost_left: BOOST_WHOLE,
        waits_us: 0,
        step_ns: tunables().rotate_ns as u32,
    }
}

/// The boosts of serial and senior tasks beside so many.
fn boosts(nr_waiting: u32) -> (u64, u64) {
    let boost = |boost_ns| tunables().boost(boost_ns, nr_waiting, BOOST_WHOLE);
    (boost(200 * MS), boost(100 * MS))
}

#[test]
fn the_paper_s_threshold_is_more_than_two() {
    let group = Group::default();
    let classes = [(); 4].map(|()| tunables().class_of(group.add(), false, false));
    assert_eq!(
        classes,
        [Class::Serial, Class::Serial, Class::Parallel, Class::Parallel]
    );
    assert_eq!(tunables().class_of(group.nr_ready(), false, true), Class::Senior);
    assert_eq!(
        tunables().class_of(1, false, true),
        Class::Serial,
        "serial goes before senior"
    );
    assert_eq!(tunables().class_of(9, true, true), Class::Kernel);
    assert_eq!(Class::try_from(4), Err(4));
}

#[test]
fn counts_survive_concurrency() {
    let group = Group::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    assert!((1..=8).contains(&group.add()));
                    assert!(group.sub() < 8);
                }
            });
        }
    });
    assert_eq!(group.nr_ready(), 0);
}

#[test]
fn weights_divide_time_and_speed_multiplies_it() {
    assert_eq!(vtime_charge(5, 1000, 100, CAPACITY_ONE), 1005);
    assert_eq!(vtime_charge(0, 1000, 200, CAPACITY_ONE), 500);
    assert_eq!(vtime_charge(0, 1000, 1, CAPACITY_ONE), 100_000);
    assert_eq!(vtime_charge(u64::MAX, 1, 100, CAPACITY_ONE), 0, "vtime wraps");
    assert_eq!(vtime_charge(0, 1000, 100, 512), 500, "half the work was done");
}

#[test]
fn programs_that_can_become_parallel_are_counted() {
    for (nr_threads, serial_threshold) in (0..6).flat_map(|nr| (0..6).map(move |threshold| (nr, threshold))) {
        let tunables = Tunables {
            serial_threshold,
            ..tunables()
        };
        let parallel =
            (0..=nr_threads).any(|ready| tunables.class_of(ready, false, false) == Class::Parallel);
        assert_eq!(
            is_counted(nr_threads, serial_threshold),
            parallel,
            "{nr_threads} {serial_threshold}"
        );
    }
}

#[test]
fn a_phase_begins_and_ends_once() {
    let group = Group::default();
    let began: Vec<bool> = (0..5).map(|_| phase_began(group.add(), 2)).collect();
    assert_eq!(began, [false, false, true, false, false]);
    let ended: Vec<bool> = (0..5).map(|_| phase_ended(group.sub(), 2)).collect();
    assert_eq!(ended, [false, false, true, false, false]);
}

/// A group of eight ready threads that has lost so much time.
fn group(lost_ns: u64) -> Group {
    let group = Group::default();
    (0..8).for_each(|_| assert!(group.add() > 0));
    group.lose(loss(lost_ns, 1));
    group
}

/// Of one of so many threads of nice 0 that waits.
fn loss(waited_ns: u64, nr_threads: u32) -> u32 {
    let waiting = Waiting {
        waited_ns,
        weight: 100,
        nr_ready: 1,
        nr_threads,
        nr_cpus: 8,
    };
    waiting.loss()
}

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

fn turns_of_80_ms() -> Tunables {
    Tunables {
        senior_turn_ns: 80 * MS,
        ..Tunables::default()
    }
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
fn an_old_reading_of_a_clock_is_noticed() {
    let second = 1_000_000_000;
    // Ahead by 7 ms, read 3 ms late, a millisecond after it was not.
    assert_eq!(
        clock_ahead(7_000_000, 1_000_000, 4_000_000),
        7_000_000 - 1_000_000 / 64
    );
    assert_eq!(clock_ahead(7_000_000, 1_000_000, 7_000_100), 7_000_100);
    // Another CPU read it since.
    assert_eq!(clock_ahead(7_000_000, -50, 4_000_000), 7_000_000);
    // Read late for long, it is behind by a 64th of that time.
    let mut ahead = 0;
    for late in 1..=1_000 {
        ahead = clock_ahead(ahead, 4_000, -4_000 * late);
    }
    assert_eq!(ahead, -62_000);
    // Set back.
    assert_eq!(clock_ahead(0, 0, -2 * second), -2 * second);
}

#[test]
fn a_phase_may_last_for_days() {
    let group = Group::default();
    for _ in 0..3 {
        group.add();
    }
    let (began, hour) = (5_000 * MS, 3_600_000 * MS);
    group.begin(began, 0, 0);
    for hours in [1, 30, 45, 78] {
        let age = group.age_ns(began + hours * hour);
        assert!((hours * hour).abs_diff(age) < MS, "{hours} h: {age}");
    }
    // Another CPU's clock is behind.
    assert_eq!(group.age_ns(began - 10 * MS), 0);
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

#[test]
fn a_better_cpu_is_looked_for_where_one_may_be_found_and_once() {
    let unequal = |mode, smt| Class::Serial.search(true, mode, smt);
    assert_eq!([unequal(false, false), unequal(true, true)], [Search::Place; 2]);
    for (class, mode, smt, search) in [
        (Class::Serial, true, true, Search::Spot),
        (Class::Parallel, true, false, Search::Spot),
        (Class::Parallel, false, true, Search::Seat),
        (Class::Serial, false, false, Search::Nowhere),
        // Modes are for programs.
        (Class::Kernel, true, true, Search::Seat),
        (Class::Kernel, true, false, Search::Nowhere),
    ] {
        assert_eq!(class.search(false, mode, smt), search, "{class:?} {mode} {smt}");
    }
    // Who comes was offered the idle ones, who makes way may have looked a moment ago.
    for (comes, looked, unequal, looks) in [
        (true, false, false, false),
        (true, true, true, true),
        (false, false, false, true),
        (false, false, true, true),
        (false, true, true, false),
    ] {
        let what = (comes, looked, unequal);
        assert_eq!(looks_for_better(comes, looked, unequal), looks, "{what:?}");
    }
}

#[test]
fn what_a_slower_cpu_kept_is_worth_a_look_until_it_looks_again() {
    let tun = tunables();
    for look_ns in [0, MS / 100, MS] {
        let again = tun.slice(true, true, look_ns) + 10 * MS;
        assert!(tun.kept_recently(0, look_ns) && tun.kept_recently(again - 1, look_ns));
        assert!(!tun.kept_recently(again, look_ns));
    }
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

#[test]
fn parallel_tasks_take_turns_on_a_fast_cpu() {
    let tun = Tunables::default();
    let at = |vtime, class| task(class, vtime);
    let (behind, ahead) = (10 * MS, 10 * MS + tun.rotate_ns + 1);
    for class in [Class::Parallel, Class::Senior] {
        assert!(tun.takes_turn(&at(behind, class), &at(ahead, class), -1000));
        assert!(
            !tun.takes_turn(&at(behind, class), &at(ahead - 2, class), 1 << 20),
            "a migration for less than a step of the rotation"
        );
        assert!(!tun.takes_turn(&at(behind, class), &at(u64::MAX / 4, Class::Serial), 1 << 20));
        for other in [Class::Kernel, Class::Serial] {
            assert!(!tun.takes_turn(&at(behind, other), &at(ahead, class), 1 << 20));
        }
    }
    assert!(
        tun.takes_turn(&at(ahead, Class::Senior), &at(behind, Class::Parallel), 0),
        "the senior program has the fast CPU"
    );
}

/// Two serial programs on a fast CPU and one of half its speed, which ask at each tick of 4 ms: both get equally far, and
/// exchanges are rare.
#[test]
fn serial_tasks_take_turns_on_the_fast_cpu() {
    let tun = turns_of_80_ms();
    let serial = task(Class::Serial, 0);
    let (programs, mut work, mut nr_exchanges) = ([group(0), group(7 * MS)], [0, 0], 0);
    let mut fast = 0;
    for _ in 0..1000 {
        let slow = 1 - fast;
        work[fast] += 4 * MS;
        work[slow] += 2 * MS;
        assert_eq!(loss_of_speed(Class::Serial, 4 * MS, 1024, 100), 0);
        programs[slow].lose(loss_of_speed(Class::Serial, 4 * MS, 512, 100));
        let lost_more = programs[slow].lost_more_there(&serial, &serial, &programs[fast], &tun);
        if tun.takes_turn(&serial, &serial, lost_more) {
            (fast, nr_exchanges) = (slow, nr_exchanges + 1);
        }
    }
    let apart = work[0].abs_diff(work[1]);
    assert!(apart < 60 * MS, "{work:?}");
    assert!((30..=60).contains(&nr_exchanges), "{nr_exchanges} in 4 s");
    assert_eq!(
        loss_of_speed(Class::Parallel, 4 * MS, 512, 100),
        0,
        "all of them have slow CPUs alike"
    );
    let lost = |weight| loss_of_speed(Class::Serial, 4 * MS, 512, weight);
    assert_eq!(lost(50), lost(100) / 2, "who weighs less waits for longer");
    // Beside a parallel task it does not matter. Who slept for long, or is new, is raised to two turns before the other.
    let lost_ms = |ms: u64| group(ms * MS).lost();
    let more = |class, behind: &Group, there: &Group| {
        let more = behind.lost_more_there(&serial, &task(class, 0), there, &tun);
        (more, behind.lost(), there.lost())
    };
    let (old, new, apart) = (group(900 * MS), group(0), ((2 * tun.senior_turn_ns) >> 10) as u32);
    assert_eq!(more(Class::Parallel, &old, &new), (0, lost_ms(900), lost_ms(0)));
    let raised = lost_ms(900) - apart;
    assert_eq!(
        more(Class::Serial, &old, &new),
        (apart as i32, lost_ms(900), raised)
    );
    let (old, new) = (group(900 * MS), group(0));
    assert_eq!(
        more(Class::Serial, &new, &old),
        (-(apart as i32), raised, lost_ms(900))
    );
    // Programs that are never parallel compete there only.
    assert!(tun.counts_loss(1, true) && !tun.counts_loss(1, false));
    assert!(!tun.counts_loss(2, false) && tun.counts_loss(3, false));
}

#[test]
fn whoever_is_due_is_due_beside_one_of_a_class() {
    let due = |running, waiting, in_ns| Due::of(&task(running, 0), &task(waiting, 0), in_ns);
    assert_eq!(due(Class::Parallel, Class::Serial, 1), None);
    assert_eq!(due(Class::Parallel, Class::Serial, 0), Some(Due::Later));
    assert_eq!(due(Class::Senior, Class::Senior, 0), Some(Due::Same));
    assert_eq!(due(Class::Serial, Class::Parallel, 0), Some(Due::Earlier));
}

/// A CPU that shares no core, idle or with a task of this class.
fn place(capacity: u32, running: Option<Class>) -> Place {
    Place {
        capacity,
        seat: Seat {
            shared: false,
            beside_serial: false,
            same_cpu: false,
            same_core: false,
            first: true,
        },
        idle: running.is_none(),
        fast: capacity > 512,
        class: running.unwrap_or(Class::Parallel),
    }
}

/// Which of these places a task chooses that runs on a CPU of this capacity and worth, or is bound for one (0).
fn chosen_from(class: Class, (own, here): (u32, u32), places: &[Place]) -> Option<usize> {
    let mut choice = Choice::on(own, here);
    let mut best = None;
    for (nth, place) in places.iter().enumerate() {
        if choice.is_now(class, place) {
            best = Some(nth);
        }
    }
    best
}

/// The same of a CPU that shares no core.
fn chosen(class: Class, own: u32, places: &[Place]) -> Option<usize> {
    chosen_from(class, (own, own), places)
}

#[test]
fn serial_tasks_get_the_fast_cpu_and_nobody_takes_it_from_them() {
    let goes = |class, here, there| chosen(class, here, &[there]).is_some();
    let fast = |running| place(1024, running);
    assert!(goes(Class::Serial, 512, fast(Some(Class::Parallel))));
    assert!(goes(Class::Serial, 512, fast(Some(Class::Senior))));
    assert!(!goes(Class::Serial, 512, fast(Some(Class::Serial))));
    assert!(!goes(Class::Serial, 512, fast(Some(Class::Kernel))));
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert!(goes(class, 512, fast(None)), "an idle fast CPU is for everybody");
        assert!(!goes(class, 1024, fast(None)), "not from an equal one");
        assert!(!goes(class, 1000, fast(None)), "a few MHz are not worth it");
    }
    assert!(!goes(Class::Kernel, 512, fast(None)), "bound kernel threads stay");
    assert!(!goes(Class::Senior, 512, fast(Some(Class::Parallel))));
    assert!(
        !goes(Class::Serial, 0, place(512, Some(Class::Parallel))),
        "by class alone only fast ones are taken"
    );
    assert!(!goes(Class::Serial, 1024, place(512, None)), "never down");
    assert!(is_faster(900, 800) && !is_faster(899, 800), "an eighth");
}

#[test]
fn an_idle_cpu_goes_before_one_that_is_taken_and_the_last_one_before_others() {
    let busy = place(1024, Some(Class::Parallel));
    let idle = |capacity| place(capacity, None);
    let last = |mut there: Place| {
        there.seat.same_cpu = true;
        there
    };
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(chosen(class, 0, &[busy, idle(1024), idle(1024)]), Some(1));
        assert_eq!(chosen(class, 0, &[idle(1024), last(idle(1000))]), Some(1));
        assert_eq!(chosen(class, 0, &[last(idle(700)), idle(1024)]), Some(1));
    }
    assert_eq!(chosen(Class::Serial, 0, &[busy, last(busy)]), Some(1));
    assert_eq!(
        chosen(Class::Serial, 0, &[busy, idle(700)]),
        Some(0),
        "an eighth more is worth taking it"
    );
    assert_eq!(
        chosen(Class::Serial, 0, &[last(idle(700)), busy]),
        Some(1),
        "whichever is seen first"
    );
    assert_eq!(chosen(Class::Parallel, 0, &[busy, idle(700)]), Some(1));
}

/// A hardware thread of a fast core on which another runs, a serial task or not; idle, or with a task of this class.
fn sibling(serial: bool, running: Option<Class>) -> Place {
    let mut there = place(1024, running);
    there.seat.shared = true;
    there.seat.beside_serial = serial;
    there
}

#[test]
fn half_of_a_fast_core_is_worth_less_than_a_whole_one_that_is_somewhat_slower() {
    let (whole, slow) = (place(1024, None), place(768, None));
    let shared = sibling(false, None);
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(chosen(class, 0, &[shared, whole]), Some(1));
        assert_eq!(chosen(class, 0, &[whole, shared]), Some(0));
        assert_eq!(chosen(class, 0, &[shared, slow]), Some(1));
        assert_eq!(
            chosen(class, 0, &[shared, place(512, None)]),
            Some(0),
            "5/8 of it is worth more than half"
        );
        let here = (1024, worth(class, 1024, true, false));
        assert_eq!(chosen_from(class, here, &[slow]), Some(0), "who shares leaves");
    }
    let beside = |class| chosen(class, 0, &[sibling(true, None), place(300, None)]);
    assert_eq!(beside(Class::Parallel), Some(1), "a serial task keeps its core");
    assert_eq!(beside(Class::Serial), Some(0));
    assert_eq!(
        chosen(Class::Parallel, 0, &[sibling(true, None), shared]),
        Some(1)
    );
}

#[test]
fn no_cpu_is_taken_because_of_what_cores_share() {
    let (lone, idle) = (place(1024, Some(Class::Parallel)), sibling(false, None));
    let here = (1024, worth(Class::Serial, 1024, true, false));
    assert_eq!(chosen_from(Class::Serial, here, &[lone]), None);
    assert_eq!(chosen(Class::Serial, 0, &[lone, idle]), Some(1));
    assert_eq!(chosen(Class::Serial, 0, &[idle, lone]), Some(0));
    // For its speed it is, but not where half of it is less than a whole slow one.
    assert_eq!(chosen(Class::Serial, 0, &[lone, place(768, None)]), Some(0));
    let shared = sibling(false, Some(Class::Parallel));
    assert_eq!(chosen(Class::Serial, 0, &[shared, place(768, None)]), Some(1));
    assert_eq!(chosen(Class::Serial, 512, &[shared]), Some(0));
}

#[test]
fn a_look_for_a_place_ends_where_none_can_be_better() {
    let mut choice = Choice::default();
    assert!(!choice.is_made(1024), "none was seen");
    assert!(choice.is_now(Class::Serial, &place(1024, Some(Class::Parallel))));
    assert!(!choice.is_made(1024), "another may be idle");
    assert!(choice.is_made(900), "slower ones matter no more");
    assert!(choice.is_now(Class::Serial, &place(1000, None)));
    assert!(choice.is_made(1024));
    let mut slow = Choice::default();
    assert!(slow.is_now(Class::Serial, &place(600, None)));
    assert!(!slow.is_made(1024));
    let mut shared = Choice::default();
    assert!(shared.is_now(Class::Serial, &sibling(false, None)));
    assert!(!shared.is_made(700), "a whole core that is worth about as much");
    assert!(shared.is_now(Class::Serial, &place(700, None)));
    assert!(
        Choice::on(1024, 1024).is_made(1024),
        "who is on a fast CPU looks at none"
    );
    assert!(!Choice::on(1024, 640).is_made(768), "who shares its core does");
}

proptest! {
    /// Whatever is seen, who chooses a place gains an eighth of worth by it, takes a CPU for an eighth of speed only, and finds an
    /// idle one that would do.
    #[test]
    fn what_is_chosen_is_worth_it(
        seen in prop::collection::vec((1u32..=1024, any::<bool>(), any::<bool>(), prop::option::of(0usize..4)), 1..12),
        own in 0u32..=1024,
    ) {
        let places: Vec<Place> = seen
            .iter()
            .map(|&(capacity, shared, beside_serial, running)| {
                let mut there = place(capacity, running.map(|class| CLASSES[class]));
                there.seat.shared = shared;
                there.seat.beside_serial = beside_serial;
                there
            })
            .collect();
        let of = |class, there: &Place| worth(class, there.capacity, there.seat.shared, there.seat.beside_serial);
        for class in [Class::Serial, Class::Senior, Class::Parallel] {
            let best = chosen(class, own, &places).map(|nth| &places[nth]);
            let idle = places.iter().filter(|there| there.idle && is_faster(of(class, there), own));
            if let Some(best) = best {
                prop_assert!(is_faster(of(class, best), own));
                prop_assert!(best.idle || (class == Class::Serial && is_faster(best.capacity, own)));
            } else {
                prop_assert_eq!(idle.count(), 0);
            }
        }
    }
}

const CLASSES: [Class; 4] = [Class::Kernel, Class::Serial, Class::Senior, Class::Parallel];

/// Of a nice-0 task that has its CPU for itself.
const ALONE: Run = Run {
    before_ns: 0,
    since_ns: 0,
    weight: 100,
    capacity: CAPACITY_ONE,
    nr_waiting: 0,
    boost_left: BOOST_WHOLE,
    origin: Origin::Charge,
    unboosted: 0,
    others_wait: 1,
};

#[test]
fn what_was_run_under_the_serial_boost_is_forgiven() {
    let t = tunables();
    let bound = |vtime, class| t.vtime_bound(vtime, &ALONE, 100 * MS, class, false);
    assert_eq!(bound(140 * MS, Class::Serial), 101 * MS);
    assert_eq!(bound(60 * MS, Class::Serial), 60 * MS, "nothing is given");
    assert_eq!(bound(140 * MS, Class::Senior), 140 * MS);
    assert_eq!(bound(140 * MS, Class::Parallel), 140 * MS);
    // Time, not vtime, or a light one would be forgiven all it runs.
    let light = Run { weight: 25, ..ALONE };
    let kept = t.vtime_bound(140 * MS, &light, 100 * MS, Class::Serial, false);
    assert_eq!(kept, 104 * MS);
}

#[test]
fn who_is_ahead_of_nobody_moves_the_clock() {
    // Eight programs that are always serial, one on each of eight CPUs, each charged for slices of 20 ms. The current vtime goes
    // with them, or one that sleeps most of the time would be owed nothing at its waking.
    let t = tunables();
    let after_20_slices = |nr_waiting: u32, others_wait: u32| {
        let run = Run {
            since_ns: 20 * MS,
            nr_waiting,
            others_wait,
            ..ALONE
        };
        let (mut now, mut vtimes) = (1000 * MS, [1000 * MS; 8]);
        for _ in 0..20 {
            for vtime in &mut vtimes {
                let picked = task_among(nr_waiting, Class::Serial, *vtime);
                now = t.clock(now, &picked, 100, 0, others_wait == 1);
                *vtime = t.vtime_advance(*vtime, &run, now, Class::Serial);
            }
        }
        now - 1000 * MS
    };
    assert_eq!(after_20_slices(0, 0), 19 * 20 * MS);
    assert_eq!(after_20_slices(0, 1), 0, "somebody waits elsewhere");
    assert_eq!(
        after_20_slices(1, 1),
        19 * 2 * MS,
        "beside them, two windows a slice"
    );
    // A light one keeps no more than others do, or a window's time where that is more: it would run away from them with the clock.
    let bound = |weight, nr_waiting, others_wait| {
        let run = Run {
            weight,
            nr_waiting,
            others_wait,
            ..ALONE
        };
        t.vtime_bound(900 * MS, &run, 100 * MS, Class::Serial, false) / MS - 100
    };
    assert_eq!([100, 25, 1].map(|weight| bound(weight, 0, 0)), [20, 20, 100]);
    assert_eq!([100, 25, 1].map(|weight| bound(weight, 0, 1)), [1, 4, 100]);
    assert_eq!(
        [100, 25, 1].map(|weight| bound(weight, 1, 0)),
        [2, 8, 200],
        "one waits here"
    );
}

#[test]
fn a_newcomer_waits_for_one_lag_whoever_is_before_it() {
    // The time that all who wait beside it can run on their credit, by how many and of which weight they are.
    let (t, now) = (tunables(), 1000 * MS);
    let credit_ms = |nr_waiting: u32, weight: u32| {
        let run = Run {
            weight,
            nr_waiting,
            ..ALONE
        };
        let behind = now - t.vtime_bound(0, &run, now, Class::Serial, false);
        f64::from(nr_waiting + 1) * behind as f64 * f64::from(weight) / 100.0 / MS as f64
    };
    assert!((credit_ms(0, 100) - 400.0).abs() < 0.1);
    assert!((credit_ms(4, 100) - 400.0).abs() < 0.1);
    assert!(
        (credit_ms(0, 10_000) - 400.0).abs() < 0.1,
        "nice -20 stays for no longer"
    );
    assert!((credit_ms(4, 10_000) - 400.0).abs() < 0.1);
    assert!((credit_ms(99, 100) - 100.0 * 10.0).abs() < 0.1, "10 ms each");
}

#[test]
fn who_is_boosted_less_keeps_its_place_while_it_waits() {
    // A parallel task that waited until serial ones had used up their boost is not set back for it when it ran.
    let (t, now) = (tunables(), 1000 * MS);
    let serial_key = t.key(&task(Class::Serial, now));
    // Whatever it weighs, up to about nice -10.
    for (class, weight) in [
        (Class::Senior, 100),
        (Class::Parallel, 100),
        (Class::Parallel, 15),
        (Class::Parallel, 932),
    ] {
        let run = Run {
            since_ns: MS,
            weight,
            ..ALONE
        };
        let vtime = serial_key + now - t.key(&task(class, now));
        let ran = t.vtime_advance(vtime, &run, now, class);
        assert_eq!(
            ran,
            vtime_charge(vtime, MS, weight, CAPACITY_ONE),
            "{class:?} of {weight}"
        );
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
fn who_has_a_cpu_for_itself_does_not_move_the_others_clock() {
    let clock = |vtime, nr_waiting, others_wait| {
        tunables().clock(
            100,
            &task_among(nr_waiting, Class::Parallel, vtime),
            100,
            0,
            others_wait,
        )
    };
    assert_eq!(clock(101, 1, true), 101);
    assert_eq!(clock(101, 0, false), 101, "nobody waits anywhere");
    assert_eq!(clock(101, 0, true), 100);
    assert_eq!(clock(99, 1, true), 100, "never back");
    let senior = |vtime| tunables().clock(100, &task_among(1, Class::Senior, vtime), 100, 0, true);
    let (_, boost) = boosts(1);
    assert_eq!(senior(100 + boost), 100, "its boost is no progress");
    assert_eq!(senior(101 + boost), 101);
    let wrapped = tunables().clock(u64::MAX, &task_among(1, Class::Parallel, 1), 100, 0, true);
    assert_eq!(wrapped, 1, "where vtimes wrap");
}

#[test]
fn boosted_tasks_keep_others_waiting_for_a_bounded_time_however_many_there_are() {
    let boost = |nr_waiting| boosts(nr_waiting).0;
    assert_eq!((boost(0), boost(2), boost(6)), (200 * MS, 200 * MS, 50 * MS));
    for nr_waiting in [1u32, 2, 10, 100, 10_000, u32::MAX - 1, u32::MAX] {
        let together = u128::from(boost(nr_waiting)) * u128::from(nr_waiting);
        assert!(together <= 2 * u128::from(200 * MS), "{nr_waiting}: {together}");
        assert!(boost(nr_waiting) <= boost(nr_waiting - 1), "{nr_waiting}");
    }
}

/// Ready serial tasks in 256ths.
fn serial(nr: u32) -> u32 {
    nr << 8
}

#[test]
fn boosts_are_whole_beside_few_serial_tasks_and_nothing_where_they_fill_the_machine() {
    for (nr, left) in [
        (0, BOOST_WHOLE),
        (4, BOOST_WHOLE),
        (6, BOOST_WHOLE / 2),
        (8, 0),
        (80, 0),
    ] {
        assert_eq!(boost_left(serial(nr), 8), left, "{nr}");
    }
    let boost = |left| tunables().boost(200 * MS, 1, left);
    assert_eq!(
        [BOOST_WHOLE, BOOST_WHOLE / 2, 0].map(boost),
        [200 * MS, 100 * MS, 0]
    );
    // A parallel task that waits for serial ones that fill the machine goes on with the others, and not a boost later.
    let at = |class, vtime| Task {
        boost_left: 0,
        ..task_among(1, class, vtime)
    };
    let (running, waiting) = (at(Class::Serial, 1002 * MS), at(Class::Parallel, 1000 * MS));
    assert!(tunables().yields(&running, &waiting));
    assert!(!tunables().yields(
        &Task {
            boost_left: BOOST_WHOLE,
            ..running
        },
        &Task {
            boost_left: BOOST_WHOLE,
            ..waiting
        }
    ));
}

#[test]
fn serial_tasks_are_counted_by_the_time_that_they_are_ready() {
    let period = CROWD_PERIOD_NS;
    // Eight that share their CPUs with as many others: each runs half of the time and waits as long.
    let half = serial_ready_ns(period / 2, period / 2);
    let after = |periods, each| (0..periods).fold(0, |nr, _| serial_ready(nr, 8 * each, period));
    assert_eq!(after(1, half), serial(2), "a quarter of what is new");
    assert!((serial(7)..=serial(8)).contains(&after(20, half)));
    // Of 80 that are bound to one CPU one runs at a time, and each waits for the 79 others: they are three, not 80.
    let bound = serial_ready_ns(period / 80, 79 * period / 80);
    assert_eq!(80 * bound / period, 3);
    // Who ran long ago and is charged now, because nobody waited meanwhile, counts for a slice at most.
    assert_eq!(serial_ready_ns(1000 * MS, 0), 20 * MS);
    // As many as there were long ago are not there now.
    assert_eq!(serial_ready(serial(24), 0, 1000 * MS), 0);
}

#[test]
fn a_parallel_task_s_wait_among_serial_ones_is_bounded_however_many_there_are() {
    // All are bound to one CPU. Whoever runs is charged a step and queued again; how long until the parallel one's turn?
    let t = tunables();
    let wait_ms = |serial: u32| {
        let mut queue = vec![1000 * MS; serial as usize];
        let parallel = t.key(&task_among(serial, Class::Parallel, 1000 * MS));
        let mut waited = 0;
        loop {
            let (first, vtime) = queue
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|(_, vtime)| *vtime)
                .unwrap();
            if t.key(&task_among(serial, Class::Serial, vtime)) > parallel {
                return waited;
            }
            queue[first] += MS;
            waited += 1;
        }
    };
    let waits = [1, 2, 8, 50, 500].map(wait_ms);
    assert!(
        waits
            .iter()
            .zip([1, 2, 8, 50, 500])
            .all(|(wait, serial)| *wait <= 400 + serial),
        "{waits:?}"
    );
    assert!(waits[0] > 150, "the boost is worth something: {waits:?}");
}

#[test]
fn who_waits_for_long_has_its_turn_whatever_the_others_weigh() {
    // Two serial tasks of nice -20 and a parallel one, all bound to one CPU; how long until the parallel one's turn? What the
    // others run moves their vtimes by a hundredth of it.
    let t = tunables();
    let wait_ms = |is_first: bool| {
        let (now, mut hogs) = (1000 * MS, [1000 * MS; 2]);
        for waited in 0..100_000 {
            let parallel = Task {
                waits_us: waits_us(waited * MS),
                ..task_among(2, Class::Parallel, now)
            };
            let [running, waiting] = hogs.map(|vtime| task_among(2, Class::Serial, vtime));
            if t.yields(&running, &parallel) && (is_first || t.goes_first(&parallel, &waiting)) {
                return waited;
            }
            hogs[0] = vtime_charge(hogs[0], MS, 10_000, CAPACITY_ONE);
            hogs.swap(0, 1);
        }
        panic!("it never has its turn");
    };
    let waits = [true, false].map(wait_ms);
    assert!(waits.iter().all(|wait| (700..=810).contains(wait)), "{waits:?}");
}

#[test]
fn who_is_alone_does_not_go_before_all_that_wait_elsewhere() {
    // Eight of eighty serial programs are alone on their CPUs, the others wait for one CPU. Where one may go on beside
    // the other it is for what it ran less, not because fewer wait beside it.
    let alone = |ahead_ms| task(Class::Serial, 1000 * MS + ahead_ms * MS);
    let waiting = task_among(71, Class::Serial, 1000 * MS);
    assert!(tunables().yields(&alone(2), &waiting) && !tunables().yields(&alone(1), &waiting));
    // And parallel ones wait for neither of them long.
    let parallel = task_among(71, Class::Parallel, 1000 * MS);
    assert!(
        tunables().yields(&alone(2), &parallel),
        "its boost is that of the long queue"
    );
    let parallel = task(Class::Parallel, 1000 * MS);
    assert!(
        !tunables().yields(&alone(200), &parallel),
        "where nobody else waits it is not"
    );
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

#[test]
fn beside_a_bound_parallel_task_a_bound_serial_one_goes_by_its_vtime() {
    let t = tunables();
    for (ago_ns, expected) in [
        (0, true),
        (1000 * MS - 1, true),
        (1000 * MS, false),
        (u64::MAX, false),
    ] {
        let few = t.goes_unboosted(t.serial_threshold, ago_ns);
        assert_eq!(few, expected, "{ago_ns}");
        // Other CPUs may wait for the main thread of a program that has parallel phases.
        assert!(!t.goes_unboosted(t.serial_threshold + 1, ago_ns));
    }
    // Beside it boosts do not count, whoever has one.
    let parallel = task(Class::Parallel, 0);
    let unboosted = |vtime| Task {
        boost_left: 0,
        ..task(Class::Serial, vtime)
    };
    assert_eq!(t.key(&unboosted(0)), t.key(&parallel));
    assert!(t.goes_first(&parallel, &unboosted(1)) && t.goes_first(&unboosted(0), &task(Class::Parallel, 1)));
    for class in [Class::Serial, Class::Senior] {
        assert!(t.goes_first(&unboosted(0), &task(class, 1)) && t.goes_first(&task(class, 0), &unboosted(1)));
    }
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert!(!t.goes_first(&unboosted(1), &task(class, 0)), "{class:?}");
    }
    // What it runs is not forgiven, as that of a boosted one is but for a window's time; and it may be as far behind as a
    // parallel one.
    let bound_as = |vtime, class, unboosted, woke| {
        let run = Run { unboosted, ..ALONE };
        t.vtime_bound(vtime, &run, 10_000 * MS, class, woke)
    };
    let bound = |vtime, class, unboosted| bound_as(vtime, class, unboosted, false);
    assert_eq!(bound(10_020 * MS, Class::Serial, 1), 10_020 * MS);
    assert_eq!(
        bound(10_020 * MS, Class::Serial, 0),
        10_000 * MS + t.vtime_window_ns
    );
    assert_eq!(bound(0, Class::Serial, 1), bound(0, Class::Parallel, 0));
    // When it wakes up it brings 10 ms, as others do.
    assert_eq!(bound_as(0, Class::Serial, 1, true), 9_990 * MS);
    assert_eq!(bound_as(0, Class::Serial, 0, true), 9_990 * MS);
}

#[test]
fn threads_start_with_a_phase_side_by_side() {
    let (t, began_ns, base) = (tunables(), 5000 * MS, 100 * MS);
    let group = group(0);
    group.begin(began_ns, base, 0);
    // Of 40 ms that it ran.
    let run_of = |group: &Group, seen, ready_ns, slept, after_ns: i64| {
        let mut run = Run {
            since_ns: 40 * MS,
            ..ALONE
        };
        let now_ns = began_ns.wrapping_add_signed(after_ns);
        run.find_origin(group, seen, ready_ns, slept, now_ns, t.serial_threshold);
        run
    };
    let starts = |seen, ready_ns, after_ms: i64| {
        run_of(&group, seen, ready_ns, true, after_ms * MS as i64).origin == Origin::Phase
    };
    assert!(starts(0, 0, 1), "who wakes up with the others");
    assert!(starts(0, 30 * MS, 30), "who found an idle CPU then");
    assert!(starts(0, 90 * MS, 30), "who ran before, serially");
    assert!(!starts(0, 0, 30), "who comes later");
    assert!(!starts(group.phase(), 0, 1), "who has started");
    assert!(starts(0, 0, 0) && starts(0, 0, -1), "a clock that is behind");
    let serial = Group::default();
    serial.begin(began_ns, base, 0);
    assert_ne!(
        run_of(&serial, 0, 0, true, 0).origin,
        Origin::Phase,
        "its threads sleep again"
    );
    // What it ran before its phase began, or before it slept, counts apart.
    let parts = |run: Run| (run.origin, run.before_ns / MS, run.since_ns / MS);
    let at_first = run_of(&group, 0, 90 * MS, false, 30 * MS as i64);
    assert_eq!(at_first.before_ns + at_first.since_ns, 40 * MS);
    assert!(
        at_first.since_ns.abs_diff(30 * MS) < 65_536,
        "what it ran of its phase: {at_first:?}"
    );
    let slept = run_of(&group, group.phase(), 5 * MS, true, 30 * MS as i64);
    assert_eq!(parts(slept), (Origin::Waking, 35, 5));
    let went_on = run_of(&group, group.phase(), 90 * MS, false, 30 * MS as i64);
    assert_eq!(parts(went_on), (Origin::Charge, 0, 40));
    // Who had to wait ran for less than it was ready.
    let waited = |seen, slept| parts(run_of(&group, seen, 70 * MS, slept, 60 * MS as i64));
    assert_eq!(waited(group.phase(), true), (Origin::Waking, 0, 40));
    assert_eq!(waited(0, false), (Origin::Phase, 0, 40));
    // One is owed 60 ms, another owes 40; when it matters first the clock is 20 ms further.
    let now = base + 20 * MS;
    let run = Run {
        before_ns: 7 * MS,
        since_ns: 3 * MS,
        origin: Origin::Phase,
        ..ALONE
    };
    let at = t.vtime_advance(group.base(now), &run, now, Class::Parallel);
    assert!(
        (base + 3 * MS - at) < 65_536,
        "what it ran since counts, and nothing before: {at}"
    );
    let waking = Run {
        origin: Origin::Waking,
        ..run
    };
    let [owed, owes] = [60 * MS, 140 * MS].map(|vtime| t.vtime_advance(vtime, &waking, now, Class::Parallel));
    assert!(owes - owed > 20 * MS, "as long as the phase may be, without that");
}

#[test]
fn queues_stay_of_one_length() {
    // What waits in another queue is later for a CPU unless that is longer, or its class is earlier.
    let seen = |theirs: &Task, mine: &Task| tunables().vtime_seen(theirs, Some(mine), false);
    let elsewhere = |nr_theirs, class, nr_mine| {
        let mine = task_among(nr_mine, Class::Parallel, 0);
        seen(&task_among(nr_theirs, class, 100 * MS), &mine)
    };
    let [senior, mine] = [100 * MS, 0].map(|vtime| task_among(1, Class::Senior, vtime));
    assert_eq!(seen(&senior, &mine), 110 * MS);
    let t = tunables();
    assert_eq!(
        t.vtime_seen(&senior, Some(&mine), true),
        111 * MS,
        "behind another cache"
    );
    assert_eq!(t.vtime_seen(&senior, None, false), 100 * MS, "nobody waits here");
    let [serial, mine] = [100 * MS, 0].map(|vtime| task_among(1, Class::Serial, vtime));
    assert_eq!(
        seen(&serial, &mine),
        100 * MS,
        "no boost of theirs has to last for a turn"
    );
    assert_eq!(elsewhere(2, Class::Parallel, 1), 100 * MS);
    assert_eq!(elsewhere(1, Class::Senior, 1), 100 * MS);
    assert_eq!(elsewhere(1, Class::Parallel, 1), 110 * MS);
    assert_eq!(elsewhere(1, Class::Parallel, 2), 110 * MS);
}

proptest! {
    #[test]
    fn a_stamp_is_found_again(vtime: u64, ahead in 0..1u64 << 46) {
        let group = Group::default();
        group.begin(0, vtime, 0);
        let found = group.base(vtime.wrapping_add(ahead));
        prop_assert!(vtime.wrapping_sub(found) < 1 << 16, "{} for {}", found, vtime);
        let found = group.base(vtime.wrapping_sub(ahead));
        prop_assert!(vtime.wrapping_sub(found) < 1 << 16, "{} for {}", found, vtime);
    }
}

#[test]
fn who_found_an_idle_cpu_has_run_and_who_waits_has_not() {
    // Two threads slept while another program ran 20 ms. One found an idle CPU and ran 2 ms, the other waits.
    let (t, now) = (tunables(), 100 * MS);
    let run = |since_ns, origin| Run {
        since_ns,
        origin,
        ..ALONE
    };
    let at = |since_ns| t.vtime_advance(80 * MS, &run(since_ns, Origin::Waking), now, Class::Parallel);
    assert_eq!((at(0), at(2 * MS)), (99 * MS, 101 * MS));
    let ran = task(Class::Parallel, at(2 * MS + 1));
    assert!(t.yields(&ran, &task(Class::Parallel, at(0))));
    let awake = t.vtime_advance(80 * MS, &run(2 * MS, Origin::Charge), now, Class::Parallel);
    assert_eq!(awake, 82 * MS, "who did not sleep keeps its credit");
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
    /// Of two CPUs at most one is faster, so that a task never moves back and forth; zero is no surprise.
    #[test]
    fn faster_is_asymmetric(a: u32, b: u32) {
        let (a, b) = (a % 1025, b % 1025);
        prop_assert!(!(is_faster(a, b) && is_faster(b, a)));
        prop_assert!(!is_faster(a, a));
    }

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

    /// A task is never further from the current vtime than its span, ahead by a boost more if it is senior, behind by what
    /// others are boosted more; one that wakes up has no more credit than the window, or 10 ms if it is serial. Also where
    /// vtime wraps.
    #[test]
    fn vtimes_stay_near_now(
        vtime: u64, now: u64, woke: bool, c in 0usize..4, weight in 1u32..=10_000,
        nr_waiting in prop_oneof![0u32..20, 0u32..100_000],
        serial in 0u64..=1000, senior in 0u64..=500,
    ) {
        let t = Tunables { serial_boost_ns: serial * MS, senior_boost_ns: senior * MS, ..tunables() };
        let (serial, senior) = (t.boost(serial * MS, nr_waiting, BOOST_WHOLE), t.boost(senior * MS, nr_waiting, BOOST_WHOLE));
        let run = Run { weight, nr_waiting, ..ALONE };
        let bound = |vtime| t.vtime_bound(vtime, &run, now, CLASSES[c], woke);
        let after = bound(vtime);
        let from_now = after.wrapping_sub(now) as i64;
        let span = (t.vtime_lag_ns / u64::from(nr_waiting + 1)).max(10 * MS);
        let most = serial.max(senior);
        let (lead, outrun) = match CLASSES[c] {
            Class::Kernel | Class::Serial => (0, most - serial),
            Class::Senior => (senior, most - senior),
            Class::Parallel => (0, most),
        };
        let beyond = |most: u32, ns: u64| ns * u64::from(most) / u64::from(weight.max(most));
        let behind = match (woke, CLASSES[c]) {
            (true, Class::Senior | Class::Parallel) => t.vtime_window_ns,
            (true, _) => beyond(100, 10 * MS) + beyond(1000, outrun),
            (false, _) => beyond(100, span) + beyond(1000, outrun),
        };
        let span = beyond(100, span);
        prop_assert!((-(behind as i64)..=(span + lead) as i64).contains(&from_now));
        prop_assert_eq!(bound(after), after);
    }

    /// Whoever runs moves on: a task at the end of its bounds moves the clock, and so comes to be overtaken, whatever it
    /// weighs and however many wait.
    #[test]
    fn nobody_runs_in_place(
        now: u64, c in 0usize..4, weight in 1u32..=10_000, nr_waiting in prop_oneof![1u32..20, 1u32..100_000],
    ) {
        let run = Run { weight, nr_waiting, ..ALONE };
        let vtime = tunables().vtime_bound(now.wrapping_add(1 << 40), &run, now, CLASSES[c], false);
        let moved = tunables().clock(now, &task_among(nr_waiting, CLASSES[c], vtime), weight, 1, true);
        prop_assert!((moved.wrapping_sub(now) as i64) > 0);
    }

    /// The boosts are bounded: a task that is ahead by the difference preempts nobody, so whoever waits
    /// long enough is served. What counts is the longer queue.
    #[test]
    fn the_boosts_are_bounded(now: u64, ahead in 0u64..400 * MS, a in 0u32..100, b in 0u32..100) {
        let (serial, senior) = boosts(a.max(b));
        let preempts = |waking, running| {
            let waking = task_among(a, waking, now.wrapping_add(ahead));
            tunables().preempts(&waking, &task_among(b, running, now))
        };
        prop_assert_eq!(preempts(Class::Serial, Class::Parallel), ahead < serial);
        prop_assert_eq!(preempts(Class::Senior, Class::Parallel), ahead < senior);
        prop_assert_eq!(preempts(Class::Serial, Class::Senior), ahead < serial - senior);
    }

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

    /// The more serial tasks are ready, the less is left of boosts, and never more than all.
    #[test]
    fn what_is_left_of_boosts_falls(nr: u32, more: u32, nr_cpus in 1u32..=1024) {
        let (fewer, more) = (nr.min(more), nr.max(more));
        prop_assert!(boost_left(more, nr_cpus) <= boost_left(fewer, nr_cpus));
        prop_assert!(boost_left(fewer, nr_cpus) <= BOOST_WHOLE);
    }

    /// Their number lies between what it was and what it is now.
    #[test]
    fn the_number_of_serial_tasks_is_a_mean(before in 0u32..1 << 24, ready_ns in 0u64..1 << 48, in_ns in 1u64..1 << 40) {
        let now = ((ready_ns << 8) / in_ns).min(1 << 24) as u32;
        let mean = serial_ready(before, ready_ns, in_ns);
        prop_assert!((before.min(now)..=before.max(now)).contains(&mean), "{mean} of {before} and {now}");
    }

    /// Waiting counts from 0.2 s for each task of the CPU on, to the microsecond, in a queue as beside who runs, and does not wrap.
    #[test]
    fn a_wait_counts_when_it_is_long(
        vtime: u64, c in 1usize..4, nr in 0u32..100, waits_ns in prop_oneof![0..5000 * MS, any::<u64>()], more_ns in 0..2 * MS,
    ) {
        let at = |waits_us| Task { waits_us, ..task_among(nr, CLASSES[c], vtime) };
        let waits = at(waits_us(waits_ns));
        let age = waits_ns.min(3_600_000 * MS).saturating_sub(200 * MS * u64::from((nr + 1).min(16))) / 1000 * 1000;
        prop_assert_eq!(tunables().key(&at(0)).wrapping_sub(tunables().key(&waits)), age);
        let [before, after] = [vtime.wrapping_sub(1), vtime.wrapping_add(1)];
        let moves = |all| [before, vtime, after].map(|key| waits.moves_in_queue(key, vtime, all));
        prop_assert_eq!(moves(false), [age > 0, false, false]);
        prop_assert_eq!(moves(true), [true, false, true]);
        // Who runs makes way so much sooner for it.
        let just = at(waits_us(200 * MS * u64::from((nr + 1).min(16)) + more_ns));
        let (due, younger) = (tunables().due_in(&at(0), &just), tunables().due_in(&at(0), &at(0)));
        // Serial ones have turns.
        prop_assert!(c == 1 || due == younger.saturating_sub(more_ns / 1000 * 1000));
    }

    /// Serial before senior before parallel at equal vtime, by exactly the boosts, however many wait.
    #[test]
    fn keys_order_classes(vtime: u64, nr_waiting in 0u32..1000) {
        let (serial, senior) = boosts(nr_waiting);
        let key = |class| tunables().key(&task_among(nr_waiting, class, vtime));
        let gap = |class| key(Class::Parallel).wrapping_sub(key(class));
        prop_assert_eq!((gap(Class::Serial), gap(Class::Senior)), (serial, senior));
        prop_assert!(serial > senior && senior > 0);
    }

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

    /// Of two tasks of a class in one queue the one of lower vtime goes first, however many waited when each was queued, until one
    /// of them waits for longer than is usual beside as many as wait now.
    #[test]
    fn keys_of_a_queue_go_by_one_boost(
        a: u64, lead in 1u64..1 << 40, class in 0usize..4, na in 0u32..100, nb in 0u32..100, nr in 0u32..100,
        left in 0..=BOOST_WHOLE, waits_ms in 0u32..10_000,
    ) {
        let (t, keys) = (tunables(), Keys { nr_waiting: nr, boost_left: left, nr_looks: 0 });
        let (x, y) = (task_among(na, CLASSES[class], a.wrapping_add(lead)), task_among(nb, CLASSES[class], a));
        let [first, second] = [&x, &y].map(|task| t.key_in(&keys, task, false));
        prop_assert_eq!(first.wrapping_sub(second), lead);
        prop_assert_eq!(t.key_in(&keys, &x, true), x.vtime);
        prop_assert!(na != nr || left != BOOST_WHOLE || t.key_in(&keys, &x, false) == t.key(&x));
        let waits = Task { waits_us: 1_000 * waits_ms, ..x };
        prop_assert_eq!(first.wrapping_sub(t.key_in(&keys, &waits, false)), t.key(&x).wrapping_sub(t.key(&waits)));
    }

    /// Of tasks in one queue, the one that goes first has the smaller key.
    #[test]
    fn keys_and_comparisons_agree(
        a: u64, lead in 0u64..1 << 40, ca in 1usize..4, cb in 1usize..4, nr_waiting in 0u32..100,
    ) {
        let at = |class: usize, vtime| task_among(nr_waiting, CLASSES[class], vtime);
        let (x, y, t) = (at(ca, a), at(cb, a.wrapping_add(lead)), tunables());
        prop_assert_eq!(t.goes_first(&x, &y), (t.key(&x).wrapping_sub(t.key(&y)) as i64) < 0);
    }
}

/// Keys are made anew where their boosts are of less than half, or more than twice, what they would be now.
#[test]
fn keys_are_stale_where_boosts_have_halved() {
    let t = tunables();
    let stale = |then: u32, now: u32| {
        let mut keys = Keys::default();
        keys.renew(then, BOOST_WHOLE);
        t.keys_are_stale(&keys, now, BOOST_WHOLE)
    };
    // 200 ms beside two, 128 beside three, 89 beside four, 65 beside five.
    assert!(!stale(0, 2) && !stale(0, 3) && !stale(3, 0) && !stale(3, 4));
    assert!(stale(0, 4) && stale(4, 2) && stale(3, 6) && stale(6, 3));
    // 11 ms beside fifteen, 9.9 beside sixteen: what is less than 10 ms apart is as good.
    assert!(stale(15, 1_000) && !stale(16, 1_000));
    let left = |then, now| {
        let mut keys = Keys::default();
        keys.begin(&task_among(0, Class::Serial, 0), then);
        t.keys_are_stale(&keys, 0, now)
    };
    assert!(left(BOOST_WHOLE, BOOST_WHOLE / 3) && left(0, BOOST_WHOLE / 10) && !left(0, 0));
    assert!(!left(BOOST_WHOLE, BOOST_WHOLE / 2) && !left(0, BOOST_WHOLE / 30));
}

#[test]
fn keys_hold_as_long_as_somebody_waits_and_are_made_anew_in_some_looks() {
    let mut keys = Keys::default();
    keys.renew(7, 5);
    let renewed = keys;
    keys.begin(&task_among(1, Class::Serial, 0), BOOST_WHOLE);
    assert_eq!(keys, renewed);
    keys.begin(&task_among(0, Class::Serial, 0), BOOST_WHOLE);
    assert_eq!(
        (keys.nr_waiting, keys.boost_left, keys.nr_looks),
        (0, BOOST_WHOLE, 0)
    );
    let looks = |nr_waiting| {
        keys.renew(nr_waiting, BOOST_WHOLE);
        keys.nr_looks
    };
    assert_eq!([1, 16, 17, 32, 33].map(looks), [2, 2, 3, 3, 4]);
}

/// The seats of different worth, the best first: on idle cores, on shared ones, and beside a serial task.
fn seats() -> [Seat; 9] {
    let seat = |shared, beside_serial, same_cpu, same_core, first| Seat {
        shared,
        beside_serial,
        same_cpu,
        same_core,
        first,
    };
    [
        seat(false, false, true, true, false),
        seat(false, false, false, true, false),
        seat(false, false, false, false, true),
        seat(true, false, true, true, false),
        seat(true, false, false, true, true),
        seat(true, false, false, false, true),
        seat(true, true, true, true, false),
        seat(true, true, false, true, true),
        seat(true, true, false, false, true),
    ]
}

#[test]
fn whole_cores_come_before_siblings_those_of_serial_tasks_last_and_the_one_that_was_left_first() {
    let ranks = seats().map(|seat| seat.rank());
    assert!(
        ranks.is_sorted_by(|a, b| a < b) && ranks[0] == Some(0),
        "{ranks:?}"
    );
    let second = Seat {
        first: false,
        ..seats()[2]
    };
    assert_eq!(second.rank(), None, "the second hardware thread of an idle core");
}

#[test]
fn a_task_leaves_a_core_that_it_shares_but_a_bound_kernel_thread_does_not() {
    let leaves_for = |class: Class, shared, beside_serial| {
        let limit = class.leaves_seat_for(shared, beside_serial);
        seats()
            .into_iter()
            .filter(|seat| seat.rank() < Some(limit))
            .count()
    };
    for class in [Class::Serial, Class::Senior, Class::Parallel] {
        assert_eq!(leaves_for(class, false, false), 0);
        assert_eq!(leaves_for(class, true, false), 3, "whole cores only");
    }
    assert_eq!(leaves_for(Class::Kernel, true, true), 0);
    // The core of a serial task is left to it also for one that another parallel task shares.
    assert_eq!(leaves_for(Class::Parallel, true, true), 6);
    assert_eq!(leaves_for(Class::Senior, true, true), 6);
    assert_eq!(leaves_for(Class::Serial, true, true), 3);
}

#[test]
fn who_looked_for_an_idle_core_in_vain_does_not_do_so_again_at_once() {
    let looked_at = 5000 * MS;
    let looks = |limit, now_ns| looks_for_seat(limit, now_ns, looked_at);
    assert!(!looks(Seat::SHARED, looked_at) && !looks(Seat::SHARED, looked_at + MS / 2));
    assert!(looks(Seat::SHARED, looked_at + 2 * MS) && looks_for_seat(Seat::SHARED, looked_at, 0));
    // Seats that are not beside a serial task are no cores that the kernel may have lost, and nobody leaves the best one.
    assert!(looks(Seat::BESIDE_SERIAL, looked_at) && !looks(Seat::BEST, looked_at + 2 * MS));
}
