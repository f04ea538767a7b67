// SPDX-License-Identifier: GPL-2.0-only
//! A joint phase of several programs, and the speed of each in it.

use super::program::Load;
use super::{Machine, Policy};

/// In which of its phases each program is, and in which order those with several ready threads entered theirs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Joint {
    /// The index of each program's phase.
    phases: Vec<usize>,
    /// Indices of the parallel programs, the first to enter first, or as [`Joint::order_by`] has put them.
    parallel: Vec<usize>,
}

/// What programs get in a joint phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Speeds {
    /// Of each program, in core units; no core is idle that a thread could use.
    pub of: Vec<f64>,
    /// Of each program: those of tier 0 have the fastest cores, those of the next the fastest of the rest.
    tiers: Vec<usize>,
    /// How many cores are idle.
    pub idle_cores: u32,
}

/// What a program has before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// It has no serial phase.
    pub is_never_serial: bool,
    /// What it takes, were it alone, up to the end of its next serial phase.
    pub time: f64,
}

impl Joint {
    /// The start: each program in its first phase, in the order of the list.
    pub fn start(programs: &[Vec<Load>]) -> Self {
        let is_parallel = |program: &usize| programs[*program][0].threads > 1;
        Self {
            phases: vec![0; programs.len()],
            parallel: (0..programs.len()).filter(is_parallel).collect(),
        }
    }

    /// The index of the program's phase.
    pub fn phase(&self, program: usize) -> usize {
        self.phases[program]
    }

    /// The phase of `program`, whose phases are `loads`, ends and its next one begins. It enters anew, also from one
    /// parallel phase to the next: its threads have joined.
    pub fn end_phase(&mut self, program: usize, loads: &[Load]) {
        self.parallel.retain(|other| *other != program);
        let next = (self.phases[program] + 1) % loads.len();
        self.phases[program] = next;
        if loads[next].threads > 1 {
            self.parallel.push(program);
        }
    }

    /// Forgets the order of entry, which matters for policies with seniority only.
    pub fn forget_order(&mut self) {
        self.parallel.sort_unstable();
    }

    /// Puts the parallel programs in the order of what each has before it, the least first, for [`Policy::Clairvoyant`];
    /// those that are never serial come last. Who has equally much stays where it is.
    pub fn order_by(&mut self, ahead: impl Fn(usize) -> Ahead) {
        self.parallel.sort_by(|a, b| {
            let (a, b) = (ahead(*a), ahead(*b));
            let by_time = a.time.total_cmp(&b.time);
            a.is_never_serial.cmp(&b.is_never_serial).then(by_time)
        });
    }

    /// What each of `programs` gets: those of a tier share the fastest cores that the tiers before it leave, each of
    /// their threads as much as the others.
    pub fn speeds(&self, machine: Machine, programs: &[Vec<Load>], policy: Policy) -> Speeds {
        let mut speeds = Speeds::default();
        self.set_speeds(machine, programs, policy, &mut speeds);
        speeds
    }

    /// As [`Joint::speeds`], in place: a playout asks at each end of a phase.
    pub fn set_speeds(&self, machine: Machine, programs: &[Vec<Load>], policy: Policy, speeds: &mut Speeds) {
        let Speeds {
            of,
            tiers,
            idle_cores,
        } = speeds;
        tiers.clear();
        tiers.extend((0..programs.len()).map(|program| self.tier(program, policy)));
        of.clear();
        of.resize(programs.len(), 0.0);
        let last = tiers.iter().copied().max().unwrap_or(0);
        let mut taken = 0;
        for tier in 0..=last {
            let threads = |program: usize| match tiers[program] == tier {
                true => programs[program][self.phases[program]].threads,
                false => 0,
            };
            let ready: u64 = (0..programs.len())
                .map(|program| u64::from(threads(program)))
                .sum();
            let left = machine.cores() - taken;
            let cores = u32::try_from(ready).map_or(left, |ready| ready.min(left));
            let speed = match policy {
                Policy::SpeedsUnknown => machine.all() * f64::from(cores) / f64::from(machine.cores()),
                _ => machine.fastest(taken + cores) - machine.fastest(taken),
            };
            for (program, of) in of
                .iter_mut()
                .enumerate()
                .filter(|(program, _)| threads(*program) > 0)
            {
                *of = speed * f64::from(threads(program)) / ready as f64;
            }
            taken += cores;
        }
        *idle_cores = machine.cores() - taken;
    }

    /// The tier of the program under the policy.
    fn tier(&self, program: usize, policy: Policy) -> usize {
        let Some(entered) = self.parallel.iter().position(|other| *other == program) else {
            return 0;
        };
        match policy {
            Policy::SpeedsUnknown | Policy::PhasesUnknown => 0,
            Policy::SerialBoost => 1,
            Policy::SeniorityAlone => entered.min(1),
            Policy::Seniority => 1 + entered.min(1),
            Policy::FixedPriority => 1 + usize::from(self.parallel.iter().any(|other| *other < program)),
            Policy::Clairvoyant => 1 + entered,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::{CoreType, Program};
    use super::*;

    const POLICIES: [Policy; 7] = [
        Policy::SpeedsUnknown,
        Policy::PhasesUnknown,
        Policy::SerialBoost,
        Policy::SeniorityAlone,
        Policy::Seniority,
        Policy::FixedPriority,
        Policy::Clairvoyant,
    ];

    /// Programs of these numbers of ready threads, 0 for one a core; those with several entered in this order.
    fn speeds(machine: Machine, threads: &[u32], parallel: &[usize], policy: Policy) -> Speeds {
        let load = |threads: &u32| {
            let threads = if *threads == 0 { machine.cores() } else { *threads };
            vec![Load { threads, work: 1.0 }]
        };
        let programs: Vec<Vec<Load>> = threads.iter().map(load).collect();
        let joint = Joint {
            phases: vec![0; threads.len()],
            parallel: parallel.to_vec(),
        };
        joint.speeds(machine, &programs, policy)
    }

    fn assert_speeds(threads: &[u32], parallel: &[usize], a: f64, policy: Policy, expected: &[f64]) {
        let found = speeds(Machine::new(8, a).unwrap(), threads, parallel, policy).of;
        for (speed, expected) in found.iter().zip(expected) {
            assert!(
                (speed - expected).abs() < 1e-12,
                "{threads:?} {policy:?}: {found:?}, not {expected:?}"
            );
        }
    }

    #[test]
    fn two_programs_have_the_speeds_of_tables_1_and_5() {
        for a in [1.0, 1.5, 2.0] {
            let all = 7.0 + a;
            for policy in &POLICIES[1..] {
                assert_speeds(&[1, 1], &[], a, *policy, &[(1.0 + a) / 2.0; 2]);
            }
            for policy in [Policy::PhasesUnknown, Policy::SeniorityAlone] {
                assert_speeds(&[1, 0], &[1], a, policy, &[a * all / (a * 9.0), 8.0 / 9.0 * all]);
            }
            for policy in [Policy::SerialBoost, Policy::Seniority, Policy::Clairvoyant] {
                assert_speeds(&[1, 0], &[1], a, policy, &[a, 7.0]);
            }
            for policy in [Policy::PhasesUnknown, Policy::SerialBoost] {
                assert_speeds(&[0, 0], &[0, 1], a, policy, &[all / 2.0; 2]);
            }
            for policy in [Policy::Seniority, Policy::SeniorityAlone, Policy::Clairvoyant] {
                assert_speeds(&[0, 0], &[1, 0], a, policy, &[0.0, all]);
            }
            assert_speeds(&[0, 0], &[1, 0], a, Policy::FixedPriority, &[all, 0.0]);
            assert_speeds(&[1, 1], &[], a, Policy::SpeedsUnknown, &[all / 8.0; 2]);
        }
    }

    #[test]
    fn many_serial_programs_leave_nothing() {
        let mut threads = [1; 10];
        threads[9] = 0;
        let mut expected = [1.0; 10];
        expected[9] = 0.0;
        assert_speeds(&threads, &[9], 2.0, Policy::SerialBoost, &expected);
    }

    #[test]
    fn some_threads_take_some_cores() {
        // Twelve threads on eight cores; then one and four, and three cores to seven threads.
        assert_speeds(
            &[5, 7],
            &[0, 1],
            1.0,
            Policy::PhasesUnknown,
            &[10.0 / 3.0, 14.0 / 3.0],
        );
        assert_speeds(&[1, 4, 7], &[1, 2], 2.0, Policy::Seniority, &[2.0, 4.0, 3.0]);
        assert_speeds(&[1, 4, 7], &[2, 1], 2.0, Policy::Seniority, &[2.0, 0.0, 7.0]);
        assert_speeds(&[1, 4, 7], &[1, 2], 2.0, Policy::SeniorityAlone, &[1.2, 4.8, 3.0]);
        // The second of three parallel programs goes before the third, too.
        assert_speeds(&[4, 3, 7], &[1, 0, 2], 1.0, Policy::Clairvoyant, &[4.0, 3.0, 1.0]);
        // Three kinds of cores: the serial thread has the fastest, the two threads the next.
        let kinds = [(1, 4.0), (2, 2.0), (5, 1.0)].map(|(cores, speed)| CoreType { cores, speed });
        let machine = Machine::of_types(&kinds).unwrap();
        let found = speeds(machine, &[2, 1], &[0], Policy::SerialBoost);
        assert_eq!((found.of, found.idle_cores), (vec![4.0, 4.0], 5));
        let found = speeds(machine, &[2, 1], &[0], Policy::PhasesUnknown);
        assert!((found.of[0] - 16.0 / 3.0).abs() < 1e-12 && (found.of[1] - 8.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_program_of_one_kind_of_phase_enters_anew() {
        let machine = Machine::new(8, 1.0).unwrap();
        let programs =
            ["inf:1", "1:inf", "8x1/4x1"].map(|text| text.parse::<Program>().unwrap().loads(machine));
        let mut joint = Joint::start(&programs);
        assert_eq!(joint.parallel, [0, 2]);
        joint.end_phase(0, &programs[0]);
        joint.end_phase(1, &programs[1]);
        assert_eq!(joint.parallel, [2, 0]);
        joint.end_phase(2, &programs[2]);
        assert_eq!(
            (joint.parallel.as_slice(), joint.phase(2)),
            ([0, 2].as_slice(), 1)
        );
    }

    #[test]
    fn the_one_with_the_least_before_it_comes_first() {
        let mut joint = Joint {
            phases: vec![0; 4],
            parallel: vec![2, 3, 1, 0],
        };
        let ahead = |is_never_serial, time| Ahead {
            is_never_serial,
            time,
        };
        let of = [
            ahead(false, 2.0),
            ahead(false, 0.0),
            ahead(true, 1.0),
            ahead(false, 2.0),
        ];
        joint.order_by(|program| of[program]);
        assert_eq!(joint.parallel, [1, 3, 0, 2]);
    }

    proptest! {
        #[test]
        fn no_core_is_idle_and_none_is_used_twice(
            kinds in vec((1u32..12, 0.5..4.0f64), 1..4), threads in vec(1u32..20, 1..12), policy in 0usize..7
        ) {
            let kinds: Vec<CoreType> = kinds.into_iter().map(|(cores, speed)| CoreType { cores, speed }).collect();
            let machine = Machine::of_types(&kinds).unwrap();
            let order: Vec<usize> = (0..threads.len()).filter(|i| threads[*i] > 1).collect();
            let ready: u32 = threads.iter().sum();
            let found = speeds(machine, &threads, &order, POLICIES[policy]);
            let used = if policy == 0 {
                machine.all() * f64::from(ready.min(machine.cores())) / f64::from(machine.cores())
            } else {
                machine.fastest(ready)
            };
            prop_assert!(found.of.iter().all(|speed| *speed >= -1e-12));
            prop_assert!((found.of.iter().sum::<f64>() - used).abs() < 1e-9);
            prop_assert_eq!(found.idle_cores, machine.cores().saturating_sub(ready));
        }
    }
}
