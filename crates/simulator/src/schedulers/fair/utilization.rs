// SPDX-License-Identifier: GPL-2.0-only
//! How much of its time a CPU, or a task that is ready, has run of late (kernel/sched/pelt.c).

use crate::Ns;

/// After so long what was counts half.
const HALF_LIFE_NS: f64 = 32e6;

/// A share of time, 0 to 1, of which the distant past counts less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utilization {
    share: f64,
    at: Ns,
    /// How long it had run by then.
    ran: Ns,
}

impl Utilization {
    /// By now it has run for so long in all.
    pub(super) fn update(&mut self, now: Ns, ran: Ns) {
        let past = now.saturating_sub(self.at) as f64;
        if past > 0.0 {
            let kept = (-past / HALF_LIFE_NS).exp2();
            self.share = self.share * kept + (1.0 - kept) * ran.saturating_sub(self.ran) as f64 / past;
        }
        (self.at, self.ran) = (now, ran);
    }

    /// What was between then and now does not count: the task slept (`util_est`).
    pub(super) fn skip(&mut self, now: Ns) {
        self.at = now;
    }

    pub(super) fn share(self) -> f64 {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_counts_half_after_its_half_life() {
        let mut it = Utilization::default();
        it.update(32_000_000, 32_000_000);
        assert!((it.share() - 0.5).abs() < 1e-9, "{it:?}");
        it.update(64_000_000, 32_000_000);
        assert!((it.share() - 0.25).abs() < 1e-9, "{it:?}");
        it.skip(1_000_000_000);
        it.update(1_032_000_000, 64_000_000);
        assert!((it.share() - 0.625).abs() < 1e-9, "{it:?}");
    }
}
