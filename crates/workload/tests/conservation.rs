// SPDX-License-Identifier: GPL-2.0-only
//! No unit of work is lost or counted twice, and the run begins and ends when it should.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use threadwise_workload::Ratio;
use threadwise_workload::synthetic::phases::Rounds;
use threadwise_workload::synthetic::{
    Distribution, Draws, Error, PhaseLength, Report, Spec, Wait, now_ns, run,
};

fn spec(ratio: &str, threads: u32, phase_units: u64) -> Spec {
    Spec {
        ratio: ratio.parse().unwrap(),
        threads,
        duration: Duration::from_millis(200),
        phase: PhaseLength::Units(phase_units),
        seed: 42,
        ..Spec::default()
    }
}

/// Checks the counts of `report` against the phases that its seed stands for.
fn check(report: &Report) {
    assert_eq!(report.units_per_thread.len(), report.threads as usize);
    assert_eq!(report.units_per_thread.iter().sum::<u64>(), report.work_units);
    assert_eq!(report.parallel_units + report.serial_units, report.work_units);
    assert!(!report.interrupted);
    assert!(report.duration_s >= 0.2, "{}", report.duration_s);
    let time = report.parallel_s + report.serial_s;
    assert!(
        (time - report.duration_s).abs() < 1e-6,
        "{time} of {} s",
        report.duration_s
    );
    let rate = report.work_units as f64 / report.duration_s;
    assert!((report.work_units_per_s - rate).abs() <= 1e-9 * rate);

    let mut rounds = Rounds::new(
        report.ratio,
        report.phase_units,
        Draws::new(report.distribution, report.seed),
    );
    let (mut parallel, mut serial) = (0, 0);
    for round in rounds.by_ref().take(report.rounds as usize) {
        parallel += round.parallel_units_per_thread;
        serial += round.serial_units;
    }
    let unfinished = rounds.next_round();
    for (thread, units) in report.units_per_thread.iter().enumerate() {
        let (own, more) = match thread {
            0 => (
                parallel + serial,
                unfinished.parallel_units_per_thread + unfinished.serial_units,
            ),
            _ => (parallel, unfinished.parallel_units_per_thread),
        };
        assert!(
            (own..=own + more).contains(units),
            "thread {thread}: {units} not in {own} + up to {more}"
        );
    }
    assert!((serial..=serial + unfinished.serial_units).contains(&report.serial_units));
    check_ratio(report.ratio, parallel, serial);
}

/// Parallel units per thread stand to serial units as p to s.
fn check_ratio(ratio: Ratio, parallel: u64, serial: u64) {
    let total = (parallel + serial) as f64;
    assert!(
        (parallel as f64 - ratio.parallel_share() * total).abs() <= 1.001,
        "{ratio}: {parallel} to {serial}"
    );
}

#[test]
fn every_unit_is_counted_once() {
    for ratio in ["1:1", "4:1", "1:8", "inf:1", "1:inf", "0.3:0.7"] {
        for threads in [1, 2, 5] {
            let report = run(&spec(ratio, threads, 200)).unwrap();
            assert!(report.rounds > 0 && report.work_units > 0, "{report}");
            check(&report);
        }
    }
}

#[test]
fn active_waiting_does_the_same_work() {
    for ratio in ["1:1", "1:inf"] {
        let report = run(&Spec {
            wait: Wait::Active,
            ..spec(ratio, 3, 5000)
        })
        .unwrap();
        check(&report);
    }
}

#[test]
fn exponential_phases_and_calibrated_lengths_do_too() {
    let phase = PhaseLength::Milliseconds(1.0);
    let spec = Spec {
        phase,
        distribution: Distribution::Exponential,
        ..spec("2:1", 2, 1)
    };
    let report = run(&spec).unwrap();
    assert!(report.calibrated_units_per_s.unwrap() > 0.0);
    check(&report);
}

#[test]
fn the_smallest_phases_make_progress() {
    check(&run(&spec("1:1", 2, 1)).unwrap());
    check(&run(&spec("1e-9:1", 2, 1)).unwrap());
}

#[test]
fn the_stop_reaches_threads_in_endless_phases_and_at_barriers() {
    for ratio in ["inf:1", "1:inf", "1:1"] {
        for wait in [Wait::Passive, Wait::Active] {
            let start = Instant::now();
            // Hours of work in the first phase.
            let report = run(&Spec {
                wait,
                ..spec(ratio, 4, 1 << 40)
            })
            .unwrap();
            assert_eq!(report.rounds, 0);
            check(&report);
            // Generous, as the machine may be busy; a barrier that missed the stop would never return.
            assert!(start.elapsed() < Duration::from_secs(20));
        }
    }
}

#[test]
fn programs_start_together() {
    let start_at_ns = now_ns() + 300_000_000;
    let spec = Spec {
        start_at_ns: Some(start_at_ns),
        ..spec("1:1", 2, 1000)
    };
    let reports = std::thread::scope(|scope| {
        let runs = [0, 1].map(|_| scope.spawn(|| run(&spec).unwrap()));
        runs.map(|run| run.join().unwrap())
    });
    for report in &reports {
        assert!(report.started_at_ns >= start_at_ns);
        check(report);
    }
    let [first, second] = reports.map(|report| report.started_at_ns);
    assert!(first.abs_diff(second) < 5_000_000_000);
}

#[test]
fn a_start_in_the_past_is_an_error() {
    let start_at_ns = Some(now_ns());
    let error = run(&Spec {
        start_at_ns,
        ..spec("1:1", 3, 1000)
    })
    .unwrap_err();
    assert!(matches!(error, Error::StartPassed { .. }), "{error}");
}

#[test]
fn nonsense_is_refused() {
    let good = spec("1:1", 2, 1000);
    assert!(matches!(
        run(&Spec {
            threads: 0,
            ..good.clone()
        }),
        Err(Error::NoThreads)
    ));
    assert!(matches!(
        run(&Spec {
            duration: Duration::ZERO,
            ..good.clone()
        }),
        Err(Error::NoDuration)
    ));
    for phase in [
        PhaseLength::Units(0),
        PhaseLength::Units(u64::MAX),
        PhaseLength::Milliseconds(f64::NAN),
    ] {
        assert!(
            matches!(
                run(&Spec {
                    phase,
                    ..good.clone()
                }),
                Err(Error::PhaseLength { .. })
            ),
            "{phase:?}"
        );
    }
}
