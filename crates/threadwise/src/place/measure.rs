// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place measure`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use threadwise_machine::CpuId;

use super::figures::figure;
use super::shape::cpus_text;
use super::subject::{AnswerOptions, SubjectOptions};
use crate::Format;

/// Run instances of a program once, pinned or placed by the kernel, and print their performance.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    subject: SubjectOptions,

    /// For each instance the CPUs of its threads in the file's order, such as "0,1,2 8,9,10"
    #[arg(long, required_unless_present = "kernel", conflicts_with = "kernel")]
    cpus: Option<String>,

    /// Pin nothing: let the kernel place the threads
    #[arg(long)]
    kernel: bool,

    #[command(flatten)]
    answer: AnswerOptions,
}

/// Runs and prints.
pub fn run(options: &Options) -> Result<ExitCode> {
    let subject = options.subject.load()?;
    let instances = match &options.cpus {
        Some(text) => subject
            .cpus(&subject.parse(text)?)
            .into_iter()
            .map(Some)
            .collect(),
        None if !subject.has_kernel() => bail!(
            "{} is computed: there is no kernel to place its threads",
            subject.name
        ),
        None => vec![None; subject.size.instances],
    };
    if options.answer.dry_run {
        let places = |cpus: &Vec<CpuId>| cpus_text(std::slice::from_ref(cpus));
        for (nr, cpus) in instances.iter().enumerate() {
            let on = cpus
                .as_ref()
                .map_or("the CPUs that the kernel chooses".to_string(), places);
            options.answer.would(&format!("run instance {nr} on {on}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut runner = subject.runner()?;
    let performance = runner.run(&instances)?;
    match options.answer.format {
        Format::Text => {
            for (nr, performance) in performance.iter().enumerate() {
                println!("instance {nr}: {}", figure(*performance));
            }
            println!(
                "together: {} [{}]",
                figure(performance.iter().sum()),
                runner.label()
            );
        }
        Format::Json => {
            println!(
                "{}",
                json!({ "schema": "threadwise.place.measure/1", "label": runner.label(), "performance": performance })
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
