// SPDX-License-Identifier: GPL-2.0-only
//! An experiment file: which machine, which schedulers, which programs, alone and together.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use threadwise_machine::Machine;
use threadwise_workload::Ratio;
use threadwise_workload::synthetic::Wait;

use crate::cache_folder;
use crate::error::{Error, io_error};
use crate::protocol::START_PLACEHOLDER;

/// An experiment, as its TOML file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name, used for files.
    pub name: String,
    /// What it shows, in a sentence.
    pub description: String,
    /// The machine: a name from the zoo, a file, or a synthetic string.
    pub machine: String,
    /// Millions of instructions a second of the fastest CPU, instead of what the machine file says: programs
    /// that use memory and the kernel much are dearer to emulate than arithmetic.
    pub mips: Option<u32>,
    /// How long each synthetic program runs, in seconds.
    #[serde(default = "default_seconds")]
    pub seconds: f64,
    /// How often everything is repeated.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// The first seed; each round adds one, and every scheduler gets the same.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The schedulers to compare; the first is the baseline.
    #[serde(rename = "scheduler")]
    pub schedulers: Vec<Scheduler>,
    /// The programs.
    #[serde(rename = "program")]
    pub programs: Vec<Program>,
    /// Which programs run together, by name. Default: each alone, then all together.
    #[serde(default)]
    pub runs: Vec<Vec<String>>,
}

fn default_seconds() -> f64 {
    4.0
}
fn default_rounds() -> u32 {
    4
}
fn default_seed() -> u64 {
    1
}

/// A scheduler to compare.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// The name in tables.
    pub name: String,
    /// Program and arguments that attach it; none for the kernel's own.
    #[serde(default)]
    pub command: Vec<String>,
}

/// A program to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The name in tables.
    pub name: String,
    /// The synthetic benchmark with this ratio, or
    pub synthetic: Option<Synthetic>,
    /// any command, whose performance is one over the time that it takes.
    #[serde(default)]
    pub command: Vec<String>,
    /// The command prints its own time, in seconds, after this text: starting and ending do not count.
    pub time_label: Option<String>,
}

/// A synthetic benchmark (thread-essence, Fig. 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// Parallel to serial.
    pub ratio: Ratio,
    /// Mean phase, in work units a thread; 3,000 take 20 ms at 60 MIPS.
    pub phase_units: u64,
    /// Threads; default: as many as the machine has CPUs.
    pub threads: Option<u32>,
    /// How threads wait for each other: "passive", which is the default, or "active", spinning.
    #[serde(default)]
    pub wait: Wait,
}

impl Synthetic {
    /// How many threads it has on a machine.
    pub fn nr_threads(&self, machine: &Machine) -> u32 {
        self.threads.unwrap_or(machine.nr_cpus() as u32)
    }
}

impl Experiment {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If it cannot be read, is no valid TOML, or names what it does not define.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(io_error("read", path))?;
        Self::from_toml(&text, path)
    }

    /// Parses and checks; `path` is for messages only.
    ///
    /// # Errors
    /// As [`Experiment::from_file`].
    pub fn from_toml(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong = |message: String| Error::Experiment {
            path: path.to_path_buf(),
            message,
        };
        let mut experiment: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if experiment.runs.is_empty() {
            experiment.runs = experiment.default_runs();
        }
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// Whether it can be carried out; what is wrong with it if not.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let names: BTreeSet<&str> = self
            .programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        if self.schedulers.is_empty() || self.programs.is_empty() {
            return Err(String::from(
                "it needs at least one [[scheduler]] and one [[program]]",
            ));
        }
        if names.len() != self.programs.len() {
            return Err(String::from("two programs have the same name"));
        }
        let schedulers: BTreeSet<&str> = self
            .schedulers
            .iter()
            .map(|scheduler| scheduler.name.as_str())
            .collect();
        if schedulers.len() != self.schedulers.len() {
            return Err(String::from("two schedulers have the same name"));
        }
        if !(0.1..=600.0).contains(&self.seconds) {
            return Err(format!("seconds = {} is not between 0.1 and 600", self.seconds));
        }
        // One round has no spread.
        if !(2..=1000).contains(&self.rounds) {
            return Err(format!("rounds = {} is not between 2 and 1000", self.rounds));
        }
        for program in &self.programs {
            if program.synthetic.is_some() != program.command.is_empty() {
                return Err(format!(
                    "program {:?} needs either synthetic or command",
                    program.name
                ));
            }
            if program
                .synthetic
                .as_ref()
                .is_some_and(|synthetic| synthetic.phase_units == 0)
            {
                return Err(format!(
                    "program {:?}: phase_units must be positive",
                    program.name
                ));
            }
        }
        match self
            .runs
            .iter()
            .flatten()
            .find(|name| !names.contains(name.as_str()))
        {
            Some(name) => Err(format!("runs names {name:?}, which is no program")),
            None => self.runs.iter().try_for_each(|run| self.check_run(run)),
        }?;
        let runs: BTreeSet<&Vec<String>> = self.runs.iter().collect();
        if runs.len() == self.runs.len() {
            Ok(())
        } else {
            Err(String::from("runs has the same run twice"))
        }
    }

    /// A run's performances are added up, so they must be of one kind.
    fn check_run(&self, run: &[String]) -> Result<(), String> {
        let synthetic = run
            .iter()
            .filter(|name| self.program(name).synthetic.is_some())
            .count();
        match (run.len(), synthetic) {
            (0, _) => Err(String::from("runs has an empty run")),
            (1, _) => Ok(()),
            (len, synthetic) if len == synthetic => Ok(()),
            _ => Err(format!(
                "run {run:?}: only synthetic programs can run together; their work can be added up"
            )),
        }
    }

    fn default_runs(&self) -> Vec<Vec<String>> {
        let names: Vec<String> = self.programs.iter().map(|program| program.name.clone()).collect();
        let mut runs: Vec<Vec<String>> = names.iter().map(|name| vec![name.clone()]).collect();
        if names.len() > 1 {
            runs.push(names);
        }
        runs
    }

    /// The program of this name, which a run has.
    pub fn program(&self, name: &str) -> &Program {
        self.programs
            .iter()
            .find(|program| program.name == name)
            .expect("check() has seen every name of a run")
    }

    /// The commands whose programs the guest needs besides our own.
    pub(crate) fn foreign_programs(&self) -> BTreeSet<&str> {
        let commands = self.programs.iter().map(|program| &program.command);
        commands
            .chain(self.schedulers.iter().map(|scheduler| &scheduler.command))
            .filter_map(|c| c.first())
            .map(String::as_str)
            .collect()
    }
}

impl Program {
    /// Whether two programs differ in their names only.
    pub(crate) fn does_the_same_as(&self, other: &Self) -> bool {
        (&self.synthetic, &self.command, &self.time_label)
            == (&other.synthetic, &other.command, &other.time_label)
    }

    /// Its seed in a round that has this one: programs of one round differ in theirs.
    pub fn seed(&self, experiment: &Experiment, of_round: u64) -> u64 {
        let place = experiment
            .programs
            .iter()
            .position(|program| program.name == self.name);
        of_round * 1000 + place.unwrap_or(0) as u64
    }

    /// The command that runs it in the guest.
    pub(crate) fn command(&self, experiment: &Experiment, machine: &Machine, seed: u64) -> Vec<String> {
        let Some(synthetic) = &self.synthetic else {
            return self.command.clone();
        };
        let threads = synthetic.nr_threads(machine);
        let seed = self.seed(experiment, seed);
        [
            "threadwise bench synthetic --format json".to_string(),
            format!(
                "--ratio {} --threads {threads} --phase-units {}",
                synthetic.ratio, synthetic.phase_units
            ),
            format!(
                "--wait {}",
                match synthetic.wait {
                    Wait::Passive => "passive",
                    Wait::Active => "active",
                }
            ),
            format!(
                "--seed {seed} --duration {} --start-at-ns {START_PLACEHOLDER}",
                experiment.seconds
            ),
        ]
        .join(" ")
        .split(' ')
        .map(String::from)
        .collect()
    }
}

/// Where a command's program is on the host: a path, or found on PATH, beside this program, or where `make peers` puts
/// other schedulers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(Path::to_path_buf));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(cache_folder().map(|cache| cache.join("peers/bin")))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "t"
        description = "d"
        machine = "smp-8"
        [[scheduler]]
        name = "kernel"
        [[program]]
        name = "A"
        synthetic = { ratio = "1:1", phase_units = 10000, wait = "active" }
        [[program]]
        name = "B"
        command = ["hackbench"]
    "#;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::from_toml(text, Path::new("t.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn default_runs_are_each_alone_then_all() {
        let two = GOOD.replace(
            "command = [\"hackbench\"]",
            "synthetic = { ratio = \"1:inf\", phase_units = 1 }",
        );
        assert_eq!(parse(&two).unwrap().runs, [vec!["A"], vec!["B"], vec!["A", "B"]]);
    }

    #[test]
    fn wrong_files_are_refused_with_the_place() {
        let good = GOOD.replace(
            "machine = \"smp-8\"",
            "machine = \"smp-8\"\nruns = [[\"A\"], [\"B\"]]",
        );
        assert!(parse(&good).is_ok());
        assert!(
            parse(GOOD)
                .unwrap_err()
                .contains("only synthetic programs can run together")
        );
        for (change, expected) in [
            (("name = \"A\"", "name = \"B\""), "same name"),
            (
                ("machine = \"smp-8\"", "machine = \"smp-8\"\nrounds = 0"),
                "rounds = 0",
            ),
            (("runs = [[\"A\"], [\"B\"]]", "runs = [[\"C\"]]"), "\"C\""),
            (
                ("runs = [[\"A\"], [\"B\"]]", "runs = [[\"A\"], [\"A\"]]"),
                "twice",
            ),
            (
                ("machine = \"smp-8\"", "machine = \"smp-8\"\nspeed = 1"),
                "unknown field `speed`",
            ),
            (("command = [\"hackbench\"]", ""), "either synthetic or command"),
            (("ratio = \"1:1\"", "ratio = \"0:0\""), "0:0"),
        ] {
            let error = parse(&good.replace(change.0, change.1)).unwrap_err();
            assert!(error.contains(expected) && error.contains("t.toml"), "{error}");
        }
    }

    #[test]
    fn commands_carry_seed_and_start() {
        let experiment = parse(&GOOD.replace(
            "machine = \"smp-8\"",
            "machine = \"smp-8\"
runs = [[\"A\"]]",
        ))
        .unwrap();
        let machine = Machine::load("smp-8").unwrap();
        let command = experiment
            .program("A")
            .command(&experiment, &machine, 3)
            .join(" ");
        assert!(
            command.contains("--threads 8 --phase-units 10000 --wait active")
                && command.contains("--seed 3000")
                && command.contains("{start}"),
            "{command}"
        );
    }
}
