// SPDX-License-Identifier: GPL-2.0-only
//! How fast pipelines of threads run when each thread is bound to a hardware thread of a machine that shares
//! resources at several levels: an analytic model of the steady state.
//!
//! It plays the real machine where there is none: whoever chooses assignments by measuring some of them ("Thread
//! Assignment of Multithreaded Network Applications in Multicore/Multithreaded Processors", Radojković et al., IEEE
//! TPDS, doi:10.1109/TPDS.2012.311; *blackbox* below) can be tested against [`throughput`]. Its machine is the
//! UltraSPARC T2, its programs are those of blackbox, section 4.3 ([`ipfwd`]). The values are modelled, not measured.
//!
//! A thread works on one packet after the other. Each takes it through stations that it shares with others: the issue
//! slot of its pipe, the load/store unit, multiplier and divider of its core, the banks of the L2 and the memory
//! (blackbox, section 2.1); and it costs delays that it shares with nobody, such as the latency of the L2. What waits
//! at a station is found by approximate mean value analysis (`solver.rs`), what the caches miss by Che's
//! approximation (`cache.rs`). The stages of a pipeline pass on as many packets as the slowest can take; those that
//! wait poll, which keeps disturbing the others.
//!
//! A *pipe* is a hardware pipeline, which several CPUs (hardware threads; the T2 calls them strands) share; a
//! *pipeline* is a program.
//!
//! Deliberately absent: instruction caches and TLBs (all these programs are taken to fit), network interfaces (never
//! the limit in blackbox, section 4.1), store buffers, prefetching, and capacities of CPUs: all run at one clock.
//!
//! Start at [`throughput`].

mod cache;
mod demands;
mod hardware;
mod ipfwd;
mod program;
mod solver;

use threadwise_machine::CpuId;

pub use hardware::{Hardware, Parameters};
pub use ipfwd::{IPFWD_VARIANTS, ipfwd};
pub use program::{Message, Program, Region, Sharing, Stage, Work};

/// The packets a second of each instance of `program`.
///
/// `assignment` has the CPU of each thread, instance by instance, in each in the order of the stages: R1 P1 T1 R2 P2
/// T2. A CPU has at most one thread. Equal hardware is interchangeable: swapping CPUs of a pipe, pipes of a core or
/// whole cores changes no bit; swapping instances changes results by less than 1e-9 of their value.
///
/// # Errors
/// If the program is ill-formed, the assignment does not fit it or the machine, or the solver does not converge.
pub fn throughput(hardware: &Hardware, program: &Program, assignment: &[CpuId]) -> Result<Vec<f64>, Error> {
    let threads = demands::threads(hardware, program, assignment)?;
    let solution = solver::solve(&threads, program.stages.len(), hardware.nr_stations())?;
    let clock_hz = hardware.parameters().clock_hz;
    Ok(solution.rates.iter().map(|rate| rate * clock_hz).collect())
}

/// The packets a second of all instances together: the performance of an assignment (blackbox, section 3.1.2, step 3).
///
/// # Errors
/// Those of [`throughput`].
pub fn total(hardware: &Hardware, program: &Program, assignment: &[CpuId]) -> Result<f64, Error> {
    Ok(throughput(hardware, program, assignment)?.iter().sum())
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The model has one clock.
    #[error("the cores of {machine} differ in speed, which the model does not know: simulate it (--on sim)")]
    Speeds {
        /// Its name.
        machine: String,
    },
    /// A number of the hardware is out of range.
    #[error("the hardware's {name} of {value} is out of range: it must be finite and {range}")]
    Parameter {
        /// Which.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it must be.
        range: &'static str,
    },
    /// The program is ill-formed.
    #[error("program {program}: {problem}")]
    Program {
        /// Its name.
        program: String,
        /// What is wrong and what is right.
        problem: String,
    },
    /// Instances must be whole.
    #[error("{threads} threads are no whole instances: give a CPU to each of {stages} stages, once or more")]
    Instances {
        /// CPUs in the assignment.
        threads: usize,
        /// Stages of the program.
        stages: usize,
    },
    /// The machine has no such CPU.
    #[error("the machine has no CPU {cpu}")]
    NoCpu {
        /// What was given.
        cpu: CpuId,
    },
    /// A CPU has two threads.
    #[error("CPU {cpu} is assigned twice: a hardware thread has one thread")]
    SharedCpu {
        /// Which.
        cpu: CpuId,
    },
    /// The fixed point was not reached.
    #[error("no steady state after {iterations} iterations: queue lengths still change by {change}")]
    NotConverged {
        /// The bound on iterations.
        iterations: u32,
        /// The largest change of a thread's share at a station in the last one.
        change: f64,
    },
}
