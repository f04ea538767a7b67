// SPDX-License-Identifier: GPL-2.0-only
//! Machine files: TOML with a synthetic string, capacities, and how fast the lab runs the machine.
//!
//! ```toml
//! name = "amp-8"
//! description = "Eight cores, one of them twice as fast"
//! topology = "package:1 llc:1 core:8 pu:1"
//! [[capacity]]         # CPUs that no entry names have 1024
//! cpus = "1-7"
//! capacity = 512
//! [lab]
//! mips = 200           # of a CPU with capacity 1024, in millions of instructions a second
//! smt_gain_percent = 24  # what each further hardware thread (or pipe, if those share) that runs adds to a core (24)
//! hides_smt = false    # whether the guest's kernel takes each hardware thread for a core (false)
//! ```
//!
//! What else the hardware shares, its memory, its acceleration and its power are in `hardware.rs`.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::cpulist;
use crate::error::Error;
use crate::hardware::{AccelerationEntry, Entries, MemoryEntry, PowerEntry, SharingEntry};
use crate::machine::{CapacitySource, Draft, Lab, MAX_CAPACITY, Machine};
use crate::synthetic;

/// The largest machine file, in bytes. Keeps a wrong path (a disk, a FIFO) from filling the memory.
const MAX_BYTES: u64 = 1 << 20;
/// The highest rate, in millions of instructions a second: well beyond any processor.
const MAX_MIPS: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    description: Option<Spanned<String>>,
    topology: Spanned<String>,
    #[serde(default)]
    capacity: Vec<CapacityEntry>,
    lab: Option<LabEntry>,
    #[serde(default)]
    sharing: Vec<SharingEntry>,
    memory: Option<MemoryEntry>,
    acceleration: Option<AccelerationEntry>,
    power: Option<PowerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CapacityEntry {
    cpus: Spanned<String>,
    capacity: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabEntry {
    mips: Spanned<u32>,
    smt_gain_percent: Option<Spanned<u32>>,
    #[serde(default)]
    hides_smt: bool,
}

impl Machine {
    /// Reads the text of a machine file; `place` names it in errors.
    ///
    /// # Errors
    /// [`Error::MachineFile`] with line and key.
    pub fn from_toml(text: &str, place: &str) -> Result<Machine, Error> {
        parse(text, place)
    }

    /// Reads a machine file. The files in `machines/` are examples.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::MachineFile`] with line and key.
    pub fn from_file(path: &Path) -> Result<Machine, Error> {
        let read_error = |source| Error::Read {
            path: path.to_path_buf(),
            source,
        };
        let file = std::fs::File::open(path).map_err(read_error)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(read_error)?;
        let place = path.display().to_string();
        if bytes.len() as u64 > MAX_BYTES {
            return Err(fail(
                &place,
                1,
                None,
                format!("the file has more than {MAX_BYTES} bytes"),
            ));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::from_toml(&text, &place),
            Err(error) => {
                let good = error.utf8_error().valid_up_to();
                let line = 1 + error.as_bytes()[..good]
                    .iter()
                    .filter(|&&byte| byte == b'\n')
                    .count();
                Err(fail(&place, line, None, "the text is not UTF-8".to_string()))
            }
        }
    }
}

fn parse(text: &str, place: &str) -> Result<Machine, Error> {
    let at = |span: Range<usize>, key: &str, problem: String| {
        fail(place, line_of(text, span.start), Some(key), problem)
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        fail(
            place,
            line_of(text, start),
            key_at(text, start),
            error.message().to_string(),
        )
    })?;
    if file.name.get_ref().trim().is_empty() {
        return Err(at(
            file.name.span(),
            "name",
            "a machine must have a name".to_string(),
        ));
    }
    for (key, value) in [
        ("name", Some(&file.name)),
        ("description", file.description.as_ref()),
    ] {
        // They are printed on terminals.
        if let Some(value) = value.filter(|value| value.get_ref().contains(char::is_control)) {
            return Err(at(
                value.span(),
                key,
                "it must be one line without control characters".to_string(),
            ));
        }
    }
    let topology = file.topology.get_ref();
    let mut draft = synthetic::draft(topology)
        .map_err(|error| at(file.topology.span(), "topology", error.to_string()))?;
    apply_capacities(&mut draft, &file.capacity, &at)?;
    draft.lab = file.lab.as_ref().map(|entry| lab(entry, &at)).transpose()?;
    let entries = Entries {
        sharing: &file.sharing,
        memory: file.memory.as_ref(),
        acceleration: file.acceleration.as_ref(),
        power: file.power.as_ref(),
    };
    draft.hardware = entries.read(&draft.levels, &at)?;
    draft.name = file.name.into_inner();
    draft.description = file.description.map(Spanned::into_inner).unwrap_or_default();
    draft.build(place)
}

fn lab(entry: &LabEntry, at: &impl Fn(Range<usize>, &str, String) -> Error) -> Result<Lab, Error> {
    let mips = *entry.mips.get_ref();
    if !(1..=MAX_MIPS).contains(&mips) {
        let problem = format!("{mips} is not within 1 and {MAX_MIPS}");
        return Err(at(entry.mips.span(), "lab.mips", problem));
    }
    if let Some(gain) = entry
        .smt_gain_percent
        .as_ref()
        .filter(|gain| *gain.get_ref() > 100)
    {
        let problem = format!("{} is not within 0 and 100", gain.get_ref());
        return Err(at(gain.span(), "lab.smt_gain_percent", problem));
    }
    Ok(Lab {
        mips,
        smt_gain_percent: entry
            .smt_gain_percent
            .as_ref()
            .map_or(Lab::SMT_GAIN_PERCENT, |gain| *gain.get_ref()),
        hides_smt: entry.hides_smt,
    })
}

fn apply_capacities(
    draft: &mut Draft,
    entries: &[CapacityEntry],
    at: &impl Fn(Range<usize>, &str, String) -> Error,
) -> Result<(), Error> {
    let mut given = vec![false; draft.cpus.len()];
    for (nr, entry) in entries.iter().enumerate() {
        let wrong_cpus = |problem: String| at(entry.cpus.span(), &format!("capacity[{nr}].cpus"), problem);
        let capacity = *entry.capacity.get_ref();
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            let problem = format!("{capacity} is not within 1 and {MAX_CAPACITY}");
            return Err(at(
                entry.capacity.span(),
                &format!("capacity[{nr}].capacity"),
                problem,
            ));
        }
        let cpus = cpulist::parse(entry.cpus.get_ref()).map_err(|error| wrong_cpus(error.to_string()))?;
        if cpus.is_empty() {
            return Err(wrong_cpus("the list names no CPU".to_string()));
        }
        for cpu in cpus {
            let Ok(position) = draft.cpus.binary_search(&cpu) else {
                return Err(wrong_cpus(format!(
                    "the machine has no CPU {cpu}, only {}",
                    cpulist::format(&draft.cpus)
                )));
            };
            if std::mem::replace(&mut given[position], true) {
                return Err(wrong_cpus(format!("an earlier entry gives CPU {cpu} a capacity")));
            }
            draft.capacities[position] = capacity;
        }
        draft.capacity_source = CapacitySource::MachineFile;
    }
    match (entries.first(), draft.capacities.iter().max()) {
        (Some(first), Some(&fastest)) if fastest < MAX_CAPACITY => {
            let problem = format!("the fastest CPU must have {MAX_CAPACITY}, not {fastest}");
            Err(at(first.capacity.span(), "capacity", problem))
        }
        _ => Ok(()),
    }
}

fn fail(place: &str, line: usize, key: Option<&str>, problem: String) -> Error {
    Error::MachineFile {
        path: place.to_string(),
        line,
        key: key.map(str::to_string),
        problem,
    }
}

/// The key of the line with this byte offset, if it has one.
fn key_at(text: &str, offset: usize) -> Option<&str> {
    let nth = line_of(text, offset) - 1;
    let (key, _) = text.lines().nth(nth)?.split_once('=')?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.\"' ".contains(c);
    Some(key.trim()).filter(|key| !key.is_empty() && key.chars().all(is_key))
}

/// The line, from 1, of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"m\"\ndescription = \"d\"\ntopology = \"core:4 pu:2\"\n\
                        [[capacity]]\ncpus = \"0-1\"\ncapacity = 1024\n\
                        [[capacity]]\ncpus = \"2-7\"\ncapacity = 512\n[lab]\nmips = 100\n";

    fn refuse(from: &str, to: &str, expected: &str) {
        assert!(GOOD.contains(from), "{from}");
        let error = Machine::from_toml(&GOOD.replace(from, to), "m.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_good_file() {
        let machine = Machine::from_toml(GOOD, "m.toml").unwrap();
        assert_eq!(
            (
                machine.name(),
                machine.description(),
                machine.lab().map(|lab| lab.mips)
            ),
            ("m", "d", Some(100))
        );
        assert_eq!(
            machine.cpus().iter().map(|cpu| cpu.capacity).sum::<u32>(),
            2 * 1024 + 6 * 512
        );
        assert_eq!(machine.capacity_source(), CapacitySource::MachineFile);
        let plain = Machine::from_toml("name = \"p\"\ntopology = \"core:2\"\n", "p.toml").unwrap();
        assert_eq!(
            (plain.capacity_source(), plain.lab()),
            (CapacitySource::Assumed, None)
        );
    }

    #[test]
    fn errors_name_line_and_key() {
        refuse(
            "core:4 pu:2",
            "core:4 pu",
            "m.toml:3: topology: topology \"core:4 pu\", column 10: a colon",
        );
        refuse(
            "0-1",
            "0-x",
            "m.toml:5: capacity[0].cpus: CPU list \"0-x\", column 1",
        );
        refuse("0-1", "", "m.toml:5: capacity[0].cpus: the list names no CPU");
        refuse(
            "2-7",
            "2-8",
            "m.toml:8: capacity[1].cpus: the machine has no CPU 8, only 0-7",
        );
        refuse(
            "2-7",
            "1-7",
            "m.toml:8: capacity[1].cpus: an earlier entry gives CPU 1 a capacity",
        );
        refuse(
            "= 512",
            "= \"x\"",
            "m.toml:9: capacity: invalid type: string \"x\"",
        );
        refuse(
            "mips = 100",
            "mips = -1",
            "m.toml:11: mips: invalid value: integer `-1`",
        );
        refuse(
            "= 512",
            "= 0",
            "m.toml:9: capacity[1].capacity: 0 is not within 1 and 1024",
        );
        refuse(
            "= 512",
            "= 1025",
            "m.toml:9: capacity[1].capacity: 1025 is not within",
        );
        refuse(
            "= 1024",
            "= 1000",
            "m.toml:6: capacity: the fastest CPU must have 1024, not 1000",
        );
        refuse("= 100", "= 0", "m.toml:11: lab.mips: 0 is not within");
        refuse(
            "= 100",
            "= 100\nsmt_gain_percent = 150",
            "m.toml:12: lab.smt_gain_percent: 150 is not within",
        );
        refuse(
            "name = \"m\"",
            "name = \" \"",
            "m.toml:1: name: a machine must have a name",
        );
        refuse("\"m\"", "\"m\\u001b\"", "m.toml:1: name: it must be one line");
        refuse("\"d\"", "\"d\\nd\"", "m.toml:2: description: it must be one line");
        refuse("mips", "mops", "m.toml:11: mops: unknown field `mops`");
        refuse("= 512", "= -1", "m.toml:9: ");
        refuse("= 512", "= ", "m.toml:9: ");
        refuse(
            "topology",
            "topologie",
            "m.toml:3: topologie: unknown field `topologie`",
        );
    }

    #[test]
    fn a_file_that_is_too_large_or_not_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.toml");
        std::fs::write(&path, vec![b'\n'; MAX_BYTES as usize + 1]).unwrap();
        assert!(
            Machine::from_file(&path)
                .unwrap_err()
                .to_string()
                .contains("more than 1048576 bytes")
        );
        std::fs::write(&path, b"name = 1\n\xff").unwrap();
        assert!(
            Machine::from_file(&path)
                .unwrap_err()
                .to_string()
                .ends_with("m.toml:2: the text is not UTF-8")
        );
        assert!(matches!(
            Machine::from_file(folder.path()),
            Err(Error::Read { .. })
        ));
    }
}
