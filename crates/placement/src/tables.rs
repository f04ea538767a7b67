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

impl Tables {
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
