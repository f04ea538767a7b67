// SPDX-License-Identifier: GPL-2.0-only
//! How good the method is: the chosen assignment against the best of a sample, all of which is measured
//! (blackbox-scheduler, section 5, Figs. 7 to 9).

use serde::Serialize;

use crate::campaign::{Campaign, CampaignError};
use crate::run::Runner;
use crate::{Experiment, Leaf, Predictor, Store};

/// Losses are shares of the best measured performance of the sample that are missed: 0 is none.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// Assignments that were measured.
    pub nr_assignments: usize,
    /// The best performance.
    pub best: f64,
    /// Loss of the assignment that was predicted to be the best.
    pub top1: f64,
    /// Loss of the best measured of the five that were predicted to be the best.
    pub top5: f64,
    /// How much better the best measured of the five is than the first: what the selection phase brings (Fig. 8).
    pub selection_gain: f64,
    /// Mean loss over the sample, in which each class of equal assignments has the same probability.
    pub naive_mean: f64,
    /// The largest loss.
    pub naive_worst: f64,
    /// Mean loss of the balanced assignments.
    pub balanced_mean: f64,
    /// Their largest.
    pub balanced_worst: f64,
    /// Assignments that the tables cannot predict; they are never chosen, and count in no figure of predictions.
    pub nr_unknown: usize,
    /// Mean error of the predictions, relative.
    pub prediction_error: f64,
    /// How well predictions rank: Kendall's tau between predicted and measured performance, -1 to 1.
    pub rank_correlation: f64,
}

/// Measures every assignment of a sample, and balanced ones beside it, and compares with the predictions.
///
/// # Errors
/// [`CampaignError`]. The sample must not be empty.
pub fn evaluate(
    campaign: &Campaign,
    predictor: &mut Predictor,
    (sample, balanced): (&[Vec<Leaf>], &[Vec<Leaf>]),
    runner: &mut dyn Runner,
    store: &Store,
) -> Result<Evaluation, CampaignError> {
    let experiment = |placed: &Vec<Leaf>| Experiment::Assignment(placed.clone());
    let experiments: Vec<_> = sample.iter().chain(balanced).map(experiment).collect();
    let runs = campaign.run(&experiments, runner, store, |_| {})?;
    let mean = |experiment| {
        runs.get(experiment)
            .map_or(f64::NAN, |runs| runs.iter().sum::<f64>() / runs.len() as f64)
    };
    let measured: Vec<f64> = experiments.iter().map(mean).collect();
    let predicted: Vec<f64> = sample.iter().map(|placed| predictor.predict(placed)).collect();
    let (measured, balanced) = measured.split_at(sample.len());
    let order = campaign.ranking(store)?.order(sample, &predicted);
    Ok(compare(&order, &predicted, (measured, balanced)))
}

/// `order` has the sample's assignments that are predicted, the best first.
fn compare(order: &[usize], predicted: &[f64], (measured, balanced): (&[f64], &[f64])) -> Evaluation {
    let best = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let loss = |performance: &f64| 1.0 - performance / best;
    let losses: Vec<f64> = measured.iter().map(loss).collect();
    let balanced: Vec<f64> = balanced.iter().map(loss).collect();
    let known = |values: &[f64]| order.iter().map(|&nr| values[nr]).collect::<Vec<_>>();
    let (known_predicted, known_measured) = (known(predicted), known(measured));
    let least = |so_many: usize| {
        let some = order.iter().take(so_many).map(|&nr| losses[nr]);
        some.fold(f64::INFINITY, f64::min)
    };
    let [top1, top5] = [1, 5].map(least);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let worst = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let errors: Vec<f64> = known_predicted
        .iter()
        .zip(&known_measured)
        .map(|(p, m)| (p / m - 1.0).abs())
        .collect();
    Evaluation {
        nr_assignments: measured.len(),
        best,
        top1,
        top5,
        selection_gain: (1.0 - top5) / (1.0 - top1) - 1.0,
        naive_mean: mean(&losses),
        naive_worst: worst(&losses),
        balanced_mean: mean(&balanced),
        balanced_worst: worst(&balanced),
        nr_unknown: measured.len() - order.len(),
        prediction_error: mean(&errors),
        rank_correlation: kendall(&known_predicted, &known_measured),
    }
}

/// Concordant less discordant pairs, as a share of all pairs (Kendall's tau a): pairs that tie are neither.
fn kendall(a: &[f64], b: &[f64]) -> f64 {
    let order = |values: &[f64], i: usize, j: usize| values[i].total_cmp(&values[j]) as i64;
    let (mut sum, mut pairs) = (0i64, 0u64);
    for i in 0..a.len() {
        for j in 0..i {
            sum += order(a, i, j) * order(b, i, j);
            pairs += 1;
        }
    }
    sum as f64 / pairs as f64
}
