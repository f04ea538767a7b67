// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise sim replay`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use threadwise_lab::table::table;
use threadwise_machine::Machine;
use threadwise_simulator::Ns;
use threadwise_simulator::programs::Replay;
use threadwise_workload::trace::{RecordedTask, Trace};

use super::load::{self, Spread};
use crate::Format;

/// Replay what `perf sched record` recorded (Linux 6.12 and later), and compare the tasks' wake-up latencies.
///
/// The trace is what `perf sched script -F comm,pid,tid,cpu,time,event,trace` prints, or perf's own file, for which perf is
/// run. Each task runs as long as it was recorded to and sleeps until the task that woke it has come as far as it had then,
/// or as long as recorded where a timer or a device woke it. Kernel threads take part; idle and migration threads do not. Tasks
/// have the nice values that were recorded last; real-time and deadline tasks have nice -20, because no scheduler here knows
/// more of them. A wake-up by an interrupt that came while a task ran counts as that task's: the trace does not tell.
#[derive(clap::Args)]
pub struct Options {
    /// What perf printed or recorded
    trace: PathBuf,

    #[command(flatten)]
    load: load::Options,
}

/// A replay is given up when it has taken so many times as long as the recording.
const PATIENCE: u64 = 10;

/// Carries the command out.
pub fn run(options: &Options) -> Result<ExitCode> {
    let machine = options.load.machine()?;
    let text = read(&options.trace)?;
    let trace = Trace::parse(&text).with_context(|| options.trace.display().to_string())?;
    let trace = Rc::new(trace);
    let mut results = Vec::new();
    for scheduler in options.load.schedulers() {
        let tasks = simulate(options, &machine, &trace, &scheduler)?;
        results.push((scheduler, tasks));
    }
    let recorded = trace
        .tasks
        .iter()
        .map(|task| Spread::of_durations(&task.latencies_ns))
        .collect::<Result<Vec<_>>>()?;
    match options.load.format {
        Format::Json => println!("{}", json(options, &machine, &trace, &recorded, &results)),
        Format::Text => print_text(options, &machine, &trace, &recorded, &results),
    }
    Ok(ExitCode::SUCCESS)
}

/// What perf prints of the file, unless that is it.
fn read(path: &Path) -> Result<String> {
    let context = || format!("cannot read {}", path.display());
    if !Trace::is_perf_data(path).with_context(context)? {
        return std::fs::read_to_string(path).with_context(context);
    }
    const FIELDS: &str = "comm,pid,tid,cpu,time,event,trace";
    let output = Command::new("perf")
        .args(["sched", "script", "--ns", "-F", FIELDS, "-i"])
        .arg(path)
        .output()
        .with_context(|| {
            format!(
                "cannot run perf to read {}; where it is installed, run: perf sched script -F {FIELDS}",
                path.display()
            )
        })?;
    if !output.status.success() {
        bail!(
            "perf cannot read {}: {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).context("what perf prints is no text")
}

/// What became of a task.
struct Replayed {
    latency: Spread,
    /// When it had done all that it was recorded to do.
    ended: Option<Ns>,
}

fn simulate(
    options: &Options,
    machine: &Machine,
    trace: &Rc<Trace>,
    scheduler: &str,
) -> Result<Vec<Replayed>> {
    let mut world = options.load.world(machine, scheduler)?;
    let (processes, ends) = Replay::of(trace, machine.nr_cpus());
    let mut places = vec![(0, 0); trace.tasks.len()];
    for (program, process) in processes.into_iter().enumerate() {
        for (thread, &task) in process.tasks().iter().enumerate() {
            places[task] = (program, thread);
        }
        world.start(Box::new(process), load::NORMAL_WEIGHT, None);
    }
    world
        .run_until(trace.span_ns.max(1).saturating_mul(PATIENCE))
        .map_err(anyhow::Error::msg)?;
    let latencies = world.into_timeline().wake_up_latencies();
    // Its beginning is no wake-up of the recording.
    let of_place = |(task, place): (usize, (usize, usize))| {
        let latencies = load::latencies_of(&latencies, place).get(1..).unwrap_or_default();
        Ok(Replayed {
            latency: Spread::of_durations(latencies)?,
            ended: ends.of(task),
        })
    };
    places.into_iter().enumerate().map(of_place).collect()
}

type Results = [(String, Vec<Replayed>)];

fn json(
    options: &Options,
    machine: &Machine,
    trace: &Trace,
    recorded: &[Spread],
    results: &Results,
) -> Value {
    let task = |(index, task): (usize, &RecordedTask)| {
        let replayed = |(scheduler, tasks): &(String, Vec<Replayed>)| {
            let task = &tasks[index];
            json!({ "scheduler": scheduler, "wake_up_latency_us": task.latency.json(), "ended_ns": task.ended })
        };
        let replayed: Vec<Value> = results.iter().map(replayed).collect();
        json!({
            "comm": task.comm, "tid": task.tid, "tgid": task.tgid, "prio": task.prio, "kernel_thread": task.is_kernel_thread,
            "ran_ns": task.ran_ns(), "recorded_latency_us": recorded[index].json(), "simulated": replayed,
        })
    };
    let tasks: Vec<Value> = trace.tasks.iter().enumerate().map(task).collect();
    json!({
        "schema": "threadwise.sim.replay/1", "trace": options.trace.display().to_string(), "machine": machine.name(),
        "span_ns": trace.span_ns, "unexplained_wake_ups": trace.nr_unexplained, "tasks": tasks,
    })
}

fn print_text(options: &Options, machine: &Machine, trace: &Trace, recorded: &[Spread], results: &Results) {
    println!(
        "{}: {} tasks on {} CPUs, {:.3} ms, {} sleeps without a recorded end\nreplayed on machine {}",
        options.trace.display(),
        trace.tasks.len(),
        trace.nr_cpus,
        trace.span_ns as f64 / 1e6,
        trace.nr_unexplained,
        machine.name()
    );
    println!("\n[recorded]");
    println!("{}", table(HEADER, rows(trace, recorded.iter())));
    for (scheduler, tasks) in results {
        println!("\n[simulated] {scheduler}");
        let spreads = tasks.iter().map(|task| &task.latency);
        println!("{}", table(HEADER, rows(trace, spreads)));
        let nr_open = tasks.iter().filter(|task| task.ended.is_none()).count();
        match tasks.iter().filter_map(|task| task.ended).max() {
            Some(end) if nr_open == 0 => println!("all ended after {:.3} ms", end as f64 / 1e6),
            _ => println!("{nr_open} tasks did not end within {PATIENCE} times the recording"),
        }
    }
}

const HEADER: [&str; 7] = [
    "task",
    "ran ms",
    "wake-ups",
    "latency p50 us",
    "p95",
    "p99",
    "max",
];

fn rows<'a>(trace: &Trace, spreads: impl Iterator<Item = &'a Spread>) -> impl Iterator<Item = Vec<String>> {
    let row = |(task, spread): (&RecordedTask, &Spread)| {
        let mut row = vec![
            format!("{}:{}", task.comm, task.tid),
            format!("{:.3}", task.ran_ns() as f64 / 1e6),
            spread.count.to_string(),
        ];
        row.extend(spread.cells());
        row
    };
    trace.tasks.iter().zip(spreads).map(row)
}
