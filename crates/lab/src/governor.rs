// SPDX-License-Identifier: GPL-2.0-only
//! The governor plugin (`lab/corespeed.c`): built once, told each CPU's rate, asked what it lost.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use memmap2::Mmap;
use threadwise_machine::Machine;

use crate::error::{Error, io_error};

const SOURCE: &str = include_str!("../../../lab/corespeed.c");
/// The layout of `struct counters` in the plugin: eight words a vCPU, for at most so many.
const WORDS: usize = 8;
const MAX_VCPUS: usize = 256;

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
    if status.success() { Ok(plugin) } else { Err(Error::Missing { what: String::from("a working C compiler (cc)") }) }
}

/// Each CPU's rate in MIPS for the plugin: the given rate, or else the machine's, times the CPU's capacity.
///
/// # Errors
/// If neither is there.
pub fn rates(machine: &Machine, mips: Option<u32>) -> Result<Vec<u32>, Error> {
    let mips = mips.or(machine.lab_mips()).ok_or_else(|| Error::Unsuitable {
        machine: machine.name().to_string(),
        message: String::from("it has no rate for the emulated CPUs; add [lab] mips = 200 to its file"),
    })?;
    Ok(machine.cpus().iter().map(|cpu| (mips * cpu.capacity).div_ceil(1024).max(1)).collect())
}

/// The plugin's counters, as it writes them.
pub struct Counters {
    map: Mmap,
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
}

impl Counters {
    /// Creates and maps the file that the plugin is to be given.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create_new(path).map_err(io_error("create", path))?;
        file.set_len((MAX_VCPUS * WORDS * size_of::<u64>()) as u64).map_err(io_error("size", path))?;
        let file = File::open(path).map_err(io_error("open", path))?;
        // SAFETY: the plugin keeps the file's size; single words are read, and that they change is the point.
        let map = unsafe { Mmap::map(&file) }.map_err(io_error("map", path))?;
        Ok(Self { map })
    }

    /// The counts up to now.
    pub fn totals(&self) -> Totals {
        let words: Vec<u64> = self
            .map
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes")))
            .collect();
        words.chunks_exact(WORDS).fold(Totals::default(), |sum, vcpu| Totals {
            instructions: sum.instructions + vcpu[0],
            quanta: sum.quanta + vcpu[1],
            late_quanta: sum.late_quanta + vcpu[2],
            lost_ns: sum.lost_ns + vcpu[3],
        })
    }
}

impl Totals {
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            quanta: self.quanta - earlier.quanta,
            late_quanta: self.late_quanta - earlier.late_quanta,
            lost_ns: self.lost_ns - earlier.lost_ns,
        }
    }
}
