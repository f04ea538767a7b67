// SPDX-License-Identifier: GPL-2.0-only
//! What threads weigh among those of other cgroups (`policy/cgroup.h`).

mod ffi {
    use super::Cgroup;

    unsafe extern "C" {
        pub safe fn tw_cgroup_ready_ns(ran_ns: u64, waited_ns: u64, elapsed_ns: u64) -> u64;
        pub safe fn tw_cgroup_begin(cgroup: &mut Cgroup, ready_sum: u64, load_sum: u64, elapsed_ns: u64);
        pub safe fn tw_cgroup_active_256(cgroup: &Cgroup) -> u64;
        pub safe fn tw_cgroup_nested(part_16m: u64, cgroup: &Cgroup, parent: &Cgroup) -> u64;
        pub safe fn tw_cgroup_share(part_16m: u64, total_256: u64, root: &Cgroup) -> u64;
        pub safe fn tw_cgroup_weight(nice_weight: u32, cgroup: &Cgroup, is_root: bool) -> u32;
    }
}

/// A cgroup as of the last look (`struct tw_cgroup`). Numbers of threads and weights have 8 bits after the point, the
/// share has 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cgroup {
    /// Its own threads that are ready on the mean.
    pub ready_256: u64,
    /// What these weigh by nice value.
    pub load_256: u64,
    /// Ready threads with those of the cgroups below it.
    pub below_256: u64,
    /// What shares what it gets.
    pub rivals_256: u64,
    /// What it gets; 0: not known yet.
    pub share_64k: u64,
    /// `cpu.weight`, 1 to 10000; 0: there is no such cgroup.
    pub weight: u32,
}

impl Cgroup {
    /// A new look begins, `elapsed_ns` after the last: for how many nanoseconds its own threads were ready since, and that
    /// times their weights.
    pub fn begin(&mut self, ready_sum: u64, load_sum: u64, elapsed_ns: u64) {
        ffi::tw_cgroup_begin(self, ready_sum, load_sum, elapsed_ns);
    }

    /// The weight with which it competes on the mean, with 8 bits after the point.
    pub fn active_256(&self) -> u64 {
        ffi::tw_cgroup_active_256(self)
    }

    /// A part of this cgroup's weight, as a part of its parent's.
    pub fn nested(&self, part_16m: u64, parent: &Self) -> u64 {
        ffi::tw_cgroup_nested(part_16m, self, parent)
    }

    /// The share that a part of the highest weights comes to below this root, when all that is ready weighs so much.
    pub fn share(&self, part_16m: u64, total_256: u64) -> u64 {
        ffi::tw_cgroup_share(part_16m, total_256, self)
    }

    /// The weight, 1 to 10000, of a thread whose nice value has this weight.
    pub fn weight_of(&self, nice_weight: u32, is_root: bool) -> u32 {
        ffi::tw_cgroup_weight(nice_weight, self, is_root)
    }
}

/// For how many nanoseconds a thread was ready of late that ran and waited for so long in `elapsed_ns`.
pub fn cgroup_ready_ns(ran_ns: u64, waited_ns: u64, elapsed_ns: u64) -> u64 {
    ffi::tw_cgroup_ready_ns(ran_ns, waited_ns, elapsed_ns)
}
