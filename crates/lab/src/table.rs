// SPDX-License-Identifier: GPL-2.0-only
//! An evaluation as text for people. Every number is computed in [`crate::evaluate`].

use std::fmt::Write;

use comfy_table::{CellAlignment, Row, Table, presets};
use threadwise_metrics::{RatioSummary, Summary, percent_more};

use crate::evaluate::{Evaluation, RunResult, SchedulerResult};
use crate::profile::Profile;
use crate::run::Label;

/// For how long the host kept the machine's time from going on, if that is worth a word.
fn standstill(evaluation: &Evaluation) -> String {
    let samples = evaluation.measurement.samples.iter();
    let seconds: f64 = samples.map(|sample| sample.stood_still_s).sum();
    match seconds {
        1.0.. => format!(", time stood still for {seconds:.0} s of the host's"),
        _ => String::new(),
    }
}

/// Renders a table a run, and a legend.
pub fn render(evaluation: &Evaluation) -> String {
    let measurement = &evaluation.measurement;
    let experiment = &measurement.experiment;
    let mut text = String::new();
    let mut line =
        |args: std::fmt::Arguments| writeln!(text, "{args}").expect("writing to a string cannot fail");
    line(format_args!("{}: {}", experiment.name, experiment.description));
    let length = length(evaluation);
    match evaluation.label {
        Label::Lab => line(format_args!(
            "[lab] machine {}, Linux {}, {length}, {} of {} runs void and repeated{}, threadwise {}",
            measurement.machine,
            measurement.kernel,
            evaluation.nr_void,
            measurement.samples.len(),
            standstill(evaluation),
            measurement.version
        )),
        Label::Simulated => line(format_args!(
            "[simulated] machine {}, {length}, threadwise {}",
            measurement.machine, measurement.version
        )),
    }
    for (name, version) in measurement.versioned_schedulers() {
        line(format_args!("{name}: {version}"));
    }
    if let Some(model) = experiment
        .governing()
        .caches
        .filter(|_| evaluation.label == Label::Lab)
    {
        line(format_args!(
            "last-level caches: one set in {} is modelled, a miss takes what it takes a CPU of {} MIPS",
            model.one_in, model.nominal_mips
        ));
    }
    for run in &evaluation.runs {
        line(format_args!("\n{}", heading(run)));
        let rows = run.schedulers.iter().map(|scheduler| row(run, scheduler));
        line(format_args!("{}", table(header(run), rows)));
    }
    if !evaluation.findings.is_empty() {
        line(format_args!("\nWhat its file says it must show"));
    }
    for finding in &evaluation.findings {
        line(format_args!("{finding}"));
    }
    line(format_args!("\n{}", legend(evaluation)));
    text
}

/// What the tables' words mean, those that occur.
fn legend(evaluation: &Evaluation) -> String {
    let baseline = &evaluation.measurement.experiment.schedulers[0].name;
    let together = evaluation.runs.iter().any(|run| run.run.len() > 1);
    let has = |has: fn(&SchedulerResult) -> bool| {
        let mut results = evaluation.runs.iter().flat_map(|run| &run.schedulers);
        results.any(has)
    };
    let interval = "a 95 % confidence interval over the rounds; within noise: it includes no difference";
    let is_timed = evaluation.runs.iter().any(|run| run.time.is_some());
    let gain = format!(
        "work done against {baseline}, in the same round of the same boot{}",
        if is_timed {
            ";\nof a timed program: how much sooner, +100 % is half the time"
        } else {
            ""
        }
    );
    let lines = [
        (true, "±, [from, to]", interval),
        (
            evaluation.label == Label::Lab,
            "[lab]",
            "in a real kernel on emulated CPUs, each of its own fixed speed; void: the host was late for too long at once",
        ),
        (
            evaluation.label == Label::Simulated,
            "[simulated]",
            "computed by discrete events from the same policy code; no kernel ran",
        ),
        (
            evaluation.runs.iter().any(|run| run.in_work_units),
            "units",
            "of work: a fixed piece of computation each, counted when it is done",
        ),
        (
            is_timed,
            "s, ms, us",
            "the time that a program takes, or says that it took; shorter is better",
        ),
        (
            evaluation
                .runs
                .iter()
                .any(|run| !run.in_work_units && run.time.is_none()),
            "1/s",
            "one over the seconds that a program takes, or how many a second it says it did; more is better",
        ),
        (has(|result| result.over_baseline.is_some()), "gain", &gain),
        (
            true,
            "idle",
            "the share of all CPUs' time in which they had nothing to run",
        ),
        (
            true,
            "jitter",
            "how much a program's time for a unit of work varies between rounds (standard deviation over mean);\n\
             of several programs, that of the one that varies most",
        ),
        (
            has(|result| result.instructions.is_some()),
            "instructions",
            "of the guest, its kernel's included, while programs run, and how many more that is",
        ),
        (
            has(|result| result.misses.is_some()),
            "misses",
            "the share of accesses to last-level caches that missed, programs' and the kernel's",
        ),
        (
            has(|result| !result.speedups.is_empty()),
            "speedup",
            "a program's throughput here over its throughput alone under the same scheduler",
        ),
        (
            together,
            "fairness",
            "the smaller speedup over the larger; 1 is fair",
        ),
        (
            has(|result| result.share_of_bound.is_some()),
            "of bound",
            "work done, over what CPUs shared without any loss would do if a program's only ready thread never\n\
             waited and of two parallel phases the older went first",
        ),
        (
            has(|result| result.over_sequential.is_some()),
            "over sequential",
            "work done, over that of the same programs one after the other",
        ),
    ];
    let written = lines
        .iter()
        .filter(|(occurs, ..)| *occurs)
        .map(|(_, word, meaning)| {
            let meaning = meaning.replace('\n', &format!("\n{:17}", ""));
            format!("{word:16} {meaning}")
        });
    written.collect::<Vec<_>>().join("\n")
}

/// How often and how long, and what of it is missing.
pub fn length(evaluation: &Evaluation) -> String {
    let experiment = &evaluation.measurement.experiment;
    let rounds = match evaluation.nr_rounds {
        all if all == experiment.rounds => format!("{all} rounds"),
        some => format!("{some} of {} rounds", experiment.rounds),
    };
    let boots = match evaluation.nr_boots {
        0 | 1 => String::new(),
        several => format!(" in {several} boots"),
    };
    let seeds = match experiment.same_phases {
        true => "the same seed",
        false => "seeds from",
    };
    format!(
        "{rounds}{boots} of {} s, {seeds} {}",
        experiment.seconds, experiment.seed
    )
}

/// Functions that a profile shows to people.
const FUNCTIONS: usize = 40;

/// Renders the functions with the most instructions.
pub fn profile(profile: &Profile) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["instructions", "share", "calls", "function"]);
    for function in profile.functions.iter().take(FUNCTIONS) {
        table.add_row([
            function.instructions.to_string(),
            format!(
                "{:.1} %",
                100.0 * function.instructions as f64 / profile.instructions as f64
            ),
            function.calls.to_string(),
            function.name.clone(),
        ]);
    }
    for column in 0..3 {
        let column = table.column_mut(column).expect("four columns");
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{} instructions\n{table}\n", profile.instructions)
}

/// Which programs ran.
pub fn heading(run: &RunResult) -> String {
    match run.run.as_slice() {
        [one] => format!("{one}, alone"),
        several => format!("{}, together", several.join(" and ")),
    }
}

/// A table whose columns after the first are numbers.
pub fn table<R: Into<Row>>(header: impl Into<Row>, rows: impl IntoIterator<Item = R>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What the cells of [`row`] are.
pub fn header(run: &RunResult) -> Vec<String> {
    let unit = if run.in_work_units { "1000 units/s" } else { "1/s" };
    let performance = run.time.as_deref().unwrap_or(unit);
    let mut header: Vec<_> = ["scheduler", performance, "gain", "idle", "jitter"]
        .map(String::from)
        .into();
    if has_instructions(run) {
        header.extend(["million instructions", "more of them"].map(String::from));
    }
    if has_misses(run) {
        header.push(String::from("misses"));
    }
    if has_joules(run) {
        header.extend(["joules", "by package"].map(String::from));
    }
    if run.run.len() > 1 {
        if !run.schedulers[0].speedups.is_empty() {
            header.extend(run.run.iter().map(|name| format!("speedup {name}")));
        }
        header.extend(["fairness", "of bound"].map(String::from));
    }
    if run
        .schedulers
        .iter()
        .any(|result| result.over_sequential.is_some())
    {
        header.push(String::from("over sequential"));
    }
    header
}

/// A scheduler's figures with their intervals.
pub fn row(run: &RunResult, result: &SchedulerResult) -> Vec<String> {
    let worst_jitter = result.jitter.iter().max_by(|a, b| a.value.total_cmp(&b.value));
    let mut row = vec![
        result.scheduler.clone(),
        performance(run, result),
        result.over_baseline.as_ref().map_or_else(String::new, gain),
        percent(&result.idle),
        worst_jitter.map_or_else(String::new, |j| {
            format!("{:.3} [{:.3}, {:.3}]", j.value, j.low, j.high)
        }),
    ];
    if has_instructions(run) {
        let counted = result.instructions.as_ref();
        row.push(counted.map_or_else(String::new, |of| {
            format!("{:.1} ± {:.1}", of.mean / 1e6, of.ci95 / 1e6)
        }));
        let more = result.instructions_over_baseline.as_ref();
        row.push(more.map_or_else(String::new, gain));
    }
    if has_misses(run) {
        row.push(result.misses.as_ref().map_or_else(String::new, percent));
    }
    if has_joules(run) {
        let packages: Vec<f64> = result.joules.iter().map(|joules| joules.mean).collect();
        row.push(format!("{:.1}", packages.iter().sum::<f64>()));
        row.push(
            packages
                .iter()
                .map(|joules| format!("{joules:.1}"))
                .collect::<Vec<_>>()
                .join(" + "),
        );
    }
    if run.run.len() > 1 {
        row.extend(result.speedups.iter().map(plus_minus));
        row.push(result.fairness.as_ref().map_or_else(String::new, plus_minus));
        row.push(result.share_of_bound.as_ref().map_or_else(String::new, percent));
    }
    row.extend(result.over_sequential.as_ref().map(gain));
    row
}

/// Whether instructions were counted; simulations have none.
fn has_instructions(run: &RunResult) -> bool {
    run.schedulers.iter().any(|result| result.instructions.is_some())
}

/// Whether caches were modelled in the lab.
fn has_misses(run: &RunResult) -> bool {
    run.schedulers.iter().any(|result| result.misses.is_some())
}

/// Whether energy was counted; the lab counts none.
fn has_joules(run: &RunResult) -> bool {
    run.schedulers.iter().any(|result| !result.joules.is_empty())
}

/// What a set of programs did, or the time of one that is timed.
fn performance(run: &RunResult, result: &SchedulerResult) -> String {
    let total = &result.total;
    if run.time.is_some() {
        // To first order: the mean's error over its square.
        return format!(
            "{} ± {}",
            time(run, 1.0 / total.mean),
            TimeUnit::of(run).number(total.ci95 / total.mean.powi(2))
        );
    }
    let (scale, digits) = if run.in_work_units { (1e-3, 1) } else { (1.0, 4) };
    format!(
        "{:.digits$} ± {:.digits$}",
        total.mean * scale,
        total.ci95 * scale
    )
}

/// A time of a timed program, in the unit that all times of its table are in.
pub fn time(run: &RunResult, seconds: f64) -> String {
    let unit = TimeUnit::of(run);
    format!("{} {}", unit.number(seconds), unit.name)
}

/// How a table's times are written.
struct TimeUnit {
    name: &'static str,
    in_a_second: f64,
    digits: usize,
}

impl TimeUnit {
    /// The unit suits the longest of them, the digits the shortest.
    fn of(run: &RunResult) -> Self {
        let times = || run.schedulers.iter().map(|result| 1.0 / result.total.mean);
        let (name, in_a_second) = match times().fold(0.0, f64::max) {
            1.0.. => ("s", 1.0),
            1e-3.. => ("ms", 1e3),
            _ => ("us", 1e6),
        };
        let shortest = times().fold(f64::INFINITY, f64::min) * in_a_second;
        let digits = match shortest {
            100.0.. => 1,
            0.1.. => 2,
            _ => 4,
        };
        Self {
            name,
            in_a_second,
            digits,
        }
    }

    fn number(&self, seconds: f64) -> String {
        format!("{:.*}", self.digits, seconds * self.in_a_second)
    }
}

fn plus_minus(summary: &Summary) -> String {
    format!("{:.3} ± {:.3}", summary.mean, summary.ci95)
}

fn percent(share: &Summary) -> String {
    format!("{:.1} ± {:.1} %", share.mean * 100.0, share.ci95 * 100.0)
}

/// A ratio as a gain in percent, marked where its interval does not exclude that there is none.
pub fn gain(ratio: &RatioSummary) -> String {
    let mark = if ratio.excludes_one() {
        ""
    } else {
        " (within noise)"
    };
    format!(
        "{:+.1} % [{:+.1}, {:+.1}]{mark}",
        percent_more(ratio.ratio),
        percent_more(ratio.low),
        percent_more(ratio.high)
    )
}

#[cfg(test)]
mod tests {
    use crate::evaluate::{evaluate, tests::measurement};

    #[test]
    fn the_table_reads_like_this() {
        insta::assert_snapshot!(super::render(&evaluate(measurement()).unwrap()));
    }

    #[test]
    fn the_table_of_a_timed_program_has_its_time() {
        let mut measured = measurement();
        let program = &mut measured.experiment.programs[0];
        program.synthetic = None;
        program.command = vec![String::from("hackbench")];
        program.time_label = Some(String::from("Total time:"));
        let alone = [program.name.clone()];
        measured.experiment.runs.retain(|run| *run == alone);
        measured.samples.retain(|sample| sample.run == alone);
        let evaluation = evaluate(measured).unwrap();
        insta::assert_snapshot!(super::render(&evaluation));
        // Results of before have no such field.
        let mut json = serde_json::to_value(&evaluation.runs[0]).unwrap();
        json.as_object_mut().unwrap().remove("time");
        let old: crate::evaluate::RunResult = serde_json::from_value(json).unwrap();
        assert_eq!(super::header(&old)[1], "1/s");
    }
}
