// SPDX-License-Identifier: GPL-2.0-only
//! The server: what a user says is put into the queues of all others of the room, one of each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use super::{Error, PATIENCE, STACK_BYTES, Spec, message, system};

/// Between two looks for who connects.
const LOOK: Duration = Duration::from_millis(1);

type Message = Arc<[u8]>;

/// What goes wrong with a message, by its number from 1: it may be changed, and one other hears it so many times.
pub(super) type Fault = fn(u32, &mut [u8]) -> u32;

/// Serves all users until they have left.
pub(super) fn serve(spec: &Spec, listener: &TcpListener) -> Result<(), Error> {
    serve_with(spec, listener, None)
}

/// The same; if something is to go wrong, it does for the first room's first user.
pub(super) fn serve_with(spec: &Spec, listener: &TcpListener, fault: Option<Fault>) -> Result<(), Error> {
    let rooms = welcome(spec, listener)?;
    thread::scope(|scope| {
        for (number, room) in rooms.iter().enumerate() {
            let (queues, waiting): (Vec<Sender<Message>>, Vec<_>) = room.iter().map(|_| channel()).unzip();
            for (user, (stream, waiting)) in room.iter().zip(waiting).enumerate() {
                let queues = queues.iter().enumerate();
                let others = queues.filter(|(other, _)| *other != user);
                let others = others.map(|(_, queue)| queue.clone()).collect();
                let fault = fault.filter(|_| (number, user) == (0, 0));
                let thread = || Builder::new().stack_size(STACK_BYTES);
                // Who leaves has shut the connection; the clients say what came of it.
                let listen =
                    move || hear(stream, spec, others, fault).or_else(|_| stream.shutdown(Shutdown::Both));
                let speak = move || say(stream, &waiting).or_else(|_| stream.shutdown(Shutdown::Both));
                thread()
                    .spawn_scoped(scope, listen)
                    .map_err(system("start a thread"))?;
                thread()
                    .spawn_scoped(scope, speak)
                    .map_err(system("start a thread"))?;
            }
        }
        Ok(())
    })
}

/// Waits for all users, and lets each into its room.
fn welcome(spec: &Spec, listener: &TcpListener) -> Result<Vec<Vec<TcpStream>>, Error> {
    listener.set_nonblocking(true).map_err(system("listen"))?;
    let mut rooms: Vec<Vec<TcpStream>> = (0..spec.rooms).map(|_| Vec::new()).collect();
    let expected = spec.connections();
    let mut missing = expected;
    let begun = Instant::now();
    while missing > 0 {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(system("accept")(error)),
            Err(_) if begun.elapsed() > PATIENCE => return Err(Error::Absent { missing, expected }),
            Err(_) => {
                thread::sleep(LOOK);
                continue;
            }
        };
        stream.set_nodelay(true).map_err(system("accept"))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .map_err(system("accept"))?;
        let mut room = [0; 4];
        stream.read_exact(&mut room).map_err(system("let a user in"))?;
        stream.set_read_timeout(None).map_err(system("accept"))?;
        if let Some(room) = rooms.get_mut(u32::from_le_bytes(room) as usize) {
            room.push(stream);
            missing -= 1;
        }
    }
    Ok(rooms)
}

/// Hands on what a user says. The queues of the others end with the last who fills them.
fn hear(
    stream: &TcpStream,
    spec: &Spec,
    others: Vec<Sender<Message>>,
    fault: Option<Fault>,
) -> io::Result<()> {
    let mut message = vec![0; spec.bytes];
    let mut number = 0;
    while message::next(stream, &mut message)? {
        number += 1;
        let first = fault.map_or(1, |fault| fault(number, &mut message));
        let handed_on: Message = message.as_slice().into();
        for (nth, other) in others.iter().enumerate() {
            for _ in 0..if nth == 0 { first } else { 1 } {
                // Who does not listen any more has left.
                let _ = other.send(Arc::clone(&handed_on));
            }
        }
    }
    Ok(())
}

/// Tells a user what the others say.
fn say(mut stream: &TcpStream, waiting: &Receiver<Message>) -> io::Result<()> {
    for message in waiting {
        stream.write_all(&message)?;
    }
    stream.shutdown(Shutdown::Write)
}
