// SPDX-License-Identifier: GPL-2.0-only
//! Predictions beside those made by hand from blackbox-scheduler, section 3.1.2.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use threadwise_machine::{CpuId, Machine};
use threadwise_placement::spec::Precision;
use threadwise_placement::{
    Campaign, Layouts, Predictor, Reading, RunError, Runner, Scope, Size, Store, Tree, manifest,
};

const SIZE: Size = Size {
    roles: 2,
    instances: 2,
};

/// How much slower a thread of the first role is for each thread of either role beside it on its core, as a share; and one of
/// the second.
const COST: [[f64; 2]; 2] = [[0.5, 0.2], [0.3, 0.7]];

/// An instance does 100 with its threads on two cores, 60 on one, and as its slowest thread goes beside others'.
struct ByHand;

impl Runner for ByHand {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let core = |cpu: &CpuId| cpu.0 / 3;
        let of = |nr: usize| instances[nr].as_ref().unwrap();
        let does = |nr: usize| {
            let alone = if core(&of(nr)[0]) == core(&of(nr)[1]) {
                60.0
            } else {
                100.0
            };
            let slowdown = |role: usize| {
                let others = (0..instances.len()).filter(|&other| other != nr);
                let beside = others.flat_map(|other| of(other).iter().enumerate());
                let on_core = beside.filter(|(_, cpu)| core(cpu) == core(&of(nr)[role]));
                1.0 + on_core.map(|(other_role, _)| COST[role][other_role]).sum::<f64>()
            };
            alone / slowdown(0).max(slowdown(1))
        };
        Ok((0..instances.len()).map(does).collect())
    }

    fn label(&self) -> String {
        "by hand".into()
    }
}

#[test]
fn predictions_are_those_made_by_hand() {
    // Room for what an experiment's other threads must not be beside.
    let machine = Machine::load("core:6 pu:3").unwrap();
    let tree = Tree::new(&machine).unwrap();
    let scope = Scope::new(&machine, &tree, Scope::DEFAULT).unwrap();
    let layouts = Layouts::new(&tree, &scope).unwrap();
    let interrupted = AtomicBool::new(false);
    let campaign = Campaign {
        tree: &tree,
        scope: &scope,
        layouts: &layouts,
        size: SIZE,
        precision: Precision {
            relative: 0.1,
            min: 1,
            max: 1,
        },
        seed: 1,
        interrupted: &interrupted,
    };
    let store = Store::open(Path::new(":memory:"), ("a", "a")).unwrap();
    let experiments = manifest(&tree, &scope, &layouts, (SIZE, Reading::Literal)).unwrap();
    campaign.run(&experiments, &mut ByHand, &store, |_| {}).unwrap();
    let tables = campaign.tables(&store).unwrap();
    let predicted = |reading, placed: &[u16]| {
        let mut predictor = Predictor::new(&tables, &tree, &layouts, &scope, (SIZE.roles, reading)).unwrap();
        predictor.predict(placed)
    };
    let readings = [Reading::Literal, Reading::ForeignOnly, Reading::Excess];
    // Equal roles beside each other, then different ones: base 100 each, over the slower thread's slowdown.
    let apart = [
        ([0, 3, 1, 4], [2.0 * 100.0 / 1.7; 3]),
        ([0, 3, 4, 1], [2.0 * 100.0 / 1.3; 3]),
        // A core for each instance: base 60, and no foreign thread; as printed, the own one counts once more.
        ([0, 1, 3, 4], [2.0 * 60.0 / 1.3, 120.0, 120.0]),
        // The other instance's first thread comes to a core with both of the one: 1.7 and 1.6, of which 1.5 and 1.3 are
        // foreign, and 1.2 and 1.3 were there before.
        (
            [0, 1, 2, 3],
            [
                60.0 / 1.7 + 100.0 / 1.7,
                60.0 / 1.5 + 100.0 / 1.7,
                60.0 / (1.7 / 1.2) + 100.0 / 1.7,
            ],
        ),
    ];
    for (placed, expected) in apart {
        for (reading, expected) in readings.into_iter().zip(expected) {
            let predicted = predicted(reading, &placed);
            assert!(
                (predicted / expected - 1.0).abs() < 1e-6,
                "{placed:?} {reading:?}: {predicted}, by hand {expected}"
            );
        }
    }
}
