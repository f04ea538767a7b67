// SPDX-License-Identifier: GPL-2.0-only
//! Percentiles of a sample.

use crate::error::{Error, check_finite};

/// The value below which `percent` % of `values` lie, in their unit: 0 is the least, 50 the median, 100 the greatest.
///
/// Interpolates linearly between the two nearest values in order (definition 7 of Hyndman and Fan, 1996, which is the
/// default of R and NumPy).
///
/// # Errors
/// If there is no value, one is not finite, or `percent` is not from 0 to 100.
pub fn percentile(values: &[f64], percent: f64) -> Result<f64, Error> {
    check_finite("percentile", values, 1)?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(Error::Percent { percent });
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let part = place.fract();
    // Written so that neither a difference overflows nor the result leaves the two values.
    Ok((below * (1.0 - part) + above * part).clamp(below, above))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (percent, value) in [
            (0.0, 15.0),
            (40.0, 29.0),
            (50.0, 35.0),
            (90.0, 46.0),
            (100.0, 50.0),
        ] {
            assert!(
                (percentile(&values, percent).unwrap() - value).abs() < 1e-12,
                "{percent} %"
            );
        }
        assert_eq!(percentile(&[3.0], 75.0), Ok(3.0));
        assert_eq!(percentile(&[4.0, 1.0, 3.0, 2.0], 50.0), Ok(2.5));
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(percentile(&[], 50.0), Err(Error::TooFew { .. })));
        assert!(matches!(
            percentile(&[1.0, f64::INFINITY], 50.0),
            Err(Error::NotFinite { index: 1, .. })
        ));
        for percent in [-1.0, 100.1, f64::NAN] {
            assert!(matches!(percentile(&[1.0], percent), Err(Error::Percent { .. })));
        }
    }

    proptest! {
        #[test]
        fn it_rises_with_the_percentage(values in vec(-1e9..1e9f64, 1..30), a in 0.0..100.0f64, b in 0.0..100.0f64) {
            let (least, greatest) = (percentile(&values, 0.0).unwrap(), percentile(&values, 100.0).unwrap());
            let low = percentile(&values, a.min(b)).unwrap();
            let high = percentile(&values, a.max(b)).unwrap();
            // Interpolation rounds.
            let slack = 1e-6;
            prop_assert!(least <= low && low <= high + slack && high <= greatest);
        }

        #[test]
        fn whatever_the_input_no_nan_comes_out(values in vec(any::<f64>(), 0..5), percent: f64) {
            if let Ok(value) = percentile(&values, percent) {
                prop_assert!(value.is_finite());
            }
        }
    }
}
