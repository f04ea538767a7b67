// SPDX-License-Identifier: GPL-2.0-only
//! CPUs, tasks and queues, and what schedulers may do with them: what sched_ext offers (kernel/sched/ext.c).

use std::collections::VecDeque;

use threadwise_machine::Machine;
use threadwise_policy::Counts;

use crate::Ns;
use crate::costs::Costs;
use crate::domains::Domains;
use crate::events::{Event, Events};
use crate::faults::{Delays, Dice};
use crate::hardware::{Hardware, Occupant, RATE_ONE, Rate, rate_of};
use crate::idle::Idle;
use crate::mask::CpuMask;
use crate::program::{Futex, Memory};
use crate::queue::{Position, Queue};
use crate::timeline::{Boost, Happening};

/// A CPU, numbered from 0 without gaps.
pub type CpuIndex = usize;
/// A task, numbered from 0.
pub type TaskIndex = usize;
/// A dispatch queue, numbered from 0.
pub type QueueIndex = usize;

/// A slice that does not end.
pub const ENDLESS: Ns = Ns::MAX;

/// The stream of draws that says how late interrupts are.
const INTERRUPTS: u64 = 0x1a7e;

/// The stream of draws that says whether who goes idle balances.
const NEWIDLE: u64 = 0x1d7e;

/// Work: nanoseconds times the rate of the CPU, for up to 78 hours of the fastest.
pub(crate) type Work = u64;

/// The work of so many nanoseconds on the fastest CPU.
pub(crate) fn work(ns: Ns) -> Work {
    ns.saturating_mul(RATE_ONE)
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it sleeps, or a hook is to put it somewhere.
    Nowhere,
    /// Runs on this CPU.
    On(CpuIndex),
    /// In this CPU's local queue.
    Local(CpuIndex),
    /// In a dispatch queue.
    Queue(QueueIndex),
    /// The scheduler keeps it in a structure of its own.
    Held,
    /// It has ended.
    Gone,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Compute,
    Spin(Futex),
    /// Spins for a while.
    SpinFor(Futex),
    /// Wakes those that wait for this futex, one after the other; so many are left.
    Wake(Futex, usize),
    Sleep(Futex),
    SleepTime,
    /// Its next step is to be asked for.
    Next,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its program, from 0: the thread group.
    pub program: usize,
    /// Its number among the program's threads.
    pub thread: usize,
    /// 1 to 10000, where 100 is nice 0.
    pub weight: u32,
    /// Where it is.
    pub place: Place,
    /// The CPU that it is on, or was last.
    pub cpu: CpuIndex,
    /// The one CPU that it is bound to.
    pub bound_to: Option<CpuIndex>,
    /// The CPUs that it may run on; all, if none are given.
    pub(crate) allowed: Option<Box<CpuMask>>,
    /// Since when these, or since when it is not withheld any more.
    pub(crate) allowed_since: Ns,
    /// What is left of its slice.
    pub slice: Ns,
    /// How long it has run, as far as that is accounted (`se.sum_exec_runtime`).
    pub ran: Ns,
    /// Up to when it is (`se.exec_start`).
    pub exec_start: Ns,
    /// When it came to its CPU (`sched_info.last_arrival`).
    pub arrived: Ns,
    /// How often it slept (`nvcsw`).
    pub nr_sleeps: u64,
    /// Since when it waits.
    pub waits_since: Ns,
    /// How long it has waited in all before it came to a CPU (`sched_info.run_delay`).
    pub waited: Ns,
    pub(crate) memory: Memory,
    /// What its hardware counters have counted since they were last asked.
    pub(crate) counted: Counts,
    /// The CPU on which it ran last.
    pub(crate) ran_on: Option<CpuIndex>,
    /// The last-level cache in which its working set is.
    pub(crate) filled: Option<usize>,
    /// Until when its CPU still switches away from it (`on_cpu`).
    pub(crate) leaves_until: Ns,
    pub(crate) doing: Doing,
    pub(crate) left: Work,
    pub(crate) done: Work,
    pub(crate) position: Position,
    pub(crate) direct: Option<Direct>,
}

/// An insertion that `select_cpu` asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) slice: Ns,
    pub(crate) preempt: bool,
}

/// A CPU.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// 1024 for the fastest.
    pub capacity: u32,
    /// How fast it is now, as `capacity`, whatever schedulers know of it.
    pub(crate) speed: u32,
    /// Whether it may run anything (`cpu_active()`).
    pub(crate) is_online: bool,
    /// What runs.
    pub running: Option<TaskIndex>,
    /// How long it has been idle in all, as of `idle_since`.
    pub(crate) idled: Ns,
    pub(crate) idle_since: Option<Ns>,
    pub(crate) local: VecDeque<TaskIndex>,
    /// From when on what runs there makes progress: what the kernel does comes first.
    pub(crate) progress_from: Ns,
    /// How much of it a nanosecond makes, beside those that run elsewhere.
    pub(crate) rate: Rate,
    /// The share of its accesses to the last-level cache that miss, `RATE_ONE` for all.
    pub(crate) miss: u64,
    pub(crate) generation: u32,
    pub(crate) is_ticking: bool,
    /// When it looks for what to run because it was asked to.
    pub(crate) kicked_for: Option<Ns>,
}

impl Cpu {
    /// How fast what runs here gets on: the rate that the hardware leaves it, less where the CPU is throttled.
    pub(crate) fn pace(&self) -> Rate {
        if self.speed == self.capacity {
            return self.rate;
        }
        (self.rate * u64::from(self.speed) / u64::from(self.capacity)).max(1)
    }

    /// How long it has been idle in all.
    pub(crate) fn idled_until(&self, now: Ns) -> Ns {
        self.idled + self.idle_since.map_or(0, |since| now - since)
    }
}

/// The state of everything, and what schedulers may do to it.
pub struct Kernel {
    /// The time.
    pub now: Ns,
    /// The CPUs.
    pub cpus: Vec<Cpu>,
    /// What CPUs share.
    pub domains: Domains,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// How many threads of each program have not ended (`signal->nr_threads`).
    pub nr_threads: Vec<u32>,
    /// What each program has said of its next serial phase ([`crate::Program::serial_ahead`]).
    pub(crate) serial_ahead: Vec<Ns>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) costs: Costs,
    pub(crate) events: Events,
    nr_inserted: u64,
    timer_generation: u32,
    timer_cpu: CpuIndex,
    /// The CPU on which the hook at hand runs.
    pub(crate) here: CpuIndex,
    /// How long the hook at hand takes before other CPUs notice, and timers begin to run.
    hook_takes: Ns,
    pub(crate) idle: Idle,
    pub(crate) hardware: Hardware,
    /// When interrupts fall into what CPUs run.
    interrupts: Dice,
    /// Whether the kernel's scheduler balances when a CPU goes idle.
    pub(crate) newidle: Dice,
    /// What makes kicks and timers late beyond that.
    pub(crate) delays: Option<Box<Delays>>,
    /// What happened, if that is recorded.
    pub(crate) happenings: Option<Vec<(Ns, Happening)>>,
}

impl Kernel {
    pub(crate) fn new(machine: &Machine, costs: Costs) -> Self {
        let cpu = |cpu: &threadwise_machine::Cpu| Cpu {
            capacity: cpu.capacity,
            speed: cpu.capacity,
            is_online: true,
            running: None,
            idled: 0,
            idle_since: Some(0),
            local: VecDeque::new(),
            progress_from: 0,
            rate: rate_of(cpu.capacity),
            miss: 0,
            generation: 0,
            is_ticking: false,
            kicked_for: None,
        };
        let hides_smt = machine.lab().is_some_and(|lab| lab.hides_smt);
        Self {
            now: 0,
            cpus: machine.cpus().iter().map(cpu).collect(),
            domains: Domains::of(machine),
            tasks: Vec::new(),
            nr_threads: Vec::new(),
            serial_ahead: Vec::new(),
            queues: Vec::new(),
            costs,
            events: Events::default(),
            nr_inserted: 0,
            timer_generation: 0,
            timer_cpu: 0,
            here: 0,
            hook_takes: 0,
            idle: Idle::all(cores(machine), machine.has_smt() && !hides_smt),
            hardware: Hardware::new(machine),
            interrupts: Dice::new(0, INTERRUPTS),
            newidle: Dice::new(0, NEWIDLE),
            delays: None,
            happenings: None,
        }
    }

    /// Chance comes from this seed.
    pub(crate) fn draw_from(&mut self, seed: u64) {
        (self.interrupts, self.newidle) = (Dice::new(seed, INTERRUPTS), Dice::new(seed, NEWIDLE));
    }

    pub(crate) fn happened(&mut self, happening: Happening) {
        if let Some(happenings) = &mut self.happenings {
            happenings.push((self.now, happening));
        }
    }

    /// What a task's hardware counters have counted since they were last asked: an instruction for each nanosecond of work on
    /// the fastest CPU, and misses of the last-level cache. Nothing, if the sample is lost.
    pub fn sample(&mut self, task: TaskIndex) -> Option<Counts> {
        let counted = std::mem::take(&mut self.tasks[task].counted);
        let is_lost = self.delays.as_mut().is_some_and(|delays| delays.loses_sample());
        (!is_lost).then_some(counted)
    }

    /// What is left of what a task does now, in nanoseconds on the fastest CPU, as of when it was last accounted; nothing if
    /// it has yet to say what it does, which it will on a CPU. No kernel knows it.
    pub(crate) fn left_ns(&self, task: TaskIndex) -> Option<Ns> {
        let Task { doing, left, .. } = self.tasks[task];
        match doing {
            Doing::Wake(..) => None,
            Doing::Next if left == 0 => None,
            Doing::Compute | Doing::Next => Some(left / RATE_ONE),
            // Who spins for others has nothing to do.
            Doing::Spin(_) | Doing::SpinFor(_) | Doing::Sleep(_) | Doing::SleepTime => Some(0),
        }
    }

    /// The resident set of a task's program, as far as that says how it uses memory, in bytes.
    pub fn resident_bytes(&self, task: TaskIndex) -> u64 {
        let Task { program, memory, .. } = self.tasks[task];
        let sets = if memory.is_shared {
            1
        } else {
            u64::from(self.nr_threads[program])
        };
        memory.working_set_bytes.saturating_mul(sets)
    }

    /// The size of a last-level cache, in bytes, where it is known.
    pub fn cache_bytes(&self, llc: usize) -> Option<u64> {
        self.hardware.cache_bytes(llc)
    }

    /// A task was put before others, on this CPU, for timelines to show.
    pub fn boosted(&mut self, task: TaskIndex, cpu: CpuIndex, boost: Boost) {
        self.happened(Happening::Boost { task, cpu, boost });
    }

    /// A CPU has this capacity instead of what the machine says; nothing runs yet.
    pub(crate) fn set_capacity(&mut self, cpu: CpuIndex, capacity: u32) {
        let state = &mut self.cpus[cpu];
        (state.capacity, state.speed, state.rate) = (capacity, capacity, rate_of(capacity));
        self.hardware.set_alone(cpu, rate_of(capacity));
    }

    /// Whether the task may run there, were that online (`p->cpus_ptr`).
    pub fn may_run(&self, task: TaskIndex, cpu: CpuIndex) -> bool {
        self.tasks[task].allowed.as_ref().is_none_or(|cpus| cpus.has(cpu))
    }

    /// Whether a CPU may run anything now.
    pub fn is_online(&self, cpu: CpuIndex) -> bool {
        self.cpus[cpu].is_online
    }

    /// A CPU that is online and on which the task may run, `cpu` if that is one (`select_fallback_rq()`). Where there is
    /// none the task may run everywhere from now on, as in the kernel.
    pub fn online_for(&mut self, task: TaskIndex, cpu: CpuIndex) -> CpuIndex {
        let nr = self.cpus.len();
        let mut from_there = (0..nr).map(|step| (cpu + step) % nr);
        let found = from_there.find(|&cpu| self.is_online(cpu) && self.may_run(task, cpu));
        found.unwrap_or_else(|| {
            self.allow(task, None);
            let mut online = (0..nr).filter(|&cpu| self.is_online(cpu));
            online.next().expect("the last CPU stays online")
        })
    }

    /// The CPUs on which a task may run from now on, at least one, or all. It is not moved.
    pub(crate) fn allow(&mut self, task: TaskIndex, cpus: Option<CpuMask>) {
        let state = &mut self.tasks[task];
        state.bound_to = cpus.as_ref().and_then(CpuMask::only);
        state.allowed = cpus.map(Box::new);
        state.allowed_since = self.now;
    }

    /// Takes a task that waits away from where it does. One that the scheduler holds is for that to take away.
    pub(crate) fn take_away(&mut self, task: TaskIndex) {
        let state = &mut self.tasks[task];
        match std::mem::replace(&mut state.place, Place::Nowhere) {
            Place::Queue(queue) => self.queues[queue].remove(task, state.position),
            Place::Local(cpu) => self.cpus[cpu].local.retain(|&other| other != task),
            _ => (),
        }
    }

    /// So many more queues; the number of the first.
    pub fn create_queues(&mut self, nr: usize) -> QueueIndex {
        self.queues.resize_with(self.queues.len() + nr, Queue::default);
        self.queues.len() - nr
    }

    /// How many wait in a queue (`scx_bpf_dsq_nr_queued`).
    pub fn nr_queued(&self, queue: QueueIndex) -> usize {
        self.queues[queue].len()
    }

    /// The first of a queue (`scx_bpf_dsq_peek`).
    pub fn peek(&self, queue: QueueIndex) -> Option<TaskIndex> {
        self.queues[queue].iter().next()
    }

    /// In `select_cpu` only: the task goes to the local queue of the CPU that is returned.
    pub fn insert_direct(&mut self, task: TaskIndex, slice: Ns, preempt: bool) {
        self.tasks[task].direct = Some(Direct { slice, preempt });
    }

    /// Puts a task without a place into a queue (`scx_bpf_dsq_insert_vtime`).
    pub fn insert_queue(&mut self, task: TaskIndex, queue: QueueIndex, slice: Ns, key: u64) {
        self.nr_inserted += 1;
        let position = self.queues[queue].insert(task, key, self.nr_inserted);
        let task = &mut self.tasks[task];
        assert_eq!(task.place, Place::Nowhere, "a task is in one queue");
        task.position = position;
        task.slice = slice;
        task.place = Place::Queue(queue);
    }

    /// Puts a task without a place into a CPU's local queue (`SCX_DSQ_LOCAL_ON`): at its end, or before all others and in
    /// place of what runs there. If it cannot run at once it is sent back (`SCX_ENQ_IMMED`). If the CPU is offline it goes to
    /// another (in the kernel by way of the global queue).
    pub fn insert_local(&mut self, task: TaskIndex, cpu: CpuIndex, slice: Ns, preempt: bool) {
        let cpu = if self.is_online(cpu) {
            cpu
        } else {
            self.online_for(task, cpu)
        };
        let state = &mut self.tasks[task];
        assert!(
            matches!(state.place, Place::Nowhere | Place::Held),
            "a task is in one queue"
        );
        state.slice = slice;
        state.place = Place::Local(cpu);
        state.cpu = cpu;
        if preempt {
            self.cpus[cpu].local.push_front(task);
            self.kick_preempt(cpu);
        } else {
            self.cpus[cpu].local.push_back(task);
            self.kick(cpu);
        }
    }

    /// Moves a task from a queue in which it was withheld to another (`scx_bpf_dsq_move_vtime`).
    pub fn move_to_queue(&mut self, task: TaskIndex, queue: QueueIndex, slice: Ns, key: u64) {
        self.take_away(task);
        self.insert_queue(task, queue, slice, key);
        self.tasks[task].allowed_since = self.now;
    }

    /// The first of a queue, at most so many.
    pub fn queued(&self, queue: QueueIndex, most: usize) -> Vec<TaskIndex> {
        self.queues[queue].iter().take(most).collect()
    }

    /// Gives a task another place in its queue (`scx_bpf_dsq_move_vtime`).
    pub fn move_within(&mut self, task: TaskIndex, queue: QueueIndex, key: u64) {
        self.queues[queue].remove(task, self.tasks[task].position);
        self.nr_inserted += 1;
        self.tasks[task].position = self.queues[queue].insert(task, key, self.nr_inserted);
    }

    /// The scheduler keeps a task without a place itself.
    pub fn hold(&mut self, task: TaskIndex) {
        let task = &mut self.tasks[task];
        assert_eq!(task.place, Place::Nowhere, "a task is in one queue");
        task.place = Place::Held;
    }

    /// Moves the first task of a queue that may run there to the CPU's local queue (`scx_bpf_dsq_move_to_local`).
    pub fn move_to_local(&mut self, cpu: CpuIndex, queue: QueueIndex) -> bool {
        let Some(task) = self.queues[queue].iter().find(|&task| self.may_run(task, cpu)) else {
            return false;
        };
        self.queues[queue].remove(task, self.tasks[task].position);
        let state = &mut self.tasks[task];
        state.place = Place::Local(cpu);
        state.cpu = cpu;
        self.cpus[cpu].local.push_back(task);
        true
    }

    /// Whether nothing is in the CPU's local queue.
    pub fn has_nothing(&self, cpu: CpuIndex) -> bool {
        self.cpus[cpu].local.is_empty()
    }

    /// Gives a task, mostly a running one, a new slice.
    pub fn set_slice(&mut self, task: TaskIndex, slice: Ns) {
        self.tasks[task].slice = slice;
    }

    /// Claims a CPU if it is idle (`scx_bpf_test_and_clear_cpu_idle`).
    pub fn claim_idle(&mut self, cpu: CpuIndex) -> bool {
        self.idle.remove(cpu)
    }

    /// Whether nothing runs on this CPU and nobody has claimed it (`scx_bpf_get_idle_cpumask`).
    pub fn is_idle(&self, cpu: CpuIndex) -> bool {
        self.idle.has(cpu)
    }

    /// The idle CPUs behind a last-level cache, ascending.
    pub(crate) fn idle_behind(&self, llc: usize) -> impl Iterator<Item = CpuIndex> + '_ {
        self.idle.among(&self.domains.llcs[llc])
    }

    /// The first idle CPU behind a last-level cache from this one on, after the last the first.
    pub(crate) fn next_idle_behind(&self, llc: usize, from: CpuIndex) -> Option<CpuIndex> {
        self.idle
            .next_among(&self.domains.llcs[llc], from % self.cpus.len())
    }

    /// Whether a CPU is idle on which the task may run.
    pub(crate) fn has_idle_for(&self, task: TaskIndex) -> bool {
        (0..self.cpus.len()).any(|cpu| self.is_idle(cpu) && self.may_run(task, cpu))
    }

    /// Whether the kernel knows that some CPUs share a core (`sched_smt_active`).
    pub fn knows_cores(&self) -> bool {
        self.idle.knows_cores()
    }

    /// The CPUs of a core, ascending, whether the kernel knows or not.
    pub fn core_of(&self, cpu: CpuIndex) -> &[CpuIndex] {
        self.idle.core_of(cpu)
    }

    /// Claims an idle CPU on which the task may run (`scx_bpf_pick_idle_cpu`), of an idle core if the kernel knows of one, each
    /// time from where it found the last.
    pub fn claim_any_idle(&mut self, task: TaskIndex) -> Option<CpuIndex> {
        match &self.tasks[task].allowed {
            None => self.idle.claim_any(),
            Some(allowed) => self.idle.claim_any_in(allowed),
        }
    }

    /// The same of an idle core only (`SCX_PICK_IDLE_CORE`).
    pub fn claim_idle_core(&mut self, task: TaskIndex) -> Option<CpuIndex> {
        match &self.tasks[task].allowed {
            None => self.idle.claim_whole(),
            Some(allowed) => self.idle.claim_whole_in(allowed),
        }
    }

    /// Claims an idle CPU for a task that wakes up (`scx_bpf_select_cpu_and`): the one that it ran on if that is idle, else one
    /// that shares a last-level cache with that, else any. Where the kernel knows which share cores it looks for one of an
    /// idle core first, in the same order.
    pub fn select_idle(&mut self, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        let own = Some(prev).filter(|&prev| self.may_run(task, prev));
        if own.is_some_and(|prev| self.idle.claim_if_whole(prev)) {
            return own;
        }
        let near = (self.domains.nr_llcs() > 1).then(|| self.domains.llc_of(prev));
        let core = near.and_then(|llc| self.claim_in_llc(task, llc, Idle::claim_whole_in));
        if let Some(found) = core.or_else(|| self.claim_idle_core(task)) {
            return Some(found);
        }
        if own.is_some_and(|prev| self.claim_idle(prev)) {
            return own;
        }
        near.and_then(|llc| self.claim_in_llc(task, llc, Idle::claim_any_in))
            .or_else(|| self.claim_any_idle(task))
    }

    /// Claims an idle CPU of this last-level cache on which the task may run.
    pub(crate) fn claim_in_llc(
        &mut self,
        task: TaskIndex,
        llc: usize,
        claim: impl FnOnce(&mut Idle, &CpuMask) -> Option<CpuIndex>,
    ) -> Option<CpuIndex> {
        let llc = &self.domains.llcs[llc];
        match &self.tasks[task].allowed {
            None => claim(&mut self.idle, llc),
            Some(allowed) => claim(&mut self.idle, &llc.and(allowed)),
        }
    }

    /// How late a CPU that runs takes an interrupt: up to so many instructions, of which it has fewer beside a busy sibling.
    fn interrupt_latency(&mut self, cpu: CpuIndex) -> Ns {
        let most = self.costs.interrupt_ns * RATE_ONE / self.cpus[cpu].pace();
        self.interrupts.below(most + 1)
    }

    /// Has a CPU look for what to run (`SCX_KICK_IDLE` for an idle one).
    pub fn kick(&mut self, cpu: CpuIndex) {
        let late = match self.cpus[cpu].running {
            _ if cpu == self.here => 0,
            None => self.costs.kick_ns,
            Some(_) => self.interrupt_latency(cpu),
        };
        let mut at = self.now + self.hook_takes + late;
        if let Some(delays) = &mut self.delays {
            at += delays.of_kick();
        }
        // One that is under way does, unless what ran then keeps the CPU from it for longer.
        if self.cpus[cpu].kicked_for.is_some_and(|kicked| kicked <= at) {
            return;
        }
        self.cpus[cpu].kicked_for = Some(at);
        self.events.add(at, Event::Reschedule { cpu });
    }

    /// Ends the slice of what runs there (`SCX_KICK_PREEMPT`).
    pub fn kick_preempt(&mut self, cpu: CpuIndex) {
        if self.hook_takes > 0 {
            // Whoever runs there when the interrupt's handler is done (`kick_cpus_irq_workfn()`).
            let (at, by) = (self.now + self.hook_takes, self.here);
            return self.events.add(at, Event::Preempt { cpu, by });
        }
        if let Some(running) = self.cpus[cpu].running {
            self.account(cpu);
            self.tasks[running].slice = 0;
        }
        self.kick(cpu);
    }

    /// Has [`crate::Scheduler::tick`] called for this CPU also in so long (HRTICK).
    pub fn set_alarm(&mut self, cpu: CpuIndex, delay: Ns) {
        self.events.add(self.now + delay, Event::Alarm { cpu });
    }

    /// Has [`crate::Scheduler::timer`] called in so long, on this CPU, instead of when it was to be.
    pub fn start_timer(&mut self, delay: Ns) {
        self.timer_generation = self.timer_generation.wrapping_add(1);
        self.timer_cpu = self.here;
        let generation = self.timer_generation;
        let jitter = self.delays.as_mut().map_or(0, |delays| delays.of_timer());
        let late = self.interrupt_latency(self.here) + jitter;
        let at = self.now + self.hook_takes + delay + late;
        self.events.add(at, Event::Timer { generation });
    }

    /// Has [`crate::Scheduler::other_timer`] called in so long, on whatever CPU is there.
    pub fn start_other_timer(&mut self, delay: Ns) {
        let jitter = self.delays.as_mut().map_or(0, |delays| delays.of_timer());
        let at = self.now + self.hook_takes + delay + jitter;
        self.events.add(at, Event::OtherTimer);
    }

    /// The CPU at hand takes an interrupt, whose handler is at work for so long.
    pub(crate) fn enter_interrupt(&mut self, cost: Ns) {
        let cpu = self.here;
        self.interrupt(cpu, cost);
        self.hook_takes = work(cost).div_ceil(self.cpus[cpu].pace());
    }

    /// What a CPU takes to ask and go on with what runs.
    pub(crate) fn keep_takes(&self, cpu: CpuIndex) -> Ns {
        work(self.costs.keep_ns).div_ceil(self.cpus[cpu].pace())
    }

    /// What the interrupt's handler that is at work takes.
    pub(crate) fn hook_takes(&self) -> Ns {
        self.hook_takes
    }

    pub(crate) fn leave_interrupt(&mut self) {
        self.hook_takes = 0;
    }

    /// Whether this expiry of the timer still counts, and then the CPU on which it happens.
    pub(crate) fn timer_expires(&self, generation: u32) -> Option<CpuIndex> {
        // The timers of a CPU that goes offline move to another (kernel/time/hrtimer.c).
        let online = |&cpu: &CpuIndex| self.is_online(cpu);
        let cpu = Some(self.timer_cpu)
            .filter(online)
            .or_else(|| (0..self.cpus.len()).find(online));
        cpu.filter(|_| generation == self.timer_generation)
    }

    /// Brings what a CPU's task ran and did up to date.
    pub(crate) fn account(&mut self, cpu: CpuIndex) {
        let state = &mut self.cpus[cpu];
        let Some(running) = state.running else { return };
        let task = &mut self.tasks[running];
        let ran = self.now - task.exec_start;
        task.exec_start = self.now;
        task.ran += ran;
        if task.slice != ENDLESS {
            task.slice = task.slice.saturating_sub(ran);
        }
        if self.now > state.progress_from {
            let progress = (self.now - state.progress_from) * state.pace();
            let progress = progress.min(task.left);
            task.left -= progress;
            task.counted.instructions += progress / RATE_ONE;
            if task.doing == Doing::Compute {
                task.done += progress;
                task.counted.misses += misses(progress, task.memory, state.miss);
            }
            state.progress_from = self.now;
        }
    }

    /// The kernel does something on a CPU before what runs there goes on.
    pub(crate) fn interrupt(&mut self, cpu: CpuIndex, cost: Ns) {
        self.account(cpu);
        self.delay(cpu, cost);
        self.expect_done(cpu);
    }

    /// The kernel does something first, at the rate that the CPU has now.
    pub(crate) fn delay(&mut self, cpu: CpuIndex, cost: Ns) {
        let state = &mut self.cpus[cpu];
        state.progress_from = state.progress_from.max(self.now) + work(cost).div_ceil(state.pace());
    }

    /// What begins to run on another core than the last time has its migration to pay, and a working set to bring.
    pub(crate) fn settle(&mut self, cpu: CpuIndex, task: TaskIndex) {
        let from = self.tasks[task].ran_on.replace(cpu).unwrap_or(cpu);
        if self.costs.migrate_ns > 0 && self.hardware.core_of(from) != self.hardware.core_of(cpu) {
            self.delay(cpu, self.costs.migrate_ns);
        }
        self.fill_cache(cpu, task);
    }

    /// A running task uses memory so from now on.
    pub(crate) fn use_memory(&mut self, cpu: CpuIndex, task: TaskIndex, memory: Memory) {
        self.tasks[task].memory = memory;
        self.fill_cache(cpu, task);
    }

    /// Who uses memory behind another last-level cache than before fills that one first, at the speed of memory.
    fn fill_cache(&mut self, cpu: CpuIndex, task: TaskIndex) {
        let state = &mut self.tasks[task];
        if state.memory.accesses_per_us == 0 {
            return;
        }
        let llc = self.domains.llc_of(cpu);
        if state.filled.replace(llc).is_none_or(|filled| filled == llc) {
            return;
        }
        let occupant = Occupant::computing(state.memory, state.program, state.thread);
        let refill_ns = self.hardware.refill_ns(cpu, occupant);
        let state = &mut self.cpus[cpu];
        state.progress_from = state.progress_from.max(self.now) + refill_ns;
    }

    /// What is on a CPU, for the hardware.
    pub(crate) fn occupant(&self, cpu: CpuIndex) -> Occupant {
        let Some(running) = self.cpus[cpu].running else {
            return Occupant::Nobody;
        };
        let task = &self.tasks[running];
        if task.doing == Doing::Compute && task.memory.accesses_per_us > 0 {
            return Occupant::computing(task.memory, task.program, task.thread);
        }
        Occupant::Runs
    }

    /// Brings the rates of all up to date with what is on this CPU, whose own task is accounted.
    pub(crate) fn occupy(&mut self, cpu: CpuIndex) {
        if self.hardware.is_plain() {
            return;
        }
        let changed = self.hardware.occupy(cpu, self.occupant(cpu), self.now);
        self.cpus[cpu].miss = self.hardware.miss(cpu);
        for &(other, rate) in &changed {
            if other == cpu {
                self.cpus[cpu].rate = rate;
                continue;
            }
            self.account(other);
            self.cpus[other].rate = rate;
            self.cpus[other].miss = self.hardware.miss(other);
            self.expect_done(other);
        }
        self.hardware.done_with(changed);
    }

    /// Has what runs on a CPU be done when it will be.
    pub(crate) fn expect_done(&mut self, cpu: CpuIndex) {
        self.occupy(cpu);
        let state = &mut self.cpus[cpu];
        state.generation = state.generation.wrapping_add(1);
        let Some(running) = state.running else { return };
        let task = &self.tasks[running];
        if matches!(task.doing, Doing::Spin(_)) {
            return;
        }
        let at = state.progress_from.max(self.now) + task.left.div_ceil(state.pace());
        let generation = state.generation;
        self.events.add(at, Event::Done { cpu, generation });
    }
}

/// How often a task missed the last-level cache while it did so much work, of whose accesses this share misses.
fn misses(progress: Work, memory: Memory, miss: u64) -> u64 {
    let accesses = u128::from(progress) * u128::from(memory.accesses_per_us) / 1000;
    (accesses * u128::from(miss) / u128::from(RATE_ONE * RATE_ONE)) as u64
}

/// For each CPU those of its core, by index.
fn cores(machine: &Machine) -> Vec<Vec<CpuIndex>> {
    let mut members = vec![Vec::new(); machine.nr_cores()];
    for (index, cpu) in machine.cpus().iter().enumerate() {
        members[cpu.core.index()].push(index);
    }
    let of = |cpu: &threadwise_machine::Cpu| members[cpu.core.index()].clone();
    machine.cpus().iter().map(of).collect()
}
