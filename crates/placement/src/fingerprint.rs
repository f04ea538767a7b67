// SPDX-License-Identifier: GPL-2.0-only
//! Which build of a program was measured.

use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;

/// The length and the 64-bit FNV-1a hash of an executable: equal for equal files, wherever they are. A program without
/// a slash is sought as the shell seeks it. What it loads (libraries, scripts, data) is not looked at.
///
/// # Errors
/// It is not there, or may not be read.
pub fn fingerprint(program: &str) -> io::Result<String> {
    let bytes = std::fs::read(find(program))?;
    let mut hasher = FnvHasher::default();
    hasher.write(&bytes);
    Ok(format!("{} bytes, {:016x}", bytes.len(), hasher.finish()))
}

fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || std::env::split_paths(&path).map(|folder| folder.join(program));
    match program.contains('/') {
        true => None,
        false => in_path().find(|file| file.is_file()),
    }
    .unwrap_or_else(|| Path::new(program).into())
}
