// SPDX-License-Identifier: GPL-2.0-only
//! What the policy knows of a task, and the settings by which it decides (`policy/task.h`).

mod ffi {
    use super::Tunables;

    unsafe extern "C" {
        pub safe fn tw_class_of(
            nr_ready: u32,
            bound_kernel_thread: bool,
            senior: bool,
            tun: &Tunables,
        ) -> u32;
        pub safe fn tw_here_ns(ago_ns: u64) -> u32;
        pub safe fn tw_waits_us(waits_ns: u64) -> u32;
    }
}

/// The capacity of the fastest CPU.
pub const CAPACITY_ONE: u32 = 1024;

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
    /// How long ago it came to the CPU on which it runs, in nanoseconds ([`here_ns`]).
    pub here_ns: u32,
    /// Its class.
    pub class: Class,
    /// Tasks that wait in the queue of its CPU.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`crate::boost_left`]), or 0 ([`Tunables::goes_unboosted`]).
    pub boost_left: u32,
    /// How long it has been waiting, in microseconds ([`waits_us`]); 0 if it runs.
    pub waits_us: u32,
    /// How far it may run ahead of one that waits before it yields, in nanoseconds ([`Tunables::step`]).
    pub step_ns: u32,
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
    /// How long a serial task has a CPU before it makes way for another serial one.
    pub serial_turn_ns: u64,
    /// How far ahead of its vtime a task of the senior parallel program is placed.
    pub senior_boost_ns: u64,
    /// How long a program is the senior one while others compete.
    pub senior_turn_ns: u64,
    /// How far behind the current vtime a waking task may be, and a serial one ahead.
    pub vtime_window_ns: u64,
    /// How far from the current vtime a task may be, alone on its CPU.
    pub vtime_lag_ns: u64,
    /// At most so many ready threads, and the thread group is serial.
    pub serial_threshold: u32,
    /// As many tasks waiting in a queue, beyond the second, halve a boost twice; 1 to 65535.
    pub boost_shares: u32,
}

impl Tunables {
    /// The class of a task, a kernel thread bound to its CPU or not, of the senior program or another, in a group with so
    /// many ready threads.
    pub fn class_of(&self, nr_ready: u32, bound_kernel_thread: bool, senior: bool) -> Class {
        let class = ffi::tw_class_of(nr_ready, bound_kernel_thread, senior, self);
        Class::try_from(u64::from(class)).expect("tw_class_of returns a class")
    }
}

/// What [`Task::here_ns`] says of a task that came to its CPU so many nanoseconds ago: a second at most.
pub fn here_ns(ago_ns: u64) -> u32 {
    ffi::tw_here_ns(ago_ns)
}

/// What a [`Task`] says of a wait of so many nanoseconds, in microseconds: an hour at most.
pub fn waits_us(waits_ns: u64) -> u32 {
    ffi::tw_waits_us(waits_ns)
}
