// SPDX-License-Identifier: GPL-2.0-only
//! How much of their time tasks and CPUs have run of late (kernel/sched/pelt.c), and how much a task is expected to when it is
//! ready again (UTIL_EST, kernel/sched/fair.c), as a share of what the fastest CPU can do. What a task ran counts where it was ready
//! last and moves with it. Time goes by more slowly on a slower CPU while that is busy (`update_rq_clock_pelt()`,
//! kernel/sched/pelt.h), so who always runs there comes to count as much as on the fastest one, later.
//!
//! The kernel takes what has moved away off a CPU when that one is looked at next; here it is at once.

use super::capacity::Capacities;
use crate::Ns;
use crate::kernel::{CpuIndex, Doing, Kernel, Place, TaskIndex};

/// After so long what was counts half.
const HALF_LIFE_NS: f64 = 32e6;
/// Who has run for this share of its time always ran: as much as `util_sum` holds without the part of a millisecond at hand
/// (LOAD_AVG_MAX, 47742).
const ALWAYS: f64 = (47742.0 - 1024.0) / 47742.0 - 1.0 / 1024.0;
/// Differences below this are none (`UTIL_EST_MARGIN`).
const MARGIN: f64 = 0.01;
/// An estimate falls by so much of the difference (`UTIL_EST_WEIGHT_SHIFT`).
const FALL: f64 = 0.25;

/// A CPU's time, in nanoseconds: it is behind by what a slower CPU did not do since it was idle last. It catches up when that is
/// idle again (`update_idle_rq_clock_pelt()`), unless it always ran: then it was no time for which nothing was to be done.
#[derive(Clone, Copy, Debug)]
struct Clock {
    capacity: f64,
    behind: f64,
    lost: f64,
    at: Ns,
    /// For how long the CPU was busy by then.
    busy: Ns,
}

impl Clock {
    fn new(capacity: f64) -> Self {
        Self {
            capacity,
            behind: 0.0,
            lost: 0.0,
            at: 0,
            busy: 0,
        }
    }

    /// By now the CPU was busy for so long in all. If it was idle in between that was first, when it had run for this share of time.
    fn move_to(&mut self, now: Ns, busy: Ns, share: f64) {
        let (past, was_busy) = (now - self.at, busy - self.busy);
        if was_busy < past {
            self.idles(share);
        }
        self.behind += (1.0 - self.capacity) * was_busy as f64;
        (self.at, self.busy) = (now, busy);
    }

    /// The CPU, which ran for this share of time, is idle.
    fn idles(&mut self, share: f64) {
        if share >= ALWAYS {
            self.lost += self.behind;
        }
        self.behind = 0.0;
    }

    fn now(&self) -> f64 {
        self.at as f64 - self.behind - self.lost
    }
}

/// A share of time, 0 to 1, of which the distant past counts less.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    share: f64,
    /// By the CPU's clock.
    at: f64,
}

impl Average {
    /// By now so much came to it.
    fn update(&mut self, now: f64, came: f64) {
        let past = now - self.at;
        if past > 0.0 {
            let kept = (-past / HALF_LIFE_NS).exp2();
            self.share = self.share * kept + (1.0 - kept) * (came / past).min(1.0);
        }
        self.at = now;
    }
}

/// What came to it all the time, or none of it.
fn was_ready(is_ready: bool) -> f64 {
    if is_ready { f64::INFINITY } else { 0.0 }
}

/// A task's.
#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    running: Average,
    /// What it had run by then.
    ran: Ns,
    /// Running or waiting.
    ready: Average,
    is_ready: bool,
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
#[derive(Clone, Copy, Debug)]
struct OfCpu {
    clock: Clock,
    running: Average,
    estimate: f64,
}

impl OfCpu {
    fn update(&mut self, kernel: &Kernel, cpu: CpuIndex) {
        let busy = kernel.now - kernel.cpus[cpu].idled_until(kernel.now);
        let was_busy = (busy - self.clock.busy) as f64 * self.clock.capacity;
        self.clock.move_to(kernel.now, busy, self.running.share);
        self.running.update(self.clock.now(), was_busy);
        if kernel.cpus[cpu].running.is_none() {
            self.clock.idles(self.running.share);
        }
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
            clock: Clock::new(capacities.get(cpu)),
            running: Average::default(),
            estimate: 0.0,
        };
        Self {
            tasks: Vec::new(),
            cpus: (0..nr_cpus).map(of_cpu).collect(),
        }
    }

    pub(super) fn enable(&mut self) {
        self.tasks.push(OfTask::default());
    }

    /// A task has run, or waited, up to now.
    pub(super) fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let ran = kernel.tasks[task].ran;
        let (mut now, mut capacity) = (kernel.now as f64, 1.0);
        if let Some(cpu) = self.tasks[task].counts_on {
            self.cpus[cpu].update(kernel, cpu);
            (now, capacity) = (self.cpus[cpu].clock.now(), self.cpus[cpu].clock.capacity);
        }
        let of_task = &mut self.tasks[task];
        let came = (ran - of_task.ran) as f64 * capacity;
        of_task.running.update(now, came);
        of_task.ran = ran;
        of_task.ready.update(now, was_ready(of_task.is_ready));
    }

    /// A task is ready on this CPU: it has just begun, woke up, or was moved.
    pub(super) fn comes(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) {
        self.charge(kernel, task);
        self.cpus[cpu].update(kernel, cpu);
        let of_cpu = self.cpus[cpu];
        let of_task = &mut self.tasks[task];
        let counted_on = of_task.counts_on.replace(cpu);
        if counted_on.is_none() {
            // post_init_entity_util_avg(): half of what is left of the CPU, and as much for running and waiting.
            let share = (of_cpu.clock.capacity - of_cpu.running.share).max(0.0) / 2.0;
            (of_task.running.share, of_task.ready.share) = (share, share);
        }
        (of_task.running.at, of_task.ready.at) = (of_cpu.clock.now(), of_cpu.clock.now());
        let was_ready = std::mem::replace(&mut of_task.is_ready, true);
        let (share, estimate) = (of_task.running.share, of_task.estimate);
        if counted_on != Some(cpu) {
            self.cpus[cpu].add(share);
            if let Some(from) = counted_on {
                self.cpus[from].update(kernel, from);
                self.cpus[from].add(-share);
                if was_ready {
                    self.cpus[from].add_estimate(-estimate);
                    self.cpus[cpu].add_estimate(estimate);
                }
            }
        }
        if !was_ready {
            self.cpus[cpu].add_estimate(estimate);
        }
    }

    /// A task that ran, or waited, and was charged for it goes to sleep or has ended.
    pub(super) fn sleeps(&mut self, kernel: &Kernel, task: TaskIndex) {
        let of_task = &mut self.tasks[task];
        let Some(cpu) = of_task.counts_on.filter(|_| of_task.is_ready) else {
            return;
        };
        self.cpus[cpu].add_estimate(-of_task.estimate);
        of_task.is_ready = false;
        of_task.update_estimate();
        // Who ends waits for nothing.
        if kernel.tasks[task].doing == Doing::Next {
            let share = of_task.running.share;
            self.cpus[cpu].update(kernel, cpu);
            self.cpus[cpu].add(-share);
        }
    }

    /// For how much of its time a task was ready of late, 0 to 1 (`se->avg.load_avg` by weight).
    pub(super) fn ready_of_task(&self, kernel: &Kernel, task: TaskIndex) -> f64 {
        let OfTask {
            mut ready,
            is_ready,
            counts_on,
            ..
        } = self.tasks[task];
        let now = counts_on.map_or(kernel.now as f64, |cpu| {
            let mut of_cpu = self.cpus[cpu];
            of_cpu.update(kernel, cpu);
            of_cpu.clock.now()
        });
        ready.update(now, was_ready(is_ready));
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
            clock,
            running,
            estimate,
        } = self.cpus[cpu];
        running.share.max(estimate).min(clock.capacity)
    }

    /// Whether each CPU has the estimates of the tasks that are ready there, and of no others.
    pub(super) fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let mut estimates = vec![0.0; self.cpus.len()];
        for (task, of_task) in self.tasks.iter().enumerate() {
            let state = &kernel.tasks[task];
            let is_ready = !matches!(state.place, Place::Nowhere | Place::Gone);
            let counts = of_task.counts_on.filter(|_| of_task.is_ready);
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
        it.update(32e6, 32e6);
        assert!((it.share - 0.5).abs() < 1e-9, "{it:?}");
        it.update(64e6, 0.0);
        assert!((it.share - 0.25).abs() < 1e-9, "{it:?}");
    }

    /// Who always runs on a CPU of half the speed counts there, after twice the time, for as much as on the fastest one: by half after
    /// 64 ms.
    #[test]
    fn time_goes_by_more_slowly_on_a_slower_cpu_until_it_is_idle() {
        let (mut clock, mut of_task) = (Clock::new(0.5), Average::default());
        let mut run_to = |clock: &mut Clock, ms: u64| {
            let before = clock.now();
            clock.move_to(ms * 1_000_000, ms * 1_000_000, of_task.share);
            of_task.update(clock.now(), clock.now() - before);
            of_task.share
        };
        assert!((run_to(&mut clock, 64) - 0.5).abs() < 1e-9);
        assert!((run_to(&mut clock, 128) - 0.75).abs() < 1e-9);
        assert_eq!(clock.now(), 64e6);
        // It has caught up by the time that it is busy again.
        let mut idle_for_a_while = clock;
        idle_for_a_while.move_to(140_000_000, 130_000_000, 0.75);
        assert_eq!(idle_for_a_while.now(), 139e6);
        idle_for_a_while.idles(0.75);
        assert_eq!(idle_for_a_while.now(), 140e6);
        // After a second of nothing else it does not, and all goes on to count.
        let share = run_to(&mut clock, 1000);
        clock.idles(share);
        assert!(share > ALWAYS && clock.now() == 500e6, "{share}, {clock:?}");
    }

    #[test]
    fn an_estimate_rises_at_once_and_falls_by_a_quarter_where_nobody_was_in_the_way() {
        let after = |estimate: f64, ran: f64, ready: f64| {
            let average = |share| Average { share, at: 0.0 };
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
