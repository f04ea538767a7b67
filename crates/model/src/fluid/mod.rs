// SPDX-License-Identifier: GPL-2.0-only
//! The fluid model: joint phases over time with perfect sharing.
//!
//! A program is serial (one thread) or parallel (a thread for each core); thread-essence, section VI, gives the speed
//! of each program in each joint phase, such as (S,P). Here the programs go through their phases, at those speeds, and
//! the long-run throughputs come out. Sharing is perfect: cores are divided continuously, and switches, migrations and
//! joins cost nothing. Speeds are in *core units*: 1 is one thread on one slow core.
//!
//! [`play_out`] follows random phase lengths like those of the synthetic benchmark, with a standard error;
//! [`expectation`] has no randomness and is exact for independent exponential lengths. Without seniority the two agree
//! for every distribution tried; with seniority the result depends on the distribution, as seniority keeps a program
//! going that has less left of its phase than its rival. Start at [`play_out`].

mod bound;
mod expectation;
mod joint;
mod playout;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::phases::MeanRound;

pub use bound::bound_total;
pub use expectation::{MAX_EXPECTED_PROGRAMS, expectation};
pub use playout::{Length, Playout, play_out};

/// A machine of thread-essence, section VI: n cores, one of which is faster by the factor a.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    cores: u32,
    asymmetry: f64,
}

impl Machine {
    /// `cores` is n >= 1; `asymmetry` is a >= 1, and 1 makes all cores equal. The paper assumes a < 2, where it never
    /// pays to leave a slow core idle; with perfect sharing no core is idle for any a.
    ///
    /// # Errors
    /// If there is no core, or `asymmetry` is below 1 or not finite.
    pub fn new(cores: u32, asymmetry: f64) -> Result<Self, Error> {
        if cores == 0 {
            return Err(Error::NoCores);
        }
        if !asymmetry.is_finite() || asymmetry < 1.0 {
            return Err(Error::Asymmetry { asymmetry });
        }
        Ok(Self { cores, asymmetry })
    }

    /// The number of cores, n.
    pub fn cores(self) -> u32 {
        self.cores
    }

    /// The speed of the fast core in core units, a.
    pub fn asymmetry(self) -> f64 {
        self.asymmetry
    }

    /// The speed of the `count` fastest cores together, in core units; 0 for none. All of them: n - 1 + a (eq. 7).
    fn fastest(self, count: u32) -> f64 {
        if count == 0 {
            0.0
        } else {
            f64::from(count.min(self.cores)) - 1.0 + self.asymmetry
        }
    }

    /// The speed of all cores together, in core units: n - 1 + a (eq. 7).
    pub fn all(self) -> f64 {
        self.fastest(self.cores)
    }

    /// The long-run throughput of a program that has the machine to itself, in core units (eqs. 6 and 7, each for its
    /// share of the work).
    pub fn alone(self, ratio: Ratio) -> f64 {
        let round = self.mean_units(ratio);
        let time = round.parallel / self.all() + round.serial / self.asymmetry;
        (round.parallel + round.serial) / time
    }

    /// The mean work of a round by all threads, where the mean phase takes one thread on a slow core one unit of time.
    fn mean_units(self, ratio: Ratio) -> MeanRound {
        let MeanRound { parallel, serial } = MeanRound::new(ratio, 1.0);
        MeanRound {
            parallel: parallel * f64::from(self.cores),
            serial,
        }
    }
}

/// Who gets which cores. With s serial and p parallel programs on n cores:
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The averages of Tables 1 and 2: all s + p·n ready threads have equal shares of all cores, so that in (S,P) the
    /// serial thread runs at (n-1+a)/(n+1) (eq. 16) and the parallel program at n/(n+1) of the machine (eq. 19). Fewer
    /// threads than cores run on the fastest cores in turn (eq. 10).
    PhasesUnknown,
    /// Tables 5 and 6: each serial thread has a core, and they share the fastest in turn; the parallel programs have
    /// equal shares of the other n - s. With n or more serial threads, those share all cores and the parallel programs
    /// wait.
    SerialBoost,
    /// As [`Policy::SerialBoost`], but the cores that the serial threads leave all go to the program that entered its
    /// parallel phase first (section VII). An `inf:1` program enters anew at each join, or it would never yield. There
    /// is no timeout.
    Seniority,
    /// As [`Policy::Seniority`], but the senior program is always the first in the list, whoever entered first.
    ///
    /// A fixed priority, kept for comparison: with uniform phases it is what yields 7.03 core units for (1:1)+(1:1)
    /// and 7.51 for (4:1)+(1:4) on 8 equal cores. It depends on the order of the programs and may starve the others.
    FixedPriority,
}

/// What one program gets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// Its parallel to serial work.
    pub ratio: Ratio,
    /// Throughput alone on the machine, in core units.
    pub alone: f64,
    /// Throughput together with the others, in core units; 0 if it starves.
    pub together: f64,
    /// `together` / `alone` (eq. 2).
    pub speedup: f64,
}

/// What a policy yields for programs that run together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One for each program, in the order given.
    pub programs: Vec<ProgramOutcome>,
    /// Throughput of all programs together, in core units.
    pub total: f64,
}

impl Outcome {
    fn new(machine: Machine, ratios: &[Ratio], together: &[f64]) -> Self {
        let outcome = |(ratio, together): (&Ratio, &f64)| {
            let alone = machine.alone(*ratio);
            ProgramOutcome {
                ratio: *ratio,
                alone,
                together: *together,
                speedup: together / alone,
            }
        };
        Self {
            programs: ratios.iter().zip(together).map(outcome).collect(),
            total: together.iter().sum(),
        }
    }

    /// The speedup of each program, in order.
    pub fn speedups(&self) -> Vec<f64> {
        self.programs.iter().map(|program| program.speedup).collect()
    }
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A machine has at least one core.
    #[error("a machine of 0 cores runs nothing: give it 1 or more")]
    NoCores,
    /// The factor of the fast core is out of range.
    #[error("a fast core of speed {asymmetry} is out of range: it must be 1 (equal cores) or more")]
    Asymmetry {
        /// What was given.
        asymmetry: f64,
    },
    /// There is nothing to run.
    #[error("no programs: give the ratio of at least one")]
    NoPrograms,
    /// The exact solution has a state for each joint phase and order of entry, which grows faster than exponentially.
    #[error(
        "{programs} programs are too many for the expectation: at most {MAX_EXPECTED_PROGRAMS}; play them out"
    )]
    TooManyPrograms {
        /// How many were given.
        programs: usize,
    },
    /// The length of a playout is out of range.
    #[error(
        "a playout of {batches} batches of {batch_phases} mean phases is out of range: at least 2 of above 0"
    )]
    Length {
        /// Batches.
        batches: u32,
        /// Mean phases in each.
        batch_phases: f64,
    },
    /// The equations of the joint phases have no unique solution, for instance as a ratio is too extreme.
    #[error("the joint phases of these programs have no single long-run average: play them out")]
    NoLongRun,
    /// Throughputs and speedups are not those of the same programs.
    #[error("{alone} throughputs alone do not match {speedups} speedups")]
    Unmatched {
        /// Throughputs given.
        alone: usize,
        /// Speedups given.
        speedups: usize,
    },
    /// A throughput or speedup is negative or not finite.
    #[error(
        "`{value}` for program {program} is neither a throughput nor a speedup: it must be 0 or more, and finite"
    )]
    Value {
        /// Counted from 0.
        program: usize,
        /// What was given.
        value: f64,
    },
    /// A statistic of the playout could not be computed.
    #[error(transparent)]
    Metrics(#[from] threadwise_metrics::Error),
}
