// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise bench`: workloads as programs.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use threadwise_workload::{memory, pipeline, synthetic};

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
    /// A program whose speed is that of memory: a working set, shared or not, and an order of accesses
    Memory {
        #[command(flatten)]
        args: memory::Args,

        /// How to print the report
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// A packet forwarder: three threads in a pipeline
    Pipeline {
        #[command(flatten)]
        args: pipeline::Args,

        /// How to print the report
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

/// Runs it and prints its report.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Synthetic { args, format } => print(&synthetic::run(&args.into())?, format)?,
        Command::Memory { args, format } => print(&memory::run(&args.into())?, format)?,
        Command::Pipeline { args, format } => {
            print(&pipeline::run(&args.into(), &mut print_rate)?, format)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(report: &(impl std::fmt::Display + Serialize), format: Format) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Text => write!(out, "{report}")?,
        Format::Json => writeln!(out, "{}", serde_json::to_string(report)?)?,
    }
    Ok(out.flush()?)
}

/// A line that tools can read at once. A reader that is gone does not end the run: the report may go elsewhere.
fn print_rate(packets_per_second: f64) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "packets_per_second {packets_per_second:.0}").and_then(|()| out.flush());
}
