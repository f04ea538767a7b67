// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise report`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use threadwise_report::figures;
use threadwise_report::page::{self, Shown};

use crate::runs::StoreOptions;

/// Write a page about runs: what was run and on what, what came out, tables, figures, and how to repeat it.
///
/// The page is one file that needs no network. With two runs or more it says what changed from each to the next. Its name
/// is printed.
#[derive(clap::Args)]
pub struct Options {
    /// Runs: their numbers, last, or files that runs export wrote
    #[arg(required = true)]
    runs: Vec<String>,

    #[command(flatten)]
    store: StoreOptions,

    /// Write the page to this file [default: EXPERIMENT-RUN.html here]
    #[arg(long, short)]
    output: Option<PathBuf>,

    /// Write the figures to this folder too, as SVG
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Write every figure with its interval, and every sample, to this folder too, as CSV
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
}

/// Writes it.
pub fn run(options: &Options) -> Result<ExitCode> {
    let shown = options
        .runs
        .iter()
        .map(|wanted| {
            let shown = options
                .store
                .load(wanted)
                .and_then(|record| Ok(Shown::new(record)?));
            shown.with_context(|| format!("no page about run {wanted}"))
        })
        .collect::<Result<Vec<_>>>()?;
    let page = page::write(&shown)?;
    let path = options.output.clone().unwrap_or_else(|| default_path(&shown));
    save(&path, &page)?;
    for run in &shown {
        let machine = run.record.manifest.machine()?;
        if let Some(folder) = &options.svg {
            let prefix = prefix(&shown, run);
            for figure in &run.figures {
                save_in(
                    folder,
                    &format!("{prefix}{}.svg", figure.name),
                    &figure.document(),
                )?;
            }
            save_in(folder, &format!("{prefix}machine.svg"), &machine.render_svg())?;
        }
        if let Some(folder) = &options.csv {
            let prefix = prefix(&shown, run);
            save_in(
                folder,
                &format!("{prefix}figures.csv"),
                &figures::csv(&run.evaluation),
            )?;
            save_in(
                folder,
                &format!("{prefix}samples.csv"),
                &figures::samples_csv(&run.evaluation),
            )?;
        }
    }
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// What tells files of several runs apart.
fn prefix(all: &[Shown], run: &Shown) -> String {
    match all.len() {
        1 => String::new(),
        _ => format!("run-{}-", run.record.id),
    }
}

fn default_path(runs: &[Shown]) -> PathBuf {
    let name = |run: &Shown| {
        let experiment = &run.record.measurement.experiment.name;
        format!("{}-{}", file_name(experiment), run.record.id)
    };
    let names: Vec<String> = runs.iter().map(name).collect();
    PathBuf::from(format!("{}.html", names.join("-")))
}

/// The beginning of a file's name for an experiment, whose name may have any signs.
pub fn file_name(experiment: &str) -> String {
    let safe = |sign: char| {
        if sign.is_alphanumeric() || sign == '-' {
            sign
        } else {
            '_'
        }
    };
    experiment.chars().map(safe).collect()
}

/// Writes a file into a folder, which is made if there is none.
pub fn save_in(folder: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    save(&folder.join(name), text)
}

/// Tries whether a file can be written, so that it is known now and not hours later. What is in it stays until there is
/// something to write, and where there is none, none is left.
pub fn try_to_write(path: &Path) -> Result<()> {
    let is_there = path.symlink_metadata().is_ok();
    let opened = File::options().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if !is_there {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Writes a file.
pub fn save(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        try_to_write(&path).unwrap();
        assert!(!path.exists());
        save(&path, "before").unwrap();
        try_to_write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        let error = try_to_write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
    }

    #[test]
    fn the_name_of_an_experiment_leads_into_no_folder() {
        assert_eq!(file_name("two-apps"), "two-apps");
        assert_eq!(file_name("../A / B.c"), "___A___B_c");
    }
}
