// SPDX-License-Identifier: GPL-2.0-only
//! The program's options on a command line.

use std::time::Duration;

use super::Spec;
use crate::arguments::{positive, seconds};

/// Sleep, run for a short while, and report how late each wake-up was.
///
/// It stands for what people wait for: an editor, a shell, a server. Run it beside other programs, under one scheduler and
/// under another. How late is counted from when its timer was to expire.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How long to sleep on average, in milliseconds: uniformly between nothing and twice as long.
    #[arg(long, value_name = "MS", default_value = "5", value_parser = milliseconds, allow_negative_numbers = true)]
    pub sleep_ms: Duration,

    /// Work units, of some 400 instructions each, each time it is awake.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub units: u64,

    /// How long to run, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    pub duration: Duration,

    /// Seed of the times that it sleeps.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl From<Args> for Spec {
    /// A run that SIGINT and SIGTERM end early.
    fn from(args: Args) -> Self {
        Self {
            sleep: args.sleep_ms,
            units: args.units,
            duration: args.duration,
            seed: args.seed,
            catch_interrupts: true,
        }
    }
}

/// Milliseconds: a time that is long enough to sleep.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let duration =
        Duration::try_from_secs_f64(positive(text)? / 1e3).map_err(|error| format!("`{text}`: {error}"))?;
    if duration < Spec::LEAST_SLEEP {
        return Err(format!("`{text}` ms is less than 0.01"));
    }
    Ok(duration)
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

    #[test]
    fn options_reach_the_spec() {
        let spec = |line: &str| {
            let parsed = Command::try_parse_from(line.split_whitespace());
            parsed.map(|command| Spec::from(command.args))
        };
        let caught = Spec {
            catch_interrupts: true,
            ..Spec::default()
        };
        assert_eq!(spec("interactive").unwrap(), caught);
        let expected = Spec {
            sleep: Duration::from_micros(500),
            units: 7,
            duration: Duration::from_secs(2),
            seed: 3,
            catch_interrupts: true,
        };
        assert_eq!(
            spec("interactive --sleep-ms 0.5 --units 7 --duration 2 --seed 3").unwrap(),
            expected
        );
        for line in [
            "--sleep-ms 0",
            "--sleep-ms 0.009",
            "--sleep-ms inf",
            "--duration 0",
            "--units -1",
        ] {
            assert!(spec(&format!("interactive {line}")).is_err(), "{line}");
        }
    }
}
