// SPDX-License-Identifier: GPL-2.0-only
//! Tells the crate which commit it is built from, for the results that it writes.

use std::process::Command;

fn main() {
    // Cargo runs this every time for a file that does not exist: a change anywhere makes the commit dirty.
    println!("cargo:rerun-if-changed=always");
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let version = match described {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => env!("CARGO_PKG_VERSION").to_string(),
    };
    println!("cargo:rustc-env=THREADWISE_VERSION={version}");
}
