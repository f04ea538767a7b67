// SPDX-License-Identifier: GPL-2.0-only
//! `threadwise reproduce`: the papers' results from the command line.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[path = "../../../tests/browser.rs"]
mod browser;

use browser::{Seen, shown_on_a_phone};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A folder for a store and a page; commands run in the repository.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut process = Command::new(env!("CARGO_BIN_EXE_threadwise"));
        process
            .args(command.split(' '))
            .args(arguments)
            .arg("--store")
            .arg(self.file("runs.db"))
            .current_dir(REPOSITORY);
        process
    }

    fn reproduce(&self, arguments: &[&str]) -> Output {
        let mut command = self.command("reproduce", arguments);
        command
            .arg("--output")
            .arg(self.file("page.html"))
            .output()
            .unwrap()
    }

    /// What a plan gives, with its exit status.
    fn results(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.reproduce(&[arguments, &["--format", "json"]].concat());
        let printed = serde_json::from_slice(&output.stdout);
        (
            printed.unwrap_or_else(|_| panic!("{}", text(&output.stderr))),
            output.status.code().unwrap(),
        )
    }

    fn page(&self) -> String {
        std::fs::read_to_string(self.file("page.html")).unwrap()
    }

    /// Writes a plan and returns its name.
    fn plan(&self, text: &str) -> String {
        let path = self.file("plan.toml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn columns(results: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let results = results["results"].as_array().unwrap().iter();
    results.flat_map(|result| {
        let columns = result["columns"].as_array().unwrap().iter();
        columns.map(|column| (result["name"].as_str().unwrap(), column))
    })
}

#[test]
fn every_command_of_the_papers_parses() {
    let place = Place::new();
    let lines = |arguments: &[&str]| {
        let output = place.reproduce(&[arguments, &["--dry-run"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(String::from).collect::<Vec<_>>()
    };
    let (quick, full, without) = (lines(&[]), lines(&["--full"]), lines(&["--no-lab"]));
    assert!(quick.len() < full.len() && without.len() < quick.len());
    let minutes = |lines: &[String]| -> u32 {
        let last = lines.last().unwrap();
        last.split(' ').nth(1).unwrap().parse().unwrap()
    };
    assert!(minutes(&quick) < 30, "{}", quick.last().unwrap());
    assert!(minutes(&full) > minutes(&quick));
    let (planned, status) = place.results(&["--dry-run", "--no-lab"]);
    assert_eq!(
        (&planned["schema"], status),
        (&"threadwise.reproduce.plan/1".into(), 0)
    );
    let sources = planned["sources"].as_array().unwrap();
    let left_out = sources
        .iter()
        .filter(|source| !source["left_out"].is_null())
        .count();
    // The last line is their sum.
    assert_eq!(sources.len() - left_out, without.len() - 1);
    assert!(left_out > 0 && sources[0]["command"].as_str().unwrap().starts_with("threadwise "));
    assert!(!place.file("runs.db").exists() && !place.file("page.html").exists());
}

#[test]
fn a_page_that_cannot_be_written_is_known_before_anything_runs() {
    let place = Place::new();
    let plan = place.plan(SMALL);
    let output = place
        .command("reproduce", &[&plan, "--output", "/no/such/x.html"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("cannot write /no/such/x.html"), "{said}");
    assert!(!place.file("runs.db").exists());
}

/// The papers' plan with the least of everything, and the lab's experiments simulated, as far as they can be.
fn shortened() -> String {
    let text = std::fs::read_to_string(Path::new(REPOSITORY).join("docs/papers.toml")).unwrap();
    let mut plan: toml::Table = text.parse().unwrap();
    let mut unsimulated = Vec::new();
    for source in plan["source"].as_array_mut().unwrap() {
        let source = source.as_table_mut().unwrap();
        let name = source["name"].as_str().unwrap().to_string();
        let is_place = source["command"][0].as_str() == Some("place");
        // What was measured before stands in for these.
        if source.contains_key("stored") {
            continue;
        }
        if source["command"][1].as_str() == Some("table") {
            continue;
        }
        if source["form"].as_str() == Some("measured") {
            // A program that is there without `make build`.
            let line = "bench ready-threads -- threadwise bench synthetic --threads 8 --duration 0.5";
            let words: Vec<toml::Value> = line.split(' ').map(toml::Value::from).collect();
            source.insert("command".into(), words.into());
            continue;
        }
        // Simulating assignments of 24 threads takes minutes.
        if is_place && name.starts_with("sim ") && name.ends_with(" 24") {
            source.insert("form".into(), "computed".into());
            let quick = source.remove("full").or_else(|| source.remove("quick")).unwrap();
            source.insert("quick".into(), quick);
            let command = source["command"].as_array_mut().unwrap();
            command.retain(|word| !["--on", "sim"].contains(&word.as_str().unwrap()));
        }
        match source["form"].as_str().unwrap() {
            "simulated" if is_place => {
                let command = source["command"].as_array_mut().unwrap();
                command.extend(["--instances", "1"].map(toml::Value::from));
                continue;
            }
            "computed" => {
                let command = source["command"].as_array_mut().unwrap();
                command
                    .iter_mut()
                    .filter(|word| word.as_str() == Some("1000"))
                    .for_each(|word| *word = "50".into());
                continue;
            }
            "lab" if ["lab servers-hidden", "lab ready threads"].contains(&name.as_str()) => {
                unsimulated.push(name);
                continue;
            }
            _ => {}
        }
        let command = source["command"].as_array_mut().unwrap();
        command.retain(|word| !["--seconds", "4"].contains(&word.as_str().unwrap()));
        command[0] = "sim".into();
        source.insert("form".into(), "simulated".into());
        let is_drawn = ["sim pairs a=2", "sim packing"].contains(&name.as_str());
        source.insert("is_drawn".into(), is_drawn.into());
        let quick = "with = ['--rounds', '2', '--seconds', '0.2']\nseconds = 9";
        source.insert("quick".into(), quick.parse::<toml::Table>().unwrap().into());
    }
    assert_eq!(unsimulated, ["lab ready threads"]);
    plan.to_string()
}

#[test]
fn every_figure_of_the_papers_is_where_it_is_said_to_be() {
    let place = Place::new();
    let plan = place.plan(&shortened());
    let (results, _) = place.results(&[&plan, "--no-lab"]);
    let mut nr = 0;
    for (name, column) in columns(&results) {
        let figures = column["figures"].as_array().unwrap();
        assert_eq!(column["has_failed"], false, "{name}: {}", column["missing"]);
        nr += figures.len();
        if figures.is_empty() {
            assert!(
                ["fig-1", "ht-loads"].contains(&name),
                "{name}: {}",
                column["missing"]
            );
        }
    }
    assert!(nr > 400, "{nr}");
    // All columns of this are of runs that are kept.
    let has_figures =
        |(name, column): (&str, &Value)| name == "sequential" && column["figures"] != serde_json::json!([]);
    assert_eq!(columns(&results).filter(|&of| has_figures(of)).count(), 3);
    // What is computed is as claimed, but for those whose samples were made smaller; and what kept runs in the lab say.
    for (name, column) in columns(&results) {
        if column["form"] == "computed" && !name.ends_with("-24") || column["form"] == "lab" {
            assert_eq!(column["broken"], serde_json::json!([]), "{name}");
        }
    }
    // The page has every table, and nothing is run again for the same.
    let page = place.page();
    assert!(page.contains("Table 7") && page.contains("<svg") && !page.contains("<script"));
    assert!(page.contains("Ready threads over time"));
    assert_eq!(
        page.matches("What ran on each CPU in").count(),
        2,
        "Figs. 5 and 6: where four tasks ran"
    );
    if let Some(seen) = shown_on_a_phone(place.0.path()) {
        for Seen {
            width,
            text,
            nr_figures,
            broken,
            beyond,
            ..
        } in &seen
        {
            assert!(*width <= 360, "{width} pixels on a phone of 360");
            assert!(*nr_figures > 0);
            assert_eq!((broken.as_str(), *beyond), ("", 0));
            assert!(
                text.contains("We claim something of") && text.contains("Table 7"),
                "{text}"
            );
        }
        assert_ne!(seen[0].ground, seen[1].ground);
    }
    let (again, _) = place.results(&[&plan, "--only", "ht-two-threads,table-1"]);
    for result in again["results"].as_array().unwrap() {
        let all = results["results"].as_array().unwrap();
        assert!(all.contains(result), "{result}");
    }
    let sources = again["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 6);
    for source in sources {
        let state = source["state"].as_str().unwrap();
        assert!(
            state == "kept from before" || state.contains(" of 20"),
            "{source}"
        );
    }
}

const SMALL: &str = r#"
[[paper]]
name = "p"
title = "A paper"

[[source]]
name = "s"
form = "simulated"
command = ["sim", "run", "experiments/two-apps.toml", "--seconds", "0.5"]
quick = { seconds = 1 }
is_drawn = true

[[result]]
name = "r"
paper = "p"
place = "Table 1"
title = "a gain"
unit = "gain"
rows = [{ what = "both", printed = "+" }]

[[result.figures]]
from = "s"
at = "$.runs[1].schedulers[1].over_baseline.ratio"
minus_one = true
claim = "same sign"
"#;

#[test]
fn a_table_is_made_again_from_a_stored_run() {
    let place = Place::new();
    let plan = place.plan(SMALL);
    let (results, status) = place.results(&[&plan]);
    assert_eq!(status, 0, "{results}");
    let first = place.page();
    let shown = place.command("runs show 1 --format json", &[]).output().unwrap();
    let run: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let ratio = run["runs"][1]["schedulers"][1]["over_baseline"]["ratio"]
        .as_f64()
        .unwrap();
    let value = results["results"][0]["columns"][0]["figures"][0][0]["value"]
        .as_f64()
        .unwrap();
    assert!((value - (ratio - 1.0) * 100.0).abs() < 1e-9);
    assert!(first.contains(&format!("{value:+.1} %")) && first.contains("<svg"));
    // From the store alone: the table is the same, and there is still one run.
    let (again, _) = place.results(&[&plan]);
    assert_eq!(again["results"], results["results"]);
    let table = |page: &str| {
        page.split("<table class=\"results\">")
            .nth(1)
            .unwrap()
            .split("</table>")
            .next()
            .unwrap()
            .to_string()
    };
    assert_eq!(table(&place.page()), table(&first));
    let listed = place.command("runs list --format json", &[]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    let (_, _) = place.results(&[&plan, "--again"]);
    let listed = place.command("runs list --format json", &[]).output().unwrap();
    assert_eq!(text(&listed.stdout).matches("complete").count(), 2);
}

#[test]
fn a_run_that_was_measured_before_stands_in_where_it_is_not_run() {
    const STORED: &str = "tests/runs/lab-unequal-cores.json";
    let place = Place::new();
    let with = |file: &str| {
        let source = format!(
            "form = \"lab\"\ncommand = [\"lab\", \"run\", \"experiments/unequal-cores.toml\"]\n\
             full = {{ seconds = 1 }}\nstored = \"{file}\""
        );
        let begins = SMALL.find("form = \"simulated\"").unwrap();
        let ends = SMALL.find("\nis_drawn").unwrap();
        let text = [&SMALL[..begins], &source, &SMALL[ends..]].concat();
        place.plan(&text.replace("runs[1]", "runs[0]"))
    };
    let (csv, svg) = (place.file("numbers.csv"), place.file("figures"));
    let files = ["--csv", csv.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let (results, status) = place.results(&[&[with(STORED).as_str()], &files[..]].concat());
    assert_eq!(status, 0, "{results}");
    let file = std::fs::read_to_string(Path::new(REPOSITORY).join(STORED)).unwrap();
    let run: Value = serde_json::from_str(&file).unwrap();
    let version = run["measurement"]["version"].as_str().unwrap();
    let source = &results["sources"][0];
    let state = format!(
        "measured before: {STORED}, of {}, with threadwise {version}",
        run["began"].as_str().unwrap()
    );
    assert_eq!(source["state"], state);
    let words = run["manifest"]["command"].as_array().unwrap().iter();
    let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
    assert_eq!(source["command"], words.join(" "));
    let (_, column) = columns(&results).next().unwrap();
    let gain = column["figures"][0][0]["value"].as_f64().unwrap();
    assert!((98.0..101.0).contains(&gain), "{column}");
    let page = place.page();
    let (_, others) = page.split_once("<h2 id=\"others\">").unwrap();
    let (others, _) = others.split_once("<h2 ").unwrap();
    for said in [
        "cosmos: scx_cosmos",
        "most work on the mean over the rounds: threadwise with",
    ] {
        assert!(others.contains(said), "no {said} in {others}");
    }
    let numbers = std::fs::read_to_string(csv).unwrap();
    let of_ours = format!(
        "{gain},{},{},",
        column["figures"][0][0]["interval"][0], column["figures"][0][0]["interval"][1]
    );
    assert!(
        numbers.contains(&of_ours.replace("null", "")),
        "no {of_ours} in {numbers}"
    );
    let drawn = std::fs::read_dir(svg)
        .unwrap()
        .map(|file| file.unwrap().file_name());
    let drawn: Vec<_> = drawn.map(|name| name.into_string().unwrap()).collect();
    assert!(drawn.iter().any(|name| name.ends_with("-gains.svg")), "{drawn:?}");
    // Nothing was run by then.
    let output = place.reproduce(&[&with("no/such/run.json"), "--dry-run"]);
    assert!(
        !output.status.success() && text(&output.stderr).contains("no/such/run.json"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_fails_is_said_and_ends_nothing_else() {
    let place = Place::new();
    // A guest that cannot boot beside the simulation that can.
    let lab = r#"
[[source]]
name = "lab"
form = "lab"
command = ["lab", "run", "experiments/two-apps.toml", "--kernel", "/nowhere"]
quick = { seconds = 1 }
"#;
    let column = r#"
[[result.figures]]
from = "lab"
at = "$.runs[1].schedulers[1].over_baseline.ratio"
claim = "same sign"
"#;
    let plan = place.plan(
        &SMALL
            .replace("[[result]]", &format!("{lab}\n[[result]]"))
            .replace(
                "claim = \"same sign\"\n",
                &format!("claim = \"same sign\"\n{column}"),
            ),
    );
    let (results, status) = place.results(&[&plan]);
    assert_eq!(status, 1);
    let columns: Vec<&Value> = columns(&results).map(|(_, column)| column).collect();
    assert_eq!(columns[0]["figures"].as_array().unwrap().len(), 1);
    let why = columns[1]["missing"].as_str().unwrap();
    assert!(why.contains("/nowhere"), "{why}");
    assert!(place.page().contains("No figures, lab: ") && place.page().contains("/nowhere"));
    let (_, status) = place.results(&[&plan, "--no-lab"]);
    assert_eq!(status, 0, "what was left out has not failed");
    for (old, new, said) in [
        ("schedulers[1].over", "schedulers[7].over", "leads to nothing"),
        ("printed = \"+\"", "printed = \"-\"", "0 of 1 rows are same sign"),
        ("printed = \"+\"", "printed = 0.0001", "0 of 1 rows are within"),
    ] {
        let text = SMALL.replace(old, new);
        let text = if new.ends_with("1") {
            text.replace("same sign", "within")
        } else {
            text
        };
        let (results, status) = place.results(&[&place.plan(&text)]);
        assert_eq!(status, 1, "{new}: {results}");
        assert!(
            results.to_string().contains(said) && place.page().contains(said),
            "{new}: {results}"
        );
    }
    // What needs a program that is not there is left out, which is no failure.
    let in_lab = SMALL.replace("simulated", "lab").replace("[\"sim\"", "[\"lab\"");
    let needing = place.file("needing.toml");
    let experiment = std::fs::read_to_string(format!("{REPOSITORY}/experiments/two-apps.toml")).unwrap();
    std::fs::write(
        &needing,
        experiment.replace("scx_threadwise", "no-such-scheduler"),
    )
    .unwrap();
    let plan = place.plan(&in_lab.replace("experiments/two-apps.toml", &needing.display().to_string()));
    let (results, status) = place.results(&[&plan]);
    assert_eq!(status, 0, "{results}");
    let missing = results["results"][0]["columns"][0]["missing"].as_str().unwrap();
    assert!(missing.contains("needs no-such-scheduler") && place.page().contains(missing));
    // So is what is to be compared with other schedulers that nobody built.
    let with_peers = place.plan(&in_lab.replace("\"--seconds\", \"0.5\"", "\"--peers\""));
    let output = place
        .command("reproduce", &[&with_peers, "--format", "json"])
        .arg("--output")
        .arg(place.file("page.html"))
        .envs([("PATH", ""), ("THREADWISE_CACHE", "/nowhere")])
        .output()
        .unwrap();
    assert!(
        text(&output.stdout).contains("it needs scx_bpfland"),
        "{output:?}"
    );
    let plan = place.plan(&in_lab.replace("experiments/two-apps.toml", &needing.display().to_string()));
    let listed = place.reproduce(&[&plan, "--dry-run"]);
    assert!(
        text(&listed.stdout).starts_with("about 0 minutes"),
        "{}",
        text(&listed.stdout)
    );
    // What cannot be run at all is said before anything is.
    for (old, new, said) in [
        ("\"--seconds\"", "\"--secnods\"", "unexpected argument"),
        (
            "experiments/two-apps.toml",
            "experiments/none.toml",
            "cannot read experiments/none.toml",
        ),
        (
            "form = \"simulated\"",
            "form = \"lab\"",
            "its figures are simulated, not lab",
        ),
        (
            "\"sim\", \"run\", \"experiments/two-apps.toml\", \"--seconds\", \"0.5\"",
            "\"topo\"",
            "only sim run",
        ),
    ] {
        let output = place.reproduce(&[&place.plan(&SMALL.replace(old, new)), "--dry-run"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{new}");
        assert!(
            message.contains("source \"s\"") && message.contains(said),
            "{new}: {message}"
        );
    }
}

#[test]
fn an_interrupted_one_goes_on_where_it_stopped() {
    let place = Place::new();
    let long = SMALL
        .replace("two-apps", "phases")
        .replace("\"0.5\"", "\"10\", \"--rounds\", \"20\"");
    let plan = place.plan(&long);
    let mut running = place
        .command("reproduce", &[&plan])
        .arg("--output")
        .arg(place.file("page.html"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let run = || {
        let listed = place.command("runs list --format json", &[]).output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        listed["runs"][0].clone()
    };
    let samples = || run()["nr_samples"].as_u64().unwrap_or(0);
    let patience = Instant::now() + Duration::from_secs(60);
    while samples() < 10 && Instant::now() < patience {
        assert!(running.try_wait().unwrap().is_none(), "360 samples take longer");
    }
    // As Ctrl-C does; SAFETY: kill(2) has no memory to get wrong, and the process was not waited for.
    unsafe { libc::kill(running.id() as libc::pid_t, libc::SIGTERM) };
    assert_eq!(running.wait().unwrap().code(), Some(2));
    let kept = samples();
    assert!(
        (10..360).contains(&kept) && run()["state"] == "interrupted",
        "{kept}"
    );
    let (results, _) = place.results(&[&plan]);
    assert!(
        results["sources"][0]["state"]
            .as_str()
            .unwrap()
            .starts_with("run 1, 20 rounds"),
        "{results}"
    );
    assert_eq!((samples(), run()["state"].clone()), (360, "complete".into()));
}
