// SPDX-License-Identifier: GPL-2.0-only
//! A packet buffer, and the number that a generated packet carries.

/// The longest frame that a buffer holds; an Ethernet frame without FCS has 1514 bytes, 1518 with a VLAN tag.
pub const FRAME_CAPACITY: usize = 1584;

/// A packet buffer: 25 cache lines of 64 bytes. The number is odd so that the headers of successive buffers fall into
/// different sets of a cache; with a power of two, a hundred of them would evict each other from an L1d of 32 KiB.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Packet {
    /// Its place in the order of arrival, from 0.
    pub arrival: u64,
    bytes: u16,
    /// The number of the next hop, by P.
    pub next_hop: u16,
    /// P will not have it forwarded.
    pub is_dropped: bool,
    frame: [u8; FRAME_CAPACITY],
}

const _: () = assert!(size_of::<Packet>() == 25 * 64);

impl Default for Packet {
    fn default() -> Self {
        Self {
            arrival: 0,
            bytes: 0,
            next_hop: 0,
            is_dropped: false,
            frame: [0; FRAME_CAPACITY],
        }
    }
}

impl Packet {
    /// The frame, from the MAC header on, without FCS.
    pub fn frame(&self) -> &[u8] {
        &self.frame[..usize::from(self.bytes)]
    }

    /// The frame, to be changed.
    pub fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.frame[..usize::from(self.bytes)]
    }

    /// The whole buffer, for a source to fill; [`Packet::set_bytes`] says how far.
    pub fn buffer(&mut self) -> &mut [u8; FRAME_CAPACITY] {
        &mut self.frame
    }

    /// Makes the frame the first `bytes` of the buffer, at most all.
    pub fn set_bytes(&mut self, bytes: usize) {
        self.bytes = bytes.min(FRAME_CAPACITY) as u16;
    }

    /// Copies a frame in; what does not fit is cut off.
    pub fn copy_from(&mut self, frame: &[u8]) {
        self.set_bytes(frame.len());
        let bytes = usize::from(self.bytes);
        self.frame[..bytes].copy_from_slice(&frame[..bytes]);
    }
}

/// Why P does not have a packet forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// Not IPv4, or lengths that contradict each other.
    Malformed,
    /// The header's checksum is wrong.
    BadChecksum,
    /// Its time to live is used up.
    TtlExpired,
    /// There is no route to its destination.
    NoRoute,
}

/// What a generated packet carries at the beginning of its UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The flow, from 0.
    pub flow: u32,
    /// Its place in the flow, from 0.
    pub sequence: u64,
}

impl Stamp {
    /// Where it lies in a frame: behind the headers of Ethernet, IPv4 without options, and UDP.
    pub const AT: usize = 14 + 20 + 8;
    /// Its size.
    pub const BYTES: usize = 16;
    const MAGIC: [u8; 4] = *b"twpl";

    /// As it stands in a packet, in network order.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&Self::MAGIC);
        bytes[4..8].copy_from_slice(&self.flow.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_be_bytes());
        bytes
    }

    /// That of a frame, if it has one.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (magic, rest) = frame.get(Self::AT..)?.split_first_chunk()?;
        let (flow, rest) = rest.split_first_chunk()?;
        let sequence = rest.first_chunk()?;
        (*magic == Self::MAGIC).then(|| Self {
            flow: u32::from_be_bytes(*flow),
            sequence: u64::from_be_bytes(*sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back() {
        let stamp = Stamp {
            flow: 7,
            sequence: 1 << 40,
        };
        let mut frame = [0; Stamp::AT + Stamp::BYTES];
        frame[Stamp::AT..].copy_from_slice(&stamp.to_bytes());
        assert_eq!(Stamp::of(&frame), Some(stamp));
        assert_eq!(Stamp::of(&frame[..frame.len() - 1]), None);
        frame[Stamp::AT] ^= 1;
        assert_eq!(Stamp::of(&frame), None);
        assert_eq!(Stamp::of(&[]), None);
    }

    #[test]
    fn a_frame_that_does_not_fit_is_cut() {
        let mut packet = Packet::default();
        packet.copy_from(&[7; 2000]);
        assert_eq!(packet.frame(), [7; FRAME_CAPACITY]);
        packet.copy_from(&[8; 3]);
        assert_eq!(packet.frame(), [8; 3]);
    }
}
