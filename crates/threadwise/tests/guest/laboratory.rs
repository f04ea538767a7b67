// SPDX-License-Identifier: GPL-2.0-only
//! The lab: its cores have their speeds, and what is no result is said and never averaged in.

use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use threadwise_lab::exec::Job;
use threadwise_lab::run::{LATE_LIMIT, LOST_LIMIT};

use super::{Guest, alone, exec_all, job, measured_by, mips, run, slow_down, stdout, threadwise};

#[test]
fn governed_cores_have_their_speeds() {
    let on = |cpu: u32| {
        format!(
            "busybox taskset {:x} threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json",
            1 << cpu
        )
    };
    let script = format!("{}; {}; {}", on(0), on(1), on(7));
    let twice = |done: &[f64]| (1.9..2.1).contains(&(done[0] / done[1]));
    let equal = |done: &[f64]| (0.97..1.03).contains(&(done[1] / done[2]));
    let done = measured_by("work_units", "amp-8", "", &script, |done| {
        twice(done) && equal(done)
    });
    assert!(twice(&done), "CPU 0 is twice as fast: {done:?}");
    assert!(equal(&done), "CPUs 1 and 7 are equal: {done:?}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn hardware_threads_share_the_speed_of_their_core() {
    // CPUs 0 and 1 are a core, CPU 2 belongs to another; the sibling that is idle takes nothing.
    let script = r#"
        on() { busybox taskset $1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json; }
        on 1
        on 1 >/tmp/a & A=$!; on 4 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b
        on 1 >/tmp/a & A=$!; on 2 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b
        "#;
    let holds = |done: &[f64]| {
        let share = |at: usize| done[at] / done[0];
        [1, 2].iter().all(|&at| (0.96..1.04).contains(&share(at)))
            && [3, 4].iter().all(|&at| (0.59..0.67).contains(&share(at)))
    };
    let done = measured_by("work_units", "smt-8", "", script, holds);
    assert!(holds(&done), "alone, on two cores, on one: {done:?}");
}

#[test]
fn hardware_threads_share_pipes_and_pipes_share_cores() {
    // CPUs 0 and 1 are a pipe, 2 and 3 the other pipe of their core; CPU 4 belongs to another core.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipes.toml");
    let text = "name = \"pipes\"\ntopology = \"package:1 llc:1 core:2 pipe:2 pu:2\"\n\
                [[sharing]]\nlevel = \"pipe\"\ngain_percent = 20\n[lab]\nmips = 60\nsmt_gain_percent = 80\n";
    std::fs::write(&file, text).unwrap();
    let script = r#"
        on() { busybox taskset $1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 2 --format json; }
        both() { on 1 >/tmp/a & A=$!; on $1 >/tmp/b; wait $A; busybox cat /tmp/a /tmp/b; }
        on 1; both 10; both 4; both 2
        on 1 >/tmp/a & A=$!; on 2 >/tmp/b & B=$!; on 4 >/tmp/c; wait $A $B; busybox cat /tmp/a /tmp/b /tmp/c
        "#;
    // Another core: all. The other pipe: half of 1.8. The same pipe: half of 1.2. Both: a half of 1.2 of half of 1.8, and half of 1.8.
    let expected = [1.0, 1.0, 1.0, 0.9, 0.9, 0.6, 0.6, 0.54, 0.54, 0.9];
    let holds = |done: &[f64]| {
        let near = |(done_at, expected): (&f64, &f64)| (done_at / done[0] / expected - 1.0).abs() < 0.05;
        done.len() == expected.len() && done.iter().zip(&expected).all(near)
    };
    let done = measured_by("work_units", file.to_str().unwrap(), "", script, holds);
    assert!(
        holds(&done),
        "{:?}, not {expected:?}",
        done.iter().map(|it| it / done[0]).collect::<Vec<_>>()
    );
}

#[test]
fn what_a_program_leaves_running_is_ended() {
    let jobs = [
        "busybox sleep 1000 & echo $! >/tmp/left; scx_threadwise & until_state enabled",
        "state; busybox kill -0 $(busybox cat /tmp/left) || echo gone",
        "busybox sleep 1000 & busybox kill -0 $! || echo gone",
    ]
    .map(|script| job("", script));
    let [left, after, control] = exec_all("smp-8", jobs.each_ref());
    assert_eq!((stdout(left), stdout(control)), (String::new(), String::new()));
    assert_eq!(stdout(after), "disabled\ngone\n");
}

#[test]
fn a_stopped_process_is_nobody_s_end() {
    // One that has lost its parent ends beside one that is stopped. The kernel sends the whole group SIGHUP then, which ended half
    // an hour of stress.
    let script = "
        busybox sleep 60 & P=$!; busybox kill -STOP $P
        until busybox grep -q 'State:.T' /proc/$P/status; do busybox sleep 0.05; done
        ( busybox sleep 0.2 & )
        busybox sleep 0.8; busybox kill -KILL $P; echo on";
    assert_eq!(stdout(run("", script)), "on\n");
}

#[test]
fn what_cannot_be_carried_out_is_answered_and_the_guest_goes_on() {
    let mut guests = alone();
    let guest = guests
        .entry("smp-8".into())
        .or_insert_with(|| Guest::boot("smp-8"));
    let nobody = Job {
        command: vec!["nobody".into()],
        ..job("scx_threadwise", "")
    };
    for wrong in [job("nobody", "true"), nobody] {
        let answer = guest.carry_out(&wrong).unwrap_err();
        assert!(
            answer.contains("error") && answer.contains("cannot start nobody"),
            "{answer}"
        );
        // Under the kernel's scheduler, although the last job had another.
        assert_eq!(stdout(guest.carry_out(&job("", "state")).unwrap()), "disabled\n");
    }
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_panic_and_a_hang_are_told_apart_and_said() {
    let message = |options: &[&str], script: &str| {
        let _guests = alone();
        let output = threadwise()
            .args(["lab", "exec"])
            .args(options)
            .args(["sh", "-c", script])
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        message
    };
    let panic = message(&[], "echo c > /proc/sysrq-trigger; busybox sleep 20");
    assert!(
        panic.contains("the guest panicked") && panic.contains("sysrq"),
        "{panic}"
    );
    let hang = message(&["--deadline", "3"], "busybox sleep 60");
    assert!(hang.contains("did not finish its programs within 3 s"), "{hang}");
}

/// An experiment in a temporary folder, where what is left of a failed one goes too.
pub struct Experiment {
    pub folder: tempfile::TempDir,
}

impl Experiment {
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("e.toml"), text).unwrap();
        Self { folder }
    }

    fn run(&self, options: &[&str]) -> Output {
        let _guests = alone();
        threadwise()
            .args(["lab", "run", "e.toml", "--output", "e.json"])
            .args(options)
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// What it came to, on slower machines if the host cannot keep up.
    fn measured(&self) -> serde_json::Value {
        self.measured_at(&mips, &[])
    }

    /// The same, with `mips()` million instructions a second and further options.
    pub fn measured_at(&self, mips: &dyn Fn() -> String, options: &[&str]) -> serde_json::Value {
        loop {
            let output = self.run(&[&["--mips", &mips()], options].concat());
            if output.status.success() {
                return serde_json::from_slice(&std::fs::read(self.path("e.json")).unwrap()).unwrap();
            }
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(
                message.contains("the host could not keep up") && slow_down(),
                "{message}"
            );
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn an_overloaded_host_is_no_result() {
    let experiment = Experiment::new(
        "name = 'fast'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 20000\nseconds = 1.0\nrounds = 2\nwithout = ['standstill']\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = 'inf:1', phase_units = 1000000 }\n",
    );
    let output = experiment.run(&["--no-store"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("the host could not keep up") && message.contains("lower mips"),
        "{message}"
    );
    assert!(!experiment.path("e.json").exists(), "there is no result");
    let kept = std::fs::read_to_string(experiment.path("fast.incomplete.json")).unwrap();
    assert!(
        kept.contains("\"void\":true") && !kept.contains("\"void\":false"),
        "{kept}"
    );
}

/// Whether the experiment of this name runs and has a sample by now.
fn has_sample(name: &str) -> bool {
    let output = threadwise()
        .args(["runs", "list", "--format", "json"])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut runs = list["runs"].as_array().unwrap().iter();
    runs.any(|run| {
        run["state"] == "running" && run["experiment"] == name && run["nr_samples"].as_u64() > Some(0)
    })
}

/// Runs an experiment beside a neighbour that takes half of each of the host's cores, in pieces of 3 ms, until it `is_gone` or the
/// experiment ends; how that ended, and what it said.
fn beside_a_neighbour(experiment: &Experiment, is_gone: impl Fn() -> bool) -> (ExitStatus, String) {
    let guests = alone();
    let disturbing = AtomicBool::new(true);
    let (status, message) = std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            threads.spawn(|| {
                while disturbing.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(3) {}
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
        }
        let mut running = threadwise()
            .args(["lab", "run", "e.toml", "--output", "e.json", "--mips", &mips()])
            .current_dir(experiment.folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !is_gone() && running.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(200));
        }
        disturbing.store(false, Ordering::Relaxed);
        let output = running.wait_with_output().unwrap();
        (
            output.status,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    });
    drop(guests);
    (status, message)
}

#[test]
#[ignore = "long: make test FULL=1"]
fn what_a_neighbour_on_the_host_disturbs_is_void_and_repeated_where_time_goes_on() {
    let experiment = Experiment::new(
        "name = 'disturbed'\ndescription = 'd'\nmachine = 'smp-8'\nseconds = 1.0\nrounds = 2\nwithout = ['standstill']\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = 'inf:1', phase_units = 1000 }\n",
    );
    let begun = Instant::now();
    let (status, voids) = beside_a_neighbour(&experiment, || {
        has_sample("disturbed") || begun.elapsed() > Duration::from_secs(60)
    });
    assert!(voids.contains("void, will repeat: "), "nothing was void: {voids}");
    if !status.success() {
        assert!(
            voids.contains("the host could not keep up") && slow_down(),
            "{voids}"
        );
        return;
    }
    let result: serde_json::Value =
        serde_json::from_slice(&std::fs::read(experiment.path("e.json")).unwrap()).unwrap();
    let samples = result["measurement"]["samples"].as_array().unwrap();
    let (void, valid): (Vec<_>, Vec<_>) = samples.iter().partition(|sample| sample["void"] == true);
    assert_eq!(
        (valid.len(), result["nr_void"].as_u64()),
        (2, Some(void.len() as u64))
    );
    for (samples, is_disturbed) in [(void, true), (valid, false)] {
        for sample in samples {
            let over = |share: &str, limit: f64| sample[share].as_f64().unwrap() > limit;
            assert_eq!(
                over("lost", LOST_LIMIT) || over("late", LATE_LIMIT),
                is_disturbed,
                "{sample}"
            );
        }
    }
}

#[test]
fn a_neighbour_on_the_host_changes_nothing_that_is_measured() {
    let experiment = Experiment::new(
        "name = 'beside'\ndescription = 'd'\nmachine = 'smp-8'\nseconds = 1.0\nrounds = 2\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = 'inf:1', phase_units = 3000 }\n",
    );
    let sample = || {
        let result: serde_json::Value =
            serde_json::from_slice(&std::fs::read(experiment.path("e.json")).unwrap()).unwrap();
        assert_eq!(result["nr_void"], 0, "{result}");
        let samples = result["measurement"]["samples"].as_array().unwrap().iter();
        let sum = |of: &dyn Fn(&serde_json::Value) -> &serde_json::Value| -> f64 {
            samples.clone().map(|sample| of(sample).as_f64().unwrap()).sum()
        };
        assert!(sum(&|sample| &sample["late"]) < 0.001, "{result}");
        (
            sum(&|sample| &sample["performance"][0]),
            sum(&|sample| &sample["stood_still_s"]),
        )
    };
    // The neighbour costs the host's time only, unless others take more of it when it is not there.
    let costs_time_only = |_| {
        let (status, message) = beside_a_neighbour(&experiment, || false);
        assert!(status.success(), "{message}");
        let (beside, stood_still_beside_s) = sample();
        experiment.measured();
        let (alone, stood_still_s) = sample();
        assert!((0.95..1.05).contains(&(beside / alone)), "{beside} of {alone}");
        stood_still_beside_s > 1.5 * stood_still_s
    };
    assert!(
        (0..3).any(costs_time_only),
        "time stands still as much without it"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn what_is_interrupted_keeps_what_was_measured_and_leaves_nothing_behind() {
    let experiment = Experiment::new(
        "name = 'long'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nseconds = 0.5\nrounds = 900\n\
         [[scheduler]]\nname = 'kernel'\n[[program]]\nname = 'A'\nsynthetic = { ratio = '1:inf', phase_units = 1000, threads = 1 }\n",
    );
    let _guests = alone();
    let temporary = experiment.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut running = threadwise()
        .args(["lab", "run", "e.toml"])
        .current_dir(experiment.folder.path())
        .env("TMPDIR", &temporary)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !has_sample("long") {
        assert!(running.try_wait().unwrap().is_none(), "900 rounds take longer");
        std::thread::sleep(Duration::from_millis(500));
    }
    // SAFETY: the child has not been waited for.
    unsafe { libc::kill(running.id() as i32, libc::SIGINT) };
    let output = running.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("interrupted") && message.contains("lab run --resume"),
        "{message}"
    );
    assert!(
        !experiment.path("long.incomplete.json").exists(),
        "the store has it"
    );
    assert_eq!(
        std::fs::read_dir(&temporary).unwrap().count(),
        0,
        "the guest's folder is gone"
    );
}

/// Runs in four rounds what does this from its run of that number in a guest on.
fn that_goes_wrong(scheduler: &str, from: u32, what: &str) -> Experiment {
    Experiment::new(&format!(
        "name = 'wrong'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nrounds = 4\n\
         [[scheduler]]\nname = 'under-test'\n{scheduler}\n[[program]]\nname = 'third'\ncommand = ['sh', '-c', '''\n\
         echo >> /tmp/runs; [ $(busybox wc -l < /tmp/runs) -lt {from} ] || {what}; busybox sleep 1''']\n"
    ))
}

/// Runs in round after round what in its third one does this; says what the lab says.
fn goes_wrong_in_the_third_round(scheduler: &str, what: &str) -> String {
    let experiment = that_goes_wrong(scheduler, 3, what);
    let output = experiment.run(&["--no-store"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(!experiment.path("e.json").exists(), "there is no result");
    let kept = std::fs::read(experiment.path("wrong.incomplete.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(
        kept["measurement"]["samples"].as_array().unwrap().len(),
        2,
        "two rounds were good: {kept}"
    );
    message
}

#[test]
fn a_scheduler_that_is_thrown_out_is_no_result() {
    let ours = "command = ['scx_threadwise']";
    let message = goes_wrong_in_the_third_round(ours, "busybox killall -9 scx_threadwise");
    assert!(
        message.contains("under-test was thrown out during third"),
        "{message}"
    );
}

/// As a guest ends that the emulator lost.
const LOST: &str = "{ echo '<0>Oops: int3' >/dev/kmsg; echo c >/proc/sysrq-trigger; }";

#[test]
#[ignore = "long: make test FULL=1"]
fn guests_that_the_emulator_loses_are_followed_by_others() {
    // Each has two rounds.
    let experiment = that_goes_wrong("", 3, LOST);
    let output = experiment.run(&[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && message.matches("the emulator lost the guest").count() == 1,
        "{message}"
    );
    let result = std::fs::read(experiment.path("e.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(
        (result["nr_boots"].as_u64(), result["nr_rounds"].as_u64()),
        (Some(2), Some(4))
    );
    // None has one.
    let experiment = that_goes_wrong("", 1, LOST);
    let output = experiment.run(&[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(
        message.matches("the emulator lost the guest").count(),
        2,
        "{message}"
    );
    assert!(
        message.contains("the guest panicked") && message.contains("3 in a row"),
        "{message}"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_guest_that_panics_amid_an_experiment_is_no_result() {
    let message = goes_wrong_in_the_third_round("", "echo c > /proc/sysrq-trigger");
    assert!(
        message.contains("the guest panicked") && message.contains("sysrq"),
        "{message}"
    );
}

#[test]
fn programs_in_two_orders_are_measured_on_governed_cores_too() {
    let count = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let experiment = Experiment::new(&format!(
        "name = 'orders'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nrounds = 2\ntwo_orders = true\n\
         runs = [['A'], ['B'], ['A', 'B']]\n[[scheduler]]\nname = 'kernel'\n\
         [[program]]\nname = 'A'\ncommand = ['sh', '-c', '{count}']\n\
         [[program]]\nname = 'B'\ncommand = ['sh', '-c', '{count}; {count}']\n"
    ));
    let result = experiment.measured();
    let pair = &result["runs"][2]["schedulers"][0];
    // Each has a core to itself, as alone: two cores do twice the work of one, and six of eight are idle.
    let over_sequential = pair["over_sequential"]["ratio"].as_f64().unwrap();
    let idle = pair["idle"]["mean"].as_f64().unwrap();
    assert!((1.8..2.1).contains(&over_sequential), "{over_sequential}");
    assert!((0.65..0.85).contains(&idle), "{idle}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn one_to_eight_threads_scale_in_a_line() {
    let programs: String = [1, 2, 4, 8]
        .map(|n| format!("[[program]]\nname = '{n}'\nsynthetic = {{ ratio = 'inf:1', phase_units = 20000, threads = {n} }}\n"))
        .concat();
    let experiment = Experiment::new(&format!(
        "name = 'scaling'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nseconds = 2.0\nrounds = 2\n\
         runs = [['1'], ['2'], ['4'], ['8']]\n[[scheduler]]\nname = 'kernel'\n{programs}"
    ));
    let result = experiment.measured();
    assert_eq!(
        (result["schema"].as_str(), result["label"].as_str()),
        (Some("threadwise.lab/1"), Some("lab"))
    );
    let mean = |run: usize, what: &str| {
        result["runs"][run]["schedulers"][0][what]["mean"]
            .as_f64()
            .unwrap()
    };
    for (run, threads) in [(0, 1.0), (1, 2.0), (2, 4.0), (3, 8.0)] {
        let efficiency = mean(run, "total") / mean(0, "total") / threads;
        assert!(
            (0.95..1.05).contains(&efficiency),
            "{threads} threads: {efficiency}"
        );
        // While they run: that programs end one by one and report is no part of it.
        let idle = mean(run, "idle") - (1.0 - threads / 8.0);
        assert!(
            idle.abs() < 0.03,
            "{threads} threads: {idle} more idle than they are"
        );
    }
}

/// What `threadwise` says with these words, in the experiment's folder, from its own store.
fn says(experiment: &Experiment, words: &str) -> serde_json::Value {
    let output = threadwise()
        .args(words.split(' '))
        .args(["--store", "runs.db"])
        .current_dir(experiment.folder.path())
        .output()
        .unwrap();
    // Nothing while there is no store yet.
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// The processes in whose command line this stands.
fn processes_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_stopped() {
    const NR: u64 = 16;
    let experiment = Experiment::new(
        "name = 'sweep'\ndescription = 'd'\nmachine = 'smp-8'\nmips = 60\nseconds = 0.5\nrounds = 8\n\
         [[scheduler]]\nname = 'kernel'\n[[scheduler]]\nname = 'ours'\ncommand = ['scx_threadwise']\n\
         [[program]]\nname = 'A'\nsynthetic = { ratio = '1:inf', phase_units = 1000, threads = 1 }\n",
    );
    let _guests = alone();
    let temporary = experiment.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut running = threadwise()
        .args(["lab", "run", "e.toml", "--store", "runs.db"])
        .current_dir(experiment.folder.path())
        .env("TMPDIR", &temporary)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let listed = || {
        let run = &says(&experiment, "runs list --format json")["runs"][0];
        (run["nr_samples"].as_u64().unwrap_or(0), run["state"].clone())
    };
    while listed().0 < 3 {
        assert!(running.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(200));
    }
    let guest = || processes_with(temporary.to_str().unwrap());
    assert!(!guest().is_empty(), "the guest runs from there");
    // SIGKILL, of which it learns nothing.
    running.kill().unwrap();
    running.wait().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(guest().is_empty(), "the guest is gone too: {:?}", guest());
    let (nr_kept, state) = listed();
    assert!(
        (3..NR).contains(&nr_kept) && state == "interrupted",
        "{nr_kept} {state}"
    );
    let samples = || {
        let run = says(&experiment, "runs export 1");
        run["measurement"]["samples"].as_array().unwrap().clone()
    };
    let kept = samples();
    let resumed = says(&experiment, "lab run --resume 1 --format json");
    assert_eq!(listed().1, "complete");
    let all = samples();
    assert_eq!(all[..kept.len()], kept, "what was measured is as it was");
    // A round of two that was interrupted is taken again as a whole: schedulers are compared within a boot.
    let nr_valid = |samples: &[serde_json::Value]| {
        let valid = samples.iter().filter(|sample| sample["void"] == false);
        valid.count() as u64
    };
    let nr_void = all.len() as u64 - nr_valid(&all);
    assert_eq!(nr_valid(&all), NR + nr_valid(&kept) % 2);
    assert_eq!(resumed["nr_void"].as_u64(), Some(nr_void));
}
