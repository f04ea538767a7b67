// SPDX-License-Identifier: GPL-2.0-only
//! Machines written as a string, in the style of hwloc(7): `package:2 llc:1 core:4 pu:2`.
//!
//! Each item is a level and how many of it each group of the level before has, outermost first. An
//! attribute in parentheses gives the size of a cache: `l3:1(size=8MB)`. hwloc's names are
//! understood (`socket`, `numanode`, `l3cache`), and `[numa]` as lstopo writes it, which is one node for each
//! group of the level before. Other names make levels of their own, such as `pipe` between core and pu.
//!
//! What is left out is filled in: one package; an LLC as large as the outermost L2, else as the
//! package; one CPU for each innermost group; a core for each CPU. CPUs are numbered in order of the
//! tree, so that SMT siblings are neighbours. hwloc's `indexes=` is refused rather than ignored.
//!
//! In sizes K, M, G, T are powers of 1024 however they are spelled (kB, KB, KiB), since caches come so;
//! recent versions of hwloc read kB as 1000.

use crate::error::{Error, shorten};
use crate::hardware::Hardware;
use crate::id::{CpuId, MAX_CPUS};
use crate::level::{Level, names};
use crate::machine::{Cache, CacheKind, CapacitySource, Draft, MAX_CAPACITY, Machine};

/// The most levels in a string; no known machine has half as many.
const MAX_LEVELS: usize = 32;
/// The longest name of a level, in characters.
const MAX_NAME_CHARS: usize = 32;
const L2: &str = "l2";

impl Machine {
    /// Reads a synthetic string such as `package:2 llc:1 core:4 pu:2`. All capacities are 1024.
    ///
    /// # Errors
    /// [`Error::Synthetic`] with the column, and [`Error::TooManyCpus`].
    pub fn from_synthetic(text: &str) -> Result<Machine, Error> {
        draft(text)?.build(&format!("topology \"{}\"", shorten(text)))
    }
}

/// The machine that a string describes, yet to be checked.
pub(crate) fn draft(text: &str) -> Result<Draft, Error> {
    let scanner = Scanner { text, at: 0 };
    let items = complete(text, scanner.items()?)?;
    let nr_cpus = count_cpus(text, &items)?;
    let cpus: Vec<_> = (0..nr_cpus).map(CpuId).collect();
    let mut levels = Vec::new();
    let mut caches = Vec::new();
    let mut nr_groups = 1;
    for item in &items {
        nr_groups *= item.count as u32;
        let level = even_level(&item.name, &cpus, nr_groups);
        caches.extend(caches_of(item, &level));
        levels.push(level);
    }
    Ok(Draft {
        name: text.split_whitespace().collect::<Vec<_>>().join(" "),
        description: String::new(),
        capacities: vec![MAX_CAPACITY; cpus.len()],
        capacity_source: CapacitySource::Assumed,
        cpus,
        levels,
        caches,
        offline: Vec::new(),
        lab: None,
        hardware: Hardware::default(),
    })
}

/// One item of the string.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    name: String,
    /// For each group of the level before; saturates at the highest number.
    count: u64,
    /// Level and kind, when the name is that of a cache.
    cache: Option<(u8, CacheKind)>,
    size_bytes: Option<u64>,
    /// Byte offset in the string.
    at: usize,
}

impl Item {
    fn implied(name: &str) -> Item {
        Item {
            name: name.to_string(),
            count: 1,
            cache: None,
            size_bytes: None,
            at: 0,
        }
    }
}

fn fail(text: &str, at: usize, problem: impl Into<String>) -> Error {
    let column = text.get(..at).map_or(1, |before| before.chars().count() + 1);
    Error::Synthetic {
        text: shorten(text),
        column,
        problem: problem.into(),
    }
}

/// Checks the order of the levels and fills in those that are left out.
fn complete(text: &str, mut items: Vec<Item>) -> Result<Vec<Item>, Error> {
    check_order(text, &items)?;
    let position = |items: &[Item], name: &str| items.iter().position(|item| item.name == name);
    if position(&items, names::LLC).is_none()
        && let Some(l2) = position(&items, L2)
        && position(&items, names::CORE).is_none_or(|core| l2 < core)
    {
        items[l2].name = names::LLC.to_string();
    }
    let package = position(&items, names::PACKAGE).unwrap_or_else(|| {
        items.insert(0, Item::implied(names::PACKAGE));
        0
    });
    if position(&items, names::LLC).is_none() {
        items.insert(package + 1, Item::implied(names::LLC));
    }
    if position(&items, names::PU).is_none() {
        items.push(Item::implied(names::PU));
    }
    if position(&items, names::CORE).is_none() {
        let pu = items.len() - 1;
        let count = std::mem::replace(&mut items[pu].count, 1);
        items.insert(
            pu,
            Item {
                count,
                at: items[pu].at,
                ..Item::implied(names::CORE)
            },
        );
    }
    Ok(items)
}

fn check_order(text: &str, items: &[Item]) -> Result<(), Error> {
    if items.is_empty() {
        return Err(fail(
            text,
            0,
            "there is no level, write for example \"core:4 pu:2\"",
        ));
    }
    if let Some(item) = items.get(MAX_LEVELS) {
        return Err(fail(
            text,
            item.at,
            format!("there are more than {MAX_LEVELS} levels"),
        ));
    }
    for (nr, item) in items.iter().enumerate() {
        let before = &items[..nr];
        if before.iter().any(|other| other.name == item.name) {
            return Err(fail(
                text,
                item.at,
                format!("the level \"{}\" is there twice", item.name),
            ));
        }
        if before.iter().any(|other| other.name == names::PU) {
            return Err(fail(
                text,
                item.at,
                format!("\"{}\" follows \"pu\", which must be the last", item.name),
            ));
        }
        let is_around_core =
            [names::PACKAGE, names::NUMA, names::DIE, names::LLC].contains(&item.name.as_str());
        if is_around_core && before.iter().any(|other| other.name == names::CORE) {
            return Err(fail(
                text,
                item.at,
                format!("\"{}\" must stand before \"core\"", item.name),
            ));
        }
    }
    Ok(())
}

fn count_cpus(text: &str, items: &[Item]) -> Result<u32, Error> {
    let product = items
        .iter()
        .try_fold(1u64, |product, item| product.checked_mul(item.count));
    match product {
        Some(nr) if nr <= u64::from(MAX_CPUS) => Ok(nr as u32),
        _ => Err(Error::TooManyCpus {
            place: format!("topology \"{}\"", shorten(text)),
            nr: product
                .filter(|&nr| nr < u64::MAX)
                .map_or(format!("more than {}", u64::MAX), |nr| nr.to_string()),
        }),
    }
}

/// `nr_groups` groups of equal size, which divides the number of CPUs.
fn even_level(name: &str, cpus: &[CpuId], nr_groups: u32) -> Level {
    let size = cpus.len() as u32 / nr_groups;
    let keys: Vec<_> = cpus.iter().map(|cpu| cpu.0 / size).collect();
    Level::from_keys(name, cpus, &keys)
}

fn caches_of<'a>(item: &Item, level: &'a Level) -> impl Iterator<Item = Cache> + 'a {
    let size_bytes = item.size_bytes;
    item.cache.into_iter().flat_map(move |(cache_level, kind)| {
        level.groups().iter().map(move |group| Cache {
            level: cache_level,
            kind,
            size_bytes,
            cpus: group.cpus.clone(),
        })
    })
}

/// Reads the string from left to right. `at` is a byte offset and always at a character's start.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn items(mut self) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        self.take_while(char::is_whitespace);
        while self.peek().is_some() {
            items.push(if self.take('[') {
                self.bracketed()?
            } else {
                self.item()?
            });
            self.take_while(char::is_whitespace);
        }
        Ok(items)
    }

    /// `name:count` and perhaps `(attributes)`.
    fn item(&mut self) -> Result<Item, Error> {
        let mut item = self.name()?;
        if !self.take(':') {
            return Err(self.fail(format!(
                "a colon and a count must follow the level \"{}\"",
                item.name
            )));
        }
        item.count = self.count()?;
        self.attributes(&mut item)?;
        match self.peek() {
            Some(next) if !next.is_whitespace() && next != '[' => {
                Err(self.fail(format!("{next:?} does not belong here")))
            }
            _ => Ok(item),
        }
    }

    /// The inside of `[numa(...)]`.
    fn bracketed(&mut self) -> Result<Item, Error> {
        let mut item = self.name()?;
        self.attributes(&mut item)?;
        if item.name != names::NUMA {
            return Err(fail(self.text, item.at, "only a NUMA node may stand in brackets"));
        }
        if !self.take(']') {
            return Err(self.fail("the bracket is not closed"));
        }
        Ok(item)
    }

    fn name(&mut self) -> Result<Item, Error> {
        let at = self.at;
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) || word.len() > MAX_NAME_CHARS {
            let problem = format!(
                "the name of a level must stand here: a letter, then up to {} letters, digits, - or _",
                MAX_NAME_CHARS - 1
            );
            return Err(fail(self.text, at, problem));
        }
        let (name, cache) = canonical(&word.to_ascii_lowercase());
        Ok(Item {
            name,
            count: 1,
            cache,
            size_bytes: None,
            at,
        })
    }

    fn count(&mut self) -> Result<u64, Error> {
        let at = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() || digits.bytes().all(|digit| digit == b'0') {
            return Err(fail(self.text, at, "a count of 1 or more must stand here"));
        }
        Ok(digits.parse().unwrap_or(u64::MAX))
    }

    fn attributes(&mut self, item: &mut Item) -> Result<(), Error> {
        if !self.take('(') {
            return Ok(());
        }
        loop {
            self.take_while(char::is_whitespace);
            if self.take(')') {
                return Ok(());
            }
            let at = self.at;
            let attribute = self.take_while(|c| !c.is_whitespace() && c != ')');
            match attribute.split_once('=') {
                Some(("size", size)) => {
                    let problem = || {
                        fail(
                            self.text,
                            at,
                            format!("\"{}\" is not a size such as 8MB", shorten(size)),
                        )
                    };
                    item.size_bytes = Some(parse_size(size).ok_or_else(problem)?);
                }
                // The memory of a node changes nothing that we decide.
                Some(("memory", _)) => {}
                _ if attribute.is_empty() => return Err(self.fail("the parenthesis is not closed")),
                _ => {
                    let problem = format!(
                        "the attribute \"{}\" is not understood, only size= and memory= are",
                        shorten(attribute)
                    );
                    return Err(fail(self.text, at, problem));
                }
            }
        }
    }

    fn fail(&self, problem: impl Into<String>) -> Error {
        fail(self.text, self.at, problem)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.at += if is_there { wanted.len_utf8() } else { 0 };
        is_there
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
}

/// Our name for a level and, when it is a cache, which.
fn canonical(name: &str) -> (String, Option<(u8, CacheKind)>) {
    let (name, cache) = match name {
        "package" | "pack" | "socket" => (names::PACKAGE, None),
        "numa" | "numanode" | "node" => (names::NUMA, None),
        "llc" | "l3" | "l3cache" => (names::LLC, Some((3, CacheKind::Unified))),
        "l2" | "l2cache" => (L2, Some((2, CacheKind::Unified))),
        "l1" | "l1d" | "l1cache" | "l1dcache" => ("l1d", Some((1, CacheKind::Data))),
        "l1i" | "l1icache" => ("l1i", Some((1, CacheKind::Instruction))),
        "pu" | "thread" => (names::PU, None),
        other => (other, None),
    };
    (name.to_string(), cache)
}

/// Bytes: a number, then perhaps K, M, G or T, then perhaps iB or B. Powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level_names(machine: &Machine) -> Vec<&str> {
        machine.levels().iter().map(|level| level.name()).collect()
    }

    #[test]
    fn the_documented_example() {
        let machine = Machine::from_synthetic("package:2 llc:1 core:4 pu:2").unwrap();
        assert_eq!(
            (
                machine.nr_packages(),
                machine.nr_llcs(),
                machine.nr_cores(),
                machine.nr_cpus()
            ),
            (2, 2, 8, 16)
        );
        assert_eq!(machine.siblings(CpuId(5)).collect::<Vec<_>>(), [CpuId(4)]);
        assert_eq!(machine.cpu(CpuId(5)).unwrap().smt, 1);
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let cases = [
            ("core:8", vec!["package", "llc", "core", "pu"], (1, 1, 8, 8)),
            ("pu:3", vec!["package", "llc", "core", "pu"], (1, 1, 3, 3)),
            (
                "package:2 l2:2 core:2",
                vec!["package", "llc", "core", "pu"],
                (2, 4, 8, 8),
            ),
            (
                "numa:2 core:2 pipe:2 pu:4",
                vec!["package", "llc", "numa", "core", "pipe", "pu"],
                (1, 1, 4, 32),
            ),
            (
                "llc:1 package:2 core:1",
                vec!["llc", "package", "core", "pu"],
                (2, 1, 2, 2),
            ),
        ];
        for (text, levels, (packages, llcs, cores, cpus)) in cases {
            let machine = Machine::from_synthetic(text).unwrap();
            assert_eq!(level_names(&machine), levels, "{text}");
            let found = (
                machine.nr_packages(),
                machine.nr_llcs(),
                machine.nr_cores(),
                machine.nr_cpus(),
            );
            assert_eq!(found, (packages, llcs, cores, cpus), "{text}");
        }
    }

    #[test]
    fn what_lstopo_writes() {
        let text = "Package:1 [NUMANode(memory=16G indexes)] L3Cache:1(size=33554432) L2Cache:2(size=1048576) Core:1 PU:2";
        assert!(
            Machine::from_synthetic(text)
                .unwrap_err()
                .to_string()
                .contains("\"indexes\" is not understood")
        );
        let machine = Machine::from_synthetic(&text.replace(" indexes", "")).unwrap();
        assert_eq!(
            level_names(&machine),
            ["package", "numa", "llc", "l2", "core", "pu"]
        );
        let sizes: Vec<_> = machine
            .caches()
            .iter()
            .map(|cache| (cache.level, cache.size_bytes))
            .collect();
        assert_eq!(
            sizes,
            [(2, Some(1 << 20)), (2, Some(1 << 20)), (3, Some(32 << 20))]
        );
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("8MB", 8 << 20),
            ("8MiB", 8 << 20),
            ("48K", 48 << 10),
            ("7", 7),
            ("1GB", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "MB", "-1", "8XB", "99999999999999999999", "99999999999TB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn errors_name_the_column() {
        let cases = [
            ("", 1, "there is no level"),
            ("core:4 core:2", 8, "the level \"core\" is there twice"),
            (
                "package:2 core:2 package:2",
                18,
                "the level \"package\" is there twice",
            ),
            ("socket:2 package:2", 10, "the level \"package\" is there twice"),
            ("core:2 package:2", 8, "\"package\" must stand before \"core\""),
            ("pu:2 core:2", 6, "\"core\" follows \"pu\""),
            ("core", 5, "a colon and a count must follow"),
            ("core:0", 6, "a count of 1 or more"),
            ("core:-1", 6, "a count of 1 or more"),
            ("é:1", 1, "the name of a level"),
            ("core:4;pu:2", 7, "';' does not belong here"),
            ("l3:1(size=8XB)", 6, "\"8XB\" is not a size"),
            ("l3:1(size=8MB", 14, "the parenthesis is not closed"),
            ("[core] pu:2", 2, "only a NUMA node"),
            ("[numa pu:2", 6, "the bracket is not closed"),
        ];
        for (text, expected_column, expected) in cases {
            match Machine::from_synthetic(text) {
                Err(Error::Synthetic { column, problem, .. }) => {
                    assert_eq!(column, expected_column, "{text}: {problem}");
                    assert!(problem.contains(expected), "{text}: {problem}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn too_many_cpus_are_refused_before_they_are_made() {
        let message = |text: &str| Machine::from_synthetic(text).unwrap_err().to_string();
        assert_eq!(
            message("core:10000"),
            "topology \"core:10000\": 10000 CPUs are too many, the limit is 8192"
        );
        assert!(message("core:100000000 pu:100000000").contains("10000000000000000 CPUs are too many"));
        let beyond = "more than 18446744073709551615 CPUs are too many";
        assert!(message("core:10000000000 pu:10000000000").contains(beyond));
        assert!(message("core:99999999999999999999999").contains(beyond));
        assert_eq!(Machine::from_synthetic("core:4096 pu:2").unwrap().nr_cpus(), 8192);
    }

    #[test]
    fn too_many_levels_are_refused() {
        let text: Vec<_> = (0..=MAX_LEVELS).map(|nr| format!("x{nr}:1")).collect();
        let error = Machine::from_synthetic(&text.join(" ")).unwrap_err();
        assert!(error.to_string().contains("more than 32 levels"), "{error}");
    }
}
