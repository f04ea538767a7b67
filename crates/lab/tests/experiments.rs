// SPDX-License-Identifier: GPL-2.0-only
//! The programs that experiment files name, and what the guest gets of them.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use threadwise_lab::experiment::Experiment;
use threadwise_lab::image::Image;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn experiments() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("experiments")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_openmp_programs_that_they_name_are_there() {
    let mut nr_named = 0;
    for file in experiments() {
        for program in Experiment::from_file(&file).unwrap().programs {
            let Some(name) = program.command.first().and_then(|name| name.strip_prefix("omp-")) else {
                continue;
            };
            let source = repository().join(format!("workloads/openmp/{name}.c"));
            assert!(source.is_file(), "{}: omp-{name}", file.display());
            nr_named += 1;
        }
    }
    assert!(nr_named >= 22, "{nr_named}");
}

#[test]
fn the_guest_gets_an_openmp_program_with_its_libraries() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    let stencil = out.join("omp-stencil");
    let made = Command::new("make")
        .arg("-C")
        .arg(repository().join("workloads/openmp"))
        .args([format!("OUT={}", out.display()), stencil.display().to_string()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut image = Image::default();
    image.add_program("omp-stencil", &stencil).unwrap();
    let archive = out.join("image.cpio");
    image.write(&archive).unwrap();
    let listed = Command::new("cpio")
        .arg("-t")
        .stdin(File::open(&archive).unwrap())
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for file in ["bin/omp-stencil", "libgomp.so.1", "libc.so.6"] {
        assert!(
            listed.lines().any(|line| line.ends_with(file)),
            "{file}: {listed}"
        );
    }
}

#[test]
fn every_experiment_says_what_it_must_show() {
    for path in experiments() {
        let experiment = Experiment::from_file(&path).unwrap();
        assert!(!experiment.musts.is_empty(), "{} has no [[must]]", path.display());
    }
}
