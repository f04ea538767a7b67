// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table as Lines, presets};
use serde::Serialize;
use threadwise_metrics::fairness;
use threadwise_model::fluid::{self, Length, Outcome, Policy};
use threadwise_model::tables::{Machine, Rational, Table};
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::Distribution;

use crate::Format;

/// What schedulers reach in theory.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print one of the tables of "Task Scheduling Based On Thread Essence and Resource Limitations", exactly
    ///
    /// Tables 1, 2 and 5: what one of two programs gets in each joint phase, relative to running alone, S for serial
    /// and P for parallel; where the scheduler knows no phases, the same on equal cores, and with serial boost.
    /// Table 3: how fair that is at least. Tables 4 and 6: the same among more programs.
    Table(TableOptions),
    /// Predict throughput, fairness and idle time of programs that run together, under each policy
    ///
    /// Cores are shared continuously and without cost (fluid model), so a scheduler that follows the policy comes
    /// near these figures at best.
    Joint(JointOptions),
}

/// Options of `threadwise model table`.
#[derive(clap::Args)]
pub struct TableOptions {
    /// The table's number, 1 to 6
    table: u32,

    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    cores: u32,

    /// How many times faster one of them is, a: 1 to 2, as 1.5 or 3/2
    #[arg(long, default_value = "1", value_parser = rational)]
    asymmetry: Rational,

    /// Programs that run together, k: tables 4 and 6 only, where it is 2 unless given
    #[arg(long)]
    programs: Option<u32>,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Options of `threadwise model joint`.
#[derive(clap::Args)]
pub struct JointOptions {
    /// Parallel to serial work of each program, such as 1:1, 4:1, inf:1
    #[arg(required = true, value_name = "RATIO")]
    ratios: Vec<Ratio>,

    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    cores: u32,

    /// How many times faster one of them is, a: 1 to 64
    #[arg(long, default_value_t = 1.0, value_parser = up_to_64)]
    asymmetry: f64,

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

/// Prints a table or a prediction.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Table(options) => print_table(&options)?,
        Command::Joint(options) => print_joint(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_table(options: &TableOptions) -> Result<()> {
    let machine = Machine::new(options.cores, options.asymmetry.clone())?;
    let among_many = matches!(options.table, 4 | 6);
    if options.programs.is_some() && !among_many {
        bail!(
            "table {} is about two programs: --programs is for 4 and 6",
            options.table
        );
    }
    let programs = options.programs.unwrap_or(2);
    let table = Table::new(options.table, &machine, programs)?;
    if options.format == Format::Json {
        #[derive(Serialize)]
        struct Json<'a> {
            schema: &'a str,
            cores: u32,
            asymmetry: String,
            programs: u32,
            #[serde(flatten)]
            table: &'a Table,
        }
        let json = Json {
            schema: "threadwise.model.table/1",
            cores: options.cores,
            asymmetry: options.asymmetry.to_string(),
            programs,
            table: &table,
        };
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("Table {}: {} [computed]", table.table, table.title);
    let among = if among_many {
        format!(", k = {programs}")
    } else {
        String::new()
    };
    println!("n = {}, a = {}{among}", options.cores, options.asymmetry);
    let columns = table.rows[0].cells.iter().map(|cell| cell.column);
    let header: Vec<_> = std::iter::once("case").chain(columns).collect();
    let rows = table.rows.iter().map(|row| {
        let values = row
            .cells
            .iter()
            .map(|cell| format!("{} = {:.4}", cell.value, cell.decimal()));
        std::iter::once(row.case.to_owned()).chain(values).collect()
    });
    println!("{}", lines(&header, rows));
    Ok(())
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
    idle: f64,
    outcome: Outcome,
}

fn predict(options: &JointOptions) -> Result<Vec<Prediction>> {
    let machine = fluid::Machine::new(options.cores, options.asymmetry)?;
    let length = Length {
        seed: options.seed,
        distribution: options.distribution,
        ..Length::default()
    };
    let mut predictions = Vec::<Prediction>::new();
    for policy in [Policy::PhasesUnknown, Policy::SerialBoost, Policy::Seniority] {
        let played = fluid::play_out(machine, &options.ratios, policy, length)?;
        let unknown = predictions
            .first()
            .map_or(played.outcome.total, |first| first.outcome.total);
        let speedups = played.outcome.speedups();
        let fairness = if speedups.len() == 1 {
            1.0
        } else if speedups.contains(&0.0) {
            0.0 // one starves
        } else {
            fairness(&speedups)?
        };
        predictions.push(Prediction {
            policy,
            total_standard_error: played.total_standard_error,
            gain: played.outcome.total / unknown - 1.0,
            fairness,
            idle: 1.0 - played.outcome.total / machine.all(),
            outcome: played.outcome,
        });
    }
    Ok(predictions)
}

fn print_joint(options: &JointOptions) -> Result<()> {
    if options.ratios.len() > 64 {
        bail!("{} programs are too many: at most 64", options.ratios.len());
    }
    let predictions = predict(options)?;
    if options.format == Format::Json {
        let json = serde_json::json!({
            "schema": "threadwise.model.joint/1",
            "cores": options.cores,
            "asymmetry": options.asymmetry,
            "distribution": options.distribution,
            "seed": options.seed,
            "policies": predictions,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!(
        "{} cores, the fastest {} times as fast as the others [computed]",
        options.cores, options.asymmetry
    );
    let speedups = options.ratios.iter().map(|ratio| format!("speedup {ratio}"));
    let header: Vec<String> = ["policy", "slow cores' worth", "gain", "idle", "fairness"]
        .map(str::to_owned)
        .into_iter()
        .chain(speedups)
        .collect();
    let rows = predictions.iter().map(|prediction| {
        let name = prediction
            .policy
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned());
        let mut cells = vec![
            name,
            format!(
                "{:.3} ± {:.3}",
                prediction.outcome.total,
                2.0 * prediction.total_standard_error
            ),
            format!("{:+.1} %", tenths(100.0 * prediction.gain)),
            format!("{:.1} %", tenths(100.0 * prediction.idle)),
            format!("{:.3}", prediction.fairness),
        ];
        cells.extend(
            prediction
                .outcome
                .speedups()
                .iter()
                .map(|speedup| format!("{speedup:.3}")),
        );
        cells
    });
    println!("{}", lines(&header, rows));
    println!(
        "± is two standard errors. Gain: over phases-unknown. Speedup: over having the machine to itself."
    );
    Ok(())
}

fn lines<H: ToString>(header: &[H], rows: impl IntoIterator<Item = Vec<String>>) -> Lines {
    let mut table = Lines::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header.iter().map(ToString::to_string));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn up_to_64(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (1.0..=64.0).contains(&number) => Ok(number),
        _ => Err(String::from("it must be 1 (equal cores) to 64")),
    }
}

/// Rounded to tenths, without a negative zero.
fn tenths(value: f64) -> f64 {
    (10.0 * value).round() / 10.0 + 0.0
}

/// A decimal number or a fraction, exactly.
fn rational(text: &str) -> Result<Rational, String> {
    let wrong = || format!("{text:?} is no number such as 2, 1.5 or 3/2");
    let Some((whole, decimals)) = text.split_once('.') else {
        return text.parse().map_err(|_| wrong());
    };
    if decimals.len() > 100 || !decimals.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    format!("{whole}{decimals}/1{}", "0".repeat(decimals.len()))
        .parse()
        .map_err(|_| wrong())
}
