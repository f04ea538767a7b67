// SPDX-License-Identifier: GPL-2.0-only
//! One experiment in the lab and simulated, beside each other.

use serde_json::Value;

use super::{kept, measured, more, programs_of};

/// A figure of both: the lab's with its interval, and how much more the simulation has.
fn work(lab: &Value, simulated: &Value) -> String {
    let [mean, half, other] = [
        &lab["total"]["mean"],
        &lab["total"]["ci95"],
        &simulated["total"]["mean"],
    ]
    .map(|figure| figure.as_f64().unwrap());
    format!(
        "{:.1} ± {:.1} %, {}",
        mean / 1000.0,
        100.0 * half / mean,
        more(other / mean)
    )
}

fn fairness(lab: &Value, simulated: &Value) -> String {
    let [mean, half, other] = [
        &lab["fairness"]["mean"],
        &lab["fairness"]["ci95"],
        &simulated["fairness"]["mean"],
    ]
    .map(Value::as_f64);
    let (Some(mean), Some(half), Some(other)) = (mean, half, other) else {
        return String::new();
    };
    format!("{mean:.3} ± {half:.3}, {:+.3}", other - mean)
}

/// What a scheduler has more than the first, of the means.
fn gain(run: &Value, scheduler: usize) -> String {
    let of = |scheduler: usize| run["schedulers"][scheduler]["total"]["mean"].as_f64().unwrap();
    more(of(scheduler) / of(0))
}

/// The machines that the simulator is compared with the lab on.
pub fn machines() -> Vec<(&'static str, Value, Value)> {
    ["smp-8", "smt-8", "amp-8"]
        .map(|machine| {
            let experiment = format!("drift-{machine}");
            let lab = measured(&format!("lab-{experiment}"));
            (machine, lab, kept(&experiment, "--rounds 40"))
        })
        .into()
}

/// Shared cores that the kernel knows, and that it does not.
pub fn shared() -> Vec<(&'static str, Value, Value)> {
    [("hidden", "hidden-smt"), ("known", "smt")]
        .map(|(cores, experiment)| {
            let lab = measured(&format!("lab-{experiment}"));
            (cores, lab, kept(experiment, ""))
        })
        .into()
}

/// A row for each scheduler of each run of each machine.
pub fn lab_and_simulated(machines: &[(&str, Value, Value)]) -> String {
    let mut rows = String::new();
    for (machine, lab, simulated) in machines {
        let runs = lab["runs"].as_array().unwrap().iter();
        for (lab, simulated) in runs.zip(simulated["runs"].as_array().unwrap()) {
            assert_eq!(lab["run"], simulated["run"]);
            for (nth, [lab_has, simulation_has]) in of_both(lab, simulated).into_iter().enumerate() {
                let gains = (nth > 0).then(|| format!("{}, {}", gain(lab, nth), gain(simulated, nth)));
                rows += &format!(
                    "| {machine} | {} | {} | {} | {} | {} |\n",
                    programs_of(lab),
                    lab_has["scheduler"].as_str().unwrap(),
                    work(lab_has, simulation_has),
                    fairness(lab_has, simulation_has),
                    gains.unwrap_or_default()
                );
            }
        }
    }
    format!(
        "| machine | programs | scheduler | work: lab, simulated | fairness: lab, simulated | gain: lab, simulated |\n\
         |---|---|---|---|---|---|\n{rows}"
    )
}

/// What schedulers that both have made of a run.
fn of_both<'a>(lab: &'a Value, simulated: &'a Value) -> Vec<[&'a Value; 2]> {
    let simulated = simulated["schedulers"].as_array().unwrap();
    let same = |lab: &'a Value| {
        let mut all = simulated.iter();
        Some([lab, all.find(|other| other["scheduler"] == lab["scheduler"])?])
    };
    lab["schedulers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(same)
        .collect()
}
