// SPDX-License-Identifier: GPL-2.0-only
//! What differs between two runs, and whether it is more than noise.
//!
//! Compared are work done, gain over the baseline, and fairness, for each set of programs and each scheduler that both
//! runs have. Two simulations with the same seeds are compared round by round. All else is compared as independent
//! samples (Welch). Work done in different boots of the lab is shown and not judged, since boots differ by more than their
//! rounds do; gains and fairness are ratios within a boot. Many things are looked at, so p values are adjusted (Holm), and
//! a change counts if it is more than the least change too.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;
use threadwise_lab::evaluate::Rounds;
use threadwise_lab::experiment::{Experiment, Program};
use threadwise_lab::run::Label;
use threadwise_metrics::{RatioSummary, holm, independent_ratio, paired_ratio, percent_more};

use crate::error::Error;
use crate::record::Record;

/// Names the layout of the JSON that a comparison is written as.
pub const SCHEMA: &str = "threadwise.compare/1";

/// Adjusted p values below this are more than noise.
pub const LEVEL: f64 = 0.05;

/// By how much results of the same code may differ, beyond the noise between rounds. In the lab gains were up to 2 points
/// apart between boots (docs/results/pairs.md); a simulation repeats itself, but what is below a thousandth interests nobody.
const LEAST_IN_LAB: f64 = 0.02;
const LEAST_SIMULATED: f64 = 0.001;

/// What a gain over the baseline in one run comes to. Both are of one boot, so in the lab there is no least gain but the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// More than noise, upwards.
    More,
    /// More than noise, downwards.
    Less,
    /// More than noise, and less than interests anybody.
    Same,
    /// May be chance.
    Noise,
}

impl Outcome {
    /// Of a gain in a run that came about like this.
    pub(crate) fn of(gain: &RatioSummary, label: Label) -> Self {
        let least = least_gain(label);
        let is_within = |ratio: f64| (ratio - 1.0).abs() < least;
        match gain.excludes_one() {
            _ if is_within(gain.low) && is_within(gain.high) => Self::Same,
            true if is_within(gain.ratio) => Self::Same,
            true if gain.ratio > 1.0 => Self::More,
            true => Self::Less,
            false => Self::Noise,
        }
    }

    /// What is said of [`Outcome::Same`]: its interval may reach further.
    pub(crate) fn same() -> String {
        format!("the same to within {} % on the mean", LEAST_SIMULATED * 100.0)
    }
}

/// The least gain of one run that counts, as a share.
pub(crate) fn least_gain(label: Label) -> f64 {
    match label {
        Label::Simulated => LEAST_SIMULATED,
        Label::Lab => 0.0,
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The performance of all programs together.
    Performance,
    /// That over the baseline's, in the same round.
    Gain,
    /// The smallest speedup over the largest (eq. 3).
    Fairness,
}

/// What is said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// More than noise, upwards.
    Better,
    /// More than noise, downwards.
    Worse,
    /// May be chance, or is less than the least change.
    Same,
    /// The two cannot be judged: what was done in different boots, or on different machines.
    Unjudged,
}

/// One figure in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The programs.
    pub programs: Vec<String>,
    /// The scheduler.
    pub scheduler: String,
    /// What is compared.
    pub what: What,
    /// Of a performance: what one before and one after is in the next two; ratios have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<&'static str>,
    /// Over the first run's rounds: the geometric mean.
    pub before: f64,
    /// Over the second run's.
    pub after: f64,
    /// The second over the first, with its 95 % interval by itself.
    pub ratio: RatioSummary,
    /// Whether rounds were paired.
    pub paired: bool,
    /// How probable so large a change is if the true one is at most the least change; not adjusted.
    pub p: f64,
    /// Adjusted for the number of figures that are judged; none if this one is not.
    pub p_adjusted: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// A fact about the runs that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// In the first run.
    pub before: String,
    /// In the second.
    pub after: String,
}

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The numbers of the runs in their stores.
    pub runs: [i64; 2],
    /// What their user calls them.
    #[serde(skip)]
    pub called: [String; 2],
    /// How their numbers came about.
    pub labels: [Label; 2],
    /// What differs in what was run, and on what.
    pub differences: Vec<Difference>,
    /// What only one of the runs has.
    pub unmatched: Vec<String>,
    /// The least change that counts, as a share.
    pub least_change: f64,
    /// Every figure that both have.
    pub changes: Vec<Change>,
}

impl Comparison {
    /// Whether something got worse, beyond noise.
    pub fn is_worse(&self) -> bool {
        self.changes.iter().any(|change| change.verdict == Verdict::Worse)
    }

    /// How many changes have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .count()
    }

    /// What came out, in a sentence.
    pub fn headline(&self) -> String {
        let judged = self.changes.len() - self.count(Verdict::Unjudged);
        format!(
            "Of {judged} figures that can be judged, from {} to {}, {} got better and {} worse by more than noise.",
            self.called[0],
            self.called[1],
            self.count(Verdict::Better),
            self.count(Verdict::Worse)
        )
    }
}

/// Compares the second run with the first. `least` is the least change that counts, as a share; none for the default.
///
/// # Errors
/// If they have nothing in common, or one has fewer than two complete rounds.
pub fn compare(before: &Record, after: &Record, least: Option<f64>) -> Result<Comparison, Error> {
    before.check_rounds()?;
    after.check_rounds()?;
    let labels = [before.measurement.label, after.measurement.label];
    let simulated = labels == [Label::Simulated; 2];
    let least = least.unwrap_or(if simulated { LEAST_SIMULATED } else { LEAST_IN_LAB });
    let common = Common::of(before, after);
    let mut changes = Vec::new();
    for run in &common.runs {
        for scheduler in &common.schedulers {
            changes.extend(of_scheduler(&common, run, scheduler, least)?);
        }
    }
    if changes.is_empty() {
        // Programs of one name that are different ones are found last and surprise most.
        let unmatched: Vec<&str> = common.unmatched.iter().rev().map(String::as_str).collect();
        let why = match unmatched.as_slice() {
            [] => String::new(),
            all => format!(": {}", all[..all.len().min(NAMED)].join("; ")),
        };
        return Err(Error::Incomparable(format!(
            "{} and {} have no set of programs, alike in both, under a scheduler of the same name{why}",
            before.called(),
            after.called()
        )));
    }
    judge(&mut changes);
    Ok(Comparison {
        schema: SCHEMA,
        runs: [before.id, after.id],
        called: [before.called(), after.called()],
        labels,
        differences: differences(before, after),
        unmatched: common.unmatched,
        least_change: least,
        changes,
    })
}

/// What two runs without anything in common have instead is named so often.
const NAMED: usize = 4;

/// What both runs have.
struct Common<'a> {
    rounds: [Rounds<'a>; 2],
    baselines: [&'a str; 2],
    experiment: &'a Experiment,
    runs: Vec<Vec<String>>,
    schedulers: Vec<String>,
    unmatched: Vec<String>,
    /// Whether rounds with the same number are the same but for what changed.
    paired: bool,
    /// Whether work done compares.
    judges_performance: bool,
}

impl<'a> Common<'a> {
    fn of(before: &'a Record, after: &'a Record) -> Self {
        let (a, b) = (&before.measurement, &after.measurement);
        let (first, second) = (&a.experiment, &b.experiment);
        let mut unmatched = Vec::new();
        let mut both = |mine: Vec<String>, others: Vec<String>| -> Vec<String> {
            let only = |all: &[String], known: &[String], which: &str| -> Vec<String> {
                let missing = all.iter().filter(|one| !known.contains(one));
                missing.map(|one| format!("{one} ({which} run only)")).collect()
            };
            unmatched.extend(only(&mine, &others, "first"));
            unmatched.extend(only(&others, &mine, "second"));
            mine.into_iter().filter(|one| others.contains(one)).collect()
        };
        let names = |experiment: &Experiment| -> Vec<String> {
            experiment.schedulers.iter().map(|one| one.name.clone()).collect()
        };
        let schedulers = both(names(first), names(second));
        let joined = |experiment: &Experiment| -> Vec<String> {
            experiment.runs.iter().map(|run| run.join(" + ")).collect()
        };
        let known = both(joined(first), joined(second));
        let mut runs: Vec<_> = first.runs.clone();
        runs.retain(|run| known.contains(&run.join(" + ")));
        // Programs of one name may be different ones.
        let alike = |run: &Vec<String>| {
            run.iter()
                .all(|name| first.program(name).does_the_same_as(second.program(name)))
        };
        let how = |run: &Vec<String>| {
            let of = |name: &String| unlike_in(first.program(name), second.program(name));
            run.iter()
                .find_map(of)
                .map_or_else(String::new, |how| format!(": {how}"))
        };
        let (runs, unlike): (Vec<_>, Vec<_>) = runs.into_iter().partition(alike);
        unmatched.extend(
            unlike
                .iter()
                .map(|run| format!("{} (different programs{})", run.join(" + "), how(run))),
        );
        let rounds = [Rounds::of(a), Rounds::of(b)];
        let simulated = a.label == Label::Simulated && b.label == Label::Simulated;
        let same_rounds = rounds[0].boots().keys().eq(rounds[1].boots().keys());
        Self {
            experiment: first,
            baselines: [&first.schedulers[0].name, &second.schedulers[0].name],
            runs,
            schedulers,
            unmatched,
            paired: simulated && same_rounds && first.seed == second.seed,
            judges_performance: simulated
                && before.manifest.machine == after.manifest.machine
                && first.mips == second.mips,
            rounds,
        }
    }

    /// A figure in each round of both runs; none if it is none of theirs.
    fn series(&self, what: What, scheduler: &str, run: &[String]) -> Result<Option<[Vec<f64>; 2]>, Error> {
        let one = |which: usize| -> Result<Option<Vec<f64>>, Error> {
            let (rounds, baseline) = (&self.rounds[which], self.baselines[which]);
            let totals = || rounds.totals(scheduler, run);
            Ok(match what {
                What::Performance => Some(totals()),
                What::Gain if scheduler == baseline => None,
                What::Gain => {
                    let base = rounds.totals(baseline, run);
                    Some(
                        totals()
                            .iter()
                            .zip(base)
                            .map(|(total, base)| total / base)
                            .collect(),
                    )
                }
                What::Fairness => rounds.fairness(scheduler, run)?,
            })
        };
        Ok(one(0)?.zip(one(1)?).map(|(before, after)| [before, after]))
    }
}

/// The first in which two programs of one name differ, if they do.
fn unlike_in(first: &Program, second: &Program) -> Option<String> {
    let [a, b] = [first, second].map(|program| serde_json::to_value(program).unwrap_or_default());
    let (at, a, b) = first_difference(&a, &b)?;
    Some(format!("{} has {at} {a}, then {b}", first.name))
}

fn first_difference(a: &Value, b: &Value) -> Option<(String, String, String)> {
    let said = |value: &Value| match value {
        Value::Null => String::from("unset"),
        value => value.to_string(),
    };
    let (Value::Object(of_a), Value::Object(of_b)) = (a, b) else {
        return (a != b).then(|| (String::new(), said(a), said(b)));
    };
    let keys: BTreeSet<&String> = of_a.keys().chain(of_b.keys()).collect();
    keys.into_iter().find_map(|key| {
        let (at, a, b) = first_difference(&a[key], &b[key])?;
        let dot = if at.is_empty() { "" } else { "." };
        Some((format!("{key}{dot}{at}"), a, b))
    })
}

fn of_scheduler(common: &Common, run: &[String], scheduler: &str, least: f64) -> Result<Vec<Change>, Error> {
    let unit = if common.experiment.counts_work(run) {
        UNITS
    } else {
        "1/s"
    };
    let mut changes = Vec::new();
    for what in [What::Performance, What::Gain, What::Fairness] {
        let Some([before, after]) = common.series(what, scheduler, run)? else {
            continue;
        };
        // Gains over different baselines are different things.
        if what == What::Gain && common.baselines[0] != common.baselines[1] {
            continue;
        }
        let ratio = match common.paired {
            true => paired_ratio(&after, &before)?,
            false => independent_ratio(&after, &before)?,
        };
        let judged = what != What::Performance || common.judges_performance;
        changes.push(Change {
            programs: run.to_vec(),
            scheduler: scheduler.to_string(),
            what,
            unit: (what == What::Performance).then_some(unit),
            before: geometric_mean(&before),
            after: geometric_mean(&after),
            ratio,
            paired: common.paired,
            p: ratio.p(least)?,
            p_adjusted: judged.then_some(1.0),
            verdict: if judged { Verdict::Same } else { Verdict::Unjudged },
        });
    }
    Ok(changes)
}

/// The ratio of two is the ratio that is tested.
fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Adjusts the p values of what is judged, and says what follows.
fn judge(changes: &mut [Change]) {
    let mut judged: Vec<&mut Change> = changes
        .iter_mut()
        .filter(|change| change.p_adjusted.is_some())
        .collect();
    let ps: Vec<f64> = judged.iter().map(|change| change.p).collect();
    for (change, adjusted) in judged.iter_mut().zip(holm(&ps)) {
        change.p_adjusted = Some(adjusted);
        change.verdict = match adjusted < LEVEL {
            true if change.ratio.ratio > 1.0 => Verdict::Better,
            true => Verdict::Worse,
            false => Verdict::Same,
        };
    }
}

/// What counted work a second is in.
const UNITS: &str = "units/s";

const SCHEDULERS: &str = "versions of schedulers";

fn differences(before: &Record, after: &Record) -> Vec<Difference> {
    let facts = |record: &Record| -> Vec<(&'static str, String)> {
        let measured = &record.measurement;
        let experiment = &measured.experiment;
        let versions = measured.versioned_schedulers().map(|(_, version)| version);
        let versions = versions.collect::<Vec<_>>().join(", ");
        vec![
            ("label", measured.label.name().to_string()),
            ("version of threadwise", measured.version.clone()),
            (SCHEDULERS, versions),
            ("experiment", experiment.name.clone()),
            ("machine", measured.machine.clone()),
            ("kernel", measured.kernel.clone()),
            ("QEMU", measured.qemu.clone()),
            (
                "million instructions a second",
                experiment.mips.map_or_else(String::new, |mips| mips.to_string()),
            ),
            ("seconds", experiment.seconds.to_string()),
            ("rounds", experiment.rounds.to_string()),
            ("first seed", experiment.seed.to_string()),
            ("host", record.manifest.host.clone()),
        ]
    };
    let both = facts(before).into_iter().zip(facts(after));
    // Not every run says its schedulers' versions.
    both.filter(|((what, a), (_, b))| a != b && (*what != SCHEDULERS || !(a.is_empty() || b.is_empty())))
        .map(|((what, before), (_, after))| Difference { what, before, after })
        .collect()
}

/// What the cells of [`row`] are.
pub const HEADER: [&str; 8] = [
    "programs",
    "scheduler",
    "what",
    "before",
    "after",
    "change",
    "p, adjusted",
    "verdict",
];

/// A change for people.
pub fn row(change: &Change) -> [String; 8] {
    let in_units = change.unit == Some(UNITS);
    let value = |value: f64| match change.what {
        What::Performance if in_units => format!("{:.1}", value * 1e-3),
        What::Performance if value >= 100.0 => format!("{value:.0}"),
        What::Performance => format!("{value:.4}"),
        What::Gain => format!("{:+.1} %", percent_more(value)),
        What::Fairness => format!("{value:.3}"),
    };
    [
        change.programs.join(" + "),
        change.scheduler.clone(),
        match change.what {
            What::Performance if in_units => "1000 units/s",
            What::Performance => change.unit.unwrap_or("performance"),
            What::Gain => "gain",
            What::Fairness => "fairness",
        }
        .to_string(),
        value(change.before),
        value(change.after),
        format!(
            "{:+.1} % [{:+.1}, {:+.1}]",
            percent_more(change.ratio.ratio),
            percent_more(change.ratio.low),
            percent_more(change.ratio.high)
        ),
        change.p_adjusted.map_or_else(String::new, |p| format!("{p:.3}")),
        match change.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Same => "within noise",
            Verdict::Unjudged => "not judged",
        }
        .to_string(),
    ]
}

/// How the figures are to be read.
pub fn legend(comparison: &Comparison) -> String {
    let how = match comparison.changes.first().is_some_and(|change| change.paired) {
        true => "Rounds of the two runs have the same seeds and are compared in pairs",
        false => "The rounds of the two runs are compared as independent samples (Welch)",
    };
    format!(
        "{how}. Each interval is a 95 % confidence interval by itself; p is adjusted for all judged figures by Holm's method, \
         so that the chance of even one false alarm is at most 5 %. A change counts if it is beyond {} % too: by so much \
         equal code may differ. A gain's change is that of its factor. Work done in different boots of the lab, or on \
         different machines, is not judged.",
        comparison.least_change * 100.0
    )
}

/// The comparison as text.
pub fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("writing to a string cannot fail");
    let [first, second] = comparison.labels.map(Label::name);
    line(format!(
        "{} [{first}] and {} [{second}]",
        comparison.called[0], comparison.called[1]
    ));
    for difference in &comparison.differences {
        line(format!(
            "{}: {:?}, then {:?}",
            difference.what, difference.before, difference.after
        ));
    }
    for unmatched in &comparison.unmatched {
        line(format!("not compared: {unmatched}"));
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(HEADER);
    for change in &comparison.changes {
        table.add_row(row(change));
    }
    for column in table.column_iter_mut().skip(3).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    line(format!(
        "{table}\n\n{}\n{}",
        legend(comparison),
        comparison.headline()
    ));
    text
}
