// SPDX-License-Identifier: GPL-2.0-only
//! Messages on a connection: of one length, each begins with its room, its user and its number.

use std::io::{self, Read};

/// Three numbers of four bytes.
pub(super) const HEADER_BYTES: usize = 12;

/// Who says it, and which of theirs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) room: u32,
    pub(super) user: u32,
    pub(super) number: u32,
}

impl Header {
    /// Writes it to the beginning of a message.
    pub(super) fn write(self, message: &mut [u8]) {
        let fields = [self.room, self.user, self.number];
        for (to, field) in message.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
    }

    /// Reads it from there.
    pub(super) fn read(message: &[u8]) -> Self {
        let field = |at: usize| {
            let bytes = message[4 * at..4 * at + 4].try_into();
            u32::from_le_bytes(bytes.expect("four bytes are four bytes"))
        };
        Self {
            room: field(0),
            user: field(1),
            number: field(2),
        }
    }
}

/// Reads the next message; false if none comes any more.
///
/// # Errors
/// If the connection breaks, or ends within a message.
pub(super) fn next(mut from: impl Read, message: &mut [u8]) -> io::Result<bool> {
    let begun = loop {
        match from.read(message) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if begun == 0 {
        return Ok(false);
    }
    from.read_exact(&mut message[begun..])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_are_written() {
        let header = Header {
            room: 1,
            user: 0x0102_0304,
            number: u32::MAX,
        };
        let mut message = [7; 20];
        header.write(&mut message);
        assert_eq!(Header::read(&message), header);
        assert_eq!(message[HEADER_BYTES..], [7; 8]);
    }

    #[test]
    fn a_connection_ends_between_messages() {
        let mut message = [0; 4];
        assert!(next(&[1, 2, 3, 4][..], &mut message).unwrap());
        assert_eq!(message, [1, 2, 3, 4]);
        assert!(!next(&[][..], &mut message).unwrap());
        assert!(next(&[1, 2, 3][..], &mut message).is_err());
    }
}
