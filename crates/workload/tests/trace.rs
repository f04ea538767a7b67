// SPDX-License-Identifier: GPL-2.0-only
//! Traces: what each task did, who woke whom, and what is refused.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use threadwise_workload::trace::{Deed, Trace};

const PIPE: &str = include_str!("../../../tests/traces/pipe.txt");
const US: u64 = 1_000;

#[test]
fn chains_are_those_that_were_drawn_up_by_hand() {
    let trace = Trace::parse(PIPE).unwrap();
    let of = |index: usize| &trace.tasks[index];
    let [producer, consumer, ticker, kworker] = [0, 1, 2, 3].map(of);
    assert_eq!(
        producer.deeds,
        [
            Deed::Ran(3_000 * US),
            Deed::Woke(1),
            Deed::Ran(1_000 * US),
            Deed::Awaited(1),
            Deed::Ran(1_990 * US),
            Deed::Woke(3),
            // Preempted in between.
            Deed::Ran(2_010 * US),
        ]
    );
    assert_eq!(
        consumer.deeds,
        [
            Deed::Awaited(0),
            Deed::Ran(2_000 * US),
            Deed::Woke(0),
            Deed::Ran(100 * US)
        ]
    );
    assert_eq!(
        ticker.deeds,
        [
            Deed::Slept(6_000 * US),
            Deed::Ran(500 * US),
            Deed::Slept(1_490 * US),
            Deed::Ran(500 * US)
        ]
    );
    assert_eq!(kworker.deeds, [Deed::Awaited(0), Deed::Ran(100 * US)]);
    let latencies: Vec<_> = trace.tasks.iter().map(|task| task.latencies_ns.clone()).collect();
    assert_eq!(
        latencies,
        [vec![30 * US], vec![50 * US], vec![10 * US, 5 * US], vec![10 * US]]
    );
    assert_eq!((kworker.is_kernel_thread, kworker.bound_to), (true, Some(0)));
    assert!(!producer.is_kernel_thread && producer.tgid.is_none());
    assert_eq!(
        (trace.span_ns, trace.nr_cpus, trace.nr_unexplained),
        (9_180 * US, 2, 0)
    );
}

/// The other way in which perf prints the same, with processes.
#[test]
fn both_forms_of_perf_say_the_same() {
    let short = "\
   swapper     0/0     [000] 5.000000:  sched:sched_switch: swapper/0:0 [120] R ==> my app:7 [120]
    my app     6/7     [000] 5.001000:  sched:sched_waking: comm=my app pid=8 prio=120 target_cpu=001
    my app     6/7     [000] 5.001002:  sched:sched_wakeup: my app:8 [120] success=1 CPU:001
   swapper     0/0     [001] 5.001010:  sched:sched_switch: swapper/1:0 [120] R ==> my app:8 [120]
    my app     6/8     [001] 5.002010:  sched:sched_switch: my app:8 [98] S ==> swapper/1:0 [120]
    my app     6/7     [000] 5.003000:  sched:sched_switch: my app:7 [139] X ==> swapper/0:0 [120]
";
    let trace = Trace::parse(short).unwrap();
    assert_eq!(
        trace.tasks[0].deeds,
        [Deed::Ran(1_000 * US), Deed::Woke(1), Deed::Ran(2_000 * US)]
    );
    assert_eq!(trace.tasks[1].deeds, [Deed::Awaited(0), Deed::Ran(1_000 * US)]);
    assert_eq!(trace.tasks[1].latencies_ns, [10 * US]);
    assert!(
        trace
            .tasks
            .iter()
            .all(|task| task.tgid == Some(6) && task.comm == "my app")
    );
    assert_eq!(
        (trace.tasks[0].prio, trace.tasks[1].prio),
        (139, 98),
        "the last ones"
    );
}

#[test]
fn a_wake_up_that_ends_no_sleep_is_none() {
    // The first finds 8 awake; the second comes just before it leaves its CPU; the third sleep has no recorded end.
    let text = "\
 a 7 [000] 1.000000: sched:sched_switch: swapper/0:0 [120] R ==> a:7 [120]
 swapper 0 [001] 1.000000: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 a 7 [000] 1.001000: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
 b 8 [001] 1.002000: sched:sched_switch: b:8 [120] R ==> swapper/1:0 [120]
 swapper 0 [001] 1.002100: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 a 7 [000] 1.002999: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
 b 8 [001] 1.003000: sched:sched_switch: b:8 [120] S ==> swapper/1:0 [120]
 swapper 0 [001] 1.003010: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 b 8 [001] 1.004010: sched:sched_switch: b:8 [120] D ==> swapper/1:0 [120]
 swapper 0 [001] 1.006010: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 b 8 [001] 1.007010: sched:sched_switch: b:8 [120] X ==> swapper/1:0 [120]
";
    let trace = Trace::parse(text).unwrap();
    assert_eq!(
        trace.tasks[0].deeds,
        [Deed::Ran(2_999 * US), Deed::Woke(1), Deed::Ran(4_011 * US)]
    );
    assert_eq!(
        trace.tasks[1].deeds,
        [
            Deed::Ran(2_900 * US),
            Deed::Awaited(0),
            Deed::Ran(1_000 * US),
            Deed::Slept(2_000 * US),
            Deed::Ran(1_000 * US)
        ]
    );
    assert_eq!(trace.nr_unexplained, 1);
}

#[test]
fn an_old_wake_up_does_not_hide_the_one_that_ends_the_sleep() {
    // 9 finds 8 awake long before; 7 wakes it just before it leaves its CPU, and is named by the first of its two events.
    let wakes = |first: &str| {
        let text = format!(
            "\
 a 7 [000] 1.000000: sched:sched_switch: swapper/0:0 [120] R ==> a:7 [120]
 swapper 0 [001] 1.000000: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 swapper 0 [002] 1.000000: sched:sched_switch: swapper/2:0 [120] R ==> c:9 [120]
 c 9 [002] {first}: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
 a 7 [000] 1.004990: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001
 b 8 [001] 1.004995: sched:sched_wakeup: comm=b pid=8 prio=120 target_cpu=001
 b 8 [001] 1.005000: sched:sched_switch: b:8 [120] S ==> swapper/1:0 [120]
 swapper 0 [001] 1.005010: sched:sched_switch: swapper/1:0 [120] R ==> b:8 [120]
 b 8 [001] 1.006010: sched:sched_switch: b:8 [120] X ==> swapper/1:0 [120]
"
        );
        Trace::parse(&text).unwrap()
    };
    // A millisecond after the beginning, and so that only the racing one is near enough to the switch.
    for first in ["1.001000", "1.004975"] {
        let trace = wakes(first);
        assert_eq!(
            trace.tasks[1].deeds,
            [Deed::Ran(5_000 * US), Deed::Awaited(0), Deed::Ran(1_000 * US)],
            "{first}"
        );
        assert_eq!(trace.tasks[1].latencies_ns, [10 * US]);
        assert_eq!(trace.tasks[2].deeds, [Deed::Ran(6_010 * US)], "{first}");
        assert_eq!(trace.nr_unexplained, 0);
    }
}

#[test]
fn what_the_scheduler_did_for_itself_is_left_out() {
    let text = "\
 a 7 [000] 1.000000: sched:sched_switch: a:7 [120] S ==> migration/0:19 [0]
 migration/0 19 [000] 1.000100: sched:sched_waking: comm=a pid=7 prio=120 target_cpu=001
 migration/0 19 [000] 1.000200: sched:sched_switch: migration/0:19 [0] S ==> swapper/0:0 [120]
 swapper 0 [001] 1.000300: sched:sched_switch: swapper/1:0 [120] R ==> a:7 [120]
 a 7 [001] 1.000400: sched:sched_switch: a:7 [120] S ==> swapper/1:0 [120]
";
    let trace = Trace::parse(text).unwrap();
    assert_eq!(trace.tasks.len(), 1);
    assert_eq!(trace.tasks[0].deeds, [Deed::Slept(100 * US), Deed::Ran(100 * US)]);
}

#[test]
fn bad_lines_are_named() {
    let good = " swapper 0 [000] 2.000000: sched:sched_switch: swapper/0:0 [120] R ==> a:7 [120]\n";
    for (bad, what) in [
        ("no trace at all", "COMM TID [CPU]"),
        (" a 7 [000] 2.1: sched:sched_switch: a:7 [120] R", "prev_comm"),
        (" a 7 [000] 2.1: sched:sched_waking: comm=b", "target_cpu"),
        (
            " a 7 [000] 1.0: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=001",
            "time goes back",
        ),
        (
            " a 99999999999 [000] 2.1: sched:sched_switch: a:7 [120] R ==> b:8 [120]",
            "too large",
        ),
        (" a 7 [000] 99999999999999.1: x: y", "too late"),
        ("        ffffffff8110 __schedule ([kernel])", "perf sched script"),
    ] {
        let error = Trace::parse(&format!("# head\n{good}{bad}\n")).unwrap_err();
        assert_eq!(error.line, 3, "{bad}: {error}");
        assert!(error.to_string().contains(what), "{bad}: {error}");
    }
    assert!(Trace::parse("").unwrap_err().what.contains("no task"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = Trace::parse(&text);
    }

    #[test]
    fn no_damage_to_a_trace_panics_and_what_is_read_adds_up(
        line in 2usize..20, at in 0usize..160, put in "[ -~]{0,4}", drop in prop::collection::vec(2usize..20, 0..4)
    ) {
        let mut lines: Vec<String> = PIPE.lines().map(String::from).collect();
        let length = lines[line].len();
        lines[line].replace_range(at.min(length)..(at + put.len()).min(length), &put);
        let kept: Vec<String> =
            lines.into_iter().enumerate().filter(|(index, _)| !drop.contains(index)).map(|(_, line)| line).collect();
        match Trace::parse(&kept.join("\n")) {
            Ok(trace) => {
                let ran: u64 = trace.tasks.iter().map(|task| task.ran_ns()).sum();
                prop_assert!(ran <= trace.span_ns * trace.tasks.len() as u64);
                for (index, task) in trace.tasks.iter().enumerate() {
                    for deed in &task.deeds {
                        if let Deed::Awaited(by) = deed {
                            prop_assert!(trace.tasks[*by].deeds.contains(&Deed::Woke(index)));
                        }
                    }
                }
            }
            Err(error) => prop_assert!((1..=kept.len()).contains(&error.line)),
        }
    }
}

#[test]
fn who_is_about_to_be_gone_is_known_by_what_ran() {
    // Where a thread has ended but for its last switch, perf knows neither it nor, sometimes, its process.
    let text = "\
        swapper 0/0 [000] 1.000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
        b 9/9 [001] 1.000000: sched:sched_switch: prev_comm=b prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\
        :-1 6/-1 [000] 1.001000: sched:sched_waking: comm=b pid=9 prio=120 target_cpu=001\n\
        swapper 0/0 [001] 1.001010: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=9 next_prio=-1\n\
        :-1 -1/-1 [000] 1.002000: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";
    let trace = Trace::parse(text).unwrap();
    let [gone, woken] = [0, 1].map(|index| &trace.tasks[index]);
    assert_eq!((gone.comm.as_str(), gone.tgid), ("a", Some(6)));
    assert_eq!(
        gone.deeds,
        [Deed::Ran(1_000 * US), Deed::Woke(1), Deed::Ran(1_000 * US)]
    );
    assert_eq!((woken.deeds[0], woken.prio), (Deed::Awaited(0), -1));
    for wrong in ["-2", "-", "4294967296"] {
        let error = Trace::parse(&text.replace("6/-1", wrong))
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 3"), "{wrong}: {error}");
    }
}
