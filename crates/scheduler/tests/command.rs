// SPDX-License-Identifier: GPL-2.0-only
//! The command line as far as it needs no kernel; the rest is in `crates/threadwise/tests/guest/`.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::process::Command;

/// Exit status, stdout, stderr.
fn scheduler(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_scx_threadwise"))
        .args(args)
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn it_says_what_it_is_and_what_its_statistics_mean() {
    let (status, out, _) = scheduler(&["--version"]);
    assert!(
        status == Some(0) && out.starts_with(concat!("scx_threadwise ", env!("CARGO_PKG_VERSION"))),
        "{out}"
    );
    let (status, out, _) = scheduler(&["--help-stats"]);
    assert_eq!(status, Some(0));
    // Those of the machine, then those of a program, each after its title.
    let (titles, fields): (Vec<&str>, Vec<&str>) = out
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| line.starts_with('['));
    assert_eq!(titles.len(), 2, "{out}");
    for line in &fields {
        let (name, meaning) = line.split_once(" : ").unwrap_or_else(|| panic!("{line}"));
        let kinds = ["(u64)", "(string)", "({u64:ProgramMetrics})"];
        assert!(
            kinds.iter().any(|kind| name.contains(kind)) && meaning.trim().len() > 10,
            "{line}"
        );
    }
    assert!(fields.len() > 20, "{out}");
}

#[test]
fn the_flags_that_schedulers_share_are_there() {
    let (_, out, _) = scheduler(&["--help"]);
    for flag in [
        "--slice-us",
        "--stats",
        "--monitor",
        "--exit-dump-len",
        "--verbose",
        "--version",
        "--help-stats",
        "--serial-threshold",
        "--programs",
    ] {
        assert!(out.contains(flag), "no {flag} in {out}");
    }
}

#[test]
fn wrong_values_are_refused_by_name() {
    for args in [
        ["--slice-us", "0"],
        ["--stats", "nan"],
        ["--monitor", "0"],
        ["--serial-threshold", "many"],
        ["--programs", "0"],
        ["--format", "xml"],
    ] {
        let (status, _, err) = scheduler(&args);
        assert!(status == Some(2) && err.contains(args[0]), "{args:?}: {err}");
    }
}
