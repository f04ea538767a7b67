// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place profile`, `predict` and `select`: the paper's three phases.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use threadwise_metrics::{RatioSummary, Summary, independent_ratio, paired_ratio};
use threadwise_placement::{
    Best, Campaign, Experiment, Layouts, Predicted, Predictor, Reading, Runner, Sampler, Store, best_of_all,
    count, deal, manifest,
};

use super::shape::cpus_text;
use super::subject::{StoreOptions, Subject, SubjectOptions};
use crate::Format;
use crate::experiment::progress_bar;

/// As many assignments are looked at one by one; of more a sample is drawn. A few minutes.
const MAX_LISTED: u64 = 1_000_000_000;

/// Fill the Base Time Table and the Slowdown Table: run one instance in each of its assignments, and a target instance
/// with each of its threads beside all that the workload could put beside it.
///
/// Every run is kept at once. Whatever ends it, the same command goes on where it was.
#[derive(clap::Args)]
pub struct ProfileOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    /// What will count as beside a thread when assignments are predicted
    #[arg(long, value_enum, default_value_t = Reading::default())]
    reading: Reading,

    #[command(flatten)]
    store: StoreOptions,

    /// Only say what would be run
    #[arg(long)]
    dry_run: bool,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Where predictions come from.
#[derive(clap::Args)]
pub struct TableOptions {
    #[command(flatten)]
    store: StoreOptions,

    /// What counts as beside a thread
    #[arg(long, value_enum, default_value_t = Reading::default())]
    reading: Reading,

    /// Where there are over 1,000,000,000 assignments, predict so many at random
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
}

/// Predict assignments from the tables: those that are given, or the best of all.
#[derive(clap::Args)]
pub struct PredictOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    #[command(flatten)]
    tables: TableOptions,

    /// Predict this assignment: for each instance its threads' CPUs, such as "0,1,2 8,9,10"; may be repeated
    #[arg(long)]
    cpus: Vec<String>,

    /// Print so many of the best
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    top: u32,

    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measure the assignments that are predicted to be the best, and choose the best measured. Beside them, what others would
/// have done: random assignments, balanced ones, and the kernel's placement, with which the chosen one is compared in fresh
/// runs, turn by turn. Exit status 1: the kernel's is better.
#[derive(clap::Args)]
pub struct SelectOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    #[command(flatten)]
    tables: TableOptions,

    /// Measure so many of the best predicted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    top: u32,

    /// Compare the chosen one and the kernel's placement in so many runs each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,

    /// Of each of random and balanced assignments measure so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    baselines: u32,

    /// Only say what would be run
    #[arg(long)]
    dry_run: bool,

    /// How to print the choice
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs a campaign with a progress bar.
pub fn watched(
    campaign: &Campaign,
    experiments: &[Experiment],
    runner: &mut dyn Runner,
    store: &Store,
) -> Result<BTreeMap<Experiment, Vec<f64>>> {
    let bar = progress_bar();
    let mut void = 0;
    let runs = campaign.run(experiments, runner, store, |progress| {
        bar.set_length(progress.all as u64);
        bar.set_position(progress.done as u64);
        let left = progress.seconds_left.map_or(String::new(), |seconds| {
            format!(", {:.0} min left", seconds / 60.0)
        });
        bar.set_message(format!("{} runs, {} void{left}", progress.runs, progress.void));
        void = progress.void;
    })?;
    bar.finish_and_clear();
    if void > 0 {
        eprintln!("{void} runs were repeated: something else used the machine meanwhile");
    }
    Ok(runs)
}

/// Fills the tables.
pub fn profile(options: &ProfileOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let experiments = manifest(
        &subject.tree,
        &subject.scope,
        &layouts,
        (subject.size, options.reading),
    )?;
    let no_room = |it: &&Experiment| it.setting(&layouts, &subject.scope, subject.size.roles).is_none();
    let nr_without_room = experiments.iter().filter(no_room).count();
    if options.dry_run {
        let nr = experiments.len() - nr_without_room;
        let hours = (nr as f64 * f64::from(subject.precision.min) * subject.seconds_a_run) / 3600.0;
        println!(
            "would run {nr} experiments at least {} times each, {hours:.1} h or more",
            subject.precision.min
        );
        return Ok(ExitCode::SUCCESS);
    }
    let store = subject.open(&options.store)?;
    let nr_before = store.runs()?.len();
    let mut runner = subject.runner()?;
    watched(&subject.campaign(&layouts), &experiments, runner.as_mut(), &store)?;
    let nr_new = store.runs()?.len().saturating_sub(nr_before);
    if nr_without_room > 0 {
        eprintln!(
            "{nr_without_room} entries of the Slowdown Table are left out: the machine has no room for their threads' \
             instances; assignments that need them are not predicted"
        );
    }
    let nr_runs = store.runs()?.len();
    let (base, beside) = subject.campaign(&layouts).tables(&store)?.nr_entries();
    match options.format {
        Format::Text => println!(
            "{} [{}]: {base} entries of the Base Time Table and {beside} of the Slowdown Table from {nr_runs} runs, \
             {nr_new} of them new",
            subject.name,
            runner.label()
        ),
        Format::Json => println!(
            "{}",
            json!({
                "schema": "threadwise.place.profile/1", "subject": subject.name, "machine": subject.machine.name(),
                "label": runner.label(), "seed": subject.seed, "base_entries": base, "slowdown_entries": beside,
                "runs": nr_runs, "new_runs": nr_new, "without_room": nr_without_room,
            })
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints predictions.
pub fn predict(options: &PredictOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let store = subject.open_existing(&options.tables.store)?;
    let predicted = if options.cpus.is_empty() {
        best_predicted(&subject, &options.tables, &store, options.top as usize)?
    } else {
        let layouts = Layouts::new(&subject.tree, &subject.scope)?;
        let tables = subject.campaign(&layouts).tables(&store)?;
        let setting = (subject.size.roles, options.tables.reading);
        let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
        let one = |text: &String| {
            let placed = subject.parse(text)?;
            let performance = predictor.predict(&placed);
            if performance.is_nan() {
                bail!(
                    "\"{text}\" needs entries that the tables lack: run `threadwise place profile` for as many instances"
                );
            }
            Ok(Predicted { placed, performance })
        };
        options.cpus.iter().map(one).collect::<Result<_>>()?
    };
    match options.format {
        Format::Text => {
            for it in &predicted {
                println!(
                    "{:>12}  {}",
                    figure(it.performance),
                    cpus_text(&subject.cpus(&it.placed))
                );
            }
        }
        Format::Json => println!(
            "{}",
            json!({
                "schema": "threadwise.place.predict/1", "subject": subject.name, "machine": subject.machine.name(),
                "seed": subject.seed, "reading": options.tables.reading,
                "assignments": predicted.iter().map(|it| json!({
                    "cpus": subject.cpus(&it.placed), "performance": it.performance
                })).collect::<Vec<_>>(),
            })
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// The best predicted, of all assignments or of a sample.
fn best_predicted(
    subject: &Subject,
    options: &TableOptions,
    store: &Store,
    nr: usize,
) -> Result<Vec<Predicted>> {
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let tables = subject.campaign(&layouts).tables(store)?;
    if tables.nr_entries().0 == 0 {
        bail!(
            "the store has no tables: run `threadwise place profile {}` first",
            subject.name
        );
    }
    let setting = (subject.size.roles, options.reading);
    let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
    let all = count(
        &subject.tree,
        &subject.scope,
        subject.size.roles,
        subject.size.instances,
    )?
    .base;
    let best = if all <= MAX_LISTED.into() {
        best_of_all(&subject.tree, &mut predictor, subject.nr_threads(), nr)?
    } else {
        eprintln!(
            "there are {all} assignments: the best of {} at random",
            options.samples
        );
        let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
        let mut random = Pcg64::new(u128::from(subject.seed), 0x9ed1c7);
        let mut best = Best::new(nr);
        for _ in 0..options.samples {
            let placed = sampler.draw(&mut random);
            best.see(&placed, predictor.predict(&placed));
        }
        best
    };
    if best.nr_unknown > 0 {
        eprintln!(
            "{} of {} assignments need entries that the tables lack",
            best.nr_unknown, best.nr_seen
        );
    }
    let best = best.into_sorted();
    if best.is_empty() {
        bail!(
            "no assignment can be predicted: run `threadwise place profile {}` to its end",
            subject.name
        );
    }
    Ok(best)
}

/// Something that the chosen assignment is compared with.
struct Baseline {
    name: &'static str,
    /// One value for each assignment, or run.
    performance: Vec<f64>,
    /// Chosen over it.
    gain: Option<RatioSummary>,
}

/// Measures and chooses.
pub fn select(options: &SelectOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let store = subject.open_existing(&options.tables.store)?;
    let top = best_predicted(&subject, &options.tables, &store, options.top as usize)?;
    let mut random = Pcg64::new(u128::from(subject.seed), 0x5e1ec7);
    let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
    let naive: Vec<_> = (0..options.baselines)
        .map(|_| sampler.draw(&mut random))
        .collect();
    let balanced = (0..options.baselines)
        .map(|_| deal(&subject.tree, subject.nr_threads(), &mut random))
        .collect::<Result<Vec<_>, _>>()?;
    let assignments = top.iter().map(|it| &it.placed).chain(&naive).chain(&balanced);
    let experiments: Vec<_> = assignments.cloned().map(Experiment::Assignment).collect();
    if options.dry_run {
        for it in &top {
            println!(
                "would measure {}  (predicted {})",
                cpus_text(&subject.cpus(&it.placed)),
                figure(it.performance)
            );
        }
        println!(
            "and {} random and {} balanced assignments",
            naive.len(),
            balanced.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let mut runner = subject.runner()?;
    let campaign = subject.campaign(&layouts);
    let runs = watched(&campaign, &experiments, runner.as_mut(), &store)?;
    let of = |placed: &Vec<u16>| &runs[&Experiment::Assignment(placed.clone())];
    let Some(chosen) = top
        .iter()
        .max_by(|a, b| mean(of(&a.placed)).total_cmp(&mean(of(&b.placed))))
    else {
        bail!("no assignment can be predicted");
    };
    // The runs by which it was chosen would flatter it.
    let experiment = Experiment::Assignment(chosen.placed.clone());
    let kernel = Experiment::Kernel(subject.size.instances);
    let (performance, kernel) = if subject.has_kernel() {
        let both = [&experiment, &kernel];
        let [chosen, kernel] = campaign.compare(both, options.rounds as usize, runner.as_mut(), &store)?;
        (chosen, Some(kernel))
    } else {
        (of(&chosen.placed).clone(), None)
    };
    // One value for each assignment that was drawn; where there is but one, its runs.
    let each = |some: &[Vec<u16>]| match some {
        [first, rest @ ..] if rest.iter().all(|placed| placed == first) => of(first).clone(),
        _ => some.iter().map(|placed| mean(of(placed))).collect::<Vec<_>>(),
    };
    let baseline = |name, values: Vec<f64>| Baseline {
        name,
        gain: independent_ratio(&performance, &values).ok(),
        performance: values,
    };
    let mut baselines = vec![
        baseline("naive", each(&naive)),
        baseline("balanced", each(&balanced)),
    ];
    baselines.extend(kernel.map(|values| Baseline {
        name: "kernel",
        gain: paired_ratio(&performance, &values).ok(),
        performance: values,
    }));
    match options.format {
        Format::Text => print_choice(&subject, chosen, &performance, &baselines, &runner.label()),
        Format::Json => println!(
            "{}",
            choice_json(&subject, chosen, &performance, &baselines, &runner.label())
        ),
    }
    let is_worse = |it: &Baseline| it.name == "kernel" && it.gain.is_some_and(|gain| gain.high < 1.0);
    Ok(if baselines.iter().any(is_worse) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn print_choice(
    subject: &Subject,
    chosen: &Predicted,
    performance: &[f64],
    baselines: &[Baseline],
    label: &str,
) {
    println!("chosen: {}", cpus_text(&subject.cpus(&chosen.placed)));
    println!(
        "  threads {} of each instance, in this order",
        subject.thread_names.join(",")
    );
    println!(
        "  predicted {}, measured {} [{label}]",
        figure(chosen.performance),
        with_interval(performance)
    );
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "against",
        "performance",
        "chosen over it",
        "runs",
    ]);
    for it in baselines {
        let gain = it.gain.map_or_else(
            || {
                format!(
                    "{:+.1} %",
                    100.0 * (mean(performance) / mean(&it.performance) - 1.0)
                )
            },
            |gain| {
                let percent = |ratio: f64| 100.0 * (ratio - 1.0);
                format!(
                    "{:+.1} % [{:+.1}, {:+.1}]",
                    percent(gain.ratio),
                    percent(gain.low),
                    percent(gain.high)
                )
            },
        );
        table.add_row([
            it.name.to_string(),
            with_interval(&it.performance),
            gain,
            it.performance.len().to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    println!(
        "naive: each class of equal assignments equally likely; balanced: threads dealt out evenly at random"
    );
    if let Some(kernel) = baselines.iter().find(|it| it.name == "kernel") {
        match kernel.gain {
            Some(gain) if gain.high < 1.0 => {
                println!("the kernel's own placement is better: leave it to the kernel")
            }
            Some(gain) if !gain.excludes_one() => {
                println!("no different from the kernel's own placement, as far as can be told")
            }
            _ => {}
        }
    }
}

fn choice_json(
    subject: &Subject,
    chosen: &Predicted,
    performance: &[f64],
    baselines: &[Baseline],
    label: &str,
) -> Value {
    let baseline = |it: &Baseline| json!({ "name": it.name, "performance": it.performance, "gain": it.gain });
    json!({
        "schema": "threadwise.place.select/1", "subject": subject.name, "machine": subject.machine.name(),
        "label": label, "seed": subject.seed, "threads": subject.thread_names, "cpus": subject.cpus(&chosen.placed),
        "predicted": chosen.performance, "performance": performance,
        "baselines": baselines.iter().map(baseline).collect::<Vec<_>>(),
    })
}

fn with_interval(values: &[f64]) -> String {
    match Summary::of(values) {
        Ok(summary) => format!("{} ± {}", figure(summary.mean), figure(summary.ci95)),
        Err(_) => figure(mean(values)),
    }
}

/// A performance: its unit is the program's, so small figures have decimals.
pub fn figure(value: f64) -> String {
    if value.abs() < 1000.0 {
        format!("{value:.4}")
    } else {
        format!("{value:.0}")
    }
}

/// The mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
