// SPDX-License-Identifier: GPL-2.0-only
//! Performances, as all commands print them.

use threadwise_metrics::Summary;

/// The mean of runs, with its 95 % interval if there are several.
pub fn with_interval(values: &[f64]) -> String {
    match Summary::of(values) {
        Ok(summary) => format!("{} ± {}", figure(summary.mean), figure(summary.ci95)),
        Err(_) => figure(mean(values)),
    }
}

/// A performance: its unit is the program's, so small figures have decimals.
pub fn figure(value: f64) -> String {
    if value.abs() < 1000.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.0}")
    }
}

/// The mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
