// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's own work takes.

use crate::Ns;

/// The time that each of these takes on the fastest CPU, in nanoseconds; slower CPUs take longer in proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// From one task to another, or from idle to a task.
    pub switch_ns: Ns,
    /// For who wakes a sleeping thread, each; the next one is woken after it.
    pub wake_ns: Ns,
    /// A tick.
    pub tick_ns: Ns,
    /// An expiry of the scheduler's timer.
    pub timer_ns: Ns,
    /// From the request to another CPU to look for something to run until it does; not scaled.
    pub kick_ns: Ns,
    /// Between ticks; not scaled. All CPUs have theirs at once.
    pub tick_period_ns: Ns,
}

impl Costs {
    /// Nothing costs anything, and slices end to a tenth of a millisecond: for comparisons with theory.
    pub const FREE: Self = Self {
        switch_ns: 0,
        wake_ns: 0,
        tick_ns: 0,
        timer_ns: 0,
        kick_ns: 0,
        tick_period_ns: 100_000,
    };

    /// The lab's guest kernel (HZ=250) on CPUs of so many million instructions a second, at least 1.
    ///
    /// The numbers of instructions are estimates, not counted one by one.
    pub fn of_lab(mips: u32) -> Self {
        let instructions = |n: u64| n * 1000 / u64::from(mips.max(1));
        Self {
            switch_ns: instructions(2_000),
            wake_ns: instructions(3_000),
            tick_ns: instructions(2_500),
            timer_ns: instructions(5_000),
            kick_ns: 20_000,
            tick_period_ns: 4_000_000,
        }
    }
}
