// SPDX-License-Identifier: GPL-2.0-only
//! rt-app files: what is read, and what is refused where.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use threadwise_workload::rtapp::{Access, Action, File, Policy};

const EXAMPLES: [&str; 2] = [
    include_str!("../../../workloads/pipeline.rtapp.json"),
    include_str!("../../../workloads/interactive.rtapp.json"),
];

fn actions(events: &str) -> Vec<Action> {
    let text = format!(r#"{{"tasks": {{"t": {{{events}}}, "child": {{"instance": 0, "run": 1}}}}}}"#);
    let file = File::parse(&text).unwrap();
    let events = file.tasks[0].phases[0].events.iter();
    events.map(|event| event.action.clone()).collect()
}

#[test]
fn every_event_is_known_by_the_beginning_of_its_key() {
    let text = String::from;
    let found = actions(
        r#""runtime1": 2, "run_b": 1, "sleep": 3, "timer": {"ref": "unique", "period": 4, "mode": "absolute"},
        "lock0": "m", "unlock": "m", "wait": {"ref": "c", "mutex": "m"}, "signal": "c", "broad": "c",
        "sync": {"ref": "c", "mutex": "m"}, "barrier": "b", "sem_post": "s", "sem_wait": "s", "suspend": "x",
        "resume": "t", "fork": "child", "yield": "", "mem": 5, "memrun": {"type": "chase", "size": 4096, "count": 6},
        "memrun2": {"type": "write", "size": 10, "count": 7, "ref": "r"}, "iorun": 8, "run_b": 9"#,
    );
    let expected = [
        Action::Runtime(2),
        Action::Run(1),
        Action::Sleep(3),
        Action::Timer {
            name: text("unique"),
            unique: true,
            period_us: 4,
            absolute: true,
        },
        Action::Lock(text("m")),
        Action::Unlock(text("m")),
        Action::Wait {
            condition: text("c"),
            mutex: text("m"),
        },
        Action::Signal(text("c")),
        Action::Broadcast(text("c")),
        Action::Sync {
            condition: text("c"),
            mutex: text("m"),
        },
        Action::Barrier(text("b")),
        Action::SemPost(text("s")),
        Action::SemWait(text("s")),
        Action::Suspend,
        Action::Resume(text("t")),
        Action::Fork(text("child")),
        Action::Yield,
        Action::Mem(5),
        Action::Memrun {
            access: Access::Chase {
                stride: 64,
                random: true,
            },
            size: 4096,
            count: 6,
            shared: None,
        },
        Action::Memrun {
            access: Access::Write,
            size: 10,
            count: 7,
            shared: Some(text("r")),
        },
        Action::Iorun(8),
        Action::Run(9),
    ];
    assert_eq!(found, expected);
}

#[test]
fn loops_are_those_of_rt_app() {
    let file = File::parse(
        r#"{"tasks": {
            "forever": {"run": 1},
            "thrice": {"loop": 3, "run": 1},
            "phased": {"loop": 2, "phases": {"a": {"run": 1}, "b": {"loop": 5, "run": 1}, "b": {"loop": -1, "run": 1}}},
            "endless": {"phases": {"a": {"run": 1}}}
        }}"#,
    )
    .unwrap();
    let loops = |index: usize| {
        let task = &file.tasks[index];
        let phases: Vec<Option<u64>> = task.phases.iter().map(|phase| phase.loops).collect();
        (task.loops, phases)
    };
    assert_eq!(loops(0), (None, vec![Some(1)]));
    assert_eq!(loops(1), (Some(1), vec![Some(3)]));
    assert_eq!(loops(2), (Some(2), vec![Some(1), Some(5), None]));
    assert_eq!(loops(3), (None, vec![Some(1)]));
}

#[test]
fn settings_and_the_global_object_are_read() {
    let file = File::parse(
        r#"{"global": {"duration": 2, "calibration": "CPU1", "default_policy": "SCHED_BATCH", "log_size": "file",
             "ftrace": false, "gnuplot": true, "cumulative_slack": true, "io_device": "/tmp/x", "pi_enabled": false},
            "resources": {"m": {"type": "mutex"}},
            "tasks": {"a": {"instance": 3, "delay": 7, "priority": -5, "cpus": [0, 2], "barrier": "b", "barrier": "b"},
                      "b": {"policy": "SCHED_FIFO", "priority": 50, "barrier": "b"}}}"#,
    )
    .unwrap();
    assert_eq!(file.global.duration_s, Some(2));
    assert!(file.global.cumulative_slack && file.global.io_device == "/tmp/x");
    let [a, b] = file.tasks.as_slice() else {
        panic!("two tasks")
    };
    assert_eq!((a.instances, a.delay_us, a.settings.priority), (3, 7, Some(-5)));
    assert_eq!(a.settings.cpus, Some(vec![0, 2]));
    assert_eq!(a.settings.policy, Some(Policy::Batch));
    assert_eq!(b.settings.policy, Some(Policy::Fifo));
    assert_eq!(file.barrier_users("b"), 3 * 2 + 1);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cases = [
        (
            "{\n \"tasks\": {\n  \"t\": {\"run\": 1, \"rum\": 2}}}",
            3,
            19,
            "tasks.t.rum",
            "unknown key",
        ),
        ("{\n \"task\": {}}", 2, 2, "task", "unknown key"),
        (
            "{\"tasks\": {\"t\": {\n\"run\": \"1\"}}}",
            2,
            1,
            "tasks.t.run",
            "a whole number",
        ),
        (
            "{\"tasks\": {\"t\": {\n\"run\": 1.5}}}",
            2,
            1,
            "tasks.t.run",
            "whole number",
        ),
        (
            "{\"tasks\": {\"t\": {\n\"run\": -1}}}",
            2,
            1,
            "tasks.t.run",
            "not from 0",
        ),
        (
            "{\"tasks\": {\"t\": {\n\"run\": 99999999999999999999}}}",
            2,
            1,
            "tasks.t.run",
            "99999999999999999999",
        ),
        (
            "{\"tasks\": {\"t\": {\n\"lock\": 1}}}",
            2,
            1,
            "tasks.t.lock",
            "a string",
        ),
        (
            "{\"tasks\": {\"t\": {\"run\": 1,\n\"loop\": 1, \"loop\": 2}}}",
            2,
            12,
            "tasks.t.loop",
            "twice",
        ),
        (
            "{\"tasks\": {\"t\": {\"run\": 1}, \n\"t\": {\"run\": 1}}}",
            2,
            1,
            "tasks.t",
            "twice",
        ),
        (
            "{\"tasks\": {\n\"t\": {\"delay\": 1}}}",
            2,
            1,
            "tasks.t",
            "no event",
        ),
        (
            "{\"tasks\": {\"t\": {\"timer\":\n{\"period\": 1, \"mod\": 1}}}}",
            2,
            15,
            "tasks.t.timer.mod",
            "ref, period, mode",
        ),
        (
            "{\"tasks\": {\"t\": {\"phases\": {\n\"p\": {\"instance\": 1}}}}}",
            2,
            7,
            "tasks.t.phases.p.instance",
            "a task's",
        ),
        (
            "{\"tasks\": {\"t\": {\n\"fork\": \"nobody\"}}}",
            2,
            1,
            "tasks.t.fork",
            "no task \"nobody\"",
        ),
        (
            "{\"tasks\": {\n\"t\": {\"run\": 1, \"priority\": 50}}}",
            2,
            1,
            "tasks.t",
            "not from -20 to 19",
        ),
        (
            "{\"tasks\": {\"t\": {\"run\": 1,\n\"policy\": \"SCHED_EXT\"}}}",
            2,
            1,
            "tasks.t.policy",
            "SCHED_OTHER",
        ),
        (
            "{\"tasks\": {\"t\": {\"run\": 1\n \"sleep\": 2}}}",
            1,
            26,
            "",
            "comma",
        ),
        ("", 1, 1, "", "empty"),
        ("{}", 1, 1, "", "tasks"),
    ];
    for (text, line, column, key, what) in cases {
        let error = File::parse(text).unwrap_err();
        assert!(error.line == line, "{text}: {error}");
        assert!(what.is_empty() || error.column == column, "{text}: {error}");
        assert_eq!(error.key, key, "{text}: {error}");
        assert!(
            error.what.to_lowercase().contains(&what.to_lowercase()),
            "{text}: {error}"
        );
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let text = "[".repeat(100_000);
    assert!(
        File::parse(&text)
            .unwrap_err()
            .what
            .to_lowercase()
            .contains("depth")
    );
}

#[test]
fn the_examples_are_files_that_rt_app_reads() {
    for text in EXAMPLES {
        let file = File::parse(text).unwrap();
        assert!(file.tasks.len() == 2 && file.global.duration_s == Some(5));
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = File::parse(&text);
    }

    #[test]
    fn no_damage_to_an_example_panics_and_errors_have_a_line(
        which in 0..2usize, at in 0usize..1000, drop in 0usize..8, put in "[ -~\n]{0,4}"
    ) {
        let mut text = EXAMPLES[which].to_owned();
        let from = at.min(text.len());
        text.replace_range(from..(from + drop).min(text.len()), &put);
        if let Err(error) = File::parse(&text) {
            prop_assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}");
            prop_assert!(error.column >= 1 && !error.what.is_empty());
        }
    }
}
