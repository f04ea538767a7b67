// SPDX-License-Identifier: GPL-2.0-only
//! Our figures, found in what a command printed.

use serde::Serialize;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::plan::{FigureColumn, OneOrMany, Take, Unit};

/// A figure, in the unit of its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Its 95 % interval, where the source has one.
    pub interval: Option<[f64; 2]>,
}

/// Those of a column, one for each of `nr_rows` rows. `sources` has what the source, or each row's, printed.
///
/// # Errors
/// What a path leads to instead.
pub(super) fn find(
    column: &FigureColumn,
    sources: &OneOrMany<&Value>,
    unit: Unit,
    nr_rows: usize,
) -> Result<Vec<Figure>, String> {
    let values_taken = |paths, take| values(paths, sources, take, nr_rows);
    let values = |paths| values_taken(paths, column.take);
    let in_unit = |value: f64| (value - f64::from(u8::from(column.minus_one))) * unit.scale();
    let mut at = values(&column.at)?;
    if let Some(over) = &column.over {
        for (value, base) in at
            .iter_mut()
            .zip(values_taken(over, column.over_take.or(column.take))?)
        {
            if base == 0.0 {
                return Err(format!("{} is 0: nothing compares with it", over.of_row(0)));
            }
            *value = *value / base - 1.0;
        }
    }
    let intervals = match &column.interval {
        Some([low, high]) => {
            let ends = values(low)?.into_iter().zip(values(high)?);
            ends.map(|(low, high)| Some([in_unit(low), in_unit(high)]))
                .collect()
        }
        None => vec![None; nr_rows],
    };
    let figure = |(value, interval)| Figure {
        value: in_unit(value),
        interval,
    };
    Ok(at.into_iter().zip(intervals).map(figure).collect())
}

/// One value for each row: all that one path leads to, or one of each row's path or source.
fn values(
    paths: &OneOrMany<JsonPath>,
    sources: &OneOrMany<&Value>,
    take: Option<Take>,
    nr_rows: usize,
) -> Result<Vec<f64>, String> {
    let expect = |found: Vec<f64>, wanted: usize, path: &JsonPath| match found.len() == wanted {
        true => Ok(found),
        false => Err(format!("{path} leads to {} figures, not {wanted}", found.len())),
    };
    if !paths.is_by_row() && !sources.is_by_row() {
        let path = paths.of_row(0);
        return expect(taken(path, sources.of_row(0), take)?, nr_rows, path);
    }
    let of_row = |row: usize| {
        let path = paths.of_row(row);
        Ok(expect(taken(path, sources.of_row(row), take)?, 1, path)?[0])
    };
    (0..nr_rows).map(of_row).collect()
}

/// What a path leads to, or with `take` one figure of it.
fn taken(path: &JsonPath, json: &Value, take: Option<Take>) -> Result<Vec<f64>, String> {
    let number = |node: &Value| {
        let number = node.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{path} leads to {node}, which is no number"))
    };
    let found: Vec<f64> = path
        .query(json)
        .iter()
        .map(|node| number(node))
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(format!("{path} leads to nothing"));
    }
    Ok(match take {
        None => found,
        Some(Take::Mean) => vec![found.iter().sum::<f64>() / found.len() as f64],
        Some(Take::Sum) => vec![found.iter().sum()],
        Some(Take::Max) => vec![found.iter().copied().fold(f64::NEG_INFINITY, f64::max)],
        Some(Take::Min) => vec![found.iter().copied().fold(f64::INFINITY, f64::min)],
    })
}
