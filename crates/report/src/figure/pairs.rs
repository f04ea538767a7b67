// SPDX-License-Identifier: GPL-2.0-only
//! A scheduler's gains over all pairs of programs: what the triangle and the contours show.

use threadwise_lab::evaluate::{Evaluation, RunResult};
use threadwise_lab::experiment::{Experiment, Program};
use threadwise_metrics::{RatioSummary, percent_more};

/// Fewer pairs make no picture.
const LEAST_PAIRS: usize = 3;

/// The gains of one scheduler.
pub(super) struct Pairs {
    pub scheduler: String,
    pub baseline: String,
    /// The distinct programs: of equal ones the first. Synthetic ones from the most parallel to the most serial.
    pub programs: Vec<String>,
    /// The gain of the programs with these indexes, the smaller second; none where they did not run together.
    cells: Vec<Vec<Option<RatioSummary>>>,
}

impl Pairs {
    /// The gain of two programs, in any order.
    pub fn gain(&self, a: usize, b: usize) -> Option<&RatioSummary> {
        self.cells[a.max(b)][a.min(b)].as_ref()
    }

    /// The largest gain or loss, in percent: the end of the scale.
    pub fn most(&self) -> f64 {
        let all = self.cells.iter().flatten().flatten();
        all.map(|gain| percent_more(gain.ratio).abs()).fold(1.0, f64::max)
    }

    /// Whether every pair has run.
    pub fn is_complete(&self) -> bool {
        (0..self.programs.len()).all(|a| (0..=a).all(|b| self.gain(a, b).is_some()))
    }
}

/// Those of every scheduler but the baseline, if enough programs ran in pairs.
pub(super) fn of_all(evaluation: &Evaluation) -> Vec<Pairs> {
    let experiment = &evaluation.measurement.experiment;
    let together: Vec<&RunResult> = evaluation.runs.iter().filter(|run| run.run.len() == 2).collect();
    let named = |run: &RunResult| -> Vec<&Program> {
        run.run.iter().map(|name| first_alike(experiment, name)).collect()
    };
    let mut programs: Vec<&Program> = Vec::new();
    for program in together.iter().flat_map(|run| named(run)) {
        if !programs.iter().any(|known| known.name == program.name) {
            programs.push(program);
        }
    }
    let serial_share = |program: &&Program| {
        let synthetic = program.synthetic.as_ref();
        synthetic.map_or(0.0, |synthetic| synthetic.ratio.serial_share())
    };
    programs.sort_by(|a, b| serial_share(a).total_cmp(&serial_share(b)));
    let schedulers = experiment.schedulers.iter().enumerate().skip(1);
    let pairs = schedulers.map(|(index, scheduler)| {
        let mut cells = vec![vec![None; programs.len()]; programs.len()];
        for run in &together {
            let places: Vec<usize> = named(run)
                .iter()
                .filter_map(|program| programs.iter().position(|known| known.name == program.name))
                .collect();
            if let [a, b] = places[..] {
                cells[a.max(b)][a.min(b)] = run.schedulers[index].over_baseline;
            }
        }
        Pairs {
            scheduler: scheduler.name.clone(),
            baseline: experiment.schedulers[0].name.clone(),
            programs: programs.iter().map(|program| program.name.clone()).collect(),
            cells,
        }
    });
    pairs
        .filter(|pairs| pairs.cells.iter().flatten().flatten().count() >= LEAST_PAIRS)
        .collect()
}

/// The first program of the experiment that differs from this one in its name only, which may be itself.
fn first_alike<'a>(experiment: &'a Experiment, name: &str) -> &'a Program {
    let program = experiment.program(name);
    let mut alike = experiment
        .programs
        .iter()
        .filter(|other| other.does_the_same_as(program));
    alike.next().unwrap_or(program)
}
