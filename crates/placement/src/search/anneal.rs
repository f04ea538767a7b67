// SPDX-License-Identifier: GPL-2.0-only
//! A good assignment, by simulated annealing (Kirkpatrick et al., *Optimization by Simulated Annealing*, Science 220,
//! 1983) and a descent at the end. A step takes a thread to another hardware thread; whoever is there takes its place.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::random::shuffle;
use crate::{Canonical, Leaf, Predicted, Predictor, Tree};

/// Starts from different assignments.
const NR_STARTS: u64 = 8;

/// The temperatures of the first and the last step, as shares of what an instance does on average: at first most steps
/// are taken, at last only those that cost next to nothing.
const HOT: f64 = 0.1;
const COLD: f64 = 1e-4;

/// The best of some starts; none if none met an assignment that can be predicted, or no prediction may be made.
pub(crate) fn best(
    tree: &Tree,
    predictor: &mut Predictor,
    nr_threads: usize,
    nr_predictions: u64,
    random: &mut Pcg64,
) -> Option<Predicted> {
    let mut best: Option<Predicted> = None;
    if nr_predictions == 0 {
        return best;
    }
    for _ in 0..NR_STARTS {
        let mut walk = Walk::new(tree, predictor, nr_threads, random);
        walk.anneal(nr_predictions / NR_STARTS, random);
        walk.descend();
        if walk.performance.is_finite()
            && best
                .as_ref()
                .is_none_or(|best| walk.performance > best.performance)
        {
            let mut placed = Vec::with_capacity(nr_threads);
            Canonical::new(tree).of(&walk.seats[..nr_threads], &mut placed);
            best = Some(Predicted {
                performance: walk.performance,
                placed,
            });
        }
    }
    best
}

/// An assignment that changes step by step.
struct Walk<'w, 't> {
    predictor: &'w mut Predictor<'t>,
    /// Each thread's leaf, then the free leaves.
    seats: Vec<Leaf>,
    nr_threads: usize,
    /// Minus infinity where it cannot be predicted.
    performance: f64,
}

impl<'w, 't> Walk<'w, 't> {
    fn new(tree: &Tree, predictor: &'w mut Predictor<'t>, nr_threads: usize, random: &mut Pcg64) -> Self {
        let mut seats: Vec<Leaf> = (0..tree.nr_leaves() as Leaf).collect();
        shuffle(&mut seats, random);
        let mut walk = Walk {
            predictor,
            seats,
            nr_threads,
            performance: f64::NEG_INFINITY,
        };
        walk.performance = walk.predict();
        walk
    }

    fn predict(&mut self) -> f64 {
        let performance = self.predictor.predict(&self.seats[..self.nr_threads]);
        if performance.is_nan() {
            f64::NEG_INFINITY
        } else {
            performance
        }
    }

    fn anneal(&mut self, nr_steps: u64, random: &mut Pcg64) {
        let mut best = (self.performance, self.seats.clone());
        for step in 0..nr_steps {
            let thread = below(self.nr_threads, random);
            let other = below(self.seats.len(), random);
            let share = HOT * (COLD / HOT).powf(step as f64 / nr_steps as f64);
            // Relative, so that it is the same for programs of any speed.
            let temperature = share * self.performance.max(0.0) / self.nr_threads as f64;
            self.seats.swap(thread, other);
            let performance = self.predict();
            let loss = self.performance - performance;
            let chance = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            // Where neither can be predicted the loss is no number, and the walk goes on.
            if loss.is_nan() || loss <= 0.0 || chance < (-loss / temperature).exp() {
                self.performance = performance;
                if performance > best.0 {
                    best.0 = performance;
                    best.1.copy_from_slice(&self.seats);
                }
            } else {
                self.seats.swap(thread, other);
            }
        }
        (self.performance, self.seats) = best;
    }

    /// Takes steps that gain until there is none.
    fn descend(&mut self) {
        let mut gains = true;
        while gains {
            gains = false;
            for thread in 0..self.nr_threads {
                for other in thread + 1..self.seats.len() {
                    self.seats.swap(thread, other);
                    let performance = self.predict();
                    // Less than rounding would make it go round in circles.
                    if performance > self.performance + super::TOLERANCE * self.performance.abs() {
                        self.performance = performance;
                        gains = true;
                    } else {
                        self.seats.swap(thread, other);
                    }
                }
            }
        }
    }
}

fn below(bound: usize, random: &mut Pcg64) -> usize {
    (random.next_u64() % bound as u64) as usize
}
