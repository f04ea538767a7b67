// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share a last-level cache, and which a package.

use threadwise_machine::Machine;

use crate::kernel::CpuIndex;
use crate::mask::CpuMask;

/// Last-level caches and packages, each numbered from 0, as kernel and schedulers know them.
#[derive(Clone, Debug)]
pub struct Domains {
    llc_of: Vec<usize>,
    package_of: Vec<usize>,
    nr_cores: Vec<u32>,
    cpus: Vec<Vec<CpuIndex>>,
    pub(crate) llcs: Vec<CpuMask>,
}

impl Domains {
    pub(crate) fn of(machine: &Machine) -> Self {
        let (nr_cpus, nr_llcs) = (machine.nr_cpus(), machine.nr_llcs());
        let llc_of: Vec<usize> = machine.cpus().iter().map(|cpu| cpu.llc.index()).collect();
        let mut nr_cores = vec![0; nr_llcs];
        for cpu in machine.cpus() {
            // Counted once, at its first CPU.
            nr_cores[cpu.llc.index()] += u32::from(machine.core_cpus(cpu.core).first() == Some(&cpu.id));
        }
        let mut cpus = vec![Vec::new(); nr_llcs];
        for (cpu, &llc) in llc_of.iter().enumerate() {
            cpus[llc].push(cpu);
        }
        Self {
            llcs: cpus
                .iter()
                .map(|cpus| CpuMask::of(nr_cpus, cpus.iter().copied()))
                .collect(),
            cpus,
            package_of: machine.cpus().iter().map(|cpu| cpu.package.index()).collect(),
            nr_cores,
            llc_of,
        }
    }

    /// The last-level cache of a CPU.
    pub fn llc_of(&self, cpu: CpuIndex) -> usize {
        self.llc_of[cpu]
    }

    /// Whether two CPUs are behind different last-level caches.
    pub fn is_across(&self, cpu: CpuIndex, other: CpuIndex) -> bool {
        self.llc_of[cpu] != self.llc_of[other]
    }

    /// The package of a CPU.
    pub fn package_of(&self, cpu: CpuIndex) -> usize {
        self.package_of[cpu]
    }

    /// Whether a last-level cache is in the package of a CPU.
    pub fn shares_package(&self, llc: usize, cpu: CpuIndex) -> bool {
        let first = self.cpus[llc].first();
        first.is_some_and(|&first| self.package_of[first] == self.package_of[cpu])
    }

    /// How many last-level caches there are.
    pub fn nr_llcs(&self) -> usize {
        self.nr_cores.len()
    }

    /// The CPUs of a last-level cache, ascending.
    pub fn cpus_of(&self, llc: usize) -> &[CpuIndex] {
        &self.cpus[llc]
    }

    /// How many cores a last-level cache has.
    pub fn nr_cores(&self, llc: usize) -> u32 {
        self.nr_cores[llc]
    }
}
