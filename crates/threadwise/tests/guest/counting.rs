// SPDX-License-Identifier: GPL-2.0-only
//! Ready threads are counted, whatever tasks and CPUs do. The loader ends with status 0 only if every count is zero then.

use super::explain::of_program;
use super::notes::note;
use super::{Guest, alone, as_fast_as_possible, job, run, stdout};

#[test]
fn counts_end_at_zero_after_every_way_to_come_and_go() {
    // Ready when the scheduler attaches, dying, killed, executing (stress-ng's --exec does so from threads that do not
    // lead their group), forking, changing class, affinity and priority, from threads and processes.
    let script = r#"
        threadwise bench synthetic --phase-units 500 --threads 8 --ratio inf:1 --duration 60 >/dev/null & B=$!
        attach
        # It refuses to execute as root.
        busybox mkdir -p /etc; echo user:x:1000:1000::/:/bin/sh >/etc/passwd; busybox cp /bin/stress-ng /tmp/copy
        busybox start-stop-daemon -S -c user -x /tmp/copy -- --quiet --timeout 6 --exec 2 --temp-path /tmp \
            --metrics --yaml /tmp/of-user & E=$!
        stress-ng --quiet --timeout 6 --fork 2 --pthread 2 --vfork 1 --clone 1 --affinity 2 --schedpolicy 2 \
            --nice 1 --kill 1 --switch 2 --futex 2 --zombie 1 --metrics --yaml /tmp/of-root || exit 3
        wait $E || exit 4
        busybox kill -9 $B; busybox kill -INT $S; wait $S; echo "scheduler ended with $?"
        busybox cat /tmp/log; busybox grep -h -E 'stressor:|bogo-ops:' /tmp/of-user /tmp/of-root
        "#;
    let out = stdout(run("", script));
    assert!(out.contains("scheduler ended with 0"), "{out}");
    // stress-ng passes over what it cannot do.
    let stressors: Vec<&str> = out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- stressor: "))
        .collect();
    assert_eq!(
        stressors,
        [
            "exec",
            "fork",
            "pthread",
            "vfork",
            "clone",
            "affinity",
            "schedpolicy",
            "nice",
            "kill",
            "switch",
            "futex",
            "zombie"
        ],
        "{out}"
    );
    if out.lines().any(|line| line.trim() == "bogo-ops: 0") {
        note(&format!("a stressor did nothing in 6 s beside the others: {out}"));
    }
}

#[test]
fn the_count_check_notices_counts_that_drift() {
    let done = run(
        "scx_threadwise --inject-fault miscount",
        "busy --duration 1 >/dev/null",
    );
    let end = done.scheduler.unwrap();
    assert!(
        end.status == Some(2) && end.log.contains("ready counts drifted"),
        "{end:?}"
    );
}

#[test]
fn the_check_notices_walks_that_do_not_follow_cpus() {
    let go = |to: u32| format!("echo {to} >/sys/devices/system/cpu/cpu7/online");
    let done = run("scx_threadwise --inject-fault unlinked", &go(0));
    stdout(run("", &go(1)));
    let end = done.scheduler.unwrap();
    assert!(
        end.status == Some(2) && end.log.contains("looks at CPUs took in [0, 1, 2, 3, 4, 5, 6, 7]"),
        "{end:?}"
    );
}

#[test]
fn threads_that_run_on_stay_counted_whatever_is_done_to_them() {
    // Six that never sleep change priority, affinity and class; a CPU goes and comes back, for which the kernel bypasses
    // the scheduler.
    let script = r#"
        threadwise bench synthetic --ratio inf:1 --threads 6 --phase-units 1000000000 --duration 60 >/dev/null & B=$!
        busybox sleep 1
        for mask in 1 3c ff; do
            for t in /proc/$B/task/*; do
                t=${t##*/}
                busybox renice -n 1 -p $t >/dev/null; busybox taskset -p $mask $t >/dev/null
                busybox chrt -f -p 1 $t; busybox chrt -o -p 0 $t
            done
        done
        echo 0 >/sys/devices/system/cpu/cpu7/online; echo 1 >/sys/devices/system/cpu/cpu7/online
        busybox sleep 1
        scx_threadwise --monitor 0.5 --format json >/tmp/reports & M=$!
        two() { [ $(busybox wc -l </tmp/reports) -ge 2 ]; }
        wait_until two; busybox kill -INT $M; busybox cat /tmp/reports
        echo "program $B"
        "#;
    let out = stdout(run("scx_threadwise --programs 5", script));
    let tgid = out
        .lines()
        .find_map(|line| line.strip_prefix("program "))
        .unwrap();
    let reports = of_program(tgid, &out);
    assert!(
        reports.len() > 1 && reports.iter().all(|report| report["ready"] == 6),
        "{out}"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn cpus_come_and_go_under_load() {
    // The same scheduler goes on, and a task that may run on one of these CPUs only is moved by the kernel.
    let script = r#"
        before=$(seq)
        busy --ratio inf:1 --duration 280 >/dev/null & busy --ratio 1:1 --duration 280 >/dev/null &
        busybox taskset 40 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 280 >/dev/null & P=$!
        # Nobody can be bound to a CPU that is gone already.
        wait_until busybox grep -q -e threadwise -e syn- /proc/$P/comm
        n=0
        for i in 1 2 3 4 5; do
            for c in 6 7 3; do echo 0 >/sys/devices/system/cpu/cpu$c/online && n=$((n+1)); done
            busybox sleep 0.3
            for c in 3 6 7; do echo 1 >/sys/devices/system/cpu/cpu$c/online && n=$((n+1)); done
            busybox sleep 0.3
        done
        echo changes $n; busybox kill -0 $P || { wait $P; echo "the bound task ended with $?"; }
        [ "$(state)" = enabled ] && [ "$(seq)" = "$before" ] && echo same scheduler
        "#;
    let out = stdout(run("scx_threadwise", script));
    for expected in ["changes 30", "same scheduler"] {
        assert!(out.contains(expected), "no {expected:?} in {out}");
    }
    assert!(!out.contains("ended"), "{out}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn ids_beyond_the_pid_max_at_loading_are_no_end() {
    // The loader starts anew with a larger map; no fork fails and counts end at zero. In a guest of its own, whose ids
    // are still small.
    let script = r#"
        echo 1000 >/proc/sys/kernel/pid_max
        attach
        echo 40000 >/proc/sys/kernel/pid_max
        n=0; while [ $n -lt 1200 ]; do busybox true || echo failed; n=$((n+1)); done
        busybox sleep 1; until_state enabled && echo enabled again
        busybox kill -INT $S; wait $S; echo status $?; busybox cat /tmp/log
        "#;
    let _guests = alone();
    let mut guest = Guest::boot("smp-8");
    let out = stdout(guest.carry_out(&as_fast_as_possible(job("", script))).unwrap());
    guest.end();
    for expected in ["enabled again", "status 0", "beyond the kernel.pid_max"] {
        assert!(out.contains(expected), "no {expected:?} in {out}");
    }
    assert!(!out.contains("failed"), "{out}");
}
