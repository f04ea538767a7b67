// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling decisions of `policy/` for Rust: the C headers that the BPF program includes,
//! compiled natively.
//!
//! Nothing is decided or re-implemented here. [`Group`] counts ready threads and tells the phase;
//! [`Tunables`] has the ordering. What the functions mean stands in `policy/*.h`.

pub mod alternation;
mod cgroup;
mod crowd;
mod exchange;
mod home;
mod look;
mod members;
mod options;
mod pairing;

pub use alternation::{AlternateBy, Alternation};
pub use cgroup::{Cgroup, cgroup_ready_ns};
pub use crowd::{Charged, Crowd};
pub use exchange::{Rest, looks_for_exchange, pairs};
pub use home::{Llc, SPILL_NONE, Stay, founds_home, keeps_home, spill};
pub use look::{
    Kick, LOOK_MOST_NS, LOOK_QUIET_NS, Look, ROTATION_CPUS, ROTATION_MARKS, ROTATION_QUEUES, ROTATION_SORTED,
    Timer,
};
pub use members::{Members, Witness};
pub use options::TunableOptions;
pub use pairing::{Counts, Need, Pair, PairingBy, Reading};

use std::sync::atomic::{AtomicU32, Ordering};

mod ffi {
    use super::{Ages, Beside, Choice, Class, Group, Keys, Mode, Place, Run, Seat, Spot, Task, Tunables};

    unsafe extern "C" {
        pub safe fn tw_serial_ready_ns(ran_ns: u64, waited_ns: u64) -> u64;
        pub safe fn tw_serial_ready(before: u32, ready_ns: u64, in_ns: u64) -> u32;
        pub safe fn tw_boost_left(serial_ready: u32, nr_cpus: u32) -> u32;
        pub safe fn tw_goes_unboosted(nr_threads: u32, parallel_ago_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_boost(boost_ns: u64, nr_waiting: u32, left: u32, tun: &Tunables) -> u64;
        pub safe fn tw_clock_ahead(before_ns: i64, since_ns: i64, read_ns: i64) -> i64;
        pub safe fn tw_leaves_cache(woke: bool, waits_ns: u64) -> bool;
        pub safe fn tw_look_takes(before_ns: u64, took_ns: u64) -> u64;
        pub safe fn tw_longer_look(timer_ns: u64, cpu_ns: u64) -> u64;
        pub safe fn tw_moves_in_queue(task: &Task, key: u64, queued_key: u64, all: bool) -> bool;
        pub safe fn tw_key(task: &Task, tun: &Tunables) -> u64;
        pub safe fn tw_keys_begin(keys: &mut Keys, task: &Task, boost_left: u32);
        pub safe fn tw_keys_renew(keys: &mut Keys, nr_waiting: u32, boost_left: u32);
        pub safe fn tw_key_in(keys: &Keys, task: &Task, unboosted: bool, tun: &Tunables) -> u64;
        pub safe fn tw_keys_are_stale(keys: &Keys, nr_waiting: u32, boost_left: u32, tun: &Tunables) -> bool;
        pub safe fn tw_goes_first(task: &Task, other: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_vtime_seen(theirs: &Task, mine: Option<&Task>, across: bool, tun: &Tunables) -> u64;
        pub safe fn tw_unstamp(stamp: u32, now: u64) -> u64;
        pub safe fn tw_ready_add(group: &Group) -> u32;
        pub safe fn tw_ready_sub(group: &Group) -> u32;
        pub safe fn tw_is_counted(nr_threads: u32, serial_threshold: u32) -> bool;
        pub safe fn tw_phase_began(nr_ready: u32, serial_threshold: u32) -> bool;
        pub safe fn tw_phase_begin(group: &Group, now_ns: u64, vtime_now: u64, senior_lost: u32);
        pub safe fn tw_phase_age_ns(group: &Group, now_ns: u64) -> u64;
        pub safe fn tw_phase_ended(nr_ready: u32, serial_threshold: u32) -> bool;
        pub safe fn tw_may_preempt(class: Class) -> bool;
        pub safe fn tw_runs_at_once(class: Class) -> bool;
        pub safe fn tw_may_take(
            class: Class,
            running: Class,
            wakes: bool,
            nr_own_threads: u32,
            tun: &Tunables,
        ) -> bool;
        pub safe fn tw_follows_senior(running: Class) -> bool;
        pub safe fn tw_victim_scan(class: Class, nr_cpus: u32) -> u32;
        pub safe fn tw_preempts(waking: &Task, running: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_just_came(here_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_stays_until(running: Class, here_ns: u64, now: u64, tun: &Tunables) -> u64;
        pub safe fn tw_passed_over(waking: Class, until: u64, nr_parallel: u32, now: u64) -> bool;
        pub safe fn tw_surely_stays(running_at_most: &Task, waking: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_due_beside(running: &Task, waiting: &Task, in_ns: u64) -> u32;
        pub safe fn tw_makes_room(running: &Task, running_is_bound: bool, waiting_is_bound: bool) -> bool;
        pub safe fn tw_makes_way_in(
            running: &mut Task,
            waiting: &Task,
            beside: &Beside,
            tun: &Tunables,
        ) -> u64;
        pub safe fn tw_turns_out(
            running: &Task,
            running_is_bound: bool,
            waking_is_bound: bool,
            tun: &Tunables,
        ) -> bool;
        pub safe fn tw_slice(others_wait: bool, unequal: bool, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_slice_of(class: Class, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_slice_beside(class: Class, due_ns: u64, weight: u32, tun: &Tunables) -> u64;
        pub safe fn tw_goes_on_until_due(due_ns: u64, unequal: bool) -> bool;
        pub safe fn tw_step(class: Class, age_ns: u64, look_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_due_in(running: &Task, waiting: &Task, tun: &Tunables) -> u64;
        pub safe fn tw_yields(running: &Task, waiting: &Task, tun: &Tunables) -> bool;
        pub safe fn tw_look_in(running: &Task, waiting: &Task, due_ns: u64, tun: &Tunables) -> u64;
        pub safe fn tw_loss(waited_ns: u64, weight: u32, nr_ready: u32, nr_threads: u32, nr_cpus: u32)
        -> u32;
        pub safe fn tw_counts_loss(nr_threads: u32, unequal: bool, tun: &Tunables) -> bool;
        pub safe fn tw_loss_of_speed(class: Class, ran_ns: u64, capacity: u32, weight: u32) -> u32;
        pub safe fn tw_claims(group: &Group, senior: Option<&Group>, tun: &Tunables) -> bool;
        pub safe fn tw_seat_rank(seat: &Seat) -> u32;
        pub safe fn tw_leaves_seat_for(class: Class, shared: bool, beside_serial: bool) -> u32;
        pub safe fn tw_looks_for_seat(limit: u32, now_ns: u64, in_vain_at_ns: u64) -> bool;
        pub safe fn tw_is_faster(capacity: u32, than: u32) -> bool;
        pub safe fn tw_worth(class: Class, capacity: u32, shared: bool, beside_serial: bool) -> u32;
        pub safe fn tw_chooses(choice: &mut Choice, class: Class, there: &Place) -> bool;
        pub safe fn tw_has_chosen(choice: &Choice, capacity: u32) -> bool;
        pub safe fn tw_answers_call(class: Class) -> bool;
        pub safe fn tw_search(class: Class, unequal: bool, mode: bool, smt: bool) -> u32;
        pub safe fn tw_looks_for_better(comes: bool, looked: bool, unequal: bool) -> bool;
        pub safe fn tw_kept_recently(ago_ns: u64, look_ns: u64, tun: &Tunables) -> bool;
        pub safe fn tw_lost_more_there(
            task: &Task,
            group: &Group,
            there: &Task,
            other: &Group,
            tun: &Tunables,
        ) -> i32;
        pub safe fn tw_takes_turn(task: &Task, there: &Task, lost_more: i32, tun: &Tunables) -> bool;
        pub safe fn tw_spot_rank(spot: &Spot, mode: Mode) -> u32;
        pub safe fn tw_leaves_spot(class: Class, own_rank: u32, rank: u32) -> bool;
        pub safe fn tw_class_of(
            nr_ready: u32,
            bound_kernel_thread: bool,
            senior: bool,
            tun: &Tunables,
        ) -> u32;
        pub safe fn tw_here_ns(ago_ns: u64) -> u32;
        pub safe fn tw_waits_us(waits_ns: u64) -> u32;
        pub safe fn tw_is_used_up(senior: &Task, waiting: &Task, ages: &Ages, tun: &Tunables) -> bool;
        pub safe fn tw_lost_after(senior: &Group, other: &Group, tun: &Tunables) -> u32;
        pub safe fn tw_vtime_charge(vtime: u64, ran_ns: u64, weight: u32, capacity: u32) -> u64;
        pub safe fn tw_find_origin(
            run: &mut Run,
            group: &Group,
            seen: u32,
            ready_ns: u64,
            slept: bool,
            now_ns: u64,
            serial_threshold: u32,
        );
        pub safe fn tw_vtime_bound(
            vtime: u64,
            run: &Run,
            now: u64,
            class: Class,
            woke: bool,
            tun: &Tunables,
        ) -> u64;
        pub safe fn tw_vtime_advance(vtime: u64, run: &Run, now: u64, class: Class, tun: &Tunables) -> u64;
        pub safe fn tw_vtime_most(vtime: u64, run: &Run, now: u64) -> u64;
        pub safe fn tw_is_beside_others(running: &Task, others_wait: bool) -> bool;
        pub safe fn tw_clock(
            now: u64,
            running: &Task,
            weight: u32,
            light_ago_ns: u64,
            others_wait: bool,
            tun: &Tunables,
        ) -> u64;
        pub safe fn tw_weighed_ns(weight: u32, ran_ns: u64) -> u64;
        pub safe fn tw_mean_weight(before: u32, ran_ns: u64, weighed_ns: u64, in_ns: u64) -> u32;
        pub safe fn tw_is_light(weight: u32) -> bool;
        pub safe fn tw_weight_among(weight: u32, mean: u32) -> u32;
    }
}

/// The capacity of the fastest CPU.
pub const CAPACITY_ONE: u32 = 1024;

/// CPUs that one wake-up looks at for an idle one by rank, at most (`TW_IDLE_SCAN`).
pub const IDLE_SCAN: usize = 64;

/// CPUs that one decision looks at for a better one, at most (`TW_PLACE_SCAN`).
pub const PLACE_SCAN: usize = 64;

/// Slower CPUs at whose tasks a faster one looks for one to exchange for its own, at most (`TW_CALL_SCAN`).
pub const CALL_SCAN: usize = 16;

/// All of a boost (`TW_BOOST_WHOLE`).
pub const BOOST_WHOLE: u32 = 65536;

/// Over how many nanoseconds ready serial tasks are counted (`TW_CROWD_PERIOD_NS`).
pub const CROWD_PERIOD_NS: u64 = 16_000_000;

/// A thread group: its ready threads, and when and at which vtime it became parallel (`struct tw_group`). May be shared between
/// threads: C gets it by a shared reference where it changes it, too, for its words are atomics here, and each is changed there by one
/// instruction.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Group {
    nr_ready: AtomicU32,
    lost: AtomicU32,
    began: AtomicU32,
    base: AtomicU32,
}

impl Group {
    /// A thread became runnable. Returns how many are ready after it.
    pub fn add(&self) -> u32 {
        ffi::tw_ready_add(self)
    }

    /// A thread is no longer runnable. Returns how many are ready after it.
    pub fn sub(&self) -> u32 {
        ffi::tw_ready_sub(self)
    }

    /// How many threads are ready now.
    pub fn nr_ready(&self) -> u32 {
        self.nr_ready.load(Ordering::SeqCst)
    }

    /// It became parallel now, at this current vtime, both in nanoseconds, while the senior program, or the last one, has lost
    /// so much.
    pub fn begin(&self, now_ns: u64, vtime_now: u64, senior_lost: u32) {
        ffi::tw_phase_begin(self, now_ns, vtime_now, senior_lost)
    }

    /// Names the parallel phase that began last.
    pub fn phase(&self) -> u32 {
        self.began.load(Ordering::SeqCst)
    }

    /// The vtime at which it began, seen from the current one.
    pub fn base(&self, vtime_now: u64) -> u64 {
        ffi::tw_unstamp(self.base.load(Ordering::SeqCst), vtime_now)
    }

    /// For how many nanoseconds it has gone on.
    pub fn age_ns(&self, now_ns: u64) -> u64 {
        ffi::tw_phase_age_ns(self, now_ns)
    }

    /// What it has lost by waiting, a [`Waiting::loss`] that wraps.
    pub fn lost(&self) -> u32 {
        self.lost.load(Ordering::SeqCst)
    }

    /// It lost so much more.
    pub fn lose(&self, loss: u32) {
        self.lost.fetch_add(loss, Ordering::SeqCst);
    }

    /// By how much more it has lost, of which a task runs on a slower CPU, than another, of which one runs on the faster, as far
    /// as these go by it.
    pub fn lost_more_there(&self, task: &Task, there: &Task, other: &Self, tun: &Tunables) -> i32 {
        ffi::tw_lost_more_there(task, self, there, other, tun)
    }

    /// Its turn as the senior one ends because its boost is used up, for this other group.
    pub fn end_turn_for(&self, other: &Self, tun: &Tunables) {
        let lost = ffi::tw_lost_after(self, other, tun);
        self.lost.store(lost, Ordering::SeqCst);
    }

    /// Whether this group takes the place of the senior one, if there is one, of which a parallel task is looked at.
    /// What it has lost is brought near to what the senior one has.
    pub fn claims(&self, senior: Option<&Self>, tun: &Tunables) -> bool {
        ffi::tw_claims(self, senior, tun)
    }
}

/// What a program loses where a task of this class and weight ran for so long on a CPU of this capacity, in units of 1.024 us.
pub fn loss_of_speed(class: Class, ran_ns: u64, capacity: u32, weight: u32) -> u32 {
    ffi::tw_loss_of_speed(class, ran_ns, capacity, weight)
}

/// What a program loses while a thread of it waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// For how long, in nanoseconds.
    pub waited_ns: u64,
    /// What it weighs, 1 to 10000.
    pub weight: u32,
    /// How many threads of its program are ready.
    pub nr_ready: u32,
    /// And how many there are.
    pub nr_threads: u32,
    /// Of the machine.
    pub nr_cpus: u32,
}

impl Waiting {
    /// In units of 1.024 us.
    pub fn loss(&self) -> u32 {
        ffi::tw_loss(
            self.waited_ns,
            self.weight,
            self.nr_ready,
            self.nr_threads,
            self.nr_cpus,
        )
    }
}

/// How old a turn is, and the phases of two programs at least (`struct tw_ages`), in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ages {
    /// Since the senior program became that.
    pub turn_ns: u64,
    /// The younger of its phase and that of one that waits.
    pub phases_ns: u64,
}

/// Whether the ready threads of a program with so many threads are counted at all.
pub fn is_counted(nr_threads: u32, serial_threshold: u32) -> bool {
    ffi::tw_is_counted(nr_threads, serial_threshold)
}

/// Who lost its CPU waits for so long there before it leaves its last-level cache.
pub const LEAVES_CACHE_NS: u64 = 500_000;

/// Whether a task that has waited for so long goes to an idle CPU behind another last-level cache.
pub fn leaves_cache(woke: bool, waits_ns: u64) -> bool {
    ffi::tw_leaves_cache(woke, waits_ns)
}

/// Whether the thread that made it so many ready threads began a parallel phase.
pub fn phase_began(nr_ready: u32, serial_threshold: u32) -> bool {
    ffi::tw_phase_began(nr_ready, serial_threshold)
}

/// Whether the thread whose sleep left so many ready threads ended a parallel phase.
pub fn phase_ended(nr_ready: u32, serial_threshold: u32) -> bool {
    ffi::tw_phase_ended(nr_ready, serial_threshold)
}

/// Whether a CPU of this capacity is so much faster than another that a migration is worth it.
pub fn is_faster(capacity: u32, than: u32) -> bool {
    ffi::tw_is_faster(capacity, than)
}

/// CPUs of these capacities, the fastest first, and how many of them are faster than the slowest.
pub fn fastest_first(capacities: &[u32]) -> (Vec<usize>, usize) {
    let slowest = capacities.iter().copied().min().unwrap_or(CAPACITY_ONE);
    let mut cpus: Vec<usize> = (0..capacities.len()).collect();
    cpus.sort_by_key(|&cpu| std::cmp::Reverse(capacities[cpu]));
    let nr_faster = cpus
        .iter()
        .filter(|&&cpu| is_faster(capacities[cpu], slowest))
        .count();
    (cpus, nr_faster)
}

/// What a CPU of this capacity is worth to a task of this class, if others of its core run, or a serial task.
pub fn worth(class: Class, capacity: u32, shared: bool, beside_serial: bool) -> u32 {
    ffi::tw_worth(class, capacity, shared, beside_serial)
}

/// A CPU as a task sees it that might go there (`struct tw_place`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Place {
    /// 1024 for the fastest CPU of the machine.
    pub capacity: u32,
    /// What of its core the task would share.
    pub seat: Seat,
    /// Whether nothing runs there.
    pub idle: bool,
    /// Whether it is faster than the slowest.
    pub fast: bool,
    /// Of what runs there, if it is not idle.
    pub class: Class,
}

/// What a task looks for, and the best of the places that it has seen (`struct tw_choice`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Choice {
    /// The capacity of the CPU on which it runs, or 0 where it is bound for one.
    pub own: u32,
    /// What that is worth to it.
    pub here: u32,
    /// The capacity of the one chosen; 0 as long as there is none.
    pub capacity: u32,
    /// What that is worth.
    pub worth: u32,
    /// The rank of its seat.
    pub rank: u32,
    /// Whether it is idle.
    pub idle: bool,
}

impl Choice {
    /// Of a task that runs on a CPU of this capacity, which is worth `here` to it.
    pub fn on(own: u32, here: u32) -> Self {
        Self {
            own,
            here,
            ..Self::default()
        }
    }

    /// Whether a task of this class chooses this place before those it has seen.
    pub fn is_now(&mut self, class: Class, there: &Place) -> bool {
        ffi::tw_chooses(self, class, there)
    }

    /// Whether no place of at most this capacity that it has not seen can be chosen before the one that is.
    pub fn is_made(&self, capacity: u32) -> bool {
        ffi::tw_has_chosen(self, capacity)
    }
}

/// An idle CPU as a task sees it that may share its core (`struct tw_seat`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Seat {
    /// Whether another hardware thread of its core runs.
    pub shared: bool,
    /// Whether what that runs is serial.
    pub beside_serial: bool,
    /// Whether the task ran there last.
    pub same_cpu: bool,
    /// Whether the task ran on its core last.
    pub same_core: bool,
    /// Whether it is the hardware thread by which its core is claimed, if that is idle.
    pub first: bool,
}

impl Seat {
    /// The rank of the best seat.
    pub const BEST: u32 = 0;
    /// The rank of the first seat on a core that others share (`TW_SEAT_SHARED`).
    pub const SHARED: u32 = 3;
    /// The rank of the first seat beside a serial task (`TW_SEAT_BESIDE_SERIAL`).
    pub const BESIDE_SERIAL: u32 = 6;
    /// More than any rank.
    pub const NONE: u32 = u32::MAX;

    /// The task takes the idle CPU of the least rank, and not one that has none.
    pub fn rank(&self) -> Option<u32> {
        Some(ffi::tw_seat_rank(self)).filter(|&rank| rank != u32::MAX)
    }
}

/// Where idle CPUs are looked for (`enum tw_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[repr(u32)]
pub enum Mode {
    /// Near the last one.
    #[default]
    Near = 0,
    /// Packages before last-level caches before cores.
    Performance = 1,
    /// A package is filled before another is woken.
    Powersave = 2,
}

/// An idle CPU as a task sees it, and what it shares (`struct tw_spot`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spot {
    /// The CPU itself.
    pub seat: Seat,
    /// [`spill`] of its last-level cache.
    pub spill: u8,
    /// That is another than the one that the task left, and it rests ([`Rest`]).
    pub away: bool,
    /// CPUs of its package that are not idle.
    pub nr_busy_package: u32,
    /// The same of its last-level cache.
    pub nr_busy_llc: u32,
}

impl Spot {
    /// The task takes the idle CPU of the least rank, and not one that has none.
    pub fn rank(&self, mode: Mode) -> Option<u32> {
        Some(ffi::tw_spot_rank(self, mode)).filter(|&rank| rank != u32::MAX)
    }

    /// Whether a task of this class that runs here, and is counted at neither, leaves for another one.
    pub fn is_left_for(&self, other: &Self, class: Class, mode: Mode) -> bool {
        let rank = |spot| ffi::tw_spot_rank(spot, mode);
        ffi::tw_leaves_spot(class, rank(self), rank(other))
    }
}

impl Class {
    /// A task of this class on a core that others share, serial ones or not, leaves its CPU for an idle one of less rank.
    pub fn leaves_seat_for(self, shared: bool, beside_serial: bool) -> u32 {
        ffi::tw_leaves_seat_for(self, shared, beside_serial)
    }

    /// Where a task of this class looks for a better CPU, on a machine of CPUs that differ in speed, with a mode, or with shared
    /// cores.
    pub fn search(self, unequal: bool, mode: bool, smt: bool) -> Search {
        match ffi::tw_search(self, unequal, mode, smt) {
            1 => Search::Place,
            2 => Search::Spot,
            3 => Search::Seat,
            _ => Search::Nowhere,
        }
    }
}

/// What a task that runs is to one that waits (`struct tw_beside`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beside {
    /// That which runs may run on one CPU only.
    pub running_bound: bool,
    /// That which waits may.
    pub waiting_bound: bool,
    /// Both are of one program.
    pub of_one_program: bool,
}

/// Where a task looks for a better CPU than its own (`enum tw_search`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// It does not.
    Nowhere,
    /// Among all, by speed and by what shares their cores.
    Place,
    /// Among those that are idle, as the mode has it.
    Spot,
    /// Among those of cores that are idle, or not a serial task's.
    Seat,
}

/// Whether a task that is queued looks for a better CPU: one that comes to run, as it woke up or is new, or one that makes way and
/// has looked before it did, on a machine of CPUs that differ in speed or not.
pub fn looks_for_better(comes: bool, looked: bool, unequal: bool) -> bool {
    ffi::tw_looks_for_better(comes, looked, unequal)
}

/// Whether a task goes on until the one that waits is due, in so many nanoseconds or nobody (0), or has the slice of one for which
/// no other has to wait.
pub fn goes_on_until_due(due_ns: u64, unequal: bool) -> bool {
    ffi::tw_goes_on_until_due(due_ns, unequal)
}

/// What a task is to the ordering (`enum tw_class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Class {
    /// A kernel thread bound to its CPU.
    Kernel = 0,
    /// A thread of a program in its serial phase.
    Serial = 1,
    /// A thread of the parallel program that goes before the others.
    Senior = 2,
    /// A thread of another program in its parallel phase.
    Parallel = 3,
}

impl TryFrom<u64> for Class {
    type Error = u64;

    /// From the number that `enum tw_class` gives it; any other number is returned as the error.
    fn try_from(class: u64) -> Result<Self, u64> {
        [Self::Kernel, Self::Serial, Self::Senior, Self::Parallel]
            .into_iter()
            .find(|known| *known as u64 == class)
            .ok_or(class)
    }
}

/// A task as the ordering sees it (`struct tw_task`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    /// Weighted run time, in nanoseconds; wraps.
    pub vtime: u64,
    /// How long ago it came to the CPU on which it runs, in nanoseconds ([`here_ns`]).
    pub here_ns: u32,
    /// Its class.
    pub class: Class,
    /// Tasks that wait in the queue of its CPU.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`boost_left`]), or 0 ([`Tunables::goes_unboosted`]).
    pub boost_left: u32,
    /// How long it has been waiting, in microseconds ([`waits_us`]); 0 if it runs.
    pub waits_us: u32,
    /// How far it may run ahead of one that waits before it yields, in nanoseconds ([`Tunables::step`]).
    pub step_ns: u32,
}

impl Task {
    /// Whether it moves to this key in its queue, where it was queued under that one: where all are put in order, or because it
    /// waits for long.
    pub fn moves_in_queue(&self, key: u64, queued_key: u64, all: bool) -> bool {
        ffi::tw_moves_in_queue(self, key, queued_key, all)
    }
}

/// What the keys of a queue go by, all of them by the same (`struct tw_keys`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Keys {
    /// Tasks that wait there.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`boost_left`]).
    pub boost_left: u32,
    /// Looks that have yet to put the queue in order, each those tasks that are first then ([`ROTATION_SORTED`]).
    pub nr_looks: u32,
}

impl Keys {
    /// Anew if nobody waits where this task is about to be queued.
    pub fn begin(&mut self, task: &Task, boost_left: u32) {
        ffi::tw_keys_begin(self, task, boost_left);
    }

    /// By what holds now, where so many wait.
    pub fn renew(&mut self, nr_waiting: u32, boost_left: u32) {
        ffi::tw_keys_renew(self, nr_waiting, boost_left);
    }
}

/// From when on what a task ran counts, beside what its vtime was charged for (`enum tw_origin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// All that it ran since it was charged.
    Charge = 0,
    /// It slept since.
    Waking = 1,
    /// It starts with its program's parallel phase.
    Phase = 2,
}

impl TryFrom<u64> for Origin {
    type Error = u64;

    /// From the number that `enum tw_origin` gives it; any other number is returned as the error.
    fn try_from(from: u64) -> Result<Self, u64> {
        [Self::Charge, Self::Waking, Self::Phase]
            .into_iter()
            .find(|known| *known as u64 == from)
            .ok_or(from)
    }
}

/// What a task ran since its vtime was last brought up to date (`struct tw_run`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Run {
    /// Before it last slept, if it did, in nanoseconds.
    pub before_ns: u64,
    /// Since then, or since the phase began, or all of it, in nanoseconds.
    pub since_ns: u64,
    /// 1 to 10000, where 100 is nice 0.
    pub weight: u32,
    /// Of the CPU that it ran on, [`CAPACITY_ONE`] for the fastest.
    pub capacity: u32,
    /// Tasks that wait in the queue of its CPU.
    pub nr_waiting: u32,
    /// What serial tasks leave of boosts ([`boost_left`]).
    pub boost_left: u32,
    /// From when on it counts.
    pub origin: Origin,
    /// 1 if it is serial and has no boost all the same ([`Tunables::goes_unboosted`]).
    pub unboosted: u32,
    /// 1 if tasks wait anywhere.
    pub others_wait: u32,
}

impl Run {
    /// From when on it counts, of which `since_ns` is all so far: for a task that was charged in the phase `seen`, has been ready
    /// for `ready_ns`, and slept since or not.
    pub fn find_origin(
        &mut self,
        group: &Group,
        seen: u32,
        ready_ns: u64,
        slept: bool,
        now_ns: u64,
        serial_threshold: u32,
    ) {
        ffi::tw_find_origin(self, group, seen, ready_ns, slept, now_ns, serial_threshold);
    }
}

/// The policy's settings (`struct tw_tunables`), times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Tunables {
    /// How long a task runs before those who wait are considered.
    pub slice_ns: u64,
    /// How far a task may be ahead of a waiting one before it yields.
    pub rotate_ns: u64,
    /// How far ahead of its vtime a serial task is placed.
    pub serial_boost_ns: u64,
    /// How long a serial task has a CPU before it makes way for another serial one.
    pub serial_turn_ns: u64,
    /// How far ahead of its vtime a task of the senior parallel program is placed.
    pub senior_boost_ns: u64,
    /// How long a program is the senior one while others compete.
    pub senior_turn_ns: u64,
    /// How far behind the current vtime a waking task may be, and a serial one ahead.
    pub vtime_window_ns: u64,
    /// How far from the current vtime a task may be, alone on its CPU.
    pub vtime_lag_ns: u64,
    /// At most so many ready threads, and the thread group is serial.
    pub serial_threshold: u32,
    /// As many tasks waiting in a queue, beyond the second, halve a boost twice; 1 to 65535.
    pub boost_shares: u32,
}

impl Tunables {
    /// The class of a task, a kernel thread bound to its CPU or not, of the senior program or another, in a group with so
    /// many ready threads.
    pub fn class_of(&self, nr_ready: u32, bound_kernel_thread: bool, senior: bool) -> Class {
        let class = ffi::tw_class_of(nr_ready, bound_kernel_thread, senior, self);
        Class::try_from(u64::from(class)).expect("tw_class_of returns a class")
    }

    /// The vtime, kept near the vtime `now`; with less credit for a task that woke up.
    pub fn vtime_bound(&self, vtime: u64, run: &Run, now: u64, class: Class, woke: bool) -> u64 {
        ffi::tw_vtime_bound(vtime, run, now, class, woke, self)
    }

    /// The vtime brought up to date, kept near the vtime `now`; from where its phase began, if it starts with that.
    pub fn vtime_advance(&self, vtime: u64, run: &Run, now: u64, class: Class) -> u64 {
        ffi::tw_vtime_advance(vtime, run, now, class, self)
    }

    /// The current vtime, `now`, after this task of this weight ([`weight_among`]) was found running, so many nanoseconds after it last
    /// followed a light one, and others wait anywhere or not.
    pub fn clock(&self, now: u64, running: &Task, weight: u32, light_ago_ns: u64, others_wait: bool) -> u64 {
        ffi::tw_clock(now, running, weight, light_ago_ns, others_wait, self)
    }

    /// A boost of this many nanoseconds beside so many tasks that wait in a queue, where this is left of boosts.
    pub fn boost(&self, boost_ns: u64, nr_waiting: u32, left: u32) -> u64 {
        ffi::tw_boost(boost_ns, nr_waiting, left, self)
    }

    /// Whether a task of a program with so few threads that it is always serial goes by its vtime on the CPU to which it is bound,
    /// where so long ago a parallel one was ready that is bound there too.
    pub fn goes_unboosted(&self, nr_threads: u32, parallel_ago_ns: u64) -> bool {
        ffi::tw_goes_unboosted(nr_threads, parallel_ago_ns, self)
    }

    /// The task's position beside those that wait at its CPU now: the smaller goes first.
    pub fn key(&self, task: &Task) -> u64 {
        ffi::tw_key(task, self)
    }

    /// The key of a task in a queue, without a boost ([`Tunables::goes_unboosted`]) or not.
    pub fn key_in(&self, keys: &Keys, task: &Task, unboosted: bool) -> u64 {
        ffi::tw_key_in(keys, task, unboosted, self)
    }

    /// Whether a queue's keys go by boosts of more than twice, or less than half, what they are now, and 10 ms apart.
    pub fn keys_are_stale(&self, keys: &Keys, nr_waiting: u32, boost_left: u32) -> bool {
        ffi::tw_keys_are_stale(keys, nr_waiting, boost_left, self)
    }

    /// Whether one of two waiting tasks goes first.
    pub fn goes_first(&self, task: &Task, other: &Task) -> bool {
        ffi::tw_goes_first(task, other, self)
    }

    /// Whether a task that became ready takes the CPU of a running one.
    pub fn preempts(&self, waking: &Task, running: &Task) -> bool {
        ffi::tw_preempts(waking, running, self)
    }

    /// Whether a task that woke up takes its CPU at once from a serial one, where each is bound to that or not.
    pub fn turns_out(&self, running: &Task, running_is_bound: bool, waking_is_bound: bool) -> bool {
        ffi::tw_turns_out(running, running_is_bound, waking_is_bound, self)
    }

    /// Whether a serial task that came so many nanoseconds ago goes on beside a serial one that woke up, whatever that is owed.
    pub fn just_came(&self, here_ns: u64) -> bool {
        ffi::tw_just_came(here_ns, self)
    }

    /// Until when no serial task that wakes up can take a CPU on which a task of this class came so many nanoseconds ago, nor
    /// one to which another serial one comes meanwhile; 0 for a later class. Of a CPU that runs nobody: [`Class::Kernel`] and 0.
    pub fn stays_until(&self, running: Class, here_ns: u64, now: u64) -> u64 {
        ffi::tw_stays_until(running, here_ns, now, self)
    }

    /// Whether a serial task goes on beside a serial one that woke up, as a vtime beyond which its own is not ([`vtime_most`])
    /// and its time on the CPU show: then it is not preempted, whatever a closer look would say.
    pub fn surely_stays(&self, running_at_most: &Task, waking: &Task) -> bool {
        ffi::tw_surely_stays(running_at_most, waking, self)
    }

    /// Whether what a program with so many threads loses is counted, on CPUs that differ in speed or not.
    pub fn counts_loss(&self, nr_threads: u32, unequal: bool) -> bool {
        ffi::tw_counts_loss(nr_threads, unequal, self)
    }

    /// Whether a task that runs on a slower CPU takes a faster one over from what runs there, whose program has lost so much
    /// less than its own.
    pub fn takes_turn(&self, task: &Task, there: &Task, lost_more: i32) -> bool {
        ffi::tw_takes_turn(task, there, lost_more, self)
    }

    /// For how many nanoseconds of vtime a task may go on before it makes way for one that waits, with all that comes before
    /// [`Self::due_in`]; the step between the two is noted in it.
    pub fn makes_way_in(&self, running: &mut Task, waiting: &Task, beside: Beside) -> u64 {
        ffi::tw_makes_way_in(running, waiting, &beside, self)
    }

    /// How long a task runs before those who wait are considered, in nanoseconds, or before a faster CPU of an unequal machine is
    /// looked for.
    pub fn slice(&self, others_wait: bool, unequal: bool, look_ns: u64) -> u64 {
        ffi::tw_slice(others_wait, unequal, look_ns, self)
    }

    /// Whether it is worth a look for a CPU that has nothing to do that a slower one kept its task so long ago, where a look
    /// takes so long ([`look_takes`]).
    pub fn kept_recently(&self, ago_ns: u64, look_ns: u64) -> bool {
        ffi::tw_kept_recently(ago_ns, look_ns, self)
    }

    /// How long a task of this class runs that waited, before those who wait then are considered, where a look takes so long
    /// ([`look_takes`]), in nanoseconds.
    pub fn slice_of(&self, class: Class, look_ns: u64) -> u64 {
        ffi::tw_slice_of(class, look_ns, self)
    }

    /// How long a task of this class and weight goes on beside waiting ones, the best of which is due in `due_ns` of its vtime, in
    /// nanoseconds.
    pub fn slice_beside(&self, class: Class, due_ns: u64, weight: u32) -> u64 {
        ffi::tw_slice_beside(class, due_ns, weight, self)
    }

    /// For how many nanoseconds of vtime a task may go on beside a waiting one.
    pub fn due_in(&self, running: &Task, waiting: &Task) -> u64 {
        ffi::tw_due_in(running, waiting, self)
    }

    /// Whether the turn of the senior program is over, a task of which is to make way for a waiting one.
    pub fn is_used_up(&self, senior: &Task, waiting: &Task, ages: &Ages) -> bool {
        ffi::tw_is_used_up(senior, waiting, ages, self)
    }

    /// How far, in nanoseconds, a task of this class runs ahead of one that waits before it yields, so long after its program's
    /// parallel phase began, where a look of the timer takes so long ([`look_takes`]).
    pub fn step(&self, class: Class, age_ns: u64, look_ns: u64) -> u64 {
        ffi::tw_step(class, age_ns, look_ns, self)
    }

    /// In how many nanoseconds to look again at a running task beside a waiting one that is due in so many.
    pub fn look_in(&self, running: &Task, waiting: &Task, due_ns: u64) -> u64 {
        ffi::tw_look_in(running, waiting, due_ns, self)
    }

    /// The vtime of a task in another queue, behind the same last-level cache or `across`, for a CPU to go by whose own queue begins
    /// with `mine`.
    pub fn vtime_seen(&self, theirs: &Task, mine: Option<&Task>, across: bool) -> u64 {
        ffi::tw_vtime_seen(theirs, mine, across, self)
    }

    /// Whether a task of this class, that is new or woke up or neither, may take the CPU of a running one of that class at all;
    /// with the threads of their program if both are of one, else 0.
    pub fn may_take(&self, class: Class, running: Class, wakes: bool, nr_own_threads: u32) -> bool {
        ffi::tw_may_take(class, running, wakes, nr_own_threads, self)
    }

    /// Whether a task at the end of its slice makes way for a waiting one.
    pub fn yields(&self, running: &Task, waiting: &Task) -> bool {
        ffi::tw_yields(running, waiting, self)
    }
}

/// A vtime beyond which no task comes ([`Tunables::vtime_advance`]) that was charged up to `vtime` and ran so since, but one
/// that starts with a phase.
pub fn vtime_most(vtime: u64, run: &Run, now: u64) -> u64 {
    ffi::tw_vtime_most(vtime, run, now)
}

/// Whether a task of this class runs at once on its CPU, whatever runs there.
pub fn runs_at_once(class: Class) -> bool {
    ffi::tw_runs_at_once(class)
}

/// Whether a task looks for a seat of less rank than this ([`Class::leaves_seat_for`]); the last look in vain at all cores was at
/// `in_vain_at_ns`.
pub fn looks_for_seat(limit: u32, now_ns: u64, in_vain_at_ns: u64) -> bool {
    ffi::tw_looks_for_seat(limit, now_ns, in_vain_at_ns)
}

/// Whether a task of this class changes places with that of a CPU that asks for it.
pub fn answers_call(class: Class) -> bool {
    ffi::tw_answers_call(class)
}

/// Whether a task of this class ever takes the CPU of a running one.
pub fn may_preempt(class: Class) -> bool {
    ffi::tw_may_preempt(class)
}

/// Whether a task of this class that wakes up need not look at CPUs to take: the first of them is to be had at `until`
/// ([`Tunables::stays_until`]), and so many programs are parallel.
pub fn passed_over(waking: Class, until: u64, nr_parallel: u32, now: u64) -> bool {
    ffi::tw_passed_over(waking, until, nr_parallel, now)
}

/// At how many CPUs a waking task of this class looks for one to take over.
pub fn victim_scan(class: Class, nr_cpus: u32) -> u32 {
    ffi::tw_victim_scan(class, nr_cpus)
}

/// The mean weight of tasks of nice 0, in 65536ths (`TW_WEIGHT_ONE`).
pub const MEAN_WEIGHT_ONE: u32 = 6_553_600;

/// What counts of a task of this weight that ran for so many nanoseconds towards the mean of those that run.
pub fn weighed_ns(weight: u32, ran_ns: u64) -> u64 {
    ffi::tw_weighed_ns(weight, ran_ns)
}

/// The mean weight of those that run, in 65536ths, so much before, after they ran for `ran_ns` in sum in the last `in_ns` and weighed
/// so much ([`weighed_ns`]).
pub fn mean_weight(before: u32, ran_ns: u64, weighed_ns: u64, in_ns: u64) -> u32 {
    ffi::tw_mean_weight(before, ran_ns, weighed_ns, in_ns)
}

/// Whether a task that weighs so much among those that run ([`weight_among`]) is light beside them.
pub fn is_light(weight: u32) -> bool {
    ffi::tw_is_light(weight)
}

/// What a task of this weight weighs among such that weigh so much on the mean, in 65536ths: 1 to 10000; 100 for nice 0, 50 for one
/// lighter than half of that among its like.
pub fn weight_among(weight: u32, mean: u32) -> u32 {
    ffi::tw_weight_among(weight, mean)
}

/// Whether a running task, while others wait anywhere or not, is beside others, so that the mean weight and the clock go by it.
pub fn is_beside_others(running: &Task, others_wait: bool) -> bool {
    ffi::tw_is_beside_others(running, others_wait)
}

/// Of which class a task is that is due to make way, beside the one that it makes way for (`enum tw_due`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Due {
    /// It goes before that, and is due all the same.
    Earlier = 1,
    /// Both are of one class.
    Same = 2,
    /// It goes after that.
    Later = 3,
}

impl Due {
    /// Where it is due in so many nanoseconds.
    pub fn of(running: &Task, waiting: &Task, in_ns: u64) -> Option<Self> {
        Self::from_number(ffi::tw_due_beside(running, waiting, in_ns))
    }

    fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Earlier),
            2 => Some(Self::Same),
            3 => Some(Self::Later),
            _ => None,
        }
    }
}

/// Whether a running task, bound to its CPU or not, makes way for a waiting one because only that is bound.
pub fn makes_room(running: &Task, running_is_bound: bool, waiting_is_bound: bool) -> bool {
    ffi::tw_makes_room(running, running_is_bound, waiting_is_bound)
}

/// For how long a serial task counts as ready that ran for so long since it was last charged, and waited, in nanoseconds.
pub fn serial_ready_ns(ran_ns: u64, waited_ns: u64) -> u64 {
    ffi::tw_serial_ready_ns(ran_ns, waited_ns)
}

/// How many serial tasks are ready, in 256ths, of as many before, after they were ready for `ready_ns` in sum.
pub fn serial_ready(before: u32, ready_ns: u64, in_ns: u64) -> u32 {
    ffi::tw_serial_ready(before, ready_ns, in_ns)
}

/// By how much a clock that is read late at times is ahead of another, in nanoseconds: as read now, or as before, so long ago.
pub fn clock_ahead(before_ns: i64, since_ns: i64, read_ns: i64) -> i64 {
    ffi::tw_clock_ahead(before_ns, since_ns, read_ns)
}

/// What a look takes on the mean, in nanoseconds, after one that took so long: one of the timer, or of a CPU.
pub fn look_takes(before_ns: u64, took_ns: u64) -> u64 {
    ffi::tw_look_takes(before_ns, took_ns)
}

/// What a look takes, in nanoseconds, for which slices leave time: one of the timer, or of a CPU of an unequal machine at faster
/// ones when a slice ends, whichever takes longer.
pub fn longer_look(timer_ns: u64, cpu_ns: u64) -> u64 {
    ffi::tw_longer_look(timer_ns, cpu_ns)
}

/// Whether a CPU on which a task of this class runs looks at its queue at once when another program has become senior.
pub fn follows_senior(running: Class) -> bool {
    ffi::tw_follows_senior(running)
}

/// What [`Task::here_ns`] says of a task that came to its CPU so many nanoseconds ago: a second at most.
pub fn here_ns(ago_ns: u64) -> u32 {
    ffi::tw_here_ns(ago_ns)
}

/// What a [`Task`] says of a wait of so many nanoseconds, in microseconds: an hour at most.
pub fn waits_us(waits_ns: u64) -> u32 {
    ffi::tw_waits_us(waits_ns)
}

/// What is left of boosts, in 65536ths ([`BOOST_WHOLE`] is all), beside so many ready serial tasks, in 256ths.
pub fn boost_left(serial_ready: u32, nr_cpus: u32) -> u32 {
    ffi::tw_boost_left(serial_ready, nr_cpus)
}

/// The vtime after running for `ran_ns` on a CPU of this capacity with a weight of 1 to 10000, where 100 is a nice-0
/// task.
pub fn vtime_charge(vtime: u64, ran_ns: u64, weight: u32, capacity: u32) -> u64 {
    ffi::tw_vtime_charge(vtime, ran_ns, weight, capacity)
}
