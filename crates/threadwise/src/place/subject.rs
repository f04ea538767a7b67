// SPDX-License-Identifier: GPL-2.0-only
//! What is assigned, on what, and how it is run.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use threadwise_lab::run::VERSION;
use threadwise_machine::{CpuId, Machine, cpulist};
use threadwise_placement::host::{Host, allowed_cpus};
use threadwise_placement::spec::{Precision, Spec};
use threadwise_placement::{
    Campaign, Change, Computed, Layouts, Runner, Scope, Simulated, Size, Store, StoreError, Tree, fingerprint,
};

use super::lab::Guest;
use crate::Format;

/// Set by Ctrl-C.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What runs the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// This machine
    Host,
    /// An emulated machine
    Lab,
    /// A simulated machine; for ipfwd
    Sim,
    /// A closed-form model of a machine; for ipfwd
    Model,
}

/// A workload, and what it runs on.
#[derive(clap::Args)]
pub struct SubjectOptions {
    /// A file that says how an instance is started and measured, or `ipfwd:VARIANT`, one of the paper's programs, computed or
    /// simulated
    subject: String,

    /// `host`, a machine file, a name from the zoo, or a synthetic string [default: host; for ipfwd ultrasparc-t2]
    #[arg(long, short)]
    machine: Option<String>,

    /// On this machine: place threads on these CPUs only, such as 2-7,10 [default: those that this process may run on]
    #[arg(long, value_name = "CPUS")]
    within: Option<String>,

    /// What runs the programs [default: host; for ipfwd model]
    #[arg(long, value_enum)]
    on: Option<On>,

    /// In the lab: millions of instructions a second of its fastest CPU [default: what its machine file says]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true)]
    mips: Option<u32>,

    /// Instances, instead of what the file says
    #[arg(long, short)]
    instances: Option<usize>,

    /// Take into account what threads do to each other that only share this level, such as llc, instead of what the file says
    #[arg(long, value_name = "LEVEL")]
    beyond: Option<String>,

    /// The seed of all that is drawn at random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// With ipfwd on the model: the standard deviation of a run, relative
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    noise: f64,
}

/// What is said.
#[derive(clap::Args)]
pub struct AnswerOptions {
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

impl AnswerOptions {
    /// Says what would be done.
    pub fn would(&self, what: &str) {
        match self.format {
            Format::Text => println!("would {what}"),
            Format::Json => println!(
                "{}",
                json!({ "schema": "threadwise.place.dry-run/1", "would": what })
            ),
        }
    }
}

/// The store to use.
#[derive(clap::Args)]
pub struct StoreOptions {
    /// Where results are kept [default: the subject's name with .place, in this folder]
    #[arg(long)]
    store: Option<PathBuf>,

    /// Go on with a store of another build of the program: its performance is taken to be the same
    #[arg(long)]
    changed_program: bool,
}

impl StoreOptions {
    /// What a program is to be that is not the one whose results the store has.
    pub fn change(&self) -> Change {
        match self.changed_program {
            true => Change::Accepted,
            false => Change::Refused,
        }
    }
}

/// A workload on a machine.
pub struct Subject {
    pub name: String,
    pub machine: Machine,
    pub tree: Tree,
    pub scope: Scope,
    pub size: Size,
    pub thread_names: Vec<String>,
    /// The file that says how it is run, if one does.
    pub spec_path: Option<PathBuf>,
    pub precision: Precision,
    pub seed: u64,
    /// Of one run, about.
    pub seconds_a_run: f64,
    identity: String,
    kind: Kind,
}

enum Kind {
    Host(Box<Spec>),
    Lab { spec: Box<Spec>, mips: Option<u32> },
    Model { variant: String, noise: f64 },
    Sim { variant: String },
}

impl SubjectOptions {
    /// Reads what there is to read.
    pub fn load(&self) -> Result<Subject> {
        match self.subject.strip_prefix("ipfwd:") {
            Some(variant) => self.load_ipfwd(variant),
            None => self.load_spec(Path::new(&self.subject)),
        }
    }

    fn refuse_within(&self) -> Result<()> {
        if self.within.is_some() {
            bail!(
                "--within is for programs on this machine: elsewhere take a --machine that has no other CPUs"
            );
        }
        Ok(())
    }

    /// Whether the programs are to be simulated.
    pub fn is_simulated(&self) -> bool {
        self.on == Some(On::Sim)
    }

    /// This machine as far as it is to be used.
    fn used_of(&self, machine: &Machine) -> Result<Machine> {
        let cpus = match &self.within {
            Some(list) => cpulist::parse(list).context("--within")?,
            // What another cpuset or affinity leaves it may include CPUs that are offline.
            None => (allowed_cpus().into_iter())
                .filter(|&cpu| machine.cpu(cpu).is_some())
                .collect(),
        };
        Ok(machine.within(&cpus)?)
    }

    fn load_ipfwd(&self, variant: &str) -> Result<Subject> {
        self.refuse_within()?;
        let machine = Machine::load(self.machine.as_deref().unwrap_or("ultrasparc-t2"))?;
        if !(0.0..1.0).contains(&self.noise) {
            bail!(
                "--noise {} is out of range: it must be at least 0 and below 1",
                self.noise
            );
        }
        let kind = match self.on.unwrap_or(On::Model) {
            On::Model => {
                Computed::new(&machine, variant, self.noise, self.seed)?;
                Kind::Model {
                    variant: variant.into(),
                    noise: self.noise,
                }
            }
            On::Sim if self.noise > 0.0 => {
                bail!("a simulation has no noise but its own: --noise is for --on model")
            }
            On::Sim => {
                Simulated::new(&machine, variant, self.seed)?;
                Kind::Sim {
                    variant: variant.into(),
                }
            }
            On::Host | On::Lab => bail!(
                "{} is no program to be run, only to be computed or simulated: take a file such as workloads/ipfwd.toml, \
                 or --on model or sim",
                self.subject
            ),
        };
        let once = u32::from(self.noise > 0.0);
        self.subject(
            (&self.subject, machine),
            (Scope::DEFAULT, self.beyond.as_deref()),
            kind,
            |subject| {
                subject.thread_names = ["R", "P", "T"].map(String::from).to_vec();
                subject.precision = Precision {
                    relative: 0.01,
                    min: 1 + once,
                    max: 1 + 4 * once,
                };
                subject.size.instances = self.instances.unwrap_or(2);
                subject.identity = match subject.kind {
                    // What another version computes or simulates may be something else.
                    Kind::Sim { .. } => json!([variant, subject.machine, "sim", VERSION]),
                    _ => json!([variant, subject.machine, self.noise, VERSION]),
                }
                .to_string();
            },
        )
    }

    fn load_spec(&self, path: &Path) -> Result<Subject> {
        let spec = Spec::read(path)?;
        let source = self.machine.clone().unwrap_or_else(|| "host".into());
        let on = self.on.unwrap_or(On::Host);
        if on == On::Host && source != "host" {
            bail!("programs on this machine see this machine: --machine {source} wants --on lab");
        }
        if on == On::Host && self.mips.is_some() {
            bail!("this machine has the speed that it has: --mips wants --on lab");
        }
        let mut machine = Machine::load(&source)?;
        match on {
            On::Host => machine = self.used_of(&machine)?,
            On::Lab | On::Sim | On::Model => self.refuse_within()?,
        }
        let scope = spec.scope.clone();
        let beyond = self.beyond.as_deref().or(spec.beyond.as_deref());
        let copy = Box::new(spec.clone());
        let kind = match on {
            On::Host => Kind::Host(copy),
            On::Lab => Kind::Lab {
                spec: copy,
                mips: self.mips,
            },
            On::Sim | On::Model => bail!(
                "what {} starts is a program, of which only runs tell: take --on host or lab, or ipfwd:VARIANT",
                path.display()
            ),
        };
        self.subject((&spec.name, machine), (&scope, beyond), kind, |subject| {
            subject.spec_path = Some(path.into());
            subject.thread_names = spec.threads.iter().map(|thread| thread.to_string()).collect();
            subject.precision = spec.precision;
            subject.size.instances = self.instances.unwrap_or(spec.instances);
            subject.seconds_a_run = spec.time.warm_up + spec.time.measure;
            // What does not change what a run means may change between campaigns.
            let same = json!([
                spec.command,
                spec.environment,
                spec.threads,
                spec.unassigned,
                spec.performance,
                spec.time,
                scope,
                subject.machine,
                format!("{on:?}"),
                self.mips,
            ]);
            subject.identity = same.to_string();
        })
    }

    fn subject(
        &self,
        (name, machine): (&str, Machine),
        (scope, beyond): (&str, Option<&str>),
        kind: Kind,
        complete: impl FnOnce(&mut Subject),
    ) -> Result<Subject> {
        let tree = Tree::new(&machine)?;
        let mut scope = Scope::new(&machine, &tree, scope)?;
        if let Some(beyond) = beyond {
            scope = scope.with_beyond(&machine, &tree, beyond)?;
        }
        let mut subject = Subject {
            name: name.to_string(),
            machine,
            tree,
            scope,
            size: Size {
                roles: 0,
                instances: 1,
            },
            thread_names: Vec::new(),
            spec_path: None,
            precision: Precision::default(),
            seed: self.seed,
            seconds_a_run: 0.0,
            identity: String::new(),
            kind,
        };
        complete(&mut subject);
        if let Some(beyond) = subject.scope.beyond() {
            // Where threads run in an experiment depends on it.
            subject.identity = format!("{} beyond {}", subject.identity, beyond.level());
        }
        subject.size.roles = subject.thread_names.len();
        if subject.size.instances == 0 {
            bail!("--instances must be at least 1");
        }
        if subject.nr_threads() > subject.tree.nr_leaves() {
            bail!(
                "{} instances of {} threads do not fit on the {} hardware threads of {}, one on each: give fewer --instances, \
                 leave threads that do little to `unassigned`, or take a larger machine, such as --on lab --machine smt-8",
                subject.size.instances,
                subject.size.roles,
                subject.tree.nr_leaves(),
                subject.machine.name()
            );
        }
        Ok(subject)
    }
}

impl Subject {
    /// Threads of all instances.
    pub fn nr_threads(&self) -> usize {
        self.size.roles * self.size.instances
    }

    /// The campaign over it.
    pub fn campaign<'a>(&'a self, layouts: &'a Layouts<'a>) -> Campaign<'a> {
        Campaign {
            tree: &self.tree,
            scope: &self.scope,
            layouts,
            size: self.size,
            precision: self.precision,
            seed: self.seed,
            interrupted: &INTERRUPTED,
        }
    }

    /// What runs it. From now on Ctrl-C ends the present run and whatever it started; in the lab, when it is over.
    pub fn runner(&self) -> Result<Box<dyn Runner + '_>> {
        static HANDLED: Once = Once::new();
        let mut handled = Ok(());
        HANDLED.call_once(|| handled = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)));
        handled.context("cannot handle Ctrl-C")?;
        Ok(match &self.kind {
            Kind::Model { variant, noise } => {
                Box::new(Computed::new(&self.machine, variant, *noise, self.seed)?)
            }
            Kind::Sim { variant } => Box::new(Simulated::new(&self.machine, variant, self.seed)?),
            Kind::Host(spec) => {
                let folder = std::env::temp_dir().join(format!("threadwise-place-{}", std::process::id()));
                let cpus: Vec<CpuId> = self.machine.cpus().iter().map(|cpu| cpu.id).collect();
                Box::new(Host::new(spec, &cpus, folder, &INTERRUPTED)?)
            }
            Kind::Lab { spec, mips } => Box::new(Guest::boot(spec, &self.machine, *mips)?),
        })
    }

    /// How its program is run, if it is one.
    pub fn spec(&self) -> Option<&Spec> {
        match &self.kind {
            Kind::Host(spec) | Kind::Lab { spec, .. } => Some(spec),
            Kind::Model { .. } | Kind::Sim { .. } => None,
        }
    }

    /// Whether it runs in a guest.
    pub fn is_in_lab(&self) -> bool {
        matches!(self.kind, Kind::Lab { .. })
    }

    /// Whether the kernel could place the threads instead.
    pub fn has_kernel(&self) -> bool {
        !matches!(self.kind, Kind::Model { .. })
    }

    /// Opens its store, which must be there.
    pub fn open_existing(&self, options: &StoreOptions) -> Result<Store> {
        let path = self.store_path(options);
        if !path.exists() {
            bail!(
                "there is no {}: run `threadwise place profile` with the same options first",
                path.display()
            );
        }
        self.open(options)
    }

    /// Opens its store, or creates it. A program that has changed since it was filled is refused, unless the options say
    /// that it does not matter.
    pub fn open(&self, options: &StoreOptions) -> Result<Store> {
        self.open_at(&self.store_path(options), options)
    }

    /// As [`Subject::open`], of another file.
    pub fn open_at(&self, path: &Path, options: &StoreOptions) -> Result<Store> {
        let store = Store::open(path, self.store_identity()).map_err(|error| self.explained(error))?;
        if let Some(spec) = self.spec() {
            // A program that is not there fails when it is run, and is then named with the remedy.
            if let Ok(fingerprint) = fingerprint(&spec.command[0]) {
                store.check_program(&fingerprint, options.change())?;
            }
        }
        Ok(store)
    }

    /// What its stores are known by.
    pub fn store_identity(&self) -> (&str, &str) {
        (&self.name, &self.identity)
    }

    /// Why a store is not this one's, as far as what it is known by tells.
    pub fn explained(&self, error: StoreError) -> anyhow::Error {
        let StoreError::Changed { path, known, .. } = &error else {
            return error.into();
        };
        match changed(known, &self.identity) {
            Some(how) => anyhow!("{} was filled {how}: give another --store", path.display()),
            None => error.into(),
        }
    }

    /// Where its store is.
    pub fn store_path(&self, options: &StoreOptions) -> PathBuf {
        let default = || {
            let name = self.name.replace(|c: char| !c.is_alphanumeric(), "-");
            let on = match self.kind {
                Kind::Sim { .. } => "-sim",
                _ => "",
            };
            PathBuf::from(format!("{name}{on}.place"))
        };
        options.store.clone().unwrap_or_else(default)
    }

    /// The CPUs of each instance.
    pub fn cpus(&self, placed: &[u16]) -> Vec<Vec<CpuId>> {
        let one = |threads: &[u16]| threads.iter().map(|&leaf| self.tree.cpu(leaf)).collect();
        placed.chunks_exact(self.size.roles).map(one).collect()
    }

    /// The leaves of an assignment as people write it: CPUs of an instance joined by commas, instances by blanks.
    pub fn parse(&self, text: &str) -> Result<Vec<u16>> {
        let mut placed = Vec::new();
        for instance in text.split_whitespace() {
            let cpus: Vec<&str> = instance.split(',').collect();
            if cpus.len() != self.size.roles {
                bail!(
                    "\"{instance}\" has {} CPUs, an instance has {} threads",
                    cpus.len(),
                    self.size.roles
                );
            }
            for cpu in cpus {
                let id = cpu.parse().with_context(|| format!("\"{cpu}\" is no CPU"))?;
                let leaf = self.tree.leaf(CpuId(id));
                let leaf =
                    leaf.with_context(|| format!("{} has no CPU {cpu} online", self.machine.name()))?;
                if placed.contains(&leaf) {
                    bail!("CPU {cpu} is given twice: each thread needs one of its own");
                }
                placed.push(leaf);
            }
        }
        if placed.is_empty() {
            bail!("no CPUs are given: for each instance its threads' CPUs, such as \"0,1,2 8,9,10\"");
        }
        Ok(placed)
    }
}

/// How what a store was filled with differs from what would be put into it: by the parts of [`Subject::store_identity`], as
/// `load_ipfwd` and `load_spec` write them.
fn changed(known: &str, wanted: &str) -> Option<String> {
    const COMPUTED: [&str; 3] = ["variant", "machine", "--on or --noise"];
    const RUN: [&str; 10] = [
        "command",
        "environment",
        "list of threads",
        "list of unassigned threads",
        "measure of performance",
        "time of a run",
        "scope",
        "machine or --within",
        "--on",
        "--mips",
    ];
    let parts = |identity: &str| -> Option<(Vec<Value>, String)> {
        let (array, beyond) = identity.rsplit_once(']')?;
        Some((
            serde_json::from_str(&format!("{array}]")).ok()?,
            beyond.to_string(),
        ))
    };
    let ((known, known_beyond), (wanted, beyond)) = (parts(known)?, parts(wanted)?);
    let is_computed = known.len() == COMPUTED.len() + 1;
    let names = if is_computed { &COMPUTED[..] } else { &RUN[..] };
    let pairs = || known.iter().zip(&wanted);
    let differ = pairs().zip(names).filter(|((a, b), _)| a != b);
    let mut how: Vec<String> = differ.map(|(_, name)| format!("with another {name}")).collect();
    how.extend((known_beyond != beyond).then(|| String::from("with another --beyond")));
    if let Some((Value::String(then), Value::String(now))) =
        pairs().nth(COMPUTED.len()).filter(|_| is_computed)
        && then != now
    {
        how.push(format!("by another build of threadwise ({then}, this is {now})"));
    }
    (known.len() == wanted.len() && !how.is_empty()).then(|| how.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_was_filled_with_is_said() {
        let of = |version: &str, noise: f64| json!(["ipfwd:intadd", { "a": 1 }, noise, version]).to_string();
        let then = of("abc", 0.0);
        for (now, expected) in [
            (
                of("def", 0.0),
                "by another build of threadwise (abc, this is def)",
            ),
            (of("abc", 0.1), "with another --on or --noise"),
            (
                of("def", 0.1),
                "with another --on or --noise and by another build of threadwise (abc, this is def)",
            ),
            (format!("{then} beyond llc"), "with another --beyond"),
        ] {
            assert_eq!(changed(&then, &now).as_deref(), Some(expected));
        }
        assert_eq!(changed("what nobody writes", &then), None);
    }
}
