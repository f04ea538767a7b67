// SPDX-License-Identifier: GPL-2.0-only
//! Tasks behind one cache or two, at once or one after the other.

use serde_json::Value;

use super::{kept, measured, more, of_all, of_samples};

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

/// What the lab's model of caches says of reads whose misses are known, in shares of what the program reads.
pub fn model_error() -> String {
    let [all, some] = ["lab-cache-model-all", "lab-cache-model"].map(measured);
    let rows = [
        ("random 2M", "0"),
        ("random 3584K", "0"),
        ("random 4M", "0"),
        ("random 5M", "0.200"),
        ("random 8M", "0.500"),
        ("random 16M", "0.750"),
        ("chase 2M", "0"),
        ("chase 8M", "1"),
        ("sequential 2M", "0"),
        ("sequential 8M", "1"),
    ];
    let row = |(program, exact): (&str, &str)| {
        let [all, some] = [&all, &some].map(|result| {
            let shares = missed_of_read(result, program);
            let end = |of: fn(f64, f64) -> f64| shares.iter().copied().reduce(of).unwrap();
            format!("{:.3} to {:.3}", end(f64::min), end(f64::max))
        });
        format!("| {program} | {exact} | {all} | {some} |\n")
    };
    let rows = rows.map(row).concat();
    format!("| order, working set | exact | all sets modelled | one in 16 |\n|---|---|---|---|\n{rows}")
}

/// From the start of programs to when the lab counts what they do to caches, in seconds (`STARTING` in crates/lab/src/guest.rs).
const STARTING_S: f64 = 0.1;

/// Misses over reads of the program, by its rate, in each round.
fn missed_of_read(result: &Value, program: &str) -> Vec<f64> {
    let seconds = result["measurement"]["experiment"]["seconds"].as_f64().unwrap() - STARTING_S;
    of_samples(result, |sample| {
        let reads = sample["performance"][0].as_f64().unwrap() * seconds;
        let is_it = sample["run"][0] == program;
        is_it.then(|| sample["caches"]["misses"].as_f64().unwrap() / reads)
    })
}

/// What an emulated CPU gets done as fast as the host can, in shares of what it does where no caches are modelled.
pub fn model_cost() -> String {
    let [none, costs @ ..] = ["none", "64", "16", "1"].map(|of| measured(&format!("lab-cache-cost-{of}")));
    let speed = |result: &Value, program: &str| {
        let speeds = of_samples(result, |sample| {
            let [instructions, seconds] = ["instructions", "host_s"].map(|key| sample[key].as_f64().unwrap());
            (sample["run"][0] == program).then_some(instructions / seconds)
        });
        of_all(&speeds)
    };
    let row = |program: &str| {
        let without = speed(&none, program);
        let share = |result: &Value| format!(" {:.2} |", speed(result, program) / without);
        let shares: String = costs.iter().map(share).collect();
        format!("| {program} | {:.0} |{shares}\n", without / 1e6)
    };
    let rows = ["arithmetic", "arithmetic that reads", "sequential 2M"]
        .map(row)
        .concat();
    format!(
        "| | not modelled: million instructions a second | one set in 64 | one in 16 | all |\n|---|---|---|---|---|\n{rows}"
    )
}
