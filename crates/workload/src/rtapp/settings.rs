// SPDX-License-Identifier: GPL-2.0-only
//! What is not an event.

use std::collections::BTreeMap;

use super::json::{Entry, Node};
use super::{Error, MAX_INT, unique, unknown};

/// rt-app's default for the buffer of a `mem` event.
const MEM_BUFFER_SIZE: u64 = 4 << 20;

/// A scheduling policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`
    #[default]
    Other,
    /// `SCHED_BATCH`
    Batch,
    /// `SCHED_IDLE`
    Idle,
    /// `SCHED_RR`
    RoundRobin,
    /// `SCHED_FIFO`
    Fifo,
    /// `SCHED_DEADLINE`
    Deadline,
}

impl Policy {
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        Ok(match node.string()?.as_str() {
            "SCHED_OTHER" => Self::Other,
            "SCHED_BATCH" => Self::Batch,
            "SCHED_IDLE" => Self::Idle,
            "SCHED_RR" => Self::RoundRobin,
            "SCHED_FIFO" => Self::Fifo,
            "SCHED_DEADLINE" => Self::Deadline,
            other => {
                return Err(node.error(format!(
                    "{other:?} is no policy: SCHED_OTHER, _BATCH, _IDLE, _RR, _FIFO, _DEADLINE"
                )));
            }
        })
    }
}

/// What holds for all tasks. Settings of rt-app's logging and tracing are checked and not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// How long the program runs, in seconds; until all its threads have ended if this is not given.
    pub duration_s: Option<u64>,
    /// The policy of tasks that name none.
    pub default_policy: Policy,
    /// Whether mutexes inherit priorities; in the fair class nobody's is raised (kernel/locking/rtmutex.c, `__waiter_prio()`).
    pub pi_enabled: bool,
    /// What `iorun` writes to.
    pub io_device: String,
    /// The most that `mem` and `iorun` write at once, in bytes.
    pub mem_buffer_size: u64,
    /// Whether the slacks of a phase's timers are added up, instead of the last one counting.
    pub cumulative_slack: bool,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            duration_s: None,
            default_policy: Policy::Other,
            pi_enabled: false,
            io_device: String::from("/dev/null"),
            mem_buffer_size: MEM_BUFFER_SIZE,
            cumulative_slack: false,
        }
    }
}

pub(super) fn global(node: &Node<'_>) -> Result<Global, Error> {
    let mut global = Global::default();
    for Entry { key, node } in unique(node)? {
        match key.as_str() {
            "duration" => global.duration_s = u64::try_from(node.integer(-1, MAX_INT)?).ok(),
            "default_policy" => global.default_policy = Policy::read(&node)?,
            "pi_enabled" => global.pi_enabled = node.boolean()?,
            "io_device" => global.io_device = node.string()?,
            "mem_buffer_size" => global.mem_buffer_size = node.integer(1, MAX_INT)? as u64,
            "cumulative_slack" => global.cumulative_slack = node.boolean()?,
            "calibration" => calibration(&node)?,
            "lock_pages" | "gnuplot" => drop(node.boolean()?),
            "logdir" | "log_basename" => drop(node.string()?),
            "log_size" if node.is_string() => drop(node.string()?),
            "log_size" => drop(node.integer(0, MAX_INT)?),
            "ftrace" if node.is_boolean() => drop(node.boolean()?),
            "ftrace" => drop(node.string()?),
            _ => {
                return Err(unknown(
                    &node,
                    "duration, calibration, default_policy, pi_enabled, lock_pages, logdir, log_basename, log_size, \
                     ftrace, gnuplot, io_device, mem_buffer_size, cumulative_slack",
                ));
            }
        }
    }
    Ok(global)
}

/// A CPU to calibrate on, or nanoseconds a loop. Nothing is calibrated here: a `run` is in microseconds of the fastest CPU.
fn calibration(node: &Node<'_>) -> Result<(), Error> {
    if !node.is_string() {
        return node.integer(0, MAX_INT).map(drop);
    }
    let text = node.string()?;
    let number = text.strip_prefix("CPU").map(str::parse::<u32>);
    match number {
        Some(Ok(_)) => Ok(()),
        _ => Err(node.error(format!("{text:?} is no CPU such as \"CPU0\", and no number"))),
    }
}

/// Kept by rt-app for old files: it makes what events name.
pub(super) fn resources(node: &Node<'_>) -> Result<(), Error> {
    const TYPES: [&str; 8] = [
        "mutex",
        "wait",
        "signal",
        "broadcast",
        "sync",
        "sleep",
        "run",
        "timer",
    ];
    for resource in unique(node)? {
        for Entry { key, node } in unique(&resource.node)? {
            if key != "type" {
                return Err(unknown(&node, "type"));
            }
            let kind = node.string()?;
            if !TYPES.contains(&kind.as_str()) {
                return Err(node.error(format!("{kind:?} is none of {}", TYPES.join(", "))));
            }
        }
    }
    Ok(())
}

/// How a task or a phase is scheduled. Memory nodes, groups and utilization clamps are checked and kept as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The policy: a task's own or the default; a phase's if it changes.
    pub policy: Option<Policy>,
    /// Niceness of SCHED_OTHER, _BATCH and _IDLE, priority of SCHED_RR and _FIFO.
    pub priority: Option<i32>,
    /// Runtime, period and deadline in microseconds: of SCHED_DEADLINE, or the first the slice of another.
    pub deadline_us: [Option<u64>; 3],
    /// The CPUs that it may run on; all if not given.
    pub cpus: Option<Vec<u32>>,
    /// The memory nodes that it is bound to.
    pub nodes: Option<Vec<u32>>,
    /// Its utilization, clamped from below and above.
    pub util: [Option<u32>; 2],
    /// The control group that it is put in.
    pub taskgroup: Option<String>,
}

/// Settings that are being read.
pub(super) struct Reader {
    settings: Settings,
    lines: Lines,
}

/// The line, from 1, where each setting that is given stands, by its key.
pub type Lines = BTreeMap<String, usize>;

impl Reader {
    pub(super) fn new(policy: Option<Policy>) -> Self {
        let settings = Settings {
            policy,
            ..Settings::default()
        };
        Self {
            settings,
            lines: Lines::new(),
        }
    }

    /// Takes an entry if it is a setting.
    pub(super) fn read(&mut self, key: &str, node: &Node<'_>) -> Result<bool, Error> {
        let settings = &mut self.settings;
        let us = || node.integer(0, MAX_INT).map(|us| Some(us as u64));
        let util = || node.integer(-1, 1024).map(|value| u32::try_from(value).ok());
        match key {
            "policy" => settings.policy = Some(Policy::read(node)?),
            "priority" => settings.priority = Some(node.integer(-20, 99)? as i32),
            "dl-runtime" => settings.deadline_us[0] = us()?,
            "dl-period" | "period" => settings.deadline_us[1] = us()?,
            "dl-deadline" | "deadline" => settings.deadline_us[2] = us()?,
            "cpus" => settings.cpus = Some(node.integers(0, 1 << 16)?),
            "nodes_membind" => settings.nodes = Some(node.integers(0, 1 << 16)?),
            "util_min" => settings.util[0] = util()?,
            "util_max" => settings.util[1] = util()?,
            "taskgroup" => settings.taskgroup = taskgroup(node)?,
            _ => return Ok(false),
        }
        match self.lines.insert(key.to_owned(), node.line()) {
            Some(_) => Err(node.error("this key is given twice")),
            None => Ok(true),
        }
    }

    /// All of it and where it stands, if it fits together; `node` is what has these settings.
    pub(super) fn finish(self, node: &Node<'_>) -> Result<(Settings, Lines), Error> {
        let Settings { policy, priority, .. } = self.settings;
        let range = match policy {
            Some(Policy::RoundRobin | Policy::Fifo) => 1..=99,
            Some(Policy::Deadline) => 0..=0,
            Some(Policy::Other | Policy::Batch | Policy::Idle) => -20..=19,
            None => -20..=99,
        };
        match priority {
            Some(priority) if !range.contains(&priority) => Err(node.error(format!(
                "priority {priority} is not from {} to {}, as its policy has it",
                range.start(),
                range.end()
            ))),
            _ => Ok((self.settings, self.lines)),
        }
    }
}

fn taskgroup(node: &Node<'_>) -> Result<Option<String>, Error> {
    let group = node.string()?;
    match group.as_str() {
        "" => Ok(None),
        text if text.starts_with('/') => Ok(Some(group)),
        _ => Err(node.error(format!("{group:?} does not begin with /"))),
    }
}
