// SPDX-License-Identifier: GPL-2.0-only
//! Tells the crate which commit it is built from, for the results that it writes, and which changes to that.

use std::io::Write;
use std::process::{Command, Stdio};

/// What programs are built from, from the workspace's root.
const SOURCES: [&str; 6] = ["crates", "policy", "lab", "machines", "Cargo.toml", "Cargo.lock"];

fn main() {
    let root = format!(
        "{}/../..",
        std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")
    );
    for path in SOURCES.iter().chain(&[".git/HEAD", ".git/index"]) {
        println!("cargo:rerun-if-changed={root}/{path}");
    }
    let described = git(&root, &["describe", "--always", "--dirty", "--abbrev=12"]);
    let version = match described.map(|said| String::from_utf8_lossy(&said).trim().to_string()) {
        // Results of one commit with these changes, and with others, are not of the same code.
        Some(version) if version.ends_with("-dirty") => match hash_of_changes(&root) {
            Some(hash) => format!("{version}-{hash}"),
            None => version,
        },
        Some(version) => version,
        None => env!("CARGO_PKG_VERSION").to_string(),
    };
    println!("cargo:rustc-env=THREADWISE_VERSION={version}");
}

/// What git prints, if it is there and succeeds.
fn git(root: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git").current_dir(root).args(arguments).output();
    output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| output.stdout)
}

/// The first digits of the hash of all changes to sources since the commit, and of sources that git does not know yet.
fn hash_of_changes(root: &str) -> Option<String> {
    let diff = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--binary",
        "HEAD",
        "--",
    ];
    let mut changes = git(root, &[&diff[..], &SOURCES].concat())?;
    let list = ["ls-files", "-z", "--others", "--exclude-standard", "--"];
    let unknown = git(root, &[&list[..], &SOURCES].concat())?;
    for name in String::from_utf8_lossy(&unknown).split_terminator('\0') {
        changes.extend(name.bytes());
        // One that is gone by now is built by nobody.
        changes.extend(std::fs::read(format!("{root}/{name}")).unwrap_or_default());
    }
    let mut hasher = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    // It reads all before it prints, so neither waits for the other; the pipe is closed with what takes it.
    hasher.stdin.take()?.write_all(&changes).ok()?;
    let output = hasher.wait_with_output().ok()?;
    let hash = String::from_utf8_lossy(&output.stdout);
    hash.get(..8).map(String::from)
}
