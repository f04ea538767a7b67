// SPDX-License-Identifier: GPL-2.0-only
//! Energy against speed: what schedulers got done, and what the packages consumed meanwhile.

use maud::{Markup, html};
use threadwise_lab::evaluate::{Evaluation, Rounds, RunResult};
use threadwise_lab::table;
use threadwise_metrics::Summary;

use super::{Figure, WIDTH, colour, file_name, step};

const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 18.0;
const PLOT: f64 = 240.0;
/// About how wide a sign is.
const SIGN: f64 = 6.2;
/// How far the axes go on beyond the largest figure: across there is room for a name.
const ROOM: [f64; 2] = [1.4, 1.1];

struct Point {
    scheduler: String,
    /// In 1000 units of work, or runs, a second.
    speed: Summary,
    /// Of all packages.
    watts: Summary,
    colour: &'static str,
}

/// One figure for each set of programs whose energy was counted.
pub(super) fn all(evaluation: &Evaluation) -> Vec<Figure> {
    let is_main = evaluation.runs.len() == 1;
    let draw = |(nr, run): (usize, &RunResult)| {
        let points = points(evaluation, run)?;
        Some(draw(nr, run, &points, is_main))
    };
    evaluation.runs.iter().enumerate().filter_map(draw).collect()
}

/// What each scheduler got done and consumed; none where that is not known of all.
fn points(evaluation: &Evaluation, run: &RunResult) -> Option<Vec<Point>> {
    let rounds = Rounds::of(&evaluation.measurement);
    let scale = if run.in_work_units { 1e-3 } else { 1.0 };
    let seconds = evaluation.measurement.experiment.seconds;
    let of = |(index, result): (usize, &threadwise_lab::evaluate::SchedulerResult)| {
        let totals = rounds.totals(&result.scheduler, &run.run);
        let speeds: Vec<f64> = totals.iter().map(|total| total * scale).collect();
        let watts: Vec<f64> = rounds
            .joules(&result.scheduler, &run.run)
            .iter()
            .map(|joules| joules / seconds)
            .collect();
        Some(Point {
            scheduler: result.scheduler.clone(),
            speed: Summary::of(&speeds).ok()?,
            watts: (!result.joules.is_empty()).then(|| Summary::of(&watts).ok())??,
            colour: colour(index),
        })
    };
    run.schedulers.iter().enumerate().map(of).collect()
}

fn draw(nr: usize, run: &RunResult, points: &[Point], is_main: bool) -> Figure {
    let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let most_speed = most(|point| point.speed.high()) * ROOM[0];
    let most_watts = most(|point| point.watts.high()) * ROOM[1];
    let x = |speed: f64| LEFT + speed / most_speed * (WIDTH - LEFT - RIGHT);
    let y = |watts: f64| TOP + PLOT - watts / most_watts * PLOT;
    let unit = if run.in_work_units {
        "1000 units of work a second"
    } else {
        "runs a second"
    };
    let content = html! {
        (axes(most_speed, most_watts, unit, &x, &y))
        @for point in points { (drawn(point, &x, &y)) }
    };
    Figure {
        name: format!("energy-{:02}-{}", nr + 1, file_name(&run.run.join("-"))),
        title: format!("Energy against speed: {}", table::heading(run)),
        caption: format!(
            "Across: {unit}; up: what all packages take, in watts. Each cross is a scheduler with its 95 % intervals. A dashed line \
             joins all that would need as much energy for a piece of work: the flatter, the cheaper work is. Faster is to the right."
        ),
        is_main,
        height: TOP + PLOT + 36.0,
        content,
    }
}

fn axes(
    most_speed: f64,
    most_watts: f64,
    unit: &str,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> Markup {
    let marks = |most: f64| {
        let step = step(most);
        (0..=(most / step) as usize).map(move |nr| nr as f64 * step)
    };
    html! {
        line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(y(0.0)) y2=(y(0.0)) stroke="currentColor" stroke-opacity="0.5" {}
        line x1=(LEFT) x2=(LEFT) y1=(TOP) y2=(y(0.0)) stroke="currentColor" stroke-opacity="0.5" {}
        @for speed in marks(most_speed) {
            text x=(format!("{:.1}", x(speed))) y=(y(0.0) + 14.0) text-anchor="middle" font-size="10" { (speed) }
        }
        @for watts in marks(most_watts) {
            text x=(LEFT - 5.0) y=(format!("{:.1}", y(watts) + 3.5)) text-anchor="end" font-size="10" { (watts) " W" }
        }
        text x=((LEFT + WIDTH - RIGHT) / 2.0) y=(y(0.0) + 30.0) text-anchor="middle" font-size="10" { (unit) }
    }
}

/// A scheduler's cross, its name, and the line of equal energy for a piece of work.
fn drawn(point: &Point, x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) -> Markup {
    let (speed, watts) = (&point.speed, &point.watts);
    let at = |value: f64| format!("{value:.1}");
    let name = format!("{}, {:.0} W", point.scheduler, watts.mean);
    // A long name has no room on the right.
    let is_long = x(speed.mean) + 8.0 + SIGN * name.chars().count() as f64 > WIDTH;
    let (beside, anchor) = if is_long { (-8.0, "end") } else { (8.0, "start") };
    // An interval of few rounds may go below what there is.
    let from = |low: f64| low.max(0.0);
    let (across, up) = (x(speed.mean), y(watts.mean));
    html! {
        line x1=(at(x(0.0))) y1=(at(y(0.0))) x2=(at(across)) y2=(at(up)) stroke=(point.colour) stroke-dasharray="3 3" {}
        line x1=(at(x(from(speed.low())))) x2=(at(x(speed.high()))) y1=(at(up)) y2=(at(up)) stroke=(point.colour) stroke-width="2" {}
        line x1=(at(across)) x2=(at(across)) y1=(at(y(from(watts.low())))) y2=(at(y(watts.high()))) stroke=(point.colour)
            stroke-width="2" {}
        circle cx=(at(across)) cy=(at(up)) r="4" fill=(point.colour) {
            title { (point.scheduler) ": " (format!("{:.1}", speed.mean)) ", " (format!("{:.1} W", watts.mean)) }
        }
        text x=(at(across + beside)) y=(at(up + 4.0)) text-anchor=(anchor) { (name) }
    }
}
