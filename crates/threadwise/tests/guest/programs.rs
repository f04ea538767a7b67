// SPDX-License-Identifier: GPL-2.0-only
//! Real programs in the guest: their libraries are there, their results right, and they take part in what the scheduler does.

use super::*;

#[test]
fn an_openmp_program_is_right_and_counted_under_the_scheduler() {
    let script = "for schedule in static dynamic; do \
         OMP_WAIT_POLICY=passive omp-stencil --threads 8 --size 200 --iterations 60 --schedule $schedule || exit; done";
    let out = stdout(run("scx_threadwise", script));
    let reports: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [fixed, dynamic] = reports.as_slice() else {
        panic!("{out}")
    };
    assert_eq!((&fixed["threads"], &fixed["verified"]), (&8.into(), &true.into()));
    assert_eq!(fixed["checksum"], dynamic["checksum"]);
}

/// Fig. 1 of thread-essence: phases of one thread and of all show in how many are ready.
#[test]
fn ready_threads_of_an_openmp_program_tell_its_phases() {
    let shares = |threads: u32| -> Vec<f64> {
        let script = format!(
            "OMP_WAIT_POLICY=passive threadwise bench ready-threads --interval-ms 20 --format json \
             -- omp-stencil --threads {threads} --size 800 --seconds 2"
        );
        let series: serde_json::Value = serde_json::from_str(&stdout(run("", &script))).unwrap();
        let shares = series["share_of_time"].as_array().unwrap().iter();
        shares.map(|share| share.as_f64().unwrap()).collect()
    };
    let more_than = |shares: &[f64], nr: usize| shares.iter().skip(nr + 1).sum::<f64>();
    let (alone, eight) = (shares(1), shares(8));
    assert!(more_than(&alone, 1) < 0.05, "of one thread: {alone:?}");
    let tells = more_than(&eight, 1) > 0.4 && more_than(&eight, 4) > 0.1 && more_than(&eight, 1) < 0.98;
    assert!(tells, "of eight: {eight:?}");
}

/// What eight threads do that spin at their barriers, alone, and four times two programs of them, one of which begins 0.3 s later: as
/// long as no turn was handed on between those, both did 0.3 to 0.5 of what one does.
#[test]
fn programs_that_spin_and_begin_apart_take_turns() {
    let stencil = |size: u32, seconds: &str| {
        format!(
            "OMP_WAIT_POLICY=active omp-stencil --threads 8 --schedule static --size {size} --seconds {seconds}"
        )
    };
    let pair = format!(
        "{} & busybox sleep 0.3; {}; wait",
        stencil(352, "1.5"),
        stencil(300, "1.2")
    );
    let script = format!("{}; for i in 1 2 3 4; do {pair}; done", stencil(352, "1"));
    let share = |done: &[f64]| {
        let sums = done[1..].chunks(2).map(|both| both.iter().sum::<f64>() / done[0]);
        sums.fold(f64::INFINITY, f64::min)
    };
    let done = measured_by("work_units_per_s", "smp-8", "scx_threadwise", &script, |done| {
        share(done) > 0.75
    });
    assert!(
        done.len() == 9 && share(&done) > 0.75,
        "alone, and four times two: {done:?}"
    );
}

/// What eight threads do that spin at their barriers alone, and beside as many of nice 19: when the clock followed those, both programs did
/// a seventh of what one does.
#[test]
fn a_light_program_that_spins_costs_little() {
    let bench =
        "threadwise bench synthetic --ratio inf:1 --threads 8 --wait active --phase-units 750 --format json";
    let light = format!("sh -c \"busybox renice -n 19 -p \\$\\$ >/dev/null; exec {bench} --duration 2.2\"");
    let script = format!(
        "{bench} --duration 1; {light} >/tmp/light & busybox sleep 0.1; {bench} --duration 2; wait; busybox cat /tmp/light"
    );
    let holds = |done: &[f64]| done[1] > 1.6 * done[0] && done[2] < 0.4 * done[0];
    let done = measured("scx_threadwise", &script, holds);
    assert!(
        done.len() == 3 && holds(&done),
        "alone, beside nice 19, and that: {done:?}"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn what_perf_records_is_replayed() {
    // Three workers and a main thread at barriers, as the guest's kernel scheduled them.
    let script = r#"
        busybox mount -t tracefs none /sys/kernel/tracing
        perf sched record -o /tmp/recorded threadwise bench synthetic --threads 4 --phase-units 3000 --duration 0.2 >/dev/null 2>/tmp/log \
            || busybox cat /tmp/log
        busybox gzip -c /tmp/recorded | busybox base64; busybox rm /tmp/recorded
        "#;
    let recorded = stdout(run("", script));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded");
    std::fs::write(folder.path().join("base64"), &recorded).unwrap();
    let unpacked = Command::new("sh")
        .args(["-c", "base64 -d base64 | gunzip > recorded"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(unpacked.success(), "{recorded}");
    let replayed = json(threadwise().args([
        "sim",
        "replay",
        path.to_str().unwrap(),
        "--machine",
        "smp-8",
        "--format",
        "json",
    ]));
    let tasks = replayed["tasks"].as_array().unwrap();
    for worker in ["syn-1", "syn-2", "syn-3"] {
        let of_worker = tasks.iter().find(|task| task["comm"] == worker);
        let task = of_worker.unwrap_or_else(|| panic!("no {worker} in {replayed}"));
        let nr_woken = task["recorded_latency_us"]["count"].as_u64().unwrap();
        assert!(nr_woken > 5, "{task}");
        for simulated in task["simulated"].as_array().unwrap() {
            let count = simulated["wake_up_latency_us"]["count"].as_u64().unwrap();
            assert!(count > nr_woken / 2 && simulated["ended_ns"].is_u64(), "{task}");
        }
    }
}

#[test]
fn two_threads_get_more_done_than_one() {
    // With eight, floating-point arithmetic at this rate would be more than most hosts can emulate.
    let stencil = |threads: u32| {
        format!(
            "OMP_WAIT_POLICY=passive omp-stencil --threads {threads} --size 320 --seconds 3 --schedule dynamic"
        )
    };
    let script = format!("{}; {}", stencil(1), stencil(2));
    let more = |done: &[f64]| done[1] > 1.5 * done[0];
    let done = measured_by("work_units_per_s", "smp-8", "", &script, more);
    assert!(more(&done), "with one thread, with two: {done:?}");
}
