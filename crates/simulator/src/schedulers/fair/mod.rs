// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's fair scheduler, EEVDF (kernel/sched/fair.c, Linux 6.12 to 7.2), as far as it decides who runs where.
//!
//! Modelled: a queue for each CPU, virtual deadlines with eligibility by lag, protection of who runs until its slice is
//! used (RUN_TO_PARITY), which ends it to the microsecond (HRTICK, on by default in Linux 7.2), lag kept over sleep,
//! wake-ups onto the CPU that a task ran on or an idle one behind the same last-level cache ([`wakeup`]), sleepers that stay in
//! their queue until they are eligible ([`delayed`]), new tasks to the cache with the most idle CPUs, and balancing by CPUs that
//! go idle ([`newidle`]), are idle ([`balance`]), or busy ([`busy`]); and what it makes of CPUs that differ, if it is told
//! ([`capacity`]). Domains are cores, last-level caches and the machine. Not modelled: groups, NUMA nodes, the cache-aware scheduling of Linux 7.2 (CONFIG_SCHED_CACHE), and wake-ups near the
//! waker (`wake_affine()`: in the lab barriers get as much done without it, docs/results/simulator.md).

mod balance;
mod busy;
mod capacity;
mod delayed;
mod newidle;
mod utilization;
mod wakeup;

use self::balance::IdleBalance;
use self::busy::BusyBalance;
use self::capacity::Capacities;
use self::newidle::Newidle;
use self::utilization::Utilization;
use self::wakeup::IdleScan;
use crate::Ns;
use crate::kernel::{CpuIndex, Doing, ENDLESS, Kernel, TaskIndex};
use crate::programs::load_of;
use crate::scheduler::{Enqueue, Scheduler};

/// sysctl_sched_base_slice, times 1 + log2 of the CPUs, at most 8 (`update_sysctl()`).
const BASE_SLICE_NS: Ns = 700_000;

/// What a task of nice 0 weighs (`NICE_0_LOAD`, scaled down).
const NICE_0_LOAD: i64 = 1024;

/// An entity's account, in nanoseconds of virtual time times 100.
#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    vruntime: i64,
    deadline: i64,
    /// `ran` up to which vruntime is charged.
    charged_ns: Ns,
    /// How far it was from the mean when it left its queue.
    lag: i64,
    /// The idle CPU to which it is sent.
    leaves_for: Option<CpuIndex>,
    weight: i64,
    /// It sleeps, and is still in its CPU's queue.
    is_delayed: bool,
    /// How far its deadline is from its vruntime, if it goes to another queue and has not slept (PLACE_REL_DEADLINE).
    left_of_request: Option<i64>,
}

/// One CPU's queue: the tasks that wait, and those that sleep and are not out of it yet. What runs is in none.
#[derive(Clone, Debug, Default)]
struct RunQueue {
    waiting: Vec<TaskIndex>,
    delayed: Vec<TaskIndex>,
    /// Until when (of its `ran`) what runs goes on whoever else has an earlier deadline.
    protected_until: Ns,
    /// The least vruntime, for when all have left.
    floor: i64,
}

impl RunQueue {
    /// What is in it, with what runs.
    fn tasks(&self, running: Option<TaskIndex>) -> impl Iterator<Item = TaskIndex> {
        self.waiting.iter().chain(&self.delayed).copied().chain(running)
    }
}

/// The kernel's scheduler.
pub struct Fair {
    entities: Vec<Entity>,
    queues: Vec<RunQueue>,
    idle_balance: IdleBalance,
    busy_balance: BusyBalance,
    newidle: Newidle,
    idle_scan: IdleScan,
    utilization: Utilization,
    capacities: Capacities,
    slice_ns: Ns,
    tick_ns: Ns,
}

impl Fair {
    /// For the kernel's CPUs, which it takes for equally fast.
    pub fn new(kernel: &mut Kernel) -> Self {
        let equal = Capacities::equal(kernel.cpus.len());
        Self::with_capacities(kernel, equal)
    }

    /// For the kernel's CPUs, of which it is told how fast they are.
    pub fn told_of_speeds(kernel: &mut Kernel) -> Self {
        let capacities = Capacities::of(kernel);
        Self::with_capacities(kernel, capacities)
    }

    fn with_capacities(kernel: &mut Kernel, capacities: Capacities) -> Self {
        let nr = kernel.cpus.len();
        Self {
            entities: Vec::new(),
            queues: vec![RunQueue::default(); nr],
            idle_balance: IdleBalance::new(nr),
            busy_balance: BusyBalance::new(nr),
            newidle: Newidle::new(nr),
            idle_scan: IdleScan::new(&kernel.domains),
            utilization: Utilization::new(&capacities, nr),
            capacities,
            slice_ns: BASE_SLICE_NS * u64::from(1 + nr.min(8).ilog2()),
            tick_ns: kernel.costs.tick_period_ns,
        }
    }

    /// Virtual time for so much time.
    fn virtual_ns(&self, task: TaskIndex, ns: Ns) -> i64 {
        ns as i64 * 100 * NICE_0_LOAD / self.entities[task].weight
    }

    /// For how long a task has to run until its request is served.
    fn request_ns(&self, task: TaskIndex) -> Ns {
        let entity = &self.entities[task];
        let left = (entity.deadline - entity.vruntime).max(0);
        (left * entity.weight)
            .unsigned_abs()
            .div_ceil(100 * NICE_0_LOAD.unsigned_abs())
    }

    /// `update_curr()`.
    fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let ran = kernel.tasks[task].ran;
        self.utilization.charge(kernel, task);
        let ns = ran - std::mem::replace(&mut self.entities[task].charged_ns, ran);
        self.entities[task].vruntime += self.virtual_ns(task, ns);
        if self.entities[task].vruntime >= self.entities[task].deadline {
            self.renew_deadline(task);
        }
    }

    fn renew_deadline(&mut self, task: TaskIndex) {
        self.entities[task].deadline = self.entities[task].vruntime + self.virtual_ns(task, self.slice_ns);
    }

    /// `avg_vruntime()`: the mean vruntime, by weight, of those in the queue and of who runs.
    fn mean(&self, cpu: CpuIndex, running: Option<TaskIndex>) -> Option<i64> {
        let tasks = || self.queues[cpu].tasks(running);
        let weight: i128 = tasks().map(|task| i128::from(self.entities[task].weight)).sum();
        let sum: i128 = tasks()
            .map(|task| i128::from(self.entities[task].vruntime) * i128::from(self.entities[task].weight))
            .sum();
        (weight > 0).then(|| sum.div_euclid(weight) as i64)
    }

    /// `place_entity()`: as far from the mean as it was when it left; its own coming moves the mean. Who only moves is in the midst of
    /// a request, and who has just begun has half of one at first (PLACE_DEADLINE_INITIAL).
    fn place(&mut self, kernel: &Kernel, cpu: CpuIndex, task: TaskIndex) {
        let running = kernel.cpus[cpu].running;
        let mean = self.mean(cpu, running).unwrap_or(self.queues[cpu].floor);
        let load: i64 = self.queues[cpu]
            .tasks(running)
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
        let is_new = entity.charged_ns == 0;
        if let Some(left) = entity.left_of_request.take() {
            entity.deadline = entity.vruntime + left;
            return;
        }
        self.renew_deadline(task);
        if is_new {
            let entity = &mut self.entities[task];
            entity.deadline -= (entity.deadline - entity.vruntime) / 2;
        }
    }

    /// `update_entity_lag()`: at most a slice and a tick either way.
    fn leave(&mut self, cpu: CpuIndex, task: TaskIndex, running: Option<TaskIndex>) {
        let mean = self.mean(cpu, running).unwrap_or(self.entities[task].vruntime);
        let limit = self.virtual_ns(task, self.slice_ns + self.tick_ns);
        self.entities[task].lag = (mean - self.entities[task].vruntime).clamp(-limit, limit);
        self.queues[cpu].floor = mean;
    }

    /// A task is out of its queue, and has a new request when it comes to one.
    fn take_out(&mut self, cpu: CpuIndex, task: TaskIndex, running: Option<TaskIndex>) {
        // It counts among those that it leaves.
        if running != Some(task) && !self.queues[cpu].waiting.contains(&task) {
            self.queues[cpu].waiting.push(task);
        }
        self.leave(cpu, task, running);
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
        self.entities[task].left_of_request = None;
    }

    /// A task goes to another CPU's queue, or to another place in its own, in the midst of a request.
    fn moves(&mut self, cpu: CpuIndex, task: TaskIndex, running: Option<TaskIndex>) {
        self.take_out(cpu, task, running);
        let entity = &mut self.entities[task];
        entity.left_of_request = Some(entity.deadline - entity.vruntime);
    }

    /// `detach_task()`: a task that waits leaves its queue for another CPU's.
    fn detach(&mut self, kernel: &mut Kernel, from: CpuIndex, task: TaskIndex) {
        let running = kernel.cpus[from].running;
        if let Some(running) = running {
            kernel.account(from);
            self.charge(kernel, running);
        }
        self.moves(from, task, running);
    }

    /// `pick_eevdf()`: of those that are eligible, not ahead of the mean, the one with the earliest deadline. It may sleep.
    fn earliest(&self, kernel: &Kernel, cpu: CpuIndex, running: Option<TaskIndex>) -> Option<TaskIndex> {
        let mean = self.mean(cpu, running)?;
        let eligible = |task: &TaskIndex| self.entities[*task].vruntime <= mean;
        if let Some(task) = running
            && eligible(&task)
            && kernel.tasks[task].ran < self.queues[cpu].protected_until
        {
            return Some(task);
        }
        let candidates = || self.queues[cpu].tasks(running);
        candidates()
            .filter(eligible)
            .min_by_key(|&task| (self.entities[task].deadline, task))
            .or_else(|| candidates().min_by_key(|&task| (self.entities[task].vruntime, task)))
    }

    /// `set_protect_slice()`: who comes to a CPU runs until its request is served, if it stays eligible. Who goes on there after that is
    /// not protected anew.
    fn protect(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) {
        self.queues[cpu].protected_until = kernel.tasks[task].ran + self.request_ns(task);
    }

    /// Has a CPU look again when the request of what runs there is served (HRTICK).
    fn expect_served(&self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        kernel.set_alarm(cpu, self.request_ns(task) + 1);
    }

    /// A task goes to a CPU that was idle: whoever is in its queue waits from here on.
    fn goes_to_idle(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) {
        self.newidle.is_overloaded |= self.queues[cpu].tasks(None).next().is_some();
        self.protect(kernel, task, cpu);
    }

    /// A task is in the queue of a CPU that has another one (`add_nr_running()`).
    fn has_to_wait(&mut self, cpu: CpuIndex, task: TaskIndex) {
        self.newidle.is_overloaded = true;
        self.queues[cpu].waiting.push(task);
    }

    fn run(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
        self.protect(kernel, task, cpu);
        kernel.insert_local(task, cpu, ENDLESS, false);
        self.expect_served(kernel, cpu, task);
    }
}

impl Scheduler for Fair {
    fn wants_last(&self) -> bool {
        true
    }

    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        self.entities.push(Entity {
            weight: i64::from(load_of(kernel.tasks[task].weight)),
            ..Entity::default()
        });
        self.idle_scan.enable(kernel.tasks[task].cpu);
        self.utilization.enable();
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        if self.stays_where_it_is(kernel, task) {
            return prev;
        }
        let Some(cpu) = self.select_idle(kernel, task, prev) else {
            return prev;
        };
        self.utilization.comes(kernel, task, cpu);
        // It starts afresh where nobody else is.
        self.place(kernel, cpu, task);
        self.goes_to_idle(kernel, task, cpu);
        kernel.insert_direct(task, ENDLESS, false);
        cpu
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        let cpu = kernel.tasks[task].cpu;
        let leaves_for = self.entities[task].leaves_for.take();
        let to = leaves_for
            .filter(|&to| !why.wakeup && !why.moved && kernel.may_run(task, to) && kernel.claim_idle(to));
        if let Some(to) = to.or(why.last.then_some(cpu)) {
            self.charge(kernel, task);
            self.utilization.comes(kernel, task, to);
            if to != cpu {
                self.moves(cpu, task, kernel.cpus[cpu].running);
                self.place(kernel, to, task);
                self.goes_to_idle(kernel, task, to);
            }
            return kernel.insert_local(task, to, ENDLESS, false);
        }
        kernel.hold(task);
        if !why.wakeup && !why.moved {
            self.charge(kernel, task);
            self.has_to_wait(cpu, task);
            return;
        }
        let running = kernel.cpus[cpu].running;
        if let Some(running) = running {
            kernel.account(cpu);
            self.charge(kernel, running);
        }
        self.utilization.comes(kernel, task, cpu);
        if !self.requeue_delayed(kernel, cpu, task) {
            self.place(kernel, cpu, task);
        }
        self.has_to_wait(cpu, task);
        // check_preempt_wakeup_fair()
        if self.earliest(kernel, cpu, running) == Some(task) {
            kernel.kick_preempt(cpu);
        } else if let Some(running) = running {
            self.expect_served(kernel, cpu, running);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        if let Some(running) = running {
            self.charge(kernel, running);
            if self.entities[running].leaves_for.is_some() {
                return;
            }
        }
        match self.pick(kernel, cpu, running) {
            Some(next) if Some(next) != running => self.run(kernel, cpu, next),
            Some(next) => {
                kernel.set_slice(next, ENDLESS);
                if self.queues[cpu].tasks(None).next().is_some() {
                    self.expect_served(kernel, cpu, next);
                }
            }
            None => {
                if let Some(task) = self.balance_newidle(kernel, cpu) {
                    self.run(kernel, cpu, task);
                }
            }
        }
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex, sleeps: bool) {
        let cpu = kernel.tasks[task].cpu;
        let running = kernel.cpus[cpu].running;
        self.charge(kernel, task);
        if !sleeps {
            return self.moves(cpu, task, running);
        }
        self.utilization.sleeps(kernel, task);
        // Who ends does not stay for long (DEQUEUE_SPECIAL).
        let ends = kernel.tasks[task].doing == Doing::Next;
        if ends || !self.delay_dequeue(cpu, task, running) {
            self.take_out(cpu, task, running);
        }
    }

    fn dequeue(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        self.queues[cpu].waiting.retain(|&waiting| waiting != task);
    }

    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        self.utilization.check(kernel)?;
        self.check_overloaded(kernel)
    }

    fn nr_held(&self, task: TaskIndex) -> usize {
        let waiting = self.queues.iter().flat_map(|queue| &queue.waiting);
        waiting.filter(|&&waiting| waiting == task).count()
    }

    /// `yield_task_fair()`: what it asked for counts as served, if it is its turn.
    fn yielded(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let cpu = kernel.tasks[task].cpu;
        self.charge(kernel, task);
        if self.queues[cpu].tasks(None).next().is_none() {
            return;
        }
        self.queues[cpu].protected_until = 0;
        let mean = self.mean(cpu, Some(task));
        if mean.is_some_and(|mean| self.entities[task].vruntime <= mean) {
            self.entities[task].vruntime = self.entities[task].deadline;
            self.renew_deadline(task);
        }
    }

    fn tick(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let Some(running) = kernel.cpus[cpu].running else {
            return;
        };
        self.charge(kernel, running);
        self.kick_idle_balance(kernel, cpu);
        self.balance_busy(kernel, cpu);
        if self.queues[cpu].tasks(None).next().is_none() {
            return;
        }
        // Not before its request is served, eligible or not.
        let is_protected = kernel.tasks[running].ran < self.queues[cpu].protected_until;
        if !is_protected && self.earliest(kernel, cpu, Some(running)) != Some(running) {
            kernel.set_slice(running, 0);
        }
    }
}
