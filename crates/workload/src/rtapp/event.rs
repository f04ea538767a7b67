// SPDX-License-Identifier: GPL-2.0-only
//! Events: what a thread does, one after the other.

use super::json::{Entry, Node};
use super::{Error, MAX_INT, unique, unknown};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its key, such as `run0`.
    pub key: String,
    /// Where it stands.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What happens.
    pub action: Action,
}

/// What a thread does. Times are in microseconds, amounts in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Work that takes so long on the fastest CPU.
    Run(u64),
    /// Work until so much time has passed, whatever the CPU.
    Runtime(u64),
    /// Sleeps for so long.
    Sleep(u64),
    /// Sleeps until so long after the timer's last expiry.
    Timer {
        /// Which timer.
        name: String,
        /// Whether each thread has its own.
        unique: bool,
        /// How long.
        period_us: u64,
        /// Whether an expiry that was missed does not move the next.
        absolute: bool,
    },
    /// Takes a mutex.
    Lock(String),
    /// Gives a mutex back.
    Unlock(String),
    /// Waits for a condition, whose mutex is given back meanwhile.
    Wait {
        /// The condition.
        condition: String,
        /// The mutex.
        mutex: String,
    },
    /// Wakes one that waits for the condition.
    Signal(String),
    /// Wakes all that wait for the condition.
    Broadcast(String),
    /// Wakes one that waits for the condition, then waits for it.
    Sync {
        /// The condition.
        condition: String,
        /// The mutex.
        mutex: String,
    },
    /// Waits until all have come that use the barrier.
    Barrier(String),
    /// Adds one to a semaphore.
    SemPost(String),
    /// Takes one from a semaphore, waiting for it if need be.
    SemWait(String),
    /// Waits until somebody resumes its task.
    Suspend,
    /// Wakes all threads of that task that are suspended.
    Resume(String),
    /// Begins one more thread of that task.
    Fork(String),
    /// Lets others go first.
    Yield,
    /// Writes so much memory.
    Mem(u64),
    /// Reads, writes or chases pointers in a buffer.
    Memrun {
        /// Which of these.
        access: Access,
        /// Of the buffer.
        size: u64,
        /// Bytes that are read or written, pointers that are followed.
        count: u64,
        /// Whether threads share the buffer of that name.
        shared: Option<String>,
    },
    /// Writes so much to the I/O device.
    Iorun(u64),
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Byte after byte.
    Read,
    /// Byte after byte.
    Write,
    /// From pointer to pointer.
    Chase {
        /// Bytes between two.
        stride: u64,
        /// Whether in an order that defeats prefetchers.
        random: bool,
    },
}

/// An event, if the key begins like one; tried in the order of `parse_task_event_data()`.
pub(super) fn read(key: &str, node: &Node<'_>) -> Result<Option<Event>, Error> {
    let begins = |prefix: &str| key.starts_with(prefix);
    let us = || node.integer(0, MAX_INT).map(|us| us as u64);
    let action = match key {
        _ if begins("sleep") => Action::Sleep(us()?),
        _ if begins("runtime") => Action::Runtime(us()?),
        _ if begins("run") => Action::Run(us()?),
        _ if begins("memrun") => memrun(node)?,
        _ if begins("mem") => Action::Mem(us()?),
        _ if begins("iorun") => Action::Iorun(us()?),
        _ if begins("lock") => Action::Lock(node.string()?),
        _ if begins("unlock") => Action::Unlock(node.string()?),
        _ if begins("signal") => Action::Signal(node.string()?),
        _ if begins("broad") => Action::Broadcast(node.string()?),
        _ if begins("wait") => {
            let (condition, mutex) = condition(node)?;
            Action::Wait { condition, mutex }
        }
        _ if begins("sync") => {
            let (condition, mutex) = condition(node)?;
            Action::Sync { condition, mutex }
        }
        _ if begins("barrier") => Action::Barrier(node.string()?),
        _ if begins("timer") => timer(node)?,
        _ if begins("resume") => Action::Resume(node.string()?),
        // rt-app does not look at the values of these two.
        _ if begins("suspend") => Action::Suspend,
        _ if begins("yield") => Action::Yield,
        _ if begins("fork") => Action::Fork(node.string()?),
        _ if begins("sem_post") => Action::SemPost(node.string()?),
        _ if begins("sem_wait") => Action::SemWait(node.string()?),
        _ => return Ok(None),
    };
    let (line, column) = node.position();
    Ok(Some(Event {
        key: key.to_owned(),
        line,
        column,
        action,
    }))
}

/// Condition and mutex, "unknown" as in rt-app if they are not named.
fn condition(node: &Node<'_>) -> Result<(String, String), Error> {
    let mut condition = String::from("unknown");
    let mut mutex = String::from("unknown");
    for Entry { key, node } in unique(node)? {
        match key.as_str() {
            "ref" => condition = node.string()?,
            "mutex" => mutex = node.string()?,
            _ => return Err(unknown(&node, "ref, mutex")),
        }
    }
    Ok((condition, mutex))
}

fn timer(node: &Node<'_>) -> Result<Action, Error> {
    let mut name = String::from("unknown");
    let mut period_us = 0;
    let mut absolute = false;
    for Entry { key, node } in unique(node)? {
        match key.as_str() {
            "ref" => name = node.string()?,
            "period" => period_us = node.integer(0, MAX_INT)? as u64,
            "mode" => {
                absolute = match node.string()?.as_str() {
                    "absolute" => true,
                    "relative" => false,
                    other => return Err(node.error(format!("{other:?} is neither relative nor absolute"))),
                }
            }
            _ => return Err(unknown(&node, "ref, period, mode")),
        }
    }
    Ok(Action::Timer {
        unique: name.starts_with("unique"),
        name,
        period_us,
        absolute,
    })
}

fn memrun(node: &Node<'_>) -> Result<Action, Error> {
    let (mut kind, mut size, mut count, mut shared) = (None, None, None, None);
    let (mut stride, mut random) = (64, true);
    for Entry { key, node } in unique(node)? {
        match key.as_str() {
            "type" => kind = Some(node.string()?),
            "size" => size = Some(node.integer(1, MAX_INT)? as u64),
            "count" => count = Some(node.integer(0, MAX_INT)? as u64),
            "ref" => shared = Some(node.string()?),
            "stride" => stride = node.integer(1, MAX_INT)? as u64,
            "pattern" => {
                random = match node.string()?.as_str() {
                    "random" => true,
                    "sequential" => false,
                    other => return Err(node.error(format!("{other:?} is neither random nor sequential"))),
                }
            }
            _ => return Err(unknown(&node, "type, size, count, ref, stride, pattern")),
        }
    }
    let (Some(kind), Some(size), Some(count)) = (kind, size, count) else {
        return Err(node.error("it needs \"type\", \"size\" and \"count\""));
    };
    let access = match kind.as_str() {
        "read" => Access::Read,
        "write" => Access::Write,
        "chase" if size / stride < 2 => {
            return Err(node.error(format!(
                "size {size} has no room for two pointers, {stride} bytes apart"
            )));
        }
        "chase" => Access::Chase { stride, random },
        other => return Err(node.error(format!("type {other:?} is none of read, write, chase"))),
    };
    Ok(Action::Memrun {
        access,
        size,
        count,
        shared,
    })
}
