// SPDX-License-Identifier: GPL-2.0-only
//! How much of their time tasks and CPUs have run of late (kernel/sched/pelt.c), and how much a task is expected to when it is
//! ready again (UTIL_EST, kernel/sched/fair.c), as a share of what the fastest CPU can do. What a task ran counts where it was ready
//! last and moves with it.
//!
//! The kernel takes what has moved away off a CPU when that one is looked at next; here it is at once.

use super::capacity::Capacities;
use crate::Ns;
use crate::kernel::{CpuIndex, Doing, Kernel, Place, TaskIndex};

/// After so long what was counts half.
const HALF_LIFE_NS: f64 = 32e6;
/// Differences below this are none (`UTIL_EST_MARGIN`).
const MARGIN: f64 = 0.01;
/// An estimate falls by so much of the difference (`UTIL_EST_WEIGHT_SHIFT`).
const FALL: f64 = 0.25;

/// A share of time, 0 to 1, of which the distant past counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    share: f64,
    at: Ns,
    /// Of how much time it is a share by then.
    sum: Ns,
}

impl Average {
    /// By now it is so much in all.
    fn update(&mut self, now: Ns, sum: Ns) {
        self.update_scaled(now, sum, 1.0);
    }

    /// The same, where what came to it counts so much.
    fn update_scaled(&mut self, now: Ns, sum: Ns, scale: f64) {
        let past = now.saturating_sub(self.at) as f64;
        if past > 0.0 {
            let kept = (-past / HALF_LIFE_NS).exp2();
            let share = scale * sum.saturating_sub(self.sum) as f64 / past;
            self.share = self.share * kept + (1.0 - kept) * share;
        }
        (self.at, self.sum) = (now, sum);
    }
}

/// A task's.
#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    running: Average,
    /// Running or waiting.
    ready: Average,
    ready_since: Option<Ns>,
    /// What it ran when it went to sleep, at least, before it came to run less.
    estimate: f64,
    /// The CPU on which that counts.
    counts_on: Option<CpuIndex>,
}

impl OfTask {
    /// `util_est_update()`: it rises at once, and falls slowly, and not where the task would have run more if it had not waited.
    fn update_estimate(&mut self) {
        let (ran, above) = (self.running.share, self.estimate - self.running.share);
        if above <= 0.0 {
            self.estimate = ran;
        } else if above >= MARGIN && ran + MARGIN >= self.ready.share {
            self.estimate -= FALL * above;
        }
    }
}

/// A CPU's: the sum of what tasks ran that were ready there last, and of the estimates of those that are.
#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    running: Average,
    estimate: f64,
    capacity: f64,
}

impl OfCpu {
    fn update(&mut self, kernel: &Kernel, cpu: CpuIndex) {
        let busy = kernel.now - kernel.cpus[cpu].idled_until(kernel.now);
        self.running.update_scaled(kernel.now, busy, self.capacity);
    }

    fn add(&mut self, share: f64) {
        self.running.share = (self.running.share + share).max(0.0);
    }

    fn add_estimate(&mut self, share: f64) {
        self.estimate = (self.estimate + share).max(0.0);
    }
}

/// All tasks' and CPUs'.
#[derive(Clone, Debug)]
pub(super) struct Utilization {
    tasks: Vec<OfTask>,
    cpus: Vec<OfCpu>,
}

impl Utilization {
    pub(super) fn new(capacities: &Capacities, nr_cpus: usize) -> Self {
        let of_cpu = |cpu| OfCpu {
            capacity: capacities.get(cpu),
            ..OfCpu::default()
        };
        Self {
            tasks: Vec::new(),
            cpus: (0..nr_cpus).map(of_cpu).collect(),
        }
    }

    pub(super) fn enable(&mut self) {
        self.tasks.push(OfTask::default());
    }

    /// A task has run up to now.
    pub(super) fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let of_task = &mut self.tasks[task];
        let capacity = of_task.counts_on.map_or(1.0, |cpu| self.cpus[cpu].capacity);
        of_task
            .running
            .update_scaled(kernel.now, kernel.tasks[task].ran, capacity);
    }

    /// A task is ready on this CPU: it has just begun, woke up, or was moved.
    pub(super) fn comes(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) {
        self.charge(kernel, task);
        self.cpus[cpu].update(kernel, cpu);
        let counted_on = self.tasks[task].counts_on.replace(cpu);
        if counted_on.is_none() {
            // post_init_entity_util_avg(): half of what is left of the CPU, and as much for running and waiting.
            let share = (self.cpus[cpu].capacity - self.cpus[cpu].running.share).max(0.0) / 2.0;
            let of_task = &mut self.tasks[task];
            (of_task.running.share, of_task.ready.share) = (share, share);
        }
        let OfTask {
            running,
            estimate,
            ready_since,
            ..
        } = self.tasks[task];
        if counted_on != Some(cpu) {
            self.cpus[cpu].add(running.share);
            if let Some(from) = counted_on {
                self.cpus[from].update(kernel, from);
                self.cpus[from].add(-running.share);
                if ready_since.is_some() {
                    self.cpus[from].add_estimate(-estimate);
                    self.cpus[cpu].add_estimate(estimate);
                }
            }
        }
        if ready_since.is_none() {
            self.cpus[cpu].add_estimate(estimate);
            let ready = &mut self.tasks[task].ready;
            ready.update(kernel.now, ready.sum);
            self.tasks[task].ready_since = Some(kernel.now);
        }
    }

    /// A task that ran, or waited, and was charged for it goes to sleep or has ended.
    pub(super) fn sleeps(&mut self, kernel: &Kernel, task: TaskIndex) {
        let of_task = &mut self.tasks[task];
        let (Some(cpu), Some(since)) = (of_task.counts_on, of_task.ready_since.take()) else {
            return;
        };
        self.cpus[cpu].add_estimate(-of_task.estimate);
        let ready = of_task.ready.sum + kernel.now - since;
        of_task.ready.update(kernel.now, ready);
        of_task.update_estimate();
        // Who ends waits for nothing.
        if kernel.tasks[task].doing == Doing::Next {
            self.cpus[cpu].update(kernel, cpu);
            self.cpus[cpu].add(-of_task.running.share);
        }
    }

    /// For how much of its time a task was ready of late, 0 to 1 (`se->avg.load_avg` by weight).
    pub(super) fn ready_of_task(&self, kernel: &Kernel, task: TaskIndex) -> f64 {
        let OfTask {
            mut ready,
            ready_since,
            ..
        } = self.tasks[task];
        let since_ns = ready_since.map_or(0, |since| kernel.now - since);
        ready.update(kernel.now, ready.sum + since_ns);
        ready.share
    }

    /// What a task is expected to run, 0 to 1 (`task_util_est()`).
    pub(super) fn of_task(&self, task: TaskIndex) -> f64 {
        self.tasks[task].running.share.max(self.tasks[task].estimate)
    }

    /// What a CPU is expected to, 0 to 1 (`cpu_util_cfs()`).
    pub(super) fn of_cpu(&mut self, kernel: &Kernel, cpu: CpuIndex) -> f64 {
        self.cpus[cpu].update(kernel, cpu);
        let OfCpu {
            running,
            estimate,
            capacity,
        } = self.cpus[cpu];
        running.share.max(estimate).min(capacity)
    }

    /// Whether each CPU has the estimates of the tasks that are ready there, and of no others.
    pub(super) fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let mut estimates = vec![0.0; self.cpus.len()];
        for (task, of_task) in self.tasks.iter().enumerate() {
            let state = &kernel.tasks[task];
            let is_ready = !matches!(state.place, Place::Nowhere | Place::Gone);
            let counts = of_task.ready_since.and(of_task.counts_on);
            if counts != is_ready.then_some(state.cpu) {
                return Err(format!(
                    "task {task} on CPU {} is ready: {is_ready}; its utilization counts on {counts:?}",
                    state.cpu
                ));
            }
            if let Some(cpu) = counts {
                estimates[cpu] += of_task.estimate;
            }
        }
        let differs = |&cpu: &CpuIndex| (self.cpus[cpu].estimate - estimates[cpu]).abs() > 1e-6;
        match (0..estimates.len()).find(differs) {
            Some(cpu) => Err(format!(
                "CPU {cpu} is expected to run {}, its tasks {}",
                self.cpus[cpu].estimate, estimates[cpu]
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::*;
    use crate::schedulers::Known;
    use crate::{Costs, Synthetic};

    #[test]
    fn the_past_counts_half_after_its_half_life() {
        let mut it = Average::default();
        it.update(32_000_000, 32_000_000);
        assert!((it.share - 0.5).abs() < 1e-9, "{it:?}");
        it.update(64_000_000, 32_000_000);
        assert!((it.share - 0.25).abs() < 1e-9, "{it:?}");
    }

    #[test]
    fn an_estimate_rises_at_once_and_falls_by_a_quarter_where_nobody_was_in_the_way() {
        let after = |estimate: f64, ran: f64, ready: f64| {
            let average = |share| Average {
                share,
                ..Average::default()
            };
            let mut of_task = OfTask {
                running: average(ran),
                ready: average(ready),
                estimate,
                ..OfTask::default()
            };
            of_task.update_estimate();
            of_task.estimate
        };
        assert_eq!(after(0.25, 0.75, 0.75), 0.75);
        assert_eq!(after(0.75, 0.25, 0.25), 0.625);
        assert_eq!(after(0.75, 0.25, 0.5), 0.75, "it waited");
        assert_eq!(after(0.75, 0.745, 0.745), 0.75, "that is no difference");
    }

    #[test]
    fn it_is_noticed_if_a_task_counts_elsewhere_than_it_is_or_a_cpu_expects_too_much() {
        let machine = Machine::load("smp-8").expect("a machine");
        let mut world = Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default());
        let ratio = "inf:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 1000, 1000, 2, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        world.run_until(100_000).expect("it runs");
        let kernel = &world.kernel;
        let mut utilization = Utilization::new(&Capacities::equal(kernel.cpus.len()), kernel.cpus.len());
        for task in 0..2 {
            utilization.enable();
            utilization.comes(kernel, task, kernel.tasks[task].cpu);
        }
        assert_eq!(utilization.check(kernel), Ok(()));
        let elsewhere = (kernel.tasks[1].cpu + 1) % kernel.cpus.len();
        let mut wrong = utilization.clone();
        wrong.comes(kernel, 1, elsewhere);
        assert!(wrong.check(kernel).is_err(), "it is not there");
        let mut wrong = utilization.clone();
        wrong.sleeps(kernel, 1);
        assert!(wrong.check(kernel).is_err(), "it does not sleep");
        let mut wrong = utilization;
        wrong.cpus[elsewhere].add_estimate(0.5);
        assert!(wrong.check(kernel).is_err(), "nobody is there who would run");
    }
}
