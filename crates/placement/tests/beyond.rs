// SPDX-License-Identifier: GPL-2.0-only
//! Cores that share more than the paper takes into account: a small last-level cache, computed.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, profile, size, store};
use threadwise_placement::{
    Assignments, Computed, Error, Experiment, Leaf, Predictor, Reading, Runner, best_of_all, manifest,
};

const ROLES: usize = 3;

/// Two last-level caches, each of which holds the table of one instance of hashN_L2 (256 KB), not of two.
const SMALL: &str = "l2:2(size=288KB) core:4 pu:2";

impl Bench {
    /// With a scope that takes the last-level cache into account.
    fn beyond(source: &str) -> Bench {
        let mut bench = Bench::load(source);
        let scope = bench.scope.with_beyond(&bench.machine, &bench.tree, "llc");
        bench.scope = scope.unwrap();
        bench
    }

    /// What the assignment does that is chosen, and what was predicted for it.
    fn choose(&self, variant: &str) -> (f64, f64) {
        let layouts = self.layouts();
        let campaign = self.campaign(&layouts, size(ROLES, 2));
        let store = store();
        let mut runner = Computed::new(&self.machine, variant, 0.0, 1).unwrap();
        let tables = profile(&campaign, Reading::Excess, &mut runner, &store);
        let how = (ROLES, Reading::Excess);
        let mut predictor = Predictor::new(&tables, &self.tree, &layouts, &self.scope, how).unwrap();
        let best = best_of_all(&self.tree, &mut predictor, 6, 1)
            .unwrap()
            .into_sorted();
        let ranking = campaign.ranking(&store).unwrap();
        let chosen = ranking.first_of_all(&mut predictor, &best).unwrap().remove(0);
        let cpus = |threads: &[Leaf]| Some(threads.iter().map(|&leaf| self.tree.cpu(leaf)).collect());
        let instances: Vec<_> = chosen.placed.chunks(ROLES).map(cpus).collect();
        (runner.run(&instances).unwrap().iter().sum(), chosen.performance)
    }
}

#[test]
fn a_small_shared_cache_is_taken_into_account() {
    let (without, expected_without) = Bench::load(SMALL).choose("hashN_L2");
    let (with, expected_with) = Bench::beyond(SMALL).choose("hashN_L2");
    let gain = with / without - 1.0;
    let off = |expected: f64, actual: f64| (expected / actual - 1.0).abs();
    println!(
        "gain {gain:.3}, predictions off by {:.3} without and {:.3} with",
        off(expected_without, without),
        off(expected_with, with)
    );
    assert!(gain > 0.05, "{gain}");
    assert!(off(expected_with, with) < 0.02 && off(expected_without, without) > 0.05);
    // Where the cache holds both it costs nothing to know.
    let large = SMALL.replace("288KB", "4MB");
    let [without, with] = [Bench::load(&large), Bench::beyond(&large)].map(|it| it.choose("hashN_L2").0);
    assert!(with >= 0.99 * without, "{with} {without}");
}

#[test]
fn the_target_has_its_members_for_itself() {
    let bench = Bench::beyond("l2:2 core:4 pu:2");
    let (scope, layouts) = (&bench.scope, bench.layouts());
    let how = (size(ROLES, 4), Reading::Excess);
    let experiments = manifest(&bench.tree, scope, &layouts, how).unwrap();
    let mut nr_seen = 0;
    for experiment in &experiments {
        assert_eq!(*experiment, experiment.to_string().parse().unwrap());
        let Experiment::Across(across) = experiment else {
            continue;
        };
        nr_seen += 1;
        let setting = experiment.setting(&layouts, scope, ROLES).unwrap();
        let group = |leaf: Leaf| scope.beyond().unwrap().group_of(leaf);
        let own: Vec<usize> = setting.instances[0]
            .iter()
            .map(|&leaf| scope.member_of(leaf))
            .collect();
        assert!(
            setting.instances[0].iter().all(|&leaf| group(leaf) == 0),
            "{experiment}"
        );
        assert_eq!(
            setting.instances.len(),
            1 + usize::from(across.nr),
            "{experiment}"
        );
        for threads in &setting.instances[1..] {
            for (role, &leaf) in threads.iter().enumerate() {
                assert_eq!(
                    group(leaf) == 0,
                    role == usize::from(across.role),
                    "{experiment} {setting:?}"
                );
                assert!(!own.contains(&scope.member_of(leaf)), "{experiment} {setting:?}");
            }
        }
    }
    // One kind of group, three roles, one to three other instances.
    assert_eq!(nr_seen, 9);
}

#[test]
fn a_level_that_holds_one_member_or_all_is_none() {
    let refuse = |level: &str| {
        let bench = Bench::load(SMALL);
        let scope = bench.scope.with_beyond(&bench.machine, &bench.tree, level);
        scope.unwrap_err()
    };
    assert!(matches!(refuse("core"), Error::NotBeyond { .. }));
    assert!(matches!(refuse("pu"), Error::NotBeyond { .. }));
    assert!(matches!(refuse("cluster"), Error::UnknownLevel { .. }));
    // All threads share it, wherever they are.
    let one = Bench::beyond("l2:1 core:4 pu:2");
    assert!(one.scope.beyond().is_none());
    assert!(Assignments::new(&one.tree, 2).unwrap().count() > 1);
}
