// SPDX-License-Identifier: GPL-2.0-only
//! How many threads of a program are ready over time: Fig. 1 of thread-essence.

use std::fmt::Write;

use maud::html;
use serde::Deserialize;
use serde_json::Value;
use threadwise_workload::ready::{SCHEMA, Series};

use super::{Figure, WIDTH, colour, step};

const LEFT: f64 = 24.0;
const HEIGHT: f64 = 120.0;
/// Room for the uppermost number.
const TOP: f64 = 8.0;
/// The time is cut into so many pieces.
const PIECES: usize = 180;

/// Draws what `threadwise bench ready-threads --format json` printed; none of anything else.
pub fn ready_threads(printed: &Value) -> Option<Figure> {
    let series = Series::deserialize(printed).ok()?;
    let most = series.points.iter().map(|point| point.ready).max()?;
    if series.schema != SCHEMA || most == 0 || series.duration_s <= 0.0 {
        return None;
    }
    let scale = HEIGHT / f64::from(most);
    let y = |ready: f64| TOP + HEIGHT - ready * scale;
    let bottom = y(0.0);
    let every = step(f64::from(most)).max(1.0) as usize;
    let time = step(series.duration_s);
    let ticks = 0..=(series.duration_s / time).floor() as u32;
    let digits = (-time.log10().floor()).max(0.0) as usize;
    let content = html! {
        @for ready in (0..=most).step_by(every) {
            @let at = y(f64::from(ready));
            line x1=(LEFT) x2=(WIDTH) y1=(format!("{at:.1}")) y2=(format!("{at:.1}")) stroke="currentColor" stroke-opacity="0.25" {}
            text x=(LEFT - 6.0) y=(format!("{:.1}", at + 4.0)) text-anchor="end" font-size="10" { (ready) }
        }
        path d=(bars(&series.means(PIECES), &y)) fill=(colour(1)) {}
        @for tick in ticks {
            @let seconds = f64::from(tick) * time;
            @let at = LEFT + (WIDTH - LEFT) * seconds / series.duration_s;
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
            series.command.join(" ")
        ),
        is_main: true,
        height: bottom + 18.0,
        content,
    })
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

    fn printed(schema: &str, points: Value) -> Value {
        json!({
            "schema": schema, "command": ["p"], "status": 0, "interval_ns": 1_000_000, "nr_late": 0, "duration_s": 1.8,
            "mean_ready": 2.0, "share_of_time": [0.0, 0.5, 0.0, 0.5], "points": points,
        })
    }

    #[test]
    fn a_series_is_drawn() {
        let points = json!([{"at_ns": 0, "ready": 1}, {"at_ns": 905_000_000, "ready": 3}]);
        let drawn = ready_threads(&printed(SCHEMA, points))
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
            printed(SCHEMA, json!([])),
            printed(SCHEMA, json!([{"at_ns": 0, "ready": 0}])),
            printed("x", json!([{"at_ns": 0, "ready": 1}])),
        ] {
            assert!(ready_threads(&other).is_none(), "{other}");
        }
    }
}
