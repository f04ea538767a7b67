// SPDX-License-Identifier: GPL-2.0-only
//! Memory bandwidth: who misses more than the memory delivers waits for it.

use super::cache::LINE_BYTES;
use super::{RATE_ONE, Rate, share_out};

/// The bandwidth that a task takes at this rate, in bytes a microsecond, which are millions of bytes a second; at least 1
/// where something misses.
pub(super) fn demand_mb_s(rate: Rate, accesses_per_us: u32, miss: u64) -> u64 {
    let product = u128::from(rate) * u128::from(accesses_per_us) * u128::from(miss) * u128::from(LINE_BYTES);
    product.div_ceil(u128::from(RATE_ONE) * u128::from(RATE_ONE)) as u64
}

/// The rates of tasks that would have these rates and take this much bandwidth, some of them none, where that is more than
/// there is.
///
/// A task is as fast as its computation or its bandwidth allows, whichever is less (the roofline model: Williams, Waterman
/// and Patterson, CACM 52(4), 2009). Of the bandwidth all have equal parts, but nobody more than it wants: who misses
/// little is not slowed by those who miss much.
pub(super) fn throttled(wants: &[(Rate, u64)], limit_mb_s: u64) -> Vec<Rate> {
    let demands: Vec<(u64, u64)> = wants.iter().map(|&(_, demand)| (demand, 1)).collect();
    let given = share_out(&demands, limit_mb_s);
    wants
        .iter()
        .zip(given)
        .map(|(&(rate, demand), given)| match demand {
            0 => rate,
            _ => (rate * given / demand).max(1),
        })
        .collect()
}
