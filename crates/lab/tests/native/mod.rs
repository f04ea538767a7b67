// SPDX-License-Identifier: GPL-2.0-only
//! Headers of the governor plugin in a program of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `tests/NAME.c` beside the headers in `lab/` into the folder.
pub fn compile(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let (program, here) = (folder.join(name), env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(format!("{here}/../../lab"))
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(format!("{here}/tests/{name}.c"))
        .status()
        .unwrap();
    assert!(compiled.success());
    program
}
