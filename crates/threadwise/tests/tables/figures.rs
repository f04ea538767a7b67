// SPDX-License-Identifier: GPL-2.0-only
//! Figures that `scripts/figures` measured and that are in the repository.

use serde_json::Value;
use threadwise_metrics::Summary;

use super::{REPOSITORY, interval};

/// The lines of a file of tests/runs.
pub fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{REPOSITORY}/tests/runs/{name}.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What a packet takes in each program.
pub fn packets() -> String {
    let row = |of: &Value| {
        let figure = |key: &str| of[key].as_f64().unwrap();
        let (program, instructions) = (of["program"].as_str().unwrap(), figure("instructions"));
        format!(
            "| {program} | {instructions:.0} | {:.2} | {:.2} |\n",
            figure("first"),
            // A difference of runs: none may come out a little less.
            figure("last").max(0.0)
        )
    };
    let rows: String = lines("packets").iter().map(row).collect();
    format!(
        "| program | instructions | reads that miss the first level | the last |\n|---|---|---|---|\n{rows}"
    )
}

/// Millions of events that are simulated in a second: 95 % limits.
pub fn speed() -> String {
    let all = lines("speed");
    let machines = ["8 CPUs, 16 tasks", "64 CPUs, 640 tasks", "1024 CPUs, 10000 tasks"];
    let cell = |scheduler: &str, machine: &str| {
        let is_it = |of: &&Value| of["scheduler"] == scheduler && of["machine"] == machine;
        let limits = &all.iter().find(is_it).unwrap()["events_per_s"];
        let [low, high] = [0, 1].map(|at| limits[at].as_f64().unwrap() / 1e6);
        format!(" {low:.2} to {high:.2} |")
    };
    let row = |scheduler: &str| {
        let cells = machines.map(|machine| cell(scheduler, machine)).concat();
        format!("| {scheduler} |{cells}\n")
    };
    let rows = ["threadwise", "kernel", "round robin"].map(row).concat();
    format!(
        "| scheduler | {} |\n|---|---|---|---|\n{rows}",
        machines.join(" | ")
    )
}

/// What the assignment that was chosen in the lab gets done, and what others do.
pub fn placement() -> String {
    let lines = lines("placement");
    let choice = &lines[0];
    let done = |of: &Value| {
        let performance = of["performance"].as_array().unwrap();
        let performance: Vec<f64> = performance.iter().map(|run| run.as_f64().unwrap()).collect();
        let done = Summary::of(&performance).unwrap();
        format!("{:.0} ± {:.0}", done.mean, done.ci95)
    };
    let row = |of: &Value| {
        format!(
            "| {} | {} | {} |\n",
            of["name"].as_str().unwrap(),
            done(of),
            interval(&of["gain"])
        )
    };
    let rows: String = choice["baselines"].as_array().unwrap().iter().map(row).collect();
    format!(
        "| against | performance | chosen ({}) over it |\n|---|---|---|\n{rows}",
        done(choice)
    )
}
