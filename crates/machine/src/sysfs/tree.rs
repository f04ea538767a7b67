// SPDX-License-Identifier: GPL-2.0-only
//! Reads single files of a sysfs tree: a number, a word, a list of CPUs. Absent is not an error here.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::cpulist;
use crate::error::{Error, shorten};
use crate::id::CpuId;

/// The largest file that is read. A list of 8192 CPUs with a hole after each has about 20,000 bytes.
const MAX_BYTES: u64 = 1 << 16;

/// A set of online CPUs, ascending. Shared: on a large machine thousands of files hold the same set.
pub(super) type CpuSet = Rc<[CpuId]>;

/// A folder that holds `sys/`. Paths are relative to it.
pub(super) struct Tree {
    root: PathBuf,
    /// Sets by the text that they were read from.
    known_sets: BTreeMap<String, CpuSet>,
}

impl Tree {
    pub fn new(root: &Path) -> Tree {
        Tree {
            root: root.to_path_buf(),
            known_sets: BTreeMap::new(),
        }
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Whether there is such a file or folder. Whether it can be read shows when it is.
    pub fn exists(&self, relative: &str) -> bool {
        self.path(relative).symlink_metadata().is_ok()
    }

    /// A file's text without white space at its ends; none when there is no such file.
    pub fn text(&self, relative: &str) -> Result<Option<String>, Error> {
        let path = self.path(relative);
        match read_bounded(&path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.trim().to_string())),
                Err(error) => {
                    let text = shorten(&String::from_utf8_lossy(error.as_bytes()));
                    Err(Error::Value {
                        path,
                        text,
                        expected: "text".to_string(),
                    })
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// A whole number; none when there is no such file.
    pub fn number(&self, relative: &str) -> Result<Option<i64>, Error> {
        let Some(text) = self.text(relative)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| self.wrong_value(relative, &text, "a whole number"))
    }

    /// A list of CPUs; none when there is no such file.
    pub fn list(&self, relative: &str) -> Result<Option<Vec<CpuId>>, Error> {
        let Some(text) = self.text(relative)? else {
            return Ok(None);
        };
        self.parse_list(relative, &text).map(Some)
    }

    /// The online CPUs of a list; none when there is no such file.
    pub fn online_set(&mut self, relative: &str, online: &[CpuId]) -> Result<Option<CpuSet>, Error> {
        let Some(text) = self.text(relative)? else {
            return Ok(None);
        };
        if let Some(known) = self.known_sets.get(&text) {
            return Ok(Some(known.clone()));
        }
        let mut cpus = self.parse_list(relative, &text)?;
        cpus.retain(|cpu| online.binary_search(cpu).is_ok());
        let set = CpuSet::from(cpus);
        self.known_sets.insert(text, set.clone());
        Ok(Some(set))
    }

    /// The numbers N of entries `<prefix>N` in a folder, ascending; none when there is no such folder.
    pub fn numbered_folders(&self, relative: &str, prefix: &str) -> Result<Vec<i64>, Error> {
        let path = self.path(relative);
        let read_error = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(read_error(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(read_error)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit());
            numbers.extend(
                digits
                    .filter(is_number)
                    .and_then(|digits| digits.parse::<i64>().ok()),
            );
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub fn missing(&self, relative: &str) -> Error {
        Error::Read {
            path: self.path(relative),
            source: io::Error::from(io::ErrorKind::NotFound),
        }
    }

    pub fn contradiction(&self, relative: &str, problem: String) -> Error {
        Error::Contradiction {
            path: self.path(relative),
            problem,
        }
    }

    pub fn wrong_value(&self, relative: &str, text: &str, expected: &str) -> Error {
        Error::Value {
            path: self.path(relative),
            text: shorten(text),
            expected: expected.to_string(),
        }
    }

    fn parse_list(&self, relative: &str, text: &str) -> Result<Vec<CpuId>, Error> {
        cpulist::parse(text).map_err(|error| {
            let expected = format!("a list of CPUs (column {}: {})", error.column, error.problem);
            self.wrong_value(relative, text, &expected)
        })
    }
}

/// Reads a file, but no more than [`MAX_BYTES`], so that a device or a FIFO in its place does no harm.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {MAX_BYTES} bytes"),
        ));
    }
    Ok(bytes)
}

/// Each CPU's list must hold the CPU itself, and all CPUs in a list must have the same list. So the
/// lists are a partition. CPUs without a list must be in nobody's.
pub(super) fn agree(
    tree: &Tree,
    cpus: &[CpuId],
    lists: &[Option<CpuSet>],
    path: impl Fn(CpuId) -> String,
) -> Result<(), Error> {
    let mut nr_members = BTreeMap::<&CpuSet, usize>::new();
    for (&cpu, list) in cpus.iter().zip(lists) {
        let Some(list) = list else { continue };
        if list.binary_search(&cpu).is_err() {
            let problem = format!("the list \"{}\" lacks CPU {cpu} itself", cpulist::format(list));
            return Err(tree.contradiction(&path(cpu), problem));
        }
        *nr_members.entry(list).or_default() += 1;
    }
    let list_of = |cpu: &CpuId| {
        cpus.binary_search(cpu)
            .ok()
            .and_then(|position| lists[position].as_ref())
    };
    for (list, nr) in nr_members {
        // Each CPU with this list is in it, so that as many as it is long are all of them.
        if nr == list.len() {
            continue;
        }
        let has_another = |cpu: &&CpuId| list_of(cpu) != Some(list);
        if let Some(other) = list.iter().find(has_another) {
            let holder = list
                .iter()
                .find(|cpu| list_of(cpu) == Some(list))
                .unwrap_or(other);
            let theirs = list_of(other).map_or("no list".to_string(), |theirs| cpulist::format(theirs));
            let problem = format!(
                "CPU {holder} has {}, but CPU {other} has {theirs}",
                cpulist::format(list)
            );
            return Err(tree.contradiction(&path(*holder), problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lists: &[Option<&[u32]>]) -> Result<(), Error> {
        let cpus: Vec<_> = (0..lists.len() as u32).map(CpuId).collect();
        let set = |list: &&[u32]| -> CpuSet { list.iter().copied().map(CpuId).collect() };
        let lists: Vec<_> = lists.iter().map(|list| list.as_ref().map(set)).collect();
        agree(&Tree::new(Path::new("/")), &cpus, &lists, |cpu| {
            format!("cpu{cpu}")
        })
    }

    #[test]
    fn lists_that_are_a_partition_agree() {
        check(&[Some(&[0, 1]), Some(&[0, 1]), Some(&[2]), None]).unwrap();
    }

    #[test]
    fn lists_that_contradict_each_other_do_not() {
        let message = |lists: &[Option<&[u32]>]| check(lists).unwrap_err().to_string();
        assert_eq!(
            message(&[Some(&[1]), Some(&[1])]),
            "/cpu0: the list \"1\" lacks CPU 0 itself"
        );
        assert_eq!(message(&[Some(&[])]), "/cpu0: the list \"\" lacks CPU 0 itself");
        assert_eq!(
            message(&[Some(&[0, 1]), Some(&[1])]),
            "/cpu0: CPU 0 has 0-1, but CPU 1 has 1"
        );
        assert_eq!(
            message(&[Some(&[0, 1]), None]),
            "/cpu0: CPU 0 has 0-1, but CPU 1 has no list"
        );
        assert_eq!(
            message(&[Some(&[0, 1]), Some(&[0, 1, 2]), Some(&[1, 2])]),
            "/cpu0: CPU 0 has 0-1, but CPU 1 has 0-2"
        );
    }
}
