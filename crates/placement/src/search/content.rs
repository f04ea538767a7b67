// SPDX-License-Identifier: GPL-2.0-only
//! What a member of the scope can run, and what the threads there make of the instances that they are parts of.

use rustc_hash::FxHashMap;

use super::Problem;
use crate::layout::{Layout, TARGET};
use crate::tables::Beside;
use crate::{Leaf, Reading};

/// Numbers that a search may keep: 128 MiB of each sort.
pub(super) const MAX_NUMBERS: usize = 1 << 24;

/// Threads of one instance in one member of the scope.
pub(super) struct Group {
    /// Their leaves, counted from the member's first, as bits; and their roles.
    pub leaves: u32,
    pub roles: u32,
    /// What an instance of which these are a part does alone at most.
    pub base: f64,
    /// The largest slowdown of them.
    pub slowdown: f64,
    /// Equal for equal layouts of the group alone.
    pub layout: Layout,
}

/// What a member of the scope runs.
pub(super) struct Content {
    /// By leaf: 0 for nothing, or the role + 1.
    pub bytes: Vec<u8>,
    /// Threads of each role.
    pub counts: Vec<usize>,
    pub leaves: u32,
    /// By their lowest leaf.
    pub groups: Vec<Vec<Group>>,
    /// The sets of leaves that are left when of interchangeable leaves the first is always taken first, ascending; the
    /// empty one left out.
    pub sets: Vec<u32>,
    /// By set of leaves: the most that their threads contribute. Minus infinity for those that are never left.
    pub most: Vec<f64>,
    /// For each leaf the one before it of equal content that is interchangeable with it.
    twin: Vec<Option<usize>>,
}

impl Content {
    /// Whether a leaf of the group could be exchanged for a lower one that is left.
    pub fn has_free_twin(&self, group: &Group, leaves: u32) -> bool {
        let of_group = |leaf: &usize| group.leaves & 1 << leaf != 0;
        let is_free = |leaf: usize| self.twin[leaf].is_some_and(|twin| leaves & 1 << twin != 0);
        (0..self.bytes.len()).filter(of_group).any(is_free)
    }
}

/// What members of each kind can run. None if it is too much.
pub(super) fn all(problem: Problem) -> Option<Vec<Vec<Content>>> {
    let bases = bases(problem);
    let mut found = Vec::new();
    let mut nr_numbers = 0usize;
    for kind in 0..problem.layouts.nr_kinds() {
        let nr_leaves = problem.layouts.example(kind).len();
        // Before interchangeable leaves are merged, so that nothing too large is listed.
        let all = (problem.size.roles + 1).checked_pow(nr_leaves as u32)?;
        if all > MAX_NUMBERS {
            return None;
        }
        let layouts = problem.layouts.of_roles(kind, problem.size.roles);
        nr_numbers += layouts.len() << nr_leaves;
        if nr_numbers > MAX_NUMBERS {
            return None;
        }
        let mut slowdowns = Slowdowns {
            problem,
            kind,
            known: FxHashMap::default(),
        };
        let of_kind = layouts
            .into_iter()
            .map(|layout| slowdowns.content(layout, &bases))
            .filter(|content| content.counts.iter().all(|&nr| nr <= problem.size.instances));
        let mut of_kind: Vec<Content> = of_kind.collect();
        of_kind.sort_by_key(|content| {
            (
                usize::MAX - content.counts.iter().sum::<usize>(),
                content.bytes.clone(),
            )
        });
        found.push(of_kind);
    }
    Some(found)
}

/// For each layout of a part of an instance on a member of some kind, the most that an instance with it does alone.
fn bases(problem: Problem) -> FxHashMap<(usize, Layout), f64> {
    let mut most = FxHashMap::default();
    let fits = |placed: &[Leaf]| {
        placed.len() == problem.size.roles
            && placed
                .iter()
                .all(|&leaf| usize::from(leaf) < problem.tree.nr_leaves())
    };
    for (placed, base) in problem.tables.bases().filter(|(placed, _)| fits(placed)) {
        for &leaf in placed {
            let member = problem.scope.member_of(leaf);
            let start = problem.scope.members()[member].start;
            let here = placed.iter().zip(1u8..);
            let here = here.filter(|(other, _)| problem.scope.member_of(**other) == member);
            let layout = here.fold(Layout::default(), |layout, (&leaf, byte)| {
                layout.with(usize::from(leaf) - start, byte)
            });
            let kind = problem.layouts.kind(member);
            let known = most
                .entry((kind, problem.layouts.canonical(kind, layout)))
                .or_insert(f64::NEG_INFINITY);
            // As precise as the predictor keeps it.
            *known = f64::max(*known, f64::from(base as f32));
        }
    }
    most
}

/// Slowdowns as [`crate::Predictor`] finds them.
struct Slowdowns<'t> {
    problem: Problem<'t>,
    kind: usize,
    known: FxHashMap<(Layout, usize), f64>,
}

impl Slowdowns<'_> {
    fn content(&mut self, all: Layout, bases: &FxHashMap<(usize, Layout), f64>) -> Content {
        let (tree, example) = (self.problem.tree, self.problem.layouts.example(self.kind));
        let bytes: Vec<u8> = (0..example.len()).map(|leaf| all.byte(leaf)).collect();
        let taken: Vec<usize> = (0..bytes.len()).filter(|&leaf| bytes[leaf] != 0).collect();
        let mut counts = vec![0; self.problem.size.roles];
        taken
            .iter()
            .for_each(|&leaf| counts[usize::from(bytes[leaf]) - 1] += 1);
        let class = |leaf: usize| {
            let path = &tree.paths[example.start + leaf];
            path.last().map(|&node| tree.nodes[node].class_id)
        };
        let is_twin = |leaf: usize, other: usize| bytes[leaf] == bytes[other] && class(leaf) == class(other);
        let twin: Vec<Option<usize>> = (0..bytes.len())
            .map(|leaf| (0..leaf).rev().find(|&other| is_twin(leaf, other)))
            .collect();
        let all_leaves = taken.iter().fold(0u32, |leaves, leaf| leaves | 1 << leaf);
        let is_left = |leaves: &u32| {
            let has = |leaf: usize| leaves & 1 << leaf != 0;
            leaves & !all_leaves == 0 && (taken.iter()).all(|&leaf| has(leaf) || !twin[leaf].is_some_and(has))
        };
        let mut groups: Vec<Vec<Group>> = (0..bytes.len()).map(|_| Vec::new()).collect();
        for own in distinct(&taken, &bytes) {
            if let Some(group) = self.group(all, &own, bases) {
                groups[own[0]].push(group);
            }
        }
        Content {
            leaves: all_leaves,
            sets: (1..=all_leaves).filter(is_left).collect(),
            most: vec![f64::NEG_INFINITY; 1 << bytes.len()],
            bytes,
            counts,
            groups,
            twin,
        }
    }

    /// The group on these leaves; none where an entry is missing, so that it cannot be predicted.
    fn group(
        &mut self,
        all: Layout,
        own: &[usize],
        bases: &FxHashMap<(usize, Layout), f64>,
    ) -> Option<Group> {
        let only = |leaves: &[usize]| {
            leaves.iter().fold(Layout::default(), |layout, &leaf| {
                layout.with(leaf, all.byte(leaf))
            })
        };
        let alone = only(own);
        let layout = self.problem.layouts.canonical(self.kind, alone);
        let base = *bases.get(&(self.kind, layout))?;
        let mut slowdown = f64::NEG_INFINITY;
        for &leaf in own {
            let foreign = (own.iter().filter(|&&fellow| fellow != leaf))
                .fold(all, |layout, &fellow| layout.with(fellow, 0));
            let of_leaf = match self.problem.reading {
                _ if all == only(&[leaf]) => 1.0,
                Reading::Literal => self.beside(all, leaf),
                _ if all == alone => 1.0,
                Reading::ForeignOnly => self.beside(foreign, leaf),
                Reading::Excess if own.len() == 1 => self.beside(all, leaf),
                Reading::Excess => self.beside(all, leaf) / self.beside(alone, leaf),
            };
            if of_leaf.is_nan() {
                return None;
            }
            slowdown = slowdown.max(of_leaf);
        }
        let fold = |set: u32, bit: usize| set | 1 << bit;
        let group = Group {
            leaves: own.iter().copied().fold(0, fold),
            roles: own
                .iter()
                .map(|&leaf| usize::from(all.byte(leaf)) - 1)
                .fold(0, fold),
            base,
            slowdown,
            layout,
        };
        (!(base / slowdown).is_nan()).then_some(group)
    }

    fn beside(&mut self, all: Layout, at: usize) -> f64 {
        let Problem { tables, layouts, .. } = self.problem;
        let kind = self.kind;
        let look_up = || {
            let performance = |layout: Layout| {
                let beside = Beside {
                    role: all.byte(at) - 1,
                    kind: kind as u8,
                    layout: layouts.canonical(kind, layout.with(at, TARGET)),
                };
                tables.beside(&beside).unwrap_or(f64::NAN)
            };
            f64::from((performance(Layout::default()) / performance(all)) as f32)
        };
        *self.known.entry((all, at)).or_insert_with(look_up)
    }
}

/// All sets of leaves of different content, each ascending.
fn distinct(leaves: &[usize], bytes: &[u8]) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for &leaf in leaves {
        let is_new = |set: &&Vec<usize>| set.iter().all(|&other| bytes[other] != bytes[leaf]);
        let larger = found
            .iter()
            .filter(is_new)
            .map(|set| [&set[..], &[leaf]].concat());
        let larger: Vec<_> = larger.collect();
        found.extend(larger);
        found.push(vec![leaf]);
    }
    found
}
