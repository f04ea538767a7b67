// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that were offline when the scheduler was loaded, and come online. The kernel shows what a CPU shares with others only
//! while it is online, and the BPF program was told that before it was loaded: so it has to be loaded anew.

use std::time::{Duration, Instant};

use threadwise_machine::Machine;

/// For how long no CPU must have come before the scheduler is loaded anew: most come in groups, and some go again.
const SETTLED: Duration = Duration::from_secs(2);

/// Who is known, and when somebody else came last.
#[derive(Debug)]
pub struct Newcomers {
    /// By CPU.
    known: Vec<bool>,
    came_at: Option<Instant>,
}

impl Newcomers {
    /// All CPUs but those of this machine.
    pub fn beside(machine: &Machine) -> Self {
        let most = machine.cpus().iter().map(|cpu| cpu.id.index()).max();
        let mut known = vec![false; most.map_or(0, |most| most + 1)];
        for cpu in machine.cpus() {
            known[cpu.id.index()] = true;
        }
        Self { known, came_at: None }
    }

    /// Whether a CPU that is not known came online, some time before `now`, and none since; `came` says by CPU who did since this
    /// was asked last.
    pub fn have_settled(&mut self, came: &[bool], now: Instant) -> bool {
        let is_known = |cpu: usize| self.known.get(cpu).copied().unwrap_or(false);
        if (0..came.len()).any(|cpu| came[cpu] && !is_known(cpu)) {
            self.came_at = Some(now);
        }
        self.came_at.is_some_and(|at| now - at >= SETTLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_known_are_no_newcomers_and_others_are_once_nobody_comes_any_more() {
        let mut newcomers = Newcomers::beside(&Machine::from_synthetic("core:2 pu:1").expect("a machine"));
        let begun = Instant::now();
        let mut settled = |came: [bool; 4], after| newcomers.have_settled(&came, begun + after * SETTLED / 2);
        let (known, new, nobody) = (
            [true, true, false, false],
            [false, false, false, true],
            [false; 4],
        );
        assert!(!settled(known, 0) && !settled(nobody, 9));
        assert!(!settled(new, 10) && !settled(nobody, 11));
        assert!(!settled(new, 11) && !settled(known, 12) && settled(nobody, 13));
    }
}
