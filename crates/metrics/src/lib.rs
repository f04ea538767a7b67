// SPDX-License-Identifier: GPL-2.0-only
//! Every number that a report shows is computed here, once.
//!
//! [`performance`] has the metrics of "Task Scheduling Based On Thread Essence and Resource Limitations" (*thread-essence*
//! below), section V: throughput, speedup, fairness, jitter. [`summary`] has means and paired ratios with their
//! confidence intervals, [`orders`] two programs of fixed work, [`percentile()`] the percentiles, [`extremes`] how good the best of all assignments can be.
//!
//! A result is finite, or it is an [`Error`] that names the input at fault: no NaN leaves this crate. It neither
//! measures nor prints.

pub mod error;
pub mod extremes;
pub mod multiple;
pub mod noise;
pub mod orders;
mod pareto;
mod percentile;
pub mod performance;
mod rank;
mod student;
pub mod summary;

pub use error::Error;
pub use extremes::{BestPossible, best_possible, chance_of_top};
pub use multiple::holm;
pub use noise::{relative_noise, without_noise};
pub use orders::TwoOrders;
pub use percentile::percentile;
pub use performance::{
    JitterSummary, Performance, fairness, jitter, jitter_summary, percent_more, speedup_from_times,
    throughput,
};
pub use rank::rank_correlation;
pub use summary::{RatioSummary, Summary, independent_ratio, paired_ratio};
