// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise bench`: workloads as programs.

use std::process::ExitCode;

use anyhow::Result;
use threadwise_workload::synthetic;

use crate::Format;

/// A workload.
#[derive(clap::Subcommand)]
pub enum Command {
    /// A program that alternates between parallel and serial phases
    Synthetic {
        #[command(flatten)]
        args: synthetic::Args,

        /// How to print the report
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

/// Runs it and prints its report.
pub fn run(command: Command) -> Result<ExitCode> {
    let Command::Synthetic { args, format } = command;
    let report = synthetic::run(&args.into())?;
    match format {
        Format::Text => print!("{report}"),
        Format::Json => println!("{}", serde_json::to_string(&report)?),
    }
    Ok(ExitCode::SUCCESS)
}
