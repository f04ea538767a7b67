// SPDX-License-Identifier: GPL-2.0-only
//! What the threads of a program read while they work: random lines of a working set, so many in a unit.
//!
//! It is the `memory` of an experiment's programs (crates/simulator/src/hardware/cache.rs) as real accesses. Where caches cost
//! what they cost, as on hardware or in a lab that models them, a unit then takes longer the more of them miss.

use std::collections::TryReserveError;

use serde::{Deserialize, Serialize};

use crate::memory::lines::{How, Lines, Walk};
use crate::memory::{LINE_BYTES, Pattern, Sharing};

/// How threads read memory while they work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The working set: of each thread if private, of all together if shared; rounded down to whole lines.
    pub bytes: u64,
    /// Accesses in a thousand units; at least 1.
    pub per_1000_units: u32,
    /// Whose it is.
    pub sharing: Sharing,
}

impl Reading {
    /// The working sets of a program, one for all or one for each of its threads.
    ///
    /// The calling thread makes all: on systems with several memories that is where they are.
    pub(super) fn sets(self, threads: u32) -> Result<Vec<Lines>, TryReserveError> {
        let nr_sets = match self.sharing {
            Sharing::Shared => 1,
            Sharing::Private => threads,
        };
        (0..nr_sets)
            .map(|_| Lines::unlinked(self.bytes / LINE_BYTES))
            .collect()
    }
}

/// One thread's accesses.
pub(super) struct Reader<'a> {
    walk: Walk<'a>,
    per_1000_units: u32,
    /// Thousandths of an access that are due.
    due: u32,
}

impl<'a> Reader<'a> {
    /// Of a thread, from 0, among the sets of its program.
    pub fn new(reading: Reading, sets: &'a [Lines], thread: usize, seed: u64) -> Self {
        let how = How {
            pattern: Pattern::Random,
            sharing: reading.sharing,
            write_percent: 0,
            compute: 0,
            seed: seed.wrapping_add(thread as u64),
        };
        Self {
            walk: Walk::new(&sets[thread.min(sets.len() - 1)], 0, how),
            per_1000_units: reading.per_1000_units,
            due: 0,
        }
    }

    /// Makes the accesses of one unit, and returns how many they were.
    pub fn read_for_a_unit(&mut self) -> u64 {
        self.due += self.per_1000_units;
        let accesses = u64::from(self.due / 1000);
        self.due %= 1000;
        self.walk.take(accesses).accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(sharing: Sharing) -> Reading {
        Reading {
            bytes: 64 * 100 + 63,
            per_1000_units: 1140,
            sharing,
        }
    }

    #[test]
    fn a_thousand_units_have_as_many_accesses_as_asked_for() {
        let sets = reading(Sharing::Private).sets(1).unwrap();
        let mut reader = Reader::new(reading(Sharing::Private), &sets, 0, 1);
        let each: Vec<u64> = (0..1000).map(|_| reader.read_for_a_unit()).collect();
        assert_eq!(each.iter().sum::<u64>(), 1140);
        assert!(each.iter().all(|accesses| (1..=2).contains(accesses)), "evenly");
    }

    #[test]
    fn sets_are_private_or_shared() {
        let counts = |sharing| -> Vec<u64> {
            let sets = reading(sharing).sets(3).unwrap();
            sets.iter().map(Lines::count).collect()
        };
        assert_eq!(counts(Sharing::Private), [100, 100, 100]);
        assert_eq!(counts(Sharing::Shared), [100]);
        let sets = reading(Sharing::Shared).sets(3).unwrap();
        // All threads find it.
        assert_eq!(
            Reader::new(reading(Sharing::Shared), &sets, 2, 1).read_for_a_unit(),
            1
        );
    }
}
