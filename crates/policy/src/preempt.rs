// SPDX-License-Identifier: GPL-2.0-only
//! Who takes the CPU of a task that runs (`policy/preempt.h`).

use crate::{Class, Task, Tunables};

mod ffi {
    use super::{Beside, Class, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_may_preempt(class: Class) -> bool;
        pub safe fn tw_runs_at_once(class: Class) -> bool;
        pub safe fn tw_may_take(
            class: Class,
            running: Class,
            wakes: bool,
            nr_own_threads: u32,
            tun: &Tunables,
        ) -> bool;
        pub safe fn tw_follows_senior(running: Class) -> bool;
        pub safe fn tw_victim_scan(class: Class, nr_cpus: u32) -> u32;
        pub safe fn tw_preempts(waking: &Task, running: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_just_came(here_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_stays_until(running: Class, here_ns: u64, now: u64, tun: &Tunables) -> u64;
        pub safe fn tw_passed_over(waking: Class, until: u64, nr_parallel: u32, now: u64) -> bool;
        pub safe fn tw_surely_stays(running_at_most: &Task, waking: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_due_beside(running: &Task, waiting: &Task, in_ns: u64) -> u32;
        pub safe fn tw_makes_room(running: &Task, running_is_bound: bool, waiting_is_bound: bool) -> bool;
        pub safe fn tw_makes_way_in(
            running: &mut Task,
            waiting: &Task,
            beside: &Beside,
            tun: &Tunables,
        ) -> u64;
        pub safe fn tw_turns_out(
            running: &Task,
            running_is_bound: bool,
            waking_is_bound: bool,
            tun: &Tunables,
        ) -> bool;
    }
}

/// Of which class a task is that is due to make way, beside the one that it makes way for (`enum tw_due`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Due {
    /// It goes before that, and is due all the same.
    Earlier = 1,
    /// Both are of one class.
    Same = 2,
    /// It goes after that.
    Later = 3,
}

impl Due {
    /// Where it is due in so many nanoseconds.
    pub fn of(running: &Task, waiting: &Task, in_ns: u64) -> Option<Self> {
        Self::from_number(ffi::tw_due_beside(running, waiting, in_ns))
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Earlier),
            2 => Some(Self::Same),
            3 => Some(Self::Later),
            _ => None,
        }
    }
}

/// What a task that runs is to one that waits (`struct tw_beside`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beside {
    /// That which runs may run on one CPU only.
    pub running_bound: bool,
    /// That which waits may.
    pub waiting_bound: bool,
    /// Both are of one program.
    pub of_one_program: bool,
}

impl Tunables {
    /// Whether a task of this class, that is new or woke up or neither, may take the CPU of a running one of that class at all;
    /// with the threads of their program if both are of one, else 0.
    pub fn may_take(&self, class: Class, running: Class, wakes: bool, nr_own_threads: u32) -> bool {
        ffi::tw_may_take(class, running, wakes, nr_own_threads, self)
    }

    /// Whether a task that became ready takes the CPU of a running one.
    pub fn preempts(&self, waking: &Task, running: &Task) -> bool {
        ffi::tw_preempts(waking, running, self)
    }

    /// Whether a serial task that came so many nanoseconds ago goes on beside a serial one that woke up, whatever that is owed.
    pub fn just_came(&self, here_ns: u64) -> bool {
        ffi::tw_just_came(here_ns, self)
    }

    /// Until when no serial task that wakes up can take a CPU on which a task of this class came so many nanoseconds ago, nor
    /// one to which another serial one comes meanwhile; 0 for a later class. Of a CPU that runs nobody: [`Class::Kernel`] and 0.
    pub fn stays_until(&self, running: Class, here_ns: u64, now: u64) -> u64 {
        ffi::tw_stays_until(running, here_ns, now, self)
    }

    /// Whether a serial task goes on beside a serial one that woke up, as a vtime beyond which its own is not ([`crate::vtime_most`])
    /// and its time on the CPU show: then it is not preempted, whatever a closer look would say.
    pub fn surely_stays(&self, running_at_most: &Task, waking: &Task) -> bool {
        ffi::tw_surely_stays(running_at_most, waking, self)
    }

    /// For how many nanoseconds of vtime a task may go on before it makes way for one that waits, with all that comes before
    /// [`Self::due_in`]; the step between the two is noted in it.
    pub fn makes_way_in(&self, running: &mut Task, waiting: &Task, beside: Beside) -> u64 {
        ffi::tw_makes_way_in(running, waiting, &beside, self)
    }

    /// Whether a task that woke up takes its CPU at once from a serial one, where each is bound to that or not.
    pub fn turns_out(&self, running: &Task, running_is_bound: bool, waking_is_bound: bool) -> bool {
        ffi::tw_turns_out(running, running_is_bound, waking_is_bound, self)
    }
}

/// Whether a task of this class ever takes the CPU of a running one.
pub fn may_preempt(class: Class) -> bool {
    ffi::tw_may_preempt(class)
}

/// Whether a task of this class runs at once on its CPU, whatever runs there.
pub fn runs_at_once(class: Class) -> bool {
    ffi::tw_runs_at_once(class)
}

/// Whether a CPU on which a task of this class runs looks at its queue at once when another program has become senior.
pub fn follows_senior(running: Class) -> bool {
    ffi::tw_follows_senior(running)
}

/// At how many CPUs a waking task of this class looks for one to take over.
pub fn victim_scan(class: Class, nr_cpus: u32) -> u32 {
    ffi::tw_victim_scan(class, nr_cpus)
}

/// Whether a task of this class that wakes up need not look at CPUs to take: the first of them is to be had at `until`
/// ([`Tunables::stays_until`]), and so many programs are parallel.
pub fn passed_over(waking: Class, until: u64, nr_parallel: u32, now: u64) -> bool {
    ffi::tw_passed_over(waking, until, nr_parallel, now)
}

/// Whether a running task, bound to its CPU or not, makes way for a waiting one because only that is bound.
pub fn makes_room(running: &Task, running_is_bound: bool, waiting_is_bound: bool) -> bool {
    ffi::tw_makes_room(running, running_is_bound, waiting_is_bound)
}
