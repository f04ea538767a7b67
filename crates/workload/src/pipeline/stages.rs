// SPDX-License-Identifier: GPL-2.0-only
//! R, P and T: what each of the three threads does, from its first packet to its last.
//!
//! A stage ends when the one before it has, with all that it was sent; R ends at the stop. Stages count in values of
//! their own, which they return at the end, so that no two threads write to a common cache line but in the queues.

use super::check::Order;
use super::counter::Counter;
use super::ipv4;
use super::packet::{Drop, Packet, Stamp};
use super::queue::{Idle, Receiver, Sender, hand_over, next};
use super::report::Drops;
use super::sink::{PacketSink, Sent};
use super::source::{PacketSource, Received};
use super::table::Table;
use super::variant::Operation;
use super::work;
use super::{Error, Wait};
use crate::stop::{Stop, now_ns};

/// The receiving stage.
pub struct Receive<'a, 'pool> {
    pub source: &'a mut dyn PacketSource,
    /// Buffers that T has sent back.
    pub free: Receiver<'pool>,
    pub out: Sender<'pool>,
    pub stop: &'static Stop,
    /// How many packets to receive at most.
    pub packets: u64,
    pub wait: Wait,
}

/// What R did.
#[derive(Debug)]
pub struct ReceiveEnd {
    pub started_at_ns: u64,
    pub packets: u64,
    pub polls: u64,
}

impl Receive<'_, '_> {
    /// Until the stop or the last packet asked for.
    ///
    /// # Errors
    /// If the source fails.
    pub fn run(mut self) -> Result<ReceiveEnd, Error> {
        let mut idle = Idle::new(self.wait);
        let started_at_ns = now_ns();
        let mut packets = 0;
        while packets < self.packets && !self.stop.is_set() {
            let Ok(packet) = self.free.pop() else {
                idle.poll();
                continue;
            };
            if !self.fill(packet, &mut idle)? {
                break;
            }
            packet.arrival = packets;
            packet.is_dropped = false;
            packets += 1;
            hand_over(&mut self.out, packet);
        }
        Ok(ReceiveEnd {
            started_at_ns,
            packets,
            polls: idle.polls,
        })
    }

    /// Waits for a packet; false if the run stops before.
    fn fill(&mut self, packet: &mut Packet, idle: &mut Idle) -> Result<bool, Error> {
        loop {
            match self.source.receive(packet)? {
                Received::Packet => return Ok(true),
                Received::Nothing if self.stop.is_set() => return Ok(false),
                Received::Nothing => idle.poll(),
            }
        }
    }
}

/// What P does with one packet.
#[derive(Debug)]
pub struct Processor<'a> {
    pub table: &'a Table,
    pub lookups: u32,
    pub work: Option<(Operation, u32)>,
}

impl Processor<'_> {
    /// Checks the header, lowers the time to live, looks the next hop up, writes it, and does the variant's work.
    ///
    /// # Errors
    /// Why the packet is not to be forwarded; its next hop is then unchanged.
    #[inline]
    pub fn process(&self, packet: &mut Packet) -> Result<(), Drop> {
        let header = ipv4::header(packet.frame_mut())?;
        let destination = ipv4::destination(header);
        if !ipv4::is_routable(destination) {
            return Err(Drop::NoRoute);
        }
        ipv4::decrement_ttl(header)?;
        packet.next_hop = self.table.next_hop(destination, self.lookups, |_| ());
        if let Some((operation, times)) = self.work {
            // The result is of no use, but `work` makes sure that it is computed.
            work::perform(operation, times, u64::from(destination));
        }
        Ok(())
    }
}

/// The processing stage.
pub struct Process<'a, 'pool> {
    pub processor: Processor<'a>,
    pub input: Receiver<'pool>,
    pub out: Sender<'pool>,
    pub wait: Wait,
}

/// What P did.
#[derive(Debug)]
pub struct ProcessEnd {
    pub drops: Drops,
    pub polls: u64,
}

impl Process<'_, '_> {
    /// Until R has ended. What is dropped goes to T as well, marked, as only T sends buffers back.
    pub fn run(mut self) -> ProcessEnd {
        let mut idle = Idle::new(self.wait);
        let mut drops = Drops::default();
        while let Some(packet) = next(&mut self.input, &mut idle) {
            if let Err(reason) = self.processor.process(packet) {
                packet.is_dropped = true;
                drops.count(reason);
            }
            hand_over(&mut self.out, packet);
        }
        ProcessEnd {
            drops,
            polls: idle.polls,
        }
    }
}

/// The transmitting stage.
pub struct Transmit<'a, 'pool> {
    pub sink: &'a mut dyn PacketSink,
    pub input: Receiver<'pool>,
    /// To R.
    pub free: Sender<'pool>,
    pub order: Order,
    /// Packets carry the generator's stamps; else their order of arrival is checked, as one flow.
    pub is_stamped: bool,
    pub counter: &'a Counter,
    pub stop: &'static Stop,
    pub wait: Wait,
}

/// What T did.
#[derive(Debug)]
pub struct TransmitEnd {
    pub finished_at_ns: u64,
    pub packets: u64,
    /// Packets that the sink had no room for when the run stopped.
    pub unsent: u64,
    pub polls: u64,
}

impl Transmit<'_, '_> {
    /// Until P has ended.
    ///
    /// # Errors
    /// If the sink fails, or a packet is not the next of its flow.
    pub fn run(mut self) -> Result<TransmitEnd, Error> {
        let mut idle = Idle::new(self.wait);
        let (mut packets, mut unsent) = (0, 0);
        while let Some(packet) = next(&mut self.input, &mut idle) {
            self.order.check(self.stamp(packet)?)?;
            if !packet.is_dropped {
                if self.send(packet, &mut idle)? {
                    packets += 1;
                    self.counter.set(packets);
                } else {
                    unsent += 1;
                }
            }
            hand_over(&mut self.free, packet);
        }
        Ok(TransmitEnd {
            finished_at_ns: now_ns(),
            packets,
            unsent,
            polls: idle.polls,
        })
    }

    fn stamp(&self, packet: &Packet) -> Result<Stamp, Error> {
        let arrival = packet.arrival;
        if self.is_stamped {
            Stamp::of(packet.frame()).ok_or(Error::NoStamp { arrival })
        } else {
            Ok(Stamp {
                flow: 0,
                sequence: arrival,
            })
        }
    }

    /// Rewrites the MAC header and sends the frame once there is room; false if the run stops before.
    fn send(&mut self, packet: &mut Packet, idle: &mut Idle) -> Result<bool, Error> {
        let next_hop = mac_of(packet.next_hop);
        if let Some((addresses, _)) = packet.frame_mut().split_first_chunk_mut::<12>() {
            addresses[..6].copy_from_slice(&next_hop);
            addresses[6..].copy_from_slice(&self.sink.mac());
        }
        while self.sink.send(packet.frame())? == Sent::Busy {
            if self.stop.is_set() {
                return Ok(false);
            }
            idle.poll();
        }
        Ok(true)
    }
}

/// The MAC address of a next hop: locally administered, unicast (IEEE 802, section 8.4).
fn mac_of(next_hop: u16) -> [u8; 6] {
    let [high, low] = next_hop.to_be_bytes();
    [0x02, 0, 0, 1, high, low]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::source::Generator;
    use super::*;

    fn generated() -> Packet {
        let mut packet = Packet::default();
        Generator::new(1, 64, 1).receive(&mut packet).unwrap();
        packet
    }

    fn processor(table: &Table) -> Processor<'_> {
        Processor {
            table,
            lookups: 1,
            work: None,
        }
    }

    #[test]
    fn a_packet_gets_a_hop_and_loses_a_life() {
        let table = Table::new(1 << 16, 1).unwrap();
        let mut packet = generated();
        let before = packet.frame().to_vec();
        packet.next_hop = u16::MAX;
        processor(&table).process(&mut packet).unwrap();
        assert!(u64::from(packet.next_hop) < table.bytes() / 64);
        assert_eq!(packet.frame()[22], before[22] - 1);
        // The checksum still holds; all else is as it was.
        assert!(ipv4::header(packet.frame_mut()).is_ok());
        assert_eq!(packet.frame()[..22], before[..22]);
        assert_eq!(packet.frame()[26..], before[26..]);
    }

    #[test]
    fn each_kind_of_bad_packet_is_dropped_for_its_reason() {
        let table = Table::new(64, 1).unwrap();
        let outcome = |change: fn(&mut [u8]), mend: bool| {
            let mut packet = generated();
            change(packet.frame_mut());
            if mend {
                ipv4::write_checksum(&mut packet.frame_mut()[14..34]);
            }
            processor(&table).process(&mut packet)
        };
        assert_eq!(outcome(|_| (), true), Ok(()));
        assert_eq!(outcome(|frame| frame[24] ^= 1, false), Err(Drop::BadChecksum));
        assert_eq!(outcome(|frame| frame[22] = 1, true), Err(Drop::TtlExpired));
        assert_eq!(outcome(|frame| frame[30] = 127, true), Err(Drop::NoRoute));
        assert_eq!(outcome(|frame| frame[12] = 0, false), Err(Drop::Malformed));
    }

    /// The time that P takes for `packets` packets with so much work each.
    fn time(table: &Table, work: (Operation, u32), packets: u32) -> Duration {
        let processor = Processor {
            work: Some(work),
            ..processor(table)
        };
        let template = generated();
        let mut packet = Packet::default();
        let start = Instant::now();
        for _ in 0..packets {
            packet.copy_from(template.frame());
            processor.process(&mut packet).unwrap();
        }
        start.elapsed()
    }

    /// How often as long the one work takes as the other, by the median of 15 pairs.
    fn ratio(one: (Operation, u32), other: (Operation, u32)) -> f64 {
        let table = Table::new(16 << 10, 1).unwrap();
        let mut ratios: Vec<f64> = (0..15)
            .map(|_| time(&table, one, 20).as_secs_f64() / time(&table, other, 20).as_secs_f64())
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios[7]
    }

    #[test]
    fn four_times_the_divisions_take_about_four_times_as_long() {
        let ratio = ratio((Operation::Divide, 4000), (Operation::Divide, 1000));
        assert!((2.5..6.0).contains(&ratio), "{ratio}");
    }

    /// A multiplication has three to five times the latency of an addition on the processors that this is built for
    /// (uops.info: `IMUL` 3 and `ADD` 1 on Intel since Nehalem and on AMD Zen).
    #[test]
    fn multiplications_take_longer_than_as_many_additions() {
        let ratio = ratio((Operation::Multiply, 20_000), (Operation::Add, 20_000));
        assert!(ratio > 1.5, "{ratio}");
    }

    #[test]
    fn next_hops_have_different_addresses() {
        assert_eq!(mac_of(0x1234), [2, 0, 0, 1, 0x12, 0x34]);
        assert_ne!(mac_of(1), mac_of(2));
    }
}
