// SPDX-License-Identifier: GPL-2.0-only
//! Sysfs trees under tests/topologies, with what must come of each. Its README tells of the format.
// clippy.toml allows unwrap in test functions, but not in the functions that they share.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use threadwise_machine::{CapacitySource, CpuId, Error, Machine};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/topologies")
}

/// Writes the files that the text lists below `root`.
fn unpack(text: &str, root: &Path) {
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (path, content) = line
            .split_once(':')
            .unwrap_or_else(|| panic!("no colon in {line:?}"));
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{}\n", content.trim())).unwrap();
    }
}

fn unpacked(name: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    unpack(
        &fs::read_to_string(folder().join(name).join("tree")).unwrap(),
        root.path(),
    );
    root
}

fn load(name: &str) -> Result<Machine, Error> {
    Machine::from_sysfs(unpacked(name).path())
}

/// File name and content of what must come of a tree.
fn outcome(name: &str) -> (&'static str, String) {
    let root = unpacked(name);
    let hide = |text: String| text.replace(root.path().to_str().unwrap(), "ROOT");
    match Machine::from_sysfs(root.path()) {
        Ok(machine) => ("expected", hide(machine.render_tree())),
        Err(error) => ("error", hide(format!("{error}\n"))),
    }
}

#[test]
fn every_tree_gives_what_stands_beside_it() {
    let mut names: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 22, "trees are missing: {names:?}");
    for name in names {
        let (file, found) = outcome(&name);
        assert_eq!(file == "error", name.starts_with("broken-"), "{name}: {found}");
        let path = folder().join(&name).join(file);
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn capacities_come_from_the_best_source() {
    let cases = [
        ("big-little", CapacitySource::CpuCapacity, 446, 1024),
        ("hybrid", CapacitySource::AcpiCppc, 1024, 608),
        ("ranked-cores", CapacitySource::MaxFreq, 1024, 686),
        ("cluster-packages", CapacitySource::MaxFreq, 1024, 768),
        ("holes", CapacitySource::Assumed, 1024, 1024),
        ("vm-recorded", CapacitySource::CpuCapacity, 1024, 1024),
    ];
    for (name, source, first, last) in cases {
        let machine = load(name).unwrap();
        let cpus = machine.cpus();
        let found = (
            machine.capacity_source(),
            cpus[0].capacity,
            cpus[cpus.len() - 1].capacity,
        );
        assert_eq!(found, (source, first, last), "{name}");
    }
}

#[test]
fn a_source_that_one_cpu_lacks_gives_way_to_the_next() {
    let root = unpacked("hybrid");
    fs::remove_file(
        root.path()
            .join("sys/devices/system/cpu/cpu3/acpi_cppc/highest_perf"),
    )
    .unwrap();
    let machine = Machine::from_sysfs(root.path()).unwrap();
    assert_eq!(
        (machine.capacity_source(), machine.cpus()[15].capacity),
        (CapacitySource::MaxFreq, 778)
    );
}

#[test]
fn holes_in_the_numbering_do_not_show_in_the_indexes() {
    let machine = load("holes").unwrap();
    let last = machine.cpu(CpuId(65)).unwrap();
    assert_eq!(
        (last.package.0, last.node.0, last.llc.0, last.core.0, last.smt),
        (1, 1, 1, 2, 1)
    );
    assert_eq!(machine.level("package").unwrap().groups()[1].os_id, Some(4));
    assert_eq!(machine.cpu(CpuId(2)), None);
}

#[test]
fn offline_cpus_are_known_and_not_used() {
    let machine = load("offline").unwrap();
    assert_eq!(machine.offline(), [CpuId(3), CpuId(6)]);
    assert_eq!((machine.nr_cpus(), machine.nr_cores()), (6, 4));
    assert_eq!(machine.siblings(CpuId(0)).collect::<Vec<_>>(), [CpuId(4)]);
    assert_eq!(machine.siblings(CpuId(7)).count(), 0);
}

#[test]
fn the_lists_may_be_missing() {
    let text = fs::read_to_string(folder().join("numa-2x2/tree")).unwrap();
    let without: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("_list: ") || line.contains("shared"))
        .collect();
    let root = tempfile::tempdir().unwrap();
    unpack(&without.join("\n"), root.path());
    let by_id = Machine::from_sysfs(root.path()).unwrap();
    assert_eq!(by_id.levels(), load("numa-2x2").unwrap().levels());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let cpu1 = "sys/devices/system/cpu/cpu1";
    for file in [
        "topology/physical_package_id",
        "cache/index2/shared_cpu_list",
        "cpu_capacity",
    ] {
        let root = unpacked("vm-recorded");
        let path = root.path().join(cpu1).join(file);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = Machine::from_sysfs(root.path()).unwrap_err();
        assert!(
            matches!(&error, Error::Read { path: named, .. } if *named == path),
            "{error}"
        );
        fs::remove_dir(&path).unwrap();
        fs::write(&path, b"\xff\xfe\x00").unwrap();
        let error = Machine::from_sysfs(root.path()).unwrap_err();
        assert!(
            matches!(&error, Error::Value { path: named, .. } if *named == path),
            "{error}"
        );
        fs::write(&path, "9".repeat(100_000)).unwrap();
        let error = Machine::from_sysfs(root.path()).unwrap_err();
        assert!(error.to_string().contains("more than 65536 bytes"), "{error}");
    }
}

#[test]
fn a_folder_without_a_tree_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let error = Machine::from_sysfs(root.path()).unwrap_err().to_string();
    assert!(
        error.contains(" holds no sysfs tree: there is no sys/devices/system/cpu in it"),
        "{error}"
    );
}

#[test]
fn the_running_machine_loads() {
    let machine = Machine::load("host").unwrap();
    assert_eq!(machine.name(), "host");
    assert!(machine.nr_cpus() >= 1 && !machine.fastest().is_empty());
    assert!(machine.render_tree().starts_with("host\n"));
}
