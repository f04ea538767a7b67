// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling decisions of `policy/` for Rust: the C headers that the BPF program includes,
//! compiled natively.
//!
//! Nothing is decided or re-implemented here. [`Group`] counts ready threads and tells the phase;
//! [`Tunables`] has the ordering. What the functions mean stands in `policy/phase.h` and `policy/order.h`.

use std::sync::atomic::{AtomicU64, Ordering};

mod ffi {
    use super::{Task, Tunables};

    unsafe extern "C" {
        pub fn tw_native_ready_add(group: *mut u64) -> u64;
        pub fn tw_native_ready_sub(group: *mut u64) -> u64;
        pub safe fn tw_native_class_of(
            ready: u64,
            bound_kernel_thread: u32,
            senior: u32,
            tun: &Tunables,
        ) -> u32;
        pub safe fn tw_native_vtime_charge(vtime: u64, ran_ns: u64, weight: u32) -> u64;
        pub safe fn tw_native_vtime_bound(vtime: u64, now: u64, class: u32, woke: u32, tun: &Tunables)
        -> u64;
        pub safe fn tw_native_key(task: &Task, tun: &Tunables) -> u64;
        pub safe fn tw_native_preempts(waking: &Task, running: &Task, tun: &Tunables) -> u32;
        pub safe fn tw_native_yields(running: &Task, waiting_key: u64, tun: &Tunables) -> u32;
    }
}

/// The ready threads of a thread group (`struct tw_group`). May be shared between threads.
#[derive(Debug, Default)]
pub struct Group(AtomicU64);

impl Group {
    /// A thread became runnable. Returns how many are ready after it.
    pub fn add(&self) -> u64 {
        // SAFETY: the pointer is valid, and the callee changes it with one atomic instruction.
        unsafe { ffi::tw_native_ready_add(self.0.as_ptr()) }
    }

    /// A thread is no longer runnable. Returns how many are ready after it.
    pub fn sub(&self) -> u64 {
        // SAFETY: as in `add`.
        unsafe { ffi::tw_native_ready_sub(self.0.as_ptr()) }
    }

    /// How many threads are ready now.
    pub fn nr_ready(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a task is to the ordering (`enum tw_class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Class {
    /// A kernel thread bound to its CPU.
    Kernel = 0,
    /// A thread of a program in its serial phase.
    Serial = 1,
    /// A thread of the parallel program that goes before the others.
    Senior = 2,
    /// A thread of another program in its parallel phase.
    Parallel = 3,
}

impl TryFrom<u64> for Class {
    type Error = u64;

    /// From the number that `enum tw_class` gives it; any other number is returned as the error.
    fn try_from(class: u64) -> Result<Self, u64> {
        [Self::Kernel, Self::Serial, Self::Senior, Self::Parallel]
            .into_iter()
            .find(|known| *known as u64 == class)
            .ok_or(class)
    }
}

/// A task as the ordering sees it (`struct tw_task`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// Weighted run time, in nanoseconds; wraps.
    pub vtime: u64,
    /// Its class.
    pub class: Class,
}

/// The policy's settings (`struct tw_tunables`), times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tunables {
    /// How long a task runs before those who wait are considered.
    pub slice_ns: u64,
    /// How far a task may be ahead of a waiting one before it yields.
    pub rotate_ns: u64,
    /// How far ahead of its vtime a serial task is placed.
    pub serial_boost_ns: u64,
    /// The same for a task of the senior parallel program.
    pub senior_boost_ns: u64,
    /// How far behind the current vtime a waking task may be, and a serial one ahead.
    pub vtime_window_ns: u64,
    /// How far from the current vtime any task may be.
    pub vtime_lag_ns: u64,
    /// At most so many ready threads, and the thread group is serial.
    pub serial_threshold: u32,
}

impl Tunables {
    /// The class of a task, a kernel thread bound to its CPU or not, of the senior program or another, in a group with so
    /// many ready threads.
    pub fn class_of(&self, nr_ready: u64, bound_kernel_thread: bool, senior: bool) -> Class {
        let class =
            ffi::tw_native_class_of(nr_ready, u32::from(bound_kernel_thread), u32::from(senior), self);
        Class::try_from(u64::from(class)).expect("tw_class_of returns a class")
    }

    /// The vtime, kept near the vtime `now`; with less credit for a task that woke up.
    pub fn vtime_bound(&self, vtime: u64, now: u64, class: Class, woke: bool) -> u64 {
        ffi::tw_native_vtime_bound(vtime, now, class as u32, u32::from(woke), self)
    }

    /// The task's position among those who wait: the smaller goes first.
    pub fn key(&self, task: &Task) -> u64 {
        ffi::tw_native_key(task, self)
    }

    /// Whether a task that became ready takes the CPU of a running one.
    pub fn preempts(&self, waking: &Task, running: &Task) -> bool {
        ffi::tw_native_preempts(waking, running, self) != 0
    }

    /// Whether a task at the end of its slice makes way for one that was queued with `waiting_key`.
    pub fn yields(&self, running: &Task, waiting_key: u64) -> bool {
        ffi::tw_native_yields(running, waiting_key, self) != 0
    }
}

/// The vtime after running for `ran_ns` with a weight of 1 to 10000, where 100 is a nice-0 task.
pub fn vtime_charge(vtime: u64, ran_ns: u64, weight: u32) -> u64 {
    ffi::tw_native_vtime_charge(vtime, ran_ns, weight)
}
