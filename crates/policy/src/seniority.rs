// SPDX-License-Identifier: GPL-2.0-only
//! Which parallel program goes before the others (`policy/seniority.h`).

use std::sync::atomic::Ordering;

use crate::{Class, Group, Tunables};

mod ffi {
    use super::{Class, Group, Tunables};

    unsafe extern "C" {
        pub safe fn tw_loss(waited_ns: u64, weight: u32, nr_ready: u32, nr_threads: u32, nr_cpus: u32)
        -> u32;
        pub safe fn tw_counts_loss(nr_threads: u32, unequal: bool, tun: &Tunables) -> bool;
        pub safe fn tw_loss_of_speed(class: Class, ran_ns: u64, capacity: u32, weight: u32) -> u32;
        pub safe fn tw_claims(group: &Group, senior: Option<&Group>, tun: &Tunables) -> bool;
    }
}

/// What a program loses while a thread of it waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// For how long, in nanoseconds.
    pub waited_ns: u64,
    /// What it weighs, 1 to 10000.
    pub weight: u32,
    /// How many threads of its program are ready.
    pub nr_ready: u32,
    /// And how many there are.
    pub nr_threads: u32,
    /// Of the machine.
    pub nr_cpus: u32,
}

impl Waiting {
    /// In units of 1.024 us.
    pub fn loss(&self) -> u32 {
        ffi::tw_loss(
            self.waited_ns,
            self.weight,
            self.nr_ready,
            self.nr_threads,
            self.nr_cpus,
        )
    }
}

impl Group {
    /// What it has lost by waiting, a [`Waiting::loss`] that wraps.
    pub fn lost(&self) -> u32 {
        self.lost.load(Ordering::SeqCst)
    }

    /// It lost so much more.
    pub fn lose(&self, loss: u32) {
        self.lost.fetch_add(loss, Ordering::SeqCst);
    }

    /// Whether this group takes the place of the senior one, if there is one, of which a parallel task is looked at.
    /// What it has lost is brought near to what the senior one has.
    pub fn claims(&self, senior: Option<&Self>, tun: &Tunables) -> bool {
        ffi::tw_claims(self, senior, tun)
    }
}

impl Tunables {
    /// Whether what a program with so many threads loses is counted, on CPUs that differ in speed or not.
    pub fn counts_loss(&self, nr_threads: u32, unequal: bool) -> bool {
        ffi::tw_counts_loss(nr_threads, unequal, self)
    }
}

/// What a program loses where a task of this class and weight ran for so long on a CPU of this capacity, in units of 1.024 us.
pub fn loss_of_speed(class: Class, ran_ns: u64, capacity: u32, weight: u32) -> u32 {
    ffi::tw_loss_of_speed(class, ran_ns, capacity, weight)
}
