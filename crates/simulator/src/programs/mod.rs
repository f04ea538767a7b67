// SPDX-License-Identifier: GPL-2.0-only
//! Programs for a [`crate::World`]: what locks, conditions, barriers, semaphores, timers and queues make of threads, made of the
//! few steps that the simulator knows.

mod objects;
mod pipeline;
mod replay;
mod rtapp;
mod script;
mod scripted;
mod staged;
mod weights;

pub use pipeline::{Forwarded, Pipeline, PipelineStage};
pub use replay::{Ends, Replay};
pub use rtapp::{Assumptions, Refused, play};
pub use script::{Object, Op, Play, Script, Stage, TimerKind};
pub use scripted::{Record, Records, Scripted};
pub use staged::Staged;
pub(crate) use weights::load_of;
pub use weights::of_nice as weight_of_nice;
