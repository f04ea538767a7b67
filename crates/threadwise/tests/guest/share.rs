// SPDX-License-Identifier: GPL-2.0-only
//! Programs that share memory, as their user says (`--share`).

use super::{exec, job, stdout};

const MACHINE: &str = "package:2 llc:1(size=16MB) core:3";

/// Two programs run and come to a cgroup of that name later, beside two that do not. Where they are is told ten times before
/// and ten times after that.
const SCRIPT: &str = r#"
    top=/sys/fs/cgroup; busybox mkdir $top/crew
    echo "while :; do :; done" >/tmp/spin.sh
    for i in 1 2; do busybox sh /tmp/spin.sh & pids="$pids $!"; done
    where() {
        for i in 1 2 3 4 5 6 7 8 9 10; do
            for pid in $pids; do busybox awk '{printf "%d ", $39}' /proc/$pid/stat; done; echo $1
            busybox sleep 0.05
        done
    }
    busybox sleep 1; where apart
    for pid in $pids; do echo $pid >$top/crew/cgroup.procs; done
    busybox sleep 1; where MOVED
    kill $pids; wait; wait_until busybox rmdir $top/crew
    "#;

/// How often the two were behind one cache, before they were in the cgroup and after.
fn together(options: &str) -> (usize, usize) {
    let scheduler = format!("scx_threadwise --ignore-cgroups --mode performance {options}");
    let out = stdout(exec(MACHINE, &job(&scheduler, SCRIPT)));
    let count = |when: &str| {
        let cpus = out.lines().filter_map(|line| line.strip_suffix(when));
        let llcs = |line: &str| -> Vec<usize> {
            line.split_whitespace()
                .map(|cpu| cpu.parse::<usize>().unwrap() / 3)
                .collect()
        };
        let lines: Vec<Vec<usize>> = cpus.map(llcs).collect();
        assert_eq!(lines.len(), 10, "{out}");
        lines.iter().filter(|llcs| llcs[0] == llcs[1]).count()
    };
    (count("apart"), count("MOVED"))
}

#[test]
fn programs_that_share_memory_are_behind_one_cache() {
    let (before, after) = together("--share crew");
    assert!(before <= 3, "{before} of 10 before they are in the cgroup");
    assert!(after >= 7, "{after} of 10 in it");
    let (before, after) = together("--share others");
    assert!(before <= 3 && after <= 3, "{before} and {after} of 10 without");
}
