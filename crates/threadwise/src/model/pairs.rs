// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model pairs`.

use anyhow::Result;
use comfy_table::Table;
use serde::Serialize;
use threadwise_lab::table::table;
use threadwise_model::fluid::{self, Outcome, PAPER_RATIOS, Policy};

use super::means::length;
use super::options::Cores;
use super::{name, percent};
use crate::Format;

/// Compute one policy over another for each pair of the paper's nine programs (thread-essence, Table 7).
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    cores: Cores,

    /// What is compared
    #[arg(long, value_enum, default_value_t = Policy::Seniority)]
    policy: Policy,

    /// What it is compared with
    #[arg(long, value_enum, default_value_t = Policy::PhasesUnknown)]
    baseline: Policy,

    /// The seed of the lengths of phases, for policies with seniority and foresight
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Two programs together.
#[derive(Serialize)]
struct Pair {
    programs: Vec<String>,
    baseline: Outcome,
    policy: Outcome,
    /// Total throughput over the baseline's, less 1.
    gain: f64,
    /// The total throughput that no scheduler exceeds.
    most: f64,
}

pub fn run(options: &Options) -> Result<()> {
    let machine = options.cores.machine()?;
    let pair = |mix: &Vec<_>| -> Result<Pair> {
        let of = |policy| fluid::long_run(machine, mix, policy, length(options.seed));
        let (baseline, policy) = (of(options.baseline)?, of(options.policy)?);
        Ok(Pair {
            programs: mix.iter().map(ToString::to_string).collect(),
            gain: policy.total / baseline.total - 1.0,
            most: fluid::most_total(machine, mix),
            baseline,
            policy,
        })
    };
    let pairs = fluid::mixes(2)?.iter().map(pair).collect::<Result<Vec<_>>>()?;
    if options.format == Format::Json {
        let json = serde_json::json!({
            "schema": "threadwise.model.pairs/1",
            "machine": machine.to_string(),
            "cores": machine.cores(),
            "asymmetry": machine.asymmetry(),
            "seed": options.seed,
            "baseline": options.baseline,
            "policy": options.policy,
            "pairs": pairs,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("{machine} [computed]");
    for (policy, is_baseline) in [(options.baseline, true), (options.policy, false)] {
        let total = |pair: &Pair| {
            let outcome = if is_baseline { &pair.baseline } else { &pair.policy };
            format!("{:.3}", outcome.total)
        };
        println!("\n{}, in slow cores' worth", name(policy));
        println!("{}", triangle(&pairs, total));
    }
    println!(
        "\nGain of {} over {}",
        name(options.policy),
        name(options.baseline)
    );
    println!(
        "{}",
        triangle(&pairs, |pair| format!("{:+.1} %", percent(pair.gain)))
    );
    println!(
        "\nNo scheduler exceeds, in slow cores' worth: all cores with threads for them, or all programs as fast as alone"
    );
    println!("{}", triangle(&pairs, |pair| format!("{:.3}", pair.most)));
    let n = pairs.len() as f64;
    let gain = pairs.iter().map(|pair| pair.gain).sum::<f64>() / n;
    let idle = |of: fn(&Pair) -> &Outcome| percent(pairs.iter().map(|pair| of(pair).idle).sum::<f64>() / n);
    let share = pairs
        .iter()
        .map(|pair| pair.policy.total / pair.most)
        .sum::<f64>()
        / n;
    println!(
        "Mean gain {:+.1} %, {:.1} % of what nobody exceeds; mean idle time {:.1} %, {:.1} % with the baseline.",
        percent(gain),
        percent(share),
        idle(|pair| &pair.policy),
        idle(|pair| &pair.baseline),
    );
    Ok(())
}

/// One value a pair, each pair once; they come in the order of [`fluid::mixes`].
fn triangle(pairs: &[Pair], value: impl Fn(&Pair) -> String) -> Table {
    let of = |row: &str, column: &str| {
        let is_meant = |pair: &&Pair| pair.programs == [column, row];
        pairs.iter().find(is_meant).map_or_else(String::new, &value)
    };
    let header: Vec<&str> = [""].into_iter().chain(PAPER_RATIOS).collect();
    let rows = PAPER_RATIOS.iter().map(|row| {
        let cells = PAPER_RATIOS.iter().map(|column| of(row, column));
        std::iter::once((*row).to_owned()).chain(cells)
    });
    table(header, rows)
}
