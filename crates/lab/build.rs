// SPDX-License-Identifier: GPL-2.0-only
//! Tells the crate which commit it is built from, for the results that it writes.

use std::process::Command;

fn main() {
    // A commit, or a change to anything that programs are built from, which makes it dirty.
    let root = format!(
        "{}/../..",
        std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")
    );
    for path in ["crates", "policy", "lab", "Cargo.lock", ".git/HEAD", ".git/index"] {
        println!("cargo:rerun-if-changed={root}/{path}");
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
