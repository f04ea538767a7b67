// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks of different last-level caches change places, and how often (`policy/exchange.h`).

use crate::{Pair, Stay};

mod ffi {
    use super::{Pair, Rest, Stay};

    unsafe extern "C" {
        pub safe fn tw_native_may_gain(stay: &Stay, need: u32) -> u32;
        pub safe fn tw_native_exchange_gain(own: &Stay, other: &Stay, pair: &Pair) -> u64;
        pub safe fn tw_native_may_change(rest: &Rest, now_ns: u64) -> u32;
        pub safe fn tw_native_note_change(rest: &mut Rest, now_ns: u64);
        pub safe fn tw_native_exchange_every_ns() -> u64;
        pub safe fn tw_native_exchange_gap_ns() -> u64;
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
        ffi::tw_native_may_change(self, now_ns) != 0
    }

    /// It does.
    pub fn note_change(&mut self, now_ns: u64) {
        ffi::tw_native_note_change(self, now_ns);
    }
}

/// How often the task of a CPU is looked at for an exchange, in nanoseconds.
pub fn exchange_every_ns() -> u64 {
    ffi::tw_native_exchange_every_ns()
}

/// The least time between two exchanges of a machine, in nanoseconds.
pub fn exchange_gap_ns() -> u64 {
    ffi::tw_native_exchange_gap_ns()
}

impl Stay {
    /// Whether the task, which needs so much of its cache, may have anything of an exchange.
    pub fn may_gain(&self, need: u32) -> bool {
        ffi::tw_native_may_gain(self, need) != 0
    }

    /// What it and another one gain that change places, by `pair` where they have no home.
    pub fn exchange_gain(&self, other: &Self, pair: &Pair) -> u64 {
        ffi::tw_native_exchange_gain(self, other, pair)
    }
}
