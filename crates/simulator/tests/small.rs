// SPDX-License-Identifier: GPL-2.0-only
//! Random small worlds in which everything goes wrong: our scheduler and the others hold, and those that are broken do not.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use threadwise_policy::{AlternateBy, PairingBy};
use threadwise_simulator::Memory;
use threadwise_simulator::faults::{Dice, Faults};
use threadwise_simulator::schedulers::{Flags, How, Known};
use threadwise_simulator::small::{Locking, SmallProgram, SmallWorld};
use threadwise_simulator::sweep::{Sweep, Swept};
use threadwise_workload::synthetic::Wait;

fn swept(seed: u64, nr_worlds: u64, schedulers: &[Known]) -> Swept {
    let sweep = Sweep {
        seed,
        from: 0,
        nr_worlds,
        schedulers: schedulers.to_vec(),
    };
    sweep.run(&AtomicBool::new(false), &|_| ())
}

#[test]
fn ten_thousand_small_worlds_hold() {
    for schedulers in [&[Known::Threadwise][..], &Known::ALL] {
        let swept = swept(1, 5_000, schedulers);
        let names: Vec<&str> = schedulers.iter().map(|known| known.name()).collect();
        if let Some((number, wrong)) = swept.failed {
            let (least, wrong) = SmallWorld::draw(1, number, schedulers).shrink(&wrong);
            panic!(
                "threadwise sim check --seed 1 --from {number} --worlds 1 --schedulers {}\n{least}{wrong}",
                names.join(",")
            );
        }
        assert!(
            swept.nr_worlds == 5_000 && swept.nr_events > Some(2_000_000),
            "{swept:?}"
        );
    }
}

#[test]
fn a_world_is_the_same_each_time() {
    for scheduler in Known::ALL {
        let mut nr_others = 0;
        for number in 0..20 {
            let world = SmallWorld::draw(1, number, &[scheduler]);
            let played = || format!("{:?}", world.timeline().expect("it holds"));
            let first = played();
            assert!(first.len() > 200, "{world}{first}");
            assert!(first == played(), "{world}");
            let mut other = world.clone();
            other.faults.seed += 1;
            nr_others += u32::from(first != format!("{:?}", other.timeline().expect("it holds")));
        }
        assert!(
            nr_others > 10,
            "{nr_others} worlds of 20 differ where other things go wrong"
        );
    }
}

#[test]
fn worlds_that_failed_once_hold() {
    // Each time that a CPU came or went, a static assignment put those who waited there behind all others. And who was
    // sent to a CPU that had begun something else in the meantime stayed there, where the kernel sends it back. And a
    // CPU that round robin had woken up went before it looked.
    for number in [23_233, 795_426, 886_517] {
        let world = SmallWorld::draw_plain(&mut Dice::new(20261123, number), &Known::ALL);
        assert_eq!(world.run().err(), None, "{world}");
    }
}

#[test]
fn who_has_to_leave_its_cpu_goes_to_an_idle_one_first() {
    // CPU 0 went, and its task took the place of one that ran on CPU 1, at an eighth of that one's speed, beside CPU 2,
    // which was idle.
    let world = SmallWorld {
        scheduler: Known::Threadwise,
        capacities: vec![1024, 512, 512],
        threads_per_core: 1,
        packages: 1,
        flags: Flags::default(),
        mips: 19,
        haste: 16,
        programs: vec![SmallProgram {
            ratio: "4:1".parse().expect("a ratio"),
            phase_units: 800,
            threads: 4,
            weight: 100,
            bound_to: None,
            wait: Wait::Passive,
            memory: Memory::default(),
            seed: 741_085_920,
            locking: None,
        }],
        faults: Faults {
            seed: 1_910_411_882,
            speed_every_ns: 13_000_000,
            hotplug_every_ns: 4_000_000,
            affinity_every_ns: 4_000_000,
            storm_every_ns: 35_000_000,
            until_ns: 375_000_000,
            ..Faults::default()
        },
        end_ns: 84_000_000,
    };
    assert_eq!(world.run().err(), None);
}

#[test]
fn small_worlds_have_what_they_should() {
    let worlds: Vec<SmallWorld> = (0..5_000)
        .map(|number| SmallWorld::draw(1, number, &[Known::Threadwise]))
        .collect();
    let nr = |has: fn(&&SmallWorld) -> bool| worlds.iter().filter(has).count();
    // Everything goes wrong in every world, and early.
    let strikes = |world: &&SmallWorld| {
        let faults = &world.faults;
        let often = [
            faults.speed_every_ns,
            faults.hotplug_every_ns,
            faults.affinity_every_ns,
            faults.storm_every_ns,
        ];
        let soon = often
            .iter()
            .all(|every| (1..=faults.until_ns / 3).contains(every));
        soon && faults.late_kick_ns > 0 && faults.timer_jitter_ns > 0
    };
    assert_eq!(nr(strikes), worlds.len());
    let uses_memory = |world: &&SmallWorld| {
        let mut programs = world.programs.iter();
        programs.any(|program| program.locking.is_none() && program.memory.accesses_per_us > 0)
    };
    assert!(nr(uses_memory) > 1_000);
    assert_eq!(
        worlds
            .iter()
            .filter(uses_memory)
            .filter(|world| world.faults.lost_sample_in == 0)
            .count(),
        0
    );
    let locking = |world: &&SmallWorld, does: fn(&Locking) -> bool| {
        let mut locking = world
            .programs
            .iter()
            .filter_map(|program| program.locking.as_ref());
        locking.any(does)
    };
    assert!(
        worlds
            .iter()
            .filter(|world| locking(world, |locking| locking.forks && locking.meets))
            .count()
            > 500
    );
    assert!(nr(|world| world.flags.alternate != AlternateBy::Off) > 50);
    assert!(nr(|world| world.flags.share.len() > 1) > 50);
    assert!(nr(|world| world.flags.pairing != PairingBy::Off && world.packages > 1) > 50);
}

#[test]
fn who_goes_idle_while_a_kick_is_late_is_woken_by_the_next() {
    // CPU 0 was asked to look while it ran, at an eighth of its speed and so in 7 ms, and went idle before. The next that
    // asked it relied on that, and the task that it was asked for waited beside it.
    let program = |threads, ratio: &str, phase_units, weight, bound_to, seed| SmallProgram {
        ratio: ratio.parse().expect("a ratio"),
        phase_units,
        threads,
        weight,
        bound_to,
        wait: Wait::Passive,
        memory: Memory::default(),
        seed,
        locking: None,
    };
    let world = SmallWorld {
        scheduler: Known::Kernel,
        capacities: vec![1024; 4],
        threads_per_core: 2,
        packages: 1,
        flags: Flags::default(),
        mips: 17,
        haste: 2,
        programs: vec![
            program(2, "1:4", 100, 305, Some(1), 3_060_847_244),
            program(1, "4:1", 1600, 100, None, 62_640_144),
        ],
        faults: Faults {
            seed: 2_601_100_425,
            speed_every_ns: 6_000_000,
            hotplug_every_ns: 5_000_000,
            until_ns: 27_000_000,
            ..Faults::default()
        },
        end_ns: 36_000_000,
    };
    assert_eq!(world.run().err(), None);
}

/// What the checker that notices says.
fn noticed_as(how: How) -> &'static str {
    match how {
        How::Forgets => "holds it and does not know of it",
        How::LastInFirstOut => "has waited since",
        How::Crowds => "has been idle since",
        How::IgnoresAffinity => "where it may not run",
        How::Insists => "were sent back",
        How::VtimeBack => "the vtime of task",
        How::ClockBack => "the clock goes back",
        How::RunsTwice => "and says On(",
        How::QueuesTwice => "and says Queue(",
        How::Conjures => "work is not conserved",
        How::Miscounts => "ready threads, counted as",
        How::QueuesUnseen => "nobody looks after those in the queue",
        How::Miskeys => "under a key of its own",
    }
}

#[test]
fn each_broken_scheduler_is_noticed_and_its_world_shrinks() {
    for how in How::ALL {
        let schedulers = [Known::Broken(how)];
        let (number, wrong) = swept(1, 5_000, &schedulers).failed.expect("it is noticed");
        assert!(wrong.contains(noticed_as(how)), "{how:?}: {wrong}");
        let failing = SmallWorld::draw(1, number, &schedulers);
        assert_eq!(failing.run().err(), Some(wrong.clone()), "{how:?}: again");
        let (least, wrong) = failing.shrink(&wrong);
        assert!(wrong.contains(noticed_as(how)), "{how:?}: {wrong}");
        assert_eq!(least.run().err(), Some(wrong), "{how:?}: the least world fails");
        let size = |world: &SmallWorld| {
            let threads: usize = world.programs.iter().map(|program| program.threads).sum();
            (world.capacities.len() + threads, world.end_ns)
        };
        let (was, is) = (size(&failing), size(&least));
        let is_smaller = is.0 <= was.0 && is.1 <= was.1 && is != was;
        assert!(is_smaller, "{how:?}: {failing}\n{least}");
    }
}

#[test]
fn a_sweep_stops_at_the_first_world_that_fails_and_when_it_is_told() {
    let schedulers = [Known::Broken(How::IgnoresAffinity)];
    let sweep = Sweep {
        seed: 3,
        from: 0,
        nr_worlds: 5_000,
        schedulers: schedulers.to_vec(),
    };
    let failed = sweep.run(&AtomicBool::new(false), &|_| ()).failed;
    let (number, _) = failed.clone().expect("it fails");
    let fails = |number| SmallWorld::draw(3, number, &schedulers).run().is_err();
    assert_eq!((0..5_000).find(|&number| fails(number)), Some(number));
    let swept = sweep.run(&AtomicBool::new(true), &|_| ());
    assert_eq!((swept.nr_worlds, swept.failed), (0, None));
}

#[test]
fn a_sweep_plays_a_world_on_each_core_at_a_time() {
    let nr_cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let (nr_there, nr_late) = (AtomicU64::new(0), AtomicU64::new(0));
    // Who has played one waits for the others to have played one each.
    let done = |_| {
        nr_there.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(20);
        while nr_there.load(Ordering::SeqCst) < nr_cores {
            if Instant::now() > deadline {
                nr_late.fetch_add(1, Ordering::SeqCst);
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    let sweep = Sweep {
        seed: 1,
        from: 0,
        nr_worlds: nr_cores,
        schedulers: Known::ALL.to_vec(),
    };
    assert_eq!(sweep.run(&AtomicBool::new(false), &done).nr_worlds, nr_cores);
    assert_eq!(nr_late.into_inner(), 0, "somebody was alone");
}
