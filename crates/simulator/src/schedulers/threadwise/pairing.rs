// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that need much of a last-level cache beside those that need little (`pairing.bpf.h`).

use threadwise_policy::{Mode, Need, Pair, PairingBy, pairing_every_ns, pairing_gap_ns};

use super::{IDLE_SCAN, Threadwise};
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    /// By what pairing goes: hardware counters are there.
    fn pairs_by(&self, kernel: &Kernel) -> PairingBy {
        let several = kernel.domains.nr_llcs() > 1 && self.mode == Mode::Performance && self.nr_faster == 0;
        match self.pairing {
            _ if !several => PairingBy::Off,
            PairingBy::Auto => PairingBy::Counters,
            by => by,
        }
    }

    /// Takes what a task's counters say into what is known of it (`note_runtime`).
    pub(super) fn note_counts(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        if self.pairs_by(kernel) != PairingBy::Counters && !self.alternating.counts() {
            return;
        }
        let counts = kernel.sample(task);
        if let Some(counts) = &counts {
            self.tasks[task].need.note(counts);
        }
        if self.alternating.counts() {
            self.alternating.note_work(kernel.tasks[task].program, counts);
        }
    }

    /// What a task needs of its last-level cache.
    fn need_of(&self, kernel: &Kernel, task: TaskIndex) -> u32 {
        match self.pairs_by(kernel) {
            PairingBy::Counters => self.tasks[task].need.need(),
            PairingBy::Resident => {
                let cache = kernel.cache_bytes(kernel.domains.llc_of(kernel.tasks[task].cpu));
                let nr_ready = self.nr_ready_of(kernel, kernel.tasks[task].program);
                Need::of_resident(kernel.resident_bytes(task), cache.unwrap_or(0), nr_ready)
            }
            _ => 0,
        }
    }

    /// Whether a task may change places with one of this CPU: not where its program is at home, nor while it rests.
    fn may_pair(&self, kernel: &Kernel, task: TaskIndex, to: CpuIndex) -> bool {
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        let home = self.home_of(kernel, program, nr_ready);
        home.is_none() && kernel.may_run(task, to) && self.tasks[task].rest.may_change(kernel.now)
    }

    /// A CPU keeps its task. If that would be better off behind another cache, in place of one that needs less, this one's CPU
    /// is asked for the exchange.
    pub(super) fn pair(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: TaskIndex) {
        let now = kernel.now;
        let rests = |since: Option<u64>, ns: u64| since.is_some_and(|since| now - since < ns);
        if matches!(self.pairs_by(kernel), PairingBy::Off | PairingBy::Faults)
            || kernel.cpus.len() > IDLE_SCAN
            || self.tasks_wait
            || rests(self.paired_at[cpu], pairing_every_ns())
            || rests(self.last_pairing, pairing_gap_ns())
        {
            return;
        }
        self.paired_at[cpu] = Some(now);
        let own_need = self.need_of(kernel, task);
        if own_need == 0 || !self.may_pair(kernel, task, cpu) {
            return;
        }
        let (total, llc_of) = (kernel.cpus.len(), |cpu: CpuIndex| kernel.domains.llc_of(cpu));
        let mut sums = vec![0u64; kernel.domains.nr_llcs()];
        let mut others = Vec::new();
        for step in 0..total {
            let other = (cpu + step) % total;
            let Some(running) = kernel.cpus[other].running else {
                continue;
            };
            let need = self.need_of(kernel, running);
            sums[llc_of(other)] += u64::from(need);
            if llc_of(other) != llc_of(cpu)
                && kernel.may_run(task, other)
                && self.may_pair(kernel, running, cpu)
            {
                others.push((other, need));
            }
        }
        let gain = |&(other, other_need): &(CpuIndex, u32)| {
            let pair = Pair {
                own_need,
                other_need,
                own_sum: sums[llc_of(cpu)],
                other_sum: sums[llc_of(other)],
            };
            pair.gain()
        };
        let mut best: Option<(u64, CpuIndex)> = None;
        for other in &others {
            let gain = gain(other);
            if gain > best.map_or(0, |(most, _)| most) {
                best = Some((gain, other.0));
            }
        }
        if let Some((_, other)) = best {
            self.last_pairing = Some(now);
            for changes in [Some(task), kernel.cpus[other].running].into_iter().flatten() {
                self.tasks[changes].rest.note_change(now);
            }
            self.called_to[other] = Some(cpu);
            kernel.kick_preempt(other);
        }
    }
}
