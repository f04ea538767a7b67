// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise runs`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use serde_json::json;
use threadwise_lab::table;
use threadwise_report::store::{Entry, Store};
use threadwise_report::{Error, Record, State, repeat};

use crate::Format;

/// A command of the store of runs.
#[derive(clap::Subcommand)]
pub enum Command {
    List(ListOptions),
    Show(ShowOptions),
    Delete(DeleteOptions),
    Export(ExportOptions),
}

/// Where runs are kept.
#[derive(clap::Args)]
pub struct StoreOptions {
    /// The file with the runs [default: threadwise/runs.db in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl StoreOptions {
    fn path(&self) -> Result<PathBuf> {
        let path = self.store.clone().or_else(Store::default_path);
        path.context("neither XDG_DATA_HOME nor HOME is set: give --store FILE")
    }

    /// Opens it if it is there.
    pub fn open(&self) -> Result<Store> {
        Ok(Store::open(&self.path()?)?)
    }

    /// Opens or creates it.
    pub fn open_or_create(&self) -> Result<Store> {
        Ok(Store::open_or_create(&self.path()?)?)
    }

    /// A run by what a user calls it: its number, `last`, or a file that `runs export` wrote.
    pub fn load(&self, wanted: &str) -> Result<Record> {
        let is_number = wanted == "last" || wanted.parse::<i64>().is_ok();
        if !is_number && Path::new(wanted).is_file() {
            return Ok(Record::from_file(Path::new(wanted))?);
        }
        let path = self.path()?;
        if !is_number {
            let wanted = wanted.to_string();
            return Err(Error::Unknown { path, wanted }.into());
        }
        let store = Store::open(&path)?;
        Ok(store.load(store.find(wanted)?)?)
    }
}

/// List the runs.
#[derive(clap::Args)]
pub struct ListOptions {
    #[command(flatten)]
    store: StoreOptions,

    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Show a run.
#[derive(clap::Args)]
pub struct ShowOptions {
    /// Its number, last, or a file that runs export wrote
    run: String,

    #[command(flatten)]
    store: StoreOptions,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Delete runs.
#[derive(clap::Args)]
pub struct DeleteOptions {
    /// Their numbers, or last
    #[arg(required = true)]
    runs: Vec<String>,

    #[command(flatten)]
    store: StoreOptions,
}

/// Export a run.
#[derive(clap::Args)]
pub struct ExportOptions {
    /// Its number, or last
    run: String,

    #[command(flatten)]
    store: StoreOptions,

    /// Print its experiment file only
    #[arg(long)]
    experiment: bool,
}

/// Carries the command out.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::List(options) => list(&options)?,
        Command::Show(options) => show(&options)?,
        Command::Delete(options) => delete(&options)?,
        Command::Export(options) => {
            let record = options.store.load(&options.run)?;
            match options.experiment {
                true => print!("{}", record.manifest.experiment_text),
                false => println!("{}", serde_json::to_string(&record)?),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(options: &ListOptions) -> Result<()> {
    let path = options.store.path()?;
    // Before the first run there is nothing, which is no error; a file that was named should be there.
    let runs = match options.store.store.is_some() || path.exists() {
        true => Store::open(&path)?.list()?,
        false => Vec::new(),
    };
    match options.format {
        Format::Json => {
            let listed = json!({"schema": "threadwise.runs/1", "store": path, "runs": runs});
            println!("{}", serde_json::to_string_pretty(&listed)?);
        }
        Format::Text => println!("{}", listed(&runs)),
    }
    Ok(())
}

fn listed(runs: &[Entry]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "run",
        "began (UTC)",
        "state",
        "label",
        "experiment",
        "machine",
        "samples",
        "version",
    ]);
    for run in runs {
        table.add_row([
            run.id.to_string(),
            run.began.clone(),
            run.state.to_string(),
            format!("[{}]", run.label),
            run.experiment.clone(),
            run.machine.clone(),
            run.nr_samples.to_string(),
            run.version.clone(),
        ]);
    }
    table
}

fn show(options: &ShowOptions) -> Result<()> {
    let record = options.store.load(&options.run)?;
    if options.format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&record.evaluate()?)?);
        return Ok(());
    }
    println!(
        "run {}, {}, began {}\ncommand: {}\nversion: {}\nhost: {}",
        record.id,
        record.state,
        record.began,
        repeat::line(&record.manifest.command),
        record.measurement.version,
        record.manifest.host
    );
    if let Some(failure) = &record.failure {
        println!("ended early: {failure}");
    }
    print!("\n{}", table::render(&record.evaluate()?));
    Ok(())
}

fn delete(options: &DeleteOptions) -> Result<()> {
    let store = options.store.open()?;
    // All are looked up before the first is deleted.
    let found: Vec<i64> = options
        .runs
        .iter()
        .map(|run| store.find(run))
        .collect::<Result<_, _>>()?;
    let all: Vec<Entry> = store.list()?;
    let chosen: Vec<&Entry> = all.iter().filter(|run| found.contains(&run.id)).collect();
    if let Some(run) = chosen.iter().find(|run| run.state == State::Running) {
        anyhow::bail!("run {} is measured now: nothing was deleted", run.id);
    }
    for run in chosen {
        store.delete(run.id)?;
        eprintln!(
            "threadwise: deleted run {} ({}, {} samples)",
            run.id, run.experiment, run.nr_samples
        );
    }
    Ok(())
}
