// SPDX-License-Identifier: GPL-2.0-only
//! Who runs beside whom behind a last-level cache (`policy/pairing.h`).

mod ffi {
    use super::{Counts, Need, Pair, Reading};

    unsafe extern "C" {
        pub safe fn tw_is_whole(last: &Reading, now: &Reading) -> bool;
        pub safe fn tw_note_counts(need: &mut Need, counts: &Counts);
        pub safe fn tw_need_of_resident(resident_bytes: u64, cache_bytes: u64, nr_ready: u32) -> u32;
        pub safe fn tw_pairing_gain(pair: &Pair) -> u64;
    }
}

/// What tells how much of a last-level cache tasks need, so that those that need much are paired with those that need
/// little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PairingBy {
    /// Hardware counters where there are any, else resident sets
    #[default]
    Auto,
    /// Instructions and misses of the last-level cache, by hardware counters
    Counters,
    /// CPU time and page faults, by counters that every kernel has: for whoever wants to see counters at work without any
    Faults,
    /// The program's resident set against the size of the cache
    Resident,
    /// Nothing: tasks are not paired
    Off,
}

/// What counters said since they were last looked at (`struct tw_counts`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// That were executed.
    pub instructions: u64,
    /// Of the last-level cache.
    pub misses: u64,
}

/// What a task needs of a last-level cache (`struct tw_need`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Need {
    since: Counts,
    need: u32,
    known: bool,
}

impl Need {
    /// The most, `TW_NEED_ONE`.
    pub const ONE: u32 = 1 << 16;

    /// Takes new counts into the average.
    pub fn note(&mut self, counts: &Counts) {
        ffi::tw_note_counts(self, counts);
    }

    /// Up to [`Self::ONE`]; 0 while nothing is known.
    pub fn need(&self) -> u32 {
        self.need
    }

    /// What the resident set of a program with so many ready threads tells of each of them.
    pub fn of_resident(resident_bytes: u64, cache_bytes: u64, nr_ready: u32) -> u32 {
        ffi::tw_need_of_resident(resident_bytes, cache_bytes, nr_ready)
    }
}

/// What a counter read, and for how long it was to count and did, in nanoseconds (`struct tw_reading`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Reading {
    /// The count.
    pub counter: u64,
    /// How long it was to count.
    pub enabled_ns: u64,
    /// How long it did.
    pub running_ns: u64,
}

impl Reading {
    /// Whether the counter counted all the time from this reading to a later one.
    pub fn is_whole_until(&self, now: &Self) -> bool {
        ffi::tw_is_whole(self, now)
    }
}

/// Two tasks that run behind different caches (`struct tw_pair`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pair {
    /// What the one needs.
    pub own_need: u32,
    /// What the other needs.
    pub other_need: u32,
    /// What all behind the first one's cache need, itself included.
    pub own_sum: u64,
    /// The same of the other.
    pub other_sum: u64,
}

impl Pair {
    /// By how much an exchange of the two brings the sums closer; 0 if it is not worth it.
    pub fn gain(&self) -> u64 {
        ffi::tw_pairing_gain(self)
    }
}
