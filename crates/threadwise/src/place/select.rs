// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place select`: the paper's third phase.

use std::process::ExitCode;

use anyhow::{Context, Result};
use comfy_table::Table;
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use threadwise_lab::run::VERSION;
use threadwise_lab::table::table;
use threadwise_metrics::{RatioSummary, independent_ratio, paired_ratio, percent_more};
use threadwise_placement::{Experiment, Layouts, Leaf, Predicted, Sampler, Store, deal};

use super::figures::{figure, mean, with_interval};
use super::predict::{TableOptions, best_predicted, open_tables};
use super::profile::watched;
use super::shape::cpus_text;
use super::subject::{AnswerOptions, Subject, SubjectOptions};
use crate::Format;

/// Measure the best predicted assignments, and the baselines, and choose.
///
/// Measure the assignments that are predicted to be the best, and choose the best measured. Beside them, what others would
/// have done: random assignments, balanced ones, and the kernel's placement, with which the chosen one is compared in fresh
/// runs, turn by turn. Exit status 1: the kernel's is better.
#[derive(clap::Args)]
pub struct Options {
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

    #[command(flatten)]
    answer: AnswerOptions,
}

/// Something that the chosen assignment is compared with.
struct Baseline {
    name: &'static str,
    /// One value for each assignment, or run.
    performance: Vec<f64>,
    /// Chosen over it.
    gain: Option<RatioSummary>,
}

impl Baseline {
    /// Runs that have nothing to do with those of the chosen one.
    fn independent(name: &'static str, chosen: &[f64], performance: Vec<f64>) -> Baseline {
        Baseline {
            name,
            gain: independent_ratio(chosen, &performance).ok(),
            performance,
        }
    }

    /// Runs in turn with those of the chosen one.
    fn paired(name: &'static str, chosen: &[f64], performance: Vec<f64>) -> Baseline {
        Baseline {
            name,
            gain: paired_ratio(chosen, &performance).ok(),
            performance,
        }
    }

    /// Whether it is better than what was chosen, beyond the noise.
    fn is_better(&self) -> bool {
        self.gain.is_some_and(|gain| gain.high < 1.0)
    }
}

/// What was chosen.
struct Choice {
    predicted: Predicted,
    /// Of each of its runs.
    performance: Vec<f64>,
    baselines: Vec<Baseline>,
    /// What is measured.
    label: String,
}

/// Measures and chooses.
pub fn select(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    if let (true, Some(budget)) = (options.answer.dry_run, options.tables.budget) {
        options.answer.would(&format!(
            "run at most {budget} experiments to learn the tables, and then measure the best predicted"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let store = open_tables(&subject, &options.tables)?;
    let top = best_predicted(&subject, &options.tables, &store, options.top)?;
    let drawn = Drawn::new(&subject, options.baselines)?;
    if options.answer.dry_run {
        for it in &top {
            options.answer.would(&format!(
                "measure {}  (predicted {})",
                cpus_text(&subject.cpus(&it.placed)),
                figure(it.performance)
            ));
        }
        let (naive, balanced) = (drawn.naive.len(), drawn.balanced.len());
        options.answer.would(&format!(
            "measure {naive} random and {balanced} balanced assignments beside them"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let choice = choose(&subject, &store, (top, drawn), options.rounds as usize)?;
    match options.answer.format {
        Format::Text => print_choice(&subject, &choice),
        Format::Json => println!("{}", choice_json(&subject, &choice)),
    }
    let kernel = choice.baselines.iter().find(|it| it.name == KERNEL);
    Ok(match kernel.is_some_and(Baseline::is_better) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// The name of the kernel's own placement among the baselines.
const KERNEL: &str = "kernel";

/// What others would have done.
struct Drawn {
    naive: Vec<Vec<Leaf>>,
    balanced: Vec<Vec<Leaf>>,
}

impl Drawn {
    /// So many of each.
    fn new(subject: &Subject, nr: u32) -> Result<Drawn> {
        let mut random = Pcg64::new(u128::from(subject.seed), 0x5e1ec7);
        let mut sampler = Sampler::new(&subject.tree, subject.nr_threads())?;
        Ok(Drawn {
            naive: (0..nr).map(|_| sampler.draw(&mut random)).collect(),
            balanced: (0..nr)
                .map(|_| deal(&subject.tree, subject.nr_threads(), &mut random))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Measures the best predicted and the drawn assignments, and the best measured beside the kernel's placement.
fn choose(
    subject: &Subject,
    store: &Store,
    (top, drawn): (Vec<Predicted>, Drawn),
    rounds: usize,
) -> Result<Choice> {
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let mut runner = subject.runner()?;
    let campaign = subject.campaign(&layouts);
    let assignments = top
        .iter()
        .map(|it| &it.placed)
        .chain(&drawn.naive)
        .chain(&drawn.balanced);
    let experiments: Vec<_> = assignments.cloned().map(Experiment::Assignment).collect();
    let runs = watched(&campaign, &experiments, runner.as_mut(), store)?;
    let of = |placed: &Vec<Leaf>| &runs[&Experiment::Assignment(placed.clone())];
    let best = top
        .into_iter()
        .max_by(|a, b| mean(of(&a.placed)).total_cmp(&mean(of(&b.placed))));
    let predicted = best.context("no assignment can be predicted")?;
    // The runs by which it was chosen would flatter it.
    let chosen = Experiment::Assignment(predicted.placed.clone());
    let kernel = Experiment::Kernel(subject.size.instances);
    let (performance, kernel) = if subject.has_kernel() {
        let [chosen, kernel] = campaign.compare([&chosen, &kernel], rounds, runner.as_mut(), store)?;
        (chosen, Some(kernel))
    } else {
        (of(&predicted.placed).clone(), None)
    };
    // One value for each assignment that was drawn; where there is but one, its runs.
    let each = |some: &[Vec<Leaf>]| match some {
        [first, rest @ ..] if rest.iter().all(|placed| placed == first) => of(first).clone(),
        _ => some.iter().map(|placed| mean(of(placed))).collect::<Vec<_>>(),
    };
    let mut baselines = vec![
        Baseline::independent("naive", &performance, each(&drawn.naive)),
        Baseline::independent("balanced", &performance, each(&drawn.balanced)),
    ];
    baselines.extend(kernel.map(|kernel| Baseline::paired(KERNEL, &performance, kernel)));
    Ok(Choice {
        predicted,
        performance,
        baselines,
        label: runner.label(),
    })
}

/// Whose CPUs stand where.
pub fn thread_order(subject: &Subject) -> String {
    format!(
        "  threads {} of each instance, in this order",
        subject.thread_names.join(",")
    )
}

fn print_choice(subject: &Subject, choice: &Choice) {
    println!("chosen: {}", cpus_text(&subject.cpus(&choice.predicted.placed)));
    println!("{}", thread_order(subject));
    println!(
        "  predicted {}, measured {} [{}]",
        figure(choice.predicted.performance),
        with_interval(&choice.performance),
        choice.label
    );
    let kernel_is_better = choice
        .baselines
        .iter()
        .any(|it| it.name == KERNEL && it.is_better());
    if let (Some(spec), false, false) = (&subject.spec_path, subject.is_in_lab(), kernel_is_better) {
        println!(
            "  to apply it: threadwise place apply {:?} --cpus \"{}\"{}, or --print taskset",
            spec,
            cpus_text(&subject.cpus(&choice.predicted.placed)),
            " --pid PID".repeat(subject.size.instances)
        );
    }
    println!("{}", against_baselines(choice));
    println!(
        "naive: each class of equal assignments equally likely; balanced: threads dealt out evenly at random"
    );
    if let Some(kernel) = choice.baselines.iter().find(|it| it.name == KERNEL) {
        match kernel.gain {
            _ if kernel.is_better() => {
                println!("the kernel's own placement is better: leave it to the kernel")
            }
            Some(gain) if !gain.excludes_one() => {
                println!("no different from the kernel's own placement, as far as can be told")
            }
            _ => {}
        }
    }
}

fn against_baselines(choice: &Choice) -> Table {
    let rows = choice.baselines.iter().map(|it| {
        let gain = it.gain.map_or_else(
            || {
                format!(
                    "{:+.1} %",
                    percent_more(mean(&choice.performance) / mean(&it.performance))
                )
            },
            |gain| {
                format!(
                    "{:+.1} % [{:+.1}, {:+.1}]",
                    percent_more(gain.ratio),
                    percent_more(gain.low),
                    percent_more(gain.high)
                )
            },
        );
        [
            it.name.to_string(),
            with_interval(&it.performance),
            gain,
            it.performance.len().to_string(),
        ]
    });
    table(["against", "performance", "chosen over it", "runs"], rows)
}

fn choice_json(subject: &Subject, choice: &Choice) -> Value {
    let baseline = |it: &Baseline| json!({ "name": it.name, "performance": it.performance, "gain": it.gain });
    json!({
        "schema": "threadwise.place.select/1", "subject": subject.name, "machine": subject.machine.name(),
        "version": VERSION, "label": choice.label, "seed": subject.seed, "threads": subject.thread_names,
        "cpus": subject.cpus(&choice.predicted.placed), "predicted": choice.predicted.performance,
        "performance": choice.performance, "baselines": choice.baselines.iter().map(baseline).collect::<Vec<_>>(),
    })
}
