// SPDX-License-Identifier: GPL-2.0-only
//! What a world takes of memory: linear in its tasks, and no more after a longer run.

use allocation_counter::measure;
use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::kernel::Kernel;
use threadwise_simulator::schedulers::{Fair, Threadwise};
use threadwise_simulator::{Costs, Scheduler, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: u64 = 1_000_000;

/// The most bytes that a world of 64 CPUs holds at a time, with so many threads in programs of 50, for so long.
fn bytes<S: Scheduler + 'static>(nr_tasks: usize, ms: u64, scheduler: impl FnOnce(&mut Kernel) -> S) -> u64 {
    let machine = Machine::load("package:2 core:16 pu:2").expect("a machine");
    let play = || {
        let mut world = World::new(&machine, Costs::of_lab(1000), scheduler);
        for seed in 0..nr_tasks / 50 {
            let ratio = "1:1".parse().expect("a ratio");
            let program = Synthetic::new(ratio, 5_000, 1_000, 50, Wait::Passive, seed as u64);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(ms * MS).expect("nothing is checked");
        assert!(world.outcome().nr_events > nr_tasks as u64, "little happened");
    };
    measure(play).bytes_max
}

fn ours(kernel: &mut Kernel) -> Threadwise {
    Threadwise::new(kernel, Tunables::default())
}

/// What eight thousand take beyond four thousand, by what four take beyond two: 2 if it is linear, 4 if quadratic.
fn growth(bytes: impl Fn(usize) -> u64) -> f64 {
    let [two, four, eight] = [2_000, 4_000, 8_000].map(|nr_tasks| bytes(nr_tasks) as f64);
    (eight - four) / (four - two)
}

#[test]
fn memory_is_linear_in_tasks() {
    for (name, growth) in [
        ("threadwise", growth(|nr_tasks| bytes(nr_tasks, 200, ours))),
        ("kernel", growth(|nr_tasks| bytes(nr_tasks, 200, Fair::new))),
    ] {
        assert!((1.6..2.4).contains(&growth), "{name}: {growth:.2}");
    }
    // A byte for each two tasks.
    let pairs =
        |nr_tasks: usize| measure(|| drop(std::hint::black_box(vec![0u8; nr_tasks * nr_tasks]))).bytes_max;
    assert!(growth(pairs) > 3.5);
}

#[test]
fn memory_does_not_grow_with_time() {
    for (name, short, long) in [
        ("threadwise", bytes(1_000, 200, ours), bytes(1_000, 2_000, ours)),
        (
            "kernel",
            bytes(1_000, 200, Fair::new),
            bytes(1_000, 2_000, Fair::new),
        ),
    ] {
        assert!(
            long as f64 <= 1.2 * short as f64,
            "{name}: {short} bytes, then {long}"
        );
    }
}
