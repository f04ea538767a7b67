// SPDX-License-Identifier: GPL-2.0-only
//! The file that says what is reproduced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use exmex::Express;
use serde::{Deserialize, Serialize};
use serde_json_path::JsonPath;
use threadwise_machine::wrong::{Step, Wrong};

use crate::error::Error;

/// What is reproduced.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The papers, in the order of the page.
    #[serde(rename = "paper")]
    pub papers: Vec<Paper>,
    /// The commands that produce figures, in the order in which they are run.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// The results, in the order of the page.
    #[serde(rename = "result")]
    pub results: Vec<Reproduced>,
}

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// A short name.
    pub name: String,
    /// Authors and title.
    pub title: String,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Length {
    /// Every result, with few rounds; half an hour.
    Quick,
    /// With all rounds, and what takes hours.
    Full,
}

/// How a source's figures come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// By closed forms and models.
    Computed,
    /// By the simulator.
    Simulated,
    /// On this machine, in its own kernel.
    Measured,
    /// In a real kernel on an emulated machine.
    Lab,
}

impl Form {
    /// As pages and tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::Simulated => "simulated",
            Self::Measured => "measured",
            Self::Lab => "lab",
        }
    }
}

/// A command that produces figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A short name, by which results call it.
    pub name: String,
    /// How its figures come about.
    pub form: Form,
    /// The arguments of `threadwise`, without those that say how to print and where to keep results. `{scratch}` is the name
    /// of a file that is not there yet.
    pub command: Vec<String>,
    /// What the quick form adds; without it the source is not in the quick form.
    pub quick: Option<Effort>,
    /// What the long form adds, if not the same.
    pub full: Option<Effort>,
    /// A file with a run that was measured before, which stands in where the source is not run.
    pub stored: Option<PathBuf>,
    /// Whether the page shows the figures of its run.
    #[serde(default)]
    pub is_drawn: bool,
}

/// What a source takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// More arguments.
    #[serde(default)]
    pub with: Vec<String>,
    /// About how long it takes on two cores, in seconds.
    pub seconds: u32,
}

impl Source {
    /// What it takes in a form of this length; none if it is not in it.
    pub fn effort(&self, length: Length) -> Option<&Effort> {
        match length {
            Length::Quick => self.quick.as_ref(),
            Length::Full => self.full.as_ref().or(self.quick.as_ref()),
        }
    }

    /// Its arguments in a form of this length.
    pub fn arguments(&self, length: Length) -> Option<Vec<String>> {
        let more = &self.effort(length)?.with;
        Some(self.command.iter().chain(more).cloned().collect())
    }
}

/// A table or figure of a paper, or a part of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproduced {
    /// A short name.
    pub name: String,
    /// The paper's.
    pub paper: String,
    /// Where in the paper.
    pub place: String,
    /// What it shows, in a sentence.
    pub title: String,
    /// What its figures are.
    pub unit: Unit,
    /// What the letters in printed formulas stand for.
    #[serde(default)]
    pub given: BTreeMap<String, f64>,
    /// So far from what was printed is within: absolute, in the unit.
    #[serde(default)]
    pub tolerance: f64,
    /// The same as a share of what was printed; the larger of the two holds.
    #[serde(default)]
    pub relative_tolerance: f64,
    /// What was printed, row by row.
    pub rows: Vec<PrintedRow>,
    /// Our figures, column by column.
    #[serde(default)]
    pub figures: Vec<FigureColumn>,
    /// Why ours differ, or why there are none.
    #[serde(default)]
    pub why: String,
}

/// What was printed in one row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedRow {
    /// What it is.
    pub what: String,
    /// What the paper has; nothing if it is in a drawing without numbers.
    pub printed: Option<Printed>,
    /// Why this row is known to differ; then no claim holds for it.
    pub known: Option<String>,
}

/// What a paper has printed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Printed {
    /// A number, in the unit.
    Number(f64),
    /// From, to.
    Range([f64; 2]),
    /// `+` or `-`: more or less, of shares `+` for some, without a number; or a formula.
    Text(String),
}

/// What figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// How much more than something else, in percent: the sign matters.
    Gain,
    /// A share, in percent.
    Percent,
    /// A share, in thousandths.
    Thousandths,
    /// A quotient.
    Ratio,
    /// A number of things.
    Count,
}

impl Unit {
    /// How many of it one is.
    pub fn scale(self) -> f64 {
        match self {
            Self::Gain | Self::Percent => 100.0,
            Self::Thousandths => 1000.0,
            Self::Ratio | Self::Count => 1.0,
        }
    }

    /// In words, for a table's caption.
    pub fn words(self) -> &'static str {
        match self {
            Self::Gain => "how much more, in %",
            Self::Percent => "in %",
            Self::Thousandths => "in thousandths",
            Self::Ratio => "as a ratio",
            Self::Count => "how many",
        }
    }
}

/// Our figures for all rows of a result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureColumn {
    /// The source, or one for each row.
    pub from: OneOrMany<String>,
    /// What of it, if the form does not say it all: such as which scheduler.
    #[serde(default)]
    pub what: String,
    /// Where the figures are in its JSON (RFC 9535): one path that leads to those of all rows, in order, or one for each row.
    pub at: OneOrMany<JsonPath>,
    /// Figures that these are compared with; then a row has how much more `at` is, as a share.
    pub over: Option<OneOrMany<JsonPath>>,
    /// What becomes of several figures that one path leads to.
    pub take: Option<Take>,
    /// What becomes of those of `over`, if not the same.
    pub over_take: Option<Take>,
    /// The figures are quotients, of which one is no difference.
    #[serde(default)]
    pub minus_one: bool,
    /// Where the lower and upper ends of intervals are, as `at`.
    pub interval: Option<[OneOrMany<JsonPath>; 2]>,
    /// What is claimed of each row.
    pub claim: Verdict,
    /// Of how large a share of the rows it is claimed.
    #[serde(default = "all")]
    pub share: f64,
    /// The least rank correlation (Kendall's tau-b) with what was printed that is claimed.
    pub order: Option<f64>,
}

fn all() -> f64 {
    1.0
}

/// One, or one for each row.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// For all rows.
    One(T),
    /// One for each row.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// That of a row.
    pub fn of_row(&self, row: usize) -> &T {
        match self {
            Self::One(one) => one,
            Self::Many(many) => &many[row],
        }
    }

    /// Whether each row has its own.
    pub fn is_by_row(&self) -> bool {
        matches!(self, Self::Many(_))
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(many) => many.iter(),
        }
    }
}

/// One figure of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// Their mean.
    Mean,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// Their sum.
    Sum,
}

/// What a figure is, or is claimed to be, beside what was printed: the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The same, within the tolerance.
    #[serde(rename = "within")]
    Within,
    /// Of the same sign.
    #[serde(rename = "same sign")]
    SameSign,
    /// Neither; the reason is given.
    #[serde(rename = "differs")]
    Differs,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::SameSign => "same sign",
            Self::Differs => "differs",
        }
    }
}

impl Plan {
    /// Parses and checks; `path` is for messages only.
    ///
    /// # Errors
    /// [`Error::Plan`] says what is wrong, and in which line.
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Plan {
            path: path.into(),
            problem,
        };
        let plan: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        plan.check().map_err(|error| wrong(error.in_file(text)))?;
        Ok(plan)
    }

    /// The source of that name.
    pub fn source(&self, name: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// With these results or papers only, and with the sources that they need.
    ///
    /// # Errors
    /// The names, if one is neither a result nor a paper.
    pub fn only(mut self, names: &[String]) -> Result<Self, String> {
        let is_known = |name: &&String| {
            let of_result = |result: &Reproduced| result.name == **name || result.paper == **name;
            self.results.iter().any(of_result)
        };
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let known: Vec<&str> = self.results.iter().map(|result| result.name.as_str()).collect();
            return Err(format!(
                "{unknown:?} is no result and no paper; results are {}",
                known.join(", ")
            ));
        }
        if !names.is_empty() {
            self.results
                .retain(|result| names.contains(&result.name) || names.contains(&result.paper));
        }
        let needed: BTreeSet<&String> = self
            .results
            .iter()
            .flat_map(|result| &result.figures)
            .flat_map(|figure| figure.from.iter())
            .collect();
        self.sources.retain(|source| needed.contains(&source.name));
        self.papers
            .retain(|paper| self.results.iter().any(|result| result.paper == paper.name));
        Ok(self)
    }

    fn check(&self) -> Result<(), Wrong> {
        unique("paper", self.papers.iter().map(|paper| &paper.name))?;
        unique("source", self.sources.iter().map(|source| &source.name))?;
        unique("result", self.results.iter().map(|result| &result.name))?;
        for (nth, source) in self.sources.iter().enumerate() {
            let at = [Step::Key("source"), Step::Nth(nth), Step::Key("name")];
            if source.quick.is_none() && source.full.is_none() {
                let what = format!("source {:?} needs quick or full", source.name);
                return Err(Wrong::new(&at, what));
            }
            let uses = |figure: &FigureColumn| figure.from.iter().any(|name| *name == source.name);
            let is_used = |result: &Reproduced| result.figures.iter().any(uses);
            if !self.results.iter().any(is_used) {
                let what = format!("no result uses source {:?}", source.name);
                return Err(Wrong::new(&at, what));
            }
        }
        for (nth, result) in self.results.iter().enumerate() {
            self.check_result(nth, result)?;
        }
        Ok(())
    }

    fn check_result(&self, nth: usize, result: &Reproduced) -> Result<(), Wrong> {
        let wrong = |at: &[Step], what: String| {
            let at = [&[Step::Key("result"), Step::Nth(nth)], at].concat();
            Wrong::new(&at, format!("result {:?}: {what}", result.name))
        };
        if !self.papers.iter().any(|paper| paper.name == result.paper) {
            let what = format!("there is no paper {:?}", result.paper);
            return Err(wrong(&[Step::Key("paper")], what));
        }
        if result.rows.is_empty() {
            return Err(wrong(&[Step::Key("rows")], String::from("it has no rows")));
        }
        for (nth, row) in result.rows.iter().enumerate() {
            result.value(row).map_err(|problem| {
                let what = format!("row {:?}: {problem}", row.what);
                wrong(&[Step::Key("rows"), Step::Nth(nth)], what)
            })?;
        }
        if result.figures.is_empty() && result.why.is_empty() {
            return Err(wrong(
                &[Step::Key("name")],
                String::from("why are there no figures?"),
            ));
        }
        for (nth, figure) in result.figures.iter().enumerate() {
            self.check_figures(result, figure).map_err(|problem| {
                let what = format!("figures from {:?}: {problem}", figure.from.of_row(0));
                wrong(&[Step::Key("figures"), Step::Nth(nth)], what)
            })?;
        }
        Ok(())
    }

    fn check_figures(&self, result: &Reproduced, figure: &FigureColumn) -> Result<(), &'static str> {
        let ends = figure.interval.iter().flatten();
        let mut lists = std::iter::once(&figure.at).chain(&figure.over).chain(ends);
        let is_wrong =
            |list: &OneOrMany<JsonPath>| list.is_by_row() && list.iter().count() != result.rows.len();
        let mut forms = figure
            .from
            .iter()
            .map(|name| self.source(name).map(|source| source.form));
        let first = forms.next().flatten();
        if first.is_none() || forms.any(|form| form != first) {
            return Err("there is no such source, or they are of several forms");
        }
        if lists.any(is_wrong) || figure.from.is_by_row() && figure.from.iter().count() != result.rows.len() {
            return Err("give one of a kind for all rows, or one for each row");
        }
        if figure.claim == Verdict::Differs && result.why.is_empty() {
            return Err("they are said to differ: why?");
        }
        if figure.claim == Verdict::SameSign && !matches!(result.unit, Unit::Gain | Unit::Percent) {
            return Err("only gains and shares have a sign");
        }
        if !(0.0..=1.0).contains(&figure.share) {
            return Err("share is not within 0 and 1");
        }
        if figure.over.is_some() && (figure.minus_one || figure.interval.is_some()) {
            return Err("with over there is no minus_one and no interval");
        }
        Ok(())
    }
}

impl Reproduced {
    /// What was printed, as numbers in the unit; none where there is no number.
    ///
    /// # Errors
    /// If a formula is none, or has letters that `given` lacks.
    pub fn value(&self, row: &PrintedRow) -> Result<Option<[f64; 2]>, String> {
        Ok(match &row.printed {
            Some(Printed::Number(number)) => Some([*number; 2]),
            Some(Printed::Range([from, to])) if from <= to => Some([*from, *to]),
            Some(Printed::Range(_)) => return Err(String::from("the range begins after its end")),
            Some(Printed::Text(text)) if is_sign(text) => match self.unit {
                Unit::Gain => None,
                Unit::Percent if text == "+" => None,
                _ => return Err(String::from("only gains have a sign, and shares a +")),
            },
            Some(Printed::Text(formula)) => Some([self.evaluate(formula)?; 2]),
            None => None,
        })
    }

    fn evaluate(&self, formula: &str) -> Result<f64, String> {
        let wrong = |problem: String| format!("formula {formula:?}: {problem}");
        let parsed = exmex::parse::<f64>(formula).map_err(|error| wrong(error.to_string()))?;
        let letter = |name: &String| {
            self.given
                .get(name)
                .copied()
                .ok_or_else(|| wrong(format!("{name} is not given")))
        };
        let values: Vec<f64> = parsed.var_names().iter().map(letter).collect::<Result<_, _>>()?;
        let value = parsed.eval(&values).map_err(|error| wrong(error.to_string()))?;
        match value.is_finite() {
            true => Ok(value * self.unit.scale()),
            false => Err(wrong(String::from("it has no finite value"))),
        }
    }
}

/// Whether only more or less was said.
pub(super) fn is_sign(text: &str) -> bool {
    matches!(text, "+" | "-")
}

fn unique<'a>(key: &'static str, names: impl Iterator<Item = &'a String>) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for (nth, name) in names.enumerate() {
        if !seen.insert(name) {
            let at = [Step::Key(key), Step::Nth(nth), Step::Key("name")];
            return Err(Wrong::new(&at, format!("two have the name: {key} {name:?}")));
        }
    }
    Ok(())
}
