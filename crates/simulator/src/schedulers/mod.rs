// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers: ours, and those to compare with.

mod fair;
mod round_robin;
mod threadwise;

pub use fair::Fair;
pub use round_robin::RoundRobin;
pub use threadwise::Threadwise;
