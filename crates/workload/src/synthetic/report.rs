// SPDX-License-Identifier: GPL-2.0-only
//! What a run of the synthetic benchmark did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::phases::Distribution;
use super::reading::Reading;
use super::team::Wait;
use crate::Ratio;

/// Name and version of the report's JSON form.
pub const SCHEMA: &str = "threadwise.bench.synthetic/1";

/// The result of a run: what was asked for, then what was done. Counts include the unfinished last round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Parallel to serial work.
    pub ratio: Ratio,
    /// Threads in a parallel phase, the main thread included.
    pub threads: u32,
    /// Seed of the phase lengths.
    pub seed: u64,
    /// Mean phase length in work units per thread.
    pub phase_units: u64,
    /// Work units per second of one thread by the calibration at the start; absent if the mean was given in units.
    pub calibrated_units_per_s: Option<f64>,
    /// Distribution of the phase lengths.
    pub distribution: Distribution,
    /// How threads waited for each other.
    pub wait: Wait,
    /// What threads read while they worked; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// CLOCK_MONOTONIC at the start of the first phase, in ns.
    pub started_at_ns: u64,
    /// From the start of the first phase to the stop, measured, in s.
    pub duration_s: f64,
    /// A signal ended the run before its time.
    pub interrupted: bool,
    /// Work units finished by all threads: the sum of `units_per_thread`, and of parallel and serial units.
    pub work_units: u64,
    /// `work_units` / `duration_s`: the paper's "performance"; 0 if the run was interrupted before it began.
    pub work_units_per_s: f64,
    /// Rounds finished: a parallel phase and the serial phase after it, or a single phase for `inf:1` and `1:inf`.
    pub rounds: u64,
    /// Work units finished in parallel phases, by all threads.
    pub parallel_units: u64,
    /// Work units finished in serial phases.
    pub serial_units: u64,
    /// Work units finished by each thread, the main thread first.
    pub units_per_thread: Vec<u64>,
    /// Time in parallel phases, from fork to join, in s.
    pub parallel_s: f64,
    /// Time in serial phases, in s.
    pub serial_s: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "synthetic {} threads {} seed {} phase {} units ({}, {} wait)",
            self.ratio,
            self.threads,
            self.seed,
            self.phase_units,
            lower(self.distribution),
            lower(self.wait)
        )?;
        if let Some(reading) = self.reading {
            writeln!(
                f,
                "  {} random lines of {} bytes, {}, read in 1000 units",
                reading.per_1000_units,
                reading.bytes,
                lower(reading.sharing)
            )?;
        }
        let end = if self.interrupted { ", interrupted" } else { "" };
        writeln!(
            f,
            "  {:.0} units/s: {} units in {:.3} s{end}",
            self.work_units_per_s, self.work_units, self.duration_s
        )?;
        writeln!(
            f,
            "  parallel {:>14} units in {:.3} s",
            self.parallel_units, self.parallel_s
        )?;
        writeln!(
            f,
            "  serial   {:>14} units in {:.3} s",
            self.serial_units, self.serial_s
        )?;
        let least = self.units_per_thread.iter().min().copied().unwrap_or(0);
        let most = self.units_per_thread.iter().max().copied().unwrap_or(0);
        write!(f, "  {} rounds, {least} to {most} units per thread", self.rounds)
    }
}

fn lower(name: impl fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Sharing;

    fn report() -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            ratio: Ratio::new(4.0, 1.0).unwrap(),
            threads: 2,
            seed: 7,
            phase_units: 1000,
            calibrated_units_per_s: None,
            distribution: Distribution::Uniform,
            wait: Wait::Passive,
            reading: None,
            started_at_ns: 5,
            duration_s: 2.0,
            interrupted: true,
            work_units: 30,
            work_units_per_s: 15.0,
            rounds: 3,
            parallel_units: 26,
            serial_units: 4,
            units_per_thread: vec![17, 13],
            parallel_s: 1.5,
            serial_s: 0.5,
        }
    }

    #[test]
    fn the_text_tells_the_result() {
        let text = report().to_string();
        let expected = "\
synthetic 4:1 threads 2 seed 7 phase 1000 units (uniform, passive wait)
  15 units/s: 30 units in 2.000 s, interrupted
  parallel             26 units in 1.500 s
  serial                4 units in 0.500 s
  3 rounds, 13 to 17 units per thread";
        assert_eq!(text, expected);
        let reading = Report {
            reading: Some(Reading {
                bytes: 4096,
                per_1000_units: 1140,
                sharing: Sharing::Shared,
            }),
            ..report()
        };
        assert!(
            reading.to_string().contains(
                "wait)\n  1140 random lines of 4096 bytes, shared, read in 1000 units\n  15 units/s"
            )
        );
    }

    #[test]
    fn json_reads_back() {
        let json = serde_json::to_string(&report()).unwrap();
        assert!(
            json.starts_with(r#"{"schema":"threadwise.bench.synthetic/1","ratio":"4:1","threads":2"#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report());
    }
}
