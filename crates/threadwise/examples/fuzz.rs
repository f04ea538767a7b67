// SPDX-License-Identifier: GPL-2.0-only
//! Feeds damaged files to a parser until the time is over or it panics:
//!
//! ```text
//! cargo run --release -p threadwise --example fuzz -- --seconds 3600 rtapp
//! ```
//!
//! The seeds are the files of this repository. Each input is made of one by some changes: bytes are flipped, cut, doubled,
//! parts of another seed are spliced in, tokens (words, numbers, brackets) are exchanged for others of the seeds or for
//! numbers at the limits. Time is the process's own CPU time, so one that is stopped goes on later where it was. What makes
//! a parser panic or not end, or makes an error that names no place where it should, is printed and written to a file, with
//! the seed that repeats it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use nix::time::{ClockId, clock_gettime};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_lab::experiment::Experiment;
use threadwise_machine::Machine;
use threadwise_placement::spec::Spec;
use threadwise_simulator::programs::{Assumptions, play};
use threadwise_workload::{Ratio, rtapp, trace};

/// Damages files and has a parser read them.
#[derive(Clone, Parser)]
struct Options {
    /// The parser
    #[arg(value_enum)]
    target: Target,

    /// How long, in seconds of CPU time
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// How long one input may take, in seconds of CPU time
    #[arg(long, default_value_t = 20)]
    patience: u64,

    /// Where the changes come from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where to write what was found
    #[arg(long, default_value = ".")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// rt-app JSON, and the program that the simulator makes of it
    Rtapp,
    /// What perf prints
    Trace,
    /// Machine files
    Machine,
    /// Synthetic strings such as "package:2 core:4"
    Synthetic,
    /// Experiment files
    Experiment,
    /// Workloads that `threadwise place` measures
    Workload,
    /// Ratios such as 4:1
    Ratio,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let seeds = seeds(options.target)?;
    let dictionary = tokens(&seeds);
    let mut random = Random(Pcg64::new(u128::from(options.seed), 7));
    let (mut nr_inputs, mut nr_read) = (0u64, 0u64);
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    let current = watched(&options);
    while cpu_time()? < Duration::from_secs(options.seconds) {
        let input = damaged(&mut random, &seeds, &dictionary);
        nr_inputs += 1;
        *current.lock().expect("nobody panics with it") = (nr_inputs, input.clone());
        match catch_unwind(AssertUnwindSafe(|| read(options.target, &input))) {
            Ok(Outcome::Read) => nr_read += 1,
            Ok(Outcome::Refused(message)) => *errors.entry(kind(&message)).or_default() += 1,
            Ok(Outcome::Bad(message)) => return found(&options, &input, nr_inputs, &message),
            Err(_) => return found(&options, &input, nr_inputs, "a panic, see above"),
        }
    }
    println!(
        "{:?}: {nr_inputs} inputs in {} s of CPU time, {nr_read} read, {} refused with {} kinds of errors, no panic",
        options.target,
        options.seconds,
        nr_inputs - nr_read,
        errors.len()
    );
    Ok(ExitCode::SUCCESS)
}

fn cpu_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .context("cannot read the CPU time of this process")?;
    Ok(time.into())
}

/// The input that is being read, and its number. Who does not come to an end with it is ended, and it is written down.
fn watched(options: &Options) -> Arc<Mutex<(u64, String)>> {
    let current = Arc::new(Mutex::new((0, String::new())));
    let (options, seen) = (options.clone(), Arc::clone(&current));
    std::thread::spawn(move || -> Result<()> {
        let mut since = (0, cpu_time()?);
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let (number, input) = seen.lock().expect("nobody panics with it").clone();
            let now = cpu_time()?;
            if number != since.0 {
                since = (number, now);
            } else if now - since.1 > Duration::from_secs(options.patience) {
                found(&options, &input, number, "it does not end")?;
                std::process::exit(1);
            }
        }
    });
    current
}

fn found(options: &Options, input: &str, number: u64, what: &str) -> Result<ExitCode> {
    let path = options
        .output
        .join(format!("fuzz-{:?}-{}.txt", options.target, options.seed).to_lowercase());
    std::fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!(
        "input {number} of seed {}: {what}; it is in {}",
        options.seed,
        path.display()
    );
    Ok(ExitCode::FAILURE)
}

/// What a parser made of an input.
enum Outcome {
    Read,
    Refused(String),
    /// An error that does not say where.
    Bad(String),
}

fn refused(line: usize, input: &str, message: String) -> Outcome {
    match (1..=input.lines().count() + 1).contains(&line) {
        true => Outcome::Refused(message),
        false => Outcome::Bad(format!("an error with no line of the file: {message}")),
    }
}

fn by<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Read,
        Err(error) => match error.to_string() {
            message if message.trim().is_empty() => Outcome::Bad(String::from("an error that says nothing")),
            message => Outcome::Refused(message),
        },
    }
}

/// The same, where the first number behind these words is the line. What a file lacks stands nowhere.
fn by_line<T, E: std::fmt::Display>(result: Result<T, E>, input: &str, words: &str) -> Outcome {
    let message = match by(result) {
        Outcome::Refused(message) if !message.contains("at least one [[scheduler]]") => message,
        other => return other,
    };
    let behind = message.split_once(words).map_or("", |(_, behind)| behind);
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    refused(digits.parse().unwrap_or(0), input, message)
}

/// A machine whose caches memory events meet.
static QUADS: LazyLock<Machine> = LazyLock::new(|| {
    let text = include_str!("../../../machines/two-quads.toml");
    Machine::from_toml(text, "two-quads.toml").expect("it is tested")
});

fn read(target: Target, input: &str) -> Outcome {
    match target {
        Target::Rtapp => match rtapp::File::parse(input) {
            Ok(file) => match play(&file, &Assumptions::of_server(&QUADS)) {
                Ok(_) => Outcome::Read,
                Err(error) => refused(error.line, input, error.what),
            },
            Err(error) => refused(error.line, input, error.what),
        },
        Target::Trace => match trace::Trace::parse(input) {
            Ok(_) => Outcome::Read,
            Err(error) => refused(error.line, input, error.what),
        },
        Target::Machine => by_line(Machine::from_toml(input, "fuzz.toml"), input, "fuzz.toml:"),
        Target::Synthetic => by(Machine::from_synthetic(input)),
        Target::Experiment => by_line(
            Experiment::from_toml(input, Path::new("fuzz.toml")),
            input,
            "line ",
        ),
        Target::Workload => by_line(Spec::from_toml(input, Path::new("fuzz.toml")), input, "line "),
        Target::Ratio => by(input.parse::<Ratio>()),
    }
}

/// An error without what it quotes.
fn kind(message: &str) -> String {
    let words = message
        .split_whitespace()
        .filter(|word| word.chars().all(char::is_alphabetic));
    words.take(8).collect::<Vec<_>>().join(" ")
}

/// The files and strings to damage.
fn seeds(target: Target) -> Result<Vec<String>> {
    let strings = |texts: &[&str]| Ok(texts.iter().map(|&text| text.to_owned()).collect());
    match target {
        Target::Rtapp => {
            let mut seeds = files("workloads", ".rtapp.json")?;
            seeds.push(String::from(EVERY_EVENT));
            Ok(seeds)
        }
        Target::Trace => files("tests/traces", ".txt"),
        Target::Machine => files("machines", ".toml"),
        Target::Experiment => files("experiments", ".toml"),
        Target::Workload => files("workloads", ".toml"),
        Target::Synthetic => strings(&[
            "package:2 core:4 pu:2",
            "package:1 llc:2(size=8MB) core:4 pu:1",
            "package:2 l3:1(size=1MB) l2:2(size=256KB) core:1 pu:2",
            "numa:2 package:1 core:8",
        ]),
        Target::Ratio => strings(&["1:1", "4:1", "inf:1", "1:inf", "0.5:2.25", "∞:1"]),
    }
}

/// Every event of rt-app.
const EVERY_EVENT: &str = r#"{"global": {"duration": 1, "calibration": 10, "log_size": 2, "ftrace": "none"},
"resources": {"m": {"type": "mutex"}},
"tasks": {"a": {"instance": 2, "delay": 3, "cpus": [0], "phases": {"p": {"loop": 2, "runtime": 5, "lock": "m", "unlock": "m",
"wait": {"ref": "c", "mutex": "m"}, "signal": "c", "broad": "c", "sync": {"ref": "c", "mutex": "m"}, "barrier": "b",
"sem_post": "s", "sem_wait": "s", "suspend": "", "resume": "a", "fork": "b", "yield": "", "mem": 10,
"memrun": {"type": "chase", "size": 4096000, "stride": 64, "pattern": "random", "count": 9, "ref": "r"}, "iorun": 11,
"timer": {"ref": "unique", "period": 1000, "mode": "relative"}}}},
"b": {"instance": 0, "policy": "SCHED_IDLE", "priority": 0, "run": 1, "sleep": 2}}}"#;

/// The repository's files in this folder whose names end so.
fn files(folder: &str, ending: &str) -> Result<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            paths.push(path);
        }
    }
    // The same order everywhere, or a seed would not repeat what it found.
    paths.sort();
    if paths.is_empty() {
        bail!("no {ending} in {}", folder.display());
    }
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    paths.iter().map(read).collect()
}

/// Where each word, number or sign of a text is.
fn places(text: &str) -> Vec<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '-';
    let mut places = Vec::new();
    let mut begin = None;
    for (at, c) in text.char_indices() {
        if is_word(c) {
            begin.get_or_insert(at);
            continue;
        }
        places.extend(begin.take().map(|begin| begin..at));
        if !c.is_whitespace() {
            places.push(at..at + c.len_utf8());
        }
    }
    places.extend(begin.map(|begin| begin..text.len()));
    places
}

/// Numbers and texts at which parsers break.
const LIMITS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "1e308",
    "1e999",
    "nan",
    "inf",
    "0.0000001",
    "",
    "\u{0}",
    "\u{feff}",
    "ẞ",
];

/// All different words of the seeds, and those at the limits.
fn tokens(seeds: &[String]) -> Vec<String> {
    let words = seeds
        .iter()
        .flat_map(|seed| places(seed).into_iter().map(|place| seed[place].to_owned()));
    let mut words: Vec<String> = words.chain(LIMITS.map(String::from)).collect();
    words.sort();
    words.dedup();
    words
}

struct Random(Pcg64);

impl Random {
    /// From 0 to below `limit`, which is at least 1.
    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.0.next_u64()) * limit.max(1) as u128) >> 64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A place at which a text may be cut.
    fn cut(&mut self, text: &str) -> usize {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// No input grows beyond this.
const MAX_BYTES: usize = 1 << 16;

/// A seed with some changes.
fn damaged(random: &mut Random, seeds: &[String], dictionary: &[String]) -> String {
    let mut text = random.one(seeds).clone();
    for _ in 0..=random.below(6) {
        change(random, &mut text, seeds, dictionary);
    }
    if text.len() > MAX_BYTES {
        let mut end = MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

fn change(random: &mut Random, text: &mut String, seeds: &[String], dictionary: &[String]) {
    let (a, b) = (random.cut(text), random.cut(text));
    let range = a.min(b)..a.max(b);
    match random.below(8) {
        // A word for another, most often.
        0..=3 => {
            let places = places(text);
            if !places.is_empty() {
                let place = random.one(&places).clone();
                let word = random.one(dictionary).clone();
                text.replace_range(place, &word);
            }
        }
        4 => {
            let word: &String = random.one(dictionary);
            text.insert_str(a, word);
        }
        // Something short, so that not all is gone at once.
        5 => {
            let mut end = (range.start + 1 + random.below(20)).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(range.start..end, "");
        }
        6 => {
            let copy = text[range.clone()].to_owned();
            text.insert_str(range.end, &copy);
        }
        _ => {
            let other = random.one(seeds);
            let (c, d) = (random.cut(other), random.cut(other));
            text.insert_str(a, &other[c.min(d)..c.max(d)]);
        }
    }
}
