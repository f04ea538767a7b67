// SPDX-License-Identifier: GPL-2.0-only
//! A joint phase of several programs, and the speed of each in it.

use threadwise_workload::Ratio;

use super::{Machine, Policy};

/// Which programs are parallel, in the order in which they entered; the others are serial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Joint {
    programs: usize,
    /// Indices of the parallel programs, the first to enter first.
    parallel: Vec<usize>,
}

impl Joint {
    /// The start: each program in its first phase, in the order of the list.
    pub fn start(ratios: &[Ratio]) -> Self {
        let parallel = (0..ratios.len())
            .filter(|program| has_parallel_phases(ratios[*program]))
            .collect();
        Self {
            programs: ratios.len(),
            parallel,
        }
    }

    pub fn is_parallel(&self, program: usize) -> bool {
        self.parallel.contains(&program)
    }

    /// The phase of `program` ends and its next one begins.
    pub fn end_phase(&mut self, program: usize, ratio: Ratio) {
        let was_parallel = self.is_parallel(program);
        self.parallel.retain(|other| *other != program);
        let is_parallel = if was_parallel {
            !has_serial_phases(ratio)
        } else {
            has_parallel_phases(ratio)
        };
        if is_parallel {
            self.parallel.push(program);
        }
    }

    /// Forgets the order of entry, which matters for [`Policy::Seniority`] only.
    pub fn forget_order(&mut self) {
        self.parallel.sort_unstable();
    }

    /// The speed of each program, in core units; no core is idle that a thread could use.
    pub fn speeds(&self, machine: Machine, policy: Policy) -> Vec<f64> {
        let serial = (self.programs - self.parallel.len()) as u32;
        let mut speeds = vec![0.0; self.programs];
        if policy == Policy::PhasesUnknown {
            self.share_equally(machine, serial, &mut speeds);
            return speeds;
        }
        let for_serial = machine.fastest(serial);
        (0..self.programs)
            .filter(|program| !self.is_parallel(*program))
            .for_each(|program| speeds[program] = for_serial / f64::from(serial));
        let rest = machine.all() - for_serial;
        self.divide(rest, policy, &mut speeds);
        speeds
    }

    fn share_equally(&self, machine: Machine, serial: u32, speeds: &mut [f64]) {
        let parallel = self.parallel.len() as u32;
        let threads = f64::from(serial) + f64::from(parallel) * f64::from(machine.cores);
        let used = if parallel > 0 { machine.cores } else { serial };
        let each = machine.fastest(used) / threads;
        for (program, speed) in speeds.iter_mut().enumerate() {
            *speed = if self.is_parallel(program) {
                each * f64::from(machine.cores)
            } else {
                each
            };
        }
    }

    /// Gives `rest` core units to the parallel programs, if there are any.
    fn divide(&self, rest: f64, policy: Policy, speeds: &mut [f64]) {
        let senior = match policy {
            Policy::PhasesUnknown | Policy::SerialBoost => None,
            Policy::Seniority => self.parallel.first(),
            Policy::FixedPriority => self.parallel.iter().min(),
        };
        match senior {
            Some(senior) => speeds[*senior] = rest,
            None => self
                .parallel
                .iter()
                .for_each(|program| speeds[*program] = rest / self.parallel.len() as f64),
        }
    }
}

pub(super) fn has_parallel_phases(ratio: Ratio) -> bool {
    ratio.serial().is_finite()
}

pub(super) fn has_serial_phases(ratio: Ratio) -> bool {
    ratio.parallel().is_finite()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const POLICIES: [Policy; 4] = [
        Policy::PhasesUnknown,
        Policy::SerialBoost,
        Policy::Seniority,
        Policy::FixedPriority,
    ];

    fn joint(programs: usize, parallel: &[usize]) -> Joint {
        Joint {
            programs,
            parallel: parallel.to_vec(),
        }
    }

    fn assert_speeds(joint: &Joint, a: f64, policy: Policy, expected: &[f64]) {
        let speeds = joint.speeds(Machine::new(8, a).unwrap(), policy);
        for (speed, expected) in speeds.iter().zip(expected) {
            assert!(
                (speed - expected).abs() < 1e-12,
                "{joint:?} {policy:?}: {speeds:?}, not {expected:?}"
            );
        }
    }

    #[test]
    fn two_programs_have_the_speeds_of_tables_1_and_5() {
        for a in [1.0, 1.5, 2.0] {
            let all = 7.0 + a;
            for policy in POLICIES {
                assert_speeds(&joint(2, &[]), a, policy, &[(1.0 + a) / 2.0; 2]);
            }
            assert_speeds(
                &joint(2, &[1]),
                a,
                Policy::PhasesUnknown,
                &[a * all / (a * 9.0), 8.0 / 9.0 * all],
            );
            assert_speeds(&joint(2, &[0, 1]), a, Policy::PhasesUnknown, &[all / 2.0; 2]);
            assert_speeds(&joint(2, &[1]), a, Policy::SerialBoost, &[a, 7.0]);
            assert_speeds(&joint(2, &[0, 1]), a, Policy::SerialBoost, &[all / 2.0; 2]);
            assert_speeds(&joint(2, &[1]), a, Policy::Seniority, &[a, 7.0]);
            assert_speeds(&joint(2, &[1, 0]), a, Policy::Seniority, &[0.0, all]);
            assert_speeds(&joint(2, &[1, 0]), a, Policy::FixedPriority, &[all, 0.0]);
        }
    }

    #[test]
    fn many_serial_programs_leave_nothing() {
        let crowd = joint(10, &[9]);
        assert_speeds(
            &crowd,
            2.0,
            Policy::SerialBoost,
            &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        );
    }

    #[test]
    fn a_program_of_one_kind_of_phase_keeps_it() {
        let mut both = Joint::start(&[Ratio::PARALLEL, Ratio::SERIAL, Ratio::PARALLEL]);
        assert_eq!(both, joint(3, &[0, 2]));
        both.end_phase(0, Ratio::PARALLEL);
        both.end_phase(1, Ratio::SERIAL);
        assert_eq!(both, joint(3, &[2, 0]));
    }

    proptest! {
        #[test]
        fn no_core_is_idle_and_none_is_used_twice(
            n in 1u32..32, a in 1.0..4.0f64, parallel in vec(any::<bool>(), 1..12), policy in 0usize..4
        ) {
            let machine = Machine::new(n, a).unwrap();
            let order: Vec<usize> = (0..parallel.len()).filter(|i| parallel[*i]).collect();
            let threads = if order.is_empty() { parallel.len() as u32 } else { n };
            let speeds = joint(parallel.len(), &order).speeds(machine, POLICIES[policy]);
            prop_assert!(speeds.iter().all(|speed| *speed >= -1e-12));
            prop_assert!((speeds.iter().sum::<f64>() - machine.fastest(threads)).abs() < 1e-9);
        }
    }
}
