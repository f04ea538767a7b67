// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use threadwise_policy::{AlternateBy, PairingBy, TunableOptions};

use crate::bpf_intf::{tw_limits_TW_MAX_PROGRAMS, tw_limits_TW_SHARE_NAME};
use crate::mode::Mode;

/// A sched_ext scheduler that knows which program is in its serial phase.
///
/// A program (thread group) is in a serial phase while it has at most --serial-threshold ready
/// threads, else in a parallel phase. Serial threads go first: onto an idle CPU, or in place of a
/// thread of a parallel program, and to the fastest CPU where CPUs differ. Of several parallel programs
/// the one that has lost most by waiting goes first, for a turn; over time they share by weight: nice
/// values count within a cgroup, cpu.weight between cgroups, as under the kernel's own scheduler.
///
/// The scheduler works while this command runs. When it ends, for whatever reason, the kernel's
/// own scheduler takes over and nothing is lost.
#[derive(Debug, Parser)]
#[command(name = crate::NAME, version, disable_version_flag = true)]
pub struct Options {
    #[command(flatten)]
    pub tunables: TunableOptions,

    /// Only schedule tasks that ask for it (policy SCHED_EXT, as sched_setscheduler(2) sets it); the rest stay with the
    /// kernel's scheduler, whose tasks go first
    #[arg(long)]
    pub partial: bool,

    /// Let threads share by their nice values alone, whatever cgroups they are in. Else, where the cpu controller is
    /// enabled, cgroups that compete share by cpu.weight, however many threads each has: also if all weigh 100, the
    /// default, as the slices of systemd do
    #[arg(long)]
    pub ignore_cgroups: bool,

    /// What this machine is: a machine file, a name of threadwise's zoo, or a string such as "core:4 pu:2"
    /// [default: what the kernel shows]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,

    /// Measure how fast each CPU is before starting, some milliseconds each, where neither the kernel nor a machine file
    /// says so (virtual machines mostly hide it)
    #[arg(long, conflicts_with = "machine")]
    pub calibrate: bool,

    /// Where idle CPUs are looked for
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,

    /// With --mode performance, and where there are several last-level caches: by what tasks that need much of one are told
    /// from those that need little, to be put beside them
    #[arg(long, value_enum, default_value_t)]
    pub pairing: PairingBy,

    /// By what parallel programs are found that get more done one after the other, because each fills the last-level cache;
    /// they then have turns of 300 ms in which the others, four in all at most, do not run even where CPUs are idle. A trial
    /// takes as long for each of them as two turns; each doubles the time until the next
    #[arg(long, value_enum, default_value_t)]
    pub alternate: AlternateBy,

    /// With --mode: programs whose cgroup has this name share memory, and stay behind one last-level cache while they fit, as
    /// the threads of one program do. At most four names
    #[arg(long, value_name = "NAME", value_parser = share_name)]
    pub share: Vec<String>,

    /// Print statistics every so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats: Option<f64>,

    /// Print the statistics of the running scheduler every so many seconds; starts none
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub monitor: Option<f64>,

    /// Tell programs apart in the statistics: for the so many busiest, time in serial and parallel phases, boosts, turns
    /// as the senior program, preemptions, and moves of threads by distance; costs a wake-up up to 800 instructions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(tw_limits_TW_MAX_PROGRAMS)))]
    pub programs: Option<u32>,

    /// How statistics are printed; in JSON one object a report
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,

    /// Length of the kernel's dump when the scheduler is thrown out, in bytes; 0 is the kernel's default
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub exit_dump_len: u32,

    /// Say more, libbpf's messages included
    #[arg(short, long)]
    pub verbose: bool,

    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,

    /// Explain the statistics
    #[arg(long)]
    pub help_stats: bool,

    /// Write every decision of the policy to this file: a JSON object a line, first the settings
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Fail on purpose, to see who notices
    #[arg(long, value_enum, hide_short_help = true, value_name = "FAULT")]
    pub inject_fault: Option<Fault>,

    #[command(flatten, next_help_heading = "Libbpf options")]
    pub libbpf: LibbpfOpts,
}

/// How statistics are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line a report, and a table of programs if they are told apart
    #[default]
    Text,
    /// An object a line
    Json,
}

/// A fault for `--inject-fault`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Fault {
    /// The BPF program ends itself with an error
    Error,
    /// No queued task is ever run
    Stall,
    /// Threads that go to sleep still count as ready
    Miscount,
    /// Tasks that are bound to one CPU wait behind all others
    Starve,
    /// Nice values are not honoured
    Weightless,
    /// Boosts tasks as if no other serial ones were there
    Ageless,
    /// The timer that has tasks take turns is lost once
    LostTimer,
    /// The time at which a runqueue was locked last is taken for now
    OldClock,
    /// That a task has been waiting for long counts for nothing
    Patient,
    /// No CPU asks another for its task: a fast one with nothing to do, or for an exchange
    Aloof,
    /// Looks at CPUs leave out those that came online, and take in those that went
    Unlinked,
    /// None of the hooks of wake-ups and switches is there, and tasks wait in the kernel's own queue for all CPUs: what is left is
    /// the least that a scheduler of this kind costs
    Hookless,
    /// Statistics of programs that ended are kept
    Hoard,
    /// Kernel threads that are bound to a CPU wait for their turn there
    Demote,
}

/// The last part of a cgroup's path.
fn share_name(text: &str) -> Result<String, String> {
    let longest = tw_limits_TW_SHARE_NAME as usize - 1;
    match text {
        "" => Err(String::from("expected the name of a cgroup")),
        _ if text.contains('/') => Err(String::from("expected the last part of a cgroup's path alone")),
        _ if text.len() > longest => Err(format!("expected no more than {longest} bytes")),
        _ => Ok(text.into()),
    }
}

/// A positive, finite number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.001..=86_400.0).contains(&value) => Ok(value),
        _ => Err(String::from("expected seconds between 0.001 and 86400")),
    }
}
