// SPDX-License-Identifier: GPL-2.0-only
//! The phases as an observer outside the program sees them: by the states of its threads in /proc.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use threadwise_workload::synthetic::{PhaseLength, Spec, Wait, run};

/// The threads of all runs in this process have the same names, so that only one may run at a time.
static ONE_RUN: Mutex<()> = Mutex::new(());

const THREADS: u32 = 4;

/// How often each number of ready threads was seen while the program ran.
fn ready_threads(ratio: &str, phase: PhaseLength, wait: Wait) -> BTreeMap<usize, usize> {
    let _guard = ONE_RUN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let duration = Duration::from_millis(1500);
    let spec = Spec {
        ratio: ratio.parse().unwrap(),
        threads: THREADS,
        duration,
        phase,
        wait,
        ..Spec::default()
    };
    let before = Instant::now();
    let program = std::thread::spawn(move || run(&spec).unwrap());
    while count(|_| true) < THREADS as usize {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(200));
    let seen = samples_until(before + duration);
    let report = program.join().unwrap();
    assert!(report.work_units > 0);
    seen
}

/// Samples that ended before `end`, so that the program ran throughout however slow this thread was.
fn samples_until(end: Instant) -> BTreeMap<usize, usize> {
    let mut seen = BTreeMap::new();
    loop {
        // State R is runnable or running.
        let ready = count(|state| state == 'R');
        if Instant::now() >= end {
            return seen;
        }
        *seen.entry(ready).or_default() += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Threads of the program in a state that `matches`.
fn count(matches: impl Fn(char) -> bool) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .flatten()
        .filter_map(|task| state(&task.path()))
        .filter(|state| matches(*state))
        .count()
}

/// The state of `task` in /proc/PID/task/TID/stat, if it is a thread of the program.
fn state(task: &Path) -> Option<char> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    after
        .trim_start()
        .chars()
        .next()
        .filter(|_| before.contains("(syn-"))
}

fn share(seen: &BTreeMap<usize, usize>, ready: usize) -> f64 {
    seen.get(&ready).copied().unwrap_or(0) as f64 / seen.values().sum::<usize>() as f64
}

const ENDLESS: PhaseLength = PhaseLength::Units(1 << 40);

#[test]
fn a_serial_program_has_one_ready_thread() {
    let seen = ready_threads("1:inf", ENDLESS, Wait::Passive);
    assert!(share(&seen, 1) > 0.98, "{seen:?}");
}

#[test]
fn a_parallel_program_has_all_its_threads_ready() {
    let seen = ready_threads("inf:1", ENDLESS, Wait::Passive);
    assert!(share(&seen, THREADS as usize) > 0.98, "{seen:?}");
}

#[test]
fn active_waiting_keeps_the_threads_of_a_serial_phase_ready() {
    let seen = ready_threads("1:inf", ENDLESS, Wait::Active);
    assert!(share(&seen, THREADS as usize) > 0.98, "{seen:?}");
}

#[test]
fn a_mixed_program_shows_both_phases() {
    let seen = ready_threads("1:1", PhaseLength::Milliseconds(5.0), Wait::Passive);
    assert!(
        share(&seen, 1) > 0.02 && share(&seen, THREADS as usize) > 0.02,
        "{seen:?}"
    );
}
