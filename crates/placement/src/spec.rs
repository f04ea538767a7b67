// SPDX-License-Identifier: GPL-2.0-only
//! What a file says about a workload: how its program is started, which thread is which, how its performance is read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde::{Deserialize, Serialize};
use threadwise_machine::wrong::{Step, Wrong};

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
        spec.check().map_err(|wrong| SpecError::Value {
            path: path.into(),
            problem: wrong.in_file(text),
        })?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), Wrong> {
        let at = |key| [Step::Key(key)];
        if self.command.is_empty() {
            let what = "`command` is empty: it must name a program";
            return Err(Wrong::new(&at("command"), what));
        }
        if self.threads.is_empty() || self.threads.len() > 64 {
            let what = format!(
                "`threads` has {} entries, it must have 1 to 64",
                self.threads.len()
            );
            return Err(Wrong::new(&at("threads"), what));
        }
        if !(1..=4096).contains(&self.instances) {
            let what = format!("`instances` is {}, it must be 1 to 4096", self.instances);
            return Err(Wrong::new(&at("instances"), what));
        }
        self.check_patterns()?;
        self.performance.check()?;
        self.time.check()?;
        self.precision.check()
    }

    /// Those of `threads` and `unassigned`.
    fn check_patterns(&self) -> Result<(), Wrong> {
        for (nth, thread) in self.threads.iter().enumerate() {
            if let Thread::By(By::Pattern(pattern)) = thread {
                regex(pattern, "threads", &[Step::Key("threads"), Step::Nth(nth)])?;
            }
        }
        for (nth, pattern) in self.unassigned.iter().enumerate() {
            regex(pattern, "unassigned", &[Step::Key("unassigned"), Step::Nth(nth)])?;
        }
        Ok(())
    }
}

fn regex(pattern: &str, place: &str, at: &[Step]) -> Result<Regex, Wrong> {
    Regex::new(pattern).map_err(|error| Wrong::new(at, format!("`{place}`: {error}")))
}

impl Performance {
    fn check(&self) -> Result<(), Wrong> {
        let at = |key| [Step::Key("performance"), Step::Key(key)];
        match self {
            Performance::Output(pattern) => {
                let at = at("output");
                if regex(pattern, "performance.output", &at)?.captures_len() < 2 {
                    let what = format!(
                        "`performance.output`: \"{pattern}\" has no group for the figure: put it into ( )"
                    );
                    return Err(Wrong::new(&at, what));
                }
            }
            Performance::Elapsed(false) => {
                let what = "`performance.elapsed` must be true, or another way to read performance be given";
                return Err(Wrong::new(&at("elapsed"), what));
            }
            Performance::Elapsed(true) | Performance::Counter(_) => {}
        }
        Ok(())
    }
}

impl Time {
    fn check(&self) -> Result<(), Wrong> {
        for (name, value, least) in [
            ("warm_up", self.warm_up, 0.0),
            ("measure", self.measure, 0.01),
            ("deadline", self.deadline, 0.1),
        ] {
            if !(least..=86_400.0).contains(&value) {
                let what = format!("`time.{name}` is {value} s, it must be {least} to 86,400");
                return Err(Wrong::new(&[Step::Key("time"), Step::Key(name)], what));
            }
        }
        Ok(())
    }
}

impl Precision {
    fn check(&self) -> Result<(), Wrong> {
        let Precision { relative, min, max } = *self;
        let key = if !(relative > 0.0 && relative < 1.0) {
            "relative"
        } else if min < 1 {
            "min"
        } else if max < min || max > 1000 {
            "max"
        } else {
            return Ok(());
        };
        let what = "`precision` must have 0 < relative < 1 and 1 <= min <= max <= 1000";
        Err(Wrong::new(&[Step::Key("precision"), Step::Key(key)], what))
    }
}
