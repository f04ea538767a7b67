// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model`: each subcommand is a module; what they print is computed in the libraries.

mod equation;
mod joint;
mod means;
mod options;
mod pairs;
pub mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use threadwise_model::fluid::Policy;

/// What schedulers reach in theory.
#[derive(clap::Subcommand)]
pub enum Command {
    Table(table::Options),
    Equation(equation::Options),
    Joint(joint::Options),
    Pairs(pairs::Options),
    Means(means::Options),
}

/// Prints a table or a prediction.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Table(options) => table::run(&options)?,
        Command::Equation(options) => equation::run(&options)?,
        Command::Joint(options) => joint::run(&options)?,
        Command::Pairs(options) => pairs::run(&options)?,
        Command::Means(options) => means::run(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The policies that are compared, from the one that knows least.
const POLICIES: [Policy; 6] = [
    Policy::SpeedsUnknown,
    Policy::PhasesUnknown,
    Policy::SerialBoost,
    Policy::SeniorityAlone,
    Policy::Seniority,
    Policy::Clairvoyant,
];

/// A policy as on the command line.
fn name(policy: Policy) -> String {
    let value = policy.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A share in per cent with one digit, without a negative zero.
fn percent(share: f64) -> f64 {
    (1000.0 * share).round() / 10.0 + 0.0
}
