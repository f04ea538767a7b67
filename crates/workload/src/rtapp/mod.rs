// SPDX-License-Identifier: GPL-2.0-only
//! Programs as rt-app describes them, in JSON: <https://github.com/scheduler-tools/rt-app>, doc/tutorial.txt and
//! src/rt-app_parse_config.c (as of 2026-05).
//!
//! Read as rt-app reads it: events are known by the beginnings of their keys (`run0`, `lock_a`), tried in rt-app's order,
//! and happen in the order in which they stand. As after its `workgen`, keys may be doubled. Stricter than rt-app: a key
//! that is no event and no setting is refused by its name, a setting may be given once, and numbers have ranges.
//!
//! Start at [`File::parse`].

mod event;
mod json;
mod settings;

use std::fmt;
use std::path::Path;

pub use event::{Access, Action, Event};
use json::{Entry, Node};
pub use settings::{Global, Lines, Policy, Settings};

/// The longest time and the greatest number that rt-app takes: a C int.
const MAX_INT: i64 = i32::MAX as i64;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The keys that lead there, such as `tasks.thread0.run`; empty if it is not about one.
    pub key: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

/// Why there is no [`File`].
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It says something wrong.
    #[error("{path}, {error}")]
    Content {
        /// The file.
        path: String,
        /// What, and where.
        error: Error,
    },
}

/// An rt-app file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// What holds for all tasks.
    pub global: Global,
    /// In their order.
    pub tasks: Vec<Task>,
}

/// One kind of thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is called.
    pub name: String,
    /// Where it begins.
    pub line: usize,
    /// How many threads begin with the program; 0 for one that is only forked.
    pub instances: u32,
    /// From its beginning to its first event, in microseconds.
    pub delay_us: u64,
    /// How it is scheduled.
    pub settings: Settings,
    /// Where that stands.
    pub lines: Lines,
    /// At least one.
    pub phases: Vec<Phase>,
    /// How often it goes through its phases; without end if this is not given.
    pub loops: Option<u64>,
}

/// A sequence of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What it is called; as its task, if that has but one.
    pub name: String,
    /// Where it begins.
    pub line: usize,
    /// What changes when it begins; nothing where the task has no `phases` object.
    pub settings: Settings,
    /// Where that stands.
    pub lines: Lines,
    /// At least one.
    pub events: Vec<Event>,
    /// How often it is repeated before the next begins; without end if this is not given.
    pub loops: Option<u64>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or [`File::parse`] refuses it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::Io {
            path: name.clone(),
            source,
        })?;
        Self::parse(&text).map_err(|error| LoadError::Content { path: name, error })
    }

    /// Reads what a file says.
    ///
    /// # Errors
    /// If it is no JSON, a key is unknown, given twice or missing, or a value is not what it has to be.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let root = json::parse(text)?;
        let mut global = None;
        let mut tasks = None;
        for Entry { key, node } in unique(&root)? {
            match key.as_str() {
                "global" => global = Some(settings::global(&node)?),
                "tasks" => tasks = Some(node),
                "resources" => settings::resources(&node)?,
                _ => return Err(unknown(&node, "global, tasks, resources")),
            }
        }
        let tasks_node = tasks.ok_or_else(|| root.error("there is no \"tasks\" object"))?;
        let global = global.unwrap_or_default();
        let tasks = unique(&tasks_node)?
            .iter()
            .map(|Entry { key, node }| task(key, node, &global))
            .collect::<Result<Vec<_>, _>>()?;
        if tasks.is_empty() {
            return Err(tasks_node.error("there is no task"));
        }
        check_forks(&tasks_node, &tasks)?;
        Ok(Self { global, tasks })
    }

    /// How many tasks' threads take part in a barrier: rt-app counts each event that names it once for each instance.
    pub fn barrier_users(&self, name: &str) -> u64 {
        let uses = |task: &Task| {
            let is_use =
                |event: &&Event| matches!(&event.action, Action::Barrier(barrier) if barrier == name);
            let events = task.phases.iter().flat_map(|phase| &phase.events);
            events.filter(is_use).count() as u64 * u64::from(task.instances)
        };
        self.tasks.iter().map(uses).sum()
    }
}

/// The entries of an object in which no key may be doubled.
fn unique<'t>(node: &Node<'t>) -> Result<Vec<Entry<'t>>, Error> {
    let entries = node.entries()?;
    let mut seen = std::collections::BTreeSet::new();
    for entry in &entries {
        if !seen.insert(entry.key.as_str()) {
            return Err(entry.node.error("this key is given twice"));
        }
    }
    Ok(entries)
}

fn unknown(node: &Node<'_>, known: &str) -> Error {
    node.error(format!("unknown key; known here are {known}"))
}

/// -1 is without end.
fn loops(node: &Node<'_>) -> Result<Option<u64>, Error> {
    Ok(u64::try_from(node.integer(-1, MAX_INT)?).ok())
}

fn task(name: &str, node: &Node<'_>, global: &Global) -> Result<Task, Error> {
    let entries = node.entries()?;
    let mut instances = 1;
    let mut delay_us = 0;
    let mut task_loops = None;
    let mut phases = None;
    let mut own = settings::Reader::new(Some(global.default_policy));
    let mut events = Vec::new();
    for Entry { key, node } in &entries {
        match key.as_str() {
            "instance" => instances = node.integer(0, 4096)? as u32,
            "delay" => delay_us = node.integer(0, MAX_INT)? as u64,
            "loop" if task_loops.is_some() => return Err(node.error("this key is given twice")),
            "loop" => task_loops = Some(loops(node)?),
            "phases" if phases.is_some() => return Err(node.error("this key is given twice")),
            "phases" => phases = Some(self::phases(node)?),
            _ if own.read(key, node)? => {}
            _ => events.push(event::read(key, node)?.ok_or_else(|| unknown(node, TASK_KEYS))?),
        }
    }
    let line = node.line();
    let (settings, lines) = own.finish(node)?;
    let (phases, loops) = match phases {
        Some(_) if !events.is_empty() => {
            return Err(node.error("it has events beside its phases; rt-app does not look at them"));
        }
        Some(phases) => (phases, task_loops.unwrap_or(None)),
        // Without phases "loop" is that of the one phase, and its being there ends the task after it.
        None => {
            let phase = Phase {
                name: name.to_owned(),
                line,
                settings: Settings::default(),
                lines: Lines::new(),
                events,
                loops: task_loops.unwrap_or(Some(1)),
            };
            (vec![phase], task_loops.map(|_| 1))
        }
    };
    if phases.iter().any(|phase| phase.events.is_empty()) || phases.is_empty() {
        return Err(node.error("it has no event, such as \"run\": 1000"));
    }
    Ok(Task {
        name: name.to_owned(),
        line,
        instances,
        delay_us,
        settings,
        lines,
        phases,
        loops,
    })
}

const TASK_KEYS: &str = "the events (run, runtime, sleep, timer, lock, unlock, wait, signal, broad, sync, barrier, sem_post, \
     sem_wait, suspend, resume, fork, yield, mem, memrun, iorun, and what begins so), instance, delay, loop, phases, policy, \
     priority, dl-runtime, dl-period, dl-deadline, util_min, util_max, cpus, nodes_membind, taskgroup";

fn phases(node: &Node<'_>) -> Result<Vec<Phase>, Error> {
    let phase = |Entry { key, node }: &Entry<'_>| {
        let mut loops = None;
        let mut own = settings::Reader::new(None);
        let mut events = Vec::new();
        for Entry { key, node } in &node.entries()? {
            match key.as_str() {
                "loop" if loops.is_some() => return Err(node.error("this key is given twice")),
                "loop" => loops = Some(self::loops(node)?),
                "instance" | "delay" | "phases" => {
                    return Err(node.error("it is a task's, not a phase's"));
                }
                _ if own.read(key, node)? => {}
                _ => events.push(event::read(key, node)?.ok_or_else(|| unknown(node, TASK_KEYS))?),
            }
        }
        if events.is_empty() {
            return Err(node.error("it has no event, such as \"run\": 1000"));
        }
        let (settings, lines) = own.finish(node)?;
        Ok(Phase {
            name: key.clone(),
            line: node.line(),
            settings,
            lines,
            events,
            loops: loops.unwrap_or(Some(1)),
        })
    };
    node.entries()?.iter().map(phase).collect()
}

/// A fork names a task.
fn check_forks(node: &Node<'_>, tasks: &[Task]) -> Result<(), Error> {
    for task in tasks {
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            if let Action::Fork(child) = &event.action
                && !tasks.iter().any(|task| task.name == *child)
            {
                let mut error = node.error(format!("there is no task {child:?} to fork"));
                (error.line, error.column) = (event.line, event.column);
                error.key = format!("{}.{}.{}", node.path, task.name, event.key);
                return Err(error);
            }
        }
    }
    Ok(())
}
