// SPDX-License-Identifier: GPL-2.0-only
//! What shared caches miss.
//!
//! Che's approximation for LRU (Che, Tung and Wang, "Hierarchical Web Caching Systems: Modeling, Design and
//! Experimental Results", IEEE JSAC 20(7), 2002): what was not accessed for the characteristic time T of a cache is
//! no longer in it, and T is such that what is in it fills it. A region of S bytes that is accessed uniformly at
//! random, at rate r, so has S·(1 - exp(-r·T/S)) bytes in the cache and misses exp(-r·T/S) of its accesses. For one
//! region alone this is the curve 1 - capacity/S. A table that is large but read seldom takes little from regions
//! that are read often, as it should.
//!
//! Rates are accesses per packet, as if all instances on a cache were equally fast; so misses depend on the assignment
//! alone. The lines of a cache cancel out, and its ways are taken to be many.

/// A copy of a region and who reads it through a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Footprint {
    /// The cache, by the index of its core or LLC.
    pub cache: usize,
    /// The region, by its index in the program.
    pub region: usize,
    /// Whose copy: the index of a thread or instance, or 0.
    pub owner: usize,
    pub bytes: f64,
    /// Accesses of all threads.
    pub rate: f64,
    /// The share of accesses that miss.
    pub miss: f64,
}

/// The index of a copy to which `rate` is added; a new one if it is not there yet.
pub(super) fn add(copies: &mut Vec<Footprint>, added: Footprint) -> usize {
    let is_same =
        |copy: &Footprint| (copy.cache, copy.region, copy.owner) == (added.cache, added.region, added.owner);
    match copies.iter().position(is_same) {
        Some(index) => {
            copies[index].rate += added.rate;
            index
        }
        None => {
            copies.push(added);
            copies.len() - 1
        }
    }
}

/// Sets `miss` of each copy, in caches of this size.
pub(super) fn set_misses(copies: &mut [Footprint], capacity_bytes: f64) {
    for first in 0..copies.len() {
        let cache = copies[first].cache;
        if copies[..first].iter().any(|copy| copy.cache == cache) {
            continue;
        }
        let time = characteristic_time(copies, cache, capacity_bytes);
        for copy in copies.iter_mut().filter(|copy| copy.cache == cache) {
            copy.miss = time.map_or(0.0, |time| (-copy.rate * time / copy.bytes).exp());
        }
    }
}

/// T, in bytes of accesses per unit of rate; none if everything fits.
///
/// What is in the cache grows with T and is concave, so Newton's method from 0 comes nearer from below in each step. It
/// ends when a step changes less than the rounding errors, or after 100: far more than it takes.
fn characteristic_time(copies: &[Footprint], cache: usize, capacity_bytes: f64) -> Option<f64> {
    let used = || {
        copies
            .iter()
            .filter(|copy| copy.cache == cache && copy.rate > 0.0)
    };
    if used().map(|copy| copy.bytes).sum::<f64>() <= capacity_bytes {
        return None;
    }
    let mut time = 0.0;
    for _ in 0..100 {
        let (mut inside, mut slope) = (0.0, 0.0);
        for copy in used() {
            let miss = (-copy.rate * time / copy.bytes).exp();
            inside += copy.bytes * (1.0 - miss);
            slope += copy.rate * miss;
        }
        let step = (capacity_bytes - inside) / slope;
        // A slope that rounds to zero ends it too.
        if !step.is_finite() || step <= time * 1e-14 {
            break;
        }
        time += step;
    }
    Some(time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn misses(copies: &[(f64, f64)], capacity: f64) -> Vec<f64> {
        let mut copies: Vec<_> = copies
            .iter()
            .enumerate()
            .map(|(region, &(bytes, rate))| Footprint {
                cache: 0,
                region,
                owner: 0,
                bytes,
                rate,
                miss: 0.0,
            })
            .collect();
        set_misses(&mut copies, capacity);
        copies.iter().map(|copy| copy.miss).collect()
    }

    #[test]
    fn a_region_alone() {
        assert_eq!(misses(&[(8192.0, 3.0)], 8192.0), [0.0]);
        for bytes in [8193.0, 16384.0, 1e9] {
            let miss = misses(&[(bytes, 3.0)], 8192.0)[0];
            assert!((miss - (1.0 - 8192.0 / bytes)).abs() < 1e-9, "{bytes}: {miss}");
        }
    }

    #[test]
    fn equal_regions_are_as_one() {
        for miss in misses(&[(4096.0, 1.0); 4], 8192.0) {
            assert!((miss - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn who_reads_seldom_takes_little() {
        let miss = misses(&[(4096.0, 100.0), (64e6, 1.0)], 8192.0);
        assert!(miss[0] < 1e-3 && miss[1] > 0.999, "{miss:?}");
        // One that nobody reads takes nothing.
        assert_eq!(misses(&[(8192.0, 1.0), (8192.0, 0.0)], 8192.0)[0], 0.0);
    }

    #[test]
    fn copies_of_one_region_are_merged_and_caches_are_apart() {
        let copy = |cache, owner| Footprint {
            cache,
            region: 0,
            owner,
            bytes: 8192.0,
            rate: 1.0,
            miss: 0.0,
        };
        let mut copies = Vec::new();
        let indexes = [copy(0, 0), copy(0, 0), copy(1, 0), copy(1, 1)].map(|copy| add(&mut copies, copy));
        assert_eq!(indexes, [0, 0, 1, 2]);
        set_misses(&mut copies, 8192.0);
        assert_eq!((copies[0].rate, copies[0].miss), (2.0, 0.0));
        assert!((copies[1].miss - 0.5).abs() < 1e-9 && (copies[2].miss - 0.5).abs() < 1e-9);
    }

    proptest! {
        /// What is in the cache fills it, and one more region makes nobody miss less.
        #[test]
        fn full_and_monotone(copies in prop::collection::vec((1.0..1e8f64, 0.01..1e3f64), 2..9)) {
            let capacity = 8192.0;
            let misses_of_all = misses(&copies, capacity);
            let inside: f64 = copies.iter().zip(&misses_of_all).map(|((bytes, _), miss)| bytes * (1.0 - miss)).sum();
            let all: f64 = copies.iter().map(|(bytes, _)| bytes).sum();
            prop_assert!((inside / all.min(capacity) - 1.0).abs() < 1e-6, "{inside}");
            let fewer = misses(&copies[1..], capacity);
            prop_assert!(fewer.iter().zip(&misses_of_all[1..]).all(|(less, more)| *less <= more + 1e-9));
        }
    }
}
