// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model joint`.

use anyhow::{Result, bail};
use serde::Serialize;
use threadwise_lab::table::table;
use threadwise_model::fluid::{self, Length, Outcome, Policy, Program};
use threadwise_workload::synthetic::Distribution;

use super::options::Cores;
use super::{POLICIES, name, percent};
use crate::Format;

/// Compute what programs get done together, and how evenly, under policies that share perfectly.
///
/// The policies differ in what they know: how fast cores are, who is in a serial phase, how long phases last.
#[derive(clap::Args)]
pub struct Options {
    /// What each program does: parallel to serial work, such as 1:1, 4:1, inf:1; or its phases in turn, each as
    /// THREADSxLENGTH, such as 8x2/4x1/1x3, where n threads are as many as there are cores
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<Program>,

    #[command(flatten)]
    cores: Cores,

    /// How the lengths of phases are distributed
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,

    /// The seed of the lengths
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What one policy yields.
#[derive(Serialize)]
struct Prediction {
    policy: Policy,
    /// Of the total, in core units.
    total_standard_error: f64,
    /// Total throughput over that with unknown phases.
    gain: f64,
    fairness: f64,
    /// The share of the machine's speed that nobody uses.
    unused: f64,
    outcome: Outcome,
}

fn predict(options: &Options, machine: fluid::Machine) -> Result<Vec<Prediction>> {
    let length = Length {
        seed: options.seed,
        distribution: options.distribution,
        ..Length::default()
    };
    let play = |policy| fluid::play_out(machine, &options.programs, policy, length);
    let unknown = play(Policy::PhasesUnknown)?.outcome.total;
    let prediction = |policy| -> Result<Prediction> {
        let played = play(policy)?;
        Ok(Prediction {
            policy,
            total_standard_error: played.total_standard_error,
            gain: played.outcome.total / unknown - 1.0,
            fairness: played.outcome.fairness()?,
            unused: 1.0 - played.outcome.total / machine.all(),
            outcome: played.outcome,
        })
    };
    POLICIES.into_iter().map(prediction).collect()
}

pub fn run(options: &Options) -> Result<()> {
    if options.programs.len() > 64 {
        bail!("{} programs are too many: at most 64", options.programs.len());
    }
    let machine = options.cores.machine()?;
    let predictions = predict(options, machine)?;
    let most = fluid::most_total(machine, &options.programs);
    if options.format == Format::Json {
        let json = serde_json::json!({
            "schema": "threadwise.model.joint/2",
            "machine": machine.to_string(),
            "cores": machine.cores(),
            "asymmetry": machine.asymmetry(),
            "distribution": options.distribution,
            "seed": options.seed,
            "policies": predictions,
            "most": most,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("{machine} [computed]");
    let speedups = options
        .programs
        .iter()
        .map(|program| format!("speedup {program}"));
    let header: Vec<String> = ["policy", "slow cores' worth", "gain", "idle", "fairness"]
        .map(str::to_owned)
        .into_iter()
        .chain(speedups)
        .collect();
    let rows = predictions.iter().map(|prediction| {
        let outcome = &prediction.outcome;
        let mut cells = vec![
            name(prediction.policy),
            format!(
                "{:.3} ± {:.3}",
                outcome.total,
                2.0 * prediction.total_standard_error
            ),
            format!("{:+.1} %", percent(prediction.gain)),
            format!("{:.1} %", percent(outcome.idle)),
            format!("{:.3}", prediction.fairness),
        ];
        cells.extend(outcome.speedups().iter().map(|speedup| format!("{speedup:.3}")));
        cells
    });
    println!("{}", table(header, rows));
    println!(
        "± is two standard errors. Gain: over phases-unknown. Idle: the share of core time. Speedup: over having the \
         machine to itself. No scheduler exceeds {most:.3} slow cores' worth: all cores with threads for them, or all programs as fast as alone."
    );
    Ok(())
}
