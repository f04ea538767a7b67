// SPDX-License-Identifier: GPL-2.0-only
//! Every way to place programs' threads on the cores of thread-essence, section VI, each simulated.
//!
//! Threads compute for ever and are bound to their cores, which they share by turns. So what a program gets depends on the
//! placement alone, as in the paper's tables; what real schedulers make of it is for experiments.

use std::collections::BTreeMap;
use std::ops::Range;

use threadwise_machine::Machine;
use threadwise_model::tables::{Others, Phase, Scheduler};

use crate::schedulers::RoundRobin;
use crate::{Costs, Ns, Program, Step, World};

/// As long as slices can be that end on time.
const SLICE: Ns = Costs::FREE.tick_period_ns;

/// A thread that computes for ever.
struct Endless;

impl Program for Endless {
    fn nr_threads(&self) -> usize {
        1
    }

    fn next(&mut self, _thread: usize, _now: Ns) -> Step {
        Step::Compute(Ns::MAX >> 2)
    }
}

/// n cores, of which the first may be faster.
pub struct Cores {
    machine: Machine,
}

/// Threads on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Load {
    all: u32,
    /// Of the program that is looked at.
    mine: u32,
}

/// What a program gets over what it gets alone, over all ways to place the threads.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// Where it gets the least.
    pub min: f64,
    /// Where all ways are equally likely.
    pub avg: f64,
    /// Where it gets the most.
    pub max: f64,
}

/// Threads that are placed on some cores as evenly as possible.
struct Crowd {
    cores: Range<usize>,
    all: u32,
    mine: u32,
}

impl Cores {
    /// So many, the first with the full capacity of 1024 and the others with `capacity`.
    ///
    /// # Errors
    /// If there is no such machine: with less than two cores, or a capacity that is not 1 to 1024.
    pub fn new(cores: u32, capacity: u32) -> Result<Self, threadwise_machine::Error> {
        let text = format!(
            "name = \"cores\"\ndescription = \"cores of which one may be faster\"\ntopology = \"core:{cores} pu:1\"\n\
             [[capacity]]\ncpus = \"0\"\ncapacity = 1024\n[[capacity]]\ncpus = \"1-{}\"\ncapacity = {capacity}\n",
            cores.saturating_sub(1)
        );
        Ok(Self {
            machine: Machine::from_toml(&text, "the tables' machine")?,
        })
    }

    /// A program in this phase beside others.
    ///
    /// # Errors
    /// As [`World::run_until`].
    pub fn speedup(&self, phase: Phase, others: Others, scheduler: Scheduler) -> Result<Simulated, String> {
        let n = self.machine.nr_cpus();
        let serial = others.serial + u32::from(phase == Phase::Serial);
        let parallel = others.parallel + u32::from(phase == Phase::Parallel);
        let threads_of_parallel = parallel * n as u32;
        let mine = match phase {
            Phase::Serial => 1,
            Phase::Parallel => n as u32,
        };
        let knows_phases = scheduler == Scheduler::Proposed;
        let (cores, all) = match phase {
            // Each serial thread has a core, the fast one first.
            Phase::Serial if parallel == 0 || knows_phases => (0..serial as usize, serial),
            Phase::Parallel if knows_phases => (serial as usize..n, threads_of_parallel),
            _ => (0..n, serial + threads_of_parallel),
        };
        let alone = Crowd {
            cores: 0..mine as usize,
            all: mine,
            mine,
        };
        let alone = self.work_rates(&alone)?.avg;
        let beside = self.work_rates(&Crowd { cores, all, mine })?;
        Ok(Simulated {
            min: beside.min / alone,
            avg: beside.avg / alone,
            max: beside.max / alone,
        })
    }

    /// What the program's threads get, in fast cores' worth.
    fn work_rates(&self, crowd: &Crowd) -> Result<Simulated, String> {
        let (mut min, mut max, mut sum, mut ways) = (f64::INFINITY, 0.0_f64, 0.0, 0.0);
        for (placement, nr_ways) in crowd.placements(self.machine.nr_cpus()) {
            let rate = self.simulate(&placement)?;
            (min, max) = (min.min(rate), max.max(rate));
            (sum, ways) = (sum + nr_ways * rate, ways + nr_ways);
        }
        let avg = sum / ways;
        Ok(Simulated { min, avg, max })
    }

    fn simulate(&self, placement: &[Load]) -> Result<f64, String> {
        let mut world = World::new(&self.machine, Costs::FREE, |kernel| {
            RoundRobin::new(kernel, SLICE)
        });
        let mut start = |threads: fn(&Load) -> u32| {
            for (cpu, load) in placement.iter().enumerate() {
                (0..threads(load)).for_each(|_| world.start(Box::new(Endless), 100, Some(cpu)));
            }
        };
        start(|load| load.mine);
        start(|load| load.all - load.mine);
        // All threads of a core have had equally many turns then.
        let turns = placement.iter().map(|load| u64::from(load.all.max(1)));
        let end = SLICE * turns.fold(1, least_common_multiple);
        world.run_until(end)?;
        let nr_mine = placement.iter().map(|load| load.mine as usize).sum();
        let mine = world.outcome().programs.into_iter().take(nr_mine);
        Ok(mine.map(|program| program.work_ns).sum::<f64>() / end as f64)
    }
}

impl Crowd {
    /// All placements that differ, each with the number of ways in which it comes about. Cores after the first are equal, so
    /// which of them has which load makes no difference.
    fn placements(&self, nr_cores: usize) -> BTreeMap<Vec<Load>, f64> {
        let mut found = BTreeMap::new();
        let nr_crowded = self.all % self.cores.len() as u32;
        self.place(nr_cores, nr_crowded, self.mine, 1.0, &mut Vec::new(), &mut found);
        found
    }

    /// Goes on with a placement on the cores after those in `placed`, of which `crowded` have one thread more than others.
    fn place(
        &self,
        nr_cores: usize,
        crowded: u32,
        mine: u32,
        ways: f64,
        placed: &mut Vec<Load>,
        found: &mut BTreeMap<Vec<Load>, f64>,
    ) {
        if placed.len() == nr_cores {
            if (crowded, mine) == (0, 0) {
                let mut placement = placed.clone();
                placement[1..].sort_unstable();
                *found.entry(placement).or_default() += ways;
            }
            return;
        }
        let least = match self.cores.contains(&placed.len()) {
            true => self.all / self.cores.len() as u32,
            false => 0,
        };
        let most_more = crowded.min(u32::from(self.cores.contains(&placed.len())));
        for more in 0..=most_more {
            let all = least + more;
            for here in 0..=mine.min(all) {
                placed.push(Load { all, mine: here });
                let ways = ways * choose(all, here);
                self.place(nr_cores, crowded - more, mine - here, ways, placed, found);
                placed.pop();
            }
        }
    }
}

/// In how many ways so many of `n` can be chosen.
fn choose(n: u32, so_many: u32) -> f64 {
    (0..so_many)
        .map(|i| f64::from(n - i) / f64::from(i + 1))
        .product()
}

fn least_common_multiple(x: u64, y: u64) -> u64 {
    let (mut larger, mut smaller) = (x, y);
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    x / larger * y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placement_is_counted_once() {
        // Nine threads on eight cores, of which eight are ours: choose the crowded core, and who is not ours.
        let crowd = Crowd {
            cores: 0..8,
            all: 9,
            mine: 8,
        };
        let placements = crowd.placements(8);
        assert_eq!(placements.values().sum::<f64>(), 8.0 * 9.0);
        // The first core is crowded or not, and has or has not a foreign thread; so may another of the cores.
        assert_eq!(placements.len(), 5);
        assert!(placements.keys().all(|loads| loads.len() == 8));
    }

    #[test]
    fn a_thread_alone_has_the_fast_core() {
        let cores = Cores::new(3, 512).unwrap();
        let alone = Others {
            serial: 1,
            parallel: 0,
        };
        let speedup = cores.speedup(Phase::Serial, alone, Scheduler::Baseline).unwrap();
        assert_eq!((speedup.min, speedup.avg, speedup.max), (0.5, 0.75, 1.0));
    }
}
