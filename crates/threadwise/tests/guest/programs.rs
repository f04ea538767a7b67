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
