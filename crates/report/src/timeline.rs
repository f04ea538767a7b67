// SPDX-License-Identifier: GPL-2.0-only
//! What ran where and when, in a short piece of one run.

use serde::{Deserialize, Serialize};

/// A piece of a run. Times are in nanoseconds from the start of its programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The programs' names.
    pub run: Vec<String>,
    /// The scheduler's.
    pub scheduler: String,
    /// The seed of the round.
    pub seed: u64,
    /// From when.
    pub from_ns: u64,
    /// Until when; later than that.
    pub to_ns: u64,
    /// For each CPU what ran on it.
    pub cpus: Vec<Vec<Span>>,
    /// For each program its phases: 1 is a parallel one, 0 a serial one.
    pub phases: Vec<Vec<Span>>,
}

/// From when, until when, and what: written as three numbers, since there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span(pub u64, pub u64, pub usize);

impl Timeline {
    /// Whether it is within its bounds.
    pub(crate) fn check(&self) -> Result<(), String> {
        let nr = self.run.len();
        let in_order = |spans: &Vec<Span>| spans.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let within = |span: &Span| self.from_ns <= span.0 && span.0 <= span.1 && span.1 <= self.to_ns;
        let sound = self.from_ns < self.to_ns
            && self.phases.len() == nr
            && self.cpus.iter().all(in_order)
            && self.cpus.iter().flatten().all(|span| within(span) && span.2 < nr)
            && self
                .phases
                .iter()
                .flatten()
                .all(|span| within(span) && span.2 <= 1);
        match sound {
            true => Ok(()),
            false => Err(format!(
                "the timeline of {:?} under {:?} is not in order and within its bounds",
                self.run, self.scheduler
            )),
        }
    }
}
