// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers: ours, and those to compare with.

mod broken;
mod fair;
mod known;
mod round_robin;
mod threadwise;

pub use broken::{Broken, How};
pub use fair::Fair;
pub use known::Known;
pub use round_robin::RoundRobin;
pub use threadwise::Threadwise;
