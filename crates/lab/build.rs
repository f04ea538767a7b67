// SPDX-License-Identifier: GPL-2.0-only
//! Tells the crate which commit it is built from, for the results that it writes.

use std::path::Path;
use std::process::Command;

fn main() {
    // It changes with every commit and checkout.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    } else {
        println!("cargo:rerun-if-changed=build.rs");
    }
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let version = match described {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        _ => env!("CARGO_PKG_VERSION").to_string(),
    };
    println!("cargo:rustc-env=THREADWISE_VERSION={version}");
}
