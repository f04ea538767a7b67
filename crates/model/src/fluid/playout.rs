// SPDX-License-Identifier: GPL-2.0-only
//! The fluid model with random phase lengths, event by event.

use serde::{Deserialize, Serialize};
use threadwise_metrics::Summary;
use threadwise_workload::synthetic::{Distribution, Draws};

use super::joint::{Ahead, Joint, Speeds};
use super::program::Load;
use super::{Error, Machine, Outcome, Policy, Program};

/// How long to play, and from which seed. Time is in mean phases: what one slow core takes for a phase of mean length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// Seed of the phase lengths: the same seed gives the same result, bit for bit.
    pub seed: u64,
    /// Distribution of the phase lengths; one draw scales all phases of a round, as in the synthetic benchmark.
    pub distribution: Distribution,
    /// Batches whose means give the standard error; at least 2. One more is played before them and dropped.
    pub batches: u32,
    /// Time of a batch in mean phases; above 0.
    pub batch_phases: f64,
}

impl Default for Length {
    /// 40 batches of 2500 mean phases, uniform, seed 1: a standard error of some 0.1 % for two programs on 8 cores.
    fn default() -> Self {
        Self {
            seed: 1,
            distribution: Distribution::default(),
            batches: 40,
            batch_phases: 2500.0,
        }
    }
}

/// The result of a playout and how sure it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Playout {
    /// Mean over the batches.
    pub outcome: Outcome,
    /// Standard error of the total throughput, from the batches, in core units.
    pub total_standard_error: f64,
    /// Standard error of each program's throughput, in core units.
    pub standard_errors: Vec<f64>,
    /// What was played.
    pub length: Length,
}

/// The seed of the draws of the program at this index, in a world of this seed.
///
/// Far apart, so that neighbouring seeds share no program's sequence (the step is 2^64 over the golden ratio).
pub fn seed_of(seed: u64, program: usize) -> u64 {
    seed.wrapping_add((program as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Plays `programs` out on `machine` under `policy`. All begin with their first phase, which is parallel if a ratio has
/// any such, in the order of the list.
///
/// # Errors
/// If there is no program or `length` is out of range.
pub fn play_out<P: Clone + Into<Program>>(
    machine: Machine,
    programs: &[P],
    policy: Policy,
    length: Length,
) -> Result<Playout, Error> {
    let Length {
        batches,
        batch_phases,
        ..
    } = length;
    if programs.is_empty() {
        return Err(Error::NoPrograms);
    }
    if batches < 2 || !batch_phases.is_finite() || batch_phases <= 0.0 {
        return Err(Error::Length {
            batches,
            batch_phases,
        });
    }
    let programs: Vec<Program> = programs.iter().cloned().map(Into::into).collect();
    let mut play = Play::new(machine, &programs, policy, length);
    play.advance(batch_phases);
    let means: Vec<Meanwhile> = (0..batches).map(|_| play.advance(batch_phases)).collect();
    let summary = |of: &dyn Fn(&Meanwhile) -> f64| Summary::of(&means.iter().map(of).collect::<Vec<_>>());
    let summaries = (0..programs.len())
        .map(|program| summary(&|batch| batch.throughputs[program]))
        .collect::<Result<Vec<_>, _>>()?;
    let total = summary(&|batch| batch.throughputs.iter().sum())?;
    let idle = summary(&|batch| batch.idle)?.mean;
    let together: Vec<f64> = summaries.iter().map(|summary| summary.mean).collect();
    Ok(Playout {
        outcome: Outcome::new(machine, &programs, &together, idle),
        total_standard_error: standard_error(&total),
        standard_errors: summaries.iter().map(standard_error).collect(),
        length,
    })
}

fn standard_error(summary: &Summary) -> f64 {
    summary.sd / (summary.n as f64).sqrt()
}

/// Means over some time.
struct Meanwhile {
    /// Of each program, in core units.
    throughputs: Vec<f64>,
    /// The share of core time that was idle.
    idle: f64,
}

/// One program in the course of a playout.
struct Player {
    draws: Draws,
    /// The draw of the current round.
    scale: f64,
    /// Work left in the current phase, in core units times mean phases.
    left: f64,
}

impl Player {
    /// Starts the phase of this index; the first begins a round.
    fn begin(&mut self, phase: usize, loads: &[Load]) {
        if phase == 0 {
            self.scale = self.draws.draw();
        }
        self.left = self.scale * loads[phase].work;
    }
}

struct Play {
    machine: Machine,
    policy: Policy,
    /// The phases of each program.
    loads: Vec<Vec<Load>>,
    joint: Joint,
    players: Vec<Player>,
}

impl Play {
    fn new(machine: Machine, programs: &[Program], policy: Policy, length: Length) -> Self {
        let loads: Vec<Vec<Load>> = programs.iter().map(|program| program.loads(machine)).collect();
        let player = |(index, loads): (usize, &Vec<Load>)| {
            let mut player = Player {
                draws: Draws::new(length.distribution, seed_of(length.seed, index)),
                scale: 0.0,
                left: 0.0,
            };
            player.begin(0, loads);
            player
        };
        Self {
            machine,
            policy,
            joint: Joint::start(&loads),
            players: loads.iter().enumerate().map(player).collect(),
            loads,
        }
    }

    /// What the program has before it up to the end of its next serial phase; of its phase if the round has none any more,
    /// because nobody knows the next round.
    fn ahead(&self, program: usize) -> Ahead {
        let (player, loads) = (&self.players[program], &self.loads[program]);
        let phase = self.joint.phase(program);
        let rest = &loads[phase + 1..];
        let is_serial = |load: &Load| load.threads == 1;
        let known = rest.iter().position(is_serial).map_or(0, |serial| serial + 1);
        let alone = |load: &Load| player.scale * load.work / self.machine.fastest(load.threads);
        let later: f64 = rest[..known].iter().map(alone).sum();
        Ahead {
            is_never_serial: !loads.iter().any(is_serial),
            time: player.left / self.machine.fastest(loads[phase].threads) + later,
        }
    }

    /// Plays for `time` and returns the means meanwhile.
    fn advance(&mut self, time: f64) -> Meanwhile {
        let mut work = vec![0.0; self.players.len()];
        let mut speeds = Speeds::default();
        let mut idle = 0.0;
        let mut rest = time;
        while rest > 0.0 {
            if self.policy.is_clairvoyant() {
                let ahead: Vec<Ahead> = (0..self.players.len())
                    .map(|program| self.ahead(program))
                    .collect();
                self.joint.order_by(|program| ahead[program]);
            }
            let Self {
                machine,
                policy,
                loads,
                joint,
                players,
            } = &mut *self;
            joint.set_speeds(*machine, loads, *policy, &mut speeds);
            let ends = players
                .iter()
                .zip(&speeds.of)
                .map(|(player, speed)| ends_in(player, *speed));
            let step = ends.fold(rest, f64::min);
            idle += f64::from(speeds.idle_cores) * step;
            // Simultaneous ends are taken in the order of the list.
            for (index, (player, speed)) in players.iter_mut().zip(&speeds.of).enumerate() {
                work[index] += speed * step;
                if ends_in(player, *speed) <= step {
                    joint.end_phase(index, &loads[index]);
                    player.begin(joint.phase(index), &loads[index]);
                } else {
                    player.left = (player.left - speed * step).max(0.0);
                }
            }
            rest -= step;
        }
        Meanwhile {
            throughputs: work.iter().map(|work| work / time).collect(),
            idle: idle / time / f64::from(self.machine.cores()),
        }
    }
}

/// The time until the player's phase ends at `speed`.
fn ends_in(player: &Player, speed: f64) -> f64 {
    if speed > 0.0 {
        player.left / speed
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use threadwise_workload::Ratio;

    use super::super::{average, long_run};
    use super::*;

    fn total(ratios: [&str; 2], policy: Policy, distribution: Distribution) -> f64 {
        let machine = Machine::new(8, 1.0).unwrap();
        let ratios = ratios.map(|ratio| ratio.parse::<Ratio>().unwrap());
        let length = Length {
            distribution,
            ..Length::default()
        };
        let playout = play_out(machine, &ratios, policy, length).unwrap();
        assert!(playout.total_standard_error < 0.012, "{playout:?}");
        playout.outcome.total
    }

    fn assert_totals(ratios: [&str; 2], policy: Policy, expected: f64) {
        let total = total(ratios, policy, Distribution::Uniform);
        assert!((total - expected).abs() < 0.02, "{ratios:?} {policy:?}: {total}");
    }

    /// The reference values of the design, in core units on 8 equal cores.
    #[test]
    fn reference_values_without_seniority() {
        assert_totals(["1:1", "1:1"], Policy::PhasesUnknown, 6.86);
        assert_totals(["1:1", "1:1"], Policy::SerialBoost, 6.92);
        assert_totals(["4:1", "1:4"], Policy::PhasesUnknown, 7.23);
        assert_totals(["4:1", "1:4"], Policy::SerialBoost, 7.26);
    }

    /// The reference values 7.03 and 7.51 for seniority are those of a first program that is always senior.
    #[test]
    fn reference_values_with_fixed_priority() {
        assert_totals(["1:1", "1:1"], Policy::FixedPriority, 7.03);
        assert_totals(["4:1", "1:4"], Policy::FixedPriority, 7.51);
    }

    /// Seniority by entry, as section VII has it, reaches more.
    #[test]
    fn seniority_by_entry() {
        assert_totals(["1:1", "1:1"], Policy::Seniority, 7.32);
        assert_totals(["4:1", "1:4"], Policy::Seniority, 7.58);
        assert_totals(["1:4", "4:1"], Policy::Seniority, 7.58);
        let exponential = total(["1:1", "1:1"], Policy::Seniority, Distribution::Exponential);
        assert!((exponential - 7.10).abs() < 0.03, "{exponential}");
    }

    /// The reference values of the design for the 45 pairs of the paper's nine ratios, which are those of seniority by
    /// entry: mean gain over phases unknown (Tables 1 and 2), and over who does not see the fast core either.
    #[test]
    fn seniority_over_all_pairs_of_the_paper() {
        let length = Length {
            batches: 10,
            batch_phases: 1000.0,
            ..Length::default()
        };
        for (asymmetry, over, percent) in [
            (1.0, Policy::PhasesUnknown, 2.1),
            (2.0, Policy::PhasesUnknown, 4.1),
            (2.0, Policy::SpeedsUnknown, 11.4),
        ] {
            let machine = Machine::new(8, asymmetry).unwrap();
            let total = |policy| -> Vec<f64> {
                let all = super::super::mixes(2).unwrap();
                let total = |pair: &Vec<Ratio>| long_run(machine, pair, policy, length).unwrap().total;
                all.iter().map(total).collect()
            };
            let gains = total(Policy::Seniority).into_iter().zip(total(over));
            let mean = 100.0 * gains.map(|(with, without)| with / without - 1.0).sum::<f64>() / 45.0;
            assert!(
                (mean - percent).abs() < 0.25,
                "a = {asymmetry}, {over:?}: {mean} %"
            );
            let found = average(machine, 2, Policy::Seniority, over, length).unwrap();
            assert!((100.0 * found.gain - mean).abs() < 1e-9 && found.nr_mixes == 45);
        }
    }

    /// Who knows how long phases last is behind seniority with no pair, and exceeds it on the mean.
    #[test]
    fn clairvoyance_over_all_pairs_of_the_paper() {
        let length = Length {
            batches: 10,
            batch_phases: 1000.0,
            ..Length::default()
        };
        for (asymmetry, percent) in [(1.0, 0.59), (2.0, 0.68)] {
            let machine = Machine::new(8, asymmetry).unwrap();
            let gain = |pair: &Vec<Ratio>| {
                let total = |policy| long_run(machine, pair, policy, length).unwrap().total;
                let (with, without) = (total(Policy::Clairvoyant), total(Policy::Seniority));
                assert!(
                    with > without - 1e-3,
                    "{pair:?}, a = {asymmetry}: {with}, not {without}"
                );
                with / without - 1.0
            };
            let pairs = super::super::mixes(2).unwrap();
            let mean = 100.0 * pairs.iter().map(gain).sum::<f64>() / 45.0;
            assert!((mean - percent).abs() < 0.1, "a = {asymmetry}: {mean} %");
        }
    }

    /// Phases of equal lengths, by hand: on 8 equal cores the two programs come to do the following for ever.
    #[test]
    fn clairvoyance_by_hand() {
        let machine = Machine::new(8, 1.0).unwrap();
        let together = |ratios: [&str; 2]| {
            let ratios = ratios.map(|ratio| ratio.parse::<Ratio>().unwrap());
            let length = Length {
                distribution: Distribution::Fixed,
                ..Length::default()
            };
            let played = play_out(machine, &ratios, Policy::Clairvoyant, length).unwrap();
            let programs = played.outcome.programs.iter();
            programs.map(|program| program.together).collect::<Vec<_>>()
        };
        // For 1.5 1:3 is serial and 3:1 does 10.5 of its 12 units. For 0.1875 it does the rest, as it is done with all sooner
        // than 1:3, which has 4 units and again 1.5 before it. For 0.5 it is serial, and 1:3 does 3.5 of these; for 0.0625
        // that does the rest, sooner done than 3:1.
        let period = 1.5 + 0.1875 + 0.5 + 0.0625;
        let found = together(["1:3", "3:1"]);
        for (found, expected) in found.iter().zip([5.5 / period, 12.5 / period]) {
            assert!((found - expected).abs() < 0.01, "{found}, not {expected}");
        }
        // As inf:1 is never serial it waits until 8:1 is, which has 128/9 units of parallel and 2/9 of serial work in 2.
        let found = together(["inf:1", "8:1"]);
        assert!((found[0] - 7.0 / 9.0).abs() < 0.01 && (found[1] - 65.0 / 9.0).abs() < 0.01);
    }

    #[test]
    fn a_program_alone_has_its_closed_form() {
        for (n, a, ratio) in [
            (8, 1.0, "1:1"),
            (8, 2.0, "1:1"),
            (4, 1.5, "1:8"),
            (1, 1.0, "2:1"),
            (8, 2.0, "inf:1"),
        ] {
            let machine = Machine::new(n, a).unwrap();
            let ratio: Ratio = ratio.parse().unwrap();
            for policy in [
                Policy::PhasesUnknown,
                Policy::SerialBoost,
                Policy::Seniority,
                Policy::FixedPriority,
                Policy::Clairvoyant,
            ] {
                let outcome = play_out(machine, &[ratio], policy, Length::default())
                    .unwrap()
                    .outcome;
                assert!(
                    (outcome.programs[0].speedup - 1.0).abs() < 1e-3,
                    "{n} {a} {ratio}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn a_seed_fixes_the_result() {
        let machine = Machine::new(8, 1.5).unwrap();
        let ratios = [Ratio::PARALLEL, "2:1".parse().unwrap(), Ratio::SERIAL];
        let of_seed = |seed| {
            let length = Length {
                seed,
                batches: 3,
                batch_phases: 100.0,
                ..Length::default()
            };
            play_out(machine, &ratios, Policy::Seniority, length).unwrap()
        };
        assert_eq!(of_seed(5), of_seed(5));
        assert_ne!(of_seed(5).outcome, of_seed(6).outcome);
    }

    #[test]
    fn always_parallel_programs_share_by_turns() {
        let machine = Machine::new(8, 1.0).unwrap();
        let playout = play_out(
            machine,
            &[Ratio::PARALLEL; 2],
            Policy::Seniority,
            Length::default(),
        )
        .unwrap();
        assert!((playout.outcome.total - 8.0).abs() < 1e-9);
        assert!(
            playout
                .outcome
                .speedups()
                .iter()
                .all(|speedup| (speedup - 0.5).abs() < 0.01)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let machine = Machine::new(8, 1.0).unwrap();
        let play =
            |ratios: &[Ratio], length| play_out(machine, ratios, Policy::SerialBoost, length).unwrap_err();
        assert_eq!(play(&[], Length::default()), Error::NoPrograms);
        for length in [
            Length {
                batches: 1,
                ..Length::default()
            },
            Length {
                batch_phases: f64::NAN,
                ..Length::default()
            },
        ] {
            assert!(matches!(play(&[Ratio::SERIAL], length), Error::Length { .. }));
        }
        assert_eq!(Machine::new(0, 1.0), Err(Error::NoCores));
        for asymmetry in [0.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(Machine::new(8, asymmetry), Err(Error::Asymmetry { .. })));
        }
    }
}
