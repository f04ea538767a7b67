// SPDX-License-Identifier: GPL-2.0-only
//! The program's options on a command line.

use clap::value_parser;

use super::{Part, Spec};

/// Rooms of users who talk to each other over TCP loopback, and how many messages they pass in a second.
///
/// Each user is a connection with two threads on either side. What one says, all others of the room hear. Server and clients
/// are one process, or with --part two, which schedulers that know programs treat as two. Every message is checked where
/// it arrives.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rooms
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=10_000))]
    pub rooms: u32,

    /// Users of each room
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(2..=10_000))]
    pub users: u32,

    /// Messages that each user sends
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
    pub messages: u32,

    /// The length of a message
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = value_parser!(u32).range(Spec::LEAST_BYTES as i64..=65_536))]
    pub bytes: u32,

    /// Which part of it this process is
    #[arg(long, value_enum, default_value_t)]
    pub part: Part,

    /// The server's port [default: any that is free]
    #[arg(long, required_if_eq_any([("part", "server"), ("part", "clients")]), value_parser = value_parser!(u16).range(1..))]
    pub port: Option<u16>,
}

impl From<Args> for Spec {
    fn from(args: Args) -> Self {
        Self {
            rooms: args.rooms,
            users: args.users,
            messages: args.messages,
            bytes: args.bytes as usize,
            part: args.part,
            port: args.port.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_reach_the_spec() {
        let spec = |line: &str| {
            let parsed = Command::try_parse_from(line.split_whitespace());
            parsed.map(|command| Spec::from(command.args))
        };
        assert_eq!(spec("chat").unwrap(), Spec::default());
        let expected = Spec {
            rooms: 2,
            users: 3,
            messages: 4,
            bytes: 12,
            part: Part::Clients,
            port: 7000,
        };
        assert_eq!(
            spec("chat --rooms 2 --users 3 --messages 4 --bytes 12 --part clients --port 7000").unwrap(),
            expected
        );
        for line in [
            "--rooms 0",
            "--users 1",
            "--messages 0",
            "--bytes 11",
            "--part server",
            "--port 0",
        ] {
            assert!(spec(&format!("chat {line}")).is_err(), "{line}");
        }
    }
}
