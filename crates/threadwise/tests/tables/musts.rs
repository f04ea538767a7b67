// SPDX-License-Identifier: GPL-2.0-only
//! That simulations, and runs in the lab that are kept, show what the files of their experiments say they must.

use std::path::Path;
use std::process::Command;

use threadwise_lab::evaluate::Evaluation;
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::Label;
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
        let of_file = Experiment::from_file(Path::new(&file)).unwrap();
        // What must be of all runs need not be of some.
        let is_whole = experiment.runs == of_file.runs;
        let counts = of_file
            .musts
            .into_iter()
            .filter(|must| is_whole || must.run.is_some());
        experiment.musts = counts.collect();
        let findings = record.evaluate().unwrap().findings;
        for finding in &findings {
            assert!(finding.holds, "{name}: {finding}");
        }
        assert!(!is_whole || !findings.is_empty(), "{name}: nothing is looked at");
        nr_held += findings.len();
    }
    assert!(nr_held >= 50, "{nr_held} in all kept runs");
}

#[test]
fn simulations_show_what_their_files_say_they_must() {
    let mut nr_simulated = 0;
    for entry in std::fs::read_dir(format!("{REPOSITORY}/experiments")).unwrap() {
        let path = entry.unwrap().path();
        let of_file = Experiment::from_file(&path).unwrap();
        // Of what differs between rounds two say little.
        let rounds = if of_file.same_phases { of_file.rounds } else { 2 };
        let output = Command::new(env!("CARGO_BIN_EXE_threadwise"))
            .args(["sim", "run", "--no-store", "--format", "json", "--rounds"])
            .arg(rounds.to_string())
            .arg(&path)
            .current_dir(REPOSITORY)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("can be simulated") {
            continue;
        }
        assert!(output.status.success(), "{}: {said}", path.display());
        let evaluation: Evaluation = serde_json::from_slice(&output.stdout).unwrap();
        for finding in &evaluation.findings {
            assert!(finding.holds, "{}: {finding}", path.display());
        }
        let musts = evaluation.measurement.experiment.musts.iter();
        let of_both = musts.filter(|must| must.only != Some(Label::Lab)).count();
        assert!(
            of_both > 0 && of_both == evaluation.findings.len(),
            "{}",
            path.display()
        );
        nr_simulated += 1;
    }
    assert!(nr_simulated >= 20, "{nr_simulated}");
}
