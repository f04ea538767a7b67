// SPDX-License-Identifier: GPL-2.0-only
//! Our scheduler: the decisions of `policy/`, asked for as `crates/scheduler/src/bpf` asks for them.
//!
//! The hooks here have the names and the order of those in `main.bpf.c`, and what they call that of the headers after which the
//! files of this folder are named; the reasons stand there. A decision that is taken here and not in `policy/` is a fault.

mod alternation;
mod charge;
mod crowd;
mod exchange;
mod home;
mod idle;
mod order;
mod pairing;
mod preempt;
mod rotation;
mod seniority;
mod smt;
mod speed;
mod spread;

use std::cell::Cell;

use threadwise_policy::{
    AlternateBy, CAPACITY_ONE, Class, Group, Keys, Look, Mode, Need, PairingBy, Rest, Search, Seat, Task,
    Timer, Tunables, answers_call, fastest_first, goes_on_until_due, longer_look, look_takes,
    looks_for_better, makes_room, may_preempt, phase_began, phase_ended,
};

use self::alternation::Alternating;
use self::crowd::Crowd;
use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, Place, QueueIndex, TaskIndex};
use crate::mask::CpuMask;
use crate::scheduler::{Enqueue, Scheduler};
use crate::timeline::Boost;

/// What a task's vtime needs beyond the kernel's own accounting (`struct task_ctx`).
#[derive(Clone, Copy, Debug, Default)]
struct TaskContext {
    vtime: u64,
    charged_ns: Ns,
    /// Up to when its program is told that it waited.
    waited_ns: Ns,
    /// What its program was told of its present wait.
    told_ns: Ns,
    nr_sleeps: u64,
    /// The parallel phase of its program in which it was last charged.
    phase: u32,
    /// Whether it is counted among the ready threads of its program.
    ready: bool,
    /// Whether it is new, or woke up since it ran.
    woke: bool,
    /// The better CPU that it leaves its own for, and whether that has to be taken.
    leaves_for: Option<(CpuIndex, bool)>,
    /// Whether its own has just looked for one in vain.
    looked: bool,
    /// What it needs of a last-level cache, as counters tell.
    need: Need,
    /// How long it stays behind one after it changed places.
    rest: Rest,
}

/// The timer's state between and during its looks (`rotation_state`).
#[derive(Default, Debug)]
struct Rotation {
    timer: Timer,
    queue_cursor: usize,
    cpu_cursor: usize,
    look: Look,
    /// Up to which hand-over it looked.
    handovers: u32,
    /// What a look of the timer takes on the mean.
    look_ns: Ns,
    /// The foremost of those that may run elsewhere, and its queue.
    first: Option<(Task, CpuIndex)>,
}

/// scx_threadwise.
pub struct Threadwise {
    tun: Tunables,
    groups: Vec<Group>,
    tasks: Vec<TaskContext>,
    /// The queue of the first CPU; the others follow.
    queues: QueueIndex,
    /// CPUs whose queue may hold something.
    marked: CpuMask,
    /// And those of them whose queue may hold a task that may run elsewhere.
    movable: CpuMask,
    /// At most so many tasks wait in each CPU's queue, unless it is 0.
    queued_most: Vec<u32>,
    cursors: Vec<usize>,
    /// How fast each CPU is, as far as it knows.
    capacities: Vec<u32>,
    /// The CPUs among which a task looks for a better one than its own, the fastest first, and how many of them are faster than
    /// the slowest.
    places: Vec<CpuIndex>,
    nr_faster: usize,
    /// Where each CPU's look at slower ones goes on, counted from itself.
    call_cursors: Vec<usize>,
    /// The faster CPU to which each was asked to send its task, and whose task it is to have in exchange.
    called_to: Vec<Option<CpuIndex>>,
    swaps_with: Vec<Option<CpuIndex>>,
    /// The CPU to whose queue each was sent.
    sent_to: Vec<Option<CpuIndex>>,
    /// What the keys of each CPU's queue go by.
    keys: Vec<Keys>,
    /// Up to which hand-over of seniority each CPU's queue was put in order.
    sorted_for: Vec<u32>,
    /// Until when no serial task that wakes up takes each CPU, as last looked at, and none does of all CPUs.
    stays_until: Vec<Cell<Ns>>,
    all_stay_until: Cell<Ns>,
    /// How many programs are parallel.
    nr_parallel: u32,
    /// When a parallel task was last seen ready that may run on this CPU only.
    bound_parallel_at: Vec<Cell<Option<Ns>>>,
    /// When a CPU that is not the fastest kept its task last.
    slower_kept_at: Option<Ns>,
    /// What a CPU takes on the mean that looks at faster ones.
    cpu_look_ns: Ns,
    /// Whether CPUs share cores, and whether the kernel does not know which.
    has_smt: bool,
    hidden_smt: bool,
    mode: Mode,
    /// The last-level cache where each program is at home: that of the first thread of it that was ready, until it moves.
    homes: Vec<Option<usize>>,
    /// Sets of programs that share memory (`--share`).
    shares: Vec<Vec<usize>>,
    /// What tells how much of a last-level cache tasks need.
    pairing: PairingBy,
    /// When each CPU's task was last looked at for an exchange with that of another cache, and when there was one.
    exchange_looked_at: Vec<Option<Ns>>,
    exchanged_at: Option<Ns>,
    alternating: Alternating,
    vtime_now: u64,
    /// When the clock last followed a light task.
    light_at: Ns,
    tasks_wait: bool,
    senior: Option<usize>,
    /// What it had lost when it became senior, or the last one.
    senior_lost: u32,
    /// And since when it is.
    senior_since: Ns,
    /// How often another program became senior than that which was it last.
    nr_handovers: u32,
    last_senior: Option<usize>,
    rotation: Rotation,
    crowd: Crowd,
}

/// How long before it runs anything a simulated machine was booted: to the policy a time of 0 is one that never came.
const BOOTED_AGO_NS: Ns = 60_000_000_000;

/// The time since the machine was booted, for what the policy keeps points of time of.
fn uptime(kernel: &Kernel) -> Ns {
    BOOTED_AGO_NS + kernel.now
}

impl Threadwise {
    /// For the kernel's CPUs, whose capacities it knows, and of whose cores what the kernel does.
    pub fn new(kernel: &mut Kernel, tun: Tunables) -> Self {
        let has_smt = kernel.knows_cores();
        Self::of(kernel, tun, has_smt)
    }

    /// The same, told by `--machine` which CPUs share a core, whether the kernel knows or not.
    pub fn told(kernel: &mut Kernel, tun: Tunables) -> Self {
        let has_smt = (0..kernel.cpus.len()).any(|cpu| kernel.core_of(cpu).len() > 1);
        Self::of(kernel, tun, has_smt)
    }

    fn of(kernel: &mut Kernel, tun: Tunables, has_smt: bool) -> Self {
        let nr = kernel.cpus.len();
        let capacities: Vec<u32> = kernel.cpus.iter().map(|cpu| cpu.capacity).collect();
        let (mut places, nr_faster) = fastest_first(&capacities);
        if !has_smt {
            places.truncate(nr_faster);
        }
        Self {
            tun,
            groups: Vec::new(),
            tasks: Vec::new(),
            queues: kernel.create_queues(nr),
            marked: CpuMask::none(nr),
            movable: CpuMask::none(nr),
            queued_most: vec![0; nr],
            cursors: vec![0; nr],
            places,
            nr_faster,
            call_cursors: vec![0; nr],
            capacities,
            called_to: vec![None; nr],
            swaps_with: vec![None; nr],
            sent_to: vec![None; nr],
            sorted_for: vec![0; nr],
            keys: vec![Keys::default(); nr],
            stays_until: vec![Cell::new(0); nr],
            all_stay_until: Cell::new(0),
            nr_parallel: 0,
            bound_parallel_at: vec![Cell::new(None); nr],
            slower_kept_at: None,
            cpu_look_ns: 0,
            has_smt,
            hidden_smt: has_smt && !kernel.knows_cores(),
            mode: Mode::Near,
            homes: Vec::new(),
            shares: Vec::new(),
            pairing: PairingBy::Auto,
            exchange_looked_at: vec![None; nr],
            exchanged_at: None,
            alternating: Alternating::new(kernel),
            vtime_now: 0,
            light_at: 0,
            tasks_wait: false,
            senior: None,
            senior_lost: 0,
            senior_since: 0,
            nr_handovers: 0,
            last_senior: None,
            rotation: Rotation::default(),
            crowd: Crowd::default(),
        }
    }

    /// The same, where neither the kernel nor a machine file says how fast CPUs are, as in the lab's guests.
    pub fn untold_of_speeds(mut self) -> Self {
        self.capacities.fill(CAPACITY_ONE);
        self.places.clear();
        self.nr_faster = 0;
        self
    }

    /// The same, looking for idle CPUs as `--mode` says.
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The same, going by this (`--pairing`); of these, hardware counters and resident sets are simulated.
    pub fn pairing_by(self, pairing: PairingBy) -> Self {
        Self { pairing, ..self }
    }

    /// The same, where these programs share memory (`--share`).
    pub fn sharing(mut self, programs: &[usize]) -> Self {
        if programs.len() > 1 {
            self.shares.push(programs.to_vec());
        }
        self
    }

    /// The same, finding programs by this that run one after the other (`--alternate`); page faults are not simulated.
    pub fn alternating_by(mut self, by: AlternateBy) -> Self {
        self.alternating.by = by;
        self
    }

    fn cpus_differ(&self) -> bool {
        self.nr_faster > 0 || self.has_smt || self.has_mode() || self.alternating.is_on()
    }

    fn look_takes(&self) -> Ns {
        longer_look(self.rotation.look_ns, self.cpu_look_ns)
    }

    fn free_slice(&self) -> Ns {
        self.tun
            .slice(self.tasks_wait, self.nr_faster > 0, self.look_takes())
    }

    fn nr_waiting(&self, kernel: &Kernel, cpu: CpuIndex) -> u32 {
        kernel.nr_queued(self.queues + cpu) as u32
    }

    fn first_of(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        kernel.peek(self.queues + cpu)
    }

    pub(super) fn mark(&mut self, cpu: CpuIndex, movable: bool) {
        self.marked.add(cpu);
        if movable {
            self.movable.add(cpu);
        }
    }

    fn unmark(&mut self, cpu: CpuIndex) {
        self.marked.remove(cpu);
        self.movable.remove(cpu);
    }

    fn unmark_if_empty(&mut self, kernel: &Kernel, cpu: CpuIndex) {
        if self.nr_waiting(kernel, cpu) == 0 {
            self.unmark(cpu);
        }
    }

    /// A CPU took the first of its own queue: the mark goes with the last.
    fn took_own(&mut self, cpu: CpuIndex) {
        if self.alternating.by == AlternateBy::Off && self.queued_most[cpu] > 0 {
            self.queued_most[cpu] -= 1;
            if self.queued_most[cpu] == 0 {
                self.unmark(cpu);
            }
        }
    }

    /// The next CPU but this one whose queue may hold a task that may run elsewhere.
    fn next_queue_for(&mut self, nr_cpus: usize, cpu: CpuIndex) -> Option<CpuIndex> {
        let found = self.movable.next(self.cursors[cpu], Some(cpu))?;
        self.cursors[cpu] = (found + 1) % nr_cpus;
        Some(found)
    }

    /// Claims an idle CPU for a task that wakes up.
    fn claim_idle(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        let seat = match (self.has_mode(), self.hidden_smt) {
            (true, _) => self.claim_spot(kernel, task, prev, None),
            (false, true) => self.claim_seat(kernel, task, prev, Seat::NONE),
            (false, false) => None,
        };
        if seat.is_some() {
            return seat;
        }
        if !self.has_smt && kernel.may_run(task, prev) && kernel.claim_idle(prev) {
            return Some(prev);
        }
        let seat = kernel.select_idle(task, prev)?;
        if !self.has_smt || self.hidden_smt || self.has_mode() {
            return Some(seat);
        }
        Some(self.prefer_core(kernel, task, prev, seat))
    }

    /// A better CPU than this to which a task of this class goes, and whether it is taken from another.
    fn find_better(
        &mut self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        cpu: CpuIndex,
    ) -> Option<(CpuIndex, bool)> {
        let better = match class.search(self.nr_faster > 0, self.has_mode(), self.has_smt) {
            Search::Place => return self.find_place(kernel, task, class, cpu, true),
            Search::Spot => self.claim_spot(kernel, task, cpu, Some(class)),
            Search::Seat => self.find_better_seat(kernel, task, class, cpu),
            Search::Nowhere => None,
        };
        better.map(|better| (better, false))
    }

    /// Sends a task that goes before others to an idle CPU or to that of another task; false if there is none for it.
    fn insert_first(&self, kernel: &mut Kernel, index: TaskIndex, task: &Task, wakes: bool) -> bool {
        let state = &kernel.tasks[index];
        if !wakes && state.bound_to.is_none() {
            match self.claim_near(kernel, index) {
                Ok(idle) => {
                    kernel.insert_local(index, idle, self.free_slice(), false);
                    return true;
                }
                // Where idle CPUs are too far away, so are those of others.
                Err(true) => return false,
                Err(false) => {}
            }
        }
        let victim = self.find_victim(kernel, index, task, wakes);
        if let Some(victim) = victim {
            note_boost(kernel, index, task.class, victim, (false, true));
            kernel.insert_local(index, victim, self.tun.slice_ns, true);
        }
        victim.is_some()
    }

    /// A task wakes up, and `select_cpu` was not asked. Whether there was a CPU for it.
    fn enqueue_unselected(&mut self, kernel: &mut Kernel, task: TaskIndex, own: CpuIndex) -> bool {
        if self.nr_faster > 0 {
            let class = self.class_of(kernel, task);
            if let Some((cpu, taken)) = self.find_place(kernel, task, class, own, false) {
                note_boost(kernel, task, class, cpu, (self.is_fast(cpu), taken));
                kernel.insert_local(task, cpu, self.free_slice(), taken);
                return true;
            }
        }
        let idle = match kernel.tasks[task].bound_to {
            Some(_) => kernel.claim_idle(own).then_some(own),
            None => self.claim_idle(kernel, task, own),
        };
        if let Some(cpu) = idle {
            kernel.insert_local(task, cpu, self.free_slice(), false);
        }
        idle.is_some()
    }

    /// Where CPUs differ, sends a task of this class to the CPU for which it left its own, or else to one that is better than its own.
    fn enqueue_better(
        &mut self,
        kernel: &mut Kernel,
        (task, class): (TaskIndex, Class),
        cpu: CpuIndex,
        wakes: bool,
    ) -> bool {
        // What it decided before it slept is stale.
        let leaves_for = self.tasks[task].leaves_for.take().filter(|_| !wakes);
        let looked = std::mem::take(&mut self.tasks[task].looked);
        let looks = looks_for_better(wakes, looked, self.nr_faster > 0);
        let better = leaves_for.or_else(|| {
            looks
                .then(|| self.find_better(kernel, task, class, cpu))
                .flatten()
        });
        let Some((better, taken)) = better.filter(|&(better, _)| kernel.may_run(task, better)) else {
            return false;
        };
        if leaves_for.is_some() && taken {
            self.swaps_with[better] = Some(cpu);
        }
        note_boost(kernel, task, class, better, (self.is_fast(better), taken));
        kernel.insert_local(task, better, self.free_slice(), taken);
        true
    }

    /// What runs on a CPU leaves that for a better one, or for one that called for it, whichever task it is by now. False if it
    /// stays.
    fn leave_for_better(
        &mut self,
        kernel: &mut Kernel,
        (prev, class): (TaskIndex, Class),
        cpu: CpuIndex,
        called_to: Option<CpuIndex>,
    ) -> bool {
        let may_go = called_to.filter(|&there| answers_call(class) && kernel.may_run(prev, there));
        let better = self.find_better(kernel, prev, class, cpu);
        let Some(leaves_for) = better.or_else(|| may_go.map(|there| (there, true))) else {
            self.tasks[prev].looked = true;
            return false;
        };
        self.tasks[prev].leaves_for = Some(leaves_for);
        if let (better, false) = leaves_for {
            kernel.kick(better);
        }
        true
    }

    fn dispatch_idle(&mut self, kernel: &mut Kernel, cpu: CpuIndex, sent_to: Option<CpuIndex>) {
        if self.marked.has(cpu) {
            self.sort_for_senior(kernel, cpu);
            if kernel.move_to_local(cpu, self.queues + cpu) {
                return self.took_own(cpu);
            }
            self.unmark_if_empty(kernel, cpu);
        }
        if !self.tasks_wait {
            return;
        }
        let has_caches = kernel.domains.nr_llcs() > 1;
        // Where it was woken for somebody that may be behind another cache.
        if let Some(queue) = sent_to.filter(|&queue| has_caches && queue != cpu) {
            let leaves = !kernel.domains.is_across(cpu, queue) || self.lets_leave(kernel, queue, cpu);
            if leaves && kernel.move_to_local(cpu, self.queues + queue) {
                return;
            }
        }
        if !self.steal(kernel, cpu, false) && has_caches {
            self.steal(kernel, cpu, true);
        }
    }

    /// Whether the first that waits in a queue leaves its last-level cache for this CPU, or may not run here.
    fn lets_leave(&mut self, kernel: &mut Kernel, queue: CpuIndex, cpu: CpuIndex) -> bool {
        let first = self
            .first_of(kernel, queue)
            .filter(|&first| kernel.may_run(first, cpu));
        let answer = first.is_none_or(|first| self.leaves_cache(kernel, first));
        if !answer {
            self.look_when_it_leaves(kernel);
        }
        answer
    }

    /// Takes what waits elsewhere, behind the same last-level cache or `across`. False if that is nothing.
    fn steal(&mut self, kernel: &mut Kernel, cpu: CpuIndex, across: bool) -> bool {
        let mut first = None;
        for _ in 0..kernel.cpus.len() {
            let next = self.next_queue_for(kernel.cpus.len(), cpu);
            // It has been at all of them.
            let Some(from) = next.filter(|_| next != first) else {
                return false;
            };
            first = first.or(Some(from));
            let is_meant = kernel.domains.is_across(cpu, from) == across;
            let takes = is_meant && (!across || self.lets_leave(kernel, from, cpu));
            if takes && kernel.move_to_local(cpu, self.queues + from) {
                return true;
            }
        }
        false
    }

    /// Of two CPUs' queues the one whose first task comes first and before the running one; or for how long that may go on
    /// beside them, if somebody waits there.
    fn queue_before(
        &mut self,
        kernel: &mut Kernel,
        prev: TaskIndex,
        task: &mut Task,
        own: CpuIndex,
        other: Option<CpuIndex>,
    ) -> Result<CpuIndex, Option<Ns>> {
        let mine = self.first_of(kernel, own);
        let theirs = other
            .and_then(|other| Some((other, self.first_of(kernel, other)?)))
            .filter(|&(_, first)| kernel.may_run(first, own));
        let is_bound = |kernel: &Kernel, task: TaskIndex| kernel.tasks[task].bound_to.is_some();
        if mine.is_some_and(|mine| makes_room(task, is_bound(kernel, prev), is_bound(kernel, mine))) {
            return Ok(own);
        }
        let my_first = mine.map(|mine| (own, mine, self.look_at_waiting(kernel, mine, own)));
        let their_first = theirs.map(|(other, waiting)| {
            let first = self.look_at_waiting(kernel, waiting, other);
            let mine = my_first.as_ref().map(|(.., mine)| mine);
            let seen = self.seen_from(kernel, (own, mine), (other, &first));
            (other, waiting, seen)
        });
        if task.class == Class::Senior {
            task.class = self.class_of(kernel, prev);
        }
        let theirs_goes_first = my_first
            .zip(their_first)
            .is_some_and(|((.., mine), (.., theirs))| self.tun.goes_first(&theirs, &mine));
        let first = my_first.filter(|_| !theirs_goes_first).or(their_first);
        let due_in = first.map(|(from, waiting, first)| {
            let beside = Self::beside(kernel, prev, waiting);
            let in_ns = self.tun.makes_way_in(task, &first, beside);
            (from, waiting, first, in_ns)
        });
        if let Some((from, waiting, first, 0)) = due_in {
            self.end_turn(kernel, (prev, task), (waiting, &first));
            return Ok(from);
        }
        if let Some(mine) = mine {
            self.kick_idle_for(kernel, mine);
        }
        Err(due_in.map(|(.., in_ns)| in_ns))
    }
}

/// A task goes to a CPU ahead of others: because that is a faster one, or it is taken from what runs there.
fn note_boost(
    kernel: &mut Kernel,
    task: TaskIndex,
    class: Class,
    cpu: CpuIndex,
    (faster, taken): (bool, bool),
) {
    let boost = match class {
        Class::Serial if taken => Boost::Serial,
        Class::Serial if faster => Boost::Faster,
        Class::Senior if taken && !faster => Boost::Senior,
        _ if taken => Boost::Turn,
        _ => return,
    };
    kernel.boosted(task, cpu, boost);
}

impl Scheduler for Threadwise {
    fn wants_last(&self) -> bool {
        self.cpus_differ()
    }

    fn allows_queued_wakeups(&self) -> bool {
        true
    }

    fn vtime(&self, task: TaskIndex) -> Option<u64> {
        Some(self.tasks[task].vtime)
    }

    fn clock(&self) -> u64 {
        self.vtime_now
    }

    fn phase_base(&self, kernel: &Kernel, task: TaskIndex) -> u64 {
        self.groups[kernel.tasks[task].program].base(self.vtime_now)
    }

    /// Ready threads are counted rightly (the loader looks when it detaches that none are left), no CPU is passed over that a
    /// serial task could take, keys of a queue go by one boost, each queue that holds something is marked, and the timer looks after those that wait.
    fn check(&self, kernel: &Kernel) -> Result<(), String> {
        let mut nr_ready = vec![0; self.groups.len()];
        for task in &kernel.tasks {
            nr_ready[task.program] += u32::from(!matches!(task.place, Place::Nowhere | Place::Gone));
        }
        for (program, (group, is)) in self.groups.iter().zip(nr_ready).enumerate() {
            if group.nr_ready() != is {
                let counted = group.nr_ready();
                return Err(format!(
                    "program {program} has {is} ready threads, counted as {counted}"
                ));
            }
        }
        self.check_stays(kernel)?;
        for cpu in 0..kernel.cpus.len() {
            if self.nr_waiting(kernel, cpu) > 0
                && !(self.marked.has(cpu) && self.tasks_wait && self.rotation.timer.armed)
            {
                return Err(format!("nobody looks after those in the queue of CPU {cpu}"));
            }
            let waiting = kernel.queued(self.queues + cpu, usize::MAX);
            let may_move = |&task: &TaskIndex| kernel.tasks[task].bound_to.is_none();
            if !self.movable.has(cpu) && waiting.iter().any(may_move) {
                return Err(format!(
                    "nobody takes those in the queue of CPU {cpu} that may run elsewhere"
                ));
            }
        }
        self.check_keys(kernel)
    }

    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        let group = kernel.tasks[task].program;
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Group::default);
            self.homes.resize(group + 1, None);
        }
        self.tasks.push(TaskContext {
            vtime: self.vtime_now,
            ..TaskContext::default()
        });
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        self.runnable(kernel, task);
        if self.held_as(kernel, task).is_some() {
            return prev;
        }
        if self.nr_faster > 0 {
            let class = self.class_of(kernel, task);
            if let Some((cpu, taken)) = self.find_place(kernel, task, class, prev, false) {
                note_boost(kernel, task, class, cpu, (self.is_fast(cpu), taken));
                kernel.insert_direct(task, self.free_slice(), taken);
                return cpu;
            }
        }
        let Some(cpu) = self.claim_idle(kernel, task, prev) else {
            return prev;
        };
        kernel.insert_direct(task, self.free_slice(), false);
        cpu
    }

    fn enqueue(&mut self, kernel: &mut Kernel, index: TaskIndex, why: Enqueue) {
        let cpu = kernel.tasks[index].cpu;
        let is_bound = kernel.tasks[index].bound_to.is_some();
        // One that has never run is new, whyever it is queued.
        let comes = why.wakeup || kernel.tasks[index].ran_on.is_none();
        if !why.wakeup {
            self.note_counts(kernel, index);
        }
        let slot = self.held_as(kernel, index);
        if why.wakeup && !why.selected && slot.is_none() && self.enqueue_unselected(kernel, index, cpu) {
            return;
        }
        // Who found an idle CPU and was sent back from there has not run since either.
        let context = &mut self.tasks[index];
        let slept = kernel.tasks[index].nr_sleeps != context.nr_sleeps;
        context.woke = comes || (why.sent_back && (context.woke || slept));
        let (task, unboosted) = self.charge(kernel, index, comes);
        if let Some(slot) = slot {
            self.tasks[index].leaves_for = None;
            self.swaps_with[cpu] = None;
            let (queue, key) = (self.alternating.queues + slot, self.tun.key(&task));
            return kernel.insert_queue(index, queue, self.tun.slice_ns, key);
        }
        let direct = !why.sent_back;
        let swaps_with = self.swaps_with[cpu].take();
        if let Some(slow) = swaps_with.filter(|&slow| direct && !comes && kernel.may_run(index, slow)) {
            self.tasks[index].leaves_for = None;
            return kernel.insert_local(index, slow, self.free_slice(), false);
        }
        if self.cpus_differ() && direct {
            if self.enqueue_better(kernel, (index, task.class), cpu, comes) {
                return;
            }
            if why.last {
                return kernel.insert_local(index, cpu, self.tun.slice_ns, false);
            }
        }
        if may_preempt(task.class) && direct && self.insert_first(kernel, index, &task, comes) {
            return;
        }
        let key = self.key_to_queue((&task, unboosted), cpu);
        let slice = self.tun.slice_of(task.class, self.look_takes());
        self.queued_most[cpu] = task.nr_waiting + 1;
        kernel.insert_queue(index, self.queues + cpu, slice, key);
        self.mark(cpu, !is_bound);
        let found_none = comes && direct;
        let nr_threads = if found_none {
            kernel.nr_threads[kernel.tasks[index].program]
        } else {
            0
        };
        self.arm_rotation(kernel, &task, nr_threads);
        if !is_bound {
            self.kick_idle_for(kernel, index);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        let sent_to = self.sent_to[cpu].take();
        let Some(prev) = running else {
            // What was called for is gone.
            self.called_to[cpu] = None;
            self.dispatch_idle(kernel, cpu, sent_to);
            if kernel.has_nothing(cpu) {
                self.pull_from_slower(kernel, cpu);
            }
            return;
        };
        let (mut task, _) = self.charge(kernel, prev, false);
        self.note_counts(kernel, prev);
        // The kernel may not have enqueued it when it was to leave.
        self.tasks[prev].leaves_for = None;
        self.tasks[prev].looked = false;
        let called_to = self.called_to[cpu].take();
        if self.held_as(kernel, prev).is_some() {
            return self.dispatch_idle(kernel, cpu, sent_to);
        }
        if self.cpus_differ() && self.leave_for_better(kernel, (prev, task.class), cpu, called_to) {
            return self.dispatch_idle(kernel, cpu, sent_to);
        }
        let other = match sent_to {
            Some(queue) if queue != cpu => Some(queue),
            _ => self.next_queue_for(kernel.cpus.len(), cpu),
        };
        self.sort_for_senior(kernel, cpu);
        let before = self.queue_before(kernel, prev, &mut task, cpu, other);
        self.follow_senior(kernel);
        if let Ok(from) = before
            && kernel.move_to_local(cpu, self.queues + from)
        {
            if from == cpu {
                self.took_own(cpu);
            }
            return;
        }
        self.unmark_if_empty(kernel, cpu);
        let slice = match before {
            Err(Some(due_ns)) if goes_on_until_due(due_ns, self.nr_faster > 0) => {
                self.tun
                    .slice_beside(task.class, due_ns, self.weight_of(kernel, prev))
            }
            _ => self.free_slice(),
        };
        kernel.set_slice(prev, slice);
        if self.nr_faster > 0 {
            self.give_turn(kernel, cpu, prev, &task);
        } else if self.has_mode() && kernel.domains.nr_llcs() > 1 {
            self.exchange(kernel, cpu, prev);
        }
    }

    fn tick(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        if let Some(running) = kernel.cpus[cpu].running {
            self.note_counts(kernel, running);
        }
    }

    fn withholds(&self, kernel: &Kernel, task: TaskIndex) -> bool {
        self.held_as(kernel, task).is_some()
    }

    fn other_timer(&mut self, kernel: &mut Kernel) {
        self.give_turns(kernel);
    }

    /// `count_ready()`: each is counted once, and taken off once.
    fn runnable(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        self.start_alternation(kernel);
        if std::mem::replace(&mut self.tasks[task].ready, true) {
            return;
        }
        let group = &self.groups[kernel.tasks[task].program];
        if phase_began(group.add(), self.tun.serial_threshold) {
            self.nr_parallel += 1;
            group.begin(uptime(kernel), self.vtime_now, self.senior_lost);
        }
        self.count_in_share(kernel, task);
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex, sleeps: bool) {
        if !sleeps {
            return;
        }
        self.note_counts(kernel, task);
        self.tasks[task].ready = false;
        let group = kernel.tasks[task].program;
        let nr_ready = self.groups[group].sub();
        if phase_ended(nr_ready, self.tun.serial_threshold) {
            self.nr_parallel -= 1;
            if self.senior == Some(group) {
                self.senior = None;
            }
            if self.tasks_wait {
                self.look_soon(kernel);
            }
        }
    }

    fn timer(&mut self, kernel: &mut Kernel) {
        self.rotation.timer.armed = false;
        let went_over = self.go_over(kernel);
        if self.rotation.look.is_early(went_over) {
            return self.start_rotation(kernel, self.rotation.timer.key, self.shortest_step());
        }
        let nr_cpus = kernel.cpus.len() as u32;
        self.rotation.look.begin(kernel.now, nr_cpus);
        self.crowd.count(kernel);
        self.look_at_queues(kernel);
        // One of those that wait may have become senior.
        let went_over = self.go_over(kernel);
        if let Some((task, queue)) = self.rotation.first.filter(|_| !went_over) {
            self.rotate_for_first(kernel, &task, queue);
        }
        let in_ns = self.rotation.look.again(self.shortest_step(), went_over, nr_cpus);
        if in_ns.is_none() || self.rotation.look.saw_nobody(nr_cpus) {
            self.tasks_wait = self.rotation.timer.armed;
        }
        let Some(in_ns) = in_ns else {
            return;
        };
        self.rotation.look_ns = look_takes(self.rotation.look_ns, kernel.hook_takes());
        let first = self.rotation.first;
        let key = first.map_or(self.vtime_now, |(task, _)| self.tun.key(&task));
        self.start_rotation(kernel, key, in_ns);
    }
}

#[cfg(test)]
mod tests {
    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::Threadwise;
    use crate::scheduler::Scheduler;
    use crate::schedulers::Known;
    use crate::{Costs, Synthetic, World};

    /// A machine on which so many programs of one thread have been for 10 ms, under another scheduler, and ours that knows them.
    pub fn beside_others(machine: &str, ratio: &str, nr_programs: usize) -> (World, Threadwise) {
        let machine = Machine::load(machine).expect("a machine");
        let mut world = Known::RoundRobin.world(&machine, Costs::FREE, Tunables::default());
        for _ in 0..nr_programs {
            let ratio = ratio.parse().expect("a ratio");
            let program = Synthetic::new(ratio, 1_000_000_000, 1_000_000_000, 1, Wait::Passive, 1);
            world.start(Box::new(program), 100, None);
        }
        world.run_until(10_000_000).expect("it runs");
        let mut ours = Threadwise::new(&mut world.kernel, Tunables::default());
        (0..world.kernel.tasks.len()).for_each(|task| ours.enable(&world.kernel, task));
        (world, ours)
    }
}
