// SPDX-License-Identifier: GPL-2.0-only
//! Throughput, speedup, fairness and jitter (thread-essence, section V).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::error::{Error, check_positive, in_range, mean, positive_in_range};

/// Work per second: `units` of work done in `seconds`.
///
/// The right measure for programs that wait actively, as instructions per cycle count the waiting too.
///
/// # Errors
/// If `seconds` is not finite and above zero.
pub fn throughput(units: u64, seconds: f64) -> Result<f64, Error> {
    check_positive("throughput", &[seconds], 1)?;
    in_range("throughput", units as f64 / seconds)
}

/// The performance of one program alone on the machine and together with others, in any one unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Performance {
    /// Alone; above zero.
    pub alone: f64,
    /// Together with others; above zero.
    pub together: f64,
}

impl Performance {
    /// Performance together with others over performance alone (eq. 2). Below 1 as a rule: the name is the paper's.
    ///
    /// # Errors
    /// If either performance is not finite and above zero.
    pub fn speedup(self) -> Result<f64, Error> {
        check_positive("speedup", &[self.together, self.alone], 2)?;
        positive_in_range("speedup", self.together / self.alone)
    }
}

/// Speedup from run times: the time alone over the mean of the times together with others (eq. 4, which has two of
/// these, one for each order of the programs in Fig. 6).
///
/// # Errors
/// If there is no time together, or a time is not finite and above zero.
pub fn speedup_from_times(alone: f64, together: &[f64]) -> Result<f64, Error> {
    const WHAT: &str = "speedup from times";
    check_positive(WHAT, &[alone], 1)?;
    check_positive(WHAT, together, 1)?;
    positive_in_range(WHAT, alone / mean(WHAT, together)?)
}

/// By how many percent a ratio is more than one, or, below zero, less.
pub fn percent_more(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// How evenly programs that run together are slowed down: the least ratio of two of their speedups, in (0, 1]
/// (eq. 3 for two programs; for more, the minimum over all pairs, which is the least speedup over the greatest).
///
/// # Errors
/// If there are fewer than two speedups or one is not finite and above zero.
pub fn fairness(speedups: &[f64]) -> Result<f64, Error> {
    check_positive("fairness", speedups, 2)?;
    let least = speedups.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = speedups.iter().copied().fold(0.0, f64::max);
    positive_in_range("fairness", least / greatest)
}

/// How much the run times of one program vary: the standard deviation of the times over their mean, at least 0 (eq. 5,
/// which divides by N and not N - 1). The paper's Table 9 shows it multiplied by 1000.
///
/// # Errors
/// If there are fewer than two times or one is not finite and above zero.
pub fn jitter(times: &[f64]) -> Result<f64, Error> {
    check_positive("jitter", times, 2)?;
    // Equal times have jitter 0 even if the rounded mean differs from them.
    if times.iter().all(|time| *time == times[0]) {
        return Ok(0.0);
    }
    let average = mean("jitter", times)?;
    let squares = times.iter().map(|time| (time / average - 1.0).powi(2));
    in_range("jitter", (squares.sum::<f64>() / times.len() as f64).sqrt())
}

/// A jitter (eq. 5) and where that of the process which the times were drawn from lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterSummary {
    /// As [`jitter`] gives it; at least 0.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval; far above the value if there are few times.
    pub high: f64,
}

/// The jitter with its interval: that of the standard deviation of normally distributed times, by the chi-squared
/// distribution with n - 1 degrees of freedom. The mean is taken as known, which for jitters below 0.1 changes little.
///
/// # Errors
/// As [`jitter`].
pub fn jitter_summary(times: &[f64]) -> Result<JitterSummary, Error> {
    const WHAT: &str = "jitter";
    let value = jitter(times)?;
    let n = times.len() as f64;
    let distribution = ChiSquared::new(n - 1.0).map_err(|_| Error::Range { what: WHAT })?;
    let end = |quantile: f64| in_range(WHAT, value * (n / distribution.inverse_cdf(quantile)).sqrt());
    Ok(JitterSummary {
        value,
        low: end(0.975)?,
        high: end(0.025)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(throughput(300, 2.0), Ok(150.0));
        assert_eq!(throughput(0, 2.0), Ok(0.0));
        assert_eq!(
            Performance {
                alone: 8.0,
                together: 4.0
            }
            .speedup(),
            Ok(0.5)
        );
        assert_eq!(speedup_from_times(10.0, &[15.0, 25.0]), Ok(0.5));
        assert_eq!(fairness(&[0.5, 0.8]), Ok(0.625));
        assert_eq!(fairness(&[0.8, 0.4, 0.5]), Ok(0.5));
        // Times 2, 4, 4, 4, 5, 5, 7, 9: mean 5, population standard deviation 2.
        let jitter = jitter(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((jitter - 0.4).abs() < 1e-15);
    }

    #[test]
    fn the_interval_of_jitter_is_that_of_the_printed_table() {
        // n = 10: chi-squared quantiles 19.023 and 2.700 with 9 degrees of freedom.
        let times: Vec<f64> = (1..=10).map(|i| 100.0 + f64::from(i)).collect();
        let summary = jitter_summary(&times).unwrap();
        assert_eq!(summary.value, jitter(&times).unwrap());
        assert!((summary.low / summary.value - (10.0f64 / 19.023).sqrt()).abs() < 1e-4);
        assert!((summary.high / summary.value - (10.0f64 / 2.700).sqrt()).abs() < 1e-3);
        assert!(jitter_summary(&[1.0]).is_err());
    }

    #[test]
    fn the_interval_of_jitter_holds_the_truth_as_often_as_it_says() {
        use rand_pcg::Pcg64;
        use rand_pcg::rand_core::Rng;
        // Times of mean 1 whose standard deviation is 0.05: sums of 12 uniform numbers are nearly normal.
        let mut random = Pcg64::new(1, 2);
        let mut uniform = move || random.next_u32() as f64 / f64::from(u32::MAX) - 0.5;
        let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>();
        let trials = 2000;
        let held = (0..trials)
            .filter(|_| {
                let times: Vec<f64> = (0..6).map(|_| 1.0 + 0.05 * normal()).collect();
                let summary = jitter_summary(&times).unwrap();
                summary.low <= 0.05 && 0.05 <= summary.high
            })
            .count();
        let share = held as f64 / f64::from(trials);
        assert!((0.93..0.97).contains(&share), "{share}");
    }

    #[test]
    fn bad_input_is_an_error_that_names_it() {
        assert_eq!(
            fairness(&[0.5]),
            Err(Error::TooFew {
                what: "fairness",
                n: 1,
                least: 2
            })
        );
        let zero = Error::NotPositive {
            what: "jitter",
            index: 1,
            value: 0.0,
        };
        assert_eq!(jitter(&[1.0, 0.0]), Err(zero.clone()));
        assert_eq!(zero.to_string(), "jitter: value 1 is 0, not above zero");
        assert!(speedup_from_times(1.0, &[]).is_err());
        assert!(throughput(1, 0.0).is_err());
        assert!(throughput(1, f64::NAN).is_err());
        assert!(throughput(u64::MAX, 1e-300).is_err());
        assert!(
            Performance {
                alone: f64::INFINITY,
                together: 1.0
            }
            .speedup()
            .is_err()
        );
        assert!(
            Performance {
                alone: 1.0,
                together: -1.0
            }
            .speedup()
            .is_err()
        );
    }

    fn sane() -> impl Strategy<Value = f64> {
        1e-3..1e6f64
    }

    /// Factors that change no rounding.
    fn power_of_two() -> impl Strategy<Value = f64> {
        (-40i32..40).prop_map(|exponent| 2f64.powi(exponent))
    }

    proptest! {
        #[test]
        fn fairness_is_in_range_symmetric_and_without_scale(
            mut speedups in vec(sane(), 2..6), scale in power_of_two()
        ) {
            let value = fairness(&speedups).unwrap();
            prop_assert!(0.0 < value && value <= 1.0);
            let scaled: Vec<f64> = speedups.iter().map(|speedup| speedup * scale).collect();
            prop_assert_eq!(fairness(&scaled).unwrap(), value);
            speedups.reverse();
            prop_assert_eq!(fairness(&speedups).unwrap(), value);
        }

        #[test]
        fn fairness_is_the_least_over_all_pairs(speedups in vec(sane(), 2..6)) {
            let mut least = f64::INFINITY;
            for (i, a) in speedups.iter().enumerate() {
                for b in &speedups[i + 1..] {
                    least = least.min((a / b).min(b / a));
                }
            }
            prop_assert_eq!(fairness(&speedups).unwrap(), least);
        }

        #[test]
        fn fairness_is_one_for_equal_speedups_only(a in sane(), b in sane()) {
            prop_assert_eq!(fairness(&[a, a]), Ok(1.0));
            prop_assert_eq!(fairness(&[a, b]) == Ok(1.0), a == b);
        }

        #[test]
        fn jitter_is_zero_for_equal_times_and_without_scale(
            times in vec(sane(), 2..20), scale in power_of_two(), n in 2usize..50
        ) {
            prop_assert_eq!(jitter(&vec![times[0]; n]), Ok(0.0));
            let value = jitter(&times).unwrap();
            prop_assert!(value >= 0.0);
            let scaled: Vec<f64> = times.iter().map(|time| time * scale).collect();
            prop_assert_eq!(jitter(&scaled).unwrap(), value);
        }

        #[test]
        fn the_two_speedups_agree(alone in sane(), together in sane()) {
            let by_time = speedup_from_times(1.0 / alone, &[1.0 / together, 1.0 / together]).unwrap();
            let by_performance = Performance { alone, together }.speedup().unwrap();
            prop_assert!((by_time / by_performance - 1.0).abs() < 1e-12);
        }

        #[test]
        fn whatever_the_input_no_nan_comes_out(values in vec(any::<f64>(), 0..5), x: f64, units: u64) {
            let results = [
                fairness(&values), jitter(&values), speedup_from_times(x, &values), throughput(units, x),
                Performance { alone: x, together: values.first().copied().unwrap_or(1.0) }.speedup(),
            ];
            for result in results.into_iter().flatten() {
                prop_assert!(result.is_finite());
            }
        }
    }
}
