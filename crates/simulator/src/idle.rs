// SPDX-License-Identifier: GPL-2.0-only
//! Idle CPUs, as sched_ext keeps them (kernel/sched/ext_idle.c): where the kernel knows which CPUs share a core, it also knows
//! of which cores all are idle, and looks there first.

use crate::kernel::CpuIndex;
use crate::mask::CpuMask;

/// CPUs that have nothing to do and that nobody has claimed.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    cpus: CpuMask,
    /// Those of which the whole core is idle, where cores are known.
    whole: Option<CpuMask>,
    /// Those that are not there, of which nothing runs.
    offline: CpuMask,
    /// By CPU, those of its core.
    cores: Vec<Vec<CpuIndex>>,
    cursor: CpuIndex,
}

impl Idle {
    /// All are idle. `cores` has for each CPU those of its core; the kernel knows it if `knows_cores`.
    pub(crate) fn all(cores: Vec<Vec<CpuIndex>>, knows_cores: bool) -> Self {
        let mut cpus = CpuMask::none(cores.len());
        (0..cores.len()).for_each(|cpu| cpus.add(cpu));
        Self {
            whole: knows_cores.then(|| cpus.clone()),
            cpus,
            offline: CpuMask::none(cores.len()),
            cores,
            cursor: 0,
        }
    }

    /// Whether the kernel knows which CPUs share a core.
    pub(crate) fn knows_cores(&self) -> bool {
        self.whole.is_some()
    }

    /// The CPUs of its core, which the kernel may not know.
    pub(crate) fn core_of(&self, cpu: CpuIndex) -> &[CpuIndex] {
        &self.cores[cpu]
    }

    pub(crate) fn has(&self, cpu: CpuIndex) -> bool {
        self.cpus.has(cpu)
    }

    /// Those of these CPUs, ascending.
    pub(crate) fn among<'m>(&'m self, cpus: &'m CpuMask) -> impl Iterator<Item = CpuIndex> + 'm {
        self.cpus.shared(cpus)
    }

    /// The first of these CPUs from this one on, after the last the first.
    pub(crate) fn next_among(&self, cpus: &CpuMask, from: CpuIndex) -> Option<CpuIndex> {
        self.cpus.next_in(cpus, from)
    }

    pub(crate) fn add(&mut self, cpu: CpuIndex) {
        self.cpus.add(cpu);
        self.find_whole(cpu);
    }

    /// Notes whether the whole core of a CPU is idle, as far as it is there.
    fn find_whole(&mut self, cpu: CpuIndex) {
        let core = &self.cores[cpu];
        let runs = |other: &CpuIndex| !self.cpus.has(*other) && !self.offline.has(*other);
        if let Some(whole) = self.whole.as_mut().filter(|_| !core.iter().any(runs)) {
            let idle = core.iter().filter(|&&other| self.cpus.has(other));
            idle.for_each(|&other| whole.add(other));
        }
    }

    /// A CPU goes offline.
    pub(crate) fn leave(&mut self, cpu: CpuIndex) {
        self.remove(cpu);
        self.offline.add(cpu);
        self.find_whole(cpu);
    }

    /// It is there again, and not idle yet.
    pub(crate) fn come(&mut self, cpu: CpuIndex) {
        self.offline.remove(cpu);
        self.remove(cpu);
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, cpu: CpuIndex) -> bool {
        if let Some(whole) = &mut self.whole {
            for &other in &self.cores[cpu] {
                whole.remove(other);
            }
        }
        self.cpus.remove(cpu)
    }

    /// Claims this CPU if its whole core is idle; never where cores are not known.
    pub(crate) fn claim_if_whole(&mut self, cpu: CpuIndex) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.has(cpu)) && self.remove(cpu)
    }

    /// Claims a CPU of an idle core, each time from where it found the last.
    pub(crate) fn claim_whole(&mut self) -> Option<CpuIndex> {
        let found = self.whole.as_ref()?.next(self.cursor, None)?;
        Some(self.claim(found))
    }

    /// Claims any, of an idle core if there is one.
    pub(crate) fn claim_any(&mut self) -> Option<CpuIndex> {
        if let Some(found) = self.claim_whole() {
            return Some(found);
        }
        let found = self.cpus.next(self.cursor, None)?;
        Some(self.claim(found))
    }

    /// Claims one of these of which the whole core is idle.
    pub(crate) fn claim_whole_in(&mut self, allowed: &CpuMask) -> Option<CpuIndex> {
        let found = self.whole.as_ref()?.next_in(allowed, self.cursor)?;
        Some(self.claim(found))
    }

    /// Claims any of these, of an idle core if there is one.
    pub(crate) fn claim_any_in(&mut self, allowed: &CpuMask) -> Option<CpuIndex> {
        if let Some(found) = self.claim_whole_in(allowed) {
            return Some(found);
        }
        let found = self.cpus.next_in(allowed, self.cursor)?;
        Some(self.claim(found))
    }

    /// Claims the first of these from this one on, of an idle core if there is one, wherever others found theirs.
    pub(crate) fn claim_next_in(&mut self, allowed: &CpuMask, from: CpuIndex) -> Option<CpuIndex> {
        let whole = self.whole.as_ref().and_then(|whole| whole.next_in(allowed, from));
        let found = whole.or_else(|| self.cpus.next_in(allowed, from))?;
        self.remove(found);
        Some(found)
    }

    fn claim(&mut self, cpu: CpuIndex) -> CpuIndex {
        self.remove(cpu);
        self.cursor = (cpu + 1) % self.cores.len();
        cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cores(knows_cores: bool) -> Idle {
        Idle::all(vec![vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3]], knows_cores)
    }

    #[test]
    fn whole_cores_come_first() {
        let mut idle = two_cores(true);
        let claimed: Vec<_> = std::iter::from_fn(|| idle.claim_any()).collect();
        assert_eq!(claimed, [0, 2, 3, 1]);
        idle.add(3);
        assert!(!idle.claim_if_whole(3) && idle.claim_whole().is_none());
        idle.add(2);
        assert!(idle.claim_if_whole(3) && !idle.claim_if_whole(2) && idle.remove(2));
    }

    #[test]
    fn a_core_is_whole_without_what_is_offline() {
        let mut idle = two_cores(true);
        assert!(idle.remove(2));
        idle.leave(1);
        assert_eq!(idle.claim_whole(), Some(0));
        idle.add(0);
        assert!(idle.claim_if_whole(0) && !idle.has(1));
        idle.add(0);
        idle.come(1);
        assert!(!idle.claim_if_whole(0) && idle.claim_whole().is_none());
        idle.add(1);
        assert!(idle.claim_if_whole(0));
    }

    #[test]
    fn who_does_not_know_cores_takes_siblings() {
        let mut idle = two_cores(false);
        let claimed: Vec<_> = std::iter::from_fn(|| idle.claim_any()).collect();
        assert_eq!(claimed, [0, 1, 2, 3]);
        idle.add(0);
        idle.add(1);
        assert!(!idle.claim_if_whole(0) && idle.claim_whole().is_none());
    }
}
