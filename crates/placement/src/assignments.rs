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
    /// For each node where a thread may go as soon as the node has one: onto its next sibling of the same shape.
    opens: Vec<Vec<Leaf>>,
}

impl<'t> Occupancy<'t> {
    fn new(tree: &'t Tree) -> Self {
        let mut opens = vec![Vec::new(); tree.nodes.len()];
        for class in tree.nodes.iter().flat_map(|node| &node.classes) {
            for pair in class.nodes.windows(2) {
                add_first_places(tree, pair[1], &mut opens[pair[0]]);
            }
        }
        Occupancy {
            tree,
            threads: vec![0; tree.nodes.len()],
            opens,
        }
    }

    /// Places a thread on one of `places`, where it may go. Writes into `after` where the next one may, both ascending.
    fn place(&mut self, leaf: Leaf, places: &[Leaf], after: &mut Vec<Leaf>) {
        after.clear();
        after.extend(places.iter().filter(|&&place| place != leaf));
        for &node in &self.tree.paths[usize::from(leaf)] {
            if self.threads[node] == 0 {
                for &opened in &self.opens[node] {
                    let at = after.partition_point(|&place| place < opened);
                    after.insert(at, opened);
                }
            }
            self.threads[node] += 1;
        }
    }

    /// Undoes the last [`Occupancy::place`].
    fn remove(&mut self, leaf: Leaf) {
        for &node in &self.tree.paths[usize::from(leaf)] {
            self.threads[node] -= 1;
        }
    }
}

/// The leaves below a node without threads where a thread may be placed, ascending.
fn add_first_places(tree: &Tree, node: usize, places: &mut Vec<Leaf>) {
    let at = &tree.nodes[node];
    if at.classes.is_empty() {
        places.push(at.leaves.start as Leaf);
    }
    for class in &at.classes {
        add_first_places(tree, class.nodes[0], places);
    }
}

/// The canonical assignments of a number of distinct threads, in ascending order: as numbers whose first digit is the
/// first thread's leaf.
pub struct Assignments<'t> {
    occupancy: Occupancy<'t>,
    /// Where each thread may go, given those before it, ascending.
    places: Vec<Vec<Leaf>>,
    /// For each thread which of its places it has; for the last one which is next. As all threads fit, each has one.
    chosen: Vec<usize>,
    placed: Vec<Leaf>,
    last: usize,
    begun: bool,
}

impl<'t> Assignments<'t> {
    /// Of `nr_threads` threads, 1 to as many as there are hardware threads.
    ///
    /// # Errors
    /// [`Error::Zero`] and [`Error::TooManyThreads`].
    pub fn new(tree: &'t Tree, nr_threads: usize) -> Result<Self, Error> {
        check_fit(tree, nr_threads)?;
        let mut places = vec![Vec::new(); nr_threads];
        add_first_places(tree, ROOT, &mut places[0]);
        Ok(Assignments {
            occupancy: Occupancy::new(tree),
            places,
            chosen: vec![0; nr_threads],
            placed: Vec::with_capacity(nr_threads),
            last: nr_threads - 1,
            begun: false,
        })
    }

    /// The present assignment: each thread's leaf. Empty before the first [`Assignments::advance`] and after the last.
    pub fn current(&self) -> &[Leaf] {
        &self.placed
    }

    /// Goes to the next one. Says which threads have moved: all from this one on. None at the end.
    pub fn advance(&mut self) -> Option<usize> {
        let mut first_moved = self.last;
        if !self.begun || self.chosen[self.last] == self.places[self.last].len() {
            first_moved = self.advance_all_but_last()?;
        }
        self.placed.truncate(self.last);
        self.placed.push(self.places[self.last][self.chosen[self.last]]);
        self.chosen[self.last] += 1;
        Some(first_moved)
    }

    /// Goes to the next placement of all threads but the last, which [`Assignments::current`] then has, and whose
    /// continuations [`Assignments::last_places`]. Says which threads have moved, as [`Assignments::advance`].
    pub fn advance_all_but_last(&mut self) -> Option<usize> {
        self.placed.truncate(self.last);
        if self.begun {
            self.take_back()?;
        }
        self.begun = true;
        let first_moved = self.placed.len();
        for thread in first_moved..self.last {
            let (before, after) = self.places.split_at_mut(thread + 1);
            let leaf = before[thread][self.chosen[thread]];
            self.occupancy.place(leaf, &before[thread], &mut after[0]);
            self.placed.push(leaf);
            self.chosen[thread + 1] = 0;
        }
        Some(first_moved)
    }

    /// Where the last thread may go beside the others, ascending.
    pub fn last_places(&self) -> &[Leaf] {
        &self.places[self.last]
    }

    /// Takes threads back until one has another place to go to, and chooses that. None if no thread has.
    fn take_back(&mut self) -> Option<()> {
        loop {
            let leaf = self.placed.pop()?;
            self.occupancy.remove(leaf);
            let thread = self.placed.len();
            self.chosen[thread] += 1;
            if self.chosen[thread] < self.places[thread].len() {
                return Some(());
            }
        }
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
