// SPDX-License-Identifier: GPL-2.0-only
//! When the turn of the senior program ends with its boost (`policy/turn.h`).

use std::sync::atomic::Ordering;

use crate::{Group, Task, Tunables};

mod ffi {
    use super::{Ages, Group, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_is_used_up(senior: &Task, waiting: &Task, ages: &Ages, tun: &Tunables) -> bool;
        pub safe fn tw_lost_after(senior: &Group, other: &Group, tun: &Tunables) -> u32;
    }
}

/// How old a turn is, and the phases of two programs at least (`struct tw_ages`), in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ages {
    /// Since the senior program became that.
    pub turn_ns: u64,
    /// The younger of its phase and that of one that waits.
    pub phases_ns: u64,
}

impl Group {
    /// Its turn as the senior one ends because its boost is used up, for this other group.
    pub fn end_turn_for(&self, other: &Self, tun: &Tunables) {
        let lost = ffi::tw_lost_after(self, other, tun);
        self.lost.store(lost, Ordering::SeqCst);
    }
}

impl Tunables {
    /// Whether the turn of the senior program is over, a task of which is to make way for a waiting one.
    pub fn is_used_up(&self, senior: &Task, waiting: &Task, ages: &Ages) -> bool {
        ffi::tw_is_used_up(senior, waiting, ages, self)
    }
}
