// SPDX-License-Identifier: GPL-2.0-only
//! The statistics: what each counter means, and the server and monitor around them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use scx_stats::prelude::*;
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::options::Format;
use crate::programs::{self, ProgramMetrics, Programs};

/// The version of a line of `--format json`.
const SCHEMA: &str = "threadwise.statistics/1";

/// What the scheduler knows when it is asked: counts since it attached.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When it was asked.
    pub at: Instant,
    /// Those of the machine; without its programs.
    pub metrics: Metrics,
    /// Those of all programs, if they are told apart.
    pub programs: Programs,
}

/// Counts since the last report.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Metrics {
    /// Microseconds since the last report.
    #[stat(desc = "Microseconds since the last report")]
    pub elapsed_us: u64,
    /// Times that a task had to wait in a queue.
    #[stat(desc = "Tasks that had to wait in a queue")]
    pub queued: u64,
    /// Serial tasks that took the CPU of a parallel one, or of a serial one that was due to make way.
    #[stat(
        desc = "Serial tasks that took the CPU of a parallel task, or of a serial one whose turn was over"
    )]
    pub serial_preemptions: u64,
    /// Serial tasks that found neither an idle CPU nor a task to replace.
    #[stat(desc = "Serial tasks that found no CPU to take and waited")]
    pub serial_queued: u64,
    /// Tasks of the senior parallel program that took the CPU of another parallel program's task.
    #[stat(desc = "Tasks of the senior parallel program that took the CPU of another's")]
    pub senior_preemptions: u64,
    /// Tasks taken from another CPU's queue by a CPU that had nothing to do.
    #[stat(desc = "Tasks that an idle CPU took from another CPU's queue")]
    pub stolen: u64,
    /// Tasks taken from another CPU's queue because they lagged behind what ran here.
    #[stat(desc = "Tasks taken from another CPU's queue because they lagged behind")]
    pub rebalanced: u64,
    /// Slices that were renewed because nobody who waited came first.
    #[stat(desc = "Slices renewed because nobody who waited came first")]
    pub kept: u64,
    /// Running tasks that went to a faster CPU, in place of another or because it was idle, to an idle core from a shared one, or
    /// where the mode wants them.
    #[stat(
        desc = "Running tasks that went to a faster CPU, to an idle core from a shared one, or where --mode wants them"
    )]
    pub moved_up: u64,
    /// Times that a parallel program became the senior one.
    #[stat(desc = "Times that a parallel program became the senior one")]
    pub handovers: u64,
    /// Those of them for which the boost of the program before it was used up.
    #[stat(desc = "Those of them for which the boost of the program before it was used up")]
    pub used_up: u64,
    /// Times that tasks behind different last-level caches were asked to change places.
    #[stat(
        desc = "Pairs of tasks asked to change places, to come home or to even out what last-level caches have to hold"
    )]
    pub exchanged: u64,
    /// Times that a program came to be at home behind another last-level cache, as its own had too little room.
    #[stat(desc = "Programs that came to be at home behind another last-level cache, for lack of room")]
    pub homes_moved: u64,
    /// Trials of whether programs get more done one after the other.
    #[stat(
        desc = "Trials of whether programs get more done one after the other, or beginnings of that by resident sets"
    )]
    pub trials: u64,
    /// Turns of programs that run one after the other.
    #[stat(desc = "Turns that programs got, or lost, that run one after the other")]
    pub alternated: u64,
    /// Ready tasks at this moment, as the thread groups count them.
    #[stat(
        desc = "Ready threads now of programs with more threads than --serial-threshold; others are not counted"
    )]
    pub ready: u64,
    /// Programs in a parallel phase at this moment.
    #[stat(desc = "Programs in a parallel phase now")]
    pub parallel_programs: u64,
    /// The busiest programs by tgid, with `--programs`.
    #[stat(desc = "The busiest programs by tgid, if the scheduler runs with --programs")]
    pub programs: BTreeMap<u32, ProgramMetrics>,
}

/// A line of `--format json`.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    #[serde(flatten)]
    metrics: &'a Metrics,
}

impl Metrics {
    fn format_text<W: Write>(&self, w: &mut W) -> Result<()> {
        writeln!(
            w,
            "ready {:3} parallel programs {:2} | queued {:6} serial: preempted {:5} queued {:5} | senior: preempted {:5} | stolen {:5} rebalanced {:5} kept {:6} moved up {:5} handovers {:4} used up {:4} exchanged {:3} homes moved {:3} | trials {:3} alternated {:3}",
            self.ready,
            self.parallel_programs,
            self.queued,
            self.serial_preemptions,
            self.serial_queued,
            self.senior_preemptions,
            self.stolen,
            self.rebalanced,
            self.kept,
            self.moved_up,
            self.handovers,
            self.used_up,
            self.exchanged,
            self.homes_moved,
            self.trials,
            self.alternated
        )?;
        programs::write_table(&self.programs, w)
    }

    fn format_json<W: Write>(&self, w: &mut W) -> Result<()> {
        let schema = SCHEMA;
        let line = serde_json::to_string(&Line {
            schema,
            metrics: self,
        })?;
        Ok(writeln!(w, "{line}")?)
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            queued: self.queued - earlier.queued,
            serial_preemptions: self.serial_preemptions - earlier.serial_preemptions,
            serial_queued: self.serial_queued - earlier.serial_queued,
            senior_preemptions: self.senior_preemptions - earlier.senior_preemptions,
            stolen: self.stolen - earlier.stolen,
            rebalanced: self.rebalanced - earlier.rebalanced,
            kept: self.kept - earlier.kept,
            moved_up: self.moved_up - earlier.moved_up,
            handovers: self.handovers - earlier.handovers,
            used_up: self.used_up - earlier.used_up,
            exchanged: self.exchanged - earlier.exchanged,
            homes_moved: self.homes_moved - earlier.homes_moved,
            trials: self.trials - earlier.trials,
            alternated: self.alternated - earlier.alternated,
            ready: self.ready,
            parallel_programs: self.parallel_programs,
            elapsed_us: 0,
            programs: BTreeMap::new(),
        }
    }
}

impl Snapshot {
    /// What came since an earlier one, of at most so many programs.
    fn since(&self, earlier: &Self, most_programs: usize) -> Metrics {
        Metrics {
            elapsed_us: (self.at - earlier.at).as_micros() as u64,
            programs: programs::busiest(&self.programs, &earlier.programs, most_programs, programs::comm),
            ..self.metrics.since(&earlier.metrics)
        }
    }
}

/// The server's side: every reader gets the counts since it last asked, of at most so many programs.
pub fn server_data(most_programs: usize) -> StatsServerData<(), Snapshot> {
    let open: Box<dyn StatsOpener<(), Snapshot>> = Box::new(move |(request, response)| {
        request.send(())?;
        let mut earlier = response.recv()?;
        let read: Box<dyn StatsReader<(), Snapshot>> = Box::new(move |_args, (request, response)| {
            request.send(())?;
            let now = response.recv()?;
            let since = now.since(&earlier, most_programs);
            earlier = now;
            since.to_json()
        });
        Ok(read)
    });
    StatsServerData::new()
        .add_meta(Metrics::meta())
        .add_meta(ProgramMetrics::meta())
        .add_ops("top", StatsOps { open, close: None })
}

/// Prints a report every `interval` until `shutdown`.
pub fn monitor(interval: Duration, format: Format, shutdown: Arc<AtomicBool>) -> Result<()> {
    scx_utils::monitor_stats::<Metrics>(
        &[],
        interval,
        || shutdown.load(Ordering::Relaxed),
        |metrics| match format {
            Format::Text => metrics.format_text(&mut std::io::stdout()),
            Format::Json => metrics.format_json(&mut std::io::stdout()),
        },
    )
}
