// SPDX-License-Identifier: GPL-2.0-only
//! Our scheduler: the decisions of `policy/`, asked for as `crates/scheduler/src/bpf` asks for them.
//!
//! The hooks here have the names and the order of those in `main.bpf.c`, `state.bpf.h`, `rotation.bpf.h`, `smt.bpf.h` and
//! `speed.bpf.h`, where the reasons stand. A decision that is taken here and not in `policy/` is a fault.

use threadwise_policy::{
    CAPACITY_ONE, Class, Group, Origin, Place as Spot, Run, Seat, Task, Tunables, faster_than_slowest,
    is_faster, makes_room, may_preempt, phase_began, phase_ended, stamp, turn_is_over, victim_scan,
};

use crate::Ns;
use crate::kernel::{CpuIndex, Kernel, Place, QueueIndex, TaskIndex};
use crate::mask::CpuMask;
use crate::scheduler::{Enqueue, Scheduler};
use crate::timeline::Boost;

/// Queues and CPUs at which one expiry of the timer looks (`TW_ROTATION_QUEUES`, `TW_ROTATION_CPUS`).
const ROTATION_QUEUES: usize = 4;
const ROTATION_CPUS: usize = 16;
/// The longest time between two looks (`TW_ROTATION_MAX_NS`).
const ROTATION_MAX_NS: Ns = 8_000_000;
/// Faster CPUs that one decision looks at (`TW_FASTER_SCAN`).
const FASTER_SCAN: usize = 16;
/// Idle CPUs that one wake-up looks at (`TW_IDLE_SCAN`).
const IDLE_SCAN: usize = 64;

/// CPUs that a fast one looks at, itself included (`TW_CALL_SCAN`).
const CALL_SCAN: usize = 16;
/// How long after a slower CPU kept its task an idle fast one looks for it (`TW_KEPT_RECENTLY_NS`).
const KEPT_RECENTLY_NS: Ns = 10_000_000;

/// What a task's vtime needs beyond the kernel's own accounting (`struct task_ctx`).
#[derive(Clone, Copy, Debug, Default)]
struct TaskContext {
    vtime: u64,
    charged_ns: Ns,
    nr_sleeps: u64,
    /// The parallel phase of its program in which it was last charged.
    phase: u32,
    /// The better CPU that it leaves its own for, and whether that has to be taken.
    leaves_for: Option<(CpuIndex, bool)>,
}

/// The timer's state between and during its looks (`rotation_state`).
#[derive(Default, Debug)]
struct Rotation {
    armed: bool,
    armed_key: u64,
    armed_until: Ns,
    queue_cursor: usize,
    cpu_cursor: usize,
    nr_empty: usize,
    waiting: bool,
    marked: bool,
    kicks: usize,
    in_ns: Ns,
    /// The senior program when it looked last.
    senior: Option<usize>,
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
    cursors: Vec<usize>,
    /// The CPUs that are faster than the slowest, the fastest first.
    faster: Vec<CpuIndex>,
    /// The faster CPU to which each was asked to send its task, and whose task it is to have in exchange.
    called_to: Vec<Option<CpuIndex>>,
    swaps_with: Vec<Option<CpuIndex>>,
    /// When a CPU that is not the fastest kept its task last, or long ago.
    slower_kept_at: Option<Ns>,
    /// Whether CPUs share cores, and whether the kernel does not know which.
    has_smt: bool,
    hidden_smt: bool,
    vtime_now: u64,
    tasks_wait: bool,
    senior: Option<usize>,
    senior_since: u32,
    rotation: Rotation,
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
        Self {
            tun,
            groups: Vec::new(),
            tasks: Vec::new(),
            queues: kernel.create_queues(nr),
            marked: CpuMask::none(nr),
            cursors: vec![0; nr],
            faster: faster_than_slowest(&capacities),
            called_to: vec![None; nr],
            swaps_with: vec![None; nr],
            slower_kept_at: None,
            has_smt,
            hidden_smt: has_smt && !kernel.knows_cores(),
            vtime_now: 0,
            tasks_wait: false,
            senior: None,
            senior_since: 0,
            rotation: Rotation::default(),
        }
    }

    fn cpus_differ(&self) -> bool {
        !self.faster.is_empty() || self.has_smt
    }

    fn free_slice(&self) -> Ns {
        self.tun.slice(self.tasks_wait || !self.faster.is_empty())
    }

    fn class_among(&self, kernel: &Kernel, task: TaskIndex, nr_ready: u32) -> Class {
        let senior = self.senior == Some(kernel.tasks[task].program);
        self.tun.class_of(nr_ready, false, senior)
    }

    fn class_of(&self, kernel: &Kernel, task: TaskIndex) -> Class {
        self.class_among(kernel, task, self.groups[kernel.tasks[task].program].nr_ready())
    }

    fn nr_waiting(&self, kernel: &Kernel, cpu: CpuIndex) -> u32 {
        kernel.nr_queued(self.queues + cpu) as u32
    }

    fn first_of(&self, kernel: &Kernel, cpu: CpuIndex) -> Option<TaskIndex> {
        kernel.peek(self.queues + cpu)
    }

    /// What a task is, and its vtime up to date.
    fn look_at(&self, kernel: &Kernel, task: TaskIndex, ahead_ns: Ns, waking: bool) -> Task {
        let (state, context) = (&kernel.tasks[task], &self.tasks[task]);
        let group = &self.groups[state.program];
        let ran_ns = state.ran + ahead_ns - context.charged_ns;
        let ready_ns = if waking { 0 } else { kernel.now - state.arrived };
        let (origin, vtime, since_ns) =
            if group.starts(context.phase, ready_ns, kernel.now, self.tun.serial_threshold) {
                let since_ns = ready_ns.min(group.age_ns(kernel.now)).min(ran_ns);
                (Origin::Phase, group.base(self.vtime_now), since_ns)
            } else if waking || state.nr_sleeps != context.nr_sleeps {
                (Origin::Waking, context.vtime, ready_ns.min(ran_ns))
            } else {
                (Origin::Charge, context.vtime, ran_ns)
            };
        let run = Run {
            before_ns: ran_ns - since_ns,
            since_ns,
            weight: state.weight,
            capacity: kernel.cpus[state.cpu].capacity,
            nr_waiting: self.nr_waiting(kernel, state.cpu),
            origin,
        };
        let class = self.class_of(kernel, task);
        Task {
            vtime: self.tun.vtime_advance(vtime, &run, self.vtime_now, class),
            class,
            nr_waiting: run.nr_waiting,
        }
    }

    /// A task that runs on or waits for this CPU, with its vtime as last charged.
    fn look_at_charged(&self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) -> Task {
        Task {
            vtime: self.tasks[task].vtime,
            class: self.class_of(kernel, task),
            nr_waiting: self.nr_waiting(kernel, cpu),
        }
    }

    fn look_at_waiting(&mut self, kernel: &Kernel, task: TaskIndex, cpu: CpuIndex) -> Task {
        let mut found = self.look_at_charged(kernel, task, cpu);
        self.claim_seniority(kernel, &mut found, kernel.tasks[task].program);
        found
    }

    fn claim_seniority(&mut self, kernel: &Kernel, task: &mut Task, group: usize) {
        if !matches!(task.class, Class::Senior | Class::Parallel) {
            return;
        }
        let now = stamp(kernel.now);
        // In the kernel nobody is tgid 0, whose group is never parallel.
        let Some(senior) = self.senior else {
            return self.become_senior(task, group, now);
        };
        if turn_is_over(self.senior_since, now, self.tun.senior_turn_ns) {
            self.groups[senior].enter(now);
            self.senior_since = now;
        }
        let stays = self.groups[senior].stays_senior(&self.groups[group], self.tun.serial_threshold);
        if task.class != Class::Senior && !stays {
            self.become_senior(task, group, now);
        }
    }

    fn become_senior(&mut self, task: &mut Task, group: usize, now: u32) {
        self.senior = Some(group);
        self.senior_since = now;
        task.class = Class::Senior;
    }

    fn charge(&mut self, kernel: &Kernel, task: TaskIndex, waking: bool) -> Task {
        let mut found = self.look_at(kernel, task, 0, waking);
        let picked = Task {
            vtime: self.tasks[task].vtime,
            ..found
        };
        let moved = self.tun.clock(self.vtime_now, &picked, self.tasks_wait);
        assert!(
            moved.wrapping_sub(self.vtime_now) < 1 << 63,
            "the clock never goes back"
        );
        self.vtime_now = moved;
        let context = &mut self.tasks[task];
        context.charged_ns = kernel.tasks[task].ran;
        context.nr_sleeps = kernel.tasks[task].nr_sleeps;
        context.vtime = found.vtime;
        if matches!(found.class, Class::Senior | Class::Parallel) {
            context.phase = self.groups[kernel.tasks[task].program].phase();
        }
        self.claim_seniority(kernel, &mut found, kernel.tasks[task].program);
        found
    }

    fn unmark_if_empty(&mut self, kernel: &Kernel, cpu: CpuIndex) {
        if self.nr_waiting(kernel, cpu) == 0 {
            self.marked.remove(cpu);
        }
    }

    fn next_queued(&mut self, nr_cpus: usize, cpu: CpuIndex) -> Option<CpuIndex> {
        let found = self.marked.next(self.cursors[cpu], Some(cpu))?;
        self.cursors[cpu] = (found + 1) % nr_cpus;
        Some(found)
    }

    /// A CPU faster than one of capacity `here` to which a task of this class goes, and whether it is taken from another.
    fn find_faster(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        here: u32,
    ) -> Option<(CpuIndex, bool)> {
        for &cpu in self.faster.iter().take(FASTER_SCAN) {
            if !kernel.may_run(task, cpu) {
                continue;
            }
            let mut there = Spot {
                capacity: kernel.cpus[cpu].capacity,
                idle: true,
                class: Class::Kernel,
            };
            if there.attracts(class, here) && kernel.claim_idle(cpu) {
                return Some((cpu, false));
            }
            there.idle = false;
            if let Some(running) = kernel.cpus[cpu].running {
                there.class = self.class_of(kernel, running);
            }
            if there.attracts(class, here) {
                return Some((cpu, true));
            }
        }
        None
    }

    /// Asks one of the slower CPUs for its task: to exchange it for `running`, whose turn on this one is over, or, where that
    /// is none, to have something to do.
    fn call_from_slower(&mut self, kernel: &mut Kernel, fast: CpuIndex, running: Option<&Task>) {
        let total = kernel.cpus.len();
        let mut first: Option<(Task, CpuIndex)> = None;
        for step in 1..total.min(CALL_SCAN) {
            let cpu = (fast + step) % total;
            let Some(index) = kernel.cpus[cpu].running.filter(|&task| {
                is_faster(kernel.cpus[fast].capacity, kernel.cpus[cpu].capacity) && kernel.may_run(task, fast)
            }) else {
                continue;
            };
            let ahead_ns = kernel.now - kernel.tasks[index].exec_start;
            let task = self.look_at(kernel, index, ahead_ns, false);
            if running.is_none_or(|running| self.tun.takes_turn(&task, running))
                && first.is_none_or(|(first, _)| self.tun.goes_first(&task, &first))
            {
                first = Some((task, cpu));
            }
        }
        if let Some((_, cpu)) = first {
            self.called_to[cpu] = running.map(|_| fast);
            kernel.kick_preempt(cpu);
        }
    }

    /// A CPU has nothing to do: if it is a fast one, it gets what runs on a slower one.
    fn pull_from_slower(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        let recently = self
            .slower_kept_at
            .is_some_and(|at| kernel.now - at < KEPT_RECENTLY_NS);
        if recently && self.faster.contains(&cpu) {
            self.call_from_slower(kernel, cpu, None);
        }
    }

    /// A CPU keeps its task. If it is a fast one, that may have had its turn there.
    fn give_turn(&mut self, kernel: &mut Kernel, cpu: CpuIndex, task: &Task) {
        if self.faster.is_empty() {
            return;
        }
        if kernel.cpus[cpu].capacity < CAPACITY_ONE {
            self.slower_kept_at = Some(kernel.now);
        }
        if self.faster.contains(&cpu) && matches!(task.class, Class::Senior | Class::Parallel) {
            self.call_from_slower(kernel, cpu, Some(task));
        }
    }

    /// Whether anything runs on the other hardware threads of the CPU's core, and whether that is serial.
    fn look_at_core(&self, kernel: &Kernel, cpu: CpuIndex) -> (bool, bool) {
        let others = kernel.core_of(cpu).iter().filter(|&&other| other != cpu);
        others
            .filter(|&&other| !kernel.is_idle(other))
            .fold((false, false), |(_, serial), &other| {
                let runs_serial = |task| self.class_of(kernel, task) == Class::Serial;
                (
                    true,
                    serial || kernel.cpus[other].running.is_some_and(runs_serial),
                )
            })
    }

    /// The best of the idle CPUs of less rank than `limit` for a task that ran on `prev`.
    fn best_seat(&self, kernel: &Kernel, task: TaskIndex, prev: CpuIndex, limit: u32) -> Option<CpuIndex> {
        let nr = kernel.cpus.len();
        let first_of = |cpu: CpuIndex| kernel.core_of(cpu)[0];
        let mut best: Option<(u32, CpuIndex)> = None;
        for step in 0..nr.min(IDLE_SCAN) {
            let cpu = (prev + step) % nr;
            if !kernel.is_idle(cpu) || !kernel.may_run(task, cpu) {
                continue;
            }
            let first = first_of(cpu);
            let (shared, beside_serial) = self.look_at_core(kernel, cpu);
            let seat = Seat {
                shared,
                beside_serial,
                same_cpu: cpu == prev,
                same_core: first == first_of(prev),
                first: cpu == first || !kernel.may_run(task, first),
            };
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

    fn claim_seat(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        prev: CpuIndex,
        limit: u32,
    ) -> Option<CpuIndex> {
        let best = self.best_seat(kernel, task, prev, limit)?;
        kernel.claim_idle(best).then_some(best)
    }

    /// Claims an idle CPU for a task that wakes up.
    fn claim_idle(&self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        if self.hidden_smt
            && let Some(seat) = self.claim_seat(kernel, task, prev, Seat::NONE)
        {
            return Some(seat);
        }
        if !self.has_smt && kernel.may_run(task, prev) && kernel.claim_idle(prev) {
            return Some(prev);
        }
        kernel.select_idle(task, prev)
    }

    fn claim_whole_core(&self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> Option<CpuIndex> {
        if self.hidden_smt {
            self.claim_seat(kernel, task, prev, Seat::SHARED)
        } else {
            kernel.claim_idle_core(task)
        }
    }

    /// An idle CPU for which a running task of this class leaves its own.
    fn find_better_seat(
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

    /// A better CPU than this to which a task of this class goes, and whether it is taken from another.
    fn find_better(
        &self,
        kernel: &mut Kernel,
        task: TaskIndex,
        class: Class,
        cpu: CpuIndex,
    ) -> Option<(CpuIndex, bool)> {
        if !self.faster.is_empty() {
            let here = kernel.cpus[cpu].capacity;
            return self.find_faster(kernel, task, class, here);
        }
        if !self.has_smt {
            return None;
        }
        self.find_better_seat(kernel, task, class, cpu)
            .map(|better| (better, false))
    }

    /// The CPU whose running task this one takes over.
    fn find_victim(
        &self,
        kernel: &Kernel,
        task: TaskIndex,
        waking: &Task,
        prev: CpuIndex,
    ) -> Option<CpuIndex> {
        let nr = kernel.cpus.len();
        let mut bound = None;
        for step in 0..victim_scan(waking.class, nr as u32) as usize {
            let cpu = (prev + step) % nr;
            let Some(running) = kernel.cpus[cpu].running.filter(|_| kernel.may_run(task, cpu)) else {
                continue;
            };
            if !self
                .tun
                .preempts(waking, &self.look_at_charged(kernel, running, cpu))
            {
                continue;
            }
            if kernel.tasks[running].bound_to.is_none() {
                return Some(cpu);
            }
            bound = bound.or(Some(cpu));
        }
        bound
    }

    fn kick_idle_for(kernel: &mut Kernel, task: TaskIndex) -> bool {
        let idle = kernel.claim_any_idle(task);
        if let Some(cpu) = idle {
            kernel.kick(cpu);
        }
        idle.is_some()
    }

    /// A task wakes up, and `select_cpu` was not asked. Whether there was a CPU for it.
    fn enqueue_unselected(&mut self, kernel: &mut Kernel, task: TaskIndex, own: CpuIndex) -> bool {
        let is_bound = kernel.tasks[task].bound_to.is_some();
        let class = self.class_of(kernel, task);
        let faster = self.find_faster(kernel, task, class, 0);
        let whole = |kernel: &mut Kernel| {
            let core = (self.has_smt && !is_bound).then(|| self.claim_whole_core(kernel, task, own));
            core.flatten().map(|cpu| (cpu, false))
        };
        let found = faster
            .or_else(|| whole(kernel))
            .or_else(|| kernel.claim_idle(own).then_some((own, false)))
            .or_else(|| {
                let idle = if is_bound {
                    None
                } else {
                    kernel.claim_any_idle(task)
                };
                idle.map(|idle| (idle, false))
            });
        if let Some((cpu, taken)) = found {
            if faster.is_some() {
                kernel.boosted(task, cpu, Boost::Better);
            }
            kernel.insert_local(task, cpu, self.free_slice(), taken);
        }
        found.is_some()
    }

    fn dispatch_idle(&mut self, kernel: &mut Kernel, cpu: CpuIndex) {
        if self.marked.has(cpu) {
            if kernel.move_to_local(cpu, self.queues + cpu) {
                return;
            }
            self.unmark_if_empty(kernel, cpu);
        }
        if !self.tasks_wait {
            return;
        }
        for _ in 0..kernel.cpus.len() {
            let Some(from) = self.next_queued(kernel.cpus.len(), cpu) else {
                return;
            };
            if kernel.move_to_local(cpu, self.queues + from) {
                return;
            }
        }
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
        let my_first = mine.map(|mine| (own, self.look_at_waiting(kernel, mine, own)));
        let their_first = theirs.map(|(other, first)| (other, self.look_at_waiting(kernel, first, other)));
        if task.class == Class::Senior {
            task.class = self.class_of(kernel, prev);
        }
        let theirs_goes_first = my_first
            .zip(their_first)
            .is_some_and(|((_, mine), (_, theirs))| self.tun.goes_first(&theirs, &mine));
        let first = my_first.filter(|_| !theirs_goes_first).or(their_first);
        let due_in = first.map(|(from, first)| (from, self.tun.due_in(task, &first)));
        if let Some((from, 0)) = due_in {
            return Ok(from);
        }
        if let Some(mine) = mine {
            Self::kick_idle_for(kernel, mine);
        }
        Err(due_in.map(|(_, in_ns)| in_ns))
    }

    fn start_rotation(&mut self, kernel: &mut Kernel, key: u64, in_ns: Ns) {
        self.rotation.armed_key = key;
        self.rotation.armed_until = kernel.now + in_ns;
        self.rotation.armed = true;
        kernel.start_timer(in_ns);
    }

    fn arm_rotation(&mut self, kernel: &mut Kernel, key: u64) {
        self.rotation.nr_empty = 0;
        self.tasks_wait = true;
        let is_before = (key.wrapping_sub(self.rotation.armed_key) as i64) < 0;
        let is_sooner = kernel.now + self.tun.rotate_ns < self.rotation.armed_until;
        if !self.rotation.armed || (is_before && is_sooner) {
            self.start_rotation(kernel, key, self.tun.rotate_ns);
        }
    }

    /// Has the timer look at once if a program has become senior since it looked.
    fn follow_senior(&mut self, kernel: &mut Kernel) {
        if self.senior.is_some()
            && self.senior != self.rotation.senior
            && self.rotation.armed
            && kernel.now < self.rotation.armed_until
        {
            self.start_rotation(kernel, self.rotation.armed_key, 0);
        }
    }

    /// Kicks a CPU if its task is due to make way for this one, and may be bound to it.
    fn kick_if_due(&mut self, kernel: &mut Kernel, cpu: CpuIndex, waiting: &Task, is_bound: bool) {
        let Some(running) = kernel.cpus[cpu].running else {
            return;
        };
        let ahead_ns = kernel.now - kernel.tasks[running].exec_start;
        let task = self.look_at(kernel, running, ahead_ns, false);
        let in_ns = self.tun.due_in(&task, waiting);
        if in_ns > 0 && !makes_room(&task, kernel.tasks[running].bound_to.is_some(), is_bound) {
            self.rotation.in_ns = self.rotation.in_ns.min(in_ns);
        } else if self.rotation.kicks > 0 {
            self.rotation.kicks -= 1;
            self.rotation.in_ns = self.rotation.in_ns.min(self.tun.rotate_ns);
            kernel.kick_preempt(cpu);
        }
    }

    fn look_at_queue(&mut self, kernel: &mut Kernel, queue: CpuIndex) {
        let Some(first) = self.first_of(kernel, queue) else {
            return;
        };
        let task = self.look_at_waiting(kernel, first, queue);
        self.rotation.waiting = true;
        self.tasks_wait = true;
        if Self::kick_idle_for(kernel, first) {
            return;
        }
        self.rotation.kicks += 1;
        if kernel.tasks[first].bound_to.is_some() {
            self.kick_if_due(kernel, queue, &task, true);
        } else if self
            .rotation
            .first
            .is_none_or(|(foremost, _)| self.tun.goes_first(&task, &foremost))
        {
            self.rotation.first = Some((task, queue));
        }
    }

    fn look_at_queues(&mut self, kernel: &mut Kernel) {
        let nr = kernel.cpus.len();
        let mut first = None;
        for _ in 0..ROTATION_QUEUES {
            let Some(queue) = self.marked.next(self.rotation.queue_cursor, None) else {
                return;
            };
            self.rotation.queue_cursor = (queue + 1) % nr;
            if first == Some(queue) {
                return;
            }
            self.rotation.marked = true;
            first = first.or(Some(queue));
            self.look_at_queue(kernel, queue);
        }
    }

    fn rotate_for_first(&mut self, kernel: &mut Kernel, waiting: &Task, queue: CpuIndex) {
        let Some(first) = self.first_of(kernel, queue) else {
            return;
        };
        let (total, from) = (kernel.cpus.len(), self.rotation.cpu_cursor);
        let nr = total.min(ROTATION_CPUS);
        self.rotation.cpu_cursor = (from + if nr < total { nr } else { 1 }) % total;
        for step in 0..nr {
            let cpu = (from + step) % total;
            if kernel.may_run(first, cpu) {
                self.kick_if_due(kernel, cpu, waiting, false);
            }
        }
    }
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

    /// Ready threads are counted rightly (the loader looks when it detaches that none are left), each queue that holds
    /// something is marked, and the timer looks after those that wait.
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
        for cpu in 0..kernel.cpus.len() {
            if self.nr_waiting(kernel, cpu) > 0
                && !(self.marked.has(cpu) && self.tasks_wait && self.rotation.armed)
            {
                return Err(format!("nobody looks after those in the queue of CPU {cpu}"));
            }
        }
        Ok(())
    }

    fn enable(&mut self, kernel: &Kernel, task: TaskIndex) {
        let group = kernel.tasks[task].program;
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Group::default);
        }
        self.tasks.push(TaskContext {
            vtime: self.vtime_now,
            ..TaskContext::default()
        });
    }

    fn select_cpu(&mut self, kernel: &mut Kernel, task: TaskIndex, prev: CpuIndex) -> CpuIndex {
        if !self.faster.is_empty() {
            let nr_ready = self.groups[kernel.tasks[task].program].nr_ready() + 1;
            let class = self.class_among(kernel, task, nr_ready);
            if let Some((cpu, taken)) = self.find_faster(kernel, task, class, 0) {
                kernel.boosted(task, cpu, Boost::Better);
                kernel.insert_direct(task, self.tun.slice_ns, taken);
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
        if why.wakeup && !why.selected && self.enqueue_unselected(kernel, index, cpu) {
            return;
        }
        let task = self.charge(kernel, index, why.wakeup);
        let direct = !why.sent_back;
        let swaps_with = self.swaps_with[cpu].take();
        if let Some(slow) = swaps_with.filter(|&slow| direct && !why.wakeup && kernel.may_run(index, slow)) {
            return kernel.insert_local(index, slow, self.free_slice(), false);
        }
        if self.cpus_differ() && direct {
            // What it decided before it slept is stale.
            let leaves_for = self.tasks[index].leaves_for.take().filter(|_| !why.wakeup);
            let better = leaves_for.or_else(|| self.find_better(kernel, index, task.class, cpu));
            if let Some((better, taken)) = better.filter(|&(better, _)| kernel.may_run(index, better)) {
                kernel.boosted(index, better, Boost::Better);
                return kernel.insert_local(index, better, self.free_slice(), taken);
            }
            if why.last {
                return kernel.insert_local(index, cpu, self.tun.slice_ns, false);
            }
        }
        if may_preempt(task.class)
            && direct
            && let Some(victim) = self.find_victim(kernel, index, &task, cpu)
        {
            let boost = match task.class {
                Class::Serial => Boost::Serial,
                _ => Boost::Senior,
            };
            kernel.boosted(index, victim, boost);
            return kernel.insert_local(index, victim, self.tun.slice_ns, true);
        }
        let key = self.tun.key(&task);
        kernel.insert_queue(index, self.queues + cpu, self.tun.slice_ns, key);
        self.marked.add(cpu);
        self.arm_rotation(kernel, key);
        if !is_bound {
            Self::kick_idle_for(kernel, index);
        }
    }

    fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
        let Some(prev) = running else {
            self.dispatch_idle(kernel, cpu);
            if kernel.has_nothing(cpu) {
                self.pull_from_slower(kernel, cpu);
            }
            return;
        };
        let mut task = self.charge(kernel, prev, false);
        // The kernel may not have enqueued it when it was to leave.
        self.tasks[prev].leaves_for = None;
        let called_to = self.called_to[cpu].take();
        if self.cpus_differ()
            && let Some(leaves_for) = self
                .find_better(kernel, prev, task.class, cpu)
                .or_else(|| called_to.map(|fast| (fast, true)))
        {
            self.tasks[prev].leaves_for = Some(leaves_for);
            match leaves_for {
                (better, true) => self.swaps_with[better] = Some(cpu),
                (better, false) => kernel.kick(better),
            }
            return self.dispatch_idle(kernel, cpu);
        }
        let other = self.next_queued(kernel.cpus.len(), cpu);
        let before = self.queue_before(kernel, prev, &mut task, cpu, other);
        self.follow_senior(kernel);
        if before.is_ok_and(|from| kernel.move_to_local(cpu, self.queues + from)) {
            return;
        }
        self.unmark_if_empty(kernel, cpu);
        let slice = match before {
            Err(Some(due_ns)) if self.faster.is_empty() => {
                self.tun.slice_beside(due_ns, kernel.tasks[prev].weight)
            }
            _ => self.free_slice(),
        };
        kernel.set_slice(prev, slice);
        self.give_turn(kernel, cpu, &task);
    }

    fn runnable(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let group = &self.groups[kernel.tasks[task].program];
        if phase_began(group.add(), self.tun.serial_threshold) {
            group.begin(kernel.now, self.vtime_now);
        }
    }

    fn quiescent(&mut self, kernel: &mut Kernel, task: TaskIndex) {
        let group = kernel.tasks[task].program;
        let nr_ready = self.groups[group].sub();
        if phase_ended(nr_ready, self.tun.serial_threshold) && self.senior == Some(group) {
            self.senior = None;
        }
    }

    fn timer(&mut self, kernel: &mut Kernel) {
        self.rotation.armed = false;
        self.rotation.waiting = false;
        self.rotation.marked = false;
        self.rotation.first = None;
        self.rotation.kicks = 0;
        self.rotation.in_ns = ROTATION_MAX_NS;
        self.look_at_queues(kernel);
        if let Some((task, queue)) = self.rotation.first {
            if self.rotation.senior != self.senior {
                self.rotation.kicks = kernel.cpus.len();
            }
            self.rotation.senior = self.senior;
            self.rotate_for_first(kernel, &task, queue);
        }
        self.rotation.nr_empty = if self.rotation.waiting {
            0
        } else {
            self.rotation.nr_empty + 1
        };
        if !self.rotation.marked || self.rotation.nr_empty > 1 + kernel.cpus.len() / ROTATION_QUEUES {
            self.rotation.nr_empty = 0;
            self.tasks_wait = self.rotation.armed;
            return;
        }
        if !self.rotation.armed {
            let key = self
                .rotation
                .first
                .map_or(self.vtime_now, |(task, _)| self.tun.key(&task));
            self.start_rotation(kernel, key, self.rotation.in_ns.max(self.tun.rotate_ns));
        }
    }
}
