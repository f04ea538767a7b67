// SPDX-License-Identifier: GPL-2.0-only
//! Choosing: the best predicted assignments, and of those the best measured.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use crate::{Assignments, Canonical, Error, Leaf, Predictor, Tree};

/// An assignment and what it is predicted to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Threads of one instance after the other's.
    pub placed: Vec<Leaf>,
    /// The sum over all instances.
    pub performance: f64,
}

impl Eq for Predicted {}

impl PartialOrd for Predicted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Predicted {
    /// The worse is the greater, so that it comes out of a heap first; of equals the later one.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .performance
            .total_cmp(&self.performance)
            .then_with(|| self.placed.cmp(&other.placed))
    }
}

/// The best of a number of assignments, as they come by.
pub struct Best {
    nr: usize,
    heap: BinaryHeap<Predicted>,
    /// How many have come by.
    pub nr_seen: u64,
    /// How many of them could not be predicted.
    pub nr_unknown: u64,
}

impl Best {
    /// Keeps the `nr` best.
    pub fn new(nr: usize) -> Best {
        Best {
            nr,
            heap: BinaryHeap::new(),
            nr_seen: 0,
            nr_unknown: 0,
        }
    }

    /// Looks at one.
    pub fn see(&mut self, placed: &[Leaf], performance: f64) {
        self.nr_seen += 1;
        if performance.is_nan() {
            self.nr_unknown += 1;
            return;
        }
        let is_better = |worst: &Predicted| performance > worst.performance;
        if self.heap.len() < self.nr || self.heap.peek().is_some_and(is_better) {
            self.heap.push(Predicted {
                placed: placed.to_vec(),
                performance,
            });
            if self.heap.len() > self.nr {
                self.heap.pop();
            }
        }
    }

    /// The best first.
    pub fn into_sorted(self) -> Vec<Predicted> {
        self.heap.into_sorted_vec()
    }
}

/// As many instances as are tried in every order; with more, only assignments that are equal as they stand are.
const MAX_ORDERED: usize = 4;

/// The first `nr` that are not one before with its instances, of `nr_roles` threads each, in another order.
pub fn distinct(tree: &Tree, nr_roles: usize, all: Vec<Predicted>, nr: usize) -> Vec<Predicted> {
    let mut canonical = Canonical::new(tree);
    let mut seen = BTreeSet::new();
    let is_new = |it: &Predicted| {
        let mut least: Option<Vec<Leaf>> = None;
        let instances: Vec<&[Leaf]> = it.placed.chunks(nr_roles).collect();
        for order in orders(instances.len()) {
            let placed: Vec<Leaf> = order
                .iter()
                .flat_map(|&at| instances[at].iter().copied())
                .collect();
            let mut form = Vec::new();
            canonical.of(&placed, &mut form);
            if least.as_ref().is_none_or(|least| form < *least) {
                least = Some(form);
            }
        }
        least.is_some_and(|least| seen.insert(least))
    };
    all.into_iter().filter(is_new).take(nr).collect()
}

/// How many assignments may be one but for the order of so many instances, at most.
pub fn nr_orders(nr_instances: usize) -> usize {
    match nr_instances {
        0..=MAX_ORDERED => (1..=nr_instances).product(),
        _ => 1,
    }
}

/// All orders of 0 to `nr` - 1, or the one.
fn orders(nr: usize) -> Vec<Vec<usize>> {
    if nr > MAX_ORDERED {
        return vec![(0..nr).collect()];
    }
    let mut orders = vec![Vec::new()];
    for next in 0..nr {
        let longer = |order: Vec<usize>| {
            (0..=next).map(move |at| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            })
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    orders
}

/// The `nr` assignments of `nr_threads` threads that are predicted to be the best, from all that there are.
///
/// # Errors
/// Those of [`Assignments::new`].
pub fn best_of_all(
    tree: &Tree,
    predictor: &mut Predictor,
    nr_threads: usize,
    nr: usize,
) -> Result<Best, Error> {
    let mut best = Best::new(nr);
    predict_all(tree, predictor, nr_threads, |placed, performance| {
        best.see(placed, performance);
    })?;
    Ok(best)
}

/// Predicts all assignments of `nr_threads` threads, in ascending order, and shows each.
pub(crate) fn predict_all(
    tree: &Tree,
    predictor: &mut Predictor,
    nr_threads: usize,
    mut see: impl FnMut(&[Leaf], f64),
) -> Result<(), Error> {
    let mut assignments = Assignments::new(tree, nr_threads)?;
    while let Some(first_moved) = assignments.advance_all_but_last() {
        let (placed, places) = (assignments.current(), assignments.last_places());
        predictor.predict_each(placed, first_moved, places, &mut see);
    }
    Ok(())
}

/// An assignment and all that differ from it by one thread that moves or two that change places, as far as they can be
/// predicted.
pub fn all_around(tree: &Tree, predictor: &mut Predictor, placed: &[Leaf]) -> Vec<Predicted> {
    let mut canonical = Canonical::new(tree);
    let (mut all, mut seen, mut placed_in_form) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut see = |placed: &[Leaf]| {
        canonical.of(placed, &mut placed_in_form);
        if seen.insert(placed_in_form.clone()) {
            let performance = predictor.predict(&placed_in_form);
            if !performance.is_nan() {
                all.push(Predicted {
                    placed: placed_in_form.clone(),
                    performance,
                });
            }
        }
    };
    see(placed);
    let mut changed = placed.to_vec();
    for thread in 0..placed.len() {
        for leaf in 0..tree.nr_leaves() as Leaf {
            let other = placed.iter().position(|&taken| taken == leaf);
            changed[thread] = leaf;
            if let Some(other) = other {
                changed[other] = placed[thread];
            }
            see(&changed);
            changed.copy_from_slice(placed);
        }
    }
    all
}
