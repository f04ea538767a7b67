// SPDX-License-Identifier: GPL-2.0-only
//! The lab: its cores have their speeds, and what is no result is said and never averaged in.

use std::path::PathBuf;
use std::process::Output;

use threadwise_lab::exec::Job;

use super::{Guest, alone, exec_all, job, measured_by, stdout, threadwise};

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
        let _guests = alone();
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
    let _guests = alone();
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
    let output = experiment.run();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
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
