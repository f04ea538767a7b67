// SPDX-License-Identifier: GPL-2.0-only
//! Cores that share more than the paper takes into account: a small last-level cache, computed.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use threadwise_machine::Machine;
use threadwise_placement::spec::Precision;
use threadwise_placement::{
    Assignments, Campaign, Computed, Error, Experiment, Layouts, Leaf, Predictor, Reading, Runner, Scope,
    Size, Store, Tree, best_of_all, manifest,
};

const ROLES: usize = 3;

/// Two last-level caches, each of which holds the table of one instance of hashN_L2 (256 KB), not of two.
const SMALL: &str = "l2:2(size=288KB) core:4 pu:2";

struct Bench {
    machine: Machine,
    tree: Tree,
}

impl Bench {
    fn new(source: &str) -> Bench {
        let machine = Machine::load(source).unwrap();
        let tree = Tree::new(&machine).unwrap();
        Bench { machine, tree }
    }

    fn scope(&self) -> Scope {
        Scope::new(&self.machine, &self.tree, Scope::DEFAULT).unwrap()
    }

    fn beyond(&self) -> Scope {
        self.scope()
            .with_beyond(&self.machine, &self.tree, "llc")
            .unwrap()
    }

    /// What the assignment does that is chosen, and what was predicted for it.
    fn choose(&self, variant: &str, scope: &Scope) -> (f64, f64) {
        let layouts = Layouts::new(&self.tree, scope).unwrap();
        let size = Size {
            roles: ROLES,
            instances: 2,
        };
        let campaign = Campaign {
            tree: &self.tree,
            scope,
            layouts: &layouts,
            size,
            precision: Precision {
                relative: 0.01,
                min: 1,
                max: 1,
            },
            seed: 1,
            interrupted: &AtomicBool::new(false),
        };
        let store = Store::open(Path::new(":memory:"), ("x", "x")).unwrap();
        let mut runner = Computed::new(&self.machine, variant, 0.0, 1).unwrap();
        let experiments = manifest(&self.tree, scope, &layouts, (size, Reading::Excess)).unwrap();
        campaign.run(&experiments, &mut runner, &store, |_| {}).unwrap();
        let tables = campaign.tables(&store).unwrap();
        let how = (ROLES, Reading::Excess);
        let mut predictor = Predictor::new(&tables, &self.tree, &layouts, scope, how).unwrap();
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
    let bench = Bench::new(SMALL);
    let (without, expected_without) = bench.choose("hashN_L2", &bench.scope());
    let (with, expected_with) = bench.choose("hashN_L2", &bench.beyond());
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
    let large = Bench::new(&SMALL.replace("288KB", "4MB"));
    let [without, with] = [large.scope(), large.beyond()].map(|scope| large.choose("hashN_L2", &scope).0);
    assert!(with >= 0.99 * without, "{with} {without}");
}

#[test]
fn the_target_has_its_members_for_itself() {
    let bench = Bench::new("l2:2 core:4 pu:2");
    let scope = bench.beyond();
    let layouts = Layouts::new(&bench.tree, &scope).unwrap();
    let size = Size {
        roles: ROLES,
        instances: 4,
    };
    let experiments = manifest(&bench.tree, &scope, &layouts, (size, Reading::Excess)).unwrap();
    let mut nr_seen = 0;
    for experiment in &experiments {
        assert_eq!(*experiment, experiment.to_string().parse().unwrap());
        let Experiment::Across(across) = experiment else {
            continue;
        };
        nr_seen += 1;
        let setting = experiment.setting(&layouts, &scope, ROLES).unwrap();
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
    let bench = Bench::new(SMALL);
    let refuse = |level: &str| {
        bench
            .scope()
            .with_beyond(&bench.machine, &bench.tree, level)
            .unwrap_err()
    };
    assert!(matches!(refuse("core"), Error::NotBeyond { .. }));
    assert!(matches!(refuse("pu"), Error::NotBeyond { .. }));
    assert!(matches!(refuse("cluster"), Error::UnknownLevel { .. }));
    // All threads share it, wherever they are.
    let one = Bench::new("l2:1 core:4 pu:2");
    assert!(one.beyond().beyond().is_none());
    assert!(Assignments::new(&one.tree, 2).unwrap().count() > 1);
}
