// SPDX-License-Identifier: GPL-2.0-only
//! Events a second, and how that changes with CPUs and tasks: `make bench`.

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::kernel::Kernel;
use threadwise_simulator::schedulers::{Fair, RoundRobin, Threadwise};
use threadwise_simulator::{Costs, Scheduler, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: u64 = 1_000_000;
/// Of one iteration.
const EVENTS: u64 = 100_000;

/// Programs of so many threads in all, half serial and half parallel on the mean, that have run for a while.
fn world<S: Scheduler + 'static>(
    nr_cpus: usize,
    nr_tasks: usize,
    scheduler: impl FnOnce(&mut Kernel) -> S,
) -> World {
    let machine = Machine::load(&format!("core:{nr_cpus}")).expect("a machine");
    let mut world = World::new(&machine, Costs::of_lab(1000), scheduler);
    let threads = nr_cpus.min(64);
    for seed in 0..nr_tasks.div_ceil(threads) {
        let ratio = "1:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 5_000, 1_000, threads, Wait::Passive, seed as u64);
        world.start(Box::new(program), 100, None);
    }
    world.run_until(100 * MS).expect("nothing is checked");
    world
}

fn events(c: &mut Criterion) {
    let mut group = c.benchmark_group("events");
    group.sample_size(10);
    for (nr_cpus, nr_tasks) in [(8, 16), (64, 640), (1024, 10_000)] {
        let schedulers: [(&str, World); 3] = [
            (
                "threadwise",
                world(nr_cpus, nr_tasks, |kernel| {
                    Threadwise::new(kernel, Tunables::default())
                }),
            ),
            ("kernel", world(nr_cpus, nr_tasks, Fair::new)),
            (
                "round robin",
                world(nr_cpus, nr_tasks, |kernel| RoundRobin::new(kernel, MS)),
            ),
        ];
        for (name, mut world) in schedulers {
            // As long as some EVENTS take, as the last ones did.
            let before = world.outcome().nr_events;
            world.run_until(120 * MS).expect("nothing is checked");
            let nr_in_20_ms = world.outcome().nr_events - before;
            let step = (20 * MS * EVENTS / nr_in_20_ms.max(1)).max(1);
            let mut until = 120 * MS;
            group.throughput(Throughput::Elements(EVENTS));
            group.bench_function(
                BenchmarkId::new(name, format!("{nr_cpus} CPUs, {nr_tasks} tasks")),
                |b| {
                    // The time of as many events as the throughput says, whatever their number was.
                    b.iter_custom(|iterations| {
                        let (before, begun) = (world.outcome().nr_events, Instant::now());
                        until += iterations * step;
                        world.run_until(until).expect("nothing is checked");
                        let nr_events = world.outcome().nr_events - before;
                        let meant = EVENTS * iterations;
                        begun.elapsed().mul_f64(meant as f64 / nr_events as f64)
                    });
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
