// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model equation`.

use anyhow::{Result, bail};
use serde::Serialize;
use threadwise_model::tables::{Equation, Error, Machine, Rational};

use super::options::rational;
use crate::Format;

/// Compute an equation of thread-essence exactly, 1 to 23.
#[derive(clap::Args)]
pub struct Options {
    /// The equation's number, 1 to 23
    equation: u32,

    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    cores: u32,

    /// How many times faster one of them is, a: 1 to 2, as 1.5 or 3/2
    #[arg(long, default_value = "1", value_parser = rational)]
    asymmetry: Rational,

    /// Programs that run together, k: from equation 8 on
    #[arg(long, visible_alias = "programs", default_value_t = 2)]
    apps: u32,

    /// What equations 1 to 5 are about, with commas between: each a number above 0 such as 2, 1.5 or 3/2
    #[arg(long, value_delimiter = ',', value_parser = rational)]
    values: Vec<Rational>,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub fn run(options: &Options) -> Result<()> {
    let equation = compute(options)?;
    let values: Vec<String> = options.values.iter().map(ToString::to_string).collect();
    if options.format == Format::Json {
        #[derive(Serialize)]
        struct Json<'a> {
            schema: &'a str,
            cores: u32,
            asymmetry: String,
            programs: u32,
            given: &'a [String],
            #[serde(flatten)]
            equation: &'a Equation,
        }
        let json = Json {
            schema: "threadwise.model.equation/1",
            cores: options.cores,
            asymmetry: options.asymmetry.to_string(),
            programs: options.apps,
            given: &values,
            equation: &equation,
        };
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("Equation {}: {} [computed]", equation.equation, equation.title);
    println!("  {}", equation.formula);
    if let Some(note) = equation.note {
        println!("  ({note})");
    }
    match equation.equation {
        1 => println!("n = {}, given {}", options.cores, values.join(", ")),
        2..=5 => println!("given {}", values.join(", ")),
        6 | 7 => println!("n = {}, a = {}", options.cores, options.asymmetry),
        _ => println!(
            "n = {}, a = {}, k = {}",
            options.cores, options.asymmetry, options.apps
        ),
    }
    for cell in &equation.values {
        println!("{} = {} = {:.6}", cell.column, cell.value, cell.decimal());
    }
    if let Some(jitter) = equation.irrational {
        println!("jitter = {jitter:.6}");
    }
    Ok(())
}

fn compute(options: &Options) -> Result<Equation> {
    if !options.values.is_empty() || (1..=5).contains(&options.equation) {
        if options.values.is_empty() {
            bail!(
                "{}, as in --values 3/4,1 (see --help)",
                Error::NeedsValues {
                    equation: options.equation
                }
            );
        }
        return Ok(Equation::of_values(
            options.equation,
            &options.values,
            options.cores,
        )?);
    }
    let machine = Machine::new(options.cores, options.asymmetry.clone())?;
    Ok(Equation::new(options.equation, &machine, options.apps)?)
}
