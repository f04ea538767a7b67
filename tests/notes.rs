// SPDX-License-Identifier: GPL-2.0-only
//! What people should know of tests that passed: `make test` prints it at the end.

use std::fs::File;
use std::io::Write;

/// Notes what was skipped, or done again, and why, in the file that THREADWISE_TEST_NOTES names, or shows it at once.
#[allow(clippy::explicit_write)] // what eprintln! says the test harness shows for failures only
pub fn note(what: &str) {
    match std::env::var_os("THREADWISE_TEST_NOTES") {
        Some(path) => {
            let mut file = File::options().create(true).append(true).open(path).unwrap();
            writeln!(file, "{what}").unwrap();
        }
        None => writeln!(std::io::stderr(), "{what}").unwrap(),
    }
}
