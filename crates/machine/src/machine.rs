// SPDX-License-Identifier: GPL-2.0-only
//! The machine itself: what every source ends in and every user starts from.

use serde::{Deserialize, Serialize};

use crate::cpulist;
use crate::error::Error;
use crate::hardware::Hardware;
use crate::id::{CoreId, CpuId, LlcId, MAX_CPUS, NodeId, PackageId};
use crate::level::{self, Level, names};

/// The capacity of the fastest CPU. The kernel's scale: SCHED_CAPACITY_SCALE in include/linux/sched.h.
pub const MAX_CAPACITY: u32 = 1024;

/// One online CPU (hardware thread) and where it sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// As the kernel numbers it.
    pub id: CpuId,
    /// Relative speed, 1 to [`MAX_CAPACITY`]; 1024 is the fastest CPU of the machine.
    pub capacity: u32,
    /// Its package.
    pub package: PackageId,
    /// Its NUMA node; 0 when the source tells of no nodes.
    pub node: NodeId,
    /// Its last-level cache.
    pub llc: LlcId,
    /// Its core.
    pub core: CoreId,
    /// Its place among the CPUs of its core, from 0.
    pub smt: u32,
}

/// A cache and the online CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 for L1, and so on.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size in bytes, where known.
    pub size_bytes: Option<u64>,
    /// The online CPUs that share it, ascending.
    pub cpus: Vec<CpuId>,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Where the capacities were taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapacitySource {
    /// The kernel's own `cpu_capacity`.
    CpuCapacity,
    /// The firmware's `acpi_cppc/highest_perf`.
    AcpiCppc,
    /// The highest frequency, `cpufreq/cpuinfo_max_freq`.
    MaxFreq,
    /// A machine file says so.
    MachineFile,
    /// Nothing is known; all CPUs are taken to be equal.
    Assumed,
}

/// A machine: its CPUs and levels. Immutable; the crate's documentation lists what always holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) cpus: Vec<Cpu>,
    /// Outermost first. The groups of each lie within the groups of the one before.
    pub(crate) levels: Vec<Level>,
    /// Parallel to `levels`: for each position in `cpus` the index of its group.
    indexes: Vec<Vec<u32>>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) capacity_source: CapacitySource,
    pub(crate) offline: Vec<CpuId>,
    pub(crate) lab: Option<Lab>,
    pub(crate) hardware: Hardware,
}

impl Machine {
    /// The name: "host", that of a machine file, the folder of a sysfs tree, or the synthetic string.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence for people; may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The online CPUs, ascending by id, at least one.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The online CPU with this id.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.position(id).map(|position| &self.cpus[position])
    }

    /// CPUs that the machine has and does not use, ascending.
    pub fn offline(&self) -> &[CpuId] {
        &self.offline
    }

    /// The levels, outermost first; the last is `pu`.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The level with this name, one of [`names`] or what the machine file calls it.
    pub fn level(&self, name: &str) -> Option<&Level> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// The index of the group of `level` that holds this CPU; none when either is unknown.
    pub fn group_of(&self, level: &str, cpu: CpuId) -> Option<usize> {
        let nr = self.levels.iter().position(|known| known.name == level)?;
        Some(self.indexes[nr][self.position(cpu)?] as usize)
    }

    /// The CPUs of one group of a level, ascending; empty when there is no such level or group.
    pub fn cpus_in(&self, level: &str, index: usize) -> &[CpuId] {
        let group = self.level(level).and_then(|level| level.groups.get(index));
        group.map_or(&[], |group| &group.cpus)
    }

    /// The CPUs of a core, ascending; empty when there is no such core.
    pub fn core_cpus(&self, core: CoreId) -> &[CpuId] {
        self.cpus_in(names::CORE, core.index())
    }

    /// The CPUs that share a last-level cache, ascending; empty when there is no such cache.
    pub fn llc_cpus(&self, llc: LlcId) -> &[CpuId] {
        self.cpus_in(names::LLC, llc.index())
    }

    /// The CPUs of a package, ascending; empty when there is no such package.
    pub fn package_cpus(&self, package: PackageId) -> &[CpuId] {
        self.cpus_in(names::PACKAGE, package.index())
    }

    /// The same machine of which only these CPUs are used, in any order; the others count as offline. Capacities are relative to
    /// the fastest of them.
    ///
    /// # Errors
    /// [`Error::NotOnline`] for a CPU that is not one of [`Machine::cpus`], [`Error::NoCpus`] for none at all.
    pub fn within(&self, cpus: &[CpuId]) -> Result<Machine, Error> {
        if let Some(&cpu) = cpus.iter().find(|&&cpu| self.cpu(cpu).is_none()) {
            let online: Vec<CpuId> = self.cpus.iter().map(|cpu| cpu.id).collect();
            return Err(Error::NotOnline {
                place: self.name.clone(),
                cpu,
                online: cpulist::format(&online),
            });
        }
        let (used, unused): (Vec<&Cpu>, Vec<&Cpu>) = self.cpus.iter().partition(|cpu| cpus.contains(&cpu.id));
        let fastest = used.iter().map(|cpu| cpu.capacity).max().unwrap_or(MAX_CAPACITY);
        let keep = |kept: &mut Vec<CpuId>| kept.retain(|cpu| cpus.contains(cpu));
        let mut levels = self.levels.clone();
        for level in &mut levels {
            level.groups.iter_mut().for_each(|group| keep(&mut group.cpus));
            level.groups.retain(|group| !group.cpus.is_empty());
            level.groups.sort_by_key(|group| group.cpus[0]);
        }
        let mut caches = self.caches.clone();
        caches.iter_mut().for_each(|cache| keep(&mut cache.cpus));
        caches.retain(|cache| !cache.cpus.is_empty());
        let mut offline = self.offline.clone();
        offline.extend(unused.iter().map(|cpu| cpu.id));
        offline.sort_unstable();
        let draft = Draft {
            name: self.name.clone(),
            description: self.description.clone(),
            cpus: used.iter().map(|cpu| cpu.id).collect(),
            capacities: used
                .iter()
                .map(|cpu| (cpu.capacity * MAX_CAPACITY / fastest).max(1))
                .collect(),
            capacity_source: self.capacity_source,
            levels,
            caches,
            offline,
            lab: self.lab,
            hardware: self.hardware.clone(),
        };
        draft.build(&self.name)
    }

    /// The SMT siblings: the *other* CPUs of the same core, ascending. None when the CPU is unknown.
    pub fn siblings(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let core = self.cpu(cpu).map_or(&[][..], |found| self.core_cpus(found.core));
        core.iter().copied().filter(move |&other| other != cpu)
    }

    /// The CPUs with capacity 1024, ascending, at least one.
    pub fn fastest(&self) -> Vec<CpuId> {
        self.cpus
            .iter()
            .filter(|cpu| cpu.capacity == MAX_CAPACITY)
            .map(|cpu| cpu.id)
            .collect()
    }

    /// Whether all CPUs have the same capacity. SMT does not count against it.
    pub fn is_symmetric(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.capacity == MAX_CAPACITY)
    }

    /// Whether some core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.nr_cores() < self.nr_cpus()
    }

    /// How many CPUs are online: 1 to [`MAX_CPUS`].
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// How many cores have an online CPU.
    pub fn nr_cores(&self) -> usize {
        self.nr_groups(names::CORE)
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.nr_groups(names::LLC)
    }

    /// How many packages there are.
    pub fn nr_packages(&self) -> usize {
        self.nr_groups(names::PACKAGE)
    }

    /// How many NUMA nodes with CPUs there are; 1 when the source tells of none.
    pub fn nr_nodes(&self) -> usize {
        self.nr_groups(names::NUMA).max(1)
    }

    /// The caches, ordered by level, kind and lowest CPU; empty when the source tells of none.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The size in bytes of each last-level cache, where it is known.
    pub fn llc_bytes(&self) -> Vec<Option<u64>> {
        let llcs = self.level(names::LLC).map_or(&[][..], Level::groups);
        let last = |llc: &crate::level::Group| {
            let holds =
                |cache: &&Cache| cache.kind != CacheKind::Instruction && cache.cpus.contains(&llc.cpus[0]);
            let caches = self.caches.iter().filter(holds);
            caches.max_by_key(|cache| cache.level)?.size_bytes
        };
        llcs.iter().map(last).collect()
    }

    /// Where the capacities were taken from.
    pub fn capacity_source(&self) -> CapacitySource {
        self.capacity_source
    }

    /// How the lab emulates it, if its file says so.
    pub fn lab(&self) -> Option<&Lab> {
        self.lab.as_ref()
    }

    /// What its file says of the hardware beyond this.
    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    fn position(&self, id: CpuId) -> Option<usize> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()
    }

    fn nr_groups(&self, level: &str) -> usize {
        self.level(level).map_or(0, |level| level.groups.len())
    }
}

/// How the lab emulates a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lab {
    /// Millions of instructions a second of a CPU with capacity 1024 that has its core for itself.
    pub mips: u32,
    /// What each further hardware thread that runs adds to the speed of a core, 0 to 100 %.
    pub smt_gain_percent: u32,
    /// Whether the guest's kernel takes each hardware thread for a core.
    pub hides_smt: bool,
}

impl Lab {
    /// With it two hardware threads together are 1.24 times as fast as one: between what Hyper-Threading gave the workloads
    /// of its first processors, 15 to 30 % (Marr et al., Intel Technology Journal 6(1), 2002).
    pub const SMT_GAIN_PERCENT: u32 = 24;
}

/// What a source has found, before it is checked. The only way to a [`Machine`].
pub(crate) struct Draft {
    pub name: String,
    pub description: String,
    /// Ascending.
    pub cpus: Vec<CpuId>,
    /// Parallel to `cpus`.
    pub capacities: Vec<u32>,
    pub capacity_source: CapacitySource,
    /// Outermost first.
    pub levels: Vec<Level>,
    pub caches: Vec<Cache>,
    pub offline: Vec<CpuId>,
    pub lab: Option<Lab>,
    pub hardware: Hardware,
}

impl Draft {
    /// Checks every rule of the crate's documentation. `place` is where the machine came from.
    pub fn build(mut self, place: &str) -> Result<Machine, Error> {
        check_cpus(&self.cpus, place)?;
        check_capacities(&self.cpus, &self.capacities, place)?;
        level::check_names(&self.levels, place)?;
        let indexes = index_levels(&self.cpus, &self.levels, place)?;
        let cpus = place_cpus(&self.cpus, &self.capacities, &self.levels, &indexes);
        self.caches
            .sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first().copied()));
        Ok(Machine {
            name: self.name,
            description: self.description,
            cpus,
            levels: self.levels,
            indexes,
            caches: self.caches,
            capacity_source: self.capacity_source,
            offline: self.offline,
            lab: self.lab,
            hardware: self.hardware,
        })
    }
}

fn check_cpus(cpus: &[CpuId], place: &str) -> Result<(), Error> {
    let place = || place.to_string();
    let Some(&last) = cpus.last() else {
        return Err(Error::NoCpus { place: place() });
    };
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(Error::DuplicateCpu {
            place: place(),
            cpu: pair[1],
        });
    }
    if last.0 >= MAX_CPUS {
        return Err(Error::TooManyCpus {
            place: place(),
            nr: (u64::from(last.0) + 1).to_string(),
        });
    }
    Ok(())
}

fn check_capacities(cpus: &[CpuId], capacities: &[u32], place: &str) -> Result<(), Error> {
    assert_eq!(
        cpus.len(),
        capacities.len(),
        "a source gives each CPU one capacity"
    );
    let fail = |problem: String| {
        Err(Error::Capacity {
            place: place.to_string(),
            problem,
        })
    };
    for (cpu, &capacity) in cpus.iter().zip(capacities) {
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            return fail(format!(
                "CPU {cpu} has capacity {capacity}, it must be 1 to {MAX_CAPACITY}"
            ));
        }
    }
    match capacities.iter().max() {
        Some(&MAX_CAPACITY) => Ok(()),
        fastest => fail(format!(
            "the fastest CPU must have capacity {MAX_CAPACITY}, not {}",
            fastest.unwrap_or(&0)
        )),
    }
}

fn index_levels(cpus: &[CpuId], levels: &[Level], place: &str) -> Result<Vec<Vec<u32>>, Error> {
    let indexes = levels
        .iter()
        .map(|level| level.index_of_each(cpus, place))
        .collect::<Result<Vec<_>, _>>()?;
    let all: Vec<_> = levels.iter().zip(indexes.iter().map(Vec::as_slice)).collect();
    // Neighbours would suffice. All pairs, outermost first, name the level that the user knows best.
    for (nr, &inner) in all.iter().enumerate() {
        for &outer in &all[..nr] {
            level::check_nesting(outer, inner, place)?;
        }
    }
    Ok(indexes)
}

fn place_cpus(ids: &[CpuId], capacities: &[u32], levels: &[Level], indexes: &[Vec<u32>]) -> Vec<Cpu> {
    let find = |name: &str| levels.iter().position(|level| level.name == name);
    let index = |name: &str, position: usize| find(name).map_or(0, |nr| indexes[nr][position]);
    let smt = |core: u32, id: CpuId| {
        let cpus = find(names::CORE).map_or(&[][..], |nr| levels[nr].groups[core as usize].cpus.as_slice());
        cpus.iter().take_while(|&&other| other < id).count() as u32
    };
    let place = |(position, (&id, &capacity))| {
        let core = index(names::CORE, position);
        Cpu {
            id,
            capacity,
            package: PackageId(index(names::PACKAGE, position)),
            node: NodeId(index(names::NUMA, position)),
            llc: LlcId(index(names::LLC, position)),
            core: CoreId(core),
            smt: smt(core, id),
        }
    };
    ids.iter().zip(capacities).enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(nr: u32) -> Draft {
        let cpus: Vec<_> = (0..nr).map(CpuId).collect();
        let one = vec![0; nr as usize];
        Draft {
            name: "test".to_string(),
            description: String::new(),
            capacities: vec![MAX_CAPACITY; cpus.len()],
            capacity_source: CapacitySource::Assumed,
            levels: vec![
                Level::from_keys("package", &cpus, &one),
                Level::from_keys("llc", &cpus, &one),
                Level::from_keys("core", &cpus, &cpus),
                Level::from_keys("pu", &cpus, &cpus),
            ],
            cpus,
            caches: Vec::new(),
            offline: Vec::new(),
            lab: None,
            hardware: Hardware::default(),
        }
    }

    fn refuse(draft: Draft, expected: &str) {
        assert_eq!(draft.build("test").unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_sound_draft_is_built() {
        let machine = draft(3).build("test").unwrap();
        assert_eq!(
            (
                machine.nr_cpus(),
                machine.nr_cores(),
                machine.nr_llcs(),
                machine.nr_nodes()
            ),
            (3, 3, 1, 1)
        );
        assert!(machine.is_symmetric() && !machine.has_smt());
        assert_eq!(machine.cpus_in("pu", 2), [CpuId(2)]);
        assert_eq!(machine.cpus_in("pu", 3), []);
        assert_eq!(machine.cpus_in("pipe", 0), []);
        assert_eq!(machine.siblings(CpuId(99)).count(), 0);
    }

    #[test]
    fn no_cpus() {
        refuse(
            draft(0),
            "test: there is no online CPU, and a machine has at least one",
        );
    }

    #[test]
    fn duplicate_cpus() {
        let mut wrong = draft(2);
        wrong.cpus[1] = CpuId(0);
        refuse(wrong, "test: CPU 0 is given twice");
    }

    #[test]
    fn too_many_cpus() {
        refuse(
            draft(MAX_CPUS + 1),
            "test: 8193 CPUs are too many, the limit is 8192",
        );
        draft(MAX_CPUS).build("test").unwrap();
    }

    #[test]
    fn capacities_out_of_range() {
        let mut wrong = draft(2);
        wrong.capacities[1] = 0;
        refuse(wrong, "test: CPU 1 has capacity 0, it must be 1 to 1024");
        let mut wrong = draft(2);
        wrong.capacities = vec![512, 256];
        refuse(wrong, "test: the fastest CPU must have capacity 1024, not 512");
    }

    #[test]
    fn a_core_across_packages() {
        let mut wrong = draft(2);
        wrong.levels[0] = Level::from_keys("package", &wrong.cpus, &[0, 1]);
        refuse(
            wrong,
            "test: llc 0 (CPUs 0-1) lies across package 0 and package 1, levels must nest",
        );
    }
}
