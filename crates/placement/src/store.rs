// SPDX-License-Identifier: GPL-2.0-only
//! Where results are kept: an SQLite file, one row for each run, written before the next begins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use crate::Experiment;

/// Whose file it is; in its `application_id`: "twpl".
const APPLICATION: i64 = 0x7477_706c;

/// The layout of the file; in its `user_version`. 2 knows which file a run was recorded in first, and the program.
const VERSION: i64 = 2;

/// From version 1 to 2. A run that was recorded in this very file has no origin.
const FROM_1_TO_2: &str = "ALTER TABLE campaign ADD COLUMN program TEXT;
     ALTER TABLE campaign ADD COLUMN key TEXT;
     ALTER TABLE run ADD COLUMN origin TEXT;
     ALTER TABLE run ADD COLUMN origin_id INTEGER;";

/// Results of one workload on one machine. Nobody else can open the file meanwhile.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// What to do about a program that is not the one that was measured before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its results are not mixed with what is there.
    Refused,
    /// It is taken to perform as the other did.
    Accepted,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another campaign has it open.
    #[error("{path} is in use by another campaign: wait for it to end, or give another --store")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{path} holds results of {found}, not of {wanted}: give another --store")]
    Other {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// It holds results of the same, where something of it was another.
    #[error(
        "{path} holds results of {name} as it was before its file or machine changed, or threadwise if that computes it: \
         give another --store"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What it holds.
        name: String,
        /// What it is known by there.
        known: String,
    },
    /// The program is not the one that was measured.
    #[error(
        "{path} holds results of the program as it was before it changed: give another --store, or go on with \
         --changed-program if the change cannot matter to its performance"
    )]
    Program {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to merge.
    #[error("there is no {path} to merge: name stores that `threadwise place profile` has filled")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("{path}: the disk is full; nothing that was recorded is lost, free some space and start again")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// It is no store.
    #[error("{path} is no SQLite file: give another --store")]
    NoDatabase {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be opened or made.
    #[error(
        "cannot open {path}: {source}. See that its folder is there and that you may write to both, or give another --store"
    )]
    Unopened {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// It may only be read, and each run is written to it.
    #[error(
        "{path} may not be written to: give yourself write access to it and its folder, or give another --store"
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// It is damaged.
    #[error("{path}: {source}. Mend or delete the file, or give another --store")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// Anything else.
    #[error("{path}: {source}")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
}

/// One run that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What was run.
    pub experiment: Experiment,
    /// The sum of the performance of its observed instances.
    pub performance: f64,
    /// Whether it was recorded in this file, not merged into it.
    pub is_own: bool,
}

/// How a store is merged.
#[derive(Clone, Copy, Debug)]
pub struct Merging<'a> {
    /// As in [`Store::open`].
    pub identity: (&'a str, &'a str),
    /// Where the other store has results of another program.
    pub change: Change,
}

/// What merging a store has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Runs that were not there.
    pub new: usize,
    /// Runs that were.
    pub known: usize,
    /// Of those, void now because they are in the store that was merged.
    pub voided: usize,
}

/// A run as one file hands it to another, by the file that it was recorded in first and its number there.
struct Row {
    origin: (String, i64),
    experiment: String,
    performance: f64,
    instances: String,
    unix_seconds: i64,
    is_void: bool,
}

impl Row {
    /// What no other run has. A file that was copied has the same key as its copy, and both go on with the same number.
    fn identity(&self) -> (String, i64, String, i64) {
        let (origin, id) = &self.origin;
        (origin.clone(), *id, self.experiment.clone(), self.unix_seconds)
    }
}

impl Store {
    /// Opens a file or creates it. `identity` says what is measured on what: a name for people, and all that must be the
    /// same for results to be comparable. A file without runs takes a new one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(path: &Path, identity: (&str, &str)) -> Result<Store, StoreError> {
        let fail = |source| explain(path, source);
        let connection = Connection::open(path).map_err(fail)?;
        // Whoever has it open keeps it for hours.
        connection.busy_timeout(Duration::ZERO).map_err(fail)?;
        // Taken with the first write and kept until the end of the process, however that comes.
        connection
            .pragma_update(None, "locking_mode", "EXCLUSIVE")
            .map_err(fail)?;
        let store = Store {
            connection,
            path: path.into(),
        };
        store.check_owner(identity.0)?;
        // A run that was recorded survives the process at once, and a power failure a moment later.
        for (pragma, value) in [("journal_mode", "WAL"), ("synchronous", "NORMAL")] {
            store
                .connection
                .pragma_update(None, pragma, value)
                .map_err(fail)?;
        }
        store.prepare(identity)?;
        Ok(store)
    }

    /// Opens a file of which only the runs are wanted: it stays as it is, and so does its folder, unless a log is there.
    fn open_to_read(path: &Path, identity: (&str, &str)) -> Result<Store, StoreError> {
        let fail = |source| explain(path, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(read_only(path), flags).map_err(fail)?;
        connection.busy_timeout(Duration::ZERO).map_err(fail)?;
        let store = Store {
            connection,
            path: path.into(),
        };
        store.check_owner(identity.0)?;
        let version = store.version(identity.0)?;
        if version < VERSION {
            let found = format!(
                "an earlier version of threadwise ({version}), which `place profile` brings up to date"
            );
            return Err(store.other(found, identity.0));
        }
        match store.campaign()? {
            Some(found) if found.1 != identity.1 => Err(store.refuse(found, identity)),
            _ => Ok(store),
        }
    }

    /// Another program's file is not even opened for writing.
    fn check_owner(&self, name: &str) -> Result<(), StoreError> {
        let number = |query: &str| -> Result<i64, StoreError> {
            let row = self.connection.query_row(query, [], |row| row.get(0));
            row.map_err(|source| explain(&self.path, source))
        };
        if number("PRAGMA application_id")? != APPLICATION
            && number("SELECT count(*) FROM sqlite_master")? > 0
        {
            return Err(self.other("another program".to_string(), name));
        }
        Ok(())
    }

    fn prepare(&self, (name, identity): (&str, &str)) -> Result<(), StoreError> {
        let fail = |source| explain(&self.path, source);
        let version = self.version(name)?;
        self.connection
            .execute_batch(&format!(
                "BEGIN EXCLUSIVE;
                 CREATE TABLE IF NOT EXISTS campaign (name TEXT NOT NULL, identity TEXT NOT NULL);
                 CREATE TABLE IF NOT EXISTS run (
                     id INTEGER PRIMARY KEY,
                     experiment TEXT NOT NULL,
                     performance REAL NOT NULL,
                     instances TEXT NOT NULL,
                     unix_seconds INTEGER NOT NULL,
                     void INTEGER NOT NULL DEFAULT 0
                 );
                 {}
                 PRAGMA application_id = {APPLICATION};
                 PRAGMA user_version = {VERSION};
                 COMMIT;",
                if version < 2 { FROM_1_TO_2 } else { "" }
            ))
            .map_err(fail)?;
        match self.campaign()? {
            None => {
                self.connection
                    .execute(
                        "INSERT INTO campaign (name, identity) VALUES (?1, ?2)",
                        [name, identity],
                    )
                    .map_err(fail)?;
                self.name_file()
            }
            Some((_, known)) if known == identity => self.name_file(),
            // Nothing was measured with it: the workload's file was wrong, and has been mended.
            Some(_) if self.is_empty()? => {
                self.connection
                    .execute(
                        "UPDATE campaign SET name = ?1, identity = ?2, program = NULL",
                        [name, identity],
                    )
                    .map_err(fail)?;
                self.name_file()
            }
            Some(found) => Err(self.refuse(found, (name, identity))),
        }
    }

    /// The layout of the file, which is none that is to come.
    fn version(&self, wanted: &str) -> Result<i64, StoreError> {
        let version = self
            .connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(|source| explain(&self.path, source))?;
        match version {
            0..=VERSION => Ok(version),
            later => Err(self.other(format!("a later version of threadwise ({later})"), wanted)),
        }
    }

    /// What is measured on what, if that is noted already.
    fn campaign(&self) -> Result<Option<(String, String)>, StoreError> {
        self.connection
            .query_row("SELECT name, identity FROM campaign", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(|source| explain(&self.path, source))
    }

    /// Why it is not of this identity.
    fn refuse(&self, (found, known): (String, String), (name, _): (&str, &str)) -> StoreError {
        match found == name {
            true => StoreError::Changed {
                path: self.path.clone(),
                name: found,
                known,
            },
            false => self.other(found, name),
        }
    }

    fn other(&self, found: String, wanted: &str) -> StoreError {
        StoreError::Other {
            path: self.path.clone(),
            found,
            wanted: wanted.to_string(),
        }
    }

    /// Gives the file a key that no other has, if it has none.
    fn name_file(&self) -> Result<(), StoreError> {
        self.connection
            .execute(
                "UPDATE campaign SET key = lower(hex(randomblob(16))) WHERE key IS NULL",
                [],
            )
            .map_err(|source| explain(&self.path, source))?;
        Ok(())
    }

    /// Notes which program is measured, by a `fingerprint` of it, or compares it with the one that was measured before.
    ///
    /// # Errors
    /// [`StoreError::Program`] if it is another one, of which there are runs, and `change` is none that is accepted.
    pub fn check_program(&self, fingerprint: &str, change: Change) -> Result<(), StoreError> {
        let fail = |source| explain(&self.path, source);
        match self.program()? {
            Some(known) if known == fingerprint => return Ok(()),
            Some(_) if change == Change::Refused && !self.is_empty()? => {
                return Err(StoreError::Program {
                    path: self.path.clone(),
                });
            }
            _ => {}
        }
        self.connection
            .execute("UPDATE campaign SET program = ?1", [fingerprint])
            .map_err(fail)?;
        Ok(())
    }

    /// Whether it has no runs, void ones included.
    fn is_empty(&self) -> Result<bool, StoreError> {
        self.connection
            .query_row("SELECT NOT EXISTS (SELECT * FROM run)", [], |row| row.get(0))
            .map_err(|source| explain(&self.path, source))
    }

    fn program(&self) -> Result<Option<String>, StoreError> {
        self.connection
            .query_row("SELECT program FROM campaign", [], |row| row.get(0))
            .map_err(|source| explain(&self.path, source))
    }

    /// Adds the runs of another store of the same identity and program that are not here yet. Where no program is known
    /// here it is that of the other store, which is only read. Merging it again adds nothing; all of it is added or, on an
    /// error, nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn merge(&self, other: &Path, how: Merging) -> Result<Merged, StoreError> {
        if !other.exists() {
            return Err(StoreError::Missing { path: other.into() });
        }
        let other = Store::open_to_read(other, how.identity)?;
        let its_program = other.program()?;
        let differs = (self.program()?.zip(its_program.as_ref())).is_some_and(|(own, its)| own != *its);
        if differs && how.change == Change::Refused {
            return Err(StoreError::Program { path: other.path });
        }
        let fail = |source| explain(&self.path, source);
        let mut known: BTreeMap<_, bool> = self
            .rows()?
            .iter()
            .map(|row| (row.identity(), row.is_void))
            .collect();
        let mut merged = Merged::default();
        let transaction = self.connection.unchecked_transaction().map_err(fail)?;
        transaction
            .execute(
                "UPDATE campaign SET program = ?1 WHERE program IS NULL",
                [its_program],
            )
            .map_err(fail)?;
        for row in other.rows()? {
            let (origin, id) = &row.origin;
            match known.insert(row.identity(), row.is_void) {
                None => {
                    merged.new += 1;
                    transaction.execute(
                        "INSERT INTO run (experiment, performance, instances, unix_seconds, void, origin, origin_id)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                        params![
                            row.experiment,
                            row.performance,
                            row.instances,
                            row.unix_seconds,
                            row.is_void,
                            origin,
                            id
                        ],
                    )
                }
                Some(was_void) => {
                    merged.known += 1;
                    merged.voided += usize::from(row.is_void && !was_void);
                    transaction.execute(
                        "UPDATE run SET void = 1 WHERE ?1 AND coalesce(origin_id, id) = ?3
                         AND coalesce(origin, (SELECT key FROM campaign)) = ?2 AND experiment = ?4 AND unix_seconds = ?5",
                        params![
                            row.is_void && !was_void,
                            origin,
                            id,
                            row.experiment,
                            row.unix_seconds
                        ],
                    )
                }
            }
            .map_err(fail)?;
        }
        transaction.commit().map_err(fail)?;
        Ok(merged)
    }

    /// All runs, void ones too.
    fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let fail = |source| explain(&self.path, source);
        let mut query = self
            .connection
            .prepare(
                "SELECT coalesce(origin, (SELECT key FROM campaign)), coalesce(origin_id, id), experiment, performance,
                        instances, unix_seconds, void FROM run ORDER BY id",
            )
            .map_err(fail)?;
        let rows = query.query_map([], |row| {
            Ok(Row {
                origin: (row.get(0)?, row.get(1)?),
                experiment: row.get(2)?,
                performance: row.get(3)?,
                instances: row.get(4)?,
                unix_seconds: row.get(5)?,
                is_void: row.get(6)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(fail)
    }

    /// Records a run: its instances' performance.
    ///
    /// # Errors
    /// [`StoreError`]; then it is not recorded.
    pub fn record(
        &self,
        experiment: &Experiment,
        performance: f64,
        instances: &[f64],
    ) -> Result<(), StoreError> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seconds = now.map_or(0, |since| since.as_secs());
        let instances = instances.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        self.connection
            .execute(
                "INSERT INTO run (experiment, performance, instances, unix_seconds) VALUES (?1, ?2, ?3, ?4)",
                params![experiment.to_string(), performance, instances, seconds],
            )
            .map_err(|source| explain(&self.path, source))?;
        Ok(())
    }

    /// Marks the last `nr` runs that were recorded here void: they are kept, and never read again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn void_last(&self, nr: usize) -> Result<(), StoreError> {
        self.connection
            .execute(
                "UPDATE run SET void = 1 WHERE id IN (SELECT id FROM run WHERE void = 0 AND origin IS NULL ORDER BY id DESC LIMIT ?1)",
                [nr],
            )
            .map_err(|source| explain(&self.path, source))?;
        Ok(())
    }

    /// All runs that are not void, in the order in which they were made.
    ///
    /// # Errors
    /// [`StoreError`]; a row that names no experiment is one of another version.
    pub fn runs(&self) -> Result<Vec<Recorded>, StoreError> {
        let fail = |source| explain(&self.path, source);
        let mut query = self
            .connection
            .prepare("SELECT experiment, performance, origin IS NULL FROM run WHERE void = 0 ORDER BY id")
            .map_err(fail)?;
        let rows = query
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))
            .map_err(fail)?;
        rows.map(|row| {
            let (experiment, performance, is_own) = row.map_err(fail)?;
            let experiment = experiment
                .parse()
                .map_err(|error: crate::Error| StoreError::Other {
                    path: self.path.clone(),
                    found: error.to_string(),
                    wanted: "experiments".into(),
                })?;
            Ok(Recorded {
                experiment,
                performance,
                is_own,
            })
        })
        .collect()
    }
}

/// A file's name for SQLite (sqlite.org/uri.html). It would write a log beside one that has none, unless told that nobody
/// writes to it: whoever does has made one, and is met as long as it is there.
fn read_only(path: &Path) -> OsString {
    // The log is beside the file, not beside a link to it.
    let path = path.canonicalize().unwrap_or(path.into());
    let mut log = path.as_os_str().to_os_string();
    log.push("-wal");
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02x}").into_bytes()),
            byte => uri.push(byte),
        }
    }
    if !Path::new(&log).exists() {
        uri.extend(b"?immutable=1");
    }
    OsString::from_vec(uri)
}

fn explain(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.into();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::NotADatabase) => StoreError::NoDatabase { path },
        Some(ErrorCode::CannotOpen) => StoreError::Unopened { path, source },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, source },
        _ => StoreError::Sqlite { path, source },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that panics has failed
mod tests {
    use rusqlite::ffi;

    use super::*;

    /// A store of a program, with so many runs.
    fn filled(path: &Path, program: &str, nr_runs: usize) {
        let store = Store::open(path, ("test", "test")).unwrap();
        store.check_program(program, Change::Refused).unwrap();
        for _ in 0..nr_runs {
            store.record(&Experiment::Kernel(1), 1.0, &[1.0]).unwrap();
        }
    }

    #[test]
    fn a_file_without_runs_takes_another_workload_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.place");
        filled(&path, "a", 0);
        filled(&path, "b", 0);
        let mended = Store::open(&path, ("other", "mended")).unwrap();
        mended.check_program("c", Change::Refused).unwrap();
        mended.record(&Experiment::Kernel(1), 1.0, &[1.0]).unwrap();
        mended.void_last(1).unwrap();
        let error = mended.check_program("b", Change::Refused).unwrap_err();
        assert!(matches!(error, StoreError::Program { .. }), "{error}");
        drop(mended);
        let error = Store::open(&path, ("test", "test")).err().unwrap();
        assert!(matches!(error, StoreError::Other { .. }), "{error}");
        Store::open(&path, ("other", "mended")).unwrap();
    }

    #[test]
    fn what_is_merged_is_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("100 %?#");
        filled(&path, "a", 2);
        let before = std::fs::read(&path).unwrap();
        let all = Store::open(Path::new(":memory:"), ("test", "test")).unwrap();
        let how = Merging {
            identity: ("test", "test"),
            change: Change::Refused,
        };
        assert_eq!(all.merge(&path, how).unwrap().new, 2);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        // Whoever is filling it is met, also through a link.
        let store = Store::open(&path, ("test", "test")).unwrap();
        store.record(&Experiment::Kernel(1), 1.0, &[1.0]).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for path in [&path, &link] {
            let error = all.merge(path, how).unwrap_err();
            assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        }
        drop(store);
        assert_eq!(all.merge(&path, how).unwrap().new, 1);
    }

    #[test]
    fn results_of_two_builds_are_not_mixed_where_none_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        filled(&one, "a", 2);
        filled(&other, "b", 3);
        let all = Store::open(Path::new(":memory:"), ("test", "test")).unwrap();
        let how = Merging {
            identity: ("test", "test"),
            change: Change::Refused,
        };
        assert_eq!(all.merge(&one, how).unwrap().new, 2);
        let error = all.merge(&other, how).unwrap_err();
        assert!(
            matches!(&error, StoreError::Program { path } if *path == other),
            "{error}"
        );
        assert_eq!(all.runs().unwrap().len(), 2);
    }

    #[test]
    fn whatever_sqlite_says_what_to_do_is_said_too() {
        for (code, said) in [
            (
                ffi::SQLITE_READONLY,
                "a.place may not be written to: give yourself write access",
            ),
            (ffi::SQLITE_CANTOPEN, "cannot open a.place"),
            (
                ffi::SQLITE_NOTADB,
                "a.place is no SQLite file: give another --store",
            ),
            (
                ffi::SQLITE_CORRUPT,
                "Mend or delete the file, or give another --store",
            ),
            (ffi::SQLITE_BUSY, "in use by another campaign"),
            (ffi::SQLITE_FULL, "the disk is full"),
        ] {
            let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = explain(Path::new("a.place"), source).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
