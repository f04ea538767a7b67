// SPDX-License-Identifier: GPL-2.0-only
//! How far ahead of its vtime a task is placed (`policy/boost.h`).

use crate::Tunables;

mod ffi {
    use super::Tunables;

    unsafe extern "C" {
        pub safe fn tw_serial_ready_ns(ran_ns: u64, waited_ns: u64) -> u64;
        pub safe fn tw_serial_ready(before: u32, ready_ns: u64, in_ns: u64) -> u32;
        pub safe fn tw_boost_left(serial_ready: u32, nr_cpus: u32) -> u32;
        pub safe fn tw_goes_unboosted(nr_threads: u32, parallel_ago_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_boost(boost_ns: u64, nr_waiting: u32, left: u32, tun: &Tunables) -> u64;
    }
}

/// All of a boost (`TW_BOOST_WHOLE`).
pub const BOOST_WHOLE: u32 = 65536;

/// Over how many nanoseconds ready serial tasks are counted (`TW_CROWD_PERIOD_NS`).
pub const CROWD_PERIOD_NS: u64 = 16_000_000;

impl Tunables {
    /// A boost of this many nanoseconds beside so many tasks that wait in a queue, where this is left of boosts.
    pub fn boost(&self, boost_ns: u64, nr_waiting: u32, left: u32) -> u64 {
        ffi::tw_boost(boost_ns, nr_waiting, left, self)
    }

    /// Whether a task of a program with so few threads that it is always serial goes by its vtime on the CPU to which it is bound,
    /// where so long ago a parallel one was ready that is bound there too.
    pub fn goes_unboosted(&self, nr_threads: u32, parallel_ago_ns: u64) -> bool {
        ffi::tw_goes_unboosted(nr_threads, parallel_ago_ns, self)
    }
}

/// For how long a serial task counts as ready that ran for so long since it was last charged, and waited, in nanoseconds.
pub fn serial_ready_ns(ran_ns: u64, waited_ns: u64) -> u64 {
    ffi::tw_serial_ready_ns(ran_ns, waited_ns)
}

/// How many serial tasks are ready, in 256ths, of as many before, after they were ready for `ready_ns` in sum.
pub fn serial_ready(before: u32, ready_ns: u64, in_ns: u64) -> u32 {
    ffi::tw_serial_ready(before, ready_ns, in_ns)
}

/// What is left of boosts, in 65536ths ([`BOOST_WHOLE`] is all), beside so many ready serial tasks, in 256ths.
pub fn boost_left(serial_ready: u32, nr_cpus: u32) -> u32 {
    ffi::tw_boost_left(serial_ready, nr_cpus)
}
