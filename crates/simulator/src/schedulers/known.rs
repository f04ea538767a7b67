// SPDX-License-Identifier: GPL-2.0-only
//! The schedulers by their names.

use std::fmt;

use threadwise_machine::Machine;
use threadwise_model::fluid::Policy;
use threadwise_policy::{AlternateBy, Mode, PairingBy, Tunables, fastest_first};

use crate::Ns;
use crate::costs::Costs;
use crate::kernel::Kernel;
use crate::scheduler::Scheduler;
use crate::schedulers::broken::{Broken, How};
use crate::schedulers::{Assigned, Fair, Fluid, O1, RoundRobin, Threadwise};
use crate::world::World;

/// A scheduler that a user may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Ours.
    Threadwise,
    /// The kernel's own, EEVDF.
    Kernel,
    /// That, told how fast CPUs are.
    KernelTold,
    /// One queue for all CPUs.
    RoundRobin,
    /// The O(1) scheduler of Linux 2.6, which knows nothing of hardware threads.
    O1,
    /// Molnar's: that with a queue for each core.
    CoreQueue,
    /// That with what thread-essence says, and no more.
    Paper,
    /// Each thread on a CPU at random.
    Naive,
    /// Threads spread evenly and kept there.
    Balanced,
    /// Perfect sharing by who knows how long phases last, at no costs: a mark that is not to be reached.
    Clairvoyant,
    /// One that goes wrong, to see that it is noticed.
    Broken(How),
}

/// What our scheduler is told by its flags of the same names.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    /// Where it looks for idle CPUs.
    pub mode: Mode,
    /// By what it pairs tasks behind caches.
    pub pairing: PairingBy,
    /// By what it finds programs that run one after the other.
    pub alternate: AlternateBy,
    /// The programs that share memory.
    pub share: Vec<usize>,
}

impl Default for Flags {
    /// Without pairing, which is for modes.
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            pairing: PairingBy::Off,
            alternate: AlternateBy::default(),
            share: Vec::new(),
        }
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.mode)?;
        if self.pairing != PairingBy::Off {
            write!(f, ", pairing by {:?}", self.pairing)?;
        }
        if self.alternate != AlternateBy::Off {
            write!(f, ", alternating by {:?}", self.alternate)?;
        }
        if !self.share.is_empty() {
            write!(f, ", {:?} share", self.share)?;
        }
        Ok(())
    }
}

/// The slice of round robin.
const ROUND_ROBIN_SLICE_NS: Ns = 1_000_000;

/// After how long who shares perfectly places tasks anew, which costs it nothing: short against phases of 20 ms.
const FLUID_STEP_NS: Ns = 250_000;

/// Of the random assignment that `naive` is where nobody asks for another.
const NAIVE_SEED: u64 = 1;

impl Known {
    /// Those that work, and that a kernel could have: what small worlds are drawn from.
    pub const ALL: [Self; 9] = [
        Self::Threadwise,
        Self::Kernel,
        Self::KernelTold,
        Self::RoundRobin,
        Self::O1,
        Self::CoreQueue,
        Self::Paper,
        Self::Naive,
        Self::Balanced,
    ];

    /// Those that have a name for users.
    pub fn offered() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain([Self::Clairvoyant])
    }

    /// Its name in experiments and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threadwise => "threadwise",
            Self::Kernel => "kernel",
            Self::KernelTold => "kernel-told",
            Self::RoundRobin => "round-robin",
            Self::O1 => "o1",
            Self::CoreQueue => "core-queue",
            Self::Paper => "paper",
            Self::Naive => "naive",
            Self::Balanced => "balanced",
            Self::Clairvoyant => "clairvoyant",
            Self::Broken(how) => how.name(),
        }
    }

    /// The one of this name, one that is broken included.
    pub fn named(name: &str) -> Option<Self> {
        let broken = How::ALL.map(Self::Broken);
        Self::offered().chain(broken).find(|known| known.name() == name)
    }

    /// What the kernel's work takes under this scheduler in the lab, on this machine, with CPUs of these capacities as it knows
    /// them: of those that nobody runs there, as under its own. But clairvoyance costs nothing, as a mark that pays for its steps would be
    /// none.
    pub fn costs_in_lab(self, mips: u32, machine: &Machine, capacities: &[u32]) -> Costs {
        match self {
            Self::Clairvoyant => Costs::FREE,
            Self::Threadwise => Costs::of_lab_with_ours(mips, machine, fastest_first(capacities).1 > 0),
            _ => Costs::of_lab(mips),
        }
    }

    /// An idle machine under this scheduler; `tun` are the settings of ours.
    pub fn world(self, machine: &Machine, costs: Costs, tun: Tunables) -> World {
        self.world_drawn(machine, costs, tun, NAIVE_SEED)
    }

    /// The same, where what it draws by chance (`naive` alone does) comes from this seed.
    pub fn world_drawn(self, machine: &Machine, costs: Costs, tun: Tunables, seed: u64) -> World {
        World::boxed(machine, costs, |kernel| {
            self.make(machine, kernel, tun, &Flags::default(), seed)
        })
    }

    /// The same, with these capacities instead of the machine's, ours with these flags.
    pub(crate) fn world_of(
        self,
        machine: &Machine,
        capacities: &[u32],
        costs: Costs,
        tun: Tunables,
        flags: &Flags,
    ) -> World {
        World::boxed(machine, costs, |kernel| {
            for (cpu, &capacity) in capacities.iter().enumerate() {
                kernel.set_capacity(cpu, capacity);
            }
            self.make(machine, kernel, tun, flags, NAIVE_SEED)
        })
    }

    fn make(
        self,
        machine: &Machine,
        kernel: &mut Kernel,
        tun: Tunables,
        flags: &Flags,
        seed: u64,
    ) -> Box<dyn Scheduler> {
        match self {
            Self::Threadwise => Box::new(
                Threadwise::new(kernel, tun)
                    .with_mode(flags.mode)
                    .pairing_by(flags.pairing)
                    .alternating_by(flags.alternate)
                    .sharing(&flags.share),
            ),
            Self::Kernel => Box::new(Fair::new(kernel)),
            Self::KernelTold => Box::new(Fair::told_of_speeds(kernel)),
            Self::RoundRobin => Box::new(RoundRobin::new(kernel, ROUND_ROBIN_SLICE_NS)),
            Self::O1 => Box::new(O1::new(kernel)),
            Self::CoreQueue => Box::new(O1::per_core(kernel, machine)),
            Self::Paper => Box::new(O1::with_essence(kernel)),
            Self::Naive => Box::new(Assigned::naive(kernel, seed)),
            Self::Balanced => Box::new(Assigned::balanced(kernel, machine)),
            Self::Clairvoyant => Box::new(Fluid::new(Policy::Clairvoyant, FLUID_STEP_NS)),
            Self::Broken(how) => Box::new(Broken::new(kernel, how)),
        }
    }

    /// Whether it promises that no CPU stays idle beside a task that waits and may run there. Static assignments do not, nor
    /// do those of the O(1) family here: idle CPUs come to pull at the ticks of busy ones, which may sleep at one. EEVDF does
    /// behind one last-level cache: what does not fit behind another by its utilization is not taken there for a while.
    pub fn keeps_cpus_busy(self, several_llcs: bool) -> bool {
        match self {
            Self::Threadwise | Self::RoundRobin | Self::Broken(How::Crowds) => true,
            Self::Kernel | Self::KernelTold => !several_llcs,
            _ => false,
        }
    }

    /// Whether everybody's turn comes within a few hundred milliseconds beside two dozen others. A slice of O(1) alone is
    /// 100 ms at nice 0, 500 at -5, and interactive tasks keep expired ones waiting for a second each. Clairvoyance has long
    /// phases wait for as long as there are short ones.
    pub fn serves_all_soon(self) -> bool {
        !matches!(self, Self::O1 | Self::CoreQueue | Self::Paper | Self::Clairvoyant)
    }
}
