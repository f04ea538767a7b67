// SPDX-License-Identifier: GPL-2.0-only
//! How good the best of all thread assignments can be, as far as a random sample of them tells.
//!
//! The method is that of Radojković, Čakarević, Moretó, Verdú, Pajuelo, Cazorla, Nemirovsky and Valero, "Optimal Task
//! Assignment in Multithreaded Processors: A Statistical Approach", ASPLOS 2012: peaks over threshold. By the theorem
//! of Pickands, Balkema and de Haan (Coles, "An Introduction to Statistical Modeling of Extreme Values", 2001, Theorem
//! 4.1) the values above a high threshold follow a Generalized Pareto distribution, for nearly every distribution of
//! all values. The upper endpoint of the likeliest one estimates the best possible performance. Start at
//! [`best_possible`].
//!
//! A sample cannot show what it has no trace of: if a few assignments out of a million are far better than the rest and
//! none of them was drawn, the estimate does not know. [`chance_of_top`] says how likely such a miss is.

use serde::{Deserialize, Serialize};

use crate::error::{Error, check_fraction, check_positive, in_range};
use crate::pareto::{Exceedances, tolerance};

/// Fewest samples that [`best_possible`] accepts. An upper end of the interval often takes 1000 to 3000, and more if
/// the tail fades out slowly, as that of a sum of many parts does.
pub const NR_SAMPLES_MIN: usize = 100;

/// Fewest exceedances to fit two parameters to, unless ties leave no choice.
const NR_EXCEEDANCES_MIN: usize = 20;

/// The best performance that any assignment could have. Performances are in the unit of the samples; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestPossible {
    /// The best of the samples; above zero.
    pub observed: f64,
    /// The endpoint of the likeliest distribution, at least `observed`. `None` if that distribution has no endpoint
    /// (`shape` at least 0): the sample does not show where the performance ends.
    pub estimate: Option<f64>,
    /// Lower end of the interval; at least `observed`, and not above `estimate`.
    pub low: f64,
    /// Upper end of the interval, at least `estimate`. `None` if the sample does not rule out any performance, however
    /// high; an `estimate` is worth little then.
    pub high: Option<f64>,
    /// The performance above which samples count as the tail.
    pub threshold: f64,
    /// Number of samples above the threshold; 0 if all are equal.
    pub nr_exceedances: usize,
    /// ξ of the Generalized Pareto distribution, at least -1. At -1 the tail ends abruptly, and the best sample is the
    /// estimate.
    pub shape: f64,
    /// σ of the Generalized Pareto distribution, at least 0.
    pub scale: f64,
}

/// Estimates the best performance that any assignment could have from the performances of randomly drawn ones, with an
/// interval that holds it with the given `confidence`, such as 0.95.
///
/// The samples must be independent draws (with replacement) in which every assignment is equally likely.
///
/// * Threshold: n^(2/3)/ln(ln(n)) of the n samples are above it, and at least 20: 51 of 1000, 99 of 3000. This rule of
///   Loretan and Phillips, "Testing the Covariance Stationarity of Heavy-Tailed Time Series", Journal of Empirical
///   Finance 1(2), 1994, takes a smaller share of more samples, as the theorem asks for; with a fixed tenth the
///   intervals for some beta distributions get worse with more samples. If ties leave fewer than 20 above, it is the
///   next smaller value that occurs. A threshold chosen by the look of the mean excess plot, as in the paper, would
///   depend on who looks, and its uncertainty would be missing from the interval (Scarrott and MacDonald, "A Review of
///   Extreme Value Threshold Estimation and Uncertainty Quantification", REVSTAT 10(1), 2012).
/// * Fit: maximum likelihood (Coles, section 4.3.2) over the shapes from -1.
/// * Interval: the endpoints with a profile likelihood (Coles, section 2.6.6) that falls short of the greatest by at most
///   half the chi-squared quantile with 2 degrees of freedom. The paper has 1, which holds the truth too seldom.
/// * Ties above the threshold say that there are few outcomes, and the best may have been drawn already: the interval
///   then starts at the best sample. It also does if the likelihood contradicts every endpoint.
///
/// If all samples are equal, that value is the estimate and both ends of the interval, as it is the limit for samples
/// whose spread goes to zero: nothing says how much better an unseen assignment would be.
///
/// # Errors
/// If there are fewer than [`NR_SAMPLES_MIN`] samples, one is not finite and above zero, `confidence` is not between 0
/// and 1 (exclusive), or a result does not fit into an `f64`.
pub fn best_possible(samples: &[f64], confidence: f64) -> Result<BestPossible, Error> {
    const WHAT: &str = "best possible performance";
    check_positive(WHAT, samples, NR_SAMPLES_MIN)?;
    check_fraction("confidence", confidence)?;
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let observed = sorted[sorted.len() - 1];
    let (threshold, above) = tail(&sorted);
    if above.is_empty() {
        return Ok(no_spread(observed));
    }
    let (fit, ends) = Exceedances::new(above, threshold).endpoints(tolerance(confidence));
    let unit = observed - threshold;
    let performance = |headroom: f64| in_range(WHAT, observed + unit * headroom);
    Ok(BestPossible {
        observed,
        estimate: fit.headroom().map(performance).transpose()?,
        low: if has_ties(above) {
            observed
        } else {
            performance(ends.low)?
        },
        high: ends.high.map(performance).transpose()?,
        threshold,
        nr_exceedances: above.len(),
        shape: fit.shape,
        scale: in_range(WHAT, fit.scale * unit)?,
    })
}

/// The probability that at least one of `nr_samples` randomly drawn assignments is among the best `fraction` of all of
/// them: 1 - (1 - fraction)^nr_samples (Radojković et al., ASPLOS 2012), also where either is very small.
///
/// # Errors
/// If `fraction` is not between 0 and 1 (exclusive).
pub fn chance_of_top(nr_samples: u64, fraction: f64) -> Result<f64, Error> {
    check_fraction("share of the best assignments", fraction)?;
    Ok(-(nr_samples as f64 * (-fraction).ln_1p()).exp_m1())
}

/// The threshold and the samples above it; `sorted` is in ascending order.
fn tail(sorted: &[f64]) -> (f64, &[f64]) {
    let n = sorted.len() as f64;
    let wanted = ((n.powf(2.0 / 3.0) / n.ln().ln()) as usize).max(NR_EXCEEDANCES_MIN);
    let threshold = sorted[sorted.len() - 1 - wanted];
    let above = |threshold: f64| &sorted[sorted.partition_point(|sample| *sample <= threshold)..];
    if above(threshold).len() >= NR_EXCEEDANCES_MIN {
        return (threshold, above(threshold));
    }
    let nr_below = sorted.partition_point(|sample| *sample < threshold);
    let threshold = sorted[nr_below.saturating_sub(1)];
    (threshold, above(threshold))
}

/// Whether two of `sorted` are equal.
fn has_ties(sorted: &[f64]) -> bool {
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// What samples say that are all equal.
fn no_spread(observed: f64) -> BestPossible {
    BestPossible {
        observed,
        estimate: Some(observed),
        low: observed,
        high: Some(observed),
        threshold: observed,
        nr_exceedances: 0,
        shape: -1.0,
        scale: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn evenly(n: u32) -> Vec<f64> {
        (1..=n).map(|i| 1.0 + f64::from(i) / f64::from(n)).collect()
    }

    #[test]
    fn the_tail_is_a_smaller_share_of_more_samples() {
        let sorted = evenly(1000);
        let (threshold, above) = tail(&sorted);
        assert_eq!((threshold, above.len()), (sorted[948], 51));
        assert_eq!(tail(&evenly(100)).1.len(), 20);
        assert_eq!(tail(&evenly(3000)).1.len(), 99);
    }

    #[test]
    fn ties_move_the_threshold() {
        // 850 × 1, 120 × 2, 30 × 3: the 949th is a 2, and 30 are above it.
        let mut sorted = vec![1.0; 850];
        sorted.extend([2.0; 120]);
        sorted.extend([3.0; 30]);
        assert_eq!((tail(&sorted).0, tail(&sorted).1.len()), (2.0, 30));
        // With ten 3s only, the threshold has to go below the 2s.
        let sorted = &sorted[..980];
        assert_eq!((tail(sorted).0, tail(sorted).1.len()), (1.0, 130));
        // One value above many equal ones: there is nothing below to go to.
        let mut sorted = vec![1.0; 200];
        sorted.push(1.5);
        assert_eq!((tail(&sorted).0, tail(&sorted).1.len()), (1.0, 1));
    }

    #[test]
    fn many_equal_best_samples_are_the_bound() {
        // Simulated assignments with a handful of outcomes, the best of them often.
        let samples: Vec<f64> = (0..1000).map(|i| 10.0 + f64::from(i % 7)).collect();
        let best = best_possible(&samples, 0.95).unwrap();
        assert_eq!((best.observed, best.estimate, best.low), (16.0, Some(16.0), 16.0));
        assert!(best.high.unwrap() < 16.1, "{best:?}");
    }

    #[test]
    fn equal_samples_are_their_own_bound() {
        let best = best_possible(&[3.5; 100], 0.95).unwrap();
        assert_eq!((best.estimate, best.low, best.high), (Some(3.5), 3.5, Some(3.5)));
        assert_eq!((best.nr_exceedances, best.threshold), (0, 3.5));
    }

    #[test]
    fn bad_input_is_an_error_that_names_it() {
        let with = |value: f64| {
            let mut samples = evenly(200);
            samples[7] = value;
            best_possible(&samples, 0.95)
        };
        assert!(matches!(with(f64::NAN), Err(Error::NotFinite { index: 7, .. })));
        assert!(matches!(
            with(f64::INFINITY),
            Err(Error::NotFinite { index: 7, .. })
        ));
        assert!(matches!(with(0.0), Err(Error::NotPositive { index: 7, .. })));
        assert!(matches!(with(-1.0), Err(Error::NotPositive { index: 7, .. })));
        assert!(best_possible(&evenly(100), 0.95).is_ok());
        let few = best_possible(&evenly(99), 0.95).unwrap_err();
        assert_eq!(
            few.to_string(),
            "best possible performance needs at least 100 values and got 99"
        );
        for confidence in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
            assert!(matches!(
                best_possible(&evenly(200), confidence),
                Err(Error::Fraction { .. })
            ));
            assert!(chance_of_top(10, confidence).is_err());
        }
    }

    #[test]
    fn the_chance_of_the_top_is_that_of_the_paper() {
        // A sample of 300 holds one of the best percent with a probability of 95 %; see 0.99^300 = 0.0490.
        assert!((chance_of_top(300, 0.01).unwrap() - 0.950_96).abs() < 1e-5);
        assert_eq!(chance_of_top(0, 0.01), Ok(0.0));
        assert!((chance_of_top(1, 0.25).unwrap() - 0.25).abs() < 1e-15);
        assert_eq!(chance_of_top(u64::MAX, 0.5), Ok(1.0));
        // One minus the power of a number that rounds to 1 would be 0.
        assert!((chance_of_top(1000, 1e-18).unwrap() / 1e-15 - 1.0).abs() < 1e-12);
    }

    /// Ends of the range, ties, and everything in between.
    fn any_positive() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>()
                .prop_map(f64::abs)
                .prop_filter("positive", |value| *value > 0.0 && value.is_finite()),
            (1u32..5).prop_map(f64::from),
            0.9..1.1f64,
            Just(f64::MAX),
            Just(f64::from_bits(1)),
        ]
    }

    proptest! {
        #[test]
        fn order_and_unit_of_the_samples_do_not_matter(
            samples in vec(0.1..10.0f64, 100..300), exponent in -40i32..40
        ) {
            let best = best_possible(&samples, 0.95).unwrap();
            let mut other = samples.clone();
            other.reverse();
            other.rotate_left(samples.len() / 3);
            prop_assert_eq!(best_possible(&other, 0.95).unwrap(), best);
            // A power of two changes no rounding.
            let unit = 2f64.powi(exponent);
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * unit).collect();
            let scaled = best_possible(&scaled, 0.95).unwrap();
            prop_assert_eq!(scaled.estimate, best.estimate.map(|estimate| estimate * unit));
            prop_assert_eq!(scaled.high, best.high.map(|high| high * unit));
            prop_assert_eq!((scaled.low, scaled.scale), (best.low * unit, best.scale * unit));
            prop_assert_eq!((scaled.shape, scaled.nr_exceedances), (best.shape, best.nr_exceedances));
        }

        #[test]
        fn more_confidence_takes_a_wider_interval(samples in vec(0.1..10.0f64, 100..300)) {
            let [narrow, wide] = [0.5, 0.95].map(|confidence| best_possible(&samples, confidence).unwrap());
            prop_assert!(wide.low <= narrow.low);
            prop_assert!(wide.high.is_none_or(|wide| narrow.high.is_some_and(|narrow| narrow <= wide)));
        }

        #[test]
        fn whatever_the_samples_the_result_is_in_order(
            samples in vec(any_positive(), 100..250), confidence in 0.0..1.0f64
        ) {
            if let Ok(best) = best_possible(&samples, confidence) {
                let ends = [Some(best.observed), Some(best.low), best.estimate, best.high];
                let ends: Vec<f64> = ends.into_iter().flatten().collect();
                prop_assert!(ends.iter().all(|end| end.is_finite()), "{:?}", best);
                prop_assert!(ends.is_sorted(), "{:?}", best);
                prop_assert!(best.estimate.is_some() || best.high.is_none());
                prop_assert!(best.shape >= -1.0 && best.shape.is_finite() && best.scale.is_finite());
            }
        }

        #[test]
        fn the_chance_grows_with_samples_and_fraction(nr_samples in 0..10_000u64, fraction in 0.000_1..0.999f64) {
            let chance = chance_of_top(nr_samples, fraction).unwrap();
            prop_assert!((0.0..=1.0).contains(&chance));
            prop_assert!(chance_of_top(nr_samples + 1, fraction).unwrap() >= chance);
            prop_assert!((chance - (1.0 - (1.0 - fraction).powf(nr_samples as f64))).abs() < 1e-9);
        }
    }
}
