// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise sim check`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use serde_json::json;
#[cfg(test)]
use threadwise_simulator::schedulers::How;
use threadwise_simulator::schedulers::Known;
use threadwise_simulator::small::SmallWorld;
use threadwise_simulator::sweep::{Sweep, Swept};

use crate::Format;
use crate::experiment::progress_bar;

/// Of the JSON that is printed.
const SCHEMA: &str = "threadwise.sim.check/1";

/// Play random small worlds in which everything goes wrong, until a checker notices something.
///
/// Each world has 2 to 4 CPUs, 3 to 8 tasks and a scheduler. Programs have phases, or threads that share a mutex, meet, yield and
/// have children; some fill caches, share memory or run one after the other. Kicks and timers come late, CPUs change their speed, go offline
/// and come back, affinities change under tasks that wait or run, and short threads come in storms. After every event
/// checkers look whether each task is in one place and where it may be, no CPU idles beside one that waits, nobody waits
/// for too long, vtimes go on, work is conserved and nothing is lost. All cores take part. A world that fails is made as
/// small as it can be and still fail. Exit status: 0 if all worlds hold, 1 if one does not.
#[derive(clap::Args)]
pub struct Options {
    /// How many worlds
    #[arg(long, default_value_t = 10_000)]
    worlds: u64,

    /// Worlds are drawn from this and their numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The first world's number
    #[arg(long, default_value_t = 0)]
    from: u64,

    /// The schedulers, each world has one of them [default: all that `sim run --help` lists but clairvoyant]. To see checkers notice something:
    /// broken-forgets, broken-crowds, broken-affinity, broken-insists, broken-lifo, broken-vtime, broken-clock, broken-twice, broken-queues, broken-work, broken-counts, broken-unseen, broken-keys
    #[arg(long, value_delimiter = ',')]
    schedulers: Vec<String>,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The scheduler of this name.
pub fn known(name: &str) -> Result<Known> {
    Known::named(name).with_context(|| {
        let names: Vec<&str> = Known::offered().map(Known::name).collect();
        format!(
            "no model of the scheduler {name:?}: known are {}",
            names.join(", ")
        )
    })
}

/// Carries the command out.
pub fn run(options: &Options) -> Result<ExitCode> {
    let schedulers = options.schedulers()?;
    if options.worlds == 0 || options.from.checked_add(options.worlds).is_none() {
        bail!(
            "--worlds {} from {}: there are no such worlds",
            options.worlds,
            options.from
        );
    }
    let sweep = Sweep {
        seed: options.seed,
        from: options.from,
        nr_worlds: options.worlds,
        schedulers: schedulers.clone(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed)).context("cannot catch Ctrl-C")?;
    // What panics in a world is part of the result.
    std::panic::set_hook(Box::new(|_| ()));
    let bar = progress_bar();
    bar.set_length(options.worlds);
    bar.set_message("worlds");
    let swept = sweep.run(&stop, &|done| bar.set_position(done));
    bar.finish_and_clear();
    let found = swept.failed.as_ref().map(|(number, wrong)| {
        let failing = SmallWorld::draw(options.seed, *number, &schedulers);
        let (least, least_wrong) = failing.shrink(wrong);
        Found {
            replay: options.replay(*number),
            world: failing.to_string(),
            wrong: wrong.clone(),
            least: least.to_string(),
            least_wrong,
        }
    });
    let _ = std::panic::take_hook();
    let is_stopped = found.is_none() && swept.nr_worlds < options.worlds;
    match options.format {
        Format::Json => println!("{}", options.json(&swept, found.as_ref())),
        Format::Text => options.print(&swept, found.as_ref()),
    }
    if is_stopped {
        eprintln!(
            "threadwise: stopped; to go on: threadwise sim check {} --from {} --worlds {}",
            options.common(),
            swept.up_to,
            options.from + options.worlds - swept.up_to
        );
    }
    Ok(ExitCode::from(
        u8::from(found.is_some()) + 2 * u8::from(is_stopped),
    ))
}

/// A world that failed.
struct Found {
    replay: String,
    world: String,
    wrong: String,
    least: String,
    least_wrong: String,
}

impl Options {
    fn schedulers(&self) -> Result<Vec<Known>> {
        if self.schedulers.is_empty() {
            return Ok(Known::ALL.to_vec());
        }
        self.schedulers.iter().map(|name| known(name)).collect()
    }

    /// What another call needs for the same worlds.
    fn common(&self) -> String {
        let schedulers = match self.schedulers.as_slice() {
            [] => String::new(),
            names => format!(" --schedulers {}", names.join(",")),
        };
        format!("--seed {}{schedulers}", self.seed)
    }

    fn replay(&self, number: u64) -> String {
        format!(
            "threadwise sim check {} --from {number} --worlds 1",
            self.common()
        )
    }

    fn json(&self, swept: &Swept, found: Option<&Found>) -> serde_json::Value {
        json!({
            "schema": SCHEMA,
            "label": "simulated",
            "seed": self.seed,
            "from": self.from,
            "nr_worlds": swept.nr_worlds,
            "nr_events": swept.nr_events,
            "failed": found.map(|found| json!({
                "replay": found.replay,
                "world": found.world,
                "wrong": found.wrong,
                "least_world": found.least,
                "least_wrong": found.least_wrong,
            })),
        })
    }

    fn print(&self, swept: &Swept, found: Option<&Found>) {
        let Some(found) = found else {
            println!(
                "[simulated] {} of {} worlds of seed {} hold ({} events)",
                swept.nr_worlds,
                self.worlds,
                self.seed,
                swept.nr_events.unwrap_or_default()
            );
            return;
        };
        println!("[simulated] a world fails: {}\n\n{}", found.wrong, found.world);
        println!("again: {}\n", found.replay);
        println!(
            "the least world that fails so:\n{}{}",
            found.least, found.least_wrong
        );
    }
}

/// The names of those that go wrong, which the help lists by hand.
#[test]
fn the_help_names_all_broken_schedulers() {
    use clap::Args;
    let help = Options::augment_args(clap::Command::new("check"))
        .render_long_help()
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for how in How::ALL {
        assert!(help.contains(how.name()), "{} is not in: {help}", how.name());
    }
}
