// SPDX-License-Identifier: GPL-2.0-only
//! Ready threads over time, and what they come to.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::picture;

/// Name and version of the series' JSON form.
pub const SCHEMA: &str = "threadwise.bench.ready-threads/1";

/// What one look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Since the first look, in ns. It stands for the time until the next look.
    pub at_ns: u64,
    /// Threads that were running or runnable.
    pub ready: u32,
}

/// The ready threads of a program over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// Between two looks, in ns, if nothing keeps the sampler from it.
    pub interval_ns: u64,
    /// Looks that came later than half an interval after their time.
    pub nr_late: u64,
    /// From the first look to the end of the program, in s.
    pub duration_s: f64,
    /// The mean number of ready threads, over time.
    pub mean_ready: f64,
    /// The share of time in which so many threads were ready, from 0 on; adds up to 1.
    pub share_of_time: Vec<f64>,
    /// All looks, in order; at least one.
    pub points: Vec<Point>,
}

/// Of whom a series is.
pub(super) struct Of {
    pub command: Vec<String>,
    pub status: Option<i32>,
    pub interval_ns: u64,
    pub nr_late: u64,
}

impl Series {
    /// Computes the rest from the looks, at least one, and the time of the end.
    pub(super) fn new(of: Of, points: Vec<Point>, end_ns: u64) -> Self {
        let most = points.iter().map(|point| point.ready).max().unwrap_or(0);
        let mut ns = vec![0u64; most as usize + 1];
        for (point, length_ns) in lengths(&points, end_ns) {
            ns[point.ready as usize] += length_ns;
        }
        let all = ns.iter().sum::<u64>().max(1) as f64;
        let share_of_time: Vec<f64> = ns.iter().map(|ns| *ns as f64 / all).collect();
        let weighted = share_of_time.iter().enumerate();
        Self {
            schema: SCHEMA.to_owned(),
            command: of.command,
            status: of.status,
            interval_ns: of.interval_ns,
            nr_late: of.nr_late,
            duration_s: end_ns as f64 / 1e9,
            mean_ready: weighted.map(|(ready, share)| ready as f64 * share).sum(),
            share_of_time,
            points,
        }
    }

    /// The share of time in which more threads were ready than `serial_threshold`: of parallel phases.
    pub fn parallel_share(&self, serial_threshold: usize) -> f64 {
        self.share_of_time.iter().skip(serial_threshold + 1).sum()
    }

    /// The mean number of ready threads in each of so many equal pieces of the time.
    pub fn means(&self, pieces: usize) -> Vec<f64> {
        let end_ns = (self.duration_s * 1e9).max(1.0);
        let piece_ns = end_ns / pieces as f64;
        let mut sums = vec![0.0; pieces];
        for (point, length_ns) in lengths(&self.points, end_ns as u64) {
            let (from, to) = (point.at_ns as f64, (point.at_ns + length_ns) as f64);
            let first = (from / piece_ns) as usize;
            for (piece, sum) in sums.iter_mut().enumerate().skip(first) {
                let start = piece as f64 * piece_ns;
                if start >= to {
                    break;
                }
                let overlap = to.min(start + piece_ns) - from.max(start);
                *sum += overlap.max(0.0) * f64::from(point.ready);
            }
        }
        sums.iter().map(|sum| sum / piece_ns).collect()
    }

    /// As comma-separated values: a line `at_ns,ready` for each look, under a heading.
    pub fn csv(&self) -> String {
        let lines = self.points.iter();
        let lines = lines.map(|point| format!("{},{}\n", point.at_ns, point.ready));
        std::iter::once(String::from("at_ns,ready\n"))
            .chain(lines)
            .collect()
    }
}

fn lengths(points: &[Point], end_ns: u64) -> impl Iterator<Item = (Point, u64)> {
    let ends = points.iter().skip(1).map(|point| point.at_ns);
    let ends = ends.chain(std::iter::once(end_ns));
    points
        .iter()
        .zip(ends)
        .map(|(point, end_ns)| (*point, end_ns.saturating_sub(point.at_ns)))
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&picture::draw(self))?;
        writeln!(
            f,
            "{}: {:.3} s, {} looks ({} late), {:.2} threads ready on the mean",
            self.command.join(" "),
            self.duration_s,
            self.points.len(),
            self.nr_late,
            self.mean_ready
        )?;
        for (ready, share) in self.share_of_time.iter().enumerate() {
            writeln!(f, "  {ready:>3} ready {:>5.1} % of the time", share * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Looks at these times in ms, until 100 ms.
    pub fn series(points: &[(u64, u32)]) -> Series {
        let point = |&(at_ms, ready): &(u64, u32)| Point {
            at_ns: at_ms * 1_000_000,
            ready,
        };
        let of = Of {
            command: vec!["prog".into(), "-x".into()],
            status: Some(0),
            interval_ns: 1_000_000,
            nr_late: 3,
        };
        Series::new(of, points.iter().map(point).collect(), 100_000_000)
    }

    #[test]
    fn looks_count_for_as_long_as_they_stand() {
        let series = series(&[(0, 1), (10, 4), (50, 1), (90, 0)]);
        let expected = [0.1, 0.5, 0.0, 0.0, 0.4];
        for (share, expected) in series.share_of_time.iter().zip(expected) {
            assert!((share - expected).abs() < 1e-12, "{series:?}");
        }
        assert!((series.mean_ready - 2.1).abs() < 1e-12);
        assert!((series.parallel_share(1) - 0.4).abs() < 1e-12 && series.parallel_share(4) == 0.0);
    }

    #[test]
    fn a_mean_is_over_time() {
        let means = series(&[(0, 1), (55, 3)]).means(10);
        let expected = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0];
        assert!(
            means.len() == 10
                && means
                    .iter()
                    .zip(expected)
                    .all(|(mean, is)| (mean - is).abs() < 1e-9),
            "{means:?}"
        );
        // One look for all.
        assert_eq!(series(&[(0, 2)]).means(4), [2.0; 4]);
    }

    #[test]
    fn it_reads_back() {
        let series = series(&[(0, 1), (10, 4)]);
        assert_eq!(series.csv(), "at_ns,ready\n0,1\n10000000,4\n");
        let json = serde_json::to_string(&series).unwrap();
        assert_eq!(serde_json::from_str::<Series>(&json).unwrap(), series);
    }
}
