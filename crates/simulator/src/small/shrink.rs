// SPDX-License-Identifier: GPL-2.0-only
//! The least of a world in which something is wrong.

use threadwise_policy::{AlternateBy, Mode, PairingBy};
use threadwise_workload::synthetic::Wait;

use super::{Locking, MS, SmallWorld};
use crate::faults::Faults;
use crate::program::Memory;

impl SmallWorld {
    /// What is wrong in this world, and the smallest world in which the same is.
    ///
    /// One thing at a time is left out or made smaller, as long as what the checker says differs in nothing but numbers.
    pub fn shrink(&self, wrong: &str) -> (Self, String) {
        let mut least = (self.clone(), wrong.to_string());
        'again: loop {
            for smaller in least.0.smaller() {
                if let Err(wrong) = smaller.run()
                    && kind_of(&wrong) == kind_of(&least.1)
                {
                    least = (smaller, wrong);
                    continue 'again;
                }
            }
            return least;
        }
    }

    /// Worlds that lack something of this one, what takes away most first.
    fn smaller(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            if world != *self {
                worlds.push(world);
            }
        };
        for index in 0..self.programs.len() {
            add(&|world| {
                world.programs.remove(index);
                // They are numbers of programs.
                let share = &mut world.flags.share;
                share.retain(|&program| program != index);
                share
                    .iter_mut()
                    .for_each(|program| *program -= usize::from(*program > index));
            });
        }
        add(&|world| world.faults = Faults::default());
        for silence in FAULTS {
            add(&|world| *silence(&mut world.faults) = 0);
        }
        for part in [2, 3, 4, 10] {
            add(&|world| world.end_ns -= world.end_ns / part / MS * MS);
        }
        if self.capacities.len() > 1 {
            add(&|world| {
                world.capacities.pop();
                world.threads_per_core = 1;
                world.packages = 1;
                for program in &mut world.programs {
                    program.bound_to = program.bound_to.filter(|&cpu| cpu < world.capacities.len());
                }
            });
        }
        add(&|world| world.threads_per_core = 1);
        add(&|world| world.packages = 1);
        add(&|world| world.flags.mode = Mode::Near);
        add(&|world| world.flags.pairing = PairingBy::Off);
        add(&|world| world.flags.alternate = AlternateBy::Off);
        add(&|world| world.flags.share.clear());
        add(&|world| world.capacities.fill(1024));
        for index in 0..self.programs.len() {
            add(&|world| world.programs[index].threads = (world.programs[index].threads / 2).max(1));
            add(&|world| world.programs[index].threads = (world.programs[index].threads - 1).max(1));
            add(&|world| world.programs[index].bound_to = None);
            add(&|world| world.programs[index].weight = 100);
            add(&|world| world.programs[index].wait = Wait::Passive);
            add(&|world| world.programs[index].memory = Memory::default());
            add(&|world| world.programs[index].locking = None);
            for simplify in SIMPLER {
                add(&|world| world.programs[index].locking.iter_mut().for_each(simplify));
            }
        }
        worlds
    }
}

/// What of the things that threads with a mutex do can be left out.
const SIMPLER: [fn(&mut Locking); 4] = [
    |locking| locking.forks = false,
    |locking| locking.yields = false,
    |locking| locking.meets = false,
    |locking| locking.sleep_us = 0,
];

/// What of the faults can be left out.
const FAULTS: [fn(&mut Faults) -> &mut u64; 7] = [
    |faults| &mut faults.storm_every_ns,
    |faults| &mut faults.hotplug_every_ns,
    |faults| &mut faults.affinity_every_ns,
    |faults| &mut faults.speed_every_ns,
    |faults| &mut faults.lost_sample_in,
    |faults| &mut faults.late_kick_ns,
    |faults| &mut faults.timer_jitter_ns,
];

/// What was wrong, without what differs from world to world.
fn kind_of(wrong: &str) -> String {
    let first = wrong.lines().next().unwrap_or_default();
    first.chars().filter(|sign| !sign.is_ascii_digit()).collect()
}
