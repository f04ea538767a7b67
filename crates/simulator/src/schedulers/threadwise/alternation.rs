// SPDX-License-Identifier: GPL-2.0-only
//! Programs that run one after the other (`alternation.bpf.h`).

use threadwise_policy::alternation::{AlternateBy, Alternation, Look, PROGRAMS, Work};
use threadwise_policy::{Counts, IDLE_SCAN, Members, Task, Witness};

use super::Threadwise;
use crate::kernel::{CpuIndex, Kernel, QueueIndex, TaskIndex};

/// Who has turns (`struct alternating`).
#[derive(Debug, Default)]
pub(super) struct Alternating {
    pub(super) by: AlternateBy,
    members: Members,
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

    /// The size of the one last-level cache, where members are found by resident sets.
    fn cache_bytes(&self, kernel: &Kernel) -> Option<u64> {
        (self.by == AlternateBy::Resident).then(|| kernel.cache_bytes(0).unwrap_or(0))
    }

    /// A task of this program ran while its counters counted this, if that is not lost.
    pub(super) fn note_work(&mut self, program: usize, counts: Option<Counts>) {
        self.members
            .note_work(&mut self.done, id_of(program), counts.as_ref());
    }
}

impl Threadwise {
    /// The program of a task that has to wait for its program's turn.
    pub(super) fn held_as(&self, kernel: &Kernel, task: TaskIndex) -> Option<usize> {
        let program = kernel.tasks[task].program;
        self.alternating.members.held_as(id_of(program))
    }

    /// The timer begins with the first task.
    pub(super) fn start_alternation(&mut self, kernel: &mut Kernel) {
        if self.alternating.is_on() && !std::mem::replace(&mut self.alternating.is_started, true) {
            kernel.start_other_timer(self.alternating.state.look_in_ns());
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
        let witness = Witness {
            id: id_of(kernel.tasks[task].program),
            class: self.class_of(kernel, task),
            resident_bytes: kernel.resident_bytes(task),
            need: self.tasks[task].need.need(),
        };
        let cache_bytes = self.alternating.cache_bytes(kernel);
        self.alternating
            .members
            .consider(&witness, cache_bytes, kernel.now);
    }

    /// Who is there, and has a ready thread.
    fn look_at_members(&mut self, kernel: &Kernel) -> Look {
        let mut look = Look {
            now_ns: kernel.now,
            done: self.alternating.done,
            ..Look::default()
        };
        let mut members = self.alternating.members;
        members.look_at(&mut look, self.alternating.cache_bytes(kernel), |id| {
            self.nr_ready_of(kernel, id as usize - 1)
        });
        self.alternating.members = members;
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
        let look = self.look_at_members(kernel);
        let alternating = &mut self.alternating;
        match alternating.cache_bytes(kernel) {
            Some(bytes) => {
                let was = alternating.state.takes_turns();
                let exceed = alternating.members.exceed_cache(&look, bytes, was);
                alternating.state.look_by_resident(&look, exceed);
            }
            None => alternating.state.look(&look),
        }
        let held = alternating.state.held();
        if alternating.members.hold(held) {
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

/// What the policy calls a program: not 0.
fn id_of(program: usize) -> u32 {
    program as u32 + 1
}
