// SPDX-License-Identifier: GPL-2.0-only
//! The assignment that is predicted to be the best, where there are too many to predict all (blackbox-scheduler, section
//! 3.1.2, predicts "thousands of different thread assignments").
//!
//! Simulated annealing finds a good assignment (`anneal.rs`). A relaxation says how good any can be (`relax.rs`), and
//! branch and bound closes the gap as far as its limit allows (`branch.rs`). Nothing is taken for granted of the tables:
//! a thread may well be faster beside others. It knows what [`Predictor`] knows, not what a machine would do.

pub(crate) mod anneal;
mod branch;
mod content;
mod instance;
mod relax;

use rand_pcg::Pcg64;

use crate::layout::Layouts;
use crate::tables::Tables;
use crate::{Error, Predicted, Predictor, Reading, Scope, Size, Tree, check_fit};

/// How long to search. No clock is read: equal effort gives equal results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Predictions of the annealing, the final descents not counted: about a million a second. 0 leaves both out.
    pub nr_predictions: u64,
    /// Nodes of branch and bound; 0 leaves it out.
    pub nr_nodes: u64,
    /// The seed of the annealing.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort {
            nr_predictions: 1_000_000,
            nr_nodes: 4_000_000,
            seed: 1,
        }
    }
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best assignment met, in canonical form.
    pub best: Predicted,
    /// No assignment is predicted to do more, up to [`TOLERANCE`]. Infinite where the member of a scope is too large for
    /// the relaxation, the tables have a fallback, or threads beyond the scope matter.
    pub bound: f64,
    /// Whether the best reaches the bound, up to [`TOLERANCE`].
    pub is_proven: bool,
    /// Nodes of branch and bound that were visited.
    pub nr_nodes: u64,
}

/// The relative difference below which two performances are the same: far above the rounding of a sum of instances, far
/// below what a measurement tells apart.
pub const TOLERANCE: f64 = 1e-9;

/// What is asked.
#[derive(Clone, Copy)]
struct Problem<'t> {
    tables: &'t Tables,
    tree: &'t Tree,
    layouts: &'t Layouts<'t>,
    scope: &'t Scope,
    size: Size,
    reading: Reading,
}

/// Searches for the assignment of `size` that is predicted to be the best. The tables have performances above 0; an
/// assignment that needs an entry they lack is never the best.
///
/// # Errors
/// [`Error::Zero`], [`Error::TooManyThreads`], those of [`Predictor::new`], and [`Error::Unpredictable`] when no
/// assignment was met that can be predicted.
pub fn search(
    tables: &Tables,
    tree: &Tree,
    layouts: &Layouts,
    scope: &Scope,
    (size, reading): (Size, Reading),
    effort: Effort,
) -> Result<Found, Error> {
    let threads = size.roles * size.instances;
    check_fit(tree, threads)?;
    let problem = Problem {
        tables,
        tree,
        layouts,
        scope,
        size,
        reading,
    };
    let mut predictor = Predictor::new(tables, tree, layouts, scope, (size.roles, reading))?;
    let mut random = Pcg64::new(u128::from(effort.seed), 0x5ea2c4);
    let incumbent = anneal::best(tree, &mut predictor, threads, effort.nr_predictions, &mut random);
    // It lists the base entries, and somebody who is asked for the missing ones has no list. Nor does it know of anything
    // beyond the scope.
    let relaxation = if tables.has_fallback() || scope.beyond().is_some_and(|_| tables.has_across()) {
        None
    } else {
        relax::Relaxation::new(problem)
    };
    let (best, bound, nr_nodes) = match &relaxation {
        Some(relaxation) => {
            let mut branch = branch::Branch::new(problem, relaxation, &mut predictor, incumbent);
            let bound = branch.run(effort.nr_nodes);
            (branch.best, bound, branch.nr_nodes)
        }
        None => (incumbent, f64::INFINITY, 0),
    };
    let best = best.ok_or(Error::Unpredictable { threads })?;
    Ok(Found {
        is_proven: bound <= best.performance * (1.0 + TOLERANCE),
        bound,
        best,
        nr_nodes,
    })
}
