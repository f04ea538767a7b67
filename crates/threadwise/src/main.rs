// SPDX-License-Identifier: GPL-2.0-only
//! The `threadwise` command. Each subcommand is a module; what they do lives in the libraries.
//!
//! Booted as a guest's first process, the same program is the lab's agent in it.

mod bench;
mod compare;
mod experiment;
mod ext;
mod lab;
mod model;
mod place;
#[cfg(test)]
mod repeated;
mod report;
mod reproduce;
mod runs;
mod sim;
mod topo;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{Parser, Subcommand, ValueEnum};

/// Tools that put each thread where it belongs, at the moment it matters.
#[derive(Parser)]
#[command(name = "threadwise", version, max_term_width = 100)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Topo(topo::Options),
    /// Run a workload as a program
    #[command(subcommand)]
    Bench(bench::Command),
    /// Compare schedulers in a real kernel on an emulated machine
    #[command(subcommand)]
    Lab(lab::Command),
    /// Compare schedulers in a simulation: the same experiments, in seconds
    #[command(subcommand)]
    Sim(sim::Command),
    /// List, show, delete and export what was run
    #[command(subcommand)]
    Runs(runs::Command),
    Report(report::Options),
    Compare(compare::Options),
    Reproduce(reproduce::Options),
    /// Compute what schedulers reach in theory
    #[command(subcommand)]
    Model(model::Command),
    /// Find the best assignment of threads to hardware threads, and apply it
    #[command(subcommand)]
    Place(place::Command),
    Ext(ext::Options),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; the schema is named in it
    Json,
}

/// What went wrong, and why: causes that the message has not told yet.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(cause.trim_end()) {
            let joint = if message.is_empty() { "" } else { ": " };
            message = format!("{}{joint}{cause}", message.trim_end());
        }
    }
    message
}

/// The exit status where stdout fails: that of a program that SIGPIPE ends if its reader has seen enough, else that of any
/// error. The standard library knows neither: `println!` panics. Everything is dropped on the way as in any panic.
fn with_stdout(work: impl FnOnce() -> ExitCode + std::panic::UnwindSafe) -> ExitCode {
    static STATUS: AtomicU8 = AtomicU8::new(0);
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let told = info.payload_as_str().unwrap_or_default();
        match told.strip_prefix("failed printing to stdout: ") {
            Some(why) if why.contains("os error 32") => STATUS.store(141, Ordering::Relaxed),
            Some(why) => {
                eprintln!("threadwise: cannot print the result: {why}");
                STATUS.store(2, Ordering::Relaxed);
            }
            None => panics(info),
        }
    }));
    std::panic::catch_unwind(work).unwrap_or_else(|panic| match STATUS.load(Ordering::Relaxed) {
        0 => std::panic::resume_unwind(panic),
        status => ExitCode::from(status),
    })
}

fn main() -> ExitCode {
    if std::env::args().next().as_deref() == Some("/init") {
        threadwise_lab::agent::run();
    }
    with_stdout(run)
}

fn run() -> ExitCode {
    let result = match Options::parse().command {
        Command::Topo(options) => topo::run(options),
        Command::Bench(command) => bench::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Runs(command) => runs::run(command),
        Command::Report(options) => report::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Reproduce(options) => reproduce::run(&options),
        Command::Model(command) => model::run(command),
        Command::Place(command) => place::run(command),
        Command::Ext(options) => ext::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("threadwise: {}", message(&error));
        ExitCode::from(2)
    })
}
