// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler costs, in instructions.

use super::{alone, run, stdout, threadwise};

/// How many instructions two processes take that wake each other this often, and how often the kernel looked for what to
/// run next meanwhile.
fn instructions_of_pipe(scheduler: &[&str], wakeups: u64) -> (u64, u64) {
    let _guests = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let output = threadwise()
        .args([
            "lab",
            "exec",
            "--mips",
            super::MIPS,
            "--profile",
            path.to_str().unwrap(),
        ])
        .args(scheduler)
        .args(["perf", "bench", "sched", "pipe", "-l"])
        .arg((wakeups / 2).to_string())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let profile: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let calls: u64 = profile["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|function| function["name"] == "__schedule")
        .map(|function| function["calls"].as_u64().unwrap())
        .sum();
    (profile["instructions"].as_u64().unwrap(), calls)
}

#[test]
fn a_switch_costs_hardly_more_instructions_than_under_the_kernels_scheduler() {
    // Loading the program is a tenth of it.
    const WAKEUPS: u64 = 24_000;
    let [kernel, ours] = [&[][..], &["--scheduler", "scx_threadwise"]].map(|scheduler| {
        let (instructions, switches) = instructions_of_pipe(scheduler, WAKEUPS);
        // Each wakes the other, sleeps, and leaves its CPU idle.
        assert!(switches > 18 * WAKEUPS / 10, "{scheduler:?}: {switches} switches");
        instructions as f64
    });
    assert!(
        ours < 1.06 * kernel,
        "{ours} instructions for {WAKEUPS} wake-ups, {kernel} under the kernel's"
    );
}

#[test]
fn the_scheduler_switches_no_tracing_on() {
    // bpf_printk() anywhere in the object would, and every switch of the machine would pay for it from then on.
    let script = r#"
        cd /sys/kernel/tracing/events/bpf_trace/bpf_trace_printk && busybox cat enable
        echo 1 >enable && busybox cat enable && echo 0 >enable
        "#;
    assert_eq!(stdout(run("scx_threadwise", script)), "0\n1\n");
}
