// SPDX-License-Identifier: GPL-2.0-only
//! What is computed: the analysis over all pairs and threes, and BlackBox on the model of an UltraSPARC T2. What the papers printed is
//! typed in here, and nothing else.

use serde_json::Value;
use threadwise_model::sharing::IPFWD_VARIANTS;

use super::threadwise;

fn computed(line: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let line = line.replace("{scratch}", folder.path().join("scratch").to_str().unwrap());
    serde_json::from_slice(&threadwise(folder.path(), &format!("{line} --format json"))).unwrap()
}

/// A figure of the model's mean over all choices of so many programs, in percent.
fn of_policy(means: &Value, policy: &str, key: &str) -> f64 {
    let mut policies = means["policies"].as_array().unwrap().iter();
    let of = policies.find(|of| of["policy"] == policy).unwrap();
    100.0 * of[key].as_f64().unwrap()
}

fn means(nr_programs: u32, asymmetry: u32) -> Value {
    computed(&format!(
        "model means --apps {nr_programs} --asymmetry {asymmetry}"
    ))
}

/// Idle time, beside what the paper measured (section VIII).
pub fn idle() -> String {
    let row = |nr: u32, asymmetry: u32, printed: &str| {
        let means = means(nr, asymmetry);
        let of = |policy| of_policy(&means, policy, "idle");
        let unknown = match asymmetry {
            1 => String::new(),
            _ => format!(" ({:.1} if the fast core is unknown too)", of("speeds-unknown")),
        };
        format!(
            "| {nr} programs, a = {asymmetry} | {printed} | {:.1}{unknown} -> {:.1} -> {:.1} % |\n",
            of("phases-unknown"),
            of("serial-boost"),
            of("seniority")
        )
    };
    [
        "| idle time | paper, measured | computed: phases unknown, serial boost, both boosts |\n|---|---|---|\n",
        &row(2, 1, "20.0 -> 17.2 %"),
        &row(2, 2, "25.6 -> 22.8 %"),
        &row(3, 1, "13.62 -> 12.25 %"),
    ]
    .concat()
}

/// Throughput, beside what the paper measured (section VIII).
pub fn throughput() -> String {
    let row = |nr: u32, asymmetry: u32, printed: &str| {
        let means = means(nr, asymmetry);
        let of = |policy| of_policy(&means, policy, "gain");
        format!(
            "| {nr} programs, a = {asymmetry} | {printed} | {:+.2}, {:+.2} % |\n",
            of("serial-boost"),
            of("seniority")
        )
    };
    [
        "| throughput | paper, measured | computed: serial boost, both boosts |\n|---|---|---|\n",
        &row(2, 1, "+3 %"),
        &row(2, 2, "+4.5 %"),
        &row(3, 1, "+1 %"),
        &row(3, 2, "+1.87 %"),
    ]
    .concat()
}

/// What boosts gain over phases unknown, beside who knows how long phases last and the most that there is; and fairness.
pub fn known_phases() -> String {
    let all = [(2, 1), (2, 2), (3, 1), (3, 2)].map(|(nr, asymmetry)| (nr, asymmetry, means(nr, asymmetry)));
    let policies = ["serial-boost", "seniority", "clairvoyant"];
    let rows = all.iter().map(|(nr, asymmetry, means)| {
        let gains: String = policies
            .map(|policy| format!(" {:+.2} % |", of_policy(means, policy, "gain")))
            .concat();
        let most = 100.0 * means["most"]["gain"].as_f64().unwrap();
        format!("| {nr} programs, a = {asymmetry} |{gains} {most:+.2} % |\n")
    });
    let fairness: String = policies
        .map(|policy| {
            let of = |(_, _, means): &(_, _, Value)| of_policy(means, policy, "fairness") / 100.0;
            format!(" {:.3}, {:.3} |", of(&all[0]), of(&all[1]))
        })
        .concat();
    format!(
        "| [computed] | serial boost | both boosts (seniority) | clairvoyant | at most |\n|---|---|---|---|---|\n\
         {}| fairness of 2 programs, a = 1, 2 |{fairness} |\n",
        rows.collect::<String>()
    )
}

/// Losses of assignments on a computed UltraSPARC T2, in percent of the best.
pub fn assignments(options: &str) -> String {
    let of = |program: &str| {
        computed(&format!(
            "place evaluate ipfwd:{program} {options} --store {{scratch}}"
        ))
    };
    losses(&IPFWD_VARIANTS.map(of))
}

/// What `place evaluate` said of each of the nine programs.
pub fn losses(of_programs: &[Value]) -> String {
    let row = |all: &Value| {
        let program = all["subject"].as_str().unwrap().strip_prefix("ipfwd:").unwrap();
        let of = |reading: &str, key: &str| 100.0 * all["readings"][reading][key].as_f64().unwrap();
        let excess = |key: &str| format!("{:.1}", of("excess", key));
        let errors = ["literal", "foreign-only", "excess"]
            .map(|reading| format!("{:.1}", of(reading, "prediction_error")));
        format!(
            "| {program} | {} | {} | {:.1} | {} | {} | {} | {} | {} |\n",
            excess("top1"),
            excess("top5"),
            of("literal", "top1"),
            excess("naive_mean"),
            excess("naive_worst"),
            excess("balanced_mean"),
            excess("balanced_worst"),
            errors.join(", ")
        )
    };
    let rows: String = of_programs.iter().map(row).collect();
    format!(
        "| program | chosen | best of 5 | chosen, literal | naive | worst | balanced | worst | prediction off by: literal, foreign-only, excess |\n\
         |---|---|---|---|---|---|---|---|---|\n{rows}"
    )
}
