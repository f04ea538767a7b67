// SPDX-License-Identifier: GPL-2.0-only
//! Dynamic acceleration: power that idle cores leave makes the busy ones of a package faster.

use super::Rate;

/// The speed of a core that is as fast as `rate` at the first of the clocks `mhz`, while `nr_busy` cores of its package are busy.
///
/// multicore-scheduling, "Intel Dynamic Acceleration Technology" and Fig. 4, where two tasks run at 3 GHz on two packages of two
/// cores, and at 2.66 GHz on one. Clocks that are stepped by busy cores are how vendors specify it to this day.
pub(super) fn accelerated(rate: Rate, mhz: &[u32], nr_busy: usize) -> Rate {
    match (mhz.first(), step(mhz, nr_busy)) {
        (Some(&first), Some(now)) => rate * u64::from(now) / u64::from(first),
        _ => rate,
    }
}

/// The clock with so many busy cores.
pub(super) fn step(mhz: &[u32], nr_busy: usize) -> Option<u32> {
    mhz.get(nr_busy.saturating_sub(1).min(mhz.len().saturating_sub(1)))
        .copied()
}
