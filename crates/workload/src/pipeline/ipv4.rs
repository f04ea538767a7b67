// SPDX-License-Identifier: GPL-2.0-only
//! What a router checks and changes in an IPv4 header (RFC 791, RFC 1812).

use super::packet::Drop;

/// Bytes before the IPv4 header: two MAC addresses and the EtherType.
pub const ETHERNET_BYTES: usize = 14;
/// The EtherType of IPv4, in network order.
pub const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;

const TTL: usize = 8;
const CHECKSUM: usize = 10;

/// The IPv4 header, options included, of an Ethernet frame that passes the tests of RFC 1812, section 5.2.2.
///
/// # Errors
/// Why a router drops the frame: malformed or a wrong checksum.
pub fn header(frame: &mut [u8]) -> Result<&mut [u8], Drop> {
    if frame.get(12..ETHERNET_BYTES) != Some(&ETHERTYPE_IPV4[..]) {
        return Err(Drop::Malformed);
    }
    let packet = &mut frame[ETHERNET_BYTES..];
    let &mut [version_and_words, _, high, low, ..] = packet else {
        return Err(Drop::Malformed);
    };
    let header_bytes = usize::from(version_and_words & 0xf) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([high, low]));
    let is_ipv4 = version_and_words >> 4 == 4 && header_bytes >= HEADER_BYTES;
    if !is_ipv4 || total_bytes < header_bytes || total_bytes > packet.len() {
        return Err(Drop::Malformed);
    }
    let header = &mut packet[..header_bytes];
    if fold(sum(header)) != 0xffff {
        return Err(Drop::BadChecksum);
    }
    Ok(header)
}

/// The destination of a [`header`].
pub fn destination(header: &[u8]) -> u32 {
    u32::from_be_bytes([header[16], header[17], header[18], header[19]])
}

/// Whether a router forwards unicast packets to this address: not to this network (0/8) or the loopback (127/8), nor,
/// as they have no unicast route, to multicast (224/4) or class E with the limited broadcast (240/4). RFC 1812,
/// sections 4.2.2.11 and 5.3.7.
pub fn is_routable(destination: u32) -> bool {
    !matches!(destination >> 24, 0 | 127 | 224..)
}

/// Lowers the time to live by one and mends the checksum by equation 3 of RFC 1624, HC' = ~(~HC + ~m + m').
///
/// # Errors
/// [`Drop::TtlExpired`] if the packet may not be forwarded any more (RFC 1812, section 5.3.1).
pub fn decrement_ttl(header: &mut [u8]) -> Result<(), Drop> {
    if header[TTL] <= 1 {
        return Err(Drop::TtlExpired);
    }
    let word = |header: &[u8], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (checksum, before) = (word(header, CHECKSUM), word(header, TTL));
    header[TTL] -= 1;
    let after = word(header, TTL);
    let mended = !fold(u64::from(!checksum) + u64::from(!before) + u64::from(after));
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&mended.to_be_bytes());
    Ok(())
}

/// Writes the checksum of a header (RFC 791).
#[cfg(test)]
pub fn write_checksum(header: &mut [u8]) {
    header[CHECKSUM..CHECKSUM + 2].fill(0);
    let checksum = !fold(sum(header));
    header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum of the 16-bit words of `bytes`, the last padded with a zero; to be [`fold`]ed (RFC 1071).
pub fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let whole: u64 = words
        .by_ref()
        .map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let odd = words.remainder().first().map_or(0, |byte| u64::from(*byte) << 8);
    whole + odd
}

/// The ones' complement sum in 16 bits: carries are added again until there is none.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of an IPv4 header with `ttl` and nothing else.
    fn frame(ttl: u8) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_BYTES + HEADER_BYTES];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
        frame[14] = 0x45;
        frame[17] = 20;
        frame[14 + TTL] = ttl;
        frame[30..34].copy_from_slice(&[10, 1, 2, 3]);
        write_checksum(&mut frame[14..]);
        frame
    }

    #[test]
    fn the_checksum_is_that_of_a_known_header() {
        // The header of the example in RFC 1071's terms that textbooks use: 45 00 00 73 ... checksum b861.
        let mut header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
            0xa8, 0x00, 0xc7,
        ];
        write_checksum(&mut header);
        assert_eq!(header[CHECKSUM..CHECKSUM + 2], [0xb8, 0x61]);
    }

    #[test]
    fn a_good_header_passes_and_tells_its_destination() {
        let mut frame = frame(64);
        assert_eq!(destination(header(&mut frame).unwrap()), 0x0a01_0203);
    }

    #[test]
    fn each_fault_is_told() {
        let with = |at: usize, value: u8| {
            let mut frame = frame(64);
            frame[at] = value;
            header(&mut frame).unwrap_err()
        };
        assert_eq!(with(13, 0x06), Drop::Malformed); // ARP
        assert_eq!(with(14, 0x65), Drop::Malformed); // version 6
        assert_eq!(with(14, 0x44), Drop::Malformed); // 16 bytes of header
        assert_eq!(with(14, 0x4f), Drop::Malformed); // 60 bytes of header
        assert_eq!(with(17, 19), Drop::Malformed); // shorter than its header
        assert_eq!(with(17, 21), Drop::Malformed); // longer than the frame
        assert_eq!(with(20, 1), Drop::BadChecksum);
        for bytes in 0..frame(64).len() {
            assert_eq!(header(&mut frame(64)[..bytes]).unwrap_err(), Drop::Malformed);
        }
    }

    #[test]
    fn martians_have_no_route() {
        for routable in [0x0100_0000, 0x0a00_0001, 0x7eff_ffff, 0x8000_0000, 0xdfff_ffff] {
            assert!(is_routable(routable), "{routable:#x}");
        }
        for martian in [0, 0x00ff_ffff, 0x7f00_0001, 0xe000_0001, 0xf000_0000, u32::MAX] {
            assert!(!is_routable(martian), "{martian:#x}");
        }
    }

    #[test]
    fn the_last_hop_is_not_taken() {
        for ttl in [0, 1] {
            let mut frame = frame(ttl);
            let before = frame.clone();
            assert_eq!(decrement_ttl(header(&mut frame).unwrap()), Err(Drop::TtlExpired));
            assert_eq!(frame, before);
        }
    }

    proptest! {
        #[test]
        fn the_mended_checksum_is_the_computed_one(bytes: [u8; 20], ttl in 2u8..) {
            let mut mended = bytes;
            mended[TTL] = ttl;
            write_checksum(&mut mended);
            decrement_ttl(&mut mended).unwrap();
            prop_assert_eq!(mended[TTL], ttl - 1);
            prop_assert_eq!(fold(sum(&mended)), 0xffff);
        }

        #[test]
        fn no_frame_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..100), is_ipv4: bool) {
            if is_ipv4 && bytes.len() > 14 {
                bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4);
                bytes[14] = 0x40 | bytes[14] & 0xf;
            }
            if let Ok(header) = header(&mut bytes) {
                let _ = decrement_ttl(header);
            }
        }
    }
}
