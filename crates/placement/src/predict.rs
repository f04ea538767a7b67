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
    reading: Reading,
    nr_roles: usize,
    canonical: Canonical<'t>,
    scratch: Vec<Leaf>,
    seats: Vec<Seat>,
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

/// A leaf as predictions need it.
struct Seat {
    member: usize,
    /// The kind of the member, how many leaves it has, and which of them this is.
    kind: usize,
    nr_leaves: u64,
    at: u64,
    /// Of its digit.
    weight: u64,
}

/// The member of a thread that is placed nowhere, and its leaf, which no machine has.
const NOWHERE: usize = usize::MAX;
const NO_LEAF: Leaf = Leaf::MAX;

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
        let seat = |leaf: usize| {
            let member = scope.member_of(leaf as Leaf);
            let leaves = &scope.members()[member];
            Seat {
                member,
                kind: layouts.kind(member),
                nr_leaves: leaves.len() as u64,
                at: (leaf - leaves.start) as u64,
                weight: base.pow((leaf - leaves.start) as u32),
            }
        };
        Ok(Predictor {
            tables,
            layouts,
            reading,
            nr_roles,
            canonical: Canonical::new(tree),
            scratch: Vec::new(),
            seats: (0..tree.nr_leaves()).map(seat).collect(),
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
            self.begin(placed.len());
            self.move_from(placed, 0);
        }
        self.performance.iter().sum()
    }

    /// Of the assignment that was predicted last: the sum of all threads' slowdowns.
    pub fn sum_of_slowdowns(&self) -> f64 {
        self.slowdown.iter().sum()
    }

    /// Predicts each assignment that has the last thread on one of `places` and the others on `placed`, and says what:
    /// what all have in common is computed once. The threads before `first` are placed as they were the last time.
    pub fn predict_each(
        &mut self,
        placed: &[Leaf],
        first: usize,
        places: &[Leaf],
        mut see: impl FnMut(&[Leaf], f64),
    ) {
        let last = placed.len();
        let mut first = first;
        if self.placed.len() != last + 1 {
            self.begin(last + 1);
            first = 0;
        }
        self.nr_predictions += 1;
        self.lift(last);
        (first..last).for_each(|nr| self.move_to(nr, placed[nr]));
        self.compute(self.instances[first]);
        let others = self.performance[..self.instances[last]].iter().sum();
        for &leaf in places {
            self.put(last, leaf);
            let performance = self.with_last(others);
            see(&self.placed, performance);
            self.lift(last);
        }
    }

    /// The performance with the last thread where it was put, where nothing else was computed with it. Without it the
    /// instances before its own do `others`.
    fn with_last(&mut self, others: f64) -> f64 {
        let last = self.placed.len() - 1;
        let (own, member) = (self.instances[last], self.members[last]);
        let alone = self.digits[last] * self.seats[usize::from(self.placed[last])].weight;
        let mut performance = others;
        if self.contents[member] != alone {
            performance = (0..own)
                .map(|instance| self.performance_with(instance, member))
                .sum();
        }
        let base = self.base_of(own * self.nr_roles);
        performance + base / self.largest_with(own, member)
    }

    /// Of a complete instance, where only a member of the scope has changed.
    fn performance_with(&mut self, instance: usize, member: usize) -> f64 {
        let first = instance * self.nr_roles;
        if self.members[first..first + self.nr_roles].contains(&member) {
            self.base[instance] / self.largest_with(instance, member)
        } else {
            self.performance[instance]
        }
    }

    fn largest_with(&mut self, instance: usize, member: usize) -> f64 {
        let first = instance * self.nr_roles;
        (first..first + self.nr_roles).fold(f64::NEG_INFINITY, |largest, nr| {
            larger(
                largest,
                match self.members[nr] == member {
                    true => self.slowdown_of(first, nr),
                    false => self.slowdown[nr],
                },
            )
        })
    }

    /// Forgets the last assignment; so many threads are placed nowhere.
    fn begin(&mut self, nr_threads: usize) {
        let nr_instances = nr_threads / self.nr_roles;
        self.contents.fill(0);
        self.placed = vec![NO_LEAF; nr_threads];
        self.members = vec![NOWHERE; nr_threads];
        self.instances = (0..nr_threads).map(|nr| nr / self.nr_roles).collect();
        self.digits = (0..nr_threads)
            .map(|nr| (nr % self.nr_roles) as u64 + 1)
            .collect();
        self.slowdown = vec![f64::NAN; nr_threads];
        self.base = vec![f64::NAN; nr_instances];
        self.performance = vec![f64::NAN; nr_instances];
    }

    fn move_from(&mut self, placed: &[Leaf], first: usize) {
        if first == placed.len() {
            return;
        }
        self.nr_predictions += 1;
        (first..placed.len()).for_each(|nr| self.move_to(nr, placed[nr]));
        self.compute(self.instances[first]);
    }

    fn move_to(&mut self, nr: usize, leaf: Leaf) {
        if self.placed[nr] != leaf {
            self.lift(nr);
            self.put(nr, leaf);
            self.changed[self.members[nr]] = self.nr_predictions;
        }
    }

    /// Takes a thread off its leaf, if it has one.
    fn lift(&mut self, nr: usize) {
        let (leaf, member) = (self.placed[nr], self.members[nr]);
        if member != NOWHERE {
            let taken = self.digits[nr] * self.seats[usize::from(leaf)].weight;
            self.contents[member] = self.contents[member].wrapping_sub(taken);
            self.changed[member] = self.nr_predictions;
            (self.placed[nr], self.members[nr]) = (NO_LEAF, NOWHERE);
        }
    }

    /// Puts a thread on a leaf. Two may be on one for a moment: digits carry over, and back when the other leaves.
    fn put(&mut self, nr: usize, leaf: Leaf) {
        let seat = &self.seats[usize::from(leaf)];
        self.placed[nr] = leaf;
        self.members[nr] = seat.member;
        self.contents[seat.member] = self.contents[seat.member].wrapping_add(self.digits[nr] * seat.weight);
    }

    /// Computes what has changed. No thread of an instance before `moved` has moved. An instance whose last thread is
    /// placed nowhere has neither base nor performance.
    fn compute(&mut self, moved: usize) {
        let mut first = 0;
        for instance in 0..self.base.len() {
            let threads = first..first + self.nr_roles;
            let is_whole = self.members[threads.end - 1] != NOWHERE;
            let mut differs = instance >= moved;
            if differs && is_whole {
                self.base[instance] = self.base_of(first);
            }
            for nr in threads.clone() {
                let member = self.members[nr];
                if member != NOWHERE && self.changed[member] == self.nr_predictions {
                    self.slowdown[nr] = self.slowdown_of(first, nr);
                    differs = true;
                }
            }
            if differs && is_whole {
                let slowdown = self.slowdown[threads]
                    .iter()
                    .copied()
                    .fold(f64::NEG_INFINITY, larger);
                self.performance[instance] = self.base[instance] / slowdown;
            }
            first += self.nr_roles;
        }
    }

    /// Of the instance whose threads begin at `first`.
    fn base_of(&mut self, first: usize) -> f64 {
        let own = &self.placed[first..first + self.nr_roles];
        let mut look_up = || {
            self.canonical.of(own, &mut self.scratch);
            self.tables.base(&self.scratch).unwrap_or(f64::NAN)
        };
        let nr_leaves = self.seats.len() as u64;
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
        let alone = self.digits[nr] * self.seats[usize::from(target)].weight;
        if all == alone {
            return 1.0;
        }
        if self.reading == Reading::Literal {
            return self.slowdown_beside(target, all);
        }
        let mut own = 0;
        for fellow in first..first + self.nr_roles {
            if self.members[fellow] == member {
                own += self.digits[fellow] * self.seats[usize::from(self.placed[fellow])].weight;
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
        let Seat {
            kind, nr_leaves, at, ..
        } = self.seats[usize::from(target)];
        let look_up = || {
            let base = self.nr_roles as u64 + 1;
            let digit = |leaf| (contents / base.pow(leaf as u32) % base) as u8;
            let all = (0..nr_leaves as usize)
                .fold(Layout::default(), |layout, leaf| layout.with(leaf, digit(leaf)));
            let at = at as usize;
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
        self.slowdowns[kind].of(contents * nr_leaves + at, look_up)
    }
}

/// The larger; NaN if one is.
fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}
