// SPDX-License-Identifier: GPL-2.0-only
//! Worlds whose programs share hardware: what they get of it, what that costs, and who keeps out of whose way.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use proptest::prelude::*;
use threadwise_machine::Machine;
use threadwise_policy::{Mode, PairingBy, Tunables};
use threadwise_simulator::check::Checker;
use threadwise_simulator::faults::Faults;
use threadwise_simulator::kernel::CpuIndex;
use threadwise_simulator::schedulers::{Fair, RoundRobin, Threadwise};
use threadwise_simulator::{Costs, Mechanism, Memory, Ns, Outcome, Program, Step, Synthetic, World};
use threadwise_workload::synthetic::Wait;

use common::described;

const MS: Ns = 1_000_000;
const SECOND: Ns = 1_000 * MS;

/// One thread that computes for so long and is gone.
struct Burn {
    ns: Ns,
    memory: Memory,
    begun: bool,
}

impl Program for Burn {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        if std::mem::replace(&mut self.begun, true) {
            Step::Exit
        } else {
            Step::Compute(self.ns)
        }
    }

    fn memory(&self, _thread: usize) -> Memory {
        self.memory
    }
}

/// Two threads that compute, the second 12 ms after the first.
struct Joined {
    asked: [bool; 2],
}

impl Program for Joined {
    fn nr_threads(&self) -> usize {
        2
    }

    fn next(&mut self, thread: usize, _now: Ns) -> Step {
        if std::mem::replace(&mut self.asked[thread], true) || thread == 0 {
            Step::Compute(100 * SECOND)
        } else {
            Step::Sleep(12 * MS)
        }
    }
}

fn machine(spec: &str) -> Machine {
    Machine::load(spec).unwrap()
}

/// A world whose tasks, each of the same work, are bound to these CPUs.
fn bound(machine: &Machine, off: &[Mechanism], memory: Memory, cpus: &[CpuIndex]) -> World {
    let mut world = World::new(machine, Costs::FREE, |kernel| RoundRobin::new(kernel, MS));
    for &mechanism in off {
        world.switch_off(mechanism);
    }
    world.check(Checker {
        idle_bound: 5 * MS,
        wait_bound: SECOND,
    });
    for &cpu in cpus {
        let burn = Burn {
            ns: SECOND,
            memory,
            begun: false,
        };
        world.start(Box::new(burn), 100, Some(cpu));
    }
    world
}

/// The work of each task in half a second, over that of a CPU that nobody shares.
fn speeds(machine: &Machine, off: &[Mechanism], memory: Memory, cpus: &[CpuIndex]) -> Vec<f64> {
    let mut world = bound(machine, off, memory, cpus);
    world.run_until(SECOND / 2).unwrap();
    let programs = world.outcome().programs;
    programs
        .iter()
        .map(|program| program.work_ns / (SECOND / 2) as f64)
        .collect()
}

fn near(found: &[f64], expected: &[f64]) {
    let close = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-4;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(close),
        "{found:?}, not {expected:?}"
    );
}

#[test]
fn unequal_cores_are_as_fast_as_the_fastest_without_their_speeds() {
    let unequal = machine("amp-8");
    let none = Memory::default();
    near(&speeds(&unequal, &[], none, &[0, 1, 7]), &[1.0, 0.5, 0.5]);
    near(
        &speeds(&unequal, &[Mechanism::Speeds], none, &[0, 1, 7]),
        &[1.0; 3],
    );
}

#[test]
fn siblings_share_a_core_from_when_they_come_until_they_go() {
    let smt = machine("core:2 pu:2");
    let none = Memory::default();
    near(&speeds(&smt, &[], none, &[0, 1, 2]), &[0.62, 0.62, 1.0]);
    near(
        &speeds(&smt, &[Mechanism::Pipelines], none, &[0, 1, 2]),
        &[1.0; 3],
    );
    // One has a second of work, the other half of one: it is gone after 0.5 / 0.62 s, and what is left is done alone.
    let mut world = World::new(&smt, Costs::FREE, |kernel| RoundRobin::new(kernel, MS));
    for (cpu, ns) in [(0, SECOND), (1, SECOND / 2)] {
        let burn = Burn {
            ns,
            memory: none,
            begun: false,
        };
        world.start(Box::new(burn), 100, Some(cpu));
    }
    let (gone, done) = (0.5 / 0.62, 0.5 / 0.62 + 0.5);
    for (at, work) in [(gone, 0.5), (done - 0.001, 0.999), (done + 0.001, 1.0)] {
        world.run_until((at * 1e9) as Ns).unwrap();
        near(&[world.outcome().programs[0].work_ns / 1e9], &[work]);
    }
}

#[test]
fn two_working_sets_in_one_cache_are_slower_than_in_two() {
    // multicore-scheduling, Table 1: two tasks on cores that share an L2, or on others. Each reads 3 MB, of which 2 are there.
    let quads = machine("two-quads");
    let memory = Memory {
        working_set_bytes: 3 << 20,
        accesses_per_us: 6,
        is_shared: false,
        ..Memory::default()
    };
    // A third of 6 accesses misses, for 100 ns each: 1.2 us for a microsecond of work.
    near(&speeds(&quads, &[], memory, &[0, 1]), &[1.0 / 1.2; 2]);
    near(&speeds(&quads, &[], memory, &[0, 2]), &[1.0; 2]);
    near(&speeds(&quads, &[Mechanism::Caches], memory, &[0, 1]), &[1.0; 2]);
    near(&speeds(&quads, &[Mechanism::Latency], memory, &[0, 1]), &[1.0; 2]);
    // Who has no locality is as fast anywhere (IMDS).
    let stream = Memory {
        working_set_bytes: 1 << 40,
        ..memory
    };
    let (same, apart) = (
        speeds(&quads, &[], stream, &[0, 1]),
        speeds(&quads, &[], stream, &[0, 2]),
    );
    near(&same, &[1.0 / 1.6; 2]);
    near(&apart, &same);
}

#[test]
fn who_comes_to_another_core_pays_for_the_migration() {
    let cores = Machine::load("package:2 core:2 pu:2").unwrap();
    let moved = |to: CpuIndex| {
        let mut world = World::new(&cores, Costs::FREE, |kernel| RoundRobin::new(kernel, MS));
        world.charge_migrations(3 * MS);
        let (ns, memory, begun) = (SECOND, Memory::default(), false);
        world.start(Box::new(Burn { ns, memory, begun }), 100, Some(0));
        world.run_until(10 * MS).unwrap();
        world.bind(0, &[to]);
        world.run_until(50 * MS).unwrap();
        world.outcome().programs[0].work_ns / 1e6
    };
    near(
        &[moved(0), moved(1), moved(2), moved(4)],
        &[50.0, 50.0, 47.0, 47.0],
    );
}

#[test]
fn who_comes_to_another_cache_fills_it_first() {
    // Two tasks on one CPU; after 10 ms one may run on another only, behind the same cache or another.
    let quads = machine("two-quads");
    let reads = |working_set_bytes| Memory {
        working_set_bytes,
        accesses_per_us: 1,
        is_shared: false,
        ..Memory::default()
    };
    let moved = |off: &[Mechanism], memory: Memory, to: CpuIndex| {
        let mut world = bound(&quads, off, memory, &[0]);
        world.run_until(10 * MS).unwrap();
        world.bind(0, &[to]);
        world.run_until(50 * MS).unwrap();
        world.outcome().programs[0].work_ns / 50e6
    };
    // A MiB has 16384 lines, 100 ns each; of 16 MiB four are there, three quarters of all accesses miss.
    near(&[moved(&[], reads(1 << 20), 1)], &[1.0]);
    near(&[moved(&[], reads(1 << 20), 2)], &[1.0 - 1.6384 / 50.0]);
    near(
        &[moved(&[], reads(16 << 20), 2)],
        &[(1.0 - 4.0 * 1.6384 / 50.0) / 1.075],
    );
    near(&[moved(&[Mechanism::Refill], reads(1 << 20), 2)], &[1.0]);
    near(&[moved(&[], Memory::default(), 2)], &[1.0]);
}

/// One thread that uses memory for 5 ms, rests, and sleeps for 5 ms, twice.
struct Bursts {
    memory: Memory,
    done: usize,
}

impl Program for Bursts {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        let burst = [
            Step::Use(self.memory),
            Step::Compute(5 * MS),
            Step::Use(self.memory.at_rest()),
            Step::Sleep(5 * MS),
        ];
        self.done += 1;
        burst
            .iter()
            .cycle()
            .nth(self.done - 1)
            .filter(|_| self.done <= 8)
            .copied()
            .unwrap_or(Step::Exit)
    }
}

#[test]
fn who_rests_while_it_moves_fills_the_cache_when_it_goes_on() {
    let quads = machine("two-quads");
    let ended = |is_streamed: bool, to: CpuIndex| {
        let memory = Memory {
            working_set_bytes: 1 << 20,
            accesses_per_us: 1,
            is_streamed,
            ..Memory::default()
        };
        let mut world = World::new(&quads, Costs::FREE, |kernel| RoundRobin::new(kernel, MS));
        world.start(Box::new(Bursts { memory, done: 0 }), 100, Some(0));
        world.run_until(7 * MS).unwrap();
        world.bind(0, &[to]);
        // The second burst ends at 15 ms, or as much later as it takes to bring the set.
        (15 * MS..).step_by(1_000).find(|&at| {
            world.run_until(at).unwrap();
            world.outcome().programs[0].work_ns >= 10e6 - 1.0
        })
    };
    let brings_ns = 1_638_400;
    assert_eq!(ended(false, 1), Some(15 * MS));
    assert_eq!(ended(true, 2), Some(15 * MS));
    assert!(
        ended(false, 2).is_some_and(|at| (at - 15 * MS).abs_diff(brings_ns) < 2_000),
        "{:?}",
        ended(false, 2)
    );
}

#[test]
fn memory_has_a_limit_that_packages_do_not_share() {
    let quads = machine("two-quads");
    let stream = Memory {
        working_set_bytes: 1 << 40,
        accesses_per_us: 200,
        is_shared: false,
        ..Memory::default()
    };
    // 21 us for a microsecond of work with its 200 lines of 64 bytes: 609.5 MB/s.
    near(
        &speeds(&quads, &[], stream, &[0, 1, 2, 3]),
        &[1.0 / (1.0 * 3000.0 / 2666.0 + 20.0); 4],
    );
    let slow = described(
        "topology = \"package:2 l2:1(size=4MB) core:2 pu:1\"\nmemory = { latency_ns = 100, bandwidth_mb_s = 900 }\n",
    );
    let found = speeds(&slow, &[], stream, &[0, 1, 2]);
    near(
        &found,
        &[450.0 / 609.52 / 21.0, 450.0 / 609.52 / 21.0, 1.0 / 21.0],
    );
    near(
        &speeds(&slow, &[Mechanism::Bandwidth], stream, &[0, 1, 2]),
        &[1.0 / 21.0; 3],
    );
}

/// When the four tasks are done, and what the machine has consumed then and after two seconds, in joules.
fn four_tasks(off: &[Mechanism], cpus: [CpuIndex; 4]) -> (f64, f64, Outcome) {
    let mut world = bound(&machine("two-quads"), off, Memory::default(), &cpus);
    let mut now = 0;
    let is_done = |outcome: &Outcome| {
        outcome
            .programs
            .iter()
            .all(|program| program.work_ns >= SECOND as f64)
    };
    while !is_done(&world.outcome()) {
        now += MS / 10;
        world.run_until(now).unwrap();
    }
    let joules = world.outcome().joules.iter().sum();
    world.run_until(2 * SECOND).unwrap();
    (now as f64 / 1e9, joules, world.outcome())
}

#[test]
fn packing_saves_energy_and_spreading_saves_time() {
    // multicore-scheduling, Figs. 5 and 6: four tasks on four L2s, and on the four cores of one package.
    let (spread_s, spread_j, spread) = four_tasks(&[], [0, 2, 4, 6]);
    let (packed_s, packed_j, packed) = four_tasks(&[], [0, 1, 2, 3]);
    // At 3 GHz, and at 2.666.
    near(&[spread_s, packed_s], &[1.0, 1.1253]);
    // A core at 3 GHz takes 24 * (3000 / 2666)^3 W, 34.197. Spread: two packages of 24 + 2 * 34.197 + 2 * 6 W for a second.
    // Packed: 24 + 4 * 24 and, for the idle one, 16 W.
    near(&[spread_j / 208.788, packed_j / (136.0 * 1.1253)], &[1.0, 1.0]);
    // Until both have been done for a while: with 16 W for each idle package.
    near(
        &[
            spread.joules.iter().sum::<f64>() / (208.788 + 32.0),
            packed.joules.iter().sum::<f64>() / (136.0 * 1.1253 + 32.0 * (2.0 - 1.1253)),
        ],
        &[1.0, 1.0],
    );
    assert!(spread_s < packed_s && packed_j < 0.75 * spread_j);
    // Without acceleration spreading saves nothing.
    let off = [Mechanism::Acceleration];
    let (spread_s, _, _) = four_tasks(&off, [0, 2, 4, 6]);
    let (packed_s, _, _) = four_tasks(&off, [0, 1, 2, 3]);
    near(&[spread_s, packed_s], &[1.0, 1.0]);
    assert!(four_tasks(&[Mechanism::Power], [0, 1, 2, 3]).2.joules.is_empty());
}

/// The CPUs on which so many programs of so many threads run in the end, in this mode.
fn places(machine: &Machine, mode: Mode, programs: usize, threads: usize) -> Vec<Vec<CpuIndex>> {
    let mut world = World::new(machine, Costs::of_lab(1000), |kernel| {
        Threadwise::new(kernel, Tunables::default()).with_mode(mode)
    });
    world.record();
    for seed in 0..programs {
        let ratio = "inf:1".parse().unwrap();
        let program = Synthetic::new(ratio, 1_000_000, 1_000, threads, Wait::Passive, seed as u64);
        world.start(Box::new(program), 100, None);
    }
    world.run_until(SECOND / 2).unwrap();
    let timeline = world.into_timeline();
    let mut cpus = vec![Vec::new(); programs];
    for run in timeline.runs().iter().filter(|run| run.to >= SECOND / 2) {
        cpus[timeline.program_of(run.task)].push(run.cpu);
    }
    cpus
}

#[test]
fn modes_spread_tasks_over_packages_or_fill_one() {
    // multicore-scheduling, Figs. 5 and 6: four tasks on four L2s, or on the four cores of one package.
    let quads = machine("two-quads");
    let apart = |places: &[Vec<CpuIndex>], size: usize| {
        let mut groups: Vec<usize> = places.iter().flatten().map(|cpu| cpu / size).collect();
        assert_eq!(groups.len(), 4, "{places:?}");
        groups.sort_unstable();
        groups.dedup();
        groups.len()
    };
    let [spread, packed] = [Mode::Performance, Mode::Powersave].map(|mode| places(&quads, mode, 4, 1));
    assert_eq!(
        (apart(&spread, 2), apart(&packed, 4)),
        (4, 1),
        "{spread:?} {packed:?}"
    );
    // Threads of a program stay behind one cache while they fit: four on four cores.
    let duals = machine("package:2 core:4 pu:1");
    for program in places(&duals, Mode::Performance, 2, 4) {
        assert!(
            program.len() == 4 && program.iter().all(|cpu| cpu / 4 == program[0] / 4),
            "{program:?}"
        );
    }
}

/// Programs of one thread that read so much memory each, in this order, on two packages of two cores with an L2 each: the CPUs on
/// which they are in the end, and how often one changed its package after the first second.
fn paired(pairing: PairingBy, sets_kib: &[u64], lost_sample_in: u64) -> (Vec<CpuIndex>, usize) {
    let machine = machine("two-duals");
    let mut world = World::new(&machine, Costs::of_lab(1000), |kernel| {
        Threadwise::new(kernel, Tunables::default())
            .with_mode(Mode::Performance)
            .pairing_by(pairing)
    });
    world.record();
    world.check(Checker {
        idle_bound: 5 * MS,
        wait_bound: SECOND,
    });
    for (seed, &kib) in sets_kib.iter().enumerate() {
        let memory = Memory {
            working_set_bytes: kib << 10,
            accesses_per_us: if kib > 0 { 6 } else { 0 },
            is_shared: false,
            ..Memory::default()
        };
        let program = Synthetic::new(
            "inf:1".parse().unwrap(),
            1_000_000,
            1_000,
            1,
            Wait::Passive,
            seed as u64,
        );
        world.start(Box::new(program.with_memory(memory)), 100, None);
    }
    world.inject(Faults {
        seed: 1,
        lost_sample_in,
        until_ns: 4 * SECOND,
        ..Faults::default()
    });
    world.run_until(3 * SECOND).unwrap();
    let timeline = world.into_timeline();
    let mut cpus = vec![0; sets_kib.len()];
    let mut nr_moves = 0;
    for run in timeline.runs() {
        let last = std::mem::replace(&mut cpus[timeline.program_of(run.task)], run.cpu);
        nr_moves += usize::from(run.from > SECOND && last / 2 != run.cpu / 2);
    }
    (cpus, nr_moves)
}

/// How often so many programs of a thread that never sleeps change their CPUs under a mode, after the first 0.2 of 2 seconds.
fn nr_changes(machine_name: &str, mode: Mode, nr_programs: u64) -> usize {
    let mut world = World::new(&machine(machine_name), Costs::of_lab(1000), |kernel| {
        Threadwise::new(kernel, Tunables::default()).with_mode(mode)
    });
    world.record();
    for seed in 0..nr_programs {
        let program = Synthetic::new("1:inf".parse().unwrap(), 1_000_000, 1_000, 1, Wait::Passive, seed);
        world.start(Box::new(program), 100, None);
    }
    world.run_until(2 * SECOND).unwrap();
    let timeline = world.into_timeline();
    let mut runs = timeline.runs();
    runs.sort_by_key(|run| run.from);
    let (mut cpus, mut nr_changes) = (BTreeMap::new(), 0);
    for run in runs {
        let last = cpus.insert(run.task, run.cpu);
        nr_changes += usize::from(run.from > SECOND / 5 && last.is_some_and(|last| last != run.cpu));
    }
    nr_changes
}

#[test]
fn who_has_a_place_as_the_mode_wants_it_stays_there() {
    for mode in [Mode::Performance, Mode::Powersave] {
        for nr_programs in 1..=5 {
            let nr_changes = nr_changes("two-quads", mode, nr_programs);
            assert_eq!(nr_changes, 0, "{nr_programs} programs, {mode:?}");
        }
    }
}

#[test]
fn with_a_mode_too_parallel_tasks_leave_a_serial_one_its_core() {
    // Six threads on four cores of two: two cores have one each, and the serial task comes beside one of these.
    for mode in [Mode::Performance, Mode::Powersave] {
        for seed in 0..8 {
            let mut world = World::new(&machine("core:4 pu:2"), Costs::of_lab(1000), |kernel| {
                Threadwise::new(kernel, Tunables::default()).with_mode(mode)
            });
            world.record();
            for (ratio, threads, until) in [("inf:1", 6, SECOND / 4), ("1:inf", 1, SECOND / 2)] {
                let ratio = ratio.parse().unwrap();
                let program = Synthetic::new(ratio, 1_000_000, 1_000, threads, Wait::Active, seed);
                world.start(Box::new(program), 100, None);
                world.run_until(until).unwrap();
            }
            let timeline = world.into_timeline();
            let mut on_core = [[0; 2]; 4];
            for run in timeline.runs().iter().filter(|run| run.to >= SECOND / 2) {
                on_core[run.cpu / 2][timeline.program_of(run.task)] += 1;
            }
            assert!(
                on_core.contains(&[0, 1]) && on_core.iter().flatten().sum::<usize>() == 7,
                "{mode:?}, {seed}: {on_core:?}"
            );
        }
    }
}

#[test]
fn memory_heavy_tasks_go_beside_cpu_heavy_ones() {
    let apart = |cpus: &[CpuIndex], one: usize, other: usize| cpus[one] / 2 != cpus[other] / 2;
    // Spread by number, the first and the last come behind one cache.
    let order = [3072, 0, 0, 3072];
    let (cpus, _) = paired(PairingBy::Off, &order, 0);
    assert!(!apart(&cpus, 0, 3), "{cpus:?}");
    for (pairing, lost_sample_in) in [
        (PairingBy::Auto, 0),
        (PairingBy::Counters, 2),
        (PairingBy::Resident, 0),
    ] {
        let (cpus, nr_moves) = paired(pairing, &order, lost_sample_in);
        assert!(apart(&cpus, 0, 3) && apart(&cpus, 1, 2), "{pairing:?}: {cpus:?}");
        assert_eq!(nr_moves, 0, "{pairing:?}: they stay");
    }
    // All samples are lost: nothing is known, and nothing is done.
    let (cpus, nr_moves) = paired(PairingBy::Counters, &order, 1);
    assert!(!apart(&cpus, 0, 3) && nr_moves == 0, "{cpus:?}");
    // Three that need much, one of them more than a cache: the two that are together stay, whatever is done.
    let (_, nr_moves) = paired(PairingBy::Counters, &[3072, 65_536, 0, 3072], 0);
    assert!(nr_moves <= 4, "{nr_moves} moves in two seconds");
}

#[test]
fn tasks_of_which_none_fits_beside_another_come_to_rest() {
    // Three need a cache each, so whoever is alone behind one seems to need nothing, and the other two one exchange more.
    // Between the first second and the third each has two left at most, of which two tasks move each time.
    for order in [[3072, 3072, 0, 3072], [3072, 0, 3072, 3072]] {
        let (_, nr_moves) = paired(PairingBy::Counters, &order, 0);
        assert!(nr_moves <= 12, "{order:?}: {nr_moves} moves in two seconds");
    }
}

/// Programs of two threads each have as many CPUs, on two caches: the first threads of all begin behind one of them, as the other
/// is taken for a moment. The packages of each program's threads in the end, and how often a thread changed its own after the
/// first half second.
fn begun_behind_one_cache(machine: &Machine, mode: Mode) -> (Vec<Vec<usize>>, usize) {
    let nr = machine.nr_cpus() / 2;
    let mut world = World::new(machine, Costs::of_lab(1000), |kernel| {
        let tunables = Tunables {
            serial_threshold: 1,
            ..Tunables::default()
        };
        Threadwise::new(kernel, tunables).with_mode(mode)
    });
    world.record();
    world.check(Checker {
        idle_bound: 5 * MS,
        wait_bound: SECOND,
    });
    for cpu in nr..2 * nr {
        let burn = Burn {
            ns: 10 * MS,
            memory: Memory::default(),
            begun: false,
        };
        world.start(Box::new(burn), 100, Some(cpu));
    }
    for _ in 0..nr {
        world.start(Box::new(Joined { asked: [false; 2] }), 100, None);
    }
    world.run_until(SECOND).unwrap();
    let timeline = world.into_timeline();
    let (mut packages, mut nr_moves) = (vec![vec![0; 2]; 2 * nr], 0);
    for run in timeline.runs() {
        let program = timeline.program_of(run.task);
        let last = std::mem::replace(&mut packages[program][run.task % 2], run.cpu / nr);
        nr_moves += usize::from(run.from > SECOND / 2 && last != run.cpu / nr);
    }
    (packages.split_off(nr), nr_moves)
}

#[test]
fn programs_that_began_behind_one_cache_have_one_each_soon() {
    let together = |packages: &[Vec<usize>]| packages.iter().all(|threads| threads[0] == threads[1]);
    // Where cores have two hardware threads each, they may meet behind one by the order in which CPUs become idle.
    let (packages, _) = begun_behind_one_cache(&machine("two-duals"), Mode::Near);
    assert!(!together(&packages), "who knows no homes: {packages:?}");
    // With two cores each, or with two cores of two hardware threads each.
    for spec in ["two-duals", "package:2 core:2 pu:2"] {
        for mode in [Mode::Performance, Mode::Powersave] {
            let (packages, nr_moves) = begun_behind_one_cache(&machine(spec), mode);
            assert!(together(&packages), "{spec} {mode:?}: {packages:?}");
            assert_eq!(nr_moves, 0, "{spec} {mode:?}: they stay");
        }
    }
}

/// The work of a program of so many threads that are always parallel, in cores, for each of some seeds.
fn parallel(machine: &Machine, threads: usize, scheduler: &str) -> Vec<f64> {
    let one = |seed: u64| {
        let costs = Costs::of_lab(40);
        let mut world = match scheduler {
            "told" => World::new(machine, costs, |kernel| {
                Threadwise::told(kernel, Tunables::default())
            }),
            "ours" => World::new(machine, costs, |kernel| {
                Threadwise::new(kernel, Tunables::default())
            }),
            _ => World::new(machine, costs, Fair::new),
        };
        world.scatter(seed);
        let ratio = "inf:1".parse().unwrap();
        let program = Synthetic::new(ratio, 20_000, 1_000, threads, Wait::Passive, seed);
        world.start(Box::new(program), 100, None);
        world.run_until(2 * SECOND).unwrap();
        world.outcome().programs[0].work_ns / (2 * SECOND) as f64
    };
    (1..=8).map(one).collect()
}

#[test]
fn whole_cores_come_first_for_who_knows_them() {
    let least = |cores: &[f64]| cores.iter().copied().fold(f64::INFINITY, f64::min);
    for (spec, scheduler) in [("smt-8-hidden", "told"), ("smt-8", "ours"), ("smt-8", "kernel")] {
        for threads in [2, 4] {
            let cores = parallel(&machine(spec), threads, scheduler);
            assert!(
                least(&cores) > 0.95 * threads as f64,
                "{spec}, {scheduler}, {threads} threads: {cores:?}"
            );
        }
        let all = parallel(&machine(spec), 8, scheduler);
        assert!(
            least(&all) > 4.6 && all.iter().all(|&cores| cores < 4.96),
            "{all:?}"
        );
    }
    // Who does not know them, nor by packages where to begin, has luck or not: mostly somebody shares.
    let hidden = described("topology = \"core:4 pu:2\"\nlab = { mips = 40, hides_smt = true }\n");
    for scheduler in ["ours", "kernel"] {
        let cores = parallel(&hidden, 4, scheduler);
        assert!(least(&cores) < 3.0, "{scheduler}: {cores:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Small worlds that share everything: rates are those of who runs beside whom, work is conserved, everybody has their turn.
    #[test]
    fn small_worlds_that_share_hold(
        scheduler in 0usize..6,
        hidden: bool,
        unequal: bool,
        programs in prop::collection::vec((0usize..5, 1usize..=4, any::<bool>(), any::<bool>()), 1..4),
        seed: u64,
    ) {
        let slow = if unequal { 640 } else { 1024 };
        let machine = described(&format!(
            "topology = \"package:2 l2:1(size=1MB) core:2 pu:2\"\n\
             capacity = [{{ cpus = \"0-3\", capacity = 1024 }}, {{ cpus = \"4-7\", capacity = {slow} }}]\nlab = {{ mips = 40, hides_smt = {hidden} }}\n\
             memory = {{ latency_ns = 100, bandwidth_mb_s = 500 }}\nacceleration = {{ mhz = [3000, 2500] }}\n\
             power = {{ package_active_mw = 9, package_idle_mw = 3, core_active_mw = 5, core_idle_mw = 1 }}\n"
        ));
        let costs = Costs::of_lab(100);
        let mut world = match scheduler {
            0 => World::new(&machine, costs, |kernel| Threadwise::told(kernel, Tunables::default())),
            1 => World::new(&machine, costs, |kernel| Threadwise::new(kernel, Tunables::default())),
            2 => World::new(&machine, costs, Fair::new),
            3 => World::new(&machine, costs, |kernel| RoundRobin::new(kernel, MS)),
            _ => World::new(&machine, costs, |kernel| {
                let mode = if scheduler == 4 { Mode::Performance } else { Mode::Powersave };
                Threadwise::told(kernel, Tunables::default()).with_mode(mode)
            }),
        };
        world.scatter(seed);
        // EEVDF takes nothing from behind another cache that would not fit by its utilization (`Known::keeps_cpus_busy`).
        let idle_bound = if scheduler == 2 { u64::MAX } else { 5 * MS };
        world.check(Checker { idle_bound, wait_bound: 3 * SECOND });
        for (index, &(kind, threads, active, reads)) in programs.iter().enumerate() {
            let ratio = ["1:1", "4:1", "1:4", "inf:1", "1:inf"][kind].parse().unwrap();
            let wait = if active { Wait::Active } else { Wait::Passive };
            let inner = Synthetic::new(ratio, 200 << (index * 3), 1_000, threads, wait, seed.wrapping_add(index as u64));
            let memory = Memory {
                working_set_bytes: 300_000 << index,
                accesses_per_us: if reads { 20 } else { 0 },
                is_shared: active,
                ..Memory::default()
            };
            world.start(Box::new(Reads { inner, memory }), 100, None);
        }
        if let Err(wrong) = world.run_until(SECOND) {
            prop_assert!(false, "{}: {}", scheduler, wrong);
        }
        let outcome = world.outcome();
        prop_assert!(outcome.joules.iter().all(|joules| (0.003..=0.02).contains(joules)), "{:?}", outcome.joules);
    }
}

/// A program with a memory.
struct Reads {
    inner: Synthetic,
    memory: Memory,
}

impl Program for Reads {
    fn nr_threads(&self) -> usize {
        self.inner.nr_threads()
    }

    fn next(&mut self, thread: usize, now: Ns) -> Step {
        self.inner.next(thread, now)
    }

    fn memory(&self, _thread: usize) -> Memory {
        self.memory
    }
}

#[test]
fn programs_that_share_memory_stay_behind_one_cache_while_they_fit() {
    // Single threads on two packages of two cores; of programs that share nothing each has a package.
    let packages = |nr: usize, shared: &[usize]| {
        let machine = machine("two-duals");
        let mut world = World::new(&machine, Costs::of_lab(1000), |kernel| {
            Threadwise::new(kernel, Tunables::default())
                .with_mode(Mode::Performance)
                .sharing(shared)
        });
        world.record();
        for seed in 0..nr {
            let ratio = "inf:1".parse().unwrap();
            let program = Synthetic::new(ratio, 1_000_000, 1_000, 1, Wait::Passive, seed as u64);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(SECOND).unwrap();
        let timeline = world.into_timeline();
        let mut at = vec![0; nr];
        for run in timeline.runs() {
            at[timeline.program_of(run.task)] = run.cpu / 2;
        }
        at
    };
    let alone = packages(2, &[]);
    assert_ne!(alone[0], alone[1]);
    let shared = packages(2, &[0, 1]);
    assert_eq!(shared[0], shared[1]);
    // Three do not fit behind a cache of two cores.
    let three = packages(3, &[0, 1, 2]);
    assert!(three.contains(&0) && three.contains(&1), "{three:?}");
}

#[test]
fn what_outgrows_its_cache_spills_into_others_in_one_order() {
    // Threads that never meet on two packages of two caches of two cores: how many are behind each in the end, the home first.
    let behind = |nr_programs: usize, nr_threads: usize| {
        let machine = Machine::from_synthetic("package:2 llc:2 core:2").unwrap();
        let mut world = World::new(&machine, Costs::of_lab(1000), |kernel| {
            let tunables = Tunables {
                serial_threshold: 1,
                ..Tunables::default()
            };
            Threadwise::new(kernel, tunables).with_mode(Mode::Performance)
        });
        world.record();
        for seed in 0..nr_programs {
            let ratio = "inf:1".parse().unwrap();
            let program = Synthetic::new(ratio, 10_000_000, 1_000, nr_threads, Wait::Passive, seed as u64);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(SECOND).unwrap();
        let timeline = world.into_timeline();
        let mut runs = timeline.runs();
        runs.sort_by_key(|run| run.to);
        let last: BTreeMap<_, _> = runs.iter().map(|run| (run.task, run.cpu / 2)).collect();
        let mut behind = [0; 4];
        last.values().for_each(|&cache| behind[cache] += 1);
        behind
    };
    let of_programs = |nr| behind(nr, 1);
    for (nr_threads, filled) in [
        (2, [2, 0, 0, 0]),
        (3, [2, 1, 0, 0]),
        (5, [2, 2, 1, 0]),
        (7, [2, 2, 2, 1]),
    ] {
        let caches = behind(1, nr_threads);
        // The same seen from the other caches, in case it began there.
        let from = |home: usize| [0, 1, 2, 3].map(|far| caches[home ^ far]);
        assert!(
            (0..4).any(|home| from(home) == filled),
            "{nr_threads}: {caches:?}"
        );
    }
    // Programs that share nothing are spread.
    let mut alone = of_programs(3);
    alone.sort_unstable();
    assert_eq!(alone, [0, 1, 1, 1]);
}
