// SPDX-License-Identifier: GPL-2.0-only
//! What wake-ups, switches and messages cost in instructions, of runs of two lengths.

use serde_json::Value;

use super::{done_first, gain_cells, measured, more, names, of_all, of_samples, table};

/// What is counted: its name, the programs of two lengths, and how many more of it the longer one has.
type Counted = (&'static str, &'static str, &'static str, f64);

const SWITCHES: [Counted; 4] = [
    ("a wake-up of pipe, two CPUs", "pipe 4000", "pipe 12000", 16_000.0),
    ("both on one CPU", "one CPU 2000", "one CPU 6000", 8_000.0),
    (
        "one of the first messages among 40 threads",
        "messages 20",
        "messages 60",
        16_000.0,
    ),
    ("one of the later", "messages 60", "messages 240", 72_000.0),
];

/// Machines of so many CPUs, each of a run of its own, and what is counted there.
const CPUS: [&str; 4] = ["8", "16", "32", "64"];

fn wake_up(cpus: &'static str) -> Counted {
    (cpus, "pipe 1000", "pipe 4000", 6_000.0)
}

const TASKS: [Counted; 3] = [
    (
        "a message among 10 threads",
        "10 tasks, 100",
        "10 tasks, 400",
        7_500.0,
    ),
    (
        "a message among 400 threads",
        "400 tasks, 2",
        "400 tasks, 6",
        16_000.0,
    ),
    (
        "a message among 1,000 threads",
        "1000 tasks, 1",
        "1000 tasks, 3",
        20_000.0,
    ),
];

/// In each round, instructions of one.
fn of_one(result: &Value, scheduler: &Value, (_, short, long, nr): Counted) -> Vec<f64> {
    let instructions = |program: &str| {
        of_samples(result, |sample| {
            let is_it = sample["run"][0] == program && sample["scheduler"] == *scheduler;
            is_it.then(|| sample["instructions"].as_f64().unwrap())
        })
    };
    let (short, long) = (instructions(short), instructions(long));
    assert_eq!(short.len(), long.len());
    let of_round = |(short, long): (&f64, &f64)| (long - short) / nr;
    short.iter().zip(&long).map(of_round).collect()
}

/// With commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (first, rest) = digits.split_at(digits.len().saturating_sub(3));
    assert!(first.len() <= 3, "{digits} instructions of one");
    match first {
        "" => rest.to_owned(),
        _ => format!("{first},{rest}"),
    }
}

fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} to {}", grouped(least), grouped(most))
}

fn schedulers(result: &Value) -> Vec<&Value> {
    let all = result["measurement"]["experiment"]["scheduler"]
        .as_array()
        .unwrap();
    all.iter().map(|scheduler| &scheduler["name"]).collect()
}

/// How much more a scheduler needs than the first for what is counted: a wake-up, a switch, one of the first messages or
/// of the later, by that order.
pub fn over_first(result: &Value, nth: usize, scheduler: &str) -> f64 {
    over(result, scheduler, SWITCHES[nth])
}

/// The same of the leanest of four schedulers that are neither the kernel's nor ours.
pub fn leanest(result: &Value, nth: usize) -> f64 {
    let others = ["bpfland", "cosmos", "rusty", "lavd"].map(|other| over_first(result, nth, other));
    others.into_iter().fold(f64::INFINITY, f64::min)
}

/// The same of ours for a wake-up of pipe on 8, 16, 32 and 64 CPUs.
pub fn over_first_as_cpus_grow() -> [f64; 4] {
    CPUS.map(|cpus| over(&of_cpus(cpus), "threadwise", wake_up(cpus)))
}

fn over(result: &Value, scheduler: &str, counted: Counted) -> f64 {
    let of = |scheduler: &Value| of_all(&of_one(result, scheduler, counted));
    of(&scheduler.into()) / of(schedulers(result)[0])
}

fn of_cpus(cpus: &str) -> Value {
    measured(&format!("lab-growth-{cpus}-cpus"))
}

/// What one costs under a scheduler at least and at most, and on the mean over the first.
fn cell(result: &Value, scheduler: &Value, counted: Counted) -> String {
    let first = schedulers(result)[0];
    let own = of_one(result, scheduler, counted);
    let over = || {
        format!(
            ", {}",
            more(of_all(&own) / of_all(&of_one(result, first, counted)))
        )
    };
    let over = (scheduler != first).then(over);
    format!(" {}{} |", range(&own), over.unwrap_or_default())
}

/// A row for each scheduler: what each costs.
pub fn switches(result: &Value) -> String {
    by_scheduler(result, &SWITCHES)
}

/// The same of messages alone.
pub fn messages(result: &Value) -> String {
    by_scheduler(result, &SWITCHES[2..])
}

fn by_scheduler(result: &Value, all_counted: &[Counted]) -> String {
    let all = schedulers(result);
    let rows: String = names(result)
        .iter()
        .zip(&all)
        .map(|(name, scheduler)| {
            let cells: String = all_counted
                .iter()
                .map(|counted| cell(result, scheduler, *counted))
                .collect();
            format!("| {name} |{cells}\n")
        })
        .collect();
    let head: String = all_counted
        .iter()
        .map(|(name, ..)| format!(" {name} |"))
        .collect();
    format!(
        "| scheduler |{head}\n|{}\n{rows}",
        "---|".repeat(all_counted.len() + 1)
    )
}

/// A row for each number of CPUs: what a wake-up of pipe costs under each scheduler, and over the first.
pub fn growth_with_cpus() -> String {
    let results = CPUS.map(of_cpus);
    let rows = results
        .iter()
        .zip(CPUS)
        .map(|(result, cpus)| rows(result, &[wake_up(cpus)]));
    table("| CPUs |", &results[0], 0.., &rows.collect::<String>())
}

/// A row for each number of tasks: what a message costs under each scheduler, and over the first; last, how long all takes.
pub fn growth_with_tasks(of_tasks: &Value) -> String {
    let mut runs = of_tasks["runs"].as_array().unwrap().iter();
    let crowd = runs.find(|run| run["run"][0] == "10000 tasks, 2").unwrap();
    let seconds = 1.0 / done_first(crowd);
    let crowd = format!(
        "| 200,000 messages among 10,000 threads, in seconds and not in instructions | {seconds:.2} |{}\n",
        gain_cells(crowd)
    );
    let rows = rows(of_tasks, &TASKS) + &crowd;
    table("| instructions of |", of_tasks, 0.., &rows)
}

fn rows(result: &Value, all_counted: &[Counted]) -> String {
    let all = schedulers(result);
    let row = |counted: &Counted| {
        let cells = all.iter().map(|scheduler| cell(result, scheduler, *counted));
        format!("| {} |{}\n", counted.0, cells.collect::<String>())
    };
    all_counted.iter().map(row).collect()
}
