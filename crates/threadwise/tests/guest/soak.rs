// SPDX-License-Identifier: GPL-2.0-only
//! Everything at once, for as long as one likes: `make soak SECONDS=1800`.

use super::{as_fast_as_possible, exec, job, number_after, stdout};
use threadwise_lab::exec::Job;

/// How long, in seconds, if `THREADWISE_SOAK_SECONDS` does not say.
const SECONDS: u32 = 30;

/// Under one scheduler all the time: programs in phases, tasks that begin, end, wait and change class, affinity and priority in
/// every way that stress-ng knows, storms of forks, messages between hundreds of tasks, groups whose weights change, and CPUs
/// that go and come back. Whoever is attached at the end, what the kernel said, and how often what was done are printed.
fn mixed_stress(scheduler: &str, seconds: u32) -> Job {
    let script = format!(
        r#"
        dmesg_bad() {{ busybox dmesg | busybox grep -E 'WARNING|BUG|Oops|stall|hung|lockup|sched_ext.*(error|exit)'; }}
        uptime() {{ busybox cut -d. -f1 /proc/uptime; }}
        # That what the kernel says is seen at all.
        busybox dmesg -c >/dev/null; echo 'WARNING: a control' >/dev/kmsg; echo "control $(dmesg_bad | busybox wc -l)"
        busybox dmesg -c >/dev/null
        attach {scheduler}
        before=$(seq); end=$(($(uptime) + {seconds}))
        for ratio in inf:1 1:1 1:inf; do threadwise bench synthetic --phase-units 500 --threads 8 --ratio $ratio --duration 100000 >/dev/null & B="$B $!"; done
        busybox mkdir -p /soak; busybox mount -t cgroup2 none /soak; echo +cpu >/soak/cgroup.subtree_control
        busybox mkdir -p /soak/a /soak/b
        rounds=0 offline=0 storms=0 messages=0
        while [ $(uptime) -lt $end ]; do
            rounds=$((rounds+1))
            stress-ng --quiet --timeout 8 --fork 2 --pthread 2 --vfork 1 --clone 1 --affinity 4 --schedpolicy 2 --nice 1 \
                --kill 1 --switch 2 --futex 2 --zombie 1 --sem 1 --pipe 2 --yield 2 --sleep 1 & X=$!
            ( n=0; while [ $n -lt 400 ]; do busybox true & n=$((n+1)); done; wait ) & Y=$!
            perf bench sched messaging -g 4 -l 50 >/dev/null 2>&1 && messages=$((messages+1))
            for c in 7 3 5; do echo 0 >/sys/devices/system/cpu/cpu$c/online && offline=$((offline+1)); done
            for b in $B; do echo $b >/soak/a/cgroup.procs; done; echo $((rounds % 7 * 100 + 50)) >/soak/a/cpu.weight
            ( perf bench sched messaging -t -g 4 -l 50 >/dev/null 2>&1 ) & Z=$!
            busybox sleep 0.$((rounds % 9))
            for c in 3 5 7; do echo 1 >/sys/devices/system/cpu/cpu$c/online; done
            for b in $B; do echo $b >/soak/b/cgroup.procs; done; echo $((rounds % 5 * 500 + 10)) >/soak/b/cpu.weight
            wait $Y && storms=$((storms+1)); wait $Z; wait $X || echo "stress-ng ended with $?"
            [ $((rounds % 10)) -ne 0 ] || echo "round $rounds, $(busybox grep MemAvailable /proc/meminfo), $(busybox dmesg | busybox grep -c 'Killed process') killed"
            is_state enabled && [ "$(seq)" = "$before" ] || {{ echo "not attached any more"; break; }}
        done
        for b in $B; do busybox kill -9 $b; done
        busybox kill -INT $S; wait $S; echo "scheduler ended with $?"
        echo "rounds $rounds offline $offline storms $storms messages $messages"
        dmesg_bad; busybox cat /tmp/log
        "#
    );
    Job {
        deadline_s: u64::from(seconds) + 300,
        ..as_fast_as_possible(job("", &script))
    }
}

fn seconds() -> u32 {
    let seconds = std::env::var("THREADWISE_SOAK_SECONDS");
    seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap())
}

/// Whatever was done, the scheduler is still attached, ends with counts at zero, and the kernel has said nothing.
fn withstands(machine: &str, scheduler: &str, seconds: u32) {
    let out = stdout(exec(machine, &mixed_stress(scheduler, seconds)));
    println!("{machine} {scheduler}\n{out}");
    // The loader ends with 0 only if it was not thrown out and every count is zero.
    assert!(out.contains("scheduler ended with 0"), "{out}");
    for wrong in [
        "not attached",
        "stress-ng ended",
        "WARNING",
        "BUG",
        "Oops",
        "stall",
        "hung",
        "lockup",
    ] {
        assert!(!out.contains(wrong), "{wrong}: {out}");
    }
    assert!(out.contains("control 1"), "{out}");
    let rounds = number_after("rounds ", &out);
    assert!(rounds > 0, "{out}");
    assert_eq!(number_after("offline ", &out), 3 * rounds, "{out}");
    for done in ["storms ", "messages "] {
        assert_eq!(number_after(done, &out), rounds, "{out}");
    }
}

#[test]
fn mixed_stress_ends_with_counts_at_zero_and_without_a_word_of_the_kernel() {
    withstands("smp-8", "", seconds());
}

/// What the scheduler has for other machines, and for those who ask, a part of the time each.
#[test]
#[ignore = "long: make test FULL=1"]
fn mixed_stress_is_withstood_on_other_machines_and_with_options() {
    let all = [
        ("smt-8-hidden", "--machine smt-8-hidden"),
        ("amp-8", "--machine amp-8 --programs 10"),
        ("two-quads", "--mode performance --pairing resident"),
        ("smp-8", "--alternate resident --ignore-cgroups"),
    ];
    for (machine, scheduler) in all {
        withstands(machine, scheduler, (seconds() / all.len() as u32).max(10));
    }
}

#[test]
#[ignore = "long: make test FULL=1"]
fn mixed_stress_notices_a_scheduler_that_miscounts() {
    let out = stdout(exec("smp-8", &mixed_stress("--inject-fault miscount", 5)));
    assert!(
        out.contains("scheduler ended with 2") && out.contains("ready counts drifted"),
        "{out}"
    );
}
