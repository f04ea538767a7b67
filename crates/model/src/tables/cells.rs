// SPDX-License-Identifier: GPL-2.0-only
//! The tables as they are printed: rows of named cells.

use num_rational::BigRational;
use num_traits::ToPrimitive;
use serde::{Serialize, Serializer};

use super::{Error, Fairness, Joint, Machine, Phase, Scheduler};

/// A value of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Its column, such as `min`.
    pub column: &'static str,
    /// The value, exactly.
    #[serde(serialize_with = "exact_and_decimal", flatten)]
    pub value: BigRational,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its case, such as `(S,P)`.
    pub case: &'static str,
    /// The columns from left to right.
    pub cells: Vec<Cell>,
}

/// One of the paper's tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Its number.
    pub table: u32,
    /// What it shows.
    pub title: &'static str,
    /// From top to bottom.
    pub rows: Vec<Row>,
}

const CASES: [&str; 4] = ["(S,S)", "(S,P)", "(P,S)", "(P,P)"];

impl Cell {
    /// The nearest floating-point number.
    pub fn decimal(&self) -> f64 {
        decimal(&self.value)
    }
}

impl Table {
    /// Table 1 to 6 for this machine, 4 and 6 for this many programs.
    ///
    /// # Errors
    /// If there is no such table, it is about another machine, or the number of programs is out of range.
    pub fn new(table: u32, machine: &Machine, programs: u32) -> Result<Self, Error> {
        let (title, rows) = match table {
            1 => (
                "Speedups of A, phases unknown",
                pairs(machine, Scheduler::Baseline),
            ),
            2 if !machine.is_symmetric() => return Err(Error::Symmetric),
            2 => (
                "Speedups of A, phases unknown, equal cores",
                pairs(machine, Scheduler::Baseline),
            ),
            3 => ("Lower bounds for fairness, phases unknown", fairness(machine)),
            4 => (
                "Speedups among k programs, phases unknown",
                among(machine, programs, Scheduler::Baseline)?,
            ),
            5 => ("Speedups of A, serial boost", pairs(machine, Scheduler::Proposed)),
            6 => (
                "Speedups among k programs, serial boost",
                among(machine, programs, Scheduler::Proposed)?,
            ),
            table => return Err(Error::NoTable { table }),
        };
        Ok(Self { table, title, rows })
    }
}

fn row(case: &'static str, values: impl IntoIterator<Item = (&'static str, BigRational)>) -> Row {
    let cell = |(column, value)| Cell { column, value };
    Row {
        case,
        cells: values.into_iter().map(cell).collect(),
    }
}

fn pairs(machine: &Machine, scheduler: Scheduler) -> Vec<Row> {
    let of = |(case, joint)| {
        let speedup = machine.speedup(joint, scheduler);
        let spread = speedup.spread();
        row(
            case,
            [
                ("min", speedup.min),
                ("avg", speedup.avg),
                ("max", speedup.max),
                ("max/min", spread),
            ],
        )
    };
    CASES.into_iter().zip(Joint::ALL).map(of).collect()
}

fn fairness(machine: &Machine) -> Vec<Row> {
    [
        ("(S,S)", Fairness::BothSerial),
        ("(S,P) case 1", Fairness::SerialLoses),
        ("(S,P) case 2", Fairness::ParallelLoses),
        ("(P,P)", Fairness::BothParallel),
    ]
    .map(|(case, of)| row(case, [("fairness", machine.fairness_bound(of))]))
    .into()
}

fn among(machine: &Machine, programs: u32, scheduler: Scheduler) -> Result<Vec<Row>, Error> {
    [("Serial", Phase::Serial), ("Parallel", Phase::Parallel)]
        .into_iter()
        .map(|(case, phase)| {
            let (min, max) = machine.speedup_among(programs, phase, scheduler)?;
            let spread = &max / &min;
            Ok(row(case, [("min", min), ("max", max), ("max/min", spread)]))
        })
        .collect()
}

fn decimal(value: &BigRational) -> f64 {
    value.to_f64().unwrap_or(f64::NAN)
}

/// As `"exact": "9/16"` and the nearest `"value": 0.5625`.
fn exact_and_decimal<S: Serializer>(value: &BigRational, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Both {
        exact: String,
        value: f64,
    }
    Both {
        exact: value.to_string(),
        value: decimal(value),
    }
    .serialize(serializer)
}
