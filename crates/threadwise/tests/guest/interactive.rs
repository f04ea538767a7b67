// SPDX-License-Identifier: GPL-2.0-only
//! What people wait for, beside programs that never sleep: no later than under the kernel's scheduler.

use super::{job, until_shown};

/// The latency in microseconds that 99 of 100 wake-ups of an interactive program do not exceed, beside what `load` starts; only
/// less than `most` shows anything.
fn p99_us(scheduler: &str, load: &str, most: f64) -> f64 {
    let script = format!(
        r#"
        start() {{ threadwise bench synthetic --phase-units 3000 --duration 100 "$@" >/dev/null & P="$P $!"; }}
        for i in 1 2 3 4 5 6 7 8; do start --seed $i {load}; done
        busybox sleep 1; threadwise bench interactive --duration 8 --format json
        for p in $P; do busybox kill -9 $p; done
        "#
    );
    let read = |out: &str| -> f64 {
        let report: serde_json::Value = serde_json::from_str(out).unwrap();
        assert!(report["wakeups"].as_u64().unwrap() > 500, "{out}");
        report["latency_us"]["p99"].as_f64().unwrap()
    };
    until_shown("smp-8", &job(scheduler, &script), read, |&p99| p99 < most)
}

fn is_no_later_beside(load: &str) {
    let kernel = p99_us("", load, f64::INFINITY);
    let ours = p99_us("scx_threadwise", load, kernel);
    assert!(
        ours < kernel,
        "{ours} us, and {kernel} under the kernel's scheduler"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn an_interactive_program_is_no_later_beside_parallel_ones() {
    is_no_later_beside("--ratio inf:1 --threads 8");
}

/// Nobody but the program that wakes up waits: what those that run had of their CPUs is forgiven to none of them, or that would be
/// owed nothing, and wait for the end of a turn of whoever came to its own.
#[test]
fn an_interactive_program_is_no_later_beside_serial_ones() {
    is_no_later_beside("--ratio 1:inf --threads 1");
}

/// Some of those that run are serial too. Where a thread that wakes up has no credit for what it slept, it waits for them ten times
/// as long.
#[test]
#[ignore = "long: make test FULL=1"]
fn an_interactive_program_is_no_later_beside_some_in_either_phase() {
    is_no_later_beside("--ratio 1:1 --threads 8");
}
