// SPDX-License-Identifier: GPL-2.0-only
//! Where R has packets from.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use super::Error;
use super::ipv4::{ETHERTYPE_IPV4, fold, sum};
use super::packet::{Packet, Stamp};

/// A device that gives packets.
pub trait PacketSource: Send {
    /// Fills a buffer, if there is a packet.
    ///
    /// # Errors
    /// If the device fails for good.
    fn receive(&mut self, packet: &mut Packet) -> Result<Received, Error>;

    /// Packets that the device threw away before they could be received, where it knows.
    fn lost(&self) -> Option<u64> {
        None
    }
}

/// What a device had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet.
    Packet,
    /// None now: try again.
    Nothing,
}

const UDP_AT: usize = 34;
const FCS_BYTES: u16 = 4;

/// UDP packets from addresses in 172.16.0.0/12, one for each flow, to random ones in 10.0.0.0/8, all of a size.
///
/// Destinations are random within a flow too: so a few flows, whose numbers T keeps in its L1d, reach the whole
/// forwarding table.
#[derive(Debug)]
pub struct Generator {
    generator: Pcg64,
    /// The next sequence number of each flow.
    next: Vec<u64>,
    /// The frame but for addresses, stamp and checksums.
    template: Vec<u8>,
    /// The sums of what stays the same of what the checksums cover: a packet adds its own words only.
    ip_sum: u64,
    udp_sum: u64,
}

impl Generator {
    /// `flows` flows of packets of `packet_bytes` bytes with FCS, which is at least 64.
    pub fn new(flows: u32, packet_bytes: u16, seed: u64) -> Self {
        let mut template = template(packet_bytes - FCS_BYTES);
        let none = Stamp { flow: 0, sequence: 0 };
        template[Stamp::AT..Stamp::AT + Stamp::BYTES].copy_from_slice(&none.to_bytes());
        let udp = &template[UDP_AT..];
        // RFC 768: the pseudo header has the addresses, the protocol and the length.
        let udp_sum = sum(udp) + 17 + udp.len() as u64;
        let ip_sum = sum(&template[14..UDP_AT]);
        Self {
            // The stream is the default one of the PCG reference implementation, as rand_pcg documents it.
            generator: Pcg64::new(u128::from(seed), 0xa02_bdbf_7bb3_c0a7_ac28_fa16_a64a_bf96),
            next: vec![0; flows as usize],
            template,
            ip_sum,
            udp_sum,
        }
    }
}

impl PacketSource for Generator {
    fn receive(&mut self, packet: &mut Packet) -> Result<Received, Error> {
        let random = self.generator.next_u64();
        let flow = (((random & 0xffff_ffff) * self.next.len() as u64) >> 32) as u32;
        let due = &mut self.next[flow as usize];
        let sequence = *due;
        *due += 1;
        let (from, to) = (0xac10_0000 | flow, 0x0a00_0000 | (random >> 40) as u32);
        let addresses = words(from.into()) + words(to.into());
        let udp_checksum = match !fold(self.udp_sum + addresses + words(flow.into()) + words(sequence)) {
            0 => 0xffff, // zero stands for none (RFC 768)
            checksum => checksum,
        };
        packet.copy_from(&self.template);
        let frame = packet.frame_mut();
        frame[24..26].copy_from_slice(&(!fold(self.ip_sum + addresses)).to_be_bytes());
        frame[26..30].copy_from_slice(&from.to_be_bytes());
        frame[30..34].copy_from_slice(&to.to_be_bytes());
        frame[40..42].copy_from_slice(&udp_checksum.to_be_bytes());
        frame[Stamp::AT..Stamp::AT + Stamp::BYTES].copy_from_slice(&Stamp { flow, sequence }.to_bytes());
        Ok(Received::Packet)
    }
}

/// The sum of the 16-bit words of a number.
fn words(number: u64) -> u64 {
    (number >> 48) + (number >> 32 & 0xffff) + (number >> 16 & 0xffff) + (number & 0xffff)
}

/// A frame of UDP to port 9, discard (RFC 863).
fn template(frame_bytes: u16) -> Vec<u8> {
    let mut frame = vec![0; usize::from(frame_bytes)];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
    frame[14] = 0x45; // version 4, five words
    frame[16..18].copy_from_slice(&(frame_bytes - 14).to_be_bytes());
    frame[22] = 64; // time to live (RFC 1700)
    frame[23] = 17; // UDP
    frame[34..36].copy_from_slice(&49152u16.to_be_bytes());
    frame[36..38].copy_from_slice(&9u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(frame_bytes - 34).to_be_bytes());
    for (at, byte) in frame[Stamp::AT + Stamp::BYTES..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    frame
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::ipv4;
    use super::*;

    fn frames(flows: u32, packet_bytes: u16, seed: u64) -> Vec<Vec<u8>> {
        let mut generator = Generator::new(flows, packet_bytes, seed);
        let mut packet = Packet::default();
        let frame = |_| {
            assert_eq!(generator.receive(&mut packet).unwrap(), Received::Packet);
            packet.frame().to_vec()
        };
        (0..1000).map(frame).collect()
    }

    /// Sums as a receiver does: over the pseudo header and all of UDP.
    fn udp_sum(frame: &[u8]) -> u16 {
        fold(sum(&frame[26..34]) + 17 + (frame.len() - 34) as u64 + sum(&frame[34..]))
    }

    #[test]
    fn packets_are_valid_at_every_size() {
        for packet_bytes in [64, 65, 128, 1517, 1518] {
            for mut frame in frames(3, packet_bytes, 1) {
                assert_eq!(frame.len(), usize::from(packet_bytes) - 4);
                assert_eq!(udp_sum(&frame), 0xffff);
                assert_ne!(frame[40..42], [0, 0]);
                assert!(ipv4::header(&mut frame).is_ok());
            }
        }
    }

    #[test]
    fn a_seed_fixes_the_packets() {
        assert_eq!(frames(3, 64, 7), frames(3, 64, 7));
        assert_ne!(frames(3, 64, 7), frames(3, 64, 8));
    }

    #[test]
    fn flows_are_numbered_by_themselves_and_have_addresses_of_their_own() {
        let mut next = [0; 5];
        let mut sources = BTreeSet::new();
        for frame in frames(5, 64, 1) {
            let stamp = Stamp::of(&frame).unwrap();
            assert_eq!(stamp.sequence, next[stamp.flow as usize]);
            next[stamp.flow as usize] += 1;
            sources.insert(frame[26..30].to_vec());
        }
        assert!(next.iter().all(|packets| *packets > 100), "{next:?}");
        assert_eq!(sources.len(), 5);
    }

    #[test]
    fn destinations_hardly_repeat() {
        let frames = frames(1, 64, 1);
        let destinations: BTreeSet<_> = frames.iter().map(|frame| &frame[30..34]).collect();
        assert!(destinations.len() > 990, "{}", destinations.len());
    }
}
