// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of Linux 2.6 before 2.6.23 (kernel/sched.c as of 2.6.18; J. Aas, "Understanding the Linux 2.6.8.1 CPU
//! Scheduler", which the thread-essence paper cites), and the two that were built on it.
//!
//! Modelled: 140 priorities, active and expired arrays, time slices by nice that are counted at ticks, the bonus of up to
//! five priorities for sleep, interactive tasks that stay active, wake-ups onto the CPU that a task ran on, balancing by
//! the number of tasks: one is pulled by who goes idle, at the ticks of busy CPUs by who is, and half of the difference every
//! 64 ms. It knows nothing of hardware threads. Not modelled: wake-ups onto the waker's CPU, interactive tasks taking
//! turns within a slice, sleep on disk.
//!
//! [`O1::per_core`] is Molnar's queue ("HT scheduler", Linux 2.5.32; ht-scheduling, section 3 and Fig. 6): the hardware
//! threads of a core share one queue, a task wakes up on a core that is idle before it shares one, and a task that shares
//! its core is moved to one that goes idle. [`O1::with_essence`] is that of thread-essence (`essence.rs`).

use std::collections::BTreeSet;

use threadwise_machine::Machine;

use crate::Ns;
use crate::kernel::{CpuIndex, ENDLESS, Kernel, Place, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};
use crate::schedulers::essence::Essence;

const MS: Ns = 1_000_000;
/// `DEF_TIMESLICE`, at nice 0; those below 0 begin with four times that.
const SLICE_NS: Ns = 100 * MS;
const SLICE_LEAST_NS: Ns = 5 * MS;
/// `MAX_SLEEP_AVG`: so much sleep earns the whole bonus; also how long expired tasks wait for interactive ones, each.
const MAX_SLEEP_NS: Ns = 1_000 * MS;
/// `busy_factor` times `min_interval` of a domain of CPUs.
const BALANCE_NS: Ns = 64 * MS;
/// Priorities: 0 to 99 are real-time, nice 0 is 120, 139 the last.
const PRIO_FIRST: i32 = 100;
const PRIO_LAST: i32 = 139;
const PRIO_NICE_0: i32 = 120;

/// A task's account.
#[derive(Clone, Debug)]
struct Entity {
    static_prio: i32,
    prio: i32,
    /// How much it slept lately, less what it ran.
    sleep_avg: Ns,
    slept_since: Ns,
    /// `ran` up to which the rest is charged.
    charged_ns: Ns,
    /// What is left of its time slice.
    left: Ns,
    /// Its place in an array, and whether that is the expired one.
    order: u64,
    is_expired: bool,
    /// The queue that it waits in.
    queue: usize,
    /// The CPU that it leaves its own for.
    moves_to: Option<CpuIndex>,
}

type Array = BTreeSet<(i32, u64, TaskIndex)>;

/// Those that wait.
#[derive(Clone, Debug, Default)]
struct RunQueue {
    active: Array,
    expired: Array,
    /// Since when anybody has been in it.
    expired_since: Option<Ns>,
    cpus: Vec<CpuIndex>,
}

impl RunQueue {
    fn nr_waiting(&self) -> usize {
        self.active.len() + self.expired.len()
    }

    fn nr_ready(&self, kernel: &Kernel) -> usize {
        // Who blocks is no longer ready, and still there while the CPU looks for another.
        let runs = |&&cpu: &&CpuIndex| {
            let running = kernel.cpus[cpu].running;
            running.is_some_and(|task| kernel.tasks[task].place == Place::On(cpu))
        };
        self.nr_waiting() + self.cpus.iter().filter(runs).count()
    }

    /// The foremost that may run there, the expired ones' arrays switched if no other is active.
    fn pick(&mut self, kernel: &Kernel, cpu: CpuIndex, switches: bool) -> Option<TaskIndex> {
        let first = |array: &Array| {
            let mut tasks = array.iter().map(|&(_, _, task)| task);
            tasks.find(|&task| kernel.may_run(task, cpu))
        };
        first(&self.active).or_else(|| first(&self.expired).filter(|_| switches))
    }
}

/// The O(1) scheduler.
pub struct O1 {
    entities: Vec<Entity>,
    queues: Vec<RunQueue>,
    /// Of each CPU.
    queue_of: Vec<usize>,
    balanced_at: Vec<Ns>,
    nr_queued: u64,
    essence: Option<Essence>,
}

impl O1 {
    /// A queue for each CPU.
    pub fn new(kernel: &Kernel) -> Self {
        Self::of(kernel, (0..kernel.cpus.len()).collect(), None)
    }

    /// Molnar's: a queue for each core.
    pub fn per_core(kernel: &Kernel, machine: &Machine) -> Self {
        let cpus = machine.cpus().iter();
        Self::of(kernel, cpus.map(|cpu| cpu.core.index()).collect(), None)
    }

    /// With what thread-essence adds.
    pub fn with_essence(kernel: &Kernel) -> Self {
        let essence = Essence::new(kernel.cpus.len());
        Self::of(kernel, (0..kernel.cpus.len()).collect(), Some(essence))
    }

    fn of(kernel: &Kernel, queue_of: Vec<usize>, essence: Option<Essence>) -> Self {
        let nr = queue_of.iter().max().map_or(0, |last| last + 1);
        let mut queues = vec![RunQueue::default(); nr];
        for (cpu, &queue) in queue_of.iter().enumerate() {
            queues[queue].cpus.push(cpu);
        }
        Self {
            entities: Vec::new(),
            queues,
            queue_of,
            balanced_at: vec![0; kernel.cpus.len()],
            nr_queued: 0,
            essence,
        }
    }

    /// `effective_prio()`.
    fn prio(&self, kernel: &Kernel, task: TaskIndex) -> i32 {
        let entity = &self.entities[task];
        let bonus = (entity.sleep_avg * 10 / MAX_SLEEP_NS) as i32 - 5;
        let boost = match &self.essence {
            Some(essence) => essence.boost(kernel.tasks[task].program),
            None => 0,
        };
        (entity.static_prio - bonus - boost).clamp(PRIO_FIRST, PRIO_LAST)
    }

    /// `TASK_INTERACTIVE()`.
    fn is_interactive(&self, task: TaskIndex) -> bool {
        let entity = &self.entities[task];
        entity.prio <= entity.static_prio - (entity.static_prio - PRIO_NICE_0) / 4 - 2
    }

    /// `EXPIRED_STARVING()`, but for those of better nice.
    fn expired_starve(&self, kernel: &Kernel, queue: usize) -> bool {
        let queue = &self.queues[queue];
        let limit = MAX_SLEEP_NS * queue.nr_ready(kernel) as u64;
        queue
            .expired_since
            .is_some_and(|since| kernel.now - since > limit)
    }

    fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let entity = &mut self.entities[task];
        let ran = kernel.tasks[task].ran - std::mem::replace(&mut entity.charged_ns, kernel.tasks[task].ran);
        entity.left = entity.left.saturating_sub(ran);
        entity.sleep_avg = entity.sleep_avg.saturating_sub(ran);
    }

    fn put(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex, expired: bool) {
        self.nr_queued += 1;
        let entity = &mut self.entities[task];
        (entity.order, entity.is_expired) = (self.nr_queued, expired);
        entity.queue = self.queue_of[cpu];
        let queue = &mut self.queues[entity.queue];
        let array = if expired {
            queue.expired_since.get_or_insert(kernel.now);
            &mut queue.expired
        } else {
            &mut queue.active
        };
        array.insert((entity.prio, entity.order, task));
    }

    fn take(&mut self, task: TaskIndex) {
        let entity = &self.entities[task];
        let queue = &mut self.queues[entity.queue];
        let array = if entity.is_expired {
            &mut queue.expired
        } else {
            &mut queue.active
        };
        array.remove(&(entity.prio, entity.order, task));
        if queue.expired.is_empty() {
            queue.expired_since = None;
        }
    }

    /// Nobody is active any more: the arrays are switched.
    fn switch_arrays(&mut self, queue: usize) {
        let queue = &mut self.queues[queue];
        if queue.active.is_empty() {
            std::mem::swap(&mut queue.active, &mut queue.expired);
            queue.expired_since = None;
            for &(_, _, task) in &queue.active {
                self.entities[task].is_expired = false;
            }
        }
    }

    fn run(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        self.take(task);
        kernel.insert_local(task, cpu, ENDLESS, false);
    }

    /// A slice has been used up: the next, at another priority.
    fn renew(&mut self, kernel: &Kernel, task: TaskIndex) {
        self.entities[task].left = slice_of(self.entities[task].static_prio);
        self.entities[task].prio = self.prio(kernel, task);
    }

    /// Of the queues with the most ready tasks for their CPUs one that waits there and may come here, if it has more than
    /// this by two at least (`find_busiest_queue()`).
    fn pull(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        let own = self.queue_of[cpu];
        let running = kernel.cpus[cpu].running;
        let is_idle = running.is_none_or(|task| kernel.tasks[task].place != Place::On(cpu));
        let nr_own = self.queues[own].nr_ready(kernel) / self.queues[own].cpus.len();
        let movable = |queue: usize| {
            let queue = &self.queues[queue];
            let tasks = queue.expired.iter().chain(&queue.active);
            let mut movable = tasks.map(|&(_, _, task)| task);
            movable.find(|&task| kernel.may_run(task, cpu))
        };
        (0..self.queues.len())
            .filter(|&queue| queue != own)
            .filter_map(|queue| {
                let nr = self.queues[queue].nr_ready(kernel) / self.queues[queue].cpus.len();
                let enough = nr > nr_own + 1 || is_idle && self.queues[queue].nr_waiting() > 0;
                Some((nr, std::cmp::Reverse(queue), movable(queue).filter(|_| enough)?))
            })
            .max()
            .map(|(_, _, task)| task)
    }

    /// Every 64 ms a busy CPU takes half of what another has more.
    fn balance(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        if kernel.now < self.balanced_at[cpu] + BALANCE_NS {
            return;
        }
        self.balanced_at[cpu] = kernel.now;
        while let Some(task) = self.pull(kernel, cpu) {
            self.take(task);
            kernel.tasks[task].cpu = cpu;
            self.put(kernel, task, cpu, false);
        }
    }

    /// A CPU of a core that is idle, claimed; where cores have queues of their own.
    fn claim_idle_core(&self, kernel: &mut Kernel, task: TaskIndex) -> Option<CpuIndex> {
        let is_idle = |queue: &&RunQueue| queue.nr_ready(kernel) == 0;
        let idle: Vec<CpuIndex> = self
            .queues
            .iter()
            .filter(is_idle)
            .flat_map(|queue| queue.cpus.clone())
            .collect();
        let may_run = |&cpu: &CpuIndex| kernel.may_run(task, cpu) && kernel.claim_idle(cpu);
        idle.into_iter().find(may_run)
    }

    fn shares_cores(&self) -> bool {
        self.queues.len() < self.queue_of.len()
    }

    /// The CPU for which a task leaves the one that it runs on: that of an idle core instead of half of one, or where
    /// the essence of its program has it go.
    fn better(&mut self, kernel: &mut Kernel, task: TaskIndex, cpu: CpuIndex) -> Option<CpuIndex> {
        if let Some(essence) = &mut self.essence {
            return essence.better(kernel, task, cpu);
        }
        let siblings = &self.queues[self.queue_of[cpu]].cpus;
        let shares = siblings
            .iter()
            .any(|&other| other != cpu && kernel.cpus[other].running.is_some());
        if self.shares_cores() && shares {
            return self.claim_idle_core(kernel, task);
        }
        None
    }

    /// The priorities of ready tasks are those that their programs' essence gives them now.
    fn follow_essence(&mut self, kernel: &Kernel) {
        if !self.essence.as_mut().is_some_and(Essence::take_changed) {
            return;
        }
        for task in 0..self.entities.len() {
            let prio = self.prio(kernel, task);
            match kernel.tasks[task].place {
                Place::On(_) => self.entities[task].prio = prio,
                Place::Held if prio != self.entities[task].prio => {
                    self.take(task);
                    self.entities[task].prio = prio;
                    let expired = self.entities[task].is_expired && !self.is_interactive(task);
                    self.put(kernel, task, kernel.tasks[task].cpu, expired);
                }
                _ => (),
            }
        }
    }

    /// The CPU of this queue on which a task that wakes up replaces another (`TASK_PREEMPTS_CURR()`).
    fn preempts(&self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) -> Option<CpuIndex> {
        let worst = |&cpu: &CpuIndex| {
            let running = kernel.cpus[cpu].running?;
            Some((self.entities[running].prio, cpu))
        };
        let cpus = self.queues[self.queue_of[cpu]].cpus.iter();
        let allowed = cpus.filter(|&&cpu| kernel.may_run(task, cpu));
        let (prio, cpu) = allowed.filter_map(worst).max()?;
        (self.entities[task].prio < prio).then_some(cpu)
    }
}

/// `task_timeslice()`.
fn slice_of(static_prio: i32) -> Ns {
    let whole = if static_prio < PRIO_NICE_0 {
        4 * SLICE_NS
    } else {
        SLICE_NS
    };
    (whole * (PRIO_LAST + 1 - static_prio) as u64 / 20).max(SLICE_LEAST_NS)
}

/// The nice value of a weight, of which each differs from the next by a factor of 1.25 (`sched_prio_to_weight`).
fn nice_of(weight: u32) -> i32 {
    // In units of 1/1024 of nice 0's weight, from nice -20 to 19.
    let (mut bound, mut nice) = (weight.max(1) as u64 * 1024, 0);
    let one = 100 * 1024;
    while nice > -20 && bound * 8 > one * 9 {
        bound = bound * 4 / 5;
        nice -= 1;
    }
    while nice < 19 && bound * 9 < one * 8 {
        bound = bound * 5 / 4;
        nice += 1;
    }
    nice
}

impl Scheduler for O1 {
    fn wants_last(&self) -> bool {
        self.shares_cores() || self.essence.is_some()
    }

    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        let static_prio = PRIO_NICE_0 + nice_of(kernel.tasks[task].weight);
        self.entities.push(Entity {
            static_prio,
            prio: static_prio,
            sleep_avg: 0,
            slept_since: kernel.now,
            charged_ns: 0,
            left: slice_of(static_prio),
            order: 0,
            is_expired: false,
            queue: 0,
            moves_to: None,
        });
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        let mut cpu = prev;
        if let Some(essence) = &self.essence {
            let nr_ready = |cpu: CpuIndex| self.queues[self.queue_of[cpu]].nr_ready(kernel);
            cpu = essence.select(kernel, task, prev, nr_ready);
        } else if self.shares_cores() {
            let siblings = self.queues[self.queue_of[prev]].cpus.clone();
            let idle_core = self.claim_idle_core(kernel, task);
            let mut claim = |&&cpu: &&CpuIndex| kernel.may_run(task, cpu) && kernel.claim_idle(cpu);
            if let Some(found) = idle_core.or_else(|| siblings.iter().find(|cpu| claim(cpu)).copied()) {
                cpu = found;
            }
        }
        cpu
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
        let cpu = kernel.tasks[task].cpu;
        self.charge(kernel, task);
        if why.wakeup {
            let slept = kernel.now - self.entities[task].slept_since;
            self.entities[task].sleep_avg = (self.entities[task].sleep_avg + slept).min(MAX_SLEEP_NS);
            self.entities[task].moves_to = None;
        }
        let is_over = self.entities[task].left == 0;
        if is_over {
            self.renew(kernel, task);
        } else if why.wakeup || why.moved || self.essence.is_some() {
            self.entities[task].prio = self.prio(kernel, task);
        }
        if let Some(to) = self.entities[task].moves_to.take()
            && kernel.may_run(task, to)
            && kernel.is_online(to)
            && kernel.cpus[to].running.is_none()
        {
            return kernel.insert_local(task, to, ENDLESS, false);
        }
        if why.last {
            return kernel.insert_local(task, cpu, ENDLESS, false);
        }
        let stays_active =
            !is_over || self.is_interactive(task) && !self.expired_starve(kernel, self.queue_of[cpu]);
        kernel.hold(task);
        self.put(kernel, task, cpu, !stays_active);
        if (why.wakeup || why.moved || why.sent_back)
            && let Some(victim) = self.preempts(kernel, task, cpu)
        {
            kernel.kick_preempt(victim);
        }
    }

    fn nr_held(&self, task: TaskIndex) -> usize {
        let queues = self.queues.iter();
        let waiting = queues.flat_map(|queue| queue.active.iter().chain(&queue.expired));
        waiting.filter(|&&(_, _, waiting)| waiting == task).count()
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        let queue = self.queue_of[cpu];
        let Some(running) = running else {
            self.switch_arrays(queue);
            let next = self.queues[queue].pick(kernel, cpu, true);
            if let Some(next) = next.or_else(|| self.pull(kernel, cpu)) {
                self.run(kernel, cpu, next);
            }
            return;
        };
        self.charge(kernel, running);
        let is_over = self.entities[running].left == 0;
        let leaves = self.entities[running].moves_to.is_some();
        if is_over || leaves {
            self.switch_arrays(queue);
        }
        let next = self.queues[queue].pick(kernel, cpu, is_over || leaves);
        let is_better = |next: &TaskIndex| self.entities[*next].prio < self.entities[running].prio;
        if let Some(next) = next.filter(|next| is_over || leaves || is_better(next)) {
            return self.run(kernel, cpu, next);
        }
        if leaves {
            return;
        }
        if is_over {
            self.renew(kernel, running);
        }
        kernel.set_slice(running, ENDLESS);
    }

    fn runnable(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        if let Some(essence) = &mut self.essence {
            essence.runnable(kernel, task);
        }
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex, _sleeps: bool) {
        self.charge(kernel, task);
        self.entities[task].slept_since = kernel.now;
        if let Some(essence) = &mut self.essence
            && essence.quiescent(kernel, task)
        {
            // "Threads whose applications become serial are automatically rescheduled."
            for cpu in 0..kernel.cpus.len() {
                let running = kernel.cpus[cpu].running.filter(|&running| running != task);
                if running.is_some_and(|other| kernel.tasks[other].program == kernel.tasks[task].program) {
                    kernel.kick_preempt(cpu);
                }
            }
        }
    }

    fn dequeue(&mut self, _kernel: &mut Kernel, task: TaskIndex) {
        self.take(task);
    }

    fn tick(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let Some(running) = kernel.cpus[cpu].running else {
            return;
        };
        self.charge(kernel, running);
        if let Some(essence) = &mut self.essence {
            essence.tick(kernel.now);
        }
        self.follow_essence(kernel);
        self.balance(kernel, cpu);
        let queue = self.queue_of[cpu];
        let waiting: Vec<TaskIndex> = {
            let queue = &self.queues[queue];
            let tasks = queue.active.iter().chain(&queue.expired);
            tasks.map(|&(_, _, task)| task).collect()
        };
        // The ticks of idle CPUs would have them pull.
        for task in waiting {
            if let Some(idle) = kernel.claim_any_idle(task) {
                kernel.kick(idle);
            }
        }
        let better = self.better(kernel, running, cpu);
        self.entities[running].moves_to = better;
        let next = self.queues[queue].pick(kernel, cpu, false);
        let is_better = |next: TaskIndex| self.entities[next].prio < self.entities[running].prio;
        if better.is_some() || self.entities[running].left == 0 || next.is_some_and(is_better) {
            kernel.set_slice(running, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_and_nice_values_are_the_kernel_s() {
        // sched_prio_to_weight over 1024, times 100.
        for (weight, nice) in [
            (8668, -20),
            (305, -5),
            (125, -1),
            (100, 0),
            (80, 1),
            (33, 5),
            (1, 19),
        ] {
            assert_eq!(nice_of(weight), nice, "weight {weight}");
        }
        let slices = [-20, -1, 0, 10, 19].map(|nice| slice_of(PRIO_NICE_0 + nice) / MS);
        assert_eq!(slices, [800, 420, 100, 50, 5]);
    }
}
