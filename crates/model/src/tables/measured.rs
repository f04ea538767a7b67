// SPDX-License-Identifier: GPL-2.0-only
//! Equations 1 to 5, which are about quantities that are measured or given, not about n and a: here exactly, for what
//! [`threadwise_metrics`] computes from measurements.

use num_rational::BigRational;
use num_traits::{One, Zero};

use super::Error;
use super::speedup::number;

/// What an equation is given: how it calls it, and the values.
struct Given<'a> {
    equation: u32,
    takes: &'static str,
    values: &'a [BigRational],
}

impl Given<'_> {
    fn wrong(&self) -> Error {
        Error::Values {
            equation: self.equation,
            takes: self.takes,
        }
    }

    /// The values if there are at least so many, or exactly so many, and all are above 0.
    fn check(&self, least: usize, is_exact: bool) -> Result<&[BigRational], Error> {
        let n = self.values.len();
        let is_positive = self.values.iter().all(|value| *value > BigRational::zero());
        if n < least || (is_exact && n > least) || !is_positive {
            return Err(self.wrong());
        }
        Ok(self.values)
    }
}

fn mean(values: &[BigRational]) -> BigRational {
    values.iter().sum::<BigRational>() / BigRational::from_integer(values.len().into())
}

/// Parallel and serial part of a program's ratio, the smaller one 1, from its parallel and serial instructions (eq. 1).
///
/// # Errors
/// If there are not two values above 0, or no cores.
pub fn ratio(instructions: &[BigRational], cores: u32) -> Result<(BigRational, BigRational), Error> {
    let given = Given {
        equation: 1,
        takes: "I_p and I_s",
        values: instructions,
    };
    let [parallel, serial] = given.check(2, true)? else {
        return Err(given.wrong());
    };
    if cores == 0 {
        return Err(Error::Cores { cores });
    }
    let parallel = parallel / number(cores);
    let least = if parallel < *serial {
        parallel.clone()
    } else {
        serial.clone()
    };
    Ok((parallel / &least, serial / &least))
}

/// Performance together with others over performance alone (eq. 2), given in this order.
///
/// # Errors
/// If there are not two values above 0.
pub fn speedup(performances: &[BigRational]) -> Result<BigRational, Error> {
    let given = Given {
        equation: 2,
        takes: "the performance together with others and that alone",
        values: performances,
    };
    let values = given.check(2, true)?;
    Ok(&values[0] / &values[1])
}

/// The least speedup over the greatest (eq. 3; for more than two the least over all pairs).
///
/// # Errors
/// If there are not at least two values above 0.
pub fn fairness(speedups: &[BigRational]) -> Result<BigRational, Error> {
    let given = Given {
        equation: 3,
        takes: "two or more speedups",
        values: speedups,
    };
    let values = given.check(2, false)?;
    let extremes = values.iter().min().zip(values.iter().max());
    let (least, greatest) = extremes.ok_or_else(|| given.wrong())?;
    Ok(least / greatest)
}

/// The time alone, given first, over the mean of the times together with others (eq. 4).
///
/// # Errors
/// If there are not at least two values above 0.
pub fn speedup_from_times(times: &[BigRational]) -> Result<BigRational, Error> {
    let given = Given {
        equation: 4,
        takes: "the time alone and one or more times together with others",
        values: times,
    };
    let values = given.check(2, false)?;
    Ok(&values[0] / mean(&values[1..]))
}

/// The square of jitter (eq. 5), which is rational where jitter itself is not.
///
/// # Errors
/// If there are not at least two values above 0.
pub fn jitter_squared(times: &[BigRational]) -> Result<BigRational, Error> {
    let given = Given {
        equation: 5,
        takes: "two or more times",
        values: times,
    };
    let values = given.check(2, false)?;
    let average = mean(values);
    let squares: Vec<BigRational> = values
        .iter()
        .map(|time| {
            let off = time / &average - BigRational::one();
            &off * &off
        })
        .collect();
    Ok(mean(&squares))
}
