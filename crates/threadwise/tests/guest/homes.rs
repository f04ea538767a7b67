// SPDX-License-Identifier: GPL-2.0-only
//! Programs are at home behind one cache: those that share memory, as their user says (`--share`), and those that began elsewhere.

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

/// Two programs of two threads begin behind one cache, and are then put behind two, one thread of each behind each. Where they are
/// is told ten times after they may go where they like again. Who looks stays on package 2: what it starts would put them elsewhere.
const BEGUN_TOGETHER: &str = r#"
    top=/sys/fs/cgroup; echo +cpuset >$top/cgroup.subtree_control; busybox mkdir $top/both
    echo 0-1 >$top/both/cpuset.cpus
    for i in 1 2; do
        sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' $top/both threadwise bench synthetic --ratio inf:1 --threads 2 \
            --phase-units 10000000 --duration 60 >/dev/null 2>&1 & pids="$pids $!"
    done
    busybox sleep 1; echo 0-3 >$top/both/cpuset.cpus
    for pid in $pids; do for task in /proc/$pid/task/*; do threads="$threads ${task##*/}"; done; done
    busybox taskset -p 30 $$ >/dev/null; set -- $threads; echo $# threads
    for mask in 1 4 2 8; do busybox taskset -p $mask $1; shift; done >/dev/null
    busybox sleep 0.3
    for thread in $threads; do busybox taskset -p f $thread; done >/dev/null
    busybox sleep 0.7
    for i in 1 2 3 4 5 6 7 8 9 10; do
        for thread in $threads; do busybox awk '{printf "%d ", $39}' /proc/$thread/stat; done; echo looked
        busybox sleep 0.05
    done
    kill $pids; wait; wait_until busybox rmdir $top/both; echo -cpuset >$top/cgroup.subtree_control
    "#;

/// In how many of ten looks the threads of each program were behind one cache.
fn each_behind_one(options: &str) -> usize {
    let scheduler = format!(
        "scx_threadwise --ignore-cgroups --mode performance --serial-threshold 1 --pairing off {options}"
    );
    let machine = "package:3 llc:1(size=16MB) core:2";
    let out = stdout(exec(machine, &job(&scheduler, BEGUN_TOGETHER)));
    assert!(out.starts_with("4 threads"), "{out}");
    let looks = out.lines().filter_map(|line| line.strip_suffix(" looked"));
    let packages = |look: &str| -> Vec<usize> {
        let cpus = look.split_whitespace();
        cpus.map(|cpu| cpu.parse::<usize>().unwrap() / 2).collect()
    };
    let looks: Vec<Vec<usize>> = looks.map(packages).collect();
    assert_eq!(looks.len(), 10, "{out}");
    let together = |look: &&Vec<usize>| look[0] == look[1] && look[2] == look[3];
    looks.iter().filter(together).count()
}

#[test]
fn programs_that_began_behind_one_cache_have_one_each_soon() {
    let nr_together = each_behind_one("");
    assert!(nr_together >= 8, "{nr_together} of 10");
    // what the kernel runs on a CPU for itself now and then makes two threads change places
    let stays_apart = |_| each_behind_one("--inject-fault aloof") <= 3;
    assert!((0..3).any(stays_apart), "where no CPU asks another for its task");
}

/// Five threads that never meet; behind which of four caches they are is told ten times.
const OUTGROWN: &str = r#"
    threadwise bench synthetic --ratio inf:1 --threads 5 --phase-units 10000000 --duration 60 >/dev/null 2>&1 & P=$!
    busybox sleep 1
    for i in 1 2 3 4 5 6 7 8 9 10; do
        busybox sleep 0.1
        for t in /proc/$P/task/*; do busybox awk '{printf "%d ", $39}' $t/stat; done; echo looked
    done
    kill $P; wait"#;

/// In how many of ten looks two caches are full and the fifth thread is behind the first of the other package.
fn spilled_in_order(threshold: u32) -> usize {
    let scheduler = format!(
        "scx_threadwise --ignore-cgroups --mode performance --serial-threshold {threshold} --pairing off"
    );
    let out = stdout(exec(
        "package:2 llc:2(size=16MB) core:2",
        &job(&scheduler, OUTGROWN),
    ));
    let looks = out.lines().filter_map(|line| line.strip_suffix(" looked"));
    let behind = |look: &str| {
        let mut behind = [0; 4];
        look.split_whitespace()
            .for_each(|cpu| behind[cpu.parse::<usize>().unwrap() / 2] += 1);
        behind
    };
    let looks: Vec<[u32; 4]> = looks.map(behind).collect();
    assert_eq!(looks.len(), 10, "{out}");
    // Seen from the home, wherever the program began.
    let is_in_order =
        |look: &&[u32; 4]| (0..4).any(|home| [0, 1, 2, 3].map(|far| look[home ^ far]) == [2, 2, 1, 0]);
    looks.iter().filter(is_in_order).count()
}

#[test]
fn what_outgrows_its_cache_spills_into_others_in_one_order() {
    let in_order = spilled_in_order(1);
    assert!(in_order >= 7, "{in_order} of 10");
    let spread = spilled_in_order(5);
    assert!(
        spread <= 3,
        "{spread} of 10, although it is never parallel and has no home"
    );
}
