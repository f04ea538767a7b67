// SPDX-License-Identifier: GPL-2.0-only
//! That docs/results.md says of some runs in the lab that are kept what they say.

use serde_json::Value;

use super::{REPOSITORY, costs, gain_of, least, means, measured, more, of_all};

const PEERS: [&str; 4] = ["bpfland", "cosmos", "rusty", "lavd"];

/// A ratio as what it is more than one, without its sign of percent.
fn plain(ratio: f64) -> String {
    more(ratio).replace(" %", "")
}

/// What a scheduler of that number gains on the mean over all runs of several programs.
fn mean_gain(result: &Value, scheduler: usize) -> f64 {
    of_all(&means(result, scheduler, "over_baseline"))
}

/// That of the best of the schedulers that are not ours.
fn best_of_others(result: &Value) -> f64 {
    let nr = result["runs"][0]["schedulers"].as_array().unwrap().len();
    let gains = (2..nr).map(|other| mean_gain(result, other));
    gains.fold(f64::NEG_INFINITY, f64::max)
}

/// The gain of a scheduler in a run of this first program.
fn gain(result: &Value, program: &str, scheduler: usize) -> f64 {
    let mut runs = result["runs"].as_array().unwrap().iter();
    let run = runs.find(|run| run["run"][0] == program).unwrap();
    run["schedulers"][scheduler]["over_baseline"]["ratio"]
        .as_f64()
        .unwrap()
}

#[test]
fn the_summary_says_what_kept_runs_say() {
    let summary = std::fs::read_to_string(format!("{REPOSITORY}/docs/results.md")).unwrap();
    let [five, twenty, hundred] = ["5ms", "20ms", "100ms"].map(|of| measured(&format!("lab-pairs-{of}")));
    let further = measured("lab-pairs-more");
    let [unequal, unequal_fast] = ["unequal", "unequal-fast"].map(|of| measured(&format!("lab-pairs-{of}")));
    let [real, spinning, all_active, equal] =
        ["table-8", "openmp-active", "openmp-all-active", "openmp"].map(|of| measured(&format!("lab-{of}")));
    let [two, processors] = ["hidden-smt-two", "two-threads-hidden"].map(|of| measured(&format!("lab-{of}")));
    let threes = ["equal", "unequal"].map(|of| measured(&format!("lab-triples-{of}")));
    let beside_peers = measured("lab-table-8-peers");
    let peers: Vec<f64> = (2..6).map(|other| mean_gain(&beside_peers, other)).collect();
    let equal_peers = measured("lab-openmp-peers");
    let of_equal_peers: Vec<f64> = (2..6).map(|other| mean_gain(&equal_peers, other)).collect();
    let packages = measured("lab-packages");
    let apart = |packages: &Value| {
        ["hungry", "medium", "modest", "no locality"].map(|program| plain(gain(packages, program, 1)))
    };
    let [apart, accelerated] = [&packages, &measured("lab-packages-accelerated")].map(apart);
    let fairness = |result: &Value, scheduler| of_all(&means(result, scheduler, "fairness"));
    let [switches, fast] = ["switches", "switches-fast"].map(|of| measured(&format!("lab-{of}")));
    let leanest = PEERS.map(|other| costs::over_first(&switches, 1, other));
    let leanest = leanest.into_iter().fold(f64::INFINITY, f64::min);
    let nice = measured("lab-nice");
    let of_nice = |pair: usize| -> Vec<f64> {
        let gains = (1..6).map(|scheduler| means(&nice, scheduler, "over_baseline")[pair]);
        gains.collect()
    };
    let beside_nice_19 = |pair: usize| {
        let gains = of_nice(pair);
        let others = &gains[1..];
        let best = others.iter().copied().fold(0.0, f64::max);
        [more(gains[0]), plain(least(others)), plain(best)]
    };
    let [[heavy, heavy_least, heavy_best], [like, like_least, like_best]] = [0, 1].map(beside_nice_19);
    let unequal_longer = measured("lab-pairs-unequal-4s");
    let [eight, sixteen, many, most] = costs::over_first_as_cpus_grow().map(more);
    let said = [
        format!(
            "a wake-up onto an idle CPU {}; a switch between two tasks of one CPU **{}, missed**, under the leanest of the others {};",
            more(costs::over_first(&switches, 0, "threadwise")),
            more(costs::over_first(&switches, 1, "threadwise")),
            plain(leanest),
        ),
        format!(
            "one core twice as fast {:.3} in runs of 4 s ({:.3})",
            fairness(&unequal_longer, 1),
            fairness(&unequal_longer, 0)
        ),
        format!(
            "a wake-up at 20 million on 8, 16, 32 and 64 CPUs {eight}, {sixteen}, {many} and {most} (four"
        ),
        format!(
            "a message among 40 threads {}, **missed** beside rusty ({}), which switches less often, at 60 million instructions a second; \
             at 1,000 million {}, as",
            more(costs::over_first(&switches, 2, "threadwise")),
            more(costs::over_first(&switches, 2, "rusty")),
            more(costs::over_first(&fast, 2, "threadwise")),
        ),
        format!(
            "beside one of nice 0 {heavy} (four other schedulers {heavy_least} to {heavy_best}), beside its like {like} ({like_least} to {like_best})"
        ),
        format!(
            "phases of 20 ms: {} %, the best of them {}; 5 ms: {} and {} %; 100 ms at 60 million: {} and {} %",
            plain(mean_gain(&twenty, 1)),
            plain(best_of_others(&twenty)),
            plain(mean_gain(&five, 1)),
            plain(best_of_others(&five)),
            plain(mean_gain(&hundred, 1)),
            plain(best_of_others(&hundred)),
        ),
        format!(
            "20 ms at 60 million: {} and {} %",
            plain(mean_gain(&further, 1)),
            plain(best_of_others(&further)),
        ),
        format!(
            "one core twice as fast, which the others cannot be told: {} and {} %",
            plain(mean_gain(&unequal, 1)),
            plain(best_of_others(&unequal)),
        ),
        format!(
            "{:.3} with phases of 20 ms (kernel {:.3})",
            fairness(&twenty, 1),
            fairness(&twenty, 0)
        ),
        format!(
            "[lab] {} % at 250 million instructions a second, {} % at 80",
            plain(mean_gain(&unequal_fast, 1)),
            plain(mean_gain(&unequal, 1)),
        ),
        format!(
            "[lab] {}, least {}, at 20 million",
            more(mean_gain(&real, 1)),
            more(least(&means(&real, 1, "over_baseline"))),
        ),
        format!(
            "every fifth of all 165: {}, least {}, and {}, least {};",
            more(mean_gain(&threes[0], 1)),
            more(least(&means(&threes[0], 1, "over_baseline"))),
            more(mean_gain(&threes[1], 1)),
            more(least(&means(&threes[1], 1, "over_baseline"))),
        ),
        format!(
            "beside four other schedulers {}, these {} to {};",
            more(mean_gain(&beside_peers, 1)),
            plain(least(&peers)),
            plain(best_of_others(&beside_peers)),
        ),
        format!(
            "[lab] {}, least {}; beside each other {:.2} times as fast as one after the other under the kernel's scheduler, {:.2} times",
            more(mean_gain(&equal, 1)),
            more(least(&means(&equal, 1, "over_baseline"))),
            of_all(&means(&equal, 0, "over_sequential")),
            of_all(&means(&equal, 1, "over_sequential")),
        ),
        format!(
            "in another boot, beside four other schedulers, {}, these {} to {} ",
            more(mean_gain(&equal_peers, 1)),
            plain(least(&of_equal_peers)),
            plain(best_of_others(&equal_peers)),
        ),
        format!("[lab] {} (four other schedulers", more(mean_gain(&spinning, 1))),
        format!(
            "wherever they wait {}, least {}, {:.1} % of one after the other",
            more(mean_gain(&all_active, 1)),
            more(least(&means(&all_active, 1, "over_baseline"))),
            100.0 * of_all(&means(&all_active, 1, "over_sequential")),
        ),
        format!(
            "on two processors of two {} (four other",
            gain_of(&processors["runs"][1]["schedulers"][1])
        ),
        format!(
            "of two cores of two {} in twelve rounds, **missed** there",
            gain_of(&two["runs"][0]["schedulers"][1])
        ),
        format!(
            "apart {} and {} % (the paper's programs: 16, 13.2, 5.2 and 1 %), grouped {}",
            apart[..3].join(", "),
            apart[3],
            more(gain(&packages, "sharing", 2)),
        ),
        format!(
            "of their package are idle, apart {} and {} %",
            accelerated[..3].join(", "),
            accelerated[3],
        ),
    ];
    for said in said {
        assert!(summary.contains(&said), "docs/results.md does not say: {said}");
    }
}
