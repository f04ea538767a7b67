// SPDX-License-Identifier: GPL-2.0-only
//! Figures as SVG. Each is drawn once: into a page, and as a document of its own. Lines and words have the colour of the
//! text around them, so they can be read on light and dark ground; what is filled has colours that stand out on both.

mod contours;
mod energy;
mod pairs;
mod placements;
mod ready;
mod rows;
mod timelines;
mod triangle;

use maud::{Markup, PreEscaped, html};
use threadwise_lab::evaluate::Evaluation;

use crate::error::Error;
use crate::record::Record;

pub use ready::ready_threads;

/// A figure is this wide, in pixels of its own; a page makes it as wide as there is room. A phone shows it in its own size.
const WIDTH: f64 = 420.0;

/// Of a document of its own: in a page, the page's colours hold.
const STYLE: &str = ".tw-figure{color:#1c2126;background:#fff}\
    @media(prefers-color-scheme:dark){.tw-figure{color:#e3e6e9;background:#15181b}}";

/// The baseline's colour, then one for each further scheduler, or one for each program.
const COLOURS: [&str; 7] = [
    "#7f8993", "#2f86cf", "#c9730a", "#1f9468", "#a565c5", "#d0504a", "#8a7a1f",
];

/// A figure and what is said of it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A file name without its end.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// Whether a page shows it at once, or when it is asked for.
    pub is_main: bool,
    height: f64,
    content: Markup,
}

impl Figure {
    /// For a page.
    pub fn inline(&self) -> Markup {
        self.svg(None)
    }

    /// Whether it shows a piece of one round: what ran where, or when.
    pub fn is_of_a_piece(&self) -> bool {
        self.name.starts_with("timeline-") || self.name.starts_with("placement-")
    }

    /// As a file of its own.
    pub fn document(&self) -> String {
        format!("{}\n", self.svg(Some(STYLE)).into_string())
    }

    fn svg(&self, style: Option<&str>) -> Markup {
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class="tw-figure" viewBox=(format!("0 0 {WIDTH} {:.0}", self.height))
                role="img" font-family="system-ui, sans-serif" font-size="12" fill="currentColor" {
                title { (self.title) }
                @if let Some(style) = style { style { (PreEscaped(style)) } }
                (self.content)
            }
        }
    }
}

/// All figures of a run.
///
/// # Errors
/// If a stored machine cannot be read.
pub fn all(record: &Record, evaluation: &Evaluation) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    figures.extend(rows::gains(evaluation));
    for pairs in pairs::of_all(evaluation) {
        figures.push(triangle::draw(&pairs));
        figures.extend(contours::draw(&pairs));
    }
    figures.push(rows::performance(evaluation));
    figures.extend(energy::all(evaluation));
    let machine = record.manifest.machine()?;
    let is_main = evaluation.runs.len() == 1;
    for (nr, timeline) in record.timelines.iter().enumerate() {
        figures.extend(placements::draw(nr, timeline, &machine, is_main));
        figures.push(timelines::draw(nr, timeline, is_main));
    }
    Ok(figures)
}

/// A file name from what people call something.
pub fn file_name(text: &str) -> String {
    let safe = |sign: char| match sign.is_ascii_alphanumeric() {
        true => sign.to_ascii_lowercase(),
        false => '-',
    };
    text.chars().map(safe).collect()
}

/// The colour of the scheduler, program or the like with this index.
fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// A gain in percent on a scale that ends at `most` both ways: orange is a loss, blue a gain, nearly white neither. Words on
/// it are dark.
fn diverging(percent: f64, most: f64) -> String {
    const LOSS: [f64; 3] = [224.0, 130.0, 20.0];
    const NONE: [f64; 3] = [240.0, 241.0, 242.0];
    const GAIN: [f64; 3] = [82.0, 160.0, 222.0];
    let part = (percent / most).clamp(-1.0, 1.0);
    let end = if part < 0.0 { LOSS } else { GAIN };
    let mixed = |index: usize| (NONE[index] + (end[index] - NONE[index]) * part.abs()).round();
    format!("rgb({},{},{})", mixed(0), mixed(1), mixed(2))
}

/// A step of 1, 2 or 5 times a power of ten, of which some four make up the range.
fn step(range: f64) -> f64 {
    let rough = range / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        for (range, expected) in [(17.0, 5.0), (4.0, 1.0), (0.9, 0.5), (1200.0, 500.0), (40.1, 20.0)] {
            assert!((step(range) - expected).abs() < 1e-9, "{range}: {}", step(range));
        }
    }

    #[test]
    fn the_scale_is_symmetric() {
        assert_eq!(diverging(0.0, 5.0), "rgb(240,241,242)");
        assert_eq!(diverging(-9.0, 5.0), diverging(-5.0, 5.0));
        assert_ne!(diverging(-5.0, 5.0), diverging(5.0, 5.0));
    }
}
