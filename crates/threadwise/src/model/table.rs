// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model table`.

use anyhow::{Result, bail};
use serde::Serialize;
use threadwise_model::tables::{Machine, Rational, Table};

use super::lines;
use super::options::rational;
use crate::Format;

/// Options of `threadwise model table`.
#[derive(clap::Args)]
pub struct Options {
    /// The table's number, 1 to 6
    table: u32,

    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    cores: u32,

    /// How many times faster one of them is, a: 1 to 2, as 1.5 or 3/2
    #[arg(long, default_value = "1", value_parser = rational)]
    asymmetry: Rational,

    /// Programs that run together, k: tables 4 and 6 only, where it is 2 unless given
    #[arg(long, visible_alias = "programs")]
    apps: Option<u32>,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub fn run(options: &Options) -> Result<()> {
    let machine = Machine::new(options.cores, options.asymmetry.clone())?;
    let among_many = matches!(options.table, 4 | 6);
    let programs = options.apps.unwrap_or(2);
    let table = Table::new(options.table, &machine, programs)?;
    if options.apps.is_some() && !among_many {
        bail!(
            "table {} is about two programs: --apps is for 4 and 6",
            options.table
        );
    }
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
