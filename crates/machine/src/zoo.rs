// SPDX-License-Identifier: GPL-2.0-only
//! The machine files that are built in, so that an installed program has them.

use crate::error::Error;
use crate::machine::Machine;

macro_rules! zoo {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../machines/", $name, ".toml")))),*]
    };
}

/// Name and text of each file in `machines/`, sorted by name. A test compares it with the folder.
const ZOO: &[(&str, &str)] = zoo![
    "amp-8",
    "dual-smt",
    "dual-smt-hidden",
    "four-duals",
    "hybrid-8-hidden",
    "one-octo",
    "smp-8",
    "smt-8",
    "smt-8-hidden",
    "three-kinds",
    "two-duals",
    "two-quads",
    "ultrasparc-t2"
];

/// A machine of the zoo, for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooEntry {
    /// What [`Machine::load`] takes.
    pub name: String,
    /// One sentence.
    pub description: String,
}

/// The machines that are built in, by name.
///
/// # Errors
/// None in a build whose tests passed: they read every file.
pub fn list_zoo() -> Result<Vec<ZooEntry>, Error> {
    ZOO.iter()
        .map(|(name, text)| {
            let machine = Machine::from_toml(text, &format!("zoo/{name}.toml"))?;
            Ok(ZooEntry {
                name: machine.name,
                description: machine.description,
            })
        })
        .collect()
}

/// The machine with this name; none when the zoo has no such file.
pub(crate) fn find(name: &str) -> Option<Result<Machine, Error>> {
    let (_, text) = ZOO.iter().find(|(known, _)| *known == name)?;
    Some(Machine::from_toml(text, &format!("zoo/{name}.toml")))
}

/// The text of the file with this name; none when the zoo has no such file.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    let entry = ZOO.iter().find(|(known, _)| *known == name);
    entry.map(|(_, text)| *text)
}

/// The names, for an error message.
pub(crate) fn names() -> String {
    ZOO.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_built_in_and_named_as_its_machine() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_string))
            .collect();
        files.sort();
        let built_in: Vec<_> = list_zoo().unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(built_in, files);
    }

    #[test]
    fn the_first_machines() {
        let amp = find("amp-8").unwrap().unwrap();
        assert_eq!(amp.fastest(), [crate::CpuId(0)]);
        assert_eq!(
            amp.cpus().iter().map(|cpu| cpu.capacity).sum::<u32>(),
            1024 + 7 * 512
        );
        assert_eq!(amp.lab().unwrap().mips, 160);
        assert!(find("smp-8").unwrap().unwrap().is_symmetric());
        let smt = find("smt-8").unwrap().unwrap();
        assert_eq!((smt.nr_cores(), smt.nr_cpus(), smt.has_smt()), (4, 8, true));
    }

    #[test]
    fn the_machine_with_pipelines() {
        let t2 = find("ultrasparc-t2").unwrap().unwrap();
        let counts: Vec<_> = t2
            .levels()
            .iter()
            .map(|level| (level.name(), level.groups().len()))
            .collect();
        assert_eq!(
            counts,
            [("package", 1), ("llc", 1), ("core", 8), ("pipe", 16), ("pu", 64)]
        );
        assert_eq!(t2.cpus_in("pipe", 1), [4, 5, 6, 7].map(crate::CpuId));
        assert_eq!(t2.caches()[0].size_bytes, Some(4 << 20));
        assert_eq!(t2.lab().unwrap().mips, 20);
    }
}
