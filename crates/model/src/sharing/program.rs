// SPDX-License-Identifier: GPL-2.0-only
//! Programs: pipelines of threads, by what each thread asks of the hardware for a packet.

use super::Error;

/// What a thread executes, for a packet or for a turn of a loop. Means, so fractions are fine; none is below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// All instructions, those below included. Each takes an issue slot.
    pub instructions: f64,
    /// Loads that hit the L1. Those that may miss are a stage's `accesses`.
    pub loads: f64,
    /// Stores. They go through to the L2 (the L1 of the T2 is write-through: spec) but nobody waits for them.
    pub stores: f64,
    /// Branches that are taken.
    pub taken_branches: f64,
    /// Integer multiplications.
    pub multiplications: f64,
    /// Integer divisions.
    pub divisions: f64,
    /// Cycles that the thread waits for what nobody shares, such as registers of a device.
    pub stall_cycles: f64,
}

impl Work {
    fn is_sound(&self) -> bool {
        let of_some_kind = [
            self.loads,
            self.stores,
            self.taken_branches,
            self.multiplications,
            self.divisions,
        ];
        of_some_kind
            .iter()
            .chain([&self.instructions, &self.stall_cycles])
            .all(|value| value.is_finite() && *value >= 0.0)
            && of_some_kind.iter().sum::<f64>() <= self.instructions
    }
}

/// Who has one copy of a region of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each thread.
    Thread,
    /// Each instance, for all its stages.
    Instance,
    /// All instances together.
    Program,
}

/// Memory that is accessed uniformly at random.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// What it holds.
    pub name: String,
    /// The size of a copy, above 0.
    pub bytes: f64,
    /// Who has a copy.
    pub sharing: Sharing,
}

/// A thread of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What it is called, such as R.
    pub name: String,
    /// What it executes for a packet, beside `accesses`.
    pub work: Work,
    /// Loads from each region for a packet, in the order of [`Program::regions`]. Each is an instruction as well, and
    /// waits for its result.
    pub accesses: Vec<f64>,
}

/// What passing a packet from a stage to the next costs when they are on different cores: lines that the other side has
/// written since, and that therefore have to come from the L2. On one core they are in the L1 that both share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Message {
    /// Lines that the sender reads.
    pub sender_reads: f64,
    /// Lines that the receiver reads.
    pub receiver_reads: f64,
}

/// A pipeline of threads. Each packet goes through all stages, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What it is called.
    pub name: String,
    /// At least one.
    pub stages: Vec<Stage>,
    /// What its threads read.
    pub regions: Vec<Region>,
    /// Between neighbouring stages.
    pub message: Message,
    /// A turn of the loop in which a stage waits, for its next packet or for room to pass one on. [`Work::default`] for
    /// threads that sleep.
    pub poll: Work,
}

impl Program {
    /// # Errors
    /// If there is no stage, a number is not finite or below 0, a stage does nothing, or kinds of instructions add up
    /// to more than all.
    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |problem: String| {
            Err(Error::Program {
                program: self.name.clone(),
                problem,
            })
        };
        let is_good = |value: f64| value.is_finite() && value >= 0.0;
        if self.stages.is_empty() {
            return fail("there is no stage, and a pipeline has at least one".to_string());
        }
        if let Some(region) = self
            .regions
            .iter()
            .find(|region| !is_good(region.bytes) || region.bytes == 0.0)
        {
            return fail(format!(
                "region {} has {} bytes, it must have some",
                region.name, region.bytes
            ));
        }
        if !is_good(self.message.sender_reads) || !is_good(self.message.receiver_reads) {
            return fail(format!("{:?} must be finite and not below 0", self.message));
        }
        if !self.poll.is_sound() {
            return fail(format!(
                "the poll loop is no mix of instructions: {:?}",
                self.poll
            ));
        }
        for stage in &self.stages {
            if !stage.work.is_sound() || stage.work.instructions <= 0.0 {
                let (name, work) = (&stage.name, &stage.work);
                return fail(format!("stage {name} is no mix of instructions: {work:?}"));
            }
            if stage.accesses.len() != self.regions.len()
                || !stage.accesses.iter().all(|value| is_good(*value))
            {
                return fail(format!(
                    "stage {} has accesses {:?}, it must have one of 0 or more for each of {} regions",
                    stage.name,
                    stage.accesses,
                    self.regions.len()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ipfwd;
    use super::*;

    fn refuse(spoil: impl Fn(&mut Program), expected: &str) {
        let mut program = ipfwd("intadd").unwrap();
        assert_eq!(program.check(), Ok(()));
        spoil(&mut program);
        let error = program.check().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("program intadd: {expected}")),
            "{error}"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        refuse(|program| program.stages.clear(), "there is no stage");
        refuse(
            |program| program.regions[0].bytes = 0.0,
            "region private has 0 bytes",
        );
        refuse(|program| program.message.sender_reads = -1.0, "Message {");
        refuse(|program| program.poll.loads = 99.0, "the poll loop is no mix");
        refuse(
            |program| program.stages[0].work = Work::default(),
            "stage R is no mix",
        );
        refuse(
            |program| program.stages[1].work.divisions = f64::NAN,
            "stage P is no mix",
        );
        refuse(
            |program| program.stages[2].accesses.clear(),
            "stage T has accesses []",
        );
    }
}
