// SPDX-License-Identifier: GPL-2.0-only
//! The governor plugin (`lab/corespeed.c`): built once, told each CPU's rate and what else of the machine it is to model, asked
//! what it lost.
//!
//! A machine with caches is in slow motion. Caches and memory are those of a CPU of [`CacheModel::nominal_mips`], so a miss
//! takes as many instructions in the lab as there: at 60 MIPS instead of 2000 it takes 33 times as long. Caches have the
//! sizes that the machine's file says. What is not in slow motion is the kernel's clock: its ticks and slices hold 33 times
//! fewer instructions and misses, so filling a cache anew takes more of them than on the machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::MmapRaw;
use serde::{Deserialize, Serialize};
use threadwise_machine::{Cpu, Lab, Level, Machine, names};

use crate::error::{Error, io_error};

/// What the plugin is compiled from.
const SOURCES: [(&str, &str); 3] = [
    ("corespeed.c", include_str!("../../../lab/corespeed.c")),
    ("cache.h", include_str!("../../../lab/cache.h")),
    ("clock.h", include_str!("../../../lab/clock.h")),
];
/// The layout of `struct shared` in the plugin: eight words a vCPU, for at most so many, then whether they are governed, the
/// machine's time and for how long that stood still, in nanoseconds.
const WORDS: usize = 8;
const MAX_VCPUS: usize = 256;
const GOVERNED: usize = MAX_VCPUS * WORDS;
const CLOCK: usize = GOVERNED + 1;
const STOOD_STILL: usize = GOVERNED + 2;

/// What the CPUs of the machines are taken to do that machine files describe, in millions of instructions a second, where
/// nobody says otherwise: the rate of simulated experiments.
pub const NOMINAL_MIPS: u32 = 2000;

/// How a guest's CPUs are governed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Governing {
    /// Millions of instructions a second of the fastest; what the machine's file says if none.
    pub mips: Option<u32>,
    /// How its last-level caches are modelled, if they are.
    pub caches: Option<CacheModel>,
    /// Whether cores have the same clock however many of a package are busy, whatever the machine's file says.
    pub without_acceleration: bool,
    /// Whether the machine's time goes on while the host is late.
    pub without_standstill: bool,
    /// Whether it is counted where instructions go.
    pub profiled: bool,
}

/// How last-level caches are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// One set in so many: a power of two, 1 to [`CacheModel::MOST`].
    pub one_in: u32,
    /// Millions of instructions a second of the CPU for which the machine's file says what a miss takes.
    pub nominal_mips: u32,
}

impl CacheModel {
    /// More sets than this cannot be told apart by addresses within a page.
    pub const MOST: u32 = 64;

    /// The model of one set in so many.
    ///
    /// # Errors
    /// If that is no power of two up to [`CacheModel::MOST`].
    pub fn of_one_in(one_in: u32) -> Result<Self, String> {
        match one_in {
            1..=Self::MOST if one_in.is_power_of_two() => Ok(Self {
                one_in,
                nominal_mips: NOMINAL_MIPS,
            }),
            _ => Err(format!(
                "caches are modelled by one set in 1, 2, 4, 8, 16, 32 or 64, not {one_in}"
            )),
        }
    }
}

/// What the modelled last-level caches did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Accesses that got so far, estimated from those that were looked at.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
    /// The share of the time of busy CPUs that these took.
    pub stalled: f64,
}

/// Compiles the plugin into `folder`.
///
/// # Errors
/// If there is no C compiler or it rejects the source.
pub fn build(folder: &Path) -> Result<PathBuf, Error> {
    let (source, plugin) = (folder.join(SOURCES[0].0), folder.join("corespeed.so"));
    for (name, text) in SOURCES {
        fs::write(folder.join(name), text).map_err(io_error("write", folder.join(name)))?;
    }
    let status = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&plugin, &source])
        .status()
        .map_err(io_error("run cc on", &source))?;
    if status.success() {
        Ok(plugin)
    } else {
        Err(Error::Missing {
            what: String::from("a working C compiler (cc)"),
        })
    }
}

/// Each CPU's rate in thousands of instructions a second, as the plugin wants it: the given rate, or else the machine's, times the CPU's capacity.
///
/// # Errors
/// If neither is there.
pub fn rates(machine: &Machine, mips: Option<u32>) -> Result<Vec<u64>, Error> {
    let mips = mips
        .or(machine.lab().map(|lab| lab.mips))
        .ok_or_else(|| Error::Unsuitable {
            machine: machine.name().to_string(),
            message: String::from("it has no rate for the emulated CPUs; add [lab] mips = 200 to its file"),
        })?;
    let kips = u64::from(mips) * 1000;
    Ok(machine
        .cpus()
        .iter()
        .map(|cpu| (kips * u64::from(cpu.capacity) / 1024).max(100))
        .collect())
}

/// How long a quantum takes at the rate of the fastest CPU. It executes one at once, so CPUs do what they do up to so much
/// earlier than they should.
const QUANTUM_US: u64 = 160;
/// With many CPUs a quantum takes longer: each costs the host a sleep and a wake-up.
const QUANTUM_US_OF_CPU: u64 = 20;

/// Instructions in a quantum at these rates, in thousands a second: 1,000 to 20,000. That many is what QEMU executes in some 50 us.
pub fn quantum(rates: &[u64]) -> u64 {
    let us = QUANTUM_US.max(QUANTUM_US_OF_CPU * rates.len() as u64);
    let fastest = rates.iter().max().copied().unwrap_or(0);
    (fastest * us / 1000).clamp(1_000, 20_000)
}

/// The levels that the plugin knows.
const MAX_LEVELS: usize = 4;

/// What governs a machine's CPUs beside their rates, as the plugin's arguments; empty if nothing does.
///
/// # Errors
/// If the plugin cannot model it, or the machine's file does not say enough.
pub fn arguments(machine: &Machine, governing: &Governing) -> Result<String, Error> {
    let (shared, nr_levels) = sharing(machine)?;
    let clocks = match governing.without_acceleration {
        true => String::new(),
        false => acceleration(machine, nr_levels)?,
    };
    let caches = governing.caches.as_ref();
    let caches = caches.map_or(Ok(String::new()), |model| {
        caches_of(machine, governing.mips, model)
    })?;
    let still = match governing.without_standstill {
        true => ",still=0",
        false => "",
    };
    Ok(shared + &clocks + &caches + still)
}

fn unsuitable(machine: &Machine, message: String) -> Error {
    Error::Unsuitable {
        machine: machine.name().to_string(),
        message,
    }
}

/// One value for each CPU.
fn of_cpus(machine: &Machine, value: impl Fn(&Cpu) -> usize) -> String {
    let values: Vec<String> = machine.cpus().iter().map(|cpu| value(cpu).to_string()).collect();
    values.join(":")
}

/// Which of a machine's CPUs share pipes and cores, and what they have of them; how many levels that are.
fn sharing(machine: &Machine) -> Result<(String, usize), Error> {
    let core = machine
        .lab()
        .map_or(Lab::SMT_GAIN_PERCENT, |lab| lab.smt_gain_percent);
    let gain = |level: &str| match level {
        names::CORE => machine.has_smt().then_some(core),
        _ => {
            let mut known = machine.hardware().sharing.iter();
            known.find(|it| it.level == level).map(|it| it.gain_percent)
        }
    };
    let shared: Vec<(&Level, u32)> = (machine.levels().iter().rev())
        .filter_map(|level| Some((level, gain(level.name())?)))
        .collect();
    if shared.len() > MAX_LEVELS {
        let message = format!(
            "{} of its levels share their speed, the lab has {MAX_LEVELS}",
            shared.len()
        );
        return Err(unsuitable(machine, message));
    }
    let argument = |(nr, (level, gain)): (usize, &(&Level, u32))| {
        let groups = of_cpus(machine, |cpu| machine.group_of(level.name(), cpu.id).unwrap_or(0));
        format!(",groups{nr}={groups},gain{nr}={gain}")
    };
    Ok((shared.iter().enumerate().map(argument).collect(), shared.len()))
}

/// The clocks of a package by how many of its cores are busy; it is a level more than those that share their speed.
fn acceleration(machine: &Machine, nr_levels: usize) -> Result<String, Error> {
    let hardware = machine.hardware();
    if hardware.acceleration_mhz.is_empty() {
        return Ok(String::new());
    }
    let at = |name: &str| machine.levels().iter().position(|level| level.name() == name);
    let is_outer = |level: &str| at(level) < at(names::CORE);
    if let Some(outer) = hardware.sharing.iter().find(|it| is_outer(&it.level)) {
        let message = format!(
            "its cores share the speed of {} and accelerate; the lab cannot do both: leave acceleration out",
            outer.level
        );
        return Err(unsuitable(machine, message));
    }
    if nr_levels == MAX_LEVELS {
        let message = format!("{MAX_LEVELS} of its levels share their speed, and it accelerates");
        return Err(unsuitable(machine, message));
    }
    let groups = of_cpus(machine, |cpu| cpu.package.index());
    let clocks: Vec<String> = hardware.acceleration_mhz.iter().map(u32::to_string).collect();
    Ok(format!(
        ",groups{nr_levels}={groups},clocks{nr_levels}={}",
        clocks.join(":")
    ))
}

/// The last-level caches, and what a miss takes at the lab's rate.
fn caches_of(machine: &Machine, mips: Option<u32>, model: &CacheModel) -> Result<String, Error> {
    let sizes: Option<Vec<String>> = (machine.llc_bytes().iter())
        .map(|size| size.map(|bytes| bytes.to_string()))
        .collect();
    let (Some(sizes), Some(memory)) = (sizes, &machine.hardware().memory) else {
        let message = "its caches cannot be modelled; its file needs their size, as in l2:1(size=4MB), and [memory] latency_ns = 100";
        return Err(unsuitable(machine, message.to_string()));
    };
    let kips = rates(machine, mips)?.into_iter().max().unwrap_or(1);
    let latency_ps = u64::from(memory.latency_ns) * 1000 * u64::from(model.nominal_mips) * 1000 / kips;
    Ok(format!(
        ",sample={},caches={},sizes={},latency={}",
        model.one_in,
        of_cpus(machine, |cpu| cpu.llc.index()),
        sizes.join(":"),
        latency_ps.max(1)
    ))
}

/// The plugin's counters, as it writes them.
pub struct Counters {
    map: MmapRaw,
}

/// What the governor counted, over all vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions that the guest executed.
    pub instructions: u64,
    /// Quanta that ended.
    pub quanta: u64,
    /// Quanta that ended more than their length, and 0.4 ms, late.
    pub late_quanta: u64,
    /// vCPU time lost for good, in nanoseconds.
    pub lost_ns: u64,
    /// The time that the instructions take, misses included, in nanoseconds.
    pub busy_ns: u64,
    /// Accesses that got as far as a modelled last-level cache.
    pub llc_accesses: u64,
    /// Those that missed it.
    pub llc_misses: u64,
    /// The time that these took, in nanoseconds.
    pub stalled_ns: u64,
}

impl Counters {
    /// Creates and maps the file that the plugin is to be given.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(io_error("create", path))?;
        file.set_len(((STOOD_STILL + 1) * size_of::<u64>()) as u64)
            .map_err(io_error("size", path))?;
        let map = MmapRaw::map_raw(&file).map_err(io_error("map", path))?;
        Ok(Self { map })
    }

    /// Sets the CPUs' speeds in force, or lets them run as fast as the host, uncounted.
    pub fn govern(&self, governed: bool) {
        self.word(GOVERNED).store(u64::from(governed), Ordering::Relaxed);
    }

    /// The machine's time since some moment: it goes on as the host's does, and stands still while the host is late.
    pub fn clock(&self) -> Duration {
        Duration::from_nanos(self.word(CLOCK).load(Ordering::Relaxed))
    }

    /// For how long of the host's time it has stood still.
    pub fn stood_still(&self) -> Duration {
        Duration::from_nanos(self.word(STOOD_STILL).load(Ordering::Relaxed))
    }

    /// A word that the plugin has too, within the file.
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index <= STOOD_STILL);
        // SAFETY: within the map, which lives as long as `self`, is aligned to a page, and is accessed as atomic words only.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }

    /// The counts up to now.
    pub fn totals(&self) -> Totals {
        let words: Vec<u64> = (0..GOVERNED)
            .map(|index| self.word(index).load(Ordering::Relaxed))
            .collect();
        words
            .chunks_exact(WORDS)
            .fold(Totals::default(), |sum, vcpu| Totals {
                instructions: sum.instructions + vcpu[0],
                quanta: sum.quanta + vcpu[1],
                late_quanta: sum.late_quanta + vcpu[2],
                lost_ns: sum.lost_ns + vcpu[3],
                busy_ns: sum.busy_ns + vcpu[4],
                llc_accesses: sum.llc_accesses + vcpu[5],
                llc_misses: sum.llc_misses + vcpu[6],
                stalled_ns: sum.stalled_ns + vcpu[7],
            })
    }
}

impl Totals {
    /// The share of the time that the vCPUs wanted to run and could not, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        self.lost_ns as f64 / (self.lost_ns + self.busy_ns).max(1) as f64
    }

    /// The share of quanta that came late, 0 to 1; of a thousand at least, as one of few says nothing of a host.
    pub fn late_share(&self) -> f64 {
        self.late_quanta as f64 / self.quanta.max(1_000) as f64
    }

    /// The share of so long a time in which so many vCPUs neither ran nor wanted to, 0 to 1. The guest's own account (/proc/stat)
    /// goes by what its ticks find, and gave 17 to 61 % for runs of equal work on amp-8.
    pub fn idle_share(&self, nr_cpus: usize, elapsed: Duration) -> f64 {
        let wanted = (self.busy_ns + self.lost_ns) as f64;
        (1.0 - wanted / (nr_cpus as f64 * elapsed.as_nanos() as f64).max(1.0)).clamp(0.0, 1.0)
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            quanta: self.quanta - earlier.quanta,
            late_quanta: self.late_quanta - earlier.late_quanta,
            lost_ns: self.lost_ns - earlier.lost_ns,
            busy_ns: self.busy_ns - earlier.busy_ns,
            llc_accesses: self.llc_accesses - earlier.llc_accesses,
            llc_misses: self.llc_misses - earlier.llc_misses,
            stalled_ns: self.stalled_ns - earlier.stalled_ns,
        }
    }

    /// What modelled caches did; none if there are none.
    pub fn cache_use(&self) -> Option<CacheUse> {
        (self.llc_accesses > 0).then(|| CacheUse {
            accesses: self.llc_accesses,
            misses: self.llc_misses,
            stalled: self.stalled_ns as f64 / self.busy_ns.max(1) as f64,
        })
    }
}

impl CacheUse {
    /// The share of accesses that missed, 0 to 1.
    pub fn miss_rate(&self) -> f64 {
        self.misses as f64 / self.accesses.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_capacities_exactly() {
        let amp = Machine::load("amp-8").unwrap();
        let rates = rates(&amp, Some(15)).unwrap();
        assert_eq!((rates[0], rates[1], rates.len()), (15_000, 7_500, 8));
        let error = super::rates(&Machine::load("core:2").unwrap(), None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("[lab] mips"), "{error}");
    }

    #[test]
    fn a_quantum_takes_as_long_at_any_rate_that_the_host_can_serve() {
        assert_eq!(quantum(&[60_000; 8]), 9_600);
        assert_eq!(quantum(&[15_000, 7_500]), 2_400);
        assert_eq!(quantum(&[200_000; 8]), 20_000);
        assert_eq!(quantum(&[10_000; 64]), 12_800);
    }

    #[test]
    fn hardware_threads_share_cores() {
        let of = |name: &str| arguments(&Machine::load(name).unwrap(), &Governing::default()).unwrap();
        assert_eq!(of("smt-8"), ",groups0=0:0:1:1:2:2:3:3,gain0=24");
        assert_eq!(of("smp-8"), "");
        // Four to a pipe, two pipes to a core.
        let t2 = of("ultrasparc-t2");
        assert!(t2.starts_with(",groups0=0:0:0:0:1:1:1:1:2:"), "{t2}");
        assert!(t2.contains(":15,gain0=50,groups1=0:0:0:0:0:0:0:0:1:"), "{t2}");
        assert!(t2.ends_with(":7,gain1=90"), "{t2}");
    }

    #[test]
    fn clocks_follow_the_packages_of_the_file() {
        let duals = Machine::load("two-duals").unwrap();
        let without = Governing {
            without_acceleration: true,
            ..Governing::default()
        };
        assert_eq!(arguments(&duals, &without).unwrap(), "");
        let goes_on = Governing {
            without_standstill: true,
            ..without
        };
        assert_eq!(arguments(&duals, &goes_on).unwrap(), ",still=0");
        let with = arguments(&duals, &Governing::default()).unwrap();
        assert_eq!(with, ",groups0=0:0:1:1,clocks0=3000:2666");
        // Hardware threads share a core first.
        let text = "name = \"m\"\ntopology = \"package:2 core:2 pu:2\"\n[acceleration]\nmhz = [3, 2]\n";
        let smt = Machine::from_toml(text, "m.toml").unwrap();
        assert!(
            arguments(&smt, &Governing::default())
                .unwrap()
                .ends_with(",groups1=0:0:0:0:1:1:1:1,clocks1=3:2")
        );
        let text = format!("{text}[[sharing]]\nlevel = \"package\"\ngain_percent = 0\n");
        let both = Machine::from_toml(&text, "m.toml").unwrap();
        let error = arguments(&both, &Governing::default()).unwrap_err().to_string();
        assert!(error.contains("leave acceleration out"), "{error}");
        assert!(arguments(&both, &without).is_ok());
    }

    #[test]
    fn a_miss_takes_as_many_instructions_as_on_the_machine() {
        let caches = |machine: &Machine, mips, one_in| {
            let governing = Governing {
                mips: Some(mips),
                caches: Some(CacheModel::of_one_in(one_in).unwrap()),
                without_acceleration: true,
                ..Governing::default()
            };
            arguments(machine, &governing).map_err(|error| error.to_string())
        };
        let duals = Machine::load("two-duals").unwrap();
        // 100 ns at 2000 MIPS are 200 instructions, which take 2 us at 100.
        assert_eq!(
            caches(&duals, 100, 16).unwrap(),
            ",sample=16,caches=0:0:1:1,sizes=4194304:4194304,latency=2000000"
        );
        assert!(
            caches(&duals, 2000, 1)
                .unwrap()
                .ends_with("sample=1,caches=0:0:1:1,sizes=4194304:4194304,latency=100000")
        );
        let error = caches(&Machine::load("smp-8").unwrap(), 60, 16).unwrap_err();
        assert!(error.contains("[memory] latency_ns"), "{error}");
        for wrong in [0, 3, 128] {
            assert!(CacheModel::of_one_in(wrong).is_err());
        }
    }

    #[test]
    fn what_is_late_is_a_share_of_many() {
        let late = |late_quanta, quanta| {
            Totals {
                late_quanta,
                quanta,
                ..Totals::default()
            }
            .late_share()
        };
        assert_eq!((late(30, 2_000), late(3, 30), late(0, 0)), (0.015, 0.003, 0.0));
    }

    #[test]
    fn loss_is_measured_against_what_was_to_run() {
        let idle_but_for_one = Totals {
            lost_ns: 10,
            busy_ns: 990,
            ..Totals::default()
        };
        assert_eq!(idle_but_for_one.lost_share(), 0.01);
        assert_eq!(Totals::default().lost_share(), 0.0);
        let idle = |nr_cpus, ns| idle_but_for_one.idle_share(nr_cpus, Duration::from_nanos(ns));
        assert_eq!((idle(8, 1000), idle(1, 2000), idle(1, 500)), (0.875, 0.5, 0.0));
    }
}
