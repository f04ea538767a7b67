// SPDX-License-Identifier: GPL-2.0-only
//! Branch and bound: one member of the scope after the other gets all that it is to run.
//!
//! For a member first what it runs is chosen, then which of its threads belong together, and to which instance begun in
//! an earlier member. Placing threads one by one would be simpler, but would leave each slowdown open until its member
//! is full, and in any table a further thread may help. Of interchangeable members the contents come in order, of
//! interchangeable leaves the first is taken, and of interchangeable begun instances one is continued.

use super::content::{Content, Group};
use super::instance::Instance;
use super::relax::Relaxation;
use super::{Problem, TOLERANCE};
use crate::{Canonical, Leaf, Predicted, Predictor};

/// The search, which improves on `best`.
pub(super) struct Branch<'b, 't> {
    problem: Problem<'t>,
    relaxation: &'b Relaxation,
    predictor: &'b mut Predictor<'t>,
    canonical: Canonical<'t>,
    pub best: Option<Predicted>,
    pub nr_nodes: u64,
    limit: u64,
    /// The most that was left out at the limit.
    left_out: f64,
    /// Those begun, and those complete.
    instances: Vec<Instance>,
    /// Threads of each role that are not placed yet.
    unplaced: Vec<usize>,
    /// What each member so far runs, by number.
    chosen: Vec<usize>,
    /// For each member the class of interchangeable nodes that it is in.
    classes: Vec<usize>,
}

/// A member whose threads are being divided among instances.
#[derive(Clone, Copy)]
struct Division<'b> {
    member: usize,
    content: &'b Content,
    /// What the members after it contribute at most.
    rest: f64,
}

impl<'b, 't> Branch<'b, 't> {
    pub fn new(
        problem: Problem<'t>,
        relaxation: &'b Relaxation,
        predictor: &'b mut Predictor<'t>,
        best: Option<Predicted>,
    ) -> Self {
        let (tree, members) = (problem.tree, problem.scope.members());
        let class = |member| tree.nodes[tree.node_over(member)].class_id;
        Branch {
            problem,
            relaxation,
            predictor,
            canonical: Canonical::new(tree),
            best,
            nr_nodes: 0,
            limit: 0,
            left_out: f64::NEG_INFINITY,
            instances: Vec::new(),
            unplaced: vec![problem.size.instances; problem.size.roles],
            chosen: Vec::new(),
            classes: members.iter().map(class).collect(),
        }
    }

    /// Visits at most so many nodes. No assignment does more than what is returned.
    pub fn run(&mut self, nr_nodes: u64) -> f64 {
        self.limit = nr_nodes;
        let bound = self.relaxation.bound(self.problem);
        if bound > self.cutoff() {
            if nr_nodes == 0 {
                self.left_out = bound;
            } else {
                self.fill(0, 0.0);
            }
        }
        let best = self
            .best
            .as_ref()
            .map_or(f64::NEG_INFINITY, |best| best.performance);
        best.max(self.left_out)
    }

    /// What cannot do more than this is of no interest.
    fn cutoff(&self) -> f64 {
        let cutoff = |best: &Predicted| best.performance * (1.0 + TOLERANCE);
        self.best.as_ref().map_or(f64::NEG_INFINITY, cutoff)
    }

    /// Whether to go on below a node whose assignments do so much at most.
    fn enters(&mut self, bound: f64) -> bool {
        if bound <= self.cutoff() {
            return false;
        }
        if self.nr_nodes >= self.limit {
            self.left_out = self.left_out.max(bound);
            return false;
        }
        self.nr_nodes += 1;
        true
    }

    /// Chooses what a member runs. What is placed contributes at most `placed`.
    fn fill(&mut self, member: usize, placed: f64) {
        let relaxation = self.relaxation;
        if member == self.classes.len() {
            return self.see();
        }
        let contents = &relaxation.contents[self.problem.layouts.kind(member)];
        let is_like_last = member > 0 && self.classes[member - 1] == self.classes[member];
        let first = if is_like_last { self.chosen[member - 1] } else { 0 };
        let mut choices: Vec<(f64, f64, usize)> = Vec::new();
        for (nr, content) in contents.iter().enumerate().skip(first) {
            if content
                .counts
                .iter()
                .zip(&self.unplaced)
                .any(|(here, left)| here > left)
            {
                continue;
            }
            self.take(content);
            let rest = relaxation.rest(member + 1, &self.unplaced);
            self.give_back(content);
            let bound = placed + content.most[content.leaves as usize] + rest;
            if bound > self.cutoff() {
                choices.push((bound, rest, nr));
            }
        }
        choices.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.2.cmp(&b.2)));
        for (bound, rest, nr) in choices {
            if !self.enters(bound) {
                // Nor would it any later one: their bounds are no higher.
                return;
            }
            let content = &contents[nr];
            self.take(content);
            self.chosen.push(nr);
            let division = Division {
                member,
                content,
                rest,
            };
            self.divide(division, content.leaves, placed);
            self.chosen.pop();
            self.give_back(content);
        }
    }

    fn take(&mut self, content: &Content) {
        (self.unplaced.iter_mut().zip(&content.counts)).for_each(|(left, here)| *left -= here);
    }

    fn give_back(&mut self, content: &Content) {
        (self.unplaced.iter_mut().zip(&content.counts)).for_each(|(left, here)| *left += here);
    }

    /// Chooses to which instance the lowest of the threads on `leaves` belongs, and which others do.
    fn divide(&mut self, division: Division<'b>, leaves: u32, placed: f64) {
        if leaves == 0 {
            return self.fill(division.member + 1, placed);
        }
        let content = division.content;
        for group in &content.groups[leaves.trailing_zeros() as usize] {
            if group.leaves & !leaves != 0 || content.has_free_twin(group, leaves) {
                continue;
            }
            let left = leaves & !group.leaves;
            let others = placed + content.most[left as usize] + division.rest;
            if self.instances.len() < self.problem.size.instances {
                let begun = self.extended(None, group, division);
                self.with(None, begun, (division, left), (placed, others));
            }
            for nr in 0..self.instances.len() {
                if self.may_continue(nr, group, division.member) {
                    let continued = self.extended(Some(nr), group, division);
                    self.with(Some(nr), continued, (division, left), (placed, others));
                }
            }
        }
    }

    /// Goes on with an instance in place of number `nr`, or besides those there are.
    fn with(
        &mut self,
        nr: Option<usize>,
        instance: Option<Instance>,
        (division, left): (Division<'b>, u32),
        (placed, others): (f64, f64),
    ) {
        let Some(instance) = instance else { return };
        let before = nr.map_or(0.0, |nr| self.share(&self.instances[nr]));
        let gain = self.share(&instance) - before;
        if !self.enters(others + gain) {
            return;
        }
        match nr {
            Some(nr) => {
                let old = std::mem::replace(&mut self.instances[nr], instance);
                self.divide(division, left, placed + gain);
                self.instances[nr] = old;
            }
            None => {
                self.instances.push(instance);
                self.divide(division, left, placed + gain);
                self.instances.pop();
            }
        }
    }

    /// What the placed threads of an instance contribute at most.
    fn share(&self, instance: &Instance) -> f64 {
        self.relaxation
            .share(instance.roles, instance.base / instance.slowdown)
    }

    /// Whether a group can be a part of an instance begun in an earlier member, the first of interchangeable ones.
    fn may_continue(&self, nr: usize, group: &Group, member: usize) -> bool {
        let instance = &self.instances[nr];
        let is_alike = |other: &Instance| other.last_member < member && other.is_interchangeable(instance);
        instance.last_member < member
            && instance.roles & group.roles == 0
            && !self.instances[..nr].iter().any(is_alike)
    }

    /// An instance, or a new one, with the threads of a group as well. None where it cannot be predicted.
    fn extended(&mut self, nr: Option<usize>, group: &Group, division: Division) -> Option<Instance> {
        let (member, roles) = (division.member, self.problem.size.roles);
        let mut instance = nr.map_or_else(|| Instance::new(roles), |nr| self.instances[nr].clone());
        let start = self.problem.scope.members()[member].start;
        for (leaf, &byte) in division.content.bytes.iter().enumerate() {
            if group.leaves & 1 << leaf != 0 {
                instance.leaves[usize::from(byte) - 1] = (start + leaf) as Leaf;
            }
        }
        instance.add(group, member, self.classes[member]);
        if instance.is_complete() {
            let mut canonical = Vec::with_capacity(roles);
            self.canonical.of(&instance.leaves, &mut canonical);
            // As precise as the predictor keeps it.
            instance.base = f64::from(self.problem.tables.base(&canonical)? as f32);
        }
        Some(instance)
    }

    /// All threads are placed.
    fn see(&mut self) {
        let nr_complete = self.instances.iter().filter(|it| it.is_complete()).count();
        if nr_complete != self.problem.size.instances {
            return;
        }
        let placed: Vec<Leaf> = self.instances.iter().flat_map(|it| it.leaves.clone()).collect();
        let mut canonical = Vec::with_capacity(placed.len());
        self.canonical.of(&placed, &mut canonical);
        let performance = self.predictor.predict(&canonical);
        if performance > self.cutoff() {
            self.best = Some(Predicted {
                placed: canonical,
                performance,
            });
        }
    }
}
