// SPDX-License-Identifier: GPL-2.0-only
//! The bound on measured throughput.

use super::Error;

/// What programs would get done together if each kept the model's share of its throughput alone: Σ alone·speedup, in
/// the unit of `alone`.
///
/// With throughputs measured alone, which contain what the machine and the program's own joins cost, and the speedups
/// of [`super::Policy::Seniority`], this is the mark that a scheduler is compared with. It bounds schedulers that
/// follow the seniority rule, not every conceivable one: who knew the remaining lengths of phases and let the shortest
/// go first would reach more in the model.
///
/// # Errors
/// If the two differ in length, are empty, or hold a value that is negative or not finite.
pub fn bound_total(alone: &[f64], speedups: &[f64]) -> Result<f64, Error> {
    if alone.len() != speedups.len() {
        return Err(Error::Unmatched {
            alone: alone.len(),
            speedups: speedups.len(),
        });
    }
    if alone.is_empty() {
        return Err(Error::NoPrograms);
    }
    let is_bad = |value: f64| !value.is_finite() || value < 0.0;
    for values in [alone, speedups] {
        if let Some(program) = values.iter().position(|value| is_bad(*value)) {
            return Err(Error::Value {
                program,
                value: values[program],
            });
        }
    }
    Ok(alone
        .iter()
        .zip(speedups)
        .map(|(alone, speedup)| alone * speedup)
        .sum())
}

#[cfg(test)]
mod tests {
    use threadwise_workload::Ratio;

    use super::super::{Length, Machine, Policy, play_out};
    use super::*;

    #[test]
    fn ideal_throughputs_give_the_model_itself() {
        let machine = Machine::new(8, 1.5).unwrap();
        let ratios = ["4:1", "1:4"].map(|ratio| ratio.parse::<Ratio>().unwrap());
        let outcome = play_out(machine, &ratios, Policy::Seniority, Length::default())
            .unwrap()
            .outcome;
        let alone = ratios.map(|ratio| machine.alone(ratio));
        let bound = bound_total(&alone, &outcome.speedups()).unwrap();
        assert!((bound - outcome.total).abs() < 1e-9);
    }

    #[test]
    fn it_is_the_weighted_sum() {
        assert_eq!(bound_total(&[100.0, 200.0], &[0.5, 0.75]), Ok(200.0));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(
            bound_total(&[1.0], &[]),
            Err(Error::Unmatched {
                alone: 1,
                speedups: 0
            })
        );
        assert_eq!(bound_total(&[], &[]), Err(Error::NoPrograms));
        assert_eq!(
            bound_total(&[1.0, -1.0], &[1.0, 1.0]),
            Err(Error::Value {
                program: 1,
                value: -1.0
            })
        );
        assert!(bound_total(&[1.0], &[f64::NAN]).is_err());
    }
}
