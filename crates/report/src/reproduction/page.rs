// SPDX-License-Identifier: GPL-2.0-only
//! The page: every result beside what the paper printed, in one HTML file that needs nothing else.

use maud::{Markup, html};
use threadwise_lab::run::Measurement;

use super::outcome::{Column, Outcome, with_interval};
use super::plan::{Form, Length, Plan, Verdict};
use crate::figure::Figure;
use crate::headline;
use crate::page::{Shown, document, glossary, main_figures, shown};

/// Longer tables are folded.
const MOST_ROWS: usize = 9;

/// What a page says besides the results.
pub struct About {
    /// How much was run.
    pub length: Length,
    /// The version of threadwise.
    pub version: String,
    /// The operating system and processor of the host.
    pub host: String,
    /// How long the sources took that were run for this page, in seconds.
    pub seconds: f64,
    /// What became of each source.
    pub sources: Vec<Produced>,
}

/// What became of a source.
pub struct Produced {
    /// Its name.
    pub name: String,
    /// How its figures come about.
    pub form: Form,
    /// The command that runs it again.
    pub command: String,
    /// What became of it, in a few words.
    pub state: String,
    /// Whether it failed.
    pub has_failed: bool,
    /// How long it took, in seconds, if it was run for this page.
    pub seconds: Option<f64>,
    /// Its run, if it is one and it is to be drawn.
    pub drawn: Option<Shown>,
    /// A picture of what it printed, if there is one and it is to be drawn.
    pub picture: Option<Figure>,
}

/// Writes the page.
pub fn page(plan: &Plan, outcomes: &[Outcome], about: &About) -> String {
    let body = html! {
        section {
            h1 { "The papers, reproduced" }
            p { "Each table has what a paper printed, and beside it what this program makes of it today." }
            div class="headline" { @for sentence in headline(outcomes) { p { (sentence) } } }
            nav aria-label="Contents" { ul {
                @for paper in &plan.papers { li { a href=(format!("#{}", anchor(&paper.name))) { (paper.name) } } }
                li { a href="#others" { "Beside other schedulers" } }
                li { a href="#figures" { "Figures" } }
                li { a href="#sources" { "Commands" } }
                li { a href="#words" { "Words" } }
            } }
            (how_to_read())
            dl class="facts" {
                dt { "form" } dd { (match about.length { Length::Quick => "quick", Length::Full => "long" }) }
                dt { "version" } dd { "threadwise " (about.version) }
                dt { "host" } dd { (about.host) }
                dt { "time" } dd { (minutes(about.seconds)) ", for what was not kept from before" }
            }
        }
        @for paper in &plan.papers {
            section {
                h2 id=(anchor(&paper.name)) { (paper.name) }
                p class="quiet" { (paper.title) }
                @for outcome in outcomes.iter().filter(|outcome| outcome.paper == paper.name) {
                    (result(outcome, about))
                }
            }
        }
        (others(about))
        (figures(about))
        (sources(about))
        (glossary())
    };
    document("The papers, reproduced", &body)
}

fn how_to_read() -> Markup {
    html! {
        dl class="facts" {
            dt { "computed" } dd { "by closed forms and models" }
            dt { "simulated" } dd { "no kernel ran; a scheduler's decisions are those of its code, or of a model of it where it is not ours" }
            dt { "measured" } dd { "on this machine, in its own kernel" }
            dt { "lab" } dd { "measured in a real kernel on an emulated machine, slower than a real one" }
            dt { "a = 2" } dd { "one core is twice as fast as the others; a = 1: all are equal" }
            dt { "(p:s)" } dd { "a program that does p parts of its work in parallel and s serially; inf:1 always in parallel, 1:inf never" }
            dt { "more, less, some" } dd { "printed without a number" }
            dt { "within" } dd { "what was printed, within the tolerance that docs/papers.toml gives" }
            dt { "same sign" } dd { "a gain where the paper has one, a loss where it has one, some where it has some" }
            dt { "differs" } dd { "neither; the reason stands under the table" }
        }
    }
}

/// How many figures there are and what they are.
fn headline(outcomes: &[Outcome]) -> Vec<String> {
    let columns = || outcomes.iter().flat_map(|outcome| &outcome.columns);
    let verdicts = || columns().flat_map(|column| &column.figures);
    let count = |wanted: Verdict| verdicts().filter(|(_, verdict)| *verdict == Some(wanted)).count();
    let mut sentences = vec![format!(
        "Of {} figures {} are within what was printed, {} more have its sign, {} differ, and {} have nothing printed to go by.",
        verdicts().count(),
        count(Verdict::Within),
        count(Verdict::SameSign),
        count(Verdict::Differs),
        verdicts().filter(|(_, verdict)| verdict.is_none()).count()
    )];
    let missing = outcomes
        .iter()
        .filter(|outcome| outcome.columns.iter().all(|column| column.figures.is_empty()));
    let missing: Vec<&str> = missing.map(|outcome| outcome.title.as_str()).collect();
    if !missing.is_empty() {
        sentences.push(format!("Not run at all: {}.", missing.join("; ")));
    }
    let wrong: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| !outcome.is_as_claimed())
        .map(|outcome| outcome.title.as_str())
        .collect();
    sentences.push(match wrong.as_slice() {
        [] => String::from("Everything that was run is as we claim it to be."),
        some => format!("Not as we claim, or failed: {}.", some.join("; ")),
    });
    let run = || columns().filter(|column| !column.figures.is_empty());
    sentences.push(format!(
        "We claim something of {} of the {} columns of figures, and promise nothing of the others; the text below each says why.",
        run().filter(|column| column.claim != Verdict::Differs).count(),
        run().count()
    ));
    sentences
}

fn result(outcome: &Outcome, about: &About) -> Markup {
    html! {
        h3 id=(anchor(&outcome.name)) { (outcome.place) ": " (outcome.title) }
        @if outcome.rows.len() > MOST_ROWS {
            @for column in outcome.columns.iter().filter(|column| !column.figures.is_empty()) {
                p { (heading(column)) ": " (column.summary) "." }
            }
            details { summary { "All " (outcome.rows.len()) " rows" } (table(outcome)) }
        } @else {
            (table(outcome))
        }
        @for column in &outcome.columns { (troubles(column)) }
        @for row in &outcome.rows {
            @if let Some(known) = &row.known { p { strong { (row.what) } ": " (known) } }
        }
        @if !outcome.why.is_empty() { p { (outcome.why) } }
        (produced_by(outcome, about))
    }
}

fn table(outcome: &Outcome) -> Markup {
    let verdict = |row: usize| {
        let of_columns: Vec<(&Column, Verdict)> = outcome
            .columns
            .iter()
            .filter_map(|column| Some((column, column.figures.get(row)?.1?)))
            .collect();
        match of_columns.as_slice() {
            [] if outcome.columns.iter().all(|column| column.figures.is_empty()) => String::from("not run"),
            [] => String::new(),
            [(_, first), rest @ ..] if rest.iter().all(|(_, verdict)| verdict == first) => {
                first.name().into()
            }
            several => {
                let said = several
                    .iter()
                    .map(|(column, verdict)| format!("{} {}", column.form.name(), verdict.name()));
                said.collect::<Vec<_>>().join(", ")
            }
        }
    };
    html! {
        table class="results" {
            caption { (outcome.place) ", " (outcome.unit.words()) "." }
            thead { tr {
                th scope="col" { "result" }
                th scope="col" { "printed" }
                @for column in &outcome.columns { th scope="col" { (heading(column)) } }
                th scope="col" { "verdict" }
            } }
            tbody {
                @for (nr, row) in outcome.rows.iter().enumerate() {
                    tr {
                        th scope="row" { (row.what) }
                        td data-label="printed" { (row.printed) }
                        @for column in &outcome.columns {
                            td data-label=(heading(column)) class=[tone(column, nr)] {
                                @match column.figures.get(nr) {
                                    Some((figure, _)) => (with_interval(figure, outcome.unit)),
                                    None => "not run",
                                }
                            }
                        }
                        td data-label="verdict" { (verdict(nr)) }
                    }
                }
            }
        }
    }
}

fn heading(column: &Column) -> String {
    match column.what.as_str() {
        "" => column.form.name().to_string(),
        what => format!("{}: {what}", column.form.name()),
    }
}

fn tone(column: &Column, row: usize) -> Option<&'static str> {
    match column.figures.get(row)?.1? {
        Verdict::Within => Some("gain"),
        Verdict::SameSign => None,
        Verdict::Differs => Some("loss"),
    }
}

/// What is missing, and which claims do not hold.
fn troubles(column: &Column) -> Markup {
    html! {
        @if let Some(why) = &column.missing {
            p class=(if column.has_failed { "loss" } else { "quiet" }) {
                "No figures, " (heading(column)) ": " (why.trim_end_matches('.')) "."
            }
        }
        @for broken in &column.broken { p class="loss" { "Not as claimed, " (heading(column)) ": " (broken) "." } }
    }
}

/// The commands that produced it.
fn produced_by(outcome: &Outcome, about: &About) -> Markup {
    let sources = || {
        let is_used = |name: &str| {
            outcome
                .columns
                .iter()
                .any(|column| column.from.iter().any(|from| from == name))
        };
        about.sources.iter().filter(move |source| is_used(&source.name))
    };
    html! {
        @if sources().next().is_some() {
            details {
                summary { "Repeat it" }
                @for source in sources() {
                    pre { code { (source.command) } }
                    p class="quiet" { (source.state) }
                    @if source.drawn.is_some() || source.picture.is_some() {
                        p { a href=(format!("#{}", drawn_anchor(&source.name))) { "Figures of this run" } }
                    }
                }
            }
        }
    }
}

/// Who wins where, of runs in which schedulers of others took part.
fn others(about: &About) -> Markup {
    let has_others = |run: &Shown| {
        let versions = run.record.measurement.versioned_schedulers();
        let mut others = versions.filter(|(_, version)| !version.starts_with("scx_threadwise"));
        others.next().is_some()
    };
    let drawn = about
        .sources
        .iter()
        .filter_map(|source| Some((source, source.drawn.as_ref()?)));
    let runs: Vec<_> = drawn.filter(|(_, run)| has_others(run)).collect();
    html! {
        section {
            h2 id="others" { "Beside other schedulers" }
            @if runs.is_empty() {
                p { "No run of this page has schedulers of others: make peers builds them, lab run --peers runs them." }
            }
            @for (source, run) in runs {
                p {
                    a href=(format!("#{}", drawn_anchor(&source.name))) { (run.record.measurement.experiment.description) }
                    ": " (headline::winners(&run.evaluation)) " "
                    span class="quiet" { (circumstances(&run.record.measurement)) "." }
                }
            }
        }
    }
}

fn figures(about: &About) -> Markup {
    html! {
        section {
            h2 id="figures" { "Figures" }
            @for source in &about.sources {
                @if let Some(run) = &source.drawn {
                    details id=(drawn_anchor(&source.name)) {
                        summary { "[" (source.form.name()) "] " (run.record.measurement.experiment.description) }
                        @for sentence in headline::sentences(&run.evaluation) { p { (sentence) } }
                        p class="quiet" { (circumstances(&run.record.measurement)) }
                        (main_figures(run))
                        pre { code { (source.command) } }
                    }
                }
                @if let Some(picture) = &source.picture {
                    details id=(drawn_anchor(&source.name)) {
                        summary { "[" (source.form.name()) "] " (picture.title) }
                        (shown(picture))
                        pre { code { (source.command) } }
                    }
                }
            }
        }
    }
}

/// How fast the machine was, for how many rounds, and with which versions.
fn circumstances(measurement: &Measurement) -> String {
    let experiment = &measurement.experiment;
    let rate = experiment
        .mips
        .map(|mips| format!("{mips} million instructions a second, "));
    let schedulers = measurement
        .versioned_schedulers()
        .map(|(name, version)| format!(", {name}: {version}"));
    format!(
        "{}{} rounds; threadwise {}{}",
        rate.unwrap_or_default(),
        experiment.rounds,
        measurement.version,
        schedulers.collect::<String>()
    )
}

fn sources(about: &About) -> Markup {
    html! {
        section {
            h2 id="sources" { "Commands" }
            table {
                caption { "What was run, in the folder of the repository. Runs in the simulator and the lab are kept: threadwise runs list." }
                thead { tr { @for name in ["source", "form", "state", "took"] { th scope="col" { (name) } } } }
                tbody {
                    @for source in &about.sources {
                        tr {
                            th scope="row" { (source.name) br; code { (source.command) } }
                            td data-label="form" { (source.form.name()) }
                            td data-label="state" class=[source.has_failed.then_some("loss")] { (source.state) }
                            td data-label="took" { (source.seconds.map(minutes).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn minutes(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

fn drawn_anchor(name: &str) -> String {
    anchor(&format!("drawn {name}"))
}

/// A name for links.
fn anchor(name: &str) -> String {
    let safe = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
    name.chars().map(safe).collect()
}
