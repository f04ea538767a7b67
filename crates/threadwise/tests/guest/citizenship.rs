// SPDX-License-Identifier: GPL-2.0-only
//! What others decide is respected: isolated CPUs, deadline tasks, affinities, and the kernel while it suspends.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::{as_fast_as_possible, exec, job, number_after, run, stdout, until_shown};

/// Defines `$hog`, a serial program for as long as a script takes, `ran PID`, its CPU time, and `waited PID`, in milliseconds.
const HOGS: &str = r#"
    hog="threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf --duration 200"
    ran() { busybox awk '{ print int($1 / 1000000) }' /proc/$1/schedstat; }
    waited() { busybox awk '{ print int($2 / 1000000) }' /proc/$1/schedstat; }
    "#;

fn numbers(out: &str) -> Vec<u64> {
    out.split_whitespace()
        .map(|word| word.parse().unwrap_or_else(|_| panic!("{word:?} in {out}")))
        .collect()
}

#[test]
#[ignore = "long: make test FULL=1"]
fn nobody_comes_to_an_isolated_cpu_who_does_not_ask_for_it() {
    // Of CPU 3, in ticks: what all others run there, then what one does that is put there, and how long that waits.
    let script = format!(
        r#"{HOGS}
        cd /sys/fs/cgroup; echo +cpuset >cgroup.subtree_control; busybox mkdir isolated
        for i in $(busybox seq 16); do $hog >/dev/null & P="$P $!"; done
        busybox sleep 1
        echo 3 >isolated/cpuset.cpus; echo isolated >isolated/cpuset.cpus.partition
        [ "$(busybox cat isolated/cpuset.cpus.partition)" = isolated ] || exit 3
        busybox sleep 1
        user() {{ busybox awk '$1 == "cpu3" {{ print $2 + $3 }}' /proc/stat; }}
        before=$(user); busybox sleep 3; echo $(($(user) - before))
        $hog >/dev/null & A=$!; echo $A >isolated/cgroup.procs; busybox sleep 1
        before=$(user); r=$(ran $A); w=$(waited $A); busybox sleep 3; echo $(($(user) - before)) $(($(ran $A) - r)) $(($(waited $A) - w))
        busybox kill $A $P; wait; busybox rmdir isolated; echo -cpuset >cgroup.subtree_control
        "#
    );
    let done = numbers(&stdout(run("scx_threadwise", &script)));
    let [others, with_it, ran_ms, waited_ms] = done[..] else {
        panic!("{done:?}");
    };
    assert!(with_it > 0, "nothing is told by a CPU that did nothing: {done:?}");
    assert!(20 * others < with_it, "ticks of others, and of its own: {done:?}");
    assert!(
        20 * waited_ms < ran_ms,
        "it waits, although the CPU is its own: {done:?}"
    );
}

/// sched_ext refuses such a machine (scx_enable_workfn(), kernel/sched/ext.c), and only the kernel's log says why.
#[test]
#[ignore = "long: make test FULL=1"]
fn with_cpus_that_were_isolated_at_boot_it_is_said_what_to_do() {
    let script = "scx_threadwise 2>&1; echo ended with $?";
    let out = stdout(exec("smp-8 --kernel-argument isolcpus=3", &job("", script)));
    assert!(out.contains("ended with 2"), "{out}");
    assert!(
        out.contains("isolcpus=") && out.contains("cpuset.cpus.partition"),
        "{out}"
    );
}

/// The share of a CPU that a serial program gets beside 48 others on eight CPUs, after `ask PID`, in thousandths.
fn share_beside_hogs(ask: &str) -> u64 {
    let script = format!(
        r#"{HOGS}
        ask() {{ {ask}; }}
        for i in $(busybox seq 48); do $hog >/dev/null & P="$P $!"; done
        $hog >/dev/null & A=$!; ask $A || exit 3
        busybox sleep 1; set -- $(busybox cat /proc/uptime); begun=$1; r=$(ran $A)
        busybox sleep 5; set -- $(busybox cat /proc/uptime); r=$(($(ran $A) - r))
        busybox awk "BEGIN {{ print int($r / ($1 - $begun)) }}"; busybox kill $A $P; wait
        "#
    );
    let read = |out: &str| numbers(out)[0];
    until_shown("smp-8", &job("scx_threadwise", &script), read, |&share| {
        (ask == "true") != (share > 300)
    })
}

#[test]
#[ignore = "long: make test FULL=1"]
fn deadline_tasks_have_what_they_were_promised() {
    let promised = share_beside_hogs(
        "chrt -d --sched-runtime 4000000 --sched-deadline 10000000 --sched-period 10000000 -p 0 $1",
    );
    assert!(promised > 300, "{promised} thousandths, promised were 400");
    // As one of 49 on eight CPUs it would have 163.
    let without = share_beside_hogs("true");
    assert!(
        without < 300,
        "{without} thousandths although nothing was asked for"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn who_waits_goes_where_it_is_bound_to_meanwhile() {
    // Two of three wait at any time. Each is bound to another CPU, then again: on which it is, and what it ran since.
    let script = format!(
        r#"{HOGS}
        for i in $(busybox seq 24); do $hog >/dev/null & P="$P $!"; done
        busybox sleep 1
        for shift in 0 3; do
            i=$shift; for p in $P; do busybox taskset -p $(printf %x $((1 << i % 8))) $p >/dev/null; i=$((i + 1)); done
            i=0; for p in $P; do eval r$i=$(ran $p); i=$((i + 1)); done
            busybox sleep 4
            i=0; for p in $P; do
                eval r=\$r$i; echo $(((i + shift) % 8)) $(busybox awk '{{ print $39 }}' /proc/$p/stat) $(($(ran $p) - r)); i=$((i + 1))
            done
        done
        busybox kill $P; wait
        "#
    );
    let out = stdout(exec("smp-8", &job("scx_threadwise", &script)));
    let lines: Vec<Vec<u64>> = out.lines().map(numbers).collect();
    assert_eq!(lines.len(), 48, "{out}");
    let mean_ms = lines.iter().map(|line| line[2]).sum::<u64>() / 48;
    for line in lines {
        let [bound, at, ran_ms] = line[..] else {
            panic!("{line:?} of {out}");
        };
        // Each has a third of a CPU.
        assert!(bound == at && ran_ms > mean_ms / 4, "{line:?} of {out}");
    }
}

/// A folder with the kernel packed: what QEMU unpacks of one it writes over the memory of a machine that wakes up.
fn packed_kernel() -> String {
    let all = threadwise_lab::cache_folder().unwrap().join("kernel");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packed-kernel");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["vmlinuz", "config", "release"] {
        std::fs::remove_file(folder.join(name)).ok();
        symlink(all.join(name), folder.join(name)).unwrap();
    }
    folder.display().to_string()
}

/// Suspended to RAM, the machine has all CPUs but the first offline; the alarm of its clock wakes it.
#[test]
fn work_goes_on_after_the_machine_slept() {
    let script = format!(
        r#"{HOGS}
        all() {{ busybox awk '{{ print ($14 + $15) * 10 }}' /proc/$1/stat; }}
        busybox dmesg -c >/dev/null
        attach; before=$(seq)
        threadwise bench synthetic --phase-units 500 --threads 8 --ratio 1:1 --duration 200 >/dev/null & A=$!
        busybox taskset 20 $hog >/dev/null & B=$!
        busybox sleep 1; stats=/sys/power/suspend_stats/success; slept=$(busybox cat $stats)
        echo deep >/sys/power/mem_sleep; cd /sys/class/rtc/rtc0
        for i in 1 2; do
            echo 0 >wakealarm; echo +3 >wakealarm; echo mem >/sys/power/state || echo "did not sleep"
            a=$(all $A); b=$(ran $B); busybox sleep 2; echo "ran $(($(all $A) - a)) bound $(($(ran $B) - b))"
        done
        is_state enabled && [ "$(seq)" = "$before" ] || echo "not attached any more"
        busybox kill $A $B; busybox kill -INT $S; wait $S; echo "scheduler ended with $?"
        echo "slept $(($(busybox cat $stats) - slept)) offline $(busybox dmesg | busybox grep -c 'is now offline')"
        busybox dmesg | busybox grep -E 'WARNING|BUG|Oops|stall|hung|lockup|sched_ext.*(error|exit)'; busybox cat /tmp/log
        "#
    );
    let machine = format!("smp-8 --kernel {}", packed_kernel());
    let out = stdout(exec(&machine, &as_fast_as_possible(job("", &script))));
    assert!(out.contains("scheduler ended with 0"), "{out}");
    assert_eq!(number_after("slept ", &out), 2, "{out}");
    assert_eq!(number_after("offline ", &out), 2 * 7, "{out}");
    let runs = out.lines().filter(|line| line.starts_with("ran "));
    let ran: Vec<[u64; 2]> = runs
        .map(|line| [number_after("ran ", line), number_after("bound ", line)])
        .collect();
    assert!(ran.len() == 2 && ran.iter().flatten().all(|&ms| ms > 0), "{out}");
    for wrong in [
        "did not sleep",
        "not attached",
        "WARNING",
        "BUG",
        "Oops",
        "stall",
        "hung",
        "lockup",
    ] {
        assert!(!out.contains(wrong), "{wrong}: {out}");
    }
}

#[test]
#[ignore = "long: make test FULL=1"]
fn the_scheduler_is_there_again_after_the_kernel_prepared_to_suspend() {
    // Whoever opens the device has the kernel tell everybody of the hibernation to come (snapshot_open(), kernel/power/user.c); then
    // sched_ext passes its scheduler by (scx_pm_handler(), kernel/sched/ext.c), until it is closed. The programs are frozen meanwhile.
    let script = format!(
        r#"{HOGS}
        [ -e /dev/snapshot ] || busybox mknod /dev/snapshot c 10 231
        all() {{ busybox awk '{{ print ($14 + $15) * 10 }}' /proc/$1/stat; }}
        passed_by() {{ busybox awk '/SCX_EV_BYPASS_DURATION/ {{ print int($2 / 1000000) }}' /sys/kernel/sched_ext/root/events; }}
        cd /sys/fs/cgroup; busybox mkdir frozen
        for i in $(busybox seq 24); do $hog >/dev/null & P="$P $!"; echo $! >frozen/cgroup.procs; done
        threadwise bench synthetic --phase-units 500 --threads 8 --ratio 1:1 --duration 200 >/dev/null & A=$!; echo $A >frozen/cgroup.procs
        busybox sleep 1
        before=$(passed_by); exec 9</dev/snapshot; busybox sleep 1
        echo 1 >frozen/cgroup.freeze; busybox sleep 1; r=$(all $A); busybox sleep 1; still=$(($(all $A) - r))
        echo 0 >frozen/cgroup.freeze; exec 9<&-; busybox sleep 1; after=$(passed_by)
        r=$(all $A); busybox sleep 3
        echo $((after - before)) $still $(($(all $A) - r)) $(($(passed_by) - after))
        busybox kill $A $P; wait; busybox rmdir frozen
        "#
    );
    let out = stdout(run("scx_threadwise", &script));
    let [passed_by_ms, ran_frozen_ms, ran_ms, passed_by_after_ms] = numbers(&out)[..] else {
        panic!("{out}");
    };
    assert!(
        passed_by_ms > 1000 && ran_frozen_ms == 0,
        "it was not passed by: {out}"
    );
    assert!(ran_ms > 0 && passed_by_after_ms == 0, "{out}");
}
