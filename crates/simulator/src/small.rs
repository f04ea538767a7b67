// SPDX-License-Identifier: GPL-2.0-only
//! Random small worlds with everything going wrong, and what is the least of one in which something is.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use threadwise_machine::Machine;
use threadwise_policy::{Mode, PairingBy, Tunables};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::Wait;

use crate::check::Checker;
use crate::faults::{Dice, Faults};
use crate::kernel::CpuIndex;
use crate::program::Memory;
use crate::schedulers::Known;
use crate::synthetic::Synthetic;
use crate::world::Outcome;
use crate::{Ns, world::World};

const MS: Ns = 1_000_000;
const UNIT_NS: Ns = 1_000;
/// Of each last-level cache.
const LLC_BYTES: u64 = 1 << 20;
/// The most tasks at the start; storms bring more.
const MAX_TASKS: u64 = 8;

/// A small machine, programs, and what goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallWorld {
    /// Who schedules.
    pub scheduler: Known,
    /// 1024 for the fastest.
    pub capacities: Vec<u32>,
    /// Hardware threads a core: 1, or 2 where their number is even.
    pub threads_per_core: usize,
    /// Packages, each with a last-level cache: 1, or 2 of four CPUs.
    pub packages: usize,
    /// Where our scheduler looks for idle CPUs.
    pub mode: Mode,
    /// By what it pairs tasks behind caches.
    pub pairing: PairingBy,
    /// The rate of the kernel's own work.
    pub mips: u32,
    /// Our scheduler's times that bound a wait are divided by this, so that short worlds see them end.
    pub haste: u64,
    /// The programs.
    pub programs: Vec<SmallProgram>,
    /// What goes wrong.
    pub faults: Faults,
    /// When it ends.
    pub end_ns: Ns,
}

/// A program of a small world.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallProgram {
    /// Parallel to serial work.
    pub ratio: Ratio,
    /// Units of 1 us of a mean phase.
    pub phase_units: u64,
    /// Its threads.
    pub threads: usize,
    /// Of each; 100 is nice 0.
    pub weight: u32,
    /// The CPU to which all are bound.
    pub bound_to: Option<CpuIndex>,
    /// How threads wait.
    pub wait: Wait,
    /// How they use memory. If nobody does, the machine has none.
    pub memory: Memory,
    /// Of its phases.
    pub seed: u64,
}

impl SmallWorld {
    /// World `number` of a seed, under one of these schedulers, at least one.
    pub fn draw(seed: u64, number: u64, schedulers: &[Known]) -> Self {
        let mut dice = Dice::new(seed, number);
        let scheduler = schedulers[dice.below(schedulers.len() as u64) as usize];
        let nr_cpus = 2 + dice.below(3) as usize;
        let slow = [1024, 1024, 512, 700][dice.below(4) as usize];
        let capacities = (0..nr_cpus).map(|cpu| if cpu == 0 { 1024 } else { slow });
        let threads_per_core = 1 + usize::from(nr_cpus == 4 && dice.one_in(2));
        // One of eight is long, and in haste: there everybody's turn comes.
        let is_long = dice.one_in(8);
        let end_ns = if is_long { 500 } else { 10 + dice.below(40) } * MS;
        let mut world = Self {
            scheduler,
            capacities: capacities.collect(),
            threads_per_core,
            packages: 1,
            mode: Mode::Near,
            pairing: PairingBy::Off,
            mips: 15 + dice.below(500) as u32,
            haste: if is_long { 16 } else { 1 + dice.below(8) },
            programs: Vec::new(),
            faults: Faults::default(),
            end_ns,
        };
        let mut left = 3 + dice.below(MAX_TASKS - 2);
        while left > 0 {
            let program = SmallProgram::draw(&mut dice, left, nr_cpus);
            left -= program.threads as u64;
            world.programs.push(program);
        }
        world.faults = draw_faults(&mut dice, end_ns);
        world.packages = 1 + usize::from(nr_cpus == 4 && dice.one_in(2));
        world.mode = [Mode::Near, Mode::Near, Mode::Performance, Mode::Powersave][dice.below(4) as usize];
        world.draw_memory(&mut dice);
        world
    }

    /// Half of the worlds have caches, and programs that use them.
    fn draw_memory(&mut self, dice: &mut Dice) {
        if dice.one_in(2) {
            return;
        }
        self.pairing = [PairingBy::Counters, PairingBy::Resident][dice.below(2) as usize];
        self.faults.lost_sample_in = dice.below(4);
        for program in &mut self.programs {
            program.memory = Memory {
                working_set_bytes: LLC_BYTES >> dice.below(6),
                accesses_per_us: [0, 2, 20][dice.below(3) as usize],
                is_shared: dice.one_in(2),
            };
        }
    }

    /// Plays it with all checkers on.
    ///
    /// # Errors
    /// What was wrong, or at what the simulator or the scheduler panicked.
    pub fn run(&self) -> Result<Outcome, String> {
        let played = catch_unwind(AssertUnwindSafe(|| {
            let mut world = self.build()?;
            world.run_until(self.end_ns)?;
            Ok(world.outcome())
        }));
        played.unwrap_or_else(|panic| Err(format!("panicked: {}", message_of(panic.as_ref()))))
    }

    fn build(&self) -> Result<World, String> {
        let cores = self.capacities.len() / self.threads_per_core;
        let (packages, threads) = (self.packages, self.threads_per_core);
        let cores = cores / packages;
        let uses_memory = self
            .programs
            .iter()
            .any(|program| program.memory.accesses_per_us > 0);
        let machine = if uses_memory {
            let topology = format!("package:{packages} l2:1(size={LLC_BYTES}B) core:{cores} pu:{threads}");
            let memory = "memory = { latency_ns = 100, bandwidth_mb_s = 2000 }";
            let text = format!("name = \"small\"\ntopology = \"{topology}\"\n{memory}\n");
            Machine::from_toml(&text, "a small world")
        } else {
            Machine::load(&format!("package:{packages} core:{cores} pu:{threads}"))
        }
        .map_err(|error| error.to_string())?;
        let mut world = self.scheduler.world_of(
            &machine,
            &self.capacities,
            self.scheduler.costs_in_lab(self.mips, &self.capacities),
            self.tunables(),
            (self.mode, self.pairing),
        );
        world.check(self.checker());
        for program in &self.programs {
            let synthetic = Synthetic::new(
                program.ratio,
                program.phase_units,
                UNIT_NS,
                program.threads,
                program.wait,
                program.seed,
            )
            .with_memory(program.memory);
            world.start(Box::new(synthetic), program.weight, program.bound_to);
        }
        world.inject(self.faults);
        Ok(world)
    }

    fn tunables(&self) -> Tunables {
        let usual = Tunables::default();
        Tunables {
            serial_boost_ns: usual.serial_boost_ns / self.haste,
            senior_boost_ns: usual.senior_boost_ns / self.haste,
            senior_turn_ns: usual.senior_turn_ns / self.haste,
            vtime_lag_ns: usual.vtime_lag_ns / self.haste,
            ..usual
        }
    }

    /// No CPU is idle for longer than the slowest look of any scheduler (a tick, or the timer's 4 ms), and what delays
    /// that; nobody waits for longer than three quarters of a long world.
    fn checker(&self) -> Checker {
        let late = self.faults.late_kick_ns + self.faults.timer_jitter_ns;
        Checker {
            idle_bound: if self.scheduler.keeps_cpus_busy(self.packages > 1) {
                6 * MS + late
            } else {
                Ns::MAX
            },
            wait_bound: if self.scheduler.serves_all_soon() {
                375 * MS
            } else {
                Ns::MAX
            },
        }
    }

    /// What is wrong in this world, and the smallest world in which the same is.
    ///
    /// One thing at a time is left out or made smaller, as long as what the checker says differs in nothing but numbers.
    pub fn shrink(&self, wrong: &str) -> (Self, String) {
        let mut least = (self.clone(), wrong.to_string());
        'again: loop {
            for smaller in least.0.smaller() {
                if let Err(wrong) = smaller.run()
                    && kind_of(&wrong) == kind_of(&least.1)
                {
                    least = (smaller, wrong);
                    continue 'again;
                }
            }
            return least;
        }
    }

    /// Worlds that lack something of this one, what takes away most first.
    fn smaller(&self) -> Vec<Self> {
        let mut worlds = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut world = self.clone();
            change(&mut world);
            if world != *self {
                worlds.push(world);
            }
        };
        for index in 0..self.programs.len() {
            add(&|world| {
                world.programs.remove(index);
            });
        }
        add(&|world| world.faults = Faults::default());
        for silence in FAULTS {
            add(&|world| *silence(&mut world.faults) = 0);
        }
        for part in [2, 3, 4, 10] {
            add(&|world| world.end_ns -= world.end_ns / part / MS * MS);
        }
        if self.capacities.len() > 1 {
            add(&|world| {
                world.capacities.pop();
                world.threads_per_core = 1;
                world.packages = 1;
                for program in &mut world.programs {
                    program.bound_to = program.bound_to.filter(|&cpu| cpu < world.capacities.len());
                }
            });
        }
        add(&|world| world.threads_per_core = 1);
        add(&|world| world.packages = 1);
        add(&|world| world.mode = Mode::Near);
        add(&|world| world.pairing = PairingBy::Off);
        add(&|world| world.capacities.fill(1024));
        for index in 0..self.programs.len() {
            add(&|world| world.programs[index].threads = (world.programs[index].threads / 2).max(1));
            add(&|world| world.programs[index].threads = (world.programs[index].threads - 1).max(1));
            add(&|world| world.programs[index].bound_to = None);
            add(&|world| world.programs[index].weight = 100);
            add(&|world| world.programs[index].wait = Wait::Passive);
            add(&|world| world.programs[index].memory = Memory::default());
        }
        worlds
    }
}

/// What of the faults can be left out.
const FAULTS: [fn(&mut Faults) -> &mut u64; 7] = [
    |faults| &mut faults.storm_every_ns,
    |faults| &mut faults.hotplug_every_ns,
    |faults| &mut faults.affinity_every_ns,
    |faults| &mut faults.speed_every_ns,
    |faults| &mut faults.lost_sample_in,
    |faults| &mut faults.late_kick_ns,
    |faults| &mut faults.timer_jitter_ns,
];

impl SmallProgram {
    /// Of at most so many threads.
    fn draw(dice: &mut Dice, most: u64, nr_cpus: usize) -> Self {
        let ratios = [
            (1.0, 1.0),
            (4.0, 1.0),
            (1.0, 4.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::INFINITY),
        ];
        let (parallel, serial) = ratios[dice.below(5) as usize];
        Self {
            ratio: Ratio::new(parallel, serial).expect("one of the five"),
            phase_units: 50 << dice.below(8),
            threads: 1 + dice.below(most.min(5)) as usize,
            weight: [100, 100, 33, 305][dice.below(4) as usize],
            bound_to: dice.one_in(5).then(|| dice.below(nr_cpus as u64) as usize),
            wait: if dice.one_in(4) {
                Wait::Active
            } else {
                Wait::Passive
            },
            memory: Memory::default(),
            seed: dice.below(1 << 32),
        }
    }
}

fn draw_faults(dice: &mut Dice, end_ns: Ns) -> Faults {
    let every = |dice: &mut Dice| MS * (1 + dice.below(20));
    Faults {
        seed: dice.below(1 << 32),
        late_kick_ns: dice.below(2) * 500_000,
        timer_jitter_ns: dice.below(2) * 500_000,
        lost_sample_in: 0,
        speed_every_ns: every(dice),
        hotplug_every_ns: every(dice),
        affinity_every_ns: every(dice),
        storm_every_ns: 5 * every(dice),
        // The last part is for those who waited.
        until_ns: end_ns / 4 * 3,
    }
}

/// What was wrong, without what differs from world to world.
fn kind_of(wrong: &str) -> String {
    let first = wrong.lines().next().unwrap_or_default();
    first.chars().filter(|sign| !sign.is_ascii_digit()).collect()
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

impl fmt::Display for SmallWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairing = match self.pairing {
            PairingBy::Off => String::new(),
            by => format!(", pairing by {by:?}"),
        };
        writeln!(
            f,
            "{} ({:?}{pairing}) on CPUs of capacity {:?}, {} a core, {} packages, {} MIPS, {} ms, boosts and lags of 1/{}",
            self.scheduler.name(),
            self.mode,
            self.capacities,
            self.threads_per_core,
            self.packages,
            self.mips,
            self.end_ns / MS,
            self.haste
        )?;
        for program in &self.programs {
            let wait = match program.wait {
                Wait::Active => ", spinning",
                Wait::Passive => "",
            };
            let bound = program
                .bound_to
                .map_or_else(String::new, |cpu| format!(", bound to CPU {cpu}"));
            let memory = match program.memory.accesses_per_us {
                0 => String::new(),
                accesses => format!(
                    ", {} KiB {} read {accesses} times a us",
                    program.memory.working_set_bytes >> 10,
                    if program.memory.is_shared {
                        "of all"
                    } else {
                        "of each"
                    }
                ),
            };
            writeln!(
                f,
                "  a program of {} threads, {}, phases of {} us, weight {}{wait}{bound}{memory}, seed {}",
                program.threads, program.ratio, program.phase_units, program.weight, program.seed
            )?;
        }
        let faults = &self.faults;
        let rates = [
            ("late kicks, up to", faults.late_kick_ns),
            ("a late timer, up to", faults.timer_jitter_ns),
            ("a CPU's speed changes every", faults.speed_every_ns),
            ("a CPU comes or goes every", faults.hotplug_every_ns),
            ("an affinity changes every", faults.affinity_every_ns),
            ("short threads come every", faults.storm_every_ns),
        ];
        if faults.lost_sample_in > 0 {
            writeln!(
                f,
                "  one of {} samples of counters is lost",
                faults.lost_sample_in
            )?;
        }
        for (what, ns) in rates.into_iter().filter(|&(_, ns)| ns > 0) {
            writeln!(f, "  {what} {} us (fault seed {})", ns / 1000, faults.seed)?;
        }
        Ok(())
    }
}
