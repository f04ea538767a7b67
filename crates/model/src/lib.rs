// SPDX-License-Identifier: GPL-2.0-only
//! What scheduling policies reach in theory.
//!
//! [`fluid`] plays the model of "Task Scheduling Based On Thread Essence and Resource Limitations" (*thread-essence*
//! below), section VI, out over time with perfect sharing. Nothing here is measured or simulated on a scheduler.

pub mod fluid;
