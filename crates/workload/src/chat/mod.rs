// SPDX-License-Identifier: GPL-2.0-only
//! Rooms whose users talk to each other over TCP loopback: the chat benchmark of "Performance Evaluation of a New Scheduling
//! Algorithm for the Simultaneous MultiThreading Microprocessor" (ht-scheduling), Figs. 11 and 12 and Table 1.
//!
//! Each user is a connection with four threads: on either side one sends and one receives. What a user says goes to
//! the server and from there to all others of the room. The work is fixed, and nearly all of it is wake-ups and the kernel's
//! sockets. Every message is looked at where it arrives: from whom, and whether it is the next.
//!
//! Start at [`run`].

mod args;
mod clients;
mod message;
mod report;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use clap::ValueEnum;

pub use args::Args;
pub use report::{Report, SCHEMA};

/// How long either side waits for the other to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread's stack: there are thousands, and they do little.
const STACK_BYTES: usize = 128 << 10;

/// Which part of it a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The server and its clients
    #[default]
    Both,
    /// The server, until its clients have left
    Server,
    /// The clients of a server that another process is
    Clients,
}

/// What to run. A server and its clients are given the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Rooms; at least one.
    pub rooms: u32,
    /// Users of each room; at least two, or nobody hears anything.
    pub users: u32,
    /// What each user says; at least one.
    pub messages: u32,
    /// The length of a message, from [`Spec::LEAST_BYTES`].
    pub bytes: usize,
    /// Server, clients, or both.
    pub part: Part,
    /// The server's port; 0 is any that is free, which only both in one process find.
    pub port: u16,
}

impl Spec {
    /// Room, user and number.
    pub const LEAST_BYTES: usize = message::HEADER_BYTES;

    /// One for each user.
    pub fn connections(&self) -> u64 {
        u64::from(self.rooms) * u64::from(self.users)
    }

    /// What all users say.
    pub fn sent(&self) -> u64 {
        self.connections() * u64::from(self.messages)
    }
}

impl Default for Spec {
    /// Ten rooms of 20 users that send 100 messages of 100 bytes, in one process.
    fn default() -> Self {
        Self {
            rooms: 10,
            users: 20,
            messages: 100,
            bytes: 100,
            part: Part::Both,
            port: 0,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It makes no sense.
    #[error(
        "chat needs a room, two users in each, a message, and {} bytes",
        Spec::LEAST_BYTES
    )]
    Senseless,
    /// A system call failed.
    #[error(
        "cannot {what}: {source}; each user takes a socket and two threads on either side (ulimit -n, ulimit -u)"
    )]
    System {
        /// What it was for.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The other side did not come.
    #[error(
        "{missing} of {expected} users did not come within {PATIENCE:?}: give server and clients the same --rooms and --users"
    )]
    Absent {
        /// How many.
        missing: u64,
        /// Of so many.
        expected: u64,
    },
    /// A message went astray.
    #[error("user {user} of room {room} {what}")]
    Astray {
        /// In which room.
        room: u32,
        /// Who noticed.
        user: u32,
        /// What was wrong with it.
        what: String,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Runs it. The server's part alone has nothing to report.
///
/// # Errors
/// If the spec makes no sense, the other side does not come, the system refuses sockets or threads, or a message is lost,
/// doubled or not the next.
pub fn run(spec: &Spec) -> Result<Option<Report>, Error> {
    if spec.rooms == 0 || spec.users < 2 || spec.messages == 0 || spec.bytes < Spec::LEAST_BYTES {
        return Err(Error::Senseless);
    }
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, spec.port));
    if spec.part == Part::Clients {
        return clients::talk(spec, at).map(Some);
    }
    let listener = TcpListener::bind(at).map_err(system("listen"))?;
    if spec.part == Part::Server {
        return server::serve(spec, &listener).map(|()| None);
    }
    let at = listener.local_addr().map_err(system("listen"))?;
    std::thread::scope(|scope| {
        let server = scope.spawn(move || server::serve(spec, &listener));
        let talked = clients::talk(spec, at);
        let served = server.join().expect("a server has no reason to panic");
        match talked {
            // The server may say why.
            Err(Error::Astray { .. }) => served.and(talked.map(Some)),
            Err(error) => Err(error),
            Ok(report) => served.map(|()| Some(report)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Spec {
        Spec {
            rooms: 3,
            users: 4,
            messages: 50,
            bytes: 40,
            ..Spec::default()
        }
    }

    #[test]
    fn every_message_reaches_all_others_of_its_room() {
        let report = run(&small()).unwrap().unwrap();
        assert_eq!((report.connections, report.threads), (12, 48));
        assert_eq!((report.sent, report.received), (600, 1800));
        assert!(report.duration_s > 0.0 && report.messages_per_s > 0.0);
    }

    /// Table 1 of the paper.
    #[test]
    fn the_papers_rooms_have_the_papers_messages() {
        for (rooms, connections, sent, heard) in [
            (20, 400, 40_000, 760_000),
            (30, 600, 60_000, 1_140_000),
            (40, 800, 80_000, 1_520_000),
        ] {
            let spec = Spec {
                rooms,
                ..Spec::default()
            };
            assert_eq!((spec.connections(), spec.sent()), (connections, sent));
            // Everything that others of their room say.
            assert_eq!(spec.sent() * (u64::from(spec.users) - 1), heard);
        }
    }

    #[test]
    fn server_and_clients_may_be_two() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let part = move |part| Spec {
            part,
            port,
            ..small()
        };
        let server = std::thread::spawn(move || run(&part(Part::Server)));
        let report = run(&part(Part::Clients)).unwrap().unwrap();
        assert_eq!(report.received, 1800);
        assert_eq!(server.join().unwrap().unwrap(), None);
    }

    #[test]
    fn a_server_that_loses_doubles_or_misdirects_is_found_out() {
        let spec = small();
        let faults: [(server::Fault, &str); 4] = [
            (
                |number, _| u32::from(number != 1),
                "heard 1 of user 0, not message 0",
            ),
            (|number, _| u32::from(number != 50), "heard 149 of 150"),
            (
                |number, _| if number == 1 { 2 } else { 1 },
                "heard 0 of user 0, not message 1",
            ),
            (
                |_, message| {
                    message[0] += 1;
                    1
                },
                "heard user 0 of room 1",
            ),
        ];
        for (fault, said) in faults {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let at = listener.local_addr().unwrap();
            let talked = std::thread::scope(|scope| {
                let (spec, listener) = (&spec, &listener);
                scope.spawn(move || server::serve_with(spec, listener, Some(fault)));
                clients::talk(spec, at)
            });
            let error = talked.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            Spec { rooms: 0, ..small() },
            Spec { users: 1, ..small() },
            Spec {
                messages: 0,
                ..small()
            },
            Spec { bytes: 11, ..small() },
        ] {
            assert!(matches!(run(&wrong), Err(Error::Senseless)), "{wrong:?}");
        }
    }
}
