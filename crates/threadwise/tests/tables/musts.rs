// SPDX-License-Identifier: GPL-2.0-only
//! That simulations, and runs in the lab that are kept, show what the files of their experiments say they must.

use std::path::Path;
use std::process::Command;

use threadwise_lab::experiment::Experiment;
use threadwise_report::Record;

use super::REPOSITORY;

#[test]
fn kept_runs_show_what_their_files_say_they_must() {
    let mut nr_held = 0;
    for entry in std::fs::read_dir(format!("{REPOSITORY}/tests/runs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("lab-") {
            continue;
        }
        let mut record = Record::from_file(&path).unwrap();
        let experiment = &mut record.measurement.experiment;
        let file = format!("{REPOSITORY}/experiments/{}.toml", experiment.name);
        if !Path::new(&file).exists() {
            // It was measured before there was --schedulers; docs/results/pairs.md says so.
            assert_eq!(name, "lab-pairs-20ms-fast.json");
            continue;
        }
        experiment.musts = Experiment::from_file(Path::new(&file)).unwrap().musts;
        let findings = record.evaluate().unwrap().must;
        let broken: Vec<_> = findings.iter().filter(|finding| !finding.holds).collect();
        assert!(broken.is_empty(), "{name}: {broken:#?}");
        nr_held += findings.len();
    }
    assert!(nr_held >= 40, "{nr_held} in all kept runs");
}

#[test]
fn simulations_show_what_their_files_say_they_must() {
    let mut nr_simulated = 0;
    for entry in std::fs::read_dir(format!("{REPOSITORY}/experiments")).unwrap() {
        let path = entry.unwrap().path();
        let output = Command::new(env!("CARGO_BIN_EXE_threadwise"))
            .args(["sim", "run", "--rounds", "2", "--strict", "--no-store"])
            .arg(&path)
            .current_dir(REPOSITORY)
            .output()
            .unwrap();
        let [out, err] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        match output.status.code() {
            Some(0) => nr_simulated += 1,
            Some(2) if err.contains("can be simulated") => {}
            _ => panic!("{}: {out}{err}", path.display()),
        }
    }
    assert!(nr_simulated >= 20, "{nr_simulated}");
}
