// SPDX-License-Identifier: GPL-2.0-only
//! The fluid model solved exactly: the chain of joint phases (thread-essence, Fig. 3).

use std::collections::BTreeMap;

use super::joint::{Joint, Speeds};
use super::program::Load;
use super::{Error, Machine, Outcome, Policy, Program};

/// The most programs that [`expectation`] takes: of the paper's, five have 326 states with seniority.
pub const MAX_EXPECTED_PROGRAMS: usize = 5;

/// Programs with many phases have many joint phases; the equations of so many are solved within a second.
const MAX_STATES: usize = 1000;

/// The long-run throughputs of `programs` if each phase has an exponential length of its own: the stationary
/// distribution of a Markov chain of joint phases. No randomness, no seed.
///
/// Where [`is_insensitive`] says so, lengths of any distribution give the same, those of the benchmark included. With
/// seniority they give more, and only [`super::play_out`] tells how much.
///
/// # Errors
/// If there is no program, or more than [`MAX_EXPECTED_PROGRAMS`], or they have more than a thousand joint phases, or
/// the chain has no single long-run average; and for [`Policy::Clairvoyant`], as no state says what is left of a phase.
pub fn expectation<P: Clone + Into<Program>>(
    machine: Machine,
    programs: &[P],
    policy: Policy,
) -> Result<Outcome, Error> {
    let programs: Vec<Program> = programs.iter().cloned().map(Into::into).collect();
    let chain = Chain::explore(machine, &programs, policy)?;
    let shares = stationary(&chain)?;
    let mean = |of: &dyn Fn(&Speeds) -> f64| -> f64 {
        shares
            .iter()
            .zip(&chain.speeds)
            .map(|(share, speeds)| share * of(speeds))
            .sum()
    };
    let together: Vec<f64> = (0..programs.len())
        .map(|program| mean(&|speeds| speeds.of[program]))
        .collect();
    let idle = mean(&|speeds| f64::from(speeds.idle_cores)) / f64::from(machine.cores());
    Ok(Outcome::new(machine, &programs, &together, idle))
}

/// Whether the long-run throughputs of `programs` depend on nothing but the mean lengths of their phases, whatever the
/// distribution of these and also if the phases of a round have one draw, as in Fig. 4.
///
/// So it is if in the long run, in each joint state of the others, a program leaves each of its phases equally often
/// (Whittle, Partial balance and insensitivity, Journal of Applied Probability 22, 1985). For the paper's programs that is so
/// where neither speed nor priority depends on the order of entry: with phases unknown and with serial boost.
///
/// # Errors
/// As [`expectation`], but for a policy that needs to be played out.
pub fn is_insensitive<P: Clone + Into<Program>>(
    machine: Machine,
    programs: &[P],
    policy: Policy,
) -> Result<bool, Error> {
    if policy.has_seniority() || policy.is_clairvoyant() {
        return Ok(false);
    }
    let programs: Vec<Program> = programs.iter().cloned().map(Into::into).collect();
    let chain = Chain::explore(machine, &programs, policy)?;
    let shares = stationary(&chain)?;
    let flow = |state: usize, program: usize| {
        let exit = &chain.exits[state][program];
        exit.as_ref().map_or(0.0, |exit| shares[state] * exit.rate)
    };
    let is_balanced = |state: usize, program: usize| {
        let next = chain.exits[state][program].as_ref().map_or(state, |exit| exit.to);
        (flow(state, program) - flow(next, program)).abs() < 1e-9
    };
    Ok((0..shares.len()).all(|state| (0..programs.len()).all(|program| is_balanced(state, program))))
}

/// The end of a program's phase.
struct Exit {
    /// The state that follows.
    to: usize,
    /// How often, per mean phase.
    rate: f64,
}

/// The joint phases that can be reached from the start.
struct Chain {
    /// What programs get in each state.
    speeds: Vec<Speeds>,
    /// For each state and program; none if the program does not advance, or nothing changes.
    exits: Vec<Vec<Option<Exit>>>,
}

impl Chain {
    fn explore(machine: Machine, programs: &[Program], policy: Policy) -> Result<Self, Error> {
        if programs.is_empty() {
            return Err(Error::NoPrograms);
        }
        if policy.is_clairvoyant() {
            return Err(Error::Clairvoyant);
        }
        if programs.len() > MAX_EXPECTED_PROGRAMS {
            return Err(Error::TooManyPrograms {
                programs: programs.len(),
            });
        }
        let loads: Vec<Vec<Load>> = programs.iter().map(|program| program.loads(machine)).collect();
        let start = Joint::start(&loads);
        let mut indices = BTreeMap::from([(start.clone(), 0)]);
        let mut states = vec![start];
        let mut chain = Self {
            speeds: Vec::new(),
            exits: Vec::new(),
        };
        // `states` grows while it is walked.
        while let Some(state) = states.get(chain.speeds.len()).cloned() {
            let speeds = state.speeds(machine, &loads, policy);
            let exit = |(program, loads): (usize, &Vec<Load>)| {
                let mut next = state.clone();
                next.end_phase(program, loads);
                if !policy.has_seniority() {
                    next.forget_order();
                }
                if speeds.of[program] <= 0.0 || next == state {
                    return None;
                }
                let to = *indices.entry(next.clone()).or_insert(states.len());
                if to == states.len() {
                    states.push(next);
                }
                let rate = speeds.of[program] / loads[state.phase(program)].work;
                Some(Exit { to, rate })
            };
            let exits = loads.iter().enumerate().map(exit).collect();
            chain.speeds.push(speeds);
            chain.exits.push(exits);
            if states.len() > MAX_STATES {
                return Err(Error::TooManyStates);
            }
        }
        Ok(chain)
    }
}

/// The share of time in each state: what flows in flows out, and all shares add up to 1.
fn stationary(chain: &Chain) -> Result<Vec<f64>, Error> {
    let n = chain.exits.len();
    let mut balance = vec![vec![0.0; n + 1]; n];
    for (from, exits) in chain.exits.iter().enumerate() {
        for Exit { to, rate } in exits.iter().flatten() {
            balance[*to][from] += rate;
            balance[from][from] -= rate;
        }
    }
    // One balance follows from the others; the sum of the shares takes its place.
    balance[n - 1] = vec![1.0; n + 1];
    solve(balance)
}

/// Solves the linear equations whose last column is the right-hand side, by Gauss and Jordan with partial pivoting.
fn solve(mut rows: Vec<Vec<f64>>) -> Result<Vec<f64>, Error> {
    let n = rows.len();
    for column in 0..n {
        let largest = (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        let pivot = largest
            .filter(|row| rows[*row][column].abs() > 1e-12)
            .ok_or(Error::NoLongRun)?;
        rows.swap(column, pivot);
        let pivot_row = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            let factor = row[column] / pivot_row[column];
            row.iter_mut()
                .zip(&pivot_row)
                .skip(column)
                .for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    Ok(rows
        .iter()
        .enumerate()
        .map(|(index, row)| row[n] / row[index])
        .collect())
}

#[cfg(test)]
mod tests {
    use threadwise_workload::Ratio;
    use threadwise_workload::synthetic::Distribution;

    use super::super::{Length, play_out};
    use super::*;

    fn ratios<const K: usize>(texts: [&str; K]) -> [Ratio; K] {
        texts.map(|text| text.parse().unwrap())
    }

    fn total<const K: usize>(texts: [&str; K], policy: Policy) -> f64 {
        expectation(Machine::new(8, 1.0).unwrap(), &ratios(texts), policy)
            .unwrap()
            .total
    }

    #[test]
    fn two_equal_programs_by_hand() {
        // Phases known: weights SS 7/16, (S,P) and (P,S) together 1, PP 1; speeds 2, 8 and 8.
        assert!((total(["1:1", "1:1"], Policy::SerialBoost) - (0.875 + 16.0) / 2.4375).abs() < 1e-12);
        // Unknown: weights 4/9, 1, 8/9; speeds 2, 8, 8.
        let expected = (8.0 / 9.0 + 8.0 + 64.0 / 9.0) / (4.0 / 9.0 + 1.0 + 8.0 / 9.0);
        assert!((total(["1:1", "1:1"], Policy::PhasesUnknown) - expected).abs() < 1e-12);
    }

    #[test]
    fn reference_values_without_seniority() {
        for (texts, policy, expected) in [
            (["1:1", "1:1"], Policy::PhasesUnknown, 6.86),
            (["1:1", "1:1"], Policy::SerialBoost, 6.92),
            (["4:1", "1:4"], Policy::PhasesUnknown, 7.23),
            (["4:1", "1:4"], Policy::SerialBoost, 7.26),
        ] {
            assert!(
                (total(texts, policy) - expected).abs() < 0.006,
                "{texts:?} {policy:?}"
            );
        }
    }

    #[test]
    fn without_memory_seniority_gains_nothing_for_equal_programs() {
        let difference =
            total(["1:1", "1:1"], Policy::Seniority) - total(["1:1", "1:1"], Policy::SerialBoost);
        assert!(difference.abs() < 1e-12);
    }

    #[test]
    fn playouts_agree() {
        let machine = Machine::new(8, 1.5).unwrap();
        for texts in [
            ["1:1", "1:1", "2:1"],
            ["inf:1", "1:4", "1:inf"],
            ["8:1", "1:8", "4:1"],
        ] {
            let ratios = ratios(texts);
            for policy in [Policy::PhasesUnknown, Policy::SerialBoost] {
                let expected = expectation(machine, &ratios, policy).unwrap();
                for distribution in [Distribution::Uniform, Distribution::Exponential] {
                    let length = Length {
                        distribution,
                        ..Length::default()
                    };
                    let played = play_out(machine, &ratios, policy, length).unwrap();
                    let error = played.outcome.total - expected.total;
                    assert!(
                        error.abs() < 0.01 + 4.0 * played.total_standard_error,
                        "{texts:?} {policy:?} {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_program_has_its_closed_form() {
        let machine = Machine::new(8, 2.0).unwrap();
        for ratio in ratios(["1:1", "inf:1", "1:inf", "8:1"]) {
            let outcome = expectation(machine, &[ratio], Policy::Seniority).unwrap();
            assert!((outcome.programs[0].speedup - 1.0).abs() < 1e-12, "{outcome:?}");
        }
    }

    #[test]
    fn a_starved_program_has_throughput_zero() {
        let machine = Machine::new(8, 1.0).unwrap();
        let outcome = expectation(machine, &ratios(["inf:1", "1:1"]), Policy::FixedPriority).unwrap();
        assert!((outcome.programs[0].speedup - 1.0).abs() < 1e-12);
        assert!(outcome.programs[1].together.abs() < 1e-12);
    }

    #[test]
    fn five_programs_are_solved_and_six_refused() {
        let machine = Machine::new(8, 1.0).unwrap();
        let many = ratios(["1:1", "2:1", "1:2", "4:1", "1:4", "8:1"]);
        let outcome = expectation(machine, &many[..5], Policy::Seniority).unwrap();
        assert!(outcome.total > 7.5 && outcome.total <= 8.0, "{outcome:?}");
        let error = expectation(machine, &many, Policy::Seniority).unwrap_err();
        assert_eq!(error, Error::TooManyPrograms { programs: 6 });
        assert_eq!(
            expectation::<Ratio>(machine, &[], Policy::Seniority),
            Err(Error::NoPrograms)
        );
    }

    #[test]
    fn nobody_foresees_in_the_chain() {
        let machine = Machine::new(8, 1.0).unwrap();
        let pair = ratios(["1:1", "1:1"]);
        assert_eq!(
            expectation(machine, &pair, Policy::Clairvoyant),
            Err(Error::Clairvoyant)
        );
        assert_eq!(is_insensitive(machine, &pair, Policy::Clairvoyant), Ok(false));
    }
}
