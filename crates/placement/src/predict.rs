// SPDX-License-Identifier: GPL-2.0-only
//! The performance of any assignment from the tables (blackbox-scheduler, section 3.1.2).

use serde::{Deserialize, Serialize};

use crate::across::Term;
use crate::entries::Entries;
use crate::layout::Layouts;
use crate::tables::Tables;
use crate::{Error, Leaf, Scope, Tree};

/// What counts as beside a thread. The paper counts collisions among threads of one instance that share a core twice:
/// in the base time, which was measured with them, and in the slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
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
pub struct Predictor<'t> {
    entries: Entries<'t>,
    across: Option<Term<'t>>,
    reading: Reading,
    nr_roles: usize,
    seats: Vec<Seat>,
    /// The last assignment: each thread's leaf, as it was given and as it is needed.
    placed: Vec<Leaf>,
    threads: Vec<Thread>,
    members: Vec<Member>,
    nr_predictions: u64,
    /// By instance.
    base: Vec<f64>,
    performance: Vec<f64>,
}

/// A leaf: its member of the scope, its place there, and the weight of its digit in the member's contents.
#[derive(Clone, Copy)]
struct Seat {
    member: usize,
    at: u64,
    weight: u64,
}

/// A thread where it is placed.
#[derive(Clone, Copy)]
struct Thread {
    /// Or [`NOWHERE`].
    member: usize,
    at: u64,
    /// What it adds to the contents of its member; never 0.
    share: u64,
    /// Of its role.
    digit: u64,
    slowdown: f64,
}

/// A member of the scope: its kind, what it runs, and when that changed last, in predictions.
#[derive(Clone, Copy)]
struct Member {
    kind: usize,
    nr_leaves: u64,
    contents: u64,
    changed: u64,
}

/// The member of a thread that is placed nowhere, and its leaf, which no machine has.
const NOWHERE: usize = usize::MAX;
const NO_LEAF: Leaf = Leaf::MAX;

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
        let entries = Entries::new(tables, tree, (layouts, scope), nr_roles)?;
        let seat = |leaf: usize| {
            let member = scope.member_of(leaf as Leaf);
            let at = leaf - scope.members()[member].start;
            Seat {
                member,
                at: at as u64,
                weight: (nr_roles as u64 + 1).pow(at as u32),
            }
        };
        let member = |(nr, leaves): (usize, &std::ops::Range<usize>)| Member {
            kind: layouts.kind(nr),
            nr_leaves: leaves.len() as u64,
            contents: 0,
            changed: 0,
        };
        Ok(Predictor {
            entries,
            across: Term::new(tables, scope, nr_roles),
            reading,
            nr_roles,
            seats: (0..tree.nr_leaves()).map(seat).collect(),
            placed: Vec::new(),
            threads: Vec::new(),
            members: scope.members().iter().enumerate().map(member).collect(),
            nr_predictions: 0,
            base: Vec::new(),
            performance: Vec::new(),
        })
    }

    /// The sum of what the instances do: base performance over the largest slowdown of a thread, and over what threads
    /// beyond the scope cost where that is known. `placed` has the threads of one instance after the other's. NaN where the
    /// tables lack an entry.
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
        match &self.across {
            Some(term) => term.total(placed, &self.performance),
            None => self.performance.iter().sum(),
        }
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
        if self.across.is_some() {
            // Wherever the last thread is, it may change what all instances do.
            let mut whole = [placed, &[NO_LEAF]].concat();
            for &leaf in places {
                whole[last] = leaf;
                let performance = self.predict(&whole);
                see(&whole, performance);
            }
            return;
        }
        let mut first = first;
        if self.placed.len() != last + 1 {
            self.begin(last + 1);
            first = 0;
        }
        self.nr_predictions += 1;
        self.lift(last);
        (first..last).for_each(|nr| self.move_to(nr, placed[nr]));
        self.compute(first / self.nr_roles);
        let others = self.performance[..last / self.nr_roles].iter().sum();
        for &leaf in places {
            self.put(last, leaf);
            let performance = self.with_last(others);
            see(&self.placed, performance);
            self.lift(last);
        }
    }

    /// The performance with the last thread where it was put, where nothing else was computed with it. Without it the
    /// instances before its own do `others`.
    #[inline]
    fn with_last(&mut self, others: f64) -> f64 {
        let Predictor {
            entries,
            threads,
            members,
            base,
            performance,
            ..
        } = self;
        let thread = threads[threads.len() - 1];
        let (number, member) = (thread.member, members[thread.member]);
        let mut largest_of = |threads: &[Thread], own: u64| {
            threads.iter().fold(f64::NEG_INFINITY, |largest, thread| {
                larger(
                    largest,
                    match thread.member == number {
                        true => slowdown(entries, self.reading, &member, own, thread),
                        false => thread.slowdown,
                    },
                )
            })
        };
        let first = (base.len() - 1) * self.nr_roles;
        let mut sum = others;
        if member.contents != thread.share {
            let instances = threads[..first].chunks_exact(self.nr_roles);
            let each = instances.zip(&*base).zip(&*performance);
            sum = each
                .map(
                    |((threads, base), &performance)| match share_in(threads, number) {
                        0 => performance,
                        own => base / largest_of(threads, own),
                    },
                )
                .sum();
        }
        let threads = &threads[first..];
        let largest = largest_of(threads, share_in(threads, number));
        sum + entries.base(&self.placed[first..]) / largest
    }

    /// Forgets the last assignment; so many threads are placed nowhere.
    fn begin(&mut self, nr_threads: usize) {
        let nr_instances = nr_threads / self.nr_roles;
        self.members.iter_mut().for_each(|member| member.contents = 0);
        self.placed = vec![NO_LEAF; nr_threads];
        let thread = |nr: usize| Thread {
            member: NOWHERE,
            at: 0,
            share: 0,
            digit: (nr % self.nr_roles) as u64 + 1,
            slowdown: f64::NAN,
        };
        self.threads = (0..nr_threads).map(thread).collect();
        self.base = vec![f64::NAN; nr_instances];
        self.performance = vec![f64::NAN; nr_instances];
    }

    fn move_from(&mut self, placed: &[Leaf], first: usize) {
        if first == placed.len() {
            return;
        }
        self.nr_predictions += 1;
        (first..placed.len()).for_each(|nr| self.move_to(nr, placed[nr]));
        self.compute(first / self.nr_roles);
    }

    fn move_to(&mut self, nr: usize, leaf: Leaf) {
        if self.placed[nr] != leaf {
            self.lift(nr);
            self.put(nr, leaf);
            self.members[self.threads[nr].member].changed = self.nr_predictions;
        }
    }

    /// Takes a thread off its leaf, if it has one.
    #[inline]
    fn lift(&mut self, nr: usize) {
        let thread = &mut self.threads[nr];
        if thread.member != NOWHERE {
            let member = &mut self.members[thread.member];
            member.contents = member.contents.wrapping_sub(thread.share);
            member.changed = self.nr_predictions;
            thread.member = NOWHERE;
            self.placed[nr] = NO_LEAF;
        }
    }

    /// Puts a thread on a leaf. Two may be on one for a moment: digits carry over, and back when the other leaves.
    #[inline]
    fn put(&mut self, nr: usize, leaf: Leaf) {
        let Seat { member, at, weight } = self.seats[usize::from(leaf)];
        let thread = &mut self.threads[nr];
        (thread.member, thread.at, thread.share) = (member, at, thread.digit * weight);
        let contents = &mut self.members[member].contents;
        *contents = contents.wrapping_add(thread.share);
        self.placed[nr] = leaf;
    }

    /// Computes what has changed. No thread of an instance before `moved` has moved. An instance whose last thread is
    /// placed nowhere has neither base nor performance.
    fn compute(&mut self, moved: usize) {
        let nr_roles = self.nr_roles;
        for (nr, threads) in self.threads.chunks_exact_mut(nr_roles).enumerate() {
            let is_whole = threads[nr_roles - 1].member != NOWHERE;
            let mut differs = nr >= moved;
            if differs && is_whole {
                self.base[nr] = self.entries.base(&self.placed[nr * nr_roles..][..nr_roles]);
            }
            for role in 0..nr_roles {
                let Thread { member: number, .. } = threads[role];
                let member = self.members.get(number);
                if let Some(member) = member.filter(|member| member.changed == self.nr_predictions) {
                    let own = share_in(threads, number);
                    threads[role].slowdown =
                        slowdown(&mut self.entries, self.reading, member, own, &threads[role]);
                    differs = true;
                }
            }
            if differs && is_whole {
                let slowdowns = threads.iter().map(|thread| thread.slowdown);
                self.performance[nr] = self.base[nr] / slowdowns.fold(f64::NEG_INFINITY, larger);
            }
        }
    }
}

/// What threads of one instance add to the contents of a member; 0 if none is there.
#[inline]
fn share_in(threads: &[Thread], member: usize) -> u64 {
    let there = threads.iter().filter(|thread| thread.member == member);
    there.fold(0, |share, thread| share.wrapping_add(thread.share))
}

/// Of a thread in a member of the scope to which threads of its instance add `own`.
#[inline]
fn slowdown(entries: &mut Entries, reading: Reading, member: &Member, own: u64, thread: &Thread) -> f64 {
    let all = member.contents;
    let mut beside = |contents| entries.slowdown((member.kind, member.nr_leaves), thread.at, contents);
    match reading {
        Reading::Literal if all == thread.share => 1.0,
        Reading::Literal => beside(all),
        // Whoever has no foreign thread beside it is slowed down by none.
        _ if all == own => 1.0,
        Reading::ForeignOnly => beside(all - own + thread.share),
        Reading::Excess if own == thread.share => beside(all),
        Reading::Excess => beside(all) / beside(own),
    }
}

/// The larger; NaN if one is.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}
