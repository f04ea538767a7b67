// SPDX-License-Identifier: GPL-2.0-only
//! Turns samples into the numbers of the report. Void samples count for nothing here.
//!
//! Schedulers are compared within a round: both get the same seed, minutes apart in the same boot.

use serde::{Deserialize, Serialize};
use threadwise_metrics::{
    JitterSummary, Performance, RatioSummary, Summary, fairness, jitter_summary, paired_ratio,
};
use threadwise_model::fluid;

use crate::error::Error;
use crate::run::{Label, Measurement, Sample};

/// Names the layout of the JSON that an evaluation is written as.
pub const SCHEMA: &str = "threadwise.lab/1";

/// What an experiment shows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evaluation {
    /// [`SCHEMA`].
    pub schema: String,
    /// How the numbers came about.
    pub label: Label,
    /// One for each run of the experiment, in its order.
    pub runs: Vec<RunResult>,
    /// Samples that were void.
    pub nr_void: usize,
    /// What was measured.
    pub measurement: Measurement,
}

/// What the schedulers made of one set of programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// The programs' names.
    pub run: Vec<String>,
    /// Whether performance is in work units a second; else it is one over seconds.
    pub in_work_units: bool,
    /// The fluid bound: what both boosts reach with perfect sharing, from the baseline's performance of each
    /// program alone.
    pub bound: Option<f64>,
    /// One for each scheduler, in the experiment's order.
    pub schedulers: Vec<SchedulerResult>,
}

/// What one scheduler made of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SchedulerResult {
    /// Its name.
    pub scheduler: String,
    /// The performance of all programs together.
    pub total: Summary,
    /// Over the baseline's, in pairs of the same round; none for the baseline itself.
    pub over_baseline: Option<RatioSummary>,
    /// Of the fluid bound.
    pub share_of_bound: Option<Summary>,
    /// Throughput over that of the same programs one after the other, of two programs in two orders.
    #[serde(default)]
    pub over_sequential: Option<RatioSummary>,
    /// Each program's speedup (eq. 2): performance together over alone, under this scheduler.
    pub speedups: Vec<Summary>,
    /// The smallest over the largest speedup (eq. 3).
    pub fairness: Option<Summary>,
    /// Each program's jitter (eq. 5), of the times for a unit of work in the rounds, whose seeds differ.
    pub jitter: Vec<JitterSummary>,
    /// The share of CPU time that was idle.
    pub idle: Summary,
}

/// Evaluates what was measured.
///
/// # Errors
/// If there are fewer than two complete rounds, so that there is no spread.
pub fn evaluate(measurement: Measurement) -> Result<Evaluation, Error> {
    let runs = measurement
        .experiment
        .runs
        .iter()
        .map(|run| run_result(&measurement, run))
        .collect::<Result<_, _>>()?;
    Ok(Evaluation {
        schema: SCHEMA.to_string(),
        label: measurement.label,
        runs,
        nr_void: measurement.samples.iter().filter(|sample| sample.void).count(),
        measurement,
    })
}

fn run_result(measurement: &Measurement, run: &[String]) -> Result<RunResult, Error> {
    let experiment = &measurement.experiment;
    let baseline = totals(&valid(measurement, &experiment.schedulers[0].name, run));
    let bound = bound(measurement, run)?;
    let schedulers = experiment
        .schedulers
        .iter()
        .enumerate()
        .map(|(index, scheduler)| {
            let samples = valid(measurement, &scheduler.name, run);
            let total = Summary::of(&totals(&samples))?;
            let over_baseline = (index > 0)
                .then(|| paired_ratio(&totals(&samples), &baseline))
                .transpose()?;
            let alone = run
                .iter()
                .map(|name| alone(measurement, &scheduler.name, name))
                .collect::<Option<Vec<_>>>();
            let over_sequential = alone
                .as_deref()
                .filter(|_| experiment.is_in_two_orders(run))
                .map(|alone| paired_ratio(&totals(&samples), &one_after_the_other(alone)))
                .transpose()?;
            let (speedups, fairness) = match alone {
                Some(alone) if run.len() > 1 => speedups(&samples, &alone)?,
                _ => (Vec::new(), None),
            };
            Ok(SchedulerResult {
                scheduler: scheduler.name.clone(),
                total,
                over_baseline,
                share_of_bound: bound
                    .map(|bound| {
                        Summary::of(
                            &totals(&samples)
                                .iter()
                                .map(|total| total / bound)
                                .collect::<Vec<_>>(),
                        )
                    })
                    .transpose()?,
                over_sequential,
                speedups,
                fairness,
                jitter: jitters(&samples, run.len())?,
                idle: Summary::of(&samples.iter().map(|sample| sample.idle).collect::<Vec<_>>())?,
            })
        })
        .collect::<Result<_, Error>>()?;
    let in_work_units = run.iter().all(|name| experiment.program(name).counts_work());
    Ok(RunResult {
        run: run.to_vec(),
        in_work_units,
        bound,
        schedulers,
    })
}

/// The valid samples of a run under a scheduler, one a round, in order.
fn valid<'a>(measurement: &'a Measurement, scheduler: &str, run: &[String]) -> Vec<&'a Sample> {
    measurement
        .samples
        .iter()
        .filter(|s| !s.void && s.scheduler == scheduler && s.run == run)
        .collect()
}

fn totals(samples: &[&Sample]) -> Vec<f64> {
    samples.iter().map(|sample| total(sample)).collect()
}

/// The performance of all its programs together.
fn total(sample: &Sample) -> f64 {
    match &sample.orders {
        Some(orders) => orders.throughput(),
        None => sample.performance.iter().sum(),
    }
}

/// All programs of a run once, one after the other, each second: from the performance of each alone in each round, which is
/// one over its time.
fn one_after_the_other(alone: &[Vec<f64>]) -> Vec<f64> {
    let rounds = alone.iter().map(Vec::len).min().unwrap_or(0);
    let seconds = |round: usize| {
        alone
            .iter()
            .map(|of_program| 1.0 / of_program[round])
            .sum::<f64>()
    };
    (0..rounds).map(|round| 1.0 / seconds(round)).collect()
}

/// A program's performance alone in each round, if the experiment ran it, or one that differs in nothing but its
/// name and seed, alone.
fn alone(measurement: &Measurement, scheduler: &str, name: &str) -> Option<Vec<f64>> {
    let experiment = &measurement.experiment;
    let program = experiment.program(name);
    let equals = experiment
        .programs
        .iter()
        .filter(|other| other.does_the_same_as(program));
    std::iter::once(program)
        .chain(equals)
        .map(|program| valid(measurement, scheduler, std::slice::from_ref(&program.name)))
        .find(|samples| !samples.is_empty())
        .map(|samples| totals(&samples))
}

fn speedups(samples: &[&Sample], alone: &[Vec<f64>]) -> Result<(Vec<Summary>, Option<Summary>), Error> {
    let mut by_program = vec![Vec::new(); alone.len()];
    let mut fair = Vec::new();
    for (round, sample) in samples.iter().enumerate() {
        let mut of_round = Vec::new();
        for (program, alone) in alone.iter().enumerate() {
            let Some(&alone) = alone.get(round) else { continue };
            let speedup = Performance {
                alone,
                together: sample.performance[program],
            }
            .speedup()?;
            by_program[program].push(speedup);
            of_round.push(speedup);
        }
        fair.push(fairness(&of_round)?);
    }
    let speedups = by_program
        .iter()
        .map(|values| Summary::of(values))
        .collect::<Result<_, _>>()?;
    Ok((speedups, Some(Summary::of(&fair)?)))
}

fn jitters(samples: &[&Sample], nr_programs: usize) -> Result<Vec<JitterSummary>, Error> {
    let times = |program: usize| {
        samples
            .iter()
            .map(|sample| 1.0 / sample.performance[program])
            .collect::<Vec<_>>()
    };
    Ok((0..nr_programs)
        .map(|program| jitter_summary(&times(program)))
        .collect::<Result<_, _>>()?)
}

/// The fluid bound (thread-essence, section VI, with serial and seniority boost) of synthetic programs that run together and were measured alone under the baseline.
fn bound(measurement: &Measurement, run: &[String]) -> Result<Option<f64>, Error> {
    let experiment = &measurement.experiment;
    let ratios: Option<Vec<_>> = run
        .iter()
        .map(|name| {
            experiment
                .program(name)
                .synthetic
                .as_ref()
                .map(|synthetic| synthetic.ratio)
        })
        .collect();
    let baseline = &experiment.schedulers[0].name;
    let alone: Option<Vec<_>> = run
        .iter()
        .map(|name| alone(measurement, baseline, name))
        .collect();
    let (Some(ratios), Some(alone)) = (ratios, alone) else {
        return Ok(None);
    };
    if measurement.smt
        || run.len() < 2
        || run.iter().any(|name| {
            experiment
                .program(name)
                .synthetic
                .as_ref()
                .is_some_and(|s| s.threads.is_some())
        })
    {
        return Ok(None);
    }
    let means = alone
        .iter()
        .map(|rounds| Summary::of(rounds).map(|summary| summary.mean))
        .collect::<Result<Vec<_>, _>>()?;
    let machine = fluid::Machine::new(measurement.nr_cpus as u32, measurement.asymmetry)?;
    let playout = fluid::play_out(
        machine,
        &ratios,
        fluid::Policy::Seniority,
        fluid::Length::default(),
    )?;
    let speedups: Vec<f64> = playout
        .outcome
        .programs
        .iter()
        .map(|program| program.speedup)
        .collect();
    Ok(Some(fluid::bound_total(&means, &speedups)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use threadwise_metrics::TwoOrders;

    use super::*;
    use crate::experiment::Experiment;

    const EXPERIMENT: &str = r#"
        name = "t"
        description = "two programs"
        machine = "smp-8"
        rounds = 2
        [[scheduler]]
        name = "kernel"
        [[scheduler]]
        name = "ours"
        command = ["scx"]
        [[program]]
        name = "A"
        synthetic = { ratio = "1:1", phase_units = 1 }
        [[program]]
        name = "B"
        synthetic = { ratio = "1:inf", phase_units = 1 }
    "#;

    /// Two rounds of everything: alone A does 1000 and B 100; together the kernel's scheduler gives each half, ours
    /// three quarters of A. A void sample lies in between.
    pub(crate) fn measurement() -> Measurement {
        let experiment = Experiment::from_toml(EXPERIMENT, Path::new("t.toml")).unwrap();
        let sample = |round: u32, scheduler: &str, run: &[&str], performance: Vec<f64>| Sample {
            round,
            scheduler: scheduler.into(),
            run: run.iter().map(|name| name.to_string()).collect(),
            performance: performance
                .iter()
                .map(|value| value * (1.0 + 0.01 * f64::from(round)))
                .collect(),
            orders: None,
            idle: 0.25,
            lost: 0.0,
            late: 0.0,
            void: false,
        };
        let mut samples = vec![Sample {
            void: true,
            ..sample(0, "kernel", &["A", "B"], vec![1.0, 1.0])
        }];
        for round in 0..2 {
            for (scheduler, together) in [("kernel", [500.0, 50.0]), ("ours", [750.0, 50.0])] {
                samples.push(sample(round, scheduler, &["A"], vec![1000.0]));
                samples.push(sample(round, scheduler, &["B"], vec![100.0]));
                samples.push(sample(round, scheduler, &["A", "B"], together.to_vec()));
            }
        }
        Measurement {
            label: Label::Lab,
            experiment,
            machine: "smp-8".into(),
            nr_cpus: 8,
            asymmetry: 1.0,
            smt: false,
            kernel: "7.2".into(),
            qemu: "QEMU emulator version 10.0".into(),
            version: "1.0".into(),
            samples,
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_report_s_numbers_are_those_of_the_paper_s_equations() {
        let evaluation = evaluate(measurement()).unwrap();
        assert_eq!((evaluation.nr_void, evaluation.runs.len()), (1, 3));
        let [kernel, ours] = evaluation.runs[2].schedulers.as_slice() else {
            panic!("two schedulers")
        };
        assert!(
            close(kernel.total.mean, 550.0 * 1.005),
            "the void sample is not averaged in"
        );
        assert!(close(kernel.speedups[0].mean, 0.5) && close(ours.speedups[0].mean, 0.75));
        assert!(close(kernel.fairness.unwrap().mean, 1.0) && close(ours.fairness.unwrap().mean, 0.5 / 0.75));
        assert!(close(ours.over_baseline.unwrap().ratio, 800.0 / 550.0) && kernel.over_baseline.is_none());
        assert!(kernel.share_of_bound.unwrap().mean < ours.share_of_bound.unwrap().mean);
        assert!(ours.jitter[0].low < ours.jitter[0].value && ours.jitter[0].value < ours.jitter[0].high);
        assert!(evaluation.runs[0].bound.is_none() && evaluation.runs[0].schedulers[0].speedups.is_empty());
    }

    #[test]
    fn a_program_s_like_stands_for_it_alone() {
        let mut like = measurement();
        like.experiment.programs[1].synthetic = like.experiment.programs[0].synthetic.clone();
        like.samples.retain(|sample| sample.run != ["B"]);
        like.experiment.runs.retain(|run| run != &["B"]);
        let evaluation = evaluate(like.clone()).unwrap();
        let pair = &evaluation.runs[1].schedulers[0];
        assert!(close(pair.speedups[1].mean, 0.05), "50 of A's 1000");
        like.experiment.programs[1]
            .synthetic
            .as_mut()
            .unwrap()
            .phase_units += 1;
        let evaluation = evaluate(like).unwrap();
        assert!(
            evaluation.runs[1].schedulers[0].speedups.is_empty(),
            "not its like"
        );
    }

    #[test]
    fn two_orders_are_evaluated_as_in_the_paper() {
        let mut measurement = measurement();
        measurement.experiment.two_orders = true;
        for program in &mut measurement.experiment.programs {
            program.synthetic = None;
            program.command = vec![program.name.clone()];
        }
        measurement.samples.retain(|sample| !sample.void);
        for sample in &mut measurement.samples {
            // Alone A takes 4 s and B 9 s, together 6 and 10 s, 14 and 10 s; ours is twice as fast.
            let speed = if sample.scheduler == "ours" { 2.0 } else { 1.0 };
            let orders = TwoOrders::new([6.0 / speed, 14.0 / speed], [10.0 / speed, 10.0 / speed]).unwrap();
            sample.performance = match sample.run.join("").as_str() {
                "A" => vec![1.0 / 4.0],
                "B" => vec![1.0 / 9.0],
                _ => orders.mean_times().map(|time| 1.0 / time).to_vec(),
            };
            sample.orders = (sample.run.len() == 2).then_some(orders);
        }
        let evaluation = evaluate(measurement).unwrap();
        let pair = &evaluation.runs[2];
        let [kernel, ours] = pair.schedulers.as_slice() else {
            panic!("two schedulers")
        };
        assert!(!pair.in_work_units && close(kernel.total.mean, 0.1));
        assert!(close(ours.over_baseline.unwrap().ratio, 2.0));
        assert!(close(kernel.over_sequential.unwrap().ratio, 1.3));
        assert!(close(ours.over_sequential.unwrap().ratio, 2.6));
        assert!(close(kernel.speedups[0].mean, 0.5) && close(kernel.speedups[1].mean, 0.75));
        assert!(close(kernel.fairness.unwrap().mean, 0.5 / 0.75));
        assert!(evaluation.runs[0].schedulers[0].over_sequential.is_none());
        assert!(crate::table::render(&evaluation).contains("over sequential"));
    }

    #[test]
    fn an_incomplete_measurement_is_no_result() {
        let mut measurement = measurement();
        measurement.samples.retain(|sample| sample.round == 0);
        let error = evaluate(measurement).unwrap_err().to_string();
        assert!(error.contains("at least 2"), "{error}");
    }

    #[test]
    fn the_json_survives_a_round_trip() {
        let evaluation = evaluate(measurement()).unwrap();
        let json = serde_json::to_string(&evaluation).unwrap();
        let back: Evaluation = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), json);
        assert!(json.contains(SCHEMA) && json.contains("\"label\":\"lab\""));
    }
}
