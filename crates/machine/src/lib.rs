// SPDX-License-Identifier: GPL-2.0-only
//! What the hardware is: levels, CPUs, relative speeds, and what each level shares.
//!
//! A [`Machine`] is a value, not a handle: it is read once, checked once, and never changes. It comes
//! from a sysfs tree ([`Machine::from_sysfs`]), from a string in the style of hwloc
//! ([`Machine::from_synthetic`]), from a machine file ([`Machine::from_file`]) or from the zoo of
//! machine files that is built in ([`list_zoo`]). [`Machine::load`] takes any of these.
//!
//! Every machine that this crate hands out obeys these rules, whatever it was read from:
//! - it has between 1 and [`MAX_CPUS`] online CPUs, sorted by id, without duplicates;
//! - each level is a partition of the online CPUs;
//! - the levels nest: each group lies within one group of the level before it;
//! - `package`, `llc`, `core` and `pu` are always there; `pu` is the last and its groups are single CPUs;
//! - capacities lie between 1 and 1024, and at least one CPU has 1024.
//!
//! Deliberately absent: hotplug events, memory sizes, I/O devices, and hwloc's XML.
//!
//! Start reading at [`Machine`], then `sysfs.rs`.

pub mod cpulist;
mod error;
mod file;
mod hardware;
mod id;
mod json;
mod level;
mod load;
mod machine;
mod render;
mod synthetic;
mod sysfs;
pub mod wrong;
mod zoo;

pub use cpulist::CpuListError;
pub use error::Error;
pub use hardware::{Hardware, Memory, Power, Sharing};
pub use id::{CoreId, CpuId, LlcId, MAX_CPUS, NodeId, PackageId};
pub use level::{Group, Level, names};
pub use machine::{Cache, CacheKind, CapacitySource, Cpu, Lab, MAX_CAPACITY, Machine};
pub use render::{Picture, Tenant};
pub use zoo::{ZooEntry, list_zoo};
