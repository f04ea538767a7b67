// SPDX-License-Identifier: GPL-2.0-only
//! What the commands that simulate programs from files have in common.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use threadwise_lab::experiment::Scheduler;
use threadwise_machine::Machine;
use threadwise_metrics::percentile;
use threadwise_simulator::{Costs, Ns, World};

use crate::Format;

/// On which machine, under whom.
#[derive(clap::Args)]
pub struct Options {
    /// The machine: host, a name from machines/, a file, or a string such as "package:2 core:4 pu:1"
    #[arg(long, default_value = "smp-8")]
    machine: String,

    /// Whom to simulate: any that `sim run --help` lists; may be given several times [default: kernel, threadwise]
    #[arg(long = "scheduler", value_name = "NAME", value_parser = known)]
    schedulers: Vec<String>,

    /// Million instructions a second of the fastest CPU: how long the kernel's own work takes
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    mips: u32,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The name of a scheduler that can be simulated.
fn known(name: &str) -> Result<String, String> {
    let known = super::check::known(name).map_err(|error| error.to_string())?;
    Ok(known.name().to_owned())
}

/// From the request to another CPU to look for something to run until it does, without the lab's emulation.
const KICK_NS: Ns = 2_000;

/// Of what a scheduler draws by chance.
const SEED: u64 = 1;

impl Options {
    /// The machine, if it can be simulated.
    pub fn machine(&self) -> Result<Machine> {
        let machine = Machine::load(&self.machine)?;
        Ok(machine)
    }

    /// Whom to simulate.
    pub fn schedulers(&self) -> Vec<String> {
        if self.schedulers.is_empty() {
            return vec![String::from("kernel"), String::from("threadwise")];
        }
        self.schedulers.clone()
    }

    /// An idle machine under one of them, on which what happens is recorded.
    pub fn world(&self, machine: &Machine, scheduler: &str) -> Result<World> {
        let scheduler = Scheduler {
            name: scheduler.to_owned(),
            command: Vec::new(),
        };
        let mut world = super::world_with(machine, self.mips, &scheduler, SEED, |costs| Costs {
            kick_ns: KICK_NS,
            interrupt_ns: KICK_NS,
            ..costs
        })?;
        world.record();
        Ok(world)
    }
}

/// The weight of nice 0.
pub const NORMAL_WEIGHT: u32 = 100;

/// Seconds that a simulation may last.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(String::from("not 0.001 to 3600 seconds")),
    }
}

/// Percentiles of durations, in microseconds.
pub struct Spread {
    /// How many there were.
    pub count: usize,
    /// The median, the 95th and 99th percentile and the greatest; nothing of nothing.
    pub us: Option<[f64; 4]>,
}

impl Spread {
    /// Of these nanoseconds.
    pub fn of(ns: &[i64]) -> Result<Self> {
        let us: Vec<f64> = ns.iter().map(|&ns| ns as f64 / 1e3).collect();
        let at = |percent| percentile(&us, percent).context("percentiles of durations");
        Ok(Self {
            count: us.len(),
            us: match us.is_empty() {
                true => None,
                false => Some([at(50.0)?, at(95.0)?, at(99.0)?, at(100.0)?]),
            },
        })
    }

    /// Of these durations.
    pub fn of_durations(ns: &[Ns]) -> Result<Self> {
        let signed: Vec<i64> = ns
            .iter()
            .map(|&ns| i64::try_from(ns).unwrap_or(i64::MAX))
            .collect();
        Self::of(&signed)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        match self.us {
            None => json!({ "count": self.count }),
            Some([p50, p95, p99, max]) => {
                json!({ "count": self.count, "p50": p50, "p95": p95, "p99": p99, "max": max })
            }
        }
    }

    /// Four cells for people.
    pub fn cells(&self) -> [String; 4] {
        match self.us {
            None => [const { String::new() }; 4],
            Some(us) => us.map(|us| format!("{us:.1}")),
        }
    }
}

/// The latencies of a thread.
pub fn latencies_of(all: &BTreeMap<(usize, usize), Vec<Ns>>, thread: (usize, usize)) -> &[Ns] {
    all.get(&thread).map_or(&[], Vec::as_slice)
}

/// Refuses a simulation of nothing.
pub fn require_threads(nr_threads: usize) -> Result<()> {
    if nr_threads == 0 {
        bail!("no thread begins: every task has \"instance\": 0");
    }
    Ok(())
}
