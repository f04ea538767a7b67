// SPDX-License-Identifier: GPL-2.0-only
//! `--mode`: over the packages, or into one of them; and what the platform's power profile says about it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use threadwise_machine::Machine;
use tracing::warn;

use crate::bpf_intf::{tw_limits_TW_DOMAINS, tw_limits_TW_MAX_CPUS};

/// Where idle CPUs are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Near the CPU that a task ran on, as the kernel does
    #[default]
    Near,
    /// Packages before last-level caches before cores; a program's threads in one cache while they fit
    Performance,
    /// A package is filled before another is woken
    Powersave,
    /// Performance or powersave, as the platform's power profile says, also when it changes
    Auto,
}

impl Mode {
    /// What it is, or may come to be, that spreads tasks most.
    pub fn spreading(self) -> threadwise_policy::Mode {
        match self {
            Mode::Near => threadwise_policy::Mode::Near,
            Mode::Performance | Mode::Auto => threadwise_policy::Mode::Performance,
            Mode::Powersave => threadwise_policy::Mode::Powersave,
        }
    }

    /// Its number in `enum tw_mode` of policy/spread.h; for `Auto` the platform's.
    pub fn number(self) -> Result<u32> {
        Ok(match self {
            Self::Near => 0,
            Self::Performance => 1,
            Self::Powersave => 2,
            Self::Auto => of_platform(Path::new(PLATFORM_PROFILE))?.number()?,
        })
    }
}

/// Documentation/ABI/testing/sysfs-platform_profile.
const PLATFORM_PROFILE: &str = "/sys/firmware/acpi/platform_profile";

fn of_platform(path: &Path) -> Result<Mode> {
    let text = fs::read_to_string(path).with_context(|| {
        format!(
            "this machine has no power profile ({}): use --mode performance or --mode powersave",
            path.display()
        )
    })?;
    Ok(match text.trim() {
        "low-power" | "cool" | "quiet" => Mode::Powersave,
        "balanced" | "balanced-performance" | "performance" | "max-power" | "custom" => Mode::Performance,
        other => bail!(
            "{} says {other:?}, which is no known profile: use --mode performance or --mode powersave",
            path.display()
        ),
    })
}

/// How often the platform's power profile is looked at.
const PROFILE_INTERVAL: Duration = Duration::from_secs(1);

/// Looks at the platform's power profile while the scheduler runs.
#[derive(Debug)]
pub struct Follower {
    looked: Instant,
    /// Whether it could not be read the last time, which was told.
    is_lost: bool,
}

impl Follower {
    /// Of one that has just been read.
    pub fn begin() -> Self {
        Self {
            looked: Instant::now(),
            is_lost: false,
        }
    }

    /// The number of the mode that the profile asks for by now; none if it is not time to look again, or it cannot be read.
    pub fn look(&mut self) -> Option<u32> {
        if self.looked.elapsed() < PROFILE_INTERVAL {
            return None;
        }
        self.looked = Instant::now();
        self.heed(Mode::Auto.number())
    }

    /// A driver that is reloaded takes its file away for a while, and firmware may name a profile that nobody knows: no
    /// reason to end a scheduler that runs.
    fn heed(&mut self, read: Result<u32>) -> Option<u32> {
        let was_lost = std::mem::replace(&mut self.is_lost, read.is_err());
        match read {
            Ok(number) => Some(number),
            Err(error) => {
                if !was_lost {
                    warn!("--mode auto stays as it is until the power profile can be read again: {error:#}");
                }
                None
            }
        }
    }
}

/// Which CPUs share a last-level cache or a package, in the form in which the BPF program wants it.
#[derive(Debug, PartialEq, Eq)]
pub struct Domains {
    /// By CPU: its last-level cache, and its package.
    pub llc: Vec<u8>,
    /// By CPU.
    pub package: Vec<u8>,
    /// By last-level cache: how many cores it has.
    pub llc_cores: Vec<u16>,
    /// By last-level cache: its package.
    pub llc_package: Vec<u8>,
}

impl Domains {
    /// Whether a machine has several last-level caches, and no more than can be told apart.
    pub fn tells_caches(machine: &Machine) -> bool {
        let most = tw_limits_TW_DOMAINS as usize;
        machine.nr_packages() <= most && (2..=most).contains(&machine.nr_llcs())
    }

    /// Those of a machine.
    ///
    /// # Errors
    /// If it has more than `TW_DOMAINS` caches or packages.
    pub fn of(machine: &Machine) -> Result<Self> {
        let most = tw_limits_TW_DOMAINS as usize;
        if machine.nr_llcs() > most || machine.nr_packages() > most {
            bail!(
                "--mode and --programs tell {most} last-level caches and packages apart, this machine has {} and {}",
                machine.nr_llcs(),
                machine.nr_packages()
            );
        }
        let mut domains = Self {
            llc: vec![0; tw_limits_TW_MAX_CPUS as usize],
            package: vec![0; tw_limits_TW_MAX_CPUS as usize],
            llc_cores: vec![0; most],
            llc_package: vec![0; most],
        };
        for cpu in machine.cpus() {
            if let Some(llc) = domains.llc.get_mut(cpu.id.index()) {
                *llc = cpu.llc.0 as u8;
                domains.package[cpu.id.index()] = cpu.package.0 as u8;
            }
            // Counted once, at its first CPU.
            if machine.core_cpus(cpu.core).first() == Some(&cpu.id) {
                domains.llc_cores[cpu.llc.index()] += 1;
            }
            domains.llc_package[cpu.llc.index()] = cpu.package.0 as u8;
        }
        Ok(domains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_s_profile_decides() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let of = |text: &str| {
            fs::write(file.path(), text).expect("written");
            of_platform(file.path())
        };
        assert_eq!(of("low-power\n").ok(), Some(Mode::Powersave));
        assert_eq!(of("balanced\n").ok(), Some(Mode::Performance));
        let unknown = of("turbo").expect_err("no profile").to_string();
        assert!(
            unknown.contains("turbo") && unknown.contains("--mode performance"),
            "{unknown}"
        );
        let none = of_platform(Path::new("/nowhere")).expect_err("no file");
        assert!(format!("{none:#}").contains("/nowhere"), "{none:#}");
    }

    #[test]
    fn a_profile_that_cannot_be_read_for_a_while_changes_nothing() {
        let mut follower = Follower::begin();
        assert_eq!(follower.look(), None, "it was read just now");
        assert_eq!(follower.heed(Ok(2)), Some(2));
        for _ in 0..2 {
            let gone = of_platform(Path::new("/nowhere")).map(|_| 1);
            assert_eq!(follower.heed(gone), None);
            assert!(follower.is_lost, "told once");
        }
        assert_eq!(follower.heed(Ok(1)), Some(1));
        assert!(!follower.is_lost, "told again if it is lost again");
    }

    #[test]
    fn domains_are_those_of_the_machine() {
        let machine = Machine::from_synthetic("package:2 llc:2 core:2 pu:2").expect("a machine");
        let domains = Domains::of(&machine).expect("few enough");
        assert_eq!(
            domains.llc[..16],
            [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
        );
        assert_eq!(
            domains.package[..16],
            [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
        );
        assert_eq!(domains.llc_cores[..5], [2, 2, 2, 2, 0]);
        assert_eq!(domains.llc_package[..5], [0, 0, 1, 1, 0]);
        let many = Machine::from_synthetic("package:65 core:1").expect("a machine");
        assert!(Domains::of(&many).is_err());
    }
}
