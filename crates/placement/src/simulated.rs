// SPDX-License-Identifier: GPL-2.0-only
//! A runner that simulates: pipelines of threads that poll, event by event, on a machine whose hardware threads share what its
//! file says.
//!
//! What each thread does for a packet when nobody is beside it is the sharing model's figure. What threads do to each other is
//! not: here each has its share of a pipe's and a core's speed, of caches and of bandwidth, whatever instructions it executes
//! (`crates/simulator`, `hardware`), while the model has queues at issue slots, multipliers, dividers and banks. So the method
//! meets contention of another kind, and a kernel that places threads.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use threadwise_machine::{CpuId, Machine};
use threadwise_model::sharing::{self, Hardware, Parameters, Program, Sharing, Stage};
use threadwise_simulator::programs::{Forwarded, Pipeline, PipelineStage};
use threadwise_simulator::schedulers::Fair;
use threadwise_simulator::{Costs, Memory, Ns, World};

use crate::computed::variant_named;
use crate::run::{RunError, Runner};

/// Until queues are full or empty, as they stay.
const WARM_UP_NS: Ns = 1_000_000;

/// Some thousands of packets of each instance.
const MEASURE_NS: Ns = 4_000_000;

/// Packets between neighbouring stages. Estimated; longer queues take longer to fill, and change no steady state.
const QUEUE_LENGTH: u32 = 64;

/// How fast what the kernel does is, at an instruction in each cycle of about the T2's clock. It matters little: threads poll.
const KERNEL_MIPS: u32 = 1000;

const WEIGHT: u32 = 100;

/// Instances of a pipeline on a simulated machine.
pub struct Simulated {
    machine: Machine,
    stages: Vec<Alone>,
    sender_ns: f64,
    receiver_ns: f64,
    seed: u64,
    nr_runs: u64,
}

/// What a stage does for a packet with nobody beside it.
struct Alone {
    ns: f64,
    memory: Memory,
}

impl Simulated {
    /// One of the variants of IPFwd (blackbox-scheduler, section 4.3) on a machine. The seed is that of where the kernel
    /// begins; pinned threads do the same each time.
    ///
    /// # Errors
    /// [`RunError::Program`] for an unknown variant and for hardware that the model does not know.
    pub fn new(machine: &Machine, variant: &str, seed: u64) -> Result<Self, RunError> {
        Self::with_program(machine, &variant_named(variant)?, seed)
    }

    /// Any pipeline of at least one stage.
    ///
    /// # Errors
    /// [`RunError::Program`] for an ill-formed program and for hardware that the model does not know.
    pub fn with_program(machine: &Machine, program: &Program, seed: u64) -> Result<Self, RunError> {
        let fail = |error: sharing::Error| RunError::Program(error.to_string());
        let here = Hardware::from_machine(machine).map_err(fail)?;
        // What memory costs is simulated.
        let parameters = Parameters {
            memory_stall_cycles: 0.0,
            memory_access_cycles: 0.0,
            ..*here.parameters()
        };
        let hardware = Hardware::with_parameters(machine, parameters).map_err(fail)?;
        let cpu = machine.cpus()[0].id;
        let alone = |stage: &Stage| {
            let only = Program {
                stages: vec![stage.clone()],
                ..program.clone()
            };
            let ns = 1e9 / sharing::total(&hardware, &only, &[cpu]).map_err(fail)?;
            Ok(Alone {
                ns,
                memory: memory(program, stage, (ns, parameters.l1_data_bytes)),
            })
        };
        let reads_ns = |reads: f64| reads * parameters.l2_stall_cycles * 1e9 / parameters.clock_hz;
        Ok(Simulated {
            stages: program
                .stages
                .iter()
                .map(alone)
                .collect::<Result<_, RunError>>()?,
            sender_ns: reads_ns(program.message.sender_reads),
            receiver_ns: reads_ns(program.message.receiver_reads),
            machine: machine.clone(),
            seed,
            nr_runs: 0,
        })
    }

    /// An instance whose threads are bound to these CPUs, by index, or to none and then taken to be on different cores.
    fn pipeline(&self, cpus: Option<&[usize]>) -> Pipeline {
        let core = |thread: usize| cpus.map(|cpus| self.machine.cpus()[cpus[thread]].core);
        // A kernel that has idle cores gives threads one each.
        let are_apart = |a: usize, b: usize| core(a).is_none() || core(a) != core(b);
        let stage = |(thread, alone): (usize, &Alone)| {
            // Lines that the other has written come from the L2 when it is on another core.
            let mut ns = alone.ns;
            if thread > 0 && are_apart(thread - 1, thread) {
                ns += self.receiver_ns;
            }
            if thread + 1 < self.stages.len() && are_apart(thread, thread + 1) {
                ns += self.sender_ns;
            }
            PipelineStage {
                ns: ns.round() as Ns,
                memory: alone.memory,
                cpu: cpus.map(|cpus| cpus[thread]),
            }
        };
        Pipeline::new(self.stages.iter().enumerate().map(stage).collect(), QUEUE_LENGTH)
    }

    /// CPUs by index.
    ///
    /// # Errors
    /// [`RunError::Program`] for what is no assignment of whole instances to different CPUs.
    fn indexes(&self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<Option<Vec<usize>>>, RunError> {
        let mut taken = BTreeSet::new();
        let mut index = |cpu: &CpuId| {
            let found = self.machine.cpus().iter().position(|it| it.id == *cpu);
            let index = found.ok_or_else(|| RunError::Program(format!("the machine has no CPU {cpu}")))?;
            match taken.insert(index) {
                true => Ok(index),
                false => Err(RunError::Program(format!(
                    "CPU {cpu} is assigned twice: a hardware thread has one thread"
                ))),
            }
        };
        let mut one = |cpus: &Vec<CpuId>| match cpus.len() == self.stages.len() {
            true => cpus.iter().map(&mut index).collect::<Result<Vec<_>, _>>(),
            false => Err(RunError::Program(format!(
                "{} CPUs for an instance of {} threads: give one to each",
                cpus.len(),
                self.stages.len()
            ))),
        };
        instances
            .iter()
            .map(|cpus| cpus.as_ref().map(&mut one).transpose())
            .collect()
    }
}

/// The working set beyond the L1 cache of a stage that takes so long for a packet, and how often it goes there: evenly, as
/// the simulator has it. What the L1 holds of it, it does not go there for.
fn memory(program: &Program, stage: &Stage, (ns, l1_bytes): (f64, f64)) -> Memory {
    let mut memory = Memory::default();
    let mut accesses = 0.0;
    for (region, each) in program.regions.iter().zip(&stage.accesses) {
        if *each > 0.0 && region.bytes > l1_bytes {
            memory.working_set_bytes += region.bytes as u64;
            memory.is_shared |= region.sharing != Sharing::Thread;
            accesses += each * (1.0 - l1_bytes / region.bytes);
        }
    }
    memory.accesses_per_us = (accesses * 1000.0 / ns).round() as u32;
    memory
}

impl Runner for Simulated {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let placed = self.indexes(instances)?;
        self.nr_runs += 1;
        let mut world = World::new(&self.machine, Costs::of_lab(KERNEL_MIPS), Fair::new);
        let seed = self.seed.wrapping_add(self.nr_runs);
        world.seed(seed);
        world.scatter(seed);
        let mut counters: Vec<Rc<Cell<Forwarded>>> = Vec::new();
        for cpus in &placed {
            let pipeline = self.pipeline(cpus.as_deref());
            counters.push(pipeline.forwarded());
            world.start(Box::new(pipeline), WEIGHT, None);
        }
        let mut until = |end: Ns| {
            world.run_until(end).map_err(RunError::Program)?;
            Ok(counters.iter().map(|counter| counter.get()).collect::<Vec<_>>())
        };
        let (first, last) = (until(WARM_UP_NS)?, until(WARM_UP_NS + MEASURE_NS)?);
        let rate =
            |(nr, (first, last)): (usize, (Forwarded, Forwarded))| match last.nr_packets - first.nr_packets {
                0 => Err(RunError::Program(format!(
                    "instance {nr} passed no packet on in {MEASURE_NS} ns of simulated time"
                ))),
                // From the last packet before to the last one: whole packets in the time that they took.
                packets => Ok(packets as f64 * 1e9 / (last.last_at - first.last_at) as f64),
            };
        first.into_iter().zip(last).enumerate().map(rate).collect()
    }

    fn label(&self) -> String {
        "simulated".to_string()
    }
}
