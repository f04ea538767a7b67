// SPDX-License-Identifier: GPL-2.0-only
//! Whole cores (`smt.bpf.h`). Idle cores are never lost here as the kernel's are, so nobody looks for lost ones.

use threadwise_policy::{Class, IDLE_SCAN, Seat};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

impl Threadwise {
    /// Whether anything runs on the other hardware threads of the CPU's core, and whether that is serial.
    pub(super) fn look_at_core(&self, kernel: &Kernel, cpu: CpuIndex) -> (bool, bool) {
        let others = kernel.core_of(cpu).iter().filter(|&&other| other != cpu);
        others
            .filter(|&&other| kernel.is_online(other) && !kernel.is_idle(other))
            .fold((false, false), |(_, serial), &other| {
                let runs_serial = |task| self.class_of(kernel, task) == Class::Serial;
                (
                    true,
                    serial || kernel.cpus[other].running.is_some_and(runs_serial),
                )
            })
    }

    /// An idle CPU as a task sees it that ran on `prev`.
    pub(super) fn seat_of(&self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex, prev: CpuIndex) -> Seat {
        let first_of = |cpu: CpuIndex| kernel.core_of(cpu)[0];
        let first = first_of(cpu);
        let (shared, beside_serial) = self.look_at_core(kernel, cpu);
        Seat {
            shared,
            beside_serial,
            same_cpu: cpu == prev,
            same_core: first == first_of(prev),
            first: cpu == first || !kernel.may_run(task, first),
        }
    }

    /// The best of the idle CPUs of less rank than `limit` for a task that ran on `prev`.
    pub(super) fn best_seat(
        &self,
        kernel: &Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        limit: u32,
    ) -> Option<CpuIndex> {
        let nr = kernel.cpus.len();
        let mut best: Option<(u32, CpuIndex)> = None;
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (prev + step) % nr;
            if !kernel.is_idle(cpu) || !kernel.may_run(task, cpu) {
                continue;
            }
            let seat = self.seat_of(kernel, task, cpu, prev);
            let Some(rank) = seat.rank().filter(|&rank| rank < limit) else {
                continue;
            };
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, cpu));
            }
            if rank == Seat::BEST {
                break;
            }
        }
        best.map(|(_, cpu)| cpu)
    }

    pub(super) fn claim_seat(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        limit: u32,
    ) -> Option<CpuIndex> {
        let best = self.best_seat(kernel, task, prev, limit)?;
        kernel.claim_idle(best).then_some(best)
    }

    pub(super) fn claim_whole_core(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
    ) -> Option<CpuIndex> {
        if self.hidden_smt {
            self.claim_seat(kernel, task, prev, Seat::SHARED)
        } else {
            kernel.claim_idle_core(task)
        }
    }

    /// The idle CPU that the kernel claimed for a task, or in its place, where that shares a core, one that is not beside a serial
    /// task, or another of the core that the task left.
    pub(super) fn prefer_core(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        cpu: CpuIndex,
    ) -> CpuIndex {
        let claimed = self.seat_of(kernel, task, cpu, prev);
        if !claimed.shared {
            return cpu;
        }
        let limit = self
            .class_of(kernel, task)
            .leaves_seat_for(claimed.shared, claimed.beside_serial);
        if limit == Seat::BESIDE_SERIAL
            && let Some(better) = self.claim_seat(kernel, task, prev, limit)
        {
            kernel.kick(cpu);
            return better;
        }
        if claimed.same_core {
            return cpu;
        }
        let limit = claimed.rank().unwrap_or(Seat::NONE);
        let goes_before = |&other: &CpuIndex| {
            let is_free = kernel.is_idle(other) && kernel.may_run(task, other);
            let seat = is_free.then(|| self.seat_of(kernel, task, other, prev));
            seat.and_then(|seat| seat.rank()).is_some_and(|rank| rank < limit)
        };
        let better = kernel.core_of(prev).iter().copied().find(goes_before);
        match better.filter(|&better| kernel.claim_idle(better)) {
            Some(better) => {
                kernel.kick(cpu);
                better
            }
            None => cpu,
        }
    }

    /// An idle CPU for which a running task of this class leaves its own.
    pub(super) fn find_better_seat(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        cpu: CpuIndex,
    ) -> Option<CpuIndex> {
        let (shared, beside_serial) = self.look_at_core(kernel, cpu);
        match class.leaves_seat_for(shared, beside_serial) {
            Seat::BEST => None,
            Seat::SHARED => self.claim_whole_core(kernel, task, cpu),
            limit => self.claim_seat(kernel, task, cpu, limit),
        }
    }
}
