// SPDX-License-Identifier: GPL-2.0-only
//! Whether two series of figures have the same order.

use crate::error::{Error, check_finite};

/// Kendall's tau-b (Biometrika 33, 1945): 1 if the two have the same order, -1 if the opposite, about 0 if they have nothing to
/// do with each other. Ties, of which rounded figures have many, are accounted for.
///
/// # Errors
/// If a figure is not finite, there are fewer than two pairs, the numbers differ, or all figures of a series are equal.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> Result<f64, Error> {
    const WHAT: &str = "rank correlation";
    check_finite(WHAT, a, 2)?;
    check_finite(WHAT, b, 2)?;
    if a.len() != b.len() {
        return Err(Error::Unpaired {
            what: WHAT,
            a: a.len(),
            b: b.len(),
        });
    }
    let (mut agreeing, mut differing_a, mut differing_b) = (0i64, 0i64, 0i64);
    for i in 0..a.len() {
        for j in 0..i {
            let (in_a, in_b) = (a[i].total_cmp(&a[j]) as i64, b[i].total_cmp(&b[j]) as i64);
            agreeing += in_a * in_b;
            differing_a += in_a.abs();
            differing_b += in_b.abs();
        }
    }
    if differing_a == 0 || differing_b == 0 {
        return Err(Error::Range { what: WHAT });
    }
    Ok(agreeing as f64 / (differing_a as f64 * differing_b as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_scipy() {
        // scipy.stats.kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]): -0.47140452079103173.
        let tau = rank_correlation(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((tau + 0.471_404_520_791_031_73).abs() < 1e-15, "{tau}");
        let up = [1.0, 2.0, 3.0];
        assert_eq!(rank_correlation(&up, &up), Ok(1.0));
        assert_eq!(rank_correlation(&up, &[3.0, 2.0, 1.0]), Ok(-1.0));
    }

    #[test]
    fn what_has_no_order_is_an_error() {
        for (a, b) in [
            (vec![1.0], vec![1.0]),
            (vec![1.0, 2.0], vec![1.0]),
            (vec![1.0, 2.0], vec![3.0, 3.0]),
            (vec![1.0, f64::NAN], vec![1.0, 2.0]),
        ] {
            assert!(rank_correlation(&a, &b).is_err(), "{a:?} {b:?}");
        }
    }
}
