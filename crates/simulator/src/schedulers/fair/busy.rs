// SPDX-License-Identifier: GPL-2.0-only
//! Balancing by CPUs that are busy: at some of their ticks they take waiting tasks from a group of CPUs with more load than
//! theirs (`sched_balance_domains()`, kernel/sched/fair.c).
//!
//! Load is how much tasks were ready of late by weight, of those that are; in the kernel CPUs have that of those that sleep too.

use std::cmp::{Ordering, Reverse};

use super::Fair;
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// Busy CPUs balance so many times less often than idle ones (`busy_factor`).
const BUSY_FACTOR: Ns = 16;
const MS: Ns = 1_000_000;
/// Where groups are all overloaded, one has to have so much more load, in hundredths (`imbalance_pct`).
const IMBALANCE_PERCENT: i64 = 117;

/// A scheduling domain: the hardware threads of a core, what is behind a last-level cache, and the machine.
#[derive(Clone, Copy, Debug)]
enum Domain {
    Core,
    Cache,
    Machine,
}

const DOMAINS: [Domain; 3] = [Domain::Core, Domain::Cache, Domain::Machine];

/// How a busy CPU's balancing of a domain stands.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    /// None before its first tick: it was idle until then, and balanced as such.
    next: Option<Ns>,
    /// How often nobody could be taken although it was out of balance, without a break (`nr_balance_failed`).
    nr_failed: u32,
}

/// What CPUs do while they are busy, by domain and CPU.
#[derive(Clone, Debug)]
pub(super) struct BusyBalance([Vec<Balance>; DOMAINS.len()]);

impl BusyBalance {
    pub(super) fn new(nr_cpus: usize) -> Self {
        Self(DOMAINS.map(|_| vec![Balance::default(); nr_cpus]))
    }

    /// A CPU found its last-level cache's queues in balance while it was idle.
    pub(super) fn put_off(&mut self, kernel: &Kernel, cpu: CpuIndex, tick_ns: Ns) {
        let nr_cpus = kernel.domains.cpus_of(kernel.domains.llc_of(cpu)).len();
        let balance = &mut self.0[Domain::Cache as usize][cpu];
        balance.next = balance.next.map(|_| kernel.now + 2 * interval(nr_cpus, tick_ns));
    }

    /// A CPU that went idle found a domain, the first behind its last-level cache, in balance or took a task.
    pub(super) fn forget_failures(&mut self, cpu: CpuIndex, domain: usize) {
        self.0[Domain::Cache as usize + domain][cpu].nr_failed = 0;
    }
}

/// How long a busy CPU waits before it balances a domain of so many again: a jiffy less than a multiple, so that domains do not
/// stay in step (`get_sd_balance_interval()`).
fn interval(nr_cpus: usize, tick_ns: Ns) -> Ns {
    BUSY_FACTOR * nr_cpus.max(1) as Ns * MS - tick_ns
}

/// The groups of CPUs in a CPU's domain among which that balances.
fn groups(kernel: &Kernel, cpu: CpuIndex, domain: Domain) -> Vec<Vec<CpuIndex>> {
    let near = kernel.domains.cpus_of(kernel.domains.llc_of(cpu));
    let single = |cpus: &[CpuIndex]| cpus.iter().map(|&cpu| vec![cpu]).collect();
    match domain {
        Domain::Core if kernel.knows_cores() => single(kernel.core_of(cpu)),
        Domain::Core => Vec::new(),
        Domain::Cache if kernel.knows_cores() => {
            let firsts = near.iter().filter(|&&cpu| kernel.core_of(cpu)[0] == cpu);
            firsts.map(|&cpu| kernel.core_of(cpu).to_vec()).collect()
        }
        Domain::Cache => single(near),
        Domain::Machine => {
            let llcs = 0..kernel.domains.nr_llcs();
            llcs.map(|llc| kernel.domains.cpus_of(llc).to_vec()).collect()
        }
    }
}

/// The load of a group's tasks that are ready, 1024 for one of nice 0 that always is, and its CPUs.
#[derive(Clone, Copy, Debug)]
struct Load {
    sum: i64,
    nr_tasks: usize,
    nr_cpus: i64,
    /// 1024 for each CPU of full speed.
    capacity: i64,
}

impl Load {
    /// For each CPU of full speed.
    fn mean(self) -> i64 {
        1024 * self.sum / self.capacity
    }

    fn is_overloaded(self) -> bool {
        self.nr_tasks as i64 > self.nr_cpus
    }
}

/// What has to go from the busiest group to the local one, where that is out of balance (`calculate_imbalance()`).
fn imbalance(local: Load, busiest: Load, all: Load) -> Option<i64> {
    let (own, most, mean) = (local.mean(), busiest.mean(), all.mean());
    let is_alike = local.is_overloaded() && 100 * most <= IMBALANCE_PERCENT * own;
    if own >= most || own >= mean || is_alike {
        return None;
    }
    Some(((most - mean) * busiest.capacity).min((mean - own) * local.capacity) / 1024)
}

/// The group of a CPU, if that balances for it: the first one does, where none is idle (`should_we_balance()`).
fn local_group(kernel: &Kernel, cpu: CpuIndex, groups: &[Vec<CpuIndex>]) -> Option<usize> {
    let local = groups.iter().position(|group| group.first() == Some(&cpu))?;
    let is_idle = groups[local].iter().any(|&cpu| kernel.is_idle(cpu));
    (!is_idle).then_some(local)
}

impl Fair {
    fn ready(&self, kernel: &Kernel, cpu: CpuIndex) -> impl Iterator<Item = TaskIndex> + '_ {
        let running = kernel.cpus[cpu].running;
        self.queues[cpu].waiting.iter().copied().chain(running)
    }

    /// `task_h_load()`.
    fn load_of(&self, kernel: &Kernel, task: TaskIndex) -> i64 {
        let share = self.utilization.ready_of_task(kernel, task);
        (self.entities[task].weight as f64 * share).round() as i64
    }

    fn load(&self, kernel: &Kernel, cpus: &[CpuIndex]) -> Load {
        let tasks = || cpus.iter().flat_map(|&cpu| self.ready(kernel, cpu));
        Load {
            sum: tasks().map(|task| self.load_of(kernel, task)).sum(),
            nr_tasks: tasks().count(),
            nr_cpus: cpus.len() as i64,
            capacity: self.capacities.sum(cpus),
        }
    }

    /// The tick of a busy CPU.
    pub(super) fn balance_busy(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        for (index, domain) in DOMAINS.into_iter().enumerate() {
            let Balance { next, nr_failed } = self.busy_balance.0[index][cpu];
            if next.is_some_and(|next| kernel.now < next) {
                continue;
            }
            let groups = groups(kernel, cpu, domain);
            let interval = interval(groups.iter().flatten().count(), self.tick_ns);
            let local = local_group(kernel, cpu, &groups);
            if matches!(domain, Domain::Cache) && local.is_some() {
                self.update_idle_scan(kernel, kernel.domains.llc_of(cpu));
            }
            let imbalance = local.and_then(|local| self.find_imbalance(kernel, domain, local, &groups));
            let (after, nr_failed) = match imbalance {
                // CPUs stand at different points of it.
                _ if next.is_none() => (interval * (1 + cpu as Ns) / kernel.cpus.len() as Ns, 0),
                // Twice as long where nothing was to be done (`max_interval`).
                None => (2 * interval, 0),
                Some((busiest, imbalance)) => {
                    let has_taken = self.take_from(kernel, cpu, &groups[busiest], imbalance, nr_failed);
                    (interval, if has_taken { 0 } else { nr_failed + 1 })
                }
            };
            self.busy_balance.0[index][cpu] = Balance {
                next: Some(kernel.now + after),
                nr_failed,
            };
        }
    }

    /// Whether a group has room left: fewer tasks than CPUs, or as many, which ran for less than 0.85 of the time
    /// (`group_has_capacity()`). Who has more has none; in the kernel, when its averages have come to say so.
    fn has_spare(&mut self, kernel: &Kernel, group: &[CpuIndex]) -> bool {
        let Load {
            nr_tasks,
            nr_cpus,
            capacity,
            ..
        } = self.load(kernel, group);
        let used: f64 = group
            .iter()
            .map(|&cpu| self.utilization.of_cpu(kernel, cpu))
            .sum();
        let is_enough = 100.0 * capacity as f64 / 1024.0 > IMBALANCE_PERCENT as f64 * used;
        match (nr_tasks as i64).cmp(&nr_cpus) {
            Ordering::Less => true,
            Ordering::Equal => is_enough,
            Ordering::Greater => false,
        }
    }

    /// The group of which one should take something that is in the local group, and how much (`sched_balance_find_src_group()`).
    ///
    /// A busy CPU with room left takes nobody from behind the same cache (`sibling_imbalance()`). From behind another it would by
    /// utilization; here it does by load.
    fn find_imbalance(
        &mut self,
        kernel: &Kernel,
        domain: Domain,
        local: usize,
        groups: &[Vec<CpuIndex>],
    ) -> Option<(usize, i64)> {
        if !matches!(domain, Domain::Machine) && self.has_spare(kernel, &groups[local]) {
            return None;
        }
        let loads: Vec<Load> = groups.iter().map(|group| self.load(kernel, group)).collect();
        let all = Load {
            sum: loads.iter().map(|load| load.sum).sum(),
            nr_tasks: loads.iter().map(|load| load.nr_tasks).sum(),
            nr_cpus: loads.iter().map(|load| load.nr_cpus).sum(),
            capacity: loads.iter().map(|load| load.capacity).sum(),
        };
        // update_sd_pick_busiest(): groups come in a ring, from the local one on, and the first of equal ones counts.
        let others = (1..groups.len()).map(|step| (local + step) % groups.len());
        let overloaded = others.rev().filter(|&group| loads[group].is_overloaded());
        let busiest = overloaded.max_by_key(|&group| loads[group].mean())?;
        Some((busiest, imbalance(loads[local], loads[busiest], all)?))
    }

    /// Whether a CPU could take anything from the most crowded CPU of a group (`detach_tasks()`): those that ran the longest ago
    /// first, and none with more load than what is to go, halved as often as that was tried in vain.
    fn take_from(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuIndex,
        group: &[CpuIndex],
        mut imbalance: i64,
        nr_failed: u32,
    ) -> bool {
        let crowded = group
            .iter()
            .filter(|&&from| !self.queues[from].waiting.is_empty());
        let Some(&from) = crowded.max_by_key(|&&from| (self.load(kernel, &[from]).sum, Reverse(from))) else {
            return false;
        };
        let mut waiting = self.queues[from].waiting.clone();
        waiting.sort_by_key(|&task| (kernel.tasks[task].exec_start, task));
        let mut has_taken = false;
        for task in waiting {
            let load = self.load_of(kernel, task).max(1);
            if imbalance > 0 && kernel.may_run(task, cpu) && load >> nr_failed.min(30) <= imbalance {
                self.take(kernel, from, cpu, task);
                imbalance -= load;
                has_taken = true;
            }
        }
        has_taken
    }

    /// Takes a waiting task over from another CPU's queue.
    fn take(&mut self, kernel: &mut Kernel, from: CpuIndex, to: CpuIndex, task: TaskIndex) {
        self.detach(kernel, from, task);
        self.place(kernel, to, task);
        self.utilization.comes(kernel, task, to);
        kernel.tasks[task].cpu = to;
        self.has_to_wait(to, task);
    }
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::*;
    use crate::scheduler::Scheduler;
    use crate::schedulers::Known;
    use crate::{Costs, Synthetic, World};

    fn smp_8() -> World {
        let machine = Machine::load("smp-8").expect("a machine");
        Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default())
    }

    /// Threads that never sleep, on as many CPUs of their own.
    fn busy(nr: usize) -> World {
        let mut world = smp_8();
        let ratio = "inf:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 1_000_000_000, 1_000_000_000, nr, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        world
    }

    #[test]
    fn who_goes_idle_and_finds_nobody_waiting_or_takes_one_forgets_its_failures() {
        let mut world = busy(2);
        world.run_until(10 * MS).expect("it runs");
        // Its cache is cold.
        world.kernel.tasks[1].exec_start = 0;
        let mut fair = Fair::new(&mut world.kernel);
        (0..2).for_each(|task| fair.enable(&world.kernel, task));
        let idle = (0..8)
            .find(|&cpu| world.kernel.is_idle(cpu))
            .expect("six are idle");
        let crowded = world.kernel.tasks[0].cpu;
        let mut after = |is_overloaded: bool, waits: bool| {
            fair.busy_balance.0[Domain::Cache as usize][idle].nr_failed = 2;
            fair.newidle.is_overloaded = is_overloaded;
            fair.queues[crowded].waiting = if waits { vec![1] } else { Vec::new() };
            // It looks, by dice, at half of the occasions.
            let taken = (0..50).find_map(|_| fair.balance_newidle(&mut world.kernel, idle));
            let nr_failed = fair.busy_balance.0[Domain::Cache as usize][idle].nr_failed;
            (taken, nr_failed, fair.newidle.is_overloaded)
        };
        assert_eq!(after(false, true), (None, 2, false), "it does not look");
        assert_eq!(after(true, false), (None, 0, false), "nobody waits");
        // Whether there are more it finds out next time.
        assert_eq!(after(true, true), (Some(1), 0, true));
    }

    #[test]
    fn who_found_nobody_waiting_while_it_was_idle_balances_later_when_it_is_busy() {
        let mut world = busy(2);
        world.run_until(10 * MS).expect("it runs");
        let kernel = &world.kernel;
        let mut fair = Fair::new(&mut smp_8().kernel);
        let idle = (0..8).find(|&cpu| kernel.is_idle(cpu)).expect("six are idle");
        let crowded = kernel.tasks[0].cpu;
        let mut after = |waits: bool| {
            let balance = Balance {
                next: Some(0),
                nr_failed: 2,
            };
            fair.busy_balance.0[Domain::Cache as usize][idle] = balance;
            fair.queues[crowded].waiting = if waits { vec![1] } else { Vec::new() };
            fair.balance_idle(kernel, 0);
            let Balance { next, nr_failed } = fair.busy_balance.0[Domain::Cache as usize][idle];
            (next.expect("it had one") > 200 * MS, nr_failed)
        };
        assert_eq!(after(false), (true, 0));
        assert_eq!(after(true), (false, 2), "somebody waits");
    }

    #[test]
    fn a_busy_cpu_takes_nobody_until_it_has_run_for_most_of_the_time() {
        let mut world = busy(8);
        let mut fair = Fair::new(&mut world.kernel);
        for task in 0..8 {
            fair.enable(&world.kernel, task);
            fair.utilization
                .comes(&world.kernel, task, world.kernel.tasks[task].cpu);
        }
        let mut is_unbalanced_at = |ms: Ns| {
            world.run_until(ms * MS).expect("it runs");
            let kernel = &world.kernel;
            let [local, crowded] = [0, 1].map(|task| kernel.tasks[task].cpu);
            fair.queues[crowded].waiting = vec![7];
            let groups = groups(kernel, local, Domain::Cache);
            assert_eq!(local_group(kernel, local, &groups), Some(local));
            let found = fair.find_imbalance(kernel, Domain::Cache, local, &groups);
            found.map(|(busiest, _)| busiest == crowded)
        };
        // From half of it, 0.85 of the recent past is reached after 1.8 half-lives of 32 ms.
        let found = [1, 40, 95, 300].map(&mut is_unbalanced_at);
        assert_eq!(found, [None, None, Some(true), Some(true)]);
    }

    #[test]
    fn what_goes_is_what_evens_out() {
        let load = |nr_tasks: usize, nr_cpus: i64| Load {
            sum: 1024 * nr_tasks as i64,
            nr_tasks,
            nr_cpus,
            capacity: 1024 * nr_cpus,
        };
        // Nine tasks on eight CPUs: an eighth of a task, which nobody is before three failures.
        assert_eq!(imbalance(load(1, 1), load(2, 1), load(9, 8)), Some(128));
        // Twelve on four, and four on four: four of them.
        assert_eq!(imbalance(load(4, 4), load(12, 4), load(16, 8)), Some(4096));
        assert_eq!(imbalance(load(2, 1), load(2, 1), load(9, 8)), None);
        assert_eq!(imbalance(load(12, 4), load(13, 4), load(25, 8)), None, "alike");
        // Of two on each of two CPUs, one half as fast, that one gives half of one away.
        let of = |nr_tasks: usize, capacity: i64| Load {
            capacity,
            ..load(nr_tasks, 1)
        };
        let all = Load {
            capacity: 1536,
            ..load(4, 2)
        };
        assert_eq!(imbalance(of(2, 1024), of(2, 512), all), Some(682));
    }
}
