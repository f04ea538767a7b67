// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place evaluate`.

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use rand_pcg::Pcg64;
use serde_json::json;
use threadwise_placement::{
    Assignments, Evaluation, Layouts, Predictor, Reading, Sampler, deal, evaluate as evaluate_sample,
    manifest,
};

use super::profile::watched;
use super::subject::{StoreOptions, SubjectOptions};
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

    /// Only say what would be run
    #[arg(long)]
    dry_run: bool,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Profiles, measures and compares.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let nr_threads = subject.nr_threads();
    let mut sampler = Sampler::new(&subject.tree, nr_threads)?;
    let mut random = Pcg64::new(u128::from(subject.seed), 0xe7a1);
    let (sample, balanced) = if *sampler.total() <= options.samples.into() {
        let sample: Vec<_> = Assignments::new(&subject.tree, nr_threads)?.collect();
        let balanced = (0..100).map(|_| deal(&subject.tree, nr_threads, &mut random));
        (sample, balanced.collect::<Result<Vec<_>, _>>()?)
    } else {
        let sample = (0..options.samples).map(|_| sampler.draw(&mut random)).collect();
        let balanced = (0..options.samples).map(|_| deal(&subject.tree, nr_threads, &mut random));
        (sample, balanced.collect::<Result<_, _>>()?)
    };
    let how = (subject.size, Reading::Literal);
    let experiments = manifest(&subject.tree, &subject.scope, &layouts, how)?;
    if options.dry_run {
        println!(
            "would run {} experiments of the tables, and measure {} assignments and {} balanced ones",
            experiments.len(),
            sample.len(),
            balanced.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let store = subject.open(&options.store)?;
    let mut runner = subject.runner()?;
    let campaign = subject.campaign(&layouts);
    watched(&campaign, &experiments, runner.as_mut(), &store)?;
    let tables = campaign.tables(&store)?;
    let mut rows = Vec::new();
    for (name, reading) in [
        ("literal", Reading::Literal),
        ("foreign-only", Reading::ForeignOnly),
        ("excess", Reading::Excess),
    ] {
        let setting = (subject.size.roles, reading);
        let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
        rows.push((
            name,
            evaluate_sample(
                &campaign,
                &mut predictor,
                (&sample, &balanced),
                runner.as_mut(),
                &store,
            )?,
        ));
    }
    if options.format == Format::Json {
        let json = json!({
            "schema": "threadwise.place.evaluate/1", "subject": subject.name, "machine": subject.machine.name(),
            "instances": subject.size.instances, "seed": subject.seed, "label": runner.label(),
            "readings": rows.iter().map(|(name, it)| (name.to_string(), json!(it))).collect::<serde_json::Map<_, _>>(),
        });
        println!("{json}");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{}, {} instances on {} [{}]: losses against the best of {} assignments",
        subject.name,
        subject.size.instances,
        subject.machine.name(),
        runner.label(),
        sample.len()
    );
    println!("{}", table(&rows));
    Ok(ExitCode::SUCCESS)
}

fn table(rows: &[(&str, Evaluation)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "reading",
        "chosen",
        "best of 5",
        "naive",
        "worst",
        "balanced",
        "worst",
        "prediction off by",
        "rank correlation",
    ]);
    let percent = |loss: f64| format!("{:.1} %", 100.0 * loss);
    for (name, it) in rows {
        table.add_row([
            name.to_string(),
            percent(it.top1),
            percent(it.top5),
            percent(it.naive_mean),
            percent(it.naive_worst),
            percent(it.balanced_mean),
            percent(it.balanced_worst),
            percent(it.prediction_error),
            format!("{:.3}", it.rank_correlation),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
