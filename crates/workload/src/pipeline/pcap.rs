// SPDX-License-Identifier: GPL-2.0-only
//! Packets from a pcap file, replayed over and over.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use pcap_parser::nom::{self, IResult};
use pcap_parser::{
    LegacyPcapBlock, Linktype, PcapError, PcapHeader, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
};

use super::Error;
use super::ipv4::{ETHERNET_BYTES, ETHERTYPE_IPV4};
use super::packet::{FRAME_CAPACITY, Packet};
use super::source::{PacketSource, Received};

/// The largest file: it is read into memory.
const MAX_BYTES: u64 = 1 << 30;

/// The IPv4 packets of a file, without end. Frames of other protocols, frames that were cut when they were captured,
/// and frames longer than a buffer are left out.
#[derive(Debug)]
pub struct Replay {
    file: Vec<u8>,
    /// Where in the file the frames lie; at least one.
    frames: Vec<Range<usize>>,
    next: usize,
}

impl Replay {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is not a pcap file of Ethernet frames, is cut short, or has no frame to replay.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = read(path).map_err(|reason| Error::File {
            action: "read",
            path: path.to_owned(),
            reason,
            advice: "give --pcap a pcap file",
        })?;
        let frames = frames(&file).map_err(|problem| Error::Pcap {
            path: path.to_owned(),
            problem,
        })?;
        Ok(Self {
            file,
            frames,
            next: 0,
        })
    }
}

impl PacketSource for Replay {
    fn receive(&mut self, packet: &mut Packet) -> Result<Received, Error> {
        packet.copy_from(&self.file[self.frames[self.next].clone()]);
        self.next += 1;
        if self.next == self.frames.len() {
            self.next = 0;
        }
        Ok(Received::Packet)
    }
}

/// Up to one byte more than the largest file has, which [`frames`] then complains of.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

type ParseFrame = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// Where the frames to replay lie, at least one; or what is wrong with the file.
fn frames(file: &[u8]) -> Result<Vec<Range<usize>>, String> {
    if file.len() as u64 > MAX_BYTES {
        return Err(format!(
            "it is larger than {MAX_BYTES} bytes; cut it with `editcap -c`"
        ));
    }
    let (mut rest, header) = parse_pcap_header(file).map_err(|_| {
        "it does not begin like a pcap file; if it is a pcapng file, convert it with `editcap -F pcap`"
            .to_owned()
    })?;
    if header.network != Linktype::ETHERNET {
        return Err(format!(
            "its link type is {}, not 1, Ethernet; capture on an Ethernet interface",
            header.network.0
        ));
    }
    let parse = parser(&header);
    let (mut frames, mut nr) = (Vec::new(), 0u64);
    while !rest.is_empty() {
        let at = file.len() - rest.len();
        let (after, record) = parse(rest).map_err(|error| truncated(nr, at, &error))?;
        let end = file.len() - after.len();
        if is_whole_ipv4(&record) {
            frames.push(end - record.data.len()..end);
        }
        nr += 1;
        rest = after;
    }
    if frames.is_empty() {
        return Err(format!(
            "none of its {nr} frames is a whole IPv4 packet of at most {FRAME_CAPACITY} bytes; capture some, without \
             a snapshot length"
        ));
    }
    Ok(frames)
}

fn parser(header: &PcapHeader) -> ParseFrame {
    if header.is_modified_format() {
        parse_pcap_frame_modified
    } else if header.is_bigendian() {
        parse_pcap_frame_be
    } else {
        parse_pcap_frame
    }
}

fn truncated(nr: u64, at: usize, error: &nom::Err<PcapError<&[u8]>>) -> String {
    let reason = match error {
        nom::Err::Incomplete(_) => "ends beyond the file",
        nom::Err::Error(_) | nom::Err::Failure(_) => "is not a record",
    };
    format!("record {nr} at byte {at} {reason}: the file is cut short or damaged; repair it with `pcapfix`")
}

fn is_whole_ipv4(record: &LegacyPcapBlock<'_>) -> bool {
    let frame = record.data;
    frame.len() <= FRAME_CAPACITY
        && record.origlen as usize <= frame.len()
        && frame.get(12..ETHERNET_BYTES) == Some(&ETHERTYPE_IPV4[..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::source::Generator;
    use super::*;

    /// A file of the given link type and frames, each with the length it had on the wire.
    fn file(link_type: u32, frames: &[(&[u8], u32)]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, link_type] {
            file.extend(u32::to_le_bytes(word));
        }
        for (frame, wire_bytes) in frames {
            for word in [1, 2, frame.len() as u32, *wire_bytes] {
                file.extend(word.to_le_bytes());
            }
            file.extend(*frame);
        }
        file
    }

    fn generated(nr: usize) -> Vec<Vec<u8>> {
        let mut generator = Generator::new(1, 64, 1);
        let mut packet = Packet::default();
        let frame = |_| {
            generator.receive(&mut packet).unwrap();
            packet.frame().to_vec()
        };
        (0..nr).map(frame).collect()
    }

    fn open(file: &[u8]) -> Result<Replay, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.pcap");
        std::fs::write(&path, file).unwrap();
        Replay::open(&path)
    }

    #[test]
    fn ipv4_packets_are_replayed_in_a_loop() {
        let frames = generated(2);
        let mut arp = frames[0].clone();
        arp[13] = 6;
        let long = [&frames[0][..], &[0; 2000]].concat();
        let file = file(
            1,
            &[
                (&arp, 60),
                (&frames[0], 60),
                (&frames[1][..40], 60),
                (&long, 2060),
                (&[], 0),
                (&frames[1], 60),
            ],
        );
        let mut replay = open(&file).unwrap();
        let mut packet = Packet::default();
        for expected in frames.iter().cycle().take(5) {
            assert_eq!(replay.receive(&mut packet).unwrap(), Received::Packet);
            assert_eq!(packet.frame(), expected);
        }
    }

    #[test]
    fn big_endian_files_are_read() {
        let frames = generated(1);
        let mut file = file(1, &[(&frames[0], 60)]);
        file[..24].chunks_exact_mut(4).for_each(<[u8]>::reverse);
        // Two numbers of two bytes each changed places with their bytes.
        file[4..8].copy_from_slice(&[0, 2, 0, 4]);
        file[24..40].chunks_exact_mut(4).for_each(<[u8]>::reverse);
        assert_eq!(open(&file).unwrap().frames, vec![40..100; 1]);
    }

    #[test]
    fn what_cannot_be_replayed_is_told() {
        let frames = generated(1);
        let good = file(1, &[(&frames[0], 60), (&frames[0], 60)]);
        for (file, expected) in [
            (&b""[..], "does not begin like a pcap file"),
            (&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0], "editcap -F pcap"),
            (&good[..23], "does not begin like a pcap file"),
            (&good[..24], "none of its 0 frames"),
            (
                &good[..good.len() - 1],
                "record 1 at byte 100 ends beyond the file",
            ),
            (&good[..110], "record 1 at byte 100 ends beyond the file"),
            (&file(113, &[(&frames[0], 60)]), "link type is 113"),
            (
                &file(1, &[(&frames[0], 61), (&frames[0][..10], 10)]),
                "none of its 2 frames",
            ),
        ] {
            let error = open(file).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("packets.pcap"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Replay::open(Path::new("/no/such.pcap")).unwrap_err();
        assert!(error.to_string().contains("/no/such.pcap"), "{error}");
    }

    proptest! {
        #[test]
        fn no_file_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), magic in 0usize..6) {
            let magics = [0xa1b2_c3d4u32, 0xa1b2_3c4d, 0xa1b2_cd34, 0xd4c3_b2a1, 0x4d3c_b2a1];
            if let (Some(magic), Some(start)) = (magics.get(magic), bytes.first_chunk_mut()) {
                *start = magic.to_le_bytes();
            }
            if bytes.len() >= 24 {
                bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
            }
            for range in frames(&bytes).unwrap_or_default() {
                prop_assert!(range.start <= range.end && range.end <= bytes.len());
            }
        }
    }
}
