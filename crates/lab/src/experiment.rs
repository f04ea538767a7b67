// SPDX-License-Identifier: GPL-2.0-only
//! An experiment file: which machine, which schedulers, which programs, alone and together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use threadwise_machine::Machine;
use threadwise_machine::wrong::{Step, Wrong};
use threadwise_workload::memory::Sharing;
use threadwise_workload::synthetic::work::UNIT_INSTRUCTIONS;
use threadwise_workload::synthetic::{Distribution, Wait};
use threadwise_workload::{MOST_THREADS, Ratio};

use crate::cache_folder;
use crate::error::{Error, io_error};
use crate::governor::{CacheModel, Governing, NOMINAL_MIPS};
use crate::must::{self, Must};
use crate::protocol::START_PLACEHOLDER;

/// In a command: how long it is to run.
const SECONDS_PLACEHOLDER: &str = "{seconds}";

/// Characters of a name: no table has room for more.
const LONGEST_NAME: usize = 100;

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
    /// The same for the lab alone, where `mips` is what simulations have and no emulated CPU can do. What memory takes is then
    /// that of a CPU of `mips`, in the lab's slow motion (see [`crate::governor`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab_mips: Option<u32>,
    /// The lab models last-level caches, by one set in so many: 1, 2, 4 and so on up to 64. Without it they cost nothing
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<u32>,
    /// What the lab does without of what the machine's file and this one say, and of what it can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<LeftOut>,
    /// How long each synthetic program runs, in seconds; `{seconds}` in a command.
    #[serde(default = "default_seconds")]
    pub seconds: f64,
    /// From the request to the common start of programs, in seconds: enough to load them.
    #[serde(default = "default_start_delay_s")]
    pub start_delay_s: f64,
    /// Runs of two commands are those of thread-essence, Fig. 6: A, then B, beside B, then A.
    #[serde(default)]
    pub two_orders: bool,
    /// How often everything is repeated.
    #[serde(default = "default_rounds")]
    pub rounds: u32,
    /// The first seed; each round adds one, and every scheduler gets the same.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Every round has the first seed instead, so that programs draw the same phases: "N experiments of the same
    /// benchmark" (thread-essence, eq. 5). What rounds still differ in is the scheduler's doing, and the machine's.
    #[serde(default)]
    pub same_phases: bool,
    /// The schedulers to compare; the first is the baseline.
    #[serde(rename = "scheduler")]
    pub schedulers: Vec<Scheduler>,
    /// The programs.
    #[serde(rename = "program")]
    pub programs: Vec<Program>,
    /// Which programs run together, by name. Default: each alone, then all together.
    #[serde(default)]
    pub runs: Vec<Vec<String>>,
    /// What the results must show.
    #[serde(rename = "must", default, skip_serializing_if = "Vec::is_empty")]
    pub musts: Vec<Must>,
}

fn default_seconds() -> f64 {
    4.0
}
fn default_start_delay_s() -> f64 {
    // Enough at 20 MIPS for the synthetic benchmark.
    1.0
}
fn default_rounds() -> u32 {
    4
}
fn default_seed() -> u64 {
    1
}

/// What the lab models and can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LeftOut {
    /// Last-level caches that tasks share
    Caches,
    /// Cores that are faster while others of their package are idle
    Acceleration,
    /// Stops of the machine's time while the host is late; what the host keeps CPUs from doing is then lost, the run void
    Standstill,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The name in tables.
    pub name: String,
    /// The synthetic benchmark with this ratio, or
    pub synthetic: Option<Synthetic>,
    /// the program that this rt-app file describes, for simulations only, by its path from where threadwise is started; its
    /// performance is the work of its threads; or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtapp: Option<PathBuf>,
    /// a program of stages, for simulations only; or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// any command, whose performance is one over the time that it takes. In its arguments `{cpus}` is the machine's
    /// number of CPUs, `{seconds}` the experiment's seconds, `{seed}` a seed of its own in each round, and `{start}` the
    /// time of CLOCK_MONOTONIC, in ns, at which the programs of a run begin.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables of its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its nice value, -20 to 19; default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i32,
    /// The only CPU that its threads may use; default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<usize>,
    /// What else the guest needs for it: programs that the command starts, by their names, and files that it reads, by their
    /// paths. The guest has these at the same paths, relative ones from its root, where commands are started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// The command prints a line of JSON in which this field is its performance, such as work units a second. Only the
    /// performances of one program, whose arguments may differ, can be added up.
    pub figure: Option<String>,
    /// The command prints its own time, in seconds, after this text: starting and ending do not count.
    pub time_label: Option<String>,
    /// The command prints its performance, such as megabytes a second, after this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure_label: Option<String>,
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
    /// How phase lengths scatter: "uniform", which is the default, "exponential", "fixed", "lognormal" or "pareto".
    #[serde(default)]
    pub distribution: Distribution,
    /// How its threads use memory while they compute. In the lab that is for experiments with `caches`.
    pub memory: Option<Memory>,
}

/// A program in each of whose stages some of its threads work, any number from one to all as likely as any other, and after
/// each of which all meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// Mean length of a stage, in work units of each thread that works.
    pub phase_units: u64,
    /// Threads; default: as many as the machine has CPUs.
    pub threads: Option<u32>,
    /// How lengths scatter, as those of [`Synthetic`] do.
    #[serde(default)]
    pub distribution: Distribution,
}

/// How threads use memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What is accessed again and again, evenly, in KiB: by each thread, or by all if it is shared; 1 to 2^30. In the lab at
    /// most [`MOST_CACHES`] times the largest last-level cache, because a set has to be there before it can be used.
    pub working_set_kib: u64,
    /// Accesses that reach the last-level cache in a microsecond of computing on the fastest CPU; 1 to 1000. In the lab that is a
    /// microsecond of a CPU of `mips`, not of `lab_mips`: so many accesses in so many instructions.
    pub accesses_per_us: u32,
    /// "private", which is the default: each thread has a working set of its own; or "shared".
    #[serde(default)]
    pub sharing: Sharing,
}

/// A working set of so many times a cache misses that but for one access in so many; larger ones hardly miss more.
pub const MOST_CACHES: u64 = 8;

impl Memory {
    /// The options of `threadwise bench synthetic` for it, where the fastest CPU would do so many million instructions a second.
    fn options(self, machine: &Machine, nominal_mips: u32) -> String {
        let largest = machine.llc_bytes().into_iter().flatten().max();
        let most = largest.map_or(u64::MAX, |bytes| bytes * MOST_CACHES / 1024);
        let accesses =
            u64::from(self.accesses_per_us) * UNIT_INSTRUCTIONS * 1000 / u64::from(nominal_mips.max(1));
        format!(
            "--working-set {}K --accesses {} --sharing {}",
            self.working_set_kib.min(most),
            accesses.clamp(1, MOST_ACCESSES),
            name_of(self.sharing)
        )
    }
}

/// The most that `bench synthetic --accesses` takes.
const MOST_ACCESSES: u64 = 1_000_000;

/// The longest mean phase: half an hour at 60 million instructions a second.
const MOST_PHASE_UNITS: u64 = 1 << 28;

/// Whether a program's threads and phases are as many and as long as can be run; if not, the key that is wrong, and why.
fn check_sizes(threads: Option<u32>, phase_units: u64) -> Result<(), (&'static str, String)> {
    if let Some(threads) = threads.filter(|threads| !(1..=MOST_THREADS).contains(threads)) {
        return Err((
            "threads",
            format!("threads = {threads} is not between 1 and {MOST_THREADS}"),
        ));
    }
    if !(1..=MOST_PHASE_UNITS).contains(&phase_units) {
        let what = format!("phase_units = {phase_units} is not between 1 and {MOST_PHASE_UNITS}");
        return Err(("phase_units", what));
    }
    Ok(())
}

/// Which of them, from 0, is equal to one before it.
fn repeated<T: Ord>(all: impl Iterator<Item = T>) -> Option<usize> {
    let mut seen = BTreeSet::new();
    all.into_iter().position(|one| !seen.insert(one))
}

impl Synthetic {
    fn check_memory(&self) -> Result<(), String> {
        match self.memory {
            Some(memory) if !(1..=1 << 30).contains(&memory.working_set_kib) => Err(format!(
                "working_set_kib = {} is not between 1 and {}",
                memory.working_set_kib,
                1 << 30
            )),
            Some(memory) if !(1..=1000).contains(&memory.accesses_per_us) => Err(format!(
                "accesses_per_us = {} is not between 1 and 1000",
                memory.accesses_per_us
            )),
            _ => Ok(()),
        }
    }

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
        let checked = if experiment.runs.is_empty() {
            experiment.runs = experiment.default_runs();
            experiment
                .check()
                .map_err(|error| error.of_default("runs", "program"))
        } else {
            experiment.check()
        };
        let checked = checked.and_then(|()| must::settle(&mut experiment));
        checked.map_err(|error| wrong(error.in_file(text)))?;
        Ok(experiment)
    }

    /// Whether it can be carried out; what is wrong with it if not.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Wrong> {
        if self.schedulers.is_empty() || self.programs.is_empty() {
            return Err(Wrong::everywhere(
                "it needs at least one [[scheduler]] and one [[program]]",
            ));
        }
        let schedulers = self.schedulers.iter().map(|scheduler| &scheduler.name);
        if let Some(nth) = repeated(schedulers) {
            let at = [Step::Key("scheduler"), Step::Nth(nth), Step::Key("name")];
            return Err(Wrong::new(&at, "two schedulers have the same name"));
        }
        if let Some(nth) = repeated(self.programs.iter().map(|program| &program.name)) {
            let at = [Step::Key("program"), Step::Nth(nth), Step::Key("name")];
            return Err(Wrong::new(&at, "two programs have the same name"));
        }
        self.check_names()?;
        self.check_numbers()?;
        for (nth, program) in self.programs.iter().enumerate() {
            program.check(nth)?;
        }
        for (nth, run) in self.runs.iter().enumerate() {
            let wrong = |what: String| Wrong::new(&[Step::Key("runs"), Step::Nth(nth)], what);
            let is_known = |name: &&String| self.programs.iter().any(|program| program.name == **name);
            if let Some(name) = run.iter().find(|name| !is_known(name)) {
                return Err(wrong(format!("runs names {name:?}, which is no program")));
            }
            self.check_run(run).map_err(wrong)?;
        }
        match repeated(self.runs.iter()) {
            Some(nth) => Err(Wrong::new(
                &[Step::Key("runs"), Step::Nth(nth)],
                "runs has the same run twice",
            )),
            None => Ok(()),
        }
    }

    /// Whether what names stand in, tables, pages and names of files, can show them.
    fn check_names(&self) -> Result<(), Wrong> {
        let fits = |name: &str, at: &[Step]| {
            let length = name.chars().count();
            let what = if length == 0 {
                String::from("a name is empty")
            } else if length > LONGEST_NAME {
                format!("a name has {length} characters; {LONGEST_NAME} are the most")
            } else if name.contains(char::is_control) {
                format!("the name {name:?} has control characters")
            } else {
                return Ok(());
            };
            Err(Wrong::new(at, what))
        };
        fits(&self.name, &[Step::Key("name")])?;
        for (nth, scheduler) in self.schedulers.iter().enumerate() {
            fits(
                &scheduler.name,
                &[Step::Key("scheduler"), Step::Nth(nth), Step::Key("name")],
            )?;
        }
        for (nth, program) in self.programs.iter().enumerate() {
            fits(
                &program.name,
                &[Step::Key("program"), Step::Nth(nth), Step::Key("name")],
            )?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), Wrong> {
        let within = |key, value: f64, range: std::ops::RangeInclusive<f64>| match range.contains(&value) {
            true => Ok(()),
            false => Err(Wrong::new(
                &[Step::Key(key)],
                format!(
                    "{key} = {value} is not between {} and {}",
                    range.start(),
                    range.end()
                ),
            )),
        };
        within("seconds", self.seconds, 0.1..=600.0)?;
        for (key, mips) in [("mips", self.mips), ("lab_mips", self.lab_mips)] {
            mips.map_or(Ok(()), |mips| within(key, f64::from(mips), 1.0..=100_000.0))?;
        }
        if let Some(one_in) = self.caches {
            CacheModel::of_one_in(one_in).map_err(|what| Wrong::new(&[Step::Key("caches")], what))?;
        }
        // One round has no spread.
        within("rounds", f64::from(self.rounds), 2.0..=1000.0)?;
        within("start_delay_s", self.start_delay_s, 0.0..=60.0)
    }

    /// How the lab governs CPUs for it.
    pub fn governing(&self) -> Governing {
        let caches = self.caches.filter(|_| !self.without.contains(&LeftOut::Caches));
        Governing {
            mips: self.lab_mips.or(self.mips),
            caches: caches.map(|one_in| CacheModel {
                one_in,
                nominal_mips: self.nominal_mips(),
            }),
            without_acceleration: self.without.contains(&LeftOut::Acceleration),
            without_standstill: self.without.contains(&LeftOut::Standstill),
            profiled: false,
        }
    }

    /// What the machine's fastest CPU is taken to do, in millions of instructions a second, where the lab is in slow motion.
    fn nominal_mips(&self) -> u32 {
        self.lab_mips.and(self.mips).unwrap_or(NOMINAL_MIPS)
    }

    /// What the lab leaves out, in words for the machine's name.
    pub(crate) fn left_out(&self) -> String {
        let words = self
            .without
            .iter()
            .map(|part| format!(" without {}", name_of(part)));
        words.collect()
    }

    /// A program that uses memory.
    pub fn memory_user(&self) -> Option<&Program> {
        self.programs.iter().find(|program| program.uses_memory())
    }

    /// A run's performances are added up, so they must be of one kind; or they are measured in two orders.
    fn check_run(&self, run: &[String]) -> Result<(), String> {
        let programs: Vec<&Program> = run.iter().map(|name| self.program(name)).collect();
        match programs.as_slice() {
            [] => Err(String::from("runs has an empty run")),
            [_] => Ok(()),
            [a, b] if self.two_orders && a.has_fixed_work() && b.has_fixed_work() => Ok(()),
            _ if self.two_orders => Err(format!(
                "run {run:?}: with two_orders it must be of two commands whose time is taken from outside, \
                 without figure, time_label, figure_label and {START_PLACEHOLDER}"
            )),
            [first, others @ ..] if others.iter().all(|other| first.adds_up_with(other)) => Ok(()),
            _ => Err(format!(
                "run {run:?}: only synthetic programs can run together, or those of stages, or one program with a figure: \
                 their work can be added up. Use two_orders for others"
            )),
        }
    }

    /// Whether the programs of a run are measured in two orders.
    pub(crate) fn is_in_two_orders(&self, run: &[String]) -> bool {
        self.two_orders && run.len() == 2
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

    /// Whether the performances of these programs are work a second, as each says itself.
    pub fn counts_work(&self, run: &[String]) -> bool {
        run.iter().all(|name| self.program(name).counts_work())
    }

    /// The programs and files that the guest needs besides our own.
    pub(crate) fn foreign_programs(&self) -> BTreeSet<&str> {
        let commands = self.programs.iter().map(|program| &program.command);
        commands
            .chain(self.schedulers.iter().map(|scheduler| &scheduler.command))
            .filter_map(|c| c.first())
            .chain(self.programs.iter().flat_map(|program| &program.needs))
            .map(String::as_str)
            .collect()
    }
}

impl Program {
    /// Whether two programs differ in their names only.
    pub fn does_the_same_as(&self, other: &Self) -> bool {
        let nameless = |program: &Self| Self {
            name: String::new(),
            ..program.clone()
        };
        nameless(self) == nameless(other)
    }

    /// Whether it has working sets.
    pub fn uses_memory(&self) -> bool {
        let synthetic = self.synthetic.as_ref();
        synthetic.is_some_and(|synthetic| synthetic.memory.is_some())
    }

    /// Whether its performance is work a second, as it says itself.
    pub(crate) fn counts_work(&self) -> bool {
        self.counts_units() || self.rtapp.is_some() || self.figure.is_some()
    }

    /// Whether its work is in the synthetic benchmark's units.
    fn counts_units(&self) -> bool {
        self.synthetic.is_some() || self.stages.is_some()
    }

    /// Whether it waits for a common start.
    pub(crate) fn waits_for_start(&self) -> bool {
        self.synthetic.is_some() || self.command.iter().any(|word| word.contains(START_PLACEHOLDER))
    }

    /// Whether it runs for the experiment's seconds from the common start on.
    pub(crate) fn runs_for_seconds(&self) -> bool {
        let is_told = self.command.iter().any(|word| word.contains(SECONDS_PLACEHOLDER));
        self.synthetic.is_some() || self.waits_for_start() && is_told
    }

    /// Whether it does the same however long it takes, as far as can be seen, and its time is taken from outside.
    fn has_fixed_work(&self) -> bool {
        self.is_timed() && self.time_label.is_none()
    }

    /// Whether its performance is one over the time that it takes for the same work.
    pub(crate) fn is_timed(&self) -> bool {
        !self.counts_work() && !self.waits_for_start() && self.figure_label.is_none()
    }

    /// What its time is called, if it is timed.
    pub(crate) fn time_name(&self) -> Option<String> {
        let label = self.time_label.as_deref().unwrap_or_default();
        let name = match label.trim().trim_end_matches(':') {
            "" => "time",
            name => name,
        };
        self.is_timed().then(|| name.to_string())
    }

    /// Whether the two programs' work is of one kind.
    fn adds_up_with(&self, other: &Self) -> bool {
        match (&self.figure, &other.figure) {
            (Some(figure), Some(of_other)) => {
                figure == of_other && self.command.first() == other.command.first()
            }
            _ => self.counts_units() && other.counts_units(),
        }
    }

    /// Whether it can be run; it is the `nth` of its experiment.
    fn check(&self, nth: usize) -> Result<(), Wrong> {
        let of_this = |more: &[Step], what: String| {
            let at = [&[Step::Key("program"), Step::Nth(nth)], more].concat();
            Wrong::new(&at, format!("program {:?}: {what}", self.name))
        };
        self.check_reading().map_err(|what| of_this(&[], what))?;
        let kinds = [
            self.synthetic.is_some(),
            self.rtapp.is_some(),
            self.stages.is_some(),
            !self.command.is_empty(),
        ];
        if kinds.iter().filter(|is_there| **is_there).count() != 1 {
            return Err(of_this(
                &[],
                String::from("it needs either synthetic or command, or rtapp or stages"),
            ));
        }
        let sizes = match (&self.synthetic, &self.stages) {
            (Some(of), _) => Some(("synthetic", of.threads, of.phase_units)),
            (_, Some(of)) => Some(("stages", of.threads, of.phase_units)),
            _ => None,
        };
        if let Some((kind, threads, phase_units)) = sizes {
            check_sizes(threads, phase_units)
                .map_err(|(key, what)| of_this(&[Step::Key(kind), Step::Key(key)], what))?;
        }
        if !(-20..=19).contains(&self.nice) {
            let what = format!("nice = {} is not between -20 and 19", self.nice);
            return Err(of_this(&[Step::Key("nice")], what));
        }
        let memory = self.synthetic.as_ref().map_or(Ok(()), Synthetic::check_memory);
        memory.map_err(|what| of_this(&[Step::Key("synthetic")], what))
    }

    /// Whether it is clear how its performance is read.
    fn check_reading(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(String::from(what));
        let readings = [&self.figure, &self.time_label, &self.figure_label];
        let nr_readings = readings.iter().filter(|reading| reading.is_some()).count();
        if nr_readings > 1 {
            return wrong("figure, time_label and figure_label exclude each other");
        }
        if self.command.is_empty() && (nr_readings > 0 || !self.env.is_empty() || !self.needs.is_empty()) {
            return wrong("figure, time_label, figure_label, env and needs are for commands");
        }
        if self.env.keys().any(|name| name.is_empty() || name.contains('=')) {
            return wrong("env has a variable without a name, or one with = in it");
        }
        Ok(())
    }

    /// Its seed in a round, from 0: programs of one round differ in theirs.
    pub fn seed(&self, experiment: &Experiment, round: u32) -> u64 {
        let of_round = match experiment.same_phases {
            true => experiment.seed,
            false => experiment.seed + u64::from(round),
        };
        let place = experiment
            .programs
            .iter()
            .position(|program| program.name == self.name);
        of_round * 1000 + place.unwrap_or(0) as u64
    }

    /// The command that runs it in the guest.
    pub(crate) fn command(&self, experiment: &Experiment, machine: &Machine, round: u32) -> Vec<String> {
        let command = match &self.synthetic {
            Some(synthetic) => self.synthetic_command(synthetic, experiment, machine, round),
            None => self.foreign_command(experiment, machine, round),
        };
        if self.nice == 0 && self.bound_to.is_none() {
            return command;
        }
        // Of busybox there is no nice.
        let nice = format!("busybox renice -n {} -p $$", self.nice);
        let bind = self
            .bound_to
            .map(|cpu| format!(" && busybox taskset -p {} $$ >/dev/null", hex_mask(cpu)));
        let begin = format!("{nice}{} && exec \"$@\"", bind.unwrap_or_default());
        ["busybox", "sh", "-c", &begin, "sh"]
            .map(String::from)
            .into_iter()
            .chain(command)
            .collect()
    }

    /// The command of the synthetic benchmark.
    fn synthetic_command(
        &self,
        synthetic: &Synthetic,
        experiment: &Experiment,
        machine: &Machine,
        round: u32,
    ) -> Vec<String> {
        let threads = synthetic.nr_threads(machine);
        let seed = self.seed(experiment, round);
        let memory = synthetic.memory.as_ref();
        let memory = memory.map(|memory| memory.options(machine, experiment.nominal_mips()));
        let words = [
            "threadwise bench synthetic --format json".to_string(),
            format!(
                "--ratio {} --threads {threads} --phase-units {}",
                synthetic.ratio, synthetic.phase_units
            ),
            format!(
                "--wait {} --distribution {}",
                name_of(synthetic.wait),
                name_of(synthetic.distribution)
            ),
            format!(
                "--seed {seed} --duration {} --start-at-ns {START_PLACEHOLDER}",
                experiment.seconds
            ),
        ];
        let all = words.into_iter().chain(memory).collect::<Vec<_>>().join(" ");
        all.split(' ').map(String::from).collect()
    }

    /// The command with what its arguments stand for, in its environment.
    fn foreign_command(&self, experiment: &Experiment, machine: &Machine, round: u32) -> Vec<String> {
        let known = [
            ("{cpus}", machine.nr_cpus().to_string()),
            (SECONDS_PLACEHOLDER, experiment.seconds.to_string()),
            ("{seed}", self.seed(experiment, round).to_string()),
        ];
        let filled_in = |word: &String| {
            let replace = |word: String, (name, value): &(&str, String)| word.replace(name, value);
            known.iter().fold(word.clone(), replace)
        };
        let env = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        let prefix = match self.env.is_empty() {
            true => Vec::new(),
            false => ["busybox", "env"]
                .map(String::from)
                .into_iter()
                .chain(env)
                .collect(),
        };
        prefix
            .into_iter()
            .chain(self.command.iter().map(filled_in))
            .collect()
    }
}

/// The mask of a CPU as taskset takes it.
fn hex_mask(cpu: usize) -> String {
    format!("{:x}{}", 1 << (cpu % 4), "0".repeat(cpu / 4))
}

/// Whether it need not be said.
fn is_zero(nice: &i32) -> bool {
    *nice == 0
}

/// What a variant is called, in files as on command lines.
fn name_of(variant: impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a variant without fields is a string, not {other:?}"),
    }
}

/// Where a command's program is on the host: a path, or found on PATH, beside this program, or where `make peers` puts
/// other schedulers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
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
        let together = parse(GOOD).unwrap_err();
        let line = 1 + GOOD[..GOOD.find("[[program]]").unwrap()].matches('\n').count();
        assert!(
            together.contains(&format!(
                "line {line}: run [\"A\", \"B\"]: only synthetic programs can run together"
            )) && together.contains("no runs of its own"),
            "{together}"
        );
        for (change, expected) in [
            (("name = \"A\"", "name = \"B\""), "same name"),
            (
                ("machine = \"smp-8\"", "machine = \"smp-8\"\nrounds = 0"),
                "line 5: rounds = 0",
            ),
            (
                ("machine = \"smp-8\"", "machine = \"smp-8\"\nmips = 0"),
                "line 5: mips = 0",
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
            (
                ("phase_units = 10000", "phase_units = 10000, threads = 0"),
                "line 10: program \"A\": threads = 0 is not between 1 and 4096",
            ),
            (
                ("phase_units = 10000", "phase_units = 10000, threads = 4000000000"),
                "line 10: program \"A\": threads = 4000000000",
            ),
            (
                ("phase_units = 10000", "phase_units = 268435457"),
                "line 10: program \"A\": phase_units = 268435457",
            ),
        ] {
            let error = parse(&good.replace(change.0, change.1)).unwrap_err();
            assert!(error.contains(expected) && error.contains("t.toml"), "{error}");
            assert!(error.contains("line "), "{error}");
        }
        let memory = "phase_units = 1, memory = { working_set_kib = 1, accesses_per_us = 1001 }";
        let error = parse(&good.replace("phase_units = 10000", memory)).unwrap_err();
        assert!(
            error.contains("line 10: program \"A\": accesses_per_us = 1001"),
            "{error}"
        );
    }

    #[test]
    fn names_can_be_shown() {
        let good = GOOD.replace(
            "machine = \"smp-8\"",
            "machine = \"smp-8\"\nruns = [[\"A\"], [\"B\"]]",
        );
        let (long, longest) = ("x".repeat(101), "ü".repeat(100));
        for name in ["t", "kernel"] {
            let named = |other: &str| {
                parse(&good.replace(&format!("name = \"{name}\""), &format!("name = \"{other}\"")))
            };
            named(&longest).unwrap();
            for (other, expected) in [
                ("", "a name is empty"),
                (&long, "a name has 101 characters; 100 are the most"),
                ("a\\u001bb", "the name \"a\\u{1b}b\" has control characters"),
            ] {
                let error = named(other).unwrap_err();
                assert!(error.contains(expected) && error.contains("line "), "{error}");
            }
        }
        let program = good.replace("\"A\"", "\"\"");
        assert!(parse(&program).unwrap_err().contains("a name is empty"));
    }

    /// Two commands that run together, after `more` of the experiment, and with `of_a` and `of_b` of the programs.
    fn commands(more: &str, of_a: &str, of_b: &str) -> Result<Experiment, String> {
        parse(&format!(
            "name = \"t\"\ndescription = \"d\"\nmachine = \"smp-8\"\n{more}\n[[scheduler]]\nname = \"kernel\"\n\
             [[program]]\nname = \"A\"\n{of_a}\n[[program]]\nname = \"B\"\n{of_b}\n"
        ))
    }

    #[test]
    fn commands_run_together_if_their_work_adds_up_or_in_two_orders() {
        let [stencil, small] = ["1000", "100"].map(|size| {
            format!("command = [\"omp-stencil\", \"--size\", \"{size}\"]\nfigure = \"work_units_per_s\"")
        });
        let other = small.replace("stencil", "sort");
        let (plain, timed) = ("command = [\"a\"]", "command = [\"a\"]\ntime_label = \"s\"");
        let started = "command = [\"a\", \"{start}\"]";
        assert!(commands("", &stencil, &small).is_ok());
        assert!(commands("two_orders = true", plain, plain).is_ok());
        for (more, b, expected) in [
            ("", other.as_str(), "Use two_orders"),
            ("", plain, "Use two_orders"),
            ("two_orders = true", small.as_str(), "without figure"),
        ] {
            let error = commands(more, &stencil, b).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for b in [timed, started] {
            let error = commands("two_orders = true", plain, b).unwrap_err();
            assert!(error.contains("without figure"), "{error}");
        }
        let alone = "two_orders = true\nruns = [[\"A\"], [\"B\"]]";
        let experiment = commands(alone, &stencil, timed).unwrap();
        assert!(!experiment.is_in_two_orders(&experiment.runs[0]));
    }

    #[test]
    fn what_a_command_needs_comes_with_it() {
        let a = "command = [\"sh\", \"-c\", \"tbench_srv & tbench 2\"]\nneeds = [\"tbench\", \"tbench_srv\", \"a/load\"]\n\
                 figure_label = \"Throughput\"";
        let experiment = commands("runs = [[\"A\"], [\"B\"]]", a, "command = [\"b\"]").unwrap();
        let needed: Vec<&str> = experiment.foreign_programs().into_iter().collect();
        assert_eq!(needed, ["a/load", "b", "sh", "tbench", "tbench_srv"]);
        assert!(!experiment.programs[0].counts_work() && !experiment.programs[0].has_fixed_work());
        assert_eq!(find_program("no/such/load"), None);
        for (wrong, said) in [
            (format!("{a}\ntime_label = \"s\""), "exclude each other"),
            (
                String::from("rtapp = \"a.json\"\nneeds = [\"b\"]"),
                "are for commands",
            ),
            (
                format!("{a}\nrtapp = \"a.json\""),
                "either synthetic or command, or rtapp or stages",
            ),
            (
                format!("{a}\nstages = {{ phase_units = 1 }}"),
                "either synthetic or command, or rtapp or stages",
            ),
        ] {
            let error = commands("runs = [[\"A\"]]", &wrong, "command = [\"b\"]").unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn commands_are_told_what_their_arguments_stand_for() {
        let a = "command = [\"a\", \"-n{cpus}\", \"{seconds}\", \"{seed}\", \"{start}\"]\nenv = { B = \"1\", A = \"x y\" }";
        let experiment = commands("runs = [[\"A\"]]\nseconds = 2.5", a, "command = [\"b\"]").unwrap();
        let machine = Machine::load("smp-8").unwrap();
        let command = |name: &str| {
            experiment
                .program(name)
                .command(&experiment, &machine, 2)
                .join("|")
        };
        assert_eq!(command("A"), "busybox|env|A=x y|B=1|a|-n8|2.5|3000|{start}");
        assert_eq!(command("B"), "b");
        let niced = commands(
            "runs = [[\"A\"]]",
            &format!("{a}\nnice = 19"),
            "command = [\"b\"]",
        )
        .unwrap();
        assert_eq!(
            niced.program("A").command(&niced, &machine, 2).join("|"),
            "busybox|sh|-c|busybox renice -n 19 -p $$ && exec \"$@\"|sh|busybox|env|A=x y|B=1|a|-n8|4|3000|{start}"
        );
        let bound = "command = [\"a\"]\nbound_to = 5";
        let bound = commands("runs = [[\"A\"]]", bound, "command = [\"b\"]").unwrap();
        assert_eq!(
            bound.program("A").command(&bound, &machine, 2)[3],
            "busybox renice -n 0 -p $$ && busybox taskset -p 20 $$ >/dev/null && exec \"$@\""
        );
        assert_eq!([0, 3, 4, 130].map(hex_mask)[..3], ["1", "8", "10"]);
        assert_eq!(hex_mask(130), format!("4{}", "0".repeat(32)));
        let wrong = commands(
            "runs = [[\"A\"]]",
            &format!("{a}\nnice = 20"),
            "command = [\"b\"]",
        );
        assert!(wrong.unwrap_err().contains("nice = 20 is not between"));
        let wrong = commands(
            "runs = [[\"A\"]]",
            &a.replace("B =", "\"B=\" ="),
            "command = [\"b\"]",
        );
        assert!(wrong.unwrap_err().contains("with = in it"));
        let wrong = commands("start_delay_s = -1", a, "command = [\"b\"]");
        assert!(wrong.unwrap_err().contains("start_delay_s = -1"));
    }

    #[test]
    fn memory_is_that_of_a_machine_in_slow_motion() {
        let text = GOOD
            .replace(
                "smp-8\"",
                "two-duals\"\nmips = 2000\nlab_mips = 60\ncaches = 16\nruns = [[\"A\"]]",
            )
            .replace(
                "wait = \"active\"",
                "memory = { working_set_kib = 3072, accesses_per_us = 6, sharing = \"shared\" }",
            );
        let mut experiment = parse(&text).unwrap();
        let machine = Machine::load("two-duals").unwrap();
        let command =
            |experiment: &Experiment| experiment.program("A").command(experiment, &machine, 0).join(" ");
        // Six in the 2000 instructions of a microsecond, whatever the lab's rate.
        let expected = "--working-set 3072K --accesses 1140 --sharing shared";
        assert!(
            command(&experiment).ends_with(expected),
            "{}",
            command(&experiment)
        );
        let governing = experiment.governing();
        assert_eq!(governing.mips, Some(60));
        assert_eq!(
            governing.caches.map(|model| (model.one_in, model.nominal_mips)),
            Some((16, 2000))
        );
        experiment.programs[0]
            .synthetic
            .as_mut()
            .unwrap()
            .memory
            .as_mut()
            .unwrap()
            .working_set_kib = 1 << 20;
        assert!(
            command(&experiment).contains("--working-set 32768K"),
            "eight caches of 4 MB"
        );
        experiment.without = vec![LeftOut::Caches, LeftOut::Acceleration];
        let governing = experiment.governing();
        assert!(governing.caches.is_none() && governing.without_acceleration);
        assert_eq!(experiment.left_out(), " without caches without acceleration");
        let error = parse(&text.replace("caches = 16", "caches = 12")).unwrap_err();
        assert!(
            error.contains("line 7: caches are modelled by one set in"),
            "{error}"
        );
    }

    #[test]
    fn commands_carry_seed_and_start() {
        let mut experiment = parse(&GOOD.replace(
            "machine = \"smp-8\"",
            "machine = \"smp-8\"
runs = [[\"A\"]]",
        ))
        .unwrap();
        let machine = Machine::load("smp-8").unwrap();
        let command =
            |experiment: &Experiment| experiment.program("A").command(experiment, &machine, 2).join(" ");
        let third = command(&experiment);
        assert!(
            third.contains("--threads 8 --phase-units 10000 --wait active --distribution uniform")
                && third.contains("--seed 3000")
                && third.contains("{start}"),
            "{third}"
        );
        experiment.same_phases = true;
        let third = command(&experiment);
        assert!(third.contains("--seed 1000"), "{third}");
        let synthetic = experiment.programs[0].synthetic.as_mut().unwrap();
        (synthetic.wait, synthetic.distribution) = (Wait::Passive, Distribution::Pareto);
        let pareto = command(&experiment);
        assert!(
            pareto.contains("--wait passive --distribution pareto"),
            "{pareto}"
        );
    }
}
