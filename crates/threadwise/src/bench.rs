// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise bench`: workloads as programs.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use threadwise_workload::{chat, interactive, memory, pipeline, ready, synthetic};

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
    /// A program that somebody waits for: how late it wakes up
    Interactive {
        #[command(flatten)]
        args: interactive::Args,

        /// How to print the report
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Rooms of users who talk to each other over TCP: how many messages they pass in a second
    Chat {
        #[command(flatten)]
        args: chat::Args,

        /// How to print the report
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    ReadyThreads(ReadyThreads),
}

/// Run any program and show how many of its threads are ready, that is running or runnable, over time.
///
/// The program's threads are looked at in /proc; its children are not counted, and threads that wait actively are ready
/// too. What the program prints goes to stderr. Exit status: 1 if the program's is not 0.
#[derive(clap::Args)]
pub struct ReadyThreads {
    /// Between two looks, in milliseconds, 0.1 to 10000
    #[arg(long, value_name = "MS", default_value_t = 1.0)]
    interval_ms: f64,

    /// How to print the series
    #[arg(long, value_enum, default_value_t = SeriesFormat::Text)]
    format: SeriesFormat,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

/// How a series is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SeriesFormat {
    /// A picture and a summary
    Text,
    /// Everything
    Json,
    /// A line for each look
    Csv,
}

/// Runs it and prints its report.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Synthetic { args, format } => print(&synthetic::run(&args.into())?, format)?,
        Command::Memory { args, format } => print(&memory::run(&args.into())?, format)?,
        Command::Pipeline { args, format } => {
            print(&pipeline::run(&args.into(), &mut print_rate)?, format)?;
        }
        Command::Interactive { args, format } => print(&interactive::run(&args.into())?, format)?,
        Command::Chat { args, format } => {
            if let Some(report) = chat::run(&args.into())? {
                print(&report, format)?;
            }
        }
        Command::ReadyThreads(options) => return trace(options),
    }
    Ok(ExitCode::SUCCESS)
}

fn trace(options: ReadyThreads) -> Result<ExitCode> {
    let interval = Duration::try_from_secs_f64(options.interval_ms / 1e3)
        .with_context(|| format!("--interval-ms {}", options.interval_ms))?;
    let series = ready::trace(&ready::Spec {
        command: options.command,
        interval,
    })?;
    match options.format {
        SeriesFormat::Text => print(&series, Format::Text)?,
        SeriesFormat::Json => print(&series, Format::Json)?,
        SeriesFormat::Csv => write!(std::io::stdout().lock(), "{}", series.csv())?,
    }
    Ok(match series.status {
        Some(0) => ExitCode::SUCCESS,
        Some(status) => {
            eprintln!("threadwise: the program ended with status {status}");
            ExitCode::from(1)
        }
        None => {
            eprintln!("threadwise: a signal ended the program");
            ExitCode::from(1)
        }
    })
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
