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
//! for every distribution ([`is_insensitive`]); with seniority the result depends on it, as seniority keeps a program
//! going that has less left of its phase than its rival. Start at [`play_out`]. [`average`] goes over all pairs, or
//! triples, of the paper's programs. How much more there is to be had says [`Policy::Clairvoyant`], which knows how
//! long phases last, and no scheduler exceeds [`most_total`].
//!
//! Beyond the paper, as its section IX asks: any number of programs, cores of several speeds ([`CoreType`]), phases of
//! any number of threads ([`Program`]).

mod bound;
mod expectation;
mod joint;
mod machine;
mod mixes;
mod playout;
mod program;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use bound::{bound_total, most_total};
pub use expectation::{MAX_EXPECTED_PROGRAMS, expectation, is_insensitive};
pub use machine::{CoreType, MAX_CORE_TYPES, Machine};
pub use mixes::{Average, Most, PAPER_RATIOS, average, long_run, mixes, most};
pub use playout::{Length, Playout, play_out, seed_of};
pub use program::{ParseProgramError, Phase, Program, Threads};

/// Who gets which cores. With s serial programs of one ready thread each and p parallel ones of n (or of whatever
/// number above one their phases have) on n cores:
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The averages of Tables 1 and 2: all s + p·n ready threads have equal shares of all cores, so that in (S,P) the
    /// serial thread runs at (n-1+a)/(n+1) (eq. 16) and the parallel program at n/(n+1) of the machine (eq. 19). Fewer
    /// threads than cores run on the fastest cores in turn (eq. 10).
    PhasesUnknown,
    /// As with phases unknown, and the fast core is not known either: fewer threads than cores run on any of them, all
    /// alike in the long run. Not in the paper, which has a lone thread on the large core (eq. 6).
    SpeedsUnknown,
    /// Tables 5 and 6: each serial thread has a core, and they share the fastest in turn; the parallel programs have
    /// equal shares of the other n - s. With n or more serial threads, those share all cores and the parallel programs
    /// wait.
    SerialBoost,
    /// Seniority boost without serial boost: the parallel programs wait for the one that entered its phase first, and its
    /// threads and the serial ones have equal shares, as with phases unknown.
    SeniorityAlone,
    /// Both boosts: as serial boost, but the cores that the serial threads leave all go to the program that entered its
    /// parallel phase first (section VII), as far as it has threads for them. An `inf:1` program enters anew at each
    /// join, or it would never yield. There is no timeout.
    Seniority,
    /// As both boosts, but the senior program is always the first in the list, whoever entered first.
    ///
    /// A fixed priority, kept for comparison: with uniform phases it is what yields 7.03 core units for (1:1)+(1:1)
    /// and 7.51 for (4:1)+(1:4) on 8 equal cores. It depends on the order of the programs and may starve the others.
    FixedPriority,
    /// As serial boost, but the cores that the serial threads leave go to the parallel program that would be done soonest,
    /// were it alone, with what it does up to the end of its next serial phase; what it leaves to the next, and so on. Those
    /// that are never serial come last. Looked at anew whenever a phase ends.
    ///
    /// No policy for a kernel, which does not know how long phases last: a mark for those that do not. Speed is lost while
    /// all programs are serial. So who goes first has little to do before its serial phase, whose length the others'
    /// parallel work has to cover, and that is short. It looks one round ahead and no further, so it is no bound by
    /// itself ([`most_total`] is), and it cares for no fairness.
    Clairvoyant,
}

impl Policy {
    /// Whether it matters who entered a parallel phase first.
    fn has_seniority(self) -> bool {
        matches!(self, Self::SeniorityAlone | Self::Seniority)
    }

    /// Whether it matters how long phases last.
    fn is_clairvoyant(self) -> bool {
        self == Self::Clairvoyant
    }
}

/// What one program gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// What it does.
    pub program: Program,
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
    /// The share of core time that is idle, whatever the speed of the cores: the paper's idle time.
    pub idle: f64,
}

impl Outcome {
    fn new(machine: Machine, programs: &[Program], together: &[f64], idle: f64) -> Self {
        let outcome = |(program, together): (&Program, &f64)| {
            let alone = machine.alone(program.clone());
            ProgramOutcome {
                program: program.clone(),
                alone,
                together: *together,
                speedup: together / alone,
            }
        };
        Self {
            programs: programs.iter().zip(together).map(outcome).collect(),
            total: together.iter().sum(),
            idle,
        }
    }

    /// The speedup of each program, in order.
    pub fn speedups(&self) -> Vec<f64> {
        self.programs.iter().map(|program| program.speedup).collect()
    }

    /// How evenly the programs are slowed down (eq. 3 for two, [`threadwise_metrics::fairness`]): 1 for one program, 0 if
    /// one starves.
    ///
    /// # Errors
    /// If a speedup is not finite.
    pub fn fairness(&self) -> Result<f64, Error> {
        let speedups = self.speedups();
        if speedups.len() == 1 {
            return Ok(1.0);
        }
        if speedups.contains(&0.0) {
            return Ok(0.0);
        }
        Ok(threadwise_metrics::fairness(&speedups)?)
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
    /// The speed of a kind of cores is out of range.
    #[error("a core of speed {speed} is out of range: it must be above 0, and finite")]
    Speed {
        /// What was given.
        speed: f64,
    },
    /// There are too many kinds of cores.
    #[error("{kinds} speeds of cores are too many: at most {MAX_CORE_TYPES} kinds")]
    CoreTypes {
        /// How many were given.
        kinds: usize,
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
    /// The states of the exact solution say in which phases programs are, and not how long these last.
    #[error("the expectation does not know how long phases last, by which `clairvoyant` goes: play it out")]
    Clairvoyant,
    /// Programs of many phases have more joint phases than the equations are solved for.
    #[error("these programs have too many joint phases for the expectation: play them out")]
    TooManyStates,
    /// The number of the paper's programs that run together is out of range.
    #[error("{programs} programs at a time are out of range: 1 to 4 of the paper's nine ratios")]
    Mixes {
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
