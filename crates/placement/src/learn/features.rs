// SPDX-License-Identifier: GPL-2.0-only
//! What an entry of a table is to the regression: who meets whom, and how near.
//!
//! The *distance* of two hardware threads is the depth of their lowest common node. Equal hardware is interchangeable,
//! so on a machine such as the UltraSPARC T2, whose cores have two levels, the counts of co-runners at each distance say
//! all that a layout has. Deeper scopes have layouts that differ in who meets whom among the co-runners; that difference
//! is left to the noise.

use std::ops::Range;

use crate::layout::TARGET;
use crate::tables::Beside;
use crate::{Layouts, Leaf, Tree};

/// An entry as a point.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// Points of one task are alike in more than their features: for the Slowdown Table, the target's role.
    pub task: usize,
    /// Features that are not 0, ascending.
    pub features: Vec<(u32, f32)>,
    /// How many threads meet at each distance, whoever they are.
    pub totals: Vec<f32>,
}

/// Makes points of entries.
#[derive(Debug)]
pub(super) struct Features {
    /// Of each leaf the nodes on the way to it, and their shapes.
    paths: Vec<Vec<usize>>,
    shapes: Vec<Vec<usize>>,
    nr_shapes: usize,
    /// The leaves of a member of the scope of each kind.
    kinds: Vec<Range<usize>>,
    roles: usize,
    depth: usize,
}

impl Features {
    pub fn new(tree: &Tree, layouts: &Layouts, roles: usize) -> Self {
        let shape = |&node: &usize| tree.nodes[node].shape;
        let shapes = |path: &Vec<usize>| path.iter().map(shape).collect();
        Features {
            paths: tree.paths.clone(),
            shapes: tree.paths.iter().map(shapes).collect(),
            nr_shapes: tree.shapes.len(),
            kinds: (0..layouts.nr_kinds())
                .map(|kind| layouts.example(kind))
                .collect(),
            roles,
            depth: tree.paths.iter().map(Vec::len).max().unwrap_or(0),
        }
    }

    /// Beyond this no two leaves meet: a leaf is only with itself.
    pub fn nearest(&self) -> usize {
        self.depth.saturating_sub(1)
    }

    /// How many nodes below the root two leaves have in common: 0 for none.
    pub fn nearness(&self, a: usize, b: usize) -> usize {
        let (a, b) = (&self.paths[a], &self.paths[b]);
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    }

    /// Of an entry of the Slowdown Table: co-runners by distance and role.
    pub fn of_beside(&self, beside: &Beside) -> Point {
        let leaves = self.kinds[usize::from(beside.kind)].clone();
        let byte = |leaf: usize| beside.layout.byte(leaf - leaves.start);
        let target = leaves.clone().find(|&leaf| byte(leaf) == TARGET);
        let target = target.unwrap_or(leaves.start);
        let mut counts = vec![0.0f32; (self.depth + 1) * self.roles];
        let mut totals = vec![0.0f32; self.depth + 1];
        for leaf in leaves.clone().filter(|&leaf| leaf != target) {
            let role = usize::from(byte(leaf));
            if role == 0 || role > self.roles {
                continue;
            }
            let nearness = self.nearness(leaf, target);
            counts[nearness * self.roles + role - 1] += 1.0;
            totals[nearness] += 1.0;
        }
        Point {
            task: usize::from(beside.kind) * self.roles + usize::from(beside.role),
            features: sparse(&counts),
            totals,
        }
    }

    /// Of a target with nothing beside it.
    pub fn of_alone(&self, kind: u8, role: u8) -> Point {
        Point {
            task: usize::from(kind) * self.roles + usize::from(role),
            features: Vec::new(),
            totals: vec![0.0; self.depth + 1],
        }
    }

    /// Of an entry of the Base Time Table: how near each pair of threads is, and how many each thread has near it.
    pub fn of_base(&self, placed: &[Leaf]) -> Point {
        let (nr, depth) = (placed.len(), self.depth);
        let nr_pairs = nr * nr.saturating_sub(1) / 2;
        let (of_threads, of_shapes) = (nr_pairs * depth, (nr_pairs + nr) * depth);
        let mut features: Vec<(u32, f32)> = Vec::new();
        let mut near = vec![0.0f32; nr * depth];
        let mut totals = vec![0.0f32; depth];
        for b in 1..nr {
            for a in 0..b {
                let nearness = self.nearness(usize::from(placed[a]), usize::from(placed[b]));
                if nearness > 0 {
                    let pair = b * (b - 1) / 2 + a;
                    features.push(((pair * depth + nearness - 1) as u32, 1.0));
                    near[a * depth + nearness - 1] += 1.0;
                    near[b * depth + nearness - 1] += 1.0;
                    totals[nearness - 1] += 1.0;
                }
            }
        }
        let nears = sparse(&near).into_iter();
        features.extend(nears.map(|(index, count)| (index + of_threads as u32, count)));
        // On a machine of equal parts each level has one shape, which would tell nothing.
        if self.nr_shapes > depth + 1 {
            for (thread, &leaf) in placed.iter().enumerate() {
                let mut shapes = self.shapes[usize::from(leaf)].clone();
                shapes.sort_unstable();
                let index = |shape| (of_shapes + thread * self.nr_shapes + shape) as u32;
                features.extend(shapes.into_iter().map(|shape| (index(shape), 1.0)));
            }
        }
        totals.iter_mut().for_each(|total| *total /= nr as f32);
        Point {
            task: 0,
            features,
            totals,
        }
    }
}

fn sparse(dense: &[f32]) -> Vec<(u32, f32)> {
    let numbered = dense.iter().zip(0..);
    numbered
        .filter(|(value, _)| **value != 0.0)
        .map(|(&value, index)| (index, value))
        .collect()
}
