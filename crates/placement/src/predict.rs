// SPDX-License-Identifier: GPL-2.0-only
//! The performance of any assignment from the tables (blackbox-scheduler, section 3.1.2).

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::assignments::Canonical;
use crate::layout::{Layout, Layouts, TARGET};
use crate::tables::{Beside, Tables};
use crate::{Error, Leaf, Scope, Tree};

/// What counts as beside a thread. The paper counts collisions among threads of one instance that share a core twice:
/// in the base time, which was measured with them, and in the slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Reading {
    /// All threads in the scope, as printed.
    Literal,
    /// Only threads of other instances.
    ForeignOnly,
    /// All threads in the scope, relative to those of the own instance alone.
    #[default]
    Excess,
}

/// Predicts assignments of one workload. Of each it computes only what differs from the one before, and keeps what it has
/// looked up.
///
/// What a member of the scope runs is a number whose digits, in base roles + 1, are its leaves' roles + 1, or 0.
pub struct Predictor<'t> {
    tables: &'t Tables,
    layouts: &'t Layouts<'t>,
    scope: &'t Scope,
    reading: Reading,
    nr_roles: usize,
    canonical: Canonical<'t>,
    scratch: Vec<Leaf>,
    /// The weight of each leaf's digit.
    weights: Vec<u64>,
    /// By kind of member.
    slowdowns: Vec<Known>,
    bases: Known,
    /// The last assignment: each thread's leaf, and its member of the scope.
    placed: Vec<Leaf>,
    members: Vec<usize>,
    /// For each thread its instance and its digit.
    instances: Vec<usize>,
    digits: Vec<u64>,
    /// What each member of the scope runs, and when that changed last, in predictions.
    contents: Vec<u64>,
    changed: Vec<u64>,
    nr_predictions: u64,
    /// By thread.
    slowdown: Vec<f64>,
    /// By instance.
    base: Vec<f64>,
    performance: Vec<f64>,
}

/// What has been looked up, by number. With 24 bits: no measurement has more.
struct Known {
    /// Of small numbers; below zero is not yet known.
    small: Vec<f32>,
    others: FxHashMap<u64, f32>,
}

/// Numbers that are kept in an array: 4 MiB.
const MAX_SMALL: u64 = 1 << 20;

impl Known {
    /// Of numbers below `nr`.
    fn new(nr: Option<u64>) -> Known {
        Known {
            small: vec![-1.0; nr.unwrap_or(MAX_SMALL).min(MAX_SMALL) as usize],
            others: FxHashMap::default(),
        }
    }

    fn of(&mut self, number: u64, look_up: impl FnOnce() -> f64) -> f64 {
        match self.small.get_mut(number as usize) {
            Some(known) => {
                if *known < 0.0 {
                    *known = look_up() as f32;
                }
                f64::from(*known)
            }
            None => f64::from(*self.others.entry(number).or_insert_with(|| look_up() as f32)),
        }
    }
}

impl<'t> Predictor<'t> {
    /// For programs of `nr_roles` threads.
    ///
    /// # Errors
    /// [`Error::ScopeTooLarge`] where a member of the scope could run more than fits into 64 bits.
    pub fn new(
        tables: &'t Tables,
        tree: &'t Tree,
        layouts: &'t Layouts<'t>,
        scope: &'t Scope,
        (nr_roles, reading): (usize, Reading),
    ) -> Result<Self, Error> {
        let base = nr_roles as u64 + 1;
        let nr_members = scope.members().len();
        let contents_of = |kind: usize| {
            let nr = layouts.example(kind).len() as u32;
            base.checked_pow(nr)
                .and_then(|contents| contents.checked_mul(u64::from(nr)))
        };
        let too_large = |kind: &usize| contents_of(*kind).is_none();
        if let Some(kind) = (0..layouts.nr_kinds()).find(too_large) {
            return Err(Error::ScopeTooLarge {
                level: scope.level().to_string(),
                cpus: layouts.example(kind).len(),
                max: (64.0 / (base as f64).log2()) as usize - 1,
            });
        }
        let weight = |leaf: usize| {
            let start = scope.members()[scope.member_of(leaf as Leaf)].start;
            base.pow((leaf - start) as u32)
        };
        Ok(Predictor {
            tables,
            layouts,
            scope,
            reading,
            nr_roles,
            canonical: Canonical::new(tree),
            scratch: Vec::new(),
            weights: (0..tree.nr_leaves()).map(weight).collect(),
            slowdowns: (0..layouts.nr_kinds())
                .map(|kind| Known::new(contents_of(kind)))
                .collect(),
            bases: Known::new((tree.nr_leaves() as u64).checked_pow(nr_roles as u32)),
            placed: Vec::new(),
            members: Vec::new(),
            instances: Vec::new(),
            digits: Vec::new(),
            contents: vec![0; nr_members],
            changed: vec![0; nr_members],
            nr_predictions: 0,
            slowdown: Vec::new(),
            base: Vec::new(),
            performance: Vec::new(),
        })
    }

    /// The sum of what the instances do: base performance over the largest slowdown of a thread. `placed` has the
    /// threads of one instance after the other's. NaN where the tables lack an entry.
    pub fn predict(&mut self, placed: &[Leaf]) -> f64 {
        let same = self
            .placed
            .iter()
            .zip(placed)
            .take_while(|(old, new)| old == new)
            .count();
        self.predict_from(placed, same)
    }

    /// As [`Predictor::predict`], where the threads before `first` are placed as they were the last time.
    pub fn predict_from(&mut self, placed: &[Leaf], first: usize) -> f64 {
        if self.placed.len() == placed.len() {
            self.move_from(placed, first);
        } else {
            self.begin(placed);
        }
        self.performance.iter().sum()
    }

    fn begin(&mut self, placed: &[Leaf]) {
        let nr_instances = placed.len() / self.nr_roles;
        self.contents.fill(0);
        self.placed = vec![0; placed.len()];
        self.members = vec![0; placed.len()];
        self.instances = (0..placed.len()).map(|nr| nr / self.nr_roles).collect();
        self.digits = (0..placed.len())
            .map(|nr| (nr % self.nr_roles) as u64 + 1)
            .collect();
        self.slowdown = vec![f64::NAN; placed.len()];
        self.base = vec![f64::NAN; nr_instances];
        self.performance = vec![f64::NAN; nr_instances];
        self.nr_predictions += 1;
        (0..placed.len()).for_each(|nr| self.put(nr, placed[nr]));
        self.compute(0);
    }

    fn move_from(&mut self, placed: &[Leaf], first: usize) {
        if first == placed.len() {
            return;
        }
        self.nr_predictions += 1;
        for (nr, &leaf) in placed.iter().enumerate().skip(first) {
            if self.placed[nr] != leaf {
                let member = self.members[nr];
                let taken = self.digits[nr] * self.weight(self.placed[nr]);
                self.contents[member] = self.contents[member].wrapping_sub(taken);
                self.changed[member] = self.nr_predictions;
                self.put(nr, leaf);
            }
        }
        self.compute(self.instances[first]);
    }

    /// Puts a thread on a leaf. Two may be on one for a moment: digits carry over, and back when the other leaves.
    fn put(&mut self, nr: usize, leaf: Leaf) {
        let member = self.scope.member_of(leaf);
        self.placed[nr] = leaf;
        self.members[nr] = member;
        self.contents[member] = self.contents[member].wrapping_add(self.digits[nr] * self.weight(leaf));
        self.changed[member] = self.nr_predictions;
    }

    /// Computes what has changed. No thread of an instance before `moved` has moved.
    fn compute(&mut self, moved: usize) {
        let mut first = 0;
        for instance in 0..self.base.len() {
            let mut differs = instance >= moved;
            if differs {
                self.base[instance] = self.base_of(first);
            }
            for nr in first..first + self.nr_roles {
                if self.changed[self.members[nr]] == self.nr_predictions {
                    self.slowdown[nr] = self.slowdown_of(first, nr);
                    differs = true;
                }
            }
            if differs {
                let slowdown = largest(&self.slowdown[first..first + self.nr_roles]);
                self.performance[instance] = self.base[instance] / slowdown;
            }
            first += self.nr_roles;
        }
    }

    fn weight(&self, leaf: Leaf) -> u64 {
        self.weights[usize::from(leaf)]
    }

    /// Of the instance whose threads begin at `first`.
    fn base_of(&mut self, first: usize) -> f64 {
        let own = &self.placed[first..first + self.nr_roles];
        let mut look_up = || {
            self.canonical.of(own, &mut self.scratch);
            self.tables.base(&self.scratch).unwrap_or(f64::NAN)
        };
        let nr_leaves = self.weights.len() as u64;
        let number = own.iter().try_fold(0u64, |number, &leaf| {
            number.checked_mul(nr_leaves)?.checked_add(u64::from(leaf))
        });
        match number {
            Some(number) => self.bases.of(number, look_up),
            None => look_up(),
        }
    }

    fn slowdown_of(&mut self, first: usize, nr: usize) -> f64 {
        let (target, member) = (self.placed[nr], self.members[nr]);
        let all = self.contents[member];
        let alone = self.digits[nr] * self.weight(target);
        if all == alone {
            return 1.0;
        }
        if self.reading == Reading::Literal {
            return self.slowdown_beside(target, all);
        }
        let mut own = 0;
        for fellow in first..first + self.nr_roles {
            if self.members[fellow] == member {
                own += self.digits[fellow] * self.weight(self.placed[fellow]);
            }
        }
        // Whoever has no foreign thread beside it is slowed down by none.
        if all == own {
            return 1.0;
        }
        match self.reading {
            Reading::ForeignOnly => self.slowdown_beside(target, all - own + alone),
            _ if own == alone => self.slowdown_beside(target, all),
            _ => self.slowdown_beside(target, all) / self.slowdown_beside(target, own),
        }
    }

    /// The slowdown of the thread on a leaf when the leaf's member of the scope runs `contents`.
    fn slowdown_beside(&mut self, target: Leaf, contents: u64) -> f64 {
        let member = self.scope.member_of(target);
        let kind = self.layouts.kind(member);
        let leaves = &self.scope.members()[member];
        let at = usize::from(target) - leaves.start;
        let look_up = || {
            let base = self.nr_roles as u64 + 1;
            let digit = |leaf| (contents / base.pow(leaf as u32) % base) as u8;
            let all =
                (0..leaves.len()).fold(Layout::default(), |layout, leaf| layout.with(leaf, digit(leaf)));
            let performance = |layout: Layout| {
                let beside = Beside {
                    role: digit(at) - 1,
                    kind: kind as u8,
                    layout: self.layouts.canonical(kind, layout.with(at, TARGET)),
                };
                self.tables.beside(&beside).unwrap_or(f64::NAN)
            };
            performance(Layout::default()) / performance(all)
        };
        self.slowdowns[kind].of(contents * leaves.len() as u64 + at as u64, look_up)
    }
}

/// The largest; NaN if one is.
fn largest(slowdowns: &[f64]) -> f64 {
    let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    slowdowns.iter().copied().fold(f64::NEG_INFINITY, larger)
}
