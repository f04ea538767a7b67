// SPDX-License-Identifier: GPL-2.0-only
//! Programs in a guest: each run is `threadwise place measure` in it.

use threadwise_lab::exec::{self, Job};
use threadwise_lab::governor::Governing;
use threadwise_lab::guest::{self, Kernel};
use threadwise_lab::run::{add_foreign, base_image};
use threadwise_machine::{CpuId, Machine};
use threadwise_placement::spec::Spec;
use threadwise_placement::{RunError, Runner};

use super::shape::cpus_text;
use super::subject::INTERRUPTED;
use crate::lab::default_kernel;

/// Above this share of lost time a run is void. More than an experiment's, because programs are started, new code for QEMU
/// to translate, within what is counted.
const LOST_LIMIT: f64 = 0.03;

/// Attempts at a run that the host can keep up with.
const ATTEMPTS: u32 = 5;

/// A machine that is emulated, with the program under test in it.
pub struct Guest {
    guest: guest::Guest,
    /// What is written to a file in the guest.
    spec: String,
    deadline_s: u64,
}

impl Guest {
    /// Boots a machine, at a rate of its own or at what its file says.
    pub fn boot(spec: &Spec, machine: &Machine, mips: Option<u32>) -> anyhow::Result<Guest> {
        let kernel = Kernel::in_folder(&default_kernel()?)?;
        let mut image = base_image(&kernel)?;
        add_foreign(&mut image, &spec.command[0])?;
        let governing = Governing {
            mips,
            ..Governing::default()
        };
        let guest = guest::Guest::boot(machine, &governing, &kernel, &image, &INTERRUPTED)?;
        let time = spec.time;
        Ok(Guest {
            guest,
            spec: toml::to_string(spec)?,
            deadline_s: (time.deadline + time.warm_up + time.measure) as u64 + 30,
        })
    }
}

impl Runner for Guest {
    fn run(&mut self, instances: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let pinned: Option<Vec<Vec<CpuId>>> = instances.iter().cloned().collect();
        let place = match pinned {
            Some(cpus) => vec!["--cpus".to_string(), cpus_text(&cpus)],
            None => vec![
                "--kernel".into(),
                "--instances".into(),
                instances.len().to_string(),
            ],
        };
        let script = "printf %s \"$1\" > /tmp/spec.toml; shift; exec threadwise place measure /tmp/spec.toml --format json \"$@\"";
        let mut command = vec![
            "sh".to_string(),
            "-c".into(),
            script.into(),
            "sh".into(),
            self.spec.clone(),
        ];
        command.extend(place);
        let job = Job {
            scheduler: Vec::new(),
            command,
            deadline_s: self.deadline_s,
            governed: true,
        };
        let mut lost = 0.0;
        for _ in 0..ATTEMPTS {
            let done =
                exec::exec(&mut self.guest, &job).map_err(|error| RunError::Program(error.to_string()))?;
            if done.status != Some(0) {
                return Err(RunError::Program(
                    done.stderr.trim().trim_start_matches("threadwise: ").to_string(),
                ));
            }
            if done.lost <= LOST_LIMIT {
                return performance(&done.stdout);
            }
            lost = done.lost;
        }
        Err(RunError::Program(format!(
            "the host could not deliver {:.1} % of the machine's time: let nothing else run, or give the machine less `mips`",
            100.0 * lost
        )))
    }

    fn label(&self) -> String {
        "lab".to_string()
    }
}

fn performance(stdout: &str) -> Result<Vec<f64>, RunError> {
    let json: serde_json::Value = serde_json::from_str(stdout)
        .map_err(|error| RunError::Program(format!("the guest's answer is none: {error}: {stdout}")))?;
    let figures = json["performance"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_f64);
    Ok(figures.collect())
}
