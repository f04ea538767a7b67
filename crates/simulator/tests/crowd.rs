// SPDX-License-Identifier: GPL-2.0-only
//! More serial programs than CPUs: they go first, and do not dominate.

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::check::Checker;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::{Costs, Ns, Program, Step, Synthetic, World};
use threadwise_workload::synthetic::phases::Draws;
use threadwise_workload::synthetic::{Distribution, Wait};

const MS: Ns = 1_000_000;

/// Eight CPUs with so many serial programs and then a parallel one whose eight threads meet every 3 ms.
fn world(which: Known, nr_serial: u64, weight_of: impl Fn(u64) -> u32) -> World {
    let machine = Machine::load("smp-8").expect("a machine");
    let mut world = which.world(&machine, Costs::of_lab(1000), Tunables::default());
    let mut start = |ratio: &str, threads, seed, weight| {
        let ratio = ratio.parse().expect("a ratio");
        let program = Synthetic::new(ratio, 3_000, 1_000, threads, Wait::Passive, seed);
        world.start(Box::new(program), weight, None);
    };
    (0..nr_serial).for_each(|seed| start("1:inf", 1, seed, weight_of(seed)));
    start("inf:1", 8, nr_serial, 100);
    world
}

/// What of all work the parallel program does in 10 s.
fn part(which: Known, nr_serial: u64) -> f64 {
    let mut world = world(which, nr_serial, |_| 100);
    world.run_until(10_000 * MS).expect("nothing is checked");
    let programs = world.outcome().programs;
    let sum: f64 = programs.iter().map(|program| program.work_ns).sum();
    programs.last().expect("some").work_ns / sum
}

/// Where each phase waited for a boost it had 1 % of its speed beside eight and 2 % beside 24, in place of 37 and 12. Under the
/// kernel's scheduler it has 21 % beside 24: who slept is ahead of them by its lag.
#[test]
fn a_parallel_program_has_about_what_it_has_under_the_kernel_s_scheduler() {
    for nr_serial in [8, 12, 24] {
        let [ours, kernel] = [Known::Threadwise, Known::Kernel].map(|which| part(which, nr_serial));
        assert!(
            ours > 0.5 * kernel,
            "{ours} beside {nr_serial} serial programs, and {kernel}"
        );
    }
}

/// Serial programs that leave half of the CPUs to others lose nothing to them.
#[test]
fn few_serial_programs_go_first() {
    let rates = |which| {
        let mut world = world(which, 4, |_| 100);
        world.run_until(5_000 * MS).expect("nothing is checked");
        let programs = world.outcome().programs;
        programs[..4].iter().map(|program| program.work_ns).sum::<f64>() / (4 * 5_000 * MS) as f64
    };
    let [ours, kernel] = [Known::Threadwise, Known::Kernel].map(rates);
    assert!(ours > 0.99 && ours > kernel, "{ours} of a CPU each, and {kernel}");
}

fn holds_until(end: Ns, mut world: World, wait_bound: Ns) -> Result<(), String> {
    world.check(Checker {
        idle_bound: 5 * MS,
        wait_bound,
    });
    world.run_until(end).map_err(|wrong| wrong.to_string())
}

/// Whether no ready task waits for longer beside 80 serial programs, every eighth of nice 5.
fn holds(wait_bound: Ns) -> Result<(), String> {
    let world = world(Known::Threadwise, 80, |seed| if seed % 8 == 0 { 33 } else { 100 });
    holds_until(10_000 * MS, world, wait_bound)
}

#[test]
fn nobody_waits_for_longer_than_is_stated_among_ten_times_more_programs_than_cpus() {
    // At the end of its span a newcomer waits for a lag, for 10 ms of each that waits, and for the difference of boosts
    // (docs/design/ordering.md, "The longest wait"), 1.2 s in all; here it is less.
    assert_eq!(holds(1_100 * MS), Ok(()));
    assert!(holds(20 * MS).is_err(), "a round of ten takes longer than that");
}

/// Runs for 0.15 ms on the mean and sleeps for twice that, again and again.
struct Sleeper {
    draws: Draws,
    sleeps: bool,
}

impl Program for Sleeper {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        self.sleeps = !self.sleeps;
        let drawn = self.draws.draw();
        match self.sleeps {
            true => Step::Sleep((drawn * 300_000.0) as Ns + 1),
            false => Step::Compute((drawn * 150_000.0) as Ns + 1),
        }
    }
}

/// How long who wakes up waits for the only CPU that ten of them may use.
fn longest_wait(which: Known, seed: u64) -> Ns {
    let machine = Machine::load("smp-8").expect("a machine");
    let mut world = which.world(&machine, Costs::of_lab(1000), Tunables::default());
    world.record();
    for number in 0..10 {
        let draws = Draws::new(Distribution::Exponential, 10 * seed + number);
        world.start(Box::new(Sleeper { draws, sleeps: false }), 100, Some(3));
    }
    world.run_until(2_000 * MS).expect("nothing is checked");
    let waits = world.into_timeline().wake_up_latencies();
    waits.into_values().flatten().max().expect("they wake up")
}

/// They are queued beside none to eight others. Where each key went by how many waited then, boosts of 200 and of 32 ms were beside
/// each other, and who came to a long queue waited for four times as long.
#[test]
fn who_comes_to_a_long_queue_does_not_wait_for_all_that_come_to_a_short_one() {
    for seed in 0..4 {
        let [ours, kernel] = [Known::Threadwise, Known::Kernel].map(|which| longest_wait(which, seed));
        assert!(
            ours < 2 * kernel,
            "{ours} ns, {kernel} under the kernel's scheduler"
        );
    }
}

/// So many serial programs of this weight and then a parallel one of four threads, all bound to one CPU.
fn bound_world(which: Known, nr_serial: u64, nr_threads: usize, weight: u32, phase_units: u64) -> World {
    let machine = Machine::load("smp-8").expect("a machine");
    let mut world = which.world(&machine, Costs::of_lab(1000), Tunables::default());
    let mut start = |ratio: &str, threads, weight| {
        let ratio = ratio.parse().expect("a ratio");
        let program = Synthetic::new(ratio, phase_units, 1_000, threads, Wait::Passive, 1);
        world.start(Box::new(program), weight, Some(3));
    };
    (0..nr_serial).for_each(|_| start("1:inf", nr_threads, weight));
    start("inf:1", 4, 100);
    world
}

/// Whether no ready task waits for longer where two of them are of nice -20. They are boosted if they have threads that sleep.
fn bound_beside_heavy_ones(nr_threads: usize, phase_units: u64, wait_bound: Ns) -> Result<(), String> {
    let world = bound_world(Known::Threadwise, 2, nr_threads, 8_668, phase_units);
    holds_until(30_000 * MS, world, wait_bound)
}

/// The parallel program's threads meet every millisecond or ten. Where each phase waited for a boost it had 1 to 11 % of what the
/// kernel's scheduler gives it (in the lab), as it still does beside serial phases of programs with more threads; where each
/// thread takes the CPU of the one that woke it, two thirds of its share beside two heavy ones in short phases.
#[test]
fn who_is_bound_beside_bound_serial_programs_has_its_share() {
    let worlds = [(1, 100), (1, 954), (2, 100), (2, 954)];
    for ((nr_serial, weight), units) in worlds.into_iter().flat_map(|world| [(world, 50), (world, 500)]) {
        let part = |which, nr_threads| {
            let mut world = bound_world(which, nr_serial, nr_threads, weight, units);
            world.run_until(10_000 * MS).expect("nothing is checked");
            let programs = world.outcome().programs;
            let sum: f64 = programs.iter().map(|program| program.work_ns).sum();
            programs.last().expect("some").work_ns / sum
        };
        let [ours, boosted] = [1, 4].map(|nr_threads| part(Known::Threadwise, nr_threads));
        let (kernel, by_weight) = (
            part(Known::Kernel, 1),
            400.0 / (400.0 + (nr_serial * u64::from(weight)) as f64),
        );
        let said = format!(
            "{ours} beside {nr_serial} of weight {weight}, {kernel}, {boosted}, {by_weight} by weight"
        );
        assert!(ours > kernel && ours > 0.85 * by_weight, "{said}");
        assert!(ours < 1.2 * by_weight && boosted < 0.3 * ours, "{said}");
    }
}

/// Their vtimes move by a hundredth of what they run; so who waits for 0.2 s for each task there goes forward, also behind the
/// other serial one.
#[test]
fn nobody_waits_for_long_whatever_the_others_weigh() {
    // Six tasks: 1.2 s, more while all threads are new, and what boosts and spans come to. If the timer put none forward it would
    // be more than 9 s.
    assert_eq!(bound_beside_heavy_ones(3, 3_000, 1_800 * MS), Ok(()));
    assert!(
        bound_beside_heavy_ones(3, 3_000, 600 * MS).is_err(),
        "its boost is worth more"
    );
    // One less: 0.9 to 1.3 s, by how long phases are.
    for phase_units in [1_000, 2_000, 3_000, 4_000, 6_000] {
        assert_eq!(bound_beside_heavy_ones(1, phase_units, 1_400 * MS), Ok(()));
    }
}

/// Who computes for so long and sleeps for as long as it takes to do so for so many parts of a hundred.
struct Daemon {
    computes: Ns,
    part: u64,
    is_awake: bool,
}

impl Program for Daemon {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        self.is_awake = !self.is_awake;
        match self.is_awake {
            true => Step::Compute(self.computes),
            false => Step::Sleep(self.computes * (100 - self.part) / self.part),
        }
    }
}

/// Whether no ready task waits for longer of some that never sleep, all of this weight, beside one that mostly does.
fn light_wait(nr_light: usize, light: u32, (part, weight): (u64, u32), wait_bound: Ns) -> Result<(), String> {
    let machine = Machine::load("smp-8").expect("a machine");
    let mut world = Known::Threadwise.world(&machine, Costs::of_lab(1000), Tunables::default());
    let daemon = Daemon {
        computes: MS / 2,
        part,
        is_awake: false,
    };
    world.start(Box::new(daemon), weight, Some(3));
    for seed in 0..nr_light as u64 {
        let ratio = "1:inf".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 3_000, 1_000, 1, Wait::Passive, seed);
        world.start(Box::new(program), light, Some(3));
    }
    holds_until(5_000 * MS, world, wait_bound)
}

/// One that runs for a hundredth makes all others light, so that the clock of vtimes follows them only as time goes on: they take turns
/// all the same. While it did not follow them at all they waited for each other for half a second.
#[test]
fn light_tasks_take_turns_beside_few_that_are_heavier() {
    for beside in [(1, 100), (3, 100), (10, 100), (1, 8_871), (3, 3_000)] {
        for (nr, light) in [(2, 1), (2, 11), (9, 1)] {
            let bound = 25 * MS * nr as u64;
            assert_eq!(
                light_wait(nr, light, beside, bound),
                Ok(()),
                "{nr} of weight {light} beside {beside:?}"
            );
        }
    }
    assert!(
        light_wait(2, 1, (3, 100), MS).is_err(),
        "a turn takes longer than that"
    );
}
