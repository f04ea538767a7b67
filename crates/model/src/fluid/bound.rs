// SPDX-License-Identifier: GPL-2.0-only
//! Bounds on throughput: what seniority would reach of what was measured alone, and what nobody exceeds.

use super::{Error, Machine, Program};

/// What programs would get done together if each kept the model's share of its throughput alone: Σ alone·speedup, in
/// the unit of `alone`.
///
/// With throughputs measured alone, which contain what the machine and the program's own joins cost, and the speedups
/// of [`super::Policy::Seniority`], this is the mark that a scheduler is compared with. It bounds schedulers that
/// follow the seniority rule, not every conceivable one: who knows the remaining lengths of phases and lets the shortest
/// go first, [`super::Policy::Clairvoyant`], reaches more in the model. [`most_total`] holds for all.
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

/// The long-run throughput that no scheduler exceeds, whatever it knows: the lesser of the speed of all cores for which
/// there are threads and of what the programs do, each alone, added up; in core units.
///
/// Work is done by cores only, one for each thread at most, so all together cannot be faster than the fastest of these.
/// And beside others no program is faster than alone: in each of its phases it has at most a core for each of its
/// threads, and alone those are the fastest ones. So each round takes at least as long as alone, and as a program's
/// rounds begin one after the other it does no more of them. The bound is loose where cores are idle only now and then,
/// while all programs are serial.
pub fn most_total<P: Clone + Into<Program>>(machine: Machine, programs: &[P]) -> f64 {
    let (mut alone, mut threads) = (0.0, 0_u32);
    for program in programs {
        let program: Program = program.clone().into();
        let most = program.loads(machine).iter().map(|load| load.threads).max();
        threads = threads.saturating_add(most.unwrap_or(0));
        alone += machine.alone(program);
    }
    machine.fastest(threads).min(alone)
}

#[cfg(test)]
mod tests {
    use threadwise_workload::Ratio;

    use super::super::{Length, Policy, mixes, play_out};
    use super::*;

    #[test]
    fn no_policy_exceeds_the_most() {
        let length = Length {
            batches: 10,
            batch_phases: 400.0,
            ..Length::default()
        };
        for asymmetry in [1.0, 2.0] {
            let machine = Machine::new(8, asymmetry).unwrap();
            for policy in [
                Policy::SpeedsUnknown,
                Policy::PhasesUnknown,
                Policy::SerialBoost,
                Policy::SeniorityAlone,
                Policy::Seniority,
                Policy::FixedPriority,
                Policy::Clairvoyant,
            ] {
                for pair in mixes(2).unwrap() {
                    let played = play_out(machine, &pair, policy, length).unwrap();
                    let most = most_total(machine, &pair) + 4.0 * played.total_standard_error + 1e-9;
                    assert!(
                        played.outcome.total <= most,
                        "{pair:?}, {policy:?}, a = {asymmetry}: {} of {most}",
                        played.outcome.total
                    );
                }
            }
        }
    }

    #[test]
    fn the_most_is_all_cores_with_threads_or_all_programs() {
        let machine = Machine::new(8, 2.0).unwrap();
        let most =
            |ratios: [&str; 2]| most_total(machine, &ratios.map(|text| text.parse::<Ratio>().unwrap()));
        assert_eq!(most(["inf:1", "1:8"]), 9.0);
        // Alone each serial program has the fast core; together they have two cores.
        assert_eq!(most(["1:inf", "1:inf"]), 3.0);
        // A round of 1:8 is 8 units of parallel work, at speed 9, and 8 of serial work, at speed 2.
        let alone = 16.0 / (8.0 / 9.0 + 8.0 / 2.0);
        assert!((most(["1:8", "1:inf"]) - (alone + 2.0)).abs() < 1e-12);
        assert!((most(["1:8", "1:8"]) - 2.0 * alone).abs() < 1e-12);
        assert_eq!(most_total::<Ratio>(machine, &[]), 0.0);
    }

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
