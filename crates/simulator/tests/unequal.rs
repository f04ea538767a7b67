// SPDX-License-Identifier: GPL-2.0-only
//! Cores that differ: also in pairs of hardware threads, several that are equally fast, and more of them than one look takes in.
#![allow(clippy::unwrap_used)]

mod common;

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::schedulers::Threadwise;
use threadwise_simulator::{Costs, Ns, Synthetic, World};
use threadwise_workload::synthetic::Wait;

use common::described;

const MS: Ns = 1_000_000;
const SECOND: Ns = 1_000 * MS;

/// So many cores, the first half of them fast, the others half as fast.
fn halves(nr_cpus: usize) -> Machine {
    let half = nr_cpus / 2;
    described(&format!(
        "topology = \"core:{nr_cpus}\"\ncapacity = [{{ cpus = \"0-{}\", capacity = 1024 }}, {{ cpus = \"{half}-{}\", capacity = 512 }}]\n",
        half - 1,
        nr_cpus - 1
    ))
}

/// A program of so many threads with phases of so long on the mean.
fn program(ratio: &str, threads: usize, phase: Ns, seed: u64) -> Box<Synthetic> {
    let ratio = ratio.parse().unwrap();
    Box::new(Synthetic::new(
        ratio,
        phase / 1_000,
        1_000,
        threads,
        Wait::Passive,
        seed,
    ))
}

/// What these programs do on the machine, each of ratio and threads, in cores of full speed.
fn cores(mut world: World, programs: &[(&str, usize)]) -> Vec<f64> {
    for (seed, (ratio, threads)) in programs.iter().enumerate() {
        world.start(program(ratio, *threads, 20 * MS, seed as u64 + 1), 100, None);
    }
    world.run_until(3 * SECOND).unwrap();
    let done = |work_ns: f64| work_ns / (3 * SECOND) as f64;
    world
        .outcome()
        .programs
        .iter()
        .map(|program| done(program.work_ns))
        .collect()
}

fn told(machine: &Machine) -> World {
    World::new(machine, Costs::of_lab(120), |kernel| {
        Threadwise::told(kernel, Tunables::default())
    })
}

#[test]
fn whole_cores_come_first_where_cores_differ_too() {
    let hidden = Machine::load("hybrid-8-hidden").unwrap();
    let known = described(
        "topology = \"core:4 pu:2\"\ncapacity = [{ cpus = \"0-3\", capacity = 1024 }, { cpus = \"4-7\", capacity = 768 }]\n",
    );
    for machine in [&hidden, &known] {
        // Two threads that meet have the two fast cores, and not the hardware threads of one.
        let two = cores(told(machine), &[("inf:1", 2)])[0];
        assert!(two > 0.95 * 2.0, "{two} of two fast cores");
        // Serial programs have a core each, and turns on the fast ones.
        for (nr, best) in [(2, 2.0), (4, 3.5)] {
            let all = cores(told(machine), &vec![("1:inf", 1); nr]);
            let sum = all.iter().sum::<f64>();
            assert!(sum > 0.95 * best, "{all:?} of {best}");
        }
        // A serial program keeps its fast core for itself while there is room beside others.
        let beside = cores(told(machine), &[("1:inf", 1), ("inf:1", 6)]);
        assert!(beside[0] > 0.9, "{beside:?}");
    }
    // Who does not know which hardware threads share a core has luck or not.
    let untold = |seed: u64| {
        let mut world = World::new(&hidden, Costs::of_lab(120), |kernel| {
            Threadwise::new(kernel, Tunables::default())
        });
        world.scatter(seed);
        cores(world, &[("inf:1", 2)])[0]
    };
    let least = (1..=8).map(untold).fold(f64::INFINITY, f64::min);
    assert!(least < 1.5, "{least} of two fast cores");
}

/// How often tasks of the first of these programs went on elsewhere, a second.
fn moves_beside(machine: &Machine, programs: [Box<Synthetic>; 2]) -> f64 {
    let mut world = told(machine);
    world.record();
    for program in programs {
        world.start(program, 100, None);
    }
    world.run_until(3 * SECOND).unwrap();
    let timeline = world.into_timeline();
    let runs = timeline.runs();
    let mut last = std::collections::BTreeMap::new();
    let nr = runs
        .iter()
        .filter(|run| timeline.program_of(run.task) == 0)
        .filter(|run| last.insert(run.task, run.cpu).is_some_and(|cpu| cpu != run.cpu))
        .count();
    nr as f64 / 3.0
}

#[test]
fn a_serial_task_takes_no_cpu_while_one_as_fast_is_idle() {
    // Two threads, serial always, that meet every few milliseconds, beside three of a parallel program, on six fast cores.
    let machine = described(
        "topology = \"core:8\"\ncapacity = [{ cpus = \"0-5\", capacity = 1024 }, { cpus = \"6-7\", capacity = 512 }]\n",
    );
    let nr = moves_beside(
        &machine,
        [program("inf:1", 3, 3 * MS, 1), program("inf:1", 2, 2 * MS, 2)],
    );
    assert!(nr < 20.0, "{nr} times a second");
}

#[test]
fn serial_and_parallel_tasks_do_not_chase_each_other_over_shared_cores() {
    // On four cores of two hardware threads somebody shares with the serial program, which has nowhere to go. Two threads of it that
    // meet come back to another CPU 43 times a second, as parallel ones have theirs; if they took what shares no core, 83 times.
    let machine = Machine::load("hybrid-8-hidden").unwrap();
    for serial in [program("1:inf", 1, 20 * MS, 1), program("inf:1", 2, 2 * MS, 1)] {
        let nr = moves_beside(&machine, [serial, program("inf:1", 6, 200 * MS, 2)]);
        assert!(nr < 60.0, "{nr} times a second");
    }
}

#[test]
fn fast_cores_beyond_those_that_one_look_takes_in_have_turns_too() {
    // Of a program with a thread for each CPU all wait for those on the slow ones, but for turns.
    for nr_cpus in [8, 48] {
        let machine = halves(nr_cpus);
        let untold = World::new(&machine, Costs::of_lab(120), |kernel| {
            Threadwise::new(kernel, Tunables::default()).untold_of_speeds()
        });
        let [with, without] = [told(&machine), untold].map(|world| cores(world, &[("inf:1", nr_cpus)])[0]);
        assert!(with > 1.2 * without, "{nr_cpus} CPUs: {with} and {without}");
    }
    // And whoever is alone on a slow one comes to a fast one: 24 programs, 24 fast cores.
    let all = cores(told(&halves(48)), &vec![("1:inf", 1); 24]);
    assert!(all.iter().sum::<f64>() > 0.95 * 24.0, "{all:?}");
}
