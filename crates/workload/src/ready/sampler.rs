// SPDX-License-Identifier: GPL-2.0-only
//! Looks at the threads of a program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::series::Of;
use super::{Error, Point, Series};
use crate::stat_fields;
use crate::stop::now_ns;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Between two looks; 0.1 ms to 10 s.
    pub interval: Duration,
}

/// Runs the program and looks at its threads until it has ended. What it prints goes to stderr.
///
/// A look costs some microseconds a thread, so that the sampler takes a part of a CPU: little of 1 ms with 8 threads.
///
/// # Errors
/// If the interval is out of range, or the program cannot be started, cannot be looked at, or ends before the first look.
pub fn trace(spec: &Spec) -> Result<Series, Error> {
    let interval_ns = u64::try_from(spec.interval.as_nanos()).unwrap_or(u64::MAX);
    if !(100_000..=10_000_000_000).contains(&interval_ns) {
        return Err(Error::Interval { ns: interval_ns });
    }
    let mut program = Program(start(&spec.command)?);
    let mut threads = Threads::of(program.0.id());
    let started_ns = now_ns();
    let (mut points, mut nr_late, mut nr_looks) = (Vec::new(), 0, 0);
    let status = loop {
        let at_ns = now_ns() - started_ns;
        if at_ns > nr_looks * interval_ns + interval_ns / 2 {
            nr_late += 1;
        }
        let ready = threads.ready()?;
        // After the look: a process that has ended has no threads that could be ready.
        if let Some(status) = program.ended()? {
            break status;
        }
        points.push(Point { at_ns, ready });
        // Looks that were missed are not made up for.
        nr_looks = (nr_looks + 1).max((now_ns() - started_ns) / interval_ns);
        let wait_ns = (started_ns + nr_looks * interval_ns).saturating_sub(now_ns());
        std::thread::sleep(Duration::from_nanos(wait_ns));
    };
    if points.is_empty() {
        return Err(Error::TooShort {
            program: spec.command[0].clone(),
        });
    }
    let of = Of {
        command: spec.command.clone(),
        status: status.code(),
        interval_ns,
        nr_late,
    };
    Ok(Series::new(of, points, now_ns() - started_ns))
}

/// The program; it ends with the trace.
struct Program(Child);

impl Program {
    fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.0.try_wait().map_err(|source| Error::Proc {
            path: format!("the status of process {}", self.0.id()),
            source,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &[String]) -> Result<Child, Error> {
    let (program, arguments) = command.split_first().ok_or(Error::NoCommand)?;
    let failed = |source| Error::Start {
        program: program.clone(),
        source,
    };
    let stdout = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::from(stdout))
        .spawn()
        .map_err(failed)
}

/// The threads of a process, each with its open file in /proc.
struct Threads {
    folder: String,
    files: BTreeMap<u32, File>,
    buffer: Vec<u8>,
}

impl Threads {
    fn of(pid: u32) -> Self {
        Self {
            folder: format!("/proc/{pid}/task"),
            files: BTreeMap::new(),
            buffer: Vec::new(),
        }
    }

    /// How many are running or runnable.
    fn ready(&mut self) -> Result<u32, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(0),
            Err(source) => {
                let path = self.folder.clone();
                return Err(Error::Proc { path, source });
            }
        };
        let mut still_there = BTreeMap::new();
        let mut ready = 0;
        for entry in entries.flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let file = match self.files.remove(&tid) {
                Some(file) => Ok(file),
                None => File::open(entry.path().join("stat")),
            };
            // A thread may end at any moment.
            let Ok(mut file) = file else { continue };
            ready += u32::from(is_ready(&mut file, &mut self.buffer, &entry.path())?);
            still_there.insert(tid, file);
        }
        self.files = still_there;
        Ok(ready)
    }
}

/// Whether a thread is running or runnable now; not if it has ended.
fn is_ready(file: &mut File, buffer: &mut Vec<u8>, path: &Path) -> Result<bool, Error> {
    buffer.clear();
    match file.rewind().and_then(|()| file.read_to_end(buffer)) {
        Ok(_) => Ok(stat_fields(buffer).next() == Some("R")),
        Err(error) if is_gone(&error) => Ok(false),
        Err(source) => Err(Error::Proc {
            path: path.display().to_string(),
            source,
        }),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(command: &[&str]) -> Spec {
        Spec {
            command: command.iter().map(|word| word.to_string()).collect(),
            interval: Duration::from_millis(1),
        }
    }

    #[test]
    fn a_program_that_sleeps_is_seldom_ready_and_one_that_computes_always() {
        let asleep = trace(&spec(&["sleep", "0.3"])).unwrap();
        assert!(asleep.share_of_time[0] > 0.7, "{:?}", asleep.share_of_time);
        assert_eq!(asleep.status, Some(0));
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
        let busy = trace(&spec(&["sh", "-c", script])).unwrap();
        assert!(busy.share_of_time[1] > 0.7, "{:?}", busy.share_of_time);
        assert_eq!(busy.status, Some(3));
    }

    #[test]
    fn what_cannot_be_traced_is_an_error() {
        let error = |spec: &Spec| trace(spec).unwrap_err().to_string();
        assert!(error(&spec(&[])).contains("no command"));
        assert!(error(&spec(&["/no/such/program"])).contains("/no/such/program"));
        let hasty = Spec {
            interval: Duration::from_nanos(1),
            ..spec(&["sleep", "1"])
        };
        assert!(error(&hasty).contains("interval of 1 ns"));
    }
}
