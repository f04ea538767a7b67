// SPDX-License-Identifier: GPL-2.0-only
//! How the scheduler comes, what it says while it is there, and that the kernel takes over however it ends.

use super::{exec, job, number_after, run, stdout};

#[test]
#[ignore = "long: make test FULL=1"]
fn the_kernel_takes_over_however_the_scheduler_ends() {
    // A program that was there before goes on, and new ones work.
    let script = r#"
        threadwise bench synthetic --phase-units 500 --threads 2 --duration 200 >/dev/null & B=$!
        ran() { busybox awk '{print $14 + $15}' /proc/$B/stat; }
        is_next() { [ "$(seq)" != $1 ]; }
        end() {
            before=$(seq); scx_threadwise $2 >/tmp/log 2>&1 & S=$!; wait_until is_next $before
            echo "$1 $2: attached $(($(seq) - before))"
            busybox sleep 1; [ -z "$1" ] || busybox kill $1 $S
            until_state disabled && echo taken over
            then=$(ran); busy --duration 1 >/dev/null && [ $(ran) -gt $then ] && echo work goes on
            wait $S; echo status $?; busybox cat /tmp/log
            echo end
        }
        end -INT; end -TERM; end -KILL; end "" "--inject-fault error"; end "" "--inject-fault stall"
        "#;
    let out = stdout(run("", script));
    let said = [
        ("status 0", "unregistered from user space"),
        ("status 0", "unregistered from user space"),
        ("status 137", "schedules this machine"),
        ("status 2", "injected fault"),
        ("status 2", "runnable task stall"),
    ];
    let ends: Vec<&str> = out.split_terminator("end\n").collect();
    assert_eq!(ends.len(), said.len(), "{out}");
    for (end, (status, said)) in ends.iter().zip(said) {
        for expected in ["attached 1", "taken over", "work goes on", status, said] {
            assert!(end.contains(expected), "no {expected:?} in {end}");
        }
    }
}

#[test]
fn what_cannot_be_attached_says_why_in_a_line() {
    let script = r#"
        scx_threadwise 2>&1; echo status $?
        busybox mkdir -p /etc; echo user:x:1000:1000::/:/bin/sh >/etc/passwd; busybox cp /bin/scx_threadwise /tmp/copy
        busybox start-stop-daemon -S -c user -x /tmp/copy 2>&1; echo status $?
        busybox unshare -m sh -c 'busybox umount -l /sys; scx_threadwise 2>&1; echo status $?'
        "#;
    let out = stdout(run("scx_threadwise", script));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 6, "{out}");
    assert!(
        lines[0].contains("another sched_ext scheduler is attached") && lines[0].contains("stop it first"),
        "{out}"
    );
    assert!(lines[2].contains("needs root"), "{out}");
    // Without sysfs the guest's kernel looks like one without sched_ext.
    assert!(
        lines[4].contains("has no sched_ext") && lines[4].contains("CONFIG_SCHED_CLASS_EXT=y"),
        "{out}"
    );
    assert_eq!([lines[1], lines[3], lines[5]], ["status 2"; 3], "{out}");
}

/// What the machine and the options switch on is compiled in or left out before the verifier looks at the rest, which
/// has to fit its limits however much of it there is: 512 bytes of stack below each hook have been too few for a change
/// that only equal CPUs were tried with.
#[test]
fn it_loads_whatever_it_is_told() {
    let told = [
        "--machine one-octo --alternate resident --partial --ignore-cgroups --record /tmp/decisions",
        "--machine three-kinds --alternate faults --programs 10",
        "--machine hybrid-8-hidden --alternate faults --programs 10 --record /tmp/decisions",
        "--machine smt-8-hidden --programs 10",
        "--machine smt-8 --mode performance --share crew --pairing faults --record /tmp/decisions",
        "--machine two-quads --mode performance --pairing resident --programs 10",
        "--machine four-duals --mode powersave --share crew --ignore-cgroups",
        "--machine unequal-everything.toml --mode performance --share crew --programs 10 --record /tmp/decisions",
        "--machine unequal-everything.toml --mode powersave --partial",
    ];
    let attempts: String = told.map(|told| format!("attempt {told}\n")).concat();
    let script = format!(
        r#"cd /tmp
        busybox printf '%s\n' 'name = "unequal-everything"' 'topology = "package:2 llc:1 core:2 pu:2"' \
            '[[capacity]]' 'cpus = "0-3"' 'capacity = 1024' '[[capacity]]' 'cpus = "4-7"' 'capacity = 640' \
            >unequal-everything.toml
        attempt() {{
            attach "$@"; busy --duration 0.2 >/dev/null; echo $(state) $*; busybox kill -INT $S; wait $S; echo $?
        }}
        {attempts}"#
    );
    let out = stdout(run("", &script));
    let expected: String = told
        .map(|told| format!("{}\n0\n", format!("enabled {told}").trim_end()))
        .concat();
    assert_eq!(out, expected);
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_partial_scheduler_has_those_who_ask_for_it() {
    let script = r#"
        ext() { busybox awk '$1 == "ext.enabled" { print $3 }' /proc/$1/sched; }
        busy --ratio 1:1 --duration 100 >/dev/null & ours=$!; threadwise ext threadwise bench synthetic --ratio 1:1 --duration 100 >/dev/null & asks=$!
        attach; echo $(ext $ours) $(ext $asks); busybox kill -INT $S; wait $S
        attach --partial; busybox sleep 1; echo $(ext $ours) $(ext $asks); busybox kill -INT $S; wait $S; echo status $?
        busybox kill $ours $asks
        "#;
    let out = stdout(run("", script));
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        ["1 1", "0 1", "status 0"],
        "{out}"
    );
}

#[test]
fn statistics_are_printed_and_served() {
    let script = r#"
        busy --ratio 1:1 --duration 20 >/dev/null & busy --ratio 1:1 --duration 20 >/dev/null &
        busybox timeout -s INT 3 scx_threadwise --monitor 0.5 >/tmp/monitor
        busybox wc -l </tmp/monitor
        busybox tail -n 1 /tmp/monitor
        "#;
    let done = exec("smp-8", &job("scx_threadwise --stats 0.5", script));
    let printed = done.scheduler.as_ref().unwrap().log.matches("handovers ").count();
    let out = stdout(done);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(
        printed >= 2 && lines[0].parse::<u32>().unwrap() >= 2,
        "{printed} {out}"
    );
    for label in ["serial: preempted ", "| queued ", "handovers "] {
        assert!(number_after(label, lines[1]) > 0, "{label}: {out}");
    }
}
