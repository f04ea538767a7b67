// SPDX-License-Identifier: GPL-2.0-only
//! One program after the other, where that gets more done than all at once (`policy/alternation.h`).

mod ffi {
    use super::{Alternation, Look as AlternationLook, PROGRAMS};

    unsafe extern "C" {
        pub safe fn tw_takes_turns(alt: &Alternation) -> bool;
        pub safe fn tw_held(alt: &Alternation) -> u32;
        pub safe fn tw_alternation_look_in(alt: &Alternation) -> u64;
        pub safe fn tw_alternate(alt: &mut Alternation, look: &AlternationLook);
        pub safe fn tw_exceed_cache(
            resident: &[u64; PROGRAMS],
            members: u32,
            cache_bytes: u64,
            was: bool,
        ) -> bool;
        pub safe fn tw_alternate_by_resident(alt: &mut Alternation, look: &AlternationLook, exceed: bool);
    }
}

/// Programs that have turns, at most (`TW_ALTERNATION_PROGRAMS`).
pub const PROGRAMS: usize = 4;

/// By what programs are found that get more done one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AlternateBy {
    /// Nothing: programs run beside each other
    #[default]
    Off,
    /// Trials where there are hardware counters, else nothing
    Auto,
    /// Trials: instructions done beside each other and one after the other, by hardware counters
    Counters,
    /// CPU time and page faults in place of those, by counters that every kernel has: for whoever wants to see trials without any
    Faults,
    /// Resident sets that exceed the cache together, while each fits: a hint, which nothing is tried by
    Resident,
}

/// What was done (`struct tw_work`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Work {
    /// Instructions of each program.
    pub of: [u64; PROGRAMS],
    /// Those of all tasks.
    pub machine: u64,
    /// Samples of counters.
    pub nr_samples: u64,
    /// Those of them that were lost.
    pub nr_lost: u64,
}

/// What is seen at a look (`struct tw_alternation_look`); sets of programs have a bit for each.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Look {
    /// The time.
    pub now_ns: u64,
    /// The programs that are there.
    pub members: u32,
    /// Those of them that have a ready thread.
    pub ready: u32,
    /// What was done since ever.
    pub done: Work,
}

/// Who has turns, and what is known of whether that pays (`struct tw_alternation`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Alternation {
    arrangement: u32,
    members: u32,
    turn: u32,
    absent: u32,
    nr_trials: u32,
    chosen: u32,
    turn_ends_ns: u64,
    ends_ns: u64,
    next_ns: u64,
    tried_ns: u64,
    began_ns: u64,
    from: Work,
    beside: Work,
}

impl Alternation {
    /// Time goes on, by counters.
    pub fn look(&mut self, look: &Look) {
        ffi::tw_alternate(self, look);
    }

    /// Time goes on, by resident sets: whether these exceed the cache.
    pub fn look_by_resident(&mut self, look: &Look, exceed: bool) {
        ffi::tw_alternate_by_resident(self, look, exceed);
    }

    /// Whether programs have turns.
    pub fn takes_turns(&self) -> bool {
        ffi::tw_takes_turns(self)
    }

    /// The programs that have to wait.
    pub fn held(&self) -> u32 {
        ffi::tw_held(self)
    }

    /// In how many nanoseconds it is to be looked at again.
    pub fn look_in_ns(&self) -> u64 {
        ffi::tw_alternation_look_in(self)
    }

    /// Trials since a program came or went.
    pub fn nr_trials(&self) -> u32 {
        self.nr_trials
    }
}

/// Whether resident sets exceed the cache together, or `was` so and still about is.
pub fn exceed_cache(resident: &[u64; PROGRAMS], members: u32, cache_bytes: u64, was: bool) -> bool {
    ffi::tw_exceed_cache(resident, members, cache_bytes, was)
}
