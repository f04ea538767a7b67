// SPDX-License-Identifier: GPL-2.0-only
//! Predictions beside those made by hand from blackbox-scheduler, section 3.1.2.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, profile, size, store};
use threadwise_machine::CpuId;
use threadwise_placement::{Predictor, Reading, RunError, Runner, Size};

const SIZE: Size = size(2, 2);

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
    let bench = Bench::load("core:6 pu:3");
    let layouts = bench.layouts();
    let mut campaign = bench.campaign(&layouts, SIZE);
    campaign.precision.relative = 0.1;
    let tables = profile(&campaign, Reading::Literal, &mut ByHand, &store());
    let predicted = |reading, placed: &[u16]| {
        let how = (SIZE.roles, reading);
        let mut predictor = Predictor::new(&tables, &bench.tree, &layouts, &bench.scope, how).unwrap();
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
