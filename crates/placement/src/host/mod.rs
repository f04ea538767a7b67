// SPDX-License-Identifier: GPL-2.0-only
//! Ordinary programs on this machine: started, pinned from outside, watched and measured.

mod performance;
mod process;
mod threads;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use threadwise_machine::CpuId;

use crate::run::{RunError, Runner};
use crate::spec::{Performance, Spec};
use performance::Reading;
use process::Instance;
pub use threads::{Found, Roles, pin_to};

/// How often the pinning is verified.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs a workload on this machine.
pub struct Host<'a> {
    spec: &'a Spec,
    roles: Roles,
    interrupted: &'a AtomicBool,
    /// What programs may write into.
    folder: PathBuf,
}

impl<'a> Host<'a> {
    /// For a workload. `folder` is for the programs' files; setting `interrupted` ends a run.
    ///
    /// # Errors
    /// [`RunError::Program`] when the specification's patterns are none.
    pub fn new(spec: &'a Spec, folder: PathBuf, interrupted: &'a AtomicBool) -> Result<Self, RunError> {
        std::fs::create_dir_all(&folder)
            .map_err(|error| RunError::Program(format!("cannot create {}: {error}", folder.display())))?;
        Ok(Host {
            spec,
            roles: Roles::new(spec)?,
            interrupted,
            folder,
        })
    }

    /// Waits, and looks at every instance meanwhile; ends early when `until_done` says so.
    fn watch(
        &self,
        instances: &mut [Instance],
        seconds: f64,
        until_done: impl Fn(&mut Instance) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let mut all_done = true;
            for instance in &mut *instances {
                let done = until_done(instance)?;
                all_done &= done;
            }
            let left = end.saturating_duration_since(Instant::now());
            if all_done || left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    fn start(&self, nr: usize, cpus: Option<Vec<CpuId>>) -> Result<Instance, RunError> {
        Instance::start(self.spec, nr, cpus, &self.folder)
    }

    /// Performance of programs that end by themselves.
    fn time_to_end(&self, instances: &mut [Instance]) -> Result<Vec<f64>, RunError> {
        let deadline = self.spec.time.deadline;
        self.watch(instances, deadline, |instance| {
            let ended = instance.ended()?;
            if !ended {
                instance.verify(&self.roles)?;
            }
            Ok(ended)
        })?;
        instances
            .iter()
            .map(|instance| {
                let seconds = instance.seconds().ok_or_else(|| {
                    instance.fail(&format!(
                        "has not ended within {deadline} s: raise `time.deadline`"
                    ))
                })?;
                Ok(1.0 / seconds)
            })
            .collect()
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl Runner for Host<'_> {
    fn run(&mut self, placed: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let mut instances = placed
            .iter()
            .enumerate()
            .map(|(nr, cpus)| self.start(nr, cpus.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        let time = self.spec.time;
        let roles = &self.roles;
        self.watch(&mut instances, time.deadline, |instance| {
            instance.has_all_threads(roles)
        })?;
        for instance in &mut instances {
            instance.pin(roles)?;
        }
        if let Performance::Elapsed(_) = self.spec.performance {
            return self.time_to_end(&mut instances);
        }
        let alive = |instance: &mut Instance| {
            if instance.ended()? {
                return Err(instance.fail("ended while it was measured: let it run longer"));
            }
            instance.verify(roles)?;
            Ok(false)
        };
        self.watch(&mut instances, time.warm_up, alive)?;
        let readings: Vec<Reading> = instances
            .iter()
            .map(|instance| Reading::begin(self.spec, instance))
            .collect::<Result<_, _>>()?;
        self.watch(&mut instances, time.measure, alive)?;
        readings
            .into_iter()
            .zip(&instances)
            .map(|(reading, instance)| reading.end(instance))
            .collect()
    }

    fn label(&self) -> String {
        "measured on this machine".to_string()
    }
}
