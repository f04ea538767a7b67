// SPDX-License-Identifier: GPL-2.0-only
//! Where all CPUs are busy, tasks of different last-level caches change places (`exchange.bpf.h`).

use threadwise_policy::{Llc, Pair, Stay, exchange_every_ns, exchange_gap_ns};

use super::{IDLE_SCAN, Threadwise};
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// What runs on a CPU (`struct candidate`).
struct Candidate {
    need: u32,
    home: Option<usize>,
    here: usize,
    rests: bool,
}

impl Candidate {
    fn stay(&self) -> Stay {
        Stay::new(self.home, self.here)
    }
}

/// What the tasks behind each last-level cache need, and how many of all are at home there.
struct Sums {
    need: Vec<u64>,
    at_home: Vec<u32>,
}

impl Sums {
    fn of(caches: usize, candidates: &[Option<Candidate>]) -> Self {
        let (mut need, mut at_home) = (vec![0; caches], vec![0; caches]);
        for candidate in candidates.iter().flatten() {
            need[candidate.here] += u64::from(candidate.need);
            if let Some(home) = candidate.home {
                at_home[home] += 1;
            }
        }
        Self { need, at_home }
    }

    fn llc(&self, kernel: &Kernel, llc: usize) -> Llc {
        Llc {
            nr_cores: kernel.domains.nr_cores(llc),
            nr_at_home: self.at_home[llc],
        }
    }

    /// What an exchange of two tasks gains: tasks that come home, for one that is away; or else by pairing.
    fn gain(&self, own: &Candidate, other: &Candidate) -> u64 {
        if own.home.is_some() {
            return u64::from(own.stay().gain(&other.stay()));
        }
        let pair = Pair {
            own_need: own.need,
            other_need: other.need,
            own_sum: self.need[own.here],
            other_sum: self.need[other.here],
        };
        other.home.map_or_else(|| pair.gain(), |_| 0)
    }
}

impl Threadwise {
    fn candidate(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<Candidate> {
        let task = kernel.cpus[cpu].running?;
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        Some(Candidate {
            need: self.need_of(kernel, task),
            home: self.home_of(kernel, program, nr_ready),
            here: kernel.domains.llc_of(cpu),
            rests: !self.tasks[task].rest.may_change(kernel.now),
        })
    }

    /// The program of a task that is away from home may be at home here from now on.
    fn move_home(&mut self, kernel: &Kernel, task: TaskIndex, own: &Candidate, sums: &Sums) -> bool {
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        let home = own.home.map(|home| sums.llc(kernel, home));
        let moves = home.is_some_and(|home| home.is_left_for(&sums.llc(kernel, own.here), nr_ready));
        if moves {
            self.homes[program] = Some(own.here);
        }
        moves
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

    /// A CPU keeps its task. If that would be better off behind another cache, in place of one that would not be worse off
    /// here, this one's CPU is asked for the exchange.
    pub(super) fn exchange(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        let (now, total, caches) = (kernel.now, kernel.cpus.len(), kernel.domains.nr_llcs());
        let soon = |since: Option<u64>, ns: u64| since.is_some_and(|since| now - since < ns);
        if !self.has_mode()
            || caches < 2
            || total > IDLE_SCAN
            || self.tasks_wait
            || soon(self.looked_at[cpu], exchange_every_ns())
            || soon(self.exchanged_at, exchange_gap_ns())
        {
            return;
        }
        self.looked_at[cpu] = Some(now);
        let Some(own) = self.candidate(kernel, cpu) else {
            return;
        };
        if own.rests || own.home == Some(own.here) || (own.home.is_none() && own.need == 0) {
            return;
        }
        let candidates: Vec<_> = (0..total).map(|cpu| self.candidate(kernel, cpu)).collect();
        let sums = Sums::of(caches, &candidates);
        if self.move_home(kernel, task, &own, &sums) {
            return;
        }
        if let Some(other) = self.find_partner(kernel, (task, cpu), &candidates, &sums) {
            self.exchanged_at = Some(now);
            for changes in [Some(task), kernel.cpus[other].running].into_iter().flatten() {
                self.tasks[changes].rest.note_change(now);
            }
            self.called_to[other] = Some(cpu);
            kernel.kick_preempt(other);
        }
    }
}
