// SPDX-License-Identifier: GPL-2.0-only
//! How many serial tasks are ready, and what they leave of boosts (`crowd.bpf.h`).

use threadwise_policy::{BOOST_WHOLE, CROWD_PERIOD_NS, Class, boost_left, serial_ready, serial_ready_ns};

use crate::Ns;
use crate::kernel::Kernel;

pub(super) struct Crowd {
    /// For how long serial tasks were ready, in sum.
    ready_ns: Ns,
    /// Up to when and up to which sum they were counted.
    counted_at: Ns,
    counted_ns: Ns,
    /// In 256ths.
    nr_ready: u32,
    boost_left: u32,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self {
            ready_ns: 0,
            counted_at: 0,
            counted_ns: 0,
            nr_ready: 0,
            boost_left: BOOST_WHOLE,
        }
    }

    /// What is left of boosts.
    pub(super) fn boost_left(&self) -> u32 {
        self.boost_left
    }

    /// A task is charged.
    pub(super) fn add(&mut self, class: Class, ran_ns: Ns, waited_ns: Ns) {
        if class == Class::Serial {
            self.ready_ns += serial_ready_ns(ran_ns, waited_ns);
        }
    }

    /// Counts them, unless it did a moment ago.
    pub(super) fn count(&mut self, kernel: &Kernel) {
        let in_ns = kernel.now - self.counted_at;
        if in_ns < CROWD_PERIOD_NS {
            return;
        }
        self.nr_ready = serial_ready(self.nr_ready, self.ready_ns - self.counted_ns, in_ns);
        self.counted_at = kernel.now;
        self.counted_ns = self.ready_ns;
        let online = (0..kernel.cpus.len()).filter(|&cpu| kernel.is_online(cpu));
        self.boost_left = boost_left(self.nr_ready, online.count() as u32);
    }
}
