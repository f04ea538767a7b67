// SPDX-License-Identifier: GPL-2.0-only
//! An assignment in the words of the tools that bind threads to CPUs.

use threadwise_machine::{CpuId, cpulist};

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tool {
    /// util-linux: one command for each thread, by its id
    Taskset,
    /// numactl: one command line for each instance
    Numactl,
    /// OpenMP: a place for each thread, in order
    OmpPlaces,
    /// DPDK's EAL: lcores 0, 1, ... on CPUs
    DpdkLcores,
    /// LIKWID: a list of CPUs for each instance
    LikwidPin,
    /// systemd: a line for each instance's unit
    Systemd,
    /// cgroup v2: what to write into cpuset.cpus
    Cpuset,
    /// Slurm: an option for srun
    Slurm,
}

/// Writes the assignment of each instance for a tool, a line for each instance (for `taskset`, each thread). `names` are
/// those of an instance's threads; all have as many.
///
/// Tools that bind whole processes leave it to the kernel which thread runs on which of an instance's CPUs.
pub fn text(tool: Tool, instances: &[Vec<CpuId>], names: &[String]) -> String {
    let list = |cpus: &[CpuId], separator: &str| {
        cpus.iter()
            .map(CpuId::to_string)
            .collect::<Vec<_>>()
            .join(separator)
    };
    let line = |(nr, cpus): (usize, &Vec<CpuId>)| match tool {
        Tool::Taskset => (names.iter().zip(cpus))
            .map(|(name, cpu)| format!("taskset --cpu-list --pid {cpu} TID  # instance {nr}, thread {name}"))
            .collect::<Vec<_>>()
            .join("\n"),
        Tool::Numactl => format!(
            "numactl --physcpubind={} COMMAND  # instance {nr}",
            list(cpus, ",")
        ),
        Tool::OmpPlaces => {
            let places = cpus
                .iter()
                .map(|cpu| format!("{{{cpu}}}"))
                .collect::<Vec<_>>()
                .join(",");
            format!("OMP_PROC_BIND=true OMP_PLACES='{places}' COMMAND  # instance {nr}")
        }
        Tool::DpdkLcores => {
            let lcores = cpus
                .iter()
                .enumerate()
                .map(|(lcore, cpu)| format!("{lcore}@{cpu}"));
            format!(
                "--lcores='{}'  # instance {nr}",
                lcores.collect::<Vec<_>>().join(",")
            )
        }
        Tool::LikwidPin => format!("likwid-pin -c {} COMMAND  # instance {nr}", list(cpus, ",")),
        Tool::Systemd => format!("AllowedCPUs={}  # instance {nr}", cpulist::format(cpus)),
        Tool::Cpuset => format!("echo {} > INSTANCE_{nr}/cpuset.cpus", cpulist::format(cpus)),
        Tool::Slurm => {
            // Each task of a map has one CPU; a mask holds all CPUs of an instance.
            let mask = cpus.iter().fold(num_bigint::BigUint::default(), |mask, cpu| {
                mask | num_bigint::BigUint::from(1u32) << cpu.index()
            });
            format!("srun --cpu-bind=mask_cpu:0x{mask:x} COMMAND  # instance {nr}")
        }
    };
    instances
        .iter()
        .enumerate()
        .map(line)
        .map(|line| line + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_words_of_each_tool() {
        let instances = [
            vec![CpuId(0), CpuId(5), CpuId(1)],
            vec![CpuId(8), CpuId(64), CpuId(9)],
        ];
        let names = ["R", "P", "T"].map(String::from);
        let first = |tool| {
            text(tool, &instances, &names)
                .lines()
                .next()
                .unwrap_or_default()
                .to_string()
        };
        assert_eq!(
            first(Tool::Taskset),
            "taskset --cpu-list --pid 0 TID  # instance 0, thread R"
        );
        assert_eq!(text(Tool::Taskset, &instances, &names).lines().count(), 6);
        assert_eq!(
            first(Tool::Numactl),
            "numactl --physcpubind=0,5,1 COMMAND  # instance 0"
        );
        assert_eq!(
            first(Tool::OmpPlaces),
            "OMP_PROC_BIND=true OMP_PLACES='{0},{5},{1}' COMMAND  # instance 0"
        );
        assert_eq!(first(Tool::DpdkLcores), "--lcores='0@0,1@5,2@1'  # instance 0");
        assert_eq!(
            first(Tool::LikwidPin),
            "likwid-pin -c 0,5,1 COMMAND  # instance 0"
        );
        assert_eq!(first(Tool::Systemd), "AllowedCPUs=0-1,5  # instance 0");
        assert_eq!(first(Tool::Cpuset), "echo 0-1,5 > INSTANCE_0/cpuset.cpus");
        assert_eq!(
            first(Tool::Slurm),
            "srun --cpu-bind=mask_cpu:0x23 COMMAND  # instance 0"
        );
        let second = text(Tool::Slurm, &instances, &names);
        assert!(second.contains("mask_cpu:0x10000000000000300 "), "{second}");
    }
}
