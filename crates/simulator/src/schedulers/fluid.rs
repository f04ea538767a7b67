// SPDX-License-Identifier: GPL-2.0-only
//! Perfect sharing, in steps, under the policies of the fluid model (`threadwise_model::fluid`): what there is to be had.
//!
//! No kernel can do it. All tasks are moved at each step as if that cost nothing, so a [`Fluid`] belongs into a world of
//! [`crate::Costs::FREE`]; and [`Policy::Clairvoyant`] has programs say how long their phases last. What CPUs share it does
//! not see, but that siblings come after whole cores: it is a mark where CPUs differ in speed only.

use std::cmp::Reverse;

use threadwise_model::fluid::Policy;

use crate::Ns;
use crate::kernel::{CpuIndex, ENDLESS, Kernel, Place, TaskIndex};
use crate::scheduler::{Enqueue, Scheduler};

/// Perfect sharing in steps.
///
/// At each step, and whenever a task becomes ready or goes to sleep, all tasks leave their CPUs and are placed anew: by
/// tier, in a tier those first that have got the least work, each on the fastest CPU that is left and where it may run. So the
/// tasks of a tier have equal shares of the CPUs that the tiers before it leave.
pub struct Fluid {
    policy: Policy,
    step: Ns,
    stage: Stage,
    tasks: Vec<Share>,
    programs: Vec<Group>,
    nr_entries: u64,
    /// Those that had been placed and had yet to say what they do, and when that was.
    unsaid: (Ns, Vec<TaskIndex>),
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Tasks run until the end of the step.
    Running,
    /// Something happened: tasks are to leave their CPUs.
    Asked,
    /// They are leaving, and will then be placed.
    Leaving,
}

/// What a task has got.
#[derive(Clone, Copy, Default)]
struct Share {
    is_ready: bool,
    /// Work, as far as it is charged, in nanoseconds times capacity; shifted when the task joins others.
    work: i64,
    /// Up to what run time it is.
    charged: Ns,
}

/// A program.
#[derive(Clone, Copy, Default)]
struct Group {
    nr_ready: u32,
    /// Which entry into a parallel phase its last one was.
    entered: u64,
    /// 0 goes first.
    tier: Option<usize>,
}

impl Group {
    fn is_parallel(&self) -> bool {
        self.nr_ready > 1
    }
}

impl Fluid {
    /// Tasks are placed anew at least so often, while their shares are not equal by themselves: short against phases.
    ///
    /// # Panics
    /// If the policy is none of [`Policy::PhasesUnknown`], [`Policy::SerialBoost`], [`Policy::Seniority`] and
    /// [`Policy::Clairvoyant`].
    pub fn new(policy: Policy, step: Ns) -> Self {
        assert!(
            matches!(
                policy,
                Policy::PhasesUnknown | Policy::SerialBoost | Policy::Seniority | Policy::Clairvoyant
            ),
            "{policy:?} is not simulated"
        );
        Self {
            policy,
            step,
            stage: Stage::Running,
            tasks: Vec::new(),
            programs: Vec::new(),
            nr_entries: 0,
            unsaid: (0, Vec::new()),
        }
    }

    fn ask(&mut self, kernel: &mut Kernel) {
        if self.stage == Stage::Running {
            self.stage = Stage::Asked;
            kernel.start_timer(0);
        }
    }

    fn ready(&self) -> impl Iterator<Item = TaskIndex> {
        (0..self.tasks.len()).filter(|&task| self.tasks[task].is_ready)
    }

    /// The tier of each program.
    fn tiers(&self, kernel: &Kernel) -> Vec<usize> {
        let mut parallel: Vec<usize> = (0..self.programs.len())
            .filter(|&program| self.programs[program].is_parallel())
            .collect();
        match self.policy {
            Policy::Seniority => parallel.sort_by_key(|&program| self.programs[program].entered),
            Policy::Clairvoyant => parallel.sort_by_cached_key(|&program| self.ahead(kernel, program)),
            _ => (),
        }
        let tier = |program: usize| {
            let place = parallel.iter().position(|&other| other == program);
            match (self.policy, place) {
                (Policy::PhasesUnknown, _) | (_, None) => 0,
                (Policy::SerialBoost, Some(_)) => 1,
                // The juniors are all alike.
                (Policy::Seniority, Some(place)) => 1 + place.min(1),
                (_, Some(place)) => 1 + place,
            }
        };
        (0..self.programs.len()).map(tier).collect()
    }

    /// Whether the program has no serial phase before it, and the time that it would take, were it alone, from now to the end
    /// of that. Who has yet to say what it does comes first: it takes no time to say that.
    fn ahead(&self, kernel: &Kernel, program: usize) -> (bool, u128) {
        let tasks = self.ready().filter(|&task| kernel.tasks[task].program == program);
        let left: Option<u128> = tasks.map(|task| kernel.left_ns(task).map(u128::from)).sum();
        let Some(left) = left else {
            return (false, 0);
        };
        let fastest = |count: usize| -> u128 {
            let cpus = fastest_first(kernel).into_iter().take(count);
            cpus.map(|cpu| u128::from(kernel.cpus[cpu].capacity)).sum()
        };
        let serial = u128::from(kernel.serial_ahead[program]);
        let full = u128::from(FULL_CAPACITY);
        let parallel = left * full / fastest(self.programs[program].nr_ready as usize);
        (serial == 0, parallel + serial * full / fastest(1))
    }

    /// Adds what a task has run, as far as the kernel has accounted it.
    fn charge(&mut self, kernel: &Kernel, task: TaskIndex) {
        let state = &kernel.tasks[task];
        let share = &mut self.tasks[task];
        let ran = state.ran - share.charged;
        share.charged = state.ran;
        share.work += (ran * u64::from(kernel.cpus[state.cpu].capacity)) as i64;
    }

    /// The mean work of ready tasks that are meant.
    fn mean(&self, kernel: &Kernel, is_meant: impl Fn(usize) -> bool) -> Option<i64> {
        let meant: Vec<i64> = self
            .ready()
            .filter(|&task| is_meant(kernel.tasks[task].program))
            .map(|task| self.tasks[task].work)
            .collect();
        meant.iter().sum::<i64>().checked_div(meant.len() as i64)
    }

    /// Programs that change their tier begin level with those that are there.
    fn join_tiers(&mut self, kernel: &Kernel, tiers: &[usize]) {
        for (program, &tier) in tiers.iter().enumerate() {
            if self.programs[program].tier.replace(tier) == Some(tier) {
                continue;
            }
            let others = |other: usize| other != program && self.programs[other].tier == Some(tier);
            let own = self.mean(kernel, |other| other == program);
            let (Some(own), Some(there)) = (own, self.mean(kernel, others)) else {
                continue;
            };
            for (task, share) in self.tasks.iter_mut().enumerate() {
                if kernel.tasks[task].program == program {
                    share.work += there - own;
                }
            }
        }
    }

    /// All tasks have left their CPUs.
    fn place(&mut self, kernel: &mut Kernel) {
        let tiers = self.tiers(kernel);
        self.join_tiers(kernel, &tiers);
        let mut ready: Vec<TaskIndex> = self
            .ready()
            .filter(|&task| kernel.tasks[task].place == Place::Held)
            .collect();
        ready.sort_by_key(|&task| (tiers[kernel.tasks[task].program], self.tasks[task].work, task));
        let mut cpus = fastest_first(kernel);
        cpus.retain(|&cpu| kernel.is_online(cpu));
        let (mut is_anybody_left, mut unsaid) = (false, (kernel.now, Vec::new()));
        for task in ready {
            let Some(place) = cpus.iter().position(|&cpu| kernel.may_run(task, cpu)) else {
                is_anybody_left = true;
                continue;
            };
            if self.policy == Policy::Clairvoyant && kernel.left_ns(task).is_none() {
                unsaid.1.push(task);
            }
            kernel.insert_local(task, cpus.remove(place), ENDLESS, false);
        }
        // They say at once what they do, and that may be more than others do; unless they fill a cache first.
        if !unsaid.1.is_empty() && unsaid != self.unsaid {
            self.ask(kernel);
        } else if is_anybody_left || !unsaid.1.is_empty() || !are_alike(kernel) {
            kernel.start_timer(self.step);
        }
        self.unsaid = unsaid;
    }
}

/// The capacity of the fastest CPU.
const FULL_CAPACITY: u32 = 1024;

/// First one CPU of each core, the fastest ones first.
fn fastest_first(kernel: &Kernel) -> Vec<CpuIndex> {
    let rank = |cpu: CpuIndex| kernel.core_of(cpu).iter().position(|&other| other == cpu);
    let mut cpus: Vec<CpuIndex> = (0..kernel.cpus.len()).collect();
    cpus.sort_by_key(|&cpu| (rank(cpu), Reverse(kernel.cpus[cpu].capacity)));
    cpus
}

/// Whether it makes no difference which CPU a task has.
fn are_alike(kernel: &Kernel) -> bool {
    let capacity = kernel.cpus[0].capacity;
    (0..kernel.cpus.len()).all(|cpu| kernel.cpus[cpu].capacity == capacity && kernel.core_of(cpu).len() == 1)
}

impl Scheduler for Fluid {
    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        self.tasks.push(Share::default());
        let programs = self.programs.len().max(kernel.tasks[task].program + 1);
        self.programs.resize(programs, Group::default());
    }

    fn select_cpu(&mut self, _kernel: &mut Kernel, _task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        prev
    }

    fn runnable(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let program = kernel.tasks[task].program;
        // Level with its siblings, who begin a phase together. Whoever woke it may have run for long.
        for sibling in 0..self.tasks.len() {
            if self.tasks[sibling].is_ready && kernel.tasks[sibling].program == program {
                self.charge(kernel, sibling);
            }
        }
        if let Some(work) = self.mean(kernel, |other| other == program) {
            self.tasks[task].work = work;
        }
        self.tasks[task].is_ready = true;
        self.tasks[task].charged = kernel.tasks[task].ran;
        let group = &mut self.programs[program];
        group.nr_ready += 1;
        if group.nr_ready == 2 {
            self.nr_entries += 1;
            group.entered = self.nr_entries;
        }
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex, _sleeps: bool) {
        self.tasks[task].is_ready = false;
        self.programs[kernel.tasks[task].program].nr_ready -= 1;
        self.ask(kernel);
    }

    fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, _why: Enqueue) {
        self.charge(kernel, task);
        kernel.hold(task);
        self.ask(kernel);
    }

    /// Whom it holds it knows by where the kernel has them.
    fn nr_held(&self, task: TaskIndex) -> usize {
        usize::from(self.tasks[task].is_ready)
    }

    fn dispatch(&mut self, _kernel: &mut Kernel, _cpu: CpuIndex, _running: Option<TaskIndex>) {}

    fn timer(&mut self, kernel: &mut Kernel) {
        let has_left = |cpu: &CpuIndex| kernel.cpus[*cpu].running.is_none() && kernel.has_nothing(*cpu);
        let have_left = (0..kernel.cpus.len()).all(|cpu| has_left(&cpu));
        if self.stage == Stage::Leaving && have_left {
            self.stage = Stage::Running;
            return self.place(kernel);
        }
        // After all of them: at the same time, events come in the order in which they were added. Unless kicks are late.
        let look_again = if self.stage == Stage::Leaving {
            self.step
        } else {
            0
        };
        self.stage = Stage::Leaving;
        for cpu in 0..kernel.cpus.len() {
            if kernel.cpus[cpu].running.is_some() {
                kernel.kick_preempt(cpu);
            }
        }
        kernel.start_timer(look_again);
    }

    fn wants_last(&self) -> bool {
        true
    }
}
