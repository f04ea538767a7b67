// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler costs, in instructions.

use super::{alone, run, slow_down, stdout, threadwise};

/// Where the instructions of a guest go, given these options and arguments of `lab exec`, and whether the host could not keep up.
fn profile_of(args: &[&str]) -> (serde_json::Value, bool) {
    let _guests = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let output = threadwise()
        .args(["lab", "exec", "--profile", path.to_str().unwrap()])
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let profile = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    (profile, stderr.contains("the host could not keep up"))
}

/// The same of two processes that wake each other this often.
fn profile_of_pipe(scheduler: &[&str], wakeups: u64) -> (serde_json::Value, bool) {
    let (mips, rounds) = (super::mips(), (wakeups / 2).to_string());
    let pipe = ["perf", "bench", "sched", "pipe", "-l", &rounds];
    profile_of(&[&["--mips", &mips], scheduler, &pipe].concat())
}

/// How often the functions with such an end of their name were called.
fn calls(profile: &serde_json::Value, name: &str) -> u64 {
    let functions = profile["functions"].as_array().unwrap().iter();
    functions
        .filter(|function| function["name"].as_str().unwrap().ends_with(name))
        .map(|function| function["calls"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_switch_costs_hardly_more_instructions_than_under_the_kernels_scheduler() {
    // Loading the program is a tenth of it.
    const WAKEUPS: u64 = 24_000;
    // What the host could not serve shows nothing, and is asked of slower machines.
    loop {
        let pipes = [&[][..], &["--scheduler", "scx_threadwise"]].map(|of| instructions_of_pipe(of, WAKEUPS));
        let [(kernel, lost_there), (ours, lost_here)] = pipes;
        if ours < 1.06 * kernel {
            return;
        }
        assert!(
            (lost_there || lost_here) && slow_down(),
            "{ours} instructions for {WAKEUPS} wake-ups, {kernel} under the kernel's"
        );
    }
}

/// All instructions of the guest while two processes wake each other, and whether the host could not keep up.
fn instructions_of_pipe(scheduler: &[&str], wakeups: u64) -> (f64, bool) {
    let (profile, is_lost) = profile_of_pipe(scheduler, wakeups);
    // Each wakes the other, sleeps, and leaves its CPU idle.
    let switches = calls(&profile, "__schedule");
    assert!(switches > 18 * wakeups / 10, "{scheduler:?}: {switches} switches");
    // What belongs to a scheduler is told by its hooks' names.
    let selected = calls(&profile, "_threadwise_select_cpu");
    let expected = if scheduler.is_empty() {
        0..1
    } else {
        9 * wakeups / 10..2 * wakeups
    };
    assert!(expected.contains(&selected), "{scheduler:?}: {selected} calls");
    (profile["instructions"].as_u64().unwrap() as f64, is_lost)
}

/// The verifier follows each function that is inlined wherever it is called, and each branch with all that is known: to inline one
/// search in one more place has cost 2.6 times as much, which no other test notices but by waiting.
#[test]
fn the_verifier_is_soon_done() {
    let script = r#"
        scx_threadwise >/tmp/log 2>&1 & S=$!
        until [ "$(busybox cat /sys/kernel/sched_ext/state)" = enabled ]; do busybox sleep 0.1; done
        busybox kill -INT $S; wait $S
        "#;
    // Nothing here depends on how fast CPUs are, and slower ones take longer.
    let (profile, _) = profile_of(&["--mips", "400", "--program", "scx_threadwise", "sh", "-c", script]);
    assert!(calls(&profile, "bpf_is_state_visited") > 10_000);
    let millions = profile["instructions"].as_u64().unwrap() / 1_000_000;
    assert!(
        (900..1_600).contains(&millions),
        "attaching took {millions} million instructions, and took 1,365 when this was written"
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
