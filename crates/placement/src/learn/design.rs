// SPDX-License-Identifier: GPL-2.0-only
//! What is measured before anything is known: each two threads together at each distance, alone and beside each other.

use std::collections::BTreeMap;

use super::features::Features;
use super::uses::uses;
use crate::layout::{Layout, TARGET};
use crate::random::shuffle;
use crate::tables::Beside;
use crate::{Campaign, Canonical, Experiment, Leaf, Plan};
use rand_pcg::Pcg64;

/// By kind and role the experiment that shows a target alone in its member of the scope: it is one of the Base Time
/// Table's, and often one for all roles. Empty for one instance, which has nobody beside it.
pub(super) fn references(campaign: &Campaign) -> BTreeMap<(u8, u8), Experiment> {
    let mut references = BTreeMap::new();
    if campaign.size.instances == 1 {
        return references;
    }
    let mut canonical = Canonical::new(campaign.tree);
    for kind in 0..campaign.layouts.nr_kinds() {
        for role in 0..campaign.size.roles {
            let alone = beside(campaign, kind, role, &[(0, TARGET)]);
            let setting = alone.setting(campaign.layouts, campaign.scope, campaign.size.roles);
            if let Some(setting) = setting {
                let mut placed = Vec::new();
                canonical.of(&setting.instances[0], &mut placed);
                references.insert((kind as u8, role as u8), Experiment::Base(placed));
            }
        }
    }
    references
}

fn beside(campaign: &Campaign, kind: usize, role: usize, bytes: &[(usize, u8)]) -> Experiment {
    let put = |layout: Layout, &(at, byte): &(usize, u8)| layout.with(at, byte);
    let layout = bytes.iter().fold(Layout::default(), put);
    Experiment::Beside(Beside {
        role: role as u8,
        kind: kind as u8,
        layout: campaign.layouts.canonical(kind, layout),
    })
}

/// The first experiments: at most half of the budget beside the references.
pub(super) fn design(
    campaign: &Campaign,
    plan: &Plan,
    features: &Features,
    random: &mut Pcg64,
) -> Vec<Experiment> {
    let mut pairs = of_pairs(campaign, features);
    let mut singles = of_singles(campaign, features);
    let (nr_pairs, nr_singles) = if singles.is_empty() {
        (plan.budget / 8, 0)
    } else {
        (plan.budget / 5, plan.budget / 8)
    };
    shuffle(&mut pairs, random);
    shuffle(&mut singles, random);
    pairs.truncate(nr_pairs);
    singles.truncate(nr_singles);
    let mut some: Vec<Experiment> = pairs.into_iter().chain(singles).collect();
    some.extend(at_random(campaign, plan, plan.budget / 6, random));
    some
}

/// Entries that random candidates use, evenly of both tables.
pub(super) fn at_random(campaign: &Campaign, plan: &Plan, nr: usize, random: &mut Pcg64) -> Vec<Experiment> {
    let mut order: Vec<usize> = (0..plan.candidates.len()).collect();
    shuffle(&mut order, random);
    let mut some = Vec::new();
    for candidate in order.into_iter().take(nr) {
        let mut of = uses(campaign, plan.reading, &plan.candidates[candidate]);
        shuffle(&mut of, random);
        let Some(mut first) = of.pop() else { continue };
        shuffle(&mut first.threads, random);
        match first.threads.pop() {
            Some((entry, _)) if some.len() % 4 != 0 => some.push(Experiment::Beside(entry)),
            _ => some.push(Experiment::Base(first.base)),
        }
    }
    some
}

/// Each pair of threads of an instance at each distance, the others as far from all as can be.
fn of_pairs(campaign: &Campaign, features: &Features) -> Vec<Experiment> {
    let mut canonical = Canonical::new(campaign.tree);
    let nr = campaign.size.roles;
    let mut all = Vec::new();
    for nearness in 1..=features.nearest() {
        let Some(second) =
            (1..campaign.tree.nr_leaves()).find(|&leaf| features.nearness(0, leaf) == nearness)
        else {
            continue;
        };
        for b in 1..nr {
            for a in 0..b {
                let placed = spread(campaign, features, (a, b), second);
                let mut form = Vec::new();
                canonical.of(&placed, &mut form);
                all.push(Experiment::Base(form));
            }
        }
    }
    all
}

/// Thread `a` on the first leaf, `b` on `second`, each other where the fewest are near.
fn spread(campaign: &Campaign, features: &Features, (a, b): (usize, usize), second: usize) -> Vec<Leaf> {
    let nr_leaves = campaign.tree.nr_leaves();
    // The nearer, the more a thread counts: more than all leaves one level further out.
    let near = |from: usize| -> Vec<f64> {
        let weight = |nearness: usize| (nr_leaves as f64).powi(nearness as i32) - 1.0;
        (0..nr_leaves)
            .map(|leaf| weight(features.nearness(from, leaf)))
            .collect()
    };
    let mut crowd = vec![0.0; nr_leaves];
    let mut placed = vec![0; campaign.size.roles];
    let mut put = |thread: usize, leaf: usize, crowd: &mut Vec<f64>| {
        placed[thread] = leaf as Leaf;
        crowd
            .iter_mut()
            .zip(near(leaf))
            .for_each(|(sum, more)| *sum += more);
        crowd[leaf] = f64::INFINITY;
    };
    put(a, 0, &mut crowd);
    put(b, second, &mut crowd);
    for thread in (0..campaign.size.roles).filter(|&thread| thread != a && thread != b) {
        let least = (0..nr_leaves).min_by(|&x, &y| crowd[x].total_cmp(&crowd[y]));
        put(thread, least.unwrap_or(0), &mut crowd);
    }
    placed
}

/// Each target beside each other thread at each distance.
fn of_singles(campaign: &Campaign, features: &Features) -> Vec<Experiment> {
    let mut all = Vec::new();
    if campaign.size.instances == 1 {
        return all;
    }
    for kind in 0..campaign.layouts.nr_kinds() {
        let leaves = campaign.layouts.example(kind);
        for nearness in 0..=features.nearest() {
            let Some(other) = (leaves.start + 1..leaves.end)
                .find(|&leaf| features.nearness(leaves.start, leaf) == nearness)
            else {
                continue;
            };
            for role in 0..campaign.size.roles {
                for by in 0..campaign.size.roles {
                    let bytes = [(0, TARGET), (other - leaves.start, by as u8 + 1)];
                    all.push(beside(campaign, kind, role, &bytes));
                }
            }
        }
    }
    all
}
