// SPDX-License-Identifier: GPL-2.0-only
//! The futex operations that the programs need, private to the process (futex(2)).

use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `expected`; may return early for any reason, so callers check the word in a loop.
pub fn wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word outlives the call, and a null timeout means none.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        );
    }
}

/// As [`wait`], but at most until `at_ns` on CLOCK_MONOTONIC.
pub fn wait_until(word: &AtomicU32, expected: u32, at_ns: u64) {
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the word and the time outlive the call. FUTEX_WAIT_BITSET takes an absolute time and no second word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            expected,
            &raw const at,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        );
    }
}

/// Wakes every thread that sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the kernel takes the address as a key only.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}
