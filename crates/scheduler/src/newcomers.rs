// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that were offline when the scheduler was loaded, and come online. The kernel shows what a CPU shares with others only
//! while it is online, and the BPF program was told that before it was loaded: so it has to be loaded anew.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use threadwise_machine::Machine;

use crate::online::is_online;

/// For how long no CPU must have come before the scheduler is loaded anew: most come in groups, and some go again.
const SETTLED: Duration = Duration::from_secs(2);

/// Who is known, and who else came.
#[derive(Debug)]
pub struct Newcomers {
    known: BTreeSet<usize>,
    came: BTreeSet<usize>,
    /// When the last of these came.
    came_at: Instant,
}

impl Newcomers {
    /// All CPUs but those of this machine.
    pub fn beside(machine: &Machine) -> Self {
        Self {
            known: machine.cpus().iter().map(|cpu| cpu.id.index()).collect(),
            came: BTreeSet::new(),
            came_at: Instant::now(),
        }
    }

    /// Whether a CPU that is not known came online, is so still, and none came for a while until `now`; `came` says by CPU who did
    /// since this was asked last.
    pub fn have_settled(&mut self, came: &[bool], now: Instant) -> bool {
        // One that cannot go does not come.
        self.have_settled_of(came, now, |cpu| is_online(cpu) == Some(true))
    }

    fn have_settled_of(&mut self, came: &[bool], now: Instant, is_online: fn(usize) -> bool) -> bool {
        let new = |&cpu: &usize| came[cpu] && !self.known.contains(&cpu);
        let new: BTreeSet<usize> = (0..came.len()).filter(new).collect();
        if !new.is_empty() {
            self.came.extend(new);
            self.came_at = now;
        }
        if self.came.is_empty() || now - self.came_at < SETTLED {
            return false;
        }
        self.came.retain(|&cpu| is_online(cpu));
        !self.came.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_known_are_no_newcomers_and_others_are_once_nobody_comes_any_more() {
        let mut newcomers = Newcomers::beside(&Machine::from_synthetic("core:2 pu:1").expect("a machine"));
        let begun = Instant::now();
        let mut settled = |came: &[usize], after| {
            let came: Vec<bool> = (0..5).map(|cpu| came.contains(&cpu)).collect();
            newcomers.have_settled_of(&came, begun + after * SETTLED / 2, |cpu| cpu != 4)
        };
        assert!(!settled(&[0, 1], 0) && !settled(&[], 9));
        // The last one has gone again when all have settled.
        assert!(!settled(&[4], 10) && !settled(&[], 11) && !settled(&[], 12) && !settled(&[], 13));
        assert!(!settled(&[3], 20) && !settled(&[], 21));
        assert!(!settled(&[2, 4], 21) && !settled(&[0], 22) && settled(&[], 23));
    }
}
