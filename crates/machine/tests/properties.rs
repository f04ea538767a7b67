// SPDX-License-Identifier: GPL-2.0-only
//! What holds for any input: no parser panics, and whatever is accepted obeys the rules of the crate.
// clippy.toml allows unwrap in test functions, but not in the functions that they share.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use threadwise_machine::{CpuId, MAX_CAPACITY, MAX_CPUS, Machine, cpulist};

/// A machine as plain data, so that the checker can be shown to catch a broken one.
struct Facts {
    /// Id and capacity.
    cpus: Vec<(u32, u32)>,
    /// Outermost first: name, and the CPUs of each group.
    levels: Vec<(String, Vec<Vec<u32>>)>,
}

impl Facts {
    fn of(machine: &Machine) -> Facts {
        let ids = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
        let groups =
            |level: &threadwise_machine::Level| level.groups().iter().map(|group| ids(&group.cpus)).collect();
        Facts {
            cpus: machine
                .cpus()
                .iter()
                .map(|cpu| (cpu.id.0, cpu.capacity))
                .collect(),
            levels: machine
                .levels()
                .iter()
                .map(|level| (level.name().to_string(), groups(level)))
                .collect(),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.check_cpus()?;
        for (name, groups) in &self.levels {
            self.check_partition(name, groups)?;
        }
        for pair in self.levels.windows(2) {
            check_nesting(&pair[0], &pair[1])?;
        }
        let is_there = |name: &str| self.levels.iter().filter(|level| level.0 == name).count() == 1;
        match ["package", "llc", "core", "pu"]
            .into_iter()
            .find(|name| !is_there(name))
        {
            Some(missing) => Err(format!("{missing} is not there once")),
            None => Ok(()),
        }
    }

    fn check_cpus(&self) -> Result<(), String> {
        if self.cpus.is_empty() || self.cpus.len() > MAX_CPUS as usize {
            return Err(format!("{} CPUs", self.cpus.len()));
        }
        if !self.cpus.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("the CPUs do not ascend".to_string());
        }
        let fastest = self.cpus.iter().map(|cpu| cpu.1).max();
        if fastest != Some(MAX_CAPACITY) || self.cpus.iter().any(|cpu| cpu.1 == 0) {
            return Err("the capacities are out of range".to_string());
        }
        Ok(())
    }

    fn check_partition(&self, name: &str, groups: &[Vec<u32>]) -> Result<(), String> {
        let mut members: Vec<_> = groups.iter().flatten().copied().collect();
        members.sort_unstable();
        if !members.iter().eq(self.cpus.iter().map(|cpu| &cpu.0)) || groups.iter().any(Vec::is_empty) {
            return Err(format!("{name} is no partition"));
        }
        Ok(())
    }
}

fn check_nesting(outer: &(String, Vec<Vec<u32>>), inner: &(String, Vec<Vec<u32>>)) -> Result<(), String> {
    let home = |cpu: u32| outer.1.iter().position(|group| group.contains(&cpu));
    for group in &inner.1 {
        if group.iter().any(|&cpu| home(cpu) != home(group[0])) {
            return Err(format!("{} lies across {}", inner.0, outer.0));
        }
    }
    Ok(())
}

/// Every rendering and look-up, for their panics.
fn exercise(machine: &Machine) {
    let _ = (machine.render_tree(), machine.summary());
    serde_json::to_string(machine).unwrap();
    for cpu in machine.cpus() {
        assert!(machine.core_cpus(cpu.core).contains(&cpu.id));
        assert!(machine.llc_cpus(cpu.llc).contains(&cpu.id));
        assert!(machine.package_cpus(cpu.package).contains(&cpu.id));
        assert_eq!(machine.core_cpus(cpu.core)[cpu.smt as usize], cpu.id);
        assert_eq!(
            machine.siblings(cpu.id).count(),
            machine.core_cpus(cpu.core).len() - 1
        );
    }
}

/// All sorts of levels at once, at the limit of CPUs.
#[test]
fn the_largest_machine() {
    let text = "package:8 numa:2 l3:4(size=1GB) l2:16(size=1MB) core:2 l1d:1 pipe:2 pu:2";
    let machine = Machine::from_synthetic(text).unwrap();
    assert_eq!(machine.nr_cpus(), MAX_CPUS as usize);
    exercise(&machine);
}

proptest! {
    /// Whatever CPUs of it are used, it is a machine, and what they share they shared before.
    #[test]
    fn a_part_of_a_machine_is_one(used in prop::collection::vec(0..24_u32, 0..24)) {
        let whole = Machine::from_synthetic("package:2 llc:2 core:3 pu:2").unwrap();
        let used: Vec<CpuId> = used.into_iter().map(CpuId).collect();
        let Ok(part) = whole.within(&used) else {
            prop_assert!(used.is_empty());
            return Ok(());
        };
        prop_assert_eq!(Facts::of(&part).check(), Ok(()));
        exercise(&part);
        prop_assert_eq!(part.nr_cpus() + part.offline().len(), whole.nr_cpus());
        for cpu in part.cpus() {
            prop_assert!(used.contains(&cpu.id));
            for &other in part.llc_cpus(cpu.llc) {
                prop_assert_eq!(whole.cpu(cpu.id).map(|cpu| cpu.llc), whole.cpu(other).map(|cpu| cpu.llc));
            }
        }
    }
}

#[test]
fn of_the_slow_cpus_alone_the_fastest_is_as_fast_as_any() {
    let machine = Machine::load("amp-8").unwrap();
    let capacities =
        |machine: &Machine| -> Vec<u32> { machine.cpus().iter().map(|cpu| cpu.capacity).collect() };
    let whole = capacities(&machine);
    let slow: Vec<CpuId> = (machine.cpus().iter())
        .filter(|cpu| cpu.capacity < MAX_CAPACITY)
        .map(|cpu| cpu.id)
        .collect();
    let part = machine.within(&slow).unwrap();
    assert_eq!(capacities(&part), vec![MAX_CAPACITY; slow.len()]);
    assert_eq!(capacities(&machine), whole);
    let error = part.within(&[CpuId(900)]).unwrap_err().to_string();
    assert!(
        error.starts_with("amp-8 has no online CPU 900: it has "),
        "{error}"
    );
}

#[test]
fn the_checker_catches_what_is_broken() {
    let broken = |break_it: fn(&mut Facts), expected: &str| {
        let mut facts = Facts::of(&Machine::from_synthetic("package:2 core:2 pu:2").unwrap());
        facts.check().unwrap();
        break_it(&mut facts);
        assert_eq!(facts.check().unwrap_err(), expected);
    };
    broken(|facts| facts.cpus.clear(), "0 CPUs");
    broken(|facts| facts.cpus.swap(0, 1), "the CPUs do not ascend");
    broken(|facts| facts.cpus[3].0 = 2, "the CPUs do not ascend");
    broken(|facts| facts.cpus[3].1 = 0, "the capacities are out of range");
    broken(
        |facts| facts.cpus.iter_mut().for_each(|cpu| cpu.1 = 512),
        "the capacities are out of range",
    );
    broken(|facts| facts.levels[2].1[0].truncate(1), "core is no partition");
    broken(|facts| facts.levels[2].1[0].push(7), "core is no partition");
    broken(|facts| facts.levels[2].1.push(Vec::new()), "core is no partition");
    broken(
        |facts| facts.levels[2].1 = vec![vec![0, 1], vec![2, 4], vec![3, 5], vec![6, 7]],
        "core lies across llc",
    );
    broken(|facts| facts.levels.truncate(3), "pu is not there once");
}

/// Strings that look like a topology more often than not.
fn nearly_synthetic() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "package", "socket", "numa", "llc", "l3", "l2", "l1d", "core", "pipe", "pu", "[numa]", "é", "",
    ]);
    let rest = prop::sample::select(vec![
        ":1",
        ":2",
        ":3",
        ":1(size=8MB)",
        ":0",
        ":9999999999",
        ":-1",
        "",
        "(",
        ":2(x)",
        ":4(size=1",
    ]);
    prop::collection::vec((name, rest), 0..6).prop_map(|items| {
        items
            .into_iter()
            .map(|(name, rest)| format!("{name}{rest} "))
            .collect()
    })
}

/// Counts for package, llc, core and pu.
fn counts() -> impl Strategy<Value = [u32; 4]> {
    (1u32..4, 1u32..4, 1u32..7, 1u32..5).prop_map(|(package, llc, core, pu)| [package, llc, core, pu])
}

fn synthetic([package, llc, core, pu]: [u32; 4]) -> String {
    format!("package:{package} llc:{llc} core:{core} pu:{pu}")
}

fn unpack(name: &str, root: &Path) -> Vec<std::path::PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/topologies")
        .join(name)
        .join("tree");
    let text = fs::read_to_string(tree).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(path, _)| path.starts_with("sys/"));
    lines
        .map(|(path, content)| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content.trim()).unwrap();
            path
        })
        .collect()
}

proptest! {
    #[test]
    fn any_string_as_topology(text in any::<String>()) {
        let _ = Machine::from_synthetic(&text).map(|machine| exercise(&machine));
    }

    #[test]
    fn nearly_a_topology(text in nearly_synthetic()) {
        if let Ok(machine) = Machine::from_synthetic(&text) {
            Facts::of(&machine).check().map_err(TestCaseError::fail)?;
            exercise(&machine);
        }
    }

    #[test]
    fn a_topology_has_as_many_cpus_as_its_counts_multiply_to(counts in counts()) {
        let machine = Machine::from_synthetic(&synthetic(counts)).unwrap();
        Facts::of(&machine).check().map_err(TestCaseError::fail)?;
        let [package, llc, core, pu] = counts.map(|count| count as usize);
        prop_assert_eq!(machine.nr_packages(), package);
        prop_assert_eq!(machine.nr_llcs(), package * llc);
        prop_assert_eq!(machine.nr_cores(), package * llc * core);
        prop_assert_eq!(machine.nr_cpus(), package * llc * core * pu);
    }

    #[test]
    fn any_string_as_list(text in any::<String>()) {
        let _ = cpulist::parse(&text);
    }

    #[test]
    fn nearly_a_list(text in "[0-9,\\- ]{0,24}") {
        if let Ok(cpus) = cpulist::parse(&text) {
            prop_assert_eq!(cpulist::parse(&cpulist::format(&cpus)), Ok(cpus));
        }
    }

    #[test]
    fn a_list_that_is_written_reads_the_same(ids in prop::collection::btree_set(0..MAX_CPUS, 0..64)) {
        let cpus: Vec<_> = ids.into_iter().map(CpuId).collect();
        prop_assert_eq!(cpulist::parse(&cpulist::format(&cpus)), Ok(cpus));
    }
}

proptest! {
    // These write files, the last one a tree of some hundred.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_bytes_as_machine_file(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        fs::write(&path, bytes).unwrap();
        prop_assert!(Machine::from_file(&path).is_err());
    }

    #[test]
    fn a_machine_file_says_what_the_machine_is(
        counts in counts(),
        capacities in prop::collection::vec(1..=MAX_CAPACITY, 432),
        mips in 1u32..=1_000_000,
    ) {
        let nr_cpus = counts.iter().product::<u32>() as usize;
        let mut capacities = capacities[..nr_cpus].to_vec();
        capacities[nr_cpus / 2] = MAX_CAPACITY;
        let mut text = format!("name = \"m\"\ntopology = \"{}\"\nlab.mips = {mips}\n", synthetic(counts));
        for (cpu, capacity) in capacities.iter().enumerate() {
            text += &format!("[[capacity]]\ncpus = \"{cpu}\"\ncapacity = {capacity}\n");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        fs::write(&path, text).unwrap();
        let machine = Machine::from_file(&path).unwrap();
        Facts::of(&machine).check().map_err(TestCaseError::fail)?;
        let found: Vec<_> = machine.cpus().iter().map(|cpu| cpu.capacity).collect();
        prop_assert_eq!(found, capacities);
        prop_assert_eq!(machine.lab().unwrap().mips, mips);
        let plain = Machine::from_synthetic(&synthetic(counts)).unwrap();
        prop_assert_eq!(machine.levels(), plain.levels());
    }

    #[test]
    fn a_tree_with_any_file_spoilt(
        name in prop::sample::select(vec!["smt", "hybrid", "holes", "offline", "vm-recorded"]),
        victim in any::<prop::sample::Index>(),
        content in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[0-9,\\-]{0,8}".prop_map(String::into_bytes),
        ],
    ) {
        let root = tempfile::tempdir().unwrap();
        let files = unpack(name, root.path());
        fs::write(victim.get(&files), content).unwrap();
        match Machine::from_sysfs(root.path()) {
            Ok(machine) => {
                Facts::of(&machine).check().map_err(TestCaseError::fail)?;
                exercise(&machine);
            }
            Err(error) => prop_assert!(error.to_string().contains(root.path().to_str().unwrap()), "{}", error),
        }
    }
}
