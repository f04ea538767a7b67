// SPDX-License-Identifier: GPL-2.0-only
//! The machine's clock (`lab/clock.h`), compiled natively beside one in QEMU's place, or without any.

#![allow(clippy::unwrap_used)] // a test that panics has failed

mod native;

use std::process::Command;
use std::time::{Duration, Instant};

/// A waiter that is left waiting would wait for ever.
const DEADLINE: Duration = Duration::from_secs(60);

/// What `clock.c` says, built with `defines`; nothing if all is well.
fn said(defines: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = native::compile(folder.path(), "clock", &[&["-pthread"], defines].concat());
    let output = folder.path().join("said");
    let mut running = Command::new(&program)
        .stdout(std::fs::File::create(&output).unwrap())
        .stderr(std::fs::File::options().append(true).open(&output).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if begun.elapsed() > DEADLINE {
            running.kill().unwrap();
            return String::from("somebody waits for ever");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = running.wait().unwrap();
    let said = std::fs::read_to_string(output).unwrap();
    assert!(status.success() || !said.is_empty(), "{status}");
    said
}

#[test]
fn time_goes_on_only_while_the_host_keeps_up_and_nobody_waits_for_ever() {
    assert_eq!(said(&["-DWITH_CLOCK=7"]), "");
}

#[test]
fn time_goes_on_where_qemu_has_no_clock_that_can_be_stopped() {
    assert_eq!(said(&[]), "");
    // Its words are not to be told apart: the clock's is that of the ticks.
    assert!(said(&["-DWITH_CLOCK=1"]).starts_with("corespeed: QEMU's clock is not where it was"));
}
