// SPDX-License-Identifier: GPL-2.0-only
//! JSON whose values know where they stand: what rt-app's JSON library reads, with comments, trailing commas and keys in
//! their order.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::Error;

/// A value, and where it is.
pub(super) struct Node<'t> {
    text: &'t str,
    /// The keys that lead to it, such as `tasks.thread0.run`; empty for the whole file.
    pub(super) path: String,
    /// Where its key begins, or itself if it has none, in bytes.
    at: usize,
    value: Value<'t>,
}

/// An entry of an object.
pub(super) struct Entry<'t> {
    pub(super) key: String,
    pub(super) node: Node<'t>,
}

/// The file as a value.
pub(super) fn parse(text: &str) -> Result<Node<'_>, Error> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        ..strict()
    };
    let broken = |at: usize, what: String| {
        let (line, column) = position(text, at);
        Error {
            line,
            column,
            key: String::new(),
            what,
        }
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| broken(error.range().start, error.kind().to_string()))?;
    let value = parsed.value.ok_or_else(|| {
        broken(
            0,
            String::from("the file is empty; an rt-app file is {\"tasks\": {...}}"),
        )
    })?;
    Ok(Node {
        text,
        path: String::new(),
        at: value.start(),
        value,
    })
}

fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    }
}

/// Line and column, in characters, from 1.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let begins = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[begins..].chars().count() + 1)
}

impl<'t> Node<'t> {
    /// What is wrong here.
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        let (line, column) = position(self.text, self.at);
        Error {
            line,
            column,
            key: self.path.clone(),
            what: what.into(),
        }
    }

    pub(super) fn line(&self) -> usize {
        self.position().0
    }

    /// Line and column, from 1.
    pub(super) fn position(&self) -> (usize, usize) {
        position(self.text, self.at)
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.value, Value::StringLit(_))
    }

    pub(super) fn is_boolean(&self) -> bool {
        matches!(self.value, Value::BooleanLit(_))
    }

    /// Its entries, in their order.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'t>>, Error> {
        let Value::Object(object) = &self.value else {
            return Err(self.mistyped("an object"));
        };
        let entry = |property: &jsonc_parser::ast::ObjectProp<'t>| {
            let key = property.name.as_str().to_owned();
            let path = match self.path.as_str() {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            Entry {
                node: Node {
                    text: self.text,
                    path,
                    at: property.name.start(),
                    value: property.value.clone(),
                },
                key,
            }
        };
        Ok(object.properties.iter().map(entry).collect())
    }

    /// The numbers of an array.
    pub(super) fn integers(&self, least: i64, most: i64) -> Result<Vec<u32>, Error> {
        let Value::Array(array) = &self.value else {
            return Err(self.mistyped("an array of whole numbers"));
        };
        let element = |value: &Value<'t>| {
            let element = Node {
                text: self.text,
                path: self.path.clone(),
                at: value.start(),
                value: value.clone(),
            };
            element
                .integer(least, most)
                .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
        };
        array.elements.iter().map(element).collect()
    }

    /// A whole number of that range.
    pub(super) fn integer(&self, least: i64, most: i64) -> Result<i64, Error> {
        let Value::NumberLit(number) = &self.value else {
            return Err(self.mistyped("a whole number"));
        };
        match number.value.parse::<i64>() {
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            Ok(_) => Err(self.error(format!("{} is not from {least} to {most}", number.value))),
            Err(_) => Err(self.error(format!("expected a whole number, not {}", number.value))),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, Error> {
        match &self.value {
            Value::BooleanLit(literal) => Ok(literal.value),
            _ => Err(self.mistyped("true or false")),
        }
    }

    pub(super) fn string(&self) -> Result<String, Error> {
        match &self.value {
            Value::StringLit(literal) => Ok(literal.value.to_string()),
            _ => Err(self.mistyped("a string")),
        }
    }

    fn mistyped(&self, expected: &str) -> Error {
        let found = match &self.value {
            Value::StringLit(_) => "a string",
            Value::NumberLit(_) => "a number",
            Value::BooleanLit(_) => "true or false",
            Value::Object(_) => "an object",
            Value::Array(_) => "an array",
            Value::NullKeyword(_) => "null",
        };
        self.error(format!("expected {expected}, not {found}"))
    }
}
