// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model`: each subcommand is a module; what they print is computed in the libraries.

mod equation;
mod joint;
mod means;
mod options;
mod pairs;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table as Lines, presets};
use threadwise_model::fluid::Policy;

/// What schedulers reach in theory.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print one of the tables of "Task Scheduling Based On Thread Essence and Resource Limitations", exactly
    ///
    /// Tables 1, 2 and 5: what one of two programs gets in each joint phase, relative to running alone, S for serial
    /// and P for parallel; where the scheduler knows no phases, the same on equal cores, and with serial boost.
    /// Table 3: how fair that is at least. Tables 4 and 6: the same among more programs.
    Table(table::Options),
    /// Print one of the equations 1 to 23 of that paper, exactly, as printed and with its value
    ///
    /// Equations 6 to 23 are functions of the machine: n cores, one of them faster by a. Those from 8 on are about two
    /// programs, or k with --apps. Equations 1 to 5 are about values that are given with --values: I_p,I_s (1); the
    /// performance together and alone (2); speedups (3); the time alone, then those together (4); times (5).
    Equation(equation::Options),
    /// Predict throughput, fairness and idle time of programs that run together, under each policy
    ///
    /// Cores are shared continuously and without cost (fluid model), so a scheduler that follows the policy comes
    /// near these figures at best.
    Joint(joint::Options),
    /// Predict all 45 pairs of the paper's nine ratios, in triangles like that of its Table 7
    ///
    /// What the baseline reaches, what the policy reaches, which is the fluid bound unless another is asked for, and
    /// the gain of the one over the other.
    Pairs(pairs::Options),
    /// Predict the means over all mixes of the paper's nine ratios, under each policy: its section VIII
    ///
    /// Throughput, gain, fairness and idle time of all 45 pairs or, with --apps 3, of all 165 triples.
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
const POLICIES: [Policy; 5] = [
    Policy::SpeedsUnknown,
    Policy::PhasesUnknown,
    Policy::SerialBoost,
    Policy::SeniorityAlone,
    Policy::Seniority,
];

/// A policy as on the command line.
fn name(policy: Policy) -> String {
    let value = policy.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn lines<H: ToString>(header: &[H], rows: impl IntoIterator<Item = Vec<String>>) -> Lines {
    let mut table = Lines::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header.iter().map(ToString::to_string));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A share in per cent with one digit, without a negative zero.
fn percent(share: f64) -> f64 {
    (1000.0 * share).round() / 10.0 + 0.0
}
