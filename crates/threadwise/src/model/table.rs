// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise model table`.

use anyhow::{Result, bail};
use serde::Serialize;
use threadwise_model::tables::{Machine, Rational, Table};

use super::options::rational;
use crate::Format;

/// Compute one of Tables 1 to 6 of thread-essence exactly.
#[derive(clap::Args)]
pub struct Options {
    /// The table's number, 1 to 6
    table: u32,

    /// Cores of the machine, n
    #[arg(long, default_value_t = 8)]
    pub cores: u32,

    /// How many times faster one of them is, a: 1 to 2, as 1.5 or 3/2
    #[arg(long, default_value = "1", value_parser = rational)]
    pub asymmetry: Rational,

    /// Programs that run together, k: tables 4 and 6 only, where it is 2 unless given
    #[arg(long, visible_alias = "programs")]
    apps: Option<u32>,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

impl Options {
    /// The table that they ask for.
    pub fn computed(&self) -> Result<Table> {
        let machine = Machine::new(self.cores, self.asymmetry.clone())?;
        let table = Table::new(self.table, &machine, self.programs())?;
        if self.apps.is_some() && !self.is_among_many() {
            bail!(
                "table {} is about two programs: --apps is for 4 and 6",
                self.table
            );
        }
        Ok(table)
    }

    /// How many programs run together.
    pub fn programs(&self) -> u32 {
        self.apps.unwrap_or(2)
    }

    /// What the letters stand for.
    pub fn given(&self) -> String {
        let among = match self.is_among_many() {
            true => format!(", k = {}", self.programs()),
            false => String::new(),
        };
        format!("n = {}, a = {}{among}", self.cores, self.asymmetry)
    }

    fn is_among_many(&self) -> bool {
        matches!(self.table, 4 | 6)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let table = options.computed()?;
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
            programs: options.programs(),
            table: &table,
        };
        println!("{}", serde_json::to_string_pretty(&json)?);
        return Ok(());
    }
    println!("Table {}: {} [computed]", table.table, table.title);
    println!("{}", options.given());
    let columns = table.rows[0].cells.iter().map(|cell| cell.column);
    let header: Vec<_> = std::iter::once("case").chain(columns).collect();
    let rows = table.rows.iter().map(|row| {
        let values = row
            .cells
            .iter()
            .map(|cell| format!("{} = {:.4}", cell.value, cell.decimal()));
        std::iter::once(row.case.to_owned()).chain(values)
    });
    println!("{}", threadwise_lab::table::table(header, rows));
    Ok(())
}
