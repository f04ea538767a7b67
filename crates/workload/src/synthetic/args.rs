// SPDX-License-Identifier: GPL-2.0-only
//! The benchmark's options on a command line.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::{Distribution, PhaseLength, Reading, Spec, Wait};
use crate::Ratio;
use crate::arguments::{MOST_THREADS, bytes, positive, seconds};
use crate::memory::Sharing;

/// Run one synthetic program and report the work that it got done.
///
/// The program repeats rounds of a parallel phase, in which all its threads compute, and a serial phase, in which only
/// the main thread does. Phase lengths are random but fixed by the seed. Work is counted in units of about 400 integer
/// instructions that touch no memory, unless --working-set is given.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Parallel to serial work per core, such as 1:1, 4:1, inf:1 or 1:inf.
    ///
    /// P:S, where either may be inf. A 1:1 program alone on equal cores spends as much time in parallel phases as in
    /// serial ones.
    #[arg(long, value_name = "P:S", default_value = "1:1")]
    pub ratio: Ratio,

    /// Threads in a parallel phase, the main thread included [default: the CPUs available].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub threads: Option<u32>,

    /// How long to run, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Duration,

    /// Mean phase length in work units per thread.
    ///
    /// Use this, not --phase-ms, for runs that are to be compared with each other: it gives the same work in the same
    /// order whatever the machine is doing.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=super::MAX_PHASE_UNITS))]
    pub phase_units: Option<u64>,

    /// Mean phase length in milliseconds [default: 20].
    ///
    /// Converted to work units by a calibration on one thread at the start, some 0.1 s, whose result varies from run
    /// to run.
    #[arg(long, value_name = "MS", conflicts_with = "phase_units", value_parser = positive, allow_negative_numbers = true)]
    pub phase_ms: Option<f64>,

    /// Distribution of the phase lengths about their mean.
    #[arg(long, value_enum, default_value_t)]
    pub distribution: Distribution,

    /// How threads wait for each other.
    #[arg(long, value_enum, default_value_t)]
    pub wait: Wait,

    /// Seed of the phase lengths.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Read random lines of a working set meanwhile: bytes, or with K, M or G.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub working_set: Option<u64>,

    /// Lines read in 1000 units.
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "working_set", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub accesses: u32,

    /// Whether each thread has a working set of its own.
    #[arg(long, value_enum, default_value_t, requires = "working_set")]
    pub sharing: Sharing,

    /// Start the first phase at this time of CLOCK_MONOTONIC, in ns.
    ///
    /// Gives several programs a common start, after each has calibrated and created its threads. An error if the time
    /// is past by then.
    #[arg(long, value_name = "T")]
    pub start_at_ns: Option<u64>,
}

impl From<Args> for Spec {
    /// A run that SIGINT and SIGTERM end early.
    fn from(args: Args) -> Self {
        let default = Self::default();
        let phase = match (args.phase_units, args.phase_ms) {
            (Some(units), _) => PhaseLength::Units(units),
            (None, Some(ms)) => PhaseLength::Milliseconds(ms),
            (None, None) => default.phase,
        };
        Self {
            ratio: args.ratio,
            threads: args.threads.unwrap_or(default.threads),
            duration: args.duration,
            phase,
            distribution: args.distribution,
            wait: args.wait,
            seed: args.seed,
            reading: args.working_set.map(|bytes| Reading {
                bytes,
                per_1000_units: args.accesses,
                sharing: args.sharing,
            }),
            start_at_ns: args.start_at_ns,
            catch_interrupts: true,
        }
    }
}

/// CPUs that this process may use, at least 1.
pub(super) fn available_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn spec(line: &str) -> Result<Spec, clap::Error> {
        Command::try_parse_from(line.split_whitespace()).map(|command| command.args.into())
    }

    #[test]
    fn defaults_are_those_of_the_spec() {
        let expected = Spec {
            catch_interrupts: true,
            ..Spec::default()
        };
        assert_eq!(spec("synthetic").unwrap(), expected);
    }

    #[test]
    fn options_reach_the_spec() {
        let line = "synthetic --ratio inf:1 -n 3 --duration 0.5 --phase-units 9 --distribution exponential \
                    --wait active --seed 4 --start-at-ns 77 --working-set 3M --accesses 1140 --sharing shared";
        let expected = Spec {
            ratio: Ratio::PARALLEL,
            threads: 3,
            duration: Duration::from_millis(500),
            phase: PhaseLength::Units(9),
            distribution: Distribution::Exponential,
            wait: Wait::Active,
            seed: 4,
            reading: Some(Reading {
                bytes: 3 << 20,
                per_1000_units: 1140,
                sharing: Sharing::Shared,
            }),
            start_at_ns: Some(77),
            catch_interrupts: true,
        };
        assert_eq!(spec(line).unwrap(), expected);
        assert_eq!(
            spec("synthetic --phase-ms 2.5").unwrap().phase,
            PhaseLength::Milliseconds(2.5)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let lines = [
            "--ratio 0:0",
            "-n 0",
            "--duration 0",
            "--duration nan",
            "--phase-units 0",
            "--phase-ms -1",
            "--accesses 5",
            "--working-set 3M --accesses 0",
            "--working-set 63",
        ];
        for line in
            lines
                .into_iter()
                .chain(["--phase-ms 1 --phase-units 1", "--wait maybe", "--duration 1e300"])
        {
            assert!(spec(&format!("synthetic {line}")).is_err(), "{line}");
        }
    }
}
