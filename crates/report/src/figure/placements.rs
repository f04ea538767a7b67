// SPDX-License-Identifier: GPL-2.0-only
//! Where the programs were: the machine, and in each CPU's box who had it most of the time.

use maud::{PreEscaped, html};
use threadwise_machine::{Machine, Tenant};

use super::{Figure, WIDTH, colour, file_name};
use crate::timeline::Timeline;

/// The `nr`th timeline of a run, as places; none where all CPUs are alike and share the same, so that the timeline says it all,
/// or where boxes are too small for names.
pub(super) fn draw(nr: usize, timeline: &Timeline, machine: &Machine, is_main: bool) -> Option<Figure> {
    let (nr_caches, nr_cores, nr_cpus) = (machine.nr_llcs(), machine.nr_cores(), machine.nr_cpus());
    let are_alike = nr_caches == 1 && nr_cores == nr_cpus && machine.is_symmetric();
    if are_alike || nr_cpus > MOST {
        return None;
    }
    let tenants: Vec<_> = (0..timeline.cpus.len())
        .map(|cpu| tenant(timeline, cpu))
        .collect();
    let picture = machine.render_tenants(&tenants);
    let scale = (WIDTH / picture.width).min(1.0);
    Some(Figure {
        name: format!(
            "placement-{:02}-{}-{}",
            nr + 1,
            file_name(&timeline.run.join("-")),
            file_name(&timeline.scheduler)
        ),
        title: format!(
            "Where {} were under {}",
            timeline.run.join(" and "),
            timeline.scheduler
        ),
        caption: format!(
            "The machine, and in each CPU's box the program that had it longest in {} ms of the round with seed {}, and its share \
             of that time: the darker, the longer.",
            (timeline.to_ns - timeline.from_ns) as f64 / 1e6,
            timeline.seed
        ),
        is_main,
        height: picture.height * scale,
        content: html! {
            g transform=(format!("scale({scale:.4})")) { (PreEscaped(picture.svg)) }
        },
    })
}

/// With more CPUs the picture is no longer one to look at.
const MOST: usize = 64;

/// Who had a CPU longest, if anybody had.
fn tenant(timeline: &Timeline, cpu: usize) -> Option<Tenant> {
    let mut had_ns = vec![0; timeline.run.len()];
    for span in &timeline.cpus[cpu] {
        had_ns[span.2] += span.1 - span.0;
    }
    let (program, &longest_ns) = had_ns.iter().enumerate().max_by_key(|(_, had_ns)| **had_ns)?;
    (longest_ns > 0).then(|| Tenant {
        name: timeline.run[program].clone(),
        colour: colour(program + 1).into(),
        share: longest_ns as f64 / (timeline.to_ns - timeline.from_ns) as f64,
    })
}
