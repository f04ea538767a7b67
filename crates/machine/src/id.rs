// SPDX-License-Identifier: GPL-2.0-only
//! Ids and indexes as types of their own, so that a core is never taken for a CPU.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most CPUs that a machine may have, and one more than the highest CPU id.
///
/// Linux's own bound: NR_CPUS is at most 8192 (arch/x86/Kconfig, MAXSMP).
pub const MAX_CPUS: u32 = 8192;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a slice.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A CPU (hardware thread) as the kernel numbers it: 0 to [`MAX_CPUS`] - 1, with holes allowed.
    CpuId
}
id! {
    /// A core by its index on the machine: dense from 0, in order of each core's lowest CPU.
    CoreId
}
id! {
    /// A last-level cache by its index on the machine: dense from 0, in order of its lowest CPU.
    LlcId
}
id! {
    /// A package (socket) by its index on the machine: dense from 0, in order of its lowest CPU.
    PackageId
}
id! {
    /// A NUMA node with CPUs, by its index on the machine: dense from 0, in order of its lowest CPU.
    NodeId
}
