// SPDX-License-Identifier: GPL-2.0-only
//! A runner that computes: the model of IPFwd on machines such as the UltraSPARC T2.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use threadwise_machine::{CpuId, Machine};
use threadwise_model::sharing::{self, Hardware, Program};

use crate::run::{RunError, Runner};

/// Instances of one of the paper's programs on modelled hardware.
pub struct Computed {
    hardware: Hardware,
    program: Program,
    /// The relative standard deviation that is added, as a measurement would have it.
    noise: f64,
    random: Pcg64,
}

impl Computed {
    /// One of the variants of IPFwd (blackbox-scheduler, section 4.3) on a machine. `noise` is the standard deviation of
    /// a run, relative; 0 is the model's own figure each time.
    ///
    /// # Errors
    /// [`RunError::Program`] for an unknown variant and for hardware that the model does not know.
    pub fn new(machine: &Machine, variant: &str, noise: f64, seed: u64) -> Result<Self, RunError> {
        Self::with_program(machine, variant_named(variant)?, noise, seed)
    }

    /// Any program. An ill-formed one fails when it is run.
    ///
    /// # Errors
    /// [`RunError::Program`] for hardware that the model does not know.
    pub fn with_program(
        machine: &Machine,
        program: Program,
        noise: f64,
        seed: u64,
    ) -> Result<Self, RunError> {
        Ok(Computed {
            hardware: Hardware::from_machine(machine)
                .map_err(|error| RunError::Program(error.to_string()))?,
            program,
            noise,
            random: Pcg64::new(u128::from(seed), 0x015e),
        })
    }

    /// What noise makes of a run: 1 and something approximately normal, the sum of twelve uniform numbers, less six.
    fn factor(&mut self) -> f64 {
        let uniform = |random: &mut Pcg64| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let sum: f64 = (0..12).map(|_| uniform(&mut self.random)).sum();
        match self.noise * (sum - 6.0) {
            // Below a half it goes on as smoothly, and comes to 0 never: no program does less than nothing.
            far if far < -0.5 => -0.25 / far,
            near => 1.0 + near,
        }
    }
}

/// One of the paper's programs.
pub(crate) fn variant_named(variant: &str) -> Result<Program, RunError> {
    sharing::ipfwd(variant).ok_or_else(|| {
        RunError::Program(format!(
            "\"{variant}\" is no variant of IPFwd; there are {}",
            sharing::IPFWD_VARIANTS.join(", ")
        ))
    })
}

impl Runner for Computed {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let threads: Option<Vec<CpuId>> = instances
            .iter()
            .cloned()
            .collect::<Option<Vec<_>>>()
            .map(|all| all.concat());
        let threads = threads.ok_or_else(|| {
            RunError::Program("the model has no kernel that would place the threads".to_string())
        })?;
        let exact = sharing::throughput(&self.hardware, &self.program, &threads)
            .map_err(|error| RunError::Program(error.to_string()))?;
        Ok(exact
            .into_iter()
            .map(|performance| performance * self.factor())
            .collect())
    }

    fn label(&self) -> String {
        "computed by the sharing model".to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that panics has failed
mod tests {
    use super::*;

    #[test]
    fn noise_makes_no_performance_negative() {
        let machine = Machine::load("ultrasparc-t2").unwrap();
        let mut runner = Computed::new(&machine, "intadd", 0.9, 1).unwrap();
        let instance = [0, 1, 2].map(CpuId).to_vec();
        let mut runs: Vec<f64> = (0..1000)
            .map(|_| runner.run(&[Some(instance.clone())]).unwrap()[0])
            .collect();
        runs.sort_by(f64::total_cmp);
        assert!(runs[0] > 0.0, "{}", runs[0]);
        let mut exact = Computed::new(&machine, "intadd", 0.0, 1).unwrap();
        let exact = exact.run(&[Some(instance)]).unwrap()[0];
        assert!((0.9..1.1).contains(&(runs[500] / exact)));
    }
}
