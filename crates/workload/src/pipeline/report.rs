// SPDX-License-Identifier: GPL-2.0-only
//! What a run of the pipeline did.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::packet::Drop;
use super::{Source, Variant, Wait};

/// Name and version of the report's JSON form.
pub const SCHEMA: &str = "threadwise.bench.pipeline/1";

/// The result of a run: what was asked for, then what was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What P did with a packet.
    pub variant: Variant,
    /// Size of the forwarding table, in bytes.
    pub table_bytes: u64,
    /// Look-ups for each packet.
    pub lookups: u32,
    /// Integer operations for each packet.
    pub operations: u32,
    /// Where the packets came from.
    pub source: Source,
    /// The interface that they left by; absent if they stayed in memory.
    pub interface_out: Option<String>,
    /// How threads waited for each other.
    pub wait: Wait,
    /// Packet buffers.
    pub buffers: u32,
    /// Seed of the generated packets and of the forwarding table.
    pub seed: u64,
    /// CLOCK_MONOTONIC when R began, in ns.
    pub started_at_ns: u64,
    /// From when R began to when T was done with the last packet, measured, in s.
    pub duration_s: f64,
    /// A signal ended the run before its time.
    pub interrupted: bool,
    /// Packets transmitted.
    pub packets: u64,
    /// `packets` / `duration_s`; 0 if the run was interrupted before it began.
    pub packets_per_s: f64,
    /// Packets received: those transmitted and those dropped.
    pub received: u64,
    /// Packets dropped, by reason.
    pub drops: Drops,
    /// How often each thread had nothing to do.
    pub polls: Polls,
    /// Packets that came to the interface and were lost before R received them, as R was slower than the traffic;
    /// absent for other sources.
    pub lost_by_interface: Option<u64>,
}

/// Packets that were received and not transmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// Not IPv4, or lengths that contradict each other.
    pub malformed: u64,
    /// Wrong header checksum.
    pub bad_checksum: u64,
    /// Time to live used up.
    pub ttl_expired: u64,
    /// No route to the destination.
    pub no_route: u64,
    /// The interface had no room for them when the run stopped.
    pub unsent: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.malformed + self.bad_checksum + self.ttl_expired + self.no_route + self.unsent
    }

    pub(super) fn count(&mut self, reason: Drop) {
        let counter = match reason {
            Drop::Malformed => &mut self.malformed,
            Drop::BadChecksum => &mut self.bad_checksum,
            Drop::TtlExpired => &mut self.ttl_expired,
            Drop::NoRoute => &mut self.no_route,
        };
        *counter += 1;
    }
}

/// How often each thread looked for something to do and found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polls {
    /// R: no free buffer, or no packet at the interface.
    pub receive: u64,
    /// P: nothing received.
    pub process: u64,
    /// T: nothing processed, or no room at the interface.
    pub transmit: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wait = match self.wait {
            Wait::Spin => "spin",
            Wait::Yield => "yield",
        };
        write!(f, "pipeline {} table {} bytes", self.variant, self.table_bytes)?;
        if self.operations > 0 {
            write!(f, " {} operations", self.operations)?;
        }
        writeln!(f, " buffers {} seed {} ({wait} wait)", self.buffers, self.seed)?;
        let end = if self.interrupted { ", interrupted" } else { "" };
        writeln!(
            f,
            "  {:.0} packets/s: {} packets in {:.3} s{end}",
            self.packets_per_s, self.packets, self.duration_s
        )?;
        let drops = &self.drops;
        writeln!(
            f,
            "  {} received, {} dropped: {} malformed, {} checksum, {} expired, {} no route, {} unsent",
            self.received,
            drops.total(),
            drops.malformed,
            drops.bad_checksum,
            drops.ttl_expired,
            drops.no_route,
            drops.unsent
        )?;
        if let Some(lost) = self.lost_by_interface {
            writeln!(f, "  {lost} lost at the interface before they were received")?;
        }
        let polls = &self.polls;
        writeln!(
            f,
            "  polls: R {}, P {}, T {}",
            polls.receive, polls.process, polls.transmit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            variant: Variant::IntDiv,
            table_bytes: 16384,
            lookups: 1,
            operations: 200,
            source: Source::default(),
            interface_out: None,
            wait: Wait::Yield,
            buffers: 128,
            seed: 1,
            started_at_ns: 5,
            duration_s: 2.0,
            interrupted: true,
            packets: 30,
            packets_per_s: 15.0,
            received: 33,
            drops: Drops {
                ttl_expired: 2,
                unsent: 1,
                ..Drops::default()
            },
            polls: Polls {
                receive: 7,
                process: 8,
                transmit: 9,
            },
            lost_by_interface: None,
        }
    }

    #[test]
    fn the_text_tells_the_result() {
        let expected = "\
pipeline intdiv table 16384 bytes 200 operations buffers 128 seed 1 (yield wait)
  15 packets/s: 30 packets in 2.000 s, interrupted
  33 received, 3 dropped: 0 malformed, 0 checksum, 2 expired, 0 no route, 1 unsent
  polls: R 7, P 8, T 9
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn json_reads_back() {
        let json = serde_json::to_string(&report()).unwrap();
        let start = r#"{"schema":"threadwise.bench.pipeline/1","variant":"intdiv","table_bytes":16384"#;
        assert!(json.starts_with(start), "{json}");
        assert!(
            json.contains(r#""source":{"kind":"generated","flows":64,"packet_bytes":64}"#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report());
    }
}
