// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that need much of a last-level cache beside those that need little (`--pairing`).

use std::collections::BTreeMap;

use super::{exec, job, stdout};

/// Three packages, the last one for who looks on, so that nobody disturbs those of the other two.
const MACHINE: &str = "package:3 llc:1(size=16MB) core:2";

/// All CPUs but the first go and come back, and with them their counters; the loader notices within a second.
const RENEW: &str = "
    for state in 0 1; do for cpu in 1 2 3 4 5; do echo $state >/sys/devices/system/cpu/cpu$cpu/online; done; done
    busybox sleep 3
    ";

/// Two programs that need much and two that need little have two packages, four times anew, because who was made to change places again
/// and again would rest: at first each package has two of a kind, then they may go where they like. The kernel tells at each tick who ran where.
const SCRIPT: &str = r#"
    tracing=/sys/kernel/tracing; top=/sys/fs/cgroup
    busybox mountpoint -q $tracing || busybox mount -t tracefs none $tracing
    echo +cpuset >$top/cgroup.subtree_control; busybox mkdir $top/heavy $top/light
    echo "while :; do :; done" >/tmp/spin.sh
    start() { sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' $top/"$@" >/dev/null 2>&1 & pids="$pids $!"; }
    echo >$tracing/trace; echo 1 >$tracing/tracing_on; echo 1 >$tracing/events/sched/sched_stat_runtime/enable
    for round in 1 2 3 4; do
        echo 0-1 >$top/heavy/cpuset.cpus; echo 2-3 >$top/light/cpuset.cpus
        pids=; for i in 1 2; do start heavy HEAVY; start light busybox sh /tmp/spin.sh; done
        busybox sleep 1.2
        echo 0-3 >$top/heavy/cpuset.cpus; echo 0-3 >$top/light/cpuset.cpus
        echo free >$tracing/trace_marker
        busybox sleep 0.9
        echo bound >$tracing/trace_marker
        kill $pids; wait
    done
    echo 0 >$tracing/tracing_on; echo 0 >$tracing/events/sched/sched_stat_runtime/enable
    for group in heavy light; do wait_until busybox rmdir $top/$group; done 2>/dev/null
    echo -cpuset >$top/cgroup.subtree_control
    busybox cat $tracing/trace
    "#;

/// In how many ticks two tasks of this name ran in one package, after this, and of how many at which they might go where they like.
fn together_after(before: &str, pairing: &str, heavy: &str, name: &str) -> (usize, usize) {
    let scheduler = format!("scx_threadwise --ignore-cgroups --mode performance --pairing {pairing}");
    let out = stdout(exec(
        MACHINE,
        &job(&scheduler, &format!("{before}{}", SCRIPT.replace("HEAVY", heavy))),
    ));
    // mem-0-161 [001] ..... 12.345678: sched_stat_runtime: comm=mem-0 pid=161 runtime=4000123 [ns]
    let (mut is_free, mut packages) = (false, BTreeMap::new());
    let (mut nr_together, mut nr_ticks) = (0, 0);
    for line in out.lines() {
        if line.ends_with(": free") {
            packages.clear();
        }
        is_free = (is_free || line.ends_with(": free")) && !line.ends_with(": bound");
        let event = line.split_once("sched_stat_runtime: comm=").filter(|_| is_free);
        let Some((before, after)) = event.filter(|(_, after)| after.starts_with(name)) else {
            continue;
        };
        let cpu = before.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let cpu: usize = cpu.and_then(|(cpu, _)| cpu.parse().ok()).expect(line);
        let pid = after
            .split_once("pid=")
            .and_then(|(_, rest)| rest.split(' ').next());
        packages.insert(pid.expect(line).to_owned(), cpu / 2);
        assert!(packages.len() <= 2, "{packages:?}");
        if let [one, other] = *packages.values().copied().collect::<Vec<_>>() {
            nr_ticks += 1;
            nr_together += usize::from(one == other);
        }
    }
    assert!(nr_ticks > 300, "{nr_ticks} ticks: {out}");
    (nr_together, nr_ticks)
}

/// Paired, but for one of the four times: what else runs at the wrong moment changes places in a task's stead, which rests then.
fn are_paired((together, nr_ticks): (usize, usize)) -> bool {
    together < nr_ticks / 2
}

fn together(pairing: &str, heavy: &str, name: &str) -> (usize, usize) {
    together_after("", pairing, heavy, name)
}

#[test]
fn counters_of_cpus_that_come_back_are_opened_again() {
    let (heavy, name) = ("stress-ng --fault 1 --timeout 60", "stress-ng-fault ");
    let renewed = together_after(RENEW, "faults", heavy, name);
    assert!(are_paired(renewed), "together in {renewed:?} ticks");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn memory_heavy_tasks_are_paired_with_cpu_heavy_ones() {
    // By the resident set, and by counters, of which the guest has page faults.
    let memory = (
        "threadwise bench memory --working-set 12M --duration 60",
        "mem-0 ",
    );
    let faults = ("stress-ng --fault 1 --timeout 60", "stress-ng-fault ");
    for (pairing, (heavy, name)) in [("resident", memory), ("faults", faults)] {
        let (off, nr_ticks) = together("off", heavy, name);
        assert!(
            off > nr_ticks * 3 / 4,
            "off: together in {off} of {nr_ticks} ticks"
        );
        let paired = together(pairing, heavy, name);
        assert!(are_paired(paired), "{pairing}: together in {paired:?} ticks");
    }
}

#[test]
fn without_counters_resident_sets_are_gone_by() {
    // QEMU's CPUs have no performance monitoring unit.
    let done = exec(
        MACHINE,
        &job("scx_threadwise --mode performance", "busybox sleep 1"),
    );
    let log = done.scheduler.as_ref().map(|scheduler| scheduler.log.clone());
    stdout(done);
    let log = log.expect("it ran");
    assert!(log.contains("tasks are paired by resident sets"), "{log}");
    // Who fills a package has no use for counters.
    stdout(exec(
        MACHINE,
        &job(
            "scx_threadwise --mode powersave --pairing counters",
            "busybox true",
        ),
    ));
    let asked = "scx_threadwise --mode performance --pairing counters 2>&1; echo status $?";
    let out = stdout(exec(MACHINE, &job("", asked)));
    let said = "has no hardware counters (virtual machines mostly hide them): use --pairing resident";
    assert!(out.contains(said) && out.ends_with("status 2\n"), "{out}");
}
