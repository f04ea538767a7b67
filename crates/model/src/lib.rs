// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling policies reach in theory.
//!
//! [`tables`] has the equations and tables of "Task Scheduling Based On Thread Essence and Resource Limitations"
//! (*thread-essence* below), section VI, exactly. [`fluid`] plays its model out over time with perfect sharing. [`sharing`]
//! is about another question: how fast pipelines of threads run when their hardware threads share pipelines, cores and
//! caches. Nothing here is measured or simulated on a scheduler.

pub mod fluid;
pub mod sharing;
pub mod tables;
