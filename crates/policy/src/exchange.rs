// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks of different last-level caches change places, and how often (`policy/exchange.h`).

use crate::{Mode, Pair, Stay};

mod ffi {
    use super::{Mode, Pair, Rest, Stay};

    unsafe extern "C" {
        pub safe fn tw_pairs(mode: Mode, nr_llcs: u32, unequal: bool, nr_cpus: u32) -> bool;
        pub safe fn tw_looks_for_exchange(
            nr_cpus: u32,
            others_wait: bool,
            looked_ago_ns: u64,
            exchanged_ago_ns: u64,
        ) -> bool;
        pub safe fn tw_may_change(rest: &Rest, now_ns: u64) -> bool;
        pub safe fn tw_note_change(rest: &mut Rest, now_ns: u64);
        pub safe fn tw_may_gain(stay: &Stay, need: u32) -> bool;
        pub safe fn tw_exchange_gain(own: &Stay, other: &Stay, pair: &Pair) -> u64;
    }
}

/// When a task changed places last, and how often of late (`struct tw_rest`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Rest {
    since_ns: u64,
    nr: u32,
}

impl Rest {
    /// Whether it may change places again.
    pub fn may_change(&self, now_ns: u64) -> bool {
        ffi::tw_may_change(self, now_ns)
    }

    /// It does.
    pub fn note_change(&mut self, now_ns: u64) {
        ffi::tw_note_change(self, now_ns);
    }
}

/// Whether tasks are paired by what they need of caches in this mode, on a machine of so many last-level caches and CPUs, of which
/// some are faster or none.
pub fn pairs(mode: Mode, nr_llcs: usize, unequal: bool, nr_cpus: usize) -> bool {
    let [nr_llcs, nr_cpus] = [nr_llcs, nr_cpus].map(|nr| u32::try_from(nr).unwrap_or(u32::MAX));
    ffi::tw_pairs(mode, nr_llcs, unequal, nr_cpus)
}

/// Whether a CPU that keeps its task looks for an exchange, on a machine of so many CPUs, where tasks wait or not: its last look
/// and the machine's last exchange are so many nanoseconds ago.
pub fn looks_for_exchange(
    nr_cpus: usize,
    others_wait: bool,
    looked_ago_ns: u64,
    exchanged_ago_ns: u64,
) -> bool {
    let nr_cpus = u32::try_from(nr_cpus).unwrap_or(u32::MAX);
    ffi::tw_looks_for_exchange(nr_cpus, others_wait, looked_ago_ns, exchanged_ago_ns)
}

impl Stay {
    /// Whether the task, which needs so much of its cache, may have anything of an exchange.
    pub fn may_gain(&self, need: u32) -> bool {
        ffi::tw_may_gain(self, need)
    }

    /// What it and another one gain that change places, by `pair` where they have no home.
    pub fn exchange_gain(&self, other: &Self, pair: &Pair) -> u64 {
        ffi::tw_exchange_gain(self, other, pair)
    }
}
