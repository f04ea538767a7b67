// SPDX-License-Identifier: GPL-2.0-only
//! The quantile behind every 95 % interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::error::{Error, in_range};

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Degrees of freedom above which the expansion about the normal quantile is the better one: statrs 0.19 inverts the
/// beta function, which is 7e-6 off at 100,000 and 0.05 off at 10,000,000. At 1000 the two agree to 3e-9.
const MANY: f64 = 1000.0;

/// How many standard errors a two-sided 95 % interval extends to each side: the 97.5 % quantile of Student's t with
/// `freedom` degrees of freedom, not necessarily a whole number.
pub(crate) fn t95(what: &'static str, freedom: f64) -> Result<f64, Error> {
    if freedom > MANY {
        return Ok(expansion(freedom));
    }
    let distribution = StudentsT::new(0.0, 1.0, freedom).map_err(|_| Error::Range { what })?;
    in_range(what, distribution.inverse_cdf(0.975))
}

/// How probable it is that a t statistic with `freedom` degrees of freedom exceeds `t`.
pub(crate) fn exceeds(what: &'static str, freedom: f64, t: f64) -> Result<f64, Error> {
    let distribution = StudentsT::new(0.0, 1.0, freedom).map_err(|_| Error::Range { what })?;
    in_range(what, distribution.sf(t))
}

/// The first terms of the expansion in powers of 1/`freedom` (Abramowitz and Stegun, 26.7.5).
fn expansion(freedom: f64) -> f64 {
    let first = (Z.powi(3) + Z) / 4.0;
    let second = (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0;
    Z + first / freedom + second / freedom.powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_table() {
        for (freedom, quantile) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (4.0, 2.776),
            (9.0, 2.262),
            (29.0, 2.045),
            (120.0, 1.980),
        ] {
            assert!(
                (t95("test", freedom).unwrap() - quantile).abs() < 6e-4,
                "{freedom}"
            );
        }
        assert!((t95("test", 10_000_000.0).unwrap() - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn the_two_ways_meet() {
        let (inverted, expanded) = (t95("test", 1000.0).unwrap(), expansion(1000.0));
        assert!((inverted - expanded).abs() < 1e-8, "{inverted} {expanded}");
    }

    #[test]
    fn without_freedom_there_is_no_interval() {
        assert!(t95("test", 0.0).is_err() && t95("test", f64::NAN).is_err());
    }
}
