// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise topo`.

use std::process::ExitCode;

use anyhow::Result;
use threadwise_machine::Machine;

/// How a machine is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs; the schema is named in it
    Json,
    /// A picture
    Svg,
}

/// Show a machine: what its hardware threads share and how fast they are.
#[derive(clap::Args)]
pub struct Options {
    /// `host`, a machine file, a name from the zoo, or a string such as "package:2 llc:1 core:4 pu:2"
    #[arg(long, short, default_value = "host")]
    machine: String,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Prints the machine.
pub fn run(options: Options) -> Result<ExitCode> {
    let machine = Machine::load(&options.machine)?;
    match options.format {
        Format::Text => print!("{}", machine.render_tree()),
        Format::Svg => println!("{}", machine.render_svg()),
        Format::Json => println!("{}", serde_json::to_string_pretty(&machine)?),
    }
    Ok(ExitCode::SUCCESS)
}
