// SPDX-License-Identifier: GPL-2.0-only
//! How late an interactive program was.

use std::fmt;

use serde::{Deserialize, Serialize};
use threadwise_metrics::percentile;

/// Name and version of the report's JSON form.
pub const SCHEMA: &str = "threadwise.bench.interactive/1";

/// How late wake-ups were, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half were no later.
    pub median: f64,
    /// 99 of 100 were no later, interpolated between the nearest two.
    pub p99: f64,
    /// The latest.
    pub most: f64,
}

impl Latency {
    /// Of these times in nanoseconds; nothing of none.
    pub(super) fn of(late_ns: &[u64]) -> Option<Self> {
        let late_us: Vec<f64> = late_ns.iter().map(|&ns| ns as f64 / 1e3).collect();
        let at = |percent| percentile(&late_us, percent).ok();
        Some(Self {
            median: at(50.0)?,
            p99: at(99.0)?,
            most: at(100.0)?,
            mean: late_us.iter().sum::<f64>() / late_us.len() as f64,
        })
    }
}

/// The result of a run: what was asked for, then how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// How long it was to sleep on average.
    pub sleep_us: f64,
    /// Work units each time it was awake.
    pub units: u64,
    /// Seed of the times that it slept.
    pub seed: u64,
    /// CLOCK_MONOTONIC at the start, in ns.
    pub started_at_ns: u64,
    /// From the start to the end, in s.
    pub duration_s: f64,
    /// A signal ended the run before its time.
    pub interrupted: bool,
    /// How often it woke up.
    pub wakeups: u64,
    /// How late.
    pub latency_us: Latency,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.interrupted { ", interrupted" } else { "" };
        let Latency {
            mean,
            median,
            p99,
            most,
        } = self.latency_us;
        writeln!(
            f,
            "interactive: asleep for {:.0} us on average, awake for {} units; {} wake-ups in {:.3} s{end}",
            self.sleep_us, self.units, self.wakeups, self.duration_s
        )?;
        writeln!(f, "  late by {mean:.0} us on average, {most:.0} at most")?;
        // In seconds, as experiments read times (`time_label`).
        writeln!(
            f,
            "  half no later than {:.6} s, 99 of 100 no later than {:.6} s",
            median / 1e6,
            p99 / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_the_result() {
        let late_ns: Vec<u64> = (0..=100).map(|n| n * 1000).collect();
        let report = Report {
            schema: SCHEMA.to_owned(),
            sleep_us: 5000.0,
            units: 20,
            seed: 1,
            started_at_ns: 5,
            duration_s: 2.0,
            interrupted: true,
            wakeups: 101,
            latency_us: Latency::of(&late_ns).unwrap(),
        };
        let expected = "\
interactive: asleep for 5000 us on average, awake for 20 units; 101 wake-ups in 2.000 s, interrupted
  late by 50 us on average, 100 at most
  half no later than 0.000050 s, 99 of 100 no later than 0.000099 s
";
        assert_eq!(report.to_string(), expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        assert_eq!(Latency::of(&[]), None);
    }
}
