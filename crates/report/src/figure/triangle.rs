// SPDX-License-Identifier: GPL-2.0-only
//! A heat map over pairs of programs. Pairs have no order, so half of a square shows them all (as thread-essence, Table 7).

use maud::html;
use threadwise_metrics::percent_more;

use super::pairs::Pairs;
use super::{Figure, WIDTH, diverging, file_name};

/// For the names of the rows.
const LEFT: f64 = 62.0;
/// For the name over the first column.
const TOP: f64 = 18.0;
/// The largest cell.
const CELL: f64 = 78.0;

pub(super) fn draw(pairs: &Pairs) -> Figure {
    let nr = pairs.programs.len();
    let width = ((WIDTH - LEFT) / nr as f64).min(CELL);
    let height = width.clamp(24.0, 34.0);
    let font = (width * 0.29).clamp(7.0, 13.0);
    let most = pairs.most();
    let at = |row: usize, column: usize| (LEFT + column as f64 * width, TOP + row as f64 * height);
    let content = html! {
        @for row in 0..nr {
            @let (_, y) = at(row, 0);
            text x=(LEFT - 6.0) y=(format!("{:.1}", y + height / 2.0 + 4.0)) text-anchor="end" { (pairs.programs[row]) }
            // The name of a column stands over its first cell, on the diagonal.
            @let (x, _) = at(row, row);
            text x=(format!("{:.1}", x + width / 2.0)) y=(format!("{:.1}", y - 5.0)) text-anchor="middle" font-size=(font.min(11.0)) {
                (pairs.programs[row])
            }
            @for column in 0..=row {
                @if let Some(gain) = pairs.gain(row, column) {
                    @let (x, y) = at(row, column);
                    @let value = percent_more(gain.ratio);
                    g {
                        title {
                            (pairs.programs[row]) " and " (pairs.programs[column]) ": " (threadwise_lab::table::gain(gain))
                        }
                        rect x=(format!("{x:.1}")) y=(format!("{y:.1}")) width=(format!("{:.1}", width - 1.0))
                            height=(format!("{:.1}", height - 1.0)) fill=(diverging(value, most)) {}
                        text x=(format!("{:.1}", x + width / 2.0)) y=(format!("{:.1}", y + height / 2.0 + font * 0.35))
                            text-anchor="middle" font-size=(format!("{font:.1}")) fill="#15181b"
                            font-weight=(if gain.excludes_one() { "600" } else { "400" })
                            fill-opacity=(if gain.excludes_one() { "1" } else { "0.6" }) {
                            (format!("{value:+.1}"))
                        }
                    }
                }
            }
        }
    };
    Figure {
        name: format!("pairs-{}", file_name(&pairs.scheduler)),
        title: format!(
            "Gain of {} over {}, by pair of programs",
            pairs.scheduler, pairs.baseline
        ),
        caption: format!(
            "A cell is the pair of the programs that its row and its column are named after. Its number is how much more \
             work, in percent, the two got done together than under {}: blue is more, orange less. Bold: more than noise; \
             pale: within noise. The intervals are in the tables.",
            pairs.baseline
        ),
        is_main: true,
        height: TOP + nr as f64 * height,
        content,
    }
}
