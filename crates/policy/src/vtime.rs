// SPDX-License-Identifier: GPL-2.0-only
//! How much a task has had (`policy/vtime.h`).

use crate::{Class, Group, Task, Tunables};

mod ffi {
    use super::{Class, Group, Run, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_vtime_charge(vtime: u64, ran_ns: u64, weight: u32, capacity: u32) -> u64;
        pub safe fn tw_find_origin(
            run: &mut Run,
            group: &Group,
            seen: u32,
            ready_ns: u64,
            slept: bool,
            now_ns: u64,
            serial_threshold: u32,
        );
        pub safe fn tw_vtime_bound(
            vtime: u64,
            run: &Run,
            now: u64,
            class: Class,
            woke: bool,
            tun: &Tunables,
        ) -> u64;
        pub safe fn tw_vtime_advance(vtime: u64, run: &Run, now: u64, class: Class, tun: &Tunables) -> u64;
        pub safe fn tw_vtime_most(vtime: u64, run: &Run, now: u64) -> u64;
        pub safe fn tw_is_beside_others(running: &Task, others_wait: bool) -> bool;
        pub safe fn tw_clock(
            now: u64,
            running: &Task,
            weight: u32,
            light_ago_ns: u64,
            others_wait: bool,
            tun: &Tunables,
        ) -> u64;
    }
}

/// From when on what a task ran counts, beside what its vtime was charged for (`enum tw_origin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// All that it ran since it was charged.
    Charge = 0,
    /// It slept since.
    Waking = 1,
    /// It starts with its program's parallel phase.
    Phase = 2,
}

impl TryFrom<u64> for Origin {
    type Error = u64;

    /// From the number that `enum tw_origin` gives it; any other number is returned as the error.
    fn try_from(from: u64) -> Result<Self, u64> {
        [Self::Charge, Self::Waking, Self::Phase]
            .into_iter()
            .find(|known| *known as u64 == from)
            .ok_or(from)
    }
}

/// What a task ran since its vtime was last brought up to date (`struct tw_run`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Run {
    /// Before it last slept, if it did, in nanoseconds.
    pub before_ns: u64,
    /// Since then, or since the phase began, or all of it, in nanoseconds.
    pub since_ns: u64,
    /// 1 to 10000, where 100 is nice 0.
    pub weight: u32,
    /// Of the CPU that it ran on, [`crate::CAPACITY_ONE`] for the fastest.
    pub capacity: u32,
    /// Tasks that wait in the queue of its CPU.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`crate::boost_left`]).
    pub boost_left: u32,
    /// From when on it counts.
    pub origin: Origin,
    /// 1 if it is serial and has no boost all the same ([`Tunables::goes_unboosted`]).
    pub unboosted: u32,
    /// 1 if tasks wait anywhere.
    pub others_wait: u32,
}

impl Run {
    /// From when on it counts, of which `since_ns` is all so far: for a task that was charged in the phase `seen`, has been ready
    /// for `ready_ns`, and slept since or not.
    pub fn find_origin(
        &mut self,
        group: &Group,
        seen: u32,
        ready_ns: u64,
        slept: bool,
        now_ns: u64,
        serial_threshold: u32,
    ) {
        ffi::tw_find_origin(self, group, seen, ready_ns, slept, now_ns, serial_threshold);
    }
}

impl Tunables {
    /// The vtime, kept near the vtime `now`; with less credit for a task that woke up.
    pub fn vtime_bound(&self, vtime: u64, run: &Run, now: u64, class: Class, woke: bool) -> u64 {
        ffi::tw_vtime_bound(vtime, run, now, class, woke, self)
    }

    /// The vtime brought up to date, kept near the vtime `now`; from where its phase began, if it starts with that.
    pub fn vtime_advance(&self, vtime: u64, run: &Run, now: u64, class: Class) -> u64 {
        ffi::tw_vtime_advance(vtime, run, now, class, self)
    }

    /// The current vtime, `now`, after this task of this weight ([`crate::weight_among`]) was found running, so many nanoseconds after it last
    /// followed a light one, and others wait anywhere or not.
    pub fn clock(&self, now: u64, running: &Task, weight: u32, light_ago_ns: u64, others_wait: bool) -> u64 {
        ffi::tw_clock(now, running, weight, light_ago_ns, others_wait, self)
    }
}

/// The vtime after running for `ran_ns` on a CPU of this capacity with a weight of 1 to 10000, where 100 is a nice-0
/// task.
pub fn vtime_charge(vtime: u64, ran_ns: u64, weight: u32, capacity: u32) -> u64 {
    ffi::tw_vtime_charge(vtime, ran_ns, weight, capacity)
}

/// A vtime beyond which no task comes ([`Tunables::vtime_advance`]) that was charged up to `vtime` and ran so since, but one
/// that starts with a phase.
pub fn vtime_most(vtime: u64, run: &Run, now: u64) -> u64 {
    ffi::tw_vtime_most(vtime, run, now)
}

/// Whether a running task, while others wait anywhere or not, is beside others, so that the mean weight and the clock go by it.
pub fn is_beside_others(running: &Task, others_wait: bool) -> bool {
    ffi::tw_is_beside_others(running, others_wait)
}
