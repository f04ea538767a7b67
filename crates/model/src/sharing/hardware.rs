// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share which stations, and how fast these are.

use threadwise_machine::{CacheKind, CpuId, Machine, names};

use super::Error;

/// Speeds and sizes of a machine. Cycles are those of its one clock.
///
/// Sources: *spec* is the OpenSPARC T2 Core Microarchitecture Specification (Sun, 2007), reference 1 of blackbox; *gcc*
/// is what GCC takes for niagara2 (gcc/config/sparc/niagara2.md and sparc.c, `niagara2_costs`); *servers* is the white
/// paper "Sun SPARC Enterprise T5120 and T5220 Server Architecture" (Sun, 2007). What is estimated says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Cycles a second, above 0. T2: 1.2 GHz, one of the clocks of a T5220; blackbox does not say which its had.
    pub clock_hz: f64,
    /// How long a thread waits after a load that hits the L1, without its issue slot. T2: 2 (load to use 3: spec, gcc).
    pub load_stall_cycles: f64,
    /// The same after a taken branch. T2: 4 (5 in all: gcc).
    pub branch_stall_cycles: f64,
    /// The same after an integer multiplication, of which the core's multiplier begins one a cycle. T2: 4 (5 in all:
    /// gcc).
    pub multiply_stall_cycles: f64,
    /// How long a division keeps the core's divider, which does one at a time. T2: 26, the mean of 12 to 41 (gcc).
    pub divide_cycles: f64,
    /// The size of a core's L1 data cache in bytes, above 0. T2: 8 KB (spec).
    pub l1_data_bytes: f64,
    /// The size of the L2 in bytes, above 0. T2: 4 MB (spec).
    pub l2_bytes: f64,
    /// What a load takes longer that misses the L1 and hits the L2. T2: 23 (load to use 26 instead of 3: spec).
    pub l2_stall_cycles: f64,
    /// How long an access keeps the L2 from others, all banks taken as one. T2: 1/8, as each of 8 banks reads the 16
    /// bytes of an L1 line in a cycle (spec; servers).
    pub l2_access_cycles: f64,
    /// What a load takes longer that misses the L2 too. T2: 130, estimated: it makes 156 cycles in all, or 130
    /// ns.
    pub memory_stall_cycles: f64,
    /// How long an access keeps the memory from others, all controllers taken as one. T2: 1.8, a line of 64 bytes at
    /// 42.4 GB/s (servers).
    pub memory_access_cycles: f64,
}

impl Parameters {
    /// The UltraSPARC T2.
    pub const T2: Parameters = Parameters {
        clock_hz: 1.2e9,
        load_stall_cycles: 2.0,
        branch_stall_cycles: 4.0,
        multiply_stall_cycles: 4.0,
        divide_cycles: 26.0,
        l1_data_bytes: 8192.0,
        l2_bytes: 4194304.0,
        l2_stall_cycles: 23.0,
        l2_access_cycles: 0.125,
        memory_stall_cycles: 130.0,
        memory_access_cycles: 1.8,
    };

    fn check(&self) -> Result<(), Error> {
        let positive = [
            ("clock_hz", self.clock_hz),
            ("l1_data_bytes", self.l1_data_bytes),
            ("l2_bytes", self.l2_bytes),
        ];
        let not_negative = [
            ("load_stall_cycles", self.load_stall_cycles),
            ("branch_stall_cycles", self.branch_stall_cycles),
            ("multiply_stall_cycles", self.multiply_stall_cycles),
            ("divide_cycles", self.divide_cycles),
            ("l2_stall_cycles", self.l2_stall_cycles),
            ("l2_access_cycles", self.l2_access_cycles),
            ("memory_stall_cycles", self.memory_stall_cycles),
            ("memory_access_cycles", self.memory_access_cycles),
        ];
        check_all(&positive, "above 0", |value| value > 0.0)?;
        check_all(&not_negative, "not below 0", |value| value >= 0.0)
    }
}

fn check_all(
    values: &[(&'static str, f64)],
    range: &'static str,
    is_good: fn(f64) -> bool,
) -> Result<(), Error> {
    match values
        .iter()
        .find(|(_, value)| !value.is_finite() || !is_good(*value))
    {
        Some(&(name, value)) => Err(Error::Parameter { name, value, range }),
        None => Ok(()),
    }
}

/// The kinds of stations that threads queue at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    /// The issue slot of a pipe: an instruction a cycle for all its CPUs.
    Issue,
    /// The load/store unit of a core: a load or store a cycle.
    LoadStore,
    /// The multiplier of a core.
    Multiplier,
    /// The divider of a core.
    Divider,
    /// All banks of an L2.
    L2,
    /// All memory controllers.
    Memory,
}

impl Station {
    pub const NR: usize = 6;
}

/// Where a CPU sits. Indexes of groups, dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    cpu: CpuId,
    pipe: usize,
    pub core: usize,
    pub llc: usize,
}

/// A machine as the model sees it.
///
/// The issue slot is that of the innermost level above the CPUs: `pipe` where a machine has such a level, else `core`.
/// Each last-level cache, which the model calls L2, has a memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    parameters: Parameters,
    /// Ascending by CPU.
    places: Vec<Place>,
    nr_pipes: usize,
    nr_cores: usize,
    nr_llcs: usize,
}

impl Hardware {
    /// With the speeds of [`Parameters::T2`] and the sizes of caches that the machine tells.
    ///
    /// # Errors
    /// If the machine has a cache of 0 bytes, or cores of different speeds.
    pub fn from_machine(machine: &Machine) -> Result<Self, Error> {
        if !machine.is_symmetric() {
            return Err(Error::Speeds {
                machine: machine.name().to_string(),
            });
        }
        let caches = || machine.caches().iter();
        let l1 = caches().find(|cache| cache.level == 1 && cache.kind == CacheKind::Data);
        let last = caches()
            .max_by_key(|cache| cache.level)
            .filter(|cache| cache.level > 1);
        let size = |cache: Option<&threadwise_machine::Cache>, default: f64| {
            cache
                .and_then(|cache| cache.size_bytes)
                .map_or(default, |bytes| bytes as f64)
        };
        let parameters = Parameters {
            l1_data_bytes: size(l1, Parameters::T2.l1_data_bytes),
            l2_bytes: size(last, Parameters::T2.l2_bytes),
            ..Parameters::T2
        };
        Self::with_parameters(machine, parameters)
    }

    /// With these speeds and sizes, whatever the machine tells.
    ///
    /// # Errors
    /// If one is out of range.
    pub fn with_parameters(machine: &Machine, parameters: Parameters) -> Result<Self, Error> {
        parameters.check()?;
        // `core` and `pu` are always there and `pu` is the last, so this is a level within the core or the core itself.
        let pipe = machine
            .levels()
            .iter()
            .rev()
            .nth(1)
            .map_or(names::CORE, |level| level.name());
        let place = |cpu: &threadwise_machine::Cpu| Place {
            cpu: cpu.id,
            pipe: machine.group_of(pipe, cpu.id).unwrap_or(cpu.core.index()),
            core: cpu.core.index(),
            llc: cpu.llc.index(),
        };
        Ok(Self {
            parameters,
            places: machine.cpus().iter().map(place).collect(),
            nr_pipes: machine
                .level(pipe)
                .map_or(machine.nr_cores(), |level| level.groups().len()),
            nr_cores: machine.nr_cores(),
            nr_llcs: machine.nr_llcs(),
        })
    }

    /// Its speeds and sizes.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(super) fn place(&self, cpu: CpuId) -> Result<Place, Error> {
        let position = self.places.binary_search_by_key(&cpu, |place| place.cpu);
        position
            .map(|position| self.places[position])
            .map_err(|_| Error::NoCpu { cpu })
    }

    pub(super) fn nr_stations(&self) -> usize {
        self.nr_pipes + 3 * self.nr_cores + 2 * self.nr_llcs
    }

    /// The index of each kind's station, by [`Station`], below [`Self::nr_stations`].
    pub(super) fn stations(&self, place: Place) -> [usize; Station::NR] {
        let of_cores = self.nr_pipes;
        let of_llcs = of_cores + 3 * self.nr_cores;
        [
            place.pipe,
            of_cores + place.core,
            of_cores + self.nr_cores + place.core,
            of_cores + 2 * self.nr_cores + place.core,
            of_llcs + place.llc,
            of_llcs + self.nr_llcs + place.llc,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stations(topology: &str, cpu: u32) -> [usize; Station::NR] {
        let hardware = Hardware::from_machine(&Machine::from_synthetic(topology).unwrap()).unwrap();
        hardware.stations(hardware.place(CpuId(cpu)).unwrap())
    }

    #[test]
    fn the_innermost_level_has_the_issue_slots() {
        assert_eq!(stations("core:2 pipe:2 pu:2", 7), [3, 5, 7, 9, 10, 11]);
        assert_eq!(stations("core:2 pu:2", 3), [1, 3, 5, 7, 8, 9]);
        assert_eq!(stations("core:2", 1), [1, 3, 5, 7, 8, 9]);
    }

    #[test]
    fn caches_have_the_sizes_that_the_machine_tells() {
        let sizes = |topology: &str| {
            let machine = Machine::from_synthetic(topology).unwrap();
            let hardware = Hardware::from_machine(&machine).unwrap();
            (hardware.parameters.l1_data_bytes, hardware.parameters.l2_bytes)
        };
        assert_eq!(sizes("core:2"), (8192.0, 4194304.0));
        assert_eq!(
            sizes("l2:1(size=1MB) core:2 l1d:1(size=16KB) pu:2"),
            (16384.0, 1048576.0)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let machine = Machine::from_synthetic("core:2").unwrap();
        let refuse = |parameters, expected: &str| {
            let error = Hardware::with_parameters(&machine, parameters)
                .unwrap_err()
                .to_string();
            assert_eq!(error, expected);
        };
        refuse(
            Parameters {
                clock_hz: 0.0,
                ..Parameters::T2
            },
            "the hardware's clock_hz of 0 is out of range: it must be finite and above 0",
        );
        refuse(
            Parameters {
                divide_cycles: f64::NAN,
                ..Parameters::T2
            },
            "the hardware's divide_cycles of NaN is out of range: it must be finite and not below 0",
        );
        let hardware = Hardware::from_machine(&machine).unwrap();
        assert_eq!(hardware.place(CpuId(2)), Err(Error::NoCpu { cpu: CpuId(2) }));
    }
}
