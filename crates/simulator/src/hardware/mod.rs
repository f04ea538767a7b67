// SPDX-License-Identifier: GPL-2.0-only
//! How fast what runs on a CPU gets on, beside what runs on the others.
//!
//! A CPU's rate is a pure function of the machine and of who runs where: the CPU's capacity, shared with those that run in
//! the same pipeline or core ([`pipelines`]), changed by how many cores of the package are busy ([`acceleration`]),
//! less the time for which it waits for what its cache does not hold ([`cache`]) and for memory that others use too
//! ([`bandwidth`]). What packages consume meanwhile is in [`power`]. Each of these can be switched off ([`Mechanism`]).
//!
//! When somebody comes or goes only the CPUs of the outermost group that this touches are looked at, and only those whose rate
//! changes are accounted and expected anew. On a machine that shares nothing all of this is one comparison.
//!
//! Of a cache that others come to and go from each has its share at once. Who comes from another cache fills its share first.

mod acceleration;
mod bandwidth;
mod cache;
mod pipelines;
mod power;
mod share_out;

use std::rc::Rc;

use threadwise_machine::{CpuId, Machine, names};

use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::Memory;
use acceleration::accelerated;
use bandwidth::{demand_mb_s, throttled};
use cache::{Footprint, misses, refill_ns, stalled};
use pipelines::Pipelines;
use power::Meters;
use share_out::share_out;

/// Work a nanosecond: [`RATE_ONE`] on the fastest CPU with nobody beside it.
pub(crate) type Rate = u64;
/// The fixed point of rates: 16 bits, six more than capacities have.
pub(crate) const RATE_ONE: Rate = 1 << 16;

/// The rate of a CPU of this capacity that shares nothing: in proportion, as capacities are defined
/// (Documentation/scheduler/sched-capacity.rst) and thread-essence has its a for all programs alike.
pub(crate) fn rate_of(capacity: u32) -> Rate {
    u64::from(capacity) * (RATE_ONE / u64::from(threadwise_policy::CAPACITY_ONE))
}

/// What the hardware shares, as far as the machine's file tells of it, and a simulation can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mechanism {
    /// Pipelines and cores that hardware threads share
    ///
    /// Without: each has one for itself.
    Pipelines,
    /// Last-level caches that tasks share
    ///
    /// Without: each has one for itself.
    Caches,
    /// The time for which a task that comes to another last-level cache fills it again
    ///
    /// Without: it finds there what it had.
    Refill,
    /// The time for which what misses a last-level cache, or fills it again, waits for memory
    ///
    /// Without: it is there at once.
    Latency,
    /// The bandwidth of memory
    ///
    /// Without: it is endless.
    Bandwidth,
    /// Cores that are faster while others of their package are idle
    ///
    /// Without: they are as fast as one alone.
    Acceleration,
    /// The counting of energy
    ///
    /// Without: what packages consume is not counted.
    Power,
    /// Cores that are slower than others; schedulers go on believing that they are
    ///
    /// Without: each is as fast as the fastest, whatever schedulers have been told.
    Speeds,
}

/// A working set: its program, the thread if it is that of one, and which of those it is.
type FootprintId = (usize, Option<usize>, u32);

/// What is on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Occupant {
    #[default]
    Nobody,
    /// Somebody who leaves memory alone.
    Runs,
    /// Somebody who computes on this working set.
    Uses(Memory, FootprintId),
}

impl Occupant {
    /// A thread that computes.
    pub(crate) fn computing(memory: Memory, program: usize, thread: usize) -> Self {
        let owner = (!memory.is_shared).then_some(thread);
        Self::Uses(memory, (program, owner, memory.buffer))
    }

    fn memory(self) -> Option<(Memory, FootprintId)> {
        match self {
            Self::Uses(memory, footprint) => Some((memory, footprint)),
            Self::Nobody | Self::Runs => None,
        }
    }
}

/// A CPU, what is on it, and what that has of what is shared.
#[derive(Clone, Debug)]
struct Seat {
    alone: Rate,
    occupant: Occupant,
    /// The share of accesses that miss the last-level cache, [`RATE_ONE`] for all.
    miss: u64,
    /// The rate if bandwidth were endless, and the bandwidth that it would take.
    wanted: Rate,
    demand_mb_s: u64,
    rate: Rate,
}

/// A level of the machine.
#[derive(Debug)]
struct Groups {
    /// By CPU.
    of: Vec<usize>,
    members: Vec<Vec<CpuIndex>>,
}

impl Groups {
    fn of_level(machine: &Machine, level: &str) -> Self {
        let of = |id: CpuId| machine.group_of(level, id).unwrap_or(0);
        let of: Vec<usize> = machine.cpus().iter().map(|cpu| of(cpu.id)).collect();
        let mut members = vec![Vec::new(); of.iter().max().map_or(1, |last| last + 1)];
        for (cpu, &group) in of.iter().enumerate() {
            members[group].push(cpu);
        }
        Self { of, members }
    }
}

/// Memory behind last-level caches.
#[derive(Clone, Debug)]
struct MemoryModel {
    latency_ns: u64,
    /// The level whose CPUs share the bandwidth, and that.
    shared_at: usize,
    bandwidth_mb_s: Option<u64>,
    /// What is wanted of it, by group.
    demand_mb_s: Vec<u64>,
    /// Whether that was more than there is when it was last shared out.
    was_short: Vec<bool>,
    /// The size of the cache of each group of the level `llc`, where it is known.
    caches: Vec<Option<u64>>,
    shares_caches: bool,
    refills: bool,
}

impl MemoryModel {
    /// Whether more is wanted of a domain's bandwidth than there is.
    fn is_short(&self, domain: usize) -> bool {
        self.bandwidth_mb_s
            .is_some_and(|limit| self.demand_mb_s[domain] > limit)
    }
}

/// A machine and who runs on it.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    /// Whether anything depends on who runs where.
    is_plain: bool,
    seats: Vec<Seat>,
    /// The machine's levels, outermost first; the last is that of single CPUs.
    levels: Vec<Rc<Groups>>,
    package: usize,
    llc: usize,
    core: usize,
    pipelines: Pipelines,
    memory: Option<MemoryModel>,
    acceleration_mhz: Vec<u32>,
    meters: Option<Meters>,
    /// CPUs that run, by core; cores of which one does, by package.
    running_in_core: Vec<u32>,
    busy_cores: Vec<usize>,
    changed: Vec<(CpuIndex, Rate)>,
}

impl Hardware {
    pub(crate) fn new(machine: &Machine) -> Self {
        let at = |name: &str| machine.levels().iter().position(|level| level.name() == name);
        let position = |name: &str| at(name).expect("every machine has packages, caches, cores and CPUs");
        let levels: Vec<Rc<Groups>> = machine
            .levels()
            .iter()
            .map(|level| Rc::new(Groups::of_level(machine, level.name())))
            .collect();
        let known = machine.hardware();
        let memory = known.memory.as_ref().map(|memory| {
            let shared_at = position(&memory.level);
            MemoryModel {
                latency_ns: u64::from(memory.latency_ns),
                shared_at,
                bandwidth_mb_s: memory.bandwidth_mb_s.map(u64::from),
                demand_mb_s: vec![0; levels[shared_at].members.len()],
                was_short: vec![false; levels[shared_at].members.len()],
                caches: machine.llc_bytes(),
                shares_caches: true,
                refills: true,
            }
        });
        let seat = |cpu: &threadwise_machine::Cpu| Seat {
            alone: rate_of(cpu.capacity),
            occupant: Occupant::Nobody,
            miss: 0,
            wanted: 0,
            demand_mb_s: 0,
            rate: rate_of(cpu.capacity),
        };
        let mut hardware = Self {
            is_plain: true,
            seats: machine.cpus().iter().map(seat).collect(),
            package: position(names::PACKAGE),
            llc: position(names::LLC),
            core: position(names::CORE),
            pipelines: Pipelines::new(machine),
            memory,
            acceleration_mhz: known.acceleration_mhz.clone(),
            meters: known.power.map(|power| Meters::new(power, machine)),
            running_in_core: vec![0; machine.nr_cores()],
            busy_cores: vec![0; machine.nr_packages()],
            levels,
            changed: Vec::new(),
        };
        hardware.is_plain = hardware.has_nothing();
        hardware
    }

    fn has_nothing(&self) -> bool {
        self.pipelines.is_empty()
            && self.memory.is_none()
            && self.acceleration_mhz.is_empty()
            && self.meters.is_none()
    }

    /// A CPU has this rate while nothing is beside it, instead of that of its capacity; nothing runs yet.
    pub(crate) fn set_alone(&mut self, cpu: CpuIndex, rate: Rate) {
        let seat = &mut self.seats[cpu];
        (seat.alone, seat.wanted, seat.rate) = (rate, rate, rate);
    }

    /// Does without one of its mechanisms. Nobody runs yet.
    pub(crate) fn switch_off(&mut self, mechanism: Mechanism) {
        match mechanism {
            Mechanism::Pipelines => self.pipelines = Pipelines::default(),
            Mechanism::Acceleration => self.acceleration_mhz.clear(),
            Mechanism::Power => self.meters = None,
            // The CPUs have theirs (`World::switch_off()`).
            Mechanism::Speeds => (),
            Mechanism::Caches => {
                if let Some(memory) = &mut self.memory {
                    memory.shares_caches = false;
                }
            }
            Mechanism::Refill => {
                if let Some(memory) = &mut self.memory {
                    memory.refills = false;
                }
            }
            Mechanism::Latency => {
                if let Some(memory) = &mut self.memory {
                    memory.latency_ns = 0;
                }
            }
            Mechanism::Bandwidth => {
                if let Some(memory) = &mut self.memory {
                    memory.bandwidth_mb_s = None;
                }
            }
        }
        self.is_plain = self.has_nothing();
    }

    /// Last-level caches have this size instead of what the machine's file says. Nobody runs yet.
    pub(crate) fn resize_caches(&mut self, bytes: u64) {
        if let Some(memory) = &mut self.memory {
            memory.caches.fill(Some(bytes));
        }
    }

    /// The size of a last-level cache, where memory is modelled and it is known.
    pub(crate) fn cache_bytes(&self, llc: usize) -> Option<u64> {
        *self.memory.as_ref()?.caches.get(llc)?
    }

    /// The share of accesses of what is on a CPU that miss its last-level cache, [`RATE_ONE`] for all.
    pub(crate) fn miss(&self, cpu: CpuIndex) -> u64 {
        self.seats[cpu].miss
    }

    /// How long who comes to a CPU from another last-level cache waits for its working set: nobody else of those who run
    /// has brought it there.
    pub(crate) fn refill_ns(&self, cpu: CpuIndex, occupant: Occupant) -> Ns {
        let (Some(model), Some((memory, footprint))) = (&self.memory, occupant.memory()) else {
            return 0;
        };
        let llc = self.levels[self.llc].of[cpu];
        let mut members = self.levels[self.llc].members[llc].iter();
        let is_there = members.any(|&other| {
            let there = self.seats[other].occupant.memory();
            other != cpu && there.is_some_and(|(_, id)| id == footprint)
        });
        // What prefetchers bring takes bandwidth, as all misses do.
        if is_there || !model.refills || memory.is_streamed {
            return 0;
        }
        refill_ns(memory.working_set_bytes, model.caches[llc], model.latency_ns)
    }

    /// The core of a CPU, whether the kernel knows of it or not.
    pub(crate) fn core_of(&self, cpu: CpuIndex) -> usize {
        self.levels[self.core].of[cpu]
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Puts somebody or nobody onto a CPU; those whose rate that changes, and their rates. [`Self::done_with`] takes the
    /// list back.
    pub(crate) fn occupy(&mut self, cpu: CpuIndex, occupant: Occupant, now: Ns) -> Vec<(CpuIndex, Rate)> {
        let mut changed = std::mem::take(&mut self.changed);
        let before = std::mem::replace(&mut self.seats[cpu].occupant, occupant);
        if before == occupant {
            return changed;
        }
        let mut touched = self.levels.len() - 1;
        if (before == Occupant::Nobody) != (occupant == Occupant::Nobody) {
            touched = touched.min(self.starts_or_ends(cpu, occupant != Occupant::Nobody, now));
        }
        if self.memory.is_some() && before.memory() != occupant.memory() {
            touched = touched.min(self.llc);
            self.share_cache(self.levels[self.llc].of[cpu]);
        }
        self.share(touched, self.levels[touched].of[cpu], &mut changed);
        changed
    }

    pub(crate) fn done_with(&mut self, mut changed: Vec<(CpuIndex, Rate)>) {
        changed.clear();
        self.changed = changed;
    }

    /// A CPU begins or ceases to run; the outermost level of which that touches others.
    fn starts_or_ends(&mut self, cpu: CpuIndex, starts: bool, now: Ns) -> usize {
        let mut touched = self.pipelines.change(cpu, starts, self.levels.len() - 1);
        let core = &mut self.running_in_core[self.levels[self.core].of[cpu]];
        let was_busy = *core > 0;
        *core = if starts { *core + 1 } else { *core - 1 };
        if was_busy == (*core > 0) {
            return touched;
        }
        let package = self.levels[self.package].of[cpu];
        let before = self.busy_cores[package];
        let nr_busy = if starts { before + 1 } else { before - 1 };
        self.busy_cores[package] = nr_busy;
        if let Some(meters) = &mut self.meters {
            meters.change(package, nr_busy, now, &self.acceleration_mhz);
        }
        let speed = |nr_busy| accelerated(RATE_ONE, &self.acceleration_mhz, nr_busy);
        if speed(before) != speed(nr_busy) {
            touched = touched.min(self.package);
        }
        touched
    }

    /// Shares a last-level cache out anew to those that use it.
    fn share_cache(&mut self, llc: usize) {
        let Some(memory) = &self.memory else { return };
        let members = &self.levels[self.llc].members[llc];
        let seats = &mut self.seats;
        let footprint = |cpu: CpuIndex, seats: &[Seat]| {
            let (memory, id) = seats[cpu].occupant.memory()?;
            Some((
                cpu,
                Footprint {
                    id,
                    bytes: memory.working_set_bytes,
                    accesses: u64::from(memory.accesses_per_us),
                },
            ))
        };
        let users: Vec<(CpuIndex, Footprint)> =
            members.iter().filter_map(|&cpu| footprint(cpu, seats)).collect();
        let capacity = memory.caches[llc];
        if memory.shares_caches {
            let footprints: Vec<Footprint> = users.iter().map(|&(_, footprint)| footprint).collect();
            for (&(cpu, _), miss) in users.iter().zip(misses(&footprints, capacity)) {
                seats[cpu].miss = miss;
            }
        } else {
            for &(cpu, footprint) in &users {
                seats[cpu].miss = misses(&[footprint], capacity)[0];
            }
        }
    }

    /// Brings the rates of a group up to date, and of those that share bandwidth with it where that is or was short.
    fn share(&mut self, level: usize, group: usize, changed: &mut Vec<(CpuIndex, Rate)>) {
        let groups = Rc::clone(&self.levels[level]);
        let members = &groups.members[group];
        for &cpu in members {
            let (wanted, demand_mb_s) = self.wanted(cpu);
            self.want(cpu, wanted, demand_mb_s);
        }
        // Groups nest: these are all of one domain, or whole domains.
        let mut shared = None;
        for &cpu in members {
            match self.short_domain(cpu) {
                None if self.seats[cpu].occupant == Occupant::Nobody => {}
                None => self.set_rate(cpu, self.seats[cpu].wanted, changed),
                Some(domain) if shared == Some(domain) => {}
                Some(domain) => {
                    self.share_bandwidth(domain, changed);
                    shared = Some(domain);
                }
            }
        }
    }

    /// The domain of a CPU if its bandwidth is short, or was when it was last shared out.
    fn short_domain(&self, cpu: CpuIndex) -> Option<usize> {
        let memory = self.memory.as_ref()?;
        let domain = self.levels[memory.shared_at].of[cpu];
        (memory.was_short[domain] || memory.is_short(domain)).then_some(domain)
    }

    /// A CPU's rate if bandwidth were endless, and the bandwidth that it would take.
    fn wanted(&self, cpu: CpuIndex) -> (Rate, u64) {
        let seat = &self.seats[cpu];
        if seat.occupant == Occupant::Nobody {
            return (0, 0);
        }
        let shared = self.pipelines.share(seat.alone, cpu);
        let nr_busy = self.busy_cores[self.levels[self.package].of[cpu]];
        let speed = accelerated(shared, &self.acceleration_mhz, nr_busy).max(1);
        match (&self.memory, seat.occupant) {
            (Some(model), Occupant::Uses(memory, _)) => {
                let latency_ns = if memory.is_streamed { 0 } else { model.latency_ns };
                let wanted = stalled(speed, memory.accesses_per_us, seat.miss, latency_ns);
                (wanted, demand_mb_s(wanted, memory.accesses_per_us, seat.miss))
            }
            _ => (speed, 0),
        }
    }

    fn want(&mut self, cpu: CpuIndex, wanted: Rate, demand_mb_s: u64) {
        let seat = &mut self.seats[cpu];
        seat.wanted = wanted;
        let before = std::mem::replace(&mut seat.demand_mb_s, demand_mb_s);
        if let Some(memory) = &mut self.memory {
            let domain = self.levels[memory.shared_at].of[cpu];
            memory.demand_mb_s[domain] = memory.demand_mb_s[domain] - before + demand_mb_s;
        }
    }

    /// Those of a domain that want bandwidth get what there is of it, the others their rates.
    fn share_bandwidth(&mut self, domain: usize, changed: &mut Vec<(CpuIndex, Rate)>) {
        let Some(memory) = &mut self.memory else { return };
        let is_short = memory.is_short(domain);
        memory.was_short[domain] = is_short;
        let limit = memory.bandwidth_mb_s.filter(|_| is_short);
        let groups = Rc::clone(&self.levels[memory.shared_at]);
        let running = |&cpu: &CpuIndex| self.seats[cpu].occupant != Occupant::Nobody;
        let users: Vec<CpuIndex> = groups.members[domain].iter().copied().filter(running).collect();
        let wants: Vec<(Rate, u64)> = users
            .iter()
            .map(|&cpu| (self.seats[cpu].wanted, self.seats[cpu].demand_mb_s))
            .collect();
        let rates = match limit {
            None => wants.iter().map(|&(wanted, _)| wanted).collect(),
            Some(limit) => throttled(&wants, limit),
        };
        for (cpu, rate) in users.into_iter().zip(rates) {
            self.set_rate(cpu, rate, changed);
        }
    }

    fn set_rate(&mut self, cpu: CpuIndex, rate: Rate, changed: &mut Vec<(CpuIndex, Rate)>) {
        if std::mem::replace(&mut self.seats[cpu].rate, rate) != rate {
            changed.push((cpu, rate));
        }
    }

    /// The rate of each CPU that runs, computed as if all had come one after the other just now: what it must be.
    pub(crate) fn rates_anew(&self, occupants: &[Occupant]) -> Vec<Option<Rate>> {
        let mut fresh = self.clone();
        fresh.meters = None;
        for cpu in 0..occupants.len() {
            let changed = fresh.occupy(cpu, Occupant::Nobody, 0);
            fresh.done_with(changed);
        }
        for (cpu, &occupant) in occupants.iter().enumerate() {
            let changed = fresh.occupy(cpu, occupant, 0);
            fresh.done_with(changed);
        }
        let runs = |cpu: usize| (occupants[cpu] != Occupant::Nobody).then_some(fresh.seats[cpu].rate);
        (0..occupants.len()).map(runs).collect()
    }

    /// What each package has consumed up to now, in joules; empty where the machine's file gives no power figures.
    pub(crate) fn joules(&self, now: Ns) -> Vec<f64> {
        self.meters
            .as_ref()
            .map_or_else(Vec::new, |meters| meters.joules(now))
    }
}

#[cfg(test)]
mod tests;
