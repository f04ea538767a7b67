// SPDX-License-Identifier: GPL-2.0-only
//! Bars with their spread: a line of text over each, so that a phone has room for both.

use maud::{Markup, html};
use threadwise_lab::evaluate::{Evaluation, RunResult};
use threadwise_lab::run::Measurement;
use threadwise_lab::table;
use threadwise_metrics::percent_more;

use super::{Figure, WIDTH, colour, step};
use crate::headline::Timed;

const LINE: f64 = 17.0;
const BAR: f64 = 11.0;
const GAP: f64 = 7.0;
/// Room for the outermost words of the axis.
const MARGIN: f64 = 24.0;

/// More sets of programs than these are shown when they are asked for: there are pictures of them all.
const MANY: usize = 20;

/// Bars with a common heading.
struct Group {
    heading: String,
    bars: Vec<Bar>,
}

struct Bar {
    name: String,
    /// The figure with its interval, in words.
    said: String,
    value: f64,
    low: f64,
    high: f64,
    /// What was measured in each round.
    points: Vec<f64>,
    colour: &'static str,
}

/// What is added where only some sets are timed.
fn aside(timed: Timed) -> &'static str {
    match timed {
        Timed::Some => " Of a program that is timed it is one over its time.",
        Timed::None | Timed::All => "",
    }
}

/// Each scheduler's gain over the baseline, for each set of programs; none if there is but one scheduler.
pub(super) fn gains(evaluation: &Evaluation) -> Option<Figure> {
    let baseline = &evaluation.measurement.experiment.schedulers.first()?.name;
    let group = |run: &RunResult| Group {
        heading: table::heading(run),
        bars: run
            .schedulers
            .iter()
            .enumerate()
            .filter_map(|(index, result)| {
                let ratio = result.over_baseline.as_ref()?;
                let points = ratios(&evaluation.measurement, run, &result.scheduler);
                Some(Bar {
                    name: result.scheduler.clone(),
                    said: table::gain(ratio),
                    value: percent_more(ratio.ratio),
                    low: percent_more(ratio.low),
                    high: percent_more(ratio.high),
                    points: points.into_iter().map(percent_more).collect(),
                    colour: colour(index),
                })
            })
            .collect(),
    };
    let groups: Vec<Group> = evaluation.runs.iter().map(group).collect();
    if groups.iter().all(|group| group.bars.is_empty()) {
        return None;
    }
    let timed = Timed::of(evaluation);
    let unit = match timed {
        Timed::All => "% more or less of one over the time",
        _ => "% more or less work done",
    };
    let drawn = match timed {
        Timed::All => format!(
            "One over the time that programs take: how much more (right of the line, sooner) or less (left, later) that is \
             than under {baseline}, in percent; +100 is half the time."
        ),
        _ => format!(
            "How much more (right of the line) or less (left) work the programs got done than under {baseline}, in \
             percent.{}",
            aside(timed)
        ),
    };
    let (height, content) = draw(&groups, unit, Width::Most);
    Some(Figure {
        name: "gains".into(),
        title: match timed {
            Timed::All => format!("One over the time, compared with {baseline}"),
            _ => format!("Work done compared with {baseline}"),
        },
        caption: format!(
            "{drawn} The black line over a bar is its 95 % interval: where it does not reach zero, the difference is more \
             than noise. Each dot is one round."
        ),
        is_main: evaluation.runs.len() <= MANY,
        height,
        content,
    })
}

/// The work done under each scheduler, for each set of programs.
pub(super) fn performance(evaluation: &Evaluation) -> Figure {
    let in_work_units = evaluation.runs.iter().all(|run| run.in_work_units);
    let scale = if in_work_units { 1e-3 } else { 1.0 };
    let timed = Timed::of(evaluation);
    let unit = match timed {
        Timed::All => "one over the time in seconds",
        _ if in_work_units => "1000 units of work a second",
        _ => "runs a second",
    };
    let drawn = match timed {
        Timed::All => String::from(
            "One over the time that programs take, in seconds; longer is sooner. The time itself stands over each bar.",
        ),
        _ => format!(
            "In {unit}, all programs of a set together; longer is better.{}",
            aside(timed)
        ),
    };
    let rounds = threadwise_lab::evaluate::Rounds::of(&evaluation.measurement);
    let group = |run: &RunResult| Group {
        heading: table::heading(run),
        bars: run
            .schedulers
            .iter()
            .enumerate()
            .map(|(index, result)| Bar {
                name: result.scheduler.clone(),
                said: table::row(run, result)[1].clone(),
                value: result.total.mean * scale,
                low: result.total.low() * scale,
                high: result.total.high() * scale,
                points: rounds
                    .totals(&result.scheduler, &run.run)
                    .iter()
                    .map(|total| total * scale)
                    .collect(),
                colour: colour(index),
            })
            .collect(),
    };
    let groups: Vec<Group> = evaluation.runs.iter().map(group).collect();
    let (height, content) = draw(&groups, unit, Width::All);
    Figure {
        name: "performance".into(),
        title: match timed {
            Timed::All => "One over the time under each scheduler".into(),
            _ => "Work done under each scheduler".into(),
        },
        caption: format!("{drawn} The black line over a bar is its 95 % interval, each dot is one round."),
        is_main: false,
        height,
        content,
    }
}

/// The ratio over the baseline in each round.
fn ratios(measurement: &Measurement, run: &RunResult, scheduler: &str) -> Vec<f64> {
    let rounds = threadwise_lab::evaluate::Rounds::of(measurement);
    let baseline = rounds.totals(&measurement.experiment.schedulers[0].name, &run.run);
    let totals = rounds.totals(scheduler, &run.run);
    totals.iter().zip(baseline).map(|(a, b)| a / b).collect()
}

/// How far the axis goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// As far as the widest interval.
    All,
    /// Not to the end of intervals much longer than all bars: they would leave no room for these.
    Most,
}

/// The ends of the axis: zero is on it.
fn ends(groups: &[Group], width: Width) -> (f64, f64) {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let reach = bars()
        .flat_map(|bar| bar.points.iter().copied().chain([bar.value]))
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    let within = |value: f64| match width {
        Width::All => value,
        Width::Most => value.clamp(-2.0 * reach, 2.0 * reach),
    };
    let low = bars().fold(0.0_f64, |low, bar| low.min(within(bar.low)));
    let high = bars().fold(0.0_f64, |high, bar| high.max(within(bar.high)));
    if high - low > 1e-6 {
        (low, high)
    } else {
        (-1.0, 1.0)
    }
}

fn draw(groups: &[Group], unit: &str, width: Width) -> (f64, Markup) {
    let (low, high) = ends(groups, width);
    let scale = (WIDTH - 2.0 * MARGIN) / (high - low);
    let x = |value: f64| MARGIN + (value.clamp(low, high) - low) * scale;
    let step = step(high - low);
    let ticks = ((low / step).ceil() as i64..=(high / step).floor() as i64).map(|nr| nr as f64 * step);
    let ticks: Vec<f64> = ticks.collect();
    let mut y = 0.0;
    let mut placed = Vec::new();
    for group in groups.iter().filter(|group| !group.bars.is_empty()) {
        y += LINE;
        placed.push((y, group, Vec::new()));
        for bar in &group.bars {
            y += LINE;
            let last = placed.last_mut().expect("it has just been pushed");
            last.2.push((y, bar));
            y += BAR + 4.0;
        }
        y += GAP;
    }
    let bottom = y;
    let content = html! {
        @for &tick in &ticks {
            text x=(px(x(tick))) y=(px(bottom + 14.0)) text-anchor="middle" font-size="11" { (number(tick, step)) }
        }
        text x=(px(WIDTH / 2.0)) y=(px(bottom + 30.0)) text-anchor="middle" font-size="11" { (unit) }
        @for (y, group, bars) in &placed {
            text x="0" y=(px(y - 4.0)) font-weight="600" { (group.heading) }
            @for (y, bar) in bars {
                text x="0" y=(px(y - 4.0)) fill-opacity="0.85" { (bar.name) }
                text x=(px(WIDTH)) y=(px(y - 4.0)) text-anchor="end" { (bar.said) }
                // Beside the bars only: they would cross out words.
                @for &tick in &ticks {
                    line x1=(px(x(tick))) x2=(px(x(tick))) y1=(px(y - 2.0)) y2=(px(y + BAR + 2.0)) stroke="currentColor"
                        stroke-opacity=(if tick == 0.0 { "0.8" } else { "0.25" }) {}
                }
                (drawn(bar, *y, &x))
            }
        }
    };
    (bottom + 36.0, content)
}

fn drawn(bar: &Bar, y: f64, x: &impl Fn(f64) -> f64) -> Markup {
    let (from, to) = (x(bar.value.min(0.0)), x(bar.value.max(0.0)));
    let middle = px(y + BAR / 2.0);
    html! {
        g {
            title { (bar.name) ": " (bar.said) }
            rect x=(px(from)) y=(px(y)) width=(px((to - from).max(0.5))) height=(px(BAR)) fill=(bar.colour) {}
            @for &point in &bar.points {
                circle cx=(px(x(point))) cy=(middle) r="2" fill="none" stroke="currentColor" stroke-opacity="0.6" {}
            }
            line x1=(px(x(bar.low))) x2=(px(x(bar.high))) y1=(middle) y2=(middle) stroke="currentColor"
                stroke-width="1.5" {}
            @for end in [bar.low, bar.high] {
                line x1=(px(x(end))) x2=(px(x(end))) y1=(px(y + 2.0)) y2=(px(y + BAR - 2.0)) stroke="currentColor"
                    stroke-width="1.5" {}
            }
        }
    }
}

/// A tick's number, with as many digits as the step has.
fn number(tick: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    // Without the sign of a rounded zero.
    format!("{:.digits$}", if tick == 0.0 { 0.0 } else { tick })
}

fn px(value: f64) -> String {
    format!("{value:.1}")
}
