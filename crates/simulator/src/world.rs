// SPDX-License-Identifier: GPL-2.0-only
//! A machine, a scheduler and programs, and time that passes.

use std::collections::BTreeMap;
use std::ops::Range;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_machine::Machine;
use threadwise_policy::Counts;

use crate::Ns;
use crate::check::{Checker, Watch, sleepers_are_known};
use crate::costs::Costs;
use crate::events::Event;
use crate::faults::Injector;
use crate::hardware::Mechanism;
use crate::kernel::{CpuIndex, Direct, Doing, Kernel, Place, Task, TaskIndex, work};
use crate::mask::CpuMask;
use crate::program::{Futex, Program, SHARED, Step};
use crate::scheduler::{Enqueue, Scheduler};
use crate::timeline::{Happening, Timeline};

/// Whose futex it is, and which.
pub(crate) fn futex_key(program: usize, futex: Futex) -> (usize, Futex) {
    (if futex < SHARED { program } else { usize::MAX }, futex)
}

/// What a task has that goes on because there is no other (`SCX_SLICE_DFL`).
const DEFAULT_SLICE_NS: Ns = 20_000_000;
const SECOND_NS: Ns = 1_000_000_000;
/// How many times at one moment, for each CPU, tasks may be sent back (`SCX_REENQ_LOCAL_MAX_REPEAT`).
const MAX_SENT_BACK: usize = 256;
/// The default stream of the PCG reference implementation.
const PCG_STREAM: u128 = 0xa02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96;

/// What became of everything up to now.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order in which they were added.
    pub programs: Vec<ProgramOutcome>,
    /// The share of CPU time that was idle.
    pub idle: f64,
    /// What each package consumed, in joules; empty where the machine's file gives no power figures.
    pub joules: Vec<f64>,
    /// Events so far.
    pub nr_events: u64,
    /// Switches from one task to another, or from idle to a task.
    pub nr_switches: u64,
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramOutcome {
    /// The work that it did: nanoseconds on the fastest CPU.
    pub work_ns: f64,
    /// The work of each thread.
    pub threads_ns: Vec<f64>,
}

/// Who sleeps on which futex of which program, in the order of its coming.
pub(crate) type Sleepers = BTreeMap<(usize, Futex), Vec<TaskIndex>>;

/// A machine, a scheduler and programs.
pub struct World {
    pub(crate) kernel: Kernel,
    pub(crate) scheduler: Box<dyn Scheduler>,
    programs: Vec<Box<dyn Program>>,
    /// The tasks of each program, by thread.
    tasks: Vec<Vec<TaskIndex>>,
    /// Threads that begin after the main threads that begin at that time.
    beginning: Vec<TaskIndex>,
    /// The CPUs on which threads begin, one after the other.
    first_cpus: Vec<CpuIndex>,
    pub(crate) sleepers: Sleepers,
    watch: Option<Box<Watch>>,
    pub(crate) injector: Option<Box<Injector>>,
    nr_events: u64,
    nr_switches: u64,
    /// When CPUs last sent tasks back, and how many times they did then.
    sent_back: (Ns, usize),
}

impl World {
    /// An idle machine. `scheduler` is made for the kernel's state, where it may create its queues.
    pub fn new<S: Scheduler + 'static>(
        machine: &Machine,
        costs: Costs,
        scheduler: impl FnOnce(&mut Kernel) -> S,
    ) -> Self {
        Self::boxed(machine, costs, |kernel| Box::new(scheduler(kernel)))
    }

    pub(crate) fn boxed(
        machine: &Machine,
        costs: Costs,
        scheduler: impl FnOnce(&mut Kernel) -> Box<dyn Scheduler>,
    ) -> Self {
        let mut kernel = Kernel::new(machine, costs);
        let scheduler = scheduler(&mut kernel);
        Self {
            kernel,
            scheduler,
            programs: Vec::new(),
            tasks: Vec::new(),
            beginning: Vec::new(),
            first_cpus: (0..machine.nr_cpus()).collect(),
            sleepers: BTreeMap::new(),
            watch: None,
            injector: None,
            nr_events: 0,
            nr_switches: 0,
            sent_back: (0, 0),
        }
    }

    /// Has what the kernel leaves to chance (how late interrupts are, and whether who goes idle balances) come from this seed.
    pub fn seed(&mut self, seed: u64) {
        self.kernel.draw_from(seed);
    }

    /// Has programs that are started from now on begin on CPUs in an order drawn from the seed, as a machine that has run for a
    /// while leaves it to chance. Where CPUs share cores, and nobody knows, it matters.
    pub fn scatter(&mut self, seed: u64) {
        let mut random = Pcg64::new(u128::from(seed), PCG_STREAM);
        for nr in (1..self.first_cpus.len()).rev() {
            // The bias of the remainder is below 1e-15.
            let other = random.next_u64() % (nr as u64 + 1);
            self.first_cpus.swap(nr, other as usize);
        }
    }

    /// Models the machine without one of the things that it shares.
    ///
    /// # Panics
    /// If a program has been started.
    pub fn switch_off(&mut self, mechanism: Mechanism) {
        assert!(
            self.programs.is_empty(),
            "hardware does not change under programs"
        );
        if mechanism == Mechanism::Speeds {
            (0..self.kernel.cpus.len()).for_each(|cpu| self.kernel.set_capacity(cpu, 1024));
        }
        self.kernel.hardware.switch_off(mechanism);
    }

    /// Has each move to another core take so long on the fastest CPU: what the task lacks in caches of a core's own, which are not
    /// modelled. Nothing by default, as emulated CPUs have none.
    ///
    /// # Panics
    /// If a program has been started.
    pub fn charge_migrations(&mut self, ns: Ns) {
        assert!(self.programs.is_empty(), "costs do not change under programs");
        self.kernel.costs.migrate_ns = ns;
    }

    /// Gives last-level caches this size, in bytes, instead of what the machine's file says.
    ///
    /// # Panics
    /// If a program has been started.
    pub fn resize_caches(&mut self, bytes: u64) {
        assert!(
            self.programs.is_empty(),
            "hardware does not change under programs"
        );
        self.kernel.hardware.resize_caches(bytes);
    }

    /// Looks after every event whether what must hold does. It takes time: for tests.
    pub fn check(&mut self, checker: Checker) {
        self.watch = Some(Box::new(Watch::new(checker)));
    }

    /// Keeps what happens for [`World::into_timeline`].
    ///
    /// # Panics
    /// If a program has been started: what it did before would be missing.
    pub fn record(&mut self) {
        assert!(self.programs.is_empty(), "a recording begins before the programs");
        self.kernel.happenings = Some(Vec::new());
    }

    /// What happened since it is recorded; nothing if it is not.
    pub fn into_timeline(self) -> Timeline {
        Timeline {
            nr_cpus: self.kernel.cpus.len(),
            tasks: self
                .kernel
                .tasks
                .iter()
                .map(|task| (task.program, task.thread))
                .collect(),
            happenings: self.kernel.happenings.unwrap_or_default(),
            end: self.kernel.now,
        }
    }

    /// Starts a program now, all its threads of this weight (100 is nice 0), each bound to a CPU or none. Its main thread
    /// was on a CPU after the first, so that who does not know which CPU is fast has no luck with CPU 0. Where several programs
    /// start at a time their main threads come first, as they do in processes, which have to create the others.
    pub fn start(&mut self, program: Box<dyn Program>, weight: u32, bound_to: Option<CpuIndex>) {
        let index = self.programs.len();
        let threads = 0..program.nr_threads();
        self.programs.push(program);
        self.tasks.push(Vec::new());
        self.kernel.nr_threads.push(0);
        self.kernel.serial_ahead.push(0);
        self.add_threads(index, threads, weight, bound_to);
        let tasks = self.tasks[index].clone();
        if let Some((&main, others)) = tasks.split_first() {
            self.wake(main, None);
            self.beginning.extend(others);
        }
    }

    /// Those that [`World::start`] left: once all that start at a time have.
    pub(crate) fn begin_others(&mut self) {
        for task in std::mem::take(&mut self.beginning) {
            self.wake(task, None);
        }
    }

    /// Has a task run on these CPUs only from now on, at least one (sched_setaffinity(2)).
    pub fn bind(&mut self, task: TaskIndex, cpus: &[CpuIndex]) {
        let mask = CpuMask::of(self.kernel.cpus.len(), cpus.iter().copied());
        self.set_affinity(task, Some(mask));
    }

    fn add_threads(&mut self, index: usize, threads: Range<usize>, weight: u32, bound_to: Option<CpuIndex>) {
        let mut tasks = Vec::new();
        for thread in threads {
            let weight = self.programs[index].weight(thread).unwrap_or(weight);
            let cpus = match self.programs[index].cpus(thread) {
                [] => bound_to.as_slice(),
                cpus => cpus,
            };
            let allowed =
                (!cpus.is_empty()).then(|| CpuMask::of(self.kernel.cpus.len(), cpus.iter().copied()));
            let first = self.first_cpus[(index + thread + 1) % self.first_cpus.len()];
            let is_allowed = cpus.is_empty() || cpus.contains(&first);
            let cpu = if is_allowed {
                first
            } else {
                cpus[thread % cpus.len()]
            };
            tasks.push(self.kernel.tasks.len());
            self.kernel.tasks.push(Task {
                program: index,
                thread,
                weight,
                place: Place::Nowhere,
                cpu,
                bound_to: None,
                allowed: None,
                allowed_since: 0,
                slice: 0,
                ran: 0,
                exec_start: 0,
                arrived: 0,
                nr_sleeps: 0,
                waits_since: 0,
                waited: 0,
                leaves_until: 0,
                doing: Doing::Next,
                left: 0,
                done: 0,
                position: (0, 0),
                direct: None,
                memory: self.programs[index].memory(thread),
                counted: Counts::default(),
                ran_on: None,
                filled: None,
            });
            let task = self.kernel.tasks.len() - 1;
            self.kernel.nr_threads[index] += 1;
            if allowed.is_some() {
                self.kernel.allow(task, allowed);
            }
            self.scheduler.enable(&self.kernel, task);
        }
        self.tasks[index].extend(tasks);
    }

    /// What runs on this CPU begins one more thread of its program, which inherits its weight and where it may run.
    fn fork(&mut self, cpu: CpuIndex, forker: TaskIndex) {
        let (program, weight, allowed) = {
            let task = &self.kernel.tasks[forker];
            (task.program, task.weight, task.allowed.clone())
        };
        let nr = self.tasks[program].len();
        self.add_threads(program, nr..nr + 1, weight, None);
        let child = self.tasks[program][nr];
        if self.kernel.tasks[child].allowed.is_none() {
            self.kernel.tasks[child].cpu = cpu;
            self.kernel.allow(child, allowed.map(|mask| *mask));
        }
        self.wake(child, Some(cpu));
    }

    /// Lets time pass up to this.
    ///
    /// # Errors
    /// What does not hold, if it is being checked.
    pub fn run_until(&mut self, end: Ns) -> Result<(), String> {
        self.begin_others();
        while let Some((now, event)) = self.kernel.events.pop(end) {
            self.kernel.now = now;
            self.nr_events += 1;
            self.happen(event);
            self.comes_to_an_end()?;
            self.look(|nr| format!("event {nr}, {event:?}"))?;
        }
        self.kernel.now = end;
        // Where everybody waits for ever nothing happens any more.
        self.look(|nr| format!("after event {nr}"))
    }

    /// Whether time will pass: a scheduler may insist on a CPU that sends tasks back.
    fn comes_to_an_end(&self) -> Result<(), String> {
        let (at, nr) = self.sent_back;
        if nr <= MAX_SENT_BACK * self.kernel.cpus.len() {
            return Ok(());
        }
        Err(format!(
            "at {at} ns tasks were sent back {nr} times, to CPUs that run others"
        ))
    }

    pub(crate) fn look(&mut self, when: impl FnOnce(u64) -> String) -> Result<(), String> {
        match &mut self.watch {
            None => Ok(()),
            Some(watch) => watch
                .look(&self.kernel, self.scheduler.as_ref())
                .and_then(|()| sleepers_are_known(&self.kernel, &self.sleepers))
                .map_err(|wrong| format!("{wrong}\n(at {} ns, {})", self.kernel.now, when(self.nr_events))),
        }
    }

    /// What became of everything up to now.
    pub fn outcome(&mut self) -> Outcome {
        for cpu in 0..self.kernel.cpus.len() {
            self.kernel.account(cpu);
        }
        let thread = |&task: &TaskIndex| self.kernel.tasks[task].done as f64 / work(1) as f64;
        let program = |tasks: &Vec<TaskIndex>| {
            let threads_ns: Vec<f64> = tasks.iter().map(thread).collect();
            ProgramOutcome {
                work_ns: threads_ns.iter().sum(),
                threads_ns,
            }
        };
        let now = self.kernel.now;
        let idled: Ns = self.kernel.cpus.iter().map(|cpu| cpu.idled_until(now)).sum();
        Outcome {
            programs: self.tasks.iter().map(program).collect(),
            idle: idled as f64 / (now.max(1) as f64 * self.kernel.cpus.len() as f64),
            joules: self.kernel.hardware.joules(now),
            nr_events: self.nr_events,
            nr_switches: self.nr_switches,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done { cpu, generation } => {
                if self.kernel.cpus[cpu].generation == generation {
                    self.kernel.here = cpu;
                    self.kernel.account(cpu);
                    self.step_done(cpu);
                }
            }
            Event::Tick { cpu } => self.tick(cpu),
            Event::Alarm { cpu } => self.tell_tick(cpu),
            Event::Reschedule { cpu } => {
                let state = &mut self.kernel.cpus[cpu];
                state.kicked_for = state.kicked_for.filter(|&at| at > self.kernel.now);
                self.kernel.here = cpu;
                if self.kernel.is_online(cpu) {
                    self.schedule(cpu);
                }
            }
            Event::Preempt { cpu, by } => {
                self.kernel.here = by;
                self.kernel.kick_preempt(cpu);
            }
            Event::OtherTimer => {
                let online = (0..self.kernel.cpus.len()).find(|&cpu| self.kernel.is_online(cpu));
                let cpu = online.unwrap_or(0);
                self.kernel.here = cpu;
                self.kernel.enter_interrupt(self.kernel.costs.timer_ns);
                self.scheduler.other_timer(&mut self.kernel);
                self.kernel.leave_interrupt();
            }
            Event::Timer { generation } => {
                if let Some(cpu) = self.kernel.timer_expires(generation) {
                    self.kernel.here = cpu;
                    self.kernel.enter_interrupt(self.kernel.costs.timer_ns);
                    self.scheduler.timer(&mut self.kernel);
                    self.kernel.leave_interrupt();
                }
            }
            Event::Wake { task } => {
                self.kernel.here = self.kernel.tasks[task].cpu;
                self.wake(task, None);
            }
            Event::Strike { fault } => self.strike(fault),
        }
    }

    /// The running task's step is done: it goes on to the next that takes time.
    fn step_done(&mut self, cpu: CpuIndex) {
        let Some(running) = self.kernel.cpus[cpu].running else {
            return;
        };
        loop {
            let doing = self.kernel.tasks[running].doing;
            if let Doing::Wake(futex, left @ 1..) = doing {
                self.wake_one(running, futex, left);
                break;
            }
            let (program, thread) = {
                let task = &self.kernel.tasks[running];
                (task.program, task.thread)
            };
            let step = self.programs[program].next(thread, self.kernel.now);
            self.kernel.serial_ahead[program] = self.programs[program].serial_ahead();
            let task = &mut self.kernel.tasks[running];
            match step {
                Step::Compute(ns) => {
                    task.doing = Doing::Compute;
                    task.left = work(ns);
                    break;
                }
                Step::Overhead(ns) => {
                    task.doing = Doing::Next;
                    task.left = work(ns);
                    break;
                }
                Step::SpinFor(futex, ns) => {
                    task.doing = Doing::SpinFor(futex);
                    task.left = work(ns);
                    break;
                }
                Step::Spin(futex) => {
                    task.doing = Doing::Spin(futex);
                    task.left = u64::MAX;
                    break;
                }
                Step::Wake(futex) => {
                    // Who comes to sleep while it wakes the others is not meant.
                    let nr = self.sleepers.get(&futex_key(program, futex)).map_or(0, Vec::len);
                    task.doing = Doing::Wake(futex, nr);
                    self.release_spinners(program, futex);
                }
                Step::WakeOne(futex) => {
                    task.doing = Doing::Wake(futex, 1);
                    self.release_spinners(program, futex);
                }
                Step::Yield => {
                    // Never for nothing, or who yields for ever stops time.
                    task.doing = Doing::Next;
                    task.left = work(self.kernel.costs.wake_ns.max(1));
                    task.slice = 0;
                    self.scheduler.yielded(&mut self.kernel, running);
                    self.schedule(cpu);
                    break;
                }
                Step::Use(memory) => self.kernel.use_memory(cpu, running, memory),
                Step::Fork => {
                    task.doing = Doing::Next;
                    task.left = work(self.kernel.costs.wake_ns);
                    self.fork(cpu, running);
                    break;
                }
                Step::Wait(futex) => {
                    let key = futex_key(program, futex);
                    self.sleepers.entry(key).or_default().push(running);
                    return self.block(cpu, Doing::Sleep(futex));
                }
                Step::Sleep(ns) => {
                    let at = self.kernel.now + ns;
                    self.kernel.events.add(at, Event::Wake { task: running });
                    return self.block(cpu, Doing::SleepTime);
                }
                Step::Exit => {
                    self.block(cpu, Doing::Next);
                    self.kernel.tasks[running].place = Place::Gone;
                    self.kernel.nr_threads[program] -= 1;
                    return;
                }
            }
        }
        self.kernel.expect_done(cpu);
    }

    /// Wakes the first of those that are left to be woken, which takes the waker a while.
    fn wake_one(&mut self, waker: TaskIndex, futex: Futex, left: usize) {
        let task = &mut self.kernel.tasks[waker];
        task.doing = Doing::Wake(futex, left - 1);
        // Another waker of the same futex may have been there first.
        if let Some(sleepers) = self.sleepers.get_mut(&futex_key(task.program, futex))
            && !sleepers.is_empty()
        {
            task.left = work(self.kernel.costs.wake_ns);
            let sleeper = sleepers.remove(0);
            self.wake(sleeper, Some(self.kernel.tasks[waker].cpu));
        }
    }

    /// Those that spin on it see it, at once if they run.
    fn release_spinners(&mut self, program: usize, futex: Futex) {
        for index in 0..self.tasks[program].len() {
            let task = self.tasks[program][index];
            let doing = self.kernel.tasks[task].doing;
            if doing != Doing::Spin(futex) && doing != Doing::SpinFor(futex) {
                continue;
            }
            let place = self.kernel.tasks[task].place;
            if let Place::On(cpu) = place {
                self.kernel.account(cpu);
            }
            self.kernel.tasks[task].doing = Doing::Next;
            self.kernel.tasks[task].left = 0;
            if let Place::On(cpu) = place {
                self.kernel.expect_done(cpu);
            }
        }
    }

    /// What runs on this CPU goes to sleep.
    fn block(&mut self, cpu: CpuIndex, doing: Doing) {
        let running = self.kernel.cpus[cpu].running.expect("who blocks runs");
        let task = &mut self.kernel.tasks[running];
        task.doing = doing;
        task.left = 0;
        task.nr_sleeps += 1;
        task.place = Place::Nowhere;
        task.leaves_until = self.kernel.now + self.kernel.costs.to_idle_ns;
        self.kernel.happened(Happening::Sleep { task: running });
        self.scheduler.quiescent(&mut self.kernel, running, true);
        self.schedule(cpu);
    }

    /// A task becomes ready, woken by what runs on a CPU, if by anything.
    fn wake(&mut self, task: TaskIndex, by: Option<CpuIndex>) {
        self.kernel.happened(Happening::Wake { task, by });
        let state = &mut self.kernel.tasks[task];
        state.doing = Doing::Next;
        state.waits_since = self.kernel.now;
        let selected = state.bound_to.is_none() && !self.is_queued_wakeup(task, by);
        // Where there is no choice nobody is asked (kernel/sched/core.c, select_task_rq()).
        if selected {
            let prev = self.kernel.tasks[task].cpu;
            let cpu = self.scheduler.select_cpu(&mut self.kernel, task, prev);
            self.kernel.tasks[task].cpu = cpu;
        }
        let cpu = self.kernel.tasks[task].cpu;
        if !self.kernel.is_online(cpu) || !self.kernel.may_run(task, cpu) {
            self.kernel.tasks[task].cpu = self.kernel.online_for(task, cpu);
        }
        let direct = self.kernel.tasks[task].direct.take();
        self.scheduler.runnable(&mut self.kernel, task);
        match direct {
            Some(Direct { slice, preempt }) => {
                let cpu = self.kernel.tasks[task].cpu;
                self.kernel.insert_local(task, cpu, slice, preempt);
            }
            None => {
                let wakeup = Enqueue {
                    wakeup: true,
                    selected,
                    ..Enqueue::default()
                };
                self.scheduler.enqueue(&mut self.kernel, task, wakeup);
                self.wake_idle(self.kernel.tasks[task].cpu);
            }
        }
    }

    /// Whether a task that wakes up is left to the CPU that still switches away from it, because that has nothing else
    /// to do (`ttwu_queue_cond()`). Here that is at once.
    fn is_queued_wakeup(&self, task: TaskIndex, by: Option<CpuIndex>) -> bool {
        let state = &self.kernel.tasks[task];
        self.kernel.now < state.leaves_until
            && by != Some(state.cpu)
            && self.kernel.cpus[state.cpu].running.is_none()
            && self.scheduler.allows_queued_wakeups()
    }

    /// A CPU for which a task was enqueued looks for itself if it is idle (`wakeup_preempt()`).
    pub(crate) fn wake_idle(&mut self, cpu: CpuIndex) {
        if self.kernel.cpus[cpu].running.is_none() {
            self.kernel.kick(cpu);
        }
    }

    fn tick(&mut self, cpu: CpuIndex) {
        if self.kernel.cpus[cpu].running.is_none() {
            self.kernel.cpus[cpu].is_ticking = false;
            return;
        }
        let period = self.kernel.costs.tick_period_ns;
        self.kernel
            .events
            .add(self.kernel.now + period, Event::Tick { cpu });
        let costs = &self.kernel.costs;
        // The CPUs' turns are so far apart that nobody waits for two of them.
        let nr_tick = self.kernel.now / period + 31 * cpu as u64;
        let is_background = nr_tick.is_multiple_of((SECOND_NS / period).max(1));
        let background_ns = if is_background { costs.background_ns } else { 0 };
        self.kernel.interrupt(cpu, costs.tick_ns + background_ns);
        self.tell_tick(cpu);
    }

    fn tell_tick(&mut self, cpu: CpuIndex) {
        let Some(running) = self.kernel.cpus[cpu].running else {
            return;
        };
        self.kernel.here = cpu;
        self.kernel.account(cpu);
        self.scheduler.tick(&mut self.kernel, cpu);
        if self.kernel.tasks[running].slice == 0 {
            self.schedule(cpu);
        }
    }

    /// A CPU decides what to run (kernel/sched/ext.c, balance_one() and what follows it).
    pub(crate) fn schedule(&mut self, cpu: CpuIndex) {
        self.kernel.account(cpu);
        let prev = self.kernel.cpus[cpu].running;
        let ready = prev.filter(|&task| self.kernel.tasks[task].place == Place::On(cpu));
        if ready.is_some_and(|task| self.kernel.tasks[task].slice > 0) {
            return self.send_back(cpu);
        }
        if self.kernel.cpus[cpu].local.is_empty() {
            self.kernel.idle.remove(cpu);
            self.scheduler.dispatch(&mut self.kernel, cpu, ready);
            if ready.is_some_and(|task| self.kernel.tasks[task].slice > 0) {
                return self.kernel.interrupt(cpu, self.kernel.costs.keep_ns);
            }
        }
        let mut next = self.kernel.cpus[cpu].local.pop_front();
        if let Some(task) = ready {
            if next.is_none() && !self.scheduler.wants_last() {
                self.kernel.tasks[task].slice = DEFAULT_SLICE_NS;
                return self.kernel.interrupt(cpu, self.kernel.costs.keep_ns);
            }
            let why = Enqueue {
                last: next.is_none(),
                ..Enqueue::default()
            };
            let state = &mut self.kernel.tasks[task];
            state.place = Place::Nowhere;
            state.waits_since = self.kernel.now;
            self.scheduler.enqueue(&mut self.kernel, task, why);
            next = next.or_else(|| self.kernel.cpus[cpu].local.pop_front());
        }
        self.switch(cpu, prev, next);
    }

    pub(crate) fn switch(&mut self, cpu: CpuIndex, prev: Option<TaskIndex>, next: Option<TaskIndex>) {
        self.kernel.happened(Happening::Switch { cpu, next });
        let now = self.kernel.now;
        let state = &mut self.kernel.cpus[cpu];
        state.running = next;
        state.generation = state.generation.wrapping_add(1);
        let Some(next) = next else {
            self.kernel.idle.add(cpu);
            state.idle_since.get_or_insert(now);
            self.kernel.occupy(cpu);
            return;
        };
        self.kernel.idle.remove(cpu);
        if let Some(since) = state.idle_since.take() {
            state.idled += now - since;
        }
        let task = &mut self.kernel.tasks[next];
        task.place = Place::On(cpu);
        task.cpu = cpu;
        task.exec_start = now;
        if prev != Some(next) {
            self.nr_switches += 1;
            task.arrived = now;
            task.waited += now - task.waits_since;
            self.kernel.occupy(cpu);
            let costs = &self.kernel.costs;
            let leaves = |prev: TaskIndex| {
                let Task { doing, place, .. } = &self.kernel.tasks[prev];
                matches!(doing, Doing::Sleep(_) | Doing::SleepTime) || *place == Place::Gone
            };
            let cost = match prev {
                None => costs.from_idle_ns,
                Some(prev) if leaves(prev) => costs.switch_ns,
                Some(_) => costs.preempt_ns,
            };
            self.kernel.delay(cpu, cost);
            self.kernel.settle(cpu, next);
        }
        let state = &mut self.kernel.cpus[cpu];
        if !std::mem::replace(&mut state.is_ticking, true) {
            let period = self.kernel.costs.tick_period_ns;
            self.kernel
                .events
                .add((now / period + 1) * period, Event::Tick { cpu });
        }
        self.kernel.expect_done(cpu);
        self.send_back(cpu);
    }

    /// Who was to run at once and cannot goes elsewhere (`SCX_ENQ_IMMED`).
    fn send_back(&mut self, cpu: CpuIndex) {
        let tasks = std::mem::take(&mut self.kernel.cpus[cpu].local);
        if !tasks.is_empty() {
            let (at, nr) = self.sent_back;
            let now = self.kernel.now;
            self.sent_back = (now, if at == now { nr + 1 } else { 1 });
        }
        for task in tasks {
            self.kernel.tasks[task].place = Place::Nowhere;
            let why = Enqueue {
                sent_back: true,
                ..Enqueue::default()
            };
            self.scheduler.enqueue(&mut self.kernel, task, why);
        }
    }
}
