// SPDX-License-Identifier: GPL-2.0-only
//! How packets go from stage to stage: by lock-free queues with one producer and one consumer each (rtrb).
//!
//! Every queue has room for all buffers of the pool, so that only R ever waits for room: for a free buffer.

use clap::ValueEnum;
use rtrb::{Consumer, Producer};
use serde::{Deserialize, Serialize};

use super::packet::Packet;

/// How a thread waits that has nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Poll without a break, as strands of Netra DPS do; for threads that have a CPU each.
    Spin,
    /// Call sched_yield(2) between polls, so that three threads share fewer CPUs well.
    #[default]
    Yield,
}

/// The waiting of one thread, counted.
#[derive(Debug)]
pub struct Idle {
    wait: Wait,
    /// How often there was nothing to do.
    pub polls: u64,
}

impl Idle {
    /// Has not waited yet.
    pub fn new(wait: Wait) -> Self {
        Self { wait, polls: 0 }
    }

    /// Waits a moment.
    #[inline]
    pub fn poll(&mut self) {
        self.polls += 1;
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Yield => std::thread::yield_now(),
        }
    }
}

/// The end of a queue that takes packets.
pub type Sender<'pool> = Producer<&'pool mut Packet>;
/// The end of a queue that gives packets.
pub type Receiver<'pool> = Consumer<&'pool mut Packet>;

/// The next packet of a queue, once there is one; `None` when there will be none, as its sender is gone.
#[inline]
pub fn next<'pool>(queue: &mut Receiver<'pool>, idle: &mut Idle) -> Option<&'pool mut Packet> {
    loop {
        if let Ok(packet) = queue.pop() {
            return Some(packet);
        }
        if queue.is_abandoned() {
            // What the sender pushed last may have come after the look above.
            return queue.pop().ok();
        }
        idle.poll();
    }
}

/// Puts a packet into a queue.
#[inline]
pub fn hand_over<'pool>(queue: &mut Sender<'pool>, packet: &'pool mut Packet) {
    let pushed = queue.push(packet);
    assert!(pushed.is_ok(), "a queue has room for every buffer of the pool");
}

#[cfg(test)]
mod tests {
    use rtrb::RingBuffer;

    use super::*;

    #[test]
    fn what_was_sent_last_comes_before_the_end() {
        let mut packets: Vec<Packet> = (0..1000).map(|_| Packet::default()).collect();
        let (mut sender, mut receiver) = RingBuffer::new(packets.len());
        let pool = packets.iter_mut();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (arrival, packet) in (0..).zip(pool) {
                    packet.arrival = arrival;
                    hand_over(&mut sender, packet);
                }
            });
            let mut idle = Idle::new(Wait::Yield);
            for expected in 0..1000 {
                assert_eq!(next(&mut receiver, &mut idle).unwrap().arrival, expected);
            }
            assert!(next(&mut receiver, &mut idle).is_none());
        });
    }

    #[test]
    fn polls_are_counted() {
        for wait in [Wait::Spin, Wait::Yield] {
            let mut idle = Idle::new(wait);
            (0..5).for_each(|_| idle.poll());
            assert_eq!(idle.polls, 5);
        }
    }
}
