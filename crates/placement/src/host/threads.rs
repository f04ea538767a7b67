// SPDX-License-Identifier: GPL-2.0-only
//! Which thread of a process is which, and where it may run, from /proc.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgid};
use regex::Regex;
use threadwise_machine::{CpuId, cpulist};

use crate::run::RunError;
use crate::spec::{By, Spec, Thread};

/// A thread that has run for so long has done more than to become a program or to take a name, which take well below a
/// millisecond of a processor's time however long they wait for one.
const NEW: Duration = Duration::from_millis(5);

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

/// What is wrong with a process's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is one that nobody described. If it has hardly run it may still have the name of whoever began it: what a child
    /// is to become, and what a thread is to be called, shows a moment later.
    Unknown {
        /// Says which.
        problem: String,
        /// Whether it has run for less than a few milliseconds.
        is_new: bool,
    },
    /// One of its threads has ended, or the process is about to.
    Ended(String),
    /// One may run where it was not put.
    Elsewhere(String),
}

impl Role {
    /// The kernel keeps 15 bytes of a name (TASK_COMM_LEN in include/linux/sched.h).
    fn named(name: &str) -> Role {
        Role::Name(String::from_utf8_lossy(&name.as_bytes()[..name.len().min(15)]).into_owned())
    }
}

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
                Thread::Name(name) => Role::named(name),
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
        let threads = threads(tgid, &orphans_of(tgid));
        let mut by_creation: Vec<i32> = threads.keys().copied().collect();
        // Ids ascend until they begin anew, which those that began in one tick are not expected to have seen.
        by_creation.sort_by_cached_key(|&tid| (tid != tgid as i32, began(tid).unwrap_or(u64::MAX), tid));
        // Names first: a pattern takes whoever is left.
        let mut found = vec![None; self.roles.len()];
        for patterns in [false, true] {
            for (nr, role) in self.roles.iter().enumerate() {
                let is_it = |tid: &i32| match role {
                    Role::Name(name) => threads[tid] == *name,
                    Role::Pattern(pattern) => pattern.is_match(&threads[tid]),
                    Role::Created(created) => by_creation.get(*created) == Some(tid),
                };
                if patterns == matches!(role, Role::Pattern(_)) {
                    let free = |tid: &i32| !found.contains(&Some(*tid)) && is_it(tid);
                    found[nr] = by_creation.iter().copied().find(free);
                }
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

    /// Checks that a process, its children and whoever programs left (see [`strays`]) have no threads but those that
    /// were found and those that need no CPU of their own, and that the first run where they were put. Whoever comes and goes between two looks is not seen.
    ///
    /// # Errors
    /// Which thread is where it should not be, or has ended although it may not.
    pub fn verify(
        &self,
        tgid: u32,
        found: &Found,
        (cpus, may_end): (Option<&[CpuId]>, bool),
        known: &[u32],
    ) -> Result<(), Problem> {
        let threads = threads(tgid, &[orphans_of(tgid), strays(known)].concat());
        for (nr, tid) in found.0.iter().enumerate() {
            if !threads.contains_key(tid) {
                if may_end {
                    continue;
                }
                return Err(Problem::Ended(format!(
                    "has lost thread {tid}, which was to run to the end"
                )));
            }
            if let Some(wanted) = cpus.map(|cpus| cpus[nr]) {
                let allowed = allowed(*tid).map_err(Problem::Ended)?;
                if allowed != wanted.to_string() {
                    return Err(Problem::Elsewhere(format!(
                        "no longer runs its thread \"{}\" on CPU {wanted}: it may run on {allowed} now; \
                         switch its own pinning off, and leave the CPU online",
                        threads[tid]
                    )));
                }
            }
        }
        let mut others = threads.iter().filter(|(tid, _)| !found.0.contains(tid));
        match others.find(|(_, name)| !self.unassigned.iter().any(|pattern| pattern.is_match(name))) {
            None => Ok(()),
            Some((tid, name)) => Err(Problem::Unknown {
                problem: format!(
                    "has a thread \"{name}\" that is in neither `threads` nor `unassigned` of the specification"
                ),
                is_new: ran(*tid).is_none_or(|ran| ran < NEW),
            }),
        }
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

/// Pins the threads of several processes, or none of them: where that fails, those that were pinned may run again where they
/// might before.
///
/// # Errors
/// The process's number among them, and those of [`pin_to`].
pub fn pin_all(processes: &[(Found, &[CpuId])]) -> Result<(), (usize, String)> {
    let mut before = Vec::new();
    let threads = (processes.iter().enumerate())
        .flat_map(|(nr, (found, cpus))| found.0.iter().zip(*cpus).map(move |(&tid, &cpu)| (nr, tid, cpu)));
    for (nr, tid, cpu) in threads {
        match sched_getaffinity(Pid::from_raw(tid)) {
            Ok(set) => before.push((tid, set)),
            // It has ended, and needs nothing.
            Err(nix::Error::ESRCH) => continue,
            Err(error) => return Err((nr, format!("cannot tell where thread {tid} may run: {error}"))),
        }
        if let Err(problem) = pin_to(tid, cpu) {
            // A thread that is of two of them was pinned twice.
            for (tid, set) in before.into_iter().rev() {
                sched_setaffinity(Pid::from_raw(tid), &set).ok();
            }
            return Err((nr, problem));
        }
    }
    Ok(())
}

/// A set of CPUs as the kernel takes it.
///
/// # Errors
/// [`RunError::Program`] for one that is beyond what such a set holds.
pub fn set_of(cpus: &[CpuId]) -> Result<CpuSet, RunError> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(cpu.index())
            .map_err(|error| RunError::Program(format!("CPU {cpu} cannot be asked for: {error}")))?;
    }
    Ok(set)
}

/// Does something while this thread may run on these CPUs only: whom it starts may from its first instruction on.
///
/// # Errors
/// [`RunError::Program`] where none of them is online and in the cpuset.
pub fn within_cpus<T>(cpus: &CpuSet, does: impl FnOnce() -> T) -> Result<T, RunError> {
    let this = Pid::from_raw(0);
    let fail = |error| {
        RunError::Program(format!(
            "cannot have programs run on these CPUs only: {error}; are they online, and in the cpuset?"
        ))
    };
    let before = sched_getaffinity(this).map_err(fail)?;
    sched_setaffinity(this, cpus).map_err(fail)?;
    let done = does();
    sched_setaffinity(this, &before).map_err(fail)?;
    Ok(done)
}

/// The CPUs that this process may run on, ascending.
pub fn allowed_cpus() -> Vec<CpuId> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let is_in = |&cpu: &usize| set.is_set(cpu).unwrap_or(false);
    (0..CpuSet::count())
        .filter(is_in)
        .map(|cpu| CpuId(cpu as u32))
        .collect()
}

/// Pins one thread.
///
/// # Errors
/// Says which thread and CPU, and what to look at.
pub fn pin_to(tid: i32, cpu: CpuId) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(cpu.index())
        .and_then(|()| sched_setaffinity(Pid::from_raw(tid), &set))
        .or_else(|error| match error {
            // It has ended: who needs it to go on will see that.
            nix::Error::ESRCH => Ok(()),
            error => Err(error),
        })
        .map_err(|error| match error {
            nix::Error::EINVAL => {
                format!("cannot run thread {tid} on CPU {cpu}: it is offline or outside of the cpuset")
            }
            error => format!("cannot pin thread {tid} to CPU {cpu}: {error}"),
        })
}

/// This process's children: those that its main thread started, programs under test among them, and, if it is a subreaper,
/// whoever lost a parent that descended from it (PR_SET_CHILD_SUBREAPER in prctl(2); find_new_reaper() in kernel/exit.c gives
/// them to the main thread).
pub fn children() -> Vec<u32> {
    let path = format!("/proc/self/task/{}/children", std::process::id());
    let children = fs::read_to_string(path).unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.collect()
}

/// What a program has left that is still in its process group.
fn orphans_of(tgid: u32) -> Vec<u32> {
    let is_its = |pid: &u32| *pid != tgid && group_of(*pid) == Some(tgid);
    children().into_iter().filter(is_its).collect()
}

/// What programs have left in groups of their own, so that nobody can tell whose it is: neither one of the `known`, which
/// are the programs and whoever was there before them, nor in the group of one.
pub fn strays(known: &[u32]) -> Vec<u32> {
    let is_known = |pid: u32| known.contains(&pid);
    children()
        .into_iter()
        .filter(|&pid| !is_known(pid) && !group_of(pid).is_some_and(is_known))
        .collect()
}

/// Lets those that programs have left go when they have ended.
pub fn reap(known: &[u32]) {
    for pid in children().into_iter().filter(|pid| !known.contains(pid)) {
        waitpid(pid_of(pid), Some(WaitPidFlag::WNOHANG)).ok();
    }
}

fn group_of(pid: u32) -> Option<u32> {
    getpgid(Some(pid_of(pid))).ok().map(|group| group.as_raw() as u32)
}

pub fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid as i32)
}

/// Threads of a process and of others, of the children of all, and their names; none once they have ended.
fn threads(tgid: u32, others: &[u32]) -> BTreeMap<i32, String> {
    let mut threads = BTreeMap::new();
    let mut processes = [&[tgid], others].concat();
    while let Some(tgid) = processes.pop() {
        let tasks = fs::read_dir(format!("/proc/{tgid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in tasks.map(|task| task.path()) {
            let tid = task
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.parse().ok());
            let (Some(tid), Ok(name)) = (tid, read_text(&task.join("comm"))) else {
                continue;
            };
            threads.insert(tid, name.trim_end().to_string());
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            processes.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    threads
}

/// A file that has a thread's name, which may be any bytes: the kernel cuts it after 15 of them, in the middle of a character.
fn read_text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// When a thread began, in ticks since the machine did; none if it has ended.
fn began(tid: i32) -> Option<u64> {
    let text = read_text(Path::new(&format!("/proc/{tid}/stat"))).ok()?;
    // The name, in parentheses, may have spaces; `starttime` is the 22nd field, the 20th after it (proc_pid_stat(5)).
    let (_, after_name) = text.rsplit_once(") ")?;
    after_name.split(' ').nth(19)?.parse().ok()
}

/// How long a thread has run; none if it has ended.
fn ran(tid: i32) -> Option<Duration> {
    // Nanoseconds on a CPU, nanoseconds that it waited for one, and slices (Documentation/scheduler/sched-stats.rst).
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace()
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

/// The CPUs that a thread may run on, as the kernel lists them.
fn allowed(tid: i32) -> Result<String, String> {
    let path = format!("/proc/{tid}/status");
    let status = read_text(Path::new(&path)).map_err(|error| format!("has no {path}: {error}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = line
        .ok_or_else(|| format!("has no Cpus_allowed_list in {path}"))?
        .trim();
    Ok(cpulist::parse(list).map_or_else(|_| list.to_string(), |cpus| cpulist::format(&cpus)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that panics has failed
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use nix::unistd::gettid;

    use super::*;

    /// A thread of this name that waits until its sender is dropped, and its id.
    fn waiting(name: &str) -> (i32, Sender<()>) {
        let ((say, said), (stop, stopped)) = (channel(), channel());
        let named = std::thread::Builder::new().name(name.into());
        let wait = move || {
            say.send(gettid().as_raw()).unwrap();
            stopped.recv().ok();
        };
        named.spawn(wait).unwrap();
        (said.recv().unwrap(), stop)
    }

    #[test]
    fn where_one_thread_cannot_be_pinned_none_is() {
        let [(one, _stop), (other, _stop_too)] = ["one", "other"].map(waiting);
        let before = allowed(one).unwrap();
        let first = [cpulist::parse(&before).unwrap()[0]];
        // No machine has it.
        let none = [CpuId(1023)];
        let all = [(Found(vec![one]), &first[..]), (Found(vec![other]), &none[..])];
        let (nr, problem) = pin_all(&all).unwrap_err();
        assert!(nr == 1 && problem.contains("offline"), "{nr} {problem}");
        assert_eq!(allowed(one).unwrap(), before);
        pin_all(&all[..1]).unwrap();
        assert_eq!(allowed(one).unwrap(), first[0].to_string());
    }

    #[test]
    fn a_name_that_was_cut_in_a_character_is_found() {
        let name = "ééééééééé";
        let (tid, _stop) = waiting(name);
        let roles = Roles {
            roles: vec![Role::named(name)],
            unassigned: vec![Regex::new(".*").unwrap()],
        };
        let found = roles.find(std::process::id()).unwrap();
        assert_eq!(found.tids(), [tid]);
        assert!(began(tid).is_some());
        let cpus = cpulist::parse(&allowed(tid).unwrap()).unwrap();
        found.pin(&cpus[..1]).unwrap();
        let pinned = (Some(&cpus[..1]), false);
        roles.verify(std::process::id(), &found, pinned, &[]).unwrap();
    }
}
