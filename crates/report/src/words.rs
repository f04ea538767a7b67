// SPDX-License-Identifier: GPL-2.0-only
//! The words that pages use, as docs/glossary.md has them: there they are explained once.

const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// Those that a page about runs needs, in the order in which a reader meets them.
const USED: [&str; 19] = [
    "run",
    "baseline",
    "performance",
    "gain",
    "interval",
    "within noise",
    "round",
    "boot",
    "void",
    "ready",
    "phase",
    "ratio p:s",
    "serial boost, senior boost",
    "idle",
    "speedup",
    "fairness",
    "jitter",
    "fluid bound",
    "capacity",
];

/// Each word and what it means.
pub(crate) fn used() -> impl Iterator<Item = (&'static str, String)> {
    USED.iter()
        .filter_map(|word| meaning(word).map(|meaning| (*word, meaning)))
}

/// Without the marks that Markdown has for code and emphasis.
fn meaning(word: &str) -> Option<String> {
    let row = |line: &'static str| {
        let (found, meaning) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        (found == word).then(|| meaning.replace(['`', '*'], ""))
    };
    GLOSSARY.lines().find_map(row)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_glossary_has_every_word() {
        assert_eq!(super::used().count(), super::USED.len());
        assert_eq!(super::meaning("no such word"), None);
        assert!(
            super::meaning("phase")
                .unwrap()
                .starts_with("a thread group is serial while")
        );
    }
}
