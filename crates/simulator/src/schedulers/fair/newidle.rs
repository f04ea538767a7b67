// SPDX-License-Identifier: GPL-2.0-only
//! Balancing by CPUs that go idle (`sched_balance_newidle()`): each takes a waiting task from the most crowded CPU, but tries that
//! only as often as it succeeded of late (NI_RANDOM and NI_RATE, Linux 6.19 and later), by dice.

use super::{Fair, RunQueue};
use crate::Ns;
use crate::faults::Dice;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// So many calls make a share.
const CALLS: u64 = 1024;
/// What is added to the share of who goes idle rarely: 1 for each 4 ms that half of the calls took.
const RATE_SHIFT: u32 = 22;

/// Who ran until so short a time ago stays near its caches (`sysctl_sched_migration_cost`).
const HOT_NS: Ns = 500_000;

/// `task_hot()`.
fn is_hot(kernel: &Kernel, task: TaskIndex) -> bool {
    kernel.now < kernel.tasks[task].exec_start + HOT_NS
}

/// How well a CPU's tries in a domain went (`struct sched_domain`, `sd_init()`).
#[derive(Clone, Copy, Debug)]
struct Tries {
    nr_calls: u64,
    nr_successes: u64,
    /// Of [`CALLS`] calls so many are to be tried.
    share: u64,
    since: Ns,
}

impl Tries {
    const FIRST: Self = Self {
        nr_calls: CALLS / 2,
        nr_successes: CALLS / 4,
        share: CALLS / 2,
        since: 0,
    };

    /// `update_newidle_stats()`.
    fn count(&mut self, now: Ns, nr_successes: u64) {
        self.nr_calls += 1;
        self.nr_successes += nr_successes;
        if self.nr_calls >= CALLS {
            let took = now - std::mem::replace(&mut self.since, now);
            self.share = ((took >> RATE_SHIFT) + self.nr_successes).min(CALLS);
            self.nr_calls /= 2;
            self.nr_successes /= 2;
        }
    }

    /// For how many calls this one stands, if it is tried.
    fn draw(&mut self, now: Ns, dice: &mut Dice) -> Option<u64> {
        let share = 1 + self.share;
        if dice.below(CALLS) > share {
            self.count(now, 0);
            return None;
        }
        Some((CALLS + share / 2) / share)
    }
}

/// What CPUs do that go idle.
#[derive(Clone, Debug)]
pub(super) struct Newidle {
    /// By CPU: behind its last-level cache, and on the machine.
    tries: Vec<[Tries; 2]>,
    /// Whether a CPU was asked to balance while it is idle, which it does in any case.
    is_asked: Vec<bool>,
    /// How often it was asked in vain, without a break.
    nr_failed: Vec<u32>,
    /// Whether somebody had to wait since a CPU that balances last saw that nobody does (`rd->overloaded`).
    pub(super) is_overloaded: bool,
}

impl Newidle {
    pub(super) fn new(nr_cpus: usize) -> Self {
        Self {
            tries: vec![[Tries::FIRST; 2]; nr_cpus],
            is_asked: vec![false; nr_cpus],
            nr_failed: vec![0; nr_cpus],
            is_overloaded: false,
        }
    }

    pub(super) fn ask(&mut self, cpu: CpuIndex) {
        self.is_asked[cpu] = true;
    }
}

impl Fair {
    /// The queue with the most tasks, of these CPUs, which ascend, of which one may come here, and that one.
    fn busiest(
        &self,
        kernel: &Kernel,
        cpu: CpuIndex,
        among: impl Iterator<Item = CpuIndex>,
        leaves_hot: bool,
    ) -> Option<(CpuIndex, TaskIndex)> {
        let may_come =
            |task: &TaskIndex| kernel.may_run(*task, cpu) && !(leaves_hot && is_hot(kernel, *task));
        let (mut most, mut busiest) = (0, None);
        for other in among {
            let waiting = &self.queues[other].waiting;
            // Their number first: the tasks themselves are far away in memory.
            if waiting.len() > most
                && other != cpu
                && kernel.cpus[other].running.is_some()
                && let Some(task) = waiting.iter().copied().find(may_come)
            {
                (most, busiest) = (waiting.len(), Some((other, task)));
            }
        }
        busiest
    }

    /// Takes a task over, from behind the same cache or else from anywhere.
    pub(super) fn balance_newidle(&mut self, kernel: &mut Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        let nr_domains = if kernel.domains.nr_llcs() > 1 { 2 } else { 1 };
        if std::mem::take(&mut self.newidle.is_asked[cpu]) {
            return (0..nr_domains).find_map(|domain| self.pull_when_asked(kernel, cpu, domain));
        }
        if !self.newidle.is_overloaded {
            return None;
        }
        (0..nr_domains).find_map(|domain| {
            let weight = self.newidle.tries[cpu][domain].draw(kernel.now, &mut kernel.newidle)?;
            let is_balanced = !self.is_crowded(kernel, cpu, domain);
            if domain + 1 == nr_domains {
                self.newidle.is_overloaded = !is_balanced || self.has_misfit(kernel);
            }
            let taken = self.pull(kernel, cpu, domain, true);
            if taken.is_none() {
                let leaver = self.misfit_for(kernel, cpu);
                self.send_away(kernel, leaver, cpu);
            }
            if is_balanced || taken.is_some() {
                self.forget_failures(cpu, domain);
            }
            let nr_successes = if taken.is_some() { weight } else { 0 };
            self.newidle.tries[cpu][domain].count(kernel.now, nr_successes);
            taken
        })
    }

    /// Whether a CPU has more than one task, with those that sleep and are not out of its queue yet (`rq->nr_running`).
    fn has_several(&self, kernel: &Kernel, cpu: CpuIndex) -> bool {
        let RunQueue { waiting, delayed, .. } = &self.queues[cpu];
        usize::from(!kernel.is_idle(cpu)) + waiting.len() + delayed.len() > 1
    }

    /// Whether any CPU in a domain of this one has more than one task (`sg_overloaded`).
    pub(super) fn is_crowded(&self, kernel: &Kernel, cpu: CpuIndex, domain: usize) -> bool {
        let has_several = |cpu: CpuIndex| self.has_several(kernel, cpu);
        if domain == 0 {
            let near = kernel.domains.cpus_of(kernel.domains.llc_of(cpu));
            near.iter().copied().any(has_several)
        } else {
            (0..self.queues.len()).any(has_several)
        }
    }

    /// A domain is in balance, or a task was taken there: what failed before does not count (`nr_balance_failed`).
    pub(super) fn forget_failures(&mut self, cpu: CpuIndex, domain: usize) {
        self.newidle.nr_failed[cpu] = 0;
        self.busy_balance.forget_failures(cpu, domain);
    }

    /// Whether CPUs that go idle would look for who waits.
    pub(super) fn check_overloaded(&self, kernel: &Kernel) -> Result<(), String> {
        let is_crowded =
            |&cpu: &CpuIndex| !self.queues[cpu].waiting.is_empty() && self.has_several(kernel, cpu);
        match (0..self.queues.len()).find(is_crowded) {
            Some(cpu) if !self.newidle.is_overloaded => Err(format!(
                "tasks wait for CPU {cpu}, and no CPU that goes idle would look"
            )),
            _ => Ok(()),
        }
    }

    /// Who tried in vain more than `cache_nice_tries`, once, takes any.
    fn pull_when_asked(&mut self, kernel: &mut Kernel, cpu: CpuIndex, domain: usize) -> Option<TaskIndex> {
        let nr_failed = self.newidle.nr_failed[cpu];
        let is_balanced = !self.is_crowded(kernel, cpu, domain);
        let taken = self.pull(kernel, cpu, domain, nr_failed < 2);
        if is_balanced || taken.is_some() {
            self.forget_failures(cpu, domain);
        } else {
            self.newidle.nr_failed[cpu] = nr_failed + 1;
        }
        taken
    }

    fn pull(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuIndex,
        domain: usize,
        leaves_hot: bool,
    ) -> Option<TaskIndex> {
        let llc = kernel.domains.llc_of(cpu);
        let (from, task) = if domain == 0 {
            let near = kernel.domains.cpus_of(llc).iter().copied();
            self.busiest(kernel, cpu, near, leaves_hot)?
        } else {
            let far = self.busiest(kernel, cpu, 0..self.queues.len(), leaves_hot)?;
            Some(far).filter(|&(_, task)| self.has_room(kernel, llc, task, 0))?
        };
        self.detach(kernel, from, task);
        self.place(kernel, cpu, task);
        self.utilization.comes(kernel, task, cpu);
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_succeeds_rarely_tries_rarely_unless_it_is_rarely_idle() {
        let share_after = |every_ns: Ns, succeeds_in: u64| {
            let mut tries = Tries::FIRST;
            let mut dice = Dice::new(1, 1);
            for call in 0..20 * CALLS {
                let now = call * every_ns;
                if let Some(weight) = tries.draw(now, &mut dice) {
                    let succeeds = dice.one_in(succeeds_in);
                    tries.count(now, if succeeds { weight } else { 0 });
                }
            }
            tries.share
        };
        // Ten thousand times a second, with one success in eight or always.
        let rare = share_after(100_000, 8);
        assert!((100..200).contains(&rare), "{rare}");
        assert!(share_after(100_000, 1) > 900);
        // A hundred times a second: 512 calls take 5 s.
        assert_eq!(share_after(10_000_000, 8), CALLS);
    }
}
