// SPDX-License-Identifier: GPL-2.0-only
//! One interface for "run this assignment and measure", whatever it runs on.

use threadwise_machine::CpuId;

/// Runs instances of a program and measures them.
pub trait Runner {
    /// Runs the instances together. For each instance the CPUs of its threads, or none for the kernel to place it.
    /// Returns the performance of each: finite and above zero.
    ///
    /// # Errors
    /// [`RunError`]: nothing was measured.
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError>;

    /// What is measured: "measured", "lab", "simulated" or "computed", and on what.
    fn label(&self) -> String;
}

/// Why a run gave no figure.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program or its specification is at fault: the next run would fail as well.
    #[error("{0}")]
    Program(String),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}
