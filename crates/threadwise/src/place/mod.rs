// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place`: BlackBox.

mod apply;
mod evaluate;
mod figures;
mod lab;
mod measure;
mod predict;
mod profile;
mod select;
mod shape;
mod subject;
mod worth;

use std::process::ExitCode;

use anyhow::Result;

/// A step of the method.
#[derive(clap::Subcommand)]
pub enum Command {
    Count(shape::CountOptions),
    List(shape::ListOptions),
    Sample(shape::SampleOptions),
    Measure(measure::Options),
    Worth(worth::Options),
    Profile(profile::ProfileOptions),
    Merge(profile::MergeOptions),
    Predict(predict::Options),
    Select(select::Options),
    Apply(apply::Options),
    Evaluate(evaluate::Options),
}

impl Command {
    /// Whether what it finds out is about a simulated machine, where that is what it is asked for.
    pub fn is_simulated(&self) -> bool {
        matches!(self, Command::Evaluate(options) if options.is_simulated())
    }
}

/// Carries the command out.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Count(options) => shape::count(&options),
        Command::List(options) => shape::list(&options),
        Command::Sample(options) => shape::sample(&options),
        Command::Measure(options) => measure::run(&options),
        Command::Worth(options) => worth::run(&options),
        Command::Profile(options) => profile::profile(&options),
        Command::Merge(options) => profile::merge(&options),
        Command::Predict(options) => predict::predict(&options),
        Command::Select(options) => select::select(&options),
        Command::Apply(options) => apply::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
    }
}
