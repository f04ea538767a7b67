// SPDX-License-Identifier: GPL-2.0-only
//! The schedulers to compare with do what they are known for.

use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::timeline::Run;
use threadwise_simulator::{Costs, Ns, Program, Step, Synthetic, World};
use threadwise_workload::synthetic::Wait;

const MS: Ns = 1_000_000;

fn world(known: Known, spec: &str) -> World {
    let machine = Machine::load(spec).expect("a machine");
    known.world(&machine, Costs::of_lab(1000), Tunables::default())
}

/// Threads that compute for ever.
struct Busy(usize);

impl Program for Busy {
    fn nr_threads(&self) -> usize {
        self.0
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        Step::Compute(MS)
    }
}

/// One thread that is gone at once.
struct Gone;

impl Program for Gone {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        Step::Exit
    }
}

/// The CPUs on which a task ran in the last of these milliseconds.
fn cpus_of(world: World, task: usize, last_ms: Ns) -> Vec<usize> {
    let runs = world.into_timeline().runs();
    let end = runs.iter().map(|run| run.to).max().expect("somebody ran");
    let late = runs
        .iter()
        .filter(|run| run.task == task && run.to > end - last_ms * MS);
    let mut cpus: Vec<usize> = late.map(|run| run.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[test]
fn o1_gives_time_by_slices() {
    // 500 ms at nice -5 and 100 ms at nice 0; EEVDF goes by weights.
    for (known, expected) in [(Known::O1, 5.0), (Known::Kernel, 3.05)] {
        let mut world = world(known, "core:1");
        world.start(Box::new(Busy(1)), 305, None);
        world.start(Box::new(Busy(1)), 100, None);
        world.run_until(12_000 * MS).expect("nothing is checked");
        let outcome = world.outcome();
        let ratio = outcome.programs[0].work_ns / outcome.programs[1].work_ns;
        assert!((ratio / expected - 1.0).abs() < 0.05, "{known:?}: {ratio}");
    }
}

#[test]
fn o1_favours_who_sleeps() {
    // Three quarters of its time asleep, it has nearly all it asks for beside one that never sleeps; taking turns would give it less.
    struct Sleepy(bool);
    impl Program for Sleepy {
        fn nr_threads(&self) -> usize {
            1
        }
        fn next(&mut self, _thread: usize, _now: Ns) -> Step {
            self.0 = !self.0;
            if self.0 {
                Step::Compute(10 * MS)
            } else {
                Step::Sleep(30 * MS)
            }
        }
    }
    let share = |known: Known| {
        let mut world = world(known, "core:1");
        world.start(Box::new(Sleepy(false)), 100, None);
        world.start(Box::new(Busy(2)), 100, None);
        world.run_until(20_000 * MS).expect("nothing is checked");
        world.outcome().programs[0].work_ns / 20e9
    };
    let (o1, in_turn) = (share(Known::O1), share(Known::RoundRobin));
    assert!(
        o1 > 0.22 && o1 > 1.2 * in_turn,
        "{o1} of the quarter that it asks for, in turn {in_turn}"
    );
}

#[test]
fn o1_lets_two_tasks_share_a_core_beside_an_idle_one_and_a_core_s_queue_does_not() {
    for (known, shares) in [(Known::O1, true), (Known::CoreQueue, false)] {
        let mut world = world(known, "core:2 pu:2");
        world.record();
        // Programs begin on the CPU after the last one's: 1, then 2 and 3, which share a core.
        world.start(Box::new(Gone), 100, None);
        world.start(Box::new(Busy(1)), 100, None);
        world.start(Box::new(Busy(1)), 100, None);
        world.run_until(1_000 * MS).expect("nothing is checked");
        let runs = world.into_timeline().runs();
        let core = |task: usize| {
            let mut runs = runs.iter().filter(|run| run.task == task && run.to > 900 * MS);
            runs.next().map(|run| run.cpu / 2)
        };
        assert_eq!(
            core(1) == core(2),
            shares,
            "{known:?}: {:?} {:?}",
            core(1),
            core(2)
        );
    }
}

#[test]
fn a_balanced_assignment_spreads_over_cores_and_a_naive_one_collides() {
    let of = |known: Known, task: usize| {
        let mut world = world(known, "core:2 pu:2");
        world.record();
        world.start(Box::new(Busy(2)), 100, None);
        world.run_until(100 * MS).expect("nothing is checked");
        cpus_of(world, task, 100)
    };
    assert_eq!(
        (of(Known::Balanced, 0), of(Known::Balanced, 1)),
        (vec![0], vec![2])
    );
    let cores = |known: Known| {
        let mut world = world(known, "core:8");
        world.start(Box::new(Busy(8)), 100, None);
        world.run_until(1_000 * MS).expect("nothing is checked");
        world.outcome().programs[0].work_ns / 1e9
    };
    assert!(cores(Known::Balanced) > 7.9, "{}", cores(Known::Balanced));
    assert!(cores(Known::Naive) < 7.0, "{}", cores(Known::Naive));
}

#[test]
fn the_paper_s_algorithm_favours_serial_threads_and_sends_them_to_the_fast_core() {
    // Beside three threads of another program on one CPU: its turn, or nearly all.
    let share = |known: Known| {
        let mut world = world(known, "core:1");
        world.start(Box::new(Busy(1)), 100, None);
        world.start(Box::new(Busy(3)), 100, None);
        world.run_until(20_000 * MS).expect("nothing is checked");
        world.outcome().programs[0].work_ns / 20e9
    };
    let [paper, o1] = [Known::Paper, Known::O1].map(share);
    assert!(
        paper > 0.85 && (0.24..0.26).contains(&o1),
        "{paper} and {o1} of a CPU"
    );
    // Alone on a machine of which one core is twice as fast: it is the only thread of a slow core.
    let of_the_fast_core = |known: Known| {
        let mut world = world(known, "amp-8");
        world.start(Box::new(Busy(1)), 100, None);
        world.run_until(1_000 * MS).expect("nothing is checked");
        world.outcome().programs[0].work_ns / 1e9
    };
    let [paper, o1] = [Known::Paper, Known::O1].map(of_the_fast_core);
    assert!(paper > 0.9 && o1 < 0.6, "{paper} and {o1} of the fast core");
}

#[test]
fn the_paper_s_algorithm_gives_parallel_programs_turns_of_a_tenth_of_a_second() {
    // At nice -5 slices are 500 ms: that is how long one goes before the other without seniority.
    let changes = |known: Known| {
        let mut world = world(known, "smp-8");
        world.start(Box::new(Busy(8)), 305, None);
        world.start(Box::new(Busy(8)), 305, None);
        let (mut before, mut leaders) = ([0.0; 2], Vec::new());
        for window in 1..=80 {
            world.run_until(window * 50 * MS).expect("nothing is checked");
            let outcome = world.outcome();
            let work = [outcome.programs[0].work_ns, outcome.programs[1].work_ns];
            leaders.push(work[0] - before[0] > work[1] - before[1]);
            before = work;
        }
        leaders.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    let (paper, o1) = (changes(Known::Paper), changes(Known::O1));
    assert!(
        paper > 25 && o1 < 12,
        "{paper} changes in 4 s, without seniority {o1}"
    );
}

/// Four threads of which these two stay; the others are gone after 50 ms.
struct Leaving([usize; 2]);

impl Program for Leaving {
    fn nr_threads(&self) -> usize {
        4
    }

    fn next(&mut self, thread: usize, now: Ns) -> Step {
        if now >= 50 * MS && !self.0.contains(&thread) {
            Step::Exit
        } else {
            Step::Compute(MS / 2)
        }
    }
}

/// On which CPUs the two that stay are at each of these times, in milliseconds, for all that can be the two.
fn where_two_stay(which: Known, machine: &Machine, at_ms: [Ns; 3]) -> Vec<[[usize; 2]; 3]> {
    let pairs = (0..4).flat_map(|one| (0..one).map(move |other| [one, other]));
    let play = |stay: [usize; 2]| {
        let mut world = which.world(machine, Costs::of_lab(1000), Tunables::default());
        world.record();
        world.start(Box::new(Leaving(stay)), 100, None);
        world.run_until(200 * MS).expect("nothing is checked");
        let runs = world.into_timeline().runs();
        let cpu_of = |task: usize, at: Ns| {
            let mut there = runs
                .iter()
                .filter(|run| run.task == task && (run.from..run.to).contains(&at));
            there.next().expect("who never sleeps runs").cpu
        };
        at_ms.map(|ms| stay.map(|task| cpu_of(task, ms * MS)))
    };
    pairs.map(play).collect()
}

/// How many share a core or a cache, numbered from 0 in pairs of CPUs.
fn nr_together(found: &[[[usize; 2]; 3]], time: usize) -> usize {
    let together = |cpus: &&[[usize; 2]; 3]| cpus[time][0] / 2 == cpus[time][1] / 2;
    found.iter().filter(together).count()
}

/// What programs of these ratios, eight threads each, get done in ten seconds on this machine, of each kind of luck.
fn work_of(which: Known, spec: &str, ratios: &[&str]) -> Vec<Vec<f64>> {
    let machine = Machine::load(spec).expect("a machine");
    let play = |seed: u64| {
        let mut world = which.world(&machine, Costs::of_lab(1000), Tunables::default());
        for (nth, ratio) in ratios.iter().enumerate() {
            let ratio = ratio.parse().expect("a ratio");
            let program = Synthetic::new(ratio, 20_000, 1_000, 8, Wait::Passive, 10 * seed + nth as u64);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(10_000 * MS).expect("nothing is checked");
        let programs = world.outcome().programs;
        programs
            .iter()
            .map(|program| program.work_ns / (10_000 * MS) as f64)
            .collect()
    };
    (1..=5).map(play).collect()
}

#[test]
fn a_kernel_that_is_told_of_speeds_moves_to_a_faster_cpu_what_outgrows_a_slower_one() {
    // Of four threads two stay; all four begin on slow CPUs.
    let machine = Machine::load("amp-8").expect("a machine");
    let nr_fast = |which| {
        let found = where_two_stay(which, &machine, [45, 90, 190]);
        [0, 1, 2].map(|time| found.iter().filter(|cpus| cpus[time].contains(&0)).count())
    };
    assert_eq!(nr_fast(Known::Kernel), [0, 0, 0]);
    assert_eq!(nr_fast(Known::KernelTold), [3, 6, 6]);
    // Phases of 20 ms begin anywhere, and a thread has to run for that long before it is known to be too much for a slow CPU.
    let total = |which, ratios: &[&str]| work_of(which, "amp-8", ratios).concat().iter().sum::<f64>();
    let [ours, told, untold] =
        [Known::Threadwise, Known::KernelTold, Known::Kernel].map(|which| total(which, &["1:1"]));
    assert!(
        ours > 1.01 * told && told > 1.1 * untold,
        "{ours}, {told} and {untold}"
    );
}

#[test]
fn a_kernel_that_is_told_that_cpus_are_equal_does_as_one_that_is_told_nothing() {
    for ratios in [["1:1", "1:1"], ["inf:1", "1:inf"]] {
        let [told, untold] = [Known::KernelTold, Known::Kernel].map(|which| work_of(which, "smp-8", &ratios));
        assert_eq!(told, untold);
    }
}

#[test]
fn the_kernel_s_scheduler_empties_shared_cores_and_caches_that_it_knows() {
    // Of four threads two share a core, or a cache. Idle CPUs look each 4 ms, at ticks, and act at the fourth time.
    for spec in ["core:2 pu:2", "package:2 core:2 pu:1"] {
        let found = where_two_stay(
            Known::Kernel,
            &Machine::load(spec).expect("a machine"),
            [53, 60, 80],
        );
        let counts = [0, 1, 2].map(|time| nr_together(&found, time));
        assert_eq!(counts, [2, 2, 0], "{spec}: {found:?}");
    }
    // Of cores that it does not know it knows nothing.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.toml");
    let text = "name = \"m\"\ntopology = \"core:2 pu:2\"\nlab = { mips = 40, hides_smt = true }\n";
    std::fs::write(&path, text).expect("written");
    let hidden = Machine::load(path.to_str().expect("a path")).expect("a machine");
    let found = where_two_stay(Known::Kernel, &hidden, [53, 60, 80]);
    assert_eq!(nr_together(&found, 2), 2, "{found:?}");
}

#[test]
fn the_kernel_s_scheduler_begins_threads_behind_the_emptiest_cache() {
    let machine = Machine::load("package:4 core:2 pu:1").expect("a machine");
    let mut world = Known::Kernel.world(&machine, Costs::of_lab(1000), Tunables::default());
    world.record();
    for _ in 0..4 {
        world.start(Box::new(Busy(1)), 100, None);
    }
    world.run_until(5 * MS).expect("nothing is checked");
    let mut packages: Vec<usize> = world
        .into_timeline()
        .runs()
        .iter()
        .map(|run| run.cpu / 2)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    assert_eq!(packages, [0, 1, 2, 3]);
}

/// The least and the most work of so many threads that never sleep, in parts of the mean.
fn shares(spec: &str, nr: usize, seconds: Ns) -> (f64, f64) {
    let machine = Machine::load(spec).expect("a machine");
    let mut world = Known::Kernel.world(&machine, Costs::of_lab(1000), Tunables::default());
    for _ in 0..nr {
        world.start(Box::new(Busy(1)), 100, None);
    }
    world.run_until(seconds * 1000 * MS).expect("nothing is checked");
    let done: Vec<f64> = world
        .outcome()
        .programs
        .iter()
        .map(|program| program.work_ns)
        .collect();
    let mean = done.iter().sum::<f64>() / nr as f64;
    let of_mean = |work: f64| work / mean;
    let least = done.iter().copied().fold(f64::INFINITY, f64::min);
    (of_mean(least), of_mean(done.iter().copied().fold(0.0, f64::max)))
}

#[test]
fn the_kernel_s_scheduler_has_busy_cpus_take_turns_with_what_is_too_many() {
    // Nine on eight CPUs: else two of them have 0.56 of the mean for good. Each CPU looks each 124 ms and takes one at its fourth,
    // as in the lab, where all have 0.98 to 1.02. Here nothing disturbs the beat of ticks and slices: the same go round for long.
    let (least, most) = shares("core:8", 9, 30);
    assert!(least > 0.75 && most < 1.2, "{least} {most}");
    // Where they are even there is nothing to take.
    let (least, most) = shares("core:8", 16, 5);
    assert!(least > 0.99 && most < 1.01, "{least} {most}");
    // Else some have 1.5 of the mean for good, and the others 0.75, as some have here who wait on beside others.
    let (least, most) = shares("package:2 core:4", 12, 30);
    assert!(least > 0.74 && most < 1.3, "{least} {most}");
}

/// One thread that does these things, and then sleeps for as long as anybody looks.
struct Script(Vec<Step>);

impl Program for Script {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        match self.0.is_empty() {
            true => Step::Sleep(10_000 * MS),
            false => self.0.remove(0),
        }
    }
}

/// Under the kernel's scheduler, where nothing costs anything and there are ticks each 4 ms, or as good as none.
fn eevdf(spec: &str, tick_period_ns: Ns) -> World {
    let costs = Costs {
        tick_period_ns,
        ..Costs::FREE
    };
    let machine = Machine::load(spec).expect("a machine");
    let mut world = Known::Kernel.world(&machine, costs, Tunables::default());
    world.record();
    world
}

#[test]
fn a_cpu_that_becomes_idle_pulls_who_waits_elsewhere_at_once() {
    // Two that compute are on CPU 0 when CPU 1 has nothing to do any more at 10 ms. No tick balances before 10 s.
    let cpus = |bound: bool| {
        let mut world = eevdf("core:2", 10_000 * MS);
        world.start(Box::new(Script(vec![Step::Compute(10 * MS)])), 100, Some(1));
        (0..2).for_each(|_| world.start(Box::new(Busy(1)), 100, Some(0)));
        world.run_until(5 * MS).expect("nothing is checked");
        if !bound {
            (1..3).for_each(|task| world.bind(task, &[0, 1]));
        }
        world.run_until(40 * MS).expect("nothing is checked");
        world.into_timeline().runs()
    };
    let on_the_idle_one = |run: &&Run| run.cpu == 1 && run.task > 0;
    let runs = cpus(false);
    let pulled: Vec<_> = runs.iter().filter(on_the_idle_one).collect();
    assert_eq!(pulled.len(), 1, "{runs:?}");
    assert_eq!(pulled[0].from, 10 * MS);
    assert_eq!(cpus(true).iter().find(on_the_idle_one), None);
}

#[test]
fn who_slept_with_more_than_its_share_waits_where_it_was() {
    // Two share CPU 0 by turns of 1.4 ms, the first ones half as long. One goes to sleep in the middle of its third turn at 4.9 ms,
    // half a turn ahead of the other. CPU 1 is idle.
    let comes_back = |sleep: Ns| {
        let mut world = eevdf("core:2", 10_000 * MS);
        let turn = 1_400_000;
        let steps = vec![Step::Compute(2 * turn), Step::Sleep(sleep), Step::Compute(MS)];
        world.start(Box::new(Script(steps)), 100, Some(0));
        world.start(Box::new(Busy(1)), 100, Some(0));
        // It runs.
        world.run_until(2 * MS).expect("nothing is checked");
        world.bind(0, &[0, 1]);
        world.run_until(100 * MS).expect("nothing is checked");
        let runs = world.into_timeline().runs();
        let wakes_at = 4_900_000 + sleep;
        let back = runs.iter().find(|run| run.task == 0 && run.from > wakes_at - 1);
        let back = back.unwrap_or_else(|| panic!("it computes again: {runs:?}"));
        (back.cpu, back.from - wakes_at)
    };
    let (cpu, waited) = comes_back(MS / 2);
    assert_eq!(cpu, 0);
    assert!((890_000..910_000).contains(&waited), "until 6.3 ms: {waited}");
    let (cpu, waited) = comes_back(30 * MS);
    assert!(cpu == 1 && waited < 1_000, "the other caught up: {cpu}, {waited}");
}

/// One thread that yields again and again.
struct Yields;

impl Program for Yields {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        Step::Yield
    }
}

/// Who yields while it is its turn has had what it asked for (Linux 6.18 and later): it falls behind by a request each time.
#[test]
fn who_yields_to_one_that_computes_hardly_runs() {
    let costs = Costs {
        tick_period_ns: 4 * MS,
        wake_ns: 10_000,
        ..Costs::FREE
    };
    let machine = Machine::load("core:1").expect("a machine");
    let mut world = Known::Kernel.world(&machine, costs, Tunables::default());
    world.record();
    world.start(Box::new(Yields), 100, None);
    world.start(Box::new(Busy(1)), 100, None);
    world.run_until(200 * MS).expect("nothing is checked");
    let runs = world.into_timeline().runs();
    let yielded: Ns = runs
        .iter()
        .filter(|run| run.task == 0)
        .map(|run| run.to - run.from)
        .sum();
    assert!((1..10 * MS).contains(&yielded), "{yielded} ns of 200 ms");
}
