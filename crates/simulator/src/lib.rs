// SPDX-License-Identifier: GPL-2.0-only
//! A deterministic simulator of schedulers: discrete events in integer nanoseconds.
//!
//! [`schedulers::Threadwise`] asks the functions of `policy/`, the code that the kernel runs, from the same places as
//! `crates/scheduler/src/bpf/main.bpf.c` does; [`kernel`] is what sched_ext does around it. Other [`Scheduler`]s are there
//! to compare with. [`World`] puts a machine, a scheduler and [`Program`]s together and lets time pass; the same world
//! gives the same result, to the nanosecond. [`check`] watches over what must hold at every event, and a [`timeline`] shows
//! what happened. [`placements`] are those behind the tables of thread-essence. [`faults`] make things go wrong, and a [`sweep`] plays many [`small`] worlds in which they do.
//!
//! What is modelled: CPUs of different speed, what they share ([`Mechanism`]), run queues, idle CPUs, slices that end at ticks,
//! preemption, wake-ups one after the other, and what switches, wake-ups, ticks and timers cost ([`Costs`]). What is not
//! stands in docs/design/simulator.md: other interrupts, cgroups, NUMA, idle states. [`programs`] are what threads do with locks, barriers
//! and timers.

pub mod check;
mod costs;
mod domains;
mod events;
pub mod faults;
mod hardware;
mod idle;
pub mod kernel;
mod latency;
mod mask;
pub mod placements;
mod program;
pub mod programs;
mod queue;
mod scheduler;
pub mod schedulers;
pub mod small;
pub mod sweep;
mod synthetic;
pub mod timeline;
mod world;

pub use costs::Costs;
pub use domains::Domains;
pub use hardware::Mechanism;
pub use program::{Futex, Memory, Program, SHARED, Step};
pub use scheduler::{Enqueue, Scheduler};
pub use synthetic::Synthetic;
pub use world::{Outcome, ProgramOutcome, World};

/// Nanoseconds of simulated time.
pub type Ns = u64;
