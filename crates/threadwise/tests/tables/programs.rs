// SPDX-License-Identifier: GPL-2.0-only
//! Programs of other kinds, and the scheduler without its parts.

use serde_json::Value;

use super::{gain_of, kept, more, together};

/// Each pair under the kernel's scheduler and ours, as it is and without its boosts.
pub fn mechanisms(result: &Value) -> String {
    let schedulers = [
        "kernel",
        "threadwise",
        "no serial boost",
        "no seniority",
        "neither",
    ];
    let cell = |run: &Value, scheduler: usize| {
        let of = &run["schedulers"][scheduler];
        let gain = of["over_baseline"]["ratio"]
            .as_f64()
            .map(|ratio| more(ratio) + ", ");
        format!(
            " {}{:.3} |",
            gain.unwrap_or_default(),
            of["fairness"]["mean"].as_f64().unwrap()
        )
    };
    let row = |run: &Value| {
        let [one, other] = [0, 1].map(|nth| run["run"][nth].as_str().unwrap());
        let beside = if other == format!("{one} b") {
            "itself"
        } else {
            other
        };
        let cells: String = (0..schedulers.len())
            .map(|scheduler| cell(run, scheduler))
            .collect();
        format!("| {one} | {beside} |{cells}\n")
    };
    let gain = |pair: &str, scheduler: usize| {
        let run = together(result).find(|run| run["run"][0] == pair && run["run"][1] == format!("{pair} b"));
        run.unwrap()["schedulers"][scheduler]["over_baseline"]["ratio"]
            .as_f64()
            .unwrap()
    };
    for without in [2, 3, 4] {
        assert!(
            gain("1:1", 1) > gain("1:1", without) + 0.05,
            "{}",
            schedulers[without]
        );
    }
    assert!(
        gain("spinning", 1) > 1.15 && gain("spinning", 3) < 1.0,
        "seniority is nothing to threads that spin"
    );
    let rows: String = together(result).map(row).collect();
    format!(
        "| program | beside | {} |\n|---|---|---|---|---|---|---|\n{rows}",
        schedulers.join(" | ")
    )
}

/// Programs in each of whose stages some threads work.
pub fn stages() -> String {
    let result = kept("stages", "--rounds 8");
    let row = |run: &Value| {
        let names = run["run"].as_array().unwrap();
        let beside = match names.get(1).map(|name| name.as_str().unwrap()) {
            None => "nothing",
            Some("stages B") => "another",
            Some(name) => name,
        };
        let [kernel, ours] = [0, 1].map(|scheduler| &run["schedulers"][scheduler]);
        let of = |value: &Value, what: &str, key: &str| value[what][key].as_f64();
        let work = |value: &Value| {
            let [mean, half] = ["mean", "ci95"].map(|key| of(value, "total", key).unwrap() / 1000.0);
            format!("{mean:.1} ± {half:.1}")
        };
        let [idle, with] = [kernel, ours].map(|value| 100.0 * of(value, "idle", "mean").unwrap());
        let fairness = [kernel, ours].map(|value| of(value, "fairness", "mean"));
        let fairness = match fairness {
            [Some(kernel), Some(ours)] => format!("{kernel:.3}, {ours:.3}"),
            _ => String::new(),
        };
        format!(
            "| {beside} | {} | {} | {} | {idle:.1}, {with:.1} % | {fairness} |\n",
            work(kernel),
            work(ours),
            gain_of(ours)
        )
    };
    let runs = result["runs"].as_array().unwrap().iter();
    let of_stages = runs.filter(|run| run["run"][0] == "stages");
    let rows: String = of_stages.map(row).collect();
    format!(
        "| beside a program of stages | kernel | threadwise | gain | idle | fairness |\n|---|---|---|---|---|---|\n{rows}"
    )
}
