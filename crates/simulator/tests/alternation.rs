// SPDX-License-Identifier: GPL-2.0-only
//! Programs that run one after the other where that gets more done (`--alternate`), in worlds with a cache to share.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use threadwise_machine::Machine;
use threadwise_policy::{AlternateBy, Tunables};
use threadwise_simulator::check::Checker;
use threadwise_simulator::faults::Faults;
use threadwise_simulator::schedulers::Threadwise;
use threadwise_simulator::{Costs, Memory, Ns, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: Ns = 1_000_000;
const SECOND: Ns = 1_000 * MS;
const TURN: Ns = 300 * MS;

/// Programs of four threads each that use a set of so many MB each so often, on eight CPUs behind one cache of 16 MB.
fn world(by: AlternateBy, programs: &[(u64, u32)], lost_sample_in: u64) -> World {
    let faults = Faults {
        seed: 1,
        lost_sample_in,
        until_ns: 60 * SECOND,
        ..Faults::default()
    };
    world_with(by, programs, faults)
}

fn world_with(by: AlternateBy, programs: &[(u64, u32)], faults: Faults) -> World {
    let machine = Machine::load("one-octo").unwrap();
    let mut world = World::new(
        &machine,
        Costs::of_lab_with_ours(1000, &machine, false),
        |kernel| Threadwise::new(kernel, Tunables::default()).alternating_by(by),
    );
    world.record();
    world.check(Checker {
        idle_bound: 20 * MS,
        // A turn of each other program, and the wait for a CPU.
        wait_bound: TURN * (programs.len() as Ns) + 200 * MS,
    });
    for (seed, &(mb, accesses_per_us)) in programs.iter().enumerate() {
        start(&mut world, seed as u64, 4, mb, accesses_per_us);
    }
    world.inject(faults);
    world
}

fn start(world: &mut World, seed: u64, threads: usize, mb: u64, accesses_per_us: u32) {
    let ratio = "inf:1".parse().unwrap();
    let memory = Memory {
        working_set_bytes: mb << 20,
        accesses_per_us,
        is_shared: true,
        ..Memory::default()
    };
    let program = Synthetic::new(ratio, 20_000, 1_000, threads, Wait::Passive, seed);
    world.start(Box::new(program.with_memory(memory)), 100, None);
}

/// The work of each program in so many seconds, in CPUs, and in which part of the time in which any of the first two ran both did.
fn ran(mut world: World, seconds: u64) -> (Vec<f64>, f64) {
    world.run_until(seconds * SECOND).unwrap();
    let programs = world.outcome().programs;
    let work = programs
        .iter()
        .map(|program| program.work_ns / (seconds * SECOND) as f64);
    let work = work.collect();
    let timeline = world.into_timeline();
    let mut ran = vec![[false; 2]; (seconds * SECOND / MS) as usize];
    for run in timeline.runs() {
        let program = timeline.program_of(run.task);
        if program < 2 {
            for ms in &mut ran[(run.from / MS) as usize..(run.to / MS) as usize] {
                ms[program] = true;
            }
        }
    }
    let nr = |which: fn(&&[bool; 2]) -> bool| ran.iter().filter(which).count() as f64;
    (work, nr(|ms| ms[0] && ms[1]) / nr(|ms| ms[0] || ms[1]))
}

const FILL_IT: [(u64, u32); 2] = [(15, 40), (15, 40)];
const GET_ON: [(u64, u32); 2] = [(12, 12), (12, 12)];

#[test]
fn programs_that_fill_the_cache_each_get_more_done_one_after_the_other() {
    let (beside, together) = ran(world(AlternateBy::Off, &FILL_IT, 0), 12);
    assert!(together > 0.9, "{together}");
    for (by, lost_sample_in) in [
        (AlternateBy::Counters, 0),
        (AlternateBy::Counters, 40),
        (AlternateBy::Resident, 0),
    ] {
        let (turns, together) = ran(world(by, &FILL_IT, lost_sample_in), 12);
        assert!(together < 0.4, "{by:?}: {together}");
        for program in 0..2 {
            assert!(
                turns[program] > beside[program] * 1.15,
                "{by:?}: {turns:?} in place of {beside:?}"
            );
        }
    }
}

#[test]
fn programs_that_get_on_are_not_kept_apart() {
    let (beside, _) = ran(world(AlternateBy::Off, &GET_ON, 0), 12);
    let (tried, together) = ran(world(AlternateBy::Counters, &GET_ON, 0), 12);
    // One trial or two, of which turns are half.
    assert!((0.85..0.999).contains(&together), "{together}");
    for program in 0..2 {
        assert!(
            tried[program] > beside[program] * 0.94,
            "{tried:?} in place of {beside:?}"
        );
    }
    // Nothing is counted: nothing is tried.
    let (_, together) = ran(world(AlternateBy::Counters, &FILL_IT, 1), 12);
    assert!(together > 0.9, "{together}");
}

#[test]
fn others_run_beside_those_that_have_turns() {
    // The third uses no memory; nobody waits for its sake, and it waits for nobody's turn.
    let three = [FILL_IT[0], FILL_IT[1], (0, 0)];
    let (work, together) = ran(world(AlternateBy::Counters, &three, 0), 12);
    assert!(together < 0.4, "{together}");
    assert!(work[2] > 3.0, "{work:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whoever has turns: nobody waits for longer than theirs take, and whoever is not withheld finds an idle CPU.
    #[test]
    fn nobody_starves_whoever_takes_turns(
        programs in prop::collection::vec((1u64..20, 0u32..60), 2..6),
        by in prop::sample::select(vec![AlternateBy::Counters, AlternateBy::Resident]),
        lost_sample_in in 0u64..4,
        hotplug: bool,
        seed: u64,
    ) {
        let faults = Faults {
            seed,
            lost_sample_in,
            hotplug_every_ns: if hotplug { 100 * MS } else { 0 },
            late_kick_ns: MS,
            until_ns: 5 * SECOND,
            ..Faults::default()
        };
        let mut world = world_with(by, &programs, faults);
        world.run_until(6 * SECOND).map_err(TestCaseError::fail)?;
    }
}
