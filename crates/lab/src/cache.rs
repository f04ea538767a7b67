// SPDX-License-Identifier: GPL-2.0-only
//! What is fetched and built once: the guest's kernel, other schedulers.

use std::env::var_os;
use std::path::PathBuf;

/// The folder that `make setup` and `make peers` fill: `$THREADWISE_CACHE`, or threadwise in the user's cache. None where no
/// variable tells.
pub fn cache_folder() -> Option<PathBuf> {
    let xdg = || Some(PathBuf::from(var_os("XDG_CACHE_HOME")?).join("threadwise"));
    let home = || Some(PathBuf::from(var_os("HOME")?).join(".cache/threadwise"));
    var_os("THREADWISE_CACHE")
        .map(PathBuf::from)
        .or_else(xdg)
        .or_else(home)
}
