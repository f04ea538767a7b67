// SPDX-License-Identifier: GPL-2.0-only
//! Where results are kept: an SQLite file, one row for each run, written before the next begins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use crate::Experiment;

/// Whose file it is; in its `application_id`: "twpl".
const APPLICATION: i64 = 0x7477_706c;

/// The layout of the file; in its `user_version`.
const VERSION: i64 = 1;

/// Results of one workload on one machine. Nobody else can open the file meanwhile.
pub struct Store {
    connection: Connection,
    path: PathBuf,
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
    /// The disk is full.
    #[error("{path}: the disk is full; nothing that was recorded is lost, free some space and start again")]
    Full {
        /// The file.
        path: PathBuf,
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
}

impl Store {
    /// Opens a file or creates it. `identity` says what is measured on what: a name for people, and all that must be the
    /// same for results to be comparable.
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

    /// Another program's file is not even opened for writing.
    fn check_owner(&self, name: &str) -> Result<(), StoreError> {
        let number = |query: &str| -> Result<i64, StoreError> {
            let row = self.connection.query_row(query, [], |row| row.get(0));
            row.map_err(|source| explain(&self.path, source))
        };
        if number("PRAGMA application_id")? != APPLICATION
            && number("SELECT count(*) FROM sqlite_master")? > 0
        {
            return Err(StoreError::Other {
                path: self.path.clone(),
                found: "another program".to_string(),
                wanted: name.to_string(),
            });
        }
        Ok(())
    }

    fn prepare(&self, (name, identity): (&str, &str)) -> Result<(), StoreError> {
        let fail = |source| explain(&self.path, source);
        let version: i64 = self
            .connection
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(fail)?;
        let other = |found: String| {
            Err(StoreError::Other {
                path: self.path.clone(),
                found,
                wanted: name.to_string(),
            })
        };
        if version > VERSION {
            return other(format!("a later version of threadwise ({version})"));
        }
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
                 PRAGMA application_id = {APPLICATION};
                 PRAGMA user_version = {VERSION};
                 COMMIT;"
            ))
            .map_err(fail)?;
        let found: Option<(String, String)> = self
            .connection
            .query_row("SELECT name, identity FROM campaign", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(fail)?;
        match found {
            None => {
                self.connection
                    .execute("INSERT INTO campaign VALUES (?1, ?2)", [name, identity])
                    .map_err(fail)?;
                Ok(())
            }
            Some((_, known)) if known == identity => Ok(()),
            Some((found, _)) if found == name => {
                other(format!("{found} as it was before its file or machine changed"))
            }
            Some((found, _)) => other(found),
        }
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

    /// Marks the last `nr` runs void: they are kept, and never read again.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn void_last(&self, nr: usize) -> Result<(), StoreError> {
        self.connection
            .execute(
                "UPDATE run SET void = 1 WHERE id IN (SELECT id FROM run WHERE void = 0 ORDER BY id DESC LIMIT ?1)",
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
            .prepare("SELECT experiment, performance FROM run WHERE void = 0 ORDER BY id")
            .map_err(fail)?;
        let rows = query
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))
            .map_err(fail)?;
        rows.map(|row| {
            let (experiment, performance) = row.map_err(fail)?;
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
            })
        })
        .collect()
    }
}

fn explain(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.into();
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::InUse { path },
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        _ => StoreError::Sqlite { path, source },
    }
}
