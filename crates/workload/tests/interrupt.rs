// SPDX-License-Identifier: GPL-2.0-only
//! SIGINT and SIGTERM end a run early, with a report. Alone in its process, as signals belong to a process.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use threadwise_workload::synthetic::{Error, PhaseLength, Report, Spec, now_ns, run};

fn spec() -> Spec {
    Spec {
        threads: 3,
        duration: Duration::from_secs(3600),
        phase: PhaseLength::Units(1 << 40),
        catch_interrupts: true,
        ..Spec::default()
    }
}

/// Starts `spec`, sends `signal` to the process once the workers exist, and returns the report.
fn interrupted(spec: Spec, signal: i32) -> Report {
    // A thread is still listed for a moment after it was joined; one of the run before would be taken for this run's.
    while workers_exist() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let program = std::thread::spawn(move || run(&spec).unwrap());
    while !workers_exist() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A second run cannot have the signals, and fails rather than share them.
    assert!(matches!(
        run(&Spec {
            threads: 1,
            ..self::spec()
        }),
        Err(Error::InterruptsTaken)
    ));
    std::thread::sleep(Duration::from_millis(100));
    // SAFETY: sends a signal to this process, which the run catches.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
    program.join().unwrap()
}

fn workers_exist() -> bool {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .flatten()
        .any(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "syn-2\n"))
}

fn handler(signal: i32) -> usize {
    // SAFETY: all zeros is a valid sigaction, and only the current action is asked for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

#[test]
fn signals_end_a_run_and_leave_nothing_behind() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action; a shell that started this in the background has them ignored, and a run leaves
        // what is ignored alone.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let before = [libc::SIGINT, libc::SIGTERM].map(handler);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let report = interrupted(spec(), signal);
        assert!(report.interrupted && report.work_units > 0, "{report}");
        assert!(report.duration_s < 3600.0);
        assert_eq!(report.units_per_thread.iter().sum::<u64>(), report.work_units);
    }
    // Also before the common start.
    let start_at_ns = Some(now_ns() + 3_600_000_000_000);
    let report = interrupted(
        Spec {
            start_at_ns,
            ..spec()
        },
        libc::SIGTERM,
    );
    assert!(report.interrupted);
    assert!(report.duration_s < 60.0);
    assert_eq!([libc::SIGINT, libc::SIGTERM].map(handler), before);
}
