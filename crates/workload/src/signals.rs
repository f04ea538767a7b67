// SPDX-License-Identifier: GPL-2.0-only
//! Timer and interrupt signals that end a run.
//!
//! A timer signal costs no thread: the flag is set from a handler on the main thread, which the kernel interrupts or
//! wakes, and the set of ready threads stays what the phases say it is; a program whose main thread only
//! sleeps has no need of the timer. A [`Stop`] that a handler may reach lives for
//! the rest of the process, so that no handler can outlive it.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::stop::Stop;

/// Why a run has no timer or does not catch a signal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another run of this process catches SIGINT and SIGTERM.
    #[error(
        "another run in this process catches SIGINT and SIGTERM already: set catch_interrupts for one at a time"
    )]
    InterruptsTaken,
    /// A system call failed that should not.
    #[error("{call} failed: {source}")]
    System {
        /// Its name.
        call: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// The run that SIGINT and SIGTERM end; null when there is none.
static INTERRUPTED: AtomicPtr<Stop> = AtomicPtr::new(ptr::null_mut());

/// The signal of the timers: the second real-time signal, as the first is popular. Its handler stays installed, as
/// other runs of the process may be using it.
fn timer_signal() -> i32 {
    libc::SIGRTMIN() + 1
}

extern "C" fn on_timer(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, and the value of a timer signal is the pointer given in `Timer::arm`,
    // to a `Stop` that lives for ever. A signal sent by something else has another code and is ignored.
    unsafe {
        if (*info).si_code == libc::SI_TIMER
            && let Some(stop) = (*info).si_value().sival_ptr.cast::<Stop>().as_ref()
        {
            stop.set();
        }
    }
}

extern "C" fn on_interrupt(_signal: i32) {
    // SAFETY: the pointer is null or was made from a `&'static Stop`.
    if let Some(stop) = unsafe { INTERRUPTED.load(Ordering::Acquire).as_ref() } {
        stop.interrupt();
    }
}

/// A timer on CLOCK_MONOTONIC that sets a [`Stop`] from a signal to the thread that armed it.
///
/// Deleting the timer on that same thread leaves no signal behind: one that is pending is delivered at the latest when
/// the system call returns. Therefore this type stays on its thread.
#[derive(Debug)]
pub struct Timer {
    id: libc::timer_t,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Timer {
    /// Sets `stop` at the time `at_ns`, at once if that is past.
    ///
    /// # Errors
    /// If the system refuses a handler or a timer.
    pub fn arm(at_ns: u64, stop: &'static Stop) -> Result<Self, Error> {
        handle(timer_signal(), on_timer as *const () as usize, libc::SA_SIGINFO)?;
        let timer = Self::create(stop)?;
        let mut time: libc::itimerspec = zeroed_itimerspec();
        // A time of zero would disarm the timer.
        time.it_value = timespec(at_ns.max(1));
        // SAFETY: the timer exists and the pointer is to a live itimerspec; the old value is not asked for.
        check("timer_settime", unsafe {
            libc::timer_settime(timer.id, libc::TIMER_ABSTIME, &time, ptr::null_mut())
        })?;
        Ok(timer)
    }

    fn create(stop: &'static Stop) -> Result<Self, Error> {
        // SAFETY: all zeros is a valid sigevent.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = timer_signal();
        event.sigev_value.sival_ptr = ptr::from_ref(stop).cast_mut().cast();
        // SAFETY: gettid has no preconditions.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut id: libc::timer_t = ptr::null_mut();
        // SAFETY: both pointers are to live values of the right type.
        check("timer_create", unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id)
        })?;
        Ok(Self {
            id,
            _stays_on_its_thread: PhantomData,
        })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was created by this value and is deleted once.
        unsafe { libc::timer_delete(self.id) };
    }
}

/// SIGINT and SIGTERM end the run while this lives; then the former handlers are back.
pub struct Interrupts {
    former: Vec<(i32, libc::sigaction)>,
}

impl Interrupts {
    /// Lets SIGINT and SIGTERM interrupt `stop`. A signal that the process ignores stays ignored, which is how shells
    /// protect background jobs.
    ///
    /// # Errors
    /// [`Error::InterruptsTaken`] if another run of this process catches them; if the system refuses a handler.
    pub fn catch(stop: &'static Stop) -> Result<Self, Error> {
        let stop = ptr::from_ref(stop).cast_mut();
        INTERRUPTED
            .compare_exchange(ptr::null_mut(), stop, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| Error::InterruptsTaken)?;
        let mut caught = Self { former: Vec::new() };
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let former = handle(signal, on_interrupt as *const () as usize, 0)?;
            caught.former.push((signal, former));
            if former.sa_sigaction == libc::SIG_IGN {
                caught.restore_last();
            }
        }
        Ok(caught)
    }

    fn restore_last(&mut self) {
        if let Some((signal, former)) = self.former.pop() {
            // SAFETY: the action was in force before and the pointer is live.
            unsafe { libc::sigaction(signal, &former, ptr::null_mut()) };
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        while !self.former.is_empty() {
            self.restore_last();
        }
        INTERRUPTED.store(ptr::null_mut(), Ordering::Release);
    }
}

/// The calling thread's signal mask, put back when dropped.
///
/// Workers inherit a full mask, so that no signal wakes a thread that a phase says is asleep.
pub struct Mask {
    former: libc::sigset_t,
}

impl Mask {
    /// Blocks every signal on the calling thread and on the threads that it creates from now on.
    pub fn block_all() -> Self {
        let (mut all, mut former) = (empty_set(), empty_set());
        // SAFETY: the pointers are to live sets; the call cannot fail with a valid `how`.
        unsafe {
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut former);
        }
        Self { former }
    }

    /// Lets the calling thread receive its former signals and those that end a run.
    pub fn admit_stop(&self) {
        let mut set = self.former;
        // SAFETY: the pointers are to a live set, and the signal numbers are valid.
        unsafe {
            for signal in [timer_signal(), libc::SIGINT, libc::SIGTERM] {
                libc::sigdelset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, ptr::null_mut());
        }
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set was the thread's mask before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.former, ptr::null_mut()) };
    }
}

/// Installs a handler for `signal` and returns the former action.
fn handle(signal: i32, handler: usize, flags: i32) -> Result<libc::sigaction, Error> {
    // SAFETY: all zeros is a valid sigaction: default action, empty mask.
    let (mut action, mut former): (libc::sigaction, libc::sigaction) = unsafe {
        (
            MaybeUninit::zeroed().assume_init(),
            MaybeUninit::zeroed().assume_init(),
        )
    };
    action.sa_sigaction = handler;
    action.sa_flags = flags | libc::SA_RESTART;
    // SAFETY: the handlers of this module call only what is safe in a handler; the pointers are live.
    check("sigaction", unsafe {
        libc::sigaction(signal, &action, &mut former)
    })?;
    Ok(former)
}

fn check(call: &'static str, result: i32) -> Result<(), Error> {
    if result == 0 {
        Ok(())
    } else {
        Err(Error::System {
            call,
            source: io::Error::last_os_error(),
        })
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

fn zeroed_itimerspec() -> libc::itimerspec {
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    libc::itimerspec {
        it_interval: zero,
        it_value: zero,
    }
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: all zeros is a valid, empty signal set on Linux.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stop::now_ns;

    fn stop() -> &'static Stop {
        Box::leak(Box::default())
    }

    #[test]
    fn a_timer_stops_its_own_run_only() {
        let (early, late) = (stop(), stop());
        let start = now_ns();
        let _late_timer = Timer::arm(start + 3_600_000_000_000, late).unwrap();
        let _early_timer = Timer::arm(start + 20_000_000, early).unwrap();
        while !early.is_set() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(early.at_ns().unwrap() >= start + 20_000_000);
        assert!(!late.is_set() && !early.was_interrupted());
    }

    #[test]
    fn a_deleted_timer_is_silent() {
        let stop = stop();
        drop(Timer::arm(now_ns() + 10_000_000, stop).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!stop.is_set());
    }
}
