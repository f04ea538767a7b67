// SPDX-License-Identifier: GPL-2.0-only
//! Means and paired ratios with their 95 % confidence intervals.

use serde::{Deserialize, Serialize};

use crate::error::{Error, check_finite, check_positive, in_range, mean, positive_in_range};
use crate::student::{exceeds, t95};

/// A sample, and where the mean of what it was drawn from lies with 95 % confidence: `mean` ± `ci95`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values, at least 2.
    pub n: usize,
    /// Arithmetic mean, in the unit of the values.
    pub mean: f64,
    /// Standard deviation of the sample (with n - 1), in the unit of the values.
    pub sd: f64,
    /// Half the width of the interval by Student's t: t(0.975, n - 1)·sd/√n. Exact for normally distributed values.
    pub ci95: f64,
}

impl Summary {
    /// Summarises independent `values`.
    ///
    /// # Errors
    /// If there are fewer than two values (one has no spread), or one is not finite.
    pub fn of(values: &[f64]) -> Result<Self, Error> {
        const WHAT: &str = "summary";
        check_finite(WHAT, values, 2)?;
        let n = values.len();
        let mean = mean(WHAT, values)?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = in_range(WHAT, (squares / (n as f64 - 1.0)).sqrt())?;
        let ci95 = in_range(WHAT, t95(WHAT, n as f64 - 1.0)? * sd / (n as f64).sqrt())?;
        Ok(Self { n, mean, sd, ci95 })
    }

    /// Lower end of the interval.
    pub fn low(&self) -> f64 {
        self.mean - self.ci95
    }

    /// Upper end of the interval.
    pub fn high(&self) -> f64 {
        self.mean + self.ci95
    }
}

/// The ratio of two series with its 95 % interval, which is not symmetric about the ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioSummary {
    /// Geometric mean of the pairs' ratios, or ratio of the series' geometric means; above zero.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of pairs, or of values in the shorter of two independent series; at least 2.
    pub n: usize,
    /// Degrees of freedom of independent series (Welch's, at least 1, seldom a whole number); none for pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub welch_freedom: Option<f64>,
}

impl RatioSummary {
    /// Degrees of freedom of the t distribution behind the interval, at least 1: n - 1 for pairs.
    pub fn freedom(&self) -> f64 {
        self.welch_freedom.unwrap_or(self.n as f64 - 1.0)
    }

    /// Whether 1 is outside of the interval: the two series differ, at the 5 % level.
    pub fn excludes_one(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// How probable it is to see a ratio this far from 1 if the true one is at most `least` from it, 0.01 being 1 % more or
    /// less: a two-sided t test of the logarithms. With `least` 0 it is below 0.05 just when the interval excludes 1.
    ///
    /// # Errors
    /// If `least` is negative or not finite.
    pub fn p(&self, least: f64) -> Result<f64, Error> {
        const WHAT: &str = "least change";
        check_finite(WHAT, &[least], 1)?;
        if least < 0.0 {
            return Err(Error::NotPositive {
                what: WHAT,
                index: 0,
                value: least,
            });
        }
        let (distance, least) = (self.ratio.ln().abs(), least.ln_1p());
        let error = (self.high.ln() - self.low.ln()) / 2.0 / t95(WHAT, self.freedom())?;
        if error == 0.0 {
            return Ok(if distance <= least { 1.0 } else { 0.0 });
        }
        let beyond = |statistic: f64| exceeds(WHAT, self.freedom(), statistic / error);
        Ok((beyond(distance - least)? + beyond(distance + least)?).min(1.0))
    }
}

/// The ratio a/b of values measured in pairs, such as the throughputs of two schedulers in the same boot.
///
/// A t interval of the logarithms of the pairs' ratios, carried back: exact for ratios with a log-normal distribution,
/// and b/a has the reciprocal interval.
///
/// # Errors
/// If the series differ in length, have fewer than two values, or contain one that is not finite and above zero.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Result<RatioSummary, Error> {
    const WHAT: &str = "paired ratio";
    if a.len() != b.len() {
        return Err(Error::Unpaired {
            what: WHAT,
            a: a.len(),
            b: b.len(),
        });
    }
    check_positive(WHAT, a, 2)?;
    check_positive(WHAT, b, 2)?;
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| log_ratio(*a, *b)).collect();
    let log = Summary::of(&logs)?;
    Ok(RatioSummary {
        ratio: positive_in_range(WHAT, log.mean.exp())?,
        low: in_range(WHAT, log.low().exp())?,
        high: in_range(WHAT, log.high().exp())?,
        n: log.n,
        welch_freedom: None,
    })
}

/// The ratio a/b of values that were measured independently, such as an assignment's and those of others.
///
/// A t interval of the difference of the means of the logarithms, with the degrees of freedom of Welch (Biometrika 34,
/// 1947) and Satterthwaite: the series may differ in how far they spread and in length.
///
/// # Errors
/// If a series has fewer than two values, or one that is not finite and above zero.
pub fn independent_ratio(a: &[f64], b: &[f64]) -> Result<RatioSummary, Error> {
    const WHAT: &str = "independent ratio";
    let logs = |values: &[f64]| {
        check_positive(WHAT, values, 2)?;
        Summary::of(&values.iter().map(|value| value.ln()).collect::<Vec<_>>())
    };
    let (log_a, log_b) = (logs(a)?, logs(b)?);
    let error = (squared_error(&log_a) + squared_error(&log_b)).sqrt();
    let freedom = welch_freedom(&log_a, &log_b);
    let (log, half) = (log_a.mean - log_b.mean, t95(WHAT, freedom)? * error);
    Ok(RatioSummary {
        ratio: positive_in_range(WHAT, log.exp())?,
        low: in_range(WHAT, (log - half).exp())?,
        high: in_range(WHAT, (log + half).exp())?,
        n: a.len().min(b.len()),
        welch_freedom: Some(freedom),
    })
}

/// Of the mean.
fn squared_error(sample: &Summary) -> f64 {
    sample.sd.powi(2) / sample.n as f64
}

/// Degrees of freedom of the difference of two means (Satterthwaite, Biometrics Bulletin 2, 1946): from those of the shorter
/// sample to those of both together, which it has where neither spreads.
fn welch_freedom(a: &Summary, b: &Summary) -> f64 {
    let (freedom_a, freedom_b) = (a.n as f64 - 1.0, b.n as f64 - 1.0);
    let (error_a, error_b) = (squared_error(a), squared_error(b));
    if error_a + error_b == 0.0 {
        return freedom_a + freedom_b;
    }
    // As shares, which do not underflow when they are squared.
    let share_a = error_a / (error_a + error_b);
    1.0 / (share_a.powi(2) / freedom_a + (1.0 - share_a).powi(2) / freedom_b)
}

/// ln(a/b), also where the quotient would overflow, and exactly antisymmetric.
fn log_ratio(a: f64, b: f64) -> f64 {
    a.ln() - b.ln()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    use super::*;

    #[test]
    fn a_textbook_sample() {
        // Student's sleep data (1908), second drug: mean 2.33, s 2.002; 95 % interval 0.90 to 3.76.
        let summary = Summary::of(&[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]).unwrap();
        assert_eq!(summary.n, 10);
        assert!((summary.mean - 2.33).abs() < 1e-12);
        assert!((summary.sd - 2.002_249).abs() < 1e-6);
        assert!((summary.low() - 0.897_68).abs() < 1e-4 && (summary.high() - 3.762_32).abs() < 1e-4);
    }

    #[test]
    fn ratios_have_the_interval_of_their_logarithms() {
        // Ratios e^0.1, e^0.2, e^0.3: mean of logs 0.2, standard error 0.1/√3, t = 4.30265.
        let a = [0.1f64, 0.2, 0.3].map(f64::exp);
        let summary = paired_ratio(&a, &[1.0; 3]).unwrap();
        let half = 4.302_653 * 0.1 / 3f64.sqrt();
        assert!((summary.ratio - 0.2f64.exp()).abs() < 1e-12);
        assert!((summary.low - (0.2 - half).exp()).abs() < 1e-6);
        assert!((summary.high - (0.2 + half).exp()).abs() < 1e-6);
        assert!(!summary.excludes_one());
    }

    #[test]
    fn a_clear_difference_excludes_one() {
        let summary = paired_ratio(&[1.10, 1.11, 1.09], &[1.0; 3]).unwrap();
        assert!(summary.excludes_one());
        let less = paired_ratio(&[1.0; 3], &[1.10, 1.11, 1.09]).unwrap();
        assert!(less.excludes_one());
        assert!(!paired_ratio(&[3.0; 4], &[3.0; 4]).unwrap().excludes_one());
    }

    #[test]
    fn p_values_are_those_of_the_t_test() {
        // Logarithms 0.1, 0.2, 0.3: t = 0.2/(0.1/sqrt 3) = 3.4641 with 2 degrees of freedom, p = 0.07418.
        let summary = paired_ratio(&[0.1f64, 0.2, 0.3].map(f64::exp), &[1.0; 3]).unwrap();
        assert!((summary.p(0.0).unwrap() - 0.074_18).abs() < 1e-4);
        // Against up to e^0.1: t = 1.7320 and 5.1962; 0.112702 + 0.017546.
        let beyond = summary.p(0.1f64.exp() - 1.0).unwrap();
        assert!((beyond - 0.130_25).abs() < 1e-4, "{beyond}");
        assert!(summary.p(-0.1).is_err() && summary.p(f64::NAN).is_err());
        let same = paired_ratio(&[3.0; 4], &[3.0; 4]).unwrap();
        let double = paired_ratio(&[6.0; 4], &[3.0; 4]).unwrap();
        assert_eq!(
            (same.p(0.0), double.p(0.5), double.p(1.5)),
            (Ok(1.0), Ok(0.0), Ok(1.0))
        );
    }

    #[test]
    fn independent_series_have_the_freedom_of_welch() {
        // Logarithms 1, 2, 3, 4, 5 and 2, 4, 6: squared errors 2.5/5 = 0.5 and 4/3, together 1.8333;
        // freedom 1.8333²/(0.5²/4 + 1.3333²/2) = 3.5328; t = -1/sqrt 1.8333 = -0.73855.
        let logs = |values: &[f64]| values.iter().map(|log| log.exp()).collect::<Vec<_>>();
        let summary = independent_ratio(&logs(&[1.0, 2.0, 3.0, 4.0, 5.0]), &logs(&[2.0, 4.0, 6.0])).unwrap();
        assert!((summary.freedom() - 3.532_85).abs() < 1e-4, "{summary:?}");
        assert!((summary.ratio.ln() + 1.0).abs() < 1e-9 && summary.n == 3);
        assert!(!summary.excludes_one());
        // Equal variances of three values each: 4, t = 2.776, where the shorter one's 2 would have 4.303.
        let (a, b) = (logs(&[0.1, 0.2, 0.3]), logs(&[0.0, -0.1, 0.1]));
        let summary = independent_ratio(&a, &b).unwrap();
        assert!((summary.freedom() - 4.0).abs() < 1e-9, "{summary:?}");
        let half = 2.776_445 * (0.02_f64 / 3.0).sqrt();
        assert!((summary.high.ln() - 0.2 - half).abs() < 1e-6, "{summary:?}");
        // t = 2.44949 with 4 degrees of freedom: p = 0.0705.
        assert!((summary.p(0.0).unwrap() - 0.0705).abs() < 1e-4);
        // Without any spread, those of both.
        assert_eq!(independent_ratio(&[3.0; 4], &[3.0; 3]).unwrap().freedom(), 5.0);
        // Pairs have none of it, and are written as they were before.
        let pairs = paired_ratio(&a, &b).unwrap();
        assert_eq!((pairs.freedom(), pairs.welch_freedom), (2.0, None));
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(Summary::of(&[]), Err(Error::TooFew { .. })));
        assert!(matches!(Summary::of(&[1.0]), Err(Error::TooFew { .. })));
        assert!(matches!(
            Summary::of(&[1.0, f64::NAN]),
            Err(Error::NotFinite { index: 1, .. })
        ));
        assert!(matches!(
            Summary::of(&[f64::MAX, f64::MAX]),
            Err(Error::Range { .. })
        ));
        assert!(matches!(
            paired_ratio(&[1.0, 2.0], &[1.0]),
            Err(Error::Unpaired { a: 2, b: 1, .. })
        ));
        assert!(matches!(
            paired_ratio(&[1.0, 0.0], &[1.0; 2]),
            Err(Error::NotPositive { index: 1, .. })
        ));
        assert!(paired_ratio(&[], &[]).is_err());
    }

    /// A standard normal draw by Box and Muller.
    fn normal(generator: &mut Pcg64) -> f64 {
        let mut unit = || ((generator.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos()
    }

    /// How often in `draws` samples of `n` values the interval holds the true mean.
    fn coverage(n: usize, draws: usize) -> f64 {
        let mut generator = Pcg64::new(n as u128, 1);
        let covers = |_: &usize| {
            let sample: Vec<f64> = (0..n).map(|_| 10.0 + 3.0 * normal(&mut generator)).collect();
            let summary = Summary::of(&sample).unwrap();
            (summary.low()..=summary.high()).contains(&10.0)
        };
        (0..draws).filter(covers).count() as f64 / draws as f64
    }

    #[test]
    fn intervals_cover_the_true_mean() {
        for n in [2, 5, 12] {
            let share = coverage(n, 10_000);
            assert!((0.93..=0.97).contains(&share), "n = {n}: {share}");
        }
    }

    proptest! {
        #[test]
        fn p_and_the_interval_agree(values in vec(0.5..2.0f64, 2..12)) {
            let summary = paired_ratio(&values, &vec![1.0; values.len()]).unwrap();
            let p = summary.p(0.0).unwrap();
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - 0.05).abs() < 1e-6 || (p < 0.05) == summary.excludes_one());
            prop_assert!(p <= summary.p(0.01).unwrap() + 1e-12);
        }

        #[test]
        fn welch_is_between_the_shorter_series_and_both(a in vec(1e-9..1e9f64, 2..9), b in vec(1e-9..1e9f64, 2..9)) {
            let (freedom_a, freedom_b) = (a.len() as f64 - 1.0, b.len() as f64 - 1.0);
            let freedom = independent_ratio(&a, &b).unwrap().freedom();
            prop_assert!(freedom >= freedom_a.min(freedom_b) - 1e-9 && freedom <= freedom_a + freedom_b + 1e-9);
        }

        #[test]
        fn the_ratio_of_a_to_b_is_the_reciprocal_of_that_of_b_to_a(pairs in vec((0.1..10.0f64, 0.1..10.0f64), 2..10)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (ab, ba) = (paired_ratio(&a, &b).unwrap(), paired_ratio(&b, &a).unwrap());
            prop_assert!(ab.low <= ab.ratio && ab.ratio <= ab.high);
            for (x, y) in [(ab.ratio, ba.ratio), (ab.low, ba.high), (ab.high, ba.low)] {
                prop_assert!((x * y - 1.0).abs() < 1e-9);
            }
            prop_assert_eq!(ab.excludes_one(), ba.excludes_one());
        }

        #[test]
        fn whatever_the_input_no_nan_comes_out(a in vec(any::<f64>(), 0..5), b in vec(any::<f64>(), 0..5)) {
            if let Ok(summary) = Summary::of(&a) {
                prop_assert!(summary.mean.is_finite() && summary.sd.is_finite() && summary.ci95.is_finite());
            }
            if let Ok(ratio) = paired_ratio(&a, &b) {
                prop_assert!(ratio.ratio.is_finite() && ratio.low.is_finite() && ratio.high.is_finite());
            }
        }

        #[test]
        fn extreme_pairs_give_no_nan(pairs in vec((1e-300..1e300f64, 1e-300..1e300f64), 2..5)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            if let Ok(ratio) = paired_ratio(&a, &b) {
                prop_assert!(ratio.ratio > 0.0 && ratio.high.is_finite());
            }
        }
    }
}
