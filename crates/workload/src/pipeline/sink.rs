// SPDX-License-Identifier: GPL-2.0-only
//! Where T sends packets to.

use super::Error;

/// A device that takes packets.
pub trait PacketSink: Send {
    /// The address that T writes as the sender's.
    fn mac(&self) -> [u8; 6];

    /// Takes a frame, or says that it has no room now.
    ///
    /// # Errors
    /// If the device fails for good.
    fn send(&mut self, frame: &[u8]) -> Result<Sent, Error>;
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The device has it.
    Sent,
    /// There was no room: try again.
    Busy,
}

/// Memory as a device: it has read nothing when a frame comes back.
#[derive(Debug)]
pub struct Memory;

impl PacketSink for Memory {
    fn mac(&self) -> [u8; 6] {
        [0x02, 0, 0, 0, 0, 1]
    }

    #[inline]
    fn send(&mut self, _frame: &[u8]) -> Result<Sent, Error> {
        Ok(Sent::Sent)
    }
}
