// SPDX-License-Identifier: GPL-2.0-only
//! The page about one or more runs: a single HTML file that needs nothing else, not even a script.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use threadwise_lab::evaluate::{Evaluation, RunResult, SchedulerResult};
use threadwise_lab::experiment::Program;
use threadwise_lab::run::Label;
use threadwise_lab::table;
use threadwise_metrics::percent_more;

use crate::compare::{self, Comparison, Outcome, Verdict};
use crate::error::Error;
use crate::figure::{self, Figure};
use crate::headline;
use crate::record::{Record, State};
use crate::repeat;
use crate::words;

const STYLE: &str = include_str!("page.css");

/// A run with what is shown of it.
pub struct Shown {
    /// The run.
    pub record: Record,
    /// Its numbers.
    pub evaluation: Evaluation,
    /// Its figures.
    pub figures: Vec<Figure>,
}

impl Shown {
    /// Evaluates a run and draws its figures.
    ///
    /// # Errors
    /// If it has fewer than two complete rounds, or its machine cannot be read back.
    pub fn new(record: Record) -> Result<Self, Error> {
        let evaluation = record.evaluate()?;
        let figures = figure::all(&record, &evaluation)?;
        Ok(Self {
            record,
            evaluation,
            figures,
        })
    }

    /// A name that no other run of the page has.
    fn anchor(&self, place: usize, part: &str) -> String {
        format!("{part}-{}", place + 1)
    }
}

/// Writes the page. Each run is compared with the one before it, as far as the two have something in common.
///
/// # Errors
/// If a figure cannot be computed.
pub fn write(runs: &[Shown]) -> Result<String, Error> {
    let title = match runs {
        [one] => format!(
            "{}, run {}",
            one.record.measurement.experiment.name, one.record.id
        ),
        several => format!("{} runs of threadwise", several.len()),
    };
    let comparisons: Vec<(usize, Comparison)> = runs
        .windows(2)
        .enumerate()
        .filter_map(
            |(place, pair)| match compare::compare(&pair[0].record, &pair[1].record, None) {
                Ok(comparison) => Some(Ok((place, comparison))),
                Err(Error::Incomparable(_)) => None,
                Err(error) => Some(Err(error)),
            },
        )
        .collect::<Result<_, _>>()?;
    let sections = runs
        .iter()
        .enumerate()
        .map(|(place, run)| section(place, run))
        .collect::<Result<Vec<_>, _>>()?;
    let body = html! {
        @if runs.len() > 1 {
            h1 { (title) }
            nav { ul {
                @for (place, run) in runs.iter().enumerate() {
                    li { a href=(format!("#{}", run.anchor(place, "run"))) {
                        (run.record.measurement.experiment.name) ", run " (run.record.id)
                    } }
                }
            } }
        }
        @for (_, comparison) in &comparisons { (compared(comparison)) }
        @for section in &sections { (section) }
        (glossary())
    };
    Ok(document(&title, &body))
}

/// A page with this in it.
pub(crate) fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Whatever is in a stored run, the page loads nothing and runs nothing.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    markup.into_string()
}

fn section(place: usize, run: &Shown) -> Result<Markup, Error> {
    let experiment = &run.record.measurement.experiment;
    Ok(html! {
        section id=(run.anchor(place, "run")) {
            h1 { (experiment.name) ": " (experiment.description) }
            p { span class="label" { (run.evaluation.label.name()) } " " (said(run.evaluation.label)) }
            @if run.record.state != State::Complete {
                p class="loss" {
                    "This run is " (run.record.state) ": " (run.evaluation.nr_rounds) " of " (experiment.rounds)
                    " rounds are here. " @if let Some(failure) = &run.record.failure { (failure) }
                }
            }
            div class="headline" {
                @for sentence in headline::sentences(&run.evaluation) { p { (sentence) } }
                @for finding in &run.evaluation.findings {
                    p class=(if finding.holds { "gain" } else { "loss" }) { "What its file says it must show " (finding) "." }
                }
            }
            nav aria-label="Contents" { ul {
                @for (part, name) in [
                    ("what", "What was run"), ("figures", "Figures"), ("tables", "Tables"), ("repeat", "Repeat it"),
                ] {
                    li { a href=(format!("#{}", run.anchor(place, part))) { (name) } }
                }
                li { a href="#words" { "Words" } }
            } }
            h2 id=(run.anchor(place, "what")) { "What was run and on what" }
            (what_was_run(run)?)
            h2 id=(run.anchor(place, "figures")) { "Figures" }
            (main_figures(run))
            @for figure in run.figures.iter().filter(|figure| !figure.is_main && !figure.is_of_a_piece()) {
                (folded(figure))
            }
            @if run.figures.iter().any(is_folded_piece) {
                details {
                    summary { "What ran where and when" }
                    @for figure in run.figures.iter().filter(|figure| is_folded_piece(figure)) { (folded(figure)) }
                }
            }
            h2 id=(run.anchor(place, "tables")) { "Tables" }
            p {
                "Each ± and [from, to] is a 95 % interval over " (table::length(&run.evaluation)) ". A scheduler's gain "
                "compares it with " (experiment.schedulers[0].name) " in the same round of the same boot. Of the programs' "
                "jitters a table has the largest."
            }
            @for result in &run.evaluation.runs { div class="wide" { (table_of(result, run.evaluation.label)) } }
            h2 id=(run.anchor(place, "repeat")) { "Repeat it" }
            (repeat(run))
        }
    })
}

fn said(label: Label) -> &'static str {
    match label {
        Label::Lab => {
            "Measured in a real kernel on an emulated machine, slower than a real one; see the rate below."
        }
        Label::Simulated => "Simulated: no kernel ran. The decisions are those of the scheduler's own code.",
    }
}

fn what_was_run(run: &Shown) -> Result<Markup, Error> {
    let record = &run.record;
    let measured = &record.measurement;
    let experiment = &measured.experiment;
    let machine = record.manifest.machine()?;
    let mips = experiment.mips.or(machine.lab().map(|lab| lab.mips));
    let schedulers: Vec<String> = experiment
        .schedulers
        .iter()
        .map(|scheduler| match scheduler.command.is_empty() {
            true => scheduler.name.clone(),
            false => format!("{} ({})", scheduler.name, repeat::line(&scheduler.command)),
        })
        .collect();
    let mut facts = vec![
        ("run", format!("{} of {} (UTC)", record.id, record.began)),
        ("schedulers", schedulers.join(", ")),
        ("length", table::length(&run.evaluation)),
        ("machine", format!("{}: {}", machine.name(), machine.summary())),
    ];
    facts.extend(mips.map(|mips| {
        (
            "rate",
            format!("{mips} million instructions a second on the fastest CPU"),
        )
    }));
    if measured.label == Label::Lab {
        facts.push(("kernel", format!("Linux {}", measured.kernel)));
        facts.push(("emulated by", measured.qemu.clone()));
        let samples = measured.samples.len();
        facts.push((
            "void",
            format!("{} of {samples} samples, repeated", run.evaluation.nr_void),
        ));
    }
    facts.push(("version", format!("threadwise {}", measured.version)));
    let versions = measured
        .versioned_schedulers()
        .map(|(name, version)| format!("{name}: {version}"));
    facts.extend(versions.map(|version| ("scheduler", version)));
    facts.push(("host", record.manifest.host.clone()));
    Ok(html! {
        dl class="facts" {
            @for (name, fact) in &facts { dt { (name) } dd { (fact) } }
        }
        (programs(run))
        figure class="machine" {
            (PreEscaped(machine.render_svg()))
            figcaption {
                "The machine: each small box is a CPU with its capacity, its speed where 1024 is the fastest. Boxes around "
                "CPUs are what these share."
            }
        }
    })
}

fn programs(run: &Shown) -> Markup {
    let measurement = &run.record.measurement;
    let (experiment, nr_cpus) = (&measurement.experiment, measurement.nr_cpus as u32);
    let did_run = |program: &&Program| experiment.runs.iter().flatten().any(|name| *name == program.name);
    html! {
        table {
            caption { "The programs. A synthetic one with ratio p:s does p parts of its work in parallel and s parts serially." }
            thead { tr { @for name in ["program", "what", "threads", "mean phase"] { th scope="col" { (name) } } } }
            tbody {
                @for program in experiment.programs.iter().filter(did_run) {
                    tr {
                        th scope="row" { (program.name) }
                        @if let Some(synthetic) = &program.synthetic {
                            td data-label="what" { "synthetic " (synthetic.ratio) }
                            td data-label="threads" { (synthetic.threads.unwrap_or(nr_cpus)) }
                            td data-label="mean phase" { (synthetic.phase_units) " units" }
                        } @else if let Some(stages) = &program.stages {
                            td data-label="what" { "stages of one thread to all" }
                            td data-label="threads" { (stages.threads.unwrap_or(nr_cpus)) }
                            td data-label="mean phase" { (stages.phase_units) " units" }
                        } @else if let Some(file) = &program.rtapp {
                            td data-label="what" { code { (file.display()) } }
                            td data-label="threads" {}
                            td data-label="mean phase" {}
                        } @else {
                            td data-label="what" { code { (repeat::line(&program.command)) } }
                            td data-label="threads" {}
                            td data-label="mean phase" {}
                        }
                    }
                }
            }
        }
    }
}

fn is_folded_piece(figure: &Figure) -> bool {
    figure.is_of_a_piece() && !figure.is_main
}

fn folded(figure: &Figure) -> Markup {
    html! {
        details { summary { (figure.title) } (shown(figure)) }
    }
}

/// Those that are shown at once.
pub(crate) fn main_figures(run: &Shown) -> Markup {
    html! {
        @for figure in run.figures.iter().filter(|figure| figure.is_main) { (shown(figure)) }
    }
}

pub(crate) fn shown(figure: &Figure) -> Markup {
    html! {
        figure {
            h3 { (figure.title) }
            (figure.inline())
            figcaption { (figure.caption) }
        }
    }
}

/// One table, with what it says.
fn table_of(run: &RunResult, label: Label) -> Markup {
    let header = table::header(run);
    html! {
        table {
            caption { strong { (table::heading(run)) } ". " (says(run, label)) }
            thead { tr { @for name in &header { th scope="col" { (name) } } } }
            tbody {
                @for result in &run.schedulers {
                    tr {
                        @for (index, (name, cell)) in header.iter().zip(table::row(run, result)).enumerate() {
                            @if index == 0 {
                                th scope="row" { (cell) }
                            } @else {
                                td data-label=(name) class=[(index == 2).then(|| tone(result, label)).flatten()] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Losses are marked as gains are.
fn tone(result: &SchedulerResult, label: Label) -> Option<&'static str> {
    match Outcome::of(result.over_baseline.as_ref()?, label) {
        Outcome::More => Some("gain"),
        Outcome::Less => Some("loss"),
        Outcome::Same | Outcome::Noise => None,
    }
}

/// What a table says, in a sentence for each scheduler but the baseline.
fn says(run: &RunResult, label: Label) -> String {
    let first = &run.schedulers[0];
    let baseline = &first.scheduler;
    let sentence = |result: &SchedulerResult| {
        let gain = result.over_baseline.as_ref()?;
        let name = &result.scheduler;
        let word = match Outcome::of(gain, label) {
            Outcome::Noise => {
                return Some(format!(
                    "Between {name} and {baseline} the difference is within noise."
                ));
            }
            Outcome::Same => {
                return Some(format!("Under {name} and {baseline} it is {}.", Outcome::same()));
            }
            Outcome::More => "more",
            Outcome::Less => "less",
        };
        Some(match &run.time {
            Some(called) => {
                let [time, before] = [result, first].map(|of| table::time(run, 1.0 / of.total.mean));
                format!(
                    "Under {name} it takes {} than under {baseline}: {time} in place of {before} ({called}).",
                    headline::less_time(gain)
                )
            }
            None => {
                let percent = percent_more(gain.ratio).abs();
                format!("Under {name} {percent:.1} % {word} work gets done than under {baseline}.")
            }
        })
    };
    let sentences: Vec<String> = run.schedulers.iter().filter_map(sentence).collect();
    sentences.join(" ")
}

fn repeat(run: &Shown) -> Markup {
    let record = &run.record;
    html! {
        p { "With threadwise " (record.measurement.version) ", the experiment below in the file " code { (repeat::file(record)) }
            ", and the machine " code { (repeat::machine(record)) } ":" }
        pre { code { (repeat::command(record)) } }
        details {
            summary { "The experiment file" }
            pre { code { (record.manifest.experiment_text) } }
        }
        @if let Some(text) = &record.manifest.machine_text {
            details {
                summary { "The machine file" }
                pre { code { (text) } }
            }
        }
    }
}

fn compared(comparison: &Comparison) -> Markup {
    html! {
        section {
            h2 { "From " (comparison.called[0]) " to " (comparison.called[1]) }
            div class="headline" { p { (comparison.headline()) } }
            @if !comparison.differences.is_empty() {
                table {
                    caption { "What differs between the two, apart from results." }
                    thead { tr { @for name in ["what", "before", "after"] { th scope="col" { (name) } } } }
                    tbody {
                        @for difference in &comparison.differences {
                            tr {
                                th scope="row" { (difference.what) }
                                td data-label="before" { (difference.before) }
                                td data-label="after" { (difference.after) }
                            }
                        }
                    }
                }
            }
            div class="wide" { (changes(comparison)) }
            @for unmatched in &comparison.unmatched { p class="quiet" { "Not compared: " (unmatched) } }
        }
    }
}

fn changes(comparison: &Comparison) -> Markup {
    html! {
        table {
            caption { (compare::legend(comparison)) }
            thead { tr { @for name in compare::HEADER { th scope="col" { (name) } } } }
            tbody {
                @for change in &comparison.changes {
                    tr {
                        @for (index, (name, cell)) in compare::HEADER.iter().zip(compare::row(change)).enumerate() {
                            @if index == 0 {
                                th scope="row" { (cell) }
                            } @else {
                                td data-label=(name) class=[(index == 7).then(|| verdict_tone(change.verdict)).flatten()] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_tone(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Better => Some("gain"),
        Verdict::Worse => Some("loss"),
        Verdict::Same | Verdict::Unjudged => None,
    }
}

/// The words that pages use.
pub(crate) fn glossary() -> Markup {
    html! {
        section {
            h2 id="words" { "Words" }
            dl class="words" {
                @for (word, meaning) in words::used() { dt { (word) } dd { (meaning) } }
            }
            p class="quiet" {
                "Equations (eq.) are those of Morad, Kolodny and Weiser, Task Scheduling Based On Thread Essence and Resource "
                "Limitations."
            }
        }
    }
}
