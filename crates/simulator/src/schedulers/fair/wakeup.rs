// SPDX-License-Identifier: GPL-2.0-only
//! Where who wakes up goes: where it ran, or to an idle CPU, which is looked for the less the busier all are (SIS_UTIL).

use std::cmp::Reverse;

use super::Fair;
use crate::domains::Domains;
use crate::idle::Idle;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// `imbalance_pct` of a domain of one last-level cache.
const IMBALANCE: f64 = 1.17;

/// How hard idle CPUs are looked for.
#[derive(Clone, Debug)]
pub(super) struct IdleScan {
    /// For each last-level cache, at how many CPUs behind it one looks for an idle one (`nr_idle_scan`).
    nr: Vec<usize>,
    /// For each task, the CPU that it had left when it last woke up and found that busy (`recent_used_cpu`).
    recent: Vec<CpuIndex>,
}

impl IdleScan {
    pub(super) fn new(domains: &Domains) -> Self {
        Self {
            nr: (0..domains.nr_llcs())
                .map(|llc| domains.cpus_of(llc).len())
                .collect(),
            recent: Vec::new(),
        }
    }

    pub(super) fn enable(&mut self, cpu: CpuIndex) {
        self.recent.push(cpu);
    }
}

/// At how many of so many CPUs with this mean utilization.
fn nr_to_look_at(utilization: f64, nr_cpus: usize) -> usize {
    let busy = IMBALANCE * utilization;
    ((1.0 - busy * busy).max(0.0) * nr_cpus as f64) as usize
}

impl Fair {
    /// `update_idle_cpu_scan()`, whenever the domain is balanced: fewer with the square of the utilization, and none where
    /// CPUs run for more than 0.85 of their time.
    pub(super) fn update_idle_scan(&mut self, kernel: &Kernel, llc: usize) {
        let cpus = kernel.domains.cpus_of(llc);
        let sum: f64 = cpus.iter().map(|&cpu| self.utilization.of_cpu(kernel, cpu)).sum();
        self.idle_scan.nr[llc] = nr_to_look_at(sum / cpus.len() as f64, cpus.len());
    }

    /// `select_idle_sibling()`: the CPU that it ran on if that is idle, even beside a busy sibling; else the one that it found busy
    /// before; else one of an idle core behind the same cache (`select_idle_core()`); else the sibling (`select_idle_smt()`), or one of
    /// those that are looked at. One that has just begun goes to the cache with the most idle CPUs, and there to an idle core
    /// first (`sched_balance_find_dst_group()`).
    pub(super) fn select_idle(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
    ) -> Option<CpuIndex> {
        let is_new = kernel.tasks[task].ran == 0;
        if is_new && !self.knows_capacities() {
            return select_idlest(kernel, task, prev);
        }
        if kernel.may_run(task, prev) && self.fits(task, prev) && kernel.claim_idle(prev) {
            return Some(prev);
        }
        let recent = std::mem::replace(&mut self.idle_scan.recent[task], prev);
        let llc = kernel.domains.llc_of(prev);
        if kernel.domains.llc_of(recent) == llc
            && kernel.may_run(task, recent)
            && self.fits(task, recent)
            && kernel.claim_idle(recent)
        {
            return Some(recent);
        }
        if self.knows_capacities() {
            let nr_to_look_at = if is_new {
                kernel.cpus.len()
            } else {
                self.idle_scan.nr[llc]
            };
            return self.select_idle_capacity(kernel, task, prev, nr_to_look_at);
        }
        if kernel.knows_cores()
            && let Some(whole) = kernel.claim_in_llc(task, llc, Idle::claim_whole_in)
        {
            return Some(whole);
        }
        self.scan(kernel, task, prev)
    }

    /// `select_idle_cpu()`: the first idle one of so many from the next on.
    fn scan(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        if kernel.knows_cores() {
            let core = kernel.core_of(prev).to_vec();
            let sibling = |&cpu: &CpuIndex| kernel.may_run(task, cpu) && kernel.claim_idle(cpu);
            if let Some(sibling) = core.into_iter().find(sibling) {
                return Some(sibling);
            }
        }
        let found = self.first_idle(kernel, task, prev)?;
        kernel.claim_idle(found).then_some(found)
    }

    /// Of the CPUs behind this one's cache that are looked at, which begin after it, the first idle one.
    fn first_idle(&self, kernel: &Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        let llc = kernel.domains.llc_of(prev);
        let (cpus, nr) = (kernel.domains.cpus_of(llc), self.idle_scan.nr[llc]);
        let place = |cpu: CpuIndex| cpus.partition_point(|&other| other < cpu);
        let next = place(prev + 1);
        if kernel.tasks[task].allowed.is_none() {
            let found = kernel.next_idle_behind(llc, prev + 1)?;
            let distance = (place(found) + cpus.len() - next) % cpus.len();
            return (distance < nr).then_some(found);
        }
        let ring = cpus[next..].iter().chain(&cpus[..next]).copied();
        let mut looked_at = ring.filter(|&cpu| kernel.may_run(task, cpu)).take(nr);
        looked_at.find(|&cpu| kernel.is_idle(cpu))
    }
}

fn select_idlest(kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
    let llc = kernel.domains.llc_of(prev);
    let nr_idle = |llc: usize| {
        kernel
            .idle_behind(llc)
            .filter(|&cpu| kernel.may_run(task, cpu))
            .count()
    };
    let own = (nr_idle(llc), true, Reverse(llc));
    let others = (0..kernel.domains.nr_llcs()).map(|other| (nr_idle(other), other == llc, Reverse(other)));
    let (.., Reverse(idlest)) = others.fold(own, Ord::max);
    if idlest != llc {
        return kernel.claim_in_llc(task, idlest, Idle::claim_any_in);
    }
    kernel.select_idle(task, prev)
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::*;
    use crate::faults::Dice;
    use crate::mask::CpuMask;
    use crate::schedulers::Known;
    use crate::{Costs, Synthetic};

    #[test]
    fn the_busier_cpus_are_the_fewer_are_looked_at() {
        let of = |utilization| nr_to_look_at(utilization, 8);
        assert_eq!([0.0, 0.5, 0.75, 0.86, 1.0].map(of), [8, 5, 1, 0, 0]);
    }

    #[test]
    fn who_finds_its_cpu_busy_goes_to_where_it_was_when_that_happened_last() {
        let machine = Machine::load("smp-8").expect("a machine");
        let mut world = Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default());
        let ratio = "inf:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 1000, 1000, 1, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        world.run_until(100_000).expect("it runs");
        let mut fair = Fair::new(&mut world.kernel);
        fair.idle_scan.enable(0);
        // Nowhere else does it look.
        fair.idle_scan.nr.fill(0);
        let mut from = |prev: CpuIndex, idle: &[CpuIndex]| {
            for cpu in 0..8 {
                world.kernel.idle.remove(cpu);
            }
            for &cpu in idle {
                world.kernel.idle.add(cpu);
            }
            fair.select_idle(&mut world.kernel, 0, prev)
        };
        assert_eq!(from(3, &[0, 3, 5]), Some(3));
        assert_eq!(from(5, &[0, 3]), Some(0), "3 was idle");
        assert_eq!(from(0, &[3, 5]), Some(5));
        assert_eq!(from(5, &[3]), None, "0 is busy");
    }

    /// By mask, and one by one.
    #[test]
    fn who_may_run_anywhere_finds_what_who_may_run_on_each_cpu_finds() {
        let machine = Machine::load("dual-smt").expect("a machine");
        let mut world = Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default());
        let ratio = "1:1".parse().expect("a ratio");
        let program = Synthetic::new(ratio, 1000, 1000, 2, Wait::Passive, 1);
        world.start(Box::new(program), 100, None);
        let nr_cpus = machine.nr_cpus();
        world.kernel.allow(1, Some(CpuMask::of(nr_cpus, 0..nr_cpus)));
        let mut fair = Fair::new(&mut world.kernel);
        let mut dice = Dice::new(1, 0);
        let mut nr_found = 0;
        for _ in 0..2000 {
            for cpu in 0..nr_cpus {
                world.kernel.idle.remove(cpu);
                if dice.one_in(3) {
                    world.kernel.idle.add(cpu);
                }
            }
            let prev = dice.below(nr_cpus as u64) as usize;
            fair.idle_scan.nr.fill(dice.below(6) as usize);
            let found = fair.first_idle(&world.kernel, 0, prev);
            assert_eq!(
                found,
                fair.first_idle(&world.kernel, 1, prev),
                "from {prev}: {:?}",
                fair.idle_scan
            );
            nr_found += usize::from(found.is_some());
        }
        assert!((500..1900).contains(&nr_found), "{nr_found}");
    }
}
