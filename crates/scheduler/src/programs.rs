// SPDX-License-Identifier: GPL-2.0-only
//! `--programs`: what each program did, from the table of `bpf/programs.bpf.h` to what is reported of the busiest.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libbpf_rs::{MapCore, MapFlags};
use nix::time::{ClockId, clock_gettime};
use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

use crate::bpf_intf::{self, tw_limits_TW_MAX_PROGRAMS, tw_program};

/// How often an entry is read that two CPUs are changing, before its program is left out of a report.
const READS: usize = 10;

/// By how much CPUs that change the state of one program at once may disagree on when they did.
const SKEW_NS: i64 = 1_000_000;

const IDLE: usize = bpf_intf::tw_state_TW_STATE_IDLE as usize;
const SERIAL: usize = bpf_intf::tw_state_TW_STATE_SERIAL as usize;
const PARALLEL: usize = bpf_intf::tw_state_TW_STATE_PARALLEL as usize;
const NR_STATES: usize = bpf_intf::tw_state_TW_NR_STATES as usize;
const NR_STATS: usize = bpf_intf::tw_program_stat_TW_NR_PROGRAM_STATS as usize;

/// The programs of the machine, by tgid.
pub type Programs = BTreeMap<u32, Program>;

/// What one program did since it began, or was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Tells a program from one that had its tgid before.
    began_ns: u64,
    /// Its ready threads, and the state that goes on, unless it was just changing.
    ready: u32,
    state: Option<usize>,
    /// In each state of `enum tw_state`.
    state_ns: [u64; NR_STATES],
    /// By `enum tw_program_stat`.
    stats: [u64; NR_STATS],
}

/// All programs of the BPF side's table, each with its ready threads as these are counted elsewhere.
///
/// # Errors
/// If the table cannot be read.
pub fn read(table: &impl MapCore, nr_ready: impl Fn(u32) -> u32) -> Result<Programs> {
    // In one batch: the kernel ends a batch early where a bucket would not fit, which libbpf-rs takes for the end.
    let entries = table
        .lookup_batch(tw_limits_TW_MAX_PROGRAMS, MapFlags::ANY, MapFlags::ANY)
        .context("cannot read the table of programs")?;
    let mut programs = Programs::new();
    for (key, value) in entries {
        let key: [u8; 4] = key.as_slice().try_into().context("a tgid has four bytes")?;
        let tgid = u32::from_ne_bytes(key);
        if let Some(program) = settled(table, key, value)? {
            let ready = nr_ready(tgid);
            programs.insert(tgid, Program { ready, ..program });
        }
    }
    Ok(programs)
}

/// A program of which no CPU is in the middle of a change, or none: it ended, or changes whenever it is looked at.
fn settled(table: &impl MapCore, key: [u8; 4], mut value: Vec<u8>) -> Result<Option<Program>> {
    for _ in 0..READS {
        let program = Program::at(&entry(&value)?, monotonic_ns()?);
        if program.is_some() {
            return Ok(program);
        }
        value = match table.lookup(&key, MapFlags::ANY)? {
            Some(value) => value,
            None => break,
        };
    }
    Ok(None)
}

fn entry(bytes: &[u8]) -> Result<tw_program> {
    ensure!(
        bytes.len() == size_of::<tw_program>(),
        "a program's entry of {} bytes",
        bytes.len()
    );
    // SAFETY: plain integers, of the size that was just checked; the read does not ask for alignment.
    Ok(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// The clock of bpf_ktime_get_ns().
fn monotonic_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).context("cannot read the clock")?;
    Ok(Duration::from(now).as_nanos() as u64)
}

impl Program {
    /// The entry as it was at this time of CLOCK_MONOTONIC. An entry holds for each state when it ended less when it began,
    /// so the one that goes on lacks the present time. `None` if the entry makes no sense, because two CPUs are
    /// changing it; one that is between the two halves of a change leaves none that goes on.
    fn at(entry: &tw_program, now_ns: u64) -> Option<Self> {
        let lived_ns = now_ns.saturating_sub(entry.began_ns) as i64 + SKEW_NS;
        let lasted = -SKEW_NS..=lived_ns;
        let mut goes_on = None;
        let mut state_ns = [0; NR_STATES];
        for (state, &sum_ns) in entry.state_ns.iter().enumerate() {
            let mut sum_ns = sum_ns as i64;
            if !lasted.contains(&sum_ns) {
                sum_ns = sum_ns.wrapping_add(now_ns as i64);
                if goes_on.replace(state).is_some() || !lasted.contains(&sum_ns) {
                    return None;
                }
            }
            state_ns[state] = sum_ns.max(0) as u64;
        }
        Some(Self {
            began_ns: entry.began_ns,
            ready: 0,
            state: goes_on,
            state_ns,
            stats: entry.stats,
        })
    }

    /// What came since an earlier look, if that was at the same program.
    fn since(&self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier.filter(|earlier| earlier.began_ns == self.began_ns) else {
            return self.clone();
        };
        // A state that ended while it was read was taken for one that goes on.
        let mut since = self.clone();
        for (now, then) in since.state_ns.iter_mut().zip(&earlier.state_ns) {
            *now = now.saturating_sub(*then);
        }
        for (now, then) in since.stats.iter_mut().zip(&earlier.stats) {
            *now -= then;
        }
        since
    }

    /// The time with ready threads.
    fn busy_ns(&self) -> u64 {
        self.state_ns[SERIAL] + self.state_ns[PARALLEL]
    }

    fn metrics(&self, comm: String) -> ProgramMetrics {
        let us = |state: usize| self.state_ns[state] / 1000;
        let stat = |stat: bpf_intf::tw_program_stat| self.stats[stat as usize];
        ProgramMetrics {
            comm,
            phase: match self.state {
                Some(IDLE) => "idle",
                Some(SERIAL) => "serial",
                Some(_) => "parallel",
                None => "changing",
            }
            .into(),
            ready: u64::from(self.ready),
            idle_us: us(IDLE),
            serial_us: us(SERIAL),
            parallel_us: us(PARALLEL),
            parallel_phases: stat(bpf_intf::tw_program_stat_TW_PROGRAM_PHASES),
            boosts: stat(bpf_intf::tw_program_stat_TW_PROGRAM_BOOSTS),
            turns: stat(bpf_intf::tw_program_stat_TW_PROGRAM_TURNS),
            preemptions: stat(bpf_intf::tw_program_stat_TW_PROGRAM_PREEMPTIONS),
            same_core: stat(bpf_intf::tw_program_stat_TW_PROGRAM_SAME_CORE),
            same_llc: stat(bpf_intf::tw_program_stat_TW_PROGRAM_SAME_LLC),
            same_package: stat(bpf_intf::tw_program_stat_TW_PROGRAM_SAME_PACKAGE),
            other_package: stat(bpf_intf::tw_program_stat_TW_PROGRAM_OTHER_PACKAGE),
        }
    }
}

/// What a program did since the last report.
#[stat_doc]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Stats)]
pub struct ProgramMetrics {
    /// The name of its first thread.
    #[stat(desc = "Name of its first thread")]
    pub comm: String,
    /// What it is at: `idle` while none of its threads is ready, `serial` or `parallel`; `changing` just then.
    #[stat(desc = "What it is at now: idle (no thread ready), serial or parallel")]
    pub phase: String,
    /// Its ready threads at this moment.
    #[stat(desc = "Its ready threads now")]
    pub ready: u64,
    /// Microseconds in which none of its threads was ready.
    #[stat(desc = "Microseconds in which none of its threads was ready")]
    pub idle_us: u64,
    /// Microseconds in serial phases.
    #[stat(desc = "Microseconds in serial phases")]
    pub serial_us: u64,
    /// Microseconds in parallel phases.
    #[stat(desc = "Microseconds in parallel phases")]
    pub parallel_us: u64,
    /// Parallel phases that began.
    #[stat(desc = "Parallel phases that began")]
    pub parallel_phases: u64,
    /// Serial threads of it that got a faster CPU, or the CPU of another.
    #[stat(desc = "Times that a serial thread of it got a faster CPU, or took another's")]
    pub boosts: u64,
    /// Times that it became the senior program.
    #[stat(desc = "Times that it became the senior parallel program")]
    pub turns: u64,
    /// CPUs that its threads took from what ran there.
    #[stat(desc = "Times that a thread of it took the CPU of a running one")]
    pub preemptions: u64,
    /// Threads that ran on another CPU of the core that they ran on before.
    #[stat(desc = "Moves of its threads to another CPU of the same core")]
    pub same_core: u64,
    /// The same beyond the core.
    #[stat(desc = "Moves to another core beside the same last-level cache")]
    pub same_llc: u64,
    /// The same beyond the last-level cache.
    #[stat(desc = "Moves to another last-level cache of the same package")]
    pub same_package: u64,
    /// The same beyond the package.
    #[stat(desc = "Moves to another package")]
    pub other_package: u64,
}

/// Those of the programs that were ready at any time since an earlier look and have a name, the busiest `most` of them.
pub fn busiest(
    now: &Programs,
    earlier: &Programs,
    most: usize,
    name: impl Fn(u32) -> Option<String>,
) -> BTreeMap<u32, ProgramMetrics> {
    let mut busy: Vec<(u32, Program)> = now
        .iter()
        .map(|(tgid, program)| (*tgid, program.since(earlier.get(tgid))))
        .filter(|(_, program)| program.busy_ns() > 0)
        .collect();
    busy.sort_by_key(|(tgid, program)| (Reverse(program.busy_ns()), *tgid));
    busy.into_iter()
        .filter_map(|(tgid, program)| Some((tgid, program.metrics(name(tgid)?))))
        .take(most)
        .collect()
}

/// The name of a program that still runs.
pub fn comm(tgid: u32) -> Option<String> {
    let comm = fs::read_to_string(format!("/proc/{tgid}/comm")).ok()?;
    Some(comm.trim_end().to_owned())
}

/// Writes the programs as a table, the busiest first; nothing if there are none.
///
/// # Errors
/// If they cannot be written.
pub fn write_table(programs: &BTreeMap<u32, ProgramMetrics>, to: &mut impl Write) -> Result<()> {
    if programs.is_empty() {
        return Ok(());
    }
    writeln!(
        to,
        "   tgid program         phase    ready  idle ms serial ms parallel ms phases boosts turns preempted | moved: core    llc package   away"
    )?;
    let mut rows: Vec<_> = programs.iter().collect();
    rows.sort_by_key(|(_, program)| Reverse(program.serial_us + program.parallel_us));
    for (tgid, program) in rows {
        writeln!(
            to,
            "{tgid:7} {:15} {:8} {:5} {:8.1} {:9.1} {:11.1} {:6} {:6} {:5} {:9} | {:11} {:6} {:7} {:6}",
            program.comm,
            program.phase,
            program.ready,
            program.idle_us as f64 / 1000.0,
            program.serial_us as f64 / 1000.0,
            program.parallel_us as f64 / 1000.0,
            program.parallel_phases,
            program.boosts,
            program.turns,
            program.preemptions,
            program.same_core,
            program.same_llc,
            program.same_package,
            program.other_package
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BEGAN: u64 = 5_000 * MS;

    /// An entry whose program is in `state` since `since_ns`, after some time in each.
    fn entry(lasted_ms: [u64; NR_STATES], state: usize, since_ns: u64) -> tw_program {
        let mut state_ns = lasted_ms.map(|ms| ms * MS);
        state_ns[state] = state_ns[state].wrapping_sub(since_ns);
        tw_program {
            began_ns: BEGAN,
            state_ns,
            stats: [7; NR_STATS],
            nr_tasks: 1,
            reserved: 0,
        }
    }

    #[test]
    fn the_states_of_a_program_add_up_to_its_life() {
        let at =
            |now| Program::at(&entry([10, 20, 30], SERIAL, BEGAN + 60 * MS), now).expect("it makes sense");
        let program = at(BEGAN + 100 * MS);
        assert_eq!(program.state_ns, [10 * MS, 60 * MS, 30 * MS]);
        assert_eq!(program.state, Some(SERIAL));
        assert_eq!(program.busy_ns(), 90 * MS);
        // Read a moment before the clock of the CPU that changed it.
        assert_eq!(
            at(BEGAN + 60 * MS - 1000).state_ns,
            [10 * MS, 20 * MS - 1000, 30 * MS]
        );
    }

    #[test]
    fn a_program_that_is_changing_is_read_again_only_if_it_makes_no_sense() {
        let mut halfway = entry([10, 20, 30], SERIAL, BEGAN + 60 * MS);
        halfway.state_ns[SERIAL] = halfway.state_ns[SERIAL].wrapping_add(BEGAN + 90 * MS);
        let now = BEGAN + 100 * MS;
        let program = Program::at(&halfway, now).expect("all times up to the change are there");
        assert_eq!(
            (program.state, program.state_ns),
            (None, [10 * MS, 50 * MS, 30 * MS])
        );
        // Another CPU ended the parallel phase that this one has yet to begin.
        halfway.state_ns[PARALLEL] += BEGAN + 91 * MS;
        assert_eq!(Program::at(&halfway, now), None);
        let mut two = entry([10, 20, 30], SERIAL, BEGAN + 60 * MS);
        two.state_ns[PARALLEL] = two.state_ns[PARALLEL].wrapping_sub(BEGAN + 60 * MS);
        assert_eq!(Program::at(&two, now), None);
    }

    #[test]
    fn the_busiest_are_reported_since_the_last_look() {
        let at = |lasted_ms, state, now| {
            Program::at(&entry(lasted_ms, state, BEGAN + 60 * MS), now).expect("sense")
        };
        let earlier = Programs::from([
            (1, at([10, 20, 30], SERIAL, BEGAN + 60 * MS)),
            (2, at([10, 20, 30], PARALLEL, BEGAN + 60 * MS)),
            (3, at([60, 0, 0], IDLE, BEGAN + 60 * MS)),
            // Its tgid is another program's by now.
            (
                4,
                Program {
                    began_ns: 1,
                    ..at([0, 60, 0], SERIAL, BEGAN + 60 * MS)
                },
            ),
        ]);
        let now = Programs::from([
            (1, at([10, 20, 30], SERIAL, BEGAN + 100 * MS)),
            (2, at([10, 20, 30], PARALLEL, BEGAN + 110 * MS)),
            (3, at([60, 0, 0], IDLE, BEGAN + 110 * MS)),
            (4, at([0, 0, 60], IDLE, BEGAN + 100 * MS)),
            (5, at([0, 60, 0], SERIAL, BEGAN + 200 * MS)),
        ]);
        let named = |tgid| (tgid != 5).then(|| format!("program {tgid}"));
        let reported = busiest(&now, &earlier, 2, named);
        assert_eq!(reported.keys().copied().collect::<Vec<_>>(), [2, 4]);
        assert_eq!(
            (
                reported[&2].parallel_us,
                reported[&2].serial_us,
                reported[&2].turns
            ),
            (50_000, 0, 0)
        );
        assert_eq!((reported[&4].parallel_us, reported[&4].turns), (60_000, 7));
        assert_eq!(reported[&2].comm, "program 2");
        assert_eq!(
            busiest(&now, &earlier, 9, named).len(),
            3,
            "one was idle all the time, one has no name"
        );
        let mut table = Vec::new();
        write_table(&reported, &mut table).expect("written");
        let table = String::from_utf8(table).expect("text");
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(
            widths.len() == 3 && widths.iter().all(|width| *width == widths[0]),
            "{table}"
        );
        assert!(
            table
                .lines()
                .nth(1)
                .is_some_and(|line| line.contains("program 4")),
            "{table}"
        );
    }
}
