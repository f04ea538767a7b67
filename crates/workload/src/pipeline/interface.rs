// SPDX-License-Identifier: GPL-2.0-only
//! Network interfaces as devices, by AF_PACKET sockets (packet(7)): a system call for each packet.

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::Error;
use super::packet::Packet;
use super::sink::{PacketSink, Sent};
use super::source::{PacketSource, Received};

/// Packets that wait in the kernel until R receives them take at most this much memory, in bytes.
const RECEIVE_BUFFER_BYTES: libc::c_int = 64 << 20;

/// IPv4 packets that an interface receives, whatever host they are for.
#[derive(Debug)]
pub struct InterfaceSource(Socket);

impl InterfaceSource {
    /// Listens from now on.
    ///
    /// # Errors
    /// If there is no such interface, or this process may not listen.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let socket = Socket::open(interface, libc::ETH_P_IP as u16)?;
        socket.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Beyond the limit of net.core.rmem_max where that is allowed (CAP_NET_ADMIN); else as far as it goes.
        if socket
            .set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
            .is_err()
        {
            socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)?;
        }
        Ok(Self(socket))
    }
}

impl PacketSource for InterfaceSource {
    fn receive(&mut self, packet: &mut Packet) -> Result<Received, Error> {
        let buffer = packet.buffer();
        // SAFETY: the buffer is live and as long as said; the kernel cuts what does not fit.
        let bytes = unsafe {
            libc::recv(
                self.0.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(bytes) {
            Ok(bytes) => {
                packet.set_bytes(bytes);
                Ok(Received::Packet)
            }
            Err(_) => match io::Error::last_os_error() {
                error if is_temporary(&error) => Ok(Received::Nothing),
                error => Err(self.0.error("recv", error)),
            },
        }
    }

    fn lost(&self) -> Option<u64> {
        let mut statistics = MaybeUninit::<libc::tpacket_stats>::zeroed();
        let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointers are to live values and the length is that of the structure, which is all integers.
        let (result, statistics) = unsafe {
            let result = libc::getsockopt(
                self.0.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                statistics.as_mut_ptr().cast(),
                &mut bytes,
            );
            (result, statistics.assume_init())
        };
        (result == 0).then_some(u64::from(statistics.tp_drops))
    }
}

/// Sends through an interface.
#[derive(Debug)]
pub struct InterfaceSink {
    socket: Socket,
    mac: [u8; 6],
}

impl InterfaceSink {
    /// Sends with the interface's own address.
    ///
    /// # Errors
    /// If there is no such interface, or this process may not send.
    pub fn open(interface: &str) -> Result<Self, Error> {
        // Protocol 0 receives nothing.
        let socket = Socket::open(interface, 0)?;
        let mac = socket.mac()?;
        Ok(Self { socket, mac })
    }
}

impl PacketSink for InterfaceSink {
    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn send(&mut self, frame: &[u8]) -> Result<Sent, Error> {
        // SAFETY: the frame is live and as long as said.
        let bytes = unsafe {
            libc::send(
                self.socket.fd.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        if bytes >= 0 {
            return Ok(Sent::Sent);
        }
        match io::Error::last_os_error() {
            error if is_temporary(&error) => Ok(Sent::Busy),
            error => Err(self.socket.error("send", error)),
        }
    }
}

/// Whether to try again: no packet, no room in the socket's buffer, or none in the interface's queue (packet(7)).
fn is_temporary(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}

/// A packet socket, bound to one interface.
#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    interface: String,
}

impl Socket {
    /// Opens one that receives packets of an EtherType.
    fn open(interface: &str, ether_type: u16) -> Result<Self, Error> {
        let index = index(interface)?;
        // SAFETY: no pointers are passed. Protocol 0: nothing is received before the socket is bound.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(error("socket", interface, io::Error::last_os_error()));
        }
        let socket = Self {
            // SAFETY: the descriptor is new and nobody else's.
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
            interface: interface.to_owned(),
        };
        socket.bind(index, ether_type)?;
        Ok(socket)
    }

    fn bind(&self, index: libc::c_uint, ether_type: u16) -> Result<(), Error> {
        // SAFETY: all zeros is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ether_type.to_be();
        address.sll_ifindex = index as libc::c_int;
        // SAFETY: the address is live and as long as said.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        self.check("bind", result)
    }

    fn set_option(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<(), Error> {
        // SAFETY: the value is live and as long as said.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        self.check("setsockopt", result)
    }

    /// The interface's own address (netdevice(7)).
    fn mac(&self) -> Result<[u8; 6], Error> {
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        // The name fits, as the interface was found by it; the last byte stays zero.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
            .iter_mut()
            .zip(self.interface.bytes())
        {
            *to = from as libc::c_char;
        }
        // SAFETY: the request is live and named; the call writes an address into it.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) };
        self.check("ioctl SIOCGIFHWADDR", result)?;
        // SAFETY: that is the member which the call wrote.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(std::array::from_fn(|at| address[at] as u8))
    }

    fn check(&self, call: &'static str, result: libc::c_int) -> Result<(), Error> {
        if result == 0 {
            Ok(())
        } else {
            Err(self.error(call, io::Error::last_os_error()))
        }
    }

    fn error(&self, call: &'static str, reason: io::Error) -> Error {
        error(call, &self.interface, reason)
    }
}

/// The kernel's number of an interface.
fn index(interface: &str) -> Result<libc::c_uint, Error> {
    let name = CString::new(interface)
        .map_err(|_| error("if_nametoindex", interface, io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: the name ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(error("if_nametoindex", interface, io::Error::last_os_error())),
        index => Ok(index),
    }
}

fn error(call: &'static str, interface: &str, reason: io::Error) -> Error {
    let advice = match reason.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "packet sockets need CAP_NET_RAW: run as root",
        Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces",
        Some(libc::ENETDOWN) => "switch it on with `ip link set dev IF up`",
        Some(libc::EMSGSIZE) => "packets are longer than its MTU: raise that, or send shorter ones",
        _ => "see packet(7)",
    };
    Error::Interface {
        call,
        interface: interface.to_owned(),
        reason,
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        for name in [
            "no-such-if",
            "a-name-that-is-too-long-for-an-interface",
            "",
            "nul\0",
        ] {
            let error = InterfaceSource::open(name).unwrap_err().to_string();
            assert!(error.contains(&format!("on interface {name} failed")), "{error}");
            assert!(InterfaceSink::open(name).is_err());
        }
    }
}
