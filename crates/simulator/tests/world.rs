// SPDX-License-Identifier: GPL-2.0-only
//! Worlds as a whole: what they are to give, and that checkers see what is wrong.

use proptest::prelude::*;
use threadwise_machine::Machine;
use threadwise_model::fluid;
use threadwise_policy::Tunables;
use threadwise_simulator::check::Checker;
use threadwise_simulator::kernel::{CpuIndex, Kernel, TaskIndex};
use threadwise_simulator::schedulers::{Fair, RoundRobin, Threadwise};
use threadwise_simulator::timeline::{Drawing, Timeline};
use threadwise_simulator::{Costs, Enqueue, Ns, Outcome, Scheduler, Synthetic, World};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::Wait;

const MS: Ns = 1_000_000;
const UNIT_NS: Ns = 1_000;

fn ratio(text: &str) -> Ratio {
    text.parse().expect("a ratio")
}

fn machine(spec: &str) -> Machine {
    Machine::load(spec).expect("a machine")
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Ours,
    Kernel,
    RoundRobin,
}

const ALL: [Which; 3] = [Which::Ours, Which::Kernel, Which::RoundRobin];

fn world(which: Which, machine: &Machine, costs: Costs) -> World {
    match which {
        Which::Ours => World::new(machine, costs, |kernel| {
            Threadwise::new(kernel, Tunables::default())
        }),
        Which::Kernel => World::new(machine, costs, Fair::new),
        Which::RoundRobin => World::new(machine, costs, |kernel| RoundRobin::new(kernel, MS)),
    }
}

/// A program with phases of 20 ms on the mean.
fn program(text: &str, threads: usize, seed: u64) -> Box<Synthetic> {
    Box::new(Synthetic::new(
        ratio(text),
        20_000,
        UNIT_NS,
        threads,
        Wait::Passive,
        seed,
    ))
}

/// What these programs do in so many seconds, eight threads each.
fn play(which: Which, spec: &str, costs: Costs, ratios: &[&str], seconds: u64) -> Outcome {
    let mut world = world(which, &machine(spec), costs);
    for (seed, ratio) in ratios.iter().enumerate() {
        world.start(program(ratio, 8, seed as u64 + 1), 100, None);
    }
    world.run_until(seconds * 1000 * MS).expect("nothing is checked");
    world.outcome()
}

/// The work of all programs over that of one CPU.
fn cores(outcome: &Outcome, seconds: u64) -> f64 {
    outcome
        .programs
        .iter()
        .map(|program| program.work_ns)
        .sum::<f64>()
        / (seconds * 1000 * MS) as f64
}

#[test]
fn the_same_world_gives_the_same_outcome() {
    for which in ALL {
        let once = || play(which, "smp-8", Costs::of_lab(60), &["1:1", "4:1", "1:inf"], 5);
        let outcome = once();
        assert_eq!(outcome, once(), "{which:?}");
        assert!(outcome.nr_events > 10_000, "{outcome:?}");
    }
}

#[test]
fn a_program_alone_has_what_the_model_gives_it() {
    let model = fluid::Machine::new(8, 1.0).expect("a machine");
    for which in ALL {
        for text in ["inf:1", "1:1", "4:1", "1:inf"] {
            let outcome = play(which, "smp-8", Costs::FREE, &[text], 60);
            let (found, expected) = (cores(&outcome, 60), model.alone(ratio(text)));
            assert!(
                (found / expected - 1.0).abs() < 0.005,
                "{which:?}, {text}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn sharing_without_knowledge_is_the_model_s() {
    // Slices of 1 ms against phases of 20, and nothing costs anything.
    let model = fluid::Machine::new(8, 1.0).expect("a machine");
    for pair in [["1:1", "1:1"], ["1:1", "inf:1"], ["4:1", "1:4"]] {
        let found = cores(&play(Which::RoundRobin, "smp-8", Costs::FREE, &pair, 200), 200);
        let ratios = pair.map(ratio);
        let played = fluid::play_out(
            model,
            &ratios,
            fluid::Policy::PhasesUnknown,
            fluid::Length::default(),
        );
        let expected: f64 = played
            .expect("it plays")
            .outcome
            .programs
            .iter()
            .map(|program| program.together)
            .sum();
        assert!(
            (found / expected - 1.0).abs() < 0.02,
            "{pair:?}: {found}, not {expected}"
        );
    }
}

#[test]
fn who_knows_the_phases_gets_more_done() {
    let total = |which| cores(&play(which, "smp-8", Costs::of_lab(60), &["1:1", "1:1"], 60), 60);
    let (ours, kernel) = (total(Which::Ours), total(Which::Kernel));
    assert!(ours > 1.04 * kernel, "{ours} cores' work against {kernel}");
}

#[test]
fn threads_take_turns_on_the_fast_cpu() {
    // Eight threads that do equal parts between barriers 0.1 s apart. If each stays where it is, all wait for those on CPUs
    // of half the speed: 4 CPUs' worth. If all have the fast one for a while it is 4.5.
    let long = |which| {
        let mut world = world(which, &machine("amp-8"), Costs::of_lab(80));
        let program = Synthetic::new(ratio("inf:1"), 50_000, UNIT_NS, 8, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        world.run_until(4000 * MS).expect("nothing is checked");
        cores(&world.outcome(), 4)
    };
    let (ours, kernel) = (long(Which::Ours), long(Which::Kernel));
    assert!(kernel < 4.0, "{kernel}");
    assert!(ours > 4.25, "{ours}");
}

#[test]
fn a_serial_program_keeps_its_core_and_takes_the_fast_one() {
    let serial = |which, spec| {
        let outcome = play(which, spec, Costs::of_lab(60), &["1:inf", "inf:1"], 20);
        outcome.programs[0].work_ns / (20_000 * MS) as f64
    };
    assert!(serial(Which::Ours, "smp-8") > 0.97);
    assert!(
        serial(Which::RoundRobin, "smp-8") < 0.93,
        "fair sharing takes a ninth of it"
    );
    assert!(
        serial(Which::Ours, "amp-8") > 0.95,
        "of the core that is twice as fast"
    );
}

/// A checker with bounds that sane schedulers keep in the worlds below.
const STRICT: Checker = Checker {
    idle_bound: 5 * MS,
    wait_bound: 3_000 * MS,
};

/// A scheduler that goes wrong in one way, and is round robin otherwise.
struct Broken {
    inner: RoundRobin,
    how: How,
    nr: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// Keeps every twentieth task for ever.
    Forgets,
    /// Wakes no idle CPU.
    NeverKicks,
    /// Sends tasks to CPUs where they may not run.
    IgnoresAffinity,
    /// Runs who ran last.
    LastInFirstOut,
}

impl Scheduler for Broken {
    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        match self.how {
            How::NeverKicks => prev,
            _ => self.inner.select_cpu(kernel, task, prev),
        }
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        self.nr += 1;
        match self.how {
            How::Forgets if self.nr.is_multiple_of(20) => kernel.hold(task),
            How::NeverKicks => kernel.insert_queue(task, 0, MS, self.nr),
            How::IgnoresAffinity => kernel.insert_local(task, self.nr as usize % 2, MS, false),
            How::LastInFirstOut => kernel.insert_queue(task, 0, MS, u64::MAX / 4 - self.nr),
            How::Forgets => self.inner.enqueue(kernel, task, why),
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        self.inner.dispatch(kernel, cpu, running);
    }
}

#[test]
fn checkers_notice_what_is_broken() {
    for (how, said) in [
        (How::Forgets, "has waited since"),
        (How::NeverKicks, "has been idle since"),
        (How::IgnoresAffinity, "and bound to"),
        (How::LastInFirstOut, "has waited since"),
    ] {
        let mut world = World::new(&machine("core:2 pu:1"), Costs::of_lab(60), |kernel| Broken {
            inner: RoundRobin::new(kernel, MS),
            how,
            nr: 0,
        });
        // The others leave CPUs idle too, sooner or later.
        let idle_bound = if how == How::NeverKicks {
            STRICT.idle_bound
        } else {
            Ns::MAX
        };
        world.check(Checker { idle_bound, ..STRICT });
        for seed in 1..=4 {
            let bound_to = (how == How::IgnoresAffinity).then_some(0);
            world.start(program("1:1", 3, seed), 100, bound_to);
        }
        let wrong = world.run_until(60_000 * MS).err().unwrap_or_default();
        assert!(wrong.contains(said), "{how:?}: {wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Small worlds: whoever schedules, everybody has their turn, nothing is lost, and no CPU idles beside a task that waits.
    #[test]
    fn small_worlds_hold(
        which in 0usize..3,
        cpus in 2usize..=4,
        fast in 1u32..=2,
        mips in 15u32..500,
        programs in prop::collection::vec((0usize..5, 1usize..=4, 0usize..3, any::<bool>(), any::<bool>()), 1..4),
        seed: u64,
    ) {
        let capacities: Vec<u32> = (0..cpus).map(|cpu| if cpu == 0 { 1024 } else { 1024 / fast }).collect();
        let machine = unequal(&capacities);
        let mut world = world(ALL[which], &machine, Costs::of_lab(mips));
        world.check(Checker { wait_bound: 1_500 * MS, ..STRICT });
        for (index, &(kind, threads, nice, bound, active)) in programs.iter().enumerate() {
            let text = ["1:1", "4:1", "1:4", "inf:1", "1:inf"][kind];
            let wait = if active { Wait::Active } else { Wait::Passive };
            let units = 200 << (index * 3);
            let program = Synthetic::new(ratio(text), units, UNIT_NS, threads, wait, seed.wrapping_add(index as u64));
            world.start(Box::new(program), [100, 33, 305][nice], bound.then_some(index % cpus));
        }
        if let Err(wrong) = world.run_until(3_000 * MS) {
            prop_assert!(false, "{:?}: {}", ALL[which], wrong);
        }
    }
}

/// A machine of CPUs of these capacities.
fn unequal(capacities: &[u32]) -> Machine {
    let list: String = capacities
        .iter()
        .enumerate()
        .map(|(cpu, capacity)| format!("[[capacity]]\ncpus = \"{cpu}\"\ncapacity = {capacity}\n"))
        .collect();
    let text = format!(
        "name = \"small\"\ndescription = \"d\"\ntopology = \"core:{} pu:1\"\n{list}",
        capacities.len()
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.toml");
    std::fs::write(&path, text).expect("a machine file");
    machine(path.to_str().expect("text"))
}

/// A serial program beside a parallel one, recorded for a second.
fn recorded(seed: u64) -> Timeline {
    let mut world = world(Which::Ours, &machine("core:4"), Costs::of_lab(60));
    world.record();
    world.start(program("1:inf", 1, seed), 100, None);
    world.start(program("1:1", 4, seed + 1), 100, None);
    world.run_until(1000 * MS).expect("nothing is checked");
    world.into_timeline()
}

#[test]
fn a_timeline_shows_who_ran_where_and_in_which_phase() {
    let names = [String::from("serial"), String::from("half")];
    let drawing = Drawing {
        names: &names,
        serial_threshold: 2,
        from: 0,
        to: 1000 * MS,
    };
    let timeline = recorded(1);
    // On each CPU one runs after the other, and the serial program has a CPU all the time but for what the kernel does.
    let mut busy_until = [0; 4];
    let mut ran = [0; 2];
    let mut runs = timeline.runs();
    runs.sort_by_key(|run| run.from);
    for run in runs {
        assert!(run.from >= busy_until[run.cpu] && run.from < run.to, "{run:?}");
        busy_until[run.cpu] = run.to;
        ran[usize::from(run.task > 0)] += run.to - run.from;
    }
    assert!(ran[0] > 990 * MS && ran[1] > 1000 * MS, "{ran:?}");

    let in_phase = |program: usize, parallel: bool| -> Ns {
        let phases = timeline.phases(drawing.serial_threshold);
        let meant = phases
            .iter()
            .filter(|phase| phase.program == program && phase.parallel == parallel);
        meant.map(|phase| phase.to - phase.from).sum()
    };
    assert_eq!((in_phase(0, true), in_phase(0, false)), (0, 1000 * MS));
    let [parallel, serial] = [true, false].map(|phase| in_phase(1, phase));
    assert!(
        parallel > 200 * MS && serial > 200 * MS && parallel + serial == 1000 * MS,
        "{parallel} {serial}"
    );

    let text = timeline.text(&drawing, 200);
    let rows: Vec<&str> = text.lines().map(|line| &line[9..209]).collect();
    assert_eq!(rows.len(), 6, "four CPUs, two programs:\n{text}");
    assert_eq!(rows[4], "-".repeat(200));
    for column in 0..200 {
        let at = |row: usize| rows[row].as_bytes()[column];
        assert!((0..4).any(|cpu| at(cpu) == b'a'), "column {column}:\n{text}");
    }
    // Each column is 5 ms: as much of each sign as there was time of what it stands for.
    let drawn = |rows: &[&str], signs: &str| -> Ns {
        let meant = |row: &&str| row.chars().filter(|sign| signs.contains(*sign)).count();
        rows.iter().map(meant).sum::<usize>() as Ns * 5 * MS
    };
    for (drawn, was) in [
        (drawn(&rows[5..], "="), parallel),
        (drawn(&rows[..4], "bB"), ran[1]),
        (drawn(&rows[..4], "."), 4000 * MS - ran[0] - ran[1]),
    ] {
        assert!(
            drawn.abs_diff(was) < was / 5,
            "{drawn} ns drawn of {was}:\n{text}"
        );
    }
}

#[test]
fn perfetto_gets_tracks_slices_and_arrows() {
    let names = [String::from("serial"), String::from("half")];
    let of = |seed: u64| {
        let drawing = Drawing {
            names: &names,
            serial_threshold: 2,
            from: 100 * MS,
            to: 400 * MS,
        };
        recorded(seed).perfetto(&drawing).to_string()
    };
    assert_eq!(of(1), of(1), "the same to the last byte");
    assert_ne!(of(1), of(3));
    let trace: serde_json::Value = serde_json::from_str(&of(1)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let of_kind = |ph: &str, cat: &str| -> Vec<&serde_json::Value> {
        let is = |event: &&serde_json::Value| event["ph"] == ph && (cat.is_empty() || event["cat"] == cat);
        events.iter().filter(is).collect()
    };
    assert_eq!(of_kind("M", "").len(), 2 + 4 + 2, "names of processes and tracks");
    let runs = of_kind("X", "run");
    assert!(runs.iter().any(|run| run["name"] == "half 3") && of_kind("X", "phase").len() > 4);
    // Each arrow ends where a run begins.
    let (from, to) = (of_kind("s", "wake"), of_kind("f", "wake"));
    assert!(
        from.len() == to.len() && from.len() > 10,
        "{} {}",
        from.len(),
        to.len()
    );
    for (from, to) in from.iter().zip(to) {
        let begins = |run: &&&serde_json::Value| run["ts"] == to["ts"] && run["tid"] == to["tid"];
        assert!(runs.iter().find(begins).is_some(), "{to}");
        assert!(from["id"] == to["id"] && from["ts"].as_f64() <= to["ts"].as_f64());
    }
}
