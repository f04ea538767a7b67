// SPDX-License-Identifier: GPL-2.0-only
//! What each boost is worth in a real kernel: `experiments/mechanisms.toml`, of which docs/results/pairs.md has all of.

use serde_json::Value;

use super::{alone, json, threadwise};

/// Two programs of a kind under a scheduler: what they get done over the kernel's scheduler.
fn gain(result: &Value, scheduler: &str, program: &str) -> f64 {
    let schedulers = result["measurement"]["experiment"]["scheduler"]
        .as_array()
        .unwrap();
    let nth = schedulers.iter().position(|of| of["name"] == scheduler).unwrap();
    let runs = result["runs"].as_array().unwrap();
    let pair = runs
        .iter()
        .find(|run| run["run"][0] == program && run["run"][1] == format!("{program} b"));
    pair.unwrap()["schedulers"][nth]["over_baseline"]["ratio"]
        .as_f64()
        .unwrap()
}

#[test]
#[ignore = "long: make test FULL=1"]
fn threads_that_spin_need_seniority_and_half_serial_programs_both_boosts() {
    let _guests = alone();
    let result = json(
        threadwise()
            .args(["lab", "run", "experiments/mechanisms.toml", "--no-store"])
            .args(["--rounds", "2", "--seconds", "1", "--format", "json"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
    );
    let of = |scheduler: &str, program: &str| gain(&result, scheduler, program);
    assert!(of("threadwise", "spinning") > 1.15, "{result}");
    assert!(of("no seniority", "spinning") < 1.0, "{result}");
    for without in ["no serial boost", "no seniority", "neither"] {
        let (with, less) = (of("threadwise", "1:1"), of(without, "1:1"));
        assert!(with > less + 0.03, "{with}, {less} with {without}");
    }
}
