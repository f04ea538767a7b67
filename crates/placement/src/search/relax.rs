// SPDX-License-Identifier: GPL-2.0-only
//! How good an assignment can be: each member of the scope by itself.
//!
//! An instance does no more than any of its threads lets it, so no more than the mean over its threads, with any weights.
//! That splits its performance among the members of the scope that it runs on. What a member contributes at most is
//! found for each of its contents by trying all divisions of its threads into instances; which contents add up best to
//! the threads there are, by dynamic programming over the members. Contents are whole, so slowdowns are exact, however
//! threads help or hurt each other; only two things are relaxed: the mean, and that parts of instances fit together.

use std::ops::Range;

use super::Problem;
use super::content::{self, Content, Group, MAX_NUMBERS};

/// How often other weights are tried.
const NR_WEIGHTINGS: usize = 100;

/// By how much at least; half of it moves a bound by less than noise does a measurement.
const MIN_STEP: f64 = 1e-3;

/// The bound, and all it was made of.
pub(super) struct Relaxation {
    /// By kind of member.
    pub contents: Vec<Vec<Content>>,
    /// By role; their sum is 1.
    weights: Vec<f64>,
    /// What a thread of each role adds to an index of `rest`.
    strides: Vec<usize>,
    /// By member, then by the threads that are left: the most that this member and all after it contribute.
    rest: Vec<Vec<f64>>,
}

impl Relaxation {
    /// With the weights that make the bound as low as could be found. None when it would be too large.
    pub fn new(problem: Problem) -> Option<Relaxation> {
        // Sets of roles are 32 bits.
        if problem.size.roles > 31 {
            return None;
        }
        let contents = content::all(problem)?;
        let strides = strides(problem);
        let roles = problem.size.roles;
        let mut relaxation = Relaxation {
            contents,
            weights: vec![1.0 / roles as f64; roles],
            strides,
            rest: Vec::new(),
        };
        relaxation.compute(problem);
        relaxation.lower(problem);
        Some(relaxation)
    }

    /// No assignment does more.
    pub fn bound(&self, problem: Problem) -> f64 {
        self.rest(0, &vec![problem.size.instances; problem.size.roles])
    }

    /// The most that the members from one on contribute with so many threads of each role.
    pub fn rest(&self, member: usize, threads: &[usize]) -> f64 {
        self.rest[member][self.index(threads)]
    }

    /// What threads of these roles contribute to an instance that does so much at most.
    pub fn share(&self, roles: u32, performance: f64) -> f64 {
        if roles.count_ones() as usize == self.weights.len() {
            return performance;
        }
        let has = |role: &usize| roles & 1 << role != 0;
        let weight: f64 = (0..self.weights.len())
            .filter(has)
            .map(|role| self.weights[role])
            .sum();
        weight * performance
    }

    fn index(&self, threads: &[usize]) -> usize {
        threads
            .iter()
            .zip(&self.strides)
            .map(|(nr, stride)| nr * stride)
            .sum()
    }

    /// Shifts weights while that lowers the bound, which is convex in them: it is a maximum of linear functions.
    fn lower(&mut self, problem: Problem) {
        let roles = problem.size.roles;
        let mut lowest = self.bound(problem);
        let (mut step, mut nr) = (0.25, 0);
        while step > MIN_STEP && nr < NR_WEIGHTINGS {
            let before = lowest;
            for (from, to) in (0..roles * roles).map(|pair| (pair / roles, pair % roles)) {
                let shift = step.min(self.weights[from]);
                if from == to || shift == 0.0 || nr == NR_WEIGHTINGS {
                    continue;
                }
                let kept = self.weights.clone();
                self.weights[from] -= shift;
                self.weights[to] += shift;
                self.compute(problem);
                nr += 1;
                let bound = self.bound(problem);
                if bound < lowest {
                    lowest = bound;
                } else {
                    self.weights = kept;
                }
            }
            if lowest >= before {
                step /= 2.0;
            }
        }
        self.compute(problem);
    }

    fn compute(&mut self, problem: Problem) {
        let mut contents = std::mem::take(&mut self.contents);
        for content in contents.iter_mut().flatten() {
            self.divide(content);
        }
        self.contents = contents;
        self.add_up(problem);
    }

    /// The best division of each set of a content's threads into groups.
    fn divide(&self, content: &mut Content) {
        content.most[0] = 0.0;
        let shares: Vec<Vec<f64>> = (content.groups.iter())
            .map(|groups| {
                let share = |group: &Group| self.share(group.roles, group.base / group.slowdown);
                groups.iter().map(share).collect()
            })
            .collect();
        for &leaves in &content.sets {
            let lowest = leaves.trailing_zeros() as usize;
            let mut most = f64::NEG_INFINITY;
            for (group, share) in content.groups[lowest].iter().zip(&shares[lowest]) {
                if group.leaves & !leaves == 0 {
                    most = most.max(share + content.most[(leaves & !group.leaves) as usize]);
                }
            }
            content.most[leaves as usize] = most;
        }
    }

    /// Whether an index is of no more threads than there are, and `room` has room for those that it leaves.
    fn is_state(&self, index: usize, (total, room): (usize, usize), problem: Problem) -> bool {
        let (instances, base) = (problem.size.instances, base(problem));
        if self.strides.iter().all(|&stride| stride == 1) {
            return index <= total && total - index <= room;
        }
        let threads = self.strides.iter().map(|stride| index / stride % base);
        threads.clone().all(|nr| nr <= instances) && total - threads.sum::<usize>() <= room
    }

    /// The best contents of the last members, then of one more, and so on.
    fn add_up(&mut self, problem: Problem) {
        let nr_members = problem.scope.members().len();
        let size = self.index(&vec![problem.size.instances; problem.size.roles]) + 1;
        let mut none = vec![f64::NEG_INFINITY; size];
        none[0] = 0.0;
        self.rest = vec![none];
        // What contents of equal index contribute at most.
        let best_of: Vec<Vec<(usize, f64)>> = (self.contents.iter())
            .map(|contents| {
                let mut best: Vec<(usize, f64)> = (contents.iter())
                    .map(|content| (self.index(&content.counts), content.most[content.leaves as usize]))
                    .filter(|(_, most)| *most > f64::NEG_INFINITY)
                    .collect();
                best.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
                best.dedup_by_key(|(index, _)| *index);
                best
            })
            .collect();
        let total = problem.size.instances * problem.size.roles;
        let mut room: usize = problem.scope.members().iter().map(Range::len).sum();
        for member in (0..nr_members).rev() {
            let after = &self.rest[self.rest.len() - 1];
            let mut most = vec![f64::NEG_INFINITY; size];
            for (index, &rest) in after.iter().enumerate() {
                // Those left out neither are within the numbers of threads nor leave room for the others.
                if rest == f64::NEG_INFINITY || !self.is_state(index, (total, room), problem) {
                    continue;
                }
                for (here, share) in &best_of[problem.layouts.kind(member)] {
                    if let Some(most) = most.get_mut(index + here) {
                        *most = most.max(rest + share);
                    }
                }
            }
            room -= problem.scope.members()[member].len();
            self.rest.push(most);
        }
        self.rest.reverse();
    }
}

/// The base of an index: more than a role's threads and what a member has of it, so that no digit carries over.
fn base(problem: Problem) -> usize {
    let largest = problem.scope.members().iter().map(Range::len).max();
    problem.size.instances + 1 + largest.unwrap_or(0)
}

/// One number for each number of threads of each role; where that is too much, only all threads together are counted.
fn strides(problem: Problem) -> Vec<usize> {
    let base = base(problem);
    let nr_members = problem.scope.members().len();
    let by_role = base
        .checked_pow(problem.size.roles as u32)
        .filter(|states| states.saturating_mul(nr_members) <= MAX_NUMBERS / 4);
    match by_role {
        Some(_) => (0..problem.size.roles as u32)
            .map(|role| base.pow(role))
            .collect(),
        None => vec![1; problem.size.roles],
    }
}
