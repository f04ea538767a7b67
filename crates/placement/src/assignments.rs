// SPDX-License-Identifier: GPL-2.0-only
//! All assignments of threads to hardware threads, each class of equal ones once.
//!
//! Two assignments are the same when only interchangeable hardware is swapped. Of each class the *canonical* member is
//! listed: threads are placed in order, and where several untouched nodes of equal shape stand side by side, in the
//! first of them. So no class is met twice, and none needs to be remembered.

use crate::tree::{Leaf, ROOT, Tree};
use crate::{Error, check_fit};

/// What is occupied while a canonical assignment is built.
struct Occupancy<'t> {
    tree: &'t Tree,
    /// Threads on each node.
    threads: Vec<u16>,
    /// Of each class how many nodes have a thread; in a canonical assignment these are its first.
    touched: Vec<u16>,
}

impl<'t> Occupancy<'t> {
    fn new(tree: &'t Tree) -> Self {
        Occupancy {
            tree,
            threads: vec![0; tree.nodes.len()],
            touched: vec![0; tree.nr_classes],
        }
    }

    fn place(&mut self, leaf: Leaf) {
        for &node in &self.tree.paths[usize::from(leaf)] {
            if self.threads[node] == 0 {
                self.touched[self.tree.nodes[node].class_id] += 1;
            }
            self.threads[node] += 1;
        }
        self.threads[ROOT] += 1;
    }

    /// Undoes the last [`Occupancy::place`].
    fn remove(&mut self, leaf: Leaf) {
        for &node in &self.tree.paths[usize::from(leaf)] {
            self.threads[node] -= 1;
            if self.threads[node] == 0 {
                self.touched[self.tree.nodes[node].class_id] -= 1;
            }
        }
        self.threads[ROOT] -= 1;
    }

    /// The first leaf from `from` on below `node` where the next thread may be placed.
    fn next(&self, node: usize, from: usize) -> Option<Leaf> {
        let at = &self.tree.nodes[node];
        let nr_leaves = at.leaves.end - at.leaves.start;
        if from >= at.leaves.end || usize::from(self.threads[node]) == nr_leaves {
            return None;
        }
        if at.classes.is_empty() {
            return Some(at.leaves.start as Leaf);
        }
        for class in &at.classes {
            let start = self.tree.nodes[class.nodes[0]].leaves.start;
            let first = from.saturating_sub(start) / class.size;
            let end = (usize::from(self.touched[class.id]) + 1).min(class.nodes.len());
            for &child in class.nodes.get(first..end).unwrap_or_default() {
                if let Some(leaf) = self.next(child, from) {
                    return Some(leaf);
                }
            }
        }
        None
    }
}

impl Occupancy<'_> {
    /// All leaves below `node` where the next thread may be placed, ascending.
    fn collect(&self, node: usize, found: &mut Vec<Leaf>) {
        let at = &self.tree.nodes[node];
        let nr_leaves = at.leaves.end - at.leaves.start;
        if usize::from(self.threads[node]) == nr_leaves {
            return;
        }
        if at.classes.is_empty() {
            found.push(at.leaves.start as Leaf);
        }
        for class in &at.classes {
            let end = (usize::from(self.touched[class.id]) + 1).min(class.nodes.len());
            class.nodes[..end]
                .iter()
                .for_each(|&child| self.collect(child, found));
        }
    }
}

/// The canonical assignments of a number of distinct threads, in ascending order: as numbers whose first digit is the
/// first thread's leaf.
pub struct Assignments<'t> {
    occupancy: Occupancy<'t>,
    placed: Vec<Leaf>,
    nr_threads: usize,
    begun: bool,
    /// Where the last thread may still go, the next one last. It is not counted among the occupancy.
    left: Vec<Leaf>,
}

impl<'t> Assignments<'t> {
    /// Of `nr_threads` threads, 1 to as many as there are hardware threads.
    ///
    /// # Errors
    /// [`Error::Zero`] and [`Error::TooManyThreads`].
    pub fn new(tree: &'t Tree, nr_threads: usize) -> Result<Self, Error> {
        check_fit(tree, nr_threads)?;
        Ok(Assignments {
            occupancy: Occupancy::new(tree),
            placed: Vec::with_capacity(nr_threads),
            nr_threads,
            begun: false,
            left: Vec::new(),
        })
    }

    /// The present assignment: each thread's leaf. Empty before the first [`Assignments::advance`] and after the last.
    pub fn current(&self) -> &[Leaf] {
        &self.placed
    }

    /// Goes to the next one. Says which threads have moved: all from this one on. None at the end.
    pub fn advance(&mut self) -> Option<usize> {
        let last = self.nr_threads - 1;
        if let Some(leaf) = self.left.pop() {
            self.placed[last] = leaf;
            return Some(last);
        }
        let mut from = 0;
        if self.begun {
            self.placed.pop()?;
            from = self.take_back()?;
        }
        self.begun = true;
        let mut first_moved = self.placed.len();
        while self.placed.len() < last {
            match self.occupancy.next(ROOT, from) {
                Some(leaf) => {
                    self.occupancy.place(leaf);
                    self.placed.push(leaf);
                    from = 0;
                }
                None => from = self.take_back()?,
            }
            first_moved = first_moved.min(self.placed.len().saturating_sub(1));
        }
        self.occupancy.collect(ROOT, &mut self.left);
        self.left.reverse();
        self.placed.push(self.left.pop()?);
        Some(first_moved)
    }

    /// Takes the last counted thread back; its next place is to be sought from the leaf that is returned.
    fn take_back(&mut self) -> Option<usize> {
        let leaf = self.placed.pop()?;
        self.occupancy.remove(leaf);
        Some(usize::from(leaf) + 1)
    }
}

impl Iterator for Assignments<'_> {
    type Item = Vec<Leaf>;

    fn next(&mut self) -> Option<Vec<Leaf>> {
        self.advance().map(|_| self.placed.clone())
    }
}

/// Finds canonical members; keeps what it needs for that between calls.
pub struct Canonical<'t> {
    tree: &'t Tree,
    /// For each node the one that stands for it, or none yet.
    stands_in: Vec<usize>,
    touched: Vec<usize>,
    /// What to set back: nodes that have a stand-in, and the class that it was taken from.
    to_reset: Vec<(usize, usize)>,
}

const NONE: usize = usize::MAX;

impl<'t> Canonical<'t> {
    /// For a tree.
    pub fn new(tree: &'t Tree) -> Self {
        Canonical {
            tree,
            stands_in: vec![NONE; tree.nodes.len()],
            touched: vec![0; tree.nr_classes],
            to_reset: Vec::new(),
        }
    }

    /// Writes into `canonical` the canonical member of the class of `placed`, whose leaves differ from each other.
    pub fn of(&mut self, placed: &[Leaf], canonical: &mut Vec<Leaf>) {
        canonical.clear();
        for &leaf in placed {
            let mut at = ROOT;
            for &node in &self.tree.paths[usize::from(leaf)] {
                if self.stands_in[node] == NONE {
                    let class = &self.tree.nodes[at].classes[self.tree.nodes[node].class];
                    self.stands_in[node] = class.nodes[self.touched[class.id]];
                    self.touched[class.id] += 1;
                    self.to_reset.push((node, class.id));
                }
                at = self.stands_in[node];
            }
            canonical.push(self.tree.nodes[at].leaves.start as Leaf);
        }
        for (node, class) in self.to_reset.drain(..) {
            self.stands_in[node] = NONE;
            self.touched[class] = 0;
        }
    }
}
