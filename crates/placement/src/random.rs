// SPDX-License-Identifier: GPL-2.0-only
//! Assignments by number, and so at random with equal probability.

use num_bigint::BigUint;
use num_traits::{One, Zero};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::assignments::Canonical;
use crate::count::Classes;
use crate::tree::{Leaf, ROOT, Tree};
use crate::{Error, check_fit};

/// Draws assignments of a number of distinct threads: each class of equal ones has the same probability.
pub struct Sampler<'t> {
    tree: &'t Tree,
    classes: Classes,
    total: BigUint,
    nr_threads: usize,
    canonical: Canonical<'t>,
}

impl<'t> Sampler<'t> {
    /// Of `nr_threads` threads, 1 to as many as there are hardware threads.
    ///
    /// # Errors
    /// [`Error::Zero`] and [`Error::TooManyThreads`].
    pub fn new(tree: &'t Tree, nr_threads: usize) -> Result<Self, Error> {
        check_fit(tree, nr_threads)?;
        let classes = Classes::new(tree, nr_threads);
        Ok(Sampler {
            tree,
            total: classes.total(),
            classes,
            nr_threads,
            canonical: Canonical::new(tree),
        })
    }

    /// How many classes there are.
    pub fn total(&self) -> &BigUint {
        &self.total
    }

    /// Draws one, in canonical form.
    pub fn draw(&mut self, random: &mut Pcg64) -> Vec<Leaf> {
        let number = below(&self.total, random);
        self.nth(number)
    }

    /// The assignment with a number from 0 to the total - 1, in canonical form. The order is not that of
    /// [`crate::Assignments`].
    pub fn nth(&mut self, number: BigUint) -> Vec<Leaf> {
        assert!(number < self.total, "there are {} assignments", self.total);
        let mut placed = vec![0; self.nr_threads];
        let threads: Vec<usize> = (0..self.nr_threads).collect();
        self.place(ROOT, &threads, number, &mut placed);
        let mut canonical = Vec::with_capacity(placed.len());
        self.canonical.of(&placed, &mut canonical);
        canonical
    }

    /// Places `threads` on a node by the number of their assignment to it.
    fn place(&self, node: usize, threads: &[usize], mut number: BigUint, placed: &mut [Leaf]) {
        let at = &self.tree.nodes[node];
        if at.classes.is_empty() {
            threads
                .iter()
                .for_each(|&thread| placed[thread] = at.leaves.start as Leaf);
            return;
        }
        let mut rest = threads.to_vec();
        for class in 0..at.classes.len() {
            // Of the threads that are left, first how many are in this class, then which, then how.
            let after = |left: usize| self.classes.on_later(at.shape, class + 1, left);
            let nr = at.classes[class].nodes.len();
            let mut here = 0;
            let ways_after = loop {
                let ways = self.classes.on_children(at.shape, class, here, nr);
                let after = after(rest.len() - here);
                let all = self.classes.choose(rest.len(), here) * ways * &after;
                if number < all {
                    break after;
                }
                number -= all;
                here += 1;
            };
            let (which, later) = split(number, &ways_after);
            let ways = self.classes.on_children(at.shape, class, here, nr);
            let (subset, how) = split(which, &ways);
            let chosen = take_subset(&self.classes, &mut rest, here, subset);
            self.place_in_class(node, class, &chosen, how, placed);
            number = later;
        }
    }

    /// Places threads on the children of one class: the first thread's fellows, then the others on one child less.
    fn place_in_class(
        &self,
        node: usize,
        class: usize,
        threads: &[usize],
        mut number: BigUint,
        placed: &mut [Leaf],
    ) {
        let (shape, children) = (
            self.tree.nodes[node].shape,
            &self.tree.nodes[node].classes[class].nodes,
        );
        let child_shape = self.tree.nodes[children[0]].shape;
        let mut rest = threads.to_vec();
        for (nr, &child) in children.iter().enumerate() {
            if rest.is_empty() {
                return;
            }
            let first = rest.remove(0);
            let mut fellows = 0;
            let (ways, after) = loop {
                let ways = self.classes.on(child_shape, fellows + 1);
                let left = rest.len() - fellows;
                let after = self
                    .classes
                    .on_children(shape, class, left, children.len() - nr - 1);
                let all = self.classes.choose(rest.len(), fellows) * &ways * &after;
                if number < all {
                    break (ways, after);
                }
                number -= all;
                fellows += 1;
            };
            let (which, later) = split(number, &after);
            let (subset, how) = split(which, &ways);
            let mut here = vec![first];
            here.extend(take_subset(&self.classes, &mut rest, fellows, subset));
            self.place(child, &here, how, placed);
            number = later;
        }
    }
}

/// Deals the threads out evenly at random, as a load balancer would that knows nothing of them: at each level every node
/// gets as many as any other that is as large, or one more. In canonical form.
pub fn deal(tree: &Tree, nr_threads: usize, random: &mut Pcg64) -> Result<Vec<Leaf>, Error> {
    check_fit(tree, nr_threads)?;
    let mut threads: Vec<usize> = (0..nr_threads).collect();
    shuffle(&mut threads, random);
    let mut placed = vec![0; nr_threads];
    deal_on(tree, ROOT, &threads, random, &mut placed);
    let mut canonical = Vec::with_capacity(nr_threads);
    Canonical::new(tree).of(&placed, &mut canonical);
    Ok(canonical)
}

fn deal_on(tree: &Tree, node: usize, threads: &[usize], random: &mut Pcg64, placed: &mut [Leaf]) {
    let at = &tree.nodes[node];
    if at.classes.is_empty() {
        threads
            .iter()
            .for_each(|&thread| placed[thread] = at.leaves.start as Leaf);
        return;
    }
    let mut children: Vec<(usize, usize)> = Vec::new();
    for class in &at.classes {
        children.extend(class.nodes.iter().map(|&child| (child, class.size)));
    }
    shuffle(&mut children, random);
    // Each next thread goes where the smallest share of the hardware threads is taken.
    let mut shares = vec![Vec::new(); children.len()];
    for &thread in threads {
        let taken = |&nr: &usize| (shares[nr].len() * tree.nr_leaves() / children[nr].1, nr);
        let free = (0..children.len()).filter(|&nr| shares[nr].len() < children[nr].1);
        if let Some(least) = free.min_by_key(taken) {
            shares[least].push(thread);
        }
    }
    for ((child, _), share) in children.into_iter().zip(shares) {
        deal_on(tree, child, &share, random, placed);
    }
}

/// Fisher and Yates' shuffle.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Pcg64) {
    for last in (1..items.len()).rev() {
        items.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// Quotient and remainder.
fn split(number: BigUint, by: &BigUint) -> (BigUint, BigUint) {
    (&number / by, number % by)
}

/// Takes the subset of `size` members with this number out of `from`, in lexicographic order of subsets.
fn take_subset(classes: &Classes, from: &mut Vec<usize>, size: usize, mut number: BigUint) -> Vec<usize> {
    let (mut taken, mut left) = (Vec::with_capacity(size), Vec::with_capacity(from.len() - size));
    for (nr, &member) in from.iter().enumerate() {
        let (after, needed) = (from.len() - nr - 1, size - taken.len());
        if needed == 0 {
            left.push(member);
            continue;
        }
        let with = if needed <= after + 1 {
            classes.choose(after, needed - 1).clone()
        } else {
            BigUint::zero()
        };
        if number < with {
            taken.push(member);
        } else {
            number -= with;
            left.push(member);
        }
    }
    *from = left;
    taken
}

/// A number below `bound`, which is above zero, all equally likely.
fn below(bound: &BigUint, random: &mut Pcg64) -> BigUint {
    let bits = (bound - BigUint::one()).bits();
    loop {
        let mut number = BigUint::zero();
        for _ in 0..bits.div_ceil(64) {
            number = (number << 64) + random.next_u64();
        }
        number &= (BigUint::one() << bits) - BigUint::one();
        if number < *bound {
            return number;
        }
    }
}
