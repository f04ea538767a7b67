// SPDX-License-Identifier: GPL-2.0-only
//! What looks of the timer at those that wait find, and when it looks again (`policy/look.h`).

use crate::{Due, Task, Tunables};

mod ffi {
    use super::{Due, Look, Task, Timer, Tunables};

    unsafe extern "C" {
        pub safe fn tw_look_takes(before_ns: u64, took_ns: u64) -> u64;
        pub safe fn tw_longer_look(timer_ns: u64, cpu_ns: u64) -> u64;
        pub safe fn tw_look_begin(look: &mut Look, now_ns: u64, nr_cpus: u32);
        pub safe fn tw_look_disturb(look: &mut Look);
        pub safe fn tw_look_ages(look: &mut Look) -> bool;
        pub safe fn tw_look_has_all(look: &mut Look);
        pub safe fn tw_look_found(look: &mut Look, held: bool);
        pub safe fn tw_look_waits(look: &mut Look);
        pub safe fn tw_look_due(
            look: &mut Look,
            running: &Task,
            waiting: &Task,
            in_ns: u64,
            tun: &Tunables,
        ) -> u32;
        pub safe fn tw_look_kick(look: &mut Look, due: Due, for_foremost: bool) -> u32;
        pub safe fn tw_look_expect(look: &mut Look);
        pub safe fn tw_look_is_early(look: &mut Look, went_over: bool) -> bool;
        pub safe fn tw_look_again(look: &mut Look, shortest_ns: u64, went_over: bool, nr_cpus: u32) -> u64;
        pub safe fn tw_look_saw_nobody(look: &Look, nr_cpus: u32) -> bool;
        pub safe fn tw_timer_stopped(timer: &Timer, now_ns: u64) -> bool;
        pub safe fn tw_timer_hastens(timer: &Timer, now_ns: u64, in_ns: u64) -> bool;
        pub safe fn tw_timer_starts(timer: &Timer, now_ns: u64, in_ns: u64) -> bool;
        pub safe fn tw_timer_for(
            timer: &mut Timer,
            task: &Task,
            nr_threads: u32,
            now_ns: u64,
            tun: &Tunables,
        ) -> u64;
    }
}

/// Queues at which one look looks, at most (`TW_ROTATION_QUEUES`).
pub const ROTATION_QUEUES: u32 = 4;
/// CPUs at which it looks (`TW_ROTATION_CPUS`).
pub const ROTATION_CPUS: usize = 16;
/// Queues at which it looks if they turn out to be empty (`TW_ROTATION_MARKS`).
pub const ROTATION_MARKS: usize = 16;

/// The longest time between two looks at those that wait, in nanoseconds (`TW_LOOK_MOST_NS`).
pub const LOOK_MOST_NS: u64 = 8_000_000;
/// The same where all were looked at and nobody was due in that time (`TW_LOOK_QUIET_NS`).
pub const LOOK_QUIET_NS: u64 = 24_000_000;

/// What looks of the timer find: the one at hand, and those before (`struct tw_look`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Look {
    /// In how many nanoseconds the first is due of those at which it looked.
    pub in_ns: u64,
    nr_seen: u32,
    nr_held: u32,
    nr_empty: u32,
    nr_quiet: u32,
    nr_unaged: u32,
    aged_at: u64,
    nr_kicks: u32,
    all: bool,
    quiet: bool,
    was_early: bool,
    sent: bool,
}

/// What becomes of a CPU whose task is due (`enum tw_kick`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// No more are kicked in this look.
    Not,
    /// It looks for what to run.
    Kick,
    /// It looks at the queue of the foremost too.
    AndSend,
}

impl Look {
    /// A look begins, at this time since the machine was booted, on so many CPUs.
    pub fn begin(&mut self, now_ns: u64, nr_cpus: u32) {
        ffi::tw_look_begin(self, now_ns, nr_cpus);
    }

    /// It comes to a queue: whether those go forward in it that wait for long.
    pub fn ages(&mut self) -> bool {
        ffi::tw_look_ages(self)
    }

    /// It has been at all queues that may hold something.
    pub fn has_all(&mut self) {
        ffi::tw_look_has_all(self);
    }

    /// Somebody may need a look before long.
    pub fn disturb(&mut self) {
        ffi::tw_look_disturb(self);
    }

    /// It looked at a queue, which held somebody or not.
    pub fn found(&mut self, held: bool) {
        ffi::tw_look_found(self, held);
    }

    /// How many queues held somebody so far.
    pub fn nr_held(&self) -> u32 {
        self.nr_held
    }

    /// The first task of a queue waits for a CPU whose task makes way.
    pub fn waits(&mut self) {
        ffi::tw_look_waits(self);
    }

    /// It looked at what runs on a CPU, which makes way for a waiting task in so many nanoseconds: of which class that is, if it is
    /// due.
    pub fn due(&mut self, running: &Task, waiting: &Task, in_ns: u64, tun: &Tunables) -> Option<Due> {
        Due::from_number(ffi::tw_look_due(self, running, waiting, in_ns, tun))
    }

    /// What runs on a CPU is due, to make way for the foremost of all or for the first of its own queue.
    pub fn kick(&mut self, due: Due, for_foremost: bool) -> Kick {
        match ffi::tw_look_kick(self, due, for_foremost) {
            0 => Kick::Not,
            1 => Kick::Kick,
            _ => Kick::AndSend,
        }
    }

    /// A task is about to be queued.
    pub fn expect(&mut self) {
        ffi::tw_look_expect(self);
    }

    /// The timer expired, and had CPUs go over to a program that became senior, or not. Whether it is too early to look at the
    /// others.
    pub fn is_early(&mut self, went_over: bool) -> bool {
        ffi::tw_look_is_early(self, went_over)
    }

    /// In how many nanoseconds those that wait are looked at again, if before somebody is queued: where the shortest step is so
    /// long, and CPUs have just gone over to a program that became senior, or not.
    pub fn again(&mut self, shortest_ns: u64, went_over: bool, nr_cpus: u32) -> Option<u64> {
        Some(ffi::tw_look_again(self, shortest_ns, went_over, nr_cpus)).filter(|&in_ns| in_ns > 0)
    }

    /// Whether nobody is said to wait any more after that, although it looks again.
    pub fn saw_nobody(&self, nr_cpus: u32) -> bool {
        ffi::tw_look_saw_nobody(self, nr_cpus)
    }
}

/// The timer that looks after those that wait (`struct tw_timer`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Timer {
    /// Until when it runs, in nanoseconds.
    pub until_ns: u64,
    /// The key of whom it looks after.
    pub key: u64,
    /// Whether it runs.
    pub armed: bool,
}

impl Timer {
    /// Whether it does not run, or was lost: it was started for a time that is long over.
    pub fn stopped(&self, now_ns: u64) -> bool {
        ffi::tw_timer_stopped(self, now_ns)
    }

    /// Whether it is started anew to look in so many nanoseconds, if it runs.
    pub fn hastens(&self, now_ns: u64, in_ns: u64) -> bool {
        ffi::tw_timer_hastens(self, now_ns, in_ns)
    }

    /// Whether it is started to look in so many nanoseconds at the latest.
    pub fn starts(&self, now_ns: u64, in_ns: u64) -> bool {
        ffi::tw_timer_starts(self, now_ns, in_ns)
    }

    /// In how many nanoseconds it is started to look after a task that is queued, because it woke up and found no CPU (then with the
    /// threads of its program) or for another reason (0); the key becomes that of the foremost. `None`: it looks before.
    pub fn look_for(&mut self, task: &Task, nr_threads: u32, now_ns: u64, tun: &Tunables) -> Option<u64> {
        Some(ffi::tw_timer_for(self, task, nr_threads, now_ns, tun)).filter(|&in_ns| in_ns > 0)
    }
}

/// What a look takes on the mean, in nanoseconds, after one that took so long: one of the timer, or of a CPU.
pub fn look_takes(before_ns: u64, took_ns: u64) -> u64 {
    ffi::tw_look_takes(before_ns, took_ns)
}

/// What a look takes, in nanoseconds, for which slices leave time: one of the timer, or of a CPU of an unequal machine at faster
/// ones when a slice ends, whichever takes longer.
pub fn longer_look(timer_ns: u64, cpu_ns: u64) -> u64 {
    ffi::tw_longer_look(timer_ns, cpu_ns)
}
