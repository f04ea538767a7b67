// SPDX-License-Identifier: GPL-2.0-only
//! The command that repeats a run: the words by which it was begun, where its files lie beside each other in a folder, and
//! without what only says where its results go.

use threadwise_lab::run::Label;

use crate::record::Record;

/// Options of `lab run` and `sim run` after which no value stands. A test of the command holds this list against its definition.
pub const WITHOUT_VALUE: [&str; 5] = ["--same-phases", "--strict", "--no-store", "--peers", "--help"];

/// Options that change nothing of what is measured.
const LEFT_OUT: [&str; 5] = ["-o", "--output", "--store", "--no-store", "--format"];

/// For a shell.
pub fn command(record: &Record) -> String {
    line(&words(record))
}

/// Words as a shell takes them.
pub fn line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// What of threadwise makes such a run.
pub(crate) fn command_of(label: Label) -> &'static str {
    match label {
        Label::Lab => "lab run",
        Label::Simulated => "sim run",
    }
}

/// The file that the experiment is to be in.
pub fn file(record: &Record) -> String {
    let name = &record.measurement.experiment.name;
    let folder = if name.starts_with('-') { "./" } else { "" };
    format!("{folder}{name}.toml")
}

/// The machine as the command, or the experiment, calls it.
pub fn machine(record: &Record) -> &str {
    let machine = &record.measurement.experiment.machine;
    match record.manifest.experiment_text.contains(machine.as_str()) {
        true => machine,
        false => beside(record, machine),
    }
}

fn words(record: &Record) -> Vec<String> {
    let kind = command_of(record.measurement.label);
    let mut words = vec![String::from("threadwise")];
    words.extend(kind.split(' ').map(String::from));
    let mut file = Some(file(record));
    let mut given = record.manifest.command.iter().skip(3).map(String::as_str);
    let mut may_be_option = true;
    while let Some(word) = given.next() {
        let option = Written::of(if may_be_option { word } else { "" });
        may_be_option &= word != "--";
        let value = match option.takes_the_next {
            true => given.next(),
            false => option.value,
        };
        let is_left_out = LEFT_OUT.contains(&option.name);
        let machine = value.filter(|_| option.name == "--machine");
        match (machine, value) {
            _ if is_left_out => {}
            (Some(machine), _) => words.extend([option.name.into(), beside(record, machine).into()]),
            (None, Some(value)) if option.takes_the_next => words.extend([word.into(), value.into()]),
            (None, _) if option.name.is_empty() => words.push(file.take().unwrap_or_else(|| word.into())),
            (None, _) => words.push(word.into()),
        }
    }
    words.extend(file);
    words
}

/// A word of a command line.
struct Written<'a> {
    /// Of the option that it is, if it is one.
    name: &'a str,
    /// What stands in the same word.
    value: Option<&'a str>,
    /// Whether its value is the next word.
    takes_the_next: bool,
}

impl<'a> Written<'a> {
    fn of(word: &'a str) -> Self {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ if word.starts_with("--") => (word, None),
            _ if word.starts_with('-') && word.len() > 2 && word.is_char_boundary(2) => {
                (&word[..2], Some(&word[2..]))
            }
            _ if word.starts_with('-') => (word, None),
            _ => ("", None),
        };
        Self {
            name,
            value,
            takes_the_next: name.len() > 1
                && name != "--"
                && value.is_none()
                && !WITHOUT_VALUE.contains(&name),
        }
    }
}

/// A machine's file by its name alone; other machines as they are called.
fn beside<'a>(record: &Record, machine: &'a str) -> &'a str {
    match machine.rsplit_once('/') {
        Some((_, name)) if record.manifest.machine_text.is_some() => name,
        _ => machine,
    }
}

/// A word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./,:=+%@".contains(sign);
    match !word.is_empty() && word.chars().all(plain) && !word.starts_with('=') {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn begun_by(words: &[&str]) -> Record {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/phases.json");
        let mut record = Record::from_file(&path).unwrap();
        record.manifest.command = words.iter().map(|&word| word.into()).collect();
        record
    }

    #[test]
    fn files_are_beside_each_other_and_results_go_nowhere_else() {
        let start = ["threadwise", "sim", "run"];
        for (given, expected) in [
            (
                &["a/b.toml", "--run", "4:1 + 1:1"][..],
                "phases.toml --run '4:1 + 1:1'",
            ),
            (&["--run", "it's", "b.toml"], r"--run 'it'\''s' phases.toml"),
            (
                &["--machine", "x/y.toml", "b.toml"],
                "--machine y.toml phases.toml",
            ),
            (&["--machine=x/y.toml", "b.toml"], "--machine y.toml phases.toml"),
            (&["--peers", "b.toml", "--strict"], "--peers phases.toml --strict"),
            (&["--peers=all", "b.toml"], "--peers=all phases.toml"),
            (&["b.toml", "-o", "x.json", "--seed", "7"], "phases.toml --seed 7"),
            (
                &["b.toml", "-ox.json", "--output=x", "--store", "s.db"],
                "phases.toml",
            ),
            (
                &["--no-store", "--format", "json", "--", "-b.toml"],
                "-- phases.toml",
            ),
            (
                &["--without", "caches,power", ""],
                "--without caches,power phases.toml",
            ),
        ] {
            let record = begun_by(&[&start[..], given].concat());
            assert_eq!(
                command(&record),
                format!("threadwise sim run {expected}"),
                "{given:?}"
            );
        }
        let mut named = begun_by(&["threadwise", "sim", "run", "b.toml"]);
        named.measurement.experiment.name = String::from("-a; b");
        assert_eq!(command(&named), "threadwise sim run './-a; b.toml'");
    }
}
