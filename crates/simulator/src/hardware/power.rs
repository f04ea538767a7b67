// SPDX-License-Identifier: GPL-2.0-only
//! What packages consume.

use threadwise_machine::{Machine, Power};

use super::acceleration::step;
use crate::Ns;

/// What a package of so many cores takes while `nr_busy` of them are busy, in milliwatts.
///
/// multicore-scheduling, "Multi-core Power Management": what cores share stays in the active state (C0) while one of them is,
/// and an idle core beside a busy one stays at its voltage and clock; a package of idle cores goes to its lowest state. A busy
/// core at a higher step of the acceleration takes more by the cube of the clocks' ratio: voltage follows the clock, and
/// power is C V^2 f (Chandrakasan, Sheng and Brodersen, IEEE JSSC 27(4), 1992). Idle states are entered at once.
pub(super) fn package_mw(power: &Power, nr_cores: usize, nr_busy: usize, mhz: &[u32]) -> u64 {
    if nr_busy == 0 {
        return u64::from(power.package_idle_mw);
    }
    let cube = |mhz: u32| u128::from(mhz).pow(3);
    let busy_mw = match (step(mhz, nr_busy), mhz.last()) {
        (Some(now), Some(&last)) => u128::from(power.core_active_mw) * cube(now) / cube(last),
        _ => u128::from(power.core_active_mw),
    };
    u64::from(power.package_active_mw)
        + nr_busy as u64 * busy_mw as u64
        + (nr_cores - nr_busy) as u64 * u64::from(power.core_idle_mw)
}

/// A machine's packages, and what each has consumed.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    power: Power,
    packages: Vec<Meter>,
}

#[derive(Clone, Debug)]
struct Meter {
    nr_cores: usize,
    mw: u64,
    since: Ns,
    /// Milliwatts times nanoseconds: picojoules.
    pj: u128,
}

impl Meter {
    fn until(&self, now: Ns) -> u128 {
        self.pj + u128::from(self.mw) * u128::from(now - self.since)
    }
}

impl Meters {
    /// Of a machine on which nothing runs.
    pub(super) fn new(power: Power, machine: &Machine) -> Self {
        let mut nr_cores = vec![0; machine.nr_packages()];
        // The first CPU of each core stands for it.
        for cpu in machine.cpus().iter().filter(|cpu| cpu.smt == 0) {
            nr_cores[cpu.package.index()] += 1;
        }
        let meter = |nr_cores| Meter {
            nr_cores,
            mw: u64::from(power.package_idle_mw),
            since: 0,
            pj: 0,
        };
        Self {
            power,
            packages: nr_cores.into_iter().map(meter).collect(),
        }
    }

    /// From now on so many of a package's cores are busy.
    pub(super) fn change(&mut self, package: usize, nr_busy: usize, now: Ns, mhz: &[u32]) {
        let meter = &mut self.packages[package];
        meter.pj = meter.until(now);
        meter.since = now;
        meter.mw = package_mw(&self.power, meter.nr_cores, nr_busy, mhz);
    }

    /// By package.
    pub(super) fn joules(&self, now: Ns) -> Vec<f64> {
        self.packages
            .iter()
            .map(|meter| meter.until(now) as f64 / 1e12)
            .collect()
    }
}
