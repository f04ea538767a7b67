// SPDX-License-Identifier: GPL-2.0-only
//! A series as text: time to the right, ready threads upwards.

use super::Series;

const COLUMNS: usize = 96;
/// More ready threads share rows.
const MAX_ROWS: usize = 16;

/// Draws the mean number of ready threads in each of 96 equal times. A cell is full, half full or empty.
pub(super) fn draw(series: &Series) -> String {
    let means = series.means(COLUMNS);
    let most = series.share_of_time.len().saturating_sub(1).max(1);
    let per_row = most.div_ceil(MAX_ROWS);
    let rows = most.div_ceil(per_row);
    let mut text = String::new();
    for row in (0..rows).rev() {
        let cells: String = means
            .iter()
            .map(|mean| cell(mean / per_row as f64, row))
            .collect();
        text += &format!("{:>4} |{}\n", (row + 1) * per_row, cells.trim_end());
    }
    let end = format!("{:.3} s", series.duration_s);
    text + &format!(
        "   0 +{}\n      0{end:>width$}\n",
        "-".repeat(COLUMNS),
        width = COLUMNS - 1
    )
}

/// What a row shows of a height in rows.
fn cell(height: f64, row: usize) -> char {
    match height - row as f64 {
        above if above >= 0.75 => '█',
        above if above >= 0.25 => '▄',
        _ => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::series;
    use super::*;

    #[test]
    fn phases_can_be_seen() {
        let text = draw(&series(&[(0, 1), (25, 4), (50, 1), (75, 2)]));
        let (quarter, half) = ("█".repeat(24), "█".repeat(48));
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            format!("   4 |{:24}{quarter}", ""),
            format!("   3 |{:24}{quarter}", ""),
            format!("   2 |{:24}{quarter}{:24}{quarter}", "", ""),
            format!("   1 |{half}{half}"),
        ];
        assert_eq!(lines[..4], expected);
        assert!(
            lines[4].starts_with("   0 +-") && lines[5].ends_with("0.100 s"),
            "{text}"
        );
    }

    #[test]
    fn a_mean_between_two_rows_is_half_a_cell() {
        // Looks so short that each column has many of them.
        let points: Vec<_> = (0..100).map(|ms| (ms, 1 + ms as u32 % 2)).collect();
        let text = draw(&series(&points));
        assert!(text.lines().next().unwrap().contains('▄'), "{text}");
    }

    #[test]
    fn many_threads_share_rows() {
        let text = draw(&series(&[(0, 40)]));
        assert!(
            text.lines().count() <= MAX_ROWS + 2 && text.starts_with("  42 |"),
            "{text}"
        );
    }
}
