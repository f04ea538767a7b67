// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place` on a machine whose hardware threads share cores.

use super::*;

/// IPFwd; its main thread only waits.
const SPEC: &str = r#"
    printf '%s\n' 'name = "ipfwd"' \
        'command = ["threadwise", "bench", "pipeline", "--variant", "intadd", "--operations", "2000", "--wait", "yield", "--seconds", "100", "--counter", "{folder}/{instance}"]' \
        'threads = ["R", "P", "T"]' 'unassigned = ["threadwise"]' 'performance.counter = "{folder}/{instance}"' \
        '[time]' 'warm_up = 0.5' 'measure = 2.0' > /tmp/spec.toml
"#;

fn performance(line: &str) -> f64 {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    json["performance"][0].as_f64().unwrap()
}

#[test]
fn threads_on_one_core_are_measured_slower_than_on_two() {
    // T polls at most, and takes from P what a hardware thread takes from its sibling: with 24 % for the second, each has
    // 0.62 of a core. R, which polls too, has a core elsewhere.
    let script = format!(
        "{SPEC} for i in 1 2; do for cpus in 4,0,1 4,0,2; do \
         threadwise place measure /tmp/spec.toml --cpus $cpus --format json || exit; done; done"
    );
    let lines = stdout(exec("smt-8", &job("", &script)));
    let figures: Vec<f64> = lines.lines().map(performance).collect();
    let ratio = (figures[1] + figures[3]) / (figures[0] + figures[2]);
    assert!(
        ratio > 1.2,
        "on two cores {ratio} times what it does on one: {lines}"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_run_in_the_lab_is_asked_for_from_outside() {
    let _guests = alone();
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/ipfwd.toml");
    let output = threadwise()
        .args(["place", "measure"])
        .arg(workload)
        .args([
            "--on",
            "lab",
            "--machine",
            "smt-8",
            "--mips",
            "15",
            "--cpus",
            "0,1,2 4,5,6",
        ])
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stdout}{stderr}");
    let figures: Vec<f64> = stdout
        .lines()
        .map(|line| line.split(' ').find_map(|word| word.parse().ok()).unwrap())
        .collect();
    let [one, other, together] = figures[..] else {
        panic!("{stdout}");
    };
    // Both have the same: a core for R and P, and a hardware thread of the next for T.
    assert!(
        stdout.ends_with("[lab]\n") && (0.5..2.0).contains(&(one / other)),
        "{stdout}"
    );
    assert!((together - one - other).abs() <= 1.5, "{stdout}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_cpu_that_goes_offline_fails_the_run() {
    let script = format!(
        "{SPEC} exec 2>&1
         online=/sys/devices/system/cpu/cpu3/online
         threadwise place measure /tmp/spec.toml --cpus 1,0,3 & run=$!
         busybox sleep 1.5; echo 0 > $online; wait $run; echo \"status $?\"
         threadwise place measure /tmp/spec.toml --cpus 1,0,3; echo \"status $?\"
         echo 1 > $online
         threadwise place measure /tmp/spec.toml --cpus 1,0,3; echo \"status $?\""
    );
    let lines = stdout(run("", &script));
    assert!(
        lines.contains("no longer runs its thread \"T\" on CPU 3"),
        "{lines}"
    );
    assert!(lines.contains("host has no CPU 3 online"), "{lines}");
    let statuses: Vec<&str> = lines.lines().filter(|line| line.starts_with("status")).collect();
    assert_eq!(statuses, ["status 2", "status 2", "status 0"], "{lines}");
}
