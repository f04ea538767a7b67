// SPDX-License-Identifier: GPL-2.0-only
//! Programs that run one after the other (`--alternate`).

use std::collections::{BTreeMap, BTreeSet};

use super::{as_fast_as_possible, exec, job, number_after, run, stdout};

/// More CPUs than the programs have threads, so that nobody takes turns for want of one.
const MACHINE: &str = "package:1 llc:1(size=16MB) core:8";

/// Two programs of three threads whose sets fit into the cache one by one. The kernel tells at each tick who ran.
const SCRIPT: &str = r#"
    tracing=/sys/kernel/tracing
    busybox mountpoint -q $tracing || busybox mount -t tracefs none $tracing
    for i in 1 2; do threadwise bench memory --threads 3 --working-set 2560K --duration 60 >/dev/null 2>&1 & pids="$pids $!"; done
    busybox sleep 5
    echo >$tracing/trace; echo 1 >$tracing/tracing_on; echo 1 >$tracing/events/sched/sched_stat_runtime/enable
    busybox sleep 4
    echo 0 >$tracing/tracing_on; echo 0 >$tracing/events/sched/sched_stat_runtime/enable
    kill $pids; wait
    busybox cat $tracing/trace
    "#;

/// How many of the two programs' ticks there were, how many when both ran, and how often it became the other's turn.
fn ticks(scheduler: &str) -> (usize, usize, usize) {
    let out = stdout(exec(MACHINE, &job(scheduler, SCRIPT)));
    // Of each program its first thread. mem-0-161 [001] ..... 12.345678: sched_stat_runtime: comm=mem-0 pid=161 runtime=4000123 [ns]
    let mut ran: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for line in out.lines() {
        let Some((before, after)) = line.split_once(": sched_stat_runtime: comm=mem-0 pid=") else {
            continue;
        };
        let at: f64 = before.split_whitespace().last().unwrap().parse().expect(line);
        let pid = after.split(' ').next().unwrap();
        // Four ticks.
        ran.entry((at * 1000.0) as u64 / 16).or_default().insert(pid);
    }
    let both = ran.values().filter(|pids| pids.len() > 1).count();
    let alone: Vec<&BTreeSet<&str>> = ran.values().filter(|pids| pids.len() == 1).collect();
    let turns = alone.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(ran.len() > 150, "{} times: {out}", ran.len());
    (ran.len(), both, turns)
}

#[test]
fn programs_that_exceed_the_cache_together_run_one_after_the_other() {
    let ours = "scx_threadwise --alternate";
    let (times, both, _) = ticks(&format!("{ours} off"));
    assert!(both > times * 3 / 4, "off: both in {both} of {times}");
    let (times, both, turns) = ticks(&format!("{ours} resident"));
    assert!(both < times / 4, "resident: both in {both} of {times}");
    // In four seconds there are thirteen.
    assert!((6..=40).contains(&turns), "{turns} turns");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_trial_that_shows_no_gain_is_not_made_again_soon() {
    // CPU time and page faults, of which programs have many while they begin and pages are small, stand in for counters. Of CPU time there is
    // less one after the other, so that is tried and not chosen. Sets are large, so that faults last for several looks on any host.
    let script = r#"
        huge=/sys/kernel/mm/transparent_hugepage/enabled; was=$(busybox sed 's/.*\[\(.*\)\].*/\1/' $huge)
        echo never >$huge
        attach --alternate faults --stats 1
        for i in 1 2; do
            threadwise bench memory --threads 3 --working-set 192M --duration 60 >/dev/null 2>&1 & pids="$pids $!"
        done
        busybox sleep 12
        kill $pids; wait $pids
        kill $S; wait $S
        echo $was >$huge
        busybox cat /tmp/log
        "#;
    let count = || {
        let out = stdout(exec(MACHINE, &as_fast_as_possible(job("", script))));
        let sum = |label: &str| {
            let lines = out.lines().filter(|line| line.contains(label));
            lines.map(|line| number_after(label, line)).sum::<u64>()
        };
        (sum("| trials"), sum(" alternated"), out)
    };
    // On a fast host the faults may be over before anybody looks: then nothing is tried, and nothing shown.
    let (trials, alternated, out) = (0..5)
        .map(|_| count())
        .find(|(trials, ..)| *trials > 0)
        .expect("a trial in five times");
    assert!((1..=2).contains(&trials), "{trials} trials: {out}");
    // Two turns, and their end.
    assert!((2..=8).contains(&alternated), "{alternated} turns: {out}");
}

#[test]
fn without_counters_programs_run_beside_each_other_or_it_is_said() {
    let auto = run("scx_threadwise --alternate auto", "busybox sleep 1");
    let log = auto.scheduler.as_ref().map(|scheduler| scheduler.log.clone());
    stdout(auto);
    let log = log.expect("it ran");
    assert!(log.contains("programs run beside each other"), "{log}");
    let out = stdout(run(
        "",
        "scx_threadwise --alternate counters 2>&1; echo status $?",
    ));
    let said = "has no hardware counters (virtual machines mostly hide them): use --alternate auto";
    assert!(out.contains(said) && out.ends_with("status 2\n"), "{out}");
}
