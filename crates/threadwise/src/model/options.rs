// SPDX-License-Identifier: GPL-2.0-only
//! What several subcommands of `threadwise model` take.

use anyhow::Result;
use threadwise_model::fluid::{CoreType, Machine};
use threadwise_model::tables::Rational;

/// The cores that the fluid model divides.
#[derive(clap::Args)]
pub struct Cores {
    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    cores: u32,

    /// How many times faster one of them is, a: 1 to 64
    #[arg(long, default_value_t = 1.0, value_parser = up_to_64)]
    asymmetry: f64,

    /// Cores of several speeds instead, as NUMBERxSPEED with commas between them: 2x4,4x2,8x1
    #[arg(long, value_delimiter = ',', value_parser = core_type, conflicts_with_all = ["cores", "asymmetry"])]
    speeds: Vec<CoreType>,
}

impl Cores {
    pub fn machine(&self) -> Result<Machine> {
        if self.speeds.is_empty() {
            return Ok(Machine::new(self.cores, self.asymmetry)?);
        }
        Ok(Machine::of_types(&self.speeds)?)
    }
}

fn up_to_64(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1.0..=64.0).contains(&number) => Ok(number),
        _ => Err(String::from("it must be 1 (equal cores) to 64")),
    }
}

fn core_type(text: &str) -> Result<CoreType, String> {
    let parts = text.trim().split_once('x');
    let found = parts.and_then(|(cores, speed)| Some((cores.parse().ok()?, speed.parse().ok()?)));
    match found {
        Some((cores, speed)) if (1..=1 << 16).contains(&cores) => Ok(CoreType { cores, speed }),
        _ => Err(String::from(
            "write NUMBERxSPEED, such as 4x1.5, with 1 to 65536 cores",
        )),
    }
}

/// A decimal number or a fraction, exactly.
pub fn rational(text: &str) -> Result<Rational, String> {
    let wrong = || format!("{text:?} is no number such as 2, 1.5 or 3/2");
    if text.len() > 200 {
        return Err(wrong());
    }
    let Some((whole, decimals)) = text.split_once('.') else {
        return text.parse().map_err(|_| wrong());
    };
    if !decimals.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    format!("{whole}{decimals}/1{}", "0".repeat(decimals.len()))
        .parse()
        .map_err(|_| wrong())
}
