// SPDX-License-Identifier: GPL-2.0-only
//! Idle CPUs by what they share with those that are busy, where a mode was asked for (`spread.bpf.h`).

use threadwise_policy::{Mode, Spot, founds_home, spill};

use super::{IDLE_SCAN, Threadwise};
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// How many CPUs are busy, in each last-level cache and each package (`struct tally`).
struct Tally {
    llc: Vec<u32>,
    package: Vec<u32>,
}

impl Tally {
    fn of(kernel: &Kernel, from: CpuIndex) -> Self {
        let (nr, domains) = (kernel.cpus.len(), &kernel.domains);
        let mut tally = Self {
            llc: vec![0; domains.nr_llcs()],
            package: vec![0; domains.nr_llcs()],
        };
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (from + step) % nr;
            if !kernel.is_idle(cpu) {
                tally.llc[domains.llc_of(cpu)] += 1;
                tally.package[domains.package_of(cpu)] += 1;
            }
        }
        tally
    }
}

/// Where a task's program is at home, and how many of its threads are ready.
#[derive(Clone, Copy)]
struct Household {
    home: Option<usize>,
    nr_ready: u32,
}

impl Threadwise {
    pub(super) fn has_mode(&self) -> bool {
        self.mode != Mode::Near
    }

    /// How many threads of the program are counted as ready: none of one that has too few to be ever parallel
    /// (`tw_is_counted()`).
    pub(super) fn nr_ready_of(&self, kernel: &Kernel, program: usize) -> u32 {
        if self.is_counted(kernel, program) {
            self.groups[program].nr_ready()
        } else {
            0
        }
    }

    /// A CPU as a task of this program sees it that ran on `prev`.
    fn spot_of(
        &self,
        kernel: &Kernel,
        (task, prev): (TaskIndex, CpuIndex),
        cpu: CpuIndex,
        Household { home, nr_ready }: Household,
        tally: &Tally,
    ) -> Spot {
        let (llc, package) = (kernel.domains.llc_of(cpu), kernel.domains.package_of(cpu));
        let same_package = home.is_some_and(|home| kernel.domains.shares_package(home, cpu));
        let nr_cores = home.map_or(0, |home| kernel.domains.nr_cores(home));
        Spot {
            seat: self.seat_of(kernel, task, cpu, prev),
            spill: spill(home, llc, same_package, nr_ready, nr_cores),
            nr_busy_llc: tally.llc[llc],
            nr_busy_package: tally.package[package],
        }
    }

    /// The best of the idle CPUs for a task of this program that ran on `prev`.
    fn find_spot(
        &self,
        kernel: &Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        of: Household,
        tally: &Tally,
    ) -> Option<(Spot, CpuIndex)> {
        let nr = kernel.cpus.len();
        let mut best: Option<(u32, Spot, CpuIndex)> = None;
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (prev + step) % nr;
            if !kernel.is_idle(cpu) || !kernel.may_run(task, cpu) {
                continue;
            }
            let spot = self.spot_of(kernel, (task, prev), cpu, of, tally);
            let Some(rank) = spot.rank(self.mode) else {
                continue;
            };
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, spot, cpu));
            }
        }
        best.map(|(_, spot, cpu)| (spot, cpu))
    }

    /// An idle CPU as the mode wants it for a task that wakes up, claimed.
    pub(super) fn claim_spot(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
    ) -> Option<CpuIndex> {
        // Here it is counted after this, in the kernel before.
        let (program, nr_others) = self.find_home(kernel, kernel.tasks[task].program);
        let tally = Tally::of(kernel, prev);
        let of = Household {
            home: self.homes[program],
            nr_ready: nr_others + 1,
        };
        let (_, best) = self.find_spot(kernel, task, prev, of, &tally)?;
        if !kernel.claim_idle(best) {
            return None;
        }
        if founds_home(nr_others) {
            self.homes[program] = Some(kernel.domains.llc_of(best));
        }
        Some(best)
    }

    /// An idle CPU for which a running task leaves its own, claimed.
    pub(super) fn find_better_spot(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        cpu: CpuIndex,
    ) -> Option<CpuIndex> {
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        let of = Household {
            home: self.homes[program],
            nr_ready,
        };
        let tally = Tally::of(kernel, cpu);
        let mut own = self.spot_of(kernel, (task, cpu), cpu, of, &tally);
        // Itself.
        own.nr_busy_llc = own.nr_busy_llc.saturating_sub(1);
        own.nr_busy_package = own.nr_busy_package.saturating_sub(1);
        let (spot, best) = self.find_spot(kernel, task, cpu, of, &tally)?;
        if !own.is_left_for(&spot, self.mode) || !kernel.claim_idle(best) {
            return None;
        }
        if founds_home(nr_ready.saturating_sub(1)) {
            self.homes[program] = Some(kernel.domains.llc_of(best));
        }
        Some(best)
    }
}
