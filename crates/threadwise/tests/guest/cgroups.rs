// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups that compete share the CPUs by `cpu.weight`, however many threads each has.

use super::measured_by;

/// What the scripts are made of. `stage SECONDS CGROUP...` prints what each cgroup ran in this time, in microseconds; `end`
/// leaves the guest as it was.
const FUNCTIONS: &str = r#"
    top=/sys/fs/cgroup; pids=
    create() { busybox mkdir -p $top/$1; echo $2 >$top/$1/cpu.weight; }
    start() { sh -c 'echo $$ >$0/cgroup.procs; exec threadwise bench synthetic --duration 200 "$@"' $top/"$@" >/dev/null & last=$!; pids="$pids $last"; }
    ran() { busybox sed -n 's/^usage_usec //p' $top/$1/cpu.stat; }
    spent() { busybox awk '{ print $14 + $15 }' /proc/$1/stat; }
    show() { echo "{\"ran\":$1}"; }
    stage() {
        seconds=$1; shift; for g in "$@"; do ran $g >/tmp/ran-${g##*/}; done
        busybox sleep $seconds
        for g in "$@"; do show $(($(ran $g) - $(busybox cat /tmp/ran-${g##*/}))); done
    }
    end() {
        kill $pids; wait
        for g in "$@"; do wait_until busybox rmdir $top/$g; done 2>/dev/null
        echo -cpu >$top/cgroup.subtree_control
    }
    echo +cpu >$top/cgroup.subtree_control
    hogs="--ratio inf:1 --phase-units 10000000 --threads"
    "#;

/// What the stages of a script print.
fn ran(scheduler: &str, script: &str, holds: impl Fn(&[f64]) -> bool) -> Vec<f64> {
    measured_by(
        "ran",
        "smp-8",
        scheduler,
        &format!("{FUNCTIONS}\n{script}"),
        holds,
    )
}

/// Whether the second has three times as much as the first, within room.
fn is_threefold(ran: &[f64]) -> bool {
    (2.2..4.2).contains(&(ran[1] / ran[0]))
}

fn is_even(ran: &[f64]) -> bool {
    (0.66..1.5).contains(&(ran[1] / ran[0]))
}

#[test]
#[ignore = "long: make test FULL=1"]
fn cgroups_share_by_weight_whatever_their_threads() {
    // The heavier one has half as many threads; then the weights change places; then its threads move to one that weighs
    // as much as the other.
    let script = r#"
        create light 100; create heavy 300
        start light $hogs 16; start heavy $hogs 8; mover=$last
        busybox sleep 1; stage 2 light heavy
        echo 300 >$top/light/cpu.weight; echo 100 >$top/heavy/cpu.weight
        busybox sleep 1; stage 2 heavy light
        create other 300; echo $mover >$top/other/cgroup.procs
        busybox sleep 1; stage 2 light other
        end light heavy other
        "#;
    let holds = |ran: &[f64]| {
        ran.len() == 6 && is_threefold(&ran[..2]) && is_threefold(&ran[2..4]) && is_even(&ran[4..])
    };
    let done = ran("scx_threadwise", script, holds);
    assert!(
        holds(&done),
        "1 to 3, again after a change, and 1 to 1 after a move: {done:?}"
    );
}

#[test]
fn threads_share_alike_when_cgroups_are_ignored() {
    let script = r#"
        create light 100; create heavy 300
        start light $hogs 16; start heavy $hogs 8
        busybox sleep 1; stage 2 light heavy; end light heavy
        "#;
    let by_thread = |ran: &[f64]| ran.len() == 2 && (0.3..0.8).contains(&(ran[1] / ran[0]));
    let done = ran("scx_threadwise --ignore-cgroups", script, by_thread);
    assert!(by_thread(&done), "16 threads and 8: {done:?}");
}

#[test]
fn nested_cgroups_multiply_and_nice_values_count_within_one() {
    // A half is shared 1 to 3, the other one 3.06 to 1 (nice 5). Then that falls idle, and leaves all of it.
    let script = r#"
        create upper 100; echo +cpu >$top/upper/cgroup.subtree_control
        create upper/light 100; create upper/heavy 300; create beside 100
        start upper/light $hogs 8; start upper/heavy $hogs 8
        start beside $hogs 4; even=$last; start beside $hogs 4; nice=$last
        busybox sleep 0.5; for t in /proc/$nice/task/*; do busybox renice -n 5 -p ${t##*/} >/dev/null; done
        busybox sleep 0.7; before_even=$(spent $even); before_nice=$(spent $nice)
        stage 3 upper/light upper/heavy upper beside
        show $(($(spent $nice) - before_nice)); show $(($(spent $even) - before_even))
        kill $even $nice; busybox sleep 1; stage 2 upper/light upper/heavy upper
        end upper/light upper/heavy upper beside
        "#;
    let holds = |ran: &[f64]| {
        ran.len() == 9
            && is_threefold(&ran[..2])
            && is_even(&ran[2..4])
            && (1.7..4.5).contains(&(ran[5] / ran[4]))
            && is_threefold(&ran[6..8])
            && ran[8] / 2.0 > 0.9 * (ran[2] + ran[3]) / 3.0
    };
    let done = ran("scx_threadwise", script, holds);
    assert!(
        holds(&done),
        "1 to 3 within a half, the two halves, nice 5 and 0 within the other, 1 to 3 and all of it: {done:?}"
    );
}
