// SPDX-License-Identifier: GPL-2.0-only
//! Tables. Their width follows the content, not the terminal, so that the same machine prints the same.

use std::collections::BTreeSet;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::cache_label;
use crate::level::{Level, names};
use crate::machine::Machine;

pub(super) fn levels(machine: &Machine) -> String {
    let mut table = plain(&["level", "groups", "CPUs each", "caches"]);
    let homes = super::tree::homes(machine);
    for level in machine.levels() {
        let sizes: BTreeSet<_> = level.groups().iter().map(|group| group.cpus.len()).collect();
        let sizes: Vec<_> = sizes.iter().map(usize::to_string).collect();
        table.add_row([
            level.name().to_string(),
            level.groups().len().to_string(),
            sizes.join(" or "),
            caches_of(machine, &homes, level),
        ]);
    }
    right_align(&mut table, 1..3);
    finish(&table)
}

pub(super) fn cpus(machine: &Machine) -> String {
    let inner = |level: &&Level| level.name() != names::PU;
    let columns: Vec<_> = machine.levels().iter().filter(inner).map(Level::name).collect();
    let header: Vec<_> = ["CPU", "capacity"]
        .into_iter()
        .chain(columns.iter().copied())
        .chain(["smt"])
        .collect();
    let mut table = plain(&header);
    for cpu in machine.cpus() {
        let index = |level: &&str| {
            machine
                .group_of(level, cpu.id)
                .map_or(String::new(), |index| index.to_string())
        };
        let ends = (
            vec![cpu.id.to_string(), cpu.capacity.to_string()],
            [cpu.smt.to_string()],
        );
        table.add_row(ends.0.into_iter().chain(columns.iter().map(index)).chain(ends.1));
    }
    right_align(&mut table, 0..header.len());
    finish(&table)
}

/// The distinct caches that a group of this level has to itself.
fn caches_of(machine: &Machine, homes: &[Option<&str>], level: &Level) -> String {
    let own = machine
        .caches()
        .iter()
        .zip(homes)
        .filter(|(_, home)| **home == Some(level.name()));
    let labels: BTreeSet<_> = own.map(|(cache, _)| cache_label(cache)).collect();
    labels.into_iter().collect::<Vec<_>>().join(", ")
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    table
}

fn right_align(table: &mut Table, columns: std::ops::Range<usize>) {
    for nr in columns {
        if let Some(column) = table.column_mut(nr) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Without the blanks that the table leaves at the end of each line.
fn finish(table: &Table) -> String {
    table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn both_tables() {
        let machine = Machine::from_synthetic("package:1 l3:1(size=8MB) core:2 pu:2").unwrap();
        let levels = " level    groups  CPUs each  caches\n package       1          4\n \
                      llc           1          4  L3 8 MiB\n core          2          2\n pu            4          1\n";
        assert_eq!(machine.render_levels(), levels);
        let cpus = " CPU  capacity  package  llc  core  smt\n   0      1024        0    0     0    0\n   \
                    1      1024        0    0     0    1\n   2      1024        0    0     1    0\n   \
                    3      1024        0    0     1    1\n";
        assert_eq!(machine.render_cpus(), cpus);
    }
}
