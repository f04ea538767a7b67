// SPDX-License-Identifier: GPL-2.0-only
//! What a file says about a workload: how its program is started, which thread is which, how its performance is read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::{Deserialize, Serialize};

/// A workload, as its TOML file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the workload is called.
    pub name: String,
    /// Program and arguments of an instance. `{instance}` becomes its number from 0, `{folder}` a folder for its files.
    pub command: Vec<String>,
    /// Variables that are added to its environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The threads of an instance that are assigned.
    pub threads: Vec<Thread>,
    /// Patterns of the names of its other threads, which run wherever the kernel puts them; one that a
    /// pinned thread starts has the CPU of that. Any further thread fails the
    /// run.
    #[serde(default)]
    pub unassigned: Vec<String>,
    /// Instances that are to run together.
    #[serde(default = "one")]
    pub instances: usize,
    /// The level beyond which threads are taken not to disturb each other.
    #[serde(default = "core")]
    pub scope: String,
    /// A level further out, such as `llc`, whose members' threads disturb each other less, but do. It adds an experiment for
    /// each role and other instance; nothing on machines that are one such member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// How its performance is read.
    pub performance: Performance,
    /// How long things take.
    #[serde(default)]
    pub time: Time,
    /// How often experiments are repeated.
    #[serde(default)]
    pub precision: Precision,
}

/// How one of the threads is recognised.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a thread is its name, { pattern = \"…\" } or { created = N }"
)]
pub enum Thread {
    /// By its name, as in /proc/PID/task/TID/comm.
    Name(String),
    /// In another way.
    By(By),
}

/// Other ways.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum By {
    /// The first thread, in order of creation, whose name matches a regular expression and that no other entry has.
    Pattern(String),
    /// By the order of creation, those of the program's children included: 0 is the main thread.
    Created(usize),
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thread::Name(name) => write!(f, "{name}"),
            Thread::By(By::Pattern(pattern)) => write!(f, "/{pattern}/"),
            Thread::By(By::Created(nr)) => write!(f, "#{nr}"),
        }
    }
}

/// How the performance of an instance is read. More is better.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Performance {
    /// A regular expression whose first group is a figure; the mean of what the program prints while it is measured.
    Output(String),
    /// A file whose first eight bytes are a counter (little-endian); what it gains in a second.
    Counter(PathBuf),
    /// The program ends by itself: 1 over the seconds that it takes.
    Elapsed(bool),
}

/// Times in seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Time {
    /// From the pinning of the threads until measuring begins.
    pub warm_up: f64,
    /// How long is measured.
    pub measure: f64,
    /// How long the threads may take to appear, and a program that ends by itself to end.
    pub deadline: f64,
}

impl Default for Time {
    /// Measures 1.5 s, as the paper does at least (blackbox-scheduler, section 4.5).
    fn default() -> Self {
        Time {
            warm_up: 0.5,
            measure: 1.5,
            deadline: 30.0,
        }
    }
}

/// When an experiment has been repeated often enough.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Precision {
    /// The half width of the 95 % interval, relative to the mean, that is aimed at.
    pub relative: f64,
    /// At least so often.
    pub min: u32,
    /// At most so often.
    pub max: u32,
}

impl Default for Precision {
    fn default() -> Self {
        Precision {
            relative: 0.01,
            min: 2,
            max: 5,
        }
    }
}

fn one() -> usize {
    1
}

fn core() -> String {
    crate::Scope::DEFAULT.to_string()
}

/// Why a file is no specification.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is no such TOML.
    #[error("{path}: {source}")]
    Toml {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A value that cannot be.
    #[error("{path}: {problem}")]
    Value {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Spec {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`SpecError`] names the file and the place.
    pub fn read(path: &Path) -> Result<Spec, SpecError> {
        let text = std::fs::read_to_string(path).map_err(|source| SpecError::Read {
            path: path.into(),
            source,
        })?;
        Self::from_toml(&text, path)
    }

    /// The same of a text that is or could be in this file.
    ///
    /// # Errors
    /// [`SpecError`] names the file and the place.
    pub fn from_toml(text: &str, path: &Path) -> Result<Spec, SpecError> {
        let spec: Spec = toml::from_str(text).map_err(|source| SpecError::Toml {
            path: path.into(),
            source: source.into(),
        })?;
        spec.check().map_err(|problem| SpecError::Value {
            path: path.into(),
            problem,
        })?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), String> {
        if self.command.is_empty() {
            return Err("`command` is empty: it must name a program".into());
        }
        if self.threads.is_empty() || self.threads.len() > 64 {
            return Err(format!(
                "`threads` has {} entries, it must have 1 to 64",
                self.threads.len()
            ));
        }
        if !(1..=4096).contains(&self.instances) {
            return Err(format!("`instances` is {}, it must be 1 to 4096", self.instances));
        }
        let patterns = self.threads.iter().filter_map(|thread| match thread {
            Thread::By(By::Pattern(pattern)) => Some(("threads", pattern)),
            _ => None,
        });
        let output = match &self.performance {
            Performance::Output(pattern) => Some(("performance.output", pattern)),
            _ => None,
        };
        let unassigned = self.unassigned.iter().map(|pattern| ("unassigned", pattern));
        for (place, pattern) in patterns.chain(output).chain(unassigned) {
            let regex = Regex::new(pattern).map_err(|error| format!("`{place}`: {error}"))?;
            if place == "performance.output" && regex.captures_len() < 2 {
                return Err(format!(
                    "`{place}`: \"{pattern}\" has no group for the figure: put it into ( )"
                ));
            }
        }
        if let Performance::Elapsed(false) = self.performance {
            return Err(
                "`performance.elapsed` must be true, or another way to read performance be given".into(),
            );
        }
        let Time {
            warm_up,
            measure,
            deadline,
        } = self.time;
        for (name, value, least) in [
            ("warm_up", warm_up, 0.0),
            ("measure", measure, 0.01),
            ("deadline", deadline, 0.1),
        ] {
            if !(least..=86_400.0).contains(&value) {
                return Err(format!(
                    "`time.{name}` is {value} s, it must be {least} to 86,400"
                ));
            }
        }
        let Precision { relative, min, max } = self.precision;
        if !(relative > 0.0 && relative < 1.0) || min < 1 || max < min || max > 1000 {
            return Err("`precision` must have 0 < relative < 1 and 1 <= min <= max <= 1000".into());
        }
        Ok(())
    }
}
