// SPDX-License-Identifier: GPL-2.0-only
//! Every figure beside what was printed, one a line: for spreadsheets, notebooks and other programs.

use serde::Serialize;

use crate::figures::text;

use super::outcome::{Column, Outcome, Row};
use super::plan::Verdict;

#[derive(Serialize)]
struct Line<'a> {
    paper: &'a str,
    place: &'a str,
    result: &'a str,
    row: &'a str,
    printed: &'a str,
    unit: &'static str,
    form: &'static str,
    what: &'a str,
    /// Empty where the source was not run or failed; `missing` says why.
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    verdict: &'static str,
    missing: &'a str,
}

/// All results as CSV (RFC 4180), with a header: a line for each row of each column.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for outcome in outcomes {
        for column in &outcome.columns {
            for (nr, row) in outcome.rows.iter().enumerate() {
                let line = line(outcome, column, row, nr);
                writer.serialize(line).expect("a line has plain fields");
            }
        }
    }
    text(writer)
}

fn line<'a>(outcome: &'a Outcome, column: &'a Column, row: &'a Row, nr: usize) -> Line<'a> {
    let (figure, verdict) = column.figures.get(nr).copied().unzip();
    let interval = figure.and_then(|figure| figure.interval);
    Line {
        paper: &outcome.paper,
        place: &outcome.place,
        result: &outcome.name,
        row: &row.what,
        printed: &row.printed,
        unit: outcome.unit.words(),
        form: column.form.name(),
        what: &column.what,
        value: figure.map(|figure| figure.value),
        low: interval.map(|[low, _]| low),
        high: interval.map(|[_, high]| high),
        verdict: verdict.flatten().map_or("", Verdict::name),
        missing: column.missing.as_deref().unwrap_or_default(),
    }
}
