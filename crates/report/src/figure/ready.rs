// SPDX-License-Identifier: GPL-2.0-only
//! How many threads of a program are ready over time: Fig. 1 of thread-essence.

use std::fmt::Write;

use maud::html;
use serde::Deserialize;
use serde_json::Value;

use super::{Figure, WIDTH, colour, step};

const LEFT: f64 = 24.0;
const HEIGHT: f64 = 120.0;
/// Room for the uppermost number.
const TOP: f64 = 8.0;
/// The time is cut into so many pieces.
const PIECES: usize = 180;

/// What `threadwise bench ready-threads --format json` prints, as far as it is drawn.
#[derive(Deserialize)]
struct Printed {
    schema: String,
    command: Vec<String>,
    duration_s: f64,
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    at_ns: u64,
    ready: u32,
}

/// Draws what `threadwise bench ready-threads --format json` printed; none of anything else.
pub fn ready_threads(printed: &Value) -> Option<Figure> {
    let printed = Printed::deserialize(printed).ok()?;
    let most = printed.points.iter().map(|point| point.ready).max()?;
    if printed.schema != "threadwise.bench.ready-threads/1" || most == 0 || printed.duration_s <= 0.0 {
        return None;
    }
    let scale = HEIGHT / f64::from(most);
    let y = |ready: f64| TOP + HEIGHT - ready * scale;
    let bottom = y(0.0);
    let every = step(f64::from(most)).max(1.0) as usize;
    let time = step(printed.duration_s);
    let ticks = 0..=(printed.duration_s / time).floor() as u32;
    let digits = (-time.log10().floor()).max(0.0) as usize;
    let content = html! {
        @for ready in (0..=most).step_by(every) {
            @let at = y(f64::from(ready));
            line x1=(LEFT) x2=(WIDTH) y1=(format!("{at:.1}")) y2=(format!("{at:.1}")) stroke="currentColor" stroke-opacity="0.25" {}
            text x=(LEFT - 6.0) y=(format!("{:.1}", at + 4.0)) text-anchor="end" font-size="10" { (ready) }
        }
        path d=(bars(&means(&printed), &y)) fill=(colour(1)) {}
        @for tick in ticks {
            @let seconds = f64::from(tick) * time;
            @let at = LEFT + (WIDTH - LEFT) * seconds / printed.duration_s;
            text x=(format!("{at:.1}")) y=(bottom + 13.0) text-anchor=(if at > WIDTH - 20.0 { "end" } else { "middle" }) font-size="10" {
                (format!("{seconds:.digits$}")) " s"
            }
        }
    };
    Some(Figure {
        name: "ready-threads".into(),
        title: "Ready threads over time".into(),
        caption: format!(
            "How many threads of \"{}\" were ready, running or waiting for a CPU: the mean of each {PIECES}th of the time.",
            printed.command.join(" ")
        ),
        is_main: true,
        height: bottom + 18.0,
        content,
    })
}

/// The mean number of ready threads in each piece of the time. A point holds until the next.
fn means(printed: &Printed) -> Vec<f64> {
    let piece_ns = printed.duration_s * 1e9 / PIECES as f64;
    let ends = printed.points[1..].iter().map(|point| point.at_ns as f64);
    let ends = ends.chain([printed.duration_s * 1e9]);
    let mut means = vec![0.0; PIECES];
    for (point, to) in printed.points.iter().zip(ends) {
        let mut from = point.at_ns as f64;
        while from < to {
            let piece = (from / piece_ns) as usize;
            let Some(mean) = means.get_mut(piece) else { break };
            let until = to.min((piece + 1) as f64 * piece_ns);
            *mean += f64::from(point.ready) * (until - from) / piece_ns;
            // Rounded, a piece may seem to end where it begins.
            from = until.max(from + 1.0);
        }
    }
    means
}

/// All pieces as one path.
fn bars(means: &[f64], y: &impl Fn(f64) -> f64) -> String {
    let width = (WIDTH - LEFT) / PIECES as f64;
    let mut path = format!("M{LEFT} {:.1}", y(0.0));
    for (piece, mean) in means.iter().enumerate() {
        let to = LEFT + (piece + 1) as f64 * width;
        write!(path, "V{:.1}H{to:.1}", y(*mean)).expect("writing to a string cannot fail");
    }
    format!("{path}V{:.1}z", y(0.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_point_holds_until_the_next() {
        let printed = json!({
            "schema": "threadwise.bench.ready-threads/1", "command": ["p"], "duration_s": 1.8,
            "points": [{"at_ns": 0, "ready": 1}, {"at_ns": 905_000_000, "ready": 3}],
        });
        let means = means(&Printed::deserialize(&printed).expect("all is there"));
        assert_eq!((means.len(), means[0], means[PIECES - 1]), (PIECES, 1.0, 3.0));
        assert!((means[90] - 2.0).abs() < 1e-6, "{}", means[90]);
        let drawn = ready_threads(&printed)
            .expect("there is something to draw")
            .document();
        assert!(
            drawn.contains("Ready threads") && drawn.contains(">1.5 s<"),
            "{drawn}"
        );
    }

    #[test]
    fn nothing_else_is_drawn() {
        for other in [
            json!({}),
            json!({"schema": "threadwise.bench.ready-threads/1", "command": [], "duration_s": 1.0, "points": []}),
            json!({"schema": "x", "command": [], "duration_s": 1.0, "points": [{"at_ns": 0, "ready": 1}]}),
        ] {
            assert!(ready_threads(&other).is_none(), "{other}");
        }
    }
}
