// SPDX-License-Identifier: GPL-2.0-only
//! From events to what each task did.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{Event, Line, Who};
use super::{Deed, RecordedTask, Trace};

/// A wake-up that another CPU does while a task switches away is recorded this long before the switch, at the most.
const RACE_NS: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Runs, since then or since it was last written down.
    Runs {
        since: u64,
    },
    Waits,
    /// Sleeps.
    Sleeps {
        since: u64,
    },
    /// Was woken, and has not run since.
    Woken {
        at: u64,
    },
    Ended,
}

/// A wake-up: its number among all, when, and by which task.
#[derive(Clone, Copy, Debug)]
struct Wake {
    number: usize,
    at: u64,
    by: Option<usize>,
}

struct Task {
    recorded: RecordedTask,
    state: State,
    /// What it ran that is not written down yet.
    ran: u64,
    /// Wake-ups that found it awake: the last one, and those at most [`RACE_NS`] before that.
    early: Vec<Wake>,
    /// For each deed that is a wake-up, which.
    wakes: BTreeMap<usize, usize>,
}

#[derive(Default)]
pub(super) struct Chains {
    tasks: Vec<Task>,
    indices: BTreeMap<u32, usize>,
    cpus: BTreeSet<u32>,
    /// What runs on each CPU, where that is known.
    running: BTreeMap<u32, usize>,
    begin: Option<u64>,
    end: u64,
    nr_wakes: usize,
    /// Wake-ups that ended a sleep.
    used: BTreeSet<usize>,
    nr_unexplained: usize,
}

impl Chains {
    pub(super) fn add(&mut self, line: &Line<'_>) {
        self.begin.get_or_insert(line.at_ns);
        self.end = line.at_ns;
        self.cpus.insert(line.cpu);
        match line.event {
            Event::Switch { prev, state, next } => {
                if let Some(task) = self.index(prev, State::Runs { since: self.begin() }) {
                    self.tasks[task].recorded.tgid = line.tgid.or(self.tasks[task].recorded.tgid);
                    self.leave(task, state, line.at_ns);
                }
                self.running.remove(&line.cpu);
                if let Some(task) = self.index(next, State::Waits) {
                    self.arrive(task, line.at_ns);
                    self.running.insert(line.cpu, task);
                }
            }
            Event::Wake { who, is_new } => {
                let waker = match line.tid {
                    Some(tid) => self.indices.get(&tid).copied(),
                    None => self.running.get(&line.cpu).copied(),
                };
                if let (Some(waker), Some(tgid)) = (waker, line.tgid) {
                    self.tasks[waker].recorded.tgid = Some(tgid);
                }
                let since = self.begin();
                if let Some(task) = self.index(who, State::Sleeps { since }) {
                    // A thread id may be given again.
                    if is_new && self.tasks[task].state == State::Ended {
                        self.tasks[task].state = State::Sleeps { since: line.at_ns };
                    }
                    self.wake(task, waker.filter(|&waker| waker != task), line.at_ns);
                }
            }
            Event::Other => {}
        }
    }

    fn begin(&self) -> u64 {
        self.begin.unwrap_or(0)
    }

    /// The task's number; nothing if it is no task of a program. One that is new is in this state.
    fn index(&mut self, Who { comm, tid, prio }: Who<'_>, state: State) -> Option<usize> {
        if tid == 0 || comm.starts_with("migration/") {
            return None;
        }
        if let Some(&index) = self.indices.get(&tid) {
            let recorded = &mut self.tasks[index].recorded;
            if recorded.comm != comm {
                comm.clone_into(&mut recorded.comm);
            }
            recorded.prio = prio;
            return Some(index);
        }
        let index = self.tasks.len();
        self.indices.insert(tid, index);
        self.tasks.push(Task {
            recorded: RecordedTask {
                tid,
                tgid: None,
                comm: comm.to_owned(),
                prio,
                is_kernel_thread: false,
                bound_to: None,
                deeds: Vec::new(),
                latencies_ns: Vec::new(),
            },
            state,
            ran: 0,
            early: Vec::new(),
            wakes: BTreeMap::new(),
        });
        Some(index)
    }

    /// It leaves its CPU.
    fn leave(&mut self, task: usize, state: char, at: u64) {
        self.tasks[task].account(at);
        self.tasks[task].state = match state {
            'R' => State::Waits,
            'X' | 'x' | 'Z' => State::Ended,
            _ => State::Sleeps { since: at },
        };
        if self.tasks[task].state != State::Waits {
            self.tasks[task].write_down();
        }
    }

    /// It comes to a CPU.
    fn arrive(&mut self, task: usize, at: u64) {
        match self.tasks[task].state {
            State::Woken { at: woken } => self.tasks[task].recorded.latencies_ns.push(at - woken),
            State::Sleeps { since } => self.wake_unseen(task, since, at),
            State::Runs { .. } | State::Waits | State::Ended => {}
        }
        let task = &mut self.tasks[task];
        task.early.clear();
        task.state = State::Runs { since: at };
    }

    /// It slept, and nobody was seen to wake it since: the one that was just before may have been the one. Of several, the
    /// first: where `sched_waking` and `sched_wakeup` are both recorded, the former names the waker.
    fn wake_unseen(&mut self, task: usize, since: u64, at: u64) {
        let early = &self.tasks[task].early;
        match early.iter().find(|early| since - early.at <= RACE_NS).copied() {
            Some(early) => {
                self.end_sleep(task, early, since, since);
                self.tasks[task].recorded.latencies_ns.push(at - since);
            }
            None => {
                self.nr_unexplained += 1;
                self.tasks[task].recorded.deeds.push(Deed::Slept(at - since));
            }
        }
    }

    fn wake(&mut self, task: usize, by: Option<usize>, at: u64) {
        let wake = Wake {
            number: self.nr_wakes,
            at,
            by,
        };
        self.nr_wakes += 1;
        // Whether it is what ends a sleep may show later; if it does not, this is taken out again.
        if let Some(waker) = by {
            self.tasks[waker].account(at);
            self.tasks[waker].write_down();
            let deeds = &mut self.tasks[waker].recorded.deeds;
            deeds.push(Deed::Woke(task));
            let place = deeds.len() - 1;
            self.tasks[waker].wakes.insert(place, wake.number);
        }
        match self.tasks[task].state {
            State::Sleeps { since } => {
                self.end_sleep(task, wake, since, at);
                self.tasks[task].state = State::Woken { at };
            }
            State::Runs { .. } => self.tasks[task].add_early(wake),
            State::Waits | State::Woken { .. } | State::Ended => {}
        }
    }

    fn end_sleep(&mut self, task: usize, wake: Wake, since: u64, at: u64) {
        let deed = match wake.by {
            Some(waker) => {
                self.used.insert(wake.number);
                Deed::Awaited(waker)
            }
            None => Deed::Slept(at - since),
        };
        self.tasks[task].recorded.deeds.push(deed);
    }

    pub(super) fn finish(mut self) -> Trace {
        for task in &mut self.tasks {
            task.account(self.end);
            task.write_down();
        }
        let used = &self.used;
        Trace {
            span_ns: self.end - self.begin(),
            nr_cpus: self.cpus.len(),
            nr_unexplained: self.nr_unexplained,
            tasks: self.tasks.into_iter().map(|task| task.recorded(used)).collect(),
        }
    }
}

impl Task {
    /// Older ones than could race with a switch after this one are forgotten, so that few are kept.
    fn add_early(&mut self, wake: Wake) {
        self.early.retain(|early| wake.at - early.at <= RACE_NS);
        self.early.push(wake);
    }

    /// Brings what it ran up to date.
    fn account(&mut self, at: u64) {
        if let State::Runs { since } = &mut self.state {
            self.ran += at - std::mem::replace(since, at);
        }
    }

    fn write_down(&mut self) {
        match std::mem::take(&mut self.ran) {
            0 => {}
            ran => self.recorded.deeds.push(Deed::Ran(ran)),
        }
    }

    /// Without the wake-ups that woke nobody; runs that these parted are one.
    fn recorded(self, used: &BTreeSet<usize>) -> RecordedTask {
        let mut recorded = self.recorded;
        let mut deeds: Vec<Deed> = Vec::new();
        for (place, deed) in recorded.deeds.into_iter().enumerate() {
            match (deed, deeds.last_mut()) {
                (Deed::Woke(_), _) if !self.wakes.get(&place).is_some_and(|wake| used.contains(wake)) => {}
                (Deed::Ran(more), Some(Deed::Ran(ran))) => *ran += more,
                _ => deeds.push(deed),
            }
        }
        recorded.deeds = deeds;
        (recorded.is_kernel_thread, recorded.bound_to) = kernel_thread(&recorded.comm);
        recorded
    }
}

/// Whether a name is a kernel thread's, and the CPU that it is bound to: a trace does not say so.
fn kernel_thread(comm: &str) -> (bool, Option<u32>) {
    const OF_A_CPU: [&str; 5] = ["ksoftirqd/", "cpuhp/", "idle_inject/", "irq_work/", "rcuc/"];
    const ANYWHERE: [&str; 10] = [
        "kthreadd",
        "rcu_",
        "kswapd",
        "kcompactd",
        "khugepaged",
        "jbd2/",
        "irq/",
        "khungtaskd",
        "kauditd",
        "ksmd",
    ];
    if let Some(cpu) = OF_A_CPU.iter().find_map(|name| comm.strip_prefix(name)) {
        return (true, cpu.parse().ok());
    }
    // kworker/CPU:NUMBER, or kworker/uPOOL:NUMBER, which may run anywhere.
    if let Some(rest) = comm.strip_prefix("kworker/") {
        return (true, rest.split(':').next().and_then(|cpu| cpu.parse().ok()));
    }
    (ANYWHERE.iter().any(|name| comm.starts_with(name)), None)
}
