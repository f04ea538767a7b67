// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise sim rtapp`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use threadwise_lab::table::table;
use threadwise_machine::Machine;
use threadwise_simulator::Ns;
use threadwise_simulator::programs::{Assumptions, Play, Record, Scripted, play};
use threadwise_workload::rtapp::File;

use super::load::{self, Spread};
use crate::Format;

/// Simulate the program that an rt-app file describes, and show what each thread gets.
///
/// The file is JSON as rt-app reads it, comments and doubled keys included; a key that is unknown is refused by its name. A
/// "run" is in microseconds of the fastest CPU. Slack and timer latency are what rt-app logs; the wake-up latency is that of
/// all wake-ups, whatever woke the thread. I/O takes what a server's would, and so does memory: buffers of up to 1 MiB stay in a CPU's
/// own cache, larger ones share last-level caches and bandwidth if the machine's file knows these. Those are assumptions, not measured.
#[derive(clap::Args)]
pub struct Options {
    /// The rt-app file
    file: PathBuf,

    #[command(flatten)]
    load: load::Options,

    /// Simulate so long, instead of the file's duration or 10 s
    #[arg(long, value_parser = load::seconds, allow_negative_numbers = true)]
    seconds: Option<f64>,

    /// A thread that finds a mutex taken spins so long before it sleeps, in microseconds of the fastest CPU
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    spin_us: u64,
}

/// Where a file gives no end.
const DEFAULT_SECONDS: f64 = 10.0;

/// Carries the command out.
pub fn run(options: &Options) -> Result<ExitCode> {
    let machine = options.load.machine()?;
    let file = File::load(&options.file)?;
    let assumptions = Assumptions {
        spin_ns: options.spin_us * 1000,
        ..Assumptions::of_server(&machine)
    };
    let play = play(&file, &assumptions).with_context(|| options.file.display().to_string())?;
    load::require_threads(play.scripts.iter().map(|script| script.instances as usize).sum())?;
    let of_file = file.global.duration_s.map(|seconds| seconds as f64);
    let seconds = options.seconds.or(of_file).unwrap_or(DEFAULT_SECONDS);
    let mut results = Vec::new();
    for scheduler in options.load.schedulers() {
        let threads = simulate(options, &machine, &play, &scheduler, (seconds * 1e9) as Ns)?;
        results.push((scheduler, threads));
    }
    let title = options.file.display().to_string();
    match options.load.format {
        Format::Json => {
            let result = |(scheduler, threads): &(String, Vec<Thread>)| {
                let threads: Vec<Value> = threads.iter().map(Thread::json).collect();
                json!({ "scheduler": scheduler, "threads": threads })
            };
            let results: Vec<Value> = results.iter().map(result).collect();
            let value = json!({
                "schema": "threadwise.sim.rtapp/1", "label": "simulated", "file": title, "machine": machine.name(),
                "seconds": seconds, "results": results,
            });
            println!("{value}");
        }
        Format::Text => {
            println!("[simulated] {title} on machine {}, {seconds} s", machine.name());
            for (scheduler, threads) in &results {
                println!("\n{scheduler}");
                println!("{}", table(HEADER, threads.iter().map(Thread::row)));
            }
            println!(
                "\nLatency: from a wake-up to when the thread ran. Slack: how long before its timer's expiry a thread was ready for it."
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

const HEADER: [&str; 11] = [
    "thread",
    "work ms",
    "loops",
    "wake-ups",
    "latency p50 us",
    "p95",
    "p99",
    "max",
    "slack p50 us",
    "least",
    "late",
];

/// What became of a thread.
struct Thread {
    name: String,
    work_ns: f64,
    record: Record,
    latency: Spread,
    timer_latency: Spread,
    /// Its slacks' median and least, in microseconds.
    slack_us: Option<[f64; 2]>,
}

fn simulate(
    options: &Options,
    machine: &Machine,
    play: &Play,
    scheduler: &str,
    end: Ns,
) -> Result<Vec<Thread>> {
    let mut world = options.load.world(machine, scheduler)?;
    let program = Scripted::new(play.clone());
    let records = program.records();
    world.start(Box::new(program), load::NORMAL_WEIGHT, None);
    world.run_until(end).map_err(anyhow::Error::msg)?;
    let works = world.outcome().programs.remove(0).threads_ns;
    let latencies = world.into_timeline().wake_up_latencies();
    let records = records.borrow();
    let thread = |(index, work_ns): (usize, f64)| {
        let record = records[index].clone();
        // As rt-app calls them.
        let name = format!("{}-{index}", play.scripts[record.script].name);
        let negated: Vec<i64> = record.slack_ns.iter().map(|ns| -ns).collect();
        let slack = Spread::of(&negated)?;
        Ok(Thread {
            name,
            work_ns,
            latency: Spread::of_durations(load::latencies_of(&latencies, (0, index)))?,
            timer_latency: Spread::of_durations(&record.timer_latency_ns)?,
            slack_us: slack.us.map(|[median, .., greatest]| [-median, -greatest]),
            record,
        })
    };
    works.into_iter().enumerate().map(thread).collect()
}

impl Thread {
    /// How often it came too late for its timer.
    fn nr_late(&self) -> usize {
        self.record.slack_ns.iter().filter(|&&slack| slack < 0).count()
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![
            self.name.clone(),
            format!("{:.3}", self.work_ns / 1e6),
            self.record.nr_loops.to_string(),
            self.latency.count.to_string(),
        ];
        row.extend(self.latency.cells());
        match self.slack_us {
            Some(slack) => {
                row.extend(slack.map(|us| format!("{us:.1}")));
                row.push(self.nr_late().to_string());
            }
            None => row.extend([const { String::new() }; 3]),
        }
        row
    }

    fn json(&self) -> Value {
        let slack = self.slack_us.map(|[median, least]| {
            json!({ "count": self.record.slack_ns.len(), "p50": median, "min": least, "late": self.nr_late() })
        });
        json!({
            "name": self.name, "work_ns": self.work_ns, "loops": self.record.nr_loops,
            "ended_ns": self.record.ended, "wake_up_latency_us": self.latency.json(),
            "timer_latency_us": self.timer_latency.json(), "slack_us": slack,
        })
    }
}
