// SPDX-License-Identifier: GPL-2.0-only
//! What was aimed at, what kept runs and simulations have of it, and whether that is enough: the tables of docs/results.md.

use serde_json::Value;

use super::{
    best_of_others, costs, done_first, jitters, kept, least, mean_gain, means, measured, more, of_all, pairs,
};

#[derive(Clone, Copy)]
enum Unit {
    /// A ratio, as how much more than 1 it is.
    More,
    Share,
    Fairness,
    Milliseconds,
}

impl Unit {
    fn print(self, value: f64) -> String {
        match self {
            Self::More => more(value),
            Self::Share => format!("{:.1} %", 100.0 * value),
            Self::Fairness => format!("{value:.3}"),
            Self::Milliseconds => format!("{value:.2} ms"),
        }
    }
}

#[derive(Clone, Copy)]
enum Asked {
    AtLeast(f64),
    AtMost(f64),
}

impl Asked {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    fn print(self, unit: Unit) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {}", unit.print(bound)),
            Self::AtMost(bound) => format!("at most {}", unit.print(bound)),
        }
    }
}

use Asked::{AtLeast, AtMost};
use Unit::{Fairness, Milliseconds, More, Share};

/// What is aimed at, where it was measured or simulated, in which unit, what is asked for and what there is.
type Aim = (&'static str, String, Unit, Asked, f64);

fn table(pages: &[(&str, Vec<Aim>)]) -> String {
    let row = |page: &str, (what, place, unit, asked, value): &Aim| {
        let reached = if asked.is_met_by(*value) { "yes" } else { "**no**" };
        let (asked, value, name) = (asked.print(*unit), unit.print(*value), page.replace('-', " "));
        format!("| {what} | {asked} | {value} | {place} | {reached} | [{name}](results/{page}.md) |\n")
    };
    let rows = |(page, aims): &(&str, Vec<Aim>)| aims.iter().map(|aim| row(page, aim)).collect::<String>();
    let rows: String = pages.iter().map(rows).collect();
    format!("| aim | asked | there is | where | reached | more |\n|---|---|---|---|---|---|\n{rows}")
}

/// What the scheduler was to reach.
pub fn of_the_scheduler() -> String {
    let mut equal = shares_of_bound();
    equal.extend(gains_of_pairs());
    equal.extend(fairness_and_jitter());
    let mut costs = instructions();
    costs.extend(latencies());
    table(&[
        ("pairs", equal),
        ("unequal-cores", one_fast_core()),
        ("openmp", spinning()),
        ("shared-cores", hidden_cores()),
        ("overhead", costs),
    ])
}

/// What the papers printed.
pub fn of_the_papers() -> String {
    table(&[
        ("pairs", over_linux_2_6()),
        ("unequal-cores", table_7()),
        ("analysis", threes()),
        ("openmp", table_8()),
    ])
}

/// Where a result comes from: the lab or the simulator, with its rate in million instructions a second.
fn place(result: &Value) -> String {
    let measurement = &result["measurement"];
    let label = measurement["label"].as_str().unwrap();
    format!("[{label}] {}", measurement["experiment"]["mips"])
}

fn mean(result: &Value, scheduler: usize, key: &str) -> f64 {
    of_all(&means(result, scheduler, key))
}

fn gain(result: &Value) -> f64 {
    mean_gain(result, 1)
}

/// The gain of ours in the run of these programs.
fn gain_of(result: &Value, programs: &[&str]) -> f64 {
    let mut runs = result["runs"].as_array().unwrap().iter();
    let run = runs.find(|run| run["run"] == serde_json::json!(programs));
    let gain = &run.unwrap()["schedulers"][1]["over_baseline"]["ratio"];
    gain.as_f64().unwrap()
}

fn shares_of_bound() -> Vec<Aim> {
    let of = |what, result: &Value, scheduler| {
        let share = mean(result, scheduler, "share_of_bound");
        (what, place(result), Share, AtLeast(0.98), share)
    };
    let lab = |what, name: &str, scheduler| of(what, &measured(&format!("lab-pairs-{name}")), scheduler);
    let simulated = |what, phase_ms| of(what, &pairs::of_length(2_000, phase_ms), 1);
    vec![
        lab(
            "all 45 pairs, phases of 5 ms: of what perfect sharing would do",
            "5ms-fast",
            0,
        ),
        lab("phases of 20 ms", "20ms-fast", 0),
        lab("phases of 5 ms", "5ms", 1),
        lab("phases of 20 ms", "20ms", 1),
        lab("phases of 100 ms", "100ms", 1),
        simulated("phases of 5 ms", 5),
        simulated("phases of 20 ms", 20),
        simulated("phases of 100 ms", 100),
    ]
}

fn of_least(what: &'static str, result: &Value) -> Aim {
    let least = least(&means(result, 1, "over_baseline"));
    (what, place(result), More, AtLeast(0.99), least)
}

fn gains_of_pairs() -> Vec<Aim> {
    let [five, twenty, hundred, further] =
        ["5ms", "20ms", "100ms", "more"].map(|of| measured(&format!("lab-pairs-{of}")));
    let ahead = |what, result: &Value| {
        (
            what,
            place(result),
            More,
            AtLeast(best_of_others(result)),
            gain(result),
        )
    };
    let itself = gain_of(&twenty, &["1:1", "1:1 b"]);
    vec![
        (
            "gain over all pairs, phases of 20 ms",
            place(&twenty),
            More,
            AtLeast(1.02),
            gain(&twenty),
        ),
        ("(1:1) beside itself", place(&twenty), More, AtLeast(1.05), itself),
        of_least("the pair that gains least, phases of 5 ms", &five),
        of_least("phases of 20 ms", &twenty),
        of_least("phases of 100 ms", &hundred),
        ahead(
            "over all pairs more than bpfland, cosmos, rusty and lavd, phases of 5 ms",
            &five,
        ),
        ahead("phases of 20 ms", &twenty),
        ahead("phases of 100 ms", &hundred),
        ahead("more than beerland, cake, flash, p2dq and pandemonium", &further),
    ]
}

fn fairness_of(what: &'static str, result: &Value) -> Aim {
    (
        what,
        place(result),
        Fairness,
        AtLeast(0.95),
        mean(result, 1, "fairness"),
    )
}

/// Jitter of the pairs in which it is more than 1 % under the scheduler before ours.
fn jitter_of(what: &'static str, result: &Value, ours: usize) -> Aim {
    let (_, before, after) = pairs::where_unsteady(result, ours).unwrap();
    (what, place(result), More, AtMost(0.2), after / before)
}

fn fairness_and_jitter() -> Vec<Aim> {
    let lab = |name: &str| measured(&format!("lab-{name}"));
    vec![
        fairness_of("fairness of all pairs, runs of half a second", &lab("pairs-5ms")),
        fairness_of("runs of a second", &lab("pairs-20ms")),
        fairness_of("runs of 2 s, phases of 100 ms", &lab("pairs-100ms")),
        fairness_of("runs of 10 s", &kept("pairs", "--seconds 10 --rounds 4")),
        jitter_of(
            "jitter where it is over 1 %, ten runs of 4 s",
            &pairs::with_same_phases("pairs", 4, 10),
            2,
        ),
        jitter_of(
            "jitter of one of two pairs, ten runs of 4 s",
            &lab("same-phases"),
            1,
        ),
    ]
}

fn one_fast_core() -> Vec<Aim> {
    let [alone, fast, slow, long] = [
        "unequal-cores",
        "pairs-unequal-fast",
        "pairs-unequal",
        "pairs-unequal-4s",
    ]
    .map(|of| measured(&format!("lab-{of}")));
    let of_all = |what, result: &Value, asked| (what, place(result), More, AtLeast(asked), gain(result));
    vec![
        (
            "one core twice as fast: a serial program alone",
            place(&alone),
            More,
            AtLeast(1.9),
            gain_of(&alone, &["1:inf"]),
        ),
        of_all("gain over all pairs", &fast, 1.1),
        of_all("gain over all pairs", &slow, 1.1),
        of_least("the pair that gains least", &fast),
        of_least("the pair that gains least", &slow),
        of_least("the pair that gains least, runs of 4 s", &long),
        of_all(
            "over a kernel that is told of it",
            &pairs::beside_told(80, ""),
            1.045,
        ),
        of_all(
            "over a kernel that is told of it",
            &pairs::beside_told(2_000, ""),
            1.045,
        ),
        fairness_of("fairness of all pairs, runs of 4 s", &long),
        fairness_of("runs of 10 s", &kept("pairs-unequal", "--seconds 10 --rounds 4")),
        jitter_of(
            "jitter where it is over 1 %, ten runs of 4 s",
            &pairs::with_same_phases("pairs-unequal", 4, 10),
            2,
        ),
        jitter_of(
            "jitter of four pairs, ten runs of 8 s",
            &measured("lab-same-phases-unequal-8s"),
            1,
        ),
    ]
}

fn spinning() -> Vec<Aim> {
    let result = measured("lab-openmp-active");
    let gain = gain_of(&result, &["A active", "B active"]);
    let done = |run: usize| {
        result["runs"][run]["schedulers"][1]["total"]["mean"]
            .as_f64()
            .unwrap()
    };
    let sequential = done(1) / done_first(&result["runs"][0]);
    vec![
        (
            "two programs that spin at barriers",
            place(&result),
            More,
            AtLeast(1.5),
            gain,
        ),
        (
            "the same, of one after the other",
            place(&result),
            Share,
            AtLeast(0.9),
            sequential,
        ),
    ]
}

fn hidden_cores() -> Vec<Aim> {
    let of = |what, name: &str, threads| {
        let result = measured(&format!("lab-{name}"));
        (
            what,
            place(&result),
            More,
            AtLeast(1.14),
            gain_of(&result, &[threads]),
        )
    };
    vec![
        of(
            "cores that the kernel takes for two each: two threads on two of them",
            "two-threads-hidden",
            "2 threads",
        ),
        of("two threads on four of them", "hidden-smt-two", "2 threads"),
        of("four threads on four of them", "hidden-smt", "4 threads"),
    ]
}

fn instructions() -> Vec<Aim> {
    let [slow, fast] = ["switches", "switches-fast"].map(|of| measured(&format!("lab-{of}")));
    let ours = |result: &Value, nth| costs::over_first(result, nth, "threadwise");
    let of = |what, nth| (what, place(&slow), More, AtMost(1.1), ours(&slow, nth));
    let lean = |what, result: &Value, nth| {
        (
            what,
            place(result),
            More,
            AtMost(costs::leanest(result, nth)),
            ours(result, nth),
        )
    };
    let grown = costs::over_first_as_cpus_grow();
    vec![
        of("instructions of a wake-up onto an idle CPU", 0),
        lean("no more than under the leanest other", &slow, 0),
        (
            "on 64 CPUs",
            place(&measured("lab-growth-64-cpus")),
            More,
            AtMost(1.1),
            grown[3],
        ),
        of("of a switch between two tasks of one CPU", 1),
        lean("no more than under the leanest other", &slow, 1),
        of("of a message among 40 threads", 2),
        lean("no more than under the leanest other", &slow, 2),
        lean("no more than under the leanest other", &fast, 2),
    ]
}

/// Of an interactive program, beside eight that never sleep.
fn latencies() -> Vec<Aim> {
    let result = measured("lab-interactive");
    let of = |what, run: &str| {
        let mut runs = result["runs"].as_array().unwrap().iter();
        let schedulers = &runs.find(|of| of["run"][0] == run).unwrap()["schedulers"];
        let [kernel, ours] = [0, 1].map(|nth| 1000.0 / schedulers[nth]["total"]["mean"].as_f64().unwrap());
        (what, place(&result), Milliseconds, AtMost(kernel), ours)
    };
    vec![
        of(
            "99 of 100 wake-ups beside eight serial programs come within",
            "serial",
        ),
        of("beside eight parallel ones", "parallel"),
    ]
}

/// Runs of a minute, as in thread-essence, section IV; its baseline was Linux 2.6.
fn over_linux_2_6() -> Vec<Aim> {
    let equal = pairs::with_same_phases("pairs", 60, 5);
    let fairness = |before| mean(&equal, 2, "fairness") / mean(&equal, before, "fairness");
    let jitter = |before| of_all(&jitters(&equal, 2)) / of_all(&jitters(&equal, before));
    vec![
        (
            "fairness on equal cores over Linux 2.6 (Table 9)",
            place(&equal),
            More,
            AtLeast(1.195),
            fairness(0),
        ),
        (
            "over the kernel's scheduler of today",
            place(&equal),
            More,
            AtLeast(1.195),
            fairness(1),
        ),
        (
            "jitter on equal cores over Linux 2.6 (Table 9)",
            place(&equal),
            More,
            AtMost(0.4),
            jitter(0),
        ),
        (
            "over the kernel's scheduler of today",
            place(&equal),
            More,
            AtMost(0.4),
            jitter(1),
        ),
    ]
}

fn table_7() -> Vec<Aim> {
    let [fast, slow] = ["unequal-fast", "unequal"].map(|of| measured(&format!("lab-pairs-{of}")));
    let greatest = |result: &Value| means(result, 1, "over_baseline").into_iter().fold(0.0, f64::max);
    vec![
        (
            "gain over all pairs, one core twice as fast (Table 7)",
            place(&fast),
            More,
            AtLeast(1.045),
            gain(&fast),
        ),
        ("the same", place(&slow), More, AtLeast(1.045), gain(&slow)),
        (
            "the pair that gains most",
            place(&fast),
            More,
            AtLeast(1.18),
            greatest(&fast),
        ),
        ("the same", place(&slow), More, AtLeast(1.18), greatest(&slow)),
    ]
}

fn threes() -> Vec<Aim> {
    let [equal, unequal] = ["equal", "unequal"].map(|of| measured(&format!("lab-triples-{of}")));
    vec![
        (
            "gain over every fifth of all threes of programs",
            place(&equal),
            More,
            AtLeast(1.01),
            gain(&equal),
        ),
        (
            "the same, one core twice as fast",
            place(&unequal),
            More,
            AtLeast(1.0187),
            gain(&unequal),
        ),
    ]
}

fn table_8() -> Vec<Aim> {
    let real = measured("lab-table-8");
    let concurrent = mean(&real, 0, "over_sequential");
    vec![
        (
            "gain over 45 pairs of OpenMP programs, one core twice as fast (Table 8)",
            place(&real),
            More,
            AtLeast(1.035),
            gain(&real),
        ),
        (
            "the same beside each other, over one after the other under the kernel's scheduler",
            place(&real),
            More,
            AtLeast(1.36),
            concurrent,
        ),
    ]
}
