// SPDX-License-Identifier: GPL-2.0-only
//! Why a number cannot be computed.

/// What is wrong with the input. `what` names the metric, `index` counts from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The input has fewer values than the metric is defined for.
    #[error("{what} needs at least {least} values and got {n}")]
    TooFew {
        /// The metric.
        what: &'static str,
        /// How many values there are.
        n: usize,
        /// How many it takes.
        least: usize,
    },
    /// A value is NaN or infinite.
    #[error("{what}: value {index} is {value}, not a finite number")]
    NotFinite {
        /// The metric.
        what: &'static str,
        /// Its place in the input.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value is zero or less where only positive ones make sense.
    #[error("{what}: value {index} is {value}, not above zero")]
    NotPositive {
        /// The metric.
        what: &'static str,
        /// Its place in the input.
        index: usize,
        /// The value.
        value: f64,
    },
    /// Values that should come in pairs do not.
    #[error("{what}: {a} values cannot be paired with {b}")]
    Unpaired {
        /// The metric.
        what: &'static str,
        /// Values on the first side.
        a: usize,
        /// Values on the second side.
        b: usize,
    },
    /// A percentage is outside of 0 to 100.
    #[error("there is no percentile {percent}: ask for one from 0 to 100")]
    Percent {
        /// What was asked for.
        percent: f64,
    },
    /// A probability or a share is not strictly between 0 and 1.
    #[error("{what} is {value}: give a number above 0 and below 1")]
    Fraction {
        /// What the number says.
        what: &'static str,
        /// The number.
        value: f64,
    },
    /// The result is too large or too small for an `f64`.
    #[error("{what}: the result does not fit into a 64-bit floating-point number")]
    Range {
        /// The metric.
        what: &'static str,
    },
}

/// Checks that there are at least `least` values and that all are finite.
pub(crate) fn check_finite(what: &'static str, values: &[f64], least: usize) -> Result<(), Error> {
    if values.len() < least {
        return Err(Error::TooFew {
            what,
            n: values.len(),
            least,
        });
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(Error::NotFinite {
            what,
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Checks that there are at least `least` values and that all are finite and above zero.
pub(crate) fn check_positive(what: &'static str, values: &[f64], least: usize) -> Result<(), Error> {
    check_finite(what, values, least)?;
    match values.iter().position(|value| *value <= 0.0) {
        Some(index) => Err(Error::NotPositive {
            what,
            index,
            value: values[index],
        }),
        None => Ok(()),
    }
}

/// Checks that `value` is above 0 and below 1.
pub(crate) fn check_fraction(what: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value < 1.0 {
        Ok(())
    } else {
        Err(Error::Fraction { what, value })
    }
}

/// `result` if it is finite.
pub(crate) fn in_range(what: &'static str, result: f64) -> Result<f64, Error> {
    if result.is_finite() {
        Ok(result)
    } else {
        Err(Error::Range { what })
    }
}

/// `result` if it is finite and has not been rounded to zero.
pub(crate) fn positive_in_range(what: &'static str, result: f64) -> Result<f64, Error> {
    if result > 0.0 {
        in_range(what, result)
    } else {
        Err(Error::Range { what })
    }
}

/// The arithmetic mean of finite values; there is at least one.
pub(crate) fn mean(what: &'static str, values: &[f64]) -> Result<f64, Error> {
    in_range(what, values.iter().sum::<f64>() / values.len() as f64)
}
