// SPDX-License-Identifier: GPL-2.0-only
//! That the text of docs/results.md says of runs in the lab that are kept what they say.

use serde_json::Value;

use super::{REPOSITORY, best_of_others, least, mean_gain, means, measured, more, of_all, pairs, ratio_of};

/// A ratio as what it is more than one, without its sign of percent.
fn plain(ratio: f64) -> String {
    more(ratio).replace(" %", "")
}

#[test]
fn the_summary_says_what_kept_runs_say() {
    let summary = std::fs::read_to_string(format!("{REPOSITORY}/docs/results.md")).unwrap();
    let [real, all_active, equal] =
        ["table-8", "openmp-all-active", "openmp"].map(|of| measured(&format!("lab-{of}")));
    let beside_peers = measured("lab-table-8-peers");
    let peers: Vec<f64> = (2..6).map(|other| mean_gain(&beside_peers, other)).collect();
    let equal_peers = measured("lab-openmp-peers");
    let of_equal_peers: Vec<f64> = (2..6).map(|other| mean_gain(&equal_peers, other)).collect();
    let packages = measured("lab-packages");
    let apart = |packages: &Value| {
        ["hungry", "medium", "modest", "no locality"]
            .map(|program| plain(ratio_of(packages, &[program, &format!("{program} b")], 1)))
    };
    let [apart, accelerated] = [&packages, &measured("lab-packages-accelerated")].map(apart);
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
    let minute = pairs::with_same_phases("pairs", 60, 5);
    let [linux, kernel] = [0, 1].map(|of| of_all(&means(&minute, of, "fairness")));
    let all_there_is = |fairness: f64| 100.0 * (1.0 / fairness - 1.0);
    let said = [
        format!(
            "today has {kernel:.3} and the simulated Linux 2.6 {linux:.3}, so that 1, all that there is, would be {:.0} and {:.0} % more",
            all_there_is(kernel),
            all_there_is(linux),
        ),
        format!(
            "beside one of nice 0 {heavy} (four other schedulers {heavy_least} to {heavy_best}), beside its like {like} ({like_least} to {like_best})"
        ),
        format!(
            "[lab] {}, least {}, at 20 million",
            more(mean_gain(&real, 1)),
            more(least(&means(&real, 1, "over_baseline"))),
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
        format!(
            "wherever they wait {}, least {}, {:.1} % of one after the other",
            more(mean_gain(&all_active, 1)),
            more(least(&means(&all_active, 1, "over_baseline"))),
            100.0 * of_all(&means(&all_active, 1, "over_sequential")),
        ),
        format!(
            "apart {} and {} % (the paper's programs: 16, 13.2, 5.2 and 1 %), grouped {}",
            apart[..3].join(", "),
            apart[3],
            more(ratio_of(&packages, &["sharing", "sharing b"], 2)),
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
