// SPDX-License-Identifier: GPL-2.0-only
//! The paper's own case once more, IPFwd on an UltraSPARC T2, simulated: contention that is not the model's.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, profile, size, store};
use rand_pcg::Pcg64;
use threadwise_machine::{CpuId, Machine};
use threadwise_model::sharing;
use threadwise_placement::{
    Assignments, Evaluation, Predictor, Reading, RunError, Runner, Simulated, deal, evaluate,
};

fn t2() -> Machine {
    Machine::load("ultrasparc-t2").unwrap()
}

fn cpus(ids: &[u32]) -> Option<Vec<CpuId>> {
    Some(ids.iter().map(|&id| CpuId(id)).collect())
}

/// Takes nanoseconds a packet for a performance: less is better, as nobody expects.
struct Inverse(Simulated);

impl Runner for Inverse {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        Ok(self
            .0
            .run(instances)?
            .into_iter()
            .map(|rate| 1e9 / rate)
            .collect())
    }

    fn label(&self) -> String {
        self.0.label()
    }
}

/// Profiles with one runner, then measures all assignments of two instances, of `every` so manieth, with another.
fn study(
    bench: &Bench,
    (profiler, runner): (&mut dyn Runner, &mut dyn Runner),
    roles: usize,
    every: usize,
) -> Evaluation {
    let layouts = bench.layouts();
    let campaign = bench.campaign(&layouts, size(roles, 2));
    let sample: Vec<_> = Assignments::new(&bench.tree, 2 * roles)
        .unwrap()
        .step_by(every)
        .collect();
    let mut random = Pcg64::new(1, 1);
    let balanced: Vec<_> = (0..20)
        .map(|_| deal(&bench.tree, 2 * roles, &mut random).unwrap())
        .collect();
    let store = store();
    let tables = profile(&campaign, Reading::default(), profiler, &store);
    let how = (roles, Reading::default());
    let mut predictor = Predictor::new(&tables, &bench.tree, &layouts, &bench.scope, how).unwrap();
    evaluate(&campaign, &mut predictor, (&sample, &balanced), runner, &store).unwrap()
}

/// The paper's bounds: with the first choice at most 2.8 % lost, with the best of five 1.4 %.
fn is_as_good_as_the_paper(it: &Evaluation) -> bool {
    it.top1 <= 0.028 && it.top5 <= 0.014
}

#[test]
fn the_choice_is_as_good_as_the_papers() {
    let bench = Bench::t2();
    let new = |variant| Simulated::new(&bench.machine, variant, 1).unwrap();
    // One that computes and one that waits for memory; every assignment of all nine is `threadwise place evaluate`'s.
    for variant in ["intadd", "hashN_Mem"] {
        let it = study(&bench, (&mut new(variant), &mut new(variant)), 3, 8);
        assert_eq!(it.nr_assignments, 1526usize.div_ceil(8));
        assert!(is_as_good_as_the_paper(&it), "{variant}: {it:?}");
        // That shows something: most assignments lose much more.
        assert!(it.naive_mean > 0.05 && it.naive_worst > 0.15, "{variant}: {it:?}");
        assert!(it.rank_correlation > Some(0.8), "{variant}: {it:?}");
    }
    // It is seen when the tables say something else than what is true.
    let it = study(&bench, (&mut Inverse(new("intadd")), &mut new("intadd")), 3, 8);
    assert!(!is_as_good_as_the_paper(&it), "{it:?}");
}

#[test]
fn pipelines_of_any_length_are_run() {
    // R, two that process, and T, on a machine whose cores gain 24 % with a second hardware thread.
    let mut program = sharing::ipfwd("hash1_L1").unwrap();
    program.stages.insert(1, program.stages[1].clone());
    let bench = Bench::load("core:8 pu:2");
    let new = || Simulated::with_program(&bench.machine, &program, 1).unwrap();
    let it = study(&bench, (&mut new(), &mut new()), 4, 1);
    assert!(is_as_good_as_the_paper(&it), "{it:?}");
    assert!(it.naive_mean > 0.05, "{it:?}");
}

#[test]
fn the_same_assignment_does_the_same_again_and_equal_ones_too() {
    let mut runner = Simulated::new(&t2(), "hashN_L2", 1).unwrap();
    let mut run = |ids: &[u32]| runner.run(&[cpus(ids)]).unwrap()[0];
    let once = run(&[0, 1, 8]);
    assert_eq!(once, run(&[0, 1, 8]));
    assert_eq!(once, run(&[63, 62, 7]));
    assert!(once < run(&[0, 16, 8]));
    // A neighbour on the same core has no lines to fetch from the L2, and shares the pipe or the core.
    assert!(run(&[0, 1, 8]) < run(&[0, 4, 8]));
}

#[test]
fn a_kernel_places_what_nobody_pins() {
    let mut runner = Simulated::new(&t2(), "intadd", 1).unwrap();
    let best = runner.run(&[cpus(&[0, 8, 16]), cpus(&[24, 32, 40])]).unwrap();
    let kernel = runner.run(&[None, None]).unwrap();
    // It knows cores and they are idle, so each thread gets one of its own, or nearly.
    let ratio = kernel.iter().sum::<f64>() / best.iter().sum::<f64>();
    assert!((0.6..1.05).contains(&ratio), "{kernel:?} {best:?}");
}

#[test]
fn what_is_no_assignment_is_refused() {
    let mut runner = Simulated::new(&t2(), "intadd", 1).unwrap();
    for (instances, expected) in [
        (vec![cpus(&[0, 1, 0])], "CPU 0 is assigned twice"),
        (
            vec![cpus(&[0, 1, 2]), cpus(&[3, 4, 2])],
            "CPU 2 is assigned twice",
        ),
        (vec![cpus(&[0, 1, 64])], "no CPU 64"),
        (vec![cpus(&[0, 1])], "2 CPUs for an instance of 3 threads"),
    ] {
        let error = runner.run(&instances).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let unknown = Simulated::new(&t2(), "hash9", 1).err().unwrap().to_string();
    assert!(unknown.contains("\"hash9\" is no variant of IPFwd"), "{unknown}");
    // A program that passes nothing on within what is measured gives no figure.
    let mut slow = sharing::ipfwd("intadd").unwrap();
    slow.stages[1].work.stall_cycles = 1e8;
    let mut runner = Simulated::with_program(&t2(), &slow, 1).unwrap();
    let error = runner.run(&[cpus(&[0, 8, 16])]).unwrap_err().to_string();
    assert!(error.contains("instance 0 passed no packet on"), "{error}");
}
