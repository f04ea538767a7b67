// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise place count`, `list` and `sample`: questions about a machine and numbers of threads.

use std::io::{BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Result;
use rand_pcg::Pcg64;
use serde_json::json;
use threadwise_machine::Machine;
use threadwise_placement::{Assignments, Leaf, Sampler, Scope, Tree, count as count_all};

use crate::Format;

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".to_string()),
        Ok(nr) => Ok(nr),
        Err(error) => Err(format!("{error}")),
    }
}

/// A machine, and threads to place on it.
#[derive(clap::Args)]
pub struct ShapeOptions {
    /// `host`, a machine file, a name from the zoo, or a string such as "package:2 llc:1 core:4 pu:2"
    #[arg(long, short, default_value = "host")]
    machine: String,

    /// Distinct threads of an instance
    #[arg(long, short, value_parser = at_least_one)]
    threads: usize,

    /// Instances of the program
    #[arg(long, short, default_value_t = 1, value_parser = at_least_one)]
    instances: usize,

    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Count the assignments of all threads to hardware threads, one on each.
///
/// Two assignments are the same when only interchangeable hardware is swapped: two hardware threads of a core, two equal
/// cores of a package and so on. Counts are exact, however large. With --format json, `base` is the number of assignments
/// with all threads distinct, `base_modulo_instances` that with interchangeable instances (null where it would take too long
/// to count), `slowdown` the number of entries of the Slowdown Table.
#[derive(clap::Args)]
pub struct CountOptions {
    #[command(flatten)]
    shape: ShapeOptions,

    /// The level beyond which threads are taken not to disturb each other
    #[arg(long, default_value = Scope::DEFAULT)]
    scope: String,
}

/// List assignments: for each thread, instance by instance, the CPU.
///
/// Of each class of equal assignments the first is listed, in a fixed order. With --format json each line is an object:
/// `schema`, and `cpus`, which has for each instance an array of its threads' CPUs.
#[derive(clap::Args)]
pub struct ListOptions {
    #[command(flatten)]
    shape: ShapeOptions,
}

/// Draw assignments at random: each class of equal ones has the same probability, exactly.
///
/// With --format json each line is an object, as of `place list`.
#[derive(clap::Args)]
pub struct SampleOptions {
    #[command(flatten)]
    shape: ShapeOptions,

    /// How many
    #[arg(long, short, default_value_t = 10, value_parser = at_least_one)]
    number: usize,

    /// The seed; the same gives the same assignments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Prints the counts.
pub fn count(options: &CountOptions) -> Result<ExitCode> {
    let shape = &options.shape;
    let machine = Machine::load(&shape.machine)?;
    let tree = Tree::new(&machine)?;
    let scope = Scope::new(&machine, &tree, &options.scope)?;
    let counts = count_all(&tree, &scope, shape.threads, shape.instances)?;
    let modulo = counts.base_modulo_instances.map(|nr| nr.to_string());
    match shape.format {
        Format::Text => {
            println!("assignments, all threads distinct      {}", counts.base);
            println!(
                "the same, instances interchangeable    {}",
                modulo.as_deref().unwrap_or("too many to count")
            );
            println!("entries of the Slowdown Table          {}", counts.slowdown);
        }
        // Numbers of any size stand as they are: JSON has no largest one.
        Format::Json => println!(
            "{{\"schema\": \"threadwise.place.count/1\", \"machine\": {}, \"threads\": {}, \"instances\": {}, \
             \"scope\": {}, \"base\": {}, \"base_modulo_instances\": {}, \"slowdown\": {}}}",
            json!(machine.name()),
            shape.threads,
            shape.instances,
            json!(options.scope),
            counts.base,
            modulo.as_deref().unwrap_or("null"),
            counts.slowdown
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all assignments.
pub fn list(options: &ListOptions) -> Result<ExitCode> {
    let shape = &options.shape;
    let tree = Tree::new(&Machine::load(&shape.machine)?)?;
    let mut assignments = Assignments::new(&tree, shape.threads.saturating_mul(shape.instances))?;
    shape.print(
        &tree,
        std::iter::from_fn(|| assignments.advance().map(|_| assignments.current().to_vec())),
    )
}

/// Prints assignments at random.
pub fn sample(options: &SampleOptions) -> Result<ExitCode> {
    let shape = &options.shape;
    let tree = Tree::new(&Machine::load(&shape.machine)?)?;
    let mut sampler = Sampler::new(&tree, shape.threads.saturating_mul(shape.instances))?;
    let mut random = Pcg64::new(u128::from(options.seed), 0);
    shape.print(&tree, (0..options.number).map(|_| sampler.draw(&mut random)))
}

impl ShapeOptions {
    fn print(&self, tree: &Tree, assignments: impl Iterator<Item = Vec<Leaf>>) -> Result<ExitCode> {
        let mut stdout = BufWriter::new(std::io::stdout().lock());
        for placed in assignments {
            let instances: Vec<Vec<u32>> = (placed.chunks_exact(self.threads))
                .map(|threads| threads.iter().map(|&leaf| tree.cpu(leaf).0).collect())
                .collect();
            let line = match self.format {
                Format::Text => cpus_text(&instances),
                Format::Json => {
                    json!({ "schema": "threadwise.place.assignment/1", "cpus": instances }).to_string()
                }
            };
            match writeln!(stdout, "{line}") {
                // Whoever reads has seen enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
                result => result?,
            }
        }
        stdout.flush().or_else(|error| match error.kind() {
            ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// CPUs of an instance joined by commas, instances by blanks: what `--cpus` takes.
pub fn cpus_text<Cpu: ToString>(instances: &[Vec<Cpu>]) -> String {
    let one = |cpus: &Vec<Cpu>| cpus.iter().map(Cpu::to_string).collect::<Vec<_>>().join(",");
    instances.iter().map(one).collect::<Vec<_>>().join(" ")
}
