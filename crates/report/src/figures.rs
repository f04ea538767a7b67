// SPDX-License-Identifier: GPL-2.0-only
//! Every figure of a run with its interval, one a line: for spreadsheets, notebooks and other programs.

use serde::Serialize;
use threadwise_lab::evaluate::{Evaluation, RunResult, SchedulerResult};

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// How it came about.
    pub label: &'static str,
    /// The programs that ran together, with " + " between them.
    pub programs: String,
    /// The scheduler.
    pub scheduler: String,
    /// What the figure is, as in the glossary.
    pub what: &'static str,
    /// Of which of the programs, if not of all together; energy is that of a package.
    pub program: String,
    /// What it is counted in; empty for ratios and shares.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Over how many rounds.
    pub rounds: usize,
}

/// A figure with the ends of its interval.
type Interval = (f64, f64, f64);

/// All figures, in the order of the experiment.
pub fn lines(evaluation: &Evaluation) -> Vec<Line> {
    let mut lines = Vec::new();
    for run in &evaluation.runs {
        for result in &run.schedulers {
            of_scheduler(evaluation, run, result, &mut lines);
        }
    }
    lines
}

fn of_scheduler(evaluation: &Evaluation, run: &RunResult, result: &SchedulerResult, lines: &mut Vec<Line>) {
    let mut add = |what: &'static str, program: &str, unit: &'static str, (value, low, high): Interval| {
        lines.push(Line {
            label: evaluation.label.name(),
            programs: run.run.join(" + "),
            scheduler: result.scheduler.clone(),
            what,
            program: program.to_string(),
            unit,
            value,
            low,
            high,
            rounds: result.total.n,
        });
    };
    let summary = |summary: &threadwise_metrics::Summary| (summary.mean, summary.low(), summary.high());
    let unit = if run.in_work_units { "units/s" } else { "1/s" };
    add("performance", "", unit, summary(&result.total));
    if let Some(ratio) = &result.over_baseline {
        add(
            "ratio to the baseline",
            "",
            "",
            (ratio.ratio, ratio.low, ratio.high),
        );
    }
    add("idle", "", "", summary(&result.idle));
    if let Some(instructions) = &result.instructions {
        add("instructions", "", "", summary(instructions));
    }
    if let Some(ratio) = &result.instructions_over_baseline {
        let more = (ratio.ratio, ratio.low, ratio.high);
        add("ratio of instructions to the baseline", "", "", more);
    }
    if let Some(misses) = &result.misses {
        add(
            "share of last-level cache accesses that missed",
            "",
            "",
            summary(misses),
        );
    }
    for (package, joules) in result.joules.iter().enumerate() {
        add("energy", &format!("package {package}"), "J", summary(joules));
    }
    for (program, jitter) in run.run.iter().zip(&result.jitter) {
        add("jitter", program, "", (jitter.value, jitter.low, jitter.high));
    }
    for (program, speedup) in run.run.iter().zip(&result.speedups) {
        add("speedup", program, "", summary(speedup));
    }
    if let Some(fairness) = &result.fairness {
        add("fairness", "", "", summary(fairness));
    }
    if let Some(share) = &result.share_of_bound {
        add("share of the fluid bound", "", "", summary(share));
    }
}

/// All figures as CSV (RFC 4180), with a header.
///
/// # Panics
/// Never: writing to memory does not fail.
pub fn csv(evaluation: &Evaluation) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for line in lines(evaluation) {
        writer.serialize(line).expect("a line has plain fields");
    }
    text(writer)
}

/// Every sample as CSV, the void ones included; a line for each program.
///
/// # Panics
/// Never.
pub fn samples_csv(evaluation: &Evaluation) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = [
        "round",
        "boot",
        "scheduler",
        "programs",
        "program",
        "performance",
        "idle",
        "lost",
        "late",
        "stood_still_s",
        "void",
    ];
    writer.write_record(header).expect("memory takes it");
    for sample in &evaluation.measurement.samples {
        for (index, program) in sample.run.iter().enumerate() {
            let performance = sample.performance.get(index);
            let record = [
                sample.round.to_string(),
                sample.boot.to_string(),
                sample.scheduler.clone(),
                sample.run.join(" + "),
                program.clone(),
                performance.map_or_else(String::new, f64::to_string),
                sample.idle.to_string(),
                sample.lost.to_string(),
                sample.late.to_string(),
                sample.stood_still_s.to_string(),
                sample.void.to_string(),
            ];
            writer.write_record(record).expect("memory takes it");
        }
    }
    text(writer)
}

pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> String {
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("what was written is text")
}
