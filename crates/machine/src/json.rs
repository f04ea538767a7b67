// SPDX-License-Identifier: GPL-2.0-only
//! The machine as JSON, schema `threadwise.topo/1`. Fields are added under the same number; a field
//! that is removed or changes its meaning raises it.

use serde::{Serialize, Serializer};

use crate::id::CpuId;
use crate::level::Level;
use crate::machine::{Cache, CapacitySource, Cpu, Lab, Machine};

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
        };
        view.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

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
