// SPDX-License-Identifier: GPL-2.0-only
//! What runs beside a thread: the entries of the Slowdown Table.

use std::ops::Range;

use crate::tree::Tree;
use crate::{Error, Scope};

/// The most hardware threads in a member of the scope: as many as a [`Layout`] has bytes.
pub const MAX_SCOPE: usize = 16;

/// The byte of the target thread.
pub(crate) const TARGET: u8 = u8::MAX;

/// What the hardware threads of one member of the scope run. A byte for each leaf, the first in the lowest: 0 for
/// nothing, the thread's role + 1, or [`TARGET`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout(pub u128);

impl Layout {
    pub(crate) fn with(self, leaf: usize, byte: u8) -> Layout {
        Layout(self.0 & !(0xff << (8 * leaf)) | u128::from(byte) << (8 * leaf))
    }

    /// The byte of a leaf.
    pub fn byte(self, leaf: usize) -> u8 {
        (self.0 >> (8 * leaf)) as u8
    }
}

/// The layouts of a scope, each class of equal ones in one form.
#[derive(Debug)]
pub struct Layouts<'t> {
    tree: &'t Tree,
    /// For each member of the scope its kind: equal for interchangeable ones.
    kind_of: Vec<usize>,
    /// For each kind a member, and the node over it.
    kinds: Vec<(Range<usize>, usize)>,
}

impl<'t> Layouts<'t> {
    /// Of a scope.
    ///
    /// # Errors
    /// [`Error::ScopeTooLarge`].
    pub fn new(tree: &'t Tree, scope: &Scope) -> Result<Self, Error> {
        let shapes = scope.shapes(tree);
        let kind = |member: &Range<usize>| shapes.binary_search(&tree.shape_over(member)).unwrap_or(0);
        let kind_of: Vec<usize> = scope.members().iter().map(kind).collect();
        let first = |kind| kind_of.iter().position(|&of| of == kind).unwrap_or(0);
        let kinds: Vec<_> = (0..shapes.len())
            .map(|kind| scope.members()[first(kind)].clone())
            .map(|member| (member.clone(), tree.node_over(&member)))
            .collect();
        match kinds.iter().map(|(member, _)| member.len()).max() {
            Some(cpus) if cpus > MAX_SCOPE => Err(Error::ScopeTooLarge {
                level: scope.level().to_string(),
                cpus,
                max: MAX_SCOPE,
            }),
            _ => Ok(Layouts { tree, kind_of, kinds }),
        }
    }

    /// The kind of a member of the scope.
    pub fn kind(&self, member: usize) -> usize {
        self.kind_of[member]
    }

    /// How many kinds of members there are.
    pub fn nr_kinds(&self) -> usize {
        self.kinds.len()
    }

    /// The leaves of the first member of a kind.
    pub fn example(&self, kind: usize) -> Range<usize> {
        self.kinds[kind].0.clone()
    }

    /// The form in which a layout of a member of this kind stands in the table.
    pub fn canonical(&self, kind: usize, layout: Layout) -> Layout {
        let (leaves, node) = &self.kinds[kind];
        let mut bytes: Vec<u8> = (0..leaves.len()).map(|leaf| layout.byte(leaf)).collect();
        self.sort(*node, &mut bytes);
        from_bytes(&bytes)
    }

    /// Sorts the contents of interchangeable nodes.
    fn sort(&self, node: usize, bytes: &mut [u8]) {
        let mut rest = bytes;
        for class in &self.tree.nodes[node].classes {
            let (here, after) = rest.split_at_mut(class.size * class.nodes.len());
            for (part, &child) in here.chunks_exact_mut(class.size).zip(&class.nodes) {
                self.sort(child, part);
            }
            let mut parts: Vec<Vec<u8>> = here.chunks_exact(class.size).map(<[u8]>::to_vec).collect();
            parts.sort_unstable_by(|a, b| b.cmp(a));
            here.copy_from_slice(&parts.concat());
            rest = after;
        }
    }

    /// All layouts of a target and threads of `roles` roles on a member of a kind.
    pub fn around_target(&self, kind: usize, roles: usize) -> Vec<Layout> {
        let all = self.fillings(self.kinds[kind].1, roles as u8, true);
        all.iter()
            .map(|bytes| self.canonical(kind, from_bytes(bytes)))
            .collect()
    }

    /// All layouts of threads of `roles` roles on a member of a kind, ascending.
    pub(crate) fn of_roles(&self, kind: usize, roles: usize) -> Vec<Layout> {
        let all = self.fillings(self.kinds[kind].1, roles as u8, false);
        let mut layouts: Vec<Layout> = all
            .iter()
            .map(|bytes| self.canonical(kind, from_bytes(bytes)))
            .collect();
        layouts.sort_unstable();
        layouts.dedup();
        layouts
    }

    /// What may run on a node, up to exchanges of interchangeable ones below it; with the target or without.
    fn fillings(&self, node: usize, roles: u8, with_target: bool) -> Vec<Vec<u8>> {
        let classes = &self.tree.nodes[node].classes;
        if classes.is_empty() {
            return match with_target {
                true => vec![vec![TARGET]],
                false => (0..=roles).map(|byte| vec![byte]).collect(),
            };
        }
        let mut found = Vec::new();
        let targets = if with_target { classes.len() } else { 1 };
        for target in 0..targets {
            let mut partial: Vec<Vec<u8>> = vec![Vec::new()];
            for (nr, class) in classes.iter().enumerate() {
                let without = self.fillings(class.nodes[0], roles, false);
                let here = if with_target && nr == target {
                    let others = multisets(&without, class.nodes.len() - 1);
                    append_each(&self.fillings(class.nodes[0], roles, true), &others)
                } else {
                    multisets(&without, class.nodes.len())
                };
                partial = append_each(&partial, &here);
            }
            found.extend(partial);
        }
        found
    }
}

fn from_bytes(bytes: &[u8]) -> Layout {
    bytes
        .iter()
        .enumerate()
        .fold(Layout(0), |layout, (leaf, &byte)| layout.with(leaf, byte))
}

/// Each of `heads` followed by each of `tails`.
fn append_each(heads: &[Vec<u8>], tails: &[Vec<u8>]) -> Vec<Vec<u8>> {
    heads
        .iter()
        .flat_map(|head| tails.iter().map(move |tail| [&head[..], tail].concat()))
        .collect()
}

/// All multisets of `size` of the fillings, joined.
fn multisets(fillings: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    (0..fillings.len())
        .flat_map(|first| {
            multisets(&fillings[first..], size - 1)
                .into_iter()
                .map(move |rest| [&fillings[first][..], &rest].concat())
        })
        .collect()
}
