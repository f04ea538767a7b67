// SPDX-License-Identifier: GPL-2.0-only
//! Reading the performance of an instance.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use super::process::{Instance, Printed};
use crate::run::RunError;
use crate::spec::{Performance, Spec};

/// A measurement that has begun.
pub struct Reading {
    begun: Instant,
    what: What,
}

enum What {
    Output(String),
    Counter { path: PathBuf, at_first: u64 },
}

impl Reading {
    pub fn begin(spec: &Spec, instance: &Instance) -> Result<Reading, RunError> {
        let what = match &spec.performance {
            Performance::Output(pattern) => {
                // What it printed before does not count.
                instance.take_printed();
                What::Output(pattern.clone())
            }
            Performance::Counter(path) => {
                let text = path.display().to_string();
                let text = text.replace("{instance}", &instance.nr.to_string());
                let path = PathBuf::from(text.replace("{folder}", &instance.folder.display().to_string()));
                let at_first = counter(&path).map_err(|problem| instance.fail(&problem))?;
                What::Counter { path, at_first }
            }
            Performance::Elapsed(_) => {
                return Err(RunError::Program(
                    "a program that ends by itself has no figure before that".into(),
                ));
            }
        };
        let begun = Instant::now();
        Ok(Reading { begun, what })
    }

    pub fn end(self, instance: &Instance) -> Result<f64, RunError> {
        let performance = match &self.what {
            What::Output(pattern) => {
                let Printed {
                    sum,
                    nr_figures,
                    last_line,
                } = instance.take_printed();
                if nr_figures == 0 {
                    let last = last_line.map_or("nothing".to_string(), |line| format!("\"{line}\" at last"));
                    return Err(instance.fail(&format!(
                        "printed no figure that matches {pattern} while it was measured, but {last}: mend \
                         `performance.output` or measure longer"
                    )));
                }
                sum / nr_figures as f64
            }
            What::Counter { path, at_first } => {
                let now = counter(path).map_err(|problem| instance.fail(&problem))?;
                let gained = now.checked_sub(*at_first).ok_or_else(|| {
                    let path = path.display();
                    instance.fail(&format!(
                        "set its counter in {path} back, from {at_first} to {now}, while it was measured"
                    ))
                })?;
                gained as f64 / self.begun.elapsed().as_secs_f64()
            }
        };
        match performance {
            _ if performance > 0.0 && performance.is_finite() => Ok(performance),
            _ => Err(instance.fail(&format!(
                "did nothing while it was measured: its performance was {performance}"
            ))),
        }
    }
}

fn counter(path: &PathBuf) -> Result<u64, String> {
    let mut bytes = [0; 8];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| format!("has no counter of eight bytes in {}: {error}", path.display()))?;
    Ok(u64::from_le_bytes(bytes))
}
