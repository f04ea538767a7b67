// SPDX-License-Identifier: GPL-2.0-only
//! A pipeline: a thread for each stage, each bound to a CPU or not, and a queue of limited length between neighbours. Whoever
//! waits, for a packet or for room, polls, as the strands of blackbox-scheduler's programs do (section 4.2).

use std::cell::Cell;
use std::rc::Rc;

use crate::Ns;
use crate::kernel::CpuIndex;
use crate::program::{Futex, Memory, Program, Step};

/// What a thread of a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineStage {
    /// For a packet, on the fastest CPU with nobody beside it, at least 1.
    pub ns: Ns,
    /// How it uses memory meanwhile.
    pub memory: Memory,
    /// The one CPU that it is bound to, if it is.
    pub cpu: Option<CpuIndex>,
}

/// What has come out of a pipeline so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets that the last stage is done with.
    pub nr_packets: u64,
    /// When it was done with the last of them.
    pub last_at: Ns,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Take,
    Work,
    Pass,
}

/// What a thread polls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polls {
    Nothing,
    Packet,
    Room,
}

/// A pipeline whose first stage always has a packet.
pub struct Pipeline {
    stages: Vec<PipelineStage>,
    /// Packets between each stage and the next, at most `capacity`.
    queued: Vec<u32>,
    capacity: u32,
    next: Vec<Next>,
    polls: Vec<Polls>,
    forwarded: Rc<Cell<Forwarded>>,
}

impl Pipeline {
    /// Of at least one stage, with queues of this length, at least 1.
    pub fn new(stages: Vec<PipelineStage>, capacity: u32) -> Self {
        Self {
            queued: vec![0; stages.len().saturating_sub(1)],
            capacity: capacity.max(1),
            next: vec![Next::Take; stages.len()],
            polls: vec![Polls::Nothing; stages.len()],
            forwarded: Rc::default(),
            stages,
        }
    }

    /// Shows what has come out of it, while a [`crate::World`] has the program.
    pub fn forwarded(&self) -> Rc<Cell<Forwarded>> {
        Rc::clone(&self.forwarded)
    }

    /// Waits; the futex of a thread has its number.
    fn poll(&mut self, thread: usize, what: Polls) -> Step {
        self.polls[thread] = what;
        Step::Spin(thread as Futex)
    }

    /// A neighbour has changed a queue: who polled for that goes on.
    fn tell(&mut self, thread: usize, what: Polls) -> Option<Step> {
        if self.polls[thread] != what {
            return None;
        }
        self.polls[thread] = Polls::Nothing;
        Some(Step::WakeOne(thread as Futex))
    }

    /// The step that taking a packet comes to, if any.
    fn take(&mut self, thread: usize) -> Option<Step> {
        if thread > 0 {
            if self.queued[thread - 1] == 0 {
                return Some(self.poll(thread, Polls::Packet));
            }
            self.queued[thread - 1] -= 1;
        }
        self.next[thread] = Next::Work;
        match thread {
            0 => None,
            _ => self.tell(thread - 1, Polls::Room),
        }
    }

    /// The step that passing a packet on comes to, if any.
    fn pass(&mut self, thread: usize, now: Ns) -> Option<Step> {
        let Some(queued) = self.queued.get_mut(thread) else {
            self.next[thread] = Next::Take;
            self.forwarded.set(Forwarded {
                nr_packets: self.forwarded.get().nr_packets + 1,
                last_at: now,
            });
            return None;
        };
        if *queued == self.capacity {
            return Some(self.poll(thread, Polls::Room));
        }
        *queued += 1;
        self.next[thread] = Next::Take;
        self.tell(thread + 1, Polls::Packet)
    }
}

impl Program for Pipeline {
    fn nr_threads(&self) -> usize {
        self.stages.len()
    }

    fn next(&mut self, thread: usize, now: Ns) -> Step {
        loop {
            let step = match self.next[thread] {
                Next::Take => self.take(thread),
                Next::Pass => self.pass(thread, now),
                Next::Work => {
                    self.next[thread] = Next::Pass;
                    Some(Step::Compute(self.stages[thread].ns.max(1)))
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn cpus(&self, thread: usize) -> &[CpuIndex] {
        self.stages[thread].cpu.as_slice()
    }

    fn memory(&self, thread: usize) -> Memory {
        self.stages[thread].memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(ns: Ns) -> PipelineStage {
        PipelineStage {
            ns,
            memory: Memory::default(),
            cpu: None,
        }
    }

    /// Steps a thread until it would compute or poll.
    fn until_busy(pipeline: &mut Pipeline, thread: usize) -> Step {
        loop {
            match pipeline.next(thread, 7) {
                Step::WakeOne(_) => {}
                step => return step,
            }
        }
    }

    #[test]
    fn who_has_nothing_to_do_polls_and_is_told() {
        let mut pipeline = Pipeline::new(vec![stage(10), stage(20)], 2);
        let forwarded = pipeline.forwarded();
        assert_eq!(pipeline.next(1, 0), Step::Spin(1));
        assert_eq!(pipeline.next(0, 0), Step::Compute(10));
        // The packet is there, so who polls for it goes on; once.
        assert_eq!(pipeline.next(0, 0), Step::WakeOne(1));
        assert_eq!(until_busy(&mut pipeline, 0), Step::Compute(10));
        assert_eq!(until_busy(&mut pipeline, 0), Step::Compute(10));
        // Two are in the queue, so the third finds no room.
        assert_eq!(until_busy(&mut pipeline, 0), Step::Spin(0));
        assert_eq!(pipeline.next(1, 5), Step::WakeOne(0));
        assert_eq!(pipeline.next(1, 5), Step::Compute(20));
        assert_eq!(forwarded.get().nr_packets, 0);
        until_busy(&mut pipeline, 1);
        assert_eq!(
            forwarded.get(),
            Forwarded {
                nr_packets: 1,
                last_at: 7
            }
        );
    }

    #[test]
    fn no_packet_is_lost_or_made() {
        let mut pipeline = Pipeline::new(vec![stage(1), stage(2), stage(3), stage(4)], 3);
        let forwarded = pipeline.forwarded();
        let (mut received, mut turn) = (0, 0u64);
        for _ in 0..10_000 {
            // Threads take turns in an order that has no period of theirs.
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let thread = (turn >> 33) as usize % 4;
            if pipeline.next(thread, turn) == Step::Compute(1) {
                received += 1;
            }
            assert!(pipeline.queued.iter().all(|&nr| nr <= 3));
            let held = |next: &Next| u64::from(*next == Next::Pass);
            let taken = |(thread, next): (usize, &Next)| u64::from(thread > 0 && *next == Next::Work);
            let inside = pipeline.queued.iter().map(|&nr| u64::from(nr)).sum::<u64>()
                + pipeline.next.iter().map(held).sum::<u64>()
                + pipeline.next.iter().enumerate().map(taken).sum::<u64>();
            assert_eq!(received, forwarded.get().nr_packets + inside);
        }
        assert!(forwarded.get().nr_packets > 500);
    }
}
