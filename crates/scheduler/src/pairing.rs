// SPDX-License-Identifier: GPL-2.0-only
//! `--pairing`: what tells how much of a last-level cache tasks need, and the counters for it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use libbpf_rs::libbpf_sys::{
    PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_SW_CPU_CLOCK,
    PERF_COUNT_SW_PAGE_FAULTS, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use libbpf_rs::{MapCore, MapFlags};
use threadwise_machine::Machine;
use threadwise_policy::PairingBy;
use tracing::info;

use crate::bpf_intf::{
    tw_pairing_by_TW_PAIRING_COUNTERS, tw_pairing_by_TW_PAIRING_OFF, tw_pairing_by_TW_PAIRING_RESIDENT,
};
use crate::online::is_online;

/// A page fault brings so many lines.
const LINES_PER_PAGE: u32 = 4096 / 64;

/// How tasks are paired.
#[derive(Debug, Default)]
pub enum Pairing {
    /// They are not.
    #[default]
    Off,
    /// By these counters.
    Counters(Counting),
    /// By resident sets, beside a cache of so many bytes.
    Resident(u64),
}

/// Counters of all CPUs.
#[derive(Debug)]
pub struct Counting {
    of: Vec<Counters>,
    events: Events,
}

/// Two events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    kind: u32,
    instructions: u64,
    misses: u64,
    /// Lines of a cache that one of the second stands for.
    lines: u32,
}

/// Instructions and misses of the last-level cache.
pub const HARDWARE: Events = Events {
    kind: PERF_TYPE_HARDWARE,
    instructions: PERF_COUNT_HW_INSTRUCTIONS as u64,
    misses: PERF_COUNT_HW_CACHE_MISSES as u64,
    lines: 1,
};

/// CPU time and page faults.
pub const SOFTWARE: Events = Events {
    kind: PERF_TYPE_SOFTWARE,
    instructions: PERF_COUNT_SW_CPU_CLOCK as u64,
    misses: PERF_COUNT_SW_PAGE_FAULTS as u64,
    lines: LINES_PER_PAGE,
};

/// The two counters of a CPU.
#[derive(Debug)]
struct Counters {
    cpu: u32,
    instructions: OwnedFd,
    misses: OwnedFd,
}

impl Pairing {
    /// As asked for, as far as this machine allows.
    ///
    /// # Errors
    /// If what was asked for by name is not there.
    pub fn of(by: PairingBy, machine: &Machine) -> Result<Self> {
        match by {
            PairingBy::Off => Ok(Self::Off),
            PairingBy::Counters => {
                let counting = Counting::open(HARDWARE, machine).context(
                    "this machine has no hardware counters (virtual machines mostly hide them): use --pairing resident",
                )?;
                Ok(Self::Counters(counting))
            }
            PairingBy::Faults => Ok(Self::Counters(Counting::open(SOFTWARE, machine)?)),
            PairingBy::Resident => match smallest_cache(machine) {
                Some(bytes) => Ok(Self::Resident(bytes)),
                None => bail!(
                    "--pairing resident has to know the size of the last-level cache, which the kernel does not show: \
                     give a --machine that does, such as \"package:2 l3:1(size=16MB) core:4\""
                ),
            },
            PairingBy::Auto => Ok(Counting::open(HARDWARE, machine).map_or_else(
                |error| {
                    info!("no hardware counters ({error:#}): tasks are paired by resident sets, if at all");
                    smallest_cache(machine).map_or(Self::Off, Self::Resident)
                },
                Self::Counters,
            )),
        }
    }

    /// Its number in `enum tw_pairing_by`.
    pub fn number(&self) -> u32 {
        match self {
            Self::Off => tw_pairing_by_TW_PAIRING_OFF,
            Self::Counters(_) => tw_pairing_by_TW_PAIRING_COUNTERS,
            Self::Resident(_) => tw_pairing_by_TW_PAIRING_RESIDENT,
        }
    }

    /// The size of the cache, where it matters.
    pub fn llc_bytes(&self) -> Option<u64> {
        match self {
            Self::Resident(bytes) => Some(*bytes),
            Self::Off | Self::Counters(_) => None,
        }
    }

    /// The counters that it goes by.
    pub fn into_counting(self) -> Option<Counting> {
        match self {
            Self::Counters(counting) => Some(counting),
            Self::Off | Self::Resident(_) => None,
        }
    }
}

impl Counting {
    /// Opens the counters of all CPUs that are online, which count as long as this lives. The others' are opened once these
    /// have come ([`Self::count_on`]).
    pub fn open(events: Events, machine: &Machine) -> Result<Self> {
        let cpus = machine.cpus().iter().map(|cpu| cpu.id.0);
        let is_offline = |cpu| is_online(cpu as usize) == Some(false);
        let of = open_online(cpus, |cpu| Counters::open(events, cpu), is_offline)?;
        Ok(Self { of, events })
    }

    /// What is counted.
    pub fn events(&self) -> Events {
        self.events
    }

    /// Lines of a cache that a count of misses stands for.
    pub fn lines_per_miss(&self) -> u32 {
        self.events.lines
    }

    /// Gives the BPF program the counters.
    pub fn install(&self, instructions: &impl MapCore, misses: &impl MapCore) -> Result<()> {
        for of in &self.of {
            of.hand_over(instructions, misses)?;
        }
        Ok(())
    }

    /// The same for a CPU that came: it has no counters yet, or they ended when it went (`perf_event_exit_cpu()`).
    pub fn count_on(&mut self, cpu: u32, instructions: &impl MapCore, misses: &impl MapCore) -> Result<()> {
        let anew = Counters::open(self.events, cpu)?;
        anew.hand_over(instructions, misses)?;
        self.of.retain(|of| of.cpu != cpu);
        self.of.push(anew);
        info!("CPU {cpu} came, and is counted on");
        Ok(())
    }
}

/// What `open` opens on each CPU, without those of which it fails because they are offline: a machine file names these too, and
/// others go meanwhile.
fn open_online<T>(
    cpus: impl Iterator<Item = u32>,
    open: impl Fn(u32) -> Result<T>,
    is_offline: impl Fn(u32) -> bool,
) -> Result<Vec<T>> {
    let opened = cpus.filter_map(|cpu| match open(cpu) {
        Err(_) if is_offline(cpu) => None,
        opened => Some(opened),
    });
    opened.collect()
}

impl Counters {
    fn open(events: Events, cpu: u32) -> Result<Self> {
        Ok(Self {
            cpu,
            instructions: open(events.kind, events.instructions, cpu)?,
            misses: open(events.kind, events.misses, cpu)?,
        })
    }

    fn hand_over(&self, instructions: &impl MapCore, misses: &impl MapCore) -> Result<()> {
        hand_over(instructions, self.cpu, &self.instructions)?;
        hand_over(misses, self.cpu, &self.misses)
    }
}

fn hand_over(map: &impl MapCore, cpu: u32, counter: &OwnedFd) -> Result<()> {
    map.update(
        &cpu.to_ne_bytes(),
        &counter.as_raw_fd().to_ne_bytes(),
        MapFlags::ANY,
    )
    .with_context(|| format!("cannot hand over a counter of CPU {cpu}"))
}

/// The size of the smallest last-level cache, if that of each is known.
pub fn smallest_cache(machine: &Machine) -> Option<u64> {
    let sizes: Option<Vec<u64>> = machine.llc_bytes().into_iter().collect();
    sizes?.into_iter().min()
}

/// Counts an event on a CPU, whoever runs there (perf_event_open(2)).
fn open(kind: u32, event: u64, cpu: u32) -> Result<OwnedFd> {
    let attributes = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config: event,
        ..perf_event_attr::default()
    };
    let (all_tasks, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // SAFETY: the structure is as large as it says, and lives until the call has returned.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            all_tasks,
            cpu,
            no_group,
            libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("cannot open a counter of CPU {cpu}"));
    }
    // SAFETY: the kernel just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_offline_are_left_out_and_other_failures_are_not() {
        let open = |cpu| match cpu {
            1 | 3 => bail!("no such device: {cpu}"),
            _ => Ok(cpu),
        };
        let opened = |offline: &[u32]| open_online(0..4, open, |cpu| offline.contains(&cpu));
        assert_eq!(opened(&[1, 3]).expect("the others are there"), [0, 2]);
        let error = opened(&[1]).expect_err("CPU 3 is online");
        assert_eq!(error.to_string(), "no such device: 3");
        // It went after that, which the kernel tells.
        assert_eq!(opened(&[0, 1, 3]).expect("the others are there"), [0, 2]);
    }

    #[test]
    fn caches_of_unknown_size_are_said() {
        let of = |spec: &str, by| Pairing::of(by, &Machine::from_synthetic(spec).expect("a machine"));
        let known = of("package:2 l3:1(size=4MB) core:2", PairingBy::Resident).expect("it is known");
        assert_eq!(known.llc_bytes(), Some(4 << 20));
        let unknown = of("package:2 core:2", PairingBy::Resident).expect_err("it is not");
        assert!(unknown.to_string().contains("l3:1(size=16MB)"), "{unknown}");
        assert_eq!(
            of("package:2 core:2", PairingBy::Off)
                .expect("nothing needed")
                .number(),
            0
        );
    }
}
