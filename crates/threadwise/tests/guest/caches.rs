// SPDX-License-Identifier: GPL-2.0-only
//! The caches that the lab models, and cores that are faster while others are idle.

use std::collections::BTreeMap;

use super::{job, measured_by, until_shown};

/// A machine file in a folder of its own.
fn machine(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, text).unwrap();
    let name = file.to_str().unwrap().to_owned();
    (folder, name)
}

fn over_first(done: &[f64]) -> Vec<f64> {
    done.iter().map(|it| it / done[0]).collect()
}

/// CPUs 0 and 1 have a cache, 2 and 3 another. One program on CPU 0; two behind one cache; two behind two; and one of two
/// threads that share a set behind one cache. A set is three quarters of a cache, and beside each access are some 200 instructions.
const SCRIPT: &str = r#"
    on() { cpus=$1; shift; busybox taskset $cpus threadwise bench memory --pattern random --working-set 768K --compute 20 --duration 2 --format json "$@"; }
    both() { on 1 >/tmp/a & A=$!; on $1 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b; }
    on 1; both 2; both 4; on 3 --threads 2 --sharing shared
    "#;
const TWO_CACHES: &str = "name = \"m\"\ntopology = \"package:2 l2:1(size=1MB) core:2\"\n\
                          [memory]\nlatency_ns = 100\n[lab]\nmips = 60\n";

#[test]
fn programs_lose_where_their_sets_do_not_fit_into_the_cache_that_they_share() {
    let (_folder, name) = machine(TWO_CACHES);
    // A third misses, for what 200 instructions take: 67 more for some 220. The threads of one program do as much as two.
    let shows = |done: &[f64]| {
        let share = over_first(done);
        // Pages are not spread evenly over the sets of a cache.
        let near = |share: f64, expected: f64| (share / expected - 1.0).abs() < 0.1;
        share.len() == 6
            && share[1..3].iter().all(|share| (0.65..0.88).contains(share))
            && share[3..5].iter().all(|share| near(*share, 1.0))
            && near(share[5], 2.0)
    };
    let modelled = measured_by(
        "accesses_per_s",
        &format!("{name} --caches 16"),
        "",
        SCRIPT,
        shows,
    );
    assert!(shows(&modelled), "{:?}", over_first(&modelled));
    // Without the model nothing of that is there, and the comparison says so.
    let is_flat = |done: &[f64]| {
        let share = over_first(done);
        share[1..5].iter().all(|share| (0.92..1.08).contains(share))
    };
    let plain = measured_by("accesses_per_s", &name, "", SCRIPT, is_flat);
    assert!(is_flat(&plain) && !shows(&plain), "{:?}", over_first(&plain));
}

#[test]
fn cores_are_faster_while_others_of_their_package_are_idle() {
    let (_folder, name) = machine(
        "name = \"m\"\ntopology = \"package:2 llc:1 core:2\"\n[acceleration]\nmhz = [3000, 2000]\n[lab]\nmips = 60\n",
    );
    let script = r#"
        on() { busybox taskset $1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 2 --format json; }
        both() { on 1 >/tmp/a & A=$!; on $1 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b; }
        on 1; both 2; both 4
        "#;
    let expected = [1.0, 2.0 / 3.0, 2.0 / 3.0, 1.0, 1.0];
    let holds = |done: &[f64]| {
        let near = |(share, expected): (&f64, &f64)| (share / expected - 1.0).abs() < 0.05;
        done.len() == expected.len() && over_first(done).iter().zip(&expected).all(near)
    };
    let done = measured_by("work_units", &name, "", script, holds);
    assert!(holds(&done), "{:?}, not {expected:?}", over_first(&done));
}

/// Two programs of one thread, each on CPUs of its own package; then something happens to their CPUs 40 times. Which CPU each came to
/// is in the trace.
fn comings(happens: &str) -> String {
    format!(
        r#"
        busybox mountpoint -q /sys/kernel/tracing || busybox mount -t tracefs none /sys/kernel/tracing
        for i in 1 2; do threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 100 >/dev/null & P="$P $!"; done
        busybox sleep 1; set -- $P; cd /sys/kernel/tracing
        echo "next_pid==$1 || next_pid==$2" >events/sched/sched_switch/filter
        echo >trace; echo 1 >events/sched/sched_switch/enable; echo 1 >tracing_on
        i=0; while [ $i -lt 40 ]; do {happens}; busybox usleep 30000; i=$((i+1)); done
        echo 0 >tracing_on; echo 0 >events/sched/sched_switch/enable; echo 0 >events/sched/sched_switch/filter
        busybox cat trace; kill -9 $P; wait
        "#
    )
}

/// How often programs came to a CPU, and how often to one of the other package than that of before, by a trace of CPUs 0 and 1, and 2
/// and 3.
fn nr_across(trace: &str) -> (usize, usize) {
    let mut was_at = BTreeMap::new();
    let (mut nr, mut nr_across) = (0, 0);
    for line in trace.lines() {
        let Some((_, program)) = line.split_once("next_pid=") else {
            continue;
        };
        let Some((_, cpu)) = line.split_once("[00") else {
            continue;
        };
        let program = program.split_whitespace().next().unwrap().to_owned();
        let package = cpu[..1].parse::<u32>().unwrap() / 2;
        nr += 1;
        nr_across += usize::from(was_at.insert(program, package).is_some_and(|was| was != package));
    }
    (nr, nr_across)
}

#[test]
fn who_makes_way_for_a_kernel_thread_stays_behind_its_cache() {
    // Reading this has a kernel thread of each CPU run (vmstat_refresh(), mm/vmstat.c). Before tasks waited for their CPUs for a moment
    // half of them went to the other package.
    let refreshed = comings("busybox cat /proc/sys/vm/stat_refresh");
    let stays = |&(nr, across): &(usize, usize)| nr >= 20 && across * 10 <= nr;
    for mode in ["", " --mode performance"] {
        let job = job(&format!("scx_threadwise{mode}"), &refreshed);
        let found = until_shown("two-duals", &job, nr_across, stays);
        assert!(stays(&found), "{found:?} under{mode}");
    }
    // What moves them is seen.
    let moved = comings(
        "if [ $((i % 2)) = 1 ]; then mask=3; else mask=c; fi; busybox taskset -p $mask $1 >/dev/null",
    );
    let found = until_shown("two-duals", &job("scx_threadwise", &moved), nr_across, |it| {
        !stays(it)
    });
    assert!(!stays(&found) && found.1 >= 30, "{found:?}");
}
