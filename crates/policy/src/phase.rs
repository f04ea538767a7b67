// SPDX-License-Identifier: GPL-2.0-only
//! Which phase a program is in (`policy/phase.h`).

use std::sync::atomic::{AtomicU32, Ordering};

mod ffi {
    use super::Group;

    unsafe extern "C" {
        pub safe fn tw_unstamp(stamp: u32, now: u64) -> u64;
        pub safe fn tw_ready_add(group: &Group) -> u32;
        pub safe fn tw_ready_sub(group: &Group) -> u32;
        pub safe fn tw_is_counted(nr_threads: u32, serial_threshold: u32) -> bool;
        pub safe fn tw_phase_began(nr_ready: u32, serial_threshold: u32) -> bool;
        pub safe fn tw_phase_begin(group: &Group, now_ns: u64, vtime_now: u64, senior_lost: u32);
        pub safe fn tw_phase_age_ns(group: &Group, now_ns: u64) -> u64;
        pub safe fn tw_phase_ended(nr_ready: u32, serial_threshold: u32) -> bool;
    }
}

/// A thread group: its ready threads, and when and at which vtime it became parallel (`struct tw_group`). May be shared between
/// threads: C gets it by a shared reference where it changes it, too, for its words are atomics here, and each is changed there by one
/// instruction.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Group {
    nr_ready: AtomicU32,
    pub(crate) lost: AtomicU32,
    began: AtomicU32,
    base: AtomicU32,
}

impl Group {
    /// A thread became runnable. Returns how many are ready after it.
    pub fn add(&self) -> u32 {
        ffi::tw_ready_add(self)
    }

    /// A thread is no longer runnable. Returns how many are ready after it.
    pub fn sub(&self) -> u32 {
        ffi::tw_ready_sub(self)
    }

    /// How many threads are ready now.
    pub fn nr_ready(&self) -> u32 {
        self.nr_ready.load(Ordering::SeqCst)
    }

    /// It became parallel now, at this current vtime, both in nanoseconds, while the senior program, or the last one, has lost
    /// so much.
    pub fn begin(&self, now_ns: u64, vtime_now: u64, senior_lost: u32) {
        ffi::tw_phase_begin(self, now_ns, vtime_now, senior_lost)
    }

    /// Names the parallel phase that began last.
    pub fn phase(&self) -> u32 {
        self.began.load(Ordering::SeqCst)
    }

    /// The vtime at which it began, seen from the current one.
    pub fn base(&self, vtime_now: u64) -> u64 {
        ffi::tw_unstamp(self.base.load(Ordering::SeqCst), vtime_now)
    }

    /// For how many nanoseconds it has gone on.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        ffi::tw_phase_age_ns(self, now_ns)
    }
}

/// Whether the ready threads of a program with so many threads are counted at all.
pub fn is_counted(nr_threads: u32, serial_threshold: u32) -> bool {
    ffi::tw_is_counted(nr_threads, serial_threshold)
}

/// Whether the thread that made it so many ready threads began a parallel phase.
pub fn phase_began(nr_ready: u32, serial_threshold: u32) -> bool {
    ffi::tw_phase_began(nr_ready, serial_threshold)
}

/// Whether the thread whose sleep left so many ready threads ended a parallel phase.
pub fn phase_ended(nr_ready: u32, serial_threshold: u32) -> bool {
    ffi::tw_phase_ended(nr_ready, serial_threshold)
}
