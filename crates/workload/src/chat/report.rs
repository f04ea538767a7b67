// SPDX-License-Identifier: GPL-2.0-only
//! What came of it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Spec;

/// Name and version of the report's JSON form.
pub const SCHEMA: &str = "threadwise.bench.chat/1";

/// The result of a run: what was asked for, then how it went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Rooms.
    pub rooms: u32,
    /// Users of each.
    pub users: u32,
    /// What each said.
    pub messages: u32,
    /// The length of a message.
    pub bytes: usize,
    /// One for each user.
    pub connections: u64,
    /// Those that talk and listen, on both sides.
    pub threads: u64,
    /// Messages that users sent.
    pub sent: u64,
    /// Messages that users received, each checked and counted.
    pub received: u64,
    /// From when all were connected to when all had heard everything, in s.
    pub duration_s: f64,
    /// Sent and received together, a second.
    pub messages_per_s: f64,
}

impl Report {
    pub(super) fn of(spec: &Spec, received: u64, duration: Duration) -> Self {
        let duration_s = duration.as_secs_f64().max(1e-9);
        let sent = spec.sent();
        Self {
            schema: SCHEMA.to_owned(),
            rooms: spec.rooms,
            users: spec.users,
            messages: spec.messages,
            bytes: spec.bytes,
            connections: spec.connections(),
            threads: 4 * spec.connections(),
            sent,
            received,
            duration_s,
            messages_per_s: (sent + received) as f64 / duration_s,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "chat: {} rooms of {} users, {} threads; {} messages sent and {} received in {:.3} s",
            self.rooms, self.users, self.threads, self.sent, self.received, self.duration_s
        )?;
        writeln!(f, "  messages a second: {:.1}", self.messages_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_the_result() {
        let spec = Spec {
            rooms: 20,
            ..Spec::default()
        };
        let report = Report::of(&spec, 760_000, Duration::from_secs(8));
        let expected = "\
chat: 20 rooms of 20 users, 1600 threads; 40000 messages sent and 760000 received in 8.000 s
  messages a second: 100000.0
";
        assert_eq!(report.to_string(), expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
