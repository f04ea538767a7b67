// SPDX-License-Identifier: GPL-2.0-only
//! What threads in different members of the scope do to each other, which the paper takes as negligible (section 3.1.1).
//!
//! Entries are few: a target instance with so many threads of one role elsewhere in its group of the level beyond the
//! scope (a shared cache, say). What several roles cost adds up, and an instance goes at the pace of its worst group. Threads
//! that are in one member of the scope with any of the instance are not counted: the Slowdown Table has what they do.

use crate::scope::Beyond;
use crate::tables::{Across, Tables};
use crate::{Leaf, Scope};

/// The term, for one workload.
pub(crate) struct Term<'t> {
    scope: &'t Scope,
    beyond: &'t Beyond,
    nr_roles: usize,
    /// By kind of group, role and number of threads: by how much an instance is slower, as a share.
    excess: Vec<Vec<Vec<f64>>>,
}

impl<'t> Term<'t> {
    /// None where there is nothing to take into account.
    pub(crate) fn new(tables: &Tables, scope: &'t Scope, nr_roles: usize) -> Option<Self> {
        let beyond = scope.beyond().filter(|_| tables.has_across())?;
        let of_role = |kind: usize, role: usize| {
            let nr_leaves = beyond.groups()[kind].len();
            let of = |nr: usize| {
                tables.excess_across(Across {
                    kind: kind as u16,
                    role: role as u8,
                    nr: nr as u16,
                })
            };
            (0..=nr_leaves).map(of).collect()
        };
        let of_kind = |kind| (0..nr_roles).map(|role| of_role(kind, role)).collect();
        Some(Term {
            scope,
            beyond,
            nr_roles,
            excess: (0..beyond.groups().len()).map(of_kind).collect(),
        })
    }

    /// The sum of what the instances do, given what each does but for this.
    pub(crate) fn total(&self, placed: &[Leaf], performance: &[f64]) -> f64 {
        let instances = placed.chunks_exact(self.nr_roles).zip(performance);
        instances
            .enumerate()
            .map(|(nr, (own, performance))| performance / self.slowdown(placed, nr, own))
            .sum()
    }

    fn slowdown(&self, placed: &[Leaf], instance: usize, own: &[Leaf]) -> f64 {
        let shares_member = |leaf: Leaf| {
            let member = self.scope.member_of(leaf);
            own.iter().any(|&own| self.scope.member_of(own) == member)
        };
        let mut worst = 0.0f64;
        for (nr, group) in own.iter().map(|&leaf| self.beyond.group_of(leaf)).enumerate() {
            if own[..nr].iter().any(|&leaf| self.beyond.group_of(leaf) == group) {
                continue;
            }
            let excess = &self.excess[self.beyond.kind(group)];
            let of_role = |role: usize| {
                let threads = placed.iter().skip(role).step_by(self.nr_roles).enumerate();
                let foreign = threads.filter(|&(of, &leaf)| {
                    of != instance && self.beyond.group_of(leaf) == group && !shares_member(leaf)
                });
                excess[role][foreign.count()]
            };
            worst = worst.max((0..self.nr_roles).map(of_role).sum());
        }
        1.0 + worst
    }
}
