// SPDX-License-Identifier: GPL-2.0-only
//! The users: each says what it has to say, and listens to the others of its room.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::RwLock;
use std::thread::{self, Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::message::{self, Header};
use super::{Error, PATIENCE, Report, STACK_BYTES, Spec, system};

/// Between two tries to reach a server that has not begun yet.
const RETRY: Duration = Duration::from_millis(10);

/// What a thread does: messages that it heard.
type Act<'a> = Box<dyn FnOnce() -> Result<u64, Error> + Send + 'a>;

/// A user that is connected.
struct User {
    room: u32,
    user: u32,
    stream: TcpStream,
}

/// Connects all users, lets them talk, and returns when all have heard everything.
pub(super) fn talk(spec: &Spec, server: SocketAddr) -> Result<Report, Error> {
    let users = connect(spec, server)?;
    // All begin when it is opened, and those that wait for it then are told whether they may.
    let gate = RwLock::new(false);
    let open = || *gate.read().expect("nobody panics with it");
    let acts: Vec<Act<'_>> = users.iter().flat_map(|user| user.acts(spec)).collect();
    let mut begun = Instant::now();
    let heard = thread::scope(|scope| {
        let mut held = gate.write().expect("nobody panics with it");
        let mut threads = Vec::new();
        let started = acts.into_iter().try_for_each(|act| {
            // It stays shut if one of the others cannot be started.
            let begin = move || if open() { act() } else { Ok(0) };
            let thread = Builder::new().stack_size(STACK_BYTES);
            threads.push(thread.spawn_scoped(scope, begin)?);
            Ok(())
        });
        *held = started.is_ok();
        begun = Instant::now();
        drop(held);
        let ends: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        started.map_err(system("start a thread"))?;
        let mut nr_heard = 0;
        let mut failed = Vec::new();
        for end in ends {
            match end.expect("users have no reason to panic") {
                Ok(heard) => nr_heard += heard,
                Err(error) => failed.push(error),
            }
        }
        // Who notices that a message went astray leaves, and then cannot send either.
        failed.sort_by_key(|error| !matches!(error, Error::Astray { .. }));
        failed.into_iter().next().map_or(Ok(nr_heard), Err)
    })?;
    Ok(Report::of(spec, heard, begun.elapsed()))
}

fn connect(spec: &Spec, server: SocketAddr) -> Result<Vec<User>, Error> {
    let begun = Instant::now();
    let mut has_said = false;
    let mut users = Vec::new();
    for room in 0..spec.rooms {
        for user in 0..spec.users {
            let mut stream = loop {
                match TcpStream::connect(server) {
                    Err(error)
                        if error.kind() == io::ErrorKind::ConnectionRefused && begun.elapsed() < PATIENCE =>
                    {
                        if !std::mem::replace(&mut has_said, true) {
                            eprintln!(
                                "no server listens on {server} yet; waiting for one, for up to {} s",
                                PATIENCE.as_secs()
                            );
                        }
                        thread::sleep(RETRY);
                    }
                    connected => break connected.map_err(system("connect"))?,
                }
            };
            stream.set_nodelay(true).map_err(system("connect"))?;
            stream
                .write_all(&room.to_le_bytes())
                .map_err(system("enter a room"))?;
            users.push(User { room, user, stream });
        }
    }
    Ok(users)
}

impl User {
    /// Says what it has to say, and listens.
    fn acts<'a>(&'a self, spec: &'a Spec) -> [Act<'a>; 2] {
        [
            Box::new(|| self.say(spec).map(|()| 0)),
            Box::new(|| self.listen(spec)),
        ]
    }

    /// Whatever goes wrong, the server is told that nobody is here any more.
    fn or_leave<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if done.is_err() {
            // If it is gone already, so much the better.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        done
    }

    fn say(&self, spec: &Spec) -> Result<(), Error> {
        let mut message = vec![0; spec.bytes];
        let mut say = || {
            for number in 0..spec.messages {
                let (room, user) = (self.room, self.user);
                Header { room, user, number }.write(&mut message);
                (&self.stream).write_all(&message)?;
            }
            self.stream.shutdown(Shutdown::Write)
        };
        self.or_leave(say().map_err(system("send")))
    }

    /// Counts what it hears, until all others have said everything.
    ///
    /// It stays until then, also when something was wrong, and lets its own sender end: who left would have others hear less, and they would be told of.
    fn listen(&self, spec: &Spec) -> Result<u64, Error> {
        let mut message = vec![0; spec.bytes];
        let mut next_of = vec![0; spec.users as usize];
        let (mut nr_heard, mut wrong) = (0, None);
        while self.or_leave(message::next(&self.stream, &mut message).map_err(system("receive")))? {
            let this = self.what_is_wrong(&Header::read(&message), &mut next_of);
            wrong = wrong.or(this);
            nr_heard += 1;
        }
        let all = u64::from(spec.messages) * (u64::from(spec.users) - 1);
        let lacks = (nr_heard != all).then(|| format!("heard {nr_heard} of {all} messages"));
        match wrong.or(lacks) {
            None => Ok(nr_heard),
            Some(what) => Err(Error::Astray {
                room: self.room,
                user: self.user,
                what,
            }),
        }
    }

    /// What is wrong with a message, of each user the next of these numbers.
    fn what_is_wrong(&self, said: &Header, next_of: &mut [u32]) -> Option<String> {
        if said.room != self.room || said.user == self.user {
            return Some(format!("heard user {} of room {}", said.user, said.room));
        }
        let Some(next) = next_of.get_mut(said.user as usize) else {
            return Some(format!("heard user {}, whom it does not know", said.user));
        };
        let expected = *next;
        *next = said.number.wrapping_add(1);
        (said.number != expected).then(|| {
            format!(
                "heard {} of user {}, not message {expected}",
                said.number, said.user
            )
        })
    }
}
