// SPDX-License-Identifier: GPL-2.0-only
//! Balancing by CPUs that are busy: at some of their ticks they take waiting tasks from a group of CPUs with more load than
//! theirs (`sched_balance_domains()`, kernel/sched/fair.c).
//!
//! Load is that of the tasks at the moment, of which the kernel keeps a moving average.

use std::cmp::Reverse;

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

/// A group's tasks that are ready, by weight, and its CPUs.
#[derive(Clone, Copy, Debug)]
struct Load {
    weight: i64,
    nr_tasks: usize,
    nr_cpus: i64,
}

impl Load {
    /// For each CPU, in 1024ths.
    fn mean(self) -> i64 {
        self.weight * 1024 / self.nr_cpus
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
    Some(((most - mean) * busiest.nr_cpus).min((mean - own) * local.nr_cpus) / 1024)
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

    fn load(&self, kernel: &Kernel, cpus: &[CpuIndex]) -> Load {
        let tasks = || cpus.iter().flat_map(|&cpu| self.ready(kernel, cpu));
        Load {
            weight: tasks().map(|task| self.entities[task].weight).sum(),
            nr_tasks: tasks().count(),
            nr_cpus: cpus.len() as i64,
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
            // A jiffy less, so that domains do not stay in step.
            let nr_cpus = groups.iter().flatten().count().max(1);
            let interval = BUSY_FACTOR * nr_cpus as Ns * MS - self.tick_ns;
            let local = local_group(kernel, cpu, &groups);
            if matches!(domain, Domain::Cache) && local.is_some() {
                self.update_idle_scan(kernel, kernel.domains.llc_of(cpu));
            }
            let imbalance = local.and_then(|local| self.find_imbalance(kernel, local, &groups));
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

    /// The group of which one should take something that is in the local group, and how much (`sched_balance_find_src_group()`).
    fn find_imbalance(
        &self,
        kernel: &Kernel,
        local: usize,
        groups: &[Vec<CpuIndex>],
    ) -> Option<(usize, i64)> {
        let loads: Vec<Load> = groups.iter().map(|group| self.load(kernel, group)).collect();
        let all = Load {
            weight: loads.iter().map(|load| load.weight).sum(),
            nr_tasks: loads.iter().map(|load| load.nr_tasks).sum(),
            nr_cpus: loads.iter().map(|load| load.nr_cpus).sum(),
        };
        // update_sd_pick_busiest(): groups come in a ring, from the local one on, and the first of equal ones counts.
        let others = (1..groups.len()).map(|step| (local + step) % groups.len());
        let overloaded = others.rev().filter(|&group| loads[group].is_overloaded());
        let busiest = overloaded.max_by_key(|&group| loads[group].mean())?;
        Some((busiest, imbalance(loads[local], loads[busiest], all)?))
    }

    /// Whether a CPU could take anything from the most crowded CPU of a group (`detach_tasks()`): those that ran the longest ago
    /// first, and none that weighs more than what is to go, halved as often as that was tried in vain.
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
        let Some(&from) = crowded.max_by_key(|&&from| (self.load(kernel, &[from]).weight, Reverse(from)))
        else {
            return false;
        };
        let mut waiting = self.queues[from].waiting.clone();
        waiting.sort_by_key(|&task| (kernel.tasks[task].exec_start, task));
        let mut has_taken = false;
        for task in waiting {
            let weight = self.entities[task].weight;
            if imbalance > 0 && kernel.may_run(task, cpu) && weight >> nr_failed.min(30) <= imbalance {
                self.take(kernel, from, cpu, task);
                imbalance -= weight;
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
        self.queues[to].waiting.push(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_what_evens_out() {
        let load = |nr_tasks: usize, nr_cpus: i64| Load {
            weight: 1024 * nr_tasks as i64,
            nr_tasks,
            nr_cpus,
        };
        // Nine tasks on eight CPUs: an eighth of a task, which nobody is before three failures.
        assert_eq!(imbalance(load(1, 1), load(2, 1), load(9, 8)), Some(128));
        // Twelve on four, and four on four: four of them.
        assert_eq!(imbalance(load(4, 4), load(12, 4), load(16, 8)), Some(4096));
        assert_eq!(imbalance(load(2, 1), load(2, 1), load(9, 8)), None);
        assert_eq!(imbalance(load(12, 4), load(13, 4), load(25, 8)), None, "alike");
    }
}
