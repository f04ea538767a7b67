// SPDX-License-Identifier: GPL-2.0-only
//! What programs do: phases, threads and synchronisation.
//!
//! [`Ratio`] names how parallel a program is (equation 1 of "Task Scheduling Based On Thread Essence and Resource
//! Limitations", called *thread-essence* below), and [`synthetic`] is the benchmark of that paper's Fig. 4 as a
//! program of real threads. [`pipeline`] is the packet forwarder of "BlackBox Scheduler" as one; [`memory`] is a
//! program whose speed is that of memory; [`interactive`] is one that somebody waits for, and
//! [`chat`] is a server with its clients. [`ready`] shows the phases of any program. [`rtapp`] and [`trace`] read
//! what other tools describe and recorded. This crate runs workloads; it neither schedules nor compares them.
//!
//! Start at [`synthetic::run`], [`pipeline::run`] and [`memory::run`].

mod arguments;
pub mod chat;
mod futex;
pub mod interactive;
pub mod memory;
pub mod pipeline;
pub mod ratio;
pub mod ready;
pub mod rtapp;
mod signals;
mod stat;
mod stop;
pub mod synthetic;
pub mod trace;

pub use arguments::MOST_THREADS;
pub use ratio::{ParseRatioError, Ratio};
pub use signals::Error as SignalError;
pub use stat::stat_fields;
