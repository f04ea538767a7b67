// SPDX-License-Identifier: GPL-2.0-only
//! How many assignments there are, exactly, without listing them.

use num_bigint::BigUint;
use num_traits::{One, Zero};

use crate::tree::{ROOT, Tree};
use crate::{Error, Scope, check_fit, cycles};

/// The counts that `threadwise place count` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Assignments of all threads of all instances, each thread distinct. For one instance the entries of its Base Time
    /// Table (blackbox-scheduler, Table 1).
    pub base: BigUint,
    /// The same when instances are interchangeable. None where that takes too many terms: one for each kind of exchange
    /// of instances and number of threads in it, as with 16 instances of four threads on a T2.
    pub base_modulo_instances: Option<BigUint>,
    /// Entries of the Slowdown Table, whatever the number of instances.
    pub slowdown: BigUint,
}

/// Counts the assignments of `instances` instances of a program of `threads` distinct threads, and the entries of its
/// Slowdown Table.
///
/// # Errors
/// [`Error::Zero`] and [`Error::TooManyThreads`].
pub fn count(tree: &Tree, scope: &Scope, threads: usize, instances: usize) -> Result<Counts, Error> {
    for (what, nr) in [("threads", threads), ("instances", instances)] {
        if nr == 0 {
            return Err(Error::Zero { what });
        }
    }
    check_fit(tree, threads.saturating_mul(instances))?;
    let base = Classes::new(tree, threads * instances).total();
    Ok(Counts {
        base_modulo_instances: cycles::modulo_instances(tree, threads, instances, &base),
        base,
        slowdown: slowdown_entries(tree, scope, threads),
    })
}

/// For each shape and number of threads, how many classes of assignments there are.
///
/// A node's occupied children are told apart by the threads on them, so an assignment of k threads to m children of one
/// shape is a partition of the threads into at most m sets with a class of assignments each: the one with the first
/// thread has s of the others' C(k-1, s-1) choices.
pub(crate) struct Classes {
    nr_threads: usize,
    /// By shape and threads.
    of_shape: Vec<Vec<BigUint>>,
    /// By shape and class, then threads and children: classes of that many threads on at most that many children.
    of_children: Vec<Vec<Vec<Vec<BigUint>>>>,
    /// By shape and class of children, one more than there are, then threads: on the children of that class and of later ones.
    of_later: Vec<Vec<Vec<BigUint>>>,
    /// Pascal's triangle.
    choose: Vec<Vec<BigUint>>,
}

impl Classes {
    /// For up to `nr_threads` threads on a tree.
    pub fn new(tree: &Tree, nr_threads: usize) -> Self {
        let mut classes = Classes {
            nr_threads,
            of_shape: vec![Vec::new(); tree.shapes.len()],
            of_children: vec![Vec::new(); tree.shapes.len()],
            of_later: vec![Vec::new(); tree.shapes.len()],
            choose: pascal(nr_threads),
        };
        classes.fill(tree, tree.nodes[ROOT].shape);
        classes
    }

    /// Classes of all threads on the whole machine.
    pub fn total(&self) -> BigUint {
        self.of_shape
            .last()
            .map_or_else(BigUint::zero, |root| root[self.nr_threads].clone())
    }

    /// Classes of `threads` threads on a node of a shape; none beyond its leaves.
    pub fn on(&self, shape: usize, threads: usize) -> BigUint {
        self.of_shape[shape].get(threads).cloned().unwrap_or_default()
    }

    /// Classes of `threads` threads on at most `children` children of the class `class` of a shape.
    pub fn on_children(&self, shape: usize, class: usize, threads: usize, children: usize) -> BigUint {
        let by_threads = &self.of_children[shape][class];
        let at_most = by_threads
            .get(threads)
            .and_then(|row| row.get(children.min(threads)));
        at_most.cloned().unwrap_or_default()
    }

    /// Classes of `threads` threads on the children of the class `class` of a shape and of later classes.
    pub fn on_later(&self, shape: usize, class: usize, threads: usize) -> BigUint {
        let later = &self.of_later[shape][class];
        later.get(threads).cloned().unwrap_or_default()
    }

    /// n over k.
    pub fn choose(&self, n: usize, k: usize) -> &BigUint {
        &self.choose[n][k]
    }

    fn fill(&mut self, tree: &Tree, shape: usize) {
        if !self.of_shape[shape].is_empty() {
            return;
        }
        let (children, nr_leaves) = (tree.shapes[shape].children.clone(), tree.shapes[shape].nr_leaves);
        if children.is_empty() {
            self.of_shape[shape] = vec![BigUint::one(), BigUint::one()];
            return;
        }
        for &(child, nr) in &children {
            self.fill(tree, child);
            let rows = self.partitions(child, nr, nr * tree.shapes[child].nr_leaves);
            self.of_children[shape].push(rows);
        }
        let mut later = vec![vec![BigUint::one()]];
        for (rows, (_, nr)) in self.of_children[shape].iter().zip(&children).rev() {
            let here: Vec<BigUint> = (rows.iter().zip(0..))
                .map(|(row, k)| row[(*nr).min(k)].clone())
                .collect();
            later.push(self.shuffle(&here, &later[later.len() - 1]));
        }
        later.reverse();
        self.of_shape[shape] = later[0].iter().take(nr_leaves + 1).cloned().collect();
        self.of_later[shape] = later;
    }

    /// By threads, up to `leaves`, and children, up to the lesser of `nr` and the threads.
    fn partitions(&self, child: usize, nr: usize, leaves: usize) -> Vec<Vec<BigUint>> {
        let mut rows: Vec<Vec<BigUint>> = vec![vec![BigUint::one()]];
        for threads in 1..=leaves.min(self.nr_threads) {
            let row = (0..=nr.min(threads)).map(|children| {
                let mut sum = BigUint::zero();
                if children > 0 {
                    for first in 1..=threads.min(self.of_shape[child].len() - 1) {
                        let rest = threads - first;
                        let others = &rows[rest][(children - 1).min(rest)];
                        sum += &self.choose[threads - 1][first - 1] * &self.of_shape[child][first] * others;
                    }
                }
                sum
            });
            let row = row.collect();
            rows.push(row);
        }
        rows
    }

    /// Threads on either of two disjoint parts.
    fn shuffle(&self, a: &[BigUint], b: &[BigUint]) -> Vec<BigUint> {
        let most = (a.len() + b.len() - 2).min(self.nr_threads);
        (0..=most)
            .map(|threads| {
                (0..=threads)
                    .filter(|&on_a| on_a < a.len() && threads - on_a < b.len())
                    .map(|on_a| &self.choose[threads][on_a] * &a[on_a] * &b[threads - on_a])
                    .sum()
            })
            .collect()
    }
}

fn pascal(n: usize) -> Vec<Vec<BigUint>> {
    let mut rows = vec![vec![BigUint::one()]];
    for row in 1..=n {
        let above = &rows[row - 1];
        let next = (0..=row).map(|k| {
            let left = k
                .checked_sub(1)
                .map_or_else(BigUint::zero, |left| above[left].clone());
            left + above.get(k).cloned().unwrap_or_default()
        });
        let next = next.collect();
        rows.push(next);
    }
    rows
}

/// Entries of the Slowdown Table: for each thread of the program as the target and each place in the scope that is not
/// like another, the layouts of stressing threads of any kind on the rest of it (blackbox-scheduler, section 3.1.1).
fn slowdown_entries(tree: &Tree, scope: &Scope, threads: usize) -> BigUint {
    let kinds = BigUint::from(threads);
    let layouts: BigUint = scope
        .shapes(tree)
        .iter()
        .map(|&shape| around_target(tree, shape, &kinds))
        .sum();
    layouts * kinds
}

/// Layouts on a node of a shape around a target on one of its leaves, over all places of the target.
fn around_target(tree: &Tree, shape: usize, kinds: &BigUint) -> BigUint {
    let children = &tree.shapes[shape].children;
    if children.is_empty() {
        return BigUint::one();
    }
    let beside = |target: usize| -> BigUint {
        let others = children.iter().enumerate().map(|(nr, &(child, count))| {
            let count = if nr == target { count - 1 } else { count };
            multisets(&layouts(tree, child, kinds), count)
        });
        others.product()
    };
    let places = children.iter().enumerate();
    places
        .map(|(nr, &(child, _))| around_target(tree, child, kinds) * beside(nr))
        .sum()
}

/// Layouts of threads of these kinds on a node of a shape, the empty one too.
fn layouts(tree: &Tree, shape: usize, kinds: &BigUint) -> BigUint {
    let children = &tree.shapes[shape].children;
    if children.is_empty() {
        return kinds + 1u32;
    }
    children
        .iter()
        .map(|&(child, count)| multisets(&layouts(tree, child, kinds), count))
        .product()
}

/// How many multisets of `size` members of a set of `n` there are: n + size - 1 over size.
fn multisets(n: &BigUint, size: usize) -> BigUint {
    let mut product = BigUint::one();
    for nr in 0..size {
        product = product * (n + nr) / (nr + 1);
    }
    product
}
