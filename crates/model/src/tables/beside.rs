// SPDX-License-Identifier: GPL-2.0-only
//! Any joint phase of any number of programs: what lies between the cases of Tables 1 and 5 and those of 4 and 6.

use num_rational::BigRational;
use num_traits::{One, Zero};

use super::speedup::number;
use super::{Error, Machine, Phase, Scheduler, Speedup};

/// What the programs beside one do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// How many are serial.
    pub serial: u32,
    /// How many are parallel.
    pub parallel: u32,
}

/// Cores on which threads are placed as evenly as possible, and what a thread of a core gets: the speed of the core over
/// its number of threads.
struct Cores {
    /// The speed of the large core, if it is one of them.
    large: Option<BigRational>,
    small: u32,
    threads: u64,
}

/// So many equal places for a thread, and the speed of each.
type Places = (BigRational, u64);

impl Others {
    /// All in this phase.
    pub fn all(phase: Phase, count: u32) -> Self {
        match phase {
            Phase::Serial => Self {
                serial: count,
                parallel: 0,
            },
            Phase::Parallel => Self {
                serial: 0,
                parallel: count,
            },
        }
    }
}

impl Machine {
    /// The speedup of a program in this phase beside others: Tables 1 and 5 for one other, and for more the joint phases
    /// whose extremes Tables 4 and 6 give. Placement is as even as possible; the average is over all such placements.
    ///
    /// # Errors
    /// If the programs are not 2 to n in all.
    pub fn speedup_beside(
        &self,
        phase: Phase,
        others: Others,
        scheduler: Scheduler,
    ) -> Result<Speedup, Error> {
        let programs = others.serial.saturating_add(others.parallel).saturating_add(1);
        self.check_programs(programs)?;
        let serial = others.serial + u32::from(phase == Phase::Serial);
        let parallel = programs - serial;
        if phase == Phase::Serial && (parallel == 0 || scheduler == Scheduler::Proposed) {
            return Ok(self.each_with_a_core(serial));
        }
        let cores = match scheduler {
            Scheduler::Baseline => Cores {
                large: Some(self.serial()),
                small: self.cores() - 1,
                threads: u64::from(serial) + u64::from(parallel) * u64::from(self.cores()),
            },
            // The serial threads have a core each, the large one first.
            Scheduler::Proposed => Cores {
                large: (serial == 0).then(|| self.serial()),
                small: self.cores() - serial.max(1),
                threads: u64::from(parallel) * u64::from(self.cores()),
            },
        };
        let (threads, alone) = match phase {
            Phase::Serial => (1, self.serial()),
            Phase::Parallel => (self.cores(), self.parallel()),
        };
        let share = number(threads) / BigRational::from_integer(cores.threads.into());
        Ok(Speedup {
            min: cores.least(threads) / &alone,
            avg: cores.speed() * share / &alone,
            max: cores.greatest(threads) / &alone,
        })
    }

    /// Serial threads with a core each take turns on the large one.
    fn each_with_a_core(&self, serial: u32) -> Speedup {
        let a = self.serial();
        let slowest = if serial == 1 { number(1) } else { a.recip() };
        Speedup {
            min: slowest,
            avg: (number(serial - 1) + &a) / (number(serial) * &a),
            max: number(1),
        }
    }
}

impl Cores {
    /// Of all of them together.
    fn speed(&self) -> BigRational {
        number(self.small) + self.large.clone().unwrap_or_else(BigRational::zero)
    }

    /// The places if the large core is, or is not, among those that have one more thread than others; none if no such
    /// placement is as even as possible.
    fn places(&self, large_has_more: bool) -> Option<Vec<Places>> {
        let cores = u64::from(self.small) + u64::from(self.large.is_some());
        let (least, more) = (self.threads / cores, self.threads % cores);
        let small_with_more = more.checked_sub(u64::from(large_has_more))?;
        let small_with_least = u64::from(self.small).checked_sub(small_with_more)?;
        let on = |speed: BigRational, load: u64, cores: u64| {
            (speed / BigRational::from_integer(load.into()), cores * load)
        };
        let mut places = vec![on(BigRational::one(), least + 1, small_with_more)];
        if least > 0 {
            places.push(on(BigRational::one(), least, small_with_least));
        }
        match &self.large {
            Some(large) => places.push(on(large.clone(), least + u64::from(large_has_more), 1)),
            None if large_has_more => return None,
            None => (),
        }
        Some(places)
    }

    /// The worst that so many threads can get.
    fn least(&self, threads: u32) -> BigRational {
        let sums = self.sums(threads, |a, b| a.0.cmp(&b.0));
        sums.into_iter().min().unwrap_or_else(BigRational::zero)
    }

    /// The best that so many threads can get.
    fn greatest(&self, threads: u32) -> BigRational {
        let sums = self.sums(threads, |a, b| b.0.cmp(&a.0));
        sums.into_iter().max().unwrap_or_else(BigRational::zero)
    }

    /// What threads get in the first places by this order, with and without one more thread on the large core.
    fn sums(&self, threads: u32, order: fn(&Places, &Places) -> std::cmp::Ordering) -> Vec<BigRational> {
        let sum = |mut places: Vec<Places>| {
            places.sort_by(order);
            let mut left = u64::from(threads);
            let mut sum = BigRational::zero();
            for (speed, count) in places {
                let used = left.min(count);
                sum += speed * BigRational::from_integer(used.into());
                left -= used;
            }
            sum
        };
        let both = [false, true].map(|large_has_more| self.places(large_has_more));
        both.into_iter().flatten().map(sum).collect()
    }
}
