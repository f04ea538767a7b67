// SPDX-License-Identifier: GPL-2.0-only
//! The machine as JSON, schema `threadwise.topo/1`. Fields are added under the same number; a field
//! that is removed or changes its meaning raises it.

use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;
use crate::hardware::Hardware;
use crate::id::CpuId;
use crate::level::Level;
use crate::machine::{Cache, CapacitySource, Cpu, Draft, Lab, Machine};

const SCHEMA: &str = "threadwise.topo/1";

#[derive(Serialize)]
struct View<'a> {
    schema: &'static str,
    name: &'a str,
    description: &'a str,
    cpus: &'a [Cpu],
    levels: &'a [Level],
    caches: &'a [Cache],
    capacity_source: CapacitySource,
    offline: &'a [CpuId],
    #[serde(skip_serializing_if = "Option::is_none")]
    lab: Option<Lab>,
    #[serde(skip_serializing_if = "Hardware::is_unknown")]
    hardware: &'a Hardware,
}

impl Serialize for Machine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = View {
            schema: SCHEMA,
            name: &self.name,
            description: &self.description,
            cpus: &self.cpus,
            levels: &self.levels,
            caches: &self.caches,
            capacity_source: self.capacity_source,
            offline: &self.offline,
            lab: self.lab,
            hardware: &self.hardware,
        };
        view.serialize(serializer)
    }
}

/// What is read back: where a CPU sits follows from the levels.
#[derive(Deserialize)]
struct Stored {
    schema: String,
    name: String,
    description: String,
    cpus: Vec<StoredCpu>,
    levels: Vec<Level>,
    caches: Vec<Cache>,
    capacity_source: CapacitySource,
    offline: Vec<CpuId>,
    lab: Option<Lab>,
    #[serde(default)]
    hardware: Hardware,
}

#[derive(Deserialize)]
struct StoredCpu {
    id: CpuId,
    capacity: u32,
}

impl Machine {
    /// Reads the JSON that a machine is written as; `place` names it in errors. Everything is checked anew.
    ///
    /// # Errors
    /// [`Error::Json`], or that of the rule which the machine breaks.
    pub fn from_json(text: &str, place: &str) -> Result<Machine, Error> {
        let fail = |problem: String| Error::Json {
            place: place.to_string(),
            problem,
        };
        let stored: Stored = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if stored.schema != SCHEMA {
            return Err(fail(format!("its schema is {:?}, not {SCHEMA:?}", stored.schema)));
        }
        let draft = Draft {
            name: stored.name,
            description: stored.description,
            cpus: stored.cpus.iter().map(|cpu| cpu.id).collect(),
            capacities: stored.cpus.iter().map(|cpu| cpu.capacity).collect(),
            capacity_source: stored.capacity_source,
            levels: stored.levels,
            caches: stored.caches,
            offline: stored.offline,
            lab: stored.lab,
            hardware: stored.hardware,
        };
        draft.build(place)
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn what_is_written_is_read_back() {
        for spec in [
            "amp-8",
            "smt-8-hidden",
            "ultrasparc-t2",
            "two-duals",
            "two-quads",
            "package:2 numa:2 l3:1(size=1MB) core:2 pu:2",
        ] {
            let machine = Machine::load(spec).unwrap();
            let text = serde_json::to_string(&machine).unwrap();
            assert_eq!(Machine::from_json(&text, "test").unwrap(), machine, "{spec}");
        }
    }

    #[test]
    fn what_is_no_machine_is_refused() {
        let good = serde_json::to_string(&Machine::load("amp-8").unwrap()).unwrap();
        for (from, to, said) in [
            ("threadwise.topo/1", "threadwise.topo/9", "threadwise.topo/9"),
            ("\"capacity\":512", "\"capacity\":0", "capacity 0"),
            ("{\"id\":7", "{\"id\":6", "CPU 6 is given twice"),
            ("\"levels\"", "\"ebenen\"", "levels"),
        ] {
            let error = Machine::from_json(&good.replace(from, to), "m.json").unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("m.json") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn the_schema() {
        let machine = Machine::from_synthetic("package:1 l3:1(size=1MB) core:1 pu:1").unwrap();
        let expected = r#"{"schema":"threadwise.topo/1","name":"package:1 l3:1(size=1MB) core:1 pu:1","description":"","cpus":[{"id":0,"capacity":1024,"package":0,"node":0,"llc":0,"core":0,"smt":0}],"levels":[{"name":"package","groups":[{"cpus":[0]}]},{"name":"llc","groups":[{"cpus":[0]}]},{"name":"core","groups":[{"cpus":[0]}]},{"name":"pu","groups":[{"cpus":[0]}]}],"caches":[{"level":3,"kind":"unified","size_bytes":1048576,"cpus":[0]}],"capacity_source":"assumed","offline":[]}"#;
        assert_eq!(serde_json::to_string(&machine).unwrap(), expected);
        let amp = serde_json::to_value(Machine::load("amp-8").unwrap()).unwrap();
        assert_eq!(
            (&amp["lab"]["mips"], &amp["cpus"][1]["capacity"]),
            (&160.into(), &512.into())
        );
    }
}
