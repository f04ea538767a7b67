// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place worth`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use rand_pcg::Pcg64;
use serde_json::json;
use threadwise_metrics::{best_possible, chance_of_top, relative_noise, without_noise};
use threadwise_placement::{Experiment, Layouts, Sampler};

use super::campaign::mean;
use super::profile::watched;
use super::subject::{StoreOptions, SubjectOptions};
use crate::Format;

/// So many of the assignments are run so often in all: the noise is then known to a sixth or so.
const NOISE_ASSIGNMENTS: usize = 10;
const NOISE_RUNS: u32 = 3;

/// Estimate from random assignments what the best could be, and say whether it is worth a search.
///
/// Measure random assignments, estimate from the best of them what the best of all could be, and say whether a search
/// could gain enough. What runs of one assignment differ by is no gain: a few are repeated, and it is taken off. Exit status 1: it is not worth it.
///
/// The estimate is by extreme values (peaks over a threshold), as in Radojković et al., "Optimal Task Assignment in
/// Multithreaded Processors: A Statistical Approach", ASPLOS 2012.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    subject: SubjectOptions,

    /// How many random assignments, at least 100
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    samples: u32,

    /// It is worth it if the best could be better by this share: than the kernel's placement, or where there is none, than
    /// random assignments on the mean
    #[arg(long, default_value_t = 0.05)]
    gain: f64,

    #[command(flatten)]
    store: StoreOptions,

    /// Only say what would be run
    #[arg(long)]
    dry_run: bool,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measures, estimates and answers.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
    if *sampler.total() == 1u32.into() {
        match options.format {
            Format::Text => println!("not worth it: all assignments are the same on this machine"),
            Format::Json => println!(
                "{}",
                json!({ "schema": "threadwise.place.worth/1", "nr_assignments": 1, "worth": false })
            ),
        }
        return Ok(ExitCode::FAILURE);
    }
    let mut random = Pcg64::new(u128::from(subject.seed), 0x3a3);
    let sample: Vec<Vec<u16>> = (0..options.samples).map(|_| sampler.draw(&mut random)).collect();
    let experiments: Vec<_> = sample.iter().cloned().map(Experiment::Assignment).collect();
    if options.dry_run {
        println!(
            "would measure {} random assignments of {}, at least {:.0} s",
            options.samples,
            sampler.total(),
            f64::from(options.samples) * subject.seconds_a_run
        );
        return Ok(ExitCode::SUCCESS);
    }
    let store = subject.open(&options.store)?;
    let mut runner = subject.runner()?;
    let mut campaign = subject.campaign(&layouts);
    let kernel = match subject.has_kernel() {
        true => watched(
            &campaign,
            &[Experiment::Kernel(subject.size.instances)],
            runner.as_mut(),
            &store,
        )?,
        false => BTreeMap::new(),
    };
    // Each assignment once: more of them tell more than repeating them. A few are repeated to learn what noise adds.
    (campaign.precision.min, campaign.precision.max) = (1, 1);
    let runs = watched(&campaign, &experiments, runner.as_mut(), &store)?;
    (campaign.precision.min, campaign.precision.max) = (NOISE_RUNS, NOISE_RUNS);
    let few: BTreeSet<_> = experiments.iter().take(NOISE_ASSIGNMENTS).cloned().collect();
    let few: Vec<_> = few.into_iter().collect();
    let repeated = watched(&campaign, &few, runner.as_mut(), &store)?;
    let noise = relative_noise(repeated.values().map(Vec::as_slice)).unwrap_or(0.0);
    // The same assignment may be drawn twice, and counts twice. Of those with more runs the first counts as the others.
    let measured: Vec<f64> = experiments.iter().map(|it| runs[it][0]).collect();
    let average = mean(&measured);
    let best = best_possible(&without_noise(&measured, noise * average), 0.95)?;
    let (against, base) = match kernel.values().next() {
        Some(kernel) => ("the kernel's placement", mean(kernel)),
        None => ("random assignments on the mean", average),
    };
    let with_noise = best_possible(&measured, 0.95)?;
    // What is not known to be out of reach may be there.
    let gain = best.high.map(|high| high / base - 1.0);
    let is_worth = gain.is_none_or(|gain| gain >= options.gain);
    let top = chance_of_top(measured.len() as u64, 0.01)?;
    match options.format {
        Format::Text => {
            let percent = |value: f64| 100.0 * (value / base - 1.0);
            println!(
                "best of {} random assignments: {:+.1} % over {against}",
                measured.len(),
                percent(best.observed)
            );
            println!(
                "  runs of one assignment differ by {:.2} % (standard deviation), which is taken off all figures here",
                100.0 * noise
            );
            println!(
                "  it is among the best 1 % of all with a probability of {:.1} %",
                100.0 * top
            );
            match (best.estimate, best.high) {
                (Some(estimate), Some(high)) => println!(
                    "the best of all, estimated: {:+.1} % [{:+.1}, {:+.1}]",
                    percent(estimate),
                    percent(best.low),
                    percent(high)
                ),
                _ => println!("the best of all: no bound can be told from this sample"),
            }
            println!(
                "{}",
                if is_worth {
                    "worth a search"
                } else {
                    "not worth it"
                }
            );
        }
        Format::Json => println!(
            "{}",
            json!({
                "schema": "threadwise.place.worth/1", "label": runner.label(), "seed": subject.seed, "against": against,
                "base": base, "best_possible": best, "nr_samples": measured.len(), "chance_of_top_percent": top,
                "gain_at_most": gain, "best_with_noise": with_noise, "noise": noise, "worth": is_worth,
            })
        ),
    }
    Ok(if is_worth {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
