// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel tells schedulers of cgroups (CONFIG_EXT_GROUP_SCHED), and what is left out if it does not.

use std::ptr;

use anyhow::{Context, Result};
use scx_utils::compat;

use crate::bpf_skel::OpenBpfSkel;

/// Whether the running kernel has the hooks.
pub fn are_told_of() -> Result<bool> {
    compat::struct_has_field("sched_ext_ops", "cgroup_init").context("cannot read the kernel's BTF")
}

/// The flag by which kernels before 6.18 learn that cpu.weight counts; later ones have none.
pub fn flags() -> u64 {
    compat::read_enum("scx_ops_flags", "SCX_OPS_HAS_CGROUP_WEIGHT").unwrap_or(0)
}

/// Loads nothing that has to do with cgroups.
pub fn leave_out(skel: &mut OpenBpfSkel<'_>) {
    let ops = skel.struct_ops.threadwise_ops_mut();
    ops.cgroup_init = ptr::null_mut();
    ops.cgroup_exit = ptr::null_mut();
    ops.cgroup_move = ptr::null_mut();
    ops.cgroup_set_weight = ptr::null_mut();
    ops.cgroup_set_idle = ptr::null_mut();
    skel.progs.threadwise_cgroup_init.set_autoload(false);
    skel.progs.threadwise_cgroup_exit.set_autoload(false);
    skel.progs.threadwise_cgroup_move.set_autoload(false);
    skel.progs.threadwise_cgroup_set_weight.set_autoload(false);
    skel.progs.threadwise_cgroup_set_idle.set_autoload(false);
}
