// SPDX-License-Identifier: GPL-2.0-only
//! Who runs where: a serial program has a core, the fastest if CPUs differ, and no CPU is idle beside those that wait.

use super::{
    as_fast_as_possible, exec, job, measured, measured_by, number_after, reported, stdout, until_shown,
};

#[test]
fn a_serial_program_keeps_a_core_beside_a_parallel_one() {
    // Under fair sharing, nine threads on eight cores, it would have 8/9 of one at best, and half in the worst case.
    let script = r#"
        busy --ratio 1:inf --duration 3 --format json
        busy --ratio inf:1 --duration 6 >/dev/null & 
        busybox sleep 1
        busy --ratio 1:inf --duration 4 --format json
        "#;
    let share = |done: &[f64]| done[1] / 4.0 / (done[0] / 3.0);
    let done = measured("scx_threadwise", script, |done| share(done) > 0.95);
    assert!(share(&done) > 0.95, "{} of its speed alone", share(&done));
}

#[test]
fn threads_bound_to_their_cpus_are_not_held_up_by_a_serial_program() {
    // As with OMP_PROC_BIND: eight threads, one bound to each CPU, that meet every few milliseconds. A serial program
    // comes beside them; it cannot take more than one CPU of eight, wherever it goes.
    let script = r#"
        bound() {
            threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration $1 --format json & P=$!
            busybox sleep 0.2; c=0
            for t in /proc/$P/task/*; do busybox taskset -p $(busybox printf %x $((1 << c))) ${t##*/} >/dev/null; c=$((c+1)); done
            wait $P
        }
        bound 4 >/tmp/alone
        threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 20 >/dev/null & H=$!
        bound 6 >/tmp/beside; kill $H
        busybox cat /tmp/alone /tmp/beside
        "#;
    let share = |done: &[f64]| done[1] / 6.0 / (done[0] / 4.0);
    let done = measured("scx_threadwise", script, |done| share(done) > 0.6);
    assert!(
        share(&done) > 0.6,
        "{} of its speed alone, and fair sharing would leave 0.89",
        share(&done)
    );
}

#[test]
fn a_task_leaves_the_cpu_that_a_real_time_hog_takes() {
    // Six times a real-time hog takes the very CPU on which a serial task runs, 0.3 s of 4 s each. With a long slice
    // the task is always in the middle of one; if it stayed in the CPU's local queue it would lose nearly half.
    let script = r#"
        serial="threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 4 --format json"
        $serial
        $serial >/tmp/out & P=$!
        for i in 1 2 3 4 5 6; do
            busybox sleep 0.2
            cpu=$(busybox awk '{print $39}' /proc/$P/stat)
            chrt -f 50 busybox taskset $(busybox printf %x $((1 << cpu))) threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 0.3 >/dev/null
        done
        wait $P; busybox cat /tmp/out
        "#;
    let share = |done: &[f64]| done[1] / done[0];
    let done = measured("scx_threadwise --slice-us 100000", script, |done| {
        share(done) > 0.9
    });
    assert!(share(&done) > 0.9, "{} of its speed alone", share(&done));
}

fn on_amp_8(scheduler: &str, script: &str, holds: impl Fn(&[f64]) -> bool) -> Vec<f64> {
    measured_by("work_units", "amp-8", scheduler, script, holds)
}

/// The work of a serial program on amp-8 under the scheduler, over that of one bound to the fast CPU.
fn share_of_the_fast_cpu(options: &str, beside: &str, expected: std::ops::Range<f64>) -> f64 {
    let script = format!(
        "serial=\"threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 3 --format json\"
         busybox taskset 1 $serial; {beside} $serial"
    );
    let scheduler = format!("scx_threadwise {options}");
    let share = |done: &[f64]| done[1] / done[0];
    share(&on_amp_8(&scheduler, &script, |done| {
        expected.contains(&share(done))
    }))
}

#[test]
fn a_serial_program_gets_the_fast_cpu() {
    let parallel =
        "threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration 20 >/dev/null &
         busybox sleep 1;";
    // 1.9 times what a slow CPU makes of it.
    let alone = share_of_the_fast_cpu("--machine amp-8", "", 0.95..2.0);
    assert!(alone > 0.95, "{alone} of the fast CPU's speed, alone");
    // The timer of those that wait runs on some CPU, too.
    let beside = share_of_the_fast_cpu("--machine amp-8", parallel, 0.85..2.0);
    assert!(
        beside > 0.85,
        "{beside} of the fast CPU's speed, beside a parallel program"
    );
    // The kernel of the guest does not show which CPU is fast. Who is not told mostly gets a slow one.
    let untold = share_of_the_fast_cpu("", parallel, 0.0..0.85);
    assert!(untold < 0.85, "{untold} without knowing the machine");
}

/// The longest that a serial program was away from the fast CPU for slow ones at a time, in 4 s beside a parallel one on amp-8, in
/// milliseconds. It begins on a slow one.
fn longest_on_slow_cpus(options: &str, shows: impl Fn(&f64) -> bool) -> f64 {
    let script = r#"
        busybox mount -t tracefs none /sys/kernel/tracing
        threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration 100 >/dev/null & P=$!
        busybox sleep 1
        busybox taskset 2 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 100 >/dev/null & S=$!
        busybox sleep 0.5; busybox taskset -p ff $S >/dev/null; busybox sleep 1
        cd /sys/kernel/tracing; echo ff >tracing_cpumask; echo 4096 >buffer_size_kb; echo >trace
        echo "next_pid == $S || prev_pid == $S" >events/sched/sched_switch/filter; echo 1 >events/sched/sched_switch/enable
        echo 1 >tracing_on; echo "on $(busybox awk '{ print $39 }' /proc/$S/stat) " >trace_marker
        busybox sleep 4; echo "off " >trace_marker; echo 0 >tracing_on
        echo 0 >events/enable; echo 0 >events/sched/sched_switch/filter
        echo "serial $S"; busybox cat trace; kill $P $S"#;
    let job = job(&format!("scx_threadwise {options}"), script);
    until_shown("amp-8", &job, longest_of_trace, shows)
}

/// That of a trace which begins with the CPU on which the program was.
fn longest_of_trace(out: &str) -> f64 {
    let is_next = format!(" next_pid={} ", number_after("serial ", out));
    let (mut slow_since, mut longest, mut has_ended) = (None, 0.0_f64, false);
    for (before, what) in out.lines().filter_map(|line| line.split_once(": ")) {
        let mut words = before.split_whitespace().rev();
        let Some(at_ms) = words
            .next()
            .and_then(|word| word.parse::<f64>().ok())
            .map(|at| 1000.0 * at)
        else {
            continue;
        };
        let comes_to_fast = match what.split_once(": ") {
            Some(("tracing_mark_write", mark)) if mark.starts_with("on ") => {
                Some(number_after("on ", mark) == 0)
            }
            Some(("sched_switch", switch)) if switch.contains(&is_next) => {
                Some(words.any(|word| word == "[000]"))
            }
            Some(("tracing_mark_write", _)) => {
                has_ended = true;
                None
            }
            _ => None,
        };
        longest = slow_since.map_or(longest, |since| longest.max(at_ms - since));
        slow_since = match comes_to_fast {
            Some(true) => None,
            Some(false) => slow_since.or(Some(at_ms)),
            None => slow_since,
        };
    }
    assert!(has_ended, "{out}");
    longest
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_serial_program_is_on_no_slow_cpu_for_longer_than_a_slice() {
    // A slice is sixteen looks of the timer, by estimate up to 9 ms here, and sched_ext ends it at a tick, 4 ms apart; the slice
    // before, of a millisecond, may have ended while a kernel thread had the fast CPU. 16 ms were measured.
    let told = longest_on_slow_cpus("--machine amp-8", |&longest| longest < 22.0);
    assert!(told < 22.0, "{told} ms at a time on slow CPUs");
    let untold = longest_on_slow_cpus("", |&longest| longest > 22.0);
    assert!(untold > 22.0, "{untold} ms without knowing the machine");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn threads_take_turns_on_the_fast_cpu() {
    // Seven of eight threads would always be on CPUs of half the speed, and all as slow as those; with turns it is an
    // eighth more.
    let script = "
        busybox taskset 2 threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 2 --format json
        threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 10000 --duration 4 --format json";
    let share = |done: &[f64]| done[1] / 4.0 / (8.0 * done[0] / 2.0);
    let done = on_amp_8("scx_threadwise --machine amp-8", script, |done| {
        share(done) > 1.04
    });
    assert!(share(&done) > 1.04, "{} of eight slow CPUs", share(&done));
}

/// Without turns the first would have it for as long as nothing else disturbs the two, which kernel threads do now and then; the
/// simulator's test of this name shows what that comes to where nothing does.
#[test]
#[ignore = "long: make test FULL=1"]
fn serial_programs_take_turns_on_the_fast_cpu() {
    let script = r#"
        for i in 1 2; do serial --duration 4 --format json >/tmp/$i & P="$P $!"; done
        wait $P; busybox cat /tmp/1 /tmp/2
        "#;
    let less_to_more = |done: &[f64]| done[0].min(done[1]) / done[0].max(done[1]);
    let done = on_amp_8("scx_threadwise --machine amp-8", script, |done| {
        less_to_more(done) > 0.85
    });
    assert!(less_to_more(&done) > 0.85, "{done:?}");
}

/// How long the fast CPU was idle beside a serial program in 3 s, in milliseconds, while one that is bound to it slept for 8 ms on
/// the mean and ran for as long in turn; and in which part of its wake-ups the bound one waited for longer than 0.7 ms.
fn idle_beside_a_serial_one(options: &str) -> (f64, f64) {
    let script = r#"
        busybox mount -t tracefs none /sys/kernel/tracing
        busybox taskset 1 threadwise bench interactive --sleep-ms 8 --units 1600 --duration 100 >/dev/null & I=$!
        busybox taskset ff threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 100 >/dev/null & S=$!
        busybox sleep 1; cd /sys/kernel/tracing
        echo 1 >tracing_cpumask; echo 4096 >buffer_size_kb; echo 1 >events/sched/sched_switch/enable; echo 1 >events/sched/sched_wakeup/enable
        echo 1 >tracing_on; busybox sleep 3; echo 0 >tracing_on; echo "bound $I"; busybox cat trace; kill $I $S
        echo 0 >events/enable; echo ff >tracing_cpumask"#;
    let scheduler = format!("scx_threadwise --machine amp-8 {options}");
    let out = stdout(exec("amp-8", &job(&scheduler, script)));
    let bound = number_after("bound ", &out);
    let (mut idle_ms, mut idle_since, mut late, mut woken_at) = (0.0, None, Vec::new(), None);
    for line in out.lines().filter(|line| line.contains(": sched_")) {
        let (before, what) = line.split_once(": sched_").unwrap();
        let at_ms = 1000.0 * before.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        if what.starts_with("switch") && what.contains("next_comm=swapper/0") {
            idle_since = Some(at_ms);
        } else if what.starts_with("switch") {
            idle_ms += idle_since.take().map_or(0.0, |since| at_ms - since);
        }
        if what.starts_with("wakeup") && what.contains(&format!(" pid={bound} ")) {
            woken_at = Some(at_ms);
        } else if what.contains(&format!(" next_pid={bound} ")) {
            late.extend(woken_at.take().map(|since| at_ms - since > 0.7));
        }
    }
    assert!(late.len() > 60, "{} wake-ups: {out}", late.len());
    let nr_late = late.iter().filter(|&&late| late).count();
    (idle_ms, nr_late as f64 / late.len() as f64)
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_fast_cpu_with_nothing_to_do_asks_for_what_runs_on_a_slow_one() {
    // If that were not asked, it would come at one of its own CPU's ticks, every 4 ms.
    let (asked, late) = idle_beside_a_serial_one("");
    let (unasked, _) = idle_beside_a_serial_one("--inject-fault aloof");
    assert!(
        unasked > 1.8 * asked,
        "idle for {asked} ms, for {unasked} if not asked"
    );
    // And who runs there meanwhile makes way at once for the one that can go nowhere else. When that waited until it was looked
    // after it was late nearly always.
    assert!(late < 0.4, "late in {late} of its wake-ups");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn serial_programs_have_the_faster_of_three_kinds_of_cpus() {
    // One CPU of full speed, three of 3/4, four of 3/8. Four serial programs beside a parallel one: 3.25 times the fastest
    // CPU, and by turns on that as much for each.
    let script = r#"
        serial="threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --format json --duration"
        busybox taskset 1 $serial 2
        threadwise bench synthetic --ratio inf:1 --threads 8 --phase-units 2000 --duration 60 >/dev/null & P=$!
        busybox sleep 0.5
        for i in 1 2 3 4; do $serial 4 >/tmp/$i & S="$S $!"; done
        wait $S; kill $P; busybox cat /tmp/1 /tmp/2 /tmp/3 /tmp/4
        "#;
    let sum = |done: &[f64]| done[1..].iter().sum::<f64>() / 4.0 / (done[0] / 2.0);
    let less_to_more = |done: &[f64]| {
        let of = |of: fn(f64, f64) -> f64| done[2..].iter().copied().fold(done[1], of);
        of(f64::min) / of(f64::max)
    };
    let on = |scheduler: &str, holds: &dyn Fn(&[f64]) -> bool| {
        measured_by("work_units", "three-kinds", scheduler, script, holds)
    };
    let is_right = |done: &[f64]| done.len() == 5 && sum(done) > 0.87 * 3.25 && less_to_more(done) > 0.8;
    let done = on("scx_threadwise --machine three-kinds", &is_right);
    assert!(is_right(&done), "{} times the fastest: {done:?}", sum(&done));
    // Who is not told has half of them on slow ones.
    let untold = on("scx_threadwise", &|done| !is_right(done));
    assert!(!is_right(&untold), "{untold:?} without knowing the machine");
}

#[test]
fn no_fast_cpu_is_lost_to_programs_that_end() {
    // A thread that exits on a slow CPU may have claimed the fast one, and never goes there.
    let script = "for i in $(busybox seq 1 8); do
            threadwise bench synthetic --ratio 1:1 --threads 8 --phase-units 2000 --duration 1 --seed $i --format json
        done";
    let least = |done: &[f64]| {
        let most = done.iter().copied().fold(0.0, f64::max);
        done.iter().copied().fold(most, f64::min) / most
    };
    let done = on_amp_8("scx_threadwise --machine amp-8", script, |done| {
        least(done) > 0.85
    });
    // Without the fast CPU it is 0.67.
    assert!(done.len() == 8 && least(&done) > 0.85, "{done:?}");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_parallel_program_keeps_all_cpus_of_an_unequal_machine_busy() {
    // Whenever the fast CPU goes idle, the ticks of seven slow ones see it at once; one of them may send its task.
    // The kernel may have had the luck of serial phases on the fast CPU.
    for ratio in ["inf:1", "1:1"] {
        let script = format!(
            "threadwise bench synthetic --ratio {ratio} --threads 8 --phase-units 2000 --duration 4 --format json"
        );
        let kernel = on_amp_8("", &script, |_| true)[0];
        let ours = on_amp_8("scx_threadwise --machine amp-8", &script, |done| {
            done[0] > 0.85 * kernel
        })[0];
        assert!(
            ours > 0.85 * kernel,
            "{ratio}: {ours} units, and {kernel} under the kernel's scheduler"
        );
    }
}

/// One serial program alone, then four beside each other three times, with `prefix` before each command.
fn four_serial_programs(prefix: &str) -> String {
    format!(
        r#"
        serial="{prefix} threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf --duration 1.2 --format json"
        $serial
        for i in 1 2 3; do
            P=; for p in 1 2 3 4; do $serial >/tmp/$p & P="$P $!"; done; wait $P
            busybox cat /tmp/1 /tmp/2 /tmp/3 /tmp/4
        done
        "#
    )
}

/// The least that one of several did, over what the first did, alone.
fn least(done: &[f64]) -> f64 {
    done.iter().copied().fold(done[0], f64::min) / done[0]
}

/// The work of the one of [`four_serial_programs`] that gets least, over that of one alone.
fn least_of_four(machine: &str, scheduler: &str, script: &str, holds: impl Fn(f64) -> bool) -> f64 {
    least(&measured_by("work_units", machine, scheduler, script, |done| {
        done.len() == 13 && holds(least(done))
    }))
}

const TOLD: &str = "scx_threadwise --machine smt-8-hidden";

#[test]
fn no_two_threads_share_a_core_while_one_is_idle() {
    // The last may run on the second hardware thread of each core only.
    for (machine, scheduler, prefix) in [
        ("smt-8", "scx_threadwise", ""),
        ("smt-8-hidden", TOLD, ""),
        ("smt-8-hidden", TOLD, "busybox taskset aa"),
    ] {
        let script = four_serial_programs(prefix);
        let least = least_of_four(machine, scheduler, &script, |least| least > 0.93);
        assert!(least > 0.93, "{machine} {prefix}: {least} of a core");
    }
    // Who is not told has two threads on one core sooner or later.
    let script = four_serial_programs("");
    let untold = least_of_four("smt-8-hidden", "scx_threadwise", &script, |least| least < 0.8);
    assert!(untold < 0.8, "{untold} of a core without knowing them");
}

/// The kernel does not show what an offline CPU shares. A scheduler that was loaded before it came would take each of its cores
/// for two, whose threads are as fast as alone; of a CPU that it knew and that comes back it has nothing to learn.
#[test]
fn cores_are_whole_whose_second_cpus_come_online_later() {
    let read = |out: &str| {
        (
            number_after("came anew ", out),
            least(&reported("work_units", out)),
        )
    };
    let after = |first: &str, second: &str, shows: fn(&(u64, f64)) -> bool| {
        let script = format!(
            r#"
            set_online() {{ for c in 1 3 5 7; do echo $1 >/sys/devices/system/cpu/cpu$c/online || exit 8; done; }}
            {first}; attach; before=$(seq); {second}; set_online 1; busybox sleep 5; until_state enabled
            echo "came anew $(($(seq) - before)) times"
            {}
            busybox kill -INT $S; wait $S || {{ busybox cat /tmp/log; exit 9; }}
            "#,
            four_serial_programs("")
        );
        until_shown("smt-8", &job("", &script), read, shows)
    };
    let (anew, share) = after("set_online 0", "true", |&(_, share)| share > 0.93);
    assert!(anew == 1 && share > 0.93, "{anew} times; {share} of a core");
    let (anew, _) = after("true", "set_online 0", |_| true);
    assert_eq!(anew, 0, "it knew them");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_task_whose_cpu_is_taken_goes_to_another_of_its_core() {
    // A hog on each of three cores moves to that core's other CPU, all at once and again and again: where is one that mostly sleeps?
    // What else there is to run has the fourth.
    let script = r#"
        busybox taskset -p c0 $$ >/dev/null
        busybox taskset 3f threadwise bench interactive --sleep-ms 10 --duration 100 >/dev/null & I=$!
        for mask in 1 4 10; do
            busybox taskset $mask threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 100 >/dev/null & P="$P $!"
        done
        busybox sleep 0.5
        for masks in $(for i in $(busybox seq 1 20); do echo 2,8,20 1,4,10; done); do
            set -- $(echo $masks | busybox tr , ' ')
            for p in $P; do busybox taskset -p $1 $p >/dev/null; shift; done
            busybox sleep 0.15
            read -r line </proc/$I/stat; set -- $line; shift 38; echo $1
        done
        busybox kill $I $P"#;
    let nr_changes = |out: &str| {
        let cpus: Vec<u32> = out.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(cpus.len(), 40, "{out}");
        cpus.windows(2).filter(|pair| pair[0] / 2 != pair[1] / 2).count()
    };
    for (machine, scheduler) in [("smt-8", "scx_threadwise"), ("smt-8-hidden", TOLD)] {
        let ours = until_shown(machine, &job(scheduler, script), nr_changes, |&nr| nr <= 5);
        assert!(ours <= 5, "{machine}: {ours} of 39 times on another core");
    }
    // Who does not know which CPUs share a core takes any, and may be lucky once.
    let job = job("scx_threadwise", script);
    let untold: Vec<usize> = (0..3)
        .map(|_| until_shown("smt-8-hidden", &job, nr_changes, |&nr| nr > 5))
        .collect();
    assert!(
        untold.iter().any(|&nr| nr > 5),
        "{untold:?} of 39 times on another core"
    );
}

/// For which part of the time two threads ran on one core while another was idle, of what was traced of ten programs of two
/// threads that meet again and again, one after the other, on a machine whose CPUs 2i and 2i + 1 share a core. They may run on
/// three CPUs, so that who does not know the cores cannot do right by chance in all of them.
fn shared_beside_an_idle_core(machine: &str, scheduler: &str, shows: impl Fn(&f64) -> bool) -> f64 {
    let script = r#"
        busybox mount -t tracefs none /sys/kernel/tracing
        meet() { busybox taskset $1 threadwise bench synthetic --ratio inf:1 --threads 2 --phase-units 200 --duration 0.3 >/dev/null; }
        meet 7; cd /sys/kernel/tracing; echo ff >tracing_cpumask; echo 4096 >buffer_size_kb; echo >trace
        echo 1 >events/sched/sched_switch/enable; echo 1 >tracing_on
        for cpus in 7 e 1c 38 70 e0 7 e 1c 38; do meet $cpus; done
        echo 0 >tracing_on; echo 0 >events/enable; busybox cat trace"#;
    until_shown(machine, &job(scheduler, script), shared_in_trace, shows)
}

/// That of a trace of `sched_switch` in which the program's threads are named `syn-`.
fn shared_in_trace(out: &str) -> f64 {
    // What runs on a CPU that has not switched yet is not known; so it is neither idle nor of the program.
    let (mut runs, mut last_ms, mut shared_ms, mut all_ms) = ([""; 8], None, 0.0, 0.0);
    for (before, switch) in out.lines().filter_map(|line| line.split_once(": sched_switch: ")) {
        let mut words = before.split_whitespace().rev();
        let at_ms = 1000.0 * words.next().unwrap().parse::<f64>().unwrap();
        let cpu = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok());
        let (_, next) = switch.split_once(" next_comm=").unwrap();
        let took_ms = at_ms - last_ms.replace(at_ms).unwrap_or(at_ms);
        let cores = || runs.chunks(2);
        let shares = cores().any(|core| core.iter().all(|runs| runs.starts_with("syn-")));
        let is_idle = cores().any(|core| core.iter().all(|runs| runs.starts_with("swapper")));
        all_ms += took_ms;
        shared_ms += if shares && is_idle { took_ms } else { 0.0 };
        runs[cpu.unwrap()] = next;
    }
    assert!(all_ms > 1000.0, "{all_ms} ms in {out}");
    shared_ms / all_ms
}

#[test]
fn two_threads_never_share_a_core_while_one_is_idle() {
    for (machine, scheduler) in [("smt-8", "scx_threadwise"), ("smt-8-hidden", TOLD)] {
        let shared = shared_beside_an_idle_core(machine, scheduler, |&shared| shared < 0.01);
        assert!(shared < 0.01, "{machine}: {shared} of the time");
    }
    let untold = shared_beside_an_idle_core("smt-8-hidden", "scx_threadwise", |&shared| shared > 0.02);
    assert!(untold > 0.02, "{untold} of the time, without knowing the cores");
}

#[test]
fn threads_that_meet_have_a_core_each() {
    // CPUs of several cores go idle at once, and the kernel loses idle cores over that. Before ours looked for them itself the
    // least of six runs had 0.67 and 0.83 of what four cores do.
    let script = r#"
        meet() { threadwise bench synthetic --ratio inf:1 --phase-units 2000 --duration 1.5 --format json "$@"; }
        meet --threads 1
        for seed in 1 2 3 4 5 6; do meet --threads 4 --seed $seed; done
        "#;
    let least = |done: &[f64]| done[1..].iter().copied().fold(f64::INFINITY, f64::min) / (4.0 * done[0]);
    let done = measured_by("work_units", "smt-8", "scx_threadwise", script, |done| {
        least(done) > 0.93
    });
    assert!(least(&done) > 0.93, "{} of four cores: {done:?}", least(&done));
}

#[test]
fn threads_have_a_core_each_where_cores_differ_too() {
    // Two fast and two slower cores of two hardware threads each, which the kernel takes for cores. Who goes by speed alone puts
    // two threads onto one fast core, 0.62 of what two do.
    let script = r#"
        meet() { threadwise bench synthetic --ratio inf:1 --phase-units 2000 --duration 1.5 --format json "$@"; }
        busybox taskset 1 threadwise bench synthetic --ratio inf:1 --phase-units 2000 --duration 1.5 --format json --threads 1
        for seed in 1 2 3 4; do meet --threads 2 --seed $seed; done
        "#;
    let machine = "hybrid-8-hidden";
    let least = |done: &[f64]| done[1..].iter().copied().fold(f64::INFINITY, f64::min) / (2.0 * done[0]);
    let told = format!("scx_threadwise --machine {machine}");
    let done = measured_by("work_units", machine, &told, script, |done| least(done) > 0.93);
    assert!(
        least(&done) > 0.93,
        "{} of two fast cores: {done:?}",
        least(&done)
    );
    let untold = measured_by("work_units", machine, "scx_threadwise", script, |done| {
        least(done) < 0.85
    });
    assert!(least(&untold) < 0.85, "{untold:?} without knowing cores");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_thread_leaves_a_core_that_it_shares() {
    // Four cores are taken when the fifth thread starts, and it is let go on one that it shares, not that which is idle
    // soon after.
    let script = r#"
        hog="threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf --duration"
        $hog 2 --format json
        for i in 1 2 3; do
            busybox taskset 4 $hog 0.8 >/dev/null &
            for mask in 10 40 3; do busybox taskset $mask $hog 60 >/dev/null & PIDS="$PIDS $!"; done
            busybox sleep 0.3
            busybox taskset 20 $hog 2 --format json & FIFTH=$!
            busybox sleep 0.1
            for t in /proc/$FIFTH/task/*; do busybox taskset -p ff ${t##*/} >/dev/null; done
            wait $FIFTH; kill $PIDS; wait; PIDS=
        done
        "#;
    let least = |done: &[f64]| done.iter().copied().fold(done[0], f64::min) / done[0];
    for (machine, scheduler) in [("smt-8", "scx_threadwise"), ("smt-8-hidden", TOLD)] {
        let done = measured_by("work_units", machine, scheduler, script, |done| {
            least(done) > 0.85
        });
        assert!(least(&done) > 0.85, "{machine}: {done:?}");
    }
    let untold = measured_by("work_units", "smt-8-hidden", "scx_threadwise", script, |done| {
        least(done) < 0.75
    });
    assert!(least(&untold) < 0.75, "{untold:?} without knowing cores");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn speeds_that_nobody_tells_are_measured() {
    let script = |options: &str| {
        format!(
            "busybox taskset 1 threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf --duration 1 --format json
            attach {options}; for i in 1 2 3 4; do serial --duration 1 --format json; done; busybox kill -INT $S; wait $S"
        )
    };
    let done = on_amp_8("", &script("--calibrate"), |done| least(done) > 0.9);
    assert!(least(&done) > 0.9, "{done:?}, the first bound to the fast CPU");
    let unmeasured = on_amp_8("", &script(""), |done| least(done) < 0.7);
    assert!(least(&unmeasured) < 0.7, "{unmeasured:?} without");
}

#[test]
#[ignore = "long: make test FULL=1"]
fn speeds_that_the_kernel_tells_are_gone_by() {
    // The kernel's own scale; what firmware says (CPPC), where it shows that only; and where the driver amd-pstate ranks cores, highest
    // frequencies, because a rank is no speed: here it has CPU 1 come first. The kernel of the guest knows of equal CPUs, so these files are
    // laid over its own, and each makes another CPU the fast one. A serial program begins on CPU 2, which is let go soon.
    let script = r#"
        cpus=/sys/devices/system/cpu
        tell() {
            file=/$1; shift; cpu=0
            for value; do busybox mkdir -p /tmp/cpu/cpu$cpu${file%/*}; echo $value >/tmp/cpu/cpu$cpu$file; cpu=$((cpu + 1)); done
        }
        scheduled() {
            busybox mount --bind /tmp/cpu $cpus; attach
            busybox taskset 4 threadwise bench synthetic --phase-units 500 --threads 1 --ratio 1:inf --duration 20 >/dev/null & P=$!
            busybox sleep 0.5
            for t in /proc/$P/task/*; do busybox taskset -p ff ${t##*/} >/dev/null; done
            busybox sleep 0.5
            for i in 1 2 3 4 5 6 7 8 9 10; do
                busybox sleep 0.1; busybox cat /proc/$P/task/*/stat | busybox awk '$3 == "R" { printf "%d ", $39 }'
            done
            echo looked
            busybox kill $P $S; wait; until_state disabled; busybox umount $cpus
            busybox rm -rf /tmp/cpu/cpu*/cpu_capacity /tmp/cpu/cpu*/acpi_cppc /tmp/cpu/cpu*/cpufreq
        }
        busybox taskset -p 1 $$ >/dev/null; busybox mkdir /tmp/cpu
        for list in online present possible; do busybox cat $cpus/$list >/tmp/cpu/$list; done
        for cpu in 0 1 2 3 4 5 6 7; do busybox mkdir /tmp/cpu/cpu$cpu; busybox cp -r $cpus/cpu$cpu/topology /tmp/cpu/cpu$cpu; done
        tell cpu_capacity 512 512 512 1024 512 512 512 512; scheduled
        tell acpi_cppc/highest_perf 100 100 100 100 100 200 100 100; scheduled
        tell acpi_cppc/highest_perf 166 255 166 166 166 166 166 166
        tell cpufreq/amd_pstate_prefcore_ranking 166 255 166 166 166 166 166 166
        tell cpufreq/cpuinfo_max_freq 2000000 2000000 2000000 2000000 2000000 2000000 4000000 2000000; scheduled
        "#;
    let job = as_fast_as_possible(job("", script));
    // How often it was seen on the CPU that each makes the fast one.
    let seen = until_shown("smp-8", &job, seen_where_told, |seen| {
        seen.iter().all(|share| *share > 0.8)
    });
    assert!(
        seen.iter().all(|share| *share > 0.8),
        "by scale, CPPC and frequency: {seen:?}"
    );
}

fn seen_where_told(out: &str) -> Vec<f64> {
    let lines = out.lines().filter_map(|line| line.strip_suffix("looked"));
    let share = |(line, told): (&str, &str)| {
        let seen: Vec<_> = line.split_whitespace().collect();
        seen.iter().filter(|cpu| **cpu == told).count() as f64 / seen.len().max(1) as f64
    };
    let seen: Vec<_> = lines.zip(["3", "5", "6"]).map(share).collect();
    assert_eq!(seen.len(), 3, "{out}");
    seen
}

const TWO_QUADS: &str = "package:2 llc:1 core:4";

/// How many of four programs of a thread each run in each of two packages under a mode, most of the time: who looks is awake
/// too, and others follow or flee it for a moment; so it starts no program. `before` is done first.
fn per_package(mode: &str, before: &str) -> [usize; 2] {
    // The CPU of a task is field 39 of its stat file.
    let script = format!(
        "{before}
         for i in 1 2 3 4; do
            threadwise bench synthetic --ratio 1:inf --threads 1 --phase-units 500 --duration 60 >/dev/null & P=\"$P $!\"; F=\"$F /proc/$!/stat\"
         done
         for i in 1 2 3 4 5 6 7 8 9; do
            busybox sleep 0.4
            for f in $F; do read -r line <$f; set -- $line; shift 38; echo $1; done
         done
         busybox kill $P"
    );
    let scheduler = format!("scx_threadwise --mode {mode}");
    let out = stdout(exec(TWO_QUADS, &job(&scheduler, &script)));
    let cpus: Vec<usize> = out.lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(cpus.len(), 36, "{out}");
    let mut looks: Vec<[usize; 2]> = cpus
        .chunks(4)
        .map(|cpus| [0, 1].map(|package| cpus.iter().filter(|&&cpu| cpu / 4 == package).count()))
        .collect();
    looks.sort_unstable();
    let often = |look: &[usize; 2]| looks.iter().filter(|&other| other == look).count();
    *looks.iter().max_by_key(|&look| often(look)).expect("nine looks")
}

#[test]
fn packages_are_spread_over_or_filled_as_asked_for() {
    // multicore-scheduling, Figs. 5 and 6.
    let packed = |mode: &str| {
        let mut packed = per_package(mode, "");
        packed.sort_unstable();
        packed
    };
    assert_eq!(per_package("performance", ""), [2, 2]);
    assert_eq!(packed("powersave"), [0, 4]);
    let profile = "busybox mount -t tmpfs none /sys/firmware; busybox mkdir /sys/firmware/acpi
        echo low-power >/sys/firmware/acpi/platform_profile";
    stdout(exec(TWO_QUADS, &as_fast_as_possible(job("", profile))));
    assert_eq!(packed("auto"), [0, 4]);
    let changes = "echo performance >/sys/firmware/acpi/platform_profile; busybox sleep 2";
    assert_eq!(per_package("auto", changes), [2, 2]);
}

#[test]
#[ignore = "long: make test FULL=1"]
fn threads_of_a_program_stay_behind_one_cache_while_they_fit() {
    // Four threads on four cores, in phases of some 20 ms after which they all wake up: how often they are in one package. At
    // the end of a phase and beside who looks one may be elsewhere for a moment.
    let script = r#"
        threadwise bench synthetic --ratio inf:1 --threads 4 --phase-units 2000 --duration 60 >/dev/null & P=$!
        busybox sleep 1
        for i in 1 2 3 4 5 6 7 8 9 10 11; do
            busybox sleep 0.3
            for t in /proc/$P/task/*; do read -r line <$t/stat; set -- $line; shift 38; echo $1; done
        done
        busybox kill $P"#;
    let nr_together = |options: &str| {
        let scheduler = format!("scx_threadwise --mode performance {options}");
        let out = stdout(exec(TWO_QUADS, &job(&scheduler, script)));
        let cpus: Vec<usize> = out.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(cpus.len(), 44, "{out}");
        let together = |look: &&[usize]| look.iter().all(|cpu| cpu / 4 == look[0] / 4);
        cpus.chunks(4).filter(together).count()
    };
    let (one, apart) = (nr_together(""), nr_together("--serial-threshold 4"));
    assert!(one > 5, "{one} of 11 looks");
    assert!(
        apart < 3,
        "{apart} of 11 looks, although it is never parallel and has no home"
    );
}

#[test]
#[ignore = "long: make test FULL=1"]
fn a_serial_program_keeps_its_core_while_others_can_go_elsewhere() {
    // Four cores of two hardware threads: five threads of a parallel program have room on three of them, and a serial
    // one that shares its core has 62 % of its speed.
    let script = r#"
        serial --duration 1 --format json
        threadwise bench synthetic --ratio inf:1 --threads 5 --phase-units 2000 --duration 20 >/dev/null & H=$!
        busybox sleep 1; for i in 1 2 3 4 5 6; do serial --duration 1 --format json; done; busybox kill $H
        "#;
    for (machine, scheduler) in [("smt-8", "scx_threadwise"), ("smt-8-hidden", TOLD)] {
        let done = measured_by("work_units", machine, scheduler, script, |done| least(done) > 0.9);
        assert!(least(&done) > 0.9, "{machine}: {done:?}, alone first");
    }
    // Who does not know cores puts one of six beside a parallel thread.
    let untold = measured_by("work_units", "smt-8-hidden", "scx_threadwise", script, |done| {
        least(done) < 0.85
    });
    assert!(least(&untold) < 0.85, "{untold:?} without knowing cores");
}
