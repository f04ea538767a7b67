// SPDX-License-Identifier: GPL-2.0-only
//! Schedulers: ours, and those to compare with.

mod assigned;
mod broken;
mod essence;
mod fair;
mod fluid;
mod known;
mod o1;
mod round_robin;
mod threadwise;

pub use assigned::Assigned;
pub use broken::{Broken, How};
pub use fair::Fair;
pub use fluid::Fluid;
pub use known::{Flags, Known};
pub use o1::O1;
pub use round_robin::RoundRobin;
pub use threadwise::Threadwise;
