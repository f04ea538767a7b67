// SPDX-License-Identifier: GPL-2.0-only
//! The lab: a real kernel on a machine that we do not have.
//!
//! An [`experiment::Experiment`] names a machine, schedulers and programs. [`run::run`] boots a
//! [`guest::Guest`] in QEMU's TCG, whose CPUs the [`governor`] gives their speed, lets the
//! [`agent`] inside start schedulers and programs, and collects samples. [`evaluate`] turns them
//! into the numbers of the report.
//!
//! Deliberately absent: KVM, disk images, networks. What is measured is the scheduler.

pub mod agent;
mod cache;
pub mod error;
pub mod evaluate;
pub mod exec;
pub mod experiment;
pub mod governor;
pub mod guest;
pub mod image;
pub mod must;
pub mod orders;
pub mod profile;
pub mod protocol;
pub mod run;
pub mod table;

pub use cache::cache_folder;
pub use error::Error;
