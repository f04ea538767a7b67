// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler and the lab on a real kernel: each test boots a guest and asserts on what happened in it.
//!
//! Nothing here asserts a time; work is compared as ratios with room, within one boot. Guests boot one at a
//! time, because two would take each other's CPUs.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    command.args([
        "lab",
        "exec",
        "--machine",
        "smp-8",
        "--mips",
        "100",
        "--program",
        "scx_threadwise",
    ]);
    if let Some(scheduler) = scheduler {
        command.args(["--scheduler", scheduler]);
    }
    command.args(options).args(["sh", "-c", script]).output().unwrap()
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
    // Ready when the scheduler attaches, dying, killed, executing, forking, changing class, affinity and
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
        "scx_threadwise 2>&1; echo status $?; busybox mkdir -p /etc; echo user:x:1000:1000::/:/bin/sh >/etc/passwd; busybox cp /bin/scx_threadwise /tmp/copy; busybox start-stop-daemon -S -c user -x /tmp/copy 2>&1; echo status $?",
    ));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(
        lines[0].contains("another sched_ext scheduler is attached") && lines[0].contains("stop it first"),
        "{out}"
    );
    assert!(lines[2].contains("needs root"), "{out}");
    assert_eq!((lines[1], lines[3]), ("status 2", "status 2"), "{out}");
}

/// Work units of the reports of several programs, from lines of JSON.
fn work(out: &str) -> Vec<f64> {
    out.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["work_units"]
                .as_f64()
                .unwrap()
        })
        .collect()
}

#[test]
fn pinned_tasks_are_not_starved_by_serial_and_parallel_programs() {
    // Two parallel programs and two serial ones on eight CPUs, and a task that may run on CPU 3 only. Alone it
    // would do some 250,000 units a second; its fair share of CPU 3 beside two other tasks is a third.
    let body = script(
        r#"
        for i in 1 2; do busy --ratio inf:1 --duration 6 >/dev/null & busy --ratio 1:inf --duration 6 >/dev/null & done
        busybox taskset 8 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 5 --format json >/tmp/pinned & P=$!
        threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 5 --format json >/tmp/free & F=$!
        wait $P $F; busybox cat /tmp/pinned /tmp/free
        "#,
    );
    let done = work(&stdout(guest(Some("scx_threadwise"), &[], &body)));
    assert_eq!(done.len(), 2);
    assert!(
        done[0] > 0.2 * done[1],
        "pinned {} against {} units of a serial program that may go anywhere",
        done[0],
        done[1]
    );
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
    let done = work(&stdout(guest(Some("scx_threadwise"), &[], &body)));
    let ratio = done[1] / done[0];
    assert!(
        (0.45..0.9).contains(&ratio),
        "a third of CPU 1 against half of CPU 0: {ratio} ({done:?})"
    );
}

#[test]
fn parallel_programs_share_by_weight() {
    // nice 5 has 335/1024 of the weight of nice 0 (kernel/sched/core.c, sched_prio_to_weight): 3.06 to 1.
    let body = script(
        r#"
        busy() { threadwise bench synthetic --threads 8 "$@"; }
        busy --ratio inf:1 --phase-units 50000 --duration 6 --format json >/tmp/a & A=$!
        sh -c "busybox renice -n 5 \$\$ >/dev/null; exec threadwise bench synthetic --ratio inf:1 --phase-units 50000 --threads 8 --duration 6 --format json" >/tmp/b & B=$!
        wait $A $B; busybox cat /tmp/a /tmp/b
        "#,
    );
    let done = work(&stdout(guest(Some("scx_threadwise"), &[], &body)));
    let ratio = done[0] / done[1];
    assert!((2.0..4.5).contains(&ratio), "{ratio} ({done:?})");
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
    let done = work(&stdout(guest(Some("scx_threadwise"), &[], &body)));
    let share = done[1] / 4.0 / (done[0] / 3.0);
    assert!(share > 0.95, "{share} of its speed alone");
}

#[test]
fn governed_cores_have_their_speeds() {
    let _guard = alone();
    let on = |cpu: u32| {
        format!(
            "busybox taskset {:x} threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json",
            1 << cpu
        )
    };
    let output = threadwise()
        .args([
            "lab",
            "exec",
            "--machine",
            "amp-8",
            "--mips",
            "100",
            "sh",
            "-c",
            &format!("{}; {}; {}", on(0), on(1), on(7)),
        ])
        .output()
        .unwrap();
    let done = work(&stdout(output));
    assert!(
        (1.9..2.1).contains(&(done[0] / done[1])),
        "CPU 0 is twice as fast: {done:?}"
    );
    assert!(
        (0.97..1.03).contains(&(done[1] / done[2])),
        "CPUs 1 and 7 are equal: {done:?}"
    );
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
fn a_scheduler_that_is_thrown_out_is_no_result() {
    let experiment = Experiment::new(
        "name = 'lost'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 100\nrounds = 2\n\
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
        "name = 'scaling'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 100\nseconds = 3.0\nrounds = 2\n\
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
