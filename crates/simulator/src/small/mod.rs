// SPDX-License-Identifier: GPL-2.0-only
//! Random small worlds with everything going wrong, and what is the least of one in which something is.

mod program;
mod shrink;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use threadwise_machine::Machine;
use threadwise_policy::{AlternateBy, Mode, PairingBy, Tunables};

pub use self::program::{Locking, SmallProgram};
use crate::check::Checker;
use crate::faults::{Dice, Faults};
use crate::program::Memory;
use crate::schedulers::{Flags, Known};
use crate::timeline::Timeline;
use crate::world::Outcome;
use crate::{Ns, world::World};

const MS: Ns = 1_000_000;
/// Of each last-level cache.
const LLC_BYTES: u64 = 1 << 20;
/// For how long worlds go on in which programs may have turns: they are tried after two seconds.
const ALTERNATION_NS: Ns = 4_000 * MS;
/// A turn (`TW_ALTERNATION_TURN_NS`).
const TURN_NS: Ns = 300 * MS;
/// With times that bound a wait divided by 16, as they are in all worlds that are long enough for this to show.
const WAIT_BOUND_NS: Ns = 300 * MS;
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
    /// What our scheduler is told.
    pub flags: Flags,
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

impl SmallWorld {
    /// World `number` of a seed, under one of these schedulers, at least one.
    pub fn draw(seed: u64, number: u64, schedulers: &[Known]) -> Self {
        let mut dice = Dice::new(seed, number);
        let mut world = Self::draw_plain(&mut dice, schedulers);
        world.draw_sharing(&mut dice);
        world.draw_faults_left_out(&mut dice);
        world
    }

    /// One of programs that have phases and share nothing, nor take turns.
    pub fn draw_plain(dice: &mut Dice, schedulers: &[Known]) -> Self {
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
            flags: Flags::default(),
            mips: 15 + dice.below(500) as u32,
            haste: if is_long { 16 } else { 1 + dice.below(8) },
            programs: Vec::new(),
            faults: Faults::default(),
            end_ns,
        };
        let mut left = 3 + dice.below(MAX_TASKS - 2);
        while left > 0 {
            let program = SmallProgram::draw(dice, left, nr_cpus);
            left -= program.threads as u64;
            world.programs.push(program);
        }
        world.faults = draw_faults(dice, end_ns);
        world.packages = 1 + usize::from(nr_cpus == 4 && dice.one_in(2));
        world.flags.mode =
            [Mode::Near, Mode::Near, Mode::Performance, Mode::Powersave][dice.below(4) as usize];
        world.draw_memory(dice);
        world
    }

    /// Half of the worlds have caches, and programs that use them.
    fn draw_memory(&mut self, dice: &mut Dice) {
        if dice.one_in(2) {
            return;
        }
        self.flags.pairing = [PairingBy::Counters, PairingBy::Resident][dice.below(2) as usize];
        self.faults.lost_sample_in = dice.below(4);
        for program in &mut self.programs {
            program.memory = Memory {
                working_set_bytes: LLC_BYTES >> dice.below(6),
                accesses_per_us: [0, 2, 20][dice.below(3) as usize],
                is_shared: dice.one_in(2),
                ..Memory::default()
            };
        }
    }

    /// Every kind of fault is in every world, and strikes before all is well; lost samples where there are counters.
    fn draw_faults_left_out(&mut self, dice: &mut Dice) {
        let uses_memory = self.programs.iter().any(SmallProgram::uses_memory);
        let faults = &mut self.faults;
        for late in [&mut faults.late_kick_ns, &mut faults.timer_jitter_ns] {
            if *late == 0 {
                *late = 1_000 << dice.below(8);
            }
        }
        if faults.lost_sample_in == 0 && uses_memory {
            faults.lost_sample_in = 1 + dice.below(4);
        }
        let soon = faults.until_ns / 3;
        for every in [
            &mut faults.speed_every_ns,
            &mut faults.hotplug_every_ns,
            &mut faults.affinity_every_ns,
            &mut faults.storm_every_ns,
        ] {
            *every = soon.min(*every);
        }
    }

    /// Plays it with all checkers on.
    ///
    /// # Errors
    /// What was wrong, or at what the simulator or the scheduler panicked.
    pub fn run(&self) -> Result<Outcome, String> {
        let played = catch_unwind(AssertUnwindSafe(|| {
            let mut world = self.empty()?;
            self.play(&mut world)?;
            Ok(world.outcome())
        }));
        played.unwrap_or_else(|panic| Err(format!("panicked: {}", message_of(panic.as_ref()))))
    }

    /// All that happens in it.
    ///
    /// # Errors
    /// What was wrong.
    pub fn timeline(&self) -> Result<Timeline, String> {
        let mut world = self.empty()?;
        world.record();
        self.play(&mut world)?;
        Ok(world.into_timeline())
    }

    fn play(&self, world: &mut World) -> Result<(), String> {
        world.seed(self.faults.seed);
        for program in &self.programs {
            world.start(program.program(), program.weight, program.bound_to);
        }
        world.inject(self.faults);
        world.run_until(self.end_ns).map_err(|wrong| wrong.to_string())
    }

    /// Who has locks, and shares memory; and who has turns, which take so long that few worlds have any.
    fn draw_sharing(&mut self, dice: &mut Dice) {
        for program in &mut self.programs {
            if dice.one_in(4) {
                program.locking = Some(Locking::draw(dice));
            }
        }
        if self.packages > 1 && self.flags.mode != Mode::Near {
            self.flags.share = (0..self.programs.len()).filter(|_| dice.one_in(2)).collect();
        }
        if self.scheduler == Known::Threadwise && self.packages == 1 && dice.one_in(64) {
            self.programs = (0..2 + dice.below(2))
                .map(|_| SmallProgram::draw_hungry(dice))
                .collect();
            self.flags.alternate = [AlternateBy::Counters, AlternateBy::Resident][dice.below(2) as usize];
            self.haste = 16;
            self.end_ns += ALTERNATION_NS;
            self.faults.until_ns += ALTERNATION_NS;
        }
    }

    fn empty(&self) -> Result<World, String> {
        let cores = self.capacities.len() / self.threads_per_core;
        let (packages, threads) = (self.packages, self.threads_per_core);
        let cores = cores / packages;
        let machine = if self.programs.iter().any(SmallProgram::uses_memory) {
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
            self.scheduler.costs_in_lab(self.mips, &machine, &self.capacities),
            self.tunables(),
            &self.flags,
        );
        world.check(self.checker());
        Ok(world)
    }

    fn tunables(&self) -> Tunables {
        let usual = Tunables::default();
        Tunables {
            serial_boost_ns: usual.serial_boost_ns / self.haste,
            senior_boost_ns: usual.senior_boost_ns / self.haste,
            serial_turn_ns: usual.serial_turn_ns / self.haste,
            senior_turn_ns: usual.senior_turn_ns / self.haste,
            vtime_lag_ns: usual.vtime_lag_ns / self.haste,
            ..usual
        }
    }

    /// No CPU is idle for longer than the slowest look of any scheduler (a tick, or the timer's), and what delays
    /// that, or, under the kernel's scheduler, than it takes for two idle CPUs to be asked in vain twice, at ticks; nobody
    /// waits for longer than 300 ms of a long world, and for a turn of each program beside.
    fn checker(&self) -> Checker {
        let late = self.faults.late_kick_ns + self.faults.timer_jitter_ns;
        Checker {
            idle_bound: match self.scheduler.keeps_cpus_busy(self.packages > 1) {
                true if matches!(self.scheduler, Known::Kernel | Known::KernelTold) => 24 * MS + late,
                true => 6 * MS + late,
                false => Ns::MAX,
            },
            wait_bound: match self.scheduler.serves_all_soon() {
                true if self.flags.alternate != AlternateBy::Off => {
                    WAIT_BOUND_NS + self.programs.len() as Ns * TURN_NS
                }
                true => WAIT_BOUND_NS,
                false => Ns::MAX,
            },
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

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

impl fmt::Display for SmallWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ({}) on CPUs of capacity {:?}, {} a core, {} packages, {} MIPS, {} ms, boosts and lags of 1/{}",
            self.scheduler.name(),
            self.flags,
            self.capacities,
            self.threads_per_core,
            self.packages,
            self.mips,
            self.end_ns / MS,
            self.haste
        )?;
        for program in &self.programs {
            writeln!(f, "  {program}")?;
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
