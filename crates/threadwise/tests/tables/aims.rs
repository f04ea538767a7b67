// SPDX-License-Identifier: GPL-2.0-only
//! What was aimed at, what kept runs and simulations have of it, and whether that is enough: the tables of docs/results.md.

use serde_json::Value;

use super::{
    best_of_others, costs, jitters, kept, least, mean_gain, means, measured, more, of_all, pairs, ratio_of,
    together,
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
struct Aim {
    what: String,
    place: String,
    unit: Unit,
    asked: Asked,
    value: f64,
}

/// An aim, of which this result has so much. Its place is the lab or the simulator, and million instructions a second.
fn aim(what: impl Into<String>, of: &Value, unit: Unit, asked: Asked, value: f64) -> Aim {
    let measurement = &of["measurement"];
    let label = measurement["label"].as_str().unwrap();
    let place = format!("[{label}] {}", measurement["experiment"]["mips"]);
    Aim {
        what: what.into(),
        place,
        unit,
        asked,
        value,
    }
}

/// Pages of results, and the aims that each says more of.
fn table(pages: &[(&str, Vec<Aim>)]) -> String {
    let row = |page: &str, aim: &Aim| {
        let reached = if aim.asked.is_met_by(aim.value) {
            "yes"
        } else {
            "**no**"
        };
        let (asked, value, name) = (
            aim.asked.print(aim.unit),
            aim.unit.print(aim.value),
            page.replace('-', " "),
        );
        format!(
            "| {} | {asked} | {value} | {} | {reached} | [{name}](results/{page}.md) |\n",
            aim.what, aim.place
        )
    };
    let rows = |(page, aims): &(&str, Vec<Aim>)| aims.iter().map(|aim| row(page, aim)).collect::<String>();
    let rows: String = pages.iter().map(rows).collect();
    format!("| aim | asked | there is | where | reached | more |\n|---|---|---|---|---|---|\n{rows}")
}

/// What the scheduler was to reach.
pub fn of_the_scheduler() -> String {
    let equal = [shares_of_bound(), gains_of_pairs(), fairness(), jitter()];
    let costs = [instructions(), latencies()];
    table(&[
        ("pairs", equal.into_iter().flatten().collect()),
        ("unequal-cores", one_fast_core()),
        ("openmp", spinning()),
        ("shared-cores", hidden_cores()),
        ("overhead", costs.into_iter().flatten().collect()),
    ])
}

/// What the papers printed.
pub fn of_the_papers() -> String {
    table(&[
        ("pairs", table_9()),
        ("unequal-cores", table_7()),
        ("analysis", threes()),
        ("openmp", table_8()),
    ])
}

fn lab(name: &str) -> Value {
    measured(&format!("lab-{name}"))
}

fn mean(result: &Value, scheduler: usize, key: &str) -> f64 {
    of_all(&means(result, scheduler, key))
}

fn gain(result: &Value) -> f64 {
    mean_gain(result, 1)
}

/// How long phases are on the mean, and runs; 3,000 units take 20 ms at 60 million instructions a second.
fn phases(of: &Value) -> String {
    let experiment = &of["measurement"]["experiment"];
    let [units, mips] = [
        &experiment["program"][0]["synthetic"]["phase_units"],
        &experiment["mips"],
    ]
    .map(|of| of.as_f64().unwrap());
    format!("phases of {:.0} ms, {}", 0.4 * units / mips, runs(of))
}

fn runs(of: &Value) -> String {
    format!(
        "runs of {} s",
        of["measurement"]["experiment"]["seconds"].as_f64().unwrap()
    )
}

/// With phases of 5 ms at 1,000 million instructions a second there was no other scheduler than ours.
fn shares_of_bound() -> Vec<Aim> {
    let of = |result: &Value, ours| {
        let what = format!("of what perfect sharing would do, {}", phases(result));
        aim(
            what,
            result,
            Share,
            AtLeast(0.98),
            mean(result, ours, "share_of_bound"),
        )
    };
    let alone = of(&lab("pairs-5ms-fast"), 0);
    let beside = [
        "pairs-20ms-fast",
        "pairs-20ms-fast-2s",
        "pairs-5ms",
        "pairs-20ms",
        "pairs-100ms",
        "pairs-4s",
    ]
    .map(|name| of(&lab(name), 1));
    let simulated = [5, 20, 100].map(|phase_ms| of(&pairs::of_length(2_000, phase_ms), 1));
    [alone].into_iter().chain(beside).chain(simulated).collect()
}

fn least_gain(result: &Value) -> Aim {
    let what = format!("the pair that gains least, {}", phases(result));
    aim(
        what,
        result,
        More,
        AtLeast(0.99),
        least(&means(result, 1, "over_baseline")),
    )
}

fn gains_of_pairs() -> Vec<Aim> {
    let [fast, longer, five, twenty, hundred, further] =
        ["20ms-fast", "20ms-fast-2s", "5ms", "20ms", "100ms", "more"].map(|of| lab(&format!("pairs-{of}")));
    let ahead = |others: &str, result: &Value| {
        let what = format!("more than {others}, {}", phases(result));
        aim(what, result, More, AtLeast(best_of_others(result)), gain(result))
    };
    let gains = [&fast, &longer, &twenty].map(|result| {
        let all = format!("gain over the 45 pairs, {}", phases(result));
        let equal = ratio_of(result, &["1:1", "1:1 b"], 1);
        [
            aim(all, result, More, AtLeast(1.02), gain(result)),
            aim("(1:1) beside itself", result, More, AtLeast(1.05), equal),
        ]
    });
    let four =
        [&fast, &five, &twenty, &hundred].map(|result| ahead("bpfland, cosmos, rusty and lavd", result));
    gains
        .into_iter()
        .flatten()
        .chain([&fast, &longer, &five, &twenty, &hundred, &lab("pairs-4s")].map(least_gain))
        .chain(four)
        .chain([ahead("beerland, cake, flash, p2dq and pandemonium", &further)])
        .collect()
}

fn fairness_of(result: &Value, ours: usize) -> Aim {
    let what = format!("fairness, {}", phases(result));
    aim(
        what,
        result,
        Fairness,
        AtLeast(0.95),
        mean(result, ours, "fairness"),
    )
}

fn fairness() -> Vec<Aim> {
    let alone = fairness_of(&lab("pairs-5ms-fast"), 0);
    let beside = [
        "pairs-20ms-fast",
        "pairs-20ms-fast-2s",
        "pairs-5ms",
        "pairs-20ms",
        "pairs-more",
        "pairs-100ms",
        "pairs-4s",
    ]
    .map(|name| fairness_of(&lab(name), 1));
    let simulated = fairness_of(&kept("pairs", "--seconds 10 --rounds 4"), 1);
    [alone].into_iter().chain(beside).chain([simulated]).collect()
}

/// Jitter of the pairs in which it is more than 1 % under the scheduler before ours: that of all, as in the paper's Table 9, and
/// what is left in each, on the mean.
fn jitter_of(result: &Value, ours: usize) -> [Aim; 2] {
    let (before, after): (Vec<f64>, Vec<f64>) = pairs::unsteady(result, ours).into_iter().unzip();
    let left: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after / before)
        .collect();
    let rounds = format!(
        "{} {}",
        result["measurement"]["experiment"]["rounds"],
        runs(result)
    );
    let [nr, nr_pairs] = [left.len(), together(result).count()];
    let what = format!("jitter where it is over 1 % ({nr} of {nr_pairs} pairs), {rounds}");
    let in_each = format!("jitter of each of these on the mean, {rounds}");
    [
        aim(what, result, More, AtMost(0.2), of_all(&after) / of_all(&before)),
        aim(in_each, result, More, AtMost(0.2), of_all(&left)),
    ]
}

fn jitter() -> Vec<Aim> {
    let simulated = pairs::with_same_phases("pairs", 4, 10);
    let fast = "--seconds 4 --rounds 10 --same-phases --mips 1000 --phase-units 50000";
    let all = [
        jitter_of(&simulated, 2),
        jitter_of(&kept("pairs", fast), 1),
        jitter_of(&lab("same-phases"), 1),
        jitter_of(&lab("same-phases-fast"), 1),
    ];
    all.into_iter().flatten().collect()
}

fn one_fast_core() -> Vec<Aim> {
    let alone = lab("unequal-cores");
    let of_seconds = ["-fast", "", "-4s", "-8s"].map(|of| lab(&format!("pairs-unequal{of}")));
    let gain_of = |result: &Value| {
        let what = format!("gain over the 45 pairs, {}", phases(result));
        aim(what, result, More, AtLeast(1.1), gain(result))
    };
    let over_told = [80, 2_000].map(|mips| {
        let result = pairs::beside_told(mips, "");
        aim(
            "gain over a kernel that is told of that core",
            &result,
            More,
            AtLeast(1.045),
            gain(&result),
        )
    });
    let serial = ratio_of(&alone, &["1:inf"], 1);
    [aim(
        "one core twice as fast: a serial program alone",
        &alone,
        More,
        AtLeast(1.9),
        serial,
    )]
    .into_iter()
    .chain(of_seconds.iter().map(gain_of))
    .chain(over_told)
    .chain(of_seconds.iter().map(least_gain))
    .chain(of_seconds.iter().map(|result| fairness_of(result, 1)))
    .chain([fairness_of(&kept("pairs-unequal", "--seconds 10 --rounds 4"), 1)])
    .chain(jitter_of(&pairs::with_same_phases("pairs-unequal", 4, 10), 2))
    .chain(
        ["same-phases-unequal-8s", "steady"]
            .iter()
            .flat_map(|name| jitter_of(&lab(name), 1)),
    )
    .collect()
}

fn spinning() -> Vec<Aim> {
    let result = lab("openmp-active");
    let done = |run: usize, scheduler: usize| {
        result["runs"][run]["schedulers"][scheduler]["total"]["mean"]
            .as_f64()
            .unwrap()
    };
    let sequential = done(1, 1) / done(0, 0);
    vec![
        aim(
            "two OpenMP programs that spin at barriers",
            &result,
            More,
            AtLeast(1.5),
            ratio_of(&result, &["A active", "B active"], 1),
        ),
        aim(
            "the same: of what they do one after the other",
            &result,
            Share,
            AtLeast(0.9),
            sequential,
        ),
    ]
}

fn hidden_cores() -> Vec<Aim> {
    let of = |what, result: &Value, threads| {
        aim(what, result, More, AtLeast(1.14), ratio_of(result, &[threads], 1))
    };
    vec![
        of(
            "two threads on two cores that the kernel takes for two each",
            &lab("two-threads-hidden"),
            "2 threads",
        ),
        of(
            "two threads on four such cores",
            &lab("hidden-smt-two"),
            "2 threads",
        ),
        of("four threads on four such cores", &lab("hidden-smt"), "4 threads"),
    ]
}

fn instructions() -> Vec<Aim> {
    let [slow, fast, many_cpus] = ["switches", "switches-fast", "growth-64-cpus"].map(lab);
    let ours = |result: &Value, nth| costs::over_first(result, nth, "threadwise");
    let of = |what, nth| aim(what, &slow, More, AtMost(1.1), ours(&slow, nth));
    let lean = |what, result: &Value, nth| {
        aim(
            what,
            result,
            More,
            AtMost(costs::leanest(result, nth)),
            ours(result, nth),
        )
    };
    let [.., grown] = costs::over_first_as_cpus_grow();
    vec![
        of("instructions of a wake-up onto an idle CPU", 0),
        lean("of a wake-up: no more than under the leanest other", &slow, 0),
        aim("of a wake-up on 64 CPUs", &many_cpus, More, AtMost(1.1), grown),
        of("of a switch between two tasks of one CPU", 1),
        lean("of a switch: no more than under the leanest other", &slow, 1),
        of("of one of the first messages among 40 threads", 2),
        of("of one of the later", 3),
        lean("of the first: no more than under the leanest other", &slow, 2),
        lean("of the later: no more than under the leanest other", &slow, 3),
        lean("of the first: no more than under the leanest other", &fast, 2),
        lean("of the later: no more than under the leanest other", &fast, 3),
    ]
}

/// Of an interactive program, beside eight that never sleep.
fn latencies() -> Vec<Aim> {
    let result = lab("interactive");
    let of = |what, run: &str| {
        let mut runs = result["runs"].as_array().unwrap().iter();
        let schedulers = &runs.find(|of| of["run"][0] == run).unwrap()["schedulers"];
        let [kernel, ours] = [0, 1].map(|nth| 1000.0 / schedulers[nth]["total"]["mean"].as_f64().unwrap());
        aim(what, &result, Milliseconds, AtMost(kernel), ours)
    };
    vec![
        of(
            "99 of 100 wake-ups beside eight serial programs come within",
            "serial",
        ),
        of(
            "99 of 100 wake-ups beside eight parallel programs come within",
            "parallel",
        ),
    ]
}

/// Runs of a minute, as in thread-essence, section IV; its baseline was Linux 2.6.
fn table_9() -> Vec<Aim> {
    let result = pairs::with_same_phases("pairs", 60, 5);
    let fairness = |before| mean(&result, 2, "fairness") / mean(&result, before, "fairness");
    let jitter = |before| of_all(&jitters(&result, 2)) / of_all(&jitters(&result, before));
    let of = |what, asked, value| aim(what, &result, More, asked, value);
    vec![
        of(
            "fairness on equal cores over Linux 2.6 (Table 9)",
            AtLeast(1.195),
            fairness(0),
        ),
        of(
            "fairness on equal cores over the kernel's scheduler of today",
            AtLeast(1.195),
            fairness(1),
        ),
        of(
            "jitter on equal cores over Linux 2.6 (Table 9)",
            AtMost(0.4),
            jitter(0),
        ),
        of(
            "jitter on equal cores over the kernel's scheduler of today",
            AtMost(0.4),
            jitter(1),
        ),
    ]
}

fn table_7() -> Vec<Aim> {
    let greatest = |result: &Value| means(result, 1, "over_baseline").into_iter().fold(0.0, f64::max);
    let of = |result: &Value| {
        [
            aim(
                "gain over the 45 pairs, one core twice as fast (Table 7)",
                result,
                More,
                AtLeast(1.045),
                gain(result),
            ),
            aim(
                "the pair that gains most",
                result,
                More,
                AtLeast(1.18),
                greatest(result),
            ),
        ]
    };
    ["pairs-unequal-fast", "pairs-unequal"]
        .map(lab)
        .iter()
        .flat_map(of)
        .collect()
}

fn threes() -> Vec<Aim> {
    let [equal, unequal] = ["triples-equal", "triples-unequal"].map(lab);
    vec![
        aim(
            "gain over every fifth of all threes of programs",
            &equal,
            More,
            AtLeast(1.01),
            gain(&equal),
        ),
        aim(
            "the same, one core twice as fast",
            &unequal,
            More,
            AtLeast(1.0187),
            gain(&unequal),
        ),
    ]
}

fn table_8() -> Vec<Aim> {
    let real = lab("table-8");
    let [under_kernel, gains] =
        [(0, "over_sequential"), (1, "over_baseline")].map(|(of, key)| means(&real, of, key));
    let together: Vec<f64> = gains
        .iter()
        .zip(&under_kernel)
        .map(|(gain, over)| gain * over)
        .collect();
    let of = |what, asked, values: &[f64]| aim(what, &real, More, AtLeast(asked), of_all(values));
    vec![
        of(
            "gain over 45 pairs of OpenMP programs, one core twice as fast (Table 8)",
            1.035,
            &gains,
        ),
        of(
            "beside each other over one after the other, both under the kernel's scheduler",
            1.36,
            &under_kernel,
        ),
        of(
            "beside each other under threadwise over one after the other under the kernel's",
            1.38,
            &together,
        ),
    ]
}
