// SPDX-License-Identifier: GPL-2.0-only
//! Pipelines of polling threads: what comes out of them when their threads have hardware to themselves, and when they share it.
#![allow(clippy::unwrap_used)]

use threadwise_machine::Machine;
use threadwise_simulator::check::Checker;
use threadwise_simulator::kernel::CpuIndex;
use threadwise_simulator::programs::{Pipeline, PipelineStage};
use threadwise_simulator::schedulers::Fair;
use threadwise_simulator::{Costs, Mechanism, Memory, Ns, World};

const US: Ns = 1_000;
const MS: Ns = 1_000_000;

/// R, P and T for a packet each.
const STAGES_NS: [Ns; 3] = [500, 800, 400];

/// The T2, whose pipes of four hardware threads gain 50 % with each further one, and its cores 90 % with the second pipe.
fn t2() -> Machine {
    Machine::load("ultrasparc-t2").unwrap()
}

fn world(off: &[Mechanism]) -> World {
    let mut world = World::new(&t2(), Costs::FREE, Fair::new);
    for &mechanism in off {
        world.switch_off(mechanism);
    }
    world.check(Checker {
        idle_bound: 5 * MS,
        wait_bound: 100 * MS,
    });
    world
}

fn pipeline(memory: Memory, cpus: &[CpuIndex; 3]) -> Pipeline {
    let stage = |(&ns, &cpu): (&Ns, &CpuIndex)| PipelineStage {
        ns,
        memory,
        cpu: Some(cpu),
    };
    Pipeline::new(STAGES_NS.iter().zip(cpus).map(stage).collect(), 16)
}

/// Nanoseconds a packet of each instance, in a steady state.
fn ns_a_packet(off: &[Mechanism], memory: Memory, instances: &[[CpuIndex; 3]]) -> Vec<f64> {
    let mut world = world(off);
    let programs: Vec<Pipeline> = instances.iter().map(|cpus| pipeline(memory, cpus)).collect();
    let counters: Vec<_> = programs.iter().map(Pipeline::forwarded).collect();
    for program in programs {
        world.start(Box::new(program), 100, None);
    }
    world.run_until(MS / 2).unwrap();
    let before: Vec<_> = counters.iter().map(|counter| counter.get()).collect();
    world.run_until(2 * MS).unwrap();
    let rate = |(counter, before): (&std::rc::Rc<std::cell::Cell<_>>, _)| {
        let now: threadwise_simulator::programs::Forwarded = counter.get();
        let before: threadwise_simulator::programs::Forwarded = before;
        (now.last_at - before.last_at) as f64 / (now.nr_packets - before.nr_packets) as f64
    };
    counters.iter().zip(before).map(rate).collect()
}

fn near(found: &[f64], expected: &[f64]) {
    let close = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() < 2e-3;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(close),
        "{found:?}, not {expected:?}"
    );
}

#[test]
fn the_slowest_stage_says_how_fast_it_is() {
    near(&ns_a_packet(&[], Memory::default(), &[[0, 8, 16]]), &[800.0]);
    near(
        &ns_a_packet(&[], Memory::default(), &[[0, 8, 16], [24, 32, 40]]),
        &[800.0; 2],
    );
}

#[test]
fn who_polls_takes_of_a_pipe_and_a_core_what_who_works_does() {
    let none = Memory::default();
    // T, in the same pipe as P: two have 1.5 times what one has.
    near(&ns_a_packet(&[], none, &[[8, 0, 1]]), &[800.0 / 0.75]);
    // In the core's other pipe, 1.9 times.
    near(&ns_a_packet(&[], none, &[[8, 0, 4]]), &[800.0 / 0.95]);
    // All three, two of them in one pipe.
    near(&ns_a_packet(&[], none, &[[4, 0, 1]]), &[800.0 / (0.75 * 0.95)]);
    // Two instances' P.
    near(
        &ns_a_packet(&[], none, &[[8, 0, 16], [24, 1, 32]]),
        &[800.0 / 0.75; 2],
    );
    // If nothing were shared it would not matter.
    near(
        &ns_a_packet(&[Mechanism::Pipelines], none, &[[4, 0, 1]]),
        &[800.0],
    );
}

#[test]
fn what_misses_the_cache_waits_for_memory() {
    let memory = Memory {
        working_set_bytes: 1 << 40,
        accesses_per_us: 5,
        is_shared: false,
        ..Memory::default()
    };
    // Each access takes 108 ns, whoever runs where.
    near(
        &ns_a_packet(&[], memory, &[[0, 8, 16]]),
        &[800.0 * (1.0 + 5.0 * 0.108)],
    );
}

#[test]
fn bound_threads_stay_where_they_were_put() {
    let mut world = World::new(&t2(), Costs::of_lab(1000), Fair::new);
    world.record();
    // Threads of two instances take turns on one CPU, and a third shares nothing.
    for cpus in [[3, 9, 20], [3, 63, 21]] {
        world.start(Box::new(pipeline(Memory::default(), &cpus)), 100, None);
    }
    world.run_until(20 * MS).unwrap();
    let runs = world.into_timeline().runs();
    let expected = [3, 9, 20, 3, 63, 21];
    assert!(runs.iter().all(|run| run.cpu == expected[run.task]), "{runs:?}");
    // They did take turns.
    assert!(runs.iter().filter(|run| run.cpu == 3).count() > 4);
}

#[test]
fn a_queue_holds_no_more_than_it_has_room_for() {
    // R is faster than P; without a limit it would be some 1,000 packets ahead by now.
    let mut world = world(&[]);
    let fast = |ns| PipelineStage {
        ns,
        memory: Memory::default(),
        cpu: None,
    };
    world.start(
        Box::new(Pipeline::new(vec![fast(500), fast(1000)], 16)),
        100,
        None,
    );
    world.run_until(1000 * US).unwrap();
    let work = &world.outcome().programs[0].threads_ns;
    let (received, forwarded) = (work[0] / 500.0, work[1] / 1000.0);
    assert!((15.0..=18.5).contains(&(received - forwarded)), "{work:?}");
}
