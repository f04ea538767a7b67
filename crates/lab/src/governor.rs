// SPDX-License-Identifier: GPL-2.0-only
//! The governor plugin (`lab/corespeed.c`): built once, told each CPU's rate, asked what it lost.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memmap2::MmapMut;
use threadwise_machine::{Cpu, Lab, Level, Machine, names};

use crate::error::{Error, io_error};

const SOURCE: &str = include_str!("../../../lab/corespeed.c");
/// The layout of `struct shared` in the plugin: eight words a vCPU, for at most so many, then whether they are governed.
const WORDS: usize = 8;
const MAX_VCPUS: usize = 256;
const GOVERNED: usize = MAX_VCPUS * WORDS;

/// Compiles the plugin into `folder`.
///
/// # Errors
/// If there is no C compiler or it rejects the source.
pub fn build(folder: &Path) -> Result<PathBuf, Error> {
    let (source, plugin) = (folder.join("corespeed.c"), folder.join("corespeed.so"));
    fs::write(&source, SOURCE).map_err(io_error("write", &source))?;
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

/// The levels that the plugin knows.
const MAX_LEVELS: usize = 4;

/// Which of a machine's CPUs share pipes and cores, and what they have of them, as the plugin's arguments; empty if none do.
///
/// # Errors
/// If more levels share their speed than the plugin knows.
pub fn sharing(machine: &Machine) -> Result<String, Error> {
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
        return Err(Error::Unsuitable {
            machine: machine.name().to_string(),
            message: format!(
                "{} of its levels share their speed, the lab has {MAX_LEVELS}",
                shared.len()
            ),
        });
    }
    let argument = |(nr, (level, gain)): (usize, (&Level, u32))| {
        let group = |cpu: &Cpu| machine.group_of(level.name(), cpu.id).unwrap_or(0).to_string();
        let groups: Vec<String> = machine.cpus().iter().map(group).collect();
        format!(",groups{nr}={},gain{nr}={gain}", groups.join(":"))
    };
    Ok(shared.into_iter().enumerate().map(argument).collect())
}

/// The plugin's counters, as it writes them.
pub struct Counters {
    map: MmapMut,
}

/// What the governor counted, over all vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions that the guest executed.
    pub instructions: u64,
    /// Quanta that ended.
    pub quanta: u64,
    /// Quanta that ended more than their length late.
    pub late_quanta: u64,
    /// vCPU time lost for good, in nanoseconds.
    pub lost_ns: u64,
    /// The time that the instructions take, in nanoseconds.
    pub busy_ns: u64,
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
        file.set_len(((GOVERNED + 1) * size_of::<u64>()) as u64)
            .map_err(io_error("size", path))?;
        // SAFETY: the plugin keeps the file's size; single words are read, and that they change is the point.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(io_error("map", path))?;
        Ok(Self { map })
    }

    /// Sets the CPUs' speeds in force, or lets them run as fast as the host, uncounted.
    pub fn govern(&mut self, governed: bool) {
        let word = self.map[GOVERNED * size_of::<u64>()..].as_mut_ptr().cast();
        // SAFETY: within the map, and aligned because the map is to a page; the plugin only reads it.
        let word = unsafe { AtomicU64::from_ptr(word) };
        word.store(u64::from(governed), Ordering::Relaxed);
    }

    /// The counts up to now.
    pub fn totals(&self) -> Totals {
        let words: Vec<u64> = self.map[..GOVERNED * size_of::<u64>()]
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes")))
            .collect();
        words
            .chunks_exact(WORDS)
            .fold(Totals::default(), |sum, vcpu| Totals {
                instructions: sum.instructions + vcpu[0],
                quanta: sum.quanta + vcpu[1],
                late_quanta: sum.late_quanta + vcpu[2],
                lost_ns: sum.lost_ns + vcpu[3],
                busy_ns: sum.busy_ns + vcpu[4],
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
        }
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
    fn hardware_threads_share_cores() {
        assert_eq!(
            sharing(&Machine::load("smt-8").unwrap()).unwrap(),
            ",groups0=0:0:1:1:2:2:3:3,gain0=24"
        );
        assert_eq!(sharing(&Machine::load("smp-8").unwrap()).unwrap(), "");
        // Four to a pipe, two pipes to a core.
        let t2 = sharing(&Machine::load("ultrasparc-t2").unwrap()).unwrap();
        assert!(t2.starts_with(",groups0=0:0:0:0:1:1:1:1:2:"), "{t2}");
        assert!(t2.contains(":15,gain0=50,groups1=0:0:0:0:0:0:0:0:1:"), "{t2}");
        assert!(t2.ends_with(":7,gain1=90"), "{t2}");
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
