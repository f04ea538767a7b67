// SPDX-License-Identifier: GPL-2.0-only
//! What the commands that carry out experiments have in common.

use std::path::PathBuf;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use threadwise_lab::evaluate::evaluate;
use threadwise_lab::experiment::Experiment;
use threadwise_lab::run::Measurement;
use threadwise_lab::table;

use crate::Format;

/// Which experiment, and what becomes of its results.
#[derive(clap::Args)]
pub struct Options {
    /// The experiment file
    experiment: PathBuf,

    /// Repeat everything so often, instead of what the file says
    #[arg(long)]
    rounds: Option<u32>,

    /// Let synthetic programs run so long, instead of what the file says
    #[arg(long)]
    seconds: Option<f64>,

    /// The first round's seed, instead of the file's; each further round has the next
    #[arg(long)]
    seed: Option<u64>,

    /// Write the results to this file too, as JSON
    #[arg(long, short)]
    output: Option<PathBuf>,

    /// How to print the results
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Options {
    /// The experiment, with what the options say instead of the file.
    pub fn load(&self) -> Result<Experiment> {
        let mut experiment = Experiment::from_file(&self.experiment)?;
        experiment.rounds = self.rounds.unwrap_or(experiment.rounds);
        experiment.seconds = self.seconds.unwrap_or(experiment.seconds);
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment.check().map_err(anyhow::Error::msg)?;
        Ok(experiment)
    }

    /// Evaluates, writes and prints.
    pub fn report(&self, measurement: Measurement) -> Result<()> {
        let evaluation = evaluate(measurement)?;
        let json = serde_json::to_string_pretty(&evaluation)?;
        if let Some(path) = &self.output {
            std::fs::write(path, &json).with_context(|| format!("cannot write {}", path.display()))?;
        }
        match self.format {
            Format::Text => print!("{}", table::render(&evaluation)),
            Format::Json => println!("{json}"),
        }
        Ok(())
    }
}

/// On a terminal only: indicatif hides it elsewhere.
pub fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len} {eta}")
        .expect("a constant template");
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}
