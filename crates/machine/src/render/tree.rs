// SPDX-License-Identifier: GPL-2.0-only
//! The tree. Neighbouring siblings that look alike share a line: `cores 1-7 (7 alike)  CPUs 1-7`.
//!
//! Two groups look alike when they have the same capacities and caches and their children look alike;
//! CPU ids may differ. Up to four groups that have lines below them keep a line each. CPUs themselves are not lines: the innermost level above `pu` lists them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{cache_label, count};
use crate::cpulist;
use crate::id::CpuId;
use crate::level::{Group, Level, names};
use crate::machine::{Cache, Machine};

/// So many groups with children get a line each, even if they look alike.
const MAX_SPELLED_OUT: usize = 4;
/// A line lists the CPUs of at most this many groups one by one.
const MAX_LISTS: usize = 8;

pub(super) fn render(machine: &Machine) -> String {
    let name = if machine.description.is_empty() {
        machine.name.clone()
    } else {
        format!("{}: {}", machine.name, machine.description)
    };
    let mut text = format!("{name}\n{}\n", machine.summary());
    let nodes = grow(machine);
    write_runs(&mut text, &nodes, "", Detail::Ids);
    let homeless = machine
        .caches
        .iter()
        .zip(homes(machine))
        .filter(|(_, home)| home.is_none());
    for (cache, _) in homeless {
        text += &format!(
            "{} shared by CPUs {}\n",
            cache_label(cache),
            cpulist::format(&cache.cpus)
        );
    }
    if !machine.offline.is_empty() {
        text += &format!("offline: CPUs {}\n", cpulist::format(&machine.offline));
    }
    text
}

/// For each cache the level on whose line it is shown: the LLC for a last-level cache, else the
/// innermost that has the same CPUs.
pub(super) fn homes(machine: &Machine) -> Vec<Option<&str>> {
    let mut last_level = BTreeMap::<CpuId, u8>::new();
    for cache in &machine.caches {
        for &cpu in &cache.cpus {
            let known = last_level.entry(cpu).or_default();
            *known = cache.level.max(*known);
        }
    }
    let is_last = |cache: &Cache| {
        cache
            .cpus
            .iter()
            .all(|cpu| last_level.get(cpu) == Some(&cache.level))
    };
    machine
        .caches
        .iter()
        .map(|cache| home(machine, cache, is_last(cache)))
        .collect()
}

fn home<'a>(machine: &'a Machine, cache: &Cache, is_last: bool) -> Option<&'a str> {
    let first = *cache.cpus.first()?;
    let has_same = |level: &&Level| {
        machine
            .group_of(level.name(), first)
            .is_some_and(|index| level.groups[index].cpus == cache.cpus)
    };
    let matching = || {
        machine
            .levels
            .iter()
            .filter(|level| level.name != names::PU)
            .filter(has_same)
    };
    let llc = matching().find(|level| level.name == names::LLC && is_last);
    llc.or_else(|| matching().next_back()).map(Level::name)
}

/// A group with all that its line shows.
struct Node<'a> {
    level: &'a str,
    index: usize,
    group: &'a Group,
    /// Equal for nodes that look alike, whatever their CPU ids.
    shape: usize,
    caches: Vec<String>,
    /// In the order of the CPUs; empty unless this is the innermost level that has lines.
    capacities: Vec<u32>,
    children: Vec<Node<'a>>,
}

/// How a line names its groups: with index and CPU ids, or, below a line that stands for several
/// groups, only by their number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Ids,
    Counts,
}

/// What makes the shape of a node: its level, caches, capacities, number of CPUs, children's shapes.
type ShapeKey<'a> = (&'a str, Vec<String>, Vec<u32>, usize, Vec<usize>);

/// Builds the nodes from the innermost level outwards.
fn grow(machine: &Machine) -> Vec<Node<'_>> {
    let mut caches = caches_by_group(machine);
    let mut shapes = BTreeMap::<ShapeKey, usize>::new();
    let mut inner: Vec<Node> = Vec::new();
    let lines = machine.levels.iter().filter(|level| level.name != names::PU);
    for level in lines.rev() {
        let mut children_of: Vec<Vec<Node>> = level.groups.iter().map(|_| Vec::new()).collect();
        let is_innermost = inner.is_empty();
        for node in inner {
            let parent = machine.group_of(level.name(), node.group.cpus[0]);
            children_of[parent.expect("levels are partitions of the same CPUs")].push(node);
        }
        inner = Vec::new();
        for ((index, group), mut children) in level.groups.iter().enumerate().zip(children_of) {
            let caches = caches.remove(&(level.name(), index)).unwrap_or_default();
            if is_redundant(level, &caches, &children) {
                inner.append(&mut children);
                continue;
            }
            let capacities = if is_innermost {
                capacities_of(machine, &group.cpus)
            } else {
                Vec::new()
            };
            let child_shapes = children.iter().map(|child| child.shape).collect();
            let key = (
                level.name(),
                caches.clone(),
                capacities.clone(),
                group.cpus.len(),
                child_shapes,
            );
            let next = shapes.len();
            let shape = *shapes.entry(key).or_insert(next);
            inner.push(Node {
                level: level.name(),
                index,
                group,
                shape,
                caches,
                capacities,
                children,
            });
        }
    }
    inner
}

/// A cluster or the like around a single core adds nothing but a line.
fn is_redundant(level: &Level, caches: &[String], children: &[Node]) -> bool {
    [names::CLUSTER, names::DIE].contains(&level.name()) && caches.is_empty() && children.len() == 1
}

fn capacities_of(machine: &Machine, cpus: &[CpuId]) -> Vec<u32> {
    cpus.iter()
        .filter_map(|&cpu| machine.cpu(cpu))
        .map(|cpu| cpu.capacity)
        .collect()
}

fn caches_by_group(machine: &Machine) -> BTreeMap<(&str, usize), Vec<String>> {
    let mut found = BTreeMap::<_, Vec<String>>::new();
    // Largest first: the caches are sorted by level, ascending.
    for (cache, home) in machine.caches.iter().zip(homes(machine)).rev() {
        if let Some(level) = home
            && let Some(index) = machine.group_of(level, cache.cpus[0])
        {
            found.entry((level, index)).or_default().push(cache_label(cache));
        }
    }
    found
}

fn write_runs(text: &mut String, nodes: &[Node], indent: &str, detail: Detail) {
    let runs = runs(nodes, detail);
    let nr_runs = runs.len();
    for (nr, run) in runs.into_iter().enumerate() {
        let run = &nodes[run];
        let (branch, below) = match nr + 1 == nr_runs {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        *text += &format!("{indent}{branch}{}\n", line(run, detail));
        let detail = if run.len() > 1 { Detail::Counts } else { detail };
        write_runs(text, &run[0].children, &format!("{indent}{below}"), detail);
    }
}

/// Ranges of nodes that share a line: neighbours that look alike. Those with lines of their own below
/// them share one only when they are many, since their children's CPU ids go unsaid then.
fn runs(nodes: &[Node], detail: Detail) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    for chunk in nodes.chunk_by(|a, b| a.shape == b.shape) {
        let is_spelled_out =
            detail == Detail::Ids && !chunk[0].children.is_empty() && chunk.len() <= MAX_SPELLED_OUT;
        let step = if is_spelled_out { 1 } else { chunk.len() };
        runs.extend(
            (at..at + chunk.len())
                .step_by(step)
                .map(|start| start..start + step),
        );
        at += chunk.len();
    }
    runs
}

fn line(run: &[Node], detail: Detail) -> String {
    let first = &run[0];
    let nr_cpus = first.group.cpus.len();
    let each = if run.len() > 1 { " each" } else { "" };
    let mut parts = match detail {
        Detail::Ids => vec![title(run), lists(run)],
        Detail::Counts => vec![
            count(run.len(), first.level),
            format!("{}{each}", count(nr_cpus, "CPU")),
        ],
    };
    if !first.caches.is_empty() {
        parts.push(format!("{}{each}", first.caches.join(" + ")));
    }
    parts.extend(capacity_label(&first.capacities));
    parts.join("  ")
}

/// `core 0`, or `cores 1-7 (7 alike)`; with the kernel's own number where that differs.
fn title(run: &[Node]) -> String {
    let first = &run[0];
    match run {
        [only] => match only.group.os_id.filter(|&os_id| os_id != only.index as i64) {
            Some(os_id) => format!("{} {} (id {os_id})", only.level, only.index),
            None => format!("{} {}", only.level, only.index),
        },
        _ => {
            let indexes: Vec<_> = run.iter().map(|node| CpuId(node.index as u32)).collect();
            format!(
                "{}s {} ({} alike)",
                first.level,
                cpulist::format(&indexes),
                run.len()
            )
        }
    }
}

/// The CPUs: of single-CPU groups as one list, of larger groups separated by bars.
fn lists(run: &[Node]) -> String {
    let all: Vec<_> = run
        .iter()
        .flat_map(|node| node.group.cpus.iter().copied())
        .collect();
    let label = if all.len() == 1 { "CPU" } else { "CPUs" };
    if all.len() == run.len() || run.len() == 1 {
        return format!("{label} {}", cpulist::format(&all));
    }
    let mut lists: Vec<_> = run.iter().map(|node| cpulist::format(&node.group.cpus)).collect();
    if lists.len() > MAX_LISTS {
        lists.splice(MAX_LISTS - 2..lists.len() - 1, ["...".to_string()]);
    }
    format!("{label} {}", lists.join(" | "))
}

fn capacity_label(capacities: &[u32]) -> Option<String> {
    let first = capacities.first()?;
    match capacities.iter().all(|capacity| capacity == first) {
        true => Some(format!("capacity {first}")),
        false => Some(format!(
            "capacities {}",
            capacities
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    fn tree(spec: &str) -> String {
        Machine::load(spec).unwrap().render_tree()
    }

    #[test]
    fn equal_cores_share_a_line() {
        let expected = "\
amp-8: Eight cores behind one last-level cache, one of them twice as fast as the others (a=2)
8 CPUs, 8 cores, 1 LLC, 1 package, unequal capacities, 160 MIPS in the lab
└─ package 0  CPUs 0-7
   └─ llc 0  CPUs 0-7  L3
      ├─ core 0  CPU 0  capacity 1024
      └─ cores 1-7 (7 alike)  CPUs 1-7  capacity 512
";
        assert_eq!(tree("amp-8"), expected);
    }

    #[test]
    fn a_few_equal_packages_have_a_line_each() {
        let expected = "\
package:2 l3:1(size=4MB) core:2 pipe:2 pu:4
32 CPUs, 4 cores, 2 LLCs, 2 packages
├─ package 0  CPUs 0-15
│  └─ llc 0  CPUs 0-15  L3 4 MiB
│     ├─ core 0  CPUs 0-7
│     │  └─ pipes 0-1 (2 alike)  CPUs 0-3 | 4-7  capacity 1024
│     └─ core 1  CPUs 8-15
│        └─ pipes 2-3 (2 alike)  CPUs 8-11 | 12-15  capacity 1024
└─ package 1  CPUs 16-31
   └─ llc 1  CPUs 16-31  L3 4 MiB
      ├─ core 2  CPUs 16-23
      │  └─ pipes 4-5 (2 alike)  CPUs 16-19 | 20-23  capacity 1024
      └─ core 3  CPUs 24-31
         └─ pipes 6-7 (2 alike)  CPUs 24-27 | 28-31  capacity 1024
";
        assert_eq!(tree("package:2 l3:1(size=4MB) core:2 pipe:2 pu:4"), expected);
    }

    #[test]
    fn many_equal_packages_share_a_line_and_their_children_lose_their_ids() {
        let expected = "\
package:5 llc:2 core:16 pu:4
640 CPUs, 160 cores, 10 LLCs, 5 packages
└─ packages 0-4 (5 alike)  CPUs 0-127 | 128-255 | 256-383 | 384-511 | 512-639
   └─ 2 llcs  64 CPUs each  L3 each
      └─ 16 cores  4 CPUs each  capacity 1024
";
        assert_eq!(tree("package:5 llc:2 core:16 pu:4"), expected);
    }

    #[test]
    fn long_runs_are_cut() {
        let text = tree("core:20 pu:2");
        let expected =
            "cores 0-19 (20 alike)  CPUs 0-1 | 2-3 | 4-5 | 6-7 | 8-9 | 10-11 | ... | 38-39  capacity 1024\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
