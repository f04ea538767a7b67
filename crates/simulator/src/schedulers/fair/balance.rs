// SPDX-License-Identifier: GPL-2.0-only
//! Balancing by CPUs that are idle, at the ticks of busy ones (nohz): they take a waiting task, and where there is none to take,
//! a running one is sent away in the end.

use std::cmp::Reverse;

use super::Fair;
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// How often idle CPUs try in vain before a running task is moved: more than `cache_nice_tries`, which is 1, and two times
/// (`imbalanced_active_balance()`).
const FAILURES: u32 = 4;
const MS: Ns = 1_000_000;
/// A share of idle time below this counts as none: one of 1024.
const NEGLIGIBLE: f64 = 1.0 / 1024.0;

/// How a CPU's balancing of a domain stands (`struct sched_domain`, of which each CPU has its own).
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    next: Ns,
    /// How often there was nobody to take although it was out of balance, without a break (`nr_balance_failed`).
    nr_failed: u32,
}

impl Balance {
    /// Whether it is time, which it is once in as many milliseconds as the domain has CPUs (`min_interval`).
    fn is_due(&mut self, now: Ns, nr_cpus: usize) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + nr_cpus as Ns * MS;
        }
        is_due
    }

    /// Whether a running task is to be moved, now that the domain was found in balance or not, and nobody could be taken.
    fn has_failed(&mut self, is_unbalanced: bool) -> bool {
        self.nr_failed = if is_unbalanced { self.nr_failed + 1 } else { 0 };
        let has_failed = self.nr_failed >= FAILURES;
        if has_failed {
            self.nr_failed = 0;
        }
        has_failed
    }
}

/// What CPUs do while they are idle.
#[derive(Clone, Debug)]
pub(super) struct IdleBalance {
    /// By CPU: among the queues and among the cores behind its last-level cache, and among the caches.
    queues: Vec<Balance>,
    cores: Vec<Balance>,
    caches: Vec<Balance>,
    /// When the first of them looks again (`nohz.next_balance`).
    next: Ns,
    /// When it is looked again how many idle CPUs there may be.
    next_scan: Ns,
}

impl IdleBalance {
    pub(super) fn new(nr_cpus: usize) -> Self {
        Self {
            queues: vec![Balance::default(); nr_cpus],
            cores: vec![Balance::default(); nr_cpus],
            caches: vec![Balance::default(); nr_cpus],
            next: 0,
            next_scan: 0,
        }
    }
}

/// What runs behind a last-level cache and may run on this CPU, and where it does.
fn running_for(
    kernel: &Kernel,
    llc: usize,
    to: CpuIndex,
) -> impl Iterator<Item = (CpuIndex, TaskIndex)> + '_ {
    let running = kernel.domains.cpus_of(llc).iter();
    let running = running.filter_map(|&cpu| Some((cpu, kernel.cpus[cpu].running?)));
    running.filter(move |&(_, task)| kernel.may_run(task, to))
}

impl Fair {
    /// Whether a task that waits behind another cache has room behind this one: its utilization, halved as often as that was
    /// tried in vain, is no more than what is left of the CPUs' (`migrate_util`). Where nothing is left, one goes by number.
    pub(super) fn has_room(&mut self, kernel: &Kernel, llc: usize, task: TaskIndex, nr_failed: u32) -> bool {
        let mut left = 0.0;
        for &cpu in kernel.domains.cpus_of(llc) {
            left += (1.0 - self.utilization.of_cpu(kernel, cpu) - NEGLIGIBLE).max(0.0);
        }
        let wanted = self.utilization.of_task(task) / f64::from(1u32 << nr_failed);
        left == 0.0 || wanted <= left
    }

    /// `nohz_balancer_kick()`: at the tick of a busy CPU idle ones balance the domains for which it is time.
    pub(super) fn kick_idle_balance(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let llc = kernel.domains.llc_of(cpu);
        if let Some(idle) = self.idle_for_waiting(kernel, cpu)
            && kernel.claim_idle(idle)
        {
            self.newidle.ask(idle);
            kernel.kick(idle);
        }
        if kernel.now >= self.idle_balance.next_scan {
            self.idle_balance.next_scan = kernel.now + kernel.domains.cpus_of(llc).len() as Ns * MS;
            for llc in 0..kernel.domains.nr_llcs() {
                self.balance_idle(kernel, llc);
            }
        }
        self.balance_misfits(kernel, cpu);
        let has_domains = kernel.knows_cores() || kernel.domains.nr_llcs() > 1;
        if has_domains && kernel.now >= self.idle_balance.next {
            for llc in 0..kernel.domains.nr_llcs() {
                self.balance_from(kernel, llc);
            }
            let all = self.idle_balance.cores.iter().chain(&self.idle_balance.caches);
            let next = all.map(|balance| balance.next).filter(|&next| next > kernel.now);
            self.idle_balance.next = next.min().unwrap_or(kernel.now);
        }
    }

    /// The idle CPUs behind a cache balance its queues (`nohz_idle_balance()`). Who finds nobody waiting has balanced for when it
    /// is busy too, unless it does so among cores ([`Self::balance_cores`]).
    pub(super) fn balance_idle(&mut self, kernel: &Kernel, llc: usize) {
        let Some(first) = kernel.idle_behind(llc).next() else {
            return;
        };
        self.update_idle_scan(kernel, llc);
        if kernel.knows_cores() || self.is_crowded(kernel, first, 0) {
            return;
        }
        for cpu in kernel.idle_behind(llc) {
            self.forget_failures(cpu, 0);
            self.busy_balance.put_off(kernel, cpu, self.tick_ns);
        }
    }

    /// At the tick of a CPU that is too slow for what it runs, faster ones that are idle and for which it is time take such tasks.
    fn balance_misfits(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        if !self.has_misfit(kernel) {
            return;
        }
        self.newidle.is_overloaded = true;
        let llc = kernel.domains.llc_of(cpu);
        let nr_cpus = kernel.domains.cpus_of(llc).len();
        let idle: Vec<CpuIndex> = kernel.idle_behind(llc).collect();
        for to in idle {
            let leaver = self.misfit_for(kernel, to);
            if leaver.is_some() && self.idle_balance.queues[to].is_due(kernel.now, nr_cpus) {
                self.send_away(kernel, leaver, to);
            }
        }
    }

    /// An idle CPU behind the same cache for which it is time, and which one that waits here may run on.
    fn idle_for_waiting(&mut self, kernel: &Kernel, cpu: CpuIndex) -> Option<CpuIndex> {
        let waiting = &self.queues[cpu].waiting;
        if waiting.is_empty() {
            return None;
        }
        let llc = kernel.domains.llc_of(cpu);
        let nr_cpus = kernel.domains.cpus_of(llc).len();
        let due = &mut self.idle_balance.queues;
        let mut idle = kernel.idle_behind(llc);
        idle.find(|&idle| {
            let may_come = |&task: &TaskIndex| kernel.may_run(task, idle);
            waiting.iter().any(may_come) && due[idle].is_due(kernel.now, nr_cpus)
        })
    }

    /// The idle CPUs behind a cache balance: of each idle core the first among cores, and the first of all, on an idle core if
    /// there is one, among caches (`should_we_balance()`).
    fn balance_from(&mut self, kernel: &mut Kernel, llc: usize) {
        let is_whole = |kernel: &Kernel, cpu: CpuIndex| {
            let mut core = kernel.core_of(cpu).iter();
            core.all(|&cpu| kernel.is_idle(cpu))
        };
        let idle: Vec<CpuIndex> = kernel.idle_behind(llc).collect();
        let first = idle.iter().copied().find(|&cpu| is_whole(kernel, cpu));
        if kernel.knows_cores() {
            for &cpu in &idle {
                if kernel.core_of(cpu)[0] == cpu && is_whole(kernel, cpu) {
                    self.balance_cores(kernel, cpu, llc);
                }
            }
        }
        if let Some(cpu) = first.or(idle.first().copied()).filter(|&cpu| kernel.is_idle(cpu)) {
            self.balance_caches(kernel, cpu, llc);
        }
    }

    /// Of a core behind the same cache on which several run one is sent to an idle core (`group_smt_balance`).
    fn balance_cores(&mut self, kernel: &mut Kernel, to: CpuIndex, llc: usize) {
        let cpus = kernel.domains.cpus_of(llc);
        if !self.idle_balance.cores[to].is_due(kernel.now, cpus.len()) {
            return;
        }
        let is_crowded = |cpu: CpuIndex| {
            let core = kernel.core_of(cpu).iter();
            core.filter(|&&cpu| !kernel.is_idle(cpu)).count() > 1
        };
        let waits = cpus.iter().any(|&cpu| !self.queues[cpu].waiting.is_empty());
        let leaver = running_for(kernel, llc, to).find(|&(cpu, _)| !waits && is_crowded(cpu));
        if self.idle_balance.cores[to].has_failed(leaver.is_some()) {
            self.send_away(kernel, leaver, to);
        }
    }

    /// The cache behind which the most tasks are gives one away: one that waits, or one that runs if it is two ahead
    /// (`prefer_sibling`).
    fn balance_caches(&mut self, kernel: &mut Kernel, to: CpuIndex, llc: usize) {
        let nr_llcs = kernel.domains.nr_llcs();
        if nr_llcs == 1 || !self.idle_balance.caches[to].is_due(kernel.now, kernel.cpus.len()) {
            return;
        }
        let nr_tasks = |llc: usize| {
            let of = |&cpu: &CpuIndex| {
                usize::from(kernel.cpus[cpu].running.is_some()) + self.queues[cpu].waiting.len()
            };
            kernel.domains.cpus_of(llc).iter().map(of).sum::<usize>()
        };
        let most = (0..nr_llcs).map(|llc| (nr_tasks(llc), Reverse(llc))).max();
        let Some((most, Reverse(from))) = most.filter(|&(_, Reverse(from))| from != llc) else {
            self.idle_balance.caches[to].has_failed(false);
            return;
        };
        let is_ahead = most >= nr_tasks(llc) + 2;
        let cpus = kernel.domains.cpus_of(from);
        let mut waiting = cpus.iter().flat_map(|&cpu| &self.queues[cpu].waiting);
        if let Some(&task) = waiting.find(|&&task| kernel.may_run(task, to)) {
            let nr_failed = self.idle_balance.caches[to].nr_failed;
            let has_room = self.has_room(kernel, llc, task, nr_failed);
            self.idle_balance.caches[to].has_failed(!has_room);
            if has_room && kernel.claim_idle(to) {
                self.newidle.ask(to);
                kernel.kick(to);
            }
            return;
        }
        let leaver = running_for(kernel, from, to).next().filter(|_| is_ahead);
        if self.idle_balance.caches[to].has_failed(leaver.is_some()) {
            self.send_away(kernel, leaver, to);
        }
    }

    /// `active_load_balance_cpu_stop()`.
    pub(super) fn send_away(
        &mut self,
        kernel: &mut Kernel,
        leaver: Option<(CpuIndex, TaskIndex)>,
        to: CpuIndex,
    ) {
        if let Some((cpu, task)) = leaver {
            self.entities[task].leaves_for = Some(to);
            kernel.kick_preempt(cpu);
        }
    }
}
