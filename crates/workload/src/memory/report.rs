// SPDX-License-Identifier: GPL-2.0-only
//! What a run of the memory workload did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Pattern, Sharing};

/// Name and version of the report's JSON form.
pub const SCHEMA: &str = "threadwise.bench.memory/1";

/// The result of a run: what was asked for, then what was done. All writes have been found in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Threads.
    pub threads: u32,
    /// The working set, of each thread or shared.
    pub bytes: u64,
    /// The order of accesses.
    pub pattern: Pattern,
    /// Whose the lines are.
    pub sharing: Sharing,
    /// Of 100 accesses so many wrote.
    pub write_percent: u32,
    /// Steps of a calculation between two accesses.
    pub compute: u32,
    /// Seed of random orders.
    pub seed: u64,
    /// CLOCK_MONOTONIC at the start, in ns.
    pub started_at_ns: u64,
    /// From the start to the end of the last thread, in s.
    pub duration_s: f64,
    /// A signal ended the run before its time.
    pub interrupted: bool,
    /// Lines accessed by all threads.
    pub accesses: u64,
    /// `accesses` / `duration_s`.
    pub accesses_per_s: f64,
    /// Lines accessed by each thread.
    pub accesses_per_thread: Vec<u64>,
    /// Lines written by all threads.
    pub writes: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lower = |name: &dyn fmt::Debug| format!("{name:?}").to_lowercase();
        writeln!(
            f,
            "memory {} of {} bytes, {} threads, {}, {} % writes, {} steps between accesses",
            lower(&self.pattern),
            self.bytes,
            self.threads,
            lower(&self.sharing),
            self.write_percent,
            self.compute
        )?;
        let end = if self.interrupted { ", interrupted" } else { "" };
        let ns = self.duration_s * 1e9 * f64::from(self.threads) / self.accesses.max(1) as f64;
        writeln!(
            f,
            "  {:.0} accesses/s: {} in {:.3} s{end}; {ns:.1} ns each",
            self.accesses_per_s, self.accesses, self.duration_s
        )?;
        let least = self.accesses_per_thread.iter().min().copied().unwrap_or(0);
        let most = self.accesses_per_thread.iter().max().copied().unwrap_or(0);
        writeln!(
            f,
            "  {} writes, all found; {least} to {most} accesses per thread",
            self.writes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_the_result() {
        let report = Report {
            schema: SCHEMA.to_owned(),
            threads: 2,
            bytes: 4096,
            pattern: Pattern::Chase,
            sharing: Sharing::Shared,
            write_percent: 10,
            compute: 0,
            seed: 1,
            started_at_ns: 5,
            duration_s: 2.0,
            interrupted: true,
            accesses: 1000,
            accesses_per_s: 500.0,
            accesses_per_thread: vec![600, 400],
            writes: 100,
        };
        let expected = "\
memory chase of 4096 bytes, 2 threads, shared, 10 % writes, 0 steps between accesses
  500 accesses/s: 1000 in 2.000 s, interrupted; 4000000.0 ns each
  100 writes, all found; 400 to 600 accesses per thread
";
        assert_eq!(report.to_string(), expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
