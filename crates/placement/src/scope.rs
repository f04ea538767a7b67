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
    beyond: Option<Beyond>,
}

/// A level that holds several members of a scope each, whose threads disturb each other less, but do: by a shared cache,
/// bandwidth or power.
#[derive(Clone, Debug)]
pub struct Beyond {
    level: String,
    groups: Vec<Range<usize>>,
    /// For each leaf its group.
    group_of: Vec<usize>,
    /// For each group its kind, equal for interchangeable ones: the first group that it is like.
    kind_of: Vec<usize>,
}

impl Beyond {
    /// The level's name.
    pub fn level(&self) -> &str {
        &self.level
    }

    /// The leaves of each group.
    pub fn groups(&self) -> &[Range<usize>] {
        &self.groups
    }

    /// The group that a leaf is in.
    pub fn group_of(&self, leaf: Leaf) -> usize {
        self.group_of[usize::from(leaf)]
    }

    /// What stands for a group and all that are interchangeable with it: one of them.
    pub fn kind(&self, group: usize) -> usize {
        self.kind_of[group]
    }
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
            beyond: None,
        })
    }

    /// Takes into account what threads in different members do to each other that are in one group of a level. Where the
    /// machine is one such group, all assignments suffer alike, and nothing is taken into account.
    ///
    /// # Errors
    /// [`Error::UnknownLevel`]; [`Error::NotBeyond`] for a level that is not wider than the scope.
    pub fn with_beyond(self, machine: &Machine, tree: &Tree, level: &str) -> Result<Scope, Error> {
        let Scope {
            members: groups,
            member_of: group_of,
            ..
        } = Scope::new(machine, tree, level)?;
        let is_within = |member: &Range<usize>| group_of[member.start] == group_of[member.end - 1];
        if groups.len() >= self.members.len() || !self.members.iter().all(is_within) {
            return Err(Error::NotBeyond {
                level: level.to_string(),
                scope: self.level,
            });
        }
        let shapes: Vec<usize> = groups.iter().map(|group| tree.shape_over(group)).collect();
        let first = |shape| shapes.iter().position(|&other| other == shape).unwrap_or(0);
        let beyond = Beyond {
            level: level.to_string(),
            kind_of: shapes.iter().map(|&shape| first(shape)).collect(),
            groups,
            group_of,
        };
        Ok(Scope {
            beyond: (beyond.groups.len() > 1).then_some(beyond),
            ..self
        })
    }

    /// The level beyond it that is taken into account, if one is.
    pub fn beyond(&self) -> Option<&Beyond> {
        self.beyond.as_ref()
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
