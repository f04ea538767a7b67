// SPDX-License-Identifier: GPL-2.0-only
//! The picture: a box for each group of each level, in the box of the group that it lies in. Boxes of one group stand in
//! rows that keep the picture about as wide as a page.

use maud::{Markup, html};

use super::cache_label;
use crate::id::CpuId;
use crate::level::{Group, Level, names};
use crate::machine::{Cache, MAX_CAPACITY, Machine};

/// A CPU's box, in pixels.
const CPU: (f64, f64) = (46.0, 34.0);
/// With who has it.
const TENANTED_CPU: (f64, f64) = (62.0, 48.0);
/// Of a tenant's name so many signs fit.
const NAME: usize = 9;
/// Of machines with more CPUs than this only small boxes without text are drawn.
const MAX_LABELLED: usize = 256;
const SMALL_CPU: (f64, f64) = (8.0, 8.0);
/// Between boxes, and between a box and what is in it.
const GAP: f64 = 6.0;
/// The line above what is in a box.
const TITLE: f64 = 16.0;
/// How wide a row of boxes may become.
const ROW: f64 = 512.0;

/// Where the picture lies on dark ground, its lines are light. The machine's name keeps other styles out of it.
const STYLE: &str = ".tw-machine{color:#1c2126}@media(prefers-color-scheme:dark){.tw-machine{color:#e3e6e9}}";

/// Who has a CPU, and for how much of the time.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its colour, as in SVG.
    pub colour: String,
    /// Its share of the CPU's time, from 0 to 1.
    pub share: f64,
}

/// A picture and its size.
#[derive(Clone, Debug)]
pub struct Picture {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    /// An `svg` element: a document of its own, or part of another.
    pub svg: String,
}

/// A box with what is drawn in it.
struct Drawn {
    width: f64,
    height: f64,
    content: Markup,
}

pub(super) fn render(machine: &Machine, tenants: Option<&[Option<Tenant>]>) -> Picture {
    let boxes = Boxes {
        machine,
        is_small: machine.nr_cpus() > MAX_LABELLED,
        homes: super::tree::homes(machine),
        tenants,
    };
    let outermost = machine
        .levels
        .first()
        .expect("every machine has four levels or more");
    let groups: Vec<_> = outermost.groups.iter().enumerate().collect();
    let Drawn {
        width,
        height,
        content,
    } = boxes.rows(0, &groups);
    let (width, height) = (width + 2.0, height + 2.0);
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" class="tw-machine" viewBox=(format!("-1 -1 {width} {height}"))
            width=(width) height=(height) role="img" font-family="system-ui, sans-serif" font-size="11"
            fill="currentColor" {
            title { (machine.name) ": " (machine.summary()) }
            style { (STYLE) }
            (content)
        }
    };
    Picture {
        width,
        height,
        svg: markup.into_string(),
    }
}

struct Boxes<'a> {
    machine: &'a Machine,
    is_small: bool,
    /// For each cache the level in whose box it is named.
    homes: Vec<Option<&'a str>>,
    /// By CPU, where it is asked for.
    tenants: Option<&'a [Option<Tenant>]>,
}

impl Boxes<'_> {
    /// Boxes of one level side by side, in rows.
    fn rows(&self, depth: usize, groups: &[(usize, &Group)]) -> Drawn {
        let level = &self.machine.levels[depth];
        let boxes: Vec<Drawn> = groups
            .iter()
            .map(|&(index, group)| self.group(depth, level, index, group))
            .collect();
        let (mut x, mut y, mut row_height, mut width) = (0.0, 0.0, 0.0_f64, 0.0_f64);
        let mut placed = Vec::new();
        for inner in &boxes {
            if x > 0.0 && x + inner.width > ROW {
                (x, y, row_height) = (0.0, y + row_height + GAP, 0.0);
            }
            placed.push((x, y));
            width = width.max(x + inner.width);
            row_height = row_height.max(inner.height);
            x += inner.width + GAP;
        }
        let content = html! {
            @for (inner, (x, y)) in boxes.iter().zip(placed) {
                g transform=(format!("translate({x} {y})")) { (inner.content) }
            }
        };
        Drawn {
            width,
            height: y + row_height,
            content,
        }
    }

    /// A group's box.
    fn group(&self, depth: usize, level: &Level, index: usize, group: &Group) -> Drawn {
        if level.name == names::PU {
            let id = group.cpus[0];
            return match self.tenants {
                Some(tenants) => self.tenanted(id, tenants.get(id.index()).and_then(Option::as_ref)),
                None => self.cpu(id),
            };
        }
        let below = &self.machine.levels[depth + 1];
        let holds = |inner: &&(usize, &Group)| group.cpus.binary_search(&inner.1.cpus[0]).is_ok();
        let all: Vec<_> = below.groups.iter().enumerate().collect();
        let inside: Vec<_> = all.iter().filter(holds).copied().collect();
        let inner = self.rows(depth + 1, &inside);
        let title = self.title(level, index, group);
        let top = if self.is_small { GAP } else { TITLE + GAP };
        let least = if self.is_small {
            0.0
        } else {
            title.chars().count() as f64 * 6.2 + 2.0 * GAP
        };
        let width = (inner.width + 2.0 * GAP).max(least);
        let height = inner.height + top + GAP;
        let content = html! {
            rect width=(width) height=(height) rx="4" fill-opacity="0.05" stroke="currentColor" stroke-opacity="0.45" {
                title { (title) }
            }
            @if !self.is_small { text x=(GAP) y=(TITLE - 2.0) { (title) } }
            g transform=(format!("translate({GAP} {top})")) { (inner.content) }
        };
        Drawn {
            width,
            height,
            content,
        }
    }

    fn title(&self, level: &Level, index: usize, group: &Group) -> String {
        let is_here = |(cache, home): &(&Cache, &Option<&str>)| {
            **home == Some(level.name.as_str()) && cache.cpus == group.cpus
        };
        let caches = self.machine.caches.iter().zip(&self.homes).filter(is_here);
        let caches: Vec<_> = caches.map(|(cache, _)| cache_label(cache)).collect();
        match caches.is_empty() {
            true => format!("{} {index}", level.name),
            false => format!("{} {index}: {}", level.name, caches.join(" + ")),
        }
    }

    fn capacity(&self, id: CpuId) -> u32 {
        self.machine.cpu(id).map_or(MAX_CAPACITY, |cpu| cpu.capacity)
    }

    /// A CPU with who has it; the longer, the darker.
    fn tenanted(&self, id: CpuId, tenant: Option<&Tenant>) -> Drawn {
        let (width, height) = TENANTED_CPU;
        let (name, share) = tenant.map_or(("nobody", 0.0), |tenant| (&tenant.name, tenant.share));
        let colour = tenant.map_or("currentColor", |tenant| &tenant.colour);
        let capacity = self.capacity(id);
        let percent = format!("{:.0} %", share * 100.0);
        let content = html! {
            rect width=(width) height=(height) rx="2" fill=(colour) fill-opacity=(format!("{:.2}", 0.6 * share))
                stroke=(colour) stroke-opacity=(if tenant.is_some() { "1" } else { "0.45" }) {
                title { "CPU " (id) ": " (name) ", " (percent) }
            }
            text x=(width / 2.0) y="14" text-anchor="middle" font-size="10" opacity="0.75" {
                "CPU " (id) @if !self.machine.is_symmetric() { " (" (capacity) ")" }
            }
            @if tenant.is_some() {
                text x=(width / 2.0) y="28" text-anchor="middle" { (shortened(name)) }
                text x=(width / 2.0) y="42" text-anchor="middle" font-size="10" { (percent) }
            }
        };
        Drawn {
            width,
            height,
            content,
        }
    }

    fn cpu(&self, id: CpuId) -> Drawn {
        let capacity = self.capacity(id);
        // The faster, the darker.
        let opacity = 0.05 + 0.25 * f64::from(capacity) / f64::from(MAX_CAPACITY);
        let (width, height) = if self.is_small { SMALL_CPU } else { CPU };
        let content = html! {
            rect width=(width) height=(height) rx="2" fill="#3b8fd4" fill-opacity=(format!("{opacity:.2}"))
                stroke="#3b8fd4" {
                title { "CPU " (id) ", capacity " (capacity) }
            }
            @if !self.is_small {
                text x=(width / 2.0) y="15" text-anchor="middle" { "CPU " (id) }
                text x=(width / 2.0) y="28" text-anchor="middle" font-size="10" opacity="0.75" { (capacity) }
            }
        };
        Drawn {
            width,
            height,
            content,
        }
    }
}

/// What of a name fits.
fn shortened(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{NAME, Tenant};
    use crate::Machine;

    fn picture(spec: &str) -> String {
        Machine::load(spec).unwrap().render_svg()
    }

    #[test]
    fn every_cpu_and_group_has_its_box() {
        let smt = picture("smt-8");
        assert_eq!(smt.matches("<rect").count(), 2 + 2 + 4 + 8, "{smt}");
        let amp = picture("amp-8");
        assert!(amp.contains("CPU 0, capacity 1024") && amp.contains("CPU 7, capacity 512"));
        let t2 = picture("ultrasparc-t2");
        assert_eq!(t2.matches("<rect").count(), 1 + 1 + 8 + 16 + 64);
        assert!(t2.contains(">llc 0: L2 4 MiB<"), "{t2}");
    }

    #[test]
    fn who_has_a_cpu_stands_in_its_box() {
        let tenant = |name: &str, share| {
            Some(Tenant {
                name: name.into(),
                colour: "#123456".into(),
                share,
            })
        };
        let machine = Machine::load("two-quads").unwrap();
        let drawn = machine.render_tenants(&[tenant("one", 0.9), None, tenant("<a very long name>", 0.25)]);
        assert_eq!(drawn.svg.matches("#123456").count(), 4, "{}", drawn.svg);
        let long = "&lt;a very …";
        assert_eq!(long.replace("&lt;", "<").chars().count(), NAME);
        for part in [">one<", ">90 %<", long, ">25 %<", "CPU 7: nobody"] {
            assert!(drawn.svg.contains(part), "no {part:?} in {}", drawn.svg);
        }
    }

    #[test]
    fn large_machines_have_small_boxes() {
        let large = picture("package:2 core:128 pu:2");
        assert!(large.contains("CPU 511, capacity") && !large.contains("<text"));
    }
}
