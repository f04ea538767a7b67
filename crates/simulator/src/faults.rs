// SPDX-License-Identifier: GPL-2.0-only
//! What goes wrong on real machines, by chance and from a seed: late kicks and timers, CPUs that change their speed, come
//! and go, affinities that change under whoever waits or runs, samples of hardware counters that are lost, and storms of
//! short threads.
//!
//! Each kind has a generator of its own, so that a world without one of them has the others as before.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::Ns;
use crate::events::Event;
use crate::kernel::{CpuIndex, Place, Task, TaskIndex};
use crate::mask::CpuMask;
use crate::program::{Program, Step};
use crate::scheduler::Enqueue;
use crate::world::World;

/// What goes wrong and how often. Zero: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of all that is drawn.
    pub seed: u64,
    /// Every eighth kick is late by up to this.
    pub late_kick_ns: Ns,
    /// The scheduler's timer is late by up to this.
    pub timer_jitter_ns: Ns,
    /// One of so many samples of hardware counters is lost.
    pub lost_sample_in: u64,
    /// The mean time between changes of a CPU's speed, to between an eighth of its capacity and all of it. Schedulers are not
    /// told, as nobody tells those of sched_ext that a CPU is throttled: `scx_bpf_cpuperf_cap()` is what it has at its best.
    pub speed_every_ns: Ns,
    /// The mean time between CPUs that go offline or come back; one stays.
    pub hotplug_every_ns: Ns,
    /// The mean time between changes of a task's affinity.
    pub affinity_every_ns: Ns,
    /// The mean time between programs of up to six threads that run briefly, some sleep in between, and end.
    pub storm_every_ns: Ns,
    /// From then on all is well: the CPUs are online and as fast as they should be.
    pub until_ns: Ns,
}

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    Speed,
    Hotplug,
    Affinity,
    Storm,
}

const STRIKING: [Fault; 4] = [Fault::Speed, Fault::Hotplug, Fault::Affinity, Fault::Storm];

/// No storm comes while more tasks live: there would be no end to waiting.
const MOST_ALIVE: usize = 20;

/// Draws whole numbers, the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64);

impl Dice {
    /// The draws of a seed; those of other streams are independent of them.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(stream)))
    }

    /// 0 to `bound`, without that. It must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product: uniform to within bound / 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in so many.
    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// How late kicks and timers are, and which samples are lost.
pub(crate) struct Delays {
    faults: Faults,
    kicks: Dice,
    timers: Dice,
    samples: Dice,
}

impl Delays {
    pub(crate) fn of_kick(&mut self) -> Ns {
        if self.faults.late_kick_ns == 0 || !self.kicks.one_in(8) {
            return 0;
        }
        self.kicks.below(self.faults.late_kick_ns + 1)
    }

    pub(crate) fn of_timer(&mut self) -> Ns {
        match self.faults.timer_jitter_ns {
            0 => 0,
            most => self.timers.below(most + 1),
        }
    }

    pub(crate) fn loses_sample(&mut self) -> bool {
        let one_in = self.faults.lost_sample_in;
        one_in > 0 && self.samples.one_in(one_in)
    }
}

/// Strikes as it was told to.
pub(crate) struct Injector {
    faults: Faults,
    dice: [Dice; STRIKING.len()],
    nr_storms: u64,
}

impl Injector {
    fn every_ns(&self, fault: Fault) -> Ns {
        match fault {
            Fault::Speed => self.faults.speed_every_ns,
            Fault::Hotplug => self.faults.hotplug_every_ns,
            Fault::Affinity => self.faults.affinity_every_ns,
            Fault::Storm => self.faults.storm_every_ns,
        }
    }
}

impl World {
    /// Has things go wrong from now on.
    pub fn inject(&mut self, faults: Faults) {
        let stream = |nr: u64| Dice::new(faults.seed, nr);
        let disturbs = faults.late_kick_ns + faults.timer_jitter_ns + faults.lost_sample_in > 0;
        self.kernel.delays = disturbs.then(|| {
            let (kicks, timers, samples) = (stream(8), stream(9), stream(10));
            Box::new(Delays {
                faults,
                kicks,
                timers,
                samples,
            })
        });
        self.injector = Some(Box::new(Injector {
            faults,
            dice: STRIKING.map(|fault| stream(fault as u64)),
            nr_storms: 0,
        }));
        for fault in STRIKING {
            self.strike_later(fault);
        }
        if disturbs {
            // When all is well again, what struck last sees to that; nothing else may strike.
            let fault = Fault::Storm;
            self.kernel.events.add(faults.until_ns, Event::Strike { fault });
        }
    }

    fn dice(&mut self, fault: Fault) -> &mut Dice {
        let injector = self.injector.as_mut().expect("who strikes was injected");
        &mut injector.dice[fault as usize]
    }

    fn strike_later(&mut self, fault: Fault) {
        let Some(injector) = &mut self.injector else {
            return;
        };
        let (every, until) = (injector.every_ns(fault), injector.faults.until_ns);
        if every > 0 && self.kernel.now < until {
            let at = self.kernel.now + 1 + injector.dice[fault as usize].below(2 * every);
            self.kernel.events.add(at.min(until), Event::Strike { fault });
        }
    }

    /// What goes wrong next does.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let is_over = self
            .injector
            .as_ref()
            .is_none_or(|injector| self.kernel.now >= injector.faults.until_ns);
        match fault {
            Fault::Speed if is_over => {
                for cpu in 0..self.kernel.cpus.len() {
                    self.set_speed(cpu, self.kernel.cpus[cpu].capacity);
                }
            }
            Fault::Hotplug if is_over => (0..self.kernel.cpus.len()).for_each(|cpu| self.bring_online(cpu)),
            Fault::Affinity | Fault::Storm if is_over => (),
            Fault::Speed => self.change_a_speed(),
            Fault::Hotplug => self.plug(),
            Fault::Affinity => self.change_an_affinity(),
            Fault::Storm => self.storm(),
        }
        if is_over {
            self.kernel.delays = None;
        } else {
            self.strike_later(fault);
        }
    }

    fn change_a_speed(&mut self) {
        let nr = self.kernel.cpus.len() as u64;
        let dice = self.dice(Fault::Speed);
        let (cpu, eighths) = (dice.below(nr) as usize, 1 + dice.below(8) as u32);
        self.set_speed(cpu, (self.kernel.cpus[cpu].capacity * eighths / 8).max(1));
    }

    /// A CPU is so fast from now on; its capacity, which schedulers know, stays what it is.
    pub(crate) fn set_speed(&mut self, cpu: CpuIndex, speed: u32) {
        self.kernel.account(cpu);
        self.kernel.cpus[cpu].speed = speed;
        self.kernel.expect_done(cpu);
    }

    fn plug(&mut self) {
        let nr = self.kernel.cpus.len();
        let cpu = self.dice(Fault::Hotplug).below(nr as u64) as usize;
        if !self.kernel.is_online(cpu) {
            self.bring_online(cpu);
        } else if (0..nr).filter(|&cpu| self.kernel.is_online(cpu)).count() > 1 {
            self.take_offline(cpu);
        }
    }

    /// A CPU is not there any more (`sched_cpu_deactivate()` and what follows it). What it runs, what is in its local queue
    /// and what the scheduler holds for it goes to other CPUs; what waits in dispatch queues stays, for others to take,
    /// but for tasks that could run nowhere else.
    pub(crate) fn take_offline(&mut self, cpu: CpuIndex) {
        self.kernel.account(cpu);
        self.kernel.cpus[cpu].is_online = false;
        self.kernel.idle.leave(cpu);
        if let Some(running) = self.kernel.cpus[cpu].running {
            self.evict(cpu, running);
        }
        for task in 0..self.kernel.tasks.len() {
            let state = &self.kernel.tasks[task];
            let goes = match state.place {
                Place::Local(there) => there == cpu,
                Place::Held => state.cpu == cpu,
                Place::Queue(_) => state.bound_to == Some(cpu),
                _ => false,
            };
            if goes {
                self.remove_waiting(task);
                self.insert_again(task);
            }
        }
        self.scheduler.cpu_offline(&mut self.kernel, cpu);
    }

    /// What runs on a CPU is taken off it and enqueued for another.
    fn evict(&mut self, cpu: CpuIndex, running: TaskIndex) {
        self.kernel.tasks[running].place = Place::Nowhere;
        self.scheduler.quiescent(&mut self.kernel, running, false);
        self.kernel.here = cpu;
        if self.kernel.is_online(cpu) {
            self.schedule(cpu);
        } else {
            self.switch(cpu, Some(running), None);
            self.kernel.idle.leave(cpu);
        }
        self.kernel.tasks[running].waits_since = self.kernel.now;
        self.insert_again(running);
    }

    fn remove_waiting(&mut self, task: TaskIndex) {
        if self.kernel.tasks[task].place == Place::Held {
            self.scheduler.dequeue(&mut self.kernel, task);
        }
        self.kernel.take_away(task);
        self.scheduler.quiescent(&mut self.kernel, task, false);
    }

    /// A task that was taken off a CPU or out of a queue is ready again, where it may run.
    fn insert_again(&mut self, task: TaskIndex) {
        let cpu = self.kernel.online_for(task, self.kernel.tasks[task].cpu);
        self.kernel.tasks[task].cpu = cpu;
        self.scheduler.runnable(&mut self.kernel, task);
        let moved = Enqueue {
            moved: true,
            ..Enqueue::default()
        };
        self.scheduler.enqueue(&mut self.kernel, task, moved);
        self.wake_idle(self.kernel.tasks[task].cpu);
    }

    /// A CPU is there again, and looks for what to run.
    pub(crate) fn bring_online(&mut self, cpu: CpuIndex) {
        let now = self.kernel.now;
        let state = &mut self.kernel.cpus[cpu];
        if std::mem::replace(&mut state.is_online, true) {
            return;
        }
        // Nobody was idle beside those that waited until now.
        if let Some(since) = state.idle_since.replace(now) {
            state.idled += now - since;
        }
        self.kernel.idle.come(cpu);
        self.kernel.here = cpu;
        self.schedule(cpu);
    }

    fn change_an_affinity(&mut self) {
        let alive = |&task: &TaskIndex| self.kernel.tasks[task].place != Place::Gone;
        let alive: Vec<TaskIndex> = (0..self.kernel.tasks.len()).filter(alive).collect();
        let nr = self.kernel.cpus.len();
        if alive.is_empty() {
            return;
        }
        let dice = self.dice(Fault::Affinity);
        let task = alive[dice.below(alive.len() as u64) as usize];
        let cpus = match dice.below(3) {
            0 => None,
            1 => Some(CpuMask::of(nr, [dice.below(nr as u64) as usize])),
            _ => {
                let one = dice.below(nr as u64) as usize;
                let others: Vec<CpuIndex> = (0..nr).filter(|&cpu| cpu == one || dice.one_in(2)).collect();
                Some(CpuMask::of(nr, others)).filter(|_| nr > 1)
            }
        };
        self.set_affinity(task, cpus);
    }

    /// A task may run on these CPUs from now on, or on all (`__set_cpus_allowed_ptr()`). One that is ready is taken out of its
    /// queue and enqueued again; so is one that runs, which goes on if it still may.
    pub(crate) fn set_affinity(&mut self, task: TaskIndex, cpus: Option<CpuMask>) {
        match self.kernel.tasks[task].place {
            Place::Nowhere | Place::Gone => self.kernel.allow(task, cpus),
            Place::On(cpu) => {
                if cpus.as_ref().is_none_or(|cpus| cpus.has(cpu)) {
                    self.reenter(task, cpu, cpus);
                } else {
                    self.kernel.account(cpu);
                    self.kernel.allow(task, cpus);
                    self.evict(cpu, task);
                }
            }
            Place::Local(_) | Place::Queue(_) | Place::Held => {
                self.remove_waiting(task);
                self.kernel.allow(task, cpus);
                self.insert_again(task);
            }
        }
    }

    /// What runs leaves the scheduler and comes back to it while it goes on: whatever that inserts it into, the kernel
    /// takes it out again (`set_next_task_scx()`).
    fn reenter(&mut self, task: TaskIndex, cpu: CpuIndex, cpus: Option<CpuMask>) {
        self.kernel.account(cpu);
        self.kernel.tasks[task].place = Place::Nowhere;
        self.scheduler.quiescent(&mut self.kernel, task, false);
        self.kernel.allow(task, cpus);
        self.scheduler.runnable(&mut self.kernel, task);
        self.kernel.here = cpu;
        self.scheduler.enqueue(&mut self.kernel, task, Enqueue::default());
        if self.kernel.tasks[task].place == Place::Held {
            self.scheduler.dequeue(&mut self.kernel, task);
        }
        self.kernel.take_away(task);
        let state = &mut self.kernel.tasks[task];
        state.place = Place::On(cpu);
        state.cpu = cpu;
    }

    fn storm(&mut self) {
        let alive = |task: &&Task| task.place != Place::Gone;
        if self.kernel.tasks.iter().filter(alive).count() > MOST_ALIVE {
            return;
        }
        let nr = self.injector.as_mut().map_or(0, |injector| {
            injector.nr_storms += 1;
            injector.nr_storms
        });
        let seed = self.dice(Fault::Storm).below(u64::MAX);
        let mut dice = Dice::new(seed, nr);
        let threads = (0..1 + dice.below(6)).map(|_| 1 + dice.below(3)).collect();
        self.start(Box::new(Burst { dice, left: threads }), 100, None);
        self.begin_others();
    }
}

/// Threads that compute for a while, sleep, compute, and end.
struct Burst {
    dice: Dice,
    /// How many times each computes; what it does between is sleep.
    left: Vec<u64>,
}

impl Program for Burst {
    fn nr_threads(&self) -> usize {
        self.left.len()
    }

    fn next(&mut self, thread: usize, _now: Ns) -> Step {
        match self.left[thread] {
            0 => Step::Exit,
            _ if self.dice.one_in(3) => Step::Sleep(1 + self.dice.below(2_000_000)),
            _ => {
                self.left[thread] -= 1;
                Step::Compute(1 + self.dice.below(1_000_000))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use threadwise_machine::Machine;
    use threadwise_policy::Tunables;
    use threadwise_workload::synthetic::Wait;

    use super::*;
    use crate::check::Checker;
    use crate::kernel::Kernel;
    use crate::schedulers::{Known, RoundRobin};
    use crate::synthetic::Synthetic;
    use crate::{Costs, Scheduler};

    const MS: Ns = 1_000_000;
    /// When all is well again.
    const UNTIL: Ns = 80 * MS;

    /// Two programs of four threads on four CPUs, in phases of a millisecond, while this goes wrong.
    fn world_under<S: Scheduler + 'static>(
        faults: Faults,
        scheduler: impl FnOnce(&mut Kernel) -> S,
    ) -> World {
        let machine = Machine::load("core:4").expect("a machine");
        let mut world = World::new(&machine, Costs::FREE, scheduler);
        for seed in 0..2 {
            let ratio = "1:1".parse().expect("a ratio");
            let wait = threadwise_workload::synthetic::Wait::Passive;
            world.start(
                Box::new(Synthetic::new(ratio, 1_000, 1_000, 4, wait, seed)),
                100,
                None,
            );
        }
        world.inject(Faults {
            seed: 1,
            until_ns: UNTIL,
            ..faults
        });
        world
    }

    fn world(faults: Faults) -> World {
        world_under(faults, |kernel| RoundRobin::new(kernel, MS))
    }

    /// In how many of 80 ms something can be seen while things go wrong, and whether it can be when all is well again.
    fn seen(faults: Faults, is_there: impl Fn(&Kernel) -> bool) -> (usize, bool) {
        let mut world = world(faults);
        let mut nr = 0;
        for ms in 1..80 {
            world.run_until(ms * MS).expect("nothing is checked");
            nr += usize::from(is_there(&world.kernel));
        }
        world.run_until(UNTIL + MS).expect("nothing is checked");
        (nr, is_there(&world.kernel))
    }

    fn work(faults: Faults) -> f64 {
        let mut world = world(faults);
        world.run_until(UNTIL).expect("nothing is checked");
        work_of(&mut world)
    }

    fn work_of(world: &mut World) -> f64 {
        world
            .outcome()
            .programs
            .iter()
            .map(|program| program.work_ns)
            .sum()
    }

    #[test]
    fn cpus_change_their_speed_and_come_and_go() {
        let throttled = |kernel: &Kernel| kernel.cpus.iter().any(|cpu| cpu.speed < cpu.capacity);
        let offline = |kernel: &Kernel| {
            let nr = (0..4).filter(|&cpu| !kernel.is_online(cpu)).count();
            assert!(nr < 4, "one stays");
            nr > 0
        };
        let speed = Faults {
            speed_every_ns: 2 * MS,
            ..Faults::default()
        };
        let hotplug = Faults {
            hotplug_every_ns: 2 * MS,
            ..Faults::default()
        };
        for (faults, is_there) in [(speed, throttled as fn(&Kernel) -> bool), (hotplug, offline)] {
            let (nr, at_the_end) = seen(faults, is_there);
            assert!(nr > 40 && !at_the_end, "{faults:?}: {nr}");
            assert!(
                work(faults) < 0.9 * work(Faults::default()),
                "{faults:?}: {}",
                work(faults)
            );
            assert_eq!(seen(Faults::default(), is_there), (0, false));
        }
    }

    #[test]
    fn affinities_change_and_storms_come() {
        let kept_away = |kernel: &Kernel| (0..8).any(|task| (0..4).any(|cpu| !kernel.may_run(task, cpu)));
        let affinity = Faults {
            affinity_every_ns: 2 * MS,
            ..Faults::default()
        };
        assert!(seen(affinity, kept_away).0 > 40);
        assert_eq!(seen(Faults::default(), kept_away), (0, false));
        let storm = Faults {
            storm_every_ns: 10 * MS,
            ..Faults::default()
        };
        let others = |kernel: &Kernel| kernel.tasks.len() - 8;
        let mut stormy = world(storm);
        stormy.run_until(UNTIL).expect("nothing is checked");
        assert!(others(&stormy.kernel) > 8, "{}", others(&stormy.kernel));
        stormy.run_until(UNTIL + 100 * MS).expect("nothing is checked");
        let left = |task: &Task| task.place != Place::Gone;
        assert!(!stormy.kernel.tasks[8..].iter().any(left), "they end");
    }

    #[test]
    fn affinities_change_for_who_waits_runs_and_sleeps() {
        let mut world = world(Faults {
            affinity_every_ns: MS / 2,
            ..Faults::default()
        });
        let [mut waited, mut ran, mut slept] = [0; 3];
        let step = 5_000;
        for until in (step..UNTIL).step_by(step as usize) {
            let places: Vec<Place> = world.kernel.tasks.iter().map(|task| task.place).collect();
            world.run_until(until).expect("nothing is checked");
            let changed = |task: &Task| task.allowed_since > until - step;
            for (place, _) in places
                .iter()
                .zip(&world.kernel.tasks)
                .filter(|(_, task)| changed(task))
            {
                match place {
                    Place::Local(_) | Place::Queue(_) | Place::Held => waited += 1,
                    Place::On(_) => ran += 1,
                    Place::Nowhere | Place::Gone => slept += 1,
                }
            }
        }
        assert!(waited.min(ran).min(slept) > 5, "{waited}, {ran}, {slept}");
    }

    #[test]
    fn who_waits_goes_where_it_may_run() {
        for scheduler in [Known::RoundRobin, Known::Kernel, Known::Threadwise] {
            let machine = Machine::load("core:4").expect("a machine");
            let mut world = scheduler.world(&machine, Costs::FREE, Tunables::default());
            for seed in 0..2 {
                let ratio = "inf:1".parse().expect("a ratio");
                let program = Synthetic::new(ratio, 1_000, 1_000, 4, Wait::Passive, seed);
                world.start(Box::new(program), 100, None);
            }
            let waits = |task: &Task| matches!(task.place, Place::Queue(_) | Place::Held);
            let mut until = MS;
            let waiting = loop {
                world.run_until(until).expect("nothing is checked");
                match world.kernel.tasks.iter().position(waits) {
                    Some(task) => break task,
                    None => until += MS / 10,
                }
            };
            let cpu = (world.kernel.tasks[waiting].cpu + 1) % 4;
            world.bind(waiting, &[cpu]);
            world.check(Checker {
                idle_bound: 20 * MS,
                wait_bound: 200 * MS,
            });
            let before = world.kernel.tasks[waiting].ran;
            world.run_until(until + 50 * MS).expect("it runs only there");
            let task = &world.kernel.tasks[waiting];
            assert!(
                task.ran > before && task.cpu == cpu,
                "{scheduler:?}: {}",
                task.cpu
            );
        }
    }

    /// Round robin that wakes up idle CPUs by kicks alone, and starts its timer again each time, for a millisecond.
    struct Timed(RoundRobin, Rc<Cell<u32>>);

    impl Scheduler for Timed {
        fn select_cpu(&mut self, kernel: &mut Kernel, _task: TaskIndex, prev: CpuIndex) -> CpuIndex {
            if self.1.get() == 0 {
                self.timer(kernel);
            }
            prev
        }

        fn enqueue(&mut self, kernel: &mut Kernel, task: TaskIndex, why: Enqueue) {
            self.0.enqueue(kernel, task, why);
        }

        fn dispatch(&mut self, kernel: &mut Kernel, cpu: CpuIndex, running: Option<TaskIndex>) {
            self.0.dispatch(kernel, cpu, running);
        }

        fn timer(&mut self, kernel: &mut Kernel) {
            self.1.set(self.1.get() + 1);
            kernel.start_timer(MS);
        }
    }

    #[test]
    fn kicks_and_timers_are_late() {
        // Work that was done, and expiries of the timer.
        let of = |faults| {
            let nr = Rc::new(Cell::new(0));
            let mut world = world_under(faults, |kernel| {
                Timed(RoundRobin::new(kernel, MS), Rc::clone(&nr))
            });
            world.run_until(UNTIL - MS / 2).expect("nothing is checked");
            (work_of(&mut world), nr.get())
        };
        let (usual, nr) = of(Faults::default());
        assert_eq!(nr, 80);
        let late = Faults {
            late_kick_ns: 10 * MS,
            ..Faults::default()
        };
        // Most CPUs are woken up with who comes there.
        assert!(of(late).0 < 0.99 * usual, "{:?} of {usual}", of(late));
        // Two milliseconds each on the mean.
        let jitter = Faults {
            timer_jitter_ns: 2 * MS,
            ..Faults::default()
        };
        assert!((30..50).contains(&of(jitter).1), "{:?}", of(jitter));
        // All is well again though nothing ever strikes.
        let nr = Rc::new(Cell::new(0));
        let mut world = world_under(jitter, |kernel| {
            Timed(RoundRobin::new(kernel, MS), Rc::clone(&nr))
        });
        world.run_until(UNTIL + 2 * MS).expect("nothing is checked");
        let before = nr.get();
        world.run_until(UNTIL + 82 * MS).expect("nothing is checked");
        assert_eq!(nr.get() - before, 80);
    }
}
