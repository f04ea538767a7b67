// SPDX-License-Identifier: GPL-2.0-only
//! Which of two assignments is better whose predictions differ by less than their measurements could tell.
//!
//! The paper's slowdown of an instance is its slowest thread's (section 3.1.2, step 3), so whatever runs beside the others
//! costs nothing there, up to noise. On a machine it does cost something when those threads turn out not to be quite so
//! idle. So among equals the assignment goes first in which the fewest threads of different instances share hardware.

use std::collections::BinaryHeap;

use crate::select::{Predicted, predict_all};
use crate::{Error, Leaf, Predictor, Scope, TOLERANCE, Tree};

/// A prediction rests on a base time and two entries of the Slowdown Table, so the difference of two has the variance of
/// six entries; this is two of its standard deviations.
const TIE_SDS: f64 = 4.899;

/// However noisy the tables are: whoever shares hardware tells less than differences above this.
const MAX_TIE: f64 = 0.01;

/// The order of assignments of one workload by what they are predicted to do.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'t> {
    tree: &'t Tree,
    scope: &'t Scope,
    nr_roles: usize,
    /// The relative difference within which predictions are equal.
    tie: f64,
}

impl<'t> Ranking<'t> {
    /// Of programs of `nr_roles` threads, by tables whose entries have this standard deviation, relative.
    pub fn new(tree: &'t Tree, scope: &'t Scope, nr_roles: usize, noise: f64) -> Self {
        Ranking {
            tree,
            scope,
            nr_roles,
            tie: (TIE_SDS * noise).clamp(TOLERANCE, MAX_TIE),
        }
    }

    /// The relative difference within which predictions are equal.
    pub fn tie(&self) -> f64 {
        self.tie
    }

    /// The order of some assignments, the best first, as indexes; those that are predicted to be NaN are left out.
    ///
    /// The best predicted and all that tie with it form a group, the best of the rest the next one. Within a group it goes
    /// by company, then by prediction, then as they stand.
    pub fn order(&self, assignments: &[Vec<Leaf>], predicted: &[f64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..predicted.len()).collect();
        order.retain(|&nr| !predicted[nr].is_nan());
        order.sort_by(|&a, &b| predicted[b].total_cmp(&predicted[a]));
        let mut rest = &mut order[..];
        while let Some(&first) = rest.first() {
            let least = self.least(predicted[first]);
            let nr = rest.partition_point(|&nr| predicted[nr] >= least).max(1);
            let (group, others) = rest.split_at_mut(nr);
            group.sort_by_cached_key(|&nr| self.company(&assignments[nr]));
            rest = others;
        }
        order
    }

    /// The same of predicted assignments.
    pub fn sort(&self, all: Vec<Predicted>) -> Vec<Predicted> {
        let (assignments, predicted): (Vec<_>, Vec<_>) =
            all.into_iter().map(|it| (it.placed, it.performance)).unzip();
        let order = self.order(&assignments, &predicted);
        let one = |nr: usize| Predicted {
            placed: assignments[nr].clone(),
            performance: predicted[nr],
        };
        order.into_iter().map(one).collect()
    }

    /// As many of all assignments as `best` has, which are the best predicted, the best first: the first of [`Self::order`]
    /// over all that there are. Goes through all of them.
    ///
    /// # Errors
    /// Those of [`crate::Assignments::new`].
    pub fn first_of_all(
        &self,
        predictor: &mut Predictor,
        best: &[Predicted],
    ) -> Result<Vec<Predicted>, Error> {
        // Whoever leads a group is among the best predicted, if there are not enough in the groups before.
        let mut groups: Vec<(f64, BinaryHeap<(u32, Predicted)>)> = Vec::new();
        for it in best {
            if groups.last().is_none_or(|(least, _)| it.performance < *least) {
                groups.push((self.least(it.performance), BinaryHeap::new()));
            }
        }
        let (Some(last), Some(first)) = (groups.last().map(|group| group.0), best.first()) else {
            return Ok(Vec::new());
        };
        predict_all(self.tree, predictor, first.placed.len(), |placed, performance| {
            if performance >= last {
                let group = groups.partition_point(|(least, _)| performance < *least);
                let heap = &mut groups[group].1;
                heap.push((
                    self.company(placed),
                    Predicted {
                        placed: placed.to_vec(),
                        performance,
                    },
                ));
                if heap.len() > best.len() {
                    heap.pop();
                }
            }
        })?;
        let ranked = groups.into_iter().flat_map(|(_, heap)| heap.into_sorted_vec());
        Ok(ranked.map(|(_, it)| it).take(best.len()).collect())
    }

    fn least(&self, performance: f64) -> f64 {
        performance - self.tie * performance.abs()
    }

    /// How much threads of different instances share: a pair counts one for the member of the scope that both are in, and
    /// one for each narrower part of it.
    fn company(&self, placed: &[Leaf]) -> u32 {
        let mut company = 0;
        for (nr, &leaf) in placed.iter().enumerate() {
            let member = self.scope.member_of(leaf);
            let whole = self.scope.members()[member].len();
            for (other, &beside) in placed[..nr].iter().enumerate() {
                if other / self.nr_roles != nr / self.nr_roles && self.scope.member_of(beside) == member {
                    let paths = [leaf, beside].map(|leaf| &self.tree.paths[usize::from(leaf)]);
                    let common = paths[0].iter().zip(paths[1]).take_while(|(a, b)| a == b);
                    let narrower = common.filter(|&(&node, _)| self.tree.nodes[node].leaves.len() < whole);
                    company += 1 + narrower.count() as u32;
                }
            }
        }
        company
    }
}
