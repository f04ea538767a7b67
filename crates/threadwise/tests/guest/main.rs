// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler and the lab on a real kernel: each test runs scripts in a guest and asserts on what happened in it.
//!
//! Nothing here asserts a time; work is compared as ratios with room, within one run. Tests share a guest for each
//! machine, and use it one after the other, because two would take each other's CPUs.

#![allow(clippy::unwrap_used)] // a test that panics has failed

mod alternation;
mod attaching;
mod boosts;
mod caches;
mod cgroups;
mod citizenship;
mod cost;
mod counting;
mod decisions;
mod drift;
mod explain;
mod fairness;
mod homes;
mod interactive;
mod laboratory;
#[path = "../../../../tests/notes.rs"]
mod notes;
mod pairing;
mod placement;
mod places;
mod programs;
mod servers;
mod soak;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notes::note;
use threadwise_lab::exec::{Done, Job};

/// A run that lost more of its time than this shows nothing if it does not show what it should.
const LOST_LIMIT: f64 = 0.02;
/// How fast the guests' CPUs are, in million instructions a second; less once a host could not keep up. Only ratios and
/// counts are asserted, which do not depend on it.
static MIPS: AtomicU32 = AtomicU32::new(60);
/// Slower than this no host is.
const LEAST_MIPS: u32 = 15;
/// Guests that went away; more than so many are no accident.
static NR_GONE: AtomicU32 = AtomicU32::new(0);
const MOST_GONE: u32 = 3;
/// What the tests' scripts use besides busybox and the benchmark.
const PROGRAMS: [&str; 6] = [
    "scx_threadwise",
    "stress-ng",
    "chrt",
    "perf",
    "omp-stencil",
    "newborns",
];

/// The guests that are up, by machine. They end with this process.
static GUESTS: Mutex<BTreeMap<String, Guest>> = Mutex::new(BTreeMap::new());

fn mips() -> String {
    MIPS.load(Ordering::Relaxed).to_string()
}

/// The host cannot keep up: from here on guests are half as fast. False if they are slow already.
fn slow_down() -> bool {
    let mips = MIPS.load(Ordering::Relaxed);
    if mips / 2 < LEAST_MIPS {
        return false;
    }
    note(&format!(
        "the host could not keep up: from some test on with {} MIPS",
        mips / 2
    ));
    MIPS.store(mips / 2, Ordering::Relaxed);
    for (_, guest) in std::mem::take(&mut *alone()) {
        guest.end();
    }
    true
}

/// Waits for whoever uses a guest.
fn alone() -> MutexGuard<'static, BTreeMap<String, Guest>> {
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
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
    let mut command = Command::new(program);
    // Runs are kept for nobody here.
    command.env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// A guest that carries out one job after the other.
struct Guest {
    serve: Child,
    answers: BufReader<ChildStdout>,
}

impl Guest {
    /// A machine, after which options of `lab serve` may stand.
    fn boot(machine: &str) -> Self {
        let (machine, options) = machine.split_at(machine.find(" --").unwrap_or(machine.len()));
        let compiled = Path::new(env!("CARGO_TARGET_TMPDIR"));
        decisions::compile_newborns(compiled);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(compiled.into()).chain(std::env::split_paths(&path));
        let mut serve = threadwise()
            .env("PATH", std::env::join_paths(path).unwrap())
            .args(["lab", "serve", "--machine", machine, "--mips", &mips()])
            .args(options.split_whitespace())
            .args(PROGRAMS.iter().flat_map(|program| ["--program", program]))
            .args(
                servers::programs()
                    .iter()
                    .flat_map(|program| ["--program", program]),
            )
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(serve.stdout.take().unwrap());
        Self { serve, answers }
    }

    /// What came of the job, or what the guest said instead; nothing if it is gone.
    fn carry_out(&mut self, job: &Job) -> Result<Done, String> {
        let mut ask = || -> std::io::Result<String> {
            let mut answer = String::new();
            writeln!(
                self.serve.stdin.as_ref().unwrap(),
                "{}",
                serde_json::to_string(job)?
            )?;
            self.answers.read_line(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|_| answer)
    }

    fn end(mut self) {
        drop(self.serve.stdin.take());
        self.serve.wait().unwrap();
    }
}

/// Carries out jobs on a machine, one after the other. A guest in which one went wrong is not used again.
///
/// Emulated kernels crash now and then while they change their own code (one guest in some ten that attach a dozen
/// schedulers; `lab serve` prints its console). Then all jobs are carried out once more, in a new guest.
fn exec_all<const N: usize>(machine: &str, jobs: [&Job; N]) -> [Done; N] {
    let mut guests = alone();
    let mut guest = guests.remove(machine).unwrap_or_else(|| Guest::boot(machine));
    let carry_out = |guest: &mut Guest| jobs.map(|job| guest.carry_out(job).map_err(|answer| (job, answer)));
    let mut done = carry_out(&mut guest);
    // It answers whatever happens, unless it is gone.
    if done
        .iter()
        .any(|done| matches!(done, Err((_, answer)) if answer.is_empty()))
    {
        let nr_gone = NR_GONE.fetch_add(1, Ordering::Relaxed) + 1;
        let commands: Vec<_> = jobs.iter().map(|job| job.command.join(" ")).collect();
        note(&format!(
            "a guest {machine} was gone, and all was done once more in another: {commands:?}"
        ));
        assert!(
            nr_gone <= MOST_GONE,
            "{nr_gone} guests are gone, {jobs:?} was the last one's"
        );
        guest.end();
        guest = Guest::boot(machine);
        done = carry_out(&mut guest);
    }
    if done
        .iter()
        .all(|done| done.as_ref().is_ok_and(|done| done.status == Some(0)))
    {
        guests.insert(machine.into(), guest);
    } else {
        guest.end();
    }
    done.map(|done| done.unwrap_or_else(|(job, answer)| panic!("{answer:?} was the answer to {job:?}")))
}

fn exec(machine: &str, job: &Job) -> Done {
    let [done] = exec_all(machine, [job]);
    done
}

/// A script with functions that start and stop the scheduler themselves; under a scheduler, or the kernel's if that is
/// empty.
fn job(scheduler: &str, script: &str) -> Job {
    const FUNCTIONS: &str = r#"
        state() { busybox cat /sys/kernel/sched_ext/state; }
        seq() { busybox cat /sys/kernel/sched_ext/enable_seq; }
        is_state() { [ "$(state)" = "$1" ]; }
        wait_until() { n=0; until "$@"; do [ $n -lt 600 ] || return 1; busybox sleep 0.1; n=$((n+1)); done; }
        until_state() { wait_until is_state "$1"; }
        attach() { scx_threadwise "$@" >/tmp/log 2>&1 & S=$!; until_state enabled || { busybox cat /tmp/log; exit 9; }; }
        busy() { threadwise bench synthetic --phase-units 500 --threads 8 "$@"; }
        serial() { threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf "$@"; }
        "#;
    Job {
        scheduler: scheduler.split_whitespace().map(String::from).collect(),
        command: ["sh", "-c", &format!("{FUNCTIONS}\n{script}")]
            .map(String::from)
            .to_vec(),
        deadline_s: 300,
        governed: true,
    }
}

/// The job at the speed of the host: nothing in it depends on how fast CPUs are.
fn as_fast_as_possible(job: Job) -> Job {
    Job {
        governed: false,
        ..job
    }
}

/// Runs a script on smp-8, as fast as possible.
fn run(scheduler: &str, script: &str) -> Done {
    exec("smp-8", &as_fast_as_possible(job(scheduler, script)))
}

/// Carries a job out and returns what was made of its output. If that does not show what it should, and the host kept
/// the guest from running, it shows nothing, and all is done again, at last on slower machines.
fn until_shown<T: std::fmt::Debug>(
    machine: &str,
    job: &Job,
    read: impl Fn(&str) -> T,
    shows: impl Fn(&T) -> bool,
) -> T {
    let mut pauses_s = [1, 5, 15].into_iter();
    loop {
        let done = exec(machine, job);
        let lost = done.lost;
        let last = read(&stdout(done));
        if shows(&last) || lost <= LOST_LIMIT {
            return last;
        }
        note(&format!(
            "done again: {:.1} % of the time was lost, and this shows nothing: {last:?}",
            lost * 100.0
        ));
        match pauses_s.next() {
            Some(pause_s) => std::thread::sleep(Duration::from_secs(pause_s)),
            None if slow_down() => {}
            None => return last,
        }
    }
}

/// Runs a script whose programs print reports, and returns what these say of a field, which has to hold.
fn measured_by(
    field: &str,
    machine: &str,
    scheduler: &str,
    script: &str,
    holds: impl Fn(&[f64]) -> bool,
) -> Vec<f64> {
    let job = job(scheduler, script);
    until_shown(
        machine,
        &job,
        |out| reported(field, out),
        |reports| holds(reports),
    )
}

/// The same for the work that programs report, on smp-8.
fn measured(scheduler: &str, script: &str, holds: impl Fn(&[f64]) -> bool) -> Vec<f64> {
    measured_by("work_units", "smp-8", scheduler, script, holds)
}

/// What a command that succeeds prints as JSON.
fn json(command: &mut Command) -> serde_json::Value {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What it printed, after it and its scheduler ended well.
fn stdout(done: Done) -> String {
    let well = |end: &threadwise_lab::exec::SchedulerEnd| !end.thrown_out && end.status == Some(0);
    assert!(
        done.status == Some(0) && done.scheduler.as_ref().is_none_or(well),
        "{done:#?}"
    );
    done.stdout
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

/// The number after the label in a line of statistics.
fn number_after(label: &str, line: &str) -> u64 {
    let (_, after) = line.split_once(label).unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}
