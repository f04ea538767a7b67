// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place profile` and `merge`: the paper's first phase, on one machine or on several.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use threadwise_placement::{
    Campaign, Experiment, Layouts, Merging, Progress, Reading, Runner, Store, manifest,
};

use super::subject::{AnswerOptions, StoreOptions, SubjectOptions};
use crate::Format;
use crate::experiment::progress_bar;

/// Fill the Base Time Table and the Slowdown Table.
///
/// Fill the Base Time Table and the Slowdown Table: run one instance in each of its assignments, and a target instance
/// with each of its threads beside all that the workload could put beside it.
///
/// The experiments stand in a fixed order, so that several machines can run a part each, with a store each. Every run is
/// kept
/// at once. Whatever ends it, the same command goes on where it was.
#[derive(clap::Args)]
pub struct ProfileOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    /// What will count as beside a thread when assignments are predicted
    #[arg(long, value_enum, default_value_t = Reading::default())]
    reading: Reading,

    /// Run only this part of the experiments, such as 2/4 on the second of four machines; `place merge` joins their stores
    #[arg(long, value_name = "I/N")]
    part: Option<Part>,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    answer: AnswerOptions,
}

/// Join the stores that several machines have filled.
///
/// Join the stores that `place profile --part` has filled on several machines, or any others of the same workload on equal
/// machines. A run that is there already is not added again.
#[derive(clap::Args)]
pub struct MergeOptions {
    #[command(flatten)]
    subject: SubjectOptions,

    /// The stores whose runs are added
    #[arg(required = true)]
    stores: Vec<PathBuf>,

    #[command(flatten)]
    store: StoreOptions,

    #[command(flatten)]
    answer: AnswerOptions,
}

/// Every so-manieth experiment of a list.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// From 1 to `all`.
    nr: usize,
    all: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers = text.split_once('/').map(|(nr, all)| (nr.parse(), all.parse()));
        match numbers {
            Some((Ok(nr), Ok(all))) if 1 <= nr && nr <= all => Ok(Part { nr, all }),
            _ => Err("it must be I/N with I from 1 to N, such as 2/4".to_string()),
        }
    }
}

impl Part {
    /// Neighbours in the list go to different parts, so that each takes about as long.
    fn of<T>(self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.nr - 1).step_by(self.all).collect()
    }
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
        show(&bar, progress);
        void = progress.void;
    });
    bar.finish_and_clear();
    say_void(void);
    Ok(runs?)
}

/// Says how many runs are void, if any are: other commands may have made some of them.
pub fn say_void(nr: usize) {
    if nr > 0 {
        eprintln!(
            "{nr} runs are void: something else used the machine meanwhile; those that are needed here are repeated, the \
             others by the commands that made them"
        );
    }
}

/// Shows how far a campaign is.
pub fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(progress.all as u64);
    bar.set_position(progress.done as u64);
    bar.set_message(format!(
        "{} runs, {} void, {:.0} min left",
        progress.runs,
        progress.void,
        progress.seconds_left / 60.0
    ));
}

/// Fills the tables.
pub fn profile(options: &ProfileOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let layouts = Layouts::new(&subject.tree, &subject.scope)?;
    let how = (subject.size, options.reading);
    let all = manifest(&subject.tree, &subject.scope, &layouts, how)?;
    let experiments = match options.part {
        Some(part) => part.of(all),
        None => all,
    };
    let no_room = |it: &&Experiment| it.setting(&layouts, &subject.scope, subject.size.roles).is_none();
    let nr_without_room = experiments.iter().filter(no_room).count();
    if options.answer.dry_run {
        let nr = experiments.len() - nr_without_room;
        let minutes = (nr as f64 * f64::from(subject.precision.min) * subject.seconds_a_run) / 60.0;
        options.answer.would(&format!(
            "run {nr} experiments at least {} times each, {minutes:.1} minutes or more",
            subject.precision.min
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let store = subject.open(&options.store)?;
    let nr_before = store.runs()?.len();
    let mut runner = subject.runner()?;
    let campaign = subject.campaign(&layouts);
    let runs = watched(&campaign, &experiments, runner.as_mut(), &store)?;
    let (nr_wide, widest) = campaign.wide(&runs);
    if nr_wide > 0 {
        let advice = match subject.spec_path {
            Some(_) => ": end what else runs there, raise `precision.max`, or measure longer",
            None => "",
        };
        eprintln!(
            "{nr_wide} of {} experiments vary by more than {} % after {} runs, the worst by {:.1} %{advice}",
            runs.len(),
            100.0 * subject.precision.relative,
            subject.precision.max,
            100.0 * widest
        );
    }
    let nr_runs = store.runs()?.len();
    let nr_new = nr_runs.saturating_sub(nr_before);
    if nr_without_room > 0 {
        eprintln!(
            "{nr_without_room} entries of the Slowdown Table are left out: the machine has no room for their threads' \
             instances; assignments that need them are not predicted"
        );
    }
    let (base, beside) = campaign.tables(&store)?.nr_entries();
    match options.answer.format {
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
                "runs": nr_runs, "new_runs": nr_new, "without_room": nr_without_room, "wide": nr_wide,
            })
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds the runs of other stores.
pub fn merge(options: &MergeOptions) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let path = subject.store_path(&options.store);
    let how = Merging {
        identity: subject.store_identity(),
        change: options.store.change(),
    };
    let explained = |error| subject.explained(error);
    let store = match options.answer.dry_run {
        true => subject.open_at(Path::new(":memory:"), &options.store)?,
        false => subject.open(&options.store)?,
    };
    // What would be done is done to a copy.
    if options.answer.dry_run && path.exists() {
        store.merge(&path, how).map_err(explained)?;
    }
    for other in &options.stores {
        if path
            .canonicalize()
            .is_ok_and(|path| other.canonicalize().is_ok_and(|other| other == path))
        {
            bail!("{} cannot be merged into itself: give --store", other.display());
        }
        let merged = store.merge(other, how).map_err(explained)?;
        match options.answer.format {
            Format::Text => println!(
                "{}: {} {} runs, {} were there already, {} of them void now",
                other.display(),
                if options.answer.dry_run {
                    "would add"
                } else {
                    "added"
                },
                merged.new,
                merged.known,
                merged.voided
            ),
            Format::Json => println!(
                "{}",
                json!({
                    "schema": "threadwise.place.merge/1", "store": path, "merged": other, "dry_run": options.answer.dry_run,
                    "new": merged.new, "known": merged.known, "voided": merged.voided,
                })
            ),
        }
    }
    Ok(ExitCode::SUCCESS)
}
