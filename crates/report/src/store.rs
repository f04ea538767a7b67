// SPDX-License-Identifier: GPL-2.0-only
//! Where runs are kept: an SQLite file. Each sample is in it before the next is taken.
//!
//! Several processes may use it at a time. A run belongs to the process that measures it; when that is gone without having
//! ended it, the run was interrupted.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use threadwise_lab::run::{Label, Measurement, Sample};
use threadwise_machine::Machine;
use threadwise_workload::stat_fields;

use crate::error::Error;
use crate::record::{Manifest, Record, SCHEMA, State};
use crate::timeline::Timeline;

/// Whose file it is; in its `application_id`: "twrn".
const APPLICATION: i64 = 0x7477_726e;

/// The layout of the file; in its `user_version`.
const VERSION: i64 = 1;

/// Another process writes for milliseconds only.
const PATIENCE: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        began TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
        writer TEXT,
        complete INTEGER NOT NULL DEFAULT 0,
        failure TEXT,
        manifest TEXT NOT NULL,
        measurement TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS sample (
        run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
        taken TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
        sample TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS sample_of_run ON sample (run);
    CREATE TABLE IF NOT EXISTS timeline (
        run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
        timeline TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS timeline_of_run ON timeline (run);
    CREATE TABLE IF NOT EXISTS output (
        version TEXT NOT NULL,
        command TEXT NOT NULL,
        made TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
        seconds REAL NOT NULL,
        output TEXT NOT NULL,
        PRIMARY KEY (version, command)
    );";

/// A run in a list.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Its number.
    pub id: i64,
    /// When it began: UTC, ISO 8601.
    pub began: String,
    /// How far it has come.
    pub state: State,
    /// How its numbers came about.
    pub label: String,
    /// Its experiment.
    pub experiment: String,
    /// Its machine.
    pub machine: String,
    /// The version of threadwise that measured.
    pub version: String,
    /// How many samples it has.
    pub nr_samples: u64,
}

/// What a command printed that is no run, such as a table of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The JSON that it printed.
    pub output: Value,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// The runs of a file.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// The file that is used if none is named: `threadwise/runs.db` in the user's folder for data, by the XDG Base
    /// Directory Specification; none if the environment names neither that nor a home.
    pub fn default_path() -> Option<PathBuf> {
        let folder = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
        Some(data?.join("threadwise/runs.db"))
    }

    /// Opens a file, or creates it and its folder.
    ///
    /// # Errors
    /// [`Error::Foreign`] if it holds something else, [`Error::Sqlite`] if it cannot be used.
    pub fn open_or_create(path: &Path) -> Result<Self, Error> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| Error::Unopened {
                path: path.into(),
                why: format!("cannot create {}: {source}", folder.display()),
            })?;
        }
        refuse_foreign(path)?;
        patiently(|| Self::prepare(path))
    }

    fn prepare(path: &Path) -> Result<Self, Error> {
        let store = Self::connect(path, OpenFlags::default())?;
        if store.number("SELECT count(*) FROM sqlite_master")? > 0 {
            store.check_owner()?;
        }
        // A sample that was recorded survives the process at once, and a power failure a moment later.
        for (pragma, value) in [("journal_mode", "WAL"), ("synchronous", "NORMAL")] {
            store
                .connection
                .pragma_update(None, pragma, value)
                .map_err(store.fail())?;
        }
        let create = format!(
            "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
        );
        store.connection.execute_batch(&create).map_err(store.fail())?;
        Ok(store)
    }

    /// A store in memory, which goes with the process.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn in_memory() -> Result<Self, Error> {
        Self::prepare(Path::new(":memory:"))
    }

    /// Opens a file that is there. One that may only be read can be: writing to it is what fails then.
    ///
    /// # Errors
    /// As [`Store::open_or_create`], or if it is not there.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_file() {
            return Err(Error::Foreign {
                path: path.into(),
                problem: String::from("there is no such file; lab run and sim run create it"),
            });
        }
        refuse_foreign(path)?;
        let open = |path: &Path, flags| {
            patiently(|| {
                let store = Self::connect(path, flags)?;
                store.check_owner()?;
                Ok(store)
            })
        };
        match open(path, OpenFlags::default() & !OpenFlags::SQLITE_OPEN_CREATE) {
            Err(Error::Unopened { .. } | Error::ReadOnly { .. }) if !has_log(path) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                let store = open(&unchanging(path), flags);
                store.map(|store| Self {
                    path: path.into(),
                    ..store
                })
            }
            opened => opened,
        }
    }

    fn connect(path: &Path, flags: OpenFlags) -> Result<Self, Error> {
        let fail = |source| Error::of_store(path, source);
        let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(PATIENCE).map_err(fail)?;
        connection
            .pragma_update(None, "foreign_keys", true)
            .map_err(fail)?;
        Ok(Self {
            connection,
            path: path.into(),
        })
    }

    /// Another program's file is never written to.
    fn check_owner(&self) -> Result<(), Error> {
        let problem = match (
            self.number("PRAGMA application_id")?,
            self.number("PRAGMA user_version")?,
        ) {
            (APPLICATION, VERSION) => return Ok(()),
            (APPLICATION, later) => format!("its layout is {later}, of a later version of threadwise"),
            _ => String::from("another program's"),
        };
        Err(Error::Foreign {
            path: self.path.clone(),
            problem,
        })
    }

    fn number(&self, query: &str) -> Result<i64, Error> {
        let row = self.connection.query_row(query, [], |row| row.get(0));
        row.map_err(self.fail())
    }

    fn fail(&self) -> impl Fn(rusqlite::Error) -> Error {
        |source| Error::of_store(&self.path, source)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a run, which this process measures; `measurement` has no samples yet. Returns its number.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn begin(&self, manifest: &Manifest, measurement: &Measurement) -> Result<i64, Error> {
        self.connection
            .execute(
                "INSERT INTO run (writer, manifest, measurement) VALUES (?1, ?2, ?3)",
                params![writer(), json(manifest), json(measurement)],
            )
            .map_err(self.fail())?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Takes over an interrupted run, to go on with it; `version`, where one is booted `kernel` (empty where none is), and the
    /// machine that its experiment names must be what it was begun with, or its rounds would not compare.
    ///
    /// Of several processes that want it at a time one gets it.
    ///
    /// # Errors
    /// [`Error::NotResumable`] says why not, [`Error::OtherKind`] by which command.
    pub fn resume(&self, id: i64, version: &str, kernel: &str) -> Result<Record, Error> {
        let owner = self.writer_of(id)?;
        let record = self.load(id)?;
        check_resumable(&record, version, kernel)?;
        // Only if it is still whose it was.
        let update =
            "UPDATE run SET writer = ?2, failure = NULL WHERE id = ?1 AND complete = 0 AND writer IS ?3";
        let changed = self
            .connection
            .execute(update, params![id, writer(), owner])
            .map_err(self.fail())?;
        if changed != 1 {
            let why = String::from("another process measures it now, which took it over meanwhile");
            return Err(Error::NotResumable { id, why });
        }
        Ok(record)
    }

    /// Who measures it, or did last.
    fn writer_of(&self, id: i64) -> Result<Option<String>, Error> {
        let query = "SELECT writer FROM run WHERE id = ?1";
        let row = self.connection.query_row(query, [id], |row| row.get(0));
        row.optional().map(Option::flatten).map_err(self.fail())
    }

    /// A guest was booted to go on with a run: what emulates it and its schedulers, as `now` has them, are of the versions
    /// that the run was begun with. Runs of before these were kept go on with any.
    ///
    /// # Errors
    /// [`Error::NotResumable`] says which is not.
    pub fn go_on(&self, id: i64, now: &Measurement) -> Result<(), Error> {
        let begun = self.load(id)?.measurement;
        let emulator = (!begun.qemu.is_empty()).then_some(("the emulator", &begun.qemu, &now.qemu));
        let schedulers = begun.scheduler_versions.iter().zip(&now.scheduler_versions);
        let schedulers = schedulers.map(|(then, now)| ("a scheduler", then, now));
        let mut versions = emulator.into_iter().chain(schedulers);
        match versions.find(|(_, then, now)| then != now) {
            None => Ok(()),
            Some((what, then, now)) => {
                let why = format!("{what} is {now:?} now and was {then:?}; begin a new run");
                self.end(id, Some(&why))?;
                Err(Error::NotResumable { id, why })
            }
        }
    }

    /// Records a sample.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; then it is not recorded.
    pub fn add_sample(&self, id: i64, sample: &Sample) -> Result<(), Error> {
        let insert = "INSERT INTO sample (run, sample) VALUES (?1, ?2)";
        let done = self.connection.execute(insert, params![id, json(sample)]);
        done.map(drop).map_err(self.fail())
    }

    /// Records a timeline.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; then it is not recorded.
    pub fn add_timeline(&self, id: i64, timeline: &Timeline) -> Result<(), Error> {
        let insert = "INSERT INTO timeline (run, timeline) VALUES (?1, ?2)";
        let done = self.connection.execute(insert, params![id, json(timeline)]);
        done.map(drop).map_err(self.fail())
    }

    /// Several writes as one: all of them happen or none, and the disk is waited for once.
    ///
    /// # Errors
    /// What `write` returns, or [`Error::Sqlite`].
    pub fn at_once(&self, write: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let transaction = self.connection.unchecked_transaction().map_err(self.fail())?;
        write()?;
        transaction.commit().map_err(self.fail())
    }

    /// Ends a run: it is complete, or it failed and can be resumed.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn end(&self, id: i64, failure: Option<&str>) -> Result<(), Error> {
        let update = "UPDATE run SET writer = NULL, complete = ?2, failure = ?3 WHERE id = ?1";
        let done = self
            .connection
            .execute(update, params![id, failure.is_none(), failure]);
        done.map(drop).map_err(self.fail())
    }

    /// All runs, the oldest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn list(&self) -> Result<Vec<Entry>, Error> {
        // A damaged one is listed too, so that it can be deleted.
        let query = "SELECT id, began, complete, writer,
                    CASE WHEN json_valid(measurement) THEN measurement ELSE '{}' END,
                    (SELECT count(*) FROM sample WHERE run = run.id) FROM run ORDER BY id";
        let mut statement = self.connection.prepare(query).map_err(self.fail())?;
        let entry = |row: &Row| {
            let measurement: String = row.get(4)?;
            let measurement: Value = serde_json::from_str(&measurement).unwrap_or_default();
            let field = |value: &Value| value.as_str().unwrap_or("damaged").to_string();
            Ok(Entry {
                id: row.get(0)?,
                began: row.get(1)?,
                state: state(row.get(2)?, row.get(3)?),
                label: field(&measurement["label"]),
                experiment: field(&measurement["experiment"]["name"]),
                machine: field(&measurement["machine"]),
                version: field(&measurement["version"]),
                nr_samples: row.get(5)?,
            })
        };
        let rows = statement.query_map([], entry).map_err(self.fail())?;
        rows.collect::<Result<_, _>>().map_err(self.fail())
    }

    /// A run by its number, `last` for the latest one.
    ///
    /// # Errors
    /// [`Error::Unknown`].
    pub fn find(&self, wanted: &str) -> Result<i64, Error> {
        let found = match (wanted, wanted.parse::<i64>()) {
            ("last", _) => self.one("SELECT max(id) FROM run WHERE ?1 = ?1", 0)?,
            (_, Ok(id)) => self.one("SELECT id FROM run WHERE id = ?1", id)?,
            (_, Err(_)) => None,
        };
        found.ok_or_else(|| Error::Unknown {
            path: self.path.clone(),
            wanted: wanted.to_string(),
        })
    }

    fn one(&self, query: &str, parameter: i64) -> Result<Option<i64>, Error> {
        let row = self.connection.query_row(query, [parameter], |row| row.get(0));
        row.optional().map(Option::flatten).map_err(self.fail())
    }

    /// A run with everything that was measured in it.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Damaged`].
    pub fn load(&self, id: i64) -> Result<Record, Error> {
        let query = "SELECT began, complete, writer, failure, manifest, measurement FROM run WHERE id = ?1";
        let fields = |row: &Row| -> rusqlite::Result<(String, State, Option<String>, String, String)> {
            let state = state(row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, state, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        let row = self.connection.query_row(query, [id], fields).optional();
        let (began, state, failure, manifest, measurement) =
            row.map_err(self.fail())?.ok_or_else(|| Error::Unknown {
                path: self.path.clone(),
                wanted: id.to_string(),
            })?;
        let mut measurement: Measurement = self.parse(id, &measurement)?;
        measurement.samples = self.all_of(id, "SELECT sample FROM sample WHERE run = ?1 ORDER BY rowid")?;
        let record = Record {
            schema: SCHEMA.to_string(),
            id,
            file: None,
            began,
            state,
            failure,
            manifest: self.parse(id, &manifest)?,
            measurement,
            timelines: self.all_of(id, "SELECT timeline FROM timeline WHERE run = ?1 ORDER BY rowid")?,
        };
        record.check().map_err(|problem| self.damaged(id, problem))?;
        Ok(record)
    }

    /// Keeps what a command of threadwise printed, in place of what the same version printed for the same arguments before.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; then it is not kept.
    pub fn keep_output(&self, version: &str, arguments: &[String], printed: &Printed) -> Result<(), Error> {
        let insert =
            "INSERT OR REPLACE INTO output (version, command, seconds, output) VALUES (?1, ?2, ?3, ?4)";
        let values = params![version, json(&arguments), printed.seconds, json(&printed.output)];
        let done = self.connection.execute(insert, values);
        done.map(drop).map_err(self.fail())
    }

    /// What this version printed for these arguments, if that was kept and can be read.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn output(&self, version: &str, arguments: &[String]) -> Result<Option<Printed>, Error> {
        let query = "SELECT seconds, output FROM output WHERE version = ?1 AND command = ?2";
        let fields = |row: &Row| -> rusqlite::Result<(f64, String)> { Ok((row.get(0)?, row.get(1)?)) };
        let found = self
            .connection
            .query_row(query, params![version, json(&arguments)], fields);
        let found = found.optional().map_err(self.fail())?;
        // One that is damaged is printed anew.
        Ok(found.and_then(|(seconds, output)| {
            let output = serde_json::from_str(&output).ok()?;
            Some(Printed { output, seconds })
        }))
    }

    fn all_of<T: DeserializeOwned>(&self, id: i64, query: &str) -> Result<Vec<T>, Error> {
        let mut statement = self.connection.prepare(query).map_err(self.fail())?;
        let rows = statement
            .query_map([id], |row| row.get::<_, String>(0))
            .map_err(self.fail())?;
        rows.map(|row| self.parse(id, &row.map_err(self.fail())?))
            .collect()
    }

    fn parse<T: DeserializeOwned>(&self, id: i64, text: &str) -> Result<T, Error> {
        serde_json::from_str(text).map_err(|error| self.damaged(id, error.to_string()))
    }

    fn damaged(&self, id: i64, problem: String) -> Error {
        Error::Damaged {
            path: self.path.clone(),
            id,
            problem,
        }
    }

    /// Deletes a run with all that belongs to it.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn delete(&self, id: i64) -> Result<(), Error> {
        let done = self.connection.execute("DELETE FROM run WHERE id = ?1", [id]);
        done.map(drop).map_err(self.fail())
    }
}

/// Whether a run can be gone on with: nobody measures it, and `version`, `kernel` and its machine are what they were.
fn check_resumable(record: &Record, version: &str, kernel: &str) -> Result<(), Error> {
    let id = record.id;
    let label = record.measurement.label;
    if kernel.is_empty() != (label == Label::Simulated) {
        return Err(Error::OtherKind { id, label });
    }
    let fail = |why: String| Err(Error::NotResumable { id, why });
    match record.state {
        State::Complete => return fail(String::from("it is complete")),
        State::Running => return fail(String::from("a process measures it now; wait for it to end")),
        State::Interrupted => {}
    }
    let measured = &record.measurement;
    for (what, then, now) in [
        ("threadwise", measured.version.as_str(), version),
        ("the kernel", measured.kernel.as_str(), kernel),
    ] {
        if then != now {
            return fail(format!(
                "{what} is {now} now and was {then}; results of the two do not belong into one run. Begin a new one"
            ));
        }
    }
    let name = &measured.experiment.machine;
    let machine = Machine::load(name)?;
    if let Some(difference) = difference("", &record.manifest.machine, &json_value(&machine)) {
        return fail(format!(
            "machine {name} is another by now: {difference}. Give it back what it had, or begin a new run"
        ));
    }
    Ok(())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is stored has string keys only")
}

fn json_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("what is stored has string keys only")
}

/// The first place at which two values differ, and how; `at` is where they are themselves, from the outermost one.
fn difference(at: &str, then: &Value, now: &Value) -> Option<String> {
    match (then, now) {
        _ if then == now => None,
        (Value::Object(fields), Value::Object(others)) => {
            let keys = fields.keys().chain(others.keys());
            keys.map(|key| (format!("{at}{}{key}", if at.is_empty() { "" } else { "." }), key))
                .find_map(|(at, key)| difference(&at, &then[key], &now[key]))
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let mut pairs = items.iter().zip(others).enumerate();
            pairs.find_map(|(nth, (then, now))| difference(&format!("{at}[{nth}]"), then, now))
        }
        (Value::Array(items), Value::Array(others)) => Some(format!(
            "{at} has {} entries now and had {}",
            others.len(),
            items.len()
        )),
        _ => Some(format!("{at} is {now} now and was {then}")),
    }
}

fn state(complete: bool, writer: Option<String>) -> State {
    match (complete, writer) {
        (true, _) => State::Complete,
        (false, Some(writer)) if is_alive(&writer) => State::Running,
        (false, _) => State::Interrupted,
    }
}

/// This process, so that it can be told from a later one with the same number, on this or another boot.
fn writer() -> String {
    identity(std::process::id()).unwrap_or_default()
}

fn is_alive(writer: &str) -> bool {
    let pid = writer.split(' ').next().and_then(|pid| pid.parse().ok());
    pid.and_then(identity).is_some_and(|now| now == writer)
}

/// The process's number, when it started, and the boot.
fn identity(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // `starttime` is field 22 of proc_pid_stat(5).
    let started = stat_fields(&stat).nth(19)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{pid} {started} {}", boot.trim()))
}

/// Opens, again and again while another process that opens or closes the file is in the way. SQLite does not wait for its
/// `busy_timeout` there: who has read and goes on to write, as who sets the journal mode does, is told at once
/// (<https://www.sqlite.org/c3ref/busy_handler.html>).
fn patiently(open: impl Fn() -> Result<Store, Error>) -> Result<Store, Error> {
    let began = Instant::now();
    loop {
        match open() {
            Err(Error::Sqlite { source, .. })
                if source.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && began.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened,
        }
    }
}

/// Whether another process writes, or was ended while it wrote: then there is more than the file has.
fn has_log(path: &Path) -> bool {
    // It is beside the file itself, not beside a link to that.
    let file = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut log = file.into_os_string();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// The file for who may neither write to it nor make others beside it, which reading in WAL mode takes otherwise
/// (<https://www.sqlite.org/wal.html#read_only_databases>).
fn unchanging(path: &Path) -> PathBuf {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        match byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            true => uri.push(char::from(byte)),
            false => uri += &format!("%{byte:02x}"),
        }
    }
    PathBuf::from(uri + "?immutable=1")
}

/// SQLite takes a file of a few bytes for an empty database and would write over it.
fn refuse_foreign(path: &Path) -> Result<(), Error> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| Error::Unopened {
            path: path.into(),
            why: error.to_string(),
        })?,
    };
    let mut beginning = Vec::new();
    let read = file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut beginning);
    match read {
        Ok(0) => Ok(()),
        Ok(_) if beginning == MAGIC => Ok(()),
        Ok(_) => Err(Error::Foreign {
            path: path.into(),
            problem: String::from("no SQLite file"),
        }),
        Err(source) => Err(Error::Io {
            what: "read",
            path: path.into(),
            source,
        }),
    }
}
