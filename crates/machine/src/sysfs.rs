// SPDX-License-Identifier: GPL-2.0-only
//! Machines as Linux describes them under `/sys`, or in a copy of such a tree.
//!
//! The files are those of Documentation/ABI/stable/sysfs-devices-system-cpu and .../testing/. What the kernel may
//! leave out is optional here: caches, NUMA nodes, dies, clusters, capacities. What is there must be
//! sound, and must not contradict itself.
//!
//! Start at [`Machine::from_sysfs`]. `tree.rs` reads single files.

mod cache;
mod capacity;
mod tree;

use std::path::Path;

use crate::error::Error;
use crate::hardware::Hardware;
use crate::id::CpuId;
use crate::level::{Level, names};
use crate::machine::{Draft, Machine};
use tree::{CpuSet, Tree, agree};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

impl Machine {
    /// Reads `<root>/sys/devices/system/{cpu,node}`; `root` is `/` for the running machine.
    ///
    /// A CPU that is listed as online and has no topology folder counts as offline. CPUs without any
    /// cache of level 2 or more share one "LLC" with their like in the package. Capacities come from
    /// `cpu_capacity`, `acpi_cppc/highest_perf` or `cpufreq/cpuinfo_max_freq`, the first that all online CPUs have,
    /// scaled so that the fastest CPU has 1024; without any of them all CPUs count as equal. Where a processor is
    /// known to write the same `cpu_capacity` for unlike cores (Intel's hybrid ones with SMT, AMD's with ranked
    /// cores), that is no answer; nor is AMD's `highest_perf`, which is a rank there.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Value`] and [`Error::Contradiction`] with the path, and those for machines
    /// that break the rules of this crate.
    pub fn from_sysfs(root: &Path) -> Result<Machine, Error> {
        if !root.join(CPU).is_dir() {
            return Err(Error::NoTree { path: root.into() });
        }
        let mut tree = Tree::new(root);
        let place = tree.path(CPU).display().to_string();
        let (cpus, offline) = find_cpus(&mut tree)?;
        if cpus.is_empty() {
            return Err(Error::NoCpus { place });
        }
        let packages = required_numbers(&mut tree, &cpus, "physical_package_id")?;
        let caches = cache::read(&mut tree, &cpus)?;
        let (capacities, capacity_source) = capacity::read(&mut tree, &cpus)?;
        let levels = find_levels(&mut tree, &cpus, &packages, &caches)?;
        let draft = Draft {
            name: root.display().to_string(),
            description: String::new(),
            capacities,
            capacity_source,
            levels,
            caches: caches.all,
            cpus,
            offline,
            lab: None,
            hardware: Hardware::default(),
        };
        draft.build(&place)
    }
}

/// The online and the offline CPUs.
fn find_cpus(tree: &mut Tree) -> Result<(Vec<CpuId>, Vec<CpuId>), Error> {
    let list = |name: &str| tree.list(&format!("{CPU}/{name}"));
    let present = list("present")?;
    let listed = match (list("online")?, &present) {
        (Some(online), _) => online,
        (None, Some(present)) => present.clone(),
        (None, None) => return Err(tree.missing(&format!("{CPU}/online"))),
    };
    let known = match present {
        Some(present) => present,
        None => tree
            .list(&format!("{CPU}/possible"))?
            .unwrap_or_else(|| listed.clone()),
    };
    let has_topology = |cpu: &CpuId| tree.exists(&format!("{CPU}/cpu{cpu}/topology"));
    let online: Vec<_> = listed.iter().copied().filter(has_topology).collect();
    let mut offline: Vec<_> = known.iter().chain(listed.iter()).copied().collect();
    offline.sort();
    offline.dedup();
    offline.retain(|cpu| online.binary_search(cpu).is_err());
    Ok((online, offline))
}

/// The levels, outermost first. Whether they nest is checked later.
fn find_levels(
    tree: &mut Tree,
    cpus: &[CpuId],
    packages: &[i64],
    caches: &cache::Caches,
) -> Result<Vec<Level>, Error> {
    let llc_keys: Vec<_> = caches
        .llc_of
        .iter()
        .zip(packages)
        .map(|(llc, package)| llc.as_ref().ok_or(package))
        .collect();
    let mut outer = vec![Level::from_os_ids(names::PACKAGE, cpus, packages)];
    outer.extend(find_nodes(tree, cpus)?);
    outer.push(Level::from_keys(names::LLC, cpus, &llc_keys));
    let dies = find_dies(tree, cpus, packages)?;
    let core = find_cores(tree, cpus, packages, dies.as_deref())?;
    let die = dies.map(|dies| Level::from_keys(names::DIE, cpus, &dies));
    for optional in die.into_iter().chain(find_clusters(tree, cpus, packages)?) {
        // A level that says what another one says already would only blur the picture.
        if outer
            .iter()
            .chain([&core])
            .all(|level| !is_same(level, &optional))
        {
            outer.push(optional);
        }
    }
    // Of levels that nest, the one with fewer groups is the outer one. On older Arm kernels each
    // cluster is a package, and the LLC lies around them.
    outer.sort_by_key(|level| level.groups.len());
    outer.push(core);
    outer.push(Level::from_keys(names::PU, cpus, cpus));
    Ok(outer)
}

fn is_same(a: &Level, b: &Level) -> bool {
    a.groups
        .iter()
        .map(|group| &group.cpus)
        .eq(b.groups.iter().map(|group| &group.cpus))
}

/// NUMA nodes that have online CPUs; no level when the tree tells of none.
fn find_nodes(tree: &mut Tree, cpus: &[CpuId]) -> Result<Option<Level>, Error> {
    let mut node_of: Vec<Option<i64>> = vec![None; cpus.len()];
    for node in tree.numbered_folders(NODE, "node")? {
        let path = format!("{NODE}/node{node}/cpulist");
        let list = tree.list(&path)?.ok_or_else(|| tree.missing(&path))?;
        for (position, _) in list
            .iter()
            .filter_map(|cpu| cpus.binary_search(cpu).ok().map(|at| (at, cpu)))
        {
            if let Some(other) = node_of[position].replace(node) {
                let problem = format!(
                    "CPU {} is also in node{other}, a CPU has one node",
                    cpus[position]
                );
                return Err(tree.contradiction(&path, problem));
            }
        }
    }
    if node_of.iter().all(Option::is_none) {
        return Ok(None);
    }
    let found: Vec<_> = node_of.iter().flatten().copied().collect();
    match node_of.iter().position(Option::is_none) {
        Some(without) => {
            let problem = format!("CPU {} is in no node, and other CPUs are in one", cpus[without]);
            Err(tree.contradiction(NODE, problem))
        }
        None => Ok(Some(Level::from_os_ids(names::NUMA, cpus, &found))),
    }
}

/// Package and die of each CPU; none when some CPU has no die_id.
fn find_dies(tree: &mut Tree, cpus: &[CpuId], packages: &[i64]) -> Result<Option<Vec<(i64, i64)>>, Error> {
    let ids = topology_numbers(tree, cpus, "die_id")?;
    Ok(ids.map(|ids| packages.iter().copied().zip(ids).collect()))
}

/// Clusters, where the kernel knows them. It writes 65535 or a negative number where it does not.
fn find_clusters(tree: &mut Tree, cpus: &[CpuId], packages: &[i64]) -> Result<Option<Level>, Error> {
    const UNKNOWN: i64 = 65535;
    let ids = topology_numbers(tree, cpus, "cluster_id")?;
    let is_known = |ids: &Vec<i64>| ids.iter().all(|id| (0..UNKNOWN).contains(id));
    Ok(ids.filter(is_known).map(|ids| {
        let keys: Vec<_> = packages.iter().zip(ids).collect();
        Level::from_keys(names::CLUSTER, cpus, &keys)
    }))
}

/// Cores by the list of siblings, or by core_id within package and die where there is no list.
fn find_cores(
    tree: &mut Tree,
    cpus: &[CpuId],
    packages: &[i64],
    dies: Option<&[(i64, i64)]>,
) -> Result<Level, Error> {
    for name in ["core_cpus_list", "thread_siblings_list"] {
        let path = |cpu: CpuId| format!("{CPU}/cpu{cpu}/topology/{name}");
        let mut lists: Vec<Option<CpuSet>> = Vec::new();
        for &cpu in cpus {
            lists.push(tree.online_set(&path(cpu), cpus)?);
        }
        if lists.iter().any(Option::is_some) {
            agree(tree, cpus, &lists, path)?;
            return Ok(Level::from_keys(names::CORE, cpus, &lists));
        }
    }
    let ids = required_numbers(tree, cpus, "core_id")?;
    let die = |position: usize| dies.map(|dies| dies[position]);
    let keys: Vec<_> = (0..cpus.len())
        .map(|position| (packages[position], die(position), ids[position]))
        .collect();
    Ok(Level::from_keys(names::CORE, cpus, &keys))
}

/// A number from each CPU's topology folder; none when some CPU lacks the file.
fn topology_numbers(tree: &mut Tree, cpus: &[CpuId], name: &str) -> Result<Option<Vec<i64>>, Error> {
    cpus.iter()
        .map(|cpu| tree.number(&format!("{CPU}/cpu{cpu}/topology/{name}")))
        .collect()
}

fn required_numbers(tree: &mut Tree, cpus: &[CpuId], name: &str) -> Result<Vec<i64>, Error> {
    let number = |cpu: &CpuId| {
        let path = format!("{CPU}/cpu{cpu}/topology/{name}");
        tree.number(&path)?.ok_or_else(|| tree.missing(&path))
    };
    cpus.iter().map(number).collect()
}
