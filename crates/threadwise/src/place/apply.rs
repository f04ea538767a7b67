// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use threadwise_placement::host::Roles;
use threadwise_placement::{Tool, text_for};

use super::subject::{INTERRUPTED, SubjectOptions};

/// Pin the threads of running instances as an assignment says, or print it for another tool.
///
/// With --keep it goes on until Ctrl-C or until all processes have ended, and pins threads that come, or that were moved,
/// again.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    subject: SubjectOptions,

    /// For each instance the CPUs of its threads in the file's order, such as "0,1,2 8,9,10"
    #[arg(long)]
    cpus: String,

    /// The process of each instance, in order
    #[arg(long = "pid", required_unless_present = "print")]
    pids: Vec<u32>,

    /// Print it for this tool instead
    #[arg(long, value_enum, conflicts_with_all = ["pids", "keep"])]
    print: Option<Tool>,

    /// Go on until Ctrl-C, or until all processes have ended
    #[arg(long)]
    keep: bool,

    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Pins or prints.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let cpus = subject.cpus(&subject.parse(&options.cpus)?);
    if let Some(tool) = options.print {
        print!("{}", text_for(tool, &cpus, &subject.thread_names));
        return Ok(ExitCode::SUCCESS);
    }
    if subject.is_in_lab() {
        bail!("threads of this machine are pinned by its own CPUs: leave --on lab out");
    }
    let roles = Roles::new(
        subject
            .spec()
            .context("a computed program has no threads to pin")?,
    )?;
    if options.pids.len() != cpus.len() {
        bail!(
            "{} processes for {} instances: give --pid for each",
            options.pids.len(),
            cpus.len()
        );
    }
    if let Some(pid) = options.pids.iter().find(|&&pid| !is_there(pid)) {
        bail!("there is no process {pid}");
    }
    if options.keep {
        ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("cannot handle Ctrl-C")?;
    }
    let mut last_problem: BTreeMap<u32, String> = BTreeMap::new();
    // Of each process what is wrong with it is said once.
    let mut say = |pid: u32, problem: String| {
        if last_problem.get(&pid) != Some(&problem) {
            eprintln!("threadwise: process {pid} {problem}");
            last_problem.insert(pid, problem);
        }
    };
    let mut instances: Vec<_> = options.pids.iter().copied().zip(&cpus).collect();
    let mut never_found: BTreeSet<u32> = options.pids.iter().copied().collect();
    loop {
        for (pid, cpus) in &instances {
            let found = match roles.find(*pid) {
                Ok(found) => found,
                // They may be still to come.
                Err(problem) if options.keep => {
                    if is_there(*pid) {
                        say(*pid, format!("{problem}: it is waited for"));
                    }
                    continue;
                }
                Err(problem) => bail!("process {pid} {problem}"),
            };
            never_found.remove(pid);
            if options.dry_run {
                for ((tid, name), cpu) in found.tids().iter().zip(&subject.thread_names).zip(*cpus) {
                    println!("would pin thread {tid} ({name}) of process {pid} to CPU {cpu}");
                }
                continue;
            }
            match found.pin(cpus) {
                // A thread may have ended meanwhile, or it is something else.
                Err(problem) if options.keep => say(*pid, problem),
                Err(problem) => bail!("process {pid}: {problem}"),
                Ok(()) => {}
            }
        }
        instances.retain(|(pid, _)| is_there(*pid));
        if !options.keep || options.dry_run || instances.is_empty() || INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    match never_found.iter().find(|&&pid| !is_there(pid)) {
        Some(pid) => {
            bail!("process {pid} has ended and was never seen with the threads that were to be pinned")
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
