// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place evaluate`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::Table;
use rand_pcg::Pcg64;
use serde_json::{Map, json};
use threadwise_lab::run::VERSION;
use threadwise_lab::table::table;
use threadwise_placement::{
    Assignments, Evaluation, Experiment, Layouts, Leaf, Predictor, Reading, Sampler, deal,
    evaluate as evaluate_sample, manifest,
};

use super::profile::watched;
use super::subject::{AnswerOptions, StoreOptions, Subject, SubjectOptions};
use crate::Format;

/// Measure the method itself: losses of what it chooses among a sample that is measured as a whole.
///
/// Measure the method itself, as the paper's Figs. 7 to 9 do: profile, predict and measure a whole sample of assignments,
/// and say by how much the chosen one misses the best of them, under each reading of the paper.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    subject: SubjectOptions,

    /// Measure all assignments if there are at most so many, else so many at random and as many balanced ones
    #[arg(long, default_value_t = 1526, value_parser = clap::value_parser!(u32).range(2..=20_000))]
    samples: u32,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    answer: AnswerOptions,
}

impl Options {
    /// Whether programs are simulated.
    pub fn is_simulated(&self) -> bool {
        self.subject.is_simulated()
    }
}

/// The readings by their names.
const READINGS: [(&str, Reading); 3] = [
    ("literal", Reading::Literal),
    ("foreign-only", Reading::ForeignOnly),
    ("excess", Reading::Excess),
];

/// Balanced assignments where all are measured.
const NR_BALANCED: u32 = 100;

/// Profiles, measures and compares.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let [sample, balanced] = sample(&subject, options.samples)?;
    let how = (subject.size, Reading::Literal);
    let experiments = manifest(&subject.tree, &subject.scope, &layouts, how)?;
    if options.answer.dry_run {
        options.answer.would(&format!(
            "run {} experiments of the tables, and measure {} assignments and {} balanced ones",
            experiments.len(),
            sample.len(),
            balanced.len()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let store = subject.open(&options.store)?;
    let mut runner = subject.runner()?;
    let campaign = subject.campaign(&layouts);
    watched(&campaign, &experiments, runner.as_mut(), &store)?;
    let assignments = sample
        .iter()
        .chain(&balanced)
        .cloned()
        .map(Experiment::Assignment);
    watched(
        &campaign,
        &assignments.collect::<Vec<_>>(),
        runner.as_mut(),
        &store,
    )?;
    let tables = campaign.tables(&store)?;
    let mut rows = Vec::new();
    for (name, reading) in READINGS {
        let setting = (subject.size.roles, reading);
        let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
        let both = (&sample[..], &balanced[..]);
        let row = evaluate_sample(&campaign, &mut predictor, both, runner.as_mut(), &store)?;
        rows.push((name, row));
    }
    let nr_unknown = rows.iter().map(|(_, row)| row.nr_unknown).max().unwrap_or(0);
    if nr_unknown == sample.len() {
        bail!(
            "no assignment can be predicted: the machine has no room for the experiments that its tables need"
        );
    }
    if nr_unknown > 0 {
        eprintln!(
            "{nr_unknown} of {} assignments need entries of the tables for which the machine has no room",
            sample.len()
        );
    }
    match options.answer.format {
        Format::Text => {
            println!(
                "{}, {} instances on {} [{}]: losses against the best of {} assignments",
                subject.name,
                subject.size.instances,
                subject.machine.name(),
                runner.label(),
                sample.len()
            );
            println!("{}", losses(&rows));
        }
        Format::Json => println!(
            "{}",
            json!({
                "schema": "threadwise.place.evaluate/1", "subject": subject.name, "machine": subject.machine.name(),
                "instances": subject.size.instances, "seed": subject.seed, "version": VERSION, "label": runner.label(),
                "readings": rows.iter().map(|(name, it)| (name.to_string(), json!(it))).collect::<Map<_, _>>(),
            })
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// All assignments if there are at most so many, else so many at random; and balanced ones.
fn sample(subject: &Subject, nr: u32) -> Result<[Vec<Vec<Leaf>>; 2]> {
    let nr_threads = subject.nr_threads();
    let mut sampler = Sampler::new(&subject.tree, nr_threads)?;
    let mut random = Pcg64::new(u128::from(subject.seed), 0xe7a1);
    let (sample, nr_balanced): (Vec<_>, _) = if *sampler.total() <= nr.into() {
        (
            Assignments::new(&subject.tree, nr_threads)?.collect(),
            NR_BALANCED,
        )
    } else {
        ((0..nr).map(|_| sampler.draw(&mut random)).collect(), nr)
    };
    let balanced = (0..nr_balanced).map(|_| deal(&subject.tree, nr_threads, &mut random));
    Ok([sample, balanced.collect::<Result<_, _>>()?])
}

fn losses(rows: &[(&str, Evaluation)]) -> Table {
    let header = [
        "reading",
        "chosen",
        "best of 5",
        "naive",
        "naive, worst",
        "balanced",
        "balanced, worst",
        "prediction off by",
        "rank correlation",
    ];
    let percent = |loss: f64| format!("{:.1} %", 100.0 * loss);
    let rows = rows.iter().map(|(name, it)| {
        [
            name.to_string(),
            percent(it.top1),
            percent(it.top5),
            percent(it.naive_mean),
            percent(it.naive_worst),
            percent(it.balanced_mean),
            percent(it.balanced_worst),
            percent(it.prediction_error),
            it.rank_correlation
                .map_or_else(|| "none".to_string(), |tau| format!("{tau:.3}")),
        ]
    });
    table(header, rows)
}
