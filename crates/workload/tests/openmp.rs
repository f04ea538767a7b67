// SPDX-License-Identifier: GPL-2.0-only
//! The OpenMP programs of workloads/openmp: built here, so that no stale one is tested.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

/// Name, a small size, and iterations that cross a restart where the program has one.
const PROGRAMS: [(&str, &str, &str); 9] = [
    ("stencil", "10", "200"),
    ("cg", "24", "90"),
    ("fft", "32", "35"),
    ("nbody", "60", "40"),
    ("sort", "5000", "3"),
    ("image", "70", "4"),
    ("compress", "100", "2"),
    ("lu", "70", "7"),
    ("build", "300", "3"),
];

/// Where they are.
static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    let made = Command::new("make")
        .args([
            "-C",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/openmp"),
        ])
        .arg(format!("OUT={}", out.display()))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    out
});

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(BUILT.join(format!("omp-{program}")))
        .args(arguments)
        // Whoever spins takes the CPU that the tests beside this one need.
        .env("OMP_WAIT_POLICY", "passive")
        .output()
        .unwrap()
}

fn report(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_result_depends_neither_on_threads_nor_on_the_schedule() {
    for (program, size, iterations) in PROGRAMS {
        let run = |threads: &str, schedule: &str| {
            let how = ["--threads", threads, "--schedule", schedule];
            report(&run(
                program,
                &[&how[..], &["--size", size, "--iterations", iterations]].concat(),
            ))
        };
        let alone = run("1", "static");
        assert_eq!(alone["verified"], true);
        assert_eq!(alone["rounds"].as_u64().unwrap().to_string(), iterations);
        for (threads, schedule) in [("2", "static"), ("3", "dynamic"), ("1", "dynamic")] {
            let team = run(threads, schedule);
            for same in ["checksum", "work_units", "rounds"] {
                assert_eq!(team[same], alone[same], "{program} {same} {threads} {schedule}");
            }
        }
    }
}

#[test]
fn a_wrong_result_is_no_result() {
    // nbody's energy tells of one body among few only.
    for (program, size, iterations) in PROGRAMS.into_iter().chain([("nbody", "1000", "1")]) {
        let spoilt = run(
            program,
            &["--size", size, "--iterations", iterations, "--inject-fault"],
        );
        let complaint = String::from_utf8_lossy(&spoilt.stderr).into_owned();
        assert_eq!(spoilt.status.code(), Some(1), "{program}: {complaint}");
        assert!(
            complaint.contains("wrong") && spoilt.stdout.is_empty(),
            "{complaint}"
        );
    }
}

#[test]
fn the_input_depends_on_the_seed() {
    let of = |seed: &str| {
        let output = run("sort", &["--size", "99", "--iterations", "1", "--seed", seed]);
        report(&output)["checksum"].clone()
    };
    assert!(of("1") == of("1") && of("1") != of("7"));
}

#[test]
fn the_report_says_how_it_ran() {
    let output = Command::new(BUILT.join("omp-stencil"))
        .args(["--threads", "2", "--seconds", "0.2", "--size", "400"])
        .env("OMP_WAIT_POLICY", "active")
        .output()
        .unwrap();
    let report = report(&output);
    let number = |name: &str| report[name].as_f64().unwrap();
    assert_eq!(
        (&report["schema"], &report["wait"]),
        (&"threadwise.program/1".into(), &"active".into())
    );
    assert!(number("duration_s") >= 0.2 && number("rounds") >= 1.0);
    let rate = number("work_units") / number("duration_s");
    assert!((number("work_units_per_s") / rate - 1.0).abs() < 1e-6);
    let phases = number("parallel_s") + number("serial_s");
    assert!((phases / number("duration_s") - 1.0).abs() < 1e-6);
}

#[test]
fn verification_is_not_timed() {
    // After the first of 19 blocks, the rest of the matrix is factored for the verification.
    let report = report(&run(
        "lu",
        &["--threads", "1", "--size", "300", "--iterations", "1"],
    ));
    let number = |name: &str| report[name].as_f64().unwrap();
    assert!(
        number("parallel_s") + number("serial_s") <= number("duration_s") * (1.0 + 1e-6),
        "{report}"
    );
}

#[test]
fn nonsense_is_refused() {
    for (arguments, named) in [
        (&["--threads", "0"][..], "--threads 0"),
        (&["--seconds", "nan"], "--seconds nan"),
        (&["--size", "48"], "a power of two"),
        (&["--size", "1x"], "from 4 to 8192"),
        (&["--schedule", "guided"], "static or dynamic"),
        (&["now"], "unexpected now"),
        (&["--wrong"], "--help"),
    ] {
        let output = run("fft", arguments);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(complaint.contains(named), "{complaint}");
    }
    // The words by which the lab knows that a program was loaded too late.
    let late = run("fft", &["--start-at-ns", "1", "--iterations", "1", "--size", "4"]);
    let complaint = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(
        late.status.code() == Some(1)
            && complaint.contains("the start time 1 ns")
            && complaint.contains("is past")
    );
}
