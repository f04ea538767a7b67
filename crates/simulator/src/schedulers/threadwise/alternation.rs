// SPDX-License-Identifier: GPL-2.0-only
//! Programs that run one after the other (`alternation.bpf.h`).

use threadwise_policy::alternation::{
    AlternateBy, Alternation, Look, PROGRAMS, Work, alternation_need, exceed_cache, fills_cache, is_gone,
    outgrows_cache,
};
use threadwise_policy::{Class, Counts, IDLE_SCAN, Task};

use super::Threadwise;
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, QueueIndex, TaskIndex};

/// Who has turns (`struct alternating`).
#[derive(Debug, Default)]
pub(super) struct Alternating {
    pub(super) by: AlternateBy,
    /// The programs, when each was last seen to have a ready thread, and its resident set.
    programs: [Option<usize>; PROGRAMS],
    ready_ns: [Ns; PROGRAMS],
    resident: [u64; PROGRAMS],
    /// Those of whom it is not the turn.
    held: [Option<usize>; PROGRAMS],
    state: Alternation,
    done: Work,
    /// The queue of the first program.
    pub(super) queues: QueueIndex,
    is_started: bool,
    /// At which CPU the next look begins.
    cursor: CpuIndex,
}

impl Alternating {
    pub(super) fn new(kernel: &mut Kernel) -> Self {
        Self {
            queues: kernel.create_queues(PROGRAMS),
            ..Self::default()
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.by != AlternateBy::Off
    }

    pub(super) fn counts(&self) -> bool {
        matches!(self.by, AlternateBy::Counters | AlternateBy::Auto)
    }

    fn slot_of(&self, program: usize) -> Option<usize> {
        self.programs.iter().position(|&known| known == Some(program))
    }

    /// A task of this program ran while its counters counted this, if that is not lost.
    pub(super) fn note_work(&mut self, program: usize, counts: Option<Counts>) {
        self.done.nr_samples += 1;
        let Some(counts) = counts else {
            self.done.nr_lost += 1;
            return;
        };
        self.done.machine += counts.instructions;
        if let Some(slot) = self.slot_of(program) {
            self.done.of[slot] += counts.instructions;
        }
    }
}

impl Threadwise {
    /// The program of a task that has to wait for its program's turn.
    pub(super) fn held_as(&self, kernel: &Kernel, task: TaskIndex) -> Option<usize> {
        let program = kernel.tasks[task].program;
        let held = |&held: &Option<usize>| held == Some(program);
        self.alternating.held.iter().position(held)
    }

    /// The timer begins with the first task.
    pub(super) fn start_alternation(&mut self, kernel: &mut Kernel) {
        if self.alternating.is_on() && !std::mem::replace(&mut self.alternating.is_started, true) {
            kernel.start_other_timer(self.alternating.state.look_in_ns());
        }
    }

    fn is_worth_turns(&self, kernel: &Kernel, task: TaskIndex) -> bool {
        match self.alternating.by {
            AlternateBy::Resident => fills_cache(kernel.resident_bytes(task), cache_bytes(kernel)),
            _ => self.tasks[task].need.need() >= alternation_need(),
        }
    }

    /// What runs on some CPUs is considered.
    fn consider_some(&mut self, kernel: &Kernel) {
        let nr = kernel.cpus.len();
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (self.alternating.cursor + step) % nr;
            if let Some(running) = kernel.cpus[cpu].running {
                self.consider(kernel, running);
            }
        }
        self.alternating.cursor = (self.alternating.cursor + nr.min(IDLE_SCAN)) % nr;
    }

    fn consider(&mut self, kernel: &Kernel, task: TaskIndex) {
        if !matches!(self.class_of(kernel, task), Class::Senior | Class::Parallel) {
            return;
        }
        let program = kernel.tasks[task].program;
        match self.alternating.slot_of(program) {
            Some(slot) => self.alternating.resident[slot] = kernel.resident_bytes(task),
            None if self.is_worth_turns(kernel, task) => {
                let free = self.alternating.programs.iter().position(Option::is_none);
                if let Some(slot) = free {
                    self.alternating.programs[slot] = Some(program);
                    self.alternating.ready_ns[slot] = kernel.now;
                    self.alternating.resident[slot] = 0;
                }
            }
            None => (),
        }
    }

    /// Who is there, and has a ready thread.
    fn look_at_programs(&mut self, kernel: &Kernel) -> Look {
        let mut look = Look {
            now_ns: kernel.now,
            done: self.alternating.done,
            ..Look::default()
        };
        for slot in 0..PROGRAMS {
            let Some(program) = self.alternating.programs[slot] else {
                continue;
            };
            if self.nr_ready_of(kernel, program) > 0 {
                look.ready |= 1 << slot;
                self.alternating.ready_ns[slot] = kernel.now;
            }
            let outgrown = self.alternating.by == AlternateBy::Resident
                && outgrows_cache(self.alternating.resident[slot], cache_bytes(kernel));
            if outgrown || is_gone(self.alternating.ready_ns[slot], kernel.now) {
                self.alternating.programs[slot] = None;
                continue;
            }
            look.members |= 1 << slot;
        }
        look
    }

    /// Tasks whose turn it is go to their CPUs' queues.
    fn release_held(&mut self, kernel: &mut Kernel, slot: usize) {
        let queue = self.alternating.queues + slot;
        while let Some(task) = kernel.peek(queue) {
            let cpu = kernel.tasks[task].cpu;
            let found = Task {
                waits_us: 0,
                ..self.look_at_charged(kernel, task, cpu)
            };
            let unboosted = self.goes_unboosted(kernel, task, found.class);
            let key = self.key_to_queue((&found, unboosted), cpu);
            kernel.move_to_queue(task, self.queues + cpu, self.tun.slice_ns, key);
            self.mark(cpu, kernel.tasks[task].bound_to.is_none());
            self.arm_rotation(kernel, &found, 0);
            self.kick_idle_for(kernel, task);
        }
    }

    fn kick_if_held(&self, kernel: &mut Kernel, cpu: CpuIndex) {
        let running = kernel.cpus[cpu].running;
        if running.is_some_and(|running| self.held_as(kernel, running).is_some()) {
            kernel.kick_preempt(cpu);
        }
    }

    /// The timer: gives turns and takes them.
    pub(super) fn give_turns(&mut self, kernel: &mut Kernel) {
        self.consider_some(kernel);
        let look = self.look_at_programs(kernel);
        let alternating = &mut self.alternating;
        if alternating.by == AlternateBy::Resident {
            let was = alternating.state.takes_turns();
            let exceed = exceed_cache(&alternating.resident, look.members, cache_bytes(kernel), was);
            alternating.state.look_by_resident(&look, exceed);
        } else {
            alternating.state.look(&look);
        }
        let held = alternating.state.held();
        let publish =
            std::array::from_fn(|slot| alternating.programs[slot].filter(|_| held >> slot & 1 == 1));
        if std::mem::replace(&mut alternating.held, publish) != publish {
            for cpu in 0..kernel.cpus.len() {
                self.kick_if_held(kernel, cpu);
            }
        }
        for slot in (0..PROGRAMS).filter(|slot| held >> slot & 1 == 0) {
            self.release_held(kernel, slot);
        }
        kernel.start_other_timer(self.alternating.state.look_in_ns());
    }
}

/// The size of the one last-level cache.
fn cache_bytes(kernel: &Kernel) -> u64 {
    kernel.cache_bytes(0).unwrap_or(0)
}
