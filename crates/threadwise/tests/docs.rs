// SPDX-License-Identifier: GPL-2.0-only
//! What the documents name is there: files and headings that they link to, and what they call by the policy's names.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of these folders, and those below, whose name ends so.
fn files(folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found
}

fn documents() -> Vec<PathBuf> {
    let at_the_top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    files(&["docs"], ".md").into_iter().chain(at_the_top).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Links of a text that stands in this folder, of which there is no file or heading.
fn broken_links(text: &str, document: &Path) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)").unwrap();
    let is_broken = |path: &str, heading: Option<&str>| {
        let target = match path {
            "" => document.to_path_buf(),
            path => document.with_file_name("").join(path),
        };
        let Some(heading) = heading else {
            return !target.exists();
        };
        let text = std::fs::read_to_string(&target).unwrap_or_default();
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        !headings.any(|line| anchor(line) == heading)
    };
    link.captures_iter(text)
        .map(|found| (found[1].to_string(), found.get(2).map(|heading| heading.as_str())))
        .filter(|(path, _)| !path.contains("://"))
        .filter(|(path, heading)| is_broken(path, *heading))
        .map(|(path, heading)| format!("{path}#{}", heading.unwrap_or_default()))
        .collect()
}

/// Names of the policy and of the BPF side in a text that no source has.
fn unknown_names(text: &str, known: &BTreeSet<String>) -> Vec<String> {
    let code = Regex::new("`([^`]+)`").unwrap();
    let name = Regex::new(r"\b(tw_[a-z0-9_]+|TW_[A-Z0-9_]+)\b").unwrap();
    code.captures_iter(text)
        .flat_map(|code| {
            let names = name.find_iter(code.get(1).unwrap().as_str());
            names.map(|name| name.as_str().to_string()).collect::<Vec<_>>()
        })
        .filter(|name| !known.contains(name))
        .collect()
}

#[test]
fn what_documents_link_to_is_there() {
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let broken = broken_links(&text, &document);
        assert!(broken.is_empty(), "{}: {broken:?}", document.display());
    }
    let broken = |text| broken_links(text, &root().join("README.md"));
    let good = "[a](docs/glossary.md) [b](docs/glossary.md#words) [c](https://no.where/) [d](#read-on)";
    assert_eq!(broken(good), [""; 0]);
    assert_eq!(
        broken("[a](docs/gone.md) [b](docs/glossary.md#gone) [c](#gone)").len(),
        3
    );
}

#[test]
fn what_documents_call_by_name_is_in_the_source() {
    let name = Regex::new(r"\b(tw_[a-z0-9_]+|TW_[A-Z0-9_]+)\b").unwrap();
    let mut known = BTreeSet::new();
    for source in files(&["policy", "crates/scheduler/src/bpf"], "") {
        let text = std::fs::read_to_string(source).unwrap();
        known.extend(name.find_iter(&text).map(|name| name.as_str().to_string()));
    }
    assert!(known.contains("tw_goes_first") && known.contains("TW_STEP_LEAST_NS"));
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let unknown = unknown_names(&text, &known);
        assert!(unknown.is_empty(), "{}: {unknown:?}", document.display());
    }
    assert_eq!(
        unknown_names("`tw_goes_first()` `tw_went_first()`", &known),
        ["tw_went_first"]
    );
}
