// SPDX-License-Identifier: GPL-2.0-only
//! A command of this program as a process of its own, and how long all of them will take.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A command may take so many times what it was said to take, and `SLACK` more; then it is ended. On a host that others use the
/// lab's take some five times as long.
const MOST_TIMES: u32 = 8;
const SLACK: Duration = Duration::from_secs(120);

/// A command that is to end gets so long to tidy up.
const TIDYING: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(50);

/// How a command ended.
pub enum Ended {
    /// Well: what it printed, and how many seconds it took.
    Printed(String, f64),
    /// Not well: why, and after how many seconds.
    Failed(String, f64),
    /// By whoever started us.
    Interrupted,
}

/// What is left to do, on a terminal.
pub struct Clock {
    bar: ProgressBar,
    total: u32,
    done: Cell<u32>,
    message: Cell<String>,
}

impl Clock {
    /// Of commands that take so many seconds in all.
    pub fn new(total: u32) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar}").expect("a constant template");
        let bar = ProgressBar::new(u64::from(total)).with_style(style);
        Self {
            bar,
            total,
            done: Cell::new(0),
            message: Cell::default(),
        }
    }

    /// What is done now.
    pub fn message(&self, message: String) {
        self.message.set(message);
        self.tick(Duration::ZERO, 0);
    }

    /// A command that was said to take so long has ended.
    pub fn done(&self, seconds: u32) {
        self.done.set(self.done.get() + seconds);
    }

    /// A command that should take `seconds` has run for this long.
    fn tick(&self, running: Duration, seconds: u32) {
        let now = self.done.get() + seconds.min(running.as_secs() as u32);
        let left = (self.total - now.min(self.total)).div_ceil(60);
        let message = self.message.take();
        self.bar.set_position(u64::from(now));
        self.bar.set_message(format!("{message}, about {left} min left"));
        self.bar.tick();
        self.message.set(message);
    }

    /// Says something above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// All is done.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Runs this program with these arguments, which should take about `seconds`. Programs that stand beside it are found by name.
pub fn run(arguments: &[String], seconds: u32, clock: &Clock, stop: &AtomicBool) -> Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(&program)
        .args(arguments)
        .env("PATH", path_from(&program)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let stdout = reader(child.stdout.take().expect("it is piped"));
    let stderr = reader(child.stderr.take().expect("it is piped"));
    let began = Instant::now();
    let limit = Duration::from_secs(u64::from(seconds * MOST_TIMES)) + SLACK;
    let mut is_late = false;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for a command")? {
            break status;
        }
        is_late = began.elapsed() > limit;
        if is_late || stop.load(Ordering::Relaxed) {
            break end(&mut child)?;
        }
        clock.tick(began.elapsed(), seconds);
        thread::sleep(POLL);
    };
    let took = began.elapsed().as_secs_f64();
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let (printed, said) = (text(stdout), text(stderr));
    Ok(match (stop.load(Ordering::Relaxed), status.success()) {
        (true, _) => Ended::Interrupted,
        (false, true) => Ended::Printed(printed, took),
        (false, false) if is_late => Ended::Failed(
            format!(
                "ended after {:.0} minutes; the same command goes on with it",
                took / 60.0
            ),
            took,
        ),
        (false, false) => Ended::Failed(reason(&said).unwrap_or_else(|| status.to_string()), took),
    })
}

/// PATH, with the program's folder first.
fn path_from(program: &Path) -> Result<OsString> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = program
        .parent()
        .map(Path::to_path_buf)
        .into_iter()
        .chain(std::env::split_paths(&others));
    std::env::join_paths(folders).with_context(|| format!("the folder of {}", program.display()))
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error counts.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Asks it to end, so that a guest is shut down and what was measured is kept; then makes it.
fn end(child: &mut Child) -> Result<std::process::ExitStatus> {
    // It was not waited for yet, so the number is its own.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let asked = Instant::now();
    while asked.elapsed() < TIDYING {
        if let Some(status) = child.try_wait().context("cannot wait for a command")? {
            return Ok(status);
        }
        thread::sleep(POLL);
    }
    child.kill().context("cannot end a command")?;
    child.wait().context("cannot wait for a command")
}

/// What a command said last, without its name.
fn reason(said: &str) -> Option<String> {
    let last = said.lines().rev().find(|line| line.starts_with("threadwise: "))?;
    Some(last.trim_start_matches("threadwise: ").into())
}
