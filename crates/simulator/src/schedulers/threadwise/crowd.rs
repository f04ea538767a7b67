// SPDX-License-Identifier: GPL-2.0-only
//! What is charged, of which the policy counts how many serial tasks are ready and what those weigh that run (`crowd.bpf.h`).

use threadwise_policy::{Charged, Class, serial_ready_ns, weighed_ns};

use super::uptime;
use crate::Ns;
use crate::kernel::Kernel;

#[derive(Default)]
pub(super) struct Crowd {
    charged: Charged,
    counted: threadwise_policy::Crowd,
}

impl Crowd {
    /// What is left of boosts.
    pub(super) fn boost_left(&self) -> u32 {
        self.counted.boost_left()
    }

    /// What tasks that run beside others weigh on the mean, in 65536ths.
    pub(super) fn mean_weight(&self) -> u32 {
        self.counted.mean_weight()
    }

    /// A task of this weight that is beside others is charged.
    pub(super) fn weigh(&mut self, weight: u32, ran_ns: Ns) {
        self.charged.beside_ns += ran_ns;
        self.charged.weighed_ns += weighed_ns(weight, ran_ns);
    }

    /// A task is charged.
    pub(super) fn add(&mut self, class: Class, ran_ns: Ns, waited_ns: Ns) {
        if class == Class::Serial {
            self.charged.serial_ns += serial_ready_ns(ran_ns, waited_ns);
        }
    }

    /// Counts them, unless it did a moment ago.
    pub(super) fn count(&mut self, kernel: &Kernel) {
        let online = (0..kernel.cpus.len()).filter(|&cpu| kernel.is_online(cpu));
        self.counted
            .count(&self.charged, uptime(kernel), online.count() as u32);
    }
}
