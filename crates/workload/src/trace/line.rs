// SPDX-License-Identifier: GPL-2.0-only
//! One line of a trace.
//!
//! perf prints a field of a tracepoint in one of two ways, which depends on whether libtraceevent has its plugins
//! (`plugin_sched_switch.c`): as the kernel's own format has it (include/trace/events/sched.h), or as
//! `COMM:PID [PRIO] STATE ==> COMM:PID [PRIO]`. Both are read.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'t> {
    /// What ran on the CPU; nothing where perf prints -1, for a thread that is about to be gone.
    pub(super) tid: Option<u32>,
    /// Its process, where perf was asked for it.
    pub(super) tgid: Option<u32>,
    pub(super) cpu: u32,
    pub(super) at_ns: u64,
    pub(super) event: Event<'t>,
}

/// A thread, as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who<'t> {
    pub(super) comm: &'t str,
    pub(super) tid: u32,
    /// As the kernel counts: 120 is nice 0, below 100 are real-time priorities.
    pub(super) prio: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event<'t> {
    Switch {
        prev: Who<'t>,
        state: char,
        next: Who<'t>,
    },
    Wake {
        who: Who<'t>,
        is_new: bool,
    },
    /// Nothing that matters here.
    Other,
}

/// What a line looks like; also what an error says.
pub(super) const FORM: &str = "COMM TID [CPU] SECONDS.FRACTION: EVENT: ...";
const SWITCH_FORM: &str = "prev_comm=... prev_pid=... prev_prio=... prev_state=... ==> next_comm=... next_pid=... \
                           next_prio=..., or COMM:PID [PRIO] STATE ==> COMM:PID [PRIO]";
const WAKE_FORM: &str = "comm=... pid=... prio=... target_cpu=..., or COMM:PID [PRIO] CPU:...";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?<comm>.*?)\s+(?:(?<tgid>-1|[0-9]+)/)?(?<tid>-1|[0-9]+)\s+\[(?<cpu>[0-9]+)\]\s+(?<secs>[0-9]+)\.(?<frac>[0-9]{1,9}):\s+(?:sched:)?(?<event>[A-Za-z0-9_:]+?):(?:\s+(?<args>.*))?$",
    )
});
static SWITCH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^prev_comm=(.*) prev_pid=([0-9]+) prev_prio=(-?[0-9]+) prev_state=([A-Za-z])\S* ==> next_comm=(.*) next_pid=([0-9]+) next_prio=(-?[0-9]+)\s*$",
    )
});
static SWITCH_SHORT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(.*):([0-9]+) \[(-?[0-9]+)\] ([A-Za-z])\S* ==> (.*):([0-9]+) \[(-?[0-9]+)\]\s*$")
});
static WAKE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^comm=(.*) pid=([0-9]+) prio=(-?[0-9]+)(?: success=[01])? target_cpu=[0-9]+\s*$")
});
static WAKE_SHORT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(.*):([0-9]+) \[(-?[0-9]+)\](?: success=[01])?(?: CPU:[0-9]+)?\s*$"));

/// Reads a line; what is wrong with it if it is none.
pub(super) fn parse(text: &str) -> Result<Line<'_>, String> {
    let head = HEAD
        .captures(text)
        .ok_or_else(|| format!("expected {FORM}, as `perf sched script` prints it"))?;
    let args = head.name("args").map_or("", |args| args.as_str());
    let event = match &head["event"] {
        "sched_switch" => {
            let parts = captures(&SWITCH, &SWITCH_SHORT, args)
                .ok_or_else(|| format!("expected sched_switch: {SWITCH_FORM}"))?;
            Event::Switch {
                prev: who(&parts, 1)?,
                state: parts[4].chars().next().unwrap_or('?'),
                next: who(&parts, 5)?,
            }
        }
        name @ ("sched_waking" | "sched_wakeup" | "sched_wakeup_new") => {
            let parts =
                captures(&WAKE, &WAKE_SHORT, args).ok_or_else(|| format!("expected {name}: {WAKE_FORM}"))?;
            Event::Wake {
                who: who(&parts, 1)?,
                is_new: name == "sched_wakeup_new",
            }
        }
        _ => Event::Other,
    };
    Ok(Line {
        tid: known(&head["tid"])?,
        tgid: match head.name("tgid") {
            Some(tgid) => known(tgid.as_str())?,
            None => None,
        },
        cpu: number(&head["cpu"])?,
        at_ns: time(&head["secs"], &head["frac"])?,
        event,
    })
}

fn captures<'t>(long: &Regex, short: &Regex, args: &'t str) -> Option<Captures<'t>> {
    long.captures(args).or_else(|| short.captures(args))
}

/// A name, and behind it a thread and its priority.
fn who<'t>(parts: &Captures<'t>, name: usize) -> Result<Who<'t>, String> {
    let prio = &parts[name + 2];
    Ok(Who {
        comm: parts.get(name).map_or("", |part| part.as_str()),
        tid: number(&parts[name + 1])?,
        prio: prio
            .parse()
            .map_err(|_| format!("{prio} is too large a number"))?,
    })
}

/// A thread or process, where perf knows it.
fn known(digits: &str) -> Result<Option<u32>, String> {
    match digits {
        "-1" => Ok(None),
        digits => number(digits).map(Some),
    }
}

fn number(digits: &str) -> Result<u32, String> {
    digits
        .parse()
        .map_err(|_| format!("{digits} is too large a number"))
}

/// Microseconds, or nanoseconds with `--ns`.
fn time(secs: &str, frac: &str) -> Result<u64, String> {
    let digits: u64 = frac
        .parse()
        .map_err(|_| format!("{frac} is no fraction of a second"))?;
    let frac_ns = digits * 10u64.pow(9 - frac.len().min(9) as u32);
    secs.parse::<u64>()
        .ok()
        .and_then(|secs| secs.checked_mul(1_000_000_000))
        .and_then(|ns| ns.checked_add(frac_ns))
        .ok_or_else(|| format!("{secs}.{frac} is too late a time"))
}
