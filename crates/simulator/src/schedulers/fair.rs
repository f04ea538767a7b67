// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's fair scheduler, EEVDF (kernel/sched/fair.c, Linux 6.12 to 7.2), as far as it decides who runs where.
//!
//! Modelled: a queue for each CPU, virtual deadlines with eligibility by lag, protection of who runs until its slice is
//! used (RUN_TO_PARITY), which ends it to the microsecond (HRTICK, on by default in Linux 7.2), lag kept over sleep,
//! wake-ups onto the CPU that a task ran on or an idle one, of an idle core first where it knows of cores, balancing by CPUs
//! that go idle and by idle ones at the ticks of busy ones (nohz), which take a running task too where it shares a core and
//! another is idle (`group_smt_balance`). All CPUs are one domain. Not modelled: groups, packages, capacities, migration costs,
//! and delayed dequeue.

use std::cmp::Reverse;

use crate::Ns;
use crate::kernel::{CpuIndex, ENDLESS, Kernel, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};

/// sysctl_sched_base_slice, times 1 + log2 of the CPUs, at most 8 (`update_sysctl()`).
const BASE_SLICE_NS: Ns = 700_000;

/// More than `cache_nice_tries` and two times idle CPUs try in vain before a running task is moved, and it is the next time.
const BALANCES: Ns = 5;

/// An entity's account, in nanoseconds of virtual time times 100.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    vruntime: i64,
    deadline: i64,
    /// `ran` up to which vruntime is charged.
    charged_ns: Ns,
    /// How far it was from the mean when it left its queue.
    lag: i64,
    /// It leaves its CPU for an idle core.
    leaves_core: bool,
    weight: i64,
}

/// One CPU's queue: the tasks that wait. What runs is in none.
#[derive(Clone, Debug, Default)]
struct RunQueue {
    waiting: Vec<TaskIndex>,
    /// Until when (of its `ran`) what runs goes on whoever else has an earlier deadline.
    protected_until: Ns,
    /// The least vruntime, for when all have left.
    floor: i64,
    /// Since when what runs has shared its core while another core was idle, at ticks.
    shares_since: Option<Ns>,
}

/// The kernel's scheduler.
pub struct Fair {
    entities: Vec<Entity>,
    queues: Vec<RunQueue>,
    slice_ns: Ns,
    tick_ns: Ns,
}

impl Fair {
    /// For the kernel's CPUs.
    pub fn new(kernel: &mut Kernel) -> Self {
        let nr = kernel.cpus.len();
        Self {
            entities: Vec::new(),
            queues: vec![RunQueue::default(); nr],
            slice_ns: BASE_SLICE_NS * u64::from(1 + nr.min(8).ilog2()),
            tick_ns: kernel.costs.tick_period_ns,
        }
    }

    /// Virtual time for so much time.
    fn virtual_ns(&self, task: TaskIndex, ns: Ns) -> i64 {
        ns as i64 * 100 * 100 / self.entities[task].weight
    }

    /// `update_curr()`.
    fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let ran = kernel.tasks[task].ran;
        let ns = ran - std::mem::replace(&mut self.entities[task].charged_ns, ran);
        self.entities[task].vruntime += self.virtual_ns(task, ns);
        if self.entities[task].vruntime >= self.entities[task].deadline {
            self.renew_deadline(task);
        }
    }

    fn renew_deadline(&mut self, task: TaskIndex) {
        self.entities[task].deadline = self.entities[task].vruntime + self.virtual_ns(task, self.slice_ns);
    }

    /// `avg_vruntime()`: the mean vruntime, by weight, of those that wait and of who runs.
    fn mean(&self, cpu: CpuIndex, running: Option<TaskIndex>) -> Option<i64> {
        let tasks = || self.queues[cpu].waiting.iter().copied().chain(running);
        let weight: i128 = tasks().map(|task| i128::from(self.entities[task].weight)).sum();
        let sum: i128 = tasks()
            .map(|task| i128::from(self.entities[task].vruntime) * i128::from(self.entities[task].weight))
            .sum();
        (weight > 0).then(|| sum.div_euclid(weight) as i64)
    }

    /// `place_entity()`: as far from the mean as it was when it left; its own coming moves the mean.
    fn place(&mut self, kernel: &Kernel, cpu: CpuIndex, task: TaskIndex) {
        let running = kernel.cpus[cpu].running;
        let mean = self.mean(cpu, running).unwrap_or(self.queues[cpu].floor);
        let load: i64 = self.queues[cpu]
            .waiting
            .iter()
            .copied()
            .chain(running)
            .map(|task| self.entities[task].weight)
            .sum();
        let entity = &mut self.entities[task];
        let lag = if load > 0 {
            (i128::from(entity.lag) * i128::from(load + entity.weight) / i128::from(load)) as i64
        } else {
            0
        };
        entity.vruntime = mean - lag;
        entity.charged_ns = kernel.tasks[task].ran;
        self.renew_deadline(task);
    }

    /// `update_entity_lag()`: at most a slice and a tick either way.
    fn leave(&mut self, cpu: CpuIndex, task: TaskIndex, running: Option<TaskIndex>) {
        let mean = self.mean(cpu, running).unwrap_or(self.entities[task].vruntime);
        let limit = self.virtual_ns(task, self.slice_ns + self.tick_ns);
        self.entities[task].lag = (mean - self.entities[task].vruntime).clamp(-limit, limit);
        self.queues[cpu].floor = mean;
    }

    /// `pick_eevdf()`: of those that are eligible, not ahead of the mean, the one with the earliest deadline.
    fn pick(&self, kernel: &Kernel, cpu: CpuIndex, running: Option<TaskIndex>) -> Option<TaskIndex> {
        let mean = self.mean(cpu, running)?;
        let eligible = |task: &TaskIndex| self.entities[*task].vruntime <= mean;
        if let Some(task) = running
            && eligible(&task)
            && kernel.tasks[task].ran < self.queues[cpu].protected_until
        {
            return Some(task);
        }
        let candidates = || self.queues[cpu].waiting.iter().copied().chain(running);
        candidates()
            .filter(eligible)
            .min_by_key(|&task| (self.entities[task].deadline, task))
            .or_else(|| candidates().min_by_key(|&task| (self.entities[task].vruntime, task)))
    }

    fn run(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
        self.queues[cpu].protected_until = kernel.tasks[task].ran + self.slice_ns;
        self.queues[cpu].shares_since = None;
        kernel.insert_local(task, cpu, ENDLESS, false);
        kernel.set_alarm(cpu, self.slice_ns + 1);
    }

    /// The queue with the most tasks of which one may come here, and that one.
    fn busiest(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<(CpuIndex, TaskIndex)> {
        (0..self.queues.len())
            .filter(|&other| other != cpu && kernel.cpus[other].running.is_some())
            .filter_map(|other| {
                let waiting = &self.queues[other].waiting;
                let movable = waiting.iter().copied().find(|&task| kernel.may_run(task, cpu))?;
                Some((waiting.len(), Reverse(other), movable))
            })
            .max()
            .map(|(_, Reverse(other), task)| (other, task))
    }

    /// Takes one task from the busiest queue (`sched_balance_newidle()`).
    fn pull(&mut self, kernel: &mut Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        let (from, task) = self.busiest(kernel, cpu)?;
        let running = kernel.cpus[from].running;
        if let Some(running) = running {
            kernel.account(from);
            self.charge(kernel, running);
        }
        self.leave(from, task, running);
        self.queues[from].waiting.retain(|&waiting| waiting != task);
        self.place(kernel, cpu, task);
        Some(task)
    }
}

impl Fair {
    /// A core on which several run sends one away to a core on which nobody does, once idle CPUs, which look for such at the
    /// ticks of busy ones, have failed to pull anybody some times (`update_sd_pick_busiest()`, `need_active_balance()`). Only
    /// a kernel that knows cores does.
    fn leave_shared_core(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: TaskIndex) {
        let is_whole = |core: &[CpuIndex]| core.iter().all(|&cpu| kernel.is_idle(cpu));
        let shares = || {
            kernel
                .core_of(cpu)
                .iter()
                .any(|&other| other != cpu && !kernel.is_idle(other))
        };
        let has_place =
            || (0..kernel.cpus.len()).any(|to| kernel.may_run(running, to) && is_whole(kernel.core_of(to)));
        if !kernel.knows_cores() || !shares() || !has_place() {
            self.queues[cpu].shares_since = None;
            return;
        }
        let since = *self.queues[cpu].shares_since.get_or_insert(kernel.now);
        // While nobody can be pulled the domain is balanced once in twice as many milliseconds as it has CPUs (`max_interval`).
        if kernel.now - since >= BALANCES * 2 * kernel.cpus.len() as Ns * 1_000_000 {
            self.queues[cpu].shares_since = None;
            self.entities[running].leaves_core = true;
            kernel.set_slice(running, 0);
        }
    }
}

/// `select_idle_sibling()`: the CPU that it ran on if that is idle, even beside a busy sibling, else one of an idle core
/// (`select_idle_core()`), else any. One that has just begun goes to an idle core first (`sched_balance_find_dst_cpu()`).
fn select_idle(kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
    if kernel.tasks[task].ran == 0 {
        return kernel.select_idle(task, prev);
    }
    if kernel.may_run(task, prev) && kernel.claim_idle(prev) {
        return Some(prev);
    }
    kernel.claim_any_idle(task)
}

impl Scheduler for Fair {
    fn wants_last(&self) -> bool {
        true
    }

    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        self.entities.push(Entity {
            weight: i64::from(kernel.tasks[task].weight),
            ..Entity::default()
        });
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        let Some(cpu) = select_idle(kernel, task, prev) else {
            return prev;
        };
        // It starts afresh where nobody else is.
        self.place(kernel, cpu, task);
        self.queues[cpu].protected_until = kernel.tasks[task].ran + self.slice_ns;
        kernel.insert_direct(task, ENDLESS, false);
        cpu
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        let cpu = kernel.tasks[task].cpu;
        let leaves_core = std::mem::take(&mut self.entities[task].leaves_core) && !why.wakeup && !why.moved;
        let to = if leaves_core {
            kernel.claim_idle_core(task)
        } else {
            None
        };
        if let Some(to) = to.or(why.last.then_some(cpu)) {
            self.charge(kernel, task);
            self.queues[to].protected_until = kernel.tasks[task].ran + self.slice_ns;
            return kernel.insert_local(task, to, ENDLESS, false);
        }
        kernel.hold(task);
        if !why.wakeup && !why.moved {
            self.charge(kernel, task);
            self.queues[cpu].waiting.push(task);
            return;
        }
        let running = kernel.cpus[cpu].running;
        if let Some(running) = running {
            kernel.account(cpu);
            self.charge(kernel, running);
        }
        self.place(kernel, cpu, task);
        self.queues[cpu].waiting.push(task);
        // check_preempt_wakeup_fair()
        if self.pick(kernel, cpu, running) == Some(task) {
            kernel.kick_preempt(cpu);
        } else if let Some(running) = running {
            let left = self.queues[cpu]
                .protected_until
                .saturating_sub(kernel.tasks[running].ran);
            kernel.set_alarm(cpu, left + 1);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        if let Some(running) = running {
            self.charge(kernel, running);
            if self.entities[running].leaves_core {
                return;
            }
        }
        match self.pick(kernel, cpu, running) {
            Some(next) if Some(next) != running => self.run(kernel, cpu, next),
            Some(next) => {
                if kernel.tasks[next].ran >= self.queues[cpu].protected_until {
                    self.queues[cpu].protected_until = kernel.tasks[next].ran + self.slice_ns;
                }
                kernel.set_slice(next, ENDLESS);
                let left = self.queues[cpu].protected_until - kernel.tasks[next].ran;
                if !self.queues[cpu].waiting.is_empty() {
                    kernel.set_alarm(cpu, left + 1);
                }
            }
            None => {
                if let Some(task) = self.pull(kernel, cpu) {
                    self.run(kernel, cpu, task);
                }
            }
        }
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        let running = kernel.cpus[cpu].running;
        self.charge(kernel, task);
        // It counts among those that it leaves.
        if running != Some(task) {
            self.queues[cpu].waiting.push(task);
        }
        self.leave(cpu, task, running);
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
    }

    fn dequeue(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
    }

    fn holds(&self, task: TaskIndex) -> bool {
        self.queues.iter().any(|queue| queue.waiting.contains(&task))
    }

    /// `yield_task_fair()`: what it asked for counts as served.
    fn yielded(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        self.charge(kernel, task);
        self.queues[cpu].protected_until = 0;
        self.entities[task].deadline += self.virtual_ns(task, self.slice_ns);
    }

    fn tick(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let Some(running) = kernel.cpus[cpu].running else {
            return;
        };
        self.charge(kernel, running);
        if self.queues[cpu].waiting.is_empty() {
            return self.leave_shared_core(kernel, cpu, running);
        }
        self.queues[cpu].shares_since = None;
        // nohz_balancer_kick(): a busy CPU wakes an idle one, which pulls.
        if let Some(idle) = self.queues[cpu]
            .waiting
            .clone()
            .into_iter()
            .find_map(|task| kernel.claim_any_idle(task))
        {
            kernel.kick(idle);
        }
        // Not before its request is served, eligible or not.
        let is_protected = kernel.tasks[running].ran < self.queues[cpu].protected_until;
        if !is_protected && self.pick(kernel, cpu, Some(running)) != Some(running) {
            kernel.set_slice(running, 0);
        }
    }
}
