// SPDX-License-Identifier: GPL-2.0-only
//! Which entries the prediction of an assignment rests on.

use crate::layout::{Layout, TARGET};
use crate::tables::Beside;
use crate::{Campaign, Canonical, Leaf, Reading};

/// What the prediction of one instance in an assignment looks up.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// Its own placement, in canonical form.
    pub base: Vec<Leaf>,
    /// For each thread that others run beside: the entry, and the one that it is divided by if that is not the target
    /// alone.
    pub threads: Vec<(Beside, Option<Beside>)>,
}

/// By instance, as [`crate::Predictor`] looks them up.
pub(super) fn uses(campaign: &Campaign, reading: Reading, placed: &[Leaf]) -> Vec<Uses> {
    let roles = campaign.size.roles;
    let mut canonical = Canonical::new(campaign.tree);
    let contents = contents(campaign, placed);
    let mut all = Vec::new();
    for threads in placed.chunks_exact(roles) {
        let own = self::contents(campaign, threads);
        let mut uses = Uses::default();
        canonical.of(threads, &mut uses.base);
        for (role, &leaf) in threads.iter().enumerate() {
            let member = campaign.scope.member_of(leaf);
            let at = usize::from(leaf) - campaign.scope.members()[member].start;
            let (all, own) = (contents[member], own[member]);
            let alone = Layout::default().with(at, role as u8 + 1);
            let entry = |layout: Layout| {
                let kind = campaign.layouts.kind(member);
                Beside {
                    role: role as u8,
                    kind: kind as u8,
                    layout: campaign.layouts.canonical(kind, layout.with(at, TARGET)),
                }
            };
            let foreign = || Layout(all.0 & !own.0 | alone.0);
            match reading {
                Reading::Literal if all != alone => uses.threads.push((entry(all), None)),
                Reading::ForeignOnly if all != own => uses.threads.push((entry(foreign()), None)),
                Reading::Excess if all != own => {
                    let divisor = (own != alone).then(|| entry(own));
                    uses.threads.push((entry(all), divisor));
                }
                _ => {}
            }
        }
        all.push(uses);
    }
    all
}

/// What each member of the scope runs of whole instances.
fn contents(campaign: &Campaign, placed: &[Leaf]) -> Vec<Layout> {
    let mut contents = vec![Layout::default(); campaign.scope.members().len()];
    for (nr, &leaf) in placed.iter().enumerate() {
        let member = campaign.scope.member_of(leaf);
        let at = usize::from(leaf) - campaign.scope.members()[member].start;
        let role = nr % campaign.size.roles;
        contents[member] = contents[member].with(at, role as u8 + 1);
    }
    contents
}
