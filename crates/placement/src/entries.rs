// SPDX-License-Identifier: GPL-2.0-only
//! The tables' entries as predictions ask for them again and again: by number, in arrays.

use rustc_hash::FxHashMap;

use crate::assignments::Canonical;
use crate::layout::{Layout, Layouts, TARGET};
use crate::tables::{Beside, Tables};
use crate::{Error, Leaf, Scope, Tree};

/// What has been looked up for programs of one number of roles.
///
/// What a member of the scope runs is a number, its *contents*: its digits, in base roles + 1, are its leaves' roles + 1,
/// or 0.
pub(crate) struct Entries<'t> {
    tables: &'t Tables,
    layouts: &'t Layouts<'t>,
    canonical: Canonical<'t>,
    scratch: Vec<Leaf>,
    nr_roles: usize,
    nr_leaves: u64,
    /// By kind of member.
    slowdowns: Vec<Known>,
    bases: Known,
}

/// Values by number. With 24 bits: no measurement has more.
struct Known {
    /// Of small numbers.
    small: Vec<f32>,
    others: FxHashMap<u64, f32>,
}

/// Not known yet; an entry that the tables lack is known to be NaN.
const UNKNOWN: f32 = f32::NEG_INFINITY;

/// Numbers that are kept in an array: 4 MiB.
const MAX_SMALL: u64 = 1 << 20;

impl Known {
    /// Of numbers below `nr`.
    fn new(nr: Option<u64>) -> Known {
        Known {
            small: vec![UNKNOWN; nr.unwrap_or(MAX_SMALL).min(MAX_SMALL) as usize],
            others: FxHashMap::default(),
        }
    }

    #[inline]
    fn get(&self, number: u64) -> Option<f64> {
        let known = match self.small.get(number as usize) {
            Some(&known) => known,
            None => *self.others.get(&number)?,
        };
        (known != UNKNOWN).then(|| f64::from(known))
    }

    /// Returns what [`Known::get`] will.
    fn set(&mut self, number: u64, value: f64) -> f64 {
        let value = value as f32;
        match self.small.get_mut(number as usize) {
            Some(known) => *known = value,
            None => _ = self.others.insert(number, value),
        }
        f64::from(value)
    }
}

impl<'t> Entries<'t> {
    /// None looked up yet.
    ///
    /// # Errors
    /// [`Error::ScopeTooLarge`] where contents do not fit into 64 bits.
    pub(crate) fn new(
        tables: &'t Tables,
        tree: &'t Tree,
        (layouts, scope): (&'t Layouts<'t>, &Scope),
        nr_roles: usize,
    ) -> Result<Self, Error> {
        let base = nr_roles as u64 + 1;
        let nr_numbers = |kind: usize| {
            let nr = layouts.example(kind).len() as u32;
            base.checked_pow(nr)
                .and_then(|contents| contents.checked_mul(u64::from(nr)))
        };
        if let Some(kind) = (0..layouts.nr_kinds()).find(|&kind| nr_numbers(kind).is_none()) {
            return Err(Error::ScopeTooLarge {
                level: scope.level().to_string(),
                cpus: layouts.example(kind).len(),
                max: (64.0 / (base as f64).log2()) as usize - 1,
            });
        }
        let nr_leaves = tree.nr_leaves() as u64;
        Ok(Entries {
            tables,
            layouts,
            canonical: Canonical::new(tree),
            scratch: Vec::new(),
            nr_roles,
            nr_leaves,
            slowdowns: (0..layouts.nr_kinds())
                .map(|kind| Known::new(nr_numbers(kind)))
                .collect(),
            bases: Known::new(nr_leaves.checked_pow(nr_roles as u32)),
        })
    }

    /// What an instance on these leaves does alone; NaN where that is not in the tables.
    #[inline]
    pub(crate) fn base(&mut self, own: &[Leaf]) -> f64 {
        let number = own.iter().try_fold(0u64, |number, &leaf| {
            number.checked_mul(self.nr_leaves)?.checked_add(u64::from(leaf))
        });
        let known = number.and_then(|number| self.bases.get(number));
        known.unwrap_or_else(|| self.look_up_base(own, number))
    }

    #[cold]
    fn look_up_base(&mut self, own: &[Leaf], number: Option<u64>) -> f64 {
        self.canonical.of(own, &mut self.scratch);
        let base = self.tables.base(&self.scratch).unwrap_or(f64::NAN);
        number.map_or(base, |number| self.bases.set(number, base))
    }

    /// The slowdown of the thread on leaf `at` of a member of this kind and size that runs `contents`; NaN where that is
    /// not in the tables.
    #[inline]
    pub(crate) fn slowdown(&mut self, (kind, nr_leaves): (usize, u64), at: u64, contents: u64) -> f64 {
        let number = contents * nr_leaves + at;
        let known = self.slowdowns[kind].get(number);
        known.unwrap_or_else(|| self.look_up_slowdown((kind, nr_leaves), at as usize, contents))
    }

    #[cold]
    fn look_up_slowdown(&mut self, (kind, nr_leaves): (usize, u64), at: usize, contents: u64) -> f64 {
        let base = self.nr_roles as u64 + 1;
        let digit = |leaf: usize| (contents / base.pow(leaf as u32) % base) as u8;
        let all =
            (0..nr_leaves as usize).fold(Layout::default(), |layout, leaf| layout.with(leaf, digit(leaf)));
        let performance = |layout: Layout| {
            let beside = Beside {
                role: digit(at) - 1,
                kind: kind as u8,
                layout: self.layouts.canonical(kind, layout.with(at, TARGET)),
            };
            self.tables.beside(&beside).unwrap_or(f64::NAN)
        };
        let slowdown = performance(Layout::default()) / performance(all);
        self.slowdowns[kind].set(contents * nr_leaves + at as u64, slowdown)
    }
}
