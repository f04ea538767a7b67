// SPDX-License-Identifier: GPL-2.0-only
//! Runs from the command line: kept as they go, shown as they were printed, resumed, reported, compared, drawn in a browser.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "../../../tests/browser.rs"]
mod browser;

use browser::shown_on_a_phone;
use tempfile::TempDir;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A folder of its own, where the command works and keeps its runs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadwise"));
        let line = line.replace("{repository}", REPOSITORY);
        command
            .args(line.split(' '))
            .current_dir(self.path())
            .env("XDG_DATA_HOME", self.path());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// What it prints, when it succeeds.
    fn prints(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn fails(&self, line: &str, said: &str) {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let message = text(&output.stderr);
        assert!(
            message.starts_with("threadwise: ") && message.contains(said),
            "{line}: {message}"
        );
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TWO_APPS: &str = "sim run {repository}/experiments/two-apps.toml --seconds 0.5";
const KEPT: &str = "{repository}/tests/runs/phases.json";

#[test]
fn a_table_is_made_again_from_a_stored_run() {
    let place = Place::new();
    let printed = place.prints(TWO_APPS);
    let shown = place.prints("runs show last");
    assert!(
        shown.ends_with(&printed) && shown.contains("--seconds 0.5"),
        "{shown}"
    );
    let json = place.prints("runs show 1 --format json");
    let again = place.prints(&format!("{TWO_APPS} --format json"));
    assert_eq!(json, again, "to the last digit");
    // The one in the repository, as it was printed when it was made.
    let kept = place.prints(&format!("runs show {KEPT}"));
    let printed = std::fs::read_to_string(format!("{REPOSITORY}/tests/runs/phases.txt")).unwrap();
    assert!(kept.ends_with(&printed), "{kept}");
}

#[test]
fn who_is_strict_is_told_if_a_run_does_not_show_what_it_must() {
    let place = Place::new();
    let file = std::fs::read_to_string(format!("{REPOSITORY}/experiments/two-apps.toml")).unwrap();
    let line = "sim run two-apps.toml --seconds 0.5 --strict";
    for (at_least, status, said) in [
        ("at_least = 5.0", 0, "\nholds: gain of threadwise"),
        ("at_least = 500.0", 1, "DOES NOT HOLD"),
    ] {
        let changed = file.replacen("at_least = 5.0", at_least, 1);
        std::fs::write(place.path().join("two-apps.toml"), changed).unwrap();
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(status), "{at_least}");
        assert!(text(&output.stdout).contains(said), "{}", text(&output.stdout));
    }
    // Of nothing nobody can say that it holds.
    place.fails(
        &format!("{line} --schedulers kernel"),
        "nothing that the file says",
    );
    place.prints(line.trim_end_matches(" --strict"));
    place.prints("report last -o page.html");
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains(
        "must show DOES NOT HOLD: gain of threadwise, A (1:1) and B (1:1), must be at least +500.00 %, is +"
    ));
}

#[test]
fn runs_are_listed_exported_and_deleted() {
    let place = Place::new();
    let listed = |place: &Place| -> serde_json::Value {
        serde_json::from_str(&place.prints("runs list --format json")).unwrap()
    };
    assert_eq!(
        listed(&place)["runs"],
        serde_json::json!([]),
        "before the first run"
    );
    place.prints(TWO_APPS);
    place.prints(&format!("{TWO_APPS} --no-store"));
    place.prints(&format!("{TWO_APPS} --store other.db"));
    let runs = &listed(&place)["runs"];
    assert_eq!(runs.as_array().unwrap().len(), 1);
    assert_eq!(
        (&runs[0]["state"], &runs[0]["label"]),
        (&"complete".into(), &"simulated".into())
    );
    let experiment = place.prints("runs export 1 --experiment");
    let file = std::fs::read_to_string(format!("{REPOSITORY}/experiments/two-apps.toml")).unwrap();
    assert_eq!(experiment, file);
    let exported = place.prints("runs export last");
    std::fs::write(place.path().join("run.json"), &exported).unwrap();
    assert_eq!(place.prints("runs show run.json"), place.prints("runs show 1"));
    let mut value: serde_json::Value = serde_json::from_str(&exported).unwrap();
    value["manifest"]["command"] = serde_json::json!(["threadwise", "sim", "run", "it's a.toml"]);
    std::fs::write(place.path().join("run.json"), value.to_string()).unwrap();
    let shown = place.prints("runs show run.json");
    assert!(
        shown.contains(r"command: threadwise sim run 'it'\''s a.toml'"),
        "{shown}"
    );
    let deleted = text(&place.run("runs delete 1").stderr);
    assert_eq!(deleted, "threadwise: deleted run 1 (two-apps, 16 samples)\n");
    assert_eq!(listed(&place)["runs"], serde_json::json!([]));
    for (line, said) in [
        ("runs show 1", "\"1\" is no run"),
        ("runs delete 7", "\"7\" is no run"),
        ("report last", "\"last\" is no run"),
        ("report nowhere.json", "no file"),
        ("runs list --store nowhere.db", "no such file"),
        ("runs show 1 --store run.json", "no SQLite file"),
        ("compare run.json 1", "\"1\" is no run"),
        ("compare run.json run.json --least 101", "0 to 100"),
    ] {
        let output = place.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            text(&output.stderr).contains(said),
            "{line}: {}",
            text(&output.stderr)
        );
    }
    place.fails(&format!("{TWO_APPS} --store run.json"), "no SQLite file");
    std::fs::write(place.path().join("run.json"), "{}").unwrap();
    place.fails("report run.json", "names no schema");
}

#[test]
fn runs_that_begin_at_once_are_all_kept() {
    for _ in 0..10 {
        let place = Place::new();
        let children: Vec<_> = (0..8)
            .map(|_| {
                let mut command = place.command(TWO_APPS);
                command
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        assert_eq!(place.prints("runs list").matches("complete").count(), 8);
    }
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_stopped() {
    let place = Place::new();
    let line = "sim run {repository}/experiments/phases.toml --seconds 10 --rounds 40 --format json";
    let mut running = place
        .command(line)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let samples = || {
        let listed = place.run("runs list --format json").stdout;
        let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap_or_default();
        let run = listed["runs"][0].clone();
        (run["nr_samples"].as_u64().unwrap_or(0), run["state"].clone())
    };
    let patience = Instant::now() + Duration::from_secs(60);
    while samples().0 < 30 && Instant::now() < patience {
        assert!(running.try_wait().unwrap().is_none(), "720 samples take longer");
    }
    assert_eq!(samples().1, "running");
    place.fails("runs delete 1", "measured now");
    place.fails("sim run --resume 1", "measures it now");
    // SIGKILL: nothing can be done about it by the process.
    running.kill().unwrap();
    running.wait().unwrap();
    let (kept, state) = samples();
    assert!(
        (30..720).contains(&kept) && state == "interrupted",
        "{kept} {state}"
    );
    let changed = "would go on with smp-8 without caches";
    place.fails("sim run --resume last --without caches", changed);
    let resumed = place.prints("sim run --resume last --format json");
    assert_eq!(samples(), (720, "complete".into()));
    let at_once = place.prints(&format!("{line} --no-store"));
    assert!(resumed == at_once, "as if it had not been interrupted");
    place.fails("sim run --resume 1", "it is complete");
}

#[test]
fn a_run_that_a_signal_ends_says_how_to_go_on() {
    let place = Place::new();
    let line = "sim run {repository}/experiments/phases.toml --seconds 10 --rounds 400";
    for (more, signal, said) in [
        ("", libc::SIGINT, "go on with: threadwise sim run --resume 1"),
        (" --no-store", libc::SIGTERM, "nothing is kept (--no-store)"),
    ] {
        let mut command = place.command(&format!("{line}{more}"));
        let running = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has begun by then, which without a store nobody else sees.
        let patience = Instant::now() + Duration::from_secs(60);
        while !catches(running.id(), signal) {
            assert!(Instant::now() < patience);
        }
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(running.id() as i32, signal) };
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(
            told.ends_with(&format!("threadwise: interrupted; {said}\n")),
            "{told}"
        );
    }
    let listed = place.prints("runs list");
    assert!(
        listed.contains("interrupted") && !listed.contains("running"),
        "{listed}"
    );
    // Of less than two rounds there is nothing to show.
    let nothing = "run 1 was interrupted after 0 of 400 rounds, and two are needed: go on with threadwise sim run --resume 1";
    for line in ["runs show 1", "report 1", "compare 1 1"] {
        place.fails(line, nothing);
    }
}

/// Whether a process handles a signal (SigCgt in proc_pid_status(5)).
fn catches(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|caught| u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}

#[test]
fn what_cannot_be_written_is_known_before_anything_runs() {
    let place = Place::new();
    place.fails(
        &format!("{TWO_APPS} -o nowhere/x.json"),
        "cannot write nowhere/x.json",
    );
    assert!(!place.path().join("threadwise/runs.db").exists());
    place.prints(&format!("{TWO_APPS} -o x.json"));
    let written = std::fs::read_to_string(place.path().join("x.json")).unwrap();
    assert!(written.contains("threadwise.lab/1"), "{written}");
    // What ends early leaves what was there.
    place.fails(&format!("{TWO_APPS} -o x.json --run C"), "the experiment has");
    assert_eq!(
        std::fs::read_to_string(place.path().join("x.json")).unwrap(),
        written
    );
}

/// The command by who may read the store and not write to it.
fn by_a_reader(command: &mut Command) -> &mut Command {
    // SAFETY: geteuid() has no preconditions and cannot fail.
    match unsafe { libc::geteuid() } {
        // Root may write to everything; this is nobody.
        0 => command.uid(65534),
        _ => command,
    }
}

#[test]
fn a_store_that_may_only_be_read_is_read() {
    let place = Place::new();
    place.prints(TWO_APPS);
    place.prints(TWO_APPS);
    let (program, store) = (
        place.path().join("threadwise/program"),
        place.path().join("threadwise/runs.db"),
    );
    std::fs::copy(env!("CARGO_BIN_EXE_threadwise"), &program).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(place.path(), 0o777);
    mode(&program, 0o555);
    let page = place.path().join("page.html");
    mode(&store, 0o444);
    mode(store.parent().unwrap(), 0o555);
    let output = |line: &str| {
        let mut command = Command::new(&program);
        let command = command.args(line.split(' ')).arg("--store").arg(&store);
        let output = by_a_reader(command.current_dir("/")).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for line in [
        "runs list",
        "runs show 1",
        "runs export last",
        "compare 1 2",
        &format!("report 1 -o {}", page.display()),
    ] {
        let (status, printed, said) = output(line);
        assert!(status == Some(0) && !printed.is_empty(), "{line}: {said}");
    }
    for line in ["runs delete 1", &TWO_APPS.replace("{repository}", REPOSITORY)] {
        let (status, _, said) = output(line);
        assert!(
            status == Some(2) && said.contains("may not be written to: give yourself write access"),
            "{line}: {said}"
        );
    }
    mode(&store, 0o000);
    let (_, _, said) = output("runs list");
    assert!(
        said.contains("cannot open store") && said.contains("Permission denied"),
        "{said}"
    );
    mode(store.parent().unwrap(), 0o755);
}

#[test]
fn compare_says_whether_something_got_worse() {
    let place = Place::new();
    place.prints(TWO_APPS);
    place.prints(TWO_APPS);
    let same = place.prints("compare 1 2");
    assert!(same.contains("0 got better and 0 worse"), "{same}");
    // The same run with our scheduler's work cut.
    let exported = place.prints("runs export 2");
    let mut worse: serde_json::Value = serde_json::from_str(&exported).unwrap();
    for sample in worse["measurement"]["samples"].as_array_mut().unwrap() {
        if sample["scheduler"] == "threadwise" {
            for value in sample["performance"].as_array_mut().unwrap() {
                *value = (value.as_f64().unwrap() * 0.8).into();
            }
        }
    }
    std::fs::write(place.path().join("worse.json"), worse.to_string()).unwrap();
    let output = place.run("compare 1 worse.json");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("WORSE"), "{}", text(&output.stdout));
    let output = place.run("compare 1 worse.json --least 50");
    assert_eq!(output.status.code(), Some(0), "less than half is no change then");
    let json: serde_json::Value =
        serde_json::from_slice(&place.run("compare worse.json 1 --format json").stdout).unwrap();
    assert_eq!(json["schema"], "threadwise.compare/1");
    assert!(
        json["changes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|change| change["verdict"] == "better")
    );
}

#[test]
fn a_report_is_a_page_with_its_figures_and_numbers() {
    let place = Place::new();
    let printed = place.prints(&format!("report {KEPT} --svg figures --csv numbers"));
    let page = place.path().join(printed.trim());
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    let names = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(place.path().join(folder)).unwrap();
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("numbers"), ["figures.csv", "samples.csv"]);
    let figures = names("figures");
    for name in [
        "gains.svg",
        "machine.svg",
        "pairs-threadwise.svg",
        "performance.svg",
    ] {
        assert!(figures.iter().any(|figure| figure == name), "{figures:?}");
    }
    place.fails(
        &format!("report {KEPT} -o /no/such/folder/page.html"),
        "/no/such/folder/page.html",
    );
}

/// Figs. 5 and 6 of multicore-scheduling: who is where is what the pictures' boxes say.
#[test]
fn four_tasks_are_drawn_where_they_were_and_what_it_cost() {
    let place = Place::new();
    place.prints("sim run {repository}/experiments/packing.toml");
    place.prints("report last --svg figures --csv numbers");
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    let cpus_of = |mode: &str| -> Vec<u32> {
        let picture = read(&format!("figures/placement-{mode}.svg"));
        let boxes = picture.split("<title>CPU ").skip(1).map(|text| {
            let (cpu, rest) = text.split_once(": ").unwrap();
            let (name, rest) = rest.split_once(", ").unwrap();
            let share: u32 = rest.split_once(" %").unwrap().0.parse().unwrap();
            (cpu.parse().unwrap(), name, share)
        });
        let busy = boxes.filter(|(_, name, share)| *name != "nobody" && *share > 50);
        busy.map(|(cpu, ..)| cpu).collect()
    };
    let groups = |cpus: &[u32], of: u32| cpus.iter().map(|cpu| cpu / of).collect::<BTreeSet<_>>().len();
    let spread = cpus_of("01-one-two-three-four-performance");
    assert_eq!(
        (spread.len(), groups(&spread, 2)),
        (4, 4),
        "a cache each: {spread:?}"
    );
    let packed = cpus_of("02-one-two-three-four-powersave");
    assert_eq!(
        (packed.len(), groups(&packed, 4)),
        (4, 1),
        "one package: {packed:?}"
    );
    let energy = read("figures/energy-01-one-two-three-four.svg");
    assert!(
        energy.contains("performance, 209 W") && energy.contains("powersave, 136 W"),
        "{energy}"
    );
    let numbers = read("numbers/figures.csv");
    assert!(
        numbers.contains(",powersave,energy,package 1,J,32.0,"),
        "{numbers}"
    );
}

#[test]
fn a_browser_shows_the_page_at_the_width_of_a_phone_in_light_and_dark() {
    let place = Place::new();
    place.prints(&format!("report {KEPT} -o page.html"));
    let Some([light, dark]) = shown_on_a_phone(place.path()) else {
        return;
    };
    assert!(light.nr_figures >= 3);
    for shown in [&light, &dark] {
        assert!(shown.width <= 360, "{} pixels on a phone of 360", shown.width);
        assert!(shown.text.contains("Under threadwise"), "{}", shown.text);
    }
    assert_ne!(light.ground, dark.ground);
}

#[test]
fn a_browser_breaks_no_word_of_a_wide_table_and_does_not_scroll_the_page_sideways() {
    for kept in ["lab-same-phases-peers", "lab-packages"] {
        let place = Place::new();
        place.prints(&format!(
            "report {{repository}}/tests/runs/{kept}.json -o page.html"
        ));
        let Some([seen, _]) = shown_on_a_phone(place.path()) else {
            return;
        };
        assert_eq!((seen.broken.as_str(), seen.beyond), ("", 0), "{kept}");
        assert!(seen.width <= 360, "{kept}: {} pixels", seen.width);
    }
}
