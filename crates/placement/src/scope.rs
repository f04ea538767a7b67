// SPDX-License-Identifier: GPL-2.0-only
//! How far threads disturb each other: the level within which a Slowdown Table looks.

use std::ops::Range;

use threadwise_machine::{Machine, names};

use crate::Error;
use crate::tree::{Leaf, Tree};

/// A level of the machine. Threads in different members of it are taken not to disturb each other, as the paper takes
/// cores (blackbox-scheduler, section 3.1.1).
#[derive(Clone, Debug)]
pub struct Scope {
    level: String,
    /// Its members, ascending.
    members: Vec<Range<usize>>,
    /// For each leaf its member.
    member_of: Vec<usize>,
}

impl Scope {
    /// The level that the paper uses.
    pub const DEFAULT: &'static str = names::CORE;

    /// A level by its name.
    ///
    /// # Errors
    /// [`Error::UnknownLevel`].
    pub fn new(machine: &Machine, tree: &Tree, level: &str) -> Result<Scope, Error> {
        let members = tree.groups(machine, level);
        if members.is_empty() {
            let known: Vec<_> = machine.levels().iter().map(|level| level.name()).collect();
            return Err(Error::UnknownLevel {
                level: level.to_string(),
                known: known.join(", "),
            });
        }
        let mut member_of = vec![0; tree.nr_leaves()];
        for (nr, member) in members.iter().enumerate() {
            member_of[member.clone()].fill(nr);
        }
        Ok(Scope {
            level: level.to_string(),
            members,
            member_of,
        })
    }

    /// The level's name.
    pub fn level(&self) -> &str {
        &self.level
    }

    /// The leaves of each member.
    pub fn members(&self) -> &[Range<usize>] {
        &self.members
    }

    /// The member that a leaf is in.
    pub fn member_of(&self, leaf: Leaf) -> usize {
        self.member_of[usize::from(leaf)]
    }

    /// The different shapes of its members.
    pub(crate) fn shapes(&self, tree: &Tree) -> Vec<usize> {
        let mut shapes: Vec<usize> = self
            .members
            .iter()
            .map(|member| tree.shape_over(member))
            .collect();
        shapes.sort_unstable();
        shapes.dedup();
        shapes
    }
}
