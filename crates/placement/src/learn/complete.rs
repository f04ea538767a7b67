// SPDX-License-Identifier: GPL-2.0-only
//! Entries that were not measured, from those that were.

use std::collections::BTreeMap;

use super::features::{Features, Point};
use super::gaussian::{Expected, Gaussian};
use crate::layout::TARGET;
use crate::tables::{Beside, Fallback};
use crate::{Experiment, Leaf};

/// By how many standard deviations expectations were off, of each table.
#[derive(Clone, Debug, Default)]
pub(super) struct Surprises {
    pub base: Vec<f64>,
    pub beside: Vec<f64>,
}

/// What the experiments so far say of all entries.
#[derive(Debug)]
pub(super) struct Completion {
    pub features: Features,
    /// Of the logarithm of performance.
    pub base: Option<Gaussian>,
    /// The same for the Slowdown Table, relative to the target alone in its member of the scope.
    pub beside: Option<Gaussian>,
    /// Performance of the target alone, by kind and role.
    references: BTreeMap<(u8, u8), f64>,
}

impl Completion {
    /// From the mean of each experiment, and from which of them stand for a target alone. Figures that are not above 0
    /// are left out.
    pub fn new(
        features: Features,
        measured: &BTreeMap<Experiment, f64>,
        references: &BTreeMap<(u8, u8), Experiment>,
        surprises: &Surprises,
    ) -> Completion {
        let references: BTreeMap<(u8, u8), f64> = references
            .iter()
            .filter_map(|(&of, experiment)| Some((of, *measured.get(experiment)?)))
            .collect();
        let mut base: (Vec<Point>, Vec<f64>) = Default::default();
        let mut beside: (Vec<Point>, Vec<f64>) = Default::default();
        for &(kind, role) in references.keys() {
            beside.0.push(features.of_alone(kind, role));
            beside.1.push(0.0);
        }
        for (experiment, &performance) in measured.iter().filter(|(_, performance)| **performance > 0.0) {
            match experiment {
                Experiment::Base(placed) => {
                    base.0.push(features.of_base(placed));
                    base.1.push(performance.ln());
                }
                Experiment::Beside(at) => {
                    if let Some(alone) = references.get(&(at.kind, at.role)) {
                        beside.0.push(features.of_beside(at));
                        beside.1.push((performance / alone).ln());
                    }
                }
                Experiment::Across(_) | Experiment::Assignment(_) | Experiment::Kernel(_) => {}
            }
        }
        // What is expected far from all is what is usual.
        let usual = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        Completion {
            base: Gaussian::new(&base.0, &base.1, usual(&base.1), &surprises.base),
            beside: Gaussian::new(&beside.0, &beside.1, usual(&beside.1), &surprises.beside),
            features,
            references,
        }
    }

    /// The logarithm of the performance of an entry's target alone.
    pub fn alone(&self, beside: &Beside) -> Option<f64> {
        Some(self.references.get(&(beside.kind, beside.role))?.ln())
    }

    /// Notes how far what was expected of an entry is off.
    pub fn note_surprise(&self, experiment: &Experiment, performance: f64, surprises: &mut Surprises) {
        match (experiment, &self.base, &self.beside) {
            (Experiment::Base(placed), Some(base), _) => {
                let surprise = base.surprise(&self.features.of_base(placed), performance.ln());
                surprises.base.push(surprise);
            }
            (Experiment::Beside(at), _, Some(beside)) => {
                if let Some(alone) = self.alone(at) {
                    let surprise = beside.surprise(&self.features.of_beside(at), performance.ln() - alone);
                    surprises.beside.push(surprise);
                }
            }
            _ => {}
        }
    }

    /// The logarithm of an entry's performance. None where nothing is known that would tell.
    pub fn expect(&self, experiment: &Experiment) -> Option<Expected> {
        match experiment {
            Experiment::Base(placed) => Some(self.base.as_ref()?.expect(&self.features.of_base(placed))),
            Experiment::Beside(at) => {
                let alone = self.alone(at)?;
                if is_alone(at) {
                    return Some(Expected { mean: alone, sd: 0.0 });
                }
                let expected = self.beside.as_ref()?.expect(&self.features.of_beside(at));
                Some(Expected {
                    mean: alone + expected.mean,
                    ..expected
                })
            }
            Experiment::Across(_) | Experiment::Assignment(_) | Experiment::Kernel(_) => None,
        }
    }
}

/// Whether nothing runs beside the target.
pub(super) fn is_alone(beside: &Beside) -> bool {
    let bytes = beside.layout.0.to_le_bytes();
    bytes.iter().all(|&byte| byte == 0 || byte == TARGET)
}

impl Fallback for Completion {
    fn base(&self, placed: &[Leaf]) -> Option<f64> {
        let gaussian = self.base.as_ref()?;
        Some(gaussian.mean(&self.features.of_base(placed)).exp())
    }

    fn beside(&self, beside: &Beside) -> Option<f64> {
        let alone = *self.references.get(&(beside.kind, beside.role))?;
        if is_alone(beside) {
            return Some(alone);
        }
        let expected = self.beside.as_ref()?.mean(&self.features.of_beside(beside));
        Some(alone * expected.exp())
    }
}
