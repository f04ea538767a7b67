// SPDX-License-Identifier: GPL-2.0-only
//! Turns samples into the numbers of the report. Void samples count for nothing here.
//!
//! Schedulers are compared within a round: both get the same seed, minutes apart in the same boot. A round that was not
//! measured in full in one boot counts for nothing either.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use threadwise_metrics::{
    JitterSummary, Performance, RatioSummary, Summary, fairness, jitter_summary, paired_ratio,
};
use threadwise_model::fluid;

use crate::error::Error;
use crate::experiment::Synthetic;
use crate::must::{self, Finding};
use crate::run::{Label, Measurement, Sample, boots_of_rounds};

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
    /// Rounds that were measured in full: the experiment's, or fewer if it was interrupted.
    #[serde(default)]
    pub nr_rounds: u32,
    /// In how many boots they were measured.
    #[serde(default)]
    pub nr_boots: u32,
    /// Whether that is what the experiment's file says it must be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
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
    /// What the time is called, if it is one program that is timed: performance is then one over that time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The fluid bound: what both boosts reach with perfect sharing, from the most that each program did alone under any
    /// of the schedulers.
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
    /// Each program's jitter (eq. 5), of the times for a unit of work in the rounds, whose seeds differ, but
    /// with [`Experiment::same_phases`].
    pub jitter: Vec<JitterSummary>,
    /// The share of CPU time that was idle.
    pub idle: Summary,
    /// The share of last-level cache accesses that missed, where the lab models caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<Summary>,
    /// Instructions of the guest in a run of programs that are timed, its kernel's included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Summary>,
    /// The same over the baseline's, in pairs of the same round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_over_baseline: Option<RatioSummary>,
    /// What each package consumed in a run, in joules, where that was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joules: Vec<Summary>,
}

/// Evaluates what was measured.
///
/// # Errors
/// If there are fewer than two complete rounds, so that there is no spread.
pub fn evaluate(measurement: Measurement) -> Result<Evaluation, Error> {
    let rounds = Rounds::of(&measurement);
    let runs = measurement
        .experiment
        .runs
        .iter()
        .map(|run| run_result(&rounds, run))
        .collect::<Result<_, _>>()?;
    let boots: BTreeSet<u32> = rounds.boots.values().copied().collect();
    let (nr_rounds, nr_boots) = (rounds.boots.len() as u32, boots.len() as u32);
    let mut evaluation = Evaluation {
        schema: SCHEMA.to_string(),
        label: measurement.label,
        runs,
        nr_void: measurement.samples.iter().filter(|sample| sample.void).count(),
        nr_rounds,
        nr_boots,
        findings: Vec::new(),
        measurement,
    };
    evaluation.findings = must::findings(&evaluation);
    Ok(evaluation)
}

fn run_result(rounds: &Rounds, run: &[String]) -> Result<RunResult, Error> {
    let experiment = &rounds.measurement.experiment;
    let baseline = rounds.totals(&experiment.schedulers[0].name, run);
    let bounds = bounds(rounds, run)?;
    let counted = instructions(rounds, &experiment.schedulers[0].name, run);
    let schedulers = experiment
        .schedulers
        .iter()
        .enumerate()
        .map(|(index, scheduler)| {
            let samples = rounds.samples(&scheduler.name, run);
            let total = Summary::of(&totals(&samples))?;
            let over_baseline = (index > 0)
                .then(|| paired_ratio(&totals(&samples), &baseline))
                .transpose()?;
            let alone: Option<Vec<_>> = run
                .iter()
                .map(|name| rounds.alone(&scheduler.name, name))
                .collect();
            let over_sequential = alone
                .filter(|_| experiment.is_in_two_orders(run))
                .map(|alone| paired_ratio(&totals(&samples), &one_after_the_other(&alone)))
                .transpose()?;
            let speedups = rounds.speedups(&scheduler.name, run)?;
            let instructions = instructions(rounds, &scheduler.name, run);
            let more_instructions = instructions.as_ref().zip(counted.as_ref()).filter(|_| index > 0);
            let fairness = rounds.fairness(&scheduler.name, run)?;
            Ok(SchedulerResult {
                scheduler: scheduler.name.clone(),
                total,
                over_baseline,
                share_of_bound: bounds
                    .as_ref()
                    .map(|bounds| Summary::of(&ratios(&totals(&samples), bounds)))
                    .transpose()?,
                over_sequential,
                speedups: summaries(&speedups)?,
                fairness: fairness.map(|values| Summary::of(&values)).transpose()?,
                jitter: jitters(&samples, run.len())?,
                idle: Summary::of(&samples.iter().map(|sample| sample.idle).collect::<Vec<_>>())?,
                misses: misses(&samples).as_deref().map(Summary::of).transpose()?,
                instructions: instructions.as_deref().map(Summary::of).transpose()?,
                instructions_over_baseline: more_instructions
                    .map(|(ours, first)| paired_ratio(ours, first))
                    .transpose()?,
                joules: joules(&samples)?,
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(RunResult {
        run: run.to_vec(),
        in_work_units: experiment.counts_work(run),
        time: match run {
            [one] => experiment.program(one).time_name(),
            _ => None,
        },
        bound: bounds
            .map(|bounds| Summary::of(&bounds))
            .transpose()?
            .map(|bounds| bounds.mean),
        schedulers,
    })
}

/// What counts of a measurement: the rounds that were measured in full, and their valid samples.
pub struct Rounds<'a> {
    measurement: &'a Measurement,
    /// The boot of each.
    boots: BTreeMap<u32, u32>,
}

impl<'a> Rounds<'a> {
    /// Those of a measurement.
    pub fn of(measurement: &'a Measurement) -> Self {
        let boots = boots_of_rounds(&measurement.experiment, &measurement.samples);
        Self { measurement, boots }
    }

    /// The boot of each round.
    pub fn boots(&self) -> &BTreeMap<u32, u32> {
        &self.boots
    }

    /// The samples of a run under a scheduler, one a round, in order.
    pub fn samples(&self, scheduler: &str, run: &[String]) -> Vec<&'a Sample> {
        let counts = |sample: &&Sample| {
            !sample.void
                && sample.scheduler == scheduler
                && sample.run == run
                && self.boots.get(&sample.round) == Some(&sample.boot)
        };
        let mut samples: Vec<_> = self.measurement.samples.iter().filter(counts).collect();
        samples.sort_by_key(|sample| sample.round);
        samples
    }

    /// The performance of all programs of a run together, one a round.
    pub fn totals(&self, scheduler: &str, run: &[String]) -> Vec<f64> {
        totals(&self.samples(scheduler, run))
    }

    /// What all packages consumed, in joules, one a round; zeros where that is not known.
    pub fn joules(&self, scheduler: &str, run: &[String]) -> Vec<f64> {
        let samples = self.samples(scheduler, run);
        samples.iter().map(|sample| sample.joules.iter().sum()).collect()
    }

    /// A program's performance alone in each round, if the experiment ran it, or one that differs in nothing but its
    /// name and seed, alone.
    fn alone(&self, scheduler: &str, name: &str) -> Option<Vec<f64>> {
        let experiment = &self.measurement.experiment;
        let program = experiment.program(name);
        let equals = experiment
            .programs
            .iter()
            .filter(|other| other.does_the_same_as(program));
        std::iter::once(program)
            .chain(equals)
            .map(|program| self.totals(scheduler, std::slice::from_ref(&program.name)))
            .find(|totals| !totals.is_empty())
    }

    /// The most that a program did alone in each round under any scheduler: who does not know which CPU is fast is no
    /// measure for those who do.
    fn best_alone(&self, name: &str) -> Option<Vec<f64>> {
        let schedulers = self.measurement.experiment.schedulers.iter();
        let alone: Vec<_> = schedulers
            .filter_map(|scheduler| self.alone(&scheduler.name, name))
            .collect();
        let nr_rounds = alone.iter().map(Vec::len).min()?;
        let best = |round: usize| alone.iter().map(|of| of[round]).fold(0.0, f64::max);
        Some((0..nr_rounds).map(best).collect())
    }

    /// For each program its speedup (eq. 2) in each round; empty for one program, or if one was not run alone.
    ///
    /// # Errors
    /// If a performance is zero.
    pub fn speedups(&self, scheduler: &str, run: &[String]) -> Result<Vec<Vec<f64>>, Error> {
        let alone: Option<Vec<_>> = run.iter().map(|name| self.alone(scheduler, name)).collect();
        let Some(alone) = alone.filter(|_| run.len() > 1) else {
            return Ok(Vec::new());
        };
        let samples = self.samples(scheduler, run);
        let of_program = |(program, alone): (usize, &Vec<f64>)| {
            let pairs = samples.iter().zip(alone);
            let speedup = |(sample, &alone): (&&Sample, &f64)| {
                let together = sample.performance[program];
                Ok(Performance { alone, together }.speedup()?)
            };
            pairs.map(speedup).collect::<Result<_, Error>>()
        };
        alone.iter().enumerate().map(of_program).collect()
    }

    /// Fairness (eq. 3) in each round, where there are speedups.
    ///
    /// # Errors
    /// As [`Rounds::speedups`].
    pub fn fairness(&self, scheduler: &str, run: &[String]) -> Result<Option<Vec<f64>>, Error> {
        let speedups = self.speedups(scheduler, run)?;
        let Some(first) = speedups.first() else {
            return Ok(None);
        };
        let of_round = |round: usize| speedups.iter().map(|values| values[round]).collect::<Vec<_>>();
        let fair = (0..first.len()).map(|round| Ok(fairness(&of_round(round))?));
        fair.collect::<Result<_, Error>>().map(Some)
    }
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

fn ratios(values: &[f64], over: &[f64]) -> Vec<f64> {
    values
        .iter()
        .zip(over)
        .map(|(value, over)| value / over)
        .collect()
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

fn summaries(series: &[Vec<f64>]) -> Result<Vec<Summary>, Error> {
    series.iter().map(|values| Ok(Summary::of(values)?)).collect()
}

/// Instructions in each round, if they were counted and the run's programs are timed: what counts work for a time does more of it
/// with as many.
fn instructions(rounds: &Rounds, scheduler: &str, run: &[String]) -> Option<Vec<f64>> {
    let experiment = &rounds.measurement.experiment;
    let is_timed = run.iter().all(|name| experiment.program(name).is_timed());
    let samples = rounds.samples(scheduler, run).into_iter().filter(|_| is_timed);
    let counted: Option<Vec<f64>> = samples.map(|sample| Some(sample.instructions? as f64)).collect();
    counted.filter(|counted| !counted.is_empty())
}

/// In each round, if all samples have them.
fn misses(samples: &[&Sample]) -> Option<Vec<f64>> {
    let rates = samples
        .iter()
        .map(|sample| Some(sample.caches.as_ref()?.miss_rate()));
    let rates: Option<Vec<f64>> = rates.collect();
    rates.filter(|rates| !rates.is_empty())
}

/// By package, if all samples have them.
fn joules(samples: &[&Sample]) -> Result<Vec<Summary>, Error> {
    let nr_packages = samples
        .iter()
        .map(|sample| sample.joules.len())
        .min()
        .unwrap_or(0);
    let of = |package: usize| {
        let values: Vec<f64> = samples.iter().map(|sample| sample.joules[package]).collect();
        Summary::of(&values)
    };
    Ok((0..nr_packages).map(of).collect::<Result<_, _>>()?)
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

/// The fluid bound (thread-essence, section VI, with serial and seniority boost) of synthetic programs that run together,
/// in each round, from the most that each did alone in that round under any of the schedulers. It bounds who goes by phases
/// and does not foresee them: who does has up to 5 % more ([`fluid::Policy::Clairvoyant`]).
fn bounds(rounds: &Rounds, run: &[String]) -> Result<Option<Vec<f64>>, Error> {
    let measurement = rounds.measurement;
    let experiment = &measurement.experiment;
    let programs: Option<Vec<_>> = run
        .iter()
        .map(|name| experiment.program(name).synthetic.as_ref())
        .collect();
    let alone: Option<Vec<_>> = run.iter().map(|name| rounds.best_alone(name)).collect();
    let (Some(programs), Some(alone)) = (programs, alone) else {
        return Ok(None);
    };
    let distribution = programs[0].distribution;
    let is_of_the_model = |program: &&Synthetic| {
        program.threads.is_none() && program.memory.is_none() && program.distribution == distribution
    };
    // It knows no weights, and all programs may use all CPUs.
    let is_like_others = |name: &String| {
        let program = experiment.program(name);
        program.bound_to.is_none() && program.nice == experiment.program(&run[0]).nice
    };
    let is_modelled = programs.iter().all(is_of_the_model) && run.iter().all(is_like_others);
    if measurement.smt || run.len() < 2 || !is_modelled {
        return Ok(None);
    }
    let ratios: Vec<_> = programs.iter().map(|program| program.ratio).collect();
    let machine = fluid::Machine::new(measurement.nr_cpus as u32, measurement.asymmetry)?;
    let length = fluid::Length {
        distribution,
        ..fluid::Length::default()
    };
    let playout = fluid::play_out(machine, &ratios, fluid::Policy::Seniority, length)?;
    let speedups: Vec<f64> = playout
        .outcome
        .programs
        .iter()
        .map(|program| program.speedup)
        .collect();
    let of_round = |round: usize| {
        let alone: Vec<f64> = alone.iter().map(|of_program| of_program[round]).collect();
        Ok(fluid::bound_total(&alone, &speedups)?)
    };
    let nr_rounds = alone.iter().map(Vec::len).min().unwrap_or(0);
    (0..nr_rounds)
        .map(of_round)
        .collect::<Result<_, Error>>()
        .map(Some)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use threadwise_metrics::TwoOrders;

    use super::*;
    use crate::experiment::Experiment;

    pub(crate) const EXPERIMENT: &str = r#"
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
            boot: 0,
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
            stood_still_s: 0.0,
            caches: None,
            instructions: None,
            host_s: None,
            joules: Vec::new(),
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
            scheduler_versions: vec![String::new(), String::from("scx_threadwise 1.0")],
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

    /// Programs that are timed need 100 and 120 instructions; what runs for a time does more with more.
    #[test]
    fn instructions_are_compared_where_the_work_is_the_same() {
        let counted = |program: &str| {
            let mut measured = measurement();
            let text = EXPERIMENT.replace("synthetic = { ratio = \"1:1\", phase_units = 1 }", program);
            let text = format!("runs = [[\"A\"]]\n{text}");
            measured.experiment = Experiment::from_toml(&text, Path::new("t.toml")).unwrap();
            measured.samples.retain(|sample| sample.run == ["A"]);
            for sample in &mut measured.samples {
                sample.instructions = Some(if sample.scheduler == "ours" { 120 } else { 100 });
            }
            let mut runs = evaluate(measured).unwrap().runs;
            runs.remove(0).schedulers
        };
        let timed = counted("command = [\"a\"]\ntime_label = \"s\"");
        let more = |result: &SchedulerResult| result.instructions_over_baseline.map(|more| more.ratio);
        assert!(close(more(&timed[1]).unwrap(), 1.2) && more(&timed[0]).is_none());
        assert!(close(timed[0].instructions.unwrap().mean, 100.0));
        for other in [
            "command = [\"a\"]\nfigure_label = \"MB\"",
            "synthetic = { ratio = \"1:1\", phase_units = 1 }",
        ] {
            let others = counted(other);
            assert!(
                others
                    .iter()
                    .all(|result| result.instructions.is_none() && more(result).is_none())
            );
        }
    }

    #[test]
    fn there_is_no_bound_for_programs_of_several_weights_or_that_are_bound() {
        let has_bound = |change: &dyn Fn(&mut Measurement)| {
            let mut measured = measurement();
            change(&mut measured);
            evaluate(measured).unwrap().runs[2].bound.is_some()
        };
        assert!(has_bound(&|_| ()));
        assert!(has_bound(&|measured| measured
            .experiment
            .programs
            .iter_mut()
            .for_each(|of| of.nice = 5)));
        assert!(!has_bound(&|measured| measured.experiment.programs[1].nice = 5));
        assert!(!has_bound(
            &|measured| measured.experiment.programs[1].bound_to = Some(3)
        ));
    }

    #[test]
    fn the_bound_is_of_who_did_the_most_alone_whoever_comes_first() {
        let bound = |measurement: Measurement| evaluate(measurement).unwrap().runs[2].bound.unwrap();
        let equal = bound(measurement());
        let mut faster = measurement();
        let alone = |sample: &&mut Sample| sample.scheduler == "ours" && sample.run.len() == 1;
        for sample in faster.samples.iter_mut().filter(alone) {
            sample.performance[0] *= 1.5;
        }
        assert!(close(bound(faster.clone()), 1.5 * equal));
        faster.experiment.schedulers.reverse();
        assert!(close(bound(faster), 1.5 * equal));
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
    fn rounds_are_of_one_boot() {
        let mut resumed = measurement();
        // The second round was cut short in the first boot, after the kernel's scheduler, and taken in another.
        let again: Vec<Sample> = resumed
            .samples
            .iter()
            .filter(|sample| sample.round == 1)
            .map(|sample| Sample {
                boot: 1,
                performance: sample.performance.iter().map(|value| value * 2.0).collect(),
                ..sample.clone()
            })
            .collect();
        resumed
            .samples
            .retain(|sample| sample.round == 0 || sample.scheduler == "kernel");
        let cut_short = Rounds::of(&resumed).boots;
        assert_eq!(cut_short, BTreeMap::from([(0, 0)]));
        assert!(evaluate(resumed.clone()).is_err(), "one round has no spread");
        resumed.samples.extend(again);
        let rounds = Rounds::of(&resumed);
        assert_eq!(rounds.boots, BTreeMap::from([(0, 0), (1, 1)]));
        let totals = rounds.totals("kernel", &resumed.experiment.runs[2]);
        assert!(
            close(totals[0], 550.0) && close(totals[1], 2.0 * 550.0 * 1.01),
            "{totals:?}"
        );
        let evaluation = evaluate(resumed).unwrap();
        assert_eq!((evaluation.nr_rounds, evaluation.nr_boots), (2, 2));
        let gain = evaluation.runs[2].schedulers[1].over_baseline.unwrap();
        assert!(close(gain.ratio, 800.0 / 550.0), "pairs are of one boot");
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
