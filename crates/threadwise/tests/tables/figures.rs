// SPDX-License-Identifier: GPL-2.0-only
//! Figures that `scripts/figures` measured and that are in the repository.

use serde_json::Value;

use super::REPOSITORY;

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
