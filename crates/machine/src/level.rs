// SPDX-License-Identifier: GPL-2.0-only
//! A level of the machine: a partition of its CPUs. And the rules that levels obey together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpulist;
use crate::error::Error;
use crate::id::CpuId;

/// Names of the levels that this crate gives a meaning to. A machine file may use others.
pub mod names {
    /// A processor package (socket).
    pub const PACKAGE: &str = "package";
    /// A NUMA node; only there when the source tells of nodes.
    pub const NUMA: &str = "numa";
    /// A die; only there when it says more than the other levels.
    pub const DIE: &str = "die";
    /// CPUs that share the last-level cache.
    pub const LLC: &str = "llc";
    /// A cluster, such as four small cores with one L2; only there when it says more than the other levels.
    pub const CLUSTER: &str = "cluster";
    /// A core: its CPUs are SMT siblings.
    pub const CORE: &str = "core";
    /// A processing unit: a single CPU.
    pub const PU: &str = "pu";
}

/// Levels that every machine has.
pub(crate) const REQUIRED: [&str; 4] = [names::PACKAGE, names::LLC, names::CORE, names::PU];

/// One level: a partition of the online CPUs of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    pub(crate) name: String,
    /// In order of each group's lowest CPU.
    pub(crate) groups: Vec<Group>,
}

/// One member of a level: a package, a core, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The operating system's own number, where it has one (physical_package_id, the N of nodeN).
    /// It need not be dense or unique; the index in [`Level::groups`] is both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_id: Option<i64>,
    /// Its online CPUs, ascending, at least one.
    pub cpus: Vec<CpuId>,
}

impl Level {
    /// The level's name, lower case, one of [`names`] or what a machine file says.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups, in order of each group's lowest CPU. A group's place here is its index.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Puts CPUs with equal keys into one group. `keys` runs parallel to `cpus`, which ascend.
    pub(crate) fn from_keys<K: Ord>(name: &str, cpus: &[CpuId], keys: &[K]) -> Level {
        let mut groups: Vec<Group> = Vec::new();
        let mut index_of_key = BTreeMap::new();
        for (&cpu, key) in cpus.iter().zip(keys) {
            let index = *index_of_key.entry(key).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => group.cpus.push(cpu),
                None => groups.push(Group {
                    os_id: None,
                    cpus: vec![cpu],
                }),
            }
        }
        Level {
            name: name.to_string(),
            groups,
        }
    }

    /// As [`Level::from_keys`] with the operating system's number as the key, which the groups keep.
    pub(crate) fn from_os_ids(name: &str, cpus: &[CpuId], os_ids: &[i64]) -> Level {
        let mut level = Level::from_keys(name, cpus, os_ids);
        let os_id_of: BTreeMap<_, _> = cpus.iter().zip(os_ids).collect();
        for group in &mut level.groups {
            group.os_id = os_id_of.get(&group.cpus[0]).map(|&&os_id| os_id);
        }
        level
    }

    /// For each of `cpus`, which ascend, the index of its group.
    ///
    /// # Errors
    /// [`Error::NotPartition`] when a CPU is in no group or in several.
    pub(crate) fn index_of_each(&self, cpus: &[CpuId], place: &str) -> Result<Vec<u32>, Error> {
        let mut index = vec![None; cpus.len()];
        let mut nr_groups = vec![0; cpus.len()];
        for (nr, group) in self.groups.iter().enumerate() {
            for cpu in &group.cpus {
                if let Ok(position) = cpus.binary_search(cpu) {
                    index[position] = Some(nr as u32);
                    nr_groups[position] += 1;
                }
            }
        }
        let fail = |position: usize| Error::NotPartition {
            place: place.to_string(),
            level: self.name.clone(),
            cpu: cpus[position],
            nr_groups: nr_groups[position],
        };
        (0..cpus.len())
            .map(|position| match index[position] {
                Some(nr) if nr_groups[position] == 1 => Ok(nr),
                _ => Err(fail(position)),
            })
            .collect()
    }
}

/// A level and, for each CPU of the machine, the index of its group.
pub(crate) type Indexed<'a> = (&'a Level, &'a [u32]);

/// Each group of `inner` must lie within one group of `outer`.
pub(crate) fn check_nesting(outer: Indexed, inner: Indexed, place: &str) -> Result<(), Error> {
    let mut outer_of = vec![None; inner.0.groups.len()];
    for (&outer_index, &inner_index) in outer.1.iter().zip(inner.1) {
        let first = *outer_of[inner_index as usize].get_or_insert(outer_index);
        if first != outer_index {
            return Err(Error::NotNested {
                place: place.to_string(),
                inner: inner.0.name.clone(),
                index: inner_index as usize,
                cpus: cpulist::format(&inner.0.groups[inner_index as usize].cpus),
                outer: outer.0.name.clone(),
                outer_a: first as usize,
                outer_b: outer_index as usize,
            });
        }
    }
    Ok(())
}

/// The required levels are there, none is repeated, the core lies within package, LLC and node, and
/// the last level is that of single CPUs.
pub(crate) fn check_names(levels: &[Level], place: &str) -> Result<(), Error> {
    let fail = |problem: String| {
        Err(Error::Levels {
            place: place.to_string(),
            problem,
        })
    };
    let position = |name: &str| levels.iter().position(|level| level.name == name);
    for required in REQUIRED {
        if position(required).is_none() {
            return fail(format!("the level \"{required}\" is missing"));
        }
    }
    for (nr, level) in levels.iter().enumerate() {
        if position(&level.name) != Some(nr) {
            return fail(format!("the level \"{}\" is there twice", level.name));
        }
    }
    for around in [names::PACKAGE, names::NUMA, names::LLC] {
        if position(around) > position(names::CORE) {
            return fail(format!(
                "the level \"{around}\" stands within \"core\", it must stand around it"
            ));
        }
    }
    match levels.last() {
        Some(last) if last.name == names::PU && last.groups.iter().all(|group| group.cpus.len() == 1) => {
            Ok(())
        }
        _ => fail("the last level must be \"pu\", of single CPUs".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(nr: u32) -> Vec<CpuId> {
        (0..nr).map(CpuId).collect()
    }

    fn nest(outer: &[u32], inner: &[u32]) -> Result<(), Error> {
        let cpus = cpus(outer.len() as u32);
        let outer = Level::from_keys("llc", &cpus, outer);
        let inner = Level::from_keys("core", &cpus, inner);
        let outer_index = outer.index_of_each(&cpus, "test")?;
        let inner_index = inner.index_of_each(&cpus, "test")?;
        check_nesting((&outer, &outer_index), (&inner, &inner_index), "test")
    }

    #[test]
    fn groups_come_in_order_of_their_lowest_cpu() {
        let level = Level::from_os_ids("package", &cpus(4), &[7, 3, 7, 3]);
        assert_eq!(
            level.groups[0],
            Group {
                os_id: Some(7),
                cpus: vec![CpuId(0), CpuId(2)]
            }
        );
        assert_eq!(
            level.groups[1],
            Group {
                os_id: Some(3),
                cpus: vec![CpuId(1), CpuId(3)]
            }
        );
    }

    #[test]
    fn levels_that_nest_pass() {
        nest(&[0, 0, 1, 1], &[0, 1, 2, 2]).unwrap();
        nest(&[0, 0], &[0, 0]).unwrap();
    }

    #[test]
    fn a_core_across_two_llcs_is_refused() {
        let error = nest(&[0, 0, 1, 1], &[0, 1, 1, 2]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "test: core 1 (CPUs 1-2) lies across llc 0 and llc 1, levels must nest"
        );
    }

    #[test]
    fn a_cpu_in_no_group_or_in_two_is_refused() {
        let mut level = Level::from_keys("core", &cpus(3), &[0, 0, 1]);
        level.groups[0].cpus.pop();
        let error = level.index_of_each(&cpus(3), "test").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("CPU 1 is in 0 groups of level \"core\""),
            "{error}"
        );
        level.groups[0].cpus.extend([CpuId(1), CpuId(2)]);
        let error = level.index_of_each(&cpus(3), "test").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("CPU 2 is in 2 groups of level \"core\""),
            "{error}"
        );
    }

    #[test]
    fn wrong_sets_of_levels_are_refused() {
        let refuse = |names: &[&str], expected: &str| {
            let levels: Vec<_> = names
                .iter()
                .map(|name| Level::from_keys(name, &cpus(2), &[0, 1]))
                .collect();
            let error = check_names(&levels, "test").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        refuse(&["package", "llc", "core"], "\"pu\" is missing");
        refuse(&["package", "llc", "core", "llc", "pu"], "\"llc\" is there twice");
        refuse(
            &["package", "core", "llc", "pu"],
            "\"llc\" stands within \"core\"",
        );
        refuse(
            &["package", "llc", "core", "pu", "pipe"],
            "the last level must be \"pu\"",
        );
        let mut levels: Vec<_> = REQUIRED
            .iter()
            .map(|name| Level::from_keys(name, &cpus(2), &[0, 1]))
            .collect();
        check_names(&levels, "test").unwrap();
        levels[3] = Level::from_keys("pu", &cpus(2), &[0, 0]);
        assert!(check_names(&levels, "test").is_err());
    }
}
