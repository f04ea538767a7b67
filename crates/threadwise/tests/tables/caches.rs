// SPDX-License-Identifier: GPL-2.0-only
//! Tasks behind one cache or two, at once or one after the other.

use serde_json::Value;

use super::{kept, more};

/// More work apart than together, in percent, or grouped than apart for programs that share memory; beside what the paper has.
pub fn packages() -> String {
    let options = [
        "--without acceleration",
        "--without acceleration --llc-kib 16384",
        "",
    ];
    let results = options.map(|options| kept("packages", options));
    let gain = |result: &Value, run: usize| {
        let of = |scheduler: usize| {
            let ratio = &result["runs"][run]["schedulers"][scheduler]["over_baseline"]["ratio"];
            ratio.as_f64().unwrap()
        };
        match run {
            SHARING => of(2) / of(1),
            _ => of(1),
        }
    };
    let papers = [
        ("hungry (SPECfp_rate)", "16 %"),
        ("medium (SPECjbb2005)", "13.2 %"),
        ("modest (SPECjbb2000)", "5.2 %"),
        ("no locality (IMDS)", "1 %"),
        ("sharing, grouped instead of apart (Table 2)", "10 and 7.5 %"),
    ];
    let rows: String = (0..papers.len())
        .map(|run| {
            let gains: Vec<String> = results.iter().map(|result| more(gain(result, run))).collect();
            format!(
                "| {} | {} | {} |\n",
                papers[run].0,
                papers[run].1,
                gains.join(" | ")
            )
        })
        .collect();
    let gains: Vec<f64> = (0..papers.len()).map(|run| gain(&results[0], run)).collect();
    assert!(
        gains[..4].is_sorted_by(|more, less| more >= less) && gains[SHARING] > 1.1,
        "not in the paper's order: {gains:?}"
    );
    format!(
        "| | paper | 4 MB | 16 MB | 4 MB, 3 GHz while the neighbour is idle |\n|---|---|---|---|---|\n{rows}"
    )
}

/// The run of programs that share memory.
const SHARING: usize = 4;
