// SPDX-License-Identifier: GPL-2.0-only
//! IPFwd, the packet forwarder of "BlackBox Scheduler" (called *blackbox* below), section 4.3, as a program of three
//! real threads.
//!
//! R receives a packet and writes its pointer to the R -> P queue, P checks the header and looks the next hop up, T
//! transmits. The nine variants of the paper differ in what P does. A packet is in exactly one place at a time: a
//! stage owns it by a `&mut`, and what owns it in between is a queue; none is copied and none is lost, which
//! [`run`] checks.
//!
//! Deliberately absent: routing protocols, longest prefixes (IPFwd hashes, and every destination that hashes to an
//! entry has that entry's next hop), ICMP errors for what is dropped, fragments, IPv6. The library prints nothing and
//! pins nothing: whoever profiles thread assignments finds the threads by their names, `R`, `P` and `T`.
//!
//! Start at [`run`], then `stages.rs`.

mod args;
mod check;
mod counter;
mod interface;
mod ipv4;
mod packet;
mod pcap;
mod program;
mod queue;
mod report;
mod sink;
mod source;
mod stages;
mod table;
mod variant;
mod work;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use args::Args;
pub use program::run;
pub use queue::Wait;
pub use report::{Drops, Polls, Report, SCHEMA};
pub use variant::{MemoryClass, Operation, Variant};

use crate::SignalError;

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// What P does with a packet.
    pub variant: Variant,
    /// Integer operations for each packet; only for the variants that have some, whose default is
    /// [`Spec::DEFAULT_OPERATIONS`].
    pub operations: Option<u32>,
    /// Size of the forwarding table in bytes, 64 to [`Spec::MAX_TABLE_BYTES`], rounded down to whole entries of 64
    /// bytes; `None` is what the variant's memory class means on this machine, see [`MemoryClass`].
    pub table_bytes: Option<u64>,
    /// Where R has the packets from.
    pub source: Source,
    /// The interface through which T sends packets; `None` hands them back to memory.
    pub interface_out: Option<String>,
    /// How threads wait for each other.
    pub wait: Wait,
    /// Packet buffers, 1 to [`Spec::MAX_BUFFERS`]: as many packets are between R and T at most.
    pub buffers: u32,
    /// When to stop receiving, above zero.
    pub duration: Option<Duration>,
    /// How many packets to receive at most, at least 1. The first of the two ends the run.
    pub packets: Option<u64>,
    /// Seed of the generated packets and of the forwarding table.
    pub seed: u64,
    /// A file that holds, while the program runs, the packets transmitted so far: 8 bytes, little-endian.
    ///
    /// It is written by memory-mapping: who shortens it meanwhile kills the program (SIGBUS).
    pub counter: Option<PathBuf>,
    /// How often to tell the rate, above zero.
    pub interval: Option<Duration>,
    /// SIGINT and SIGTERM end the run early instead of what they did before. One run of a process at a time can.
    pub catch_interrupts: bool,
}

impl Spec {
    /// Operations for each packet where nothing is said: more than the rest of P does.
    pub const DEFAULT_OPERATIONS: u32 = 200;
    /// The largest forwarding table.
    pub const MAX_TABLE_BYTES: u64 = 16 << 30;
    /// The most packet buffers.
    pub const MAX_BUFFERS: u32 = 1 << 16;
    /// The most generated flows: the addresses of 172.16.0.0/12.
    pub const MAX_FLOWS: u32 = 1 << 20;
}

impl Default for Spec {
    /// `hash1_L1` on generated packets in memory for 10 s; signals are left alone.
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            operations: None,
            table_bytes: None,
            source: Source::default(),
            interface_out: None,
            wait: Wait::default(),
            // The lines of a buffer that a 64-byte packet uses are two: 16 KiB in all leave room in any L1d.
            buffers: 128,
            duration: Some(Duration::from_secs(10)),
            packets: None,
            seed: 1,
            counter: None,
            interval: None,
            catch_interrupts: false,
        }
    }
}

/// Where the packets come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Source {
    /// Made by R: UDP from addresses in 172.16.0.0/12, one for each flow, to random ones in 10.0.0.0/8.
    Generated {
        /// Senders, 1 to [`Spec::MAX_FLOWS`].
        flows: u32,
        /// Size as RFC 2544 counts, 64 to 1518 bytes: an Ethernet frame with the 4 bytes of FCS that hardware adds.
        packet_bytes: u16,
    },
    /// The IPv4 packets of a pcap file of Ethernet frames, over and over. It is read into memory first.
    Pcap {
        /// The file.
        path: PathBuf,
    },
    /// What an interface receives, by an AF_PACKET socket (packet(7)); needs CAP_NET_RAW.
    Interface {
        /// As `ip link` calls it.
        name: String,
    },
}

impl Source {
    /// Few enough for R and T to keep their sequence numbers in a corner of the L1d.
    pub const DEFAULT_FLOWS: u32 = 64;
    /// The smallest packets, which stress a forwarder most.
    pub const DEFAULT_PACKET_BYTES: u16 = 64;
}

impl Default for Source {
    /// Generated packets.
    fn default() -> Self {
        Self::Generated {
            flows: Self::DEFAULT_FLOWS,
            packet_bytes: Self::DEFAULT_PACKET_BYTES,
        }
    }
}

/// Why the program did not run, or ran wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number that makes no sense.
    #[error("{what} of {value} is out of range: it must be {expected}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number.
        value: u64,
        /// What it may be.
        expected: String,
    },
    /// Nothing would end the run.
    #[error("the run has no end: give a duration or a number of packets")]
    NoEnd,
    /// Integer operations for a variant that has none.
    #[error("{variant} performs no integer operations: leave them out, or take intadd, intmul or intdiv")]
    NoOperations {
        /// The variant.
        variant: Variant,
    },
    /// The caches that a memory class is measured by are unknown.
    #[error(
        "the size of this machine's {cache} is unknown: {reason}; give the size of the table, --table-bytes"
    )]
    UnknownCache {
        /// Which cache.
        cache: &'static str,
        /// Why it is unknown.
        reason: String,
    },
    /// No memory for the forwarding table.
    #[error("no memory for a forwarding table of {bytes} bytes: ask for less with --table-bytes")]
    TableMemory {
        /// Its size.
        bytes: u64,
    },
    /// A file could not be opened, read or mapped.
    #[error("cannot {action} {}: {reason}; {advice}", path.display())]
    File {
        /// What was to be done with it.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A pcap file that cannot be replayed.
    #[error("cannot replay {}: {problem}", path.display())]
    Pcap {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        problem: String,
    },
    /// An interface that cannot be used.
    #[error("{call} on interface {interface} failed: {reason}; {advice}")]
    Interface {
        /// The system call.
        call: &'static str,
        /// As it was given.
        interface: String,
        /// The system's reason.
        reason: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A thread could not be created.
    #[error("cannot create thread {name}: {reason}; raise `ulimit -u`")]
    Thread {
        /// Its name.
        name: &'static str,
        /// The system's reason.
        reason: io::Error,
    },
    /// Signals could not be caught.
    #[error(transparent)]
    Signals(#[from] SignalError),
    /// A packet came to T out of its flow's order, or those before it never came: a fault of this program.
    #[error(
        "flow {flow}: T got packet {found} where {expected} was due; the pipeline lost or reordered packets"
    )]
    Order {
        /// The flow.
        flow: u32,
        /// The sequence number that was due.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// A generated packet came to T without what the generator wrote: a fault of this program.
    #[error("T got a packet without a valid flow number and sequence number, the {arrival}. to arrive")]
    NoStamp {
        /// Its place in the order of arrival, from 0.
        arrival: u64,
    },
    /// Packets vanished, or came twice: a fault of this program.
    #[error("{received} packets were received, but {transmitted} transmitted and {dropped} dropped")]
    Balance {
        /// By R.
        received: u64,
        /// By T.
        transmitted: u64,
        /// By P and T, for all reasons.
        dropped: u64,
    },
}
