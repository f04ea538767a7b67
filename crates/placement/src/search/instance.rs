// SPDX-License-Identifier: GPL-2.0-only
//! An instance of which some threads have been placed.

use super::content::Group;
use crate::Leaf;
use crate::layout::Layout;

/// The threads of an instance that have been placed.
#[derive(Clone)]
pub(super) struct Instance {
    /// Theirs, as bits.
    pub roles: u32,
    /// What it does alone: at most, and exactly when it is complete.
    pub base: f64,
    /// The largest of a placed thread.
    pub slowdown: f64,
    /// By role; 0 where the thread has not been placed.
    pub leaves: Vec<Leaf>,
    /// The last member of the scope that it has a thread in.
    pub last_member: usize,
    /// Its layout in each of its members, with the class of interchangeable nodes that the member is in.
    layouts: Vec<(usize, Layout)>,
}

impl Instance {
    /// With no thread.
    pub fn new(nr_roles: usize) -> Instance {
        Instance {
            roles: 0,
            base: f64::INFINITY,
            slowdown: f64::NEG_INFINITY,
            leaves: vec![0; nr_roles],
            last_member: 0,
            layouts: Vec::new(),
        }
    }

    /// Whether all its threads have been placed.
    pub fn is_complete(&self) -> bool {
        self.roles.count_ones() as usize == self.leaves.len()
    }

    /// Notes what a group of its threads in a further member does to it; the caller notes their leaves.
    pub fn add(&mut self, group: &Group, member: usize, class: usize) {
        debug_assert_eq!(self.roles & group.roles, 0, "a thread is placed once");
        self.roles |= group.roles;
        self.base = self.base.min(group.base);
        self.slowdown = self.slowdown.max(group.slowdown);
        self.last_member = member;
        self.layouts.push((class, group.layout));
    }

    /// Whether hardware can be exchanged so that the two change places, and no thread in a later member moves. Then it
    /// makes no difference which of them goes on there. Their bases are bounded by the same entries.
    pub fn is_interchangeable(&self, other: &Instance) -> bool {
        self.roles == other.roles
            && self.slowdown.to_bits() == other.slowdown.to_bits()
            && self.layouts == other.layouts
    }
}
