// SPDX-License-Identifier: GPL-2.0-only
//! How long those that woke up waited for a CPU.

use std::collections::BTreeMap;

use crate::Ns;
use crate::timeline::{Happening, Timeline};

impl Timeline {
    /// The time from each wake-up of a thread to when it ran, by program and thread, in the order of the wake-ups. One that
    /// never ran is not there.
    pub fn wake_up_latencies(&self) -> BTreeMap<(usize, usize), Vec<Ns>> {
        let mut woken: Vec<Option<Ns>> = vec![None; self.tasks.len()];
        let mut latencies: BTreeMap<(usize, usize), Vec<Ns>> = BTreeMap::new();
        for &(at, happening) in &self.happenings {
            match happening {
                Happening::Wake { task, .. } => woken[task] = Some(at),
                Happening::Switch { next: Some(task), .. } => {
                    if let Some(since) = woken[task].take() {
                        latencies.entry(self.tasks[task]).or_default().push(at - since);
                    }
                }
                Happening::Switch { next: None, .. } | Happening::Sleep { .. } | Happening::Boost { .. } => {}
            }
        }
        latencies
    }
}
