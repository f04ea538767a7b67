// SPDX-License-Identifier: GPL-2.0-only
//! Idle CPUs by what they share with those that are busy, where a mode was asked for (`spread.bpf.h`).

use threadwise_policy::{Class, IDLE_SCAN, Mode, Spot, founds_home, spill};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, TaskIndex};

/// How many CPUs are busy, in each last-level cache and each package (`struct tally`).
struct Tally {
    llc: Vec<u32>,
    package: Vec<u32>,
}

impl Tally {
    /// Of all CPUs, from this one on (`first` is 0), or of those after it (1).
    fn of(kernel: &Kernel, from: CpuIndex, first: usize) -> Self {
        let (nr, domains) = (kernel.cpus.len(), &kernel.domains);
        let mut tally = Self {
            llc: vec![0; domains.nr_llcs()],
            package: vec![0; domains.nr_llcs()],
        };
        for step in first..nr.min(IDLE_SCAN) {
            let cpu = (from + step) % nr;
            if kernel.is_online(cpu) && !kernel.is_idle(cpu) {
                tally.llc[domains.llc_of(cpu)] += 1;
                tally.package[domains.package_of(cpu)] += 1;
            }
        }
        tally
    }
}

/// A task that looks for a CPU (`struct seeker`).
#[derive(Clone, Copy)]
struct Seeker {
    task: TaskIndex,
    /// Where it ran.
    prev: CpuIndex,
    /// Where its program is at home, and how many threads of that are ready.
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

    /// A CPU as a task sees it.
    fn spot_of(&self, kernel: &Kernel, seeker: &Seeker, cpu: CpuIndex, tally: &Tally) -> Spot {
        let &Seeker {
            task,
            prev,
            home,
            nr_ready,
        } = seeker;
        let (llc, package) = (kernel.domains.llc_of(cpu), kernel.domains.package_of(cpu));
        let same_package = home.is_some_and(|home| kernel.domains.shares_package(home, cpu));
        let nr_cores = home.map_or(0, |home| kernel.domains.nr_cores(home));
        Spot {
            seat: self.seat_of(kernel, task, cpu, prev),
            spill: spill(home, llc, same_package, nr_ready, nr_cores),
            away: kernel.domains.is_across(prev, cpu) && !self.tasks[task].rest.may_change(kernel.now),
            nr_busy_llc: tally.llc[llc],
            nr_busy_package: tally.package[package],
        }
    }

    /// The best of the idle CPUs for a task.
    fn find_spot(&self, kernel: &Kernel, seeker: &Seeker, tally: &Tally) -> Option<(Spot, CpuIndex)> {
        let &Seeker { task, prev, .. } = seeker;
        let nr = kernel.cpus.len();
        let mut best: Option<(u32, Spot, CpuIndex)> = None;
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (prev + step) % nr;
            if !kernel.is_idle(cpu) || !kernel.may_run(task, cpu) {
                continue;
            }
            let spot = self.spot_of(kernel, seeker, cpu, tally);
            let Some(rank) = spot.rank(self.mode) else {
                continue;
            };
            if best.is_none_or(|(least, ..)| rank < least) {
                best = Some((rank, spot, cpu));
            }
        }
        best.map(|(_, spot, cpu)| (spot, cpu))
    }

    /// An idle CPU as the mode wants it for a task, claimed: one that wakes up takes the best, one of this class that `runs` leaves its
    /// own only for a better one.
    pub(super) fn claim_spot(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        runs: Option<Class>,
    ) -> Option<CpuIndex> {
        let (program, nr_ready) = self.find_home(kernel, kernel.tasks[task].program);
        let nr_others = nr_ready.saturating_sub(1);
        let seeker = Seeker {
            task,
            prev,
            home: self.homes[program],
            nr_ready: if runs.is_some() { nr_ready } else { nr_others + 1 },
        };
        // One that runs is not counted, which would make all others of its package look busier, or fuller, than its own.
        let tally = Tally::of(kernel, prev, usize::from(runs.is_some()));
        let own = runs.map(|class| (class, self.spot_of(kernel, &seeker, prev, &tally)));
        let (spot, best) = self.find_spot(kernel, &seeker, &tally)?;
        let stays = own.is_some_and(|(class, own)| !own.is_left_for(&spot, class, self.mode));
        if stays || !kernel.claim_idle(best) {
            return None;
        }
        if kernel.domains.is_across(prev, best) {
            self.tasks[task].rest.note_change(kernel.now);
        }
        if founds_home(nr_others) {
            self.homes[program] = Some(kernel.domains.llc_of(best));
        }
        Some(best)
    }
}
