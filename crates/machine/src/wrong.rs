// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a TOML file beyond what its reader finds, and where that stands: for all of the project's files.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A step on the way from a file to one of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Of a table.
    Key(&'static str),
    /// Of an array, from 0.
    Nth(usize),
}

/// Something that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    at: Vec<Step>,
    what: String,
}

impl Wrong {
    /// Of the value at the end of this way.
    pub fn new(at: &[Step], what: impl Into<String>) -> Self {
        Self {
            at: at.to_vec(),
            what: what.into(),
        }
    }

    /// Of the whole file.
    pub fn everywhere(what: impl Into<String>) -> Self {
        Self::new(&[], what)
    }

    /// Whether it is in what this key of the file has.
    pub fn is_of(&self, key: &str) -> bool {
        matches!(self.at.first(), Some(Step::Key(first)) if *first == key)
    }

    /// The same of a file without `key`, whose default comes from what `source` has.
    pub fn of_default(mut self, key: &str, source: &'static str) -> Self {
        if self.is_of(key) {
            self.at = vec![Step::Key(source)];
            self.what += &format!("; the file has no {key} of its own");
        }
        self
    }

    /// The same, with the line of the file with this text where it stands: that of the last key or element on the way that is
    /// there.
    pub fn in_file(&self, text: &str) -> String {
        match line_of(text, &self.at) {
            Some(line) => format!("line {line}: {}", self.what),
            None => self.what.clone(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Wrong {}

fn line_of(text: &str, way: &[Step]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (first, rest) = way.split_first()?;
    let Step::Key(key) = first else { return None };
    let (mut at, mut value) = entry(table.get_ref(), key)?;
    for step in rest {
        let next = match (value.get_ref(), step) {
            (DeValue::Table(table), Step::Key(key)) => entry(table, key),
            (DeValue::Array(array), Step::Nth(nth)) => array.get(*nth).map(|item| (item.span().start, item)),
            _ => None,
        };
        let Some(next) = next else { break };
        (at, value) = next;
    }
    Some(crate::file::line_of(text, at))
}

/// Where a key stands, and what it has.
fn entry<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<(usize, &'t Spanned<DeValue<'i>>)> {
    let mut entries = table.iter();
    let (key, value) = entries.find(|(known, _)| known.get_ref() == key)?;
    Some((key.span().start, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_as_far_as_it_is_there() {
        let text = "a = 1\n\n[[b]]\nc = 2\n[[b]]\nd = { e = 3,\n f = [4,\n 5] }\n";
        let (b, d) = (Step::Key("b"), Step::Key("d"));
        for (way, line) in [
            (&[Step::Key("a")][..], Some(1)),
            (&[b, Step::Nth(0), Step::Key("c")], Some(4)),
            (&[b, Step::Nth(0), Step::Key("x")], Some(3)),
            (&[b, Step::Nth(1), d, Step::Key("f"), Step::Nth(1)], Some(8)),
            (&[Step::Key("x")], None),
            (&[], None),
        ] {
            assert_eq!(line_of(text, way), line, "{way:?}");
        }
    }
}
