// SPDX-License-Identifier: GPL-2.0-only
//! Which of the idle CPUs a task gets in a mode (`policy/spread.h`).

use crate::{Class, Seat};

mod ffi {
    use super::{Class, Mode, Spot};

    unsafe extern "C" {
        pub safe fn tw_spot_rank(spot: &Spot, mode: Mode) -> u32;
        pub safe fn tw_leaves_spot(class: Class, own_rank: u32, rank: u32) -> bool;
    }
}

/// Where idle CPUs are looked for (`enum tw_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[repr(u32)]
pub enum Mode {
    /// Near the last one.
    #[default]
    Near = 0,
    /// Packages before last-level caches before cores.
    Performance = 1,
    /// A package is filled before another is woken.
    Powersave = 2,
}

/// An idle CPU as a task sees it, and what it shares (`struct tw_spot`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spot {
    /// The CPU itself.
    pub seat: Seat,
    /// [`crate::spill`] of its last-level cache.
    pub spill: u8,
    /// That is another than the one that the task left, and it rests ([`crate::Rest`]).
    pub away: bool,
    /// CPUs of its package that are not idle.
    pub nr_busy_package: u32,
    /// The same of its last-level cache.
    pub nr_busy_llc: u32,
}

impl Spot {
    /// The task takes the idle CPU of the least rank, and not one that has none.
    pub fn rank(&self, mode: Mode) -> Option<u32> {
        Some(ffi::tw_spot_rank(self, mode)).filter(|&rank| rank != u32::MAX)
    }

    /// Whether a task of this class that runs here, and is counted at neither, leaves for another one.
    pub fn is_left_for(&self, other: &Self, class: Class, mode: Mode) -> bool {
        let rank = |spot| ffi::tw_spot_rank(spot, mode);
        ffi::tw_leaves_spot(class, rank(self), rank(other))
    }
}
