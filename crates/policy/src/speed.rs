// SPDX-License-Identifier: GPL-2.0-only
//! Who gets the faster CPUs (`policy/speed.h`).

use crate::{CAPACITY_ONE, Class, Group, Seat, Task, Tunables};

mod ffi {
    use super::{Choice, Class, Group, Place, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_is_faster(capacity: u32, than: u32) -> bool;
        pub safe fn tw_worth(class: Class, capacity: u32, shared: bool, beside_serial: bool) -> u32;
        pub safe fn tw_chooses(choice: &mut Choice, class: Class, there: &Place) -> bool;
        pub safe fn tw_has_chosen(choice: &Choice, capacity: u32) -> bool;
        pub safe fn tw_answers_call(class: Class) -> bool;
        pub safe fn tw_search(class: Class, unequal: bool, mode: bool, smt: bool) -> u32;
        pub safe fn tw_looks_for_better(comes: bool, looked: bool, unequal: bool) -> bool;
        pub safe fn tw_kept_recently(ago_ns: u64, look_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_lost_more_there(
            task: &Task,
            group: &Group,
            there: &Task,
            other: &Group,
            tun: &Tunables,
        ) -> i32;
        pub safe fn tw_takes_turn(task: &Task, there: &Task, lost_more: i32, tun: &Tunables) -> bool;
    }
}

/// CPUs that one decision looks at for a better one, at most (`TW_PLACE_SCAN`).
pub const PLACE_SCAN: usize = 64;

/// Slower CPUs at whose tasks a faster one looks for one to exchange for its own, at most (`TW_CALL_SCAN`).
pub const CALL_SCAN: usize = 16;

/// A CPU as a task sees it that might go there (`struct tw_place`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Place {
    /// 1024 for the fastest CPU of the machine.
    pub capacity: u32,
    /// What of its core the task would share.
    pub seat: Seat,
    /// Whether nothing runs there.
    pub idle: bool,
    /// Whether it is faster than the slowest.
    pub fast: bool,
    /// Of what runs there, if it is not idle.
    pub class: Class,
}

/// What a task looks for, and the best of the places that it has seen (`struct tw_choice`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Choice {
    /// The capacity of the CPU on which it runs, or 0 where it is bound for one.
    pub own: u32,
    /// What that is worth to it.
    pub here: u32,
    /// The capacity of the one chosen; 0 as long as there is none.
    pub capacity: u32,
    /// What that is worth.
    pub worth: u32,
    /// The rank of its seat.
    pub rank: u32,
    /// Whether it is idle.
    pub idle: bool,
}

impl Choice {
    /// Of a task that runs on a CPU of this capacity, which is worth `here` to it.
    pub fn on(own: u32, here: u32) -> Self {
        Self {
            own,
            here,
            ..Self::default()
        }
    }

    /// Whether a task of this class chooses this place before those it has seen.
    pub fn is_now(&mut self, class: Class, there: &Place) -> bool {
        ffi::tw_chooses(self, class, there)
    }

    /// Whether no place of at most this capacity that it has not seen can be chosen before the one that is.
    pub fn is_made(&self, capacity: u32) -> bool {
        ffi::tw_has_chosen(self, capacity)
    }
}

/// Where a task looks for a better CPU than its own (`enum tw_search`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// It does not.
    Nowhere,
    /// Among all, by speed and by what shares their cores.
    Place,
    /// Among those that are idle, as the mode has it.
    Spot,
    /// Among those of cores that are idle, or not a serial task's.
    Seat,
}

impl Class {
    /// Where a task of this class looks for a better CPU, on a machine of CPUs that differ in speed, with a mode, or with shared
    /// cores.
    pub fn search(self, unequal: bool, mode: bool, smt: bool) -> Search {
        match ffi::tw_search(self, unequal, mode, smt) {
            1 => Search::Place,
            2 => Search::Spot,
            3 => Search::Seat,
            _ => Search::Nowhere,
        }
    }
}

impl Group {
    /// By how much more it has lost, of which a task runs on a slower CPU, than another, of which one runs on the faster, as far
    /// as these go by it.
    pub fn lost_more_there(&self, task: &Task, there: &Task, other: &Self, tun: &Tunables) -> i32 {
        ffi::tw_lost_more_there(task, self, there, other, tun)
    }
}

impl Tunables {
    /// Whether it is worth a look for a CPU that has nothing to do that a slower one kept its task so long ago, where a look
    /// takes so long ([`crate::look_takes`]).
    pub fn kept_recently(&self, ago_ns: u64, look_ns: u64) -> bool {
        ffi::tw_kept_recently(ago_ns, look_ns, self)
    }

    /// Whether a task that runs on a slower CPU takes a faster one over from what runs there, whose program has lost so much
    /// less than its own.
    pub fn takes_turn(&self, task: &Task, there: &Task, lost_more: i32) -> bool {
        ffi::tw_takes_turn(task, there, lost_more, self)
    }
}

/// Whether a CPU of this capacity is so much faster than another that a migration is worth it.
pub fn is_faster(capacity: u32, than: u32) -> bool {
    ffi::tw_is_faster(capacity, than)
}

/// CPUs of these capacities, the fastest first, and how many of them are faster than the slowest.
pub fn fastest_first(capacities: &[u32]) -> (Vec<usize>, usize) {
    let slowest = capacities.iter().copied().min().unwrap_or(CAPACITY_ONE);
    let mut cpus: Vec<usize> = (0..capacities.len()).collect();
    cpus.sort_by_key(|&cpu| std::cmp::Reverse(capacities[cpu]));
    let nr_faster = cpus
        .iter()
        .filter(|&&cpu| is_faster(capacities[cpu], slowest))
        .count();
    (cpus, nr_faster)
}

/// What a CPU of this capacity is worth to a task of this class, if others of its core run, or a serial task.
pub fn worth(class: Class, capacity: u32, shared: bool, beside_serial: bool) -> u32 {
    ffi::tw_worth(class, capacity, shared, beside_serial)
}

/// Whether a task of this class changes places with that of a CPU that asks for it.
pub fn answers_call(class: Class) -> bool {
    ffi::tw_answers_call(class)
}

/// Whether a task that is queued looks for a better CPU: one that comes to run, as it woke up or is new, or one that makes way and
/// has looked before it did, on a machine of CPUs that differ in speed or not.
pub fn looks_for_better(comes: bool, looked: bool, unequal: bool) -> bool {
    ffi::tw_looks_for_better(comes, looked, unequal)
}
