// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs are online, as the kernel says at this moment.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use threadwise_machine::{CpuId, cpulist};

/// How often the kernel is asked anew, each 0.1 s, as a CPU may be on its way.
const ASKED: u32 = 20;

/// Whether a CPU is online; none if the kernel does not say, as of one that cannot go, or that is not there.
pub fn is_online(cpu: usize) -> Option<bool> {
    let state = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    Some(state.ok()?.trim() == "1")
}

/// All that are, by their ids in order.
fn all_online() -> Result<Vec<usize>> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let cpus = cpulist::parse(text.trim()).with_context(|| format!("cannot make sense of {path}"))?;
    Ok(cpus.into_iter().map(CpuId::index).collect())
}

/// The CPUs of a ring, from the first on: so many, in the order in which each is followed by the next.
fn of_ring(next: &[u16], nr: u32) -> Vec<usize> {
    let first = next.first().copied().map(usize::from);
    let follow = |&cpu: &usize| next.get(cpu).copied().map(usize::from);
    let mut cpus: Vec<usize> = std::iter::successors(first, follow).take(nr as usize).collect();
    cpus.sort_unstable();
    cpus
}

/// The ring by which the BPF program walks over CPUs, as `read` has it, must hold those that are online, each once.
pub fn check_ring(mut read: impl FnMut() -> Result<(Vec<u16>, u32)>) -> Result<()> {
    let mut asked = 0;
    loop {
        let (next, nr) = read()?;
        let (walked, online) = (of_ring(&next, nr), all_online()?);
        if walked == online {
            return Ok(());
        }
        asked += 1;
        ensure!(
            asked < ASKED,
            "looks at CPUs took in {walked:?}, and online are {online:?}"
        );
        sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_followed_from_its_first_cpu_on() {
        // Of four CPUs the last and the second are there.
        assert_eq!(of_ring(&[3, 3, 3, 1], 2), [1, 3]);
        // One that comes twice is seen, as is one that leads nowhere.
        assert_eq!(of_ring(&[1, 1, 3, 1], 2), [1, 1]);
        assert_eq!(of_ring(&[1, 9], 2), [1, 9]);
        assert_eq!(of_ring(&[], 1), [0; 0]);
    }
}
