// SPDX-License-Identifier: GPL-2.0-only
//! Results with their figures, and what these are beside what was printed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use threadwise_metrics::rank_correlation;

use super::figures::{self, Figure};
use super::plan::{
    FigureColumn, Form, OneOrMany, Plan, Printed, PrintedRow, Reproduced, Unit, Verdict, is_sign,
};

/// A gain or share nearer to zero than this, in percent, is shown as 0.0 and has no sign.
const NO_GAIN: f64 = 0.05;

/// Fewer rows have no order to speak of.
const LEAST_ORDERED: usize = 5;

/// What became of a source.
#[derive(Clone, Debug)]
pub enum Output {
    /// It printed this JSON.
    Made(Value),
    /// It was not run: why not.
    NotRun(String),
    /// It failed: why.
    Failed(String),
}

/// A result with its figures.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The result's short name.
    pub name: String,
    /// The paper's.
    pub paper: String,
    /// Where in the paper.
    pub place: String,
    /// What it shows.
    pub title: String,
    /// What its figures are.
    pub unit: Unit,
    /// Row by row, what was printed.
    pub rows: Vec<Row>,
    /// Column by column, our figures.
    pub columns: Vec<Column>,
    /// Why ours differ, or why there are none.
    pub why: String,
}

/// What was printed in one row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// As it was printed.
    pub printed: String,
    /// Why this row is known to differ.
    pub known: Option<String>,
}

/// Our figures for all rows.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// How they come about.
    pub form: Form,
    /// What of it.
    pub what: String,
    /// Its sources, each once.
    pub from: Vec<String>,
    /// What is claimed of it; nothing, if that is that it differs.
    pub claim: Verdict,
    /// One for each row; none if there is no source's output to find them in.
    pub figures: Vec<(Figure, Option<Verdict>)>,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// Whether that is a failure: of the source, or of a path that leads to no figure.
    pub has_failed: bool,
    /// How many rows have which verdict, and whether they are in the order of what was printed.
    pub summary: String,
    /// Claims of the plan that do not hold.
    pub broken: Vec<String>,
}

impl Outcome {
    /// Whether all claims hold and no figure is missing for a failure.
    pub fn is_as_claimed(&self) -> bool {
        self.columns
            .iter()
            .all(|column| !column.has_failed && column.broken.is_empty())
    }
}

/// All results of a plan with what its sources printed.
pub fn outcomes(plan: &Plan, outputs: &BTreeMap<String, Output>) -> Vec<Outcome> {
    plan.results
        .iter()
        .map(|result| outcome(plan, result, outputs))
        .collect()
}

fn outcome(plan: &Plan, result: &Reproduced, outputs: &BTreeMap<String, Output>) -> Outcome {
    let column = |figures: &FigureColumn| {
        let source = plan.source(figures.from.of_row(0)).expect("the plan was checked");
        column(result, figures, source.form, outputs)
    };
    let row = |row: &PrintedRow| Row {
        what: row.what.clone(),
        printed: printed(result, row),
        known: row.known.clone(),
    };
    Outcome {
        name: result.name.clone(),
        paper: result.paper.clone(),
        place: result.place.clone(),
        title: result.title.clone(),
        unit: result.unit,
        rows: result.rows.iter().map(row).collect(),
        columns: result.figures.iter().map(column).collect(),
        why: result.why.clone(),
    }
}

fn column(
    result: &Reproduced,
    figures: &FigureColumn,
    form: Form,
    outputs: &BTreeMap<String, Output>,
) -> Column {
    let mut from: Vec<String> = figures.from.iter().cloned().collect();
    from.dedup();
    let mut column = Column {
        form,
        what: figures.what.clone(),
        from,
        claim: figures.claim,
        figures: Vec::new(),
        missing: None,
        has_failed: false,
        summary: String::new(),
        broken: Vec::new(),
    };
    let found = match printed_by(&figures.from, outputs) {
        Ok(sources) => figures::find(figures, &sources, result.unit, result.rows.len()),
        Err(Missing::Failed(why)) => Err(why),
        Err(Missing::NotRun(why)) => {
            column.missing = Some(why);
            return column;
        }
    };
    match found {
        Err(why) => {
            column.has_failed = true;
            column.missing = Some(why);
        }
        Ok(found) => {
            let pairs = found.into_iter().zip(&result.rows);
            column.figures = pairs
                .map(|(figure, row)| (figure, verdict(result, row, figure.value)))
                .collect();
            judge(result, figures, &mut column);
        }
    }
    column
}

/// Why a source has no output.
enum Missing {
    NotRun(String),
    Failed(String),
}

/// What the sources printed.
fn printed_by<'a>(
    from: &OneOrMany<String>,
    outputs: &'a BTreeMap<String, Output>,
) -> Result<OneOrMany<&'a Value>, Missing> {
    let of = |name: &String| match outputs.get(name) {
        Some(Output::Made(json)) => Ok(json),
        Some(Output::Failed(why)) => Err(Missing::Failed(why.clone())),
        Some(Output::NotRun(why)) => Err(Missing::NotRun(why.clone())),
        None => Err(Missing::NotRun(String::from("nothing has produced it"))),
    };
    Ok(match from {
        OneOrMany::One(name) => OneOrMany::One(of(name)?),
        OneOrMany::Many(names) => OneOrMany::Many(names.iter().map(of).collect::<Result<_, _>>()?),
    })
}

/// Counts verdicts and checks what is claimed.
fn judge(result: &Reproduced, claims: &FigureColumn, column: &mut Column) {
    let judged: Vec<(&PrintedRow, Verdict)> = result
        .rows
        .iter()
        .zip(&column.figures)
        .filter_map(|(row, (_, verdict))| Some((row, (*verdict)?)))
        .collect();
    let count = |wanted: Verdict| judged.iter().filter(|(_, verdict)| *verdict == wanted).count();
    let counts = [Verdict::Within, Verdict::SameSign, Verdict::Differs]
        .map(|verdict| (count(verdict), verdict.name()))
        .into_iter()
        .filter(|(nr, _)| *nr > 0)
        .map(|(nr, name)| format!("{nr} {name}"));
    let mut summary: Vec<String> = match judged.len() {
        0 | 1 => Vec::new(),
        _ => counts.collect(),
    };
    let claimed: Vec<_> = judged.iter().filter(|(row, _)| row.known.is_none()).collect();
    let failing: Vec<&str> = claimed
        .iter()
        .filter(|(_, verdict)| *verdict > claims.claim)
        .map(|(row, _)| row.what.as_str())
        .collect();
    let reached = claimed.len() - failing.len();
    if (reached as f64) < claims.share * claimed.len() as f64 {
        column.broken.push(format!(
            "{} of {} rows are {}, {} are claimed to be; not: {}",
            reached,
            claimed.len(),
            claims.claim.name(),
            match claims.share {
                1.0 => String::from("all"),
                share => format!("{:.0} %", 100.0 * share),
            },
            failing.join(", ")
        ));
    }
    if let Some(order) = order(result, column) {
        summary.push(format!("rank correlation {order:.2}"));
        if let Some(least) = claims.order.filter(|least| order < *least) {
            column.broken.push(format!(
                "the rank correlation is {order:.2}, at least {least:.2} is claimed"
            ));
        }
    }
    column.summary = summary.join(", ");
}

/// The rank correlation of our figures with what was printed, where all rows have a number.
fn order(result: &Reproduced, column: &Column) -> Option<f64> {
    let is_number = |row: &PrintedRow| matches!(row.printed, Some(Printed::Number(_)));
    if result.rows.len() < LEAST_ORDERED || !result.rows.iter().all(is_number) {
        return None;
    }
    let printed: Vec<f64> = result
        .rows
        .iter()
        .filter_map(|row| Some(result.value(row).ok()??[0]))
        .collect();
    let ours: Vec<f64> = column.figures.iter().map(|(figure, _)| figure.value).collect();
    rank_correlation(&ours, &printed).ok()
}

fn verdict(result: &Reproduced, row: &PrintedRow, value: f64) -> Option<Verdict> {
    if let Some(Printed::Text(text)) = &row.printed
        && is_sign(text)
    {
        let sign = if text == "+" { 1.0 } else { -1.0 };
        return Some(match value * sign >= NO_GAIN {
            true => Verdict::SameSign,
            false => Verdict::Differs,
        });
    }
    let [from, to] = result.value(row).expect("the plan was checked")?;
    let room = |end: f64| result.tolerance.max(result.relative_tolerance * end.abs());
    if (from - room(from)..=to + room(to)).contains(&value) {
        return Some(Verdict::Within);
    }
    let has_sign = |sign: f64| from * sign >= 0.0 && to * sign > 0.0 && value * sign >= NO_GAIN;
    Some(
        match result.unit == Unit::Gain && (has_sign(1.0) || has_sign(-1.0)) {
            true => Verdict::SameSign,
            false => Verdict::Differs,
        },
    )
}

fn printed(result: &Reproduced, row: &PrintedRow) -> String {
    match &row.printed {
        None => String::new(),
        Some(Printed::Number(number)) => as_printed(*number, result.unit),
        Some(Printed::Range([from, to])) => {
            format!(
                "{} to {}",
                as_printed(*from, result.unit),
                as_printed(*to, result.unit)
            )
        }
        Some(Printed::Text(text)) if is_sign(text) => match text.as_str() {
            "+" if result.unit == Unit::Percent => String::from("some"),
            "+" => String::from("more"),
            _ => String::from("less"),
        },
        Some(Printed::Text(formula)) => {
            let [value, _] = result
                .value(row)
                .expect("the plan was checked")
                .expect("a formula has a value");
            format!("{formula} = {}", shown(value, result.unit))
        }
    }
}

/// With the digits that the paper has.
fn as_printed(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Gain => format!("{number:+} %"),
        Unit::Percent => format!("{number} %"),
        Unit::Count => shown(number, unit),
        Unit::Thousandths | Unit::Ratio => number.to_string(),
    }
}

/// A figure for people.
pub(super) fn shown(value: f64, unit: Unit) -> String {
    // Without a negative zero.
    let rounded = |digits: i32| (value * 10f64.powi(digits)).round() / 10f64.powi(digits) + 0.0;
    match unit {
        Unit::Gain => format!("{:+.1} %", rounded(1)),
        Unit::Percent => format!("{:.1} %", rounded(1)),
        Unit::Thousandths => format!("{:.2}", rounded(2)),
        Unit::Ratio => format!("{:.4}", rounded(4)),
        Unit::Count if value.abs() >= 1e15 => format!("{value:.2e}"),
        Unit::Count => format!("{value:.0}"),
    }
}

/// A figure with its interval.
pub(super) fn with_interval(figure: &Figure, unit: Unit) -> String {
    match figure.interval {
        None => shown(figure.value, unit),
        Some([low, high]) => {
            let end = |value: f64| shown(value, unit).trim_end_matches(" %").to_string();
            format!("{} [{}, {}]", shown(figure.value, unit), end(low), end(high))
        }
    }
}
