// SPDX-License-Identifier: GPL-2.0-only
//! Decisions: the kernel and the native build take the same, and a senior program is so for its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use threadwise_policy::{
    Ages, BOOST_WHOLE, Beside, Class, Keys, Origin, Run, Task, Tunables, makes_room, mean_weight,
    weight_among,
};

use super::{exec, exec_all, job, number_after, stdout};

#[test]
fn seniority_is_handed_on_after_a_turn() {
    // Two programs in parallel phases that do not end: whoever is senior stays so for the length of its turn.
    let handovers = |options: &str| -> u64 {
        let script = r#"
            for i in 1 2; do threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 10000000 --duration 8 >/dev/null & done
            busybox sleep 1; busybox timeout -s INT 4 scx_threadwise --monitor 1; true
            "#;
        let scheduler = format!("scx_threadwise {options}");
        let out = stdout(exec("smp-8", &job(&scheduler, script)));
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

/// Compiles `newborns`, a program whose threads live for a moment, into this folder.
pub fn compile_newborns(folder: &Path) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/newborns.c");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-O1", "-pthread", source, "-o"]);
    let status = compiler.arg(folder.join("newborns")).status();
    assert!(status.unwrap().success(), "cc cannot compile {source}");
}

#[test]
fn a_new_thread_is_owed_nothing_of_its_program_s_phase() {
    // To the kernel a fork is no wake-up. New threads are charged when they are queued, before they ever ran: all of them are in
    // one parallel phase that began long ago, so hardly one starts with it.
    let script = r#"
        threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 100000 --duration 4 >/dev/null &
        busybox sleep 0.5; newborns 8 100 2
        "#;
    let recorded = job("scx_threadwise --record /tmp/newborns", script);
    let read = job("", "busybox grep tw_vtime_advance /tmp/newborns");
    let [recorded, read] = exec_all("smp-8", [&recorded, &read]);
    stdout(recorded);
    let mut by_origin = BTreeMap::<u64, u32>::new();
    for line in stdout(read).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let [before_ns, since_ns, origin] = [1, 2, 7].map(|nth| line["in"][nth].as_u64().unwrap());
        if before_ns == 0 && since_ns == 0 {
            *by_origin.entry(origin).or_default() += 1;
        }
    }
    let [waking, phase] = [Origin::Waking, Origin::Phase].map(|origin| by_origin.get(&(origin as u64)));
    let (waking, phase) = (waking.copied().unwrap_or(0), phase.copied().unwrap_or(0));
    assert!(
        waking >= 50 && phase < waking / 2,
        "{waking} began with what a waking task is owed, {phase} with their phase"
    );
}

/// Asks the policy's native build what the BPF program asked, and returns what it answers.
fn replay(tunables: &Tunables, function: &str, input: &[u64]) -> u64 {
    let task = |at: usize| Task {
        vtime: input[at],
        here_ns: input[at + 1] as u32,
        class: Class::try_from(input[at + 2]).unwrap(),
        nr_waiting: input[at + 3] as u32,
        boost_left: input[at + 4] as u32,
        waits_us: input[at + 5] as u32,
        step_ns: input[at + 6] as u32,
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
                boost_left: input[6] as u32,
                origin: Origin::try_from(input[7]).unwrap(),
                unboosted: input[8] as u32,
                others_wait: input[9] as u32,
            };
            let class = Class::try_from(input[11]).unwrap();
            tunables.vtime_advance(input[0], &run, input[10], class)
        }
        "tw_key_in" => {
            let keys = Keys {
                nr_waiting: input[7] as u32,
                boost_left: input[8] as u32,
                nr_looks: 0,
            };
            tunables.key_in(&keys, &task(0), input[9] != 0)
        }
        "tw_goes_first" => u64::from(tunables.goes_first(&task(0), &task(7))),
        "tw_preempts" => u64::from(tunables.preempts(&task(0), &task(7))),
        "tw_makes_way_in" => {
            let beside = Beside {
                running_bound: input[14] & 1 != 0,
                waiting_bound: input[14] & 2 != 0,
                of_one_program: input[14] & 4 != 0,
            };
            tunables.makes_way_in(&mut task(0), &task(7), beside)
        }
        "tw_slice_beside" => {
            let class = Class::try_from(input[0]).unwrap();
            tunables.slice_beside(class, input[1], input[2] as u32)
        }
        "tw_vtime_seen" => {
            let mine = task(7);
            tunables.vtime_seen(&task(0), (input[14] != 0).then_some(&mine), input[15] != 0)
        }
        "tw_makes_room" => u64::from(makes_room(&task(0), input[7] != 0, input[8] != 0)),
        "tw_goes_unboosted" => u64::from(tunables.goes_unboosted(input[0] as u32, input[1])),
        "tw_clock" => tunables.clock(input[0], &task(1), input[8] as u32, input[9], input[10] != 0),
        "tw_step" => tunables.step(Class::try_from(input[0]).unwrap(), input[1], input[2]),
        "tw_is_used_up" => {
            let ages = Ages {
                turn_ns: input[14],
                phases_ns: input[15],
            };
            u64::from(tunables.is_used_up(&task(0), &task(7), &ages))
        }
        "tw_surely_stays" => u64::from(tunables.surely_stays(&task(0), &task(7))),
        "tw_mean_weight" => u64::from(mean_weight(input[0] as u32, input[1], input[2], input[3])),
        "tw_weight_among" => u64::from(weight_among(input[0] as u32, input[1] as u32)),
        other => panic!("{other} is no function of the policy"),
    }
}

#[test]
fn the_kernel_and_the_native_build_decide_alike() {
    // Every decision that is recorded in some seconds under load, bit for bit.
    let script = r#"
        spin() { sh -c "busybox renice -n $1 -p \$\$; exec threadwise bench synthetic --ratio inf:1 --threads 8 --wait active --phase-units 500 --duration 4" >/dev/null & }
        spin 18; spin 19; busybox sleep 5; spin 0; spin 8; busybox sleep 5
        bound() { busybox taskset $1 threadwise bench synthetic --phase-units 500 --duration 24 --ratio $2 --threads $3 >/dev/null & }
        bound 8 1:inf 1; bound 4 1:inf 1; bound 4 inf:1 3; busybox sleep 1
        for i in 1 2; do busy --ratio inf:1 --duration 24 >/dev/null & busy --ratio 1:1 --duration 24 >/dev/null & done
        for i in 1 2 3 4 5 6 7; do busy --ratio 1:inf --duration 12 >/dev/null & done
        busybox sleep 20
        "#;
    let recorded = job("scx_threadwise --record /tmp/decisions", script);
    let read = job("", "busybox cat /tmp/decisions");
    let [recorded, read] = exec_all("smp-8", [&recorded, &read]);
    stdout(recorded);
    let out = stdout(read);
    let mut lines = out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let settings = lines.next().unwrap();
    assert_eq!(settings["schema"], "threadwise.decisions/7");
    let setting = |name: &str| settings[name].as_u64().unwrap();
    let tunables = Tunables {
        slice_ns: setting("slice_ns"),
        rotate_ns: setting("rotate_ns"),
        serial_boost_ns: setting("serial_boost_ns"),
        senior_boost_ns: setting("senior_boost_ns"),
        serial_turn_ns: setting("serial_turn_ns"),
        senior_turn_ns: setting("senior_turn_ns"),
        vtime_window_ns: setting("vtime_window_ns"),
        vtime_lag_ns: setting("vtime_lag_ns"),
        serial_threshold: setting("serial_threshold") as u32,
        boost_shares: setting("boost_shares") as u32,
    };
    // The simulator's scheduler has the same settings.
    assert_eq!(Tunables::default(), tunables);
    let (mut left, mut scaled) = (BTreeSet::new(), false);
    let mut seen = BTreeMap::<String, (u32, BTreeSet<u64>)>::new();
    for line in lines {
        let function = line["function"].as_str().unwrap();
        let input: Vec<u64> = line["in"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .collect();
        if function == "tw_vtime_advance" {
            left.insert(input[6]);
        }
        if function == "tw_weight_among" {
            scaled |= line["out"].as_u64() != Some(input[0]);
        }
        let answer = line["out"].as_u64().unwrap();
        assert_eq!(replay(&tunables, function, &input), answer, "{line}");
        let (count, answers) = seen.entry(function.into()).or_default();
        *count += 1;
        answers.insert(answer);
    }
    // The comparison means something only if every function was asked, and answered this and that.
    assert_eq!(seen.len(), 16, "{seen:?}");
    for (function, (count, answers)) in &seen {
        assert!(
            *count >= 50 && answers.len() >= 2,
            "{function}: {count} times, {} answers",
            answers.len()
        );
    }
    // With nine serial programs boosts shrink, once that is noticed.
    assert!(
        left.len() > 1 && left.contains(&u64::from(BOOST_WHOLE)),
        "{left:?}"
    );
    assert!(
        scaled,
        "while all programs are of nice 18 and 19 their weights are scaled"
    );
    // A build that decides otherwise would be noticed.
    let other = Tunables {
        rotate_ns: tunables.rotate_ns + 1,
        ..tunables
    };
    let step = |tunables| {
        replay(
            tunables,
            "tw_step",
            &[Class::Parallel as u64, 1_000_000_000, 5_000],
        )
    };
    assert_ne!(step(&other), step(&tunables));
}
