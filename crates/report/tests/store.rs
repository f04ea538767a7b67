// SPDX-License-Identifier: GPL-2.0-only
//! The store: what goes in comes out, and whatever else may lie at its place.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use tempfile::TempDir;
use threadwise_lab::run::{Label, Measurement, Sample};
use threadwise_machine::Machine;
use threadwise_report::compare::compare;
use threadwise_report::store::Store;
use threadwise_report::{Error, Record, State};

/// A simulated run of experiments/phases.toml, as `threadwise runs export` wrote it.
fn kept() -> Record {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runs/phases.json");
    Record::from_file(&path).unwrap()
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/runs.db");
    (folder, path)
}

/// Puts a record in, as it would be while it is measured.
fn begin(store: &Store, record: &Record) -> i64 {
    let measurement = Measurement {
        samples: Vec::new(),
        ..record.measurement.clone()
    };
    let id = store.begin(&record.manifest, &measurement).unwrap();
    for sample in &record.measurement.samples {
        store.add_sample(id, sample).unwrap();
    }
    id
}

fn as_json(record: &Record) -> serde_json::Value {
    serde_json::to_value(&record.measurement).unwrap()
}

/// A machine as a manifest that is written now has it.
fn machine_now(name: &str) -> serde_json::Value {
    serde_json::to_value(Machine::load(name).unwrap()).unwrap()
}

#[test]
fn what_goes_in_comes_out() {
    let (_folder, path) = place();
    let record = kept();
    let store = Store::open_or_create(&path).unwrap();
    let id = begin(&store, &record);
    for timeline in &record.timelines {
        store.add_timeline(id, timeline).unwrap();
    }
    assert_eq!(store.load(id).unwrap().state, State::Running, "by this process");
    // Another process reads meanwhile.
    let other = Store::open(&path).unwrap();
    store.end(id, None).unwrap();
    let back = other.load(id).unwrap();
    assert_eq!(back.state, State::Complete);
    assert_eq!(as_json(&back), as_json(&record), "to the last digit");
    assert_eq!(back.timelines, record.timelines);
    assert!(!back.timelines.is_empty());

    let listed = other.list().unwrap();
    assert_eq!(
        (
            listed[0].id,
            listed[0].experiment.as_str(),
            listed[0].label.as_str()
        ),
        (id, "phases", "simulated")
    );
    assert_eq!(listed[0].nr_samples as usize, record.measurement.samples.len());
    assert_eq!((other.find("last").unwrap(), other.find("1").unwrap()), (id, id));
    other.delete(id).unwrap();
    assert!(matches!(store.load(id), Err(Error::Unknown { .. })));
    assert!(store.list().unwrap().is_empty());
    assert_ne!(begin(&store, &record), id, "a number is given once");
}

#[test]
fn what_was_interrupted_is_gone_on_with_by_the_same_code_only() {
    let (_folder, path) = place();
    let store = Store::open_or_create(&path).unwrap();
    let mut record = kept();
    record.measurement.samples.truncate(5);
    record.manifest.machine = machine_now("smp-8");
    record.measurement.label = Label::Lab;
    record.measurement.kernel = String::from("7.2");
    record.measurement.qemu = String::from("QEMU 10.0");
    record.measurement.scheduler_versions = vec![String::new(), String::from("scx_lavd 1.1")];
    let id = begin(&store, &record);
    let why = |version: &str, kernel: &str| store.resume(id, version, kernel).unwrap_err().to_string();
    let version = record.measurement.version.clone();
    assert!(why(&version, "7.2").contains("measures it now"));
    store.end(id, Some("interrupted")).unwrap();
    assert_eq!(store.load(id).unwrap().failure.as_deref(), Some("interrupted"));
    assert!(why("other", "7.2").contains("threadwise is other now"));
    assert!(why(&version, "7.9").contains("the kernel is 7.9 now"));
    assert_eq!(
        why(&version, ""),
        format!("run {id} was measured in the lab: go on with threadwise lab run --resume {id}")
    );
    let resumed = store.resume(id, &version, "7.2").unwrap();
    assert_eq!(resumed.measurement.samples.len(), 5);
    store.go_on(id, &record.measurement).unwrap();
    let go_on = |qemu: &str, scheduler: &str| {
        let mut now = record.measurement.clone();
        now.qemu = qemu.into();
        now.scheduler_versions[1] = scheduler.into();
        store.go_on(id, &now).unwrap_err().to_string()
    };
    let other = go_on("QEMU 10.1", "scx_lavd 1.1");
    assert!(
        other.contains("the emulator is \"QEMU 10.1\" now and was \"QEMU 10.0\""),
        "{other}"
    );
    let other = go_on("QEMU 10.0", "scx_lavd 1.2");
    assert!(
        other.contains("\"scx_lavd 1.2\" now and was \"scx_lavd 1.1\""),
        "{other}"
    );
    let failure = store.load(id).unwrap().failure;
    assert!(failure.is_some_and(|why| why.contains("scx_lavd 1.2")));
    store.end(id, None).unwrap();
    assert!(why(&version, "7.2").contains("complete"));
    let simulated = begin(&store, &kept());
    store.end(simulated, Some("interrupted")).unwrap();
    let why = store.resume(simulated, &version, "7.2").unwrap_err().to_string();
    assert_eq!(
        why,
        format!("run {simulated} was simulated: go on with threadwise sim run --resume {simulated}")
    );
}

#[test]
fn what_was_interrupted_is_not_gone_on_with_on_a_machine_that_changed() {
    let (folder, path) = place();
    let file = folder.path().join("box.toml");
    let machine = |mips: u32, cores: u32| {
        let text = format!(
            "name = \"box\"\ndescription = \"a box\"\ntopology = \"core:{cores} pu:1\"\n[lab]\nmips = {mips}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    machine(60, 4);
    let store = Store::open_or_create(&path).unwrap();
    let mut record = kept();
    record.measurement.samples.truncate(5);
    record.timelines.clear();
    record.measurement.experiment.machine = file.display().to_string();
    record.manifest.machine = machine_now(&record.measurement.experiment.machine);
    let id = begin(&store, &record);
    store.end(id, Some("interrupted")).unwrap();
    let version = &record.measurement.version;
    for (mips, cores, said) in [
        (90, 4, "box.toml is another by now: lab.mips is 90 now and was 60"),
        (60, 8, "entries now and had"),
    ] {
        machine(mips, cores);
        let why = store.resume(id, version, "").unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
        assert_eq!(store.load(id).unwrap().state, State::Interrupted, "nobody has it");
    }
    machine(60, 4);
    store.resume(id, version, "").unwrap();
}

#[test]
fn of_several_that_want_to_go_on_with_a_run_one_does() {
    let (_folder, path) = place();
    let store = Store::open_or_create(&path).unwrap();
    let mut record = kept();
    record.manifest.machine = machine_now("smp-8");
    let id = begin(&store, &record);
    let version = record.measurement.version.as_str();
    for _ in 0..10 {
        store.end(id, Some("interrupted")).unwrap();
        let (path, together) = (&path, &Barrier::new(4));
        let take_over = move || {
            let store = Store::open(path).unwrap();
            together.wait();
            store.resume(id, version, "").map(drop)
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(take_over)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let (taken, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(taken.len(), 1);
        for error in refused.into_iter().filter_map(Result::err) {
            assert!(error.to_string().contains("measures it now"), "{error}");
        }
    }
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("text"),
        "no database, but long enough to be looked at. ".repeat(100),
    )
    .unwrap();
    std::fs::write(path("tiny"), "{}").unwrap();
    let foreign = rusqlite::Connection::open(path("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE t (x)").unwrap();
    let later = rusqlite::Connection::open(path("later")).unwrap();
    let sql = format!(
        "CREATE TABLE t (x); PRAGMA application_id = {}; PRAGMA user_version = 9",
        0x7477_726e
    );
    later.execute_batch(&sql).unwrap();
    for (name, said) in [
        ("text", "no SQLite file"),
        ("tiny", "no SQLite file"),
        ("foreign", "another program's"),
        ("later", "later version"),
    ] {
        let before = std::fs::read(path(name)).unwrap();
        for result in [Store::open(&path(name)), Store::open_or_create(&path(name))] {
            let error = result.err().unwrap().to_string();
            assert!(error.contains(said) && error.contains(name), "{error}");
        }
        assert_eq!(std::fs::read(path(name)).unwrap(), before, "{name}");
    }
    let missing = Store::open(&path("missing")).err().unwrap().to_string();
    assert!(
        missing.contains("no such file") && !path("missing").exists(),
        "{missing}"
    );
    assert!(Store::open_or_create(folder.path()).is_err(), "a folder");
}

#[test]
fn a_damaged_run_says_so_and_can_be_deleted() {
    let (_folder, path) = place();
    let store = Store::open_or_create(&path).unwrap();
    let id = begin(&store, &kept());
    let raw = rusqlite::Connection::open(&path).unwrap();
    for (damage, said) in [
        ("UPDATE sample SET sample = '{}' WHERE rowid = 1", "missing field"),
        (
            "UPDATE sample SET sample = replace((SELECT sample FROM sample WHERE rowid = 3), '\"kernel\"', '\"nobody\"') WHERE rowid = 1",
            "none of its experiment's",
        ),
        ("UPDATE run SET measurement = 'x'", "expected value"),
    ] {
        raw.execute_batch(damage).unwrap();
        let error = store.load(id).unwrap_err().to_string();
        assert!(
            error.contains(said) && error.contains(&format!("runs delete {id}")),
            "{error}"
        );
    }
    assert_eq!(store.list().unwrap()[0].experiment, "damaged");
    store.delete(id).unwrap();
}

#[test]
fn a_store_in_memory_is_one() {
    let store = Store::in_memory().unwrap();
    let record = kept();
    let id = begin(&store, &record);
    assert_eq!(as_json(&store.load(id).unwrap()), as_json(&record));
}

#[test]
fn of_one_round_nothing_can_be_said_but_how_to_come_by_more() {
    let mut record = kept();
    record.state = State::Interrupted;
    record.measurement.samples.retain(|sample| sample.round == 0);
    let of_file = record.evaluate().unwrap_err().to_string();
    assert!(
        of_file.ends_with(
            "phases.json was interrupted after 1 of 3 rounds, and two are needed: go on with threadwise sim run --resume \
             where it is kept, and export it anew"
        ),
        "{of_file}"
    );
    record.file = None;
    record.id = 37;
    record.measurement.label = Label::Lab;
    record.measurement.samples.clear();
    let said = "run 37 was interrupted after 0 of 3 rounds, and two are needed: go on with threadwise lab run --resume 37";
    assert_eq!(record.evaluate().unwrap_err().to_string(), said);
    for (before, after) in [(&record, &kept()), (&kept(), &record)] {
        assert_eq!(compare(before, after, None).unwrap_err().to_string(), said);
    }
    record.state = State::Running;
    let said = record.evaluate().unwrap_err().to_string();
    assert!(
        said.ends_with("is measured now and has 0 of 3 rounds, and two are needed: wait for them"),
        "{said}"
    );
}

#[test]
fn a_store_in_no_folder_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let path = folder.path().join("file/runs.db");
    let error = Store::open_or_create(&path).err().unwrap().to_string();
    assert!(
        error.contains("cannot open store") && error.contains("--no-store") && !error.contains("delete"),
        "{error}"
    );
}

#[test]
fn a_broken_file_is_an_error() {
    let (_folder, path) = place();
    let store = Store::open_or_create(&path).unwrap();
    begin(&store, &kept());
    drop(store);
    // The header stays, pages are gone.
    let mut bytes = std::fs::read(&path).unwrap();
    assert!(
        bytes.len() > 8192,
        "the log is written back when the last one closes"
    );
    bytes[4096..].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let read = Store::open(&path).and_then(|store| store.list());
    let error = read.unwrap_err().to_string();
    assert!(
        error.contains("malformed") && error.contains("Mend or delete the file, or give another --store"),
        "{error}"
    );
}

#[test]
fn files_that_hold_no_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let good = serde_json::to_string(&kept()).unwrap();
    let sample = |change: &dyn Fn(&mut Sample)| {
        let mut record = kept();
        change(&mut record.measurement.samples[1]);
        serde_json::to_string(&record).unwrap()
    };
    let twice = {
        let mut record = kept();
        let samples = &mut record.measurement.samples;
        samples[1] = samples[0].clone();
        serde_json::to_string(&record).unwrap()
    };
    for (text, said) in [
        (
            &*sample(&|sample| sample.round = 3),
            "in round 3 is none of its experiment's",
        ),
        (
            &sample(&|sample| sample.performance[0] = 0.0),
            "a performance that is not above zero",
        ),
        (
            &sample(&|sample| sample.performance[0] = -1.0),
            "a performance that is not above zero",
        ),
        (&sample(&|sample| sample.idle = 1.5), "not between 0 and 1"),
        (&sample(&|sample| sample.lost = -0.1), "not between 0 and 1"),
        (&twice, "in round 0 is there twice"),
        ("{", "EOF"),
        ("{}", "names no schema"),
        ("{\"schema\": \"threadwise.lab/1\"}", "threadwise.lab/1"),
        ("{\"schema\": \"threadwise.run/1\"}", "missing field"),
        (&good.replace("\"runs\":[[", "\"runs\":[[\"x\"],["), "\"x\""),
        (&good.replace("\"rounds\":3", "\"rounds\":0"), "rounds = 0"),
        (&good.replace("\"capacity\":1024", "\"capacity\":0"), "capacity"),
        (
            &good.replace("\"from_ns\":1000000000", "\"from_ns\":9000000000"),
            "timeline",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Record::from_file(&path).unwrap_err().to_string();
        assert!(
            error.contains(said) && error.contains("run.json"),
            "{said}: {error}"
        );
    }
}
