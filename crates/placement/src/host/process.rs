// SPDX-License-Identifier: GPL-2.0-only
//! One instance: a process group that ends with its run, and so does what left the group. If this process is killed, the
//! kernel ends the program that it started, but not what that has started in turn.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use regex::Regex;
use threadwise_machine::CpuId;

use super::threads::{Found, Problem, Roles, children, pid_of, reap, strays, within_cpus};
use crate::run::RunError;
use crate::spec::{Performance, Spec};

/// How long a process may take to be gone whose threads are.
const ENDING: Duration = Duration::from_millis(20);

/// How long a thread that hardly runs may have the name of whoever began it.
const BECOMING: Duration = Duration::from_secs(1);

/// Meanwhile it is looked at so often.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The last bytes of what a program wrote to stderr, for its error.
const STDERR_BYTES: usize = 400;

/// The processes of all instances that there are now, and children that this process had before the first.
static KNOWN: LazyLock<Mutex<Vec<u32>>> = LazyLock::new(|| Mutex::new(children()));

pub fn known() -> MutexGuard<'static, Vec<u32>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program printed while it is measured, added up as it comes: a fast one prints more than could be kept.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    /// Of its figures.
    pub sum: f64,
    pub nr_figures: u64,
    pub last_line: Option<String>,
}

impl Printed {
    fn add(&mut self, line: String, pattern: Option<&Regex>) {
        if let Some(figure) = pattern.and_then(|pattern| figure(pattern, &line)) {
            self.sum += figure;
            self.nr_figures += 1;
        }
        self.last_line = Some(line);
    }
}

fn figure(pattern: &Regex, line: &str) -> Option<f64> {
    pattern.captures(line)?.get(1)?.as_str().parse().ok()
}

pub struct Instance {
    pub nr: usize,
    pub folder: PathBuf,
    child: Child,
    program: String,
    cpus: Option<Vec<CpuId>>,
    found: Option<Found>,
    is_pinned: bool,
    begun: Instant,
    /// When its threads were last verified.
    pub looked: Instant,
    printed: Arc<Mutex<Printed>>,
    stderr: Arc<Mutex<String>>,
    ended: Option<(ExitStatus, Duration)>,
}

impl Instance {
    pub fn start(
        spec: &Spec,
        nr: usize,
        (cpus, within): (Option<Vec<CpuId>>, &CpuSet),
        folder: &Path,
    ) -> Result<Instance, RunError> {
        let fill = |text: &str| {
            text.replace("{instance}", &nr.to_string())
                .replace("{folder}", &folder.display().to_string())
        };
        let words: Vec<String> = spec.command.iter().map(|word| fill(word)).collect();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .envs(spec.environment.iter().map(|(name, value)| (name, fill(value))));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let pattern = match &spec.performance {
            Performance::Output(pattern) => {
                Some(Regex::new(pattern).map_err(|error| RunError::Program(error.to_string()))?)
            }
            Performance::Counter(_) | Performance::Elapsed(_) => None,
        };
        // SAFETY: between fork and exec only prctl() is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?));
        }
        let begun = Instant::now();
        let mut child = within_cpus(within, || command.spawn())?.map_err(|error| {
            RunError::Program(format!(
                "cannot start {}: {error}; `command` must name a program",
                words[0]
            ))
        })?;
        known().push(child.id());
        let (printed, stderr) = (Arc::default(), Arc::default());
        add_lines(child.stdout.take(), pattern, Arc::clone(&printed));
        keep_end(child.stderr.take(), Arc::clone(&stderr));
        Ok(Instance {
            nr,
            folder: folder.into(),
            child,
            program: words[0].clone(),
            cpus,
            found: None,
            is_pinned: false,
            begun,
            looked: begun,
            printed,
            stderr,
            ended: None,
        })
    }

    /// The same once more.
    pub fn again(&self, spec: &Spec, within: &CpuSet, folder: &Path) -> Result<Instance, RunError> {
        Instance::start(spec, self.nr, (self.cpus.clone(), within), folder)
    }

    /// Whether the threads of all roles are there.
    pub fn has_all_threads(&mut self, roles: &Roles) -> Result<bool, RunError> {
        if self.found.is_some() {
            return Ok(true);
        }
        let ended = self.ended()?;
        reap(&known());
        match roles.find(self.child.id()) {
            Ok(found) => self.found = Some(found),
            Err(missing) if ended => {
                return Err(self.fail(&format!("ended before its threads were there: {missing}")));
            }
            Err(_) => {}
        }
        Ok(self.found.is_some())
    }

    /// Pins its threads, once.
    pub fn pin(&mut self, roles: &Roles) -> Result<(), RunError> {
        if self.is_pinned {
            return Ok(());
        }
        let Some(found) = &self.found else {
            let missing = roles.find(self.child.id()).err().unwrap_or_default();
            return Err(self.fail(&format!("{missing} within `time.deadline`")));
        };
        if let Some(cpus) = &self.cpus {
            found.pin(cpus).map_err(|problem| self.fail(&problem))?;
        }
        self.is_pinned = true;
        Ok(())
    }

    /// Checks that its threads are those that were found, and where they were put. `may_end`: some may have ended.
    pub fn verify(&mut self, roles: &Roles, may_end: bool) -> Result<(), RunError> {
        let begun = Instant::now();
        self.looked = begun;
        loop {
            let Some(found) = &self.found else {
                return Ok(());
            };
            let known = known().clone();
            reap(&known);
            let look = roles.verify(self.child.id(), found, (self.cpus.as_deref(), may_end), &known);
            let (problem, patience) = match look {
                Ok(()) => return Ok(()),
                Err(Problem::Elsewhere(problem)) => (problem, Duration::ZERO),
                // A process that is ending loses its threads before it can be waited for.
                Err(Problem::Ended(problem)) => (problem, ENDING),
                Err(Problem::Unknown { problem, is_new }) => {
                    (problem, if is_new { BECOMING } else { ENDING })
                }
            };
            if self.ended().unwrap_or(true) {
                return Ok(());
            }
            if begun.elapsed() >= patience {
                return Err(self.fail(&problem));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether it has ended by itself; an error if that was no success.
    pub fn ended(&mut self) -> Result<bool, RunError> {
        if self.ended.is_none() {
            let status = self
                .child
                .try_wait()
                .map_err(|error| self.fail(&format!("cannot be waited for: {error}")))?;
            self.ended = status.map(|status| (status, self.begun.elapsed()));
        }
        match &self.ended {
            Some((status, _)) if !status.success() => {
                std::thread::sleep(Duration::from_millis(20));
                let stderr = self
                    .stderr
                    .lock()
                    .map(|text| text.trim().to_string())
                    .unwrap_or_default();
                Err(self.fail(&format!("failed with {status}: {stderr}")))
            }
            ended => Ok(ended.is_some()),
        }
    }

    /// How long it took, once it has ended.
    pub fn seconds(&self) -> Option<f64> {
        self.ended.as_ref().map(|(_, took)| took.as_secs_f64())
    }

    /// What it printed to stdout since this was asked last.
    pub fn take_printed(&self) -> Printed {
        let printed = self.printed.lock();
        printed
            .map(|mut printed| std::mem::take(&mut *printed))
            .unwrap_or_default()
    }

    pub fn fail(&self, problem: &str) -> RunError {
        RunError::Program(format!("instance {} of {} {problem}", self.nr, self.program))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let group = pid_of(self.child.id());
        killpg(group, Signal::SIGKILL).ok();
        self.child.wait().ok();
        // The rest of the group, now this process's children.
        while waitpid(Pid::from_raw(-group.as_raw()), None).is_ok() {}
        known().retain(|&pid| pid != self.child.id());
    }
}

/// Ends what programs have left in groups of their own.
pub fn end_strays() {
    let next = || strays(&known()).first().copied();
    for pid in std::iter::from_fn(next).map(pid_of) {
        if kill(pid, Signal::SIGKILL).is_err() || waitpid(pid, None).is_err() {
            return;
        }
    }
}

/// Adds up the figures of a stream.
fn add_lines(stream: Option<impl Read + Send + 'static>, pattern: Option<Regex>, into: Arc<Mutex<Printed>>) {
    for_each_line(stream, move |line| {
        if let Ok(mut printed) = into.lock() {
            printed.add(line, pattern.as_ref());
        }
    });
}

/// Keeps the end of a stream.
fn keep_end(stream: Option<impl Read + Send + 'static>, into: Arc<Mutex<String>>) {
    for_each_line(stream, move |line| {
        if let Ok(mut text) = into.lock() {
            let kept = text.chars().rev().take(STDERR_BYTES).collect::<Vec<_>>();
            *text = kept
                .into_iter()
                .rev()
                .chain("\n".chars())
                .chain(line.chars())
                .collect();
        }
    });
}

/// Reads a stream to its end in the background, whatever bytes it has.
fn for_each_line(stream: Option<impl Read + Send + 'static>, mut see: impl FnMut(String) + Send + 'static) {
    let Some(stream) = stream else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            see(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
