// SPDX-License-Identifier: GPL-2.0-only
//! What CPUs are worth that share a core (`policy/smt.h`).

use crate::Class;

mod ffi {
    use super::{Class, Seat};

    unsafe extern "C" {
        pub safe fn tw_seat_rank(seat: &Seat) -> u32;
        pub safe fn tw_leaves_seat_for(class: Class, shared: bool, beside_serial: bool) -> u32;
        pub safe fn tw_looks_for_seat(limit: u32, now_ns: u64, in_vain_at_ns: u64) -> bool;
    }
}

/// CPUs that one wake-up looks at for an idle one by rank, at most (`TW_IDLE_SCAN`).
pub const IDLE_SCAN: usize = 64;

/// An idle CPU as a task sees it that may share its core (`struct tw_seat`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Seat {
    /// Whether another hardware thread of its core runs.
    pub shared: bool,
    /// Whether what that runs is serial.
    pub beside_serial: bool,
    /// Whether the task ran there last.
    pub same_cpu: bool,
    /// Whether the task ran on its core last.
    pub same_core: bool,
    /// Whether it is the hardware thread by which its core is claimed, if that is idle.
    pub first: bool,
}

impl Seat {
    /// The rank of the best seat.
    pub const BEST: u32 = 0;
    /// The rank of the first seat on a core that others share (`TW_SEAT_SHARED`).
    pub const SHARED: u32 = 3;
    /// The rank of the first seat beside a serial task (`TW_SEAT_BESIDE_SERIAL`).
    pub const BESIDE_SERIAL: u32 = 6;
    /// More than any rank.
    pub const NONE: u32 = u32::MAX;

    /// The task takes the idle CPU of the least rank, and not one that has none.
    pub fn rank(&self) -> Option<u32> {
        Some(ffi::tw_seat_rank(self)).filter(|&rank| rank != u32::MAX)
    }
}

impl Class {
    /// A task of this class on a core that others share, serial ones or not, leaves its CPU for an idle one of less rank.
    pub fn leaves_seat_for(self, shared: bool, beside_serial: bool) -> u32 {
        ffi::tw_leaves_seat_for(self, shared, beside_serial)
    }
}

/// Whether a task looks for a seat of less rank than this ([`Class::leaves_seat_for`]); the last look in vain at all cores was at
/// `in_vain_at_ns`.
pub fn looks_for_seat(limit: u32, now_ns: u64, in_vain_at_ns: u64) -> bool {
    ffi::tw_looks_for_seat(limit, now_ns, in_vain_at_ns)
}
