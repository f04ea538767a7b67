// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise compare`.

use std::process::ExitCode;

use anyhow::Result;
use threadwise_report::compare;

use crate::Format;
use crate::runs::StoreOptions;

/// Say what differs between two runs, and whether it is more than noise.
///
/// Compared are work done, gain over the baseline and fairness, for each set of programs and scheduler that both have.
/// Exit status: 0 nothing got worse, 1 something did, by more than noise, 2 an error.
#[derive(clap::Args)]
pub struct Options {
    /// The run to compare with: its number, last, or a file that runs export wrote
    before: String,

    /// The run to compare
    after: String,

    /// The least change that counts, in percent [default: 2 in the lab, where boots differ by as much; 0.1 simulated]
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    least: Option<f64>,

    #[command(flatten)]
    store: StoreOptions,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(String::from("not 0 to 100 percent")),
    }
}

/// Compares and prints.
pub fn run(options: &Options) -> Result<ExitCode> {
    let before = options.store.load(&options.before)?;
    let after = options.store.load(&options.after)?;
    let least = options.least.map(|percent| percent / 100.0);
    let comparison = compare::compare(&before, &after, least)?;
    match options.format {
        Format::Text => print!("{}", compare::render(&comparison)),
        Format::Json => println!("{}", serde_json::to_string_pretty(&comparison)?),
    }
    Ok(match comparison.is_worse() {
        true => ExitCode::from(1),
        false => ExitCode::SUCCESS,
    })
}
