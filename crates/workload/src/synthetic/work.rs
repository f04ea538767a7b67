// SPDX-License-Identifier: GPL-2.0-only
//! The work unit: what the benchmark counts.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::reading::Reader;
use crate::stop::{Stop, now_ns};

/// Xorshift steps in one unit. A step is three shifts and three exclusive ors, ten instructions on x86-64 with
/// copies and the loop, so that a unit is about 400 instructions and takes some 0.1 us at 2.5 GHz.
const STEPS: u32 = 40;

/// What one unit takes with the loop around it, without the kernel's ticks: counted by the lab's governor (`lab exec
/// --profile`, `[user]`, one thread for six seconds less the same for two).
pub const UNIT_INSTRUCTIONS: u64 = 380;

/// `perform_calculation()` of the paper's Fig. 4: one unit of work, about 400 integer instructions in registers.
///
/// Marsaglia's xorshift64 is a chain in which each step needs the one before, so that the compiler can neither
/// vectorise nor shorten it, and it touches no memory, so that all units cost the same wherever they run.
#[inline(never)]
pub fn work_unit(state: u64) -> u64 {
    // Zero is the one state that xorshift never leaves.
    let mut x = state | 1;
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// The units that one thread has finished; on cache lines of its own, as neighbours would otherwise slow each other.
///
/// Only the owning thread writes; anyone may read at any time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Units {
    parallel: AtomicU64,
    serial: AtomicU64,
}

impl Units {
    /// Performs up to `units` of a parallel phase, reading meanwhile if there is what reads, and stops early when `stop` is set.
    pub(super) fn work_parallel(&self, units: u64, stop: &Stop, reader: Option<&mut Reader>) {
        match reader {
            Some(reader) => work_reading(units, &self.parallel, stop, reader),
            None => work(units, &self.parallel, stop),
        }
    }

    /// Performs up to `units` of a serial phase, reading meanwhile if there is what reads, and stops early when `stop` is set.
    pub(super) fn work_serial(&self, units: u64, stop: &Stop, reader: Option<&mut Reader>) {
        match reader {
            Some(reader) => work_reading(units, &self.serial, stop, reader),
            None => work(units, &self.serial, stop),
        }
    }

    /// Units finished in parallel phases.
    pub fn parallel(&self) -> u64 {
        self.parallel.load(Ordering::Relaxed)
    }

    /// Units finished in serial phases.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }
}

/// Performs and counts units; at most the one in progress is finished after the stop.
fn work(units: u64, finished: &AtomicU64, stop: &Stop) {
    let before = finished.load(Ordering::Relaxed);
    let mut state = before;
    for done in 1..=units {
        if stop.is_set() {
            break;
        }
        state = black_box(work_unit(state));
        finished.store(before + done, Ordering::Relaxed);
    }
}

/// The same for units in which memory is read; a loop of its own, so that units without are what they were.
fn work_reading(units: u64, finished: &AtomicU64, stop: &Stop, reader: &mut Reader) {
    let before = finished.load(Ordering::Relaxed);
    let mut state = before;
    for done in 1..=units {
        if stop.is_set() {
            break;
        }
        state = black_box(work_unit(state));
        reader.read_for_a_unit();
        finished.store(before + done, Ordering::Relaxed);
    }
}

/// Units per second of the calling thread: the best of five batches of some 10 ms each.
///
/// The best, as anything else that runs on the CPU can only lower the figure. It varies all the same, by some per
/// cent between runs and with the CPU that the thread happens to be on.
pub fn calibrate() -> f64 {
    let batch = batch_of_10_ms();
    (0..5)
        .map(|_| batch as f64 * 1e9 / time_ns(batch) as f64)
        .fold(0.0, f64::max)
}

/// A number of units that takes 10 ms or more.
fn batch_of_10_ms() -> u64 {
    let mut batch = 16;
    while time_ns(batch) < 10_000_000 {
        batch *= 2;
    }
    batch
}

/// How long `units` take, in ns, at least 1.
fn time_ns(units: u64) -> u64 {
    let start = now_ns();
    let mut state = units;
    for _ in 0..units {
        state = black_box(work_unit(state));
    }
    (now_ns() - start).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_fixed_calculation() {
        // 40 steps of xorshift64 (13, 7, 17) from state 1, computed independently in another language.
        assert_eq!(work_unit(1), 3_676_368_660_792_469_547);
        assert_eq!(work_unit(0), work_unit(1));
    }

    #[test]
    fn finished_units_are_counted_by_phase() {
        let (units, stop) = (Units::default(), Stop::default());
        units.work_parallel(5, &stop, None);
        units.work_serial(3, &stop, None);
        units.work_parallel(2, &stop, None);
        assert_eq!((units.parallel(), units.serial()), (7, 3));
    }

    #[test]
    fn a_stopped_thread_does_nothing_more() {
        let (units, stop) = (Units::default(), Stop::default());
        stop.set();
        units.work_parallel(u64::MAX, &stop, None);
        assert_eq!(units.parallel(), 0);
    }

    #[test]
    fn calibration_yields_a_rate() {
        let rate = calibrate();
        assert!(rate.is_finite() && rate > 0.0);
    }
}
