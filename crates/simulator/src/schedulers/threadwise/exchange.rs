// SPDX-License-Identifier: GPL-2.0-only
//! Tasks of different last-level caches change places, where whoever would be better off elsewhere finds no idle CPU there
//! (`exchange.bpf.h`).

use threadwise_policy::{Llc, Pair, Stay, looks_for_exchange};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// What runs on a CPU (`struct candidate`).
struct Candidate {
    need: u32,
    nr_ready: u32,
    home: Option<usize>,
    here: usize,
    rests: bool,
    is_bound: bool,
}

impl Candidate {
    fn stay(&self) -> Stay {
        Stay::new(self.home, self.here)
    }
}

/// What the tasks behind each last-level cache need, its CPUs, and how many of all tasks are at home there.
struct Sums {
    need: Vec<u64>,
    homes: Vec<Llc>,
}

impl Sums {
    fn of(kernel: &Kernel, candidates: &[Option<Candidate>]) -> Self {
        let llcs = 0..kernel.domains.nr_llcs();
        let mut need = vec![0; llcs.len()];
        let online = |llc| {
            let cpus = kernel.domains.cpus_of(llc).iter();
            cpus.filter(|&&cpu| kernel.is_online(cpu))
        };
        let empty = |llc| Llc {
            nr_cpus: online(llc).count() as u32,
            nr_at_home: 0,
        };
        let mut homes: Vec<Llc> = llcs.map(empty).collect();
        for candidate in candidates.iter().flatten() {
            need[candidate.here] += u64::from(candidate.need);
            let counts = |_: &usize| candidate.stay().counts_at_home(candidate.is_bound);
            if let Some(home) = candidate.home.filter(counts) {
                homes[home].nr_at_home += 1;
            }
        }
        Self { need, homes }
    }

    /// Whether the program of a task that is away from home is to be at home here.
    fn moves_home(&self, own: &Candidate) -> bool {
        let moves =
            |home: usize| self.homes[home].is_left_for(&self.homes[own.here], own.nr_ready, own.is_bound);
        own.home.is_some_and(moves)
    }

    fn gain(&self, own: &Candidate, other: &Candidate) -> u64 {
        let pair = Pair {
            own_need: own.need,
            other_need: other.need,
            own_sum: self.need[own.here],
            other_sum: self.need[other.here],
        };
        own.stay().exchange_gain(&other.stay(), &pair)
    }
}

impl Threadwise {
    fn candidate(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<Candidate> {
        let task = kernel.cpus[cpu].running?;
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        Some(Candidate {
            need: self.need_of(kernel, task),
            nr_ready,
            home: self.home_of(kernel, program, nr_ready),
            here: kernel.domains.llc_of(cpu),
            rests: !self.tasks[task].rest.may_change(kernel.now),
            is_bound: kernel.tasks[task].bound_to.is_some(),
        })
    }

    /// The CPU behind another cache with whose task an exchange gains most.
    fn find_partner(
        &self,
        kernel: &Kernel,
        (task, cpu): (TaskIndex, CpuIndex),
        candidates: &[Option<Candidate>],
        sums: &Sums,
    ) -> Option<CpuIndex> {
        let (own, total) = (candidates[cpu].as_ref()?, kernel.cpus.len());
        let mut best: Option<(u64, CpuIndex)> = None;
        for step in 1..total {
            let other = (cpu + step) % total;
            let (Some(there), Some(running)) = (&candidates[other], kernel.cpus[other].running) else {
                continue;
            };
            let may_swap = kernel.may_run(task, other) && kernel.may_run(running, cpu) && !there.rests;
            if there.here == own.here || !may_swap {
                continue;
            }
            let gain = sums.gain(own, there);
            if gain > best.map_or(0, |(most, _)| most) {
                best = Some((gain, other));
            }
        }
        best.map(|(_, other)| other)
    }

    /// A CPU keeps its task. If that would be better off behind another cache, its program is at home here from now on, or the
    /// CPU of one that would not be worse off here is asked for an exchange.
    pub(super) fn exchange(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        let (now, total) = (kernel.now, kernel.cpus.len());
        let ago_ns = |since: Option<u64>| since.map_or(u64::MAX, |since| now - since);
        let (looked_ago_ns, exchanged_ago_ns) =
            (ago_ns(self.exchange_looked_at[cpu]), ago_ns(self.exchanged_at));
        if !looks_for_exchange(total, self.tasks_wait, looked_ago_ns, exchanged_ago_ns) {
            return;
        }
        self.exchange_looked_at[cpu] = Some(now);
        let candidates: Vec<_> = (0..total).map(|cpu| self.candidate(kernel, cpu)).collect();
        let Some(own) = &candidates[cpu] else {
            return;
        };
        if own.rests || !own.stay().may_gain(own.need) {
            return;
        }
        let sums = Sums::of(kernel, &candidates);
        if sums.moves_home(own) {
            let (program, _) = self.find_home(kernel, kernel.tasks[task].program);
            self.homes[program] = Some(own.here);
        } else if let Some(other) = self.find_partner(kernel, (task, cpu), &candidates, &sums) {
            if let Some(running) = kernel.cpus[other].running {
                self.tasks[running].rest.note_change(now);
            }
            self.called_to[other] = Some(cpu);
            kernel.kick_preempt(other);
        } else {
            return;
        }
        self.exchanged_at = Some(now);
        self.tasks[task].rest.note_change(now);
    }
}
