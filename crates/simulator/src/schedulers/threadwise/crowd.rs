// SPDX-License-Identifier: GPL-2.0-only
//! How many serial tasks are ready, and what they leave of boosts; and what those weigh that run beside others (`crowd.bpf.h`).

use threadwise_policy::{
    BOOST_WHOLE, CROWD_PERIOD_NS, Class, MEAN_WEIGHT_ONE, boost_left, mean_weight, serial_ready,
    serial_ready_ns, weighed_ns,
};

use super::uptime;
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
    /// For how long those beside others ran since they were weighed, and what they weighed.
    beside_ns: Ns,
    weighed_ns: u64,
    /// On the mean, in 65536ths.
    mean_weight: u32,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Self {
            ready_ns: 0,
            counted_at: 0,
            counted_ns: 0,
            nr_ready: 0,
            boost_left: BOOST_WHOLE,
            beside_ns: 0,
            weighed_ns: 0,
            mean_weight: MEAN_WEIGHT_ONE,
        }
    }

    /// What is left of boosts.
    pub(super) fn boost_left(&self) -> u32 {
        self.boost_left
    }

    /// What tasks that run beside others weigh on the mean, in 65536ths.
    pub(super) fn mean_weight(&self) -> u32 {
        self.mean_weight
    }

    /// A task of this weight that is beside others is charged.
    pub(super) fn weigh(&mut self, weight: u32, ran_ns: Ns) {
        self.beside_ns += ran_ns;
        self.weighed_ns += weighed_ns(weight, ran_ns);
    }

    /// A task is charged.
    pub(super) fn add(&mut self, class: Class, ran_ns: Ns, waited_ns: Ns) {
        if class == Class::Serial {
            self.ready_ns += serial_ready_ns(ran_ns, waited_ns);
        }
    }

    /// Counts them, unless it did a moment ago.
    pub(super) fn count(&mut self, kernel: &Kernel) {
        let in_ns = uptime(kernel) - self.counted_at;
        if in_ns < CROWD_PERIOD_NS {
            return;
        }
        self.mean_weight = mean_weight(self.mean_weight, self.beside_ns, self.weighed_ns, in_ns);
        (self.beside_ns, self.weighed_ns) = (0, 0);
        self.nr_ready = serial_ready(self.nr_ready, self.ready_ns - self.counted_ns, in_ns);
        self.counted_at = uptime(kernel);
        self.counted_ns = self.ready_ns;
        let online = (0..kernel.cpus.len()).filter(|&cpu| kernel.is_online(cpu));
        self.boost_left = boost_left(self.nr_ready, online.count() as u32);
    }
}
