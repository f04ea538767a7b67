// SPDX-License-Identifier: GPL-2.0-only
//! How many serial tasks are ready, and what they leave of boosts (`crowd.bpf.h`).

use threadwise_policy::{BOOST_WHOLE, CROWD_PERIOD_NS, Class, boost_left, serial_ready, serial_ready_ns};

use crate::Ns;

#[derive(Default)]
pub(super) struct Crowd {
    /// For how long serial tasks were ready, in sum.
    ready_ns: Ns,
    /// Up to when and up to which sum they were counted.
    counted_at: Ns,
    counted_ns: Ns,
    /// In 256ths.
    nr_ready: u32,
    /// What they take of boosts.
    taken: u32,
}

impl Crowd {
    /// What is left of boosts.
    pub(super) fn boost_left(&self) -> u32 {
        BOOST_WHOLE - self.taken
    }

    /// A task is charged.
    pub(super) fn add(&mut self, class: Class, ran_ns: Ns, waited_ns: Ns) {
        if class == Class::Serial {
            self.ready_ns += serial_ready_ns(ran_ns, waited_ns);
        }
    }

    /// Counts them, unless it did a moment ago.
    pub(super) fn count(&mut self, now: Ns, nr_cpus: usize) {
        let in_ns = now - self.counted_at;
        if in_ns < CROWD_PERIOD_NS {
            return;
        }
        self.nr_ready = serial_ready(self.nr_ready, self.ready_ns - self.counted_ns, in_ns);
        self.counted_at = now;
        self.counted_ns = self.ready_ns;
        self.taken = BOOST_WHOLE - boost_left(self.nr_ready, nr_cpus as u32);
    }
}
