// SPDX-License-Identifier: GPL-2.0-only
//! Programs of locks, conditions, barriers, semaphores and timers: what they do in worlds that are checked at every event,
//! under each scheduler.
#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use proptest::prelude::*;
use threadwise_machine::Machine;
use threadwise_policy::Tunables;
use threadwise_simulator::check::Checker;
use threadwise_simulator::programs::{Assumptions, Record, Replay, Scripted, Staged, play};
use threadwise_simulator::schedulers::{Fair, RoundRobin, Threadwise};
use threadwise_simulator::{Costs, Ns, Outcome, World};
use threadwise_workload::rtapp::File;
use threadwise_workload::synthetic::Distribution;
use threadwise_workload::synthetic::phases::Draws;
use threadwise_workload::synthetic::stages::Stages;
use threadwise_workload::trace::Trace;

const US: Ns = 1_000;
const MS: Ns = 1_000_000;

/// Bounds that sane schedulers keep.
const STRICT: Checker = Checker {
    idle_bound: 5 * MS,
    wait_bound: 3_000 * MS,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Ours,
    Kernel,
    RoundRobin,
}

const ALL: [Which; 3] = [Which::Ours, Which::Kernel, Which::RoundRobin];

fn world(which: Which, machine: &str, costs: Costs) -> World {
    let machine = Machine::load(machine).unwrap();
    let mut world = match which {
        Which::Ours => World::new(&machine, costs, |kernel| {
            Threadwise::new(kernel, Tunables::default())
        }),
        Which::Kernel => World::new(&machine, costs, Fair::new),
        Which::RoundRobin => World::new(&machine, costs, |kernel| RoundRobin::new(kernel, MS)),
    };
    // Its idle CPUs balance once in as many milliseconds as there are, from one tick of 4 ms to another (fair/balance.rs).
    let balances_ns = (machine.nr_cpus() as Ns + 2 * 4) * MS;
    world.check(match which {
        Which::Kernel => Checker {
            idle_bound: balances_ns,
            ..STRICT
        },
        _ => STRICT,
    });
    world
}

/// What became of an rt-app file's threads in so long, where nothing costs anything.
fn perform(which: Which, machine: &str, tasks: &str, spin_ns: Ns, end: Ns) -> (Vec<Record>, Outcome) {
    perform_file(
        which,
        machine,
        &format!("{{\"tasks\": {{{tasks}}}}}"),
        spin_ns,
        end,
    )
}

/// The same of a whole file.
fn perform_file(which: Which, machine: &str, file: &str, spin_ns: Ns, end: Ns) -> (Vec<Record>, Outcome) {
    let file = File::parse(file).unwrap();
    let assumptions = Assumptions {
        spin_ns,
        ..Assumptions::of_server(&Machine::load(machine).unwrap())
    };
    let program = Scripted::new(play(&file, &assumptions).unwrap());
    let records = program.records();
    let mut world = world(which, machine, Costs::FREE);
    world.start(Box::new(program), 100, None);
    world
        .run_until(end)
        .unwrap_or_else(|wrong| panic!("{which:?}: {wrong}"));
    let outcome = world.outcome();
    let records = records.borrow().clone();
    (records, outcome)
}

const FOUR: &str = "package:1 core:4 pu:1";
const QUADS: &str = "../../machines/two-quads.toml";
const ONE: &str = "package:1 core:1 pu:1";

fn last_end(records: &[Record]) -> Ns {
    let end = |record: &Record| record.ended.expect("it ends");
    records.iter().map(end).max().expect("there are threads")
}

/// Within so much of what is expected, and not before it.
fn is_about(found: Ns, expected: Ns, slack: Ns) -> bool {
    (expected..=expected + slack).contains(&found)
}

#[test]
fn a_lock_lets_one_at_a_time() {
    let task = |events: &str| format!("\"t\": {{\"instance\": 4, \"loop\": 10, {events}}}");
    let locked = task(r#""lock": "m", "run": 1000, "unlock": "m""#);
    let free = task(r#""run": 1000"#);
    for which in ALL {
        for spin_ns in [0, 100 * US, 100 * MS] {
            let (records, outcome) = perform(which, FOUR, &locked, spin_ns, 1_000 * MS);
            let end = last_end(&records);
            assert!(is_about(end, 40 * MS, MS), "{which:?}, {spin_ns}: {end}");
            assert!(
                (outcome.programs[0].work_ns - 40e6).abs() < 1.0,
                "spinning is no work"
            );
        }
        // The same without the lock is four times as fast.
        let end = last_end(&perform(which, FOUR, &free, 0, 1_000 * MS).0);
        assert!(is_about(end, 10 * MS, MS), "{which:?}: {end}");
    }
}

#[test]
fn who_spins_for_a_lock_does_not_switch() {
    // Two threads, each outside of the lock for as long as in it, so that who waits waits for 100 us at the most.
    let tasks = r#""t": {"instance": 2, "loop": 100, "lock": "m", "run": 100, "unlock": "m", "run2": 100}"#;
    for which in ALL {
        let [sleeping, spinning] =
            [0, 200 * US].map(|spin_ns| perform(which, FOUR, tasks, spin_ns, 1_000 * MS));
        assert!(spinning.1.nr_switches <= 4, "{which:?}: {:?}", spinning.1);
        assert!(sleeping.1.nr_switches >= spinning.1.nr_switches);
        // Too short a spin ends in sleep.
        let short = perform(
            which,
            FOUR,
            r#""t": {"instance": 2, "loop": 5, "lock": "m", "run": 1000, "unlock": "m"}"#,
            US,
            1_000 * MS,
        );
        assert!(
            short.1.nr_switches > 4 && is_about(last_end(&short.0), 10 * MS, MS),
            "{which:?}: {short:?}"
        );
    }
}

#[test]
fn a_barrier_makes_all_wait_for_the_slowest() {
    let tasks = r#""a": {"loop": 5, "run": 1000, "barrier": "b"}, "b": {"loop": 5, "run": 4000, "barrier": "b"},
                   "c": {"instance": 2, "loop": 5, "run": 2000, "barrier": "b"}"#;
    for which in ALL {
        let (records, _) = perform(which, FOUR, tasks, 0, 1_000 * MS);
        for record in &records {
            let end = record.ended.expect("it ends");
            assert!(is_about(end, 20 * MS, MS), "{which:?}: {end}");
        }
    }
    // One user more than come: nobody passes.
    let missing = format!("{tasks}, \"d\": {{\"instance\": 1, \"suspend\": \"\", \"barrier\": \"b\"}}");
    let (records, _) = perform(Which::Kernel, FOUR, &missing, 0, 1_000 * MS);
    assert!(
        records
            .iter()
            .all(|record| record.nr_loops == 0 && record.ended.is_none())
    );
}

#[test]
fn a_semaphore_remembers() {
    // The producer is twice as fast: it is done while half of its posts wait.
    let tasks = r#""producer": {"loop": 10, "run": 1000, "sem_post": "s"},
                   "consumer": {"loop": 10, "sem_wait": "s", "run": 2000}"#;
    for which in ALL {
        let (records, _) = perform(which, FOUR, tasks, 0, 1_000 * MS);
        let [producer, consumer] = [0, 1].map(|index: usize| records[index].ended.expect("it ends"));
        assert!(is_about(producer, 10 * MS, MS), "{which:?}: {producer}");
        assert!(is_about(consumer, 21 * MS, MS), "{which:?}: {consumer}");
    }
}

#[test]
fn a_condition_does_not_remember() {
    // The first signal finds nobody; the second, after 5 ms, wakes one of two, the broadcast the other.
    let tasks = r#""waker": {"loop": 1, "signal0": "c", "run0": 5000, "lock1": "m", "signal1": "c", "unlock1": "m",
                             "run1": 5000, "broad": "c"},
                   "waiter": {"instance": 2, "loop": 1, "run": 1000, "lock": "m", "wait": {"ref": "c", "mutex": "m"},
                              "unlock": "m"}"#;
    for which in ALL {
        let (records, _) = perform(which, FOUR, tasks, 0, 1_000 * MS);
        let mut ends: Vec<Ns> = records[1..]
            .iter()
            .map(|record| record.ended.expect("it ends"))
            .collect();
        ends.sort_unstable();
        assert!(
            is_about(ends[0], 5 * MS, MS / 2) && is_about(ends[1], 10 * MS, MS / 2),
            "{which:?}: {ends:?}"
        );
    }
    let lost = r#""waker": {"loop": 1, "signal": "c"}, "waiter": {"loop": 1, "run": 1000, "wait": {"ref": "c", "mutex": "m"}}"#;
    let (records, _) = perform(Which::Kernel, FOUR, lost, 0, 1_000 * MS);
    assert!(records[1].ended.is_none(), "its wake-up came before it slept");
}

#[test]
fn suspended_threads_and_syncs_take_turns() {
    let tasks = r#""a": {"loop": 5, "suspend": "", "run": 1000},
                   "b": {"loop": 5, "sleep": 3000, "resume": "a", "run": 500}"#;
    let syncing = r#""a": {"loop": 4, "lock": "m", "run": 1000, "sync": {"ref": "c", "mutex": "m"}, "unlock": "m"},
                     "b": {"delay": 500, "loop": 4, "lock": "m", "run": 1000, "sync": {"ref": "c", "mutex": "m"}, "unlock": "m"}"#;
    for which in ALL {
        let (records, _) = perform(which, FOUR, tasks, 0, 1_000 * MS);
        assert_eq!(records[0].nr_loops, 5, "{which:?}");
        assert!(
            is_about(last_end(&records), 5 * 3_500 * US, 2 * MS),
            "{which:?}: {records:?}"
        );
        // Each signals the other and waits for it: all but the last to wait go on.
        let (records, outcome) = perform(which, FOUR, syncing, 0, 1_000 * MS);
        let loops: u64 = records.iter().map(|record| record.nr_loops).sum();
        assert_eq!(loops, 7, "{which:?}");
        assert!(
            (outcome.programs[0].work_ns - 8e6).abs() < 1.0,
            "{which:?}: {outcome:?}"
        );
    }
}

#[test]
fn timers_keep_their_period_and_slack_is_what_rt_app_logs() {
    let task = |run: u64, mode: &str| {
        format!(
            r#""t": {{"loop": 5, "run": {run}, "timer": {{"ref": "unique", "period": 20000, "mode": "{mode}"}}}}"#
        )
    };
    let ms = |ns: i64| (ns as f64 / MS as f64).round() as i64;
    for which in ALL {
        for mode in ["relative", "absolute"] {
            let (records, _) = perform(which, FOUR, &task(5_000, mode), 0, 1_000 * MS);
            let slack: Vec<i64> = records[0].slack_ns.iter().map(|&ns| ms(ns)).collect();
            assert_eq!(slack, [15; 5], "{which:?}, {mode}");
            assert!(
                is_about(records[0].ended.expect("it ends"), 100 * MS, MS),
                "{which:?}, {mode}"
            );
            assert!(records[0].timer_latency_ns.len() == 5);
        }
        // Too much work: a relative timer begins anew, an absolute one falls further behind each time.
        let slack_of = |mode| {
            let (records, _) = perform(which, FOUR, &task(30_000, mode), 0, 1_000 * MS);
            assert!(records[0].timer_latency_ns.is_empty());
            records[0].slack_ns.iter().map(|&ns| ms(ns)).collect::<Vec<_>>()
        };
        assert_eq!(slack_of("relative"), [-10; 5], "{which:?}");
        assert_eq!(slack_of("absolute"), [-10, -20, -30, -40, -50], "{which:?}");
    }
}

#[test]
fn a_sleep_moves_with_delays_and_a_timer_does_not() {
    // rt-app's tutorial: beside a thread that runs 10 of 19 ms on the same CPU.
    let tasks = r#""sleeper": {"loop": 10, "run": 5000, "sleep": 10000},
                   "ticker": {"loop": 10, "run": 5000, "timer": {"ref": "unique", "period": 19000}}"#;
    for which in ALL {
        let (records, _) = perform(which, ONE, tasks, 0, 1_000 * MS);
        let [sleeper, ticker] = [0, 1].map(|index: usize| records[index].ended.expect("it ends"));
        assert!(is_about(ticker, 190 * MS, 11 * MS), "{which:?}: {ticker}");
        assert!(sleeper > 151 * MS, "{which:?}: {sleeper}");
    }
}

#[test]
fn forked_threads_do_their_part() {
    let tasks = r#""parent": {"loop": 3, "fork": "child", "run": 1000},
                   "child": {"instance": 0, "loop": 2, "run": 2000, "sem_post": "done"},
                   "last": {"loop": 6, "sem_wait": "done"}"#;
    for which in ALL {
        let (records, outcome) = perform(which, FOUR, tasks, 0, 1_000 * MS);
        assert_eq!(records.len(), 2 + 3, "{which:?}");
        assert!(records.iter().all(|record| record.ended.is_some()));
        assert_eq!(outcome.programs[0].threads_ns.len(), 5);
        assert!(
            (outcome.programs[0].work_ns - 15e6).abs() < 1.0,
            "{which:?}: {outcome:?}"
        );
    }
}

#[test]
fn memory_and_devices_take_the_time_that_is_assumed() {
    // 8 GB/s, a pointer in 4 ns or, at random beyond a megabyte, in 80, and 500 MB/s of a device; writing to /dev/null takes its
    // calls, of a buffer each.
    let alone = |events: &str, expected: Ns| {
        for which in ALL {
            let task = format!("\"t\": {{\"loop\": 1, {events}}}");
            let (records, outcome) = perform(which, FOUR, &task, 0, 1_000 * MS);
            let end = last_end(&records);
            assert!(is_about(end, expected, 10 * US), "{which:?}: {events}: {end}");
            let work = outcome.programs[0].work_ns;
            assert!(
                (work - expected as f64).abs() < 1.0,
                "{which:?}: {events}: {work}"
            );
        }
    };
    alone(r#""mem": 80000000"#, 10 * MS);
    let memrun = |mode: &str, size: u64| {
        format!(r#""memrun": {{"type": "{mode}", "size": {size}, "count": 1000000}}"#)
    };
    alone(&memrun("read", 4 << 20), 125 * US);
    alone(&memrun("chase", 1 << 16), 4 * MS);
    alone(&memrun("chase", 4 << 20), 80 * MS);
    // One after the other they come as fast as memory does: a line of 64 bytes in 8 ns.
    let in_order = memrun("chase", 4 << 20).replace("}", r#", "pattern": "sequential"}"#);
    alone(&in_order, 8 * MS);
    alone(&in_order.replace("}", r#", "stride": 16}"#), 4 * MS);
    alone(r#""iorun": 41943040"#, 10 * US);
    // A device takes its time while the thread sleeps, and its CPU is another's.
    for which in ALL {
        let file = r#"{"global": {"io_device": "/dev/sda"}, "tasks": {"t": {"loop": 1, "iorun": 5000000}, "u": {"loop": 1, "run": 9000}}}"#;
        let (records, outcome) = perform_file(which, ONE, file, 0, 1_000 * MS);
        assert!(
            is_about(last_end(&records), 10 * MS, 2 * MS),
            "{which:?}: {records:?}"
        );
        assert!(outcome.programs[0].work_ns < 9.1e6, "{which:?}: {outcome:?}");
    }
}

#[test]
fn who_yields_lets_the_other_run() {
    let tasks =
        |yields: &str| format!(r#""t": {{"instance": 2, "loop": 50, "run": 20, {yields} "run2": 20}}"#);
    for which in ALL {
        let switches = |yields| perform(which, ONE, &tasks(yields), 0, 1_000 * MS).1.nr_switches;
        let (yielding, not) = (switches(r#""yield": "","#), switches(""));
        // Ours, without ops.yield, keeps who is not ahead of the other.
        let enough = if which == Which::Ours { not } else { 80 };
        assert!(
            yielding >= enough && not < 20,
            "{which:?}: {yielding} switches, {not} without"
        );
    }
    // Alone, and without end, it is no stop.
    let (records, _) = perform(Which::Ours, ONE, r#""t": {"yield": ""}"#, 0, 10 * MS);
    assert!(records[0].nr_loops > 1_000);
}

#[test]
fn a_run_takes_longer_on_a_slow_cpu_and_a_runtime_does_not() {
    let machine = Machine::load("amp-8").unwrap();
    let capacities: Vec<u32> = machine.cpus().iter().map(|cpu| cpu.capacity).collect();
    let (slow, &capacity) = capacities
        .iter()
        .enumerate()
        .min_by_key(|&(_, capacity)| capacity)
        .unwrap();
    let on_slow = |event: &str| {
        let task = format!(r#""t": {{"loop": 1, "cpus": [{slow}], {event}: 10000}}"#);
        last_end(&perform(Which::Kernel, "amp-8", &task, 0, 1_000 * MS).0)
    };
    let longer = 10 * MS * 1024 / u64::from(capacity);
    assert!(capacity < 1024 && is_about(on_slow("\"run\""), longer, MS));
    assert!(is_about(on_slow("\"runtime\""), 10 * MS, MS / 10));
}

#[test]
fn threads_keep_to_the_cpus_of_their_set() {
    // Three runs of 10 ms on four CPUs, and on two of them.
    for which in ALL {
        let end = |cpus: &str| {
            let task = format!(r#""t": {{"instance": 3, "loop": 1, {cpus} "run": 10000}}"#);
            last_end(&perform(which, "package:1 core:4 pu:1", &task, 0, 1_000 * MS).0)
        };
        assert!(is_about(end(""), 10 * MS, MS), "{which:?}: {}", end(""));
        let on_two = end("\"cpus\": [3, 1, 1],");
        assert!((15 * MS..22 * MS).contains(&on_two), "{which:?}: {on_two}");
    }
}

#[test]
fn buffers_share_caches_and_bandwidth_of_machines_that_have_them() {
    let ends = |cpus: [usize; 2], events: &str| -> [f64; 2] {
        let task = |cpu: usize| format!("\"t{cpu}\": {{\"loop\": 1, \"cpus\": [{cpu}], {events}}}");
        let tasks = cpus.map(task).join(", ");
        let (records, _) = perform(Which::RoundRobin, QUADS, &tasks, 0, 4_000 * MS);
        [0, 1].map(|nr| records[nr].ended.unwrap() as f64 / MS as f64)
    };
    let near = |found: [f64; 2], expected: f64| {
        let is_near = found.iter().all(|found| (found / expected - 1.0).abs() < 0.01);
        assert!(is_near, "{found:?}, not {expected}");
    };
    let chase = |size: u64, more: &str| {
        format!(r#""memrun": {{"type": "chase", "size": {size}, "count": 1000000{more}}}, "run": 5000"#)
    };
    // 4 ns a pointer in a cache of its own. 20 in one of 4 MiB; of two buffers of 3 MiB there, a third misses, for 100 ns; but not
    // if they are one.
    near(ends([0, 1], &chase(1 << 20, "")), 4.0 + 5.0);
    near(ends([0, 2], &chase(3 << 20, "")), 20.0 + 5.0);
    near(ends([0, 1], &chase(3 << 20, "")), 20.0 + 100.0 / 3.0 + 5.0);
    near(ends([0, 1], &chase(3 << 20, r#", "ref": "b""#)), 20.0 + 5.0);
    // Two streams of 8 GB/s on the 10,666 MB/s of a package, or on one's own.
    let read = r#""memrun": {"type": "read", "size": 1073741824, "count": 80000000}"#;
    near(ends([0, 4], read), 10.0);
    near(ends([0, 1], read), 10.0 * 16.0 / 10.666);
}

#[test]
fn chance_is_the_seed_s() {
    let file = r#"{"tasks": {"t": {"instance": 12, "lock": "m", "run": 90, "unlock": "m", "run": 700, "sleep": 50}}}"#;
    let machine = Machine::load(FOUR).unwrap();
    let play = play(&File::parse(file).unwrap(), &Assumptions::of_server(&machine)).unwrap();
    for which in [Which::Ours, Which::Kernel] {
        let outcome = |seed| {
            let mut world = world(which, FOUR, Costs::of_lab(60));
            world.seed(seed);
            world.start(Box::new(Scripted::new(play.clone())), 100, None);
            world.run_until(500 * MS).map(|()| world.outcome()).unwrap()
        };
        assert_eq!(outcome(1), outcome(1), "{which:?}");
        assert_ne!(outcome(1), outcome(2), "{which:?}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name_and_line() {
    for (task, what) in [
        (
            r#""t": {"run": 1,
             "policy": "SCHED_FIFO", "priority": 1}"#,
            "line 3: tasks.t.policy: real-time",
        ),
        (
            r#""t": {"run": 1,
             "cpus": []}"#,
            "line 3: tasks.t.cpus: it names no CPU",
        ),
        (
            r#""t": {"cpus": [9],
             "run": 1}"#,
            "line 2: tasks.t.cpus: it names a CPU that the machine does not have",
        ),
        (
            r#""t": {"phases": {"p": {"run": 1,
             "priority": 2}}}"#,
            "line 3: tasks.t.p.priority: settings that change",
        ),
        (
            r#""t": {"run": 1, "taskgroup": "/a"}"#,
            "line 2: tasks.t.taskgroup: it cannot",
        ),
        (
            r#""t": {"run": 1, "util_min": 3}"#,
            "line 2: tasks.t.util_min: it cannot",
        ),
        (
            r#""t": {"run": 1, "dl-runtime": 1}"#,
            "line 2: tasks.t.dl-runtime: it cannot",
        ),
    ] {
        let file = File::parse(&format!("{{\"tasks\": {{\n{task}}}}}")).unwrap();
        let refused = play(&file, &Assumptions::of_server(&Machine::load(FOUR).unwrap())).unwrap_err();
        assert!(refused.to_string().starts_with(what), "{refused}");
    }
}

#[test]
fn stages_have_as_many_threads_at_work_as_they_say() {
    let stages = || Stages::new(4, 1_000, Draws::new(Distribution::Uniform, 5), 5);
    for which in ALL {
        let mut world = world(which, FOUR, Costs::FREE);
        world.start(Box::new(Staged::new(4, stages(), US)), 100, None);
        world
            .run_until(1_000 * MS)
            .unwrap_or_else(|wrong| panic!("{which:?}: {wrong}"));
        let threads = world.outcome().programs.remove(0).threads_ns;
        // Each stage takes as long as each of its threads works, so time passes as the main thread works.
        let mut expected = [0; 4];
        let mut stages = stages();
        while expected[0] < 990 * MS {
            let stage = stages.next_stage();
            expected[..stage.active]
                .iter_mut()
                .for_each(|sum| *sum += stage.units * US);
        }
        for (thread, expected) in expected.into_iter().enumerate() {
            let share = threads[thread] / expected as f64;
            assert!(
                (0.97..1.03).contains(&share),
                "{which:?}, {thread}: {threads:?} of {expected}"
            );
        }
        assert!(
            threads[3] < 0.4 * threads[0],
            "a quarter of the stages are for all"
        );
    }
}

const PIPE: &str = include_str!("../../../tests/traces/pipe.txt");

/// When each task of the trace ended.
fn replay(which: Which, machine: &str) -> Vec<Ns> {
    let trace = Rc::new(Trace::parse(PIPE).unwrap());
    let mut world = world(which, machine, Costs::FREE);
    let (processes, ends) = Replay::of(&trace, Machine::load(machine).unwrap().nr_cpus());
    assert_eq!(processes.len(), 4, "each thread's process is unknown");
    let mut order = Vec::new();
    for process in processes {
        order.extend_from_slice(process.tasks());
        world.start(Box::new(process), 100, None);
    }
    world
        .run_until(100 * MS)
        .unwrap_or_else(|wrong| panic!("{which:?}: {wrong}"));
    let outcome = world.outcome();
    for (program, &task) in outcome.programs.iter().zip(&order) {
        let ran = trace.tasks[task].ran_ns() as f64;
        assert!(
            (program.work_ns - ran).abs() < 1.0,
            "{which:?}: {program:?} of {ran}"
        );
    }
    (0..trace.tasks.len())
        .map(|task| ends.of(task).expect("it ends"))
        .collect()
}

#[test]
fn a_replay_follows_the_chains_and_not_the_clock() {
    for which in ALL {
        // Without the recorded latencies: the consumer begins at 3 ms and wakes the producer at 5, which wakes the
        // kworker at 6.99 and ends at 9; kworker's 0.1 ms may come before that, on the same CPU.
        let [producer, consumer, ticker, kworker] = replay(which, FOUR).try_into().unwrap();
        assert!(is_about(producer, 9 * MS, 150 * US), "{which:?}: {producer}");
        assert!(is_about(consumer, 5_100 * US, 50 * US), "{which:?}: {consumer}");
        assert!(is_about(ticker, 8_490 * US, 50 * US), "{which:?}: {ticker}");
        assert!(is_about(kworker, 7_090 * US, 2_100 * US), "{which:?}: {kworker}");
        // On one CPU there are 11.2 ms of work, and it is idle during the ticker's last sleep at the most, or during all
        // of them where each of the others has a turn of 3 ms before it.
        let ends = replay(which, ONE);
        let idle = if which == Which::Ours { 7_490 } else { 1_490 };
        assert!(
            is_about(*ends.iter().max().unwrap(), 11_200 * US, idle * US),
            "{which:?}: {ends:?}"
        );
    }
}

#[test]
fn replayed_tasks_have_the_priorities_that_were_recorded() {
    // Two that had a CPU each for 300 ms share one, with these priorities.
    let ends = |which: Which, prios: [i32; 2]| {
        let switch = |cpu: usize, at: &str, prev: &str, next: &str| {
            format!("x 0/0 [{cpu:03}] {at}: sched:sched_switch: {prev} ==> {next}\n")
        };
        let idle = "swapper:0 [120]";
        let task = |cpu: usize| format!("t{cpu}:{} [{}]", 100 + cpu, prios[cpu]);
        let begins = [0, 1].map(|cpu| switch(cpu, "1.000000", &format!("{idle} R"), &task(cpu)));
        let are_gone = [0, 1].map(|cpu| switch(cpu, "1.300000", &format!("{} X", task(cpu)), idle));
        let trace = Rc::new(Trace::parse(&[begins.concat(), are_gone.concat()].concat()).unwrap());
        let mut world = world(which, ONE, Costs::FREE);
        let (processes, ends) = Replay::of(&trace, 1);
        for process in processes {
            world.start(Box::new(process), 100, None);
        }
        world.run_until(1_000 * MS).unwrap();
        [0, 1].map(|task| ends.of(task).expect("it ends") / MS)
    };
    for which in [Which::Kernel, Which::Ours] {
        // A weight of 1, then nice 0, then a real-time priority, beside nice 0: when the first is done.
        let [low, equal, first] = [139, 120, -1].map(|prio| ends(which, [prio, 120]));
        assert!(low[0] > 590 && low[1] < 320, "{which:?}: {low:?}");
        assert!(equal[0] > 550 && equal[1] > 550, "{which:?}: {equal:?}");
        assert!(first[0] < 330, "{which:?}: {first:?}");
    }
}

/// An rt-app file of threads that lock, meet, post, wait, sleep, yield and fork, with any end.
fn any_tasks() -> impl Strategy<Value = String> {
    let event = prop_oneof![
        (1..3000u32).prop_map(|us| format!("\"run\": {us}")),
        (1..3000u32).prop_map(|us| format!("\"runtime\": {us}")),
        (0..3000u32).prop_map(|us| format!("\"sleep\": {us}")),
        (0..2u32, 1..500u32)
            .prop_map(|(m, us)| format!("\"lock\": \"m{m}\", \"run\": {us}, \"unlock\": \"m{m}\"")),
        (0..2u32).prop_map(|s| format!("\"sem_post\": \"s{s}\"")),
        (0..2u32).prop_map(|s| format!("\"sem_wait\": \"s{s}\"")),
        Just(
            "\"lock\": \"m0\", \"wait\": {\"ref\": \"c\", \"mutex\": \"m0\"}, \"unlock\": \"m0\"".to_owned()
        ),
        Just("\"signal\": \"c\"".to_owned()),
        Just("\"broad\": \"c\"".to_owned()),
        Just("\"barrier\": \"b\"".to_owned()),
        Just("\"yield\": \"\"".to_owned()),
        (1..9_000_000u32).prop_map(|bytes| format!("\"mem\": {bytes}, \"iorun\": {bytes}")),
        (1..9_000_000u32).prop_map(|size| {
            format!(
                "\"memrun\": {{\"type\": \"chase\", \"size\": {}, \"count\": 9000}}",
                size + 128
            )
        }),
        Just(
            "\"lock\": \"m0\", \"sync\": {\"ref\": \"c\", \"mutex\": \"m0\"}, \"unlock\": \"m0\"".to_owned()
        ),
        Just("\"suspend\": \"\"".to_owned()),
        Just("\"resume\": \"t0\"".to_owned()),
        Just("\"run\": 3000, \"fork\": \"child\"".to_owned()),
        (1..9000u32).prop_map(|us| format!("\"timer\": {{\"ref\": \"unique\", \"period\": {us}}}")),
    ];
    let task = (1..4u32, -5..10i32, prop::collection::vec(event, 1..6));
    prop::collection::vec(task, 1..4).prop_map(|tasks| {
        let task = |(index, (instances, nice, events)): (usize, (u32, i32, Vec<String>))| {
            format!(
                "\"t{index}\": {{\"instance\": {instances}, \"priority\": {nice}, {}}}",
                events.join(", ")
            )
        };
        let mut tasks: Vec<String> = tasks.into_iter().enumerate().map(task).collect();
        tasks.push(String::from(
            "\"child\": {\"instance\": 0, \"loop\": 2, \"run\": 700}",
        ));
        tasks.join(", ")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_program_breaks_what_must_hold(
        tasks in any_tasks(), which in prop::sample::select(ALL.to_vec()), cpus in 1..7usize, spin_us in 0..300u64,
        costs in prop::bool::ANY,
    ) {
        let file = File::parse(&format!("{{\"tasks\": {{{tasks}}}}}")).unwrap();
        // The last has caches and bandwidth that memory events meet.
        let machine = match cpus {
            6 => String::from(QUADS),
            _ => format!("package:1 core:{cpus} pu:1"),
        };
        let assumptions = Assumptions { spin_ns: spin_us * US, ..Assumptions::of_server(&Machine::load(&machine).unwrap()) };
        let play = play(&file, &assumptions).unwrap();
        let once = || {
            let costs = if costs { Costs::of_lab(500) } else { Costs::FREE };
            let mut world = world(which, &machine, costs);
            world.start(Box::new(Scripted::new(play.clone())), 100, None);
            world.run_until(150 * MS).map(|()| world.outcome())
        };
        let outcome = once();
        prop_assert!(outcome.is_ok(), "{which:?} on {cpus} CPUs: {tasks}: {outcome:?}");
        prop_assert_eq!(outcome, once(), "the same world gives the same outcome");
    }
}
