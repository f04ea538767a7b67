// SPDX-License-Identifier: GPL-2.0-only
//! Programs of other kinds, and the scheduler without its parts.

use serde_json::Value;

use super::{
    compared, done_first, gain_cells, gain_of, jitters, kept, least, mean_and_least, means, more, of_all,
    programs_of, table, together,
};

/// Each pair under the kernel's scheduler and ours, as it is and without its boosts.
pub fn mechanisms(result: &Value) -> String {
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
pub fn stages() -> String {
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
        let [idle, with] = [kernel, ours].map(|value| 100.0 * of(value, "idle", "mean").unwrap());
        let fairness = [kernel, ours].map(|value| of(value, "fairness", "mean"));
        let fairness = match fairness {
            [Some(kernel), Some(ours)] => format!("{kernel:.3}, {ours:.3}"),
            _ => String::new(),
        };
        format!(
            "| {beside} | {} | {} | {} | {idle:.1}, {with:.1} % | {fairness} |\n",
            work(kernel),
            work(ours),
            gain_of(ours)
        )
    };
    let runs = result["runs"].as_array().unwrap().iter();
    let of_stages = runs.filter(|run| run["run"][0] == "stages");
    let rows: String = of_stages.map(row).collect();
    format!(
        "| beside a program of stages | kernel | threadwise | gain | idle | fairness |\n|---|---|---|---|---|---|\n{rows}"
    )
}

/// Servers and their clients on cores of two hardware threads.
pub fn servers(result: &Value) -> String {
    let row = |run: &Value| {
        let done = done_first(run);
        let digits = if done < 100.0 { 2 } else { 0 };
        format!("| {} | {done:.digits$} |{}\n", programs_of(run), gain_cells(run))
    };
    let rows: String = result["runs"].as_array().unwrap().iter().map(row).collect();
    table("| load, clients or rooms | kernel |", result, 1.., &rows)
}

/// The same loads without SMT, with SMT that the kernel does not know, and with SMT that it knows: under the kernel's scheduler,
/// and under ours where there are cores to know.
pub fn loads_by_what_is_known(results: [&Value; 3]) -> String {
    let done = |nth: usize, run: usize, scheduler: usize| {
        let total = &results[nth]["runs"][run]["schedulers"][scheduler]["total"];
        let [mean, half] = ["mean", "ci95"].map(|key| total[key].as_f64().unwrap());
        let digits = if mean < 100.0 { 2 } else { 0 };
        format!("{mean:.digits$} ± {half:.digits$}")
    };
    for result in results {
        let names = [0, 1].map(|nth| {
            result["runs"][0]["schedulers"][nth]["scheduler"]
                .as_str()
                .unwrap()
        });
        assert_eq!(names, ["kernel", "threadwise"]);
    }
    let row = |run: usize| {
        let load = programs_of(&results[0]["runs"][run]);
        assert!(
            results
                .iter()
                .all(|result| programs_of(&result["runs"][run]) == load)
        );
        let columns = [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1)];
        let cells: String = columns
            .map(|(nth, scheduler)| format!(" {} |", done(nth, run, scheduler)))
            .concat();
        format!("| {load} |{cells}\n")
    };
    let rows: String = (0..results[0]["runs"].as_array().unwrap().len())
        .map(row)
        .collect();
    format!(
        "| load, clients or rooms | SMT off: kernel | unknown to the kernel: kernel | known: kernel | unknown, threadwise told | known: threadwise |\n\
         |---|---|---|---|---|---|\n{rows}"
    )
}

/// Each pair of real programs on unequal cores, and each alone: what is gained over the kernel's scheduler.
pub fn real_pairs(result: &Value) -> String {
    let runs = result["runs"].as_array().unwrap();
    let alone = runs
        .iter()
        .filter_map(|run| match run["run"].as_array()?.as_slice() {
            [name] => name.as_str(),
            _ => None,
        });
    let names: Vec<&str> = alone.collect();
    let gain = |programs: &[&str]| {
        let run = runs.iter().find(|run| run["run"] == serde_json::json!(programs));
        more(
            run.unwrap()["schedulers"][1]["over_baseline"]["ratio"]
                .as_f64()
                .unwrap(),
        )
    };
    let rows: String = names
        .iter()
        .enumerate()
        .map(|(nth, name)| {
            let beside: Vec<String> = names[..=nth].iter().map(|other| gain(&[*other, *name])).collect();
            let cells = beside.join(" | ") + &" |".repeat(names.len() - beside.len());
            format!("| {name} | {} | {cells} |\n", gain(&[*name]))
        })
        .collect();
    format!(
        "| | alone | {} |\n|---|---|{}\n{rows}",
        names.join(" | "),
        "---|".repeat(names.len())
    )
}

/// Within how many milliseconds 99 of 100 wake-ups of an interactive program come, under each scheduler.
pub fn latencies(result: &Value) -> String {
    let schedulers = |run: &Value| run["schedulers"].as_array().unwrap().clone();
    let within_ms = |of: &Value| format!(" {:.2} |", 1000.0 / of["total"]["mean"].as_f64().unwrap());
    let row = |run: &Value| {
        let cells: String = schedulers(run).iter().map(within_ms).collect();
        format!("| {} |{cells}\n", programs_of(run))
    };
    let rows: String = result["runs"].as_array().unwrap().iter().map(row).collect();
    table("| beside eight programs, always |", result, 0.., &rows)
}

/// Pairs of real programs on equal cores: each beside the other over one after the other, under both schedulers, and the gain.
pub fn real_pairs_on_equal_cores(result: &Value) -> String {
    let over = |run: &Value, scheduler: usize| {
        let over = &run["schedulers"][scheduler]["over_sequential"]["ratio"];
        more(over.as_f64().unwrap())
    };
    let row = |run: &Value| {
        let (kernel, ours) = (over(run, 0), over(run, 1));
        format!(
            "| {} | {kernel} | {ours} |{}\n",
            programs_of(run),
            gain_cells(run)
        )
    };
    let rows: String = together(result).map(row).collect();
    let mean = |scheduler, key| more(of_all(&means(result, scheduler, key)));
    format!(
        "| pair | over one after the other, kernel | threadwise | gain |\n|---|---|---|---|\n{rows}| mean | {} | {} | {} |\n",
        mean(0, "over_sequential"),
        mean(1, "over_sequential"),
        mean(1, "over_baseline"),
    )
}

/// Pairs of real programs beside each other over one after the other under the first scheduler, and what each other gains.
pub fn real_pairs_under_all(result: &Value) -> String {
    let row = |run: &Value| {
        let over = run["schedulers"][0]["over_sequential"]["ratio"].as_f64().unwrap();
        format!("| {} | {} |{}\n", programs_of(run), more(over), gain_cells(run))
    };
    let rows: String = together(result).map(row).collect();
    let mean = |scheduler, key| more(of_all(&means(result, scheduler, key)));
    let nr = result["runs"][0]["schedulers"].as_array().unwrap().len();
    let gains: String = (1..nr)
        .map(|scheduler| format!(" {} |", mean(scheduler, "over_baseline")))
        .collect();
    let mean = format!("| mean | {} |{gains}\n", mean(0, "over_sequential"));
    table(
        "| pair | over one after the other, kernel |",
        result,
        1..,
        &(rows + &mean),
    )
}

/// Of those on unequal cores: beside each other over one after the other, and how many are better so.
pub fn real_pairs_in_all(result: &Value) -> String {
    let nr = together(result).count();
    assert_eq!(nr, 45);
    let under_kernel = means(result, 0, "over_sequential");
    let row = |scheduler: usize, name: &str| {
        let over = means(result, scheduler, "over_sequential");
        assert_eq!(over.len(), nr);
        // What both do together, over what they would do one after the other under the kernel's scheduler.
        let over_kernel: Vec<f64> = match means(result, scheduler, "over_baseline").as_slice() {
            [] => over.clone(),
            gains => gains
                .iter()
                .zip(&under_kernel)
                .map(|(gain, over)| gain * over)
                .collect(),
        };
        let compared = compared(result, scheduler);
        format!(
            "| {name} | {compared} | {}, {} | {} | {} | {:.1} % | {} | {:.1} |\n",
            more(of_all(&over)),
            more(least(&over)),
            more(of_all(&over_kernel)),
            over.iter().filter(|&&ratio| ratio < 1.0).count(),
            100.0 * of_all(&means(result, scheduler, "idle")),
            mean_and_least(&means(result, scheduler, "fairness")),
            of_all(&jitters(result, scheduler))
        )
    };
    format!(
        "| scheduler | gain | least | clearly more, less | over one after the other, least | and under the kernel's scheduler | pairs better one after the other | idle | fairness, least | jitter |\n\
         |---|---|---|---|---|---|---|---|---|---|\n{}{}",
        row(0, "kernel"),
        row(1, "threadwise")
    )
}
