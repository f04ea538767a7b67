// SPDX-License-Identifier: GPL-2.0-only
//! The end of a run: a flag that signal handlers set, so that no thread of the program has to watch the clock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::futex;

/// The time of CLOCK_MONOTONIC, in ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec. The call cannot fail with this clock, and is safe in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Set once, at the end of a run. All methods are safe to call from a signal handler.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Stop {
    /// 0 or 1; [`Stop::sleep_until`] sleeps on it.
    is_set: AtomicU32,
    was_interrupted: AtomicBool,
    /// CLOCK_MONOTONIC at the first stop; 0 before.
    at_ns: AtomicU64,
}

impl Stop {
    /// Ends the run now, unless it has ended already.
    pub fn set(&self) {
        // Only the first stop sets the time: the timer and an interrupt may come together.
        let _ = self
            .at_ns
            .compare_exchange(0, now_ns(), Ordering::Relaxed, Ordering::Relaxed);
        self.is_set.store(1, Ordering::Release);
        futex::wake_all(&self.is_set);
    }

    /// Ends the run before its time.
    pub fn interrupt(&self) {
        if !self.is_set() {
            self.was_interrupted.store(true, Ordering::Relaxed);
        }
        self.set();
    }

    /// Whether the run has ended.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire) != 0
    }

    /// Sleeps until `at_ns` on CLOCK_MONOTONIC or until the stop, whichever comes first and whatever thread sets it.
    pub fn sleep_until(&self, at_ns: u64) {
        while !self.is_set() && now_ns() < at_ns {
            futex::wait_until(&self.is_set, 0, at_ns);
        }
    }

    /// Whether a signal from outside ended the run.
    pub fn was_interrupted(&self) -> bool {
        self.was_interrupted.load(Ordering::Relaxed)
    }

    /// When the run ended, on CLOCK_MONOTONIC; `None` while it goes on.
    pub fn at_ns(&self) -> Option<u64> {
        self.is_set().then(|| self.at_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stop_counts() {
        let stop = Stop::default();
        assert_eq!((stop.is_set(), stop.at_ns()), (false, None));
        stop.set();
        let first = stop.at_ns().unwrap();
        stop.interrupt();
        assert_eq!((stop.at_ns(), stop.was_interrupted()), (Some(first), false));
    }

    #[test]
    fn sleeping_ends_at_the_time_or_at_the_stop() {
        let stop = Stop::default();
        let at_ns = now_ns() + 20_000_000;
        stop.sleep_until(at_ns);
        assert!(now_ns() >= at_ns && !stop.is_set());
        std::thread::scope(|scope| {
            scope.spawn(|| stop.sleep_until(now_ns() + 3_600_000_000_000));
            std::thread::sleep(std::time::Duration::from_millis(20));
            stop.set();
        });
        assert!(stop.is_set());
    }

    #[test]
    fn an_interrupt_is_remembered() {
        let stop = Stop::default();
        stop.interrupt();
        stop.set();
        assert!(stop.is_set() && stop.was_interrupted());
    }
}
