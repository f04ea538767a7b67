// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler says of each program is what that did.

use serde_json::Value;

use super::{job, run, stdout, until_shown};

/// What the reports of `--format json` in this text say of a program.
pub fn of_program(tgid: &str, out: &str) -> Vec<Value> {
    reports(out)
        .into_iter()
        .filter_map(|mut report| report["programs"].get_mut(tgid).map(Value::take))
        .collect()
}

fn reports(out: &str) -> Vec<Value> {
    out.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The sum of this over reports.
fn sum(reports: &[Value], field: &str) -> u64 {
    reports.iter().map(|report| report[field].as_u64().unwrap()).sum()
}

fn lived_us(reports: &[Value]) -> u64 {
    ["idle_us", "serial_us", "parallel_us"]
        .iter()
        .map(|field| sum(reports, field))
        .sum()
}

#[test]
fn phases_of_programs_add_up_and_what_a_serial_one_got_is_told() {
    // One that is half serial beside one that is never, each with as many threads as CPUs.
    let script = r#"
        program="threadwise bench synthetic --threads 8"
        $program --ratio 1:1 --phase-units 500 --duration 5 >/dev/null & half=$!
        $program --ratio inf:1 --phase-units 10000 --duration 60 >/dev/null & never=$!
        busybox sleep 1
        busybox timeout -s INT 2.5 scx_threadwise --monitor 0.5 --format json
        echo "programs $half $never"
        wait $half
        busybox timeout -s INT 1 scx_threadwise --monitor 0.4 --format json
        "#;
    let job = job("scx_threadwise --programs 3", script);
    let explained = until_shown(
        "smp-8",
        &job,
        |out| explains(out).map_err(|what| format!("{what}: {out}")),
        Result::is_ok,
    );
    assert_eq!(explained, Ok(()));
}

/// Whether what the script above printed is what its programs did, and if not, what is wrong.
fn explains(out: &str) -> Result<(), String> {
    let (during, rest) = out.split_once("programs ").ok_or("no programs")?;
    let (tgids, after) = rest.split_once('\n').ok_or("no end")?;
    let (half, never) = tgids.split_once(' ').ok_or("one program")?;
    let (half_serial, never_serial) = (of_program(half, during), of_program(never, during));
    let ensure = |holds: bool, what: &str| {
        if holds { Ok(()) } else { Err(what.to_owned()) }
    };
    let elapsed_us = sum(&reports(during), "elapsed_us");
    for program in [&half_serial, &never_serial] {
        let share = lived_us(program) as f64 / elapsed_us as f64;
        ensure(
            (0.97..1.03).contains(&share),
            &format!("{share} of the time is told"),
        )?;
        // The benchmark renames its first thread.
        let comm = program[0]["comm"].as_str().unwrap_or_default();
        ensure(["threadwise", "syn-main"].contains(&comm), comm)?;
    }
    let share = |program: &[Value], field| sum(program, field) as f64 / lived_us(program) as f64;
    let shares = [
        share(&half_serial, "serial_us"),
        share(&half_serial, "parallel_us"),
    ];
    // Its serial phases have a CPU at once, its parallel ones share all of them with the other program.
    let little = share(&never_serial, "serial_us");
    ensure(
        shares.iter().all(|share| *share > 0.1) && little < 0.1 && shares[0] > 1.5 * little,
        &format!("serial, parallel: {shares:?}; the parallel program was serial for {little}"),
    )?;
    for field in ["boosts", "preemptions", "parallel_phases", "same_llc"] {
        ensure(sum(&half_serial, field) > 0, &format!("no {field}"))?;
    }
    ensure(
        sum(&half_serial, "preemptions") > sum(&never_serial, "preemptions"),
        "the parallel program preempted more",
    )?;
    ensure(
        sum(&half_serial, "turns") > 0 && sum(&never_serial, "turns") > 0,
        "one was never the senior program",
    )?;
    // No core of this machine has two CPUs, and all share a cache.
    for field in ["same_core", "same_package", "other_package"] {
        ensure(sum(&half_serial, field) == 0, field)?;
    }
    ensure(
        of_program(half, after).is_empty(),
        "a program that ended is listed",
    )?;
    ensure(
        !of_program(never, after).is_empty(),
        "a program that runs is not listed",
    )?;
    let few = |report: &Value| {
        report["programs"]
            .as_object()
            .is_some_and(|programs| programs.len() <= 3)
    };
    ensure(reports(out).iter().all(few), "more programs than were asked for")
}

#[test]
#[ignore = "long: make test FULL=1"]
fn moves_are_told_by_what_the_two_cpus_share() {
    // A task is sent around, and counts moves by where the machine file says that CPUs are.
    let script = r#"
        send_around() {
            machine=$1; shift
            attach --programs 100 --machine "$machine"
            busybox taskset 1 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 100 >/dev/null & P=$!
            busybox sleep 0.3
            scx_threadwise --monitor 0.2 --format json >/tmp/monitor & M=$!
            busybox sleep 0.5
            for mask; do busybox taskset -p $mask $P >/dev/null; busybox sleep 0.1; done
            busybox sleep 0.5
            busybox kill -INT $M; busybox kill $P; busybox kill -INT $S; wait $S || busybox cat /tmp/log
            echo "program $P"; busybox cat /tmp/monitor; echo end
        }
        send_around "package:2 llc:2 core:2" 2 1 2 4 8 4 1 10 20 1
        send_around "package:2 core:2 pu:2" 2 4 8 10
        "#;
    let out = stdout(run("", script));
    let moves: Vec<[u64; 4]> = out
        .split_terminator("end\n")
        .map(|part| {
            let (_, part) = part.split_once("program ").unwrap();
            let (tgid, part) = part.split_once('\n').unwrap();
            let program = of_program(tgid, part);
            ["same_core", "same_llc", "same_package", "other_package"].map(|field| sum(&program, field))
        })
        .collect();
    assert_eq!(moves, [[0, 6, 2, 2], [2, 1, 0, 1]], "{out}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn programs_that_end_are_dropped_and_the_check_notices_if_not() {
    let end = |faults: &str, work: &str| {
        let script = format!(
            "attach --programs 5 {faults}
             {work} || exit 3
             busybox kill -INT $S; wait $S; echo \"status $?\"; busybox cat /tmp/log"
        );
        stdout(run("", &script))
    };
    let out = end(
        "",
        "stress-ng --quiet --timeout 2 --fork 2 --pthread 2 --exec 2 --vfork 1 --clone 1 --zombie 1 --kill 1",
    );
    assert!(out.contains("status 0"), "{out}");
    let out = end("--inject-fault hoard", "busybox true");
    assert!(
        out.contains("status 2") && out.contains("programs that ended were kept"),
        "{out}"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn who_is_not_asked_tells_no_programs() {
    let script = r#"
        busy --ratio 1:1 --duration 60 >/dev/null &
        busybox timeout -s INT 1 scx_threadwise --monitor 0.3 --format json
        "#;
    let reports = reports(&stdout(run("scx_threadwise", script)));
    assert!(reports.len() >= 2, "{reports:?}");
    for report in reports {
        assert_eq!(report["programs"], serde_json::json!({}), "{report}");
        assert_eq!(report["schema"], "threadwise.statistics/1");
    }
}
