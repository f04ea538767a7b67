// SPDX-License-Identifier: GPL-2.0-only
//! The program's options on a command line.

use std::path::PathBuf;
use std::time::Duration;

use super::{Pattern, Sharing, Spec};
use crate::arguments::{MOST_THREADS, bytes, seconds};

/// Access the lines of a working set and report how many a second.
///
/// Each access reads a line of 64 bytes, and some write it too; at the end the lines must hold all that was written. The
/// threads are named mem-0, mem-1 and so on; the main thread sleeps. Nothing is pinned: that is for whoever assigns
/// threads to CPUs.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Threads.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_THREADS)))]
    pub threads: u32,

    /// The working set, of each thread if private, of all if shared: bytes, or with K, M or G.
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = bytes)]
    pub working_set: u64,

    /// In which order lines are accessed.
    #[arg(long, value_enum, default_value_t)]
    pub pattern: Pattern,

    /// Whether each thread has a working set of its own.
    #[arg(long, value_enum, default_value_t)]
    pub sharing: Sharing,

    /// The working set is the beginning of this file: one memory for all processes that name it.
    ///
    /// It is made, or made longer, if need be, and stays; in /dev/shm it is a shared-memory segment. It is only read, in an order of `sequential`
    /// or `random`, by all threads: with --sharing shared.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,

    /// Of 100 accesses so many write too.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub writes: u32,

    /// Steps of a calculation between two accesses, some ten instructions each.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub compute: u32,

    /// How long to run, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Duration,

    /// End after so many accesses of each thread, if that is earlier.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub accesses: Option<u64>,

    /// Seed of random orders.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Start at this time of CLOCK_MONOTONIC, in ns.
    ///
    /// Gives several programs a common start. An error if the time is past when the working sets are there.
    #[arg(long, value_name = "T")]
    pub start_at_ns: Option<u64>,
}

impl From<Args> for Spec {
    /// A run that SIGINT and SIGTERM end early.
    fn from(args: Args) -> Self {
        Self {
            threads: args.threads,
            bytes: args.working_set,
            pattern: args.pattern,
            sharing: args.sharing,
            file: args.file,
            write_percent: args.writes,
            compute: args.compute,
            duration: args.duration,
            accesses: args.accesses,
            seed: args.seed,
            start_at_ns: args.start_at_ns,
            catch_interrupts: true,
        }
    }
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
    fn options_reach_the_spec() {
        let expected = Spec {
            catch_interrupts: true,
            ..Spec::default()
        };
        assert_eq!(spec("memory").unwrap(), expected);
        let line = "memory -n 2 --working-set 64K --pattern random --sharing shared --file /dev/shm/set --writes 30 --compute 5 \
                    --duration 0.5 --accesses 9 --seed 4 --start-at-ns 77";
        let expected = Spec {
            threads: 2,
            bytes: 65536,
            pattern: Pattern::Random,
            sharing: Sharing::Shared,
            file: Some(PathBuf::from("/dev/shm/set")),
            write_percent: 30,
            compute: 5,
            duration: Duration::from_millis(500),
            accesses: Some(9),
            seed: 4,
            start_at_ns: Some(77),
            catch_interrupts: true,
        };
        assert_eq!(spec(line).unwrap(), expected);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "-n 0",
            "--working-set 63",
            "--working-set 65G",
            "--working-set 18446744073709551615G",
            "--working-set é",
            "--working-set",
            "--writes 101",
            "--duration 0",
            "--duration nan",
            "--accesses 0",
            "--pattern stream",
        ] {
            assert!(spec(&format!("memory {line}")).is_err(), "{line}");
        }
    }
}
