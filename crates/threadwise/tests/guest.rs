// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler and the lab on a real kernel: each test boots a guest and asserts on what happened in it.
//!
//! Nothing here asserts a time; work is compared as ratios with room, within one boot. Guests boot one at a
//! time, because two would take each other's CPUs.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use threadwise_policy::{Class, Run, Task, Tunables, makes_room};

static ONE_GUEST: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The command under test; the scheduler lies beside it, which is also where the lab looks for it.
fn threadwise() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_threadwise"));
    let scheduler = program.with_file_name("scx_threadwise");
    assert!(
        scheduler.is_file(),
        "{} is missing: run the tests through make test",
        scheduler.display()
    );
    Command::new(program)
}

/// Runs a shell script in a guest, under a scheduler if one is named.
fn guest(scheduler: Option<&str>, options: &[&str], script: &str) -> Output {
    let _guard = alone();
    let mut command = threadwise();
    command.args(["lab", "exec", "--program", "scx_threadwise"]);
    if !options.contains(&"--machine") {
        command.args(["--machine", "smp-8", "--mips", "60"]);
    }
    if let Some(scheduler) = scheduler {
        command.args(["--scheduler", scheduler]);
    }
    command.args(options).args(["sh", "-c", script]).output().unwrap()
}

/// As [`guest`], for scripts that print reports of programs, whose work has to hold. If it does not, and the host kept
/// the guest from running, that shows nothing, and it runs again.
fn measured(
    scheduler: Option<&str>,
    options: &[&str],
    script: &str,
    holds: impl Fn(&[f64]) -> bool,
) -> Output {
    measured_by("work_units", scheduler, options, script, holds)
}

/// The same for what the reports say of another field.
fn measured_by(
    field: &str,
    scheduler: Option<&str>,
    options: &[&str],
    script: &str,
    holds: impl Fn(&[f64]) -> bool,
) -> Output {
    let shows_nothing = |output: &Output| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let held = output.status.success() && holds(&reported(field, &text(&output.stdout)));
        !held && text(&output.stderr).contains("the host could not keep up")
    };
    let mut output = guest(scheduler, options, script);
    for pause_s in [1, 5, 15, 30] {
        if !shows_nothing(&output) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_secs(pause_s));
        output = guest(scheduler, options, script);
    }
    output
}

/// What it printed, after it ended well.
fn stdout(output: Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status);
    out
}

/// Functions for scripts that start and stop the scheduler themselves.
const SCRIPT: &str = r#"
state() { busybox cat /sys/kernel/sched_ext/state; }
until_state() { n=0; while [ "$(state)" != "$1" ] && [ $n -lt 600 ]; do busybox sleep 0.1; n=$((n+1)); done; [ "$(state)" = "$1" ]; }
attach() { scx_threadwise "$@" >/tmp/log 2>&1 & S=$!; until_state enabled || { busybox cat /tmp/log; exit 9; }; }
busy() { threadwise bench synthetic --phase-units 500 --threads 8 "$@"; }
"#;

fn script(body: &str) -> String {
    format!("{SCRIPT}\n{body}")
}

#[test]
fn counts_end_at_zero_after_every_way_to_come_and_go() {
    // Ready when the scheduler attaches, dying, killed, executing (stress-ng's --exec does so from threads that do not
    // lead their group), forking, changing class, affinity and
    // priority, from threads and processes. The loader ends with status 0 only if every count is zero then.
    let stress = script(
        r#"
        busy --ratio inf:1 --duration 20 >/tmp/busy & B=$!
        attach
        stress-ng --quiet --timeout 6 --fork 2 --pthread 2 --exec 2 --vfork 1 --clone 1 --affinity 2 --schedpolicy 2 \
            --nice 1 --kill 1 --switch 2 --futex 2 --zombie 1 || exit 3
        busybox kill -9 $B
        busybox kill -INT $S; wait $S; echo "scheduler ended with $?"
        busybox cat /tmp/log
        "#,
    );
    let out = stdout(guest(
        None,
        &["--program", "stress-ng", "--deadline", "300"],
        &stress,
    ));
    assert!(out.contains("scheduler ended with 0"), "{out}");
}

#[test]
fn the_count_check_notices_counts_that_drift() {
    let out = stdout(guest(
        None,
        &[],
        &script(
            "attach --inject-fault miscount; busy --duration 1 >/tmp/out; busybox kill -INT $S; wait $S; echo status $?; busybox cat /tmp/log",
        ),
    ));
    assert!(
        out.contains("status 2") && out.contains("ready counts drifted"),
        "{out}"
    );
}

#[test]
fn the_kernel_takes_over_however_the_scheduler_ends() {
    for (end, options, said) in [
        ("busybox kill -INT $S", "", "unregistered from user space"),
        ("busybox kill -TERM $S", "", "unregistered from user space"),
        ("busybox kill -KILL $S", "", "schedules this machine"),
        ("true", "--inject-fault error", "injected fault"),
        ("true", "--inject-fault stall", "runnable task stall"),
    ] {
        let body = format!(
            "busy --duration 15 --format json >/tmp/work & B=$!
             scx_threadwise {options} >/tmp/log 2>&1 & S=$!
             n=0; while [ $n -lt 300 ] && [ \"$(busybox cat /sys/kernel/sched_ext/enable_seq)\" = 0 ]; do busybox sleep 0.1; n=$((n+1)); done
             echo attached $(busybox cat /sys/kernel/sched_ext/enable_seq)
             busybox sleep 1; {end}
             until_state disabled && echo taken over
             wait $B && echo work went on
             wait $S; busybox grep -o '\"interrupted\":false' /tmp/work; busybox cat /tmp/log"
        );
        let out = stdout(guest(None, &["--deadline", "200"], &script(&body)));
        for expected in [
            "attached 1",
            "taken over",
            "work went on",
            "\"interrupted\":false",
            said,
        ] {
            assert!(
                out.contains(expected),
                "{end} {options}: no {expected:?} in {out}"
            );
        }
    }
}

#[test]
fn what_cannot_be_attached_says_why_in_a_line() {
    let out = stdout(guest(
        Some("scx_threadwise"),
        &[],
        "scx_threadwise 2>&1; echo status $?; busybox mkdir -p /etc; echo user:x:1000:1000::/:/bin/sh >/etc/passwd; busybox cp /bin/scx_threadwise /tmp/copy; busybox start-stop-daemon -S -c user -x /tmp/copy 2>&1; echo status $?; busybox unshare -m sh -c 'busybox umount -l /sys; scx_threadwise 2>&1; echo status $?'",
    ));
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

/// What the reports of several programs say of this, from lines of JSON.
fn reported(field: &str, out: &str) -> Vec<f64> {
    out.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()[field]
                .as_f64()
                .unwrap()
        })
        .collect()
}

fn work(out: &str) -> Vec<f64> {
    reported("work_units", out)
}

/// The share of a free serial program's work that one gets which may run on CPU 3 only, while two parallel programs
/// and two serial ones load all eight CPUs.
fn pinned_share(scheduler: &str, holds: impl Fn(&[f64]) -> bool) -> Output {
    let body = script(
        r#"
        for ratio in inf:1 1:inf; do for i in 1 2; do
            threadwise bench synthetic --threads 8 --phase-units 50000 --ratio $ratio --duration 6 >/dev/null &
        done; done
        busybox taskset 8 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 5 --format json >/tmp/pinned & P=$!
        threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 5 --format json >/tmp/free & F=$!
        wait $P $F; busybox cat /tmp/pinned /tmp/free
        "#,
    );
    measured(Some(scheduler), &[], &body, holds)
}

#[test]
fn pinned_tasks_are_not_starved_by_serial_and_parallel_programs() {
    // Its fair share of CPU 3 beside two other tasks is a third.
    let done = work(&stdout(pinned_share("scx_threadwise", |done| {
        done[0] > 0.2 * done[1]
    })));
    assert_eq!(done.len(), 2);
    assert!(
        done[0] > 0.2 * done[1],
        "pinned {} against {} units of a serial program that may go anywhere",
        done[0],
        done[1]
    );
}

#[test]
fn a_scheduler_that_starves_pinned_tasks_is_noticed() {
    let output = pinned_share("scx_threadwise --inject-fault starve", |done| {
        done[0] < 0.2 * done[1]
    });
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let starved = output.status.success() && {
        let done = work(&stdout(output));
        done[0] < 0.2 * done[1]
    };
    assert!(starved || message.contains("runnable task stall"), "{message}");
}

#[test]
fn per_cpu_kernel_threads_run_beside_hogs() {
    // Refreshing the statistics of memory queues work on every CPU's kworker and waits for all of them
    // (schedule_on_each_cpu, mm/vmstat.c). It must be done twenty times while hogs hold all CPUs.
    let body = script(
        r#"
        for i in 1 2 3; do busy --ratio inf:1 --duration 30 >/dev/null & H=$!; done
        for i in 1 2 3 4; do busy --ratio 1:inf --duration 30 >/dev/null & done
        busybox sleep 2; n=0
        for i in $(busybox seq 1 20); do echo 1 > /proc/sys/vm/stat_refresh && n=$((n+1)); done
        busybox kill -0 $H && echo done $n
        busybox killall threadwise
        "#,
    );
    let out = stdout(guest(Some("scx_threadwise"), &[], &body));
    assert!(out.contains("done 20"), "{out}");
}

#[test]
fn no_cpu_lags_beyond_the_watchdog() {
    // CPU 0 runs one hog and CPU 1 two for longer than the watchdog, so that the vtimes of the two CPUs drift
    // apart; then tasks come that may run on one of them only. A clock that ran away would have them wait for
    // as long, and the kernel would throw the scheduler out.
    let body = script(
        r#"
        pinned() { busybox taskset $1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration $2 --format json; }
        pinned 1 34 >/dev/null & pinned 2 34 >/dev/null & pinned 2 34 >/dev/null &
        busybox sleep 24
        pinned 1 5 >/tmp/a & A=$!; pinned 2 5 >/tmp/b & B=$!
        wait $A $B; busybox cat /tmp/a /tmp/b
        "#,
    );
    let done = work(&stdout(measured(Some("scx_threadwise"), &[], &body, |done| {
        (0.45..0.9).contains(&(done[1] / done[0]))
    })));
    let ratio = done[1] / done[0];
    assert!(
        (0.45..0.9).contains(&ratio),
        "a third of CPU 1 against half of CPU 0: {ratio} ({done:?})"
    );
}

/// The work of so many programs over that of as many equal ones at nice 5.
fn work_over_nice_5(programs: usize, options: &str, scheduler: &str, expected: std::ops::Range<f64>) -> f64 {
    let body = script(&format!(
        r#"
        bench="threadwise bench synthetic {options} --duration 6 --format json"
        for i in $(busybox seq {programs}); do
            $bench >/tmp/a.$i &
            sh -c "busybox renice -n 5 \$\$ >/dev/null; exec $bench" >/tmp/b.$i &
        done
        wait; busybox cat /tmp/a.* /tmp/b.*
        "#
    ));
    let ratio = |done: &[f64]| {
        let (even, nice) = done.split_at(programs);
        even.iter().sum::<f64>() / nice.iter().sum::<f64>()
    };
    let output = measured(Some(scheduler), &[], &body, |done| {
        done.len() == 2 * programs && expected.contains(&ratio(done))
    });
    let done = work(&stdout(output));
    assert_eq!(done.len(), 2 * programs);
    ratio(&done)
}

/// nice 5 has 335/1024 of the weight of nice 0 (kernel/sched/core.c, sched_prio_to_weight): 3.06 to 1.
fn check_weights(programs: usize, options: &str) {
    let ratio = work_over_nice_5(programs, options, "scx_threadwise", 2.0..4.5);
    assert!((2.0..4.5).contains(&ratio), "{ratio}");
    let without = "scx_threadwise --inject-fault weightless";
    let weightless = work_over_nice_5(programs, options, without, 0.0..2.0);
    assert!(weightless < 2.0, "{weightless} although nice values do not count");
}

#[test]
fn parallel_programs_share_by_weight() {
    check_weights(1, "--ratio inf:1 --phase-units 50000 --threads 8");
}

#[test]
fn serial_programs_share_by_weight() {
    check_weights(8, "--ratio 1:inf --phase-units 500 --threads 1");
}

#[test]
fn a_heavier_parallel_program_gets_no_less_beside_a_serial_one() {
    // Both on one CPU. What a serial program is boosted is time that the other waits, and is to have again: as long as
    // that was withheld from heavy ones, nice -10 got a fifth of what nice 0 did.
    let body = script(
        r#"
        for nice in 0 -10; do
            busybox taskset 8 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 30 >/dev/null & S=$!
            busybox sleep 1
            busybox taskset 8 sh -c "busybox renice -n $nice \$\$ >/dev/null; exec threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration 6 --format json"
            kill $S; wait $S
        done
        "#,
    );
    let holds = |done: &[f64]| done.len() == 2 && done[1] > 0.9 * done[0];
    let done = work(&stdout(measured(Some("scx_threadwise"), &[], &body, holds)));
    assert!(holds(&done), "nice 0 and -10: {done:?}");
}

/// What programs get beside 80 serial ones, ten times as many as there are CPUs, eight of those at nice 5.
#[derive(Debug)]
struct Crowd {
    /// A parallel program that meets every few milliseconds, over its fair share.
    parallel: f64,
    /// The serial program that gets least over the one that gets most, among those of nice 0.
    evenness: f64,
    /// A serial program of nice 0 over one of nice 5, on the mean.
    weight: f64,
}

fn crowd(scheduler: &str, holds: impl Fn(&Crowd) -> bool) -> Crowd {
    let body = script(
        r#"
        serial="threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 200 --format json"
        i=10; while [ $i -lt 82 ]; do $serial >/tmp/serial.$i & PIDS="$PIDS $!"; i=$((i+1)); done
        while [ $i -lt 90 ]; do
            sh -c "busybox renice -n 5 \$\$ >/dev/null; exec $serial" >/tmp/serial.$i & PIDS="$PIDS $!"; i=$((i+1))
        done
        busybox sleep 10
        busy --ratio inf:1 --duration 6 --format json >/tmp/parallel || exit 3
        kill $PIDS; wait; busybox cat /tmp/parallel /tmp/serial.*
        "#,
    );
    let of = |rates: &[f64]| {
        let (even, nice) = rates[1..].split_at(72);
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        Crowd {
            parallel: rates[0] / rates.iter().sum::<f64>() / (8.0 / 88.0),
            evenness: even.iter().copied().fold(f64::INFINITY, f64::min)
                / even.iter().copied().fold(0.0, f64::max),
            weight: mean(even) / mean(nice),
        }
    };
    let output = measured_by(
        "work_units_per_s",
        Some(scheduler),
        &["--deadline", "300"],
        &body,
        |rates| rates.len() == 81 && holds(&of(rates)),
    );
    let rates = reported("work_units_per_s", &stdout(output));
    assert_eq!(rates.len(), 81);
    of(&rates)
}

#[test]
fn ten_times_more_serial_programs_than_cpus_do_not_starve_a_parallel_one() {
    let fair =
        |crowd: &Crowd| crowd.parallel > 0.07 && crowd.evenness > 0.4 && (2.0..4.5).contains(&crowd.weight);
    let found = crowd("scx_threadwise", fair);
    assert!(fair(&found), "{found:?}");
    let ageless = crowd("scx_threadwise --inject-fault ageless", |crowd| {
        crowd.parallel < 0.07
    });
    assert!(
        ageless.parallel < 0.07,
        "{ageless:?}, although the boost does not age"
    );
}

/// How many phases a parallel program gets through that is bound to one CPU beside 80 serial ones, bound there too, while
/// the other seven CPUs have nothing to do.
fn phases_among_bound_serial_programs(scheduler: &str, holds: impl Fn(f64) -> bool) -> f64 {
    let body = script(
        r#"
        serial="busybox taskset 8 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 200"
        for i in $(busybox seq 80); do $serial >/dev/null & PIDS="$PIDS $!"; done
        busybox sleep 6
        busybox taskset 8 threadwise bench synthetic --ratio inf:1 --threads 3 --phase-units 50 --duration 12 --format json
        kill $PIDS
        "#,
    );
    let output = measured_by(
        "rounds",
        Some(scheduler),
        &["--deadline", "300"],
        &body,
        |rounds| rounds.len() == 1 && holds(rounds[0]),
    );
    reported("rounds", &stdout(output))[0]
}

#[test]
fn a_parallel_task_bound_among_many_serial_ones_has_its_turn() {
    // Each of 80 with a full boost would go before it for 200 ms, longer than the watchdog waits. What the machine's
    // other CPUs do says nothing about this queue.
    let ageless =
        phases_among_bound_serial_programs("scx_threadwise --inject-fault ageless", |rounds| rounds <= 3.0);
    let ours = phases_among_bound_serial_programs("scx_threadwise", |rounds| rounds > 5.0 * ageless);
    assert!(
        ours > 5.0 * ageless && ours > 5.0,
        "{ours} phases, and {ageless} if boosts do not age"
    );
}

#[test]
fn cpus_come_and_go_under_load() {
    // The same scheduler goes on, and a task that may run on one of these CPUs only is moved by the kernel, and
    // counts are zero at the end (else the scheduler's status is 2).
    let body = script(
        r#"
        attach; seq=$(busybox cat /sys/kernel/sched_ext/enable_seq)
        busy --ratio inf:1 --duration 60 >/dev/null & busy --ratio 1:1 --duration 60 >/dev/null &
        busybox taskset 40 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 60 >/dev/null & P=$!
        n=0
        for i in 1 2 3 4 5; do
            for c in 6 7 3; do echo 0 >/sys/devices/system/cpu/cpu$c/online && n=$((n+1)); done
            busybox sleep 0.3
            for c in 3 6 7; do echo 1 >/sys/devices/system/cpu/cpu$c/online && n=$((n+1)); done
            busybox sleep 0.3
        done
        busybox kill -0 $P && echo changes $n
        [ "$(state)" = enabled ] && [ "$(busybox cat /sys/kernel/sched_ext/enable_seq)" = "$seq" ] && echo same scheduler
        busybox killall threadwise; busybox kill -INT $S; wait $S; echo status $?; busybox cat /tmp/log
        "#,
    );
    let out = stdout(guest(None, &["--deadline", "300"], &body));
    for expected in ["changes 30", "same scheduler", "status 0"] {
        assert!(out.contains(expected), "no {expected:?} in {out}");
    }
}

#[test]
fn a_task_leaves_the_cpu_that_a_real_time_hog_takes() {
    // Six times a real-time hog takes the very CPU on which a serial task runs, 0.3 s of 4 s each. With a long slice
    // the task is always in the middle of one; if it stayed in the CPU's local queue it would lose nearly half.
    let body = script(
        r#"
        serial="threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 4 --format json"
        $serial
        $serial >/tmp/out & P=$!
        for i in 1 2 3 4 5 6; do
            busybox sleep 0.2
            cpu=$(busybox awk '{print $39}' /proc/$P/stat)
            chrt -f 50 busybox taskset $(busybox printf %x $((1 << cpu))) threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 0.3 >/dev/null
        done
        wait $P; busybox cat /tmp/out
        "#,
    );
    let done = work(&stdout(measured(
        Some("scx_threadwise --slice-us 100000"),
        &["--program", "chrt"],
        &body,
        |done| done[1] > 0.9 * done[0],
    )));
    let share = done[1] / done[0];
    assert!(share > 0.9, "{share} of its speed alone");
}

#[test]
fn ids_beyond_the_pid_max_at_loading_are_no_end() {
    // The loader starts anew with a larger map; no fork fails and counts end at zero.
    let body = script(
        r#"
        echo 1000 >/proc/sys/kernel/pid_max
        attach
        echo 40000 >/proc/sys/kernel/pid_max
        n=0; while [ $n -lt 1200 ]; do busybox true || echo failed; n=$((n+1)); done
        busybox sleep 1; until_state enabled && echo enabled again
        busybox kill -INT $S; wait $S; echo status $?; busybox cat /tmp/log
        "#,
    );
    let out = stdout(guest(None, &["--deadline", "200"], &body));
    for expected in ["enabled again", "status 0", "beyond the kernel.pid_max"] {
        assert!(out.contains(expected), "no {expected:?} in {out}");
    }
    assert!(!out.contains("failed"), "{out}");
}

#[test]
fn statistics_are_printed_and_served() {
    let body = script(
        r#"
        scx_threadwise --stats 0.5 >/tmp/stats 2>/tmp/log & S=$!; until_state enabled || exit 9
        busy --ratio 1:1 --duration 6 >/dev/null & busy --ratio 1:1 --duration 6 >/dev/null & 
        busybox timeout -s INT 3 scx_threadwise --monitor 0.5 >/tmp/monitor
        busybox kill -INT $S; wait $S; echo status $?
        echo "$(busybox wc -l </tmp/stats) $(busybox wc -l </tmp/monitor)"
        busybox tail -n 1 /tmp/monitor
        "#,
    );
    let out = stdout(guest(None, &[], &body));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "status 0"), "{out}");
    let counts: Vec<u32> = lines[1].split(' ').map(|n| n.parse().unwrap()).collect();
    assert!(counts.iter().all(|&n| n >= 2), "{out}");
    for label in ["serial: preempted ", "| queued ", "handovers "] {
        assert!(number_after(label, lines[2]) > 0, "{label}: {out}");
    }
}

/// The number after the label in a line of statistics.
fn number_after(label: &str, line: &str) -> u64 {
    let (_, after) = line.split_once(label).unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn seniority_is_handed_on_after_a_turn() {
    // Two programs in parallel phases that do not end: whoever is senior stays so for the length of its turn.
    let handovers = |options: &str| -> u64 {
        let body = script(&format!(
            r#"
            attach {options}
            for i in 1 2; do threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 10000000 --duration 8 >/dev/null & done
            busybox sleep 2; busybox timeout -s INT 4 scx_threadwise --monitor 1; busybox killall threadwise; true
            "#
        ));
        let out = stdout(guest(None, &[], &body));
        out.lines().map(|line| number_after("handovers ", line)).sum()
    };
    let (often, seldom) = (
        handovers("--senior-turn-us 50000"),
        handovers("--senior-turn-us 10000000"),
    );
    assert!(
        often >= 10 && seldom <= 2,
        "{often} with turns of 50 ms, {seldom} with turns of 10 s"
    );
}

/// Asks the policy's native build what the BPF program asked, and returns what it answers.
fn replay(tunables: &Tunables, function: &str, input: &[u64]) -> u64 {
    let task = |at: usize| Task {
        vtime: input[at],
        class: Class::try_from(input[at + 1]).unwrap(),
        nr_waiting: input[at + 2] as u32,
    };
    match function {
        "tw_class_of" => tunables.class_of(input[0] as u32, input[1] != 0, input[2] != 0) as u64,
        "tw_vtime_advance" => {
            let run = Run {
                before_ns: input[1],
                since_ns: input[2],
                weight: input[3] as u32,
                capacity: input[4] as u32,
                nr_waiting: input[5] as u32,
                slept: input[6] != 0,
            };
            let class = Class::try_from(input[8]).unwrap();
            tunables.vtime_advance(input[0], &run, input[7], class)
        }
        "tw_key" => tunables.key(&task(0)),
        "tw_goes_first" => u64::from(tunables.goes_first(&task(0), &task(3))),
        "tw_preempts" => u64::from(tunables.preempts(&task(0), &task(3))),
        "tw_yields" => u64::from(tunables.yields(&task(0), &task(3))),
        "tw_due_in" => tunables.due_in(&task(0), &task(3)),
        "tw_makes_room" => u64::from(makes_room(&task(0), input[3] != 0, input[4] != 0)),
        "tw_clock" => tunables.clock(input[0], &task(1), input[4] != 0),
        other => panic!("{other} is no function of the policy"),
    }
}

#[test]
fn the_kernel_and_the_native_build_decide_alike() {
    // Every decision of a second under load, bit for bit.
    let body = script(
        r#"
        attach --record /tmp/decisions
        busy --ratio inf:1 --duration 5 >/dev/null & busy --ratio 1:1 --duration 5 >/dev/null & busy --ratio 1:1 --duration 5 >/dev/null &
        for i in 1 2 3 4 5 6 7; do busy --ratio 1:inf --duration 5 >/dev/null & done
        busybox taskset 8 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 5 >/dev/null &
        busybox sleep 3; busybox killall threadwise; busybox kill -INT $S; wait $S || busybox cat /tmp/log; busybox cat /tmp/decisions
        "#,
    );
    let out = stdout(guest(None, &[], &body));
    let mut lines = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let settings = lines.next().unwrap();
    let setting = |name: &str| settings[name].as_u64().unwrap();
    let tunables = Tunables {
        slice_ns: setting("slice_ns"),
        rotate_ns: setting("rotate_ns"),
        serial_boost_ns: setting("serial_boost_ns"),
        senior_boost_ns: setting("senior_boost_ns"),
        senior_turn_ns: setting("senior_turn_ns"),
        vtime_window_ns: setting("vtime_window_ns"),
        vtime_lag_ns: setting("vtime_lag_ns"),
        serial_threshold: setting("serial_threshold") as u32,
        boost_shares: setting("boost_shares") as u32,
    };
    // The simulator's scheduler has the same settings.
    assert_eq!(Tunables::default(), tunables);
    let mut seen = BTreeMap::<String, (u32, BTreeSet<u64>)>::new();
    for line in lines {
        let function = line["function"].as_str().unwrap();
        let input: Vec<u64> = line["in"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .collect();
        let answer = line["out"].as_u64().unwrap();
        assert_eq!(replay(&tunables, function, &input), answer, "{line}");
        let (count, answers) = seen.entry(function.into()).or_default();
        *count += 1;
        answers.insert(answer);
    }
    // The comparison means something only if every function was asked, and answered this and that.
    assert_eq!(seen.len(), 9, "{seen:?}");
    for (function, (count, answers)) in &seen {
        assert!(
            *count >= 50 && answers.len() >= 2,
            "{function}: {count} times, {} answers",
            answers.len()
        );
    }
    // A build that decides otherwise would be noticed.
    let other = Tunables {
        rotate_ns: tunables.rotate_ns + 1,
        ..tunables
    };
    let due_in = |tunables| replay(tunables, "tw_due_in", &[0, 3, 0, 0, 3, 0]);
    assert_ne!(due_in(&other), due_in(&tunables));
}

#[test]
fn a_serial_program_keeps_a_core_beside_a_parallel_one() {
    // Under fair sharing, nine threads on eight cores, it would have 8/9 of one at best, and half in the worst case.
    let body = script(
        r#"
        busy --ratio 1:inf --duration 3 --format json
        busy --ratio inf:1 --duration 6 >/dev/null & 
        busybox sleep 1
        busy --ratio 1:inf --duration 4 --format json
        "#,
    );
    let done = work(&stdout(measured(Some("scx_threadwise"), &[], &body, |done| {
        done[1] / 4.0 > 0.95 * done[0] / 3.0
    })));
    let share = done[1] / 4.0 / (done[0] / 3.0);
    assert!(share > 0.95, "{share} of its speed alone");
}

/// How many instructions two processes take that wake each other this often, and how often the kernel looked for what to
/// run next meanwhile.
fn instructions_of_pipe(scheduler: Option<&str>, wakeups: u64) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let options = ["--program", "perf", "--profile", path.to_str().unwrap()];
    let body = format!("perf bench sched pipe -l {}", wakeups / 2);
    stdout(guest(scheduler, &options, &body));
    let profile: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let calls: u64 = profile["functions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|function| function["name"] == "__schedule")
        .map(|function| function["calls"].as_u64().unwrap())
        .sum();
    (profile["instructions"].as_u64().unwrap(), calls)
}

#[test]
fn a_switch_costs_hardly_more_instructions_than_under_the_kernels_scheduler() {
    // Loading the program is a tenth of it.
    const WAKEUPS: u64 = 24_000;
    let [kernel, ours] = [None, Some("scx_threadwise")].map(|scheduler| {
        let (instructions, switches) = instructions_of_pipe(scheduler, WAKEUPS);
        // Each wakes the other, sleeps, and leaves its CPU idle.
        assert!(switches > 18 * WAKEUPS / 10, "{scheduler:?}: {switches} switches");
        instructions as f64
    });
    assert!(
        ours < 1.06 * kernel,
        "{ours} instructions for {WAKEUPS} wake-ups, {kernel} under the kernel's"
    );
}

#[test]
fn the_scheduler_switches_no_tracing_on() {
    // bpf_printk() anywhere in the object would, and every switch of the machine would pay for it from then on.
    let body = r#"
        cd /sys/kernel/tracing/events/bpf_trace/bpf_trace_printk && busybox cat enable
        echo 1 >enable && busybox cat enable
        "#;
    assert_eq!(stdout(guest(Some("scx_threadwise"), &[], body)), "0\n1\n");
}

#[test]
fn governed_cores_have_their_speeds() {
    let on = |cpu: u32| {
        format!(
            "busybox taskset {:x} threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json",
            1 << cpu
        )
    };
    let body = format!("{}; {}; {}", on(0), on(1), on(7));
    let twice = |done: &[f64]| (1.9..2.1).contains(&(done[0] / done[1]));
    let equal = |done: &[f64]| (0.97..1.03).contains(&(done[1] / done[2]));
    let options = ["--machine", "amp-8", "--mips", "60"];
    let done = work(&stdout(measured(None, &options, &body, |done| {
        twice(done) && equal(done)
    })));
    assert!(twice(&done), "CPU 0 is twice as fast: {done:?}");
    assert!(equal(&done), "CPUs 1 and 7 are equal: {done:?}");
}

#[test]
fn threads_bound_to_their_cpus_are_not_held_up_by_a_serial_program() {
    // As with OMP_PROC_BIND: eight threads, one bound to each CPU, that meet every few milliseconds. A serial program
    // comes beside them; it cannot take more than one CPU of eight, wherever it goes.
    let body = script(
        r#"
        bound() {
            threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration $1 --format json & P=$!
            busybox sleep 0.2; c=0
            for t in /proc/$P/task/*; do busybox taskset -p $(busybox printf %x $((1 << c))) ${t##*/} >/dev/null; c=$((c+1)); done
            wait $P
        }
        bound 4 >/tmp/alone
        threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 20 >/dev/null & H=$!
        bound 6 >/tmp/beside; kill $H
        busybox cat /tmp/alone /tmp/beside
        "#,
    );
    let done = work(&stdout(measured(Some("scx_threadwise"), &[], &body, |done| {
        done[1] / 6.0 > 0.6 * done[0] / 4.0
    })));
    let share = done[1] / 6.0 / (done[0] / 4.0);
    assert!(
        share > 0.6,
        "{share} of its speed alone, and fair sharing would leave 0.89"
    );
}

/// The work of a serial program on amp-8 under the scheduler, over that of one bound to the fast CPU.
fn share_of_the_fast_cpu(options: &str, beside: &str, expected: std::ops::Range<f64>) -> f64 {
    let body = format!(
        "serial=\"threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json\"
         busybox taskset 1 $serial; {beside} $serial; busybox killall threadwise; true"
    );
    let scheduler = format!("scx_threadwise {options}");
    let done = work(&stdout(measured(
        Some(&scheduler),
        &["--machine", "amp-8", "--mips", "60"],
        &body,
        |done| expected.contains(&(done[1] / done[0])),
    )));
    done[1] / done[0]
}

#[test]
fn a_serial_program_gets_the_fast_cpu() {
    let parallel =
        "threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration 20 >/dev/null &
         busybox sleep 1;";
    let alone = share_of_the_fast_cpu("--machine amp-8", "", 0.9..2.0);
    assert!(alone > 0.9, "{alone} of the fast CPU's speed, alone");
    let beside = share_of_the_fast_cpu("--machine amp-8", parallel, 0.9..2.0);
    assert!(
        beside > 0.9,
        "{beside} of the fast CPU's speed, beside a parallel program"
    );
    // The kernel of the guest does not show which CPU is fast. Who is not told mostly gets a slow one.
    let untold = share_of_the_fast_cpu("", parallel, 0.0..0.9);
    assert!(untold < 0.9, "{untold} without knowing the machine");
}

#[test]
fn no_fast_cpu_is_lost_to_programs_that_end() {
    // A thread that exits on a slow CPU may have claimed the fast one, and never goes there.
    let body = "for i in $(busybox seq 1 8); do
            threadwise bench synthetic --ratio 1:1 --threads 8 --phase-units 2000 --duration 1 --seed $i --format json
        done";
    let options = ["--machine", "amp-8", "--mips", "80"];
    let least = |done: &[f64]| {
        let most = done.iter().copied().fold(0.0, f64::max);
        done.iter().copied().fold(most, f64::min) / most
    };
    let scheduler = Some("scx_threadwise --machine amp-8");
    let done = work(&stdout(measured(scheduler, &options, body, |done| {
        least(done) > 0.85
    })));
    // Without the fast CPU it is 0.67.
    assert!(done.len() == 8 && least(&done) > 0.85, "{done:?}");
}

#[test]
fn a_parallel_program_keeps_all_cpus_of_an_unequal_machine_busy() {
    // Whenever the fast CPU goes idle, the ticks of seven slow ones see it at once; one of them may send its task.
    let body = script(
        r#"
        run() { threadwise bench synthetic --ratio $1 --threads 8 --phase-units 2000 --duration 4 --format json; }
        run inf:1; run 1:1
        attach --machine amp-8
        run inf:1; run 1:1
        "#,
    );
    let options = ["--machine", "amp-8", "--mips", "60"];
    let done = work(&stdout(measured(None, &options, &body, |done| {
        done[2] > 0.85 * done[0] && done[3] > 0.85 * done[1]
    })));
    // The kernel may have had the luck of serial phases on the fast CPU.
    for (run, kernel, ours) in [("inf:1", done[0], done[2]), ("1:1", done[1], done[3])] {
        assert!(
            ours > 0.85 * kernel,
            "{run}: {ours} units, and {kernel} under the kernel's scheduler"
        );
    }
}

#[test]
fn a_panic_and_a_hang_are_told_apart_and_said() {
    let panic = guest(None, &[], "echo c > /proc/sysrq-trigger; busybox sleep 20");
    let message = String::from_utf8_lossy(&panic.stderr).into_owned();
    assert_eq!(panic.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the guest panicked") && message.contains("sysrq"),
        "{message}"
    );

    let hang = guest(None, &["--deadline", "3"], "busybox sleep 60");
    let message = String::from_utf8_lossy(&hang.stderr).into_owned();
    assert_eq!(hang.status.code(), Some(2), "{message}");
    assert!(
        message.contains("did not finish its programs within 3 s"),
        "{message}"
    );
}

/// An experiment in a temporary folder, where what is left of a failed one goes too.
struct Experiment {
    folder: tempfile::TempDir,
}

impl Experiment {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("e.toml"), text).unwrap();
        Self { folder }
    }

    fn run(&self) -> Output {
        let _guard = alone();
        threadwise()
            .args(["lab", "run", "e.toml", "--output", "e.json"])
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    fn result(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.path("e.json")).unwrap()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn an_overloaded_host_is_no_result() {
    let experiment = Experiment::new(
        "name = 'fast'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 20000\nseconds = 1.0\nrounds = 2\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = 'inf:1', phase_units = 1000000 }\n",
    );
    let output = experiment.run();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the host could not keep up") && message.contains("lower mips"),
        "{message}"
    );
    assert!(!experiment.path("e.json").exists(), "there is no result");
    let kept = std::fs::read_to_string(experiment.path("fast.incomplete.json")).unwrap();
    assert!(
        kept.contains("\"void\": true") && !kept.contains("\"void\": false"),
        "{kept}"
    );
}

#[test]
fn what_is_interrupted_keeps_what_was_measured_and_leaves_nothing_behind() {
    let experiment = Experiment::new(
        "name = 'long'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nseconds = 0.5\nrounds = 900\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = '1:inf', phase_units = 1000, threads = 1 }\n",
    );
    let _guard = alone();
    let temporary = experiment.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut running = threadwise()
        .args(["lab", "run", "e.toml"])
        .current_dir(experiment.folder.path())
        .env("TMPDIR", &temporary)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(30));
    assert!(running.try_wait().unwrap().is_none(), "900 rounds take longer");
    // SAFETY: the child has not been waited for.
    unsafe { libc::kill(running.id() as i32, libc::SIGINT) };
    let output = running.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("interrupted") && message.contains("long.incomplete.json"),
        "{message}"
    );
    let kept = std::fs::read_to_string(experiment.path("long.incomplete.json")).unwrap();
    assert!(
        kept.contains("\"work_units\"") || kept.contains("\"performance\""),
        "{kept}"
    );
    assert_eq!(
        std::fs::read_dir(&temporary).unwrap().count(),
        0,
        "the guest's folder is gone"
    );
}

#[test]
fn a_scheduler_that_is_thrown_out_is_no_result() {
    let experiment = Experiment::new(
        "name = 'lost'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nrounds = 2\n\
         [[scheduler]]\nname = 'threadwise'\ncommand = ['scx_threadwise']\n\
         [[program]]\nname = 'killer'\ncommand = ['sh', '-c', 'busybox killall -9 scx_threadwise; busybox sleep 1']\n",
    );
    let output = experiment.run();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("threadwise was thrown out during killer"),
        "{message}"
    );
}

#[test]
fn one_to_eight_threads_scale_in_a_line() {
    let programs: String = [1, 2, 4, 8]
        .map(|n| format!("[[program]]\nname = '{n}'\nsynthetic = {{ ratio = 'inf:1', phase_units = 20000, threads = {n} }}\n"))
        .concat();
    let experiment = Experiment::new(&format!(
        "name = 'scaling'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nseconds = 3.0\nrounds = 2\n\
         runs = [['1'], ['2'], ['4'], ['8']]\n[[scheduler]]\nname = 'kernel'\n{programs}"
    ));
    stdout(experiment.run());
    let result = experiment.result();
    assert_eq!(
        (result["schema"].as_str(), result["label"].as_str()),
        (Some("threadwise.lab/1"), Some("lab"))
    );
    let total = |run: usize| {
        result["runs"][run]["schedulers"][0]["total"]["mean"]
            .as_f64()
            .unwrap()
    };
    for (run, threads) in [(1, 2.0), (2, 4.0), (3, 8.0)] {
        let efficiency = total(run) / total(0) / threads;
        assert!(
            (0.95..1.05).contains(&efficiency),
            "{threads} threads: {efficiency}"
        );
    }
}
