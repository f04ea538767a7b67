// SPDX-License-Identifier: GPL-2.0-only
//! The command line without a guest: exit status, messages, schemas.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::process::{Command, Output};

fn threadwise(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_threadwise"))
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_explains_itself() {
    for command in [
        &["topo"][..],
        &["bench", "synthetic"],
        &["lab", "run"],
        &["lab", "exec"],
    ] {
        let output = threadwise(&[command, &["--help"]].concat());
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Usage: threadwise"), "{command:?}");
    }
}

#[test]
fn topo_shows_the_zoo_and_names_what_is_wrong() {
    let tree = threadwise(&["topo", "--machine", "amp-8"]);
    assert!(
        tree.status.success() && text(&tree.stdout).contains("512"),
        "{}",
        text(&tree.stdout)
    );
    let json = threadwise(&["topo", "--machine", "package:2 core:2 pu:2", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["schema"], "threadwise.topo/1");
    let wrong = threadwise(&["topo", "--machine", "package:2 core:0"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).starts_with("threadwise: ") && text(&wrong.stderr).contains("core:0"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn bench_reports_as_json() {
    let output = threadwise(&[
        "bench",
        "synthetic",
        "--ratio",
        "1:1",
        "--threads",
        "2",
        "--phase-units",
        "100",
        "--duration",
        "0.2",
        "--format",
        "json",
    ]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "threadwise.bench.synthetic/1");
    assert!(report["work_units"].as_u64().unwrap() > 0);
}

#[test]
fn experiments_that_cannot_be_run_are_refused_before_booting() {
    let missing = threadwise(&["lab", "run", "/no/such/experiment.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/no/such/experiment.toml"));
    let folder = tempfile::tempdir().unwrap();
    let no_kernel = Command::new(env!("CARGO_BIN_EXE_threadwise"))
        .args([
            "lab",
            "run",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/two-apps.toml"),
        ])
        .env("THREADWISE_CACHE", folder.path())
        .output()
        .unwrap();
    assert_eq!(no_kernel.status.code(), Some(2));
    assert!(
        text(&no_kernel.stderr).contains("make setup"),
        "{}",
        text(&no_kernel.stderr)
    );
}

#[test]
fn every_experiment_file_is_sound() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 3);
    for file in files {
        let experiment = threadwise_lab::experiment::Experiment::from_file(&file).unwrap();
        assert_eq!(
            Some(experiment.name.as_str()),
            file.file_stem().and_then(|stem| stem.to_str())
        );
        threadwise_machine::Machine::load(&experiment.machine).unwrap();
    }
}
