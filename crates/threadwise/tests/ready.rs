// SPDX-License-Identifier: GPL-2.0-only
//! Ready threads over time, of programs whose phases are known.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::process::{Command, Output};

use serde_json::Value;

fn trace(format: &str, program: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_threadwise"))
        .args(["bench", "ready-threads", "--format", format, "--"])
        .args(program)
        .output()
        .unwrap()
}

/// The series of the benchmark with four threads, and its own report.
fn of_benchmark(ratio: &str) -> (Value, Value) {
    let line =
        format!("bench synthetic --ratio {ratio} --threads 4 --phase-ms 20 --duration 1.5 --format json");
    let mut program = vec![env!("CARGO_BIN_EXE_threadwise")];
    program.extend(line.split(' '));
    let output = trace("json", &program);
    let [series, report] = [&output.stdout, &output.stderr].map(|text| serde_json::from_slice(text).unwrap());
    (series, report)
}

/// The share of time in which more than one thread was ready, and that of the parallel phases by the program itself.
fn parallel_shares(ratio: &str) -> (f64, f64) {
    let (series, report) = of_benchmark(ratio);
    let shares = series["share_of_time"].as_array().unwrap().iter();
    let seen: f64 = shares.skip(2).map(|share| share.as_f64().unwrap()).sum();
    let seconds = |name: &str| report[name].as_f64().unwrap();
    let parallel_s = seconds("parallel_s");
    let known = parallel_s / (parallel_s + seconds("serial_s"));
    (seen, known)
}

#[test]
fn serial_and_parallel_phases_are_seen_as_they_are() {
    // What is measured besides: calibration, 0.1 s of one thread; and the end of a phase, when the last thread is alone.
    for ratio in ["inf:1", "1:1", "1:4", "1:inf"] {
        // A host that is busy has threads meet late, who are alone for longer then: it is looked at again.
        let mut looks = (0..5).map(|_| parallel_shares(ratio));
        let is_near = |(seen, known): (f64, f64)| (seen - known).abs() < 0.2;
        assert!(looks.any(is_near), "{ratio}: not as known in five looks");
    }
}

#[test]
fn a_series_is_printed_for_people_and_for_programs() {
    let text = trace("text", &["sleep", "0.1"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("threads ready on the mean"));
    let csv = trace("csv", &["sleep", "0.1"]);
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert!(
        csv.starts_with("at_ns,ready\n") && csv.lines().count() > 10,
        "{csv}"
    );
    let failed = trace("csv", &["sh", "-c", "sleep 0.1; exit 3"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("3"));
    let missing = trace("csv", &["/no/such/program"]);
    assert_eq!(missing.status.code(), Some(2));
}
