// SPDX-License-Identifier: GPL-2.0-only
//! Worlds as a whole: what they are to give.

use threadwise_machine::Machine;
use threadwise_model::fluid;
use threadwise_policy::Tunables;
use threadwise_simulator::kernel::{CpuIndex, Kernel, TaskIndex};
use threadwise_simulator::schedulers::{Known, RoundRobin};
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

const ALL: [Known; 3] = [Known::Threadwise, Known::Kernel, Known::RoundRobin];

fn world(which: Known, machine: &Machine, costs: Costs) -> World {
    which.world(machine, costs, Tunables::default())
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
fn play(which: Known, spec: &str, costs: Costs, ratios: &[&str], seconds: u64) -> Outcome {
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
        let found = cores(&play(Known::RoundRobin, "smp-8", Costs::FREE, &pair, 200), 200);
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
    let (ours, kernel) = (total(Known::Threadwise), total(Known::Kernel));
    assert!(ours > 1.04 * kernel, "{ours} cores' work against {kernel}");
}

#[test]
fn threads_take_turns_on_the_fast_cpu() {
    // Eight threads that do equal parts between barriers 0.1 s apart. If each stays where it is, all wait for those on CPUs
    // of half the speed: 4 CPUs' worth. If all have the fast one for a while it is 4.5.
    let long = |which| {
        let mut world = world(which, &machine("amp-8"), Costs::of_lab(160));
        let program = Synthetic::new(ratio("inf:1"), 50_000, UNIT_NS, 8, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        world.run_until(4000 * MS).expect("nothing is checked");
        cores(&world.outcome(), 4)
    };
    let (ours, kernel) = (long(Known::Threadwise), long(Known::Kernel));
    assert!(kernel < 4.0, "{kernel}");
    assert!(ours > 4.25, "{ours}");
}

/// How evenly two programs are slowed down beside each other, under ours with turns of this length.
fn fairness_with_turns(spec: &str, ratios: [&str; 2], threads: usize, turn_ms: u64) -> f64 {
    let work = |ratios: &[(usize, &str)]| -> Vec<f64> {
        let tun = Tunables {
            senior_turn_ns: turn_ms * MS,
            ..Tunables::default()
        };
        let mut world = Known::Threadwise.world(&machine(spec), Costs::of_lab(60), tun);
        for (seed, ratio) in ratios {
            world.start(program(ratio, threads, *seed as u64 + 1), 100, None);
        }
        world.run_until(20_000 * MS).expect("nothing is checked");
        let programs = world.outcome().programs;
        programs.iter().map(|program| program.work_ns).collect()
    };
    let both: Vec<(usize, &str)> = ratios.into_iter().enumerate().collect();
    let together = work(&both);
    let speedup = |at: usize| together[at] / work(&both[at..=at])[0];
    let speedups = [speedup(0), speedup(1)];
    speedups[0].min(speedups[1]) / speedups[0].max(speedups[1])
}

#[test]
fn who_has_lost_more_goes_first() {
    let ours = fairness_with_turns("smp-8", ["inf:1", "8:1"], 8, 75);
    // Nobody is ever owed a turn, so that phases are turns, and those of the second program are longer.
    let by_phases = fairness_with_turns("smp-8", ["inf:1", "8:1"], 8, 100_000);
    assert!(ours > 0.93 && by_phases < 0.7, "{ours}, by phases {by_phases}");
}

#[test]
fn serial_programs_beside_each_other_have_turns() {
    // Three on one CPU: steps of a millisecond, or turns of three.
    let switches = |serial_turn_ns| {
        let tun = Tunables {
            serial_turn_ns,
            ..Tunables::default()
        };
        let mut world = Known::Threadwise.world(&machine("core:1"), Costs::of_lab(1000), tun);
        (0..3).for_each(|seed| world.start(program("1:inf", 1, seed), 100, None));
        world.run_until(1_000 * MS).expect("nothing is checked");
        let outcome = world.outcome();
        let work: Vec<f64> = outcome.programs.iter().map(|program| program.work_ns).collect();
        let [least, most] = [f64::min, f64::max].map(|of| work.iter().copied().reduce(of).expect("three"));
        assert!(least > most * 0.97, "{work:?}");
        outcome.nr_switches
    };
    let (steps, turns) = (switches(0), switches(3 * MS));
    assert!(steps > turns * 3 / 2 && turns > 200, "{steps} and {turns}");
}

#[test]
fn serial_programs_take_turns_on_the_fast_cpu() {
    // Of many threads, seven of which sleep, and of a single one.
    for threads in [8, 1] {
        let fairness = |turn_ms| fairness_with_turns("amp-8", ["1:inf", "1:inf"], threads, turn_ms);
        let (ours, without) = (fairness(75), fairness(400_000));
        assert!(ours > 0.95 && without < 0.55, "{ours}, without turns {without}");
    }
}

#[test]
fn a_serial_program_keeps_its_core_and_takes_the_fast_one() {
    let serial = |which, spec| {
        let outcome = play(which, spec, Costs::of_lab(60), &["1:inf", "inf:1"], 20);
        outcome.programs[0].work_ns / (20_000 * MS) as f64
    };
    let own = serial(Known::Threadwise, "smp-8");
    assert!(own > 0.97, "{own} of a core");
    assert!(
        serial(Known::RoundRobin, "smp-8") < 0.93,
        "fair sharing takes a ninth of it"
    );
    // It looks for the fast one at its ticks, and kernel threads have it for moments.
    let fast = serial(Known::Threadwise, "amp-8");
    assert!(fast > 0.93, "{fast} of the core that is twice as fast");
}

/// Of three kinds of cores the four serial programs have the four fast ones, with turns on the fastest.
#[test]
fn serial_programs_have_the_faster_of_three_kinds_of_cores() {
    let serial = |which| {
        let ratios = ["1:inf", "1:inf", "1:inf", "1:inf", "inf:1"];
        let outcome = play(which, "three-kinds", Costs::of_lab(120), &ratios, 20);
        let programs = outcome.programs.iter().take(4);
        programs
            .map(|program| program.work_ns / (20_000 * MS) as f64)
            .collect::<Vec<_>>()
    };
    let (ours, round_robin) = (serial(Known::Threadwise), serial(Known::RoundRobin));
    let [least, most] = [f64::min, f64::max].map(|of| ours.iter().copied().reduce(of).expect("four"));
    assert!(
        ours.iter().sum::<f64>() > 0.93 * 3.25,
        "{ours:?} of the fastest core"
    );
    assert!(least > 0.9 * most, "{ours:?}: turns on the fastest");
    assert!(round_robin.iter().sum::<f64>() < 2.6, "{round_robin:?}");
}

/// What two programs of eight threads that spin get done beside each other on eight CPUs, over what one does alone.
fn spinning_together(which: Known, costs: Costs) -> f64 {
    let work = |nr: u64| {
        let mut world = world(which, &machine("smp-8"), costs);
        for seed in 0..nr {
            let program = Synthetic::new(ratio("inf:1"), 350, 50_000, 8, Wait::Active, seed);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(10_000 * MS).expect("nothing is checked");
        let programs = world.outcome().programs;
        programs.iter().map(|program| program.work_ns).sum::<f64>()
    };
    work(2) / work(1)
}

/// Threads that spin get nothing done while one that they wait for has no CPU, so all CPUs have to go over to the senior
/// program at about the same time. Where those that waited were told of that only when they ran, each CPU went over when
/// its task had outrun its boost, within 60 ms of turns of 130: 75 % of the work was left.
#[test]
fn programs_that_spin_take_turns_together() {
    let [ours, kernel] =
        [Known::Threadwise, Known::Kernel].map(|which| spinning_together(which, Costs::of_lab(20)));
    assert!(ours > 0.96 && ours > kernel, "{ours} and {kernel}");
}

/// A look of the timer holds up the thread under it, and one at a thread that goes on that thread: whoever it is, seven others wait
/// for it at their next barrier. So both are rare where nobody is due for long.
#[test]
fn looks_are_rare_where_nobody_is_due() {
    let costs = Costs {
        timer_ns: MS,
        keep_ns: MS,
        ..Costs::FREE
    };
    let ours = spinning_together(Known::Threadwise, costs);
    assert!(ours > 0.92, "{ours}");
}

/// What so many threads do under ours in two seconds of one parallel phase that does not end.
fn endless(spec: &str, costs: Costs, threads: usize) -> Outcome {
    let mut world = world(Known::Threadwise, &machine(spec), costs);
    let program = Synthetic::new(ratio("inf:1"), 1_000_000_000, UNIT_NS, threads, Wait::Passive, 1);
    world.start(Box::new(program), 100, None);
    world.run_until(2_000 * MS).expect("nothing is checked");
    world.outcome()
}

/// On an unequal machine a CPU looks at faster ones when a slice ends, also for a program that is alone. A look of half a millisecond at
/// each tick would be an eighth of its time.
#[test]
fn looks_at_faster_cpus_have_a_sixteenth_of_the_time() {
    let work = |keep_ns| {
        let costs = Costs {
            keep_ns,
            tick_period_ns: 4 * MS,
            ..Costs::FREE
        };
        cores(&endless("amp-8", costs, 8), 2)
    };
    let part = work(MS / 4) / work(0);
    assert!((0.92..0.97).contains(&part), "{part}");
}

/// A timer's callback asks CPUs to give way, and has itself called again, when it is done: one that takes four steps
/// of the rotation more than halves how often nine threads take turns on eight CPUs. An interrupt that a CPU takes late does so too.
/// Where its work is long there are a hundred turns left of 2 s, as the policy leaves sixteen times as much between two looks as one
/// takes, of which it knows 1 ms at most.
#[test]
fn a_timer_s_work_and_late_interrupts_delay_turns() {
    let turns = |timer_ns, interrupt_ns| {
        let costs = Costs {
            timer_ns,
            interrupt_ns,
            tick_period_ns: 20 * MS,
            ..Costs::FREE
        };
        endless("smp-8", costs, 9).nr_switches as f64
    };
    let usual = turns(0, 0);
    let part = |turns: f64| turns / usual;
    let late = part(turns(0, 8 * MS));
    assert!((0.1..0.6).contains(&late), "{usual}, {late:.2} of it");
    let busy = turns(4 * MS, 0);
    assert!(
        (80.0..120.0).contains(&busy) && part(busy) < 0.6,
        "{usual}, {busy}"
    );
}

/// Slices of a second, which the timer ends every ten milliseconds.
struct Cuts(RoundRobin);

impl Scheduler for Cuts {
    fn select_cpu(&mut self, kernel: &mut Kernel, _task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        kernel.start_timer(10 * MS);
        prev
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        self.0.enqueue(kernel, task, why);
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        self.0.dispatch(kernel, cpu, running);
    }

    fn timer(&mut self, kernel: &mut Kernel) {
        kernel.kick_preempt(0);
        kernel.start_timer(10 * MS);
    }
}

/// Who is to make way has its slice until the callback that says so, of 4 ms, is done: the tick before that lets it go on.
#[test]
fn a_slice_ends_when_the_timer_s_callback_is_done() {
    let costs = Costs {
        timer_ns: 4 * MS,
        tick_period_ns: MS,
        ..Costs::FREE
    };
    let mut world = World::new(&machine("core:1"), costs, |kernel| {
        Cuts(RoundRobin::new(kernel, 1_000 * MS))
    });
    world.record();
    let endless = Synthetic::new(ratio("inf:1"), 1_000_000_000, UNIT_NS, 2, Wait::Passive, 1);
    world.start(Box::new(endless), 100, None);
    world.run_until(100 * MS).expect("nothing is checked");
    let ends: Vec<Ns> = world
        .into_timeline()
        .runs()
        .iter()
        .map(|run| run.to / MS)
        .collect();
    assert_eq!(ends[..3], [14, 28, 42], "{ends:?}");
}

/// To fall asleep for the next, and to make way for it, cost what each does: the one where two threads meet each 0.1 ms, the other
/// where two go on for ever.
#[test]
fn who_falls_asleep_and_who_makes_way_take_a_switch_each() {
    let work = |of: &str, phase_units, costs: Costs| {
        let mut world = world(Known::RoundRobin, &machine("core:1"), costs);
        let two = Synthetic::new(ratio(of), phase_units, UNIT_NS, 2, Wait::Passive, 1);
        world.start(Box::new(two), 100, None);
        world.run_until(1_000 * MS).expect("nothing is checked");
        world.outcome().programs[0].work_ns / 1e9
    };
    let sleeps = Costs {
        switch_ns: MS / 10,
        ..Costs::FREE
    };
    let makes_way = Costs {
        preempt_ns: MS / 10,
        ..Costs::FREE
    };
    assert!(work("1:1", 100, sleeps) < 0.7);
    assert!(work("1:1", 100, makes_way) > 0.99);
    assert!(work("inf:1", 1_000_000_000, sleeps) > 0.99);
    assert!(work("inf:1", 1_000_000_000, makes_way) < 0.96);
}

/// A serial program beside a parallel one, recorded for a second.
fn recorded(seed: u64) -> Timeline {
    let mut world = world(Known::Threadwise, &machine("core:4"), Costs::of_lab(60));
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
    // Each arrow leads from where another thread runs to where a run begins.
    let (from, to) = (of_kind("s", "wake"), of_kind("f", "wake"));
    assert!(
        from.len() == to.len() && from.len() > 10,
        "{} {}",
        from.len(),
        to.len()
    );
    for (from, to) in from.iter().zip(to) {
        let begins = |run: &&&serde_json::Value| run["ts"] == to["ts"] && run["tid"] == to["tid"];
        let run = runs.iter().find(begins);
        assert!(run.is_some(), "{to}");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let wakes = |waker: &&&serde_json::Value| {
            let (begin, at) = (number(&waker["ts"]), number(&from["ts"]));
            waker["tid"] == from["tid"] && begin <= at && at <= begin + number(&waker["dur"])
        };
        let waker = runs.iter().find(wakes);
        assert!(
            waker.is_some_and(|waker| waker["name"] != run.expect("it does")["name"]),
            "{from}"
        );
        assert!(from["id"] == to["id"] && from["ts"].as_f64() <= to["ts"].as_f64());
    }
}

#[test]
fn perfetto_marks_where_threads_are_put_before_others() {
    marked("core:4", &[("1:1", 4), ("1:1", 4)], "serial: takes over");
    marked("core:4", &[("inf:1", 4), ("inf:1", 4)], "senior: takes over");
    marked("amp-8", &[("1:1", 8)], "serial: to a faster CPU");
    marked("amp-8", &[("inf:1", 4)], "its turn on a faster CPU");
}

/// These programs, of so many threads, run for three seconds: more than three marks have this name, and whom they name runs there soon.
fn marked(spec: &str, programs: &[(&str, usize)], name: &str) {
    let names: Vec<String> = programs.iter().map(|(ratio, _)| (*ratio).to_owned()).collect();
    let mut world = world(Known::Threadwise, &machine(spec), Costs::of_lab(60));
    world.record();
    for (seed, &(ratio, threads)) in (1..).zip(programs) {
        world.start(program(ratio, threads, seed), 100, None);
    }
    world.run_until(3000 * MS).expect("nothing is checked");
    let drawing = Drawing {
        names: &names,
        serial_threshold: 2,
        from: 0,
        to: 3000 * MS,
    };
    let trace = world.into_timeline().perfetto(&drawing);
    let events = trace["traceEvents"].as_array().expect("events");
    let time_of = |event: &serde_json::Value| event["ts"].as_f64().expect("a time");
    let boosts = || {
        events
            .iter()
            .filter(|event| event["ph"] == "i" && event["name"] == name)
    };
    assert!(boosts().count() > 3, "{} marks {name:?}", boosts().count());
    // Soon, but for the way of the request, it runs there, unless another takes the same CPU over meanwhile.
    let is_overtaken = |boost: &serde_json::Value| {
        let marks = events
            .iter()
            .filter(|mark| mark["ph"] == "i" && mark["tid"] == boost["tid"]);
        let mut later = marks.filter(|mark| *mark != boost);
        later.any(|mark| (0.0..1_000.0).contains(&(time_of(mark) - time_of(boost))))
    };
    let alone: Vec<_> = boosts().filter(|boost| !is_overtaken(boost)).collect();
    assert!(4 * alone.len() > 3 * boosts().count(), "{} of them", alone.len());
    for boost in alone.into_iter().filter(|boost| time_of(boost) < 990_000.0) {
        let follows = |run: &&serde_json::Value| {
            run["ph"] == "X"
                && run["tid"] == boost["tid"]
                && run["name"] == boost["args"]["thread"]
                && (0.0..2_000.0).contains(&(time_of(run) - time_of(boost)))
        };
        assert!(events.iter().any(|run| follows(&run)), "{boost}");
    }
}
