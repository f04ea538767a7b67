// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise sim table`.

use anyhow::{Error, Result, bail};
use serde::Serialize;
use threadwise_model::tables::{Joint, Others, Phase, Rational, Scheduler, Table};
use threadwise_simulator::placements::{Cores, Simulated};

use crate::Format;
use crate::model::table;

/// Some hundred thousand placements; with nine cores it would be millions.
const MOST_CORES: u32 = 8;

/// The capacity of the fast core.
const FULL: u32 = 1024;

/// A simulated row: the case, and the values of its columns.
struct Row {
    case: &'static str,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    column: &'static str,
    value: f64,
    /// What `threadwise model table` has.
    computed: f64,
}

pub fn run(options: &table::Options) -> Result<()> {
    let computed = options.computed()?;
    if options.cores > MOST_CORES {
        bail!(
            "every placement on {} cores is too many: give --cores 2 to {MOST_CORES}; threadwise model table computes them",
            options.cores
        );
    }
    let cores = Cores::new(options.cores, capacity(&options.asymmetry)?)?;
    let values = simulate(&cores, &computed, options.programs())?;
    let rows: Vec<Row> = beside(&computed, &values);
    let cells = rows.iter().flat_map(|row| &row.cells);
    let difference = cells.fold(0.0_f64, |most, cell| most.max((cell.value - cell.computed).abs()));
    if options.format == Format::Json {
        let rows = rows
            .iter()
            .map(|row| serde_json::json!({"case": row.case, "cells": row.cells}));
        let json = serde_json::json!({
            "schema": "threadwise.sim.table/1",
            "label": "simulated",
            "cores": options.cores,
            "asymmetry": options.asymmetry.to_string(),
            "programs": options.programs(),
            "table": computed.table,
            "title": computed.title,
            "rows": rows.collect::<Vec<_>>(),
            "difference": difference,
        });
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("Table {}: {} [simulated]", computed.table, computed.title);
    println!("{}", options.given());
    let columns = rows[0].cells.iter().map(|cell| cell.column);
    let header: Vec<_> = std::iter::once("case").chain(columns).collect();
    let shown = rows.iter().map(|row| {
        let values = row.cells.iter().map(|cell| format!("{:.4}", cell.value));
        std::iter::once(row.case.to_owned()).chain(values)
    });
    println!("{}", threadwise_lab::table::table(header, shown));
    println!("At most {difference:.1e} from what threadwise model table computes.");
    Ok(())
}

/// The capacity of slow cores, for which simulated speeds are exact.
fn capacity(asymmetry: &Rational) -> Result<u32> {
    let capacity = Rational::from_integer(FULL.into()) / asymmetry;
    match capacity.is_integer().then(|| capacity.to_string().parse()) {
        Some(Ok(capacity)) => Ok(capacity),
        _ => bail!(
            "with an asymmetry of {asymmetry} slow cores have no whole number of {FULL} parts of the fast one's speed: \
             give 1, 8/7, 4/3, 1.6 or 2"
        ),
    }
}

/// The values of a table, row by row.
fn simulate(cores: &Cores, table: &Table, programs: u32) -> Result<Vec<Vec<f64>>> {
    let scheduler = match table.table {
        5 | 6 => Scheduler::Proposed,
        _ => Scheduler::Baseline,
    };
    Ok(match table.table {
        3 => bounds(&pairs(cores, scheduler)?)
            .into_iter()
            .map(|bound| vec![bound])
            .collect(),
        4 | 6 => [Phase::Serial, Phase::Parallel]
            .into_iter()
            .map(|phase| {
                let [min, max] = among(cores, programs, phase, scheduler)?;
                Ok(vec![min, max, max / min])
            })
            .collect::<Result<_>>()?,
        _ => pairs(cores, scheduler)?
            .into_iter()
            .map(|Simulated { min, avg, max }| vec![min, avg, max, max / min])
            .collect(),
    })
}

/// The joint phases of Tables 1, 2 and 5.
fn pairs(cores: &Cores, scheduler: Scheduler) -> Result<Vec<Simulated>> {
    let speedup = |joint: Joint| cores.speedup(joint.a, Others::all(joint.b, 1), scheduler);
    let pairs = Joint::ALL.into_iter().map(speedup).collect::<Result<_, _>>();
    pairs.map_err(Error::msg)
}

/// The bounds of Table 3: eqs. 20, 22, 23 and 21.
fn bounds(pairs: &[Simulated]) -> [f64; 4] {
    let fairness = |x: f64, y: f64| (x / y).min(y / x);
    let [ss, sp, ps, pp] = [0, 1, 2, 3].map(|index| pairs[index]);
    [
        fairness(ss.min, ss.max),
        fairness(sp.min, ps.max),
        fairness(ps.min, sp.max),
        fairness(pp.min, pp.max),
    ]
}

/// The extremes over what the others of `programs` do: Tables 4 and 6.
fn among(cores: &Cores, programs: u32, phase: Phase, scheduler: Scheduler) -> Result<[f64; 2]> {
    let mut extremes = [f64::INFINITY, 0.0];
    for serial in 0..programs {
        let others = Others {
            serial,
            parallel: programs - 1 - serial,
        };
        let speedup = cores.speedup(phase, others, scheduler).map_err(Error::msg)?;
        extremes = [extremes[0].min(speedup.min), extremes[1].max(speedup.max)];
    }
    Ok(extremes)
}

/// Simulated values in the rows and columns of the computed table.
fn beside(computed: &Table, values: &[Vec<f64>]) -> Vec<Row> {
    let row = |(row, values): (&threadwise_model::tables::Row, &Vec<f64>)| Row {
        case: row.case,
        cells: row
            .cells
            .iter()
            .zip(values)
            .map(|(cell, value)| Cell {
                column: cell.column,
                value: *value,
                computed: cell.decimal(),
            })
            .collect(),
    };
    computed.rows.iter().zip(values).map(row).collect()
}
