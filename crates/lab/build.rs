// SPDX-License-Identifier: GPL-2.0-only
//! Tells the crate which commit it is built from, for the results that it writes, and which changes to that.

use std::io::Write;
use std::process::{Command, Stdio};

/// What programs are built from, from the workspace's root.
const SOURCES: [&str; 6] = ["crates", "policy", "lab", "machines", "Cargo.toml", "Cargo.lock"];

/// What lies beside it and is in no program: a run can be gone on with after a test was changed.
const BESIDE: [&str; 3] = [
    ":(exclude,glob)crates/*/tests/**",
    ":(exclude,glob)crates/*/benches/**",
    ":(exclude,glob)crates/*/examples/**",
];

fn main() {
    let root = format!(
        "{}/../..",
        std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")
    );
    for path in SOURCES.iter().chain(&[".git/HEAD", ".git/index"]) {
        println!("cargo:rerun-if-changed={root}/{path}");
    }
    let commit = git(&root, &["describe", "--always", "--abbrev=12"]);
    let version = match commit.map(|said| String::from_utf8_lossy(&said).trim().to_string()) {
        // Results of one commit with these changes, and with others, are not of the same code.
        Some(commit) => match changes(&root).map(|changes| hash_of(&changes)) {
            Some(hash) => format!("{commit}-dirty-{hash}"),
            None => commit,
        },
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

/// All changes to sources since the commit, and sources that git does not know yet, if there are any. What git's user prefers
/// makes no difference.
fn changes(root: &str) -> Option<Vec<u8>> {
    let diff = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-renames",
        "--binary",
        "--full-index",
        "--unified=3",
        "--diff-algorithm=myers",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "HEAD",
        "--",
    ];
    let mut changes = git(root, &[&diff[..], &SOURCES, &BESIDE].concat())?;
    let list = ["ls-files", "-z", "--others", "--exclude-standard", "--"];
    let unknown = git(root, &[&list[..], &SOURCES, &BESIDE].concat())?;
    for name in String::from_utf8_lossy(&unknown).split_terminator('\0') {
        changes.extend(name.bytes());
        // One that is gone by now is built by nobody.
        changes.extend(std::fs::read(format!("{root}/{name}")).unwrap_or_default());
    }
    (!changes.is_empty()).then_some(changes)
}

/// The first digits of the hash that git has for such a file; nothing without git, which was there a moment ago.
fn hash_of(changes: &[u8]) -> String {
    let hasher = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let hash = hasher.and_then(|mut hasher| {
        // It reads all before it prints, so neither waits for the other; the pipe is closed with what takes it.
        if let Some(mut input) = hasher.stdin.take() {
            input.write_all(changes)?;
        }
        hasher.wait_with_output()
    });
    let hash = hash.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&hash).chars().take(8).collect()
}
