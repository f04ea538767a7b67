// SPDX-License-Identifier: GPL-2.0-only
//! Lines of equal gain over pairs of programs, as in Fig. 7 of thread-essence.

use std::fmt::Write;

use contour::{Contour, ContourBuilder};
use maud::html;
use threadwise_metrics::percent_more;

use super::pairs::Pairs;
use super::{Figure, WIDTH, diverging, file_name, step};

/// Fewer programs make no landscape.
const LEAST_PROGRAMS: usize = 4;
/// Points between two programs on each axis; the gain between programs is interpolated bilinearly.
const FINE: usize = 8;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 8.0;
const SIDE: f64 = WIDTH - LEFT - RIGHT;
/// For the names under the figure and the key under them.
const BOTTOM: f64 = 64.0;

/// None if programs are few, or some pair of them did not run.
pub(super) fn draw(pairs: &Pairs) -> Option<Figure> {
    let nr = pairs.programs.len();
    if nr < LEAST_PROGRAMS || !pairs.is_complete() {
        return None;
    }
    let grid = Grid::of(pairs);
    let most = pairs.most();
    let least = grid.values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = grid.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let step = step(greatest - least);
    // One area lies about zero: what is hardly a gain or a loss has neither's colour.
    let border = |nr: i64| (nr as f64 + 0.5) * step;
    let first = (least / step - 0.5).floor() as i64;
    let last = (greatest / step - 0.5).ceil() as i64;
    let thresholds: Vec<f64> = (first..last).map(border).collect();
    let contours = ContourBuilder::new(grid.side, grid.side, true)
        .contours(&grid.values, &thresholds)
        .ok()?;
    let place = |index: usize| index as f64 * SIDE / (nr - 1) as f64;
    let middle = |threshold: f64| diverging(threshold + step / 2.0, most);
    let key = SIDE / thresholds.len().max(1) as f64;
    let under = TOP + SIDE;
    let content = html! {
        @for contour in &contours {
            path d=(grid.path(contour)) fill=(middle(contour.threshold())) stroke="#15181b" stroke-opacity="0.35"
                stroke-width="0.7" {
                title { (format!("{:+} % and more", contour.threshold())) }
            }
        }
        @for (index, name) in pairs.programs.iter().enumerate() {
            @let (x, y) = (LEFT + place(index), TOP + place(index));
            text x=(LEFT - 6.0) y=(format!("{:.1}", y + 4.0)) text-anchor="end" font-size="11" { (name) }
            text x=(format!("{x:.1}")) y=(format!("{:.1}", under + 14.0)) text-anchor="middle" font-size="10" { (name) }
            line x1=(LEFT - 4.0) x2=(LEFT) y1=(format!("{y:.1}")) y2=(format!("{y:.1}")) stroke="currentColor" {}
        }
        rect x=(LEFT) y=(TOP) width=(SIDE) height=(SIDE) fill="none" stroke="currentColor" stroke-opacity="0.5" {}
        @for (index, &threshold) in thresholds.iter().enumerate() {
            @let x = LEFT + index as f64 * key;
            rect x=(format!("{x:.1}")) y=(under + 26.0) width=(format!("{key:.1}")) height="12" fill=(middle(threshold)) {}
            text x=(format!("{x:.1}")) y=(under + 51.0) text-anchor="middle" font-size="11" { (format!("{threshold:+}")) }
        }
        text x=(LEFT + SIDE) y=(under + 51.0) text-anchor="end" font-size="11" { (format!("{:+} %", border(last))) }
    };
    Some(Figure {
        name: format!("contours-{}", file_name(&pairs.scheduler)),
        title: format!("Where {} gains over {}", pairs.scheduler, pairs.baseline),
        caption: format!(
            "The same gains as a landscape: one program of the pair from top to bottom, the other from left to right, from \
             the most parallel to the most serial. Within an area of one colour the gain lies between the two numbers \
             beside that colour in the key. Between the {} programs of each axis it is interpolated.",
            nr
        ),
        is_main: true,
        height: TOP + SIDE + BOTTOM,
        content,
    })
}

/// The gains on a fine square grid, row by row.
struct Grid {
    side: usize,
    values: Vec<f64>,
}

impl Grid {
    fn of(pairs: &Pairs) -> Self {
        let nr = pairs.programs.len();
        let side = (nr - 1) * FINE + 1;
        let known = |a: usize, b: usize| {
            pairs
                .gain(a.min(nr - 1), b.min(nr - 1))
                .map_or(0.0, |gain| percent_more(gain.ratio))
        };
        let at = |row: usize, column: usize| {
            let (a, b) = (row / FINE, column / FINE);
            let part = |index: usize| (index % FINE) as f64 / FINE as f64;
            let (down, right) = (part(row), part(column));
            let upper = known(a, b) * (1.0 - right) + known(a, b + 1) * right;
            let lower = known(a + 1, b) * (1.0 - right) + known(a + 1, b + 1) * right;
            upper * (1.0 - down) + lower * down
        };
        let values = (0..side * side).map(|index| at(index / side, index % side));
        Self {
            side,
            values: values.collect(),
        }
    }

    /// The library has the values in the middle of cells of side 1; the outermost half cells are cut off.
    fn path(&self, contour: &Contour) -> String {
        let cell = SIDE / (self.side - 1) as f64;
        let pixel = |at: f64| ((at - 0.5) * cell).clamp(0.0, SIDE);
        let mut path = String::new();
        for polygon in contour.geometry() {
            for ring in std::iter::once(polygon.exterior()).chain(polygon.interiors()) {
                for (index, point) in ring.coords().enumerate() {
                    let command = if index == 0 { 'M' } else { 'L' };
                    let (x, y) = (LEFT + pixel(point.x), TOP + pixel(point.y));
                    write!(path, "{command}{x:.1} {y:.1}").expect("writing to a string cannot fail");
                }
                path.push('Z');
            }
        }
        path
    }
}
