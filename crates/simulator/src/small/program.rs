// SPDX-License-Identifier: GPL-2.0-only
//! What runs in small worlds: programs of phases, and of threads that lock, meet, sleep and have children.

use std::fmt;

use threadwise_workload::Ratio;
use threadwise_workload::synthetic::Wait;

use super::LLC_BYTES;
use crate::Ns;
use crate::faults::Dice;
use crate::kernel::CpuIndex;
use crate::program::{Memory, Program};
use crate::programs::{Op, Play, Script, Scripted, Stage};
use crate::synthetic::Synthetic;

const UNIT_NS: Ns = 1_000;
/// Of each thread that forks; checkers look at all tasks that there ever were.
const CHILDREN: u64 = 8;

/// A program of a small world.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallProgram {
    /// Parallel to serial work of phases.
    pub ratio: Ratio,
    /// Units of 1 us of a mean phase, or of what threads do between locks.
    pub phase_units: u64,
    /// Its threads.
    pub threads: usize,
    /// Of each; 100 is nice 0.
    pub weight: u32,
    /// The CPU to which all are bound.
    pub bound_to: Option<CpuIndex>,
    /// How threads wait.
    pub wait: Wait,
    /// How those with phases use memory. If nobody does, the machine has none.
    pub memory: Memory,
    /// Of its phases.
    pub seed: u64,
    /// What threads do that have no phases.
    pub locking: Option<Locking>,
}

/// Threads without phases share a mutex.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locking {
    /// Work while it is held, in us.
    pub held_us: u64,
    /// How long they sleep each time, in us.
    pub sleep_us: u64,
    /// Whether they meet at a barrier.
    pub meets: bool,
    /// Whether they let others go first.
    pub yields: bool,
    /// Whether each at first begins children, one after the other, that take the mutex too, works on beside them, and waits
    /// until one is about to end.
    pub forks: bool,
}

impl SmallProgram {
    /// Of at most so many threads, with phases.
    pub(super) fn draw(dice: &mut Dice, most: u64, nr_cpus: usize) -> Self {
        let ratios = [
            (1.0, 1.0),
            (4.0, 1.0),
            (1.0, 4.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::INFINITY),
        ];
        let (parallel, serial) = ratios[dice.below(5) as usize];
        Self {
            ratio: Ratio::new(parallel, serial).expect("one of the five"),
            phase_units: 50 << dice.below(8),
            threads: 1 + dice.below(most.min(5)) as usize,
            weight: [100, 100, 33, 305][dice.below(4) as usize],
            bound_to: dice.one_in(5).then(|| dice.below(nr_cpus as u64) as usize),
            wait: if dice.one_in(4) {
                Wait::Active
            } else {
                Wait::Passive
            },
            memory: Memory::default(),
            seed: dice.below(1 << 32),
            locking: None,
        }
    }

    /// Whose threads are mostly at work, and each of whose working sets is most of a cache.
    pub(super) fn draw_hungry(dice: &mut Dice) -> Self {
        Self {
            ratio: Ratio::new(f64::INFINITY, 1.0).expect("one of the five"),
            threads: 3 + dice.below(2) as usize,
            bound_to: None,
            memory: Memory {
                working_set_bytes: LLC_BYTES - LLC_BYTES / 8,
                accesses_per_us: 20 << dice.below(2),
                is_shared: true,
                ..Memory::default()
            },
            ..Self::draw(dice, 4, 1)
        }
    }

    /// Whether it uses caches.
    pub(super) fn uses_memory(&self) -> bool {
        self.memory.accesses_per_us > 0
    }

    /// What runs.
    pub(super) fn program(&self) -> Box<dyn Program> {
        if let Some(locking) = &self.locking {
            return Box::new(Scripted::new(self.play(locking)));
        }
        let synthetic = Synthetic::new(
            self.ratio,
            self.phase_units,
            UNIT_NS,
            self.threads,
            self.wait,
            self.seed,
        );
        Box::new(synthetic.with_memory(self.memory))
    }

    fn play(&self, locking: &Locking) -> Play {
        let work = Op::Compute(self.phase_units * UNIT_NS);
        let held = [Op::Lock(0), Op::Compute(locking.held_us * UNIT_NS), Op::Unlock(0)];
        let optional = |is_done: bool, op: Op| is_done.then_some(op);
        let mut ops = vec![work];
        if self.uses_memory() {
            ops = vec![Op::Use(self.memory), work, Op::Use(self.memory.at_rest())];
        }
        ops.extend(held);
        ops.extend(optional(locking.meets, Op::Barrier(0)));
        ops.extend(optional(
            locking.sleep_us > 0,
            Op::Sleep(locking.sleep_us * UNIT_NS),
        ));
        ops.extend(optional(locking.yields, Op::Yield));
        let forking = [&ops[..], &[Op::Fork(1), work, Op::Take(0)]].concat();
        let parent = vec![
            Stage {
                ops: forking,
                repeats: Some(if locking.forks { CHILDREN } else { 0 }),
            },
            Stage { ops, repeats: None },
        ];
        let child = vec![Stage {
            ops: [&held[..], &[work, Op::Post(0)]].concat(),
            repeats: Some(1),
        }];
        let script = |name: &str, instances: usize, passes, stages| Script {
            name: name.to_owned(),
            instances: instances as u32,
            delay: 0,
            weight: self.weight,
            cpus: self.bound_to.into_iter().collect(),
            stages,
            passes,
        };
        Play {
            scripts: vec![
                script("parent", self.threads, None, parent),
                script("child", 0, Some(1), child),
            ],
            nr_mutexes: 1,
            spin_ns: match self.wait {
                Wait::Active => 20_000,
                Wait::Passive => 0,
            },
            barriers: vec![self.threads as u64],
            nr_semaphores: 1,
            ..Play::default()
        }
    }
}

impl Locking {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        Self {
            held_us: 1 + dice.below(500),
            sleep_us: dice.below(2) * dice.below(2_000),
            meets: dice.one_in(2),
            yields: dice.one_in(4),
            forks: dice.one_in(2),
        }
    }
}

impl fmt::Display for SmallProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a program of {} threads, ", self.threads)?;
        match &self.locking {
            None => write!(f, "{}, phases of {} us", self.ratio, self.phase_units)?,
            Some(locking) => {
                let Locking {
                    held_us, sleep_us, ..
                } = locking;
                write!(
                    f,
                    "{} us and {held_us} us under a mutex, sleep of {sleep_us} us",
                    self.phase_units
                )?;
                let told = [
                    (locking.meets, ", a barrier"),
                    (locking.yields, ", yielding"),
                    (locking.forks, ", a child each"),
                ];
                let told = told.into_iter().filter(|(is_so, _)| *is_so);
                told.map(|(_, what)| what)
                    .try_for_each(|what| f.write_str(what))?;
            }
        }
        write!(f, ", weight {}", self.weight)?;
        if self.wait == Wait::Active {
            f.write_str(", spinning")?;
        }
        if let Some(cpu) = self.bound_to {
            write!(f, ", bound to CPU {cpu}")?;
        }
        if self.uses_memory() {
            let whose = if self.memory.is_shared {
                "of all"
            } else {
                "of each"
            };
            let (kib, accesses) = (self.memory.working_set_bytes >> 10, self.memory.accesses_per_us);
            write!(f, ", {kib} KiB {whose} read {accesses} times a us")?;
        }
        write!(f, ", seed {}", self.seed)
    }
}
