// SPDX-License-Identifier: GPL-2.0-only
//! What several of the tests need.

use threadwise_machine::Machine;

/// The machine of a file with this text.
pub fn described(text: &str) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.toml");
    std::fs::write(&path, format!("name = \"m\"\n{text}")).unwrap();
    Machine::load(path.to_str().unwrap()).unwrap()
}
