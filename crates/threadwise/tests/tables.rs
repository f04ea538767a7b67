// SPDX-License-Identifier: GPL-2.0-only
//! Tables of docs/results: the simulated ones are what a run that was kept says now, those of all pairs in the lab what stored
//! runs say. `make tables` writes them anew.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What the command prints that keeps its runs in this folder.
fn threadwise(folder: &Path, line: &str) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_threadwise"))
        .args(line.split_whitespace())
        .env("XDG_DATA_HOME", folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// What a run that was kept says of an experiment that was simulated with these options.
fn kept(experiment: &str, options: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("sim run {REPOSITORY}/experiments/{experiment}.toml {options}");
    threadwise(folder.path(), &line);
    serde_json::from_slice(&threadwise(folder.path(), "runs show last --format json")).unwrap()
}

/// What a run says that was measured in the lab and is in the repository.
fn measured(name: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("runs show {REPOSITORY}/tests/runs/{name}.json --format json");
    serde_json::from_slice(&threadwise(folder.path(), &line)).unwrap()
}

/// The runs of several programs.
fn together(result: &Value) -> impl Iterator<Item = &Value> {
    let runs = result["runs"].as_array().unwrap().iter();
    runs.filter(|run| run["run"].as_array().unwrap().len() > 1)
}

/// Of each run of several programs, what its scheduler of that number has: its mean, if it has one.
fn means(result: &Value, scheduler: usize, key: &str) -> Vec<f64> {
    let value = |run: &Value| {
        let of = &run["schedulers"][scheduler][key];
        of["mean"].as_f64().or_else(|| of["ratio"].as_f64())
    };
    together(result).filter_map(value).collect()
}

/// Of each run of several programs, the jitter of that which varies most, in thousandths.
fn jitters(result: &Value, scheduler: usize) -> Vec<f64> {
    let greatest = |run: &Value| {
        let of = run["schedulers"][scheduler]["jitter"].as_array().unwrap();
        let values = of.iter().map(|jitter| 1000.0 * jitter["value"].as_f64().unwrap());
        values.fold(0.0, f64::max)
    };
    together(result).map(greatest).collect()
}

fn of_all(values: &[f64]) -> f64 {
    assert!(!values.is_empty());
    values.iter().sum::<f64>() / values.len() as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A ratio as what it is more than one, in percent.
fn more(ratio: f64) -> String {
    // No minus before what is 0.0.
    format!("{:+.1} %", 100.0 * (ratio - 1.0)).replace("-0.0 %", "0.0 %")
}

fn mean_and_least(values: &[f64]) -> String {
    match values {
        [] => String::new(),
        _ => format!("{:.3}, {:.3}", of_all(values), least(values)),
    }
}

/// Means over all pairs and threes, kernel and ours.
fn all_programs() -> String {
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

/// Pairs whose phases last for 5, 20 and 100 ms on machines of several speeds.
fn lengths() -> String {
    let row = |mips: u32, phase_ms: u32| {
        let options = format!(
            "--seconds 10 --rounds 2 --mips {mips} --phase-units {}",
            mips * phase_ms * 5 / 2
        );
        let result = kept("pairs", &options);
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

/// All pairs on unequal cores, with a kernel that is told of them.
fn told() -> String {
    let row = |mips: u32, options: &str| {
        let result = kept(
            "pairs-unequal",
            &format!(
                "--seconds 10 --rounds 2 --mips {mips} --phase-units {} {options} --schedulers kernel-told,threadwise,kernel",
                50 * mips
            ),
        );
        let gains = means(&result, 1, "over_baseline");
        if mips == 2_000 {
            assert!(of_all(&gains) > 1.045, "{gains:?} over a kernel that is told");
        }
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
fn lab_pairs(runs: &[(&str, &str)]) -> String {
    let rows = |(name, phases): &(&str, &str)| -> String {
        let result = measured(name);
        let versions = result["measurement"]["scheduler_versions"].as_array().unwrap();
        (0..versions.len())
            .map(|nth| lab_pairs_row(&result, nth, phases))
            .collect()
    };
    let rows: String = runs.iter().map(rows).collect();
    format!(
        "| million instructions a second | phases | scheduler | gain | least | clearly more, less | first in | of bound, least | fairness, least |\n\
         |---|---|---|---|---|---|---|---|---|\n{rows}"
    )
}

/// A scheduler's name and version, as it says them itself.
fn named(version: &Value) -> String {
    let words: Vec<&str> = version
        .as_str()
        .unwrap()
        .split([' ', ':'])
        .filter(|word| !word.is_empty())
        .collect();
    match words.as_slice() {
        [name, number, ..] => format!("{} {number}", name.trim_start_matches("scx_")),
        _ => String::from("kernel"),
    }
}

fn lab_pairs_row(result: &Value, nth: usize, phases: &str) -> String {
    let measurement = &result["measurement"];
    let versions = measurement["scheduler_versions"].as_array().unwrap();
    let (mips, name) = (&measurement["experiment"]["mips"], named(&versions[nth]));
    let gains = means(result, nth, "over_baseline");
    let nr_clear = |key: &str, is: fn(f64) -> bool| {
        let bounds = together(result).filter_map(|run| run["schedulers"][nth]["over_baseline"][key].as_f64());
        bounds.filter(|&bound| is(bound)).count()
    };
    let compared = match gains.as_slice() {
        [] => String::from(" |  | "),
        _ => format!(
            "{} | {} | {}, {}",
            more(of_all(&gains)),
            more(least(&gains)),
            nr_clear("low", |low| low > 1.0),
            nr_clear("high", |high| high < 1.0)
        ),
    };
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
        "| {mips} | {phases} | {name} | {compared} | {first} | {:.1} %, {:.1} % | {} |\n",
        100.0 * of_all(&shares),
        100.0 * least(&shares),
        mean_and_least(&means(result, nth, "fairness"))
    )
}

/// Who knows how long phases last, and pays nothing.
fn foresight() -> String {
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

/// The same phases in each of ten runs.
fn same_phases() -> String {
    let row = |machine: &str, experiment: &str| {
        let result = kept(experiment, "--seconds 4 --rounds 10 --same-phases");
        let [kernel, ours] = [0, 1].map(|scheduler| jitters(&result, scheduler));
        let both = kernel.iter().zip(&ours);
        let (unsteady, there): (Vec<f64>, Vec<f64>) = both.filter(|(kernel, _)| **kernel > 10.0).unzip();
        let (before, after) = (of_all(&unsteady), of_all(&there));
        format!(
            "| {machine} | {:.1} | {:.1} | {} pairs: {before:.1}, {after:.1} ({}) |\n",
            of_all(&kernel),
            of_all(&ours),
            unsteady.len(),
            more(after / before)
        )
    };
    [
        "| cores | kernel | threadwise | where the kernel has more than 10 |\n|---|---|---|---|\n",
        &row("equal", "pairs"),
        &row("unequal", "pairs-unequal"),
    ]
    .concat()
}

/// Each pair under the kernel's scheduler and ours, as it is and without its boosts.
fn mechanisms(result: &Value) -> String {
    let schedulers = [
        "kernel",
        "threadwise",
        "no serial boost",
        "no seniority",
        "neither",
    ];
    let cell = |run: &Value, scheduler: usize| {
        let of = &run["schedulers"][scheduler];
        let gain = of["over_baseline"]["ratio"]
            .as_f64()
            .map(|ratio| more(ratio) + ", ");
        format!(
            " {}{:.3} |",
            gain.unwrap_or_default(),
            of["fairness"]["mean"].as_f64().unwrap()
        )
    };
    let row = |run: &Value| {
        let [one, other] = [0, 1].map(|nth| run["run"][nth].as_str().unwrap());
        let beside = if other == format!("{one} b") {
            "itself"
        } else {
            other
        };
        let cells: String = (0..schedulers.len())
            .map(|scheduler| cell(run, scheduler))
            .collect();
        format!("| {one} | {beside} |{cells}\n")
    };
    let gain = |pair: &str, scheduler: usize| {
        let run = together(result).find(|run| run["run"][0] == pair && run["run"][1] == format!("{pair} b"));
        run.unwrap()["schedulers"][scheduler]["over_baseline"]["ratio"]
            .as_f64()
            .unwrap()
    };
    for without in [2, 3, 4] {
        assert!(
            gain("1:1", 1) > gain("1:1", without) + 0.05,
            "{}",
            schedulers[without]
        );
    }
    assert!(
        gain("spinning", 1) > 1.15 && gain("spinning", 3) < 1.0,
        "seniority is nothing to threads that spin"
    );
    let rows: String = together(result).map(row).collect();
    format!(
        "| program | beside | {} |\n|---|---|---|---|---|---|---|\n{rows}",
        schedulers.join(" | ")
    )
}

/// Programs in each of whose stages some threads work.
fn stages() -> String {
    let result = kept("stages", "--rounds 8");
    let row = |run: &Value| {
        let names = run["run"].as_array().unwrap();
        let beside = match names.get(1).map(|name| name.as_str().unwrap()) {
            None => "nothing",
            Some("stages B") => "another",
            Some(name) => name,
        };
        let [kernel, ours] = [0, 1].map(|scheduler| &run["schedulers"][scheduler]);
        let of = |value: &Value, what: &str, key: &str| value[what][key].as_f64();
        let work = |value: &Value| {
            let [mean, half] = ["mean", "ci95"].map(|key| of(value, "total", key).unwrap() / 1000.0);
            format!("{mean:.1} ± {half:.1}")
        };
        let [ratio, low, high] = ["ratio", "low", "high"].map(|key| of(ours, "over_baseline", key).unwrap());
        let percent = |ratio: f64| more(ratio).replace(" %", "");
        let [idle, with] = [kernel, ours].map(|value| 100.0 * of(value, "idle", "mean").unwrap());
        let fairness = [kernel, ours].map(|value| of(value, "fairness", "mean"));
        let fairness = match fairness {
            [Some(kernel), Some(ours)] => format!("{kernel:.3}, {ours:.3}"),
            _ => String::new(),
        };
        format!(
            "| {beside} | {} | {} | {} [{}, {}] | {idle:.1}, {with:.1} % | {fairness} |\n",
            work(kernel),
            work(ours),
            more(ratio),
            percent(low),
            percent(high)
        )
    };
    let runs = result["runs"].as_array().unwrap().iter();
    let of_stages = runs.filter(|run| run["run"][0] == "stages");
    let rows: String = of_stages.map(row).collect();
    format!(
        "| beside a program of stages | kernel | threadwise | gain | idle | fairness |\n|---|---|---|---|---|---|\n{rows}"
    )
}

/// The page that has a table of this name, and what stands before the table, is the table and stands behind it.
fn page_of(name: &str) -> (PathBuf, [String; 3]) {
    let mark = format!("<!-- table {name} -->\n\n");
    let folder = Path::new(REPOSITORY).join("docs/results");
    let pages = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found = pages.filter_map(|page| {
        let text = std::fs::read_to_string(&page).unwrap();
        let start = text.find(&mark)? + mark.len();
        let (printed, _) = text[start..].split_once("\n<!-- end -->").unwrap();
        assert!(!printed.contains("<!-- "), "table {name} has no end");
        let end = start + printed.len();
        let parts = [&text[..start], printed, &text[end..]].map(String::from);
        Some((page, parts))
    });
    let page = found
        .next()
        .unwrap_or_else(|| panic!("no page in docs/results has a table {name}"));
    assert!(found.next().is_none(), "two pages have a table {name}");
    page
}

#[test]
fn the_tables_are_what_simulations_and_stored_runs_say() {
    let tables = [
        ("means", all_programs()),
        ("lengths", lengths()),
        (
            "lab-pairs",
            lab_pairs(&[
                ("lab-pairs-5ms", "5 ms"),
                ("lab-pairs-20ms", "20 ms"),
                ("lab-pairs-5ms-fast", "5 ms"),
                ("lab-pairs-20ms-fast", "20 ms"),
            ]),
        ),
        (
            "lab-pairs-unequal",
            lab_pairs(&[
                ("lab-pairs-unequal", "20 ms"),
                ("lab-pairs-unequal-fast", "20 ms"),
            ]),
        ),
        ("told", told()),
        ("foresight", foresight()),
        ("same-phases", same_phases()),
        ("stages", stages()),
        ("mechanisms", mechanisms(&kept("mechanisms", ""))),
        ("lab-mechanisms", mechanisms(&measured("lab-mechanisms"))),
    ];
    for (name, table) in &tables {
        let (path, [before, printed, after]) = page_of(name);
        if std::env::var_os("THREADWISE_WRITE_TABLES").is_some() {
            std::fs::write(&path, [before.as_str(), table, &after].concat()).unwrap();
        } else {
            assert_eq!(printed, *table, "{}: make tables writes it", path.display());
        }
    }
}
