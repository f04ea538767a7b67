// SPDX-License-Identifier: GPL-2.0-only
//! Whether the command that a page prints repeats the run that the page is about.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use serde_json::{Value, json};
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::Label;
use threadwise_report::{Record, repeat};

use crate::{Command, Options, lab, sim};

/// Every run that is kept in the repository.
fn kept() -> Vec<(PathBuf, Record)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs");
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let record = Record::from_file(&path).unwrap();
            (path, record)
        })
        .collect()
}

/// What a shell makes of a command.
fn words(command: &str) -> Vec<String> {
    let printed = std::process::Command::new("sh")
        .args(["-c", &format!("printf '%s\\0' {command}")])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    printed.split_terminator('\0').map(String::from).collect()
}

/// What the command would carry out, were its file the record's.
fn experiment(words: &[String], record: &Record) -> Experiment {
    let text = &record.manifest.experiment_text;
    let read = || Experiment::from_toml(text, "experiment.toml".as_ref()).unwrap();
    let parsed = Options::try_parse_from(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    match (parsed.command, record.measurement.label) {
        (Command::Lab(lab::Command::Run(options)), Label::Lab) => {
            let mut experiment = options.experiment.changed(read(), true).unwrap();
            options.change(&mut experiment).unwrap();
            experiment
        }
        (Command::Sim(sim::Command::Run(options)), Label::Simulated) => {
            let mut experiment = options.experiment.changed(read(), false).unwrap();
            options.change(&mut experiment).unwrap();
            experiment
        }
        _ => panic!("{words:?} is of another kind"),
    }
}

/// What a command line can say of an experiment.
fn said(experiment: &Experiment) -> Value {
    let programs = experiment.programs.iter().map(|program| {
        let synthetic = program.synthetic.as_ref().map(|of| of.phase_units);
        synthetic.or(program.stages.as_ref().map(|of| of.phase_units))
    });
    let schedulers = experiment.schedulers.iter().map(|scheduler| &scheduler.name);
    json!({
        "runs": experiment.runs,
        "rounds": experiment.rounds,
        "seconds": experiment.seconds,
        "seed": experiment.seed,
        "mips": [experiment.mips, experiment.lab_mips],
        "same_phases": experiment.same_phases,
        "phase_units": programs.collect::<Vec<_>>(),
        "machine": experiment.machine,
        "schedulers": schedulers.collect::<Vec<_>>(),
        "caches": experiment.caches,
        "without": experiment.without,
    })
}

#[test]
fn the_command_on_a_page_repeats_every_kept_run() {
    let kept = kept();
    assert!(kept.len() > 50, "{} runs", kept.len());
    for (path, record) in kept {
        let command = repeat::command(&record);
        let again = experiment(&words(&command), &record);
        assert_eq!(
            said(&again),
            said(&record.measurement.experiment),
            "{}: {command}",
            path.display()
        );
    }
}

#[test]
fn options_without_a_value_are_known() {
    let known = BTreeSet::from(repeat::WITHOUT_VALUE.map(String::from));
    let mut command = Options::command();
    command.build();
    let mut found = BTreeSet::new();
    for kind in ["lab", "sim"] {
        let run = command
            .find_subcommand(kind)
            .and_then(|kind| kind.find_subcommand("run"));
        let options = run
            .unwrap()
            .get_arguments()
            .filter(|option| !option.is_positional());
        let without = options.filter(|option| option.get_num_args().is_none_or(|nr| nr.min_values() == 0));
        found.extend(without.filter_map(|option| Some(format!("--{}", option.get_long()?))));
    }
    assert_eq!(found, known);
}
