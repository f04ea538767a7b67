// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use threadwise_machine::CpuId;
use threadwise_placement::host::{Found, Roles, pin_all};
use threadwise_placement::{Tool, text_for};

use super::subject::{INTERRUPTED, SubjectOptions};

/// Pin the threads of running instances as an assignment says, or print it for another tool.
///
/// The threads of all are pinned, or none of them. With --keep it goes on until Ctrl-C or until all processes have ended, and pins threads that come, or that were moved,
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
    let pids: BTreeSet<u32> = options.pids.iter().copied().collect();
    if pids.len() < options.pids.len() {
        bail!("a process is given twice: each instance is one of its own");
    }
    if let Some(pid) = options.pids.iter().find(|&&pid| !is_there(pid)) {
        bail!("there is no process {pid}");
    }
    let instances: Vec<Instance> = options.pids.iter().copied().zip(&cpus).collect();
    match (options.dry_run, options.keep) {
        (true, _) => would_pin(&roles, &instances, &subject.thread_names)?,
        (false, true) => keep_pinned(&roles, instances)?,
        (false, false) => pin_once(&roles, &instances)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A process, and the CPUs of its threads.
type Instance<'a> = (u32, &'a Vec<CpuId>);

/// The threads of all; whoever lacks one is named before any is pinned.
fn find_all<'a>(roles: &Roles, instances: &[Instance<'a>]) -> Result<Vec<(Found, &'a [CpuId])>> {
    let find = |&(pid, cpus): &Instance<'a>| {
        let found = roles.find(pid);
        let found = found.map_err(|problem| anyhow!("process {pid} {problem}"))?;
        Ok((found, &cpus[..]))
    };
    instances.iter().map(find).collect()
}

fn would_pin(roles: &Roles, instances: &[Instance], names: &[String]) -> Result<()> {
    for ((found, cpus), (pid, _)) in find_all(roles, instances)?.iter().zip(instances) {
        for ((tid, name), cpu) in found.tids().iter().zip(names).zip(*cpus) {
            println!("would pin thread {tid} ({name}) of process {pid} to CPU {cpu}");
        }
    }
    Ok(())
}

/// All, or none.
fn pin_once(roles: &Roles, instances: &[Instance]) -> Result<()> {
    let found = find_all(roles, instances)?;
    pin_all(&found).map_err(|(nr, problem)| {
        anyhow!(
            "process {}: {problem}; no thread is pinned that was not before",
            instances[nr].0
        )
    })
}

/// Until Ctrl-C, or until all have ended.
fn keep_pinned(roles: &Roles, mut instances: Vec<Instance>) -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("cannot handle Ctrl-C")?;
    let mut last_problem: BTreeMap<u32, String> = BTreeMap::new();
    // Of each process what is wrong with it is said once.
    let mut say = |pid: u32, problem: String| {
        if last_problem.get(&pid) != Some(&problem) {
            eprintln!("threadwise: process {pid} {problem}");
            last_problem.insert(pid, problem);
        }
    };
    let mut never_found: BTreeSet<u32> = instances.iter().map(|(pid, _)| *pid).collect();
    while !instances.is_empty() && !INTERRUPTED.load(Ordering::Relaxed) {
        for (pid, cpus) in &instances {
            match roles.find(*pid) {
                Ok(found) => {
                    never_found.remove(pid);
                    // A thread may have ended meanwhile, or it is something else.
                    if let Err(problem) = found.pin(cpus) {
                        say(*pid, problem);
                    }
                }
                // They may be still to come.
                Err(problem) if is_there(*pid) => say(*pid, format!("{problem}: it is waited for")),
                Err(_) => {}
            }
        }
        instances.retain(|(pid, _)| is_there(*pid));
        std::thread::sleep(Duration::from_millis(100));
    }
    match never_found.iter().find(|&&pid| !is_there(pid)) {
        Some(pid) => {
            bail!("process {pid} has ended and was never seen with the threads that were to be pinned")
        }
        None => Ok(()),
    }
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
