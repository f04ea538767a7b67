// SPDX-License-Identifier: GPL-2.0-only
//! Programs for a [`crate::World`]: what locks, conditions, barriers, semaphores and timers make of threads, made of the few
//! steps that the simulator knows.

mod objects;
mod replay;
mod rtapp;
mod script;
mod scripted;
mod staged;

pub use replay::{Ends, Replay};
pub use rtapp::{Assumptions, Refused, play};
pub use script::{Object, Op, Play, Script, Stage, TimerKind};
pub use scripted::{Record, Records, Scripted};
pub use staged::Staged;
