// SPDX-License-Identifier: GPL-2.0-only
//! All pairs and threes of the paper's nine programs.

use serde_json::Value;

use super::{
    compared, jitters, kept, least, mean_and_least, means, measured, more, names, of_all, programs_of, table,
    together, version_of,
};

/// Means over all pairs and threes, kernel and ours.
pub fn all_programs() -> String {
    let row = |what: &str, experiment: &str, options: &str| {
        let result = kept(experiment, options);
        let gains = means(&result, 1, "over_baseline");
        let share = |scheduler| match means(&result, scheduler, "share_of_bound").as_slice() {
            [] => String::new(),
            shares => format!("{:.1} %", 100.0 * of_all(shares)),
        };
        let idle = |scheduler| 100.0 * of_all(&means(&result, scheduler, "idle"));
        let fairness = |scheduler| mean_and_least(&means(&result, scheduler, "fairness"));
        let jitter = |scheduler| of_all(&jitters(&result, scheduler));
        format!(
            "| {what} | {} | {} | {} | {} | {} | {} | {:.1}, {:.1} | {:.1} -> {:.1} % |\n",
            more(of_all(&gains)),
            more(least(&gains)),
            share(0),
            share(1),
            fairness(0),
            fairness(1),
            jitter(0),
            jitter(1),
            idle(0),
            idle(1)
        )
    };
    [
        "| programs | gain | least | of bound: kernel | threadwise | fairness, least: kernel | threadwise | jitter | idle |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        &row("2, a = 1", "pairs", "--seconds 10 --rounds 4"),
        &row("2, a = 2", "pairs-unequal", "--seconds 10 --rounds 4"),
        &row("3, a = 1", "triples-equal", "--rounds 2"),
        &row("3, a = 2", "triples-unequal", "--rounds 2"),
    ]
    .concat()
}

/// Pairs whose phases last for so long on a machine of so many million instructions a second.
pub fn of_length(mips: u32, phase_ms: u32) -> Value {
    let units = mips * phase_ms * 5 / 2;
    kept(
        "pairs",
        &format!("--seconds 10 --rounds 2 --mips {mips} --phase-units {units}"),
    )
}

/// Pairs whose phases last for 5, 20 and 100 ms on machines of several speeds.
pub fn lengths() -> String {
    let row = |mips: u32, phase_ms: u32| {
        let result = of_length(mips, phase_ms);
        let gains = means(&result, 1, "over_baseline");
        let [kernel, ours] =
            [0, 1].map(|scheduler| 100.0 * of_all(&means(&result, scheduler, "share_of_bound")));
        let fairness = [0, 1].map(|scheduler| of_all(&means(&result, scheduler, "fairness")));
        if mips == 2_000 {
            assert!(
                ours >= 98.0,
                "{ours} % of the fluid bound with phases of {phase_ms} ms"
            );
        }
        format!(
            "| {mips} | {phase_ms} ms | {} | {} | {kernel:.1} % | {ours:.1} % | {:.3}, {:.3} |\n",
            more(of_all(&gains)),
            more(least(&gains)),
            fairness[0],
            fairness[1]
        )
    };
    let rates = [60, 250, 2_000].into_iter();
    let rows: String = rates
        .flat_map(|mips| [5, 20, 100].map(|phase_ms| row(mips, phase_ms)))
        .collect();
    format!(
        "| million instructions a second | phases | gain | least | of bound: kernel | threadwise | fairness: kernel, threadwise |\n\
         |---|---|---|---|---|---|---|\n{rows}"
    )
}

/// All pairs on unequal cores under a kernel that is told of them, ours, and one that is not.
pub fn beside_told(mips: u32, options: &str) -> Value {
    kept(
        "pairs-unequal",
        &format!(
            "--seconds 10 --rounds 2 --mips {mips} --phase-units {} {options} --schedulers kernel-told,threadwise,kernel",
            50 * mips
        ),
    )
}

/// All pairs on unequal cores, with a kernel that is told of them.
pub fn told() -> String {
    let row = |mips: u32, options: &str| {
        let result = beside_told(mips, options);
        let gains = means(&result, 1, "over_baseline");
        assert!(
            of_all(&gains) > 1.045,
            "{mips}: {gains:?} over a kernel that is told"
        );
        let fairness =
            [0, 1, 2].map(|scheduler| format!("{:.3}", of_all(&means(&result, scheduler, "fairness"))));
        format!(
            "| {mips} {options} | {} | {} | {} | {} |\n",
            more(1.0 / of_all(&means(&result, 2, "over_baseline"))),
            more(of_all(&gains)),
            more(least(&gains)),
            fairness.join(", ")
        )
    };
    [
        "| million instructions a second | told over untold | threadwise over told | least | fairness: told, threadwise, untold |\n|---|---|---|---|---|\n",
        &row(80, ""),
        &row(250, ""),
        &row(2_000, ""),
        &row(2_000, "--migration-us 10"),
    ]
    .concat()
}

/// All pairs in the lab, under every scheduler of stored runs: each a run and how long its phases are.
pub fn lab_pairs(runs: &[(&str, &str)]) -> String {
    let rows = |(name, phases): &(&str, &str)| -> String {
        let result = measured(name);
        let versions = result["measurement"]["scheduler_versions"].as_array().unwrap();
        (0..versions.len())
            .map(|nth| lab_pairs_row(&result, nth, phases))
            .collect()
    };
    let rows: String = runs.iter().map(rows).collect();
    format!(
        "| million instructions a second | phases | scheduler | gain | least | clearly more, less | first in | of bound, least | fairness, least | jitter |\n\
         |---|---|---|---|---|---|---|---|---|---|\n{rows}"
    )
}

fn lab_pairs_row(result: &Value, nth: usize, phases: &str) -> String {
    let measurement = &result["measurement"];
    let versions = measurement["scheduler_versions"].as_array().unwrap();
    let mips = &measurement["experiment"]["mips"];
    let name = version_of(&versions[nth]).map_or(String::from("kernel"), |(name, number)| {
        format!("{} {number}", name.trim_start_matches("scx_"))
    });
    let compared = compared(result, nth);
    let totals: Vec<Vec<f64>> = (0..versions.len()).map(|of| means(result, of, "total")).collect();
    let most = |pair: usize| totals.iter().map(|of| of[pair]).fold(0.0, f64::max);
    let nr_first = (0..totals[nth].len())
        .filter(|&pair| totals[nth][pair] >= most(pair))
        .count();
    let first = if totals.len() > 1 {
        nr_first.to_string()
    } else {
        String::new()
    };
    let shares = means(result, nth, "share_of_bound");
    format!(
        "| {mips} | {phases} | {name} | {compared} | {first} | {:.1} %, {:.1} % | {} | {:.1} |\n",
        100.0 * of_all(&shares),
        100.0 * least(&shares),
        mean_and_least(&means(result, nth, "fairness")),
        of_all(&jitters(result, nth))
    )
}

/// Threes in the lab.
pub fn lab_triples() -> String {
    let rows = |cores: &str, name: &str| {
        let result = measured(name);
        assert_eq!(together(&result).count(), 33);
        let row = |(scheduler, name): (usize, &String)| {
            let idle = 100.0 * of_all(&means(&result, scheduler, "idle"));
            let gains = compared(&result, scheduler);
            format!("| {cores} | {name} | {gains} | {idle:.1} % |\n")
        };
        names(&result).iter().enumerate().map(row).collect::<String>()
    };
    [
        "| cores | scheduler | gain | least | clearly more, less | idle |\n|---|---|---|---|---|---|\n",
        &rows("equal", "lab-triples-equal"),
        &rows("one twice as fast", "lab-triples-unequal"),
    ]
    .concat()
}

/// Who knows how long phases last, and pays nothing.
pub fn foresight() -> String {
    let rows = |machine: &str, experiment: &str| {
        let options = "--seconds 10 --rounds 2 --schedulers kernel,threadwise,clairvoyant";
        let result = kept(experiment, options);
        let foreseen = means(&result, 2, "total");
        let row = |scheduler: usize, name: &str| {
            let gains = means(&result, scheduler, "over_baseline");
            let gain = if gains.is_empty() {
                String::new()
            } else {
                more(of_all(&gains))
            };
            let totals = means(&result, scheduler, "total");
            let shares: Vec<f64> = totals
                .iter()
                .zip(&foreseen)
                .map(|(of, all)| 100.0 * of / all)
                .collect();
            let greatest = shares.iter().copied().fold(0.0, f64::max);
            let share = match scheduler {
                2 => String::new(),
                _ => format!("{:.1} %, {greatest:.1} %", of_all(&shares)),
            };
            let fairness = mean_and_least(&means(&result, scheduler, "fairness"));
            let idle = 100.0 * of_all(&means(&result, scheduler, "idle"));
            format!("| {machine}: {name} | {gain} | {share} | {fairness} | {idle:.1} % |\n")
        };
        [row(0, "kernel"), row(1, "threadwise"), row(2, "clairvoyant")].concat()
    };
    [
        "| | gain over kernel | of clairvoyant, and the greatest of a pair | fairness, least | idle |\n|---|---|---|---|---|\n",
        &rows("a = 1", "pairs"),
        &rows("a = 2", "pairs-unequal"),
    ]
    .concat()
}

/// Pairs under Linux 2.6, the kernel's scheduler and ours, whose programs draw the same phases in each round.
pub fn with_same_phases(experiment: &str, seconds: u32, rounds: u32) -> Value {
    let runs = format!("--seconds {seconds} --rounds {rounds} --same-phases");
    kept(experiment, &format!("{runs} --schedulers o1,kernel,threadwise"))
}

/// Of the pairs that vary by more than a hundredth under the scheduler before ours: by how many thousandths under that and ours.
pub fn unsteady(result: &Value, ours: usize) -> Vec<(f64, f64)> {
    let [before, ours] = [ours - 1, ours].map(|scheduler| jitters(result, scheduler));
    let both = before.into_iter().zip(ours);
    both.filter(|&(before, _)| before > 10.0).collect()
}

/// The same phases in each run of a pair, in runs of two lengths: jitter, in thousandths, and fairness.
pub fn same_phases() -> String {
    let row = |machine: &str, experiment: &str, seconds: u32, rounds: u32| {
        let result = with_same_phases(experiment, seconds, rounds);
        let [old, kernel, ours] = [0, 1, 2].map(|scheduler| jitters(&result, scheduler));
        let fairness = [0, 1, 2].map(|scheduler| of_all(&means(&result, scheduler, "fairness")));
        let (before, after): (Vec<f64>, Vec<f64>) = unsteady(&result, 2).into_iter().unzip();
        let of_unsteady = match before.len() {
            0 => "no pair".into(),
            nr => {
                let (before, after) = (of_all(&before), of_all(&after));
                format!("{nr} pairs: {before:.1}, {after:.1} ({})", more(after / before))
            }
        };
        let mean = of_all(&ours);
        format!(
            "| {machine} | {rounds} of {seconds} s | {:.1} | {:.1} | {mean:.1} | {}, {} | {:.3}, {:.3}, {:.3} | {of_unsteady} |\n",
            of_all(&old),
            of_all(&kernel),
            more(mean / of_all(&old)),
            more(mean / of_all(&kernel)),
            fairness[0],
            fairness[1],
            fairness[2],
        )
    };
    [
        "| cores | runs | jitter: Linux 2.6 | kernel | threadwise | beside each | fairness of the three | where the kernel has more than 10 |\n",
        "|---|---|---|---|---|---|---|---|\n",
        &row("equal", "pairs", 4, 10),
        &row("equal", "pairs", 60, 5),
        &row("unequal", "pairs-unequal", 4, 10),
        &row("unequal", "pairs-unequal", 60, 5),
    ]
    .concat()
}

/// Pairs in the lab whose phases are the same in each run: jitter, in thousandths, of the program that varies more, and fairness
/// where programs ran alone too.
pub fn lab_same_phases(result: &Value) -> String {
    let nr = result["runs"][0]["schedulers"].as_array().unwrap().len();
    let jitters: Vec<Vec<f64>> = (0..nr).map(|scheduler| jitters(result, scheduler)).collect();
    let fairness: Vec<Vec<f64>> = (0..nr)
        .map(|scheduler| means(result, scheduler, "fairness"))
        .collect();
    let cell = |of: usize, nth: usize| {
        let fairness = fairness[of].get(nth).map(|fairness| format!(", {fairness:.3}"));
        format!(" {:.1}{} |", jitters[of][nth], fairness.unwrap_or_default())
    };
    let row = |(nth, run): (usize, &Value)| {
        let cells: String = (0..nr).map(|of| cell(of, nth)).collect();
        format!("| {} |{cells}\n", programs_of(run))
    };
    let rows: String = together(result).enumerate().map(row).collect();
    table("| pair |", result, 0.., &rows)
}
