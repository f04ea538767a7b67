// SPDX-License-Identifier: GPL-2.0-only
//! Rust declares the policy's functions as their headers have them: in that no compiler follows it.
//! Read as text, in the few forms that both sides use; what is of another form does not compare equal.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

/// All files of a folder beside this crate's manifest whose name ends so, one after the other, with one space between words.
fn words_of(folder: &str, suffix: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().ends_with(suffix) {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands before, between and behind the first parentheses.
fn parts(function: &str) -> (&str, &str, &str) {
    let (before, rest) = function.split_once('(').unwrap();
    let (between, behind) = rest.split_once(')').unwrap();
    (before, between, behind)
}

/// The prototypes of headers, by name.
fn prototypes(headers: &str) -> BTreeMap<String, String> {
    headers
        .split("static inline ")
        .skip(1)
        .map(|function| {
            let function = function.trim_start_matches("__attribute__((always_inline)) ");
            let (result, parameters, _) = parts(function);
            let (result, name) = result.rsplit_once(' ').unwrap();
            // Rust makes an enum of a number that it gets, so that any other number is seen.
            let result = if result.starts_with("enum ") {
                "u32"
            } else {
                result
            };
            // The words of a group are atomics there, and change behind shared references.
            let parameters = parameters.replace("const struct tw_group *", "struct tw_group *");
            (name.to_owned(), format!("{result} {name}({parameters})"))
        })
        .collect()
}

/// `TunableOptions` is `tw_tunable_options`.
fn c_name(rust: &str) -> String {
    rust.chars().fold("tw".to_owned(), |name, letter| {
        let before = if letter.is_uppercase() { "_" } else { "" };
        format!("{name}{before}{}", letter.to_lowercase())
    })
}

/// Of a number or a truth value; anything else is an enum.
fn c_value(rust: &str) -> String {
    match rust {
        "bool" | "u8" | "u32" | "u64" => rust.to_owned(),
        "i32" | "i64" => rust.replace('i', "s"),
        _ => format!("enum {}", c_name(rust)),
    }
}

/// A parameter as C declares it.
fn c_parameter(parameter: &str) -> String {
    let (name, kind) = parameter.split_once(": ").unwrap();
    let kind = kind.trim_start_matches("Option<").trim_end_matches('>');
    if let Some(of) = kind
        .strip_prefix("&[")
        .and_then(|kind| kind.strip_suffix("; PROGRAMS]"))
    {
        return format!("const {} {name}[TW_ALTERNATION_PROGRAMS]", c_value(of));
    }
    match (kind.strip_prefix("&mut "), kind.strip_prefix('&')) {
        (Some(of), _) => format!("struct {} *{name}", c_name(of)),
        (None, Some("Group")) => format!("struct tw_group *{name}"),
        (None, Some(of)) => format!("const struct {} *{name}", c_name(of)),
        (None, None) => format!("{} {name}", c_value(kind)),
    }
}

/// What is declared in `extern` blocks, as C declares it, by name.
fn declarations(sources: &str) -> BTreeMap<String, String> {
    sources
        .split("extern \"C\" {")
        .skip(1)
        .flat_map(|block| block.split_once('}').unwrap().0.split("fn ").skip(1))
        .map(|function| {
            let (name, parameters, result) = parts(function);
            let result = result.split_once(';').unwrap().0.strip_prefix(" -> ");
            let parameters = parameters.trim().trim_end_matches(',').split(", ");
            let parameters: Vec<String> = parameters.map(c_parameter).collect();
            let prototype = format!(
                "{} {name}({})",
                result.map_or("void".to_owned(), c_value),
                parameters.join(", ")
            );
            (name.to_owned(), prototype)
        })
        .collect()
}

#[test]
fn functions_are_declared_as_their_headers_have_them() {
    let (headers, sources) = (words_of("../../policy", ".h"), words_of("src", ".rs"));
    let (prototypes, declarations) = (prototypes(&headers), declarations(&sources));
    assert_eq!(declarations.len(), sources.matches("pub safe fn tw_").count());
    assert!(declarations.len() > 100, "{}", declarations.len());
    for (name, declaration) in &declarations {
        assert_eq!(Some(declaration), prototypes.get(name), "{name}");
    }
}

#[test]
fn a_declaration_that_differs_is_seen() {
    let header = "static inline bool tw_f(u64 a, bool b, enum tw_class c, const struct tw_task *d, struct tw_keys *e) {";
    let same = "pub safe fn tw_f(a: u64, b: bool, c: Class, d: &Task, e: &mut Keys,) -> bool;";
    let is_seen = |declared: &str| {
        declarations(&format!("unsafe extern \"C\" {{ {declared} }}"))["tw_f"] != prototypes(header)["tw_f"]
    };
    assert!(!is_seen(same));
    for (from, to) in [
        ("a: u64, b: bool", "b: bool, a: u64"),
        ("a: u64", "a: u32"),
        ("b: bool", "b: u32"),
        ("c: Class", "c: Mode"),
        ("&Task", "&mut Task"),
        ("&mut Keys", "&mut Task"),
        (", e: &mut Keys", ""),
        (" -> bool", " -> u32"),
        (" -> bool", ""),
    ] {
        let other = same.replace(from, to);
        assert_ne!(other, same);
        assert!(is_seen(&other), "{other}");
    }
}
