// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model`: what it prints, its schemas, and what it refuses.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::process::{Command, Output};

use serde_json::Value;

fn model(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_threadwise"))
        .arg("model")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

fn printed(arguments: &str) -> String {
    let output = model(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &str) -> Value {
    serde_json::from_str(&printed(&format!("{arguments} --format json"))).unwrap()
}

#[test]
fn tables_read_like_this() {
    let all = [
        "table 1 --cores 8 --asymmetry 3/2",
        "table 2 --cores 8",
        "table 3 --cores 8 --asymmetry 2",
        "table 4 --cores 8 --asymmetry 2 --apps 3",
        "table 5 --cores 8 --asymmetry 1.5",
        "table 6 --cores 8 --asymmetry 2 --apps 3",
    ];
    insta::assert_snapshot!(all.map(printed).join("\n"));
}

#[test]
fn equations_read_like_this() {
    let of_machines = (6..=23).map(|equation| format!("equation {equation} --cores 8 --asymmetry 3/2"));
    let of_values = [
        "equation 1 --cores 8 --values 64,2",
        "equation 2 --values 3/4,1",
        "equation 3 --values 0.5,0.8,0.4",
        "equation 4 --values 10,15,25",
        "equation 5 --values 2,4,4,4,5,5,7,9",
        "equation 16 --cores 8 --asymmetry 2 --apps 3",
    ];
    let all = of_values.map(str::to_owned).into_iter().chain(of_machines);
    let all: Vec<String> = all.map(|arguments| printed(&arguments)).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn pairs_and_means_read_like_this() {
    // Without seniority nothing is drawn.
    let pairs = printed("pairs --asymmetry 2 --policy serial-boost --baseline speeds-unknown");
    let one = printed("means --apps 1 --speeds 2x4,4x2,8x1");
    insta::assert_snapshot!([pairs, one].join("\n"));
}

#[test]
fn results_name_their_schema() {
    let table = json("table 1 --cores 8 --asymmetry 1.5");
    assert_eq!(table["schema"], "threadwise.model.table/1");
    let cell = &table["rows"][1]["cells"][1];
    assert_eq!(
        (&cell["column"], &cell["exact"]),
        (&"avg".into(), &"17/27".into())
    );
    assert_eq!(table["asymmetry"], "3/2");

    let equation = json("equation 16 --asymmetry 1.5");
    assert_eq!(equation["schema"], "threadwise.model.equation/1");
    assert_eq!(equation["values"][0]["exact"], "17/27");
    let jitter = json("equation 5 --values 2,4,4,4,5,5,7,9");
    assert_eq!(jitter["values"][0]["exact"], "4/25");
    assert_eq!(jitter["irrational"], 0.4);

    let pairs = json("pairs --policy serial-boost");
    assert_eq!(pairs["schema"], "threadwise.model.pairs/1");
    let all = pairs["pairs"].as_array().unwrap();
    assert_eq!(all.len(), 45);
    assert_eq!(all[0]["programs"], serde_json::json!(["inf:1", "inf:1"]));
    assert_eq!(all[0]["baseline"]["total"], 8.0);
    assert_eq!((&all[0]["most"], &all[44]["most"]), (&8.0.into(), &2.0.into()));
    let foreseen = json("pairs --policy clairvoyant --baseline seniority --asymmetry 2");
    let mut gains = foreseen["pairs"].as_array().unwrap().iter();
    assert!(gains.all(|pair| pair["gain"].as_f64().unwrap() > -1e-3));

    let means = json("means --apps 1");
    assert_eq!(means["schema"], "threadwise.model.means/1");
    assert_eq!(means["policies"][1]["nr_mixes"], 9);
    assert_eq!(means["policies"][5]["policy"], "clairvoyant");
    // A program alone has all that it can.
    assert!(means["most"]["gain"].as_f64().unwrap().abs() < 1e-9);
    assert_eq!(json("joint inf:1 1:inf --cores 4")["most"], 4.0);
}

#[test]
fn programs_together_are_predicted() {
    let policies = |arguments: &str| -> Vec<Value> {
        let joint = json(arguments);
        assert_eq!(joint["schema"], "threadwise.model.joint/2");
        joint["policies"].as_array().unwrap().clone()
    };
    let joint = policies("joint 1:1 1:1");
    let names: Vec<&str> = joint
        .iter()
        .map(|policy| policy["policy"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "speeds-unknown",
            "phases-unknown",
            "serial-boost",
            "seniority-alone",
            "seniority",
            "clairvoyant"
        ]
    );
    let gain = |policy: usize| joint[policy]["gain"].as_f64().unwrap();
    let idle = |policy: usize| joint[policy]["outcome"]["idle"].as_f64().unwrap();
    assert!(gain(5) > gain(4) && gain(4) > gain(2) && gain(2) > 0.005 && gain(1) == 0.0);
    assert!(idle(5) < idle(4) && idle(4) < idle(2) && idle(2) < idle(1));
    assert!(joint[1]["fairness"].as_f64().unwrap() > 0.98);
    // Where all cores are equal there are no speeds to know.
    assert_eq!(joint[0]["outcome"], joint[1]["outcome"]);

    let starved = policies("joint --cores 2 1:inf 1:inf 1:1");
    assert_eq!(
        starved[2]["fairness"], 0.0,
        "serial boost with as many serial programs as cores"
    );

    let phases = policies("joint --speeds 2x4,4x2,8x1 14x4/1x1 nx1/1x1");
    let ratios = policies("joint --speeds 8x1,2x4,4x2 4:1 1:1");
    let total = |policies: &[Value]| policies[4]["outcome"]["total"].as_f64().unwrap();
    assert!((total(&phases) - total(&ratios)).abs() < 1e-6);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, said) in [
        ("table 7", "no table 7"),
        ("table 2 --asymmetry 2", "equal cores"),
        ("table 1 --asymmetry 2.5", "1 (equal cores) to 2"),
        ("table 4 --apps 9", "2 to 8"),
        ("table 1 --asymmetry 1/0", "is no number"),
        ("table 1 --asymmetry 1.x", "is no number"),
        ("table 1 --apps 3", "4 and 6"),
        ("equation 24", "no equation 24"),
        ("equation 0 --values 1", "no equation 0"),
        ("equation 3", "--values"),
        ("equation 2 --values 1", "takes the performance together"),
        ("equation 3 --values 1,0", "each above 0"),
        ("equation 7 --values 1", "takes no values"),
        ("equation 16 --apps 1", "2 to 8"),
        ("equation 16 --cores 1", "1 cores are out of range"),
        ("joint 1:1 --cores 0", "0 cores"),
        ("joint 1:1 --asymmetry 1e6", "1 (equal cores) to 64"),
        ("joint 1:1 --speeds 2y1", "NUMBERxSPEED"),
        ("joint 1:1 --speeds 2x0", "above 0"),
        ("joint 1:1 --speeds 2x1 --cores 4", "cannot be used with"),
        ("joint 8x1/0x2", "is no phase"),
        ("joint", "required"),
        ("pairs --policy best", "possible values"),
        ("means --apps 5", "1 to 4"),
    ] {
        let wrong = model(arguments);
        assert_eq!(wrong.status.code(), Some(2), "{arguments}");
        let message = String::from_utf8_lossy(&wrong.stderr);
        assert!(message.contains(said), "{arguments}: {message}");
        assert!(wrong.stdout.is_empty(), "{arguments}");
    }
}
