// SPDX-License-Identifier: GPL-2.0-only
//! Simulated fluid scheduling against the analysis: thread-essence, Tables 1 to 6 and the long run of joint phases.
//!
//! Nothing costs anything here, and threads share cores in steps that are short against phases, so what the simulator
//! yields is to be what `crates/model` computes.
//!
//! Phase lengths are random, as in the benchmark, because equal lengths keep programs in step for ever. A run that is long
//! enough for their scatter to vanish would take minutes for each pair; so a short run is compared with the fluid model
//! played out on *the same* draws, to half a per cent, which leaves the simulator's own errors only. That long playouts are
//! the closed form, `long_playouts_are_the_closed_form` shows.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use threadwise_machine::Machine;
use threadwise_model::fluid::{self, Length, Policy};
use threadwise_model::tables::{self, Fairness, Others, Phase, Rational, Speedup};
use threadwise_policy::Tunables;
use threadwise_simulator::placements::{Cores, Simulated};
use threadwise_simulator::programs::Staged;
use threadwise_simulator::schedulers::{Fluid, Known, RoundRobin};
use threadwise_simulator::{Costs, Ns, Synthetic, World};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::stages::Stages;
use threadwise_workload::synthetic::{Distribution, Draws, Wait};

const US: Ns = 1_000;
const MS: Ns = 1_000_000;

/// Phases of 80 ms on the fastest CPU.
const PHASE_UNITS: u64 = 80_000;
const UNIT_NS: Ns = US;

/// How long a placement lasts: short against phases.
const STEP: Ns = 250 * US;

/// What costs nothing, with ticks that are out of the way.
const NO_TICKS: Costs = Costs {
    tick_period_ns: 1_000 * MS,
    ..Costs::FREE
};

fn machine(asymmetry: u32) -> Machine {
    match asymmetry {
        1 => Machine::load("smp-8").unwrap(),
        2 => Machine::load("amp-8").unwrap(),
        other => panic!("no machine with a = {other}"),
    }
}

fn model(asymmetry: u32) -> fluid::Machine {
    fluid::Machine::new(8, f64::from(asymmetry)).unwrap()
}

/// A time that is short against the long run, but long enough for some dozens of phases.
fn short(batch_phases: f64) -> Length {
    Length {
        batches: 2,
        batch_phases,
        ..Length::default()
    }
}

/// Throughput in slow cores' worth and the share of idle time, over the batches of `length`, after its first.
fn simulate(mut world: World, programs: &[(Ratio, usize)], asymmetry: u32, length: Length) -> (f64, f64) {
    for (index, &(ratio, threads)) in programs.iter().enumerate() {
        let seed = fluid::seed_of(length.seed, index);
        let program = Synthetic::new(ratio, PHASE_UNITS, UNIT_NS, threads, Wait::Passive, seed);
        world.start(Box::new(program), 100, None);
    }
    // A mean phase takes a slow core so long.
    let phase_ns = PHASE_UNITS * UNIT_NS * u64::from(asymmetry);
    let batch = (length.batch_phases * phase_ns as f64) as Ns;
    let mut at = |time: Ns| {
        world.run_until(time).unwrap();
        let outcome = world.outcome();
        let work: f64 = outcome.programs.iter().map(|program| program.work_ns).sum();
        (work, outcome.idle * time as f64)
    };
    let end = batch * (1 + u64::from(length.batches));
    let (before, after) = (at(batch), at(end));
    let time = (end - batch) as f64;
    (
        (after.0 - before.0) * f64::from(asymmetry) / time,
        (after.1 - before.1) / time,
    )
}

/// How a simulated pair differs from the fluid model on the same draws.
#[derive(Debug)]
struct Difference {
    /// Printed by `Debug` only.
    _pair: String,
    simulated: f64,
    played: f64,
    /// In shares of core time.
    idle: f64,
}

impl Difference {
    fn error(&self) -> f64 {
        self.simulated / self.played - 1.0
    }
}

/// All pairs of the nine ratios under one policy, against the fluid model on the same draws.
fn differences(policy: Policy, asymmetry: u32, length: Length, world: impl Fn() -> World) -> Vec<Difference> {
    let difference = |pair: &Vec<Ratio>| {
        let played = fluid::play_out(model(asymmetry), pair, policy, length)
            .unwrap()
            .outcome;
        let programs: Vec<(Ratio, usize)> = pair.iter().map(|ratio| (*ratio, 8)).collect();
        let (simulated, idle) = simulate(world(), &programs, asymmetry, length);
        Difference {
            _pair: format!("{} beside {}, {policy:?}, a = {asymmetry}", pair[0], pair[1]),
            simulated,
            played: played.total,
            idle: idle - played.idle,
        }
    };
    let all: Vec<Difference> = fluid::mixes(2).unwrap().iter().map(difference).collect();
    assert_eq!(all.len(), 45);
    let worst = all.iter().map(|one| one.error().abs()).fold(0.0, f64::max);
    println!(
        "{policy:?}, a = {asymmetry}: {:+.3} % on the mean, at most {:.3} %",
        100.0 * mean_error(&all),
        100.0 * worst
    );
    all
}

fn mean_error(all: &[Difference]) -> f64 {
    let sum = |of: fn(&Difference) -> f64| all.iter().map(of).sum::<f64>();
    sum(|one| one.simulated) / sum(|one| one.played) - 1.0
}

/// Each pair within half a per cent, and no drift to one side.
fn assert_equal(all: &[Difference]) {
    for one in all {
        assert!(one.error().abs() < 0.005 && one.idle.abs() < 0.005, "{one:?}");
    }
    assert!(mean_error(all).abs() < 0.002, "{all:?}");
}

fn fluid_world(policy: Policy, asymmetry: u32) -> World {
    World::new(&machine(asymmetry), NO_TICKS, |_| Fluid::new(policy, STEP))
}

#[test]
fn round_robin_is_the_analysis_of_phases_unknown() {
    let costs = Costs {
        tick_period_ns: STEP / 2,
        ..Costs::FREE
    };
    assert_equal(&differences(Policy::PhasesUnknown, 1, short(6.0), || {
        World::new(&machine(1), costs, |kernel| RoundRobin::new(kernel, STEP / 2))
    }));
}

#[test]
fn phases_unknown_on_unequal_cores_too() {
    let world = || fluid_world(Policy::PhasesUnknown, 2);
    assert_equal(&differences(Policy::PhasesUnknown, 2, short(6.0), world));
}

#[test]
fn serial_boost_is_the_analysis_of_it() {
    for asymmetry in [1, 2] {
        let world = || fluid_world(Policy::SerialBoost, asymmetry);
        assert_equal(&differences(Policy::SerialBoost, asymmetry, short(6.0), world));
    }
}

/// That the comparison tells policies apart: perfect sharing without knowledge of phases is not serial boost.
#[test]
fn another_policy_is_noticed() {
    let length = short(15.0);
    let ratio: Ratio = "1:1".parse().unwrap();
    let (simulated, _) = simulate(fluid_world(Policy::PhasesUnknown, 2), &[(ratio, 8); 2], 2, length);
    let played = fluid::play_out(model(2), &[ratio; 2], Policy::SerialBoost, length).unwrap();
    assert!(simulated / played.outcome.total < 0.98, "{simulated}, {played:?}");
}

/// Each pair differs by less than this, and all on the mean by less than 0.2 %.
fn assert_both_boosts_are_the_analysis_of_them(phases: f64, most: f64) {
    for asymmetry in [1, 2] {
        let world = || fluid_world(Policy::Seniority, asymmetry);
        let all = differences(Policy::Seniority, asymmetry, short(phases), world);
        for one in &all {
            assert!(one.error().abs() < most, "{one:?}");
        }
        assert!(mean_error(&all).abs() < 0.002, "{all:?}");
    }
}

/// With seniority a pair may differ by more, for one reason: who is senior is all or nothing. Where both programs enter a
/// parallel phase at nearly the same time, a step's delay turns the order around; one program then waits for a whole phase
/// of the other, and all phases after that come at other times.
#[test]
fn both_boosts_are_the_analysis_of_them() {
    assert_both_boosts_are_the_analysis_of_them(12.0, 0.02);
}

/// Over many phases that evens out.
#[test]
#[ignore = "long: make test FULL=1"]
fn both_boosts_are_the_analysis_of_them_in_the_long_run() {
    assert_both_boosts_are_the_analysis_of_them(300.0, 0.005);
}

/// Here a step's delay turns around only whose order hardly matters: those that are nearly equal.
#[test]
fn clairvoyance_is_the_analysis_of_it() {
    for asymmetry in [1, 2] {
        let world = || fluid_world(Policy::Clairvoyant, asymmetry);
        assert_equal(&differences(Policy::Clairvoyant, asymmetry, short(12.0), world));
    }
}

/// Who does not know how long phases last gets less done, though nothing costs anything.
#[test]
fn nobody_is_ahead_of_who_foresees() {
    for asymmetry in [1, 2] {
        let totals = |known: Known| -> Vec<f64> {
            let total = |pair: &Vec<Ratio>| {
                let programs: Vec<(Ratio, usize)> = pair.iter().map(|ratio| (*ratio, 8)).collect();
                let world = known.world(&machine(asymmetry), Costs::FREE, Tunables::default());
                simulate(world, &programs, asymmetry, short(12.0)).0
            };
            fluid::mixes(2).unwrap().iter().map(total).collect()
        };
        let mean = |totals: &[f64]| totals.iter().sum::<f64>() / totals.len() as f64;
        let most = totals(Known::Clairvoyant);
        for known in [Known::Threadwise, Known::Kernel] {
            let found = totals(known);
            let shares = found.iter().zip(&most).map(|(found, most)| found / most);
            let greatest = shares.fold(0.0, f64::max);
            println!(
                "a = {asymmetry}, {}: {:.3} of {:.3} on the mean, of a pair at most {:.1} %",
                known.name(),
                mean(&found),
                mean(&most),
                100.0 * greatest
            );
            // Of a single pair it may be more, as the time is short and has other phases under each scheduler.
            assert!(
                mean(&found) < mean(&most),
                "{known:?}, a = {asymmetry}: {found:?}, {most:?}"
            );
        }
    }
}

/// Three kinds of cores, three programs, and parallel phases of other numbers of threads than there are cores.
#[test]
fn other_cores_and_phases_are_the_analysis_of_them() {
    let kinds = [(2, 1024), (2, 512), (4, 256)];
    let types = kinds.map(|(cores, capacity)| fluid::CoreType {
        cores: cores as u32,
        speed: f64::from(capacity),
    });
    let model = fluid::Machine::of_types(&types).unwrap();
    let programs = [("1:1", 3), ("4:1", 8), ("1:2", 5)];
    let simulated = programs.map(|(ratio, threads)| (ratio.parse().unwrap(), threads));
    let computed = ["3x1/1x1", "8x4/1x1", "5x1/1x2"].map(|text| text.parse::<fluid::Program>().unwrap());
    for policy in [
        Policy::PhasesUnknown,
        Policy::SerialBoost,
        Policy::Seniority,
        Policy::Clairvoyant,
    ] {
        let length = short(30.0);
        let world = World::new(&unequal(&kinds), NO_TICKS, |_| Fluid::new(policy, STEP));
        let (total, idle) = simulate(world, &simulated, 4, length);
        let played = fluid::play_out(model, &computed, policy, length).unwrap().outcome;
        let error = total / played.total - 1.0;
        println!("{policy:?}: {:+.3} %", 100.0 * error);
        assert!(
            error.abs() < 0.005 && (idle - played.idle).abs() < 0.005,
            "{policy:?}: {total}, not {}; idle {idle}, not {}",
            played.total,
            played.idle
        );
    }
}

/// Programs of which any number of threads from one to all work. The order of their stages is random, and here it is that in which
/// the analysis has them that does not matter: where policies know nothing of the order of entry, only how often which is there does.
#[test]
fn stages_of_one_thread_to_all_are_the_analysis_of_them() {
    let phases: Vec<String> = (1..=8).map(|active| format!("{active}x1")).collect();
    let computed: fluid::Program = phases.join("/").parse().unwrap();
    for policy in [Policy::PhasesUnknown, Policy::SerialBoost] {
        for asymmetry in [1, 2] {
            let mut world = fluid_world(policy, asymmetry);
            for seed in [1, 2] {
                let stages = Stages::new(8, 8_000, Draws::new(Distribution::Uniform, seed), seed);
                world.start(Box::new(Staged::new(8, stages, UNIT_NS)), 100, None);
            }
            let end = 60_000 * MS;
            world.run_until(end).unwrap();
            let outcome = world.outcome();
            let work: f64 = outcome.programs.iter().map(|program| program.work_ns).sum();
            let total = work * f64::from(asymmetry) / end as f64;
            let expected =
                fluid::expectation(model(asymmetry), &[computed.clone(), computed.clone()], policy).unwrap();
            let error = total / expected.total - 1.0;
            println!("{policy:?}, a = {asymmetry}: {:+.3} %", 100.0 * error);
            assert!(
                error.abs() < 0.01 && (outcome.idle - expected.idle).abs() < 0.01,
                "{policy:?}, a = {asymmetry}: {total}, idle {}, not {expected:?}",
                outcome.idle
            );
        }
    }
}

/// The other half of the comparison: in the long run the draws do not matter.
#[test]
fn long_playouts_are_the_closed_form() {
    let length = Length {
        batches: 20,
        ..Length::default()
    };
    for (machine, policy) in [1, 2].into_iter().flat_map(|asymmetry| {
        [Policy::PhasesUnknown, Policy::SerialBoost].map(|policy| (model(asymmetry), policy))
    }) {
        for pair in fluid::mixes(2).unwrap() {
            let played = fluid::play_out(machine, &pair, policy, length).unwrap();
            let expected = fluid::expectation(machine, &pair, policy).unwrap();
            let error = played.outcome.total / expected.total - 1.0;
            assert!(
                error.abs() < 0.005,
                "{pair:?}, {policy:?} on {machine:?}: {error}"
            );
        }
    }
}

/// CPUs of several kinds, each as number and capacity.
fn unequal(kinds: &[(usize, u32)]) -> Machine {
    let mut text = String::new();
    let mut first = 0;
    for (cpus, capacity) in kinds {
        let last = first + cpus - 1;
        text += &format!("[[capacity]]\ncpus = \"{first}-{last}\"\ncapacity = {capacity}\n");
        first += cpus;
    }
    let head = format!("name = \"some\"\ndescription = \"d\"\ntopology = \"core:{first} pu:1\"\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.toml");
    std::fs::write(&path, head + &text).unwrap();
    Machine::load(path.to_str().unwrap()).unwrap()
}

fn decimal(exact: &Rational) -> f64 {
    let text = exact.to_string();
    let (above, below) = text.split_once('/').unwrap_or((&text, "1"));
    above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap()
}

fn assert_close(found: f64, exact: &Rational, what: &str) {
    assert!(
        (found - decimal(exact)).abs() < 1e-9,
        "{what}: {found}, not {exact}"
    );
}

/// Tables 1 to 6, simulated: every way to place the threads is run, and the extremes and the mean are the tables'.
#[test]
fn tables_1_to_6_are_what_is_simulated() {
    for asymmetry in [1, 2] {
        let exact = tables::Machine::new(4, Rational::from_integer(asymmetry.into())).unwrap();
        let cores = Cores::new(4, 1024 / asymmetry).unwrap();
        for scheduler in [tables::Scheduler::Baseline, tables::Scheduler::Proposed] {
            // Tables 1, 2 (for a = 1) and 5.
            let mut pairs = Vec::new();
            for joint in tables::Joint::ALL {
                let found = cores
                    .speedup(joint.a, Others::all(joint.b, 1), scheduler)
                    .unwrap();
                let Speedup { min, avg, max } = exact.speedup(joint, scheduler);
                for (found, exact) in [found.min, found.avg, found.max].into_iter().zip([min, avg, max]) {
                    assert_close(
                        found,
                        &exact,
                        &format!("{joint:?}, {scheduler:?}, a = {asymmetry}"),
                    );
                }
                pairs.push(found);
            }
            if scheduler == tables::Scheduler::Baseline {
                let [ss, sp, ps, pp] = [0, 1, 2, 3].map(|index| pairs[index]);
                let fair = |x: f64, y: f64| (x / y).min(y / x);
                for (of, found) in [
                    (Fairness::BothSerial, fair(ss.min, ss.max)),
                    (Fairness::SerialLoses, fair(sp.min, ps.max)),
                    (Fairness::ParallelLoses, fair(ps.min, sp.max)),
                    (Fairness::BothParallel, fair(pp.min, pp.max)),
                ] {
                    assert_close(
                        found,
                        &exact.fairness_bound(of),
                        &format!("{of:?}, a = {asymmetry}"),
                    );
                }
            }
            // Tables 4 and 6 for three programs: the extremes over what the two others do.
            for phase in [Phase::Serial, Phase::Parallel] {
                let all: Vec<Simulated> = (0..=2)
                    .map(|serial| Others {
                        serial,
                        parallel: 2 - serial,
                    })
                    .map(|others| cores.speedup(phase, others, scheduler).unwrap())
                    .collect();
                let (min, max) = exact.speedup_among(3, phase, scheduler).unwrap();
                let what = format!("three programs, {phase:?}, {scheduler:?}, a = {asymmetry}");
                assert_close(
                    all.iter().map(|got| got.min).fold(f64::INFINITY, f64::min),
                    &min,
                    &what,
                );
                // As the table has it beside serial programs; with a = 2 and serial boost it has more beside parallel
                // ones, which the table leaves out: 2 + 1/3 slow cores instead of 2.
                let is_exceeded =
                    (asymmetry, phase, scheduler) == (2, Phase::Parallel, tables::Scheduler::Proposed);
                let greatest = all.iter().map(|got| got.max).fold(0.0, f64::max);
                if is_exceeded {
                    assert_close(greatest, &Rational::new(7.into(), 15.into()), &what);
                    assert_close(all[2].max, &max, &what);
                } else {
                    assert_close(greatest, &max, &what);
                }
            }
        }
    }
}
