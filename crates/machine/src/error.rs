// SPDX-License-Identifier: GPL-2.0-only
//! One error type. Every variant names the place: a path, a position in a string, or a file and key.

use std::io;
use std::path::PathBuf;

use crate::id::{CpuId, MAX_CPUS};

/// Why a machine could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file was read and does not hold what it should.
    #[error("{}: \"{text}\" is not {expected}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// Its content, escaped and shortened.
        text: String,
        /// What should stand there, and where the content departs from it.
        expected: String,
    },
    /// A folder without CPUs.
    #[error("{} holds no sysfs tree: there is no sys/devices/system/cpu in it", path.display())]
    NoTree {
        /// The folder.
        path: PathBuf,
    },
    /// Files of a sysfs tree contradict each other.
    #[error("{}: {problem}", path.display())]
    Contradiction {
        /// The file that was read last.
        path: PathBuf,
        /// What contradicts what.
        problem: String,
    },
    /// JSON that is no machine.
    #[error("{place} is no machine in JSON: {problem}")]
    Json {
        /// Where it came from.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A machine without online CPUs.
    #[error("{place}: there is no online CPU, and a machine has at least one")]
    NoCpus {
        /// Where the CPUs should have been.
        place: String,
    },
    /// A CPU that is to be used and is not online.
    #[error("{place} has no online CPU {cpu}: it has {online}")]
    NotOnline {
        /// The machine.
        place: String,
        /// Which.
        cpu: CpuId,
        /// Those that are, as a list.
        online: String,
    },
    /// A machine with more than [`MAX_CPUS`] CPUs.
    #[error("{place}: {nr} CPUs are too many, the limit is {MAX_CPUS}")]
    TooManyCpus {
        /// Where they were asked for.
        place: String,
        /// How many; "more than 18446744073709551615" when even the number does not fit.
        nr: String,
    },
    /// One CPU id was given twice.
    #[error("{place}: CPU {cpu} is given twice")]
    DuplicateCpu {
        /// Where.
        place: String,
        /// Which.
        cpu: CpuId,
    },
    /// A level that is not a partition: a CPU is in no group of it, or in several.
    #[error("{place}: CPU {cpu} is in {nr_groups} groups of level \"{level}\", it must be in exactly one")]
    NotPartition {
        /// Where the machine came from.
        place: String,
        /// The level's name.
        level: String,
        /// The CPU.
        cpu: CpuId,
        /// In how many groups it is.
        nr_groups: usize,
    },
    /// Levels that do not nest: a group lies across groups of the level around it.
    #[error(
        "{place}: {inner} {index} (CPUs {cpus}) lies across {outer} {outer_a} and {outer} {outer_b}, levels must nest"
    )]
    NotNested {
        /// Where the machine came from.
        place: String,
        /// Name of the inner level.
        inner: String,
        /// Index of the group that lies across.
        index: usize,
        /// Its CPUs as a list.
        cpus: String,
        /// Name of the outer level.
        outer: String,
        /// One outer group.
        outer_a: usize,
        /// Another outer group.
        outer_b: usize,
    },
    /// The set of levels is wrong: one is missing, repeated or out of order.
    #[error("{place}: {problem}")]
    Levels {
        /// Where the machine came from.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// Capacities outside 1 to 1024, or none that is 1024.
    #[error("{place}: {problem}")]
    Capacity {
        /// Where the machine came from.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A synthetic string that does not describe a machine.
    #[error("topology \"{text}\", column {column}: {problem}")]
    Synthetic {
        /// The string, escaped and shortened.
        text: String,
        /// Where, in characters from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// A machine file that is not one.
    #[error("{path}:{line}: {}{problem}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    MachineFile {
        /// The file, or the name in the zoo.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The key, where one is known.
        key: Option<String>,
        /// What is wrong.
        problem: String,
    },
    /// A name that is neither a file, nor in the zoo, nor a synthetic string.
    #[error(
        "\"{spec}\" is no machine: give \"host\", a .toml file, a folder that holds a sysfs tree, a string such as \
         \"package:2 core:4 pu:2\", or one of {zoo}"
    )]
    UnknownMachine {
        /// What was asked for.
        spec: String,
        /// The names in the zoo.
        zoo: String,
    },
}

/// Text from outside, made fit for one line of an error: escaped, at most 60 characters.
pub(crate) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let escaped: String = text
        .trim_end_matches('\n')
        .chars()
        .take(MAX_CHARS + 1)
        .flat_map(char::escape_debug)
        .collect();
    match escaped.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &escaped[..end]),
        None => escaped,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn long_and_binary_text_is_shortened_and_escaped() {
        assert_eq!(shorten("0-3\n"), "0-3");
        assert_eq!(shorten("\u{1}é"), "\\u{1}é");
        assert_eq!(shorten(&"x".repeat(100)), format!("{}...", "x".repeat(60)));
    }
}
