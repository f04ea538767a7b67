// SPDX-License-Identifier: GPL-2.0-only
//! How many serial tasks are ready, and what those weigh that run (`policy/crowd.h`).

use crate::{BOOST_WHOLE, MEAN_WEIGHT_ONE};

mod ffi {
    use super::{Charged, Crowd};

    unsafe extern "C" {
        pub safe fn tw_crowd_is_due(crowd: &Crowd, now_ns: u64) -> bool;
        pub safe fn tw_count_crowd(crowd: &mut Crowd, sums: &Charged, now_ns: u64, nr_cpus: u32);
    }
}

/// What all CPUs charged (`struct tw_charged`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Charged {
    /// For how many nanoseconds serial tasks were ready ([`crate::serial_ready_ns`]).
    pub serial_ns: u64,
    /// For how many those ran that were beside others.
    pub beside_ns: u64,
    /// What these weighed ([`crate::weighed_ns`]).
    pub weighed_ns: u64,
}

/// What it was counted to come to (`struct tw_crowd`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Crowd {
    seen: Charged,
    counted_at: u64,
    nr_serial_ready: u32,
    boost_left: u32,
    mean_weight: u32,
    unused: u32,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            seen: Charged::default(),
            counted_at: 0,
            nr_serial_ready: 0,
            boost_left: BOOST_WHOLE,
            mean_weight: MEAN_WEIGHT_ONE,
            unused: 0,
        }
    }
}

impl Crowd {
    /// What serial tasks leave of boosts, of [`BOOST_WHOLE`].
    pub fn boost_left(&self) -> u32 {
        self.boost_left
    }

    /// What tasks that run beside others weigh on the mean, in 65536ths.
    pub fn mean_weight(&self) -> u32 {
        self.mean_weight
    }

    /// Counts, unless it did a moment ago, up to these sums at this time since the machine was booted, in nanoseconds, where so
    /// many CPUs are online.
    pub fn count(&mut self, sums: &Charged, now_ns: u64, nr_cpus: u32) {
        if ffi::tw_crowd_is_due(self, now_ns) {
            ffi::tw_count_crowd(self, sums, now_ns, nr_cpus);
        }
    }
}
