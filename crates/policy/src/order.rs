// SPDX-License-Identifier: GPL-2.0-only
//! Who of those that wait goes first (`policy/order.h`).

use crate::{Task, Tunables};

mod ffi {
    use super::{Keys, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_moves_in_queue(task: &Task, key: u64, queued_key: u64, all: bool) -> bool;
        pub safe fn tw_key(task: &Task, tun: &Tunables) -> u64;
        pub safe fn tw_keys_begin(keys: &mut Keys, task: &Task, boost_left: u32);
        pub safe fn tw_keys_renew(keys: &mut Keys, nr_waiting: u32, boost_left: u32);
        pub safe fn tw_key_in(keys: &Keys, task: &Task, unboosted: bool, tun: &Tunables) -> u64;
        pub safe fn tw_keys_are_stale(keys: &Keys, nr_waiting: u32, boost_left: u32, tun: &Tunables) -> bool;
        pub safe fn tw_goes_first(task: &Task, other: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_vtime_seen(theirs: &Task, mine: Option<&Task>, across: bool, tun: &Tunables) -> u64;
    }
}

/// Tasks of each queue that are put in order anew (`TW_ROTATION_SORTED`).
pub const ROTATION_SORTED: usize = 16;

/// What the keys of a queue go by, all of them by the same (`struct tw_keys`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Keys {
    /// Tasks that wait there.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`crate::boost_left`]).
    pub boost_left: u32,
    /// Looks that have yet to put the queue in order, each those tasks that are first then ([`ROTATION_SORTED`]).
    pub nr_looks: u32,
}

impl Keys {
    /// Anew if nobody waits where this task is about to be queued.
    pub fn begin(&mut self, task: &Task, boost_left: u32) {
        ffi::tw_keys_begin(self, task, boost_left);
    }

    /// By what holds now, where so many wait.
    pub fn renew(&mut self, nr_waiting: u32, boost_left: u32) {
        ffi::tw_keys_renew(self, nr_waiting, boost_left);
    }
}

impl Task {
    /// Whether it moves to this key in its queue, where it was queued under that one: where all are put in order, or because it
    /// waits for long.
    pub fn moves_in_queue(&self, key: u64, queued_key: u64, all: bool) -> bool {
        ffi::tw_moves_in_queue(self, key, queued_key, all)
    }
}

impl Tunables {
    /// The task's position beside those that wait at its CPU now: the smaller goes first.
    pub fn key(&self, task: &Task) -> u64 {
        ffi::tw_key(task, self)
    }

    /// The key of a task in a queue, without a boost ([`Tunables::goes_unboosted`]) or not.
    pub fn key_in(&self, keys: &Keys, task: &Task, unboosted: bool) -> u64 {
        ffi::tw_key_in(keys, task, unboosted, self)
    }

    /// Whether a queue's keys go by boosts of more than twice, or less than half, what they are now, and 10 ms apart.
    pub fn keys_are_stale(&self, keys: &Keys, nr_waiting: u32, boost_left: u32) -> bool {
        ffi::tw_keys_are_stale(keys, nr_waiting, boost_left, self)
    }

    /// Whether one of two waiting tasks goes first.
    pub fn goes_first(&self, task: &Task, other: &Task) -> bool {
        ffi::tw_goes_first(task, other, self)
    }

    /// The vtime of a task in another queue, behind the same last-level cache or `across`, for a CPU to go by whose own queue begins
    /// with `mine`.
    pub fn vtime_seen(&self, theirs: &Task, mine: Option<&Task>, across: bool) -> u64 {
        ffi::tw_vtime_seen(theirs, mine, across, self)
    }
}
