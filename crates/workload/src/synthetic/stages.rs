// SPDX-License-Identifier: GPL-2.0-only
//! Programs between serial and parallel: stages in which some of the threads work, from one to all.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::phases::Draws;

/// So many threads work so long, each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// From 1 to all of them.
    pub active: usize,
    /// Work units of each.
    pub units: u64,
}

/// Stages without end: each number of active threads is as likely as any other, and lengths are drawn with a mean.
#[derive(Clone, Debug)]
pub struct Stages {
    numbers: Pcg64,
    threads: usize,
    mean_units: f64,
    draws: Draws,
    carry: f64,
}

impl Stages {
    /// Of a program of so many threads, at least one; the lengths come from `draws`, the numbers from the seed.
    pub fn new(threads: usize, mean_units: u64, draws: Draws, seed: u64) -> Self {
        Self {
            // Another stream than that of the lengths.
            numbers: Pcg64::new(u128::from(seed), 1),
            threads: threads.max(1),
            mean_units: mean_units as f64,
            draws,
            carry: 0.0,
        }
    }

    /// The next stage.
    pub fn next_stage(&mut self) -> Stage {
        let sum = self.carry + self.draws.draw() * self.mean_units;
        self.carry = sum.fract();
        Stage {
            // The product's upper half: uniform to within 2^-64 times the number of threads.
            active: 1 + ((u128::from(self.numbers.next_u64()) * self.threads as u128) >> 64) as usize,
            units: sum as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::phases::Distribution;
    use super::*;

    #[test]
    fn each_number_of_threads_comes_as_often_and_lengths_keep_their_mean() {
        let mut stages = Stages::new(8, 100, Draws::new(Distribution::Uniform, 3), 3);
        let drawn: Vec<Stage> = (0..16_000).map(|_| stages.next_stage()).collect();
        for active in 1..=8 {
            let count = drawn.iter().filter(|stage| stage.active == active).count();
            assert!((1_800..2_200).contains(&count), "{active} active: {count}");
        }
        assert!(drawn.iter().all(|stage| (1..=8).contains(&stage.active)));
        let mean = drawn.iter().map(|stage| stage.units).sum::<u64>() as f64 / 16_000.0;
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
    }

    #[test]
    fn a_seed_fixes_them() {
        let of = |seed| {
            let mut stages = Stages::new(5, 1000, Draws::new(Distribution::Pareto, seed), seed);
            (0..10).map(|_| stages.next_stage()).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
