// SPDX-License-Identifier: GPL-2.0-only
//! Equations 6 to 23 and Tables 1 to 6, as functions of n, a and k.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::One;

use super::{Error, Others};

/// The machine of section VI: n cores, one of which is faster by the factor a.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    cores: u32,
    n: BigRational,
    a: BigRational,
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One thread is ready.
    Serial,
    /// n threads are ready.
    Parallel,
}

/// What two programs do, the one whose speedup is asked for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Of program A.
    pub a: Phase,
    /// Of program B.
    pub b: Phase,
}

/// Who assigns threads to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Knows no phases: all threads are equal, and all ways to place them on the cores.
    Baseline,
    /// Section VII: each serial thread has a core for itself, the large one first.
    Proposed,
}

/// The performance of a program beside others over its performance alone (eq. 2), over the ways to place its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speedup {
    /// In the worst case.
    pub min: BigRational,
    /// Where all ways are equally likely.
    pub avg: BigRational,
    /// In the best case.
    pub max: BigRational,
}

/// A lower bound for fairness (Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// Both serial (eq. 20).
    BothSerial,
    /// One serial and at its worst, the other parallel and at its best (eq. 22).
    SerialLoses,
    /// One serial and at its best, the other parallel and at its worst (eq. 23).
    ParallelLoses,
    /// Both parallel (eq. 21).
    BothParallel,
}

pub(super) fn number(value: u32) -> BigRational {
    BigRational::from_integer(BigInt::from(value))
}

fn smaller_over_larger(x: BigRational, y: BigRational) -> BigRational {
    if x < y { x / y } else { y / x }
}

fn fraction(above: u32, below: u32) -> BigRational {
    BigRational::new(BigInt::from(above), BigInt::from(below))
}

impl Joint {
    /// All four, in the order of the tables.
    pub const ALL: [Self; 4] = {
        use Phase::{Parallel, Serial};
        [
            Self { a: Serial, b: Serial },
            Self {
                a: Serial,
                b: Parallel,
            },
            Self {
                a: Parallel,
                b: Serial,
            },
            Self {
                a: Parallel,
                b: Parallel,
            },
        ]
    };
}

impl Speedup {
    /// How far the execution times of equal runs may lie apart: the tables' last column.
    pub fn spread(&self) -> BigRational {
        &self.max / &self.min
    }
}

impl Machine {
    /// `cores` is n >= 2, `asymmetry` is a with 1 <= a <= 2, where it never pays to leave a slow core idle.
    ///
    /// # Errors
    /// If one is out of range.
    pub fn new(cores: u32, asymmetry: BigRational) -> Result<Self, Error> {
        if cores < 2 {
            return Err(Error::Cores { cores });
        }
        if asymmetry < BigRational::one() || asymmetry > number(2) {
            return Err(Error::Asymmetry { asymmetry });
        }
        Ok(Self {
            cores,
            n: number(cores),
            a: asymmetry,
        })
    }

    /// The number of cores, n.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// Whether all cores are equal.
    pub fn is_symmetric(&self) -> bool {
        self.a.is_one()
    }

    /// The performance of one thread that has the machine to itself, in slow cores (eq. 6).
    pub fn serial(&self) -> BigRational {
        self.a.clone()
    }

    /// The performance of n threads that have the machine to themselves, in slow cores (eq. 7).
    pub fn parallel(&self) -> BigRational {
        &self.n - number(1) + &self.a
    }

    /// The speedup of program A beside program B (Tables 1 and 5, and Table 2 where all cores are equal).
    pub fn speedup(&self, joint: Joint, scheduler: Scheduler) -> Speedup {
        let (n, a, all) = (&self.n, &self.a, self.parallel());
        match (joint.a, joint.b, scheduler) {
            // Eqs. 8 to 10: the large core is A's or B's.
            (Phase::Serial, Phase::Serial, _) => Speedup {
                min: a.recip(),
                avg: (number(1) + a.recip()) / number(2),
                max: number(1),
            },
            // Eqs. 14 to 16: from sharing a small core to having the large one.
            (Phase::Serial, Phase::Parallel, Scheduler::Baseline) => Speedup {
                min: (number(2) * a).recip(),
                avg: &all / (a * (n + number(1))),
                max: number(1),
            },
            (Phase::Serial, Phase::Parallel, Scheduler::Proposed) => Speedup {
                min: number(1),
                avg: number(1),
                max: number(1),
            },
            // Eqs. 17 to 19: from losing the large core to losing half of a small one.
            (Phase::Parallel, Phase::Serial, Scheduler::Baseline) => Speedup {
                min: (n - number(1)) / &all,
                avg: n / (n + number(1)),
                max: (n - fraction(3, 2) + a) / &all,
            },
            (Phase::Parallel, Phase::Serial, Scheduler::Proposed) => {
                let rest = (n - number(1)) / &all;
                Speedup {
                    min: rest.clone(),
                    avg: rest.clone(),
                    max: rest,
                }
            }
            // Eqs. 11 to 13, with the third term of eq. 13 as eq. 12 has it: none or two threads on the large core.
            (Phase::Parallel, Phase::Parallel, _) => Speedup {
                min: n / (number(2) * &all),
                avg: fraction(1, 2),
                max: (n - number(2) + number(2) * a) / (number(2) * &all),
            },
        }
    }

    /// A lower bound for the fairness between two programs without knowledge of phases (eqs. 20 to 23, Table 3).
    pub fn fairness_bound(&self, of: Fairness) -> BigRational {
        let [ss, sp, ps, pp] = Joint::ALL.map(|joint| self.speedup(joint, Scheduler::Baseline));
        match of {
            Fairness::BothSerial => smaller_over_larger(ss.min, ss.max),
            Fairness::SerialLoses => smaller_over_larger(sp.min, ps.max),
            Fairness::ParallelLoses => smaller_over_larger(ps.min, sp.max),
            Fairness::BothParallel => smaller_over_larger(pp.min, pp.max),
        }
    }

    /// The same bound for k programs: all serial, all parallel, or one serial among parallel ones.
    ///
    /// # Errors
    /// If `programs` is not 2 to n.
    pub fn fairness_bound_among(&self, of: Fairness, programs: u32) -> Result<BigRational, Error> {
        self.check_programs(programs)?;
        let beside = |phase, serial, parallel| {
            self.speedup_beside(phase, Others { serial, parallel }, Scheduler::Baseline)
        };
        let serial = beside(Phase::Serial, 0, programs - 1)?;
        let parallel = beside(Phase::Parallel, 1, programs - 2)?;
        let (x, y) = match of {
            Fairness::BothSerial => {
                let all = beside(Phase::Serial, programs - 1, 0)?;
                (all.min, all.max)
            }
            Fairness::SerialLoses => (serial.min, parallel.max),
            Fairness::ParallelLoses => (parallel.min, serial.max),
            Fairness::BothParallel => {
                let all = beside(Phase::Parallel, 0, programs - 1)?;
                (all.min, all.max)
            }
        };
        Ok(smaller_over_larger(x, y))
    }

    /// Tables 4 and 6 are about 2 to n programs.
    pub(super) fn check_programs(&self, programs: u32) -> Result<(), Error> {
        if (2..=self.cores).contains(&programs) {
            return Ok(());
        }
        Err(Error::Programs {
            programs,
            cores: self.cores,
        })
    }

    /// The worst and the best speedup of a program in this phase beside k - 1 others, whatever those do (Tables 4 and
    /// 6, which give no average). `programs` is k, 2 to n. With [`Scheduler::Proposed`] the best of a parallel program is
    /// that beside serial ones, as printed; where a - 1 > (n-k)(k-1)/k it has more beside parallel ones, with k threads on
    /// the large core: (a + (n-k)/k)/(n-1+a), for two programs as in Table 5.
    ///
    /// # Errors
    /// If `programs` is out of range.
    pub fn speedup_among(
        &self,
        programs: u32,
        phase: Phase,
        scheduler: Scheduler,
    ) -> Result<(BigRational, BigRational), Error> {
        self.check_programs(programs)?;
        let (n, a, k, all) = (&self.n, &self.a, number(programs), self.parallel());
        Ok(match (phase, scheduler) {
            // All k threads on one small core, or alone on the large one.
            (Phase::Serial, Scheduler::Baseline) => ((&k * a).recip(), number(1)),
            (Phase::Serial, Scheduler::Proposed) => (a.recip(), number(1)),
            // All others parallel too, and none of its threads on the large core; or all others serial, each beside
            // one of its threads on a small core.
            (Phase::Parallel, Scheduler::Baseline) => {
                (n / (&k * &all), (&all - (&k - number(1)) / number(2)) / &all)
            }
            // At best the others are serial and have a core each, the large one among them.
            (Phase::Parallel, Scheduler::Proposed) => (n / (&k * &all), (n - &k + number(1)) / &all),
        })
    }
}
