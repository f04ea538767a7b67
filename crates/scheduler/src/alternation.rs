// SPDX-License-Identifier: GPL-2.0-only
//! `--alternate`: by what programs are found that get more done one after the other.

use anyhow::{Context, Result, bail, ensure};
use threadwise_machine::Machine;
use threadwise_policy::AlternateBy;
use tracing::info;

use crate::bpf_intf::{
    tw_alternate_by_TW_ALTERNATE_COUNTERS, tw_alternate_by_TW_ALTERNATE_OFF,
    tw_alternate_by_TW_ALTERNATE_RESIDENT,
};
use crate::pairing::{Counting, Events, HARDWARE, SOFTWARE, smallest_cache};

/// How programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternation {
    /// Beside each other.
    Off,
    /// One after the other if trials say so.
    Counters,
    /// One after the other if together they exceed a cache of so many bytes.
    Resident(u64),
}

impl Alternation {
    /// As asked for, as far as this machine allows. Counters are opened if nobody else has.
    ///
    /// # Errors
    /// If what was asked for by name is not there.
    pub fn of(by: AlternateBy, machine: &Machine, counting: &mut Option<Counting>) -> Result<Self> {
        match by {
            AlternateBy::Off => Ok(Self::Off),
            AlternateBy::Auto => Ok(match Self::by_counters(HARDWARE, machine, counting) {
                Ok(alternation) => alternation,
                Err(error) => {
                    info!("no hardware counters ({error:#}): programs run beside each other");
                    Self::Off
                }
            }),
            AlternateBy::Counters => Self::by_counters(HARDWARE, machine, counting).context(
                "this machine has no hardware counters (virtual machines mostly hide them): use --alternate auto, which then \
                 leaves programs beside each other, or --alternate resident",
            ),
            AlternateBy::Faults => Self::by_counters(SOFTWARE, machine, counting),
            AlternateBy::Resident => {
                let bytes = smallest_cache(machine).context(
                    "--alternate resident has to know the size of the last-level cache, which the kernel does not show: \
                     give a --machine that does, such as \"l3:1(size=16MB) core:4\"",
                )?;
                ensure!(
                    machine.nr_llcs() == 1,
                    "--alternate resident is for machines with one last-level cache: here programs fit behind several, which \
                     --mode performance gives them"
                );
                Ok(Self::Resident(bytes))
            }
        }
    }

    fn by_counters(events: Events, machine: &Machine, counting: &mut Option<Counting>) -> Result<Self> {
        match counting {
            Some(counting) if counting.events() == events => (),
            Some(_) => bail!("--pairing and --alternate cannot go by different counters"),
            None => *counting = Some(Counting::open(events, machine)?),
        }
        Ok(Self::Counters)
    }

    /// Its number in `enum tw_alternate_by`.
    pub fn number(self) -> u32 {
        match self {
            Self::Off => tw_alternate_by_TW_ALTERNATE_OFF,
            Self::Counters => tw_alternate_by_TW_ALTERNATE_COUNTERS,
            Self::Resident(_) => tw_alternate_by_TW_ALTERNATE_RESIDENT,
        }
    }

    /// The size of the cache, where it matters.
    pub fn llc_bytes(self) -> Option<u64> {
        match self {
            Self::Resident(bytes) => Some(bytes),
            Self::Off | Self::Counters => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said() {
        let of = |spec: &str| {
            let machine = Machine::from_synthetic(spec).expect("a machine");
            Alternation::of(AlternateBy::Resident, &machine, &mut None)
        };
        let known = of("l3:1(size=4MB) core:4").expect("it is known");
        assert_eq!(known, Alternation::Resident(4 << 20));
        let unknown = of("core:4").expect_err("its size is not known").to_string();
        assert!(unknown.contains("l3:1(size=16MB)"), "{unknown}");
        let several = of("package:2 l3:1(size=4MB) core:4").expect_err("there are two");
        assert!(several.to_string().contains("--mode performance"), "{several}");
    }
}
