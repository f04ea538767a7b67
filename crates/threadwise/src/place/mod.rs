// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place`: BlackBox.

mod apply;
mod campaign;
mod evaluate;
mod lab;
mod measure;
mod profile;
mod shape;
mod subject;
mod worth;

use std::process::ExitCode;

use anyhow::Result;

/// A step of the method.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Count assignments exactly
    Count(shape::CountOptions),
    /// List assignments, each class of equal ones once
    List(shape::ListOptions),
    /// Draw assignments at random, each class of equal ones with the same probability
    Sample(shape::SampleOptions),
    /// Run instances of a program once, pinned, and print their performance
    Measure(measure::Options),
    /// Estimate from random assignments what the best could be, and say whether it is worth a search
    Worth(worth::Options),
    /// Fill the Base Time Table and the Slowdown Table
    Profile(profile::ProfileOptions),
    /// Join the stores that several machines have filled
    Merge(profile::MergeOptions),
    /// Predict assignments from the tables
    Predict(campaign::PredictOptions),
    /// Measure the best predicted assignments, and the baselines, and choose
    Select(campaign::SelectOptions),
    /// Pin the threads of running instances, or print an assignment for another tool
    Apply(apply::Options),
    /// Measure the method itself: losses of what it chooses among a sample that is measured as a whole
    Evaluate(evaluate::Options),
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
        Command::Predict(options) => campaign::predict(&options),
        Command::Select(options) => campaign::select(&options),
        Command::Apply(options) => apply::run(&options),
        Command::Evaluate(options) => evaluate::run(&options),
    }
}
