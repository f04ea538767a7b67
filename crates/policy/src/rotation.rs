// SPDX-License-Identifier: GPL-2.0-only
//! When a task that runs makes way for one that waits (`policy/rotation.h`).

use crate::{Class, Task, Tunables};

mod ffi {
    use super::{Class, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_slice(others_wait: bool, unequal: bool, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_slice_of(class: Class, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_slice_beside(class: Class, due_ns: u64, weight: u32, tun: &Tunables) -> u64;
        pub safe fn tw_goes_on_until_due(due_ns: u64, unequal: bool) -> bool;
        pub safe fn tw_step(class: Class, age_ns: u64, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_due_in(running: &Task, waiting: &Task, tun: &Tunables) -> u64;
        pub safe fn tw_yields(running: &Task, waiting: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_look_in(running: &Task, waiting: &Task, due_ns: u64, tun: &Tunables) -> u64;
    }
}

impl Tunables {
    /// How long a task runs before those who wait are considered, in nanoseconds, or before a faster CPU of an unequal machine is
    /// looked for.
    pub fn slice(&self, others_wait: bool, unequal: bool, look_ns: u64) -> u64 {
        ffi::tw_slice(others_wait, unequal, look_ns, self)
    }

    /// How long a task of this class runs that waited, before those who wait then are considered, where a look takes so long
    /// ([`crate::look_takes`]), in nanoseconds.
    pub fn slice_of(&self, class: Class, look_ns: u64) -> u64 {
        ffi::tw_slice_of(class, look_ns, self)
    }

    /// How long a task of this class and weight goes on beside waiting ones, the best of which is due in `due_ns` of its vtime, in
    /// nanoseconds.
    pub fn slice_beside(&self, class: Class, due_ns: u64, weight: u32) -> u64 {
        ffi::tw_slice_beside(class, due_ns, weight, self)
    }

    /// How far, in nanoseconds, a task of this class runs ahead of one that waits before it yields, so long after its program's
    /// parallel phase began, where a look of the timer takes so long ([`crate::look_takes`]).
    pub fn step(&self, class: Class, age_ns: u64, look_ns: u64) -> u64 {
        ffi::tw_step(class, age_ns, look_ns, self)
    }

    /// For how many nanoseconds of vtime a task may go on beside a waiting one.
    pub fn due_in(&self, running: &Task, waiting: &Task) -> u64 {
        ffi::tw_due_in(running, waiting, self)
    }

    /// Whether a task at the end of its slice makes way for a waiting one.
    pub fn yields(&self, running: &Task, waiting: &Task) -> bool {
        ffi::tw_yields(running, waiting, self)
    }

    /// In how many nanoseconds to look again at a running task beside a waiting one that is due in so many.
    pub fn look_in(&self, running: &Task, waiting: &Task, due_ns: u64) -> u64 {
        ffi::tw_look_in(running, waiting, due_ns, self)
    }
}

/// Whether a task goes on until the one that waits is due, in so many nanoseconds or nobody (0), or has the slice of one for which
/// no other has to wait.
pub fn goes_on_until_due(due_ns: u64, unequal: bool) -> bool {
    ffi::tw_goes_on_until_due(due_ns, unequal)
}
