// SPDX-License-Identifier: GPL-2.0-only
//! A clock that is read late at times (`policy/clock.h`).

mod ffi {
    unsafe extern "C" {
        pub safe fn tw_clock_ahead(before_ns: i64, since_ns: i64, read_ns: i64) -> i64;
    }
}

/// By how much a clock that is read late at times is ahead of another, in nanoseconds: as read now, or as before, so long ago.
pub fn clock_ahead(before_ns: i64, since_ns: i64, read_ns: i64) -> i64 {
    ffi::tw_clock_ahead(before_ns, since_ns, read_ns)
}
