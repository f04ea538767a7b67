// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place predict`: the paper's second phase.

use std::process::ExitCode;

use anyhow::{Result, bail};
use rand_pcg::Pcg64;
use serde_json::json;
use threadwise_placement::{
    Effort, Found, Layouts, Plan, Predicted, Predictor, Ranking, Reading, Sampler, Selection, Store,
    TOLERANCE, all_around, best_of_all, distinct, learn_watched, manifest, nr_orders, search,
};

use super::figures::figure;
use super::profile::{say_void, show};
use super::select::thread_order;
use super::shape::cpus_text;
use super::subject::{AnswerOptions, StoreOptions, Subject, SubjectOptions};
use crate::Format;
use crate::experiment::progress_bar;

/// As many assignments are predicted one by one, which takes seconds; of more the best is searched for.
const MAX_LISTED: u64 = 20_000_000;

/// Assignments that are kept to list fewer that differ.
const MAX_MORE: usize = 100_000;

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
    pub budget: Option<u32>,
}

/// Predict assignments from the tables: those that are given, or the best of all.
///
/// Predictions that differ by less than the tables' runs do are equal, and of equals the assignment goes first in which
/// the fewest threads of different instances share hardware. Instances are of one program, so of assignments that are the same
/// but for the order of up to four instances one is listed.
#[derive(clap::Args)]
pub struct Options {
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

    #[command(flatten)]
    answer: AnswerOptions,
}

/// Prints predictions.
pub fn predict(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    if options.answer.dry_run {
        match options.tables.budget {
            Some(budget) => options
                .answer
                .would(&format!("run at most {budget} experiments to learn the tables")),
            None => options.answer.would("run nothing, only read the tables"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let store = open_tables(&subject, &options.tables)?;
    let predicted = match options.cpus.is_empty() {
        true => best_predicted(&subject, &options.tables, &store, options.top)?,
        false => these_predicted(&subject, options, &store)?,
    };
    match options.answer.format {
        Format::Text => {
            println!(
                "{}, {} instances on {}: predicted performance, and the CPUs",
                subject.name,
                subject.size.instances,
                subject.machine.name()
            );
            println!("{}", thread_order(&subject));
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

/// Those that are given.
fn these_predicted(subject: &Subject, options: &Options, store: &Store) -> Result<Vec<Predicted>> {
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let tables = subject.campaign(&layouts).tables(store)?;
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
    options.cpus.iter().map(one).collect()
}

/// Opens the store: a new one only if there is something to put into it.
pub fn open_tables(subject: &Subject, options: &TableOptions) -> Result<Store> {
    match options.budget {
        Some(_) => subject.open(&options.store),
        None => subject.open_existing(&options.store),
    }
}

/// The best predicted, from tables that are profiled or learned.
pub fn best_predicted(
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
    let campaign = subject.campaign(&layouts);
    let mut void = 0;
    let learned = learn_watched(&campaign, (runner.as_mut(), store), &plan, |progress| {
        show(&bar, progress);
        void = progress.void;
    });
    bar.finish_and_clear();
    say_void(void);
    let learned = learned?;
    let limit = match learned.is_narrow {
        true => "all that matters is known",
        false if learned.nr_experiments < budget as usize => "there are no more to run",
        false => "the budget is used up",
    };
    eprintln!("{} experiments: {limit}", learned.nr_experiments);
    let best = campaign.ranking(store)?.sort(learned.best);
    Ok(distinct(&subject.tree, subject.size.roles, best, nr as usize))
}

fn profiled(subject: &Subject, options: &TableOptions, store: &Store, nr: u32) -> Result<Vec<Predicted>> {
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let campaign = subject.campaign(&layouts);
    let (tables, ranking) = (campaign.tables(store)?, campaign.ranking(store)?);
    if tables.nr_entries().0 == 0 {
        bail!("the store has no tables: run `threadwise place profile` with the same options first");
    }
    let setting = (subject.size.roles, options.reading);
    let mut predictor = Predictor::new(&tables, &subject.tree, &layouts, &subject.scope, setting)?;
    let all = Sampler::new(&subject.tree, subject.nr_threads())?.total().clone();
    if all > MAX_LISTED.into() {
        let how = (subject.size, options.reading);
        let effort = Effort {
            seed: subject.seed,
            ..Effort::default()
        };
        let found = search(&tables, &subject.tree, &layouts, &subject.scope, how, effort)?;
        let manifest = manifest(&subject.tree, &subject.scope, &layouts, how)?;
        let nr_missing = campaign.nr_missing(&manifest, store)?;
        if nr_missing > 0 {
            eprintln!(
                "{nr_missing} of {} entries are not in the tables, and what follows is without the assignments that need \
                 them: run `threadwise place profile` with the same options to its end",
                manifest.len()
            );
        }
        let around = all_around(&subject.tree, &mut predictor, &found.best.placed);
        let best = distinct(
            &subject.tree,
            subject.size.roles,
            ranking.sort(around),
            nr as usize,
        );
        say_bound(&all.to_string(), &found, &ranking, &best);
        return Ok(best);
    }
    listed(subject, &mut predictor, &ranking, nr)
}

/// Says how good the search's best is among all, and why another stands first, if one does.
fn say_bound(all: &str, found: &Found, ranking: &Ranking, listed: &[Predicted]) {
    match 100.0 * (found.bound / found.best.performance - 1.0) {
        _ if found.is_proven => eprint!("of {all} assignments none is predicted to be better"),
        gap if gap.is_finite() => {
            eprint!("of {all} assignments none is predicted to be better by more than {gap:.2} %");
        }
        _ => eprint!("of {all} assignments another may be better: there is no bound for this workload"),
    }
    let is_less = |first: &Predicted| first.performance < found.best.performance * (1.0 - TOLERANCE);
    match listed.first().is_some_and(is_less) {
        true => eprintln!(
            " than {}; within {:.2} % of it, which the tables do not tell apart, those go first in which instances share \
             least",
            figure(found.best.performance),
            100.0 * ranking.tie()
        ),
        false => eprintln!(),
    }
}

/// The best of all, predicted one by one.
fn listed(
    subject: &Subject,
    predictor: &mut Predictor,
    ranking: &Ranking,
    nr: u32,
) -> Result<Vec<Predicted>> {
    // As many more as may be the same but for the order of instances, or for a long list some of them.
    let nr_more = (nr as usize * nr_orders(subject.size.instances)).min(MAX_MORE.max(nr as usize));
    let best = best_of_all(&subject.tree, predictor, subject.nr_threads(), nr_more)?;
    if best.nr_unknown > 0 {
        eprintln!(
            "{} of {} assignments need entries that the tables lack",
            best.nr_unknown, best.nr_seen
        );
    }
    let best = ranking.first_of_all(predictor, &best.into_sorted())?;
    if best.is_empty() {
        bail!(
            "no assignment can be predicted: run `threadwise place profile` with the same options to its end"
        );
    }
    Ok(distinct(&subject.tree, subject.size.roles, best, nr as usize))
}
