// SPDX-License-Identifier: GPL-2.0-only
//! How the cost of an event grows with CPUs and tasks. How many there are a second says `make bench`.

use std::time::{Duration, Instant};

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::check::Checker;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::{Costs, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: u64 = 1_000_000;
/// What an event of the large machine may take, where one of the small one takes 1. Measured are 1.4 to 2.7:
/// tasks of a large one are far away in memory, the more so beside others on the host.
const MOST: f64 = 3.0;
/// The same under the kernel's scheduler, whose idle CPUs look for the busiest of all. Measured are 2.8 to 4.3; 6 when
/// each tick looked at all.
const MOST_OF_KERNEL: f64 = 5.0;

/// Programs of so many threads in all, half serial and half parallel on the mean, that have run for a while.
fn world(scheduler: Known, nr_cpus: usize, nr_tasks: usize) -> World {
    let machine = Machine::load(&format!("core:{nr_cpus}")).expect("a machine");
    let mut world = scheduler.world(&machine, Costs::of_lab(1000), Tunables::default());
    let threads = nr_cpus.min(64);
    for seed in 0..nr_tasks.div_ceil(threads) {
        let ratio = "1:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 5_000, 1_000, threads, Wait::Passive, seed as u64);
        world.start(Box::new(program), 100, None);
    }
    world.run_until(50 * MS).expect("nothing is checked");
    world
}

/// What an event takes in the time from here to there.
fn per_event(world: &mut World, until: u64) -> Duration {
    let (before, begun) = (world.outcome().nr_events, Instant::now());
    world.run_until(until).expect("nothing is wrong");
    let nr_events = (world.outcome().nr_events - before) as u32;
    assert!(nr_events > 1_000, "{nr_events} events");
    begun.elapsed() / nr_events
}

/// What an event takes with 1,024 CPUs and 10,000 tasks by what it takes with 8 and 16: of pieces that alternate, the fastest up to
/// where it is good enough.
fn growth(scheduler: Known, checked: bool, most: f64) -> f64 {
    let [mut small, mut large] =
        [(8, 16), (1024, 10_000)].map(|(nr_cpus, nr_tasks)| world(scheduler, nr_cpus, nr_tasks));
    if checked {
        large.check(Checker {
            idle_bound: u64::MAX,
            wait_bound: u64::MAX,
        });
    }
    let large_ms = if checked { 3 } else { 10 };
    let mut least = [Duration::MAX; 2];
    let mut growth = f64::INFINITY;
    for piece in 1..=if checked { 2 } else { 10 } {
        let small = per_event(&mut small, (50 + 3_000 * piece) * MS);
        let large = per_event(&mut large, (50 + large_ms * piece) * MS);
        least = [least[0].min(small), least[1].min(large)];
        growth = least[1].as_secs_f64() / least[0].as_secs_f64();
        if growth < most {
            break;
        }
    }
    growth
}

#[test]
fn an_event_of_a_hundred_times_more_cpus_costs_little_more() {
    for (scheduler, most) in [(Known::Threadwise, MOST), (Known::Kernel, MOST_OF_KERNEL)] {
        let plain = growth(scheduler, false, most);
        assert!(plain < most, "{scheduler:?}: {plain:.1} times as much");
    }
    // Checking looks at each CPU and task after each event.
    let checked = growth(Known::Threadwise, true, MOST);
    assert!(checked > MOST_OF_KERNEL, "{checked:.1} times as much");
}
