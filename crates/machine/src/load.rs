// SPDX-License-Identifier: GPL-2.0-only
//! One way in for whatever a user types after `--machine`.

use std::path::Path;

use crate::error::{Error, shorten};
use crate::machine::Machine;
use crate::zoo;

impl Machine {
    /// Loads a machine: `host`, a path to a .toml file, a folder that holds a sysfs tree, a name from
    /// the zoo, or a synthetic string. Tried in this order; a path has a slash or ends in `.toml`.
    ///
    /// # Errors
    /// Those of the source, or [`Error::UnknownMachine`] when there is no such source.
    pub fn load(spec: &str) -> Result<Machine, Error> {
        let spec = spec.trim();
        let path = Path::new(spec);
        match spec {
            "host" => Machine::host(),
            _ if spec.ends_with(".toml") => Machine::from_file(path),
            _ if spec.contains('/') && path.is_dir() => Machine::from_sysfs(path),
            _ if spec.contains('/') && path.is_file() => Machine::from_file(path).map_err(taken_for_one),
            _ => match zoo::find(spec) {
                Some(machine) => machine,
                None if spec.contains(':') => Machine::from_synthetic(spec),
                None => Err(Error::UnknownMachine {
                    spec: shorten(spec),
                    zoo: zoo::names(),
                }),
            },
        }
    }

    /// The text of the machine file that [`Machine::load`] reads for `spec`; none where it is no machine file.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn text_of(spec: &str) -> Result<Option<String>, Error> {
        let path = Path::new(spec.trim());
        match path.is_file() && path.extension().is_some_and(|end| end == "toml") {
            true => {
                let read_error = |source| Error::Read {
                    path: path.to_path_buf(),
                    source,
                };
                std::fs::read_to_string(path).map(Some).map_err(read_error)
            }
            false => Ok(zoo::text(spec.trim()).map(String::from)),
        }
    }

    /// The machine that this program runs on.
    ///
    /// # Errors
    /// Those of [`Machine::from_sysfs`].
    pub fn host() -> Result<Machine, Error> {
        let mut machine = Machine::from_sysfs(Path::new("/"))?;
        machine.name = "host".to_string();
        Ok(machine)
    }
}

/// What is wrong with a file whose name does not say what it is.
fn taken_for_one(mut error: Error) -> Error {
    if let Error::MachineFile { problem, .. } = &mut error {
        *problem = format!("{} (it was read as a machine file)", problem.trim_end());
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_spec() {
        assert_eq!(Machine::load("smp-8").unwrap().nr_cpus(), 8);
        assert_eq!(Machine::load(" core:4 pu:2 ").unwrap().nr_cpus(), 8);
        assert!(matches!(Machine::load("nowhere.toml"), Err(Error::Read { .. })));
        let error = Machine::load("smp-9").unwrap_err().to_string();
        assert!(
            error.starts_with("\"smp-9\" is no machine") && error.contains("smp-8"),
            "{error}"
        );
        assert!(matches!(Machine::load(""), Err(Error::UnknownMachine { .. })));
        assert!(matches!(Machine::load("core:x"), Err(Error::Synthetic { .. })));
    }
}
