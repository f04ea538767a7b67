// SPDX-License-Identifier: GPL-2.0-only
//! The likeliest Generalized Pareto distribution of the values above a threshold, and how far its upper endpoint can be
//! moved before the likelihood falls too low.
//!
//! The distribution (Coles, "An Introduction to Statistical Modeling of Extreme Values", 2001, eq. 4.2) has a shape ξ
//! and a scale σ. A negative ξ gives it an endpoint, -σ/ξ above the threshold. Where that endpoint is fixed, the likeliest
//! shape has a closed form (Grimshaw, "Computing Maximum Likelihood Estimates for the Generalized Pareto Distribution",
//! Technometrics 35(2), 1993), which leaves a search in one dimension.
//!
//! Shapes below -1 are left out: their density grows without bound towards the endpoint, so that an endpoint just above
//! the largest value would always be the likeliest one (Coles, section 3.3.2).

/// The least shape: a uniform distribution.
const SHAPE_MIN: f64 = -1.0;

/// The search takes this many steps for each factor of two in the distance of the endpoint from the largest value.
const STEPS_PER_OCTAVE: i32 = 4;
/// Octaves below 1, down to the last bits of an `f64`.
const OCTAVES_BELOW: i32 = 45;
/// Octaves above 1. There is no endpoint in these; they matter to the shape and to how likely the likeliest is.
const OCTAVES_ABOVE: i32 = 32;

/// Steps that halve a bracket or take a third off it: down to 1e-15 and 2e-9 of its width.
const NR_REFINEMENTS: usize = 50;

/// The likeliest distribution among those with one endpoint. In units of the largest exceedance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The largest exceedance over the endpoint. 1: the endpoint is the largest value; 0: it is at infinity; below
    /// zero: there is none, and the shape is positive.
    pub closeness: f64,
    /// ξ, at least -1.
    pub shape: f64,
    /// σ, above zero.
    pub scale: f64,
    /// Natural logarithm of the likelihood.
    log_likelihood: f64,
}

impl Fit {
    /// How far the endpoint is above the largest value, if there is one; at least 0.
    pub(crate) fn headroom(&self) -> Option<f64> {
        (self.closeness > 0.0).then(|| (1.0 - self.closeness) / self.closeness)
    }
}

/// The endpoints that the exceedances do not contradict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Endpoints {
    /// How far the least is above the largest value; 0 if every endpoint is contradicted.
    pub low: f64,
    /// How far the greatest is above the largest value, if there is one.
    pub high: Option<f64>,
}

/// By how much the log-likelihood of an endpoint may fall short of the greatest at a `confidence` between 0 and 1.
///
/// Half the chi-squared quantile with 2 degrees of freedom, which has this closed form: the interval has the endpoints
/// in the joint likelihood region of shape and scale (Coles, Theorem 2.5). The usual 1 degree of freedom (Coles, Theorem
/// 2.6) is for shapes above -0.5 and many exceedances of an exact distribution: with 20 to 100 exceedances of beta
/// distributions, such 95 % intervals hold the endpoint 80 to 92 % of the time only. At shape -1 the 2 degrees of
/// freedom are exact: the shortfall of the true endpoint θ of m values is m·ln(θ/largest), which is exponentially
/// distributed with mean 1.
pub(crate) fn tolerance(confidence: f64) -> f64 {
    -(-confidence).ln_1p()
}

/// Exceedances over a threshold, each divided by the largest: in (0, 1], and one is 1.
#[derive(Clone, Debug)]
pub(crate) struct Exceedances(Vec<f64>);

impl Exceedances {
    /// Of `values` in ascending order, all above `threshold`; there is at least one.
    pub(crate) fn new(values: &[f64], threshold: f64) -> Self {
        let largest = values[values.len() - 1] - threshold;
        assert!(largest > 0.0, "an exceedance is above its threshold");
        Self(values.iter().map(|value| (value - threshold) / largest).collect())
    }

    /// The likeliest distribution with this closeness, which is at most 1.
    fn fit(&self, closeness: f64) -> Fit {
        let n = self.0.len() as f64;
        let mean = |term: &dyn Fn(f64) -> f64| self.0.iter().map(|value| term(*value)).sum::<f64>() / n;
        let (shape, scale) = if closeness == 0.0 {
            (0.0, mean(&|value| value))
        } else {
            let shape = mean(&|value| (-closeness * value).ln_1p()).max(SHAPE_MIN);
            (shape, -shape / closeness)
        };
        Fit {
            closeness,
            shape,
            scale,
            log_likelihood: -n * (scale.ln() + 1.0 + shape),
        }
    }

    /// Fits from closeness 1 down to far below zero.
    fn scan(&self) -> Vec<(f64, Fit)> {
        let steps = -OCTAVES_BELOW * STEPS_PER_OCTAVE..=OCTAVES_ABOVE * STEPS_PER_OCTAVE;
        let exponents = steps.map(|step| f64::from(step) / f64::from(STEPS_PER_OCTAVE));
        std::iter::once(f64::NEG_INFINITY)
            .chain(exponents)
            .map(|exponent| (exponent, self.fit(closeness(exponent))))
            .collect()
    }

    /// The likeliest of all distributions, and the endpoints whose log-likelihood falls short of its by at most
    /// `tolerance`.
    pub(crate) fn endpoints(&self, tolerance: f64) -> (Fit, Endpoints) {
        let scan = self.scan();
        let best = self.likeliest(&scan);
        let mut bounded: Vec<Fit> = scan.into_iter().map(|(_, fit)| fit).collect();
        bounded.push(best);
        bounded.retain(|fit| fit.closeness >= 0.0);
        bounded.sort_by(|a, b| b.closeness.total_cmp(&a.closeness));
        let accepts = |fit: &Fit| fit.log_likelihood >= best.log_likelihood - tolerance;
        let low = self.first(&bounded, accepts).and_then(|fit| fit.headroom());
        bounded.reverse();
        let high = if best.closeness > 0.0 {
            self.first(&bounded, accepts).and_then(|fit| fit.headroom())
        } else {
            None
        };
        (
            best,
            Endpoints {
                low: low.unwrap_or(0.0),
                high,
            },
        )
    }

    /// The likeliest of `scan`, improved between its neighbours.
    fn likeliest(&self, scan: &[(f64, Fit)]) -> Fit {
        let likelier = |a: usize, b: usize| scan[b].1.log_likelihood > scan[a].1.log_likelihood;
        let at = (1..scan.len()).fold(0, |best, next| if likelier(best, next) { next } else { best });
        // At closeness 1 the shape is -1, and the likelihood falls to the other side.
        if at < 2 || at + 1 == scan.len() {
            return scan[at].1;
        }
        let (mut from, mut to) = (scan[at - 1].0, scan[at + 1].0);
        let mut best = scan[at].1;
        for _ in 0..NR_REFINEMENTS {
            let third = (to - from) / 3.0;
            let [left, right] = [from + third, to - third].map(|exponent| self.fit(closeness(exponent)));
            if left.log_likelihood < right.log_likelihood {
                from += third;
            } else {
                to -= third;
            }
            for fit in [left, right] {
                if fit.log_likelihood > best.log_likelihood {
                    best = fit;
                }
            }
        }
        best
    }

    /// Where, going along `fits`, the first acceptable one is; on the acceptable side of the boundary.
    fn first(&self, fits: &[Fit], accepts: impl Fn(&Fit) -> bool) -> Option<Fit> {
        let at = fits.iter().position(&accepts)?;
        let mut inside = fits[at];
        if at == 0 {
            return Some(inside);
        }
        let mut outside = fits[at - 1].closeness;
        for _ in 0..NR_REFINEMENTS {
            let middle = self.fit(outside + (inside.closeness - outside) / 2.0);
            if accepts(&middle) {
                inside = middle;
            } else {
                outside = middle.closeness;
            }
        }
        Some(inside)
    }
}

/// Even steps of `exponent` are fine where an endpoint is near the largest value, and coarse where it is far away.
fn closeness(exponent: f64) -> f64 {
    1.0 - exponent.exp2()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The logarithm of the density (Coles, eq. 4.10), written without the closed form.
    fn log_likelihood(values: &[f64], shape: f64, scale: f64) -> f64 {
        let term = |value: &f64| {
            let inner = 1.0 + shape * value / scale;
            if inner <= 0.0 {
                return f64::NEG_INFINITY;
            }
            -scale.ln() - (1.0 + 1.0 / shape) * inner.ln()
        };
        values.iter().map(term).sum()
    }

    /// Exceedances from fractions of the largest, which is added.
    fn exceedances(mut values: Vec<f64>) -> Exceedances {
        values.push(1.0);
        values.sort_by(f64::total_cmp);
        Exceedances::new(&values, 0.0)
    }

    #[test]
    fn the_tolerance_is_that_of_the_printed_table() {
        // Chi-squared quantiles 5.991 and 9.210.
        assert!((tolerance(0.95) - 5.991 / 2.0).abs() < 5e-4);
        assert!((tolerance(0.99) - 9.210 / 2.0).abs() < 5e-4);
    }

    #[test]
    fn evenly_spread_values_look_uniform_and_end_at_the_largest() {
        let even = exceedances((1..50).map(|i| f64::from(i) / 50.0).collect());
        let (best, ends) = even.endpoints(tolerance(0.95));
        assert_eq!((best.closeness, best.shape, best.scale), (1.0, -1.0, 1.0));
        assert_eq!(ends.low, 0.0);
        // Uniform distributions are likely enough up to 50·ln(θ) = 2.9957, and others a little further.
        let uniform = (2.9957f64 / 50.0).exp() - 1.0;
        let high = ends.high.unwrap();
        assert!(uniform < high && high < 2.0 * uniform, "{high} {uniform}");
    }

    #[test]
    fn quantiles_give_their_shape_back() {
        for shape in [-0.4, -0.2, 0.3] {
            let quantile = |i: u32| ((f64::from(i) / 5000.0).powf(-shape) - 1.0) / shape;
            let mut values: Vec<f64> = (1..5000).map(quantile).collect();
            values.sort_by(f64::total_cmp);
            let (best, ends) = Exceedances::new(&values, 0.0).endpoints(tolerance(0.95));
            assert!((best.shape - shape).abs() < 0.01, "{shape}: {best:?}");
            assert_eq!(best.headroom().is_some(), shape < 0.0);
            assert_eq!(ends.high.is_some(), shape < 0.0);
        }
    }

    proptest! {
        #[test]
        fn the_closed_form_is_the_likelihood(values in vec(0.001..1.0f64, 5..40), closeness in -3.0..0.99f64) {
            let exceedances = exceedances(values);
            let fit = exceedances.fit(closeness);
            prop_assume!(fit.shape.abs() > 1e-3);
            let direct = log_likelihood(&exceedances.0, fit.shape, fit.scale);
            if fit.shape > -1.0 {
                prop_assert!((fit.log_likelihood - direct).abs() < 1e-6 * direct.abs().max(1.0));
            }
        }

        #[test]
        fn nothing_is_likelier(values in vec(0.001..1.0f64, 5..40), shape in -1.0..2.0f64, scale in 0.01..3.0f64) {
            prop_assume!(shape.abs() > 1e-3);
            let exceedances = exceedances(values);
            let (best, _) = exceedances.endpoints(tolerance(0.95));
            prop_assert!(log_likelihood(&exceedances.0, shape, scale) <= best.log_likelihood + 1e-9);
        }

        #[test]
        fn the_interval_holds_the_likeliest(values in vec(0.001..1.0f64, 0..40)) {
            let (best, ends) = exceedances(values).endpoints(tolerance(0.95));
            prop_assert!(ends.low >= 0.0);
            if let Some(headroom) = best.headroom() {
                prop_assert!(ends.low <= headroom && ends.high.is_none_or(|high| headroom <= high));
            }
        }
    }
}
