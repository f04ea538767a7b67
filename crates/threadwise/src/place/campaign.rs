// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place predict` and `select`: the paper's second and third phase.

use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use threadwise_metrics::{RatioSummary, Summary, independent_ratio, paired_ratio};
use threadwise_placement::{
    Effort, Experiment, Layouts, Plan, Predicted, Predictor, Reading, Sampler, Selection, Store, all_around,
    best_of_all, deal, learn_watched, search,
};

use super::profile::{show, watched};
use super::shape::cpus_text;
use super::subject::{StoreOptions, Subject, SubjectOptions};
use crate::Format;
use crate::experiment::progress_bar;

/// As many assignments are predicted one by one, which takes seconds; of more the best is searched for.
const MAX_LISTED: u64 = 20_000_000;

/// Where predictions come from.
#[derive(clap::Args)]
pub struct TableOptions {
    #[command(flatten)]
    store: StoreOptions,

    /// What counts as beside a thread
    #[arg(long, value_enum, default_value_t = Reading::default())]
    reading: Reading,

    /// Learn the tables from at most so many experiments, chosen one by one, instead of profiling every entry
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    budget: Option<u32>,
}

/// Predict assignments from the tables: those that are given, or the best of all.
#[derive(clap::Args)]
pub struct PredictOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    #[command(flatten)]
    tables: TableOptions,

    /// Predict this assignment: for each instance its threads' CPUs, such as "0,1,2 8,9,10"; may be repeated
    #[arg(long, conflicts_with = "budget")]
    cpus: Vec<String>,

    /// Print so many of the best
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    top: u32,

    /// With --budget, only say what would be run; without it nothing is
    #[arg(long, requires = "budget")]
    dry_run: bool,

    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measure the best predicted assignments, and the baselines, and choose.
///
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

/// Prints predictions.
pub fn predict(options: &PredictOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    if let (true, Some(budget)) = (options.dry_run, options.tables.budget) {
        println!("would run at most {budget} experiments to learn the tables");
        return Ok(ExitCode::SUCCESS);
    }
    let store = open_tables(&subject, &options.tables)?;
    let predicted = if options.cpus.is_empty() {
        best_predicted(&subject, &options.tables, &store, options.top)?
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
                "seed": subject.seed, "reading": options.tables.reading, "budget": options.tables.budget,
                "assignments": predicted.iter().map(|it| json!({
                    "cpus": subject.cpus(&it.placed), "performance": it.performance
                })).collect::<Vec<_>>(),
            })
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the store: a new one only if there is something to put into it.
fn open_tables(subject: &Subject, options: &TableOptions) -> Result<Store> {
    match options.budget {
        Some(_) => subject.open(&options.store),
        None => subject.open_existing(&options.store),
    }
}

/// The best predicted, from tables that are profiled or learned.
fn best_predicted(
    subject: &Subject,
    options: &TableOptions,
    store: &Store,
    nr: u32,
) -> Result<Vec<Predicted>> {
    match options.budget {
        Some(budget) => learned(subject, options, store, (nr, budget)),
        None => profiled(subject, options, store, nr),
    }
}

/// Assignments at random among which the learned best are sought.
const NR_CANDIDATES: usize = 1000;

/// Changes that are tried on each of the best of them.
const NR_CLIMBS: usize = 300;

fn learned(
    subject: &Subject,
    options: &TableOptions,
    store: &Store,
    (nr, budget): (u32, u32),
) -> Result<Vec<Predicted>> {
    if let Some(beyond) = subject.scope.beyond() {
        bail!(
            "what threads do to each other beyond a \"{}\", in a \"{}\", is not learned: leave --budget or --beyond out",
            subject.scope.level(),
            beyond.level()
        );
    }
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
    let mut random = Pcg64::new(u128::from(subject.seed), 0x9ed1c7);
    let candidates: Vec<_> = (0..NR_CANDIDATES).map(|_| sampler.draw(&mut random)).collect();
    let plan = Plan {
        budget: budget as usize,
        candidates: &candidates,
        reading: options.reading,
        selection: Selection::Active,
        climbs: NR_CLIMBS,
    };
    let mut runner = subject.runner()?;
    let bar = progress_bar();
    let learned = learn_watched(
        &subject.campaign(&layouts),
        (runner.as_mut(), store),
        &plan,
        |progress| {
            show(&bar, progress);
        },
    )?;
    bar.finish_and_clear();
    let limit = if learned.is_narrow {
        "all that matters is known"
    } else {
        "the budget is used up"
    };
    eprintln!("{} experiments: {limit}", learned.nr_experiments);
    Ok(learned.best.into_iter().take(nr as usize).collect())
}

fn profiled(subject: &Subject, options: &TableOptions, store: &Store, nr: u32) -> Result<Vec<Predicted>> {
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let campaign = subject.campaign(&layouts);
    let (tables, ranking) = (campaign.tables(store)?, campaign.ranking(store)?);
    if tables.nr_entries().0 == 0 {
        bail!("the store has no tables: run `threadwise place profile` with the same options first");
    }
    let setting = (subject.size.roles, options.reading);
    let sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
    let all = sampler.total();
    let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
    if *all > MAX_LISTED.into() {
        let effort = Effort {
            seed: subject.seed,
            ..Effort::default()
        };
        let found = search(
            &tables,
            &subject.tree,
            &layouts,
            &subject.scope,
            (subject.size, options.reading),
            effort,
        )?;
        match 100.0 * (found.bound / found.best.performance - 1.0) {
            _ if found.is_proven => eprintln!("of {all} assignments none is predicted to be better"),
            gap if gap.is_finite() => {
                eprintln!("of {all} assignments none is predicted to be better by more than {gap:.2} %");
            }
            _ => eprintln!("of {all} assignments another may be better: there is no bound for this workload"),
        }
        let around = all_around(&subject.tree, &mut predictor, &found.best.placed);
        let mut best = ranking.sort(around);
        best.truncate(nr as usize);
        return Ok(best);
    }
    let best = best_of_all(&subject.tree, &mut predictor, subject.nr_threads(), nr as usize)?;
    if best.nr_unknown > 0 {
        eprintln!(
            "{} of {} assignments need entries that the tables lack",
            best.nr_unknown, best.nr_seen
        );
    }
    let best = ranking.first_of_all(&mut predictor, &best.into_sorted())?;
    if best.is_empty() {
        bail!(
            "no assignment can be predicted: run `threadwise place profile` with the same options to its end"
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
    if let (true, Some(budget)) = (options.dry_run, options.tables.budget) {
        println!(
            "would run at most {budget} experiments to learn the tables, and then measure the best predicted"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let store = open_tables(&subject, &options.tables)?;
    let top = best_predicted(&subject, &options.tables, &store, options.top)?;
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
