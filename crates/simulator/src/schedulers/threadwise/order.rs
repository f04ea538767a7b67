// SPDX-License-Identifier: GPL-2.0-only
//! Tasks as the ordering sees them, their vtime up to date (`order.bpf.h`).

use threadwise_policy::{Beside, Class, Origin, Run, Task, here_ns, waits_us, weight_among};

use super::{Threadwise, uptime};
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, Place, TaskIndex};

impl Threadwise {
    pub(super) fn class_of(&self, kernel: &Kernel, task: TaskIndex) -> Class {
        let program = kernel.tasks[task].program;
        let nr_ready = self.groups[program].nr_ready();
        self.tun.class_of(nr_ready, false, self.senior == Some(program))
    }

    /// Whether a task of this class goes by its vtime although it is serial. Parallel ones that may run on one CPU only leave word
    /// there.
    pub(super) fn goes_unboosted(&self, kernel: &Kernel, task: TaskIndex, class: Class) -> bool {
        let Some(cpu) = kernel.tasks[task].bound_to else {
            return false;
        };
        let parallel_at = &self.bound_parallel_at[cpu];
        if class != Class::Serial {
            parallel_at.set(Some(kernel.now));
            return false;
        }
        let nr_threads = kernel.nr_threads[kernel.tasks[task].program];
        let unboosted = |at| self.tun.goes_unboosted(nr_threads, kernel.now - at);
        parallel_at.get().is_some_and(unboosted)
    }

    /// What a task weighs among those that run.
    pub(super) fn weight_of(&self, kernel: &Kernel, task: TaskIndex) -> u32 {
        weight_among(kernel.tasks[task].weight, self.crowd.mean_weight())
    }

    /// What a task is, and its vtime up to date.
    pub(super) fn look_at(&self, kernel: &Kernel, task: TaskIndex, ahead_ns: Ns, waking: bool) -> Task {
        let (state, context) = (&kernel.tasks[task], &self.tasks[task]);
        let group = &self.groups[state.program];
        let ran_ns = state.ran + ahead_ns - context.charged_ns;
        let ready_ns = if waking { 0 } else { kernel.now - state.arrived };
        let slept = waking || state.nr_sleeps != context.nr_sleeps;
        let class = self.class_of(kernel, task);
        let mut run = Run {
            before_ns: 0,
            since_ns: ran_ns,
            weight: self.weight_of(kernel, task),
            capacity: self.capacities[state.cpu],
            nr_waiting: self.nr_waiting(kernel, state.cpu),
            boost_left: self.crowd.boost_left(),
            origin: Origin::Charge,
            unboosted: u32::from(self.goes_unboosted(kernel, task, class)),
            others_wait: u32::from(self.tasks_wait),
        };
        let threshold = self.tun.serial_threshold;
        run.find_origin(group, context.phase, ready_ns, slept, uptime(kernel), threshold);
        let vtime = match run.origin {
            Origin::Phase => group.base(self.vtime_now),
            _ => context.vtime,
        };
        let is_here = class == Class::Serial && !waking;
        Task {
            vtime: self.tun.vtime_advance(vtime, &run, self.vtime_now, class),
            here_ns: if is_here {
                here_ns(kernel.now - state.arrived)
            } else {
                0
            },
            class,
            nr_waiting: run.nr_waiting,
            boost_left: if run.unboosted == 0 { run.boost_left } else { 0 },
            waits_us: 0,
            step_ns: self.step(kernel, task, class),
        }
    }

    /// What a running task is to one that waits.
    pub(super) fn beside(kernel: &Kernel, running: TaskIndex, waiting: TaskIndex) -> Beside {
        let [running, waiting] = [running, waiting].map(|task| &kernel.tasks[task]);
        Beside {
            running_bound: running.bound_to.is_some(),
            waiting_bound: waiting.bound_to.is_some(),
            of_one_program: running.program == waiting.program,
        }
    }

    /// A step at the beginning of a phase.
    pub(super) fn shortest_step(&self) -> Ns {
        self.tun.step(Class::Senior, 0, self.rotation.look_ns)
    }

    /// How far a task of this class may run ahead of one that waits before it yields.
    pub(super) fn step(&self, kernel: &Kernel, task: TaskIndex, class: Class) -> u32 {
        let age_ns = self.groups[kernel.tasks[task].program].age_ns(uptime(kernel));
        self.tun.step(class, age_ns, self.rotation.look_ns) as u32
    }

    /// A task that runs on or waits for this CPU, with its vtime as last charged.
    pub(super) fn look_at_charged(&self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) -> Task {
        let class = self.class_of(kernel, task);
        Task {
            vtime: self.tasks[task].vtime,
            here_ns: 0,
            class,
            nr_waiting: self.nr_waiting(kernel, cpu),
            boost_left: match self.goes_unboosted(kernel, task, class) {
                true => 0,
                false => self.crowd.boost_left(),
            },
            waits_us: match kernel.tasks[task].place {
                Place::Queue(_) => waits_us(kernel.now - kernel.tasks[task].waits_since),
                _ => 0,
            },
            step_ns: self.step(kernel, task, class),
        }
    }

    /// The key of a task, without a boost or not, that is about to be queued at a CPU.
    pub(super) fn key_to_queue(&mut self, (task, unboosted): (&Task, bool), cpu: CpuIndex) -> u64 {
        self.keys[cpu].begin(task, self.crowd.boost_left());
        self.tun.key_in(&self.keys[cpu], task, unboosted)
    }

    /// A task that waits in a queue, as a CPU sees it whose own begins with `mine` and that may be behind another cache.
    pub(super) fn seen_from(
        &self,
        kernel: &Kernel,
        (cpu, mine): (CpuIndex, Option<&Task>),
        (queue, waiting): (CpuIndex, &Task),
    ) -> Task {
        let is_across = kernel.domains.is_across(cpu, queue);
        Task {
            vtime: self.tun.vtime_seen(waiting, mine, is_across),
            ..*waiting
        }
    }
}
