// SPDX-License-Identifier: GPL-2.0-only
//! How good the method is: the chosen assignment against the best of a sample, all of which is measured
//! (blackbox-scheduler, section 5, Figs. 7 to 9).

use serde::Serialize;
use threadwise_metrics::rank_correlation;

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
    /// How well predictions rank: Kendall's tau-b between predicted and measured performance, -1 to 1. None if there is no
    /// order to compare: fewer than two are predicted, or all alike, or all measured alike.
    pub rank_correlation: Option<f64>,
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
        rank_correlation: rank_correlation(&known_predicted, &known_measured).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_tie_are_accounted_for() {
        // Predicted 3, 2, 2, 1 and measured 4, 3, 2, 1: five of six pairs agree, one ties in a series; 5/sqrt(5·6).
        let order = [0, 1, 2, 3];
        let evaluation = compare(&order, &[3.0, 2.0, 2.0, 1.0], (&[4.0, 3.0, 2.0, 1.0], &[1.0]));
        let tau = evaluation.rank_correlation.unwrap();
        assert!((tau - 5.0 / 30f64.sqrt()).abs() < 1e-12, "{tau}");
    }

    #[test]
    fn what_has_no_order_has_no_rank_correlation() {
        // One that is predicted, none, and two that are predicted to be the same.
        for (order, predicted) in [
            (&[0][..], [2.0, f64::NAN]),
            (&[], [f64::NAN; 2]),
            (&[0, 1], [2.0; 2]),
        ] {
            let evaluation = compare(order, &predicted, (&[2.0, 1.0], &[1.0]));
            assert_eq!(evaluation.rank_correlation, None, "{predicted:?}");
        }
    }
}
