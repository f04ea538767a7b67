// SPDX-License-Identifier: GPL-2.0-only
//! Which thread of a process is which, and where it may run, from /proc.

use std::collections::BTreeMap;
use std::fs;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use regex::Regex;
use threadwise_machine::{CpuId, cpulist};

use crate::run::RunError;
use crate::spec::{By, Spec, Thread};

/// How the threads of a program are recognised.
#[derive(Debug)]
pub struct Roles {
    roles: Vec<Role>,
    unassigned: Vec<Regex>,
}

#[derive(Debug)]
enum Role {
    Name(String),
    Pattern(Regex),
    Created(usize),
}

/// The threads of a process by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found(Vec<i32>);

impl Roles {
    /// As a specification has them.
    ///
    /// # Errors
    /// [`RunError::Program`] for a pattern that is none.
    pub fn new(spec: &Spec) -> Result<Roles, RunError> {
        // The whole name must match.
        let pattern = |text: &String| {
            Regex::new(&format!("^(?:{text})$"))
                .map_err(|error| RunError::Program(format!("\"{text}\": {error}")))
        };
        let role = |thread: &Thread| {
            Ok(match thread {
                // The kernel keeps 15 bytes of a name (TASK_COMM_LEN in include/linux/sched.h).
                Thread::Name(name) => Role::Name(name.chars().take(15).collect()),
                Thread::By(By::Pattern(text)) => Role::Pattern(pattern(text)?),
                Thread::By(By::Created(nr)) => Role::Created(*nr),
            })
        };
        Ok(Roles {
            roles: spec.threads.iter().map(role).collect::<Result<_, _>>()?,
            unassigned: spec.unassigned.iter().map(pattern).collect::<Result<_, _>>()?,
        })
    }

    /// The threads of a process by role.
    ///
    /// # Errors
    /// Which one is missing.
    pub fn find(&self, tgid: u32) -> Result<Found, String> {
        let threads = threads(tgid);
        let mut by_creation: Vec<i32> = threads.keys().copied().collect();
        // Thread ids ascend but for wrapping; the main thread has the process's.
        by_creation.sort_by_key(|&tid| (tid != tgid as i32, tid));
        let mut found: Vec<Option<i32>> = self
            .roles
            .iter()
            .map(|role| match role {
                Role::Name(name) => by_creation.iter().copied().find(|tid| threads[tid] == *name),
                Role::Created(nr) => by_creation.get(*nr).copied(),
                Role::Pattern(_) => None,
            })
            .collect();
        for (nr, role) in self.roles.iter().enumerate() {
            if let Role::Pattern(pattern) = role {
                let free = |tid: &i32| !found.contains(&Some(*tid)) && pattern.is_match(&threads[tid]);
                found[nr] = by_creation.iter().copied().find(free);
            }
        }
        match found.iter().position(Option::is_none) {
            None => Ok(Found(found.into_iter().flatten().collect())),
            Some(nr) => {
                let names: Vec<_> = threads.values().map(String::as_str).collect();
                let wanted = match &self.roles[nr] {
                    Role::Name(name) => format!("named \"{name}\""),
                    Role::Pattern(pattern) => format!("matching {pattern}"),
                    Role::Created(nr) => format!("created as number {nr}"),
                };
                Err(format!("has no thread {wanted}; it has {}", names.join(", ")))
            }
        }
    }

    /// Checks that a process has no threads but those that were found and those that need no CPU of their own, and that
    /// the first run where they were put.
    pub fn verify(&self, tgid: u32, found: &Found, cpus: Option<&[CpuId]>) -> Result<(), String> {
        let threads = threads(tgid);
        for (tid, name) in &threads {
            if !found.0.contains(tid) && !self.unassigned.iter().any(|pattern| pattern.is_match(name)) {
                return Err(format!(
                    "has a thread \"{name}\" that is in neither `threads` nor `unassigned` of the specification"
                ));
            }
        }
        for (nr, tid) in found.0.iter().enumerate() {
            if !threads.contains_key(tid) {
                return Err(format!("has lost thread {tid}, which was to run to the end"));
            }
            if let Some(wanted) = cpus.map(|cpus| cpus[nr]) {
                let allowed = allowed(tgid, *tid)?;
                if allowed != wanted.to_string() {
                    return Err(format!(
                        "no longer runs its thread \"{}\" on CPU {wanted}: it may run on {allowed} now; \
                         switch its own pinning off, and leave the CPU online",
                        threads[tid]
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Found {
    /// Their ids, in the order of the roles.
    pub fn tids(&self) -> &[i32] {
        &self.0
    }

    /// Pins each thread to its CPU.
    ///
    /// # Errors
    /// Those of [`pin_to`].
    pub fn pin(&self, cpus: &[CpuId]) -> Result<(), String> {
        self.0
            .iter()
            .zip(cpus)
            .try_for_each(|(&tid, &cpu)| pin_to(tid, cpu))
    }
}

/// Pins one thread.
///
/// # Errors
/// Says which thread and CPU, and what to look at.
pub fn pin_to(tid: i32, cpu: CpuId) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(cpu.index())
        .and_then(|()| sched_setaffinity(Pid::from_raw(tid), &set))
        .map_err(|error| match error {
            nix::Error::EINVAL => {
                format!("cannot run thread {tid} on CPU {cpu}: it is offline or outside of the cpuset")
            }
            error => format!("cannot pin thread {tid} to CPU {cpu}: {error}"),
        })
}

/// Threads of a process and their names; none once it has ended.
fn threads(tgid: u32) -> BTreeMap<i32, String> {
    let tids = fs::read_dir(format!("/proc/{tgid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    tids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|tid: i32| {
            let name = fs::read_to_string(format!("/proc/{tgid}/task/{tid}/comm")).ok()?;
            Some((tid, name.trim_end().to_string()))
        })
        .collect()
}

/// The CPUs that a thread may run on, as the kernel lists them.
fn allowed(tgid: u32, tid: i32) -> Result<String, String> {
    let path = format!("/proc/{tgid}/task/{tid}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("has no {path}: {error}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = line
        .ok_or_else(|| format!("has no Cpus_allowed_list in {path}"))?
        .trim();
    Ok(cpulist::parse(list).map_or_else(|_| list.to_string(), |cpus| cpulist::format(&cpus)))
}
