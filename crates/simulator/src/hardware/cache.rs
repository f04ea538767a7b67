// SPDX-License-Identifier: GPL-2.0-only
//! Last-level caches: what of each working set is there, and what a miss costs.

use super::{FootprintId, RATE_ONE, Rate, share_out};

/// A working set that somebody uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    /// Two users of one footprint share it.
    pub id: FootprintId,
    pub bytes: u64,
    /// That reach the cache, in a microsecond of work.
    pub accesses: u64,
}

/// The line of a last-level cache.
pub(super) const LINE_BYTES: u64 = 64;

/// The share of each user's accesses that miss a cache of this size, [`RATE_ONE`] for all; none where its size is not known.
///
/// Accesses are spread evenly over a working set, so the miss curve is a straight line: 1 - c/w with c of w bytes
/// there. Of a cache that is too small for all, each working set has as much as its frequency of access is of the whole (the FOA
/// model of Chandra et al., Predicting Inter-Thread Cache Contention, HPCA 2005), but no more than it is large. That is Che's
/// approximation, as in crates/model, with 1 - exp(-x) replaced by min(x, 1).
pub(super) fn misses(users: &[Footprint], cache_bytes: Option<u64>) -> Vec<u64> {
    let Some(cache_bytes) = cache_bytes else {
        return vec![0; users.len()];
    };
    let mut distinct: Vec<Footprint> = Vec::new();
    for user in users {
        match distinct.iter_mut().find(|known| known.id == user.id) {
            Some(known) => {
                known.accesses += user.accesses;
                known.bytes = known.bytes.max(user.bytes);
            }
            None => distinct.push(*user),
        }
    }
    let wants: Vec<(u64, u64)> = distinct
        .iter()
        .map(|footprint| (footprint.bytes, footprint.accesses))
        .collect();
    let there = share_out(&wants, cache_bytes);
    let miss = |user: &Footprint| {
        let nr = distinct
            .iter()
            .position(|known| known.id == user.id)
            .expect("just put there");
        let bytes = distinct[nr].bytes.max(1);
        (u128::from(bytes - there[nr].min(bytes)) * u128::from(RATE_ONE) / u128::from(bytes)) as u64
    };
    users.iter().map(miss).collect()
}

/// How long it takes to bring a working set, or as much of it as a cache of this size holds, there: a miss for each line, one
/// after the other. No more than that: on hardware with prefetchers it is less. The estimate is ours, from the latency alone.
pub(super) fn refill_ns(working_set_bytes: u64, cache_bytes: Option<u64>, latency_ns: u64) -> u64 {
    working_set_bytes.min(cache_bytes.unwrap_or(0)) / LINE_BYTES * latency_ns
}

/// The rate of a task that would have `speed` if nothing missed: to the time of a microsecond of work are added
/// its misses at the memory's latency each.
///
/// Time per instruction is the processor's part and the memory's, of which only the first knows the core's clock (Hennessy and
/// Patterson, Computer Architecture, section B.1: CPU execution time with memory stall cycles).
pub(super) fn stalled(speed: Rate, accesses_per_us: u32, miss: u64, latency_ns: u64) -> Rate {
    let one = u128::from(RATE_ONE);
    // Nanoseconds per nanosecond of work, in the fixed point of rates.
    let stalls = u128::from(accesses_per_us) * u128::from(miss) * u128::from(latency_ns) / 1000;
    (one * one / (one * one / u128::from(speed) + stalls)).max(1) as Rate
}
