// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model means`.

use anyhow::Result;
use serde::Serialize;
use threadwise_lab::table::table;
use threadwise_model::fluid::{self, Average, Length, Policy};

use super::options::Cores;
use super::{POLICIES, name, percent};
use crate::Format;

/// Compute what each policy gains on the mean over all mixes of so many of the paper's nine programs.
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    cores: Cores,

    /// Programs that run together, k: 1 to 4
    #[arg(long, visible_alias = "programs", default_value_t = 2)]
    apps: usize,

    /// What gains are over
    #[arg(long, value_enum, default_value_t = Policy::PhasesUnknown)]
    baseline: Policy,

    /// The seed of the lengths of phases, for policies with seniority and foresight
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is played out for each mix: the mean over many mixes needs less than one mix alone.
pub fn length(seed: u64) -> Length {
    Length {
        seed,
        batches: 10,
        batch_phases: 1000.0,
        ..Length::default()
    }
}

/// The means under one policy.
#[derive(Serialize)]
struct Row {
    policy: Policy,
    #[serde(flatten)]
    average: Average,
}

pub fn run(options: &Options) -> Result<()> {
    let machine = options.cores.machine()?;
    let row = |policy| -> Result<Row> {
        let average = fluid::average(
            machine,
            options.apps,
            policy,
            options.baseline,
            length(options.seed),
        )?;
        Ok(Row { policy, average })
    };
    let rows = POLICIES.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    let most = fluid::most(machine, options.apps, options.baseline, length(options.seed))?;
    if options.format == Format::Json {
        let json = serde_json::json!({
            "schema": "threadwise.model.means/1",
            "machine": machine.to_string(),
            "cores": machine.cores(),
            "asymmetry": machine.asymmetry(),
            "programs": options.apps,
            "baseline": options.baseline,
            "seed": options.seed,
            "policies": rows,
            "most": most,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!(
        "{machine}, {} mixes of {} of the ratios {} [computed]",
        rows[0].average.nr_mixes,
        options.apps,
        fluid::PAPER_RATIOS.join(" ")
    );
    let header = ["policy", "slow cores' worth", "gain", "idle", "fairness"];
    let gain = |gain: f64| format!("{:+.2} %", (1e4 * gain).round() / 100.0 + 0.0);
    let cells = rows.iter().map(|Row { policy, average }| {
        vec![
            name(*policy),
            format!("{:.3}", average.total),
            gain(average.gain),
            format!("{:.1} %", percent(average.idle)),
            format!("{:.3}", average.fairness),
        ]
    });
    let most = vec![
        "at most".to_owned(),
        format!("{:.3}", most.total),
        gain(most.gain),
    ];
    println!("{}", table(header, cells.chain([most])));
    println!(
        "Gain: over {}, mix by mix. Idle: the share of core time. At most: all cores with threads for them, or all programs as fast as alone.",
        name(options.baseline)
    );
    Ok(())
}
