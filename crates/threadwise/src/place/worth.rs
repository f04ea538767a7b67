// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place worth`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use threadwise_metrics::{
    BestPossible, Summary, best_possible, chance_of_top, percent_more, relative_noise, without_noise,
};
use threadwise_placement::{Experiment, Layouts, Sampler, deal};

use super::figures::{mean, with_interval};
use super::profile::watched;
use super::subject::{AnswerOptions, StoreOptions, Subject, SubjectOptions};
use crate::Format;

/// So many of the assignments are run so often in all: the noise is then known to a sixth or so.
const NOISE_ASSIGNMENTS: usize = 10;
const NOISE_RUNS: u32 = 3;

/// Balanced assignments that are measured beside the random ones.
const NR_BALANCED: usize = 10;

/// Of the largest of ten runs' noise, the 95 % quantile in standard deviations: 0.95^(1/10) of a normal distribution.
const LARGEST_OF_TEN: f64 = 2.57;

/// The kernel places threads anew in each run, well or badly.
const KERNEL_RUNS: u32 = 5;

/// Estimate from random assignments what the best could be, and say whether it is worth a search.
///
/// Measure random assignments, estimate from the best of them what the best of all could be, and say whether a search
/// could gain enough. What runs of one assignment differ by is no gain: a few are repeated, and it is taken off. Exit status 1: it is not worth it.
///
/// The estimate is by extreme values (peaks over a threshold), as in Radojković et al., "Optimal Task Assignment in
/// Multithreaded Processors: A Statistical Approach", ASPLOS 2012. A random sample cannot show what it has no trace of: where
/// a few of very many assignments are far better than the rest, it takes them for impossible. So some balanced ones,
/// threads dealt out evenly, are measured as well, and if one of them is better than the estimate allows there is none.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    subject: SubjectOptions,

    /// How many random assignments, at least 100
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    samples: u32,

    /// It is worth it if the best could be better by this share: than the kernel's placement (the lower end of its 95 %
    /// interval), or where there is none, than random assignments on the mean
    #[arg(long, default_value_t = 0.05, value_parser = share, allow_negative_numbers = true)]
    gain: f64,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    answer: AnswerOptions,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share >= 0.0 && f64::is_finite(share) => Ok(share),
        Ok(_) => Err("it must be 0 or more, such as 0.05 for 5 %".to_string()),
        Err(error) => Err(format!("{error}")),
    }
}

/// Measures, estimates and answers.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
    if *sampler.total() == 1u32.into() {
        match options.answer.format {
            Format::Text => println!("not worth it: all assignments are the same on this machine"),
            Format::Json => println!(
                "{}",
                json!({ "schema": "threadwise.place.worth/1", "nr_assignments": 1, "worth": false })
            ),
        }
        return Ok(ExitCode::FAILURE);
    }
    if options.answer.dry_run {
        let balanced = match subject.has_kernel() {
            true => format!("{NR_BALANCED} balanced ones and the kernel's placement"),
            false => format!("{NR_BALANCED} balanced ones"),
        };
        options.answer.would(&format!(
            "measure {} random assignments of {}, {balanced}, at least {:.0} s",
            options.samples,
            sampler.total(),
            f64::from(options.samples) * subject.seconds_a_run
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let mut random = Pcg64::new(u128::from(subject.seed), 0x3a3);
    let sample = (0..options.samples).map(|_| Experiment::Assignment(sampler.draw(&mut random)));
    let sample: Vec<_> = sample.collect();
    let balanced = (0..NR_BALANCED).map(|_| deal(&subject.tree, subject.nr_threads(), &mut random));
    let balanced: Vec<_> = balanced
        .map(|placed| Ok(Experiment::Assignment(placed?)))
        .collect::<Result<_>>()?;
    let measured = Measured::new(&subject, &options.store, (&sample, &balanced))?;
    let answer = Answer::new(&measured, options.gain)?;
    match options.answer.format {
        Format::Text => answer.print(&measured),
        Format::Json => println!("{}", answer.json(&measured, subject.seed)),
    }
    Ok(match answer.is_worth {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What was measured.
struct Measured {
    /// Of each assignment of the sample, once.
    performance: Vec<f64>,
    /// The best of the balanced ones.
    balanced: f64,
    /// The standard deviation of runs of one assignment, relative.
    noise: f64,
    /// Runs of the kernel's placement, where there is a kernel.
    kernel: Option<Vec<f64>>,
    /// What is measured.
    label: String,
}

impl Measured {
    fn new(
        subject: &Subject,
        store: &StoreOptions,
        (sample, balanced): (&[Experiment], &[Experiment]),
    ) -> Result<Measured> {
        let store = subject.open(store)?;
        let layouts = Layouts::new(&subject.tree, &subject.scope)?;
        let mut runner = subject.runner()?;
        let mut campaign = subject.campaign(&layouts);
        let kernel = Experiment::Kernel(subject.size.instances);
        let precision = campaign.precision;
        campaign.precision.min = precision.min.max(KERNEL_RUNS);
        campaign.precision.max = precision.max.max(KERNEL_RUNS);
        let kernel = match subject.has_kernel() {
            true => watched(&campaign, &[kernel], runner.as_mut(), &store)?,
            false => BTreeMap::new(),
        };
        // Each assignment once: more of them tell more than repeating them. A few are repeated to learn what noise adds.
        (campaign.precision.min, campaign.precision.max) = (1, 1);
        let once = [sample, balanced].concat();
        watched(&campaign, &once, runner.as_mut(), &store)?;
        (campaign.precision.min, campaign.precision.max) = (NOISE_RUNS, NOISE_RUNS);
        let few: BTreeSet<_> = sample.iter().take(NOISE_ASSIGNMENTS).cloned().collect();
        let few: Vec<_> = few.into_iter().collect();
        let repeated = watched(&campaign, &few, runner.as_mut(), &store)?;
        // Of the first ones some may be void by now.
        (campaign.precision.min, campaign.precision.max) = (1, 1);
        let runs = watched(&campaign, &once, runner.as_mut(), &store)?;
        Ok(Measured {
            // The same assignment may be drawn twice, and counts twice. Of those with more runs the first counts as the
            // others.
            performance: sample.iter().map(|it| runs[it][0]).collect(),
            balanced: balanced.iter().map(|it| mean(&runs[it])).fold(0.0, f64::max),
            noise: relative_noise(repeated.values().map(Vec::as_slice)).unwrap_or(0.0),
            kernel: kernel.into_values().next(),
            label: runner.label(),
        })
    }
}

/// What it says about a search.
struct Answer {
    /// With what the best is compared, and what that does.
    against: &'static str,
    base: f64,
    best: BestPossible,
    /// What the estimate would be if noise were performance.
    with_noise: BestPossible,
    /// The 95 % interval of that, where it is the kernel's placement.
    interval: Option<[f64; 2]>,
    /// What the best could gain at the most, over the lower end of the interval; none where there is no bound.
    gain: Option<f64>,
    /// The best of the balanced ones is better than the estimate allows.
    is_refuted: bool,
    is_worth: bool,
    /// How likely the best of the sample is among the best 1 % of all, in percent.
    top_percent: f64,
}

impl Answer {
    fn new(measured: &Measured, wanted: f64) -> Result<Answer> {
        let average = mean(&measured.performance);
        let noise = measured.noise * average;
        let best = best_possible(&without_noise(&measured.performance, noise), 0.95)?;
        let (against, base) = match &measured.kernel {
            Some(kernel) => ("the kernel's placement", mean(kernel)),
            None => ("random assignments on the mean", average),
        };
        let kernel = measured.kernel.as_deref();
        let interval = kernel
            .and_then(|runs| Summary::of(runs).ok())
            .map(|kernel| [kernel.low(), kernel.high()]);
        let least = interval.map_or(base, |[low, _]| low);
        let noisy = |high| high * (1.0 + LARGEST_OF_TEN * measured.noise);
        let is_refuted = best.high.is_some_and(|high| measured.balanced > noisy(high));
        // What is not known to be out of reach may be there.
        let high = best.high.filter(|_| !is_refuted && least > 0.0);
        let gain = high.map(|high| high / least - 1.0);
        Ok(Answer {
            against,
            base,
            interval,
            with_noise: best_possible(&measured.performance, 0.95)?,
            best,
            is_refuted,
            gain,
            is_worth: gain.is_none_or(|gain| gain >= wanted),
            top_percent: 100.0 * chance_of_top(measured.performance.len() as u64, 0.01)?,
        })
    }

    fn print(&self, measured: &Measured) {
        let percent = |value: f64| percent_more(value / self.base);
        println!(
            "best of {} random assignments: {:+.1} % over {} [{}]",
            measured.performance.len(),
            percent(self.best.observed),
            self.against,
            measured.label
        );
        println!(
            "  runs of one assignment differ by {:.2} % (standard deviation), which is taken off the figures of random ones",
            100.0 * measured.noise
        );
        println!(
            "  it is among the best 1 % of all with a probability of {:.1} %",
            self.top_percent
        );
        println!(
            "best of {NR_BALANCED} balanced ones: {:+.1} %",
            percent(measured.balanced)
        );
        match (self.best.estimate, self.best.high) {
            _ if self.is_refuted => {
                println!(
                    "the best of all: no bound, as that is better than the random ones give reason to expect"
                );
            }
            (Some(estimate), Some(high)) => println!(
                "the best of all, estimated: {:+.1} % [{:+.1}, {:+.1}]",
                percent(estimate),
                percent(self.best.low),
                percent(high)
            ),
            _ => println!("the best of all: no bound can be told from this sample"),
        }
        if let Some(kernel) = &measured.kernel {
            let gain = self.gain.map_or(String::new(), |gain| {
                format!(
                    ", over whose lower end a search could gain {:+.1} % at the most",
                    100.0 * gain
                )
            });
            println!("{} does {}{gain}", self.against, with_interval(kernel));
        }
        println!(
            "{}",
            match (self.is_worth, self.gain) {
                (true, Some(_)) => "worth a search",
                (true, None) => "worth a search, as far as can be told: more --samples may bound it",
                (false, _) => "not worth it",
            }
        );
    }

    fn json(&self, measured: &Measured, seed: u64) -> Value {
        json!({
            "schema": "threadwise.place.worth/1", "label": measured.label, "seed": seed, "against": self.against,
            "base": self.base, "base_interval": self.interval, "best_possible": self.best, "nr_samples": measured.performance.len(),
            "chance_of_top_percent": self.top_percent, "gain_at_most": self.gain,
            "best_balanced": measured.balanced, "refuted": self.is_refuted, "best_with_noise": self.with_noise, "noise": measured.noise, "worth": self.is_worth,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that panics has failed
mod tests {
    use super::*;

    #[test]
    fn the_kernels_placement_is_as_uncertain_as_its_runs() {
        let answer = |kernel: [f64; 5]| {
            let measured = Measured {
                performance: (0..200)
                    .map(|nr| 90.0 + f64::from(nr * 79 % 200) / 20.0)
                    .collect(),
                balanced: 95.0,
                noise: 0.0,
                kernel: Some(kernel.to_vec()),
                label: String::new(),
            };
            Answer::new(&measured, 0.05).unwrap()
        };
        let steady = answer([99.0; 5]);
        assert!(!steady.is_worth, "{:?}", steady.gain);
        // On the mean the same. Student's t of four degrees of freedom is 2.776.
        let varies = answer([99.0, 89.0, 109.0, 94.0, 104.0]);
        let low = 99.0 - 2.776 * (62.5f64 / 5.0).sqrt();
        let gain = varies.best.high.unwrap() / low - 1.0;
        assert!(varies.is_worth && (varies.gain.unwrap() - gain).abs() < 1e-4);
        assert!((varies.interval.unwrap()[0] - low).abs() < 0.01);
        // Where it may do nothing at all there is no bound.
        assert_eq!(answer([1.0, 400.0, 2.0, 3.0, 1.0]).gain, None);
    }
}
