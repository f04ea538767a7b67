// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons: what differs is found, what is noise is not.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::Path;

use threadwise_lab::run::Label;
use threadwise_report::Record;
use threadwise_report::compare::{Verdict, What, compare, render};

fn kept() -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/phases.json");
    Record::from_file(&path).unwrap()
}

/// The same with the performance under one scheduler multiplied, by a factor for each round.
fn scaled(mut record: Record, scheduler: &str, factor: impl Fn(u32) -> f64) -> Record {
    for sample in record
        .measurement
        .samples
        .iter_mut()
        .filter(|sample| sample.scheduler == scheduler)
    {
        let factor = factor(sample.round);
        sample.performance.iter_mut().for_each(|value| *value *= factor);
    }
    record
}

#[test]
fn a_run_is_like_itself() {
    let comparison = compare(&kept(), &kept(), None).unwrap();
    // Performance of 9 sets under two schedulers, gain under one, fairness of 6 pairs under two.
    assert_eq!(comparison.changes.len(), 9 * 2 + 9 + 6 * 2);
    assert_eq!(comparison.count(Verdict::Same), comparison.changes.len());
    assert!(comparison.differences.is_empty() && comparison.unmatched.is_empty() && !comparison.is_worse());
}

#[test]
fn what_got_worse_is_found_and_nothing_else() {
    let comparison = compare(&kept(), &scaled(kept(), "threadwise", |_| 0.97), None).unwrap();
    for change in &comparison.changes {
        let touched = change.scheduler == "threadwise" && change.what != What::Fairness;
        let expected = if touched { Verdict::Worse } else { Verdict::Same };
        assert_eq!(change.verdict, expected, "{change:?}");
        assert!(change.paired);
        if touched {
            assert!((change.ratio.ratio - 0.97).abs() < 1e-9);
        }
    }
    assert!(comparison.is_worse());
    let back = compare(&scaled(kept(), "threadwise", |_| 0.97), &kept(), None).unwrap();
    assert!(!back.is_worse() && back.count(Verdict::Better) == 18);
}

#[test]
fn noise_and_small_changes_are_no_change() {
    // Three rounds of +3, -3 and +1 %.
    let noise = |round: u32| [1.03, 0.97, 1.01][round as usize];
    let noisy = compare(&kept(), &scaled(kept(), "threadwise", noise), None).unwrap();
    assert_eq!(noisy.count(Verdict::Same), noisy.changes.len());
    let small = scaled(kept(), "threadwise", |_| 0.9995);
    assert!(
        !compare(&kept(), &small, None).unwrap().is_worse(),
        "half a thousandth"
    );
    assert!(
        compare(&kept(), &small, Some(0.0)).unwrap().is_worse(),
        "any change counts"
    );
}

#[test]
fn many_comparisons_are_accounted_for() {
    // One in twenty intervals of things that did not change misses them. Here all rounds are noise of 1 %, by a fixed series.
    let mut state = 7_u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let (mut alone, mut adjusted) = (0, 0);
    for _ in 0..20 {
        let mut noisy = kept();
        for sample in &mut noisy.measurement.samples {
            let noise = 1.0 + 0.01 * (uniform() + uniform() - 1.0);
            sample.performance.iter_mut().for_each(|value| *value *= noise);
        }
        let comparison = compare(&kept(), &noisy, Some(0.0)).unwrap();
        alone += comparison.changes.iter().filter(|change| change.p < 0.05).count();
        adjusted += comparison.changes.len() - comparison.count(Verdict::Same);
    }
    assert!(alone > 10, "780 figures without correction: {alone}");
    assert!(adjusted <= 4, "with correction: {adjusted}");
}

#[test]
fn work_done_in_different_boots_is_not_judged() {
    let lab = |mut record: Record| {
        record.measurement.label = Label::Lab;
        record
    };
    // Everything is a tenth slower, as another day's host may be: gains are the same.
    let slower = scaled(scaled(lab(kept()), "threadwise", |_| 0.9), "kernel", |_| 0.9);
    let comparison = compare(&lab(kept()), &slower, None).unwrap();
    assert!(!comparison.is_worse());
    for change in &comparison.changes {
        let judged = change.what != What::Performance;
        assert_eq!(change.verdict == Verdict::Unjudged, !judged, "{change:?}");
        assert_eq!(change.p_adjusted.is_some(), judged);
        assert!(!change.paired);
    }
    // A gain that fell by far more than boots differ by.
    let lost = scaled(lab(kept()), "threadwise", |_| 0.5);
    assert!(compare(&lab(kept()), &lost, None).unwrap().is_worse());
}

#[test]
fn only_what_is_alike_is_compared() {
    let mut other = kept();
    other.measurement.experiment.programs[0]
        .synthetic
        .as_mut()
        .unwrap()
        .phase_units += 1;
    other.measurement.version = "1234567".into();
    other.measurement.experiment.seed = 5;
    let comparison = compare(&kept(), &other, None).unwrap();
    assert!(
        comparison
            .changes
            .iter()
            .all(|change| !change.programs.contains(&"inf:1".to_string()))
    );
    assert!(
        comparison
            .unmatched
            .iter()
            .any(|one| one
                == "inf:1 + 1:1 (different programs: inf:1 has synthetic.phase_units 3000, then 3001)"),
        "{:?}",
        comparison.unmatched
    );
    assert!(
        comparison.changes.iter().all(|change| !change.paired),
        "other seeds"
    );
    let differ: Vec<_> = comparison
        .differences
        .iter()
        .map(|difference| difference.what)
        .collect();
    assert_eq!(differ, ["version of threadwise", "first seed"]);

    let mut nothing = kept();
    for scheduler in &mut nothing.measurement.experiment.schedulers {
        scheduler.name += " 2";
    }
    for sample in &mut nothing.measurement.samples {
        sample.scheduler += " 2";
    }
    let error = compare(&kept(), &nothing, None).unwrap_err().to_string();
    assert!(error.contains("nothing to compare"), "{error}");
    // Both have the number that they had in other stores.
    assert!(
        error.matches("the run in ").count() == 2 && error.contains("phases.json"),
        "{error}"
    );
    assert!(error.contains("threadwise 2 (second run only)"), "{error}");
}

#[test]
fn performance_has_its_unit() {
    let units = |record: Record| {
        let text = render(&compare(&record.clone(), &record, None).unwrap());
        ["1000 units/s", "1/s"].map(|unit| text.contains(&format!(" {unit} ")))
    };
    assert_eq!(units(kept()), [true, false]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/lab-interactive.json");
    assert_eq!(units(Record::from_file(&path).unwrap()), [false, true]);
}
