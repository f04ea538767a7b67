// SPDX-License-Identifier: GPL-2.0-only
//! The Base Time Table and the Slowdown Table (blackbox-scheduler, section 3.1.1).

use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Leaf;
use crate::layout::Layout;

/// What profiling has found.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    base: FxHashMap<Box<[Leaf]>, f64>,
    /// Performance of a target beside a layout.
    beside: FxHashMap<Beside, f64>,
    /// How much slower a target is with threads in other members of the scope, less 1.
    across: FxHashMap<Across, f64>,
    fallback: Option<Arc<dyn Fallback>>,
}

/// Says what entries are that have not been measured.
pub trait Fallback: Debug + Send + Sync {
    /// As [`Tables::base`].
    fn base(&self, placed: &[Leaf]) -> Option<f64>;

    /// As [`Tables::beside`].
    fn beside(&self, beside: &Beside) -> Option<f64>;
}

/// A target's role, the kind of the member of the scope that it is in, and what else that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beside {
    /// Which thread of the program.
    pub role: u8,
    /// Which kind of member of the scope.
    pub kind: u8,
    /// In canonical form.
    pub layout: Layout,
}

/// How many threads of one role run in the same group of the level beyond the scope, in other members of the scope than a
/// target instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Across {
    /// The kind of the group.
    pub kind: u16,
    /// Whose role.
    pub role: u8,
    /// How many, at least 1.
    pub nr: u16,
}

impl Tables {
    /// Notes how many times slower a target is.
    pub fn set_across(&mut self, across: Across, slowdown: f64) {
        self.across.insert(across, slowdown - 1.0);
    }

    /// By how much a target is slower, as a share: that of the most threads that were measured, up to those asked for.
    pub(crate) fn excess_across(&self, across: Across) -> f64 {
        (1..=across.nr)
            .rev()
            .find_map(|nr| self.across.get(&Across { nr, ..across }).copied())
            .unwrap_or(0.0)
    }

    /// Whether threads beyond the scope are known to matter.
    pub(crate) fn has_across(&self) -> bool {
        !self.across.is_empty()
    }

    /// Notes what one instance does alone in a canonical assignment.
    pub fn set_base(&mut self, placed: &[Leaf], performance: f64) {
        self.base.insert(placed.into(), performance);
    }

    /// Notes what a target instance does when one of its threads runs beside others.
    pub fn set_beside(&mut self, beside: Beside, performance: f64) {
        self.beside.insert(beside, performance);
    }

    /// Asks somebody else for the entries that are missing; they stay missing in [`Tables::nr_entries`].
    pub fn set_fallback(&mut self, fallback: Arc<dyn Fallback>) {
        self.fallback = Some(fallback);
    }

    /// Whether somebody else is asked.
    pub(crate) fn has_fallback(&self) -> bool {
        self.fallback.is_some()
    }

    /// What one instance does alone in a canonical assignment.
    pub fn base(&self, placed: &[Leaf]) -> Option<f64> {
        let ask = || self.fallback.as_ref()?.base(placed);
        self.base.get(placed).copied().or_else(ask)
    }

    /// What a target instance does when one of its threads runs beside others.
    pub fn beside(&self, beside: &Beside) -> Option<f64> {
        let ask = || self.fallback.as_ref()?.beside(beside);
        self.beside.get(beside).copied().or_else(ask)
    }

    /// All entries of the Base Time Table, in no order.
    pub(crate) fn bases(&self) -> impl Iterator<Item = (&[Leaf], f64)> {
        self.base.iter().map(|(placed, &base)| (&placed[..], base))
    }

    /// Entries of both tables.
    pub fn nr_entries(&self) -> (usize, usize) {
        (self.base.len(), self.beside.len())
    }
}
