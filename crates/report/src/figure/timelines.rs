// SPDX-License-Identifier: GPL-2.0-only
//! What ran where and when: a row for each CPU, and one for the phases of each program.

use std::fmt::Write;

use maud::html;

use super::{Figure, WIDTH, colour, file_name, step};
use crate::timeline::{Span, Timeline};

const LEFT: f64 = 56.0;
const ROW: f64 = 12.0;
const GAP: f64 = 2.0;
/// With more CPUs rows are thin and only some are named.
const MANY: usize = 32;

/// The `nr`th timeline of a run.
pub(super) fn draw(nr: usize, timeline: &Timeline, is_main: bool) -> Figure {
    let row = if timeline.cpus.len() > MANY { 3.0 } else { ROW };
    let every = timeline.cpus.len().div_ceil(MANY);
    let scale = (WIDTH - LEFT) / (timeline.to_ns - timeline.from_ns) as f64;
    let x = |at: u64| LEFT + (at - timeline.from_ns) as f64 * scale;
    let cpu = |index: usize| index as f64 * (row + GAP);
    let phase = |index: usize| cpu(timeline.cpus.len()) + 8.0 + index as f64 * (ROW + GAP);
    let bottom = phase(timeline.run.len());
    let from_ms = timeline.from_ns as f64 / 1e6;
    let to_ms = timeline.to_ns as f64 / 1e6;
    let step = step(to_ms - from_ms);
    let ticks = (from_ms / step).ceil() as u64..=(to_ms / step).floor() as u64;
    let programs = || timeline.run.iter().enumerate();
    let content = html! {
        @for index in 0..timeline.cpus.len() {
            @if index % every == 0 {
                text x=(LEFT - 6.0) y=(format!("{:.1}", cpu(index) + row.max(8.0) - 2.0)) text-anchor="end" font-size="10" {
                    "CPU " (index)
                }
            }
            rect x=(LEFT) y=(cpu(index)) width=(WIDTH - LEFT) height=(row) fill-opacity="0.06" {}
        }
        @for (program, _) in programs() {
            path d=(boxes(&timeline.cpus, program, row, &x, &cpu)) fill=(colour(program + 1)) {}
        }
        @for (program, name) in programs() {
            @let y = phase(program);
            text x=(LEFT - 6.0) y=(y + ROW - 2.0) text-anchor="end" font-size="10" { (name) }
            @for span in &timeline.phases[program] {
                // A parallel phase is as high as its row, a serial one a third of it.
                @let height = if span.2 == 1 { ROW } else { ROW / 3.0 };
                rect x=(format!("{:.1}", x(span.0))) y=(format!("{:.1}", y + ROW - height))
                    width=(format!("{:.1}", x(span.1) - x(span.0))) height=(format!("{height:.1}")) fill=(colour(program + 1)) {}
            }
        }
        @for tick in ticks {
            @let at = LEFT + (tick as f64 * step - from_ms) * scale * 1e6;
            line x1=(format!("{at:.1}")) x2=(format!("{at:.1}")) y1="0" y2=(bottom) stroke="currentColor" stroke-opacity="0.25" {}
            text x=(format!("{at:.1}")) y=(bottom + 13.0) text-anchor=(if at > WIDTH - 20.0 { "end" } else { "middle" })
                font-size="10" { (format!("{}", tick as f64 * step)) " ms" }
        }
    };
    let programs = timeline.run.join(" and ");
    Figure {
        name: format!(
            "timeline-{:02}-{}-{}",
            nr + 1,
            file_name(&timeline.run.join("-")),
            file_name(&timeline.scheduler)
        ),
        title: format!("{programs} under {}", timeline.scheduler),
        caption: format!(
            "What ran on each CPU in {} ms of the round with seed {}: a colour for each program, pale where the CPU was idle. \
             The lower rows are the programs' phases: a high bar while a program was parallel, a low one while it was serial.",
            to_ms - from_ms,
            timeline.seed
        ),
        is_main,
        height: bottom + 18.0,
        content,
    }
}

/// A program's boxes on all CPUs as one path, since there are many.
fn boxes(
    cpus: &[Vec<Span>],
    program: usize,
    height: f64,
    x: &impl Fn(u64) -> f64,
    y: &impl Fn(usize) -> f64,
) -> String {
    let mut path = String::new();
    for (cpu, spans) in cpus.iter().enumerate() {
        for span in spans.iter().filter(|span| span.2 == program) {
            let (from, to) = (x(span.0), x(span.1));
            write!(path, "M{from:.1} {:.1}H{to:.1}v{height}H{from:.1}z", y(cpu))
                .expect("writing to a string cannot fail");
        }
    }
    path
}
