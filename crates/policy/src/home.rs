// SPDX-License-Identifier: GPL-2.0-only
//! The last-level cache in which a program is at home (`policy/home.h`).

mod ffi {
    use super::{Llc, Stay};

    unsafe extern "C" {
        pub safe fn tw_keeps_home(nr_ready: u32, nr_cores: u32) -> bool;
        pub safe fn tw_spill(home: u32, llc: u32, same_package: bool, nr_ready: u32, nr_cores: u32) -> u32;
        pub safe fn tw_founds_home(nr_others: u32) -> bool;
        pub safe fn tw_counts_at_home(stay: &Stay, bound: bool) -> bool;
        pub safe fn tw_moves_home(home: &Llc, here: &Llc, nr_ready: u32, bound: bool) -> bool;
        pub safe fn tw_home_gain(own: &Stay, other: &Stay) -> u32;
        pub safe fn tw_leaves_cache(woke: bool, waits_ns: u64) -> bool;
    }
}

/// Who lost its CPU waits for so long there before it leaves its last-level cache (`TW_LEAVES_CACHE_NS`).
pub const LEAVES_CACHE_NS: u64 = 500_000;

/// Whether a program with so many ready threads is kept in the last-level cache with so many cores in which it is at home.
pub fn keeps_home(nr_ready: u32, nr_cores: u32) -> bool {
    ffi::tw_keeps_home(nr_ready, nr_cores)
}

/// Of a program that takes last-level caches in no order (`TW_SPILL_NONE`).
pub const SPILL_NONE: u8 = 63;

/// The place, up to 63, of a last-level cache in the order in which a program with so many ready threads takes those that have
/// idle CPUs, the least first; its home, if it has one, has so many cores. Caches are numbers from 0.
pub fn spill(home: Option<usize>, llc: usize, same_package: bool, nr_ready: u32, nr_cores: u32) -> u8 {
    let number = |llc: usize| llc as u32 + 1;
    let home = home.map_or(0, number);
    ffi::tw_spill(home, number(llc), same_package, nr_ready, nr_cores) as u8
}

/// Whether the last-level cache to which a thread goes becomes its program's home, of which so many are ready beside it.
pub fn founds_home(nr_others: u32) -> bool {
    ffi::tw_founds_home(nr_others)
}

/// A last-level cache (`struct tw_llc`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Llc {
    /// Its CPUs.
    pub nr_cpus: u32,
    /// How many of the tasks that run are at home here, wherever they are.
    pub nr_at_home: u32,
}

impl Llc {
    /// Whether a program with so many ready threads, one of them at `here` and bound to its CPU or not, moves there from this
    /// home.
    pub fn is_left_for(&self, here: &Self, nr_ready: u32, is_bound: bool) -> bool {
        ffi::tw_moves_home(self, here, nr_ready, is_bound)
    }
}

/// Where a task is, and where its program is at home (`struct tw_stay`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stay {
    /// A last-level cache, plus one, or 0.
    home: u32,
    here: u32,
}

impl Stay {
    /// A task in the last-level cache `here`, whose program is at home there, elsewhere or nowhere.
    pub fn new(home: Option<usize>, here: usize) -> Self {
        let plus_one = |llc: usize| llc as u32 + 1;
        Self {
            home: home.map_or(0, plus_one),
            here: plus_one(here),
        }
    }

    /// Whether the task, bound to its CPU or not, counts at its home.
    pub fn counts_at_home(&self, is_bound: bool) -> bool {
        ffi::tw_counts_at_home(self, is_bound)
    }

    /// How many of two tasks of different caches come home if they change places; 0 if that drives one from home.
    pub fn gain(&self, other: &Self) -> u32 {
        ffi::tw_home_gain(self, other)
    }
}

/// Whether a task that has waited for so long goes to an idle CPU behind another last-level cache.
pub fn leaves_cache(woke: bool, waits_ns: u64) -> bool {
    ffi::tw_leaves_cache(woke, waits_ns)
}
