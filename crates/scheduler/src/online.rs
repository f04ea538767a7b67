// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs are online, as the kernel says at this moment.

use std::fs;

/// Whether a CPU is online; none if the kernel does not say, as of one that cannot go, or that is not there.
pub fn is_online(cpu: usize) -> Option<bool> {
    let state = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    Some(state.ok()?.trim() == "1")
}
