// SPDX-License-Identifier: GPL-2.0-only
//! How fast each CPU is, where nobody says: measured.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::panic::resume_unwind;
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use threadwise_machine::{CpuId, Machine, cpulist};
use threadwise_policy::CAPACITY_ONE;
use tracing::warn;

/// Steps of the loop that is timed, some millions of instructions: 1 ms of a fast CPU.
const STEPS: u64 = 1_000_000;

/// Of so many times the shortest counts: interrupts and a cold clock only ever make it longer.
const REPEATS: usize = 5;

/// CPUs whose speeds differ by less count as equal: two measurements of one CPU are not the same either.
const EQUAL: f64 = 0.06;

/// The capacity of each CPU, [`CAPACITY_ONE`] for the fastest; one after the other, some milliseconds each. CPUs on which this
/// process may not run are not measured, and count as their core, or else as the slowest of the others. Other load on a CPU does
/// not matter, as the time counts that the measuring thread itself had, nor does load on one CPU of a core that the machine shows.
/// On a core that it does not show, load makes the others slower.
///
/// # Errors
/// If no thread can be started, or it cannot be bound to one of its CPUs.
pub fn capacities(machine: &Machine) -> Result<Vec<(u16, u32)>> {
    let mut times = measured_apart()?;
    ensure!(!times.is_empty(), "this process may run on no CPU");
    add_unmeasured(&mut times, machine);
    share_in_cores(&mut times, machine);
    let unknown = take_for_slowest(&mut times);
    if !unknown.is_empty() {
        warn!(
            "this process may not run on CPUs {}, which are not measured and count as the slowest: start it where it may run on all \
             (taskset, cpuset)",
            cpulist::format(&unknown)
        );
    }
    Ok(from_times(times))
}

/// How long work takes on a CPU of which nobody knows.
const UNKNOWN: Duration = Duration::MAX;

/// Adds those CPUs of the machine that were not measured.
fn add_unmeasured(times: &mut Vec<(u16, Duration)>, machine: &Machine) {
    let measured: BTreeSet<u16> = times.iter().map(|&(cpu, _)| cpu).collect();
    let all = machine
        .cpus()
        .iter()
        .filter_map(|cpu| u16::try_from(cpu.id.0).ok());
    times.extend(
        all.filter(|cpu| !measured.contains(cpu))
            .map(|cpu| (cpu, UNKNOWN)),
    );
}

/// Has CPUs of which nobody knows take as long as the slowest of the others, and says which they are: who took them for fast
/// would send tasks there, which would find nothing better.
fn take_for_slowest(times: &mut [(u16, Duration)]) -> Vec<CpuId> {
    let known = times
        .iter()
        .map(|&(_, time)| time)
        .filter(|&time| time != UNKNOWN);
    let slowest = known.max().unwrap_or(UNKNOWN);
    let mut unknown = Vec::new();
    for (cpu, time) in times.iter_mut().filter(|(_, time)| *time == UNKNOWN) {
        unknown.push(CpuId((*cpu).into()));
        *time = slowest;
    }
    unknown
}

/// Gives all CPUs of a core the shortest time of them. What runs on one of them slows the others down, and is not in their CPU
/// time; on its own CPU it waits while that is measured.
fn share_in_cores(times: &mut [(u16, Duration)], machine: &Machine) {
    let core_of = |cpu: u16| machine.cpu(CpuId(cpu.into())).map(|cpu| cpu.core);
    let mut shortest = BTreeMap::new();
    for &(cpu, time) in &*times {
        let of_core = shortest.entry(core_of(cpu)).or_insert(time);
        *of_core = time.min(*of_core);
    }
    for (cpu, time) in times {
        if let Some(core) = core_of(*cpu) {
            *time = shortest[&Some(core)];
        }
    }
}

/// How long the same work takes on each CPU, measured in a thread of its own. Who binds itself cannot undo it: of the CPUs
/// that it may use the kernel shows those alone that are online, and it would stay away from the others for good.
fn measured_apart() -> Result<Vec<(u16, Duration)>> {
    let thread = Builder::new().name(String::from("measure")).spawn(measured);
    let ended = thread.context("cannot start a thread that measures CPUs")?.join();
    ended.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The same, measured in this thread, which is bound to the last CPU afterwards.
fn measured() -> Result<Vec<(u16, Duration)>> {
    let me = Pid::from_raw(0);
    let allowed = sched_getaffinity(me).context("cannot ask for the CPUs of this process")?;
    let mut times = Vec::new();
    for cpu in (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)) {
        let mut only = CpuSet::new();
        only.set(cpu)?;
        sched_setaffinity(me, &only).with_context(|| {
            format!("cannot run on CPU {cpu} to measure it: if it has just gone offline, start again")
        })?;
        times.push((u16::try_from(cpu)?, shortest()?));
    }
    Ok(times)
}

fn shortest() -> Result<Duration> {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let mut shortest = Duration::MAX;
    for _ in 0..REPEATS {
        let from = now()?;
        black_box(spin(black_box(1)));
        shortest = shortest.min(now()? - from);
    }
    Ok(shortest)
}

/// Arithmetic that touches no memory and cannot be done ahead (xorshift64, Marsaglia 2003).
fn spin(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

/// Capacities from how long the same work took on each CPU. Those of nearly the same speed get the same.
fn from_times(mut times: Vec<(u16, Duration)>) -> Vec<(u16, u32)> {
    times.sort_by_key(|&(cpu, time)| (time, cpu));
    let fastest = times[0].1.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut first_of_kind = fastest;
    let mut capacities: Vec<(u16, u32)> = times
        .into_iter()
        .map(|(cpu, time)| {
            let time = time.as_secs_f64();
            if time > first_of_kind * (1.0 + EQUAL) {
                first_of_kind = time;
            }
            let share = (f64::from(CAPACITY_ONE) * fastest / first_of_kind.max(fastest)).round();
            (cpu, (share as u32).max(1))
        })
        .collect();
    capacities.sort_unstable();
    capacities
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn kinds_of_cpus_are_told_apart_and_noise_is_not() {
        let of = |times: &[u64]| -> Vec<u32> {
            let times = times
                .iter()
                .enumerate()
                .map(|(cpu, &time)| (cpu as u16, Duration::from_micros(time)));
            from_times(times.collect())
                .into_iter()
                .map(|(_, capacity)| capacity)
                .collect()
        };
        assert_eq!(of(&[1000, 2000, 2050, 2010]), [1024, 512, 512, 512]);
        assert_eq!(of(&[1030, 1000, 1010, 1059]), [1024; 4]);
        assert_eq!(of(&[4000, 1000, 2000, 1001]), [256, 1024, 512, 1024]);
        assert_eq!(of(&[0, 1]).len(), 2, "a clock that stands still");
    }

    #[test]
    fn what_runs_on_one_cpu_of_a_core_makes_no_other_slower() {
        let machine = Machine::from_synthetic("core:3 pu:2").expect("a machine");
        // CPU 1 is busy, so CPU 0 is slower; so is CPU 5, and the machine does not show CPUs 6 and 7.
        let took = [1610, 1000, 2000, 2010, 2020, 3200, 1600, 1000];
        let mut times: Vec<(u16, Duration)> = (0..).zip(took.map(Duration::from_micros)).collect();
        share_in_cores(&mut times, &machine);
        let capacities: Vec<u32> = from_times(times)
            .into_iter()
            .map(|(_, capacity)| capacity)
            .collect();
        assert_eq!(capacities, [1024, 1024, 512, 512, 512, 512, 640, 1024]);
    }

    #[test]
    fn cpus_that_are_not_measured_are_taken_for_slow_unless_their_core_is_known() {
        let machine = Machine::from_synthetic("core:4 pu:2").expect("a machine");
        let mut times = vec![
            (0, Duration::from_millis(1)),
            (2, Duration::from_millis(2)),
            (3, Duration::from_millis(2)),
        ];
        add_unmeasured(&mut times, &machine);
        share_in_cores(&mut times, &machine);
        let unknown = take_for_slowest(&mut times);
        assert_eq!(cpulist::format(&unknown), "4-7");
        let capacities: Vec<u32> = from_times(times)
            .into_iter()
            .map(|(_, capacity)| capacity)
            .collect();
        assert_eq!(capacities, [1024, 1024, 512, 512, 512, 512, 512, 512]);
    }

    fn this_machine() -> Machine {
        Machine::load("host").expect("the kernel shows it")
    }

    #[test]
    fn this_machine_can_be_measured() {
        let capacities = capacities(&this_machine()).expect("affinity can be set");
        assert!(!capacities.is_empty());
        assert!(capacities.iter().any(|&(_, capacity)| capacity == CAPACITY_ONE));
        assert!(
            capacities
                .iter()
                .all(|&(_, capacity)| (1..=CAPACITY_ONE).contains(&capacity))
        );
    }

    #[test]
    fn who_has_cpus_measured_is_bound_to_none() {
        // SAFETY: gettid() has no preconditions and cannot fail.
        let caller = Pid::from_raw(unsafe { libc::gettid() });
        let before = sched_getaffinity(caller).expect("it runs");
        let is_done = AtomicBool::new(false);
        let stays = || {
            while !is_done.load(Ordering::Relaxed) {
                if sched_getaffinity(caller) != Ok(before) {
                    return false;
                }
                thread::sleep(Duration::from_micros(100));
            }
            true
        };
        let stayed = thread::scope(|scope| {
            let watch = scope.spawn(stays);
            let measured = capacities(&this_machine());
            is_done.store(true, Ordering::Relaxed);
            measured.expect("affinity can be set");
            watch.join().expect("it only looks")
        });
        assert!(stayed, "its CPUs were others meanwhile");
    }
}
