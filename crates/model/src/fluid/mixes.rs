// SPDX-License-Identifier: GPL-2.0-only
//! All pairs, or triples, of the paper's programs, and the means over them (thread-essence, section VIII).

use serde::Serialize;
use threadwise_workload::Ratio;

use super::{
    Error, Length, Machine, Outcome, Policy, Program, expectation, is_insensitive, most_total, play_out,
};

/// The programs of Table 7, from always parallel to always serial.
pub const PAPER_RATIOS: [&str; 9] = ["inf:1", "8:1", "4:1", "2:1", "1:1", "1:2", "1:4", "1:8", "1:inf"];

/// Means over all mixes, each with the same weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Average {
    /// How many mixes.
    pub nr_mixes: usize,
    /// Throughput of all programs together, in core units.
    pub total: f64,
    /// By how much that is above the baseline's, over the baseline's, mix by mix.
    pub gain: f64,
    /// The share of core time that is idle.
    pub idle: f64,
    /// Fairness (eq. 3).
    pub fairness: f64,
}

/// Means over all mixes of what no scheduler exceeds ([`most_total`]), each with the same weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Most {
    /// Throughput of all programs together, in core units.
    pub total: f64,
    /// By how much that is above the baseline's, over the baseline's, mix by mix.
    pub gain: f64,
}

/// All multisets of so many of the paper's nine ratios: 45 pairs, 165 triples.
///
/// # Errors
/// If `programs` is not 1 to 4.
pub fn mixes(programs: usize) -> Result<Vec<Vec<Ratio>>, Error> {
    if !(1..=4).contains(&programs) {
        return Err(Error::Mixes { programs });
    }
    let ratios = PAPER_RATIOS.map(|text| text.parse::<Ratio>());
    let ratios: Vec<Ratio> = ratios.into_iter().flatten().collect();
    let mut mixes: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..programs {
        let extended = |mix: &Vec<usize>| {
            let from = mix.last().copied().unwrap_or(0);
            let mix = mix.clone();
            (from..ratios.len()).map(move |next| [mix.as_slice(), &[next]].concat())
        };
        mixes = mixes.iter().flat_map(extended).collect();
    }
    let named = |mix: Vec<usize>| mix.into_iter().map(|index| ratios[index]).collect();
    Ok(mixes.into_iter().map(named).collect())
}

/// What a policy yields in the long run: by [`expectation`] where that holds for the benchmark's phases, else played out
/// for `length`.
///
/// # Errors
/// As [`expectation`] and [`play_out`].
pub fn long_run<P: Clone + Into<Program>>(
    machine: Machine,
    programs: &[P],
    policy: Policy,
    length: Length,
) -> Result<Outcome, Error> {
    let is_exact = match is_insensitive(machine, programs, policy) {
        Ok(is_insensitive) => is_insensitive,
        Err(Error::TooManyPrograms { .. } | Error::TooManyStates | Error::NoLongRun) => false,
        Err(error) => return Err(error),
    };
    if is_exact {
        return expectation(machine, programs, policy);
    }
    Ok(play_out(machine, programs, policy, length)?.outcome)
}

/// The means over all mixes of so many of the paper's programs, compared with `baseline`.
///
/// # Errors
/// As [`mixes`] and [`long_run`].
pub fn average(
    machine: Machine,
    programs: usize,
    policy: Policy,
    baseline: Policy,
    length: Length,
) -> Result<Average, Error> {
    let mixes = mixes(programs)?;
    let mut sum = Average {
        nr_mixes: mixes.len(),
        total: 0.0,
        gain: 0.0,
        idle: 0.0,
        fairness: 0.0,
    };
    for mix in &mixes {
        let outcome = long_run(machine, mix, policy, length)?;
        sum.total += outcome.total;
        sum.gain += outcome.total / long_run(machine, mix, baseline, length)?.total - 1.0;
        sum.idle += outcome.idle;
        sum.fairness += outcome.fairness()?;
    }
    let n = mixes.len() as f64;
    Ok(Average {
        total: sum.total / n,
        gain: sum.gain / n,
        idle: sum.idle / n,
        fairness: sum.fairness / n,
        ..sum
    })
}

/// The means over all mixes of what no scheduler exceeds, compared with `baseline`.
///
/// # Errors
/// As [`average`].
pub fn most(machine: Machine, programs: usize, baseline: Policy, length: Length) -> Result<Most, Error> {
    let mixes = mixes(programs)?;
    let mut sum = Most {
        total: 0.0,
        gain: 0.0,
    };
    for mix in &mixes {
        let total = most_total(machine, mix);
        sum.total += total;
        sum.gain += total / long_run(machine, mix, baseline, length)?.total - 1.0;
    }
    let n = mixes.len() as f64;
    Ok(Most {
        total: sum.total / n,
        gain: sum.gain / n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_multiset_is_there_once() {
        assert_eq!([1, 2, 3, 4].map(|k| mixes(k).unwrap().len()), [9, 45, 165, 495]);
        let names = |mix: &Vec<Ratio>| mix.iter().map(ToString::to_string).collect::<Vec<_>>();
        let pairs = mixes(2).unwrap();
        assert_eq!(names(&pairs[0]), ["inf:1", "inf:1"]);
        assert_eq!(names(&pairs[44]), ["1:inf", "1:inf"]);
        assert_eq!(mixes(0), Err(Error::Mixes { programs: 0 }));
        assert_eq!(mixes(5), Err(Error::Mixes { programs: 5 }));
    }
}
