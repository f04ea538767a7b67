// SPDX-License-Identifier: GPL-2.0-only
//! Ordinary programs on this machine: started, pinned from outside, watched and measured.

mod performance;
mod process;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::CpuSet;
use threadwise_machine::CpuId;

use crate::run::{RunError, Runner};
use crate::spec::{Performance, Spec};
use performance::Reading;
use process::{Instance, end_strays};
use threads::set_of;
pub use threads::{Found, Roles, allowed_cpus, pin_all, pin_to};

/// How often the pinning is verified.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often programs that end by themselves are looked at: as exactly as their time is known.
const TIME_TO: Duration = Duration::from_millis(1);

/// Runs a workload on this machine.
pub struct Host<'a> {
    spec: &'a Spec,
    roles: Roles,
    within: CpuSet,
    interrupted: &'a AtomicBool,
    /// Holds a folder for each run, which programs may write into.
    folder: PathBuf,
    nr_runs: u64,
}

impl<'a> Host<'a> {
    /// For a workload whose programs run on these CPUs only, wherever the kernel places what is not pinned. `folder` is for the programs' files; setting `interrupted` ends a run. From now on processes whose
    /// parents have ended become this process's children, so that they are seen, and ended with their run.
    ///
    /// # Errors
    /// [`RunError::Program`] when the specification's patterns are none.
    pub fn new(
        spec: &'a Spec,
        cpus: &[CpuId],
        folder: PathBuf,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, RunError> {
        create(&folder)?;
        // Whoever is this process's child by now is nobody's stray.
        drop(process::known());
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|error| RunError::Program(format!("cannot see who loses its parent: {error}")))?;
        Ok(Host {
            spec,
            roles: Roles::new(spec)?,
            within: set_of(cpus)?,
            interrupted,
            folder,
            nr_runs: 0,
        })
    }

    /// Waits, and looks at every instance meanwhile; ends early when `until_done` says so of all.
    fn watch(
        &self,
        instances: &mut [Instance],
        (seconds, every): (f64, Duration),
        mut until_done: impl FnMut(&mut Instance) -> Result<bool, RunError>,
    ) -> Result<(), RunError> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(RunError::Interrupted);
            }
            let mut all_done = true;
            for instance in &mut *instances {
                all_done &= until_done(instance)?;
            }
            let left = end.saturating_duration_since(Instant::now());
            if all_done || left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(every));
        }
    }

    /// Performance of programs that end by themselves. Whoever ends first is started again until all have ended once, so
    /// that nobody runs the rest undisturbed.
    fn time_to_end(&self, instances: &mut [Instance], folder: &Path) -> Result<Vec<f64>, RunError> {
        let deadline = self.spec.time.deadline;
        let mut took = vec![None; instances.len()];
        self.watch(instances, (deadline, TIME_TO), |instance| {
            if instance.ended()? {
                took[instance.nr] = took[instance.nr].or(instance.seconds());
                if took.contains(&None) {
                    *instance = instance.again(self.spec, &self.within, folder)?;
                }
            } else if instance.has_all_threads(&self.roles)? {
                instance.pin(&self.roles)?;
                if instance.looked.elapsed() >= LOOK_EVERY {
                    instance.verify(&self.roles, true)?;
                }
            }
            Ok(!took.contains(&None))
        })?;
        let seconds = instances.iter().zip(took).map(|(instance, took)| {
            let late = || {
                instance.fail(&format!(
                    "has not ended within {deadline} s: raise `time.deadline`"
                ))
            };
            Ok(1.0 / took.ok_or_else(late)?)
        });
        seconds.collect()
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

impl Runner for Host<'_> {
    fn run(&mut self, placed: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        // What a run leaves in its folder is gone before the next.
        self.nr_runs += 1;
        let folder = self.folder.join(format!("run-{}", self.nr_runs));
        create(&folder)?;
        let measured = self.run_in(&folder, placed);
        end_strays();
        std::fs::remove_dir_all(&folder).ok();
        measured
    }

    fn label(&self) -> String {
        "measured on this machine".to_string()
    }
}

impl Host<'_> {
    fn run_in(&self, folder: &Path, placed: &[Option<Vec<CpuId>>]) -> Result<Vec<f64>, RunError> {
        let start = |(nr, cpus): (usize, &Option<Vec<CpuId>>)| {
            Instance::start(self.spec, nr, (cpus.clone(), &self.within), folder)
        };
        let mut instances = placed
            .iter()
            .enumerate()
            .map(start)
            .collect::<Result<Vec<_>, _>>()?;
        let (time, roles) = (self.spec.time, &self.roles);
        self.watch(&mut instances, (time.deadline, LOOK_EVERY), |instance| {
            instance.has_all_threads(roles)
        })?;
        for instance in &mut instances {
            instance.pin(roles)?;
        }
        if let Performance::Elapsed(_) = self.spec.performance {
            return self.time_to_end(&mut instances, folder);
        }
        let alive = |instance: &mut Instance| {
            if instance.ended()? {
                return Err(instance.fail("ended while it was measured: let it run longer"));
            }
            instance.verify(roles, false)?;
            Ok(false)
        };
        self.watch(&mut instances, (time.warm_up, LOOK_EVERY), alive)?;
        let begin = |instance| Reading::begin(self.spec, instance);
        let readings: Vec<Reading> = instances.iter().map(begin).collect::<Result<_, _>>()?;
        self.watch(&mut instances, (time.measure, LOOK_EVERY), alive)?;
        readings
            .into_iter()
            .zip(&instances)
            .map(|(reading, instance)| reading.end(instance))
            .collect()
    }
}

fn create(folder: &Path) -> Result<(), RunError> {
    std::fs::create_dir_all(folder)
        .map_err(|error| RunError::Program(format!("cannot create {}: {error}", folder.display())))
}
