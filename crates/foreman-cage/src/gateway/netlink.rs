//! Netlink, as far as a cage's network needs it: synchronous, typed, without a library.
//!
//! Synchronous because it runs in a child between fork and exec, where no runtime may exist. Each
//! request waits for the kernel's acknowledgement, and a refusal is the error of that request.
//! Replies are parsed as untrusted bytes: a cut or absurd message ends the walk, never the process.

pub(crate) mod netfilter;
pub(crate) mod nft;
mod route;

pub(crate) use route::{Delivery, Route};

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Families of netlink that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Devices, addresses, routes.
    Route,
    /// Rules, queues, logs.
    Netfilter,
}

/// Bits of a request.
pub(crate) mod flag {
    pub const REQUEST: u16 = 0x1;
    pub const ACK: u16 = 0x4;
    pub const EXCLUSIVE: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}

const HEADER: usize = 16;
const KIND_ERROR: u16 = 2;

/// One message, being written.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// An empty message. The length is filled in at the end.
    pub fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        Self { bytes }
    }

    /// The family's own fixed header.
    pub fn fixed(mut self, header: &[u8]) -> Self {
        self.bytes.extend_from_slice(header);
        self.pad();
        self
    }

    /// An attribute.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// An attribute that is a text with an ending NUL.
    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// An attribute that is a number in the byte order of this machine.
    pub fn native(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// An attribute that is a number in the byte order of networks, as netfilter wants it.
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// As [`Message::number`], 16 bits wide.
    pub fn short(self, kind: u16, value: u16) -> Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// An attribute that holds attributes.
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        const NESTED: u16 = 0x8000;
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        let mut filled = fill(self);
        let length = u16::try_from(filled.bytes.len() - start).unwrap_or(u16::MAX);
        if let Some(place) = filled.bytes.get_mut(start..start + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        filled
    }

    /// The finished message.
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(..4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self.bytes
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A message that came in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'a> {
    /// Its type.
    pub kind: u16,
    /// What follows the netlink header.
    pub body: &'a [u8],
}

impl Incoming<'_> {
    /// The kernel's answer, when this message is one: `Ok` or a refusal.
    fn acknowledgement(&self) -> Option<io::Result<()>> {
        if self.kind != KIND_ERROR {
            return None;
        }
        let code = self
            .body
            .first_chunk()
            .map_or(-libc::EPROTO, |code| i32::from_ne_bytes(*code));
        Some(if code == 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(-code))
        })
    }
}

/// Walks the messages of a datagram; stops at the first that does not fit.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Incoming<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<HEADER>()?;
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let length = usize::try_from(length).ok()?;
        let body = rest.get(HEADER..length)?;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Incoming { kind, body })
    })
}

/// Walks the attributes of a body; stops at the first that does not fit.
pub(crate) fn attributes(body: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const KIND: u16 = 0x3fff;
    let mut rest = body;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = rest.get(4..length)?;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & KIND;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens one in the network namespace of the calling thread.
    pub fn open(protocol: Protocol) -> io::Result<Self> {
        let protocol = match protocol {
            Protocol::Route => libc::NETLINK_ROUTE,
            Protocol::Netfilter => libc::NETLINK_NETFILTER,
        };
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                protocol,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zeros is a valid `sockaddr_nl`; the kernel then chooses the port.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // SAFETY: the pointer and the length describe `address`, which outlives the call.
        let bound = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { fd, sequence: 0 })
    }

    /// The number of the next request.
    pub fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends bytes: one message, or a batch.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `bytes`, which outlives the call.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Receives one datagram and gives it to `take`.
    pub fn receive<T>(&self, take: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let mut buffer = vec![0_u8; 65_536];
        // SAFETY: the pointer and the length describe `buffer`, which outlives the call.
        let got = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
            )
        };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        Ok(take(buffer.get(..got).unwrap_or_default()))
    }

    /// Waits until the kernel has acknowledged `wanted` messages; the first refusal ends it.
    pub fn acknowledged(&self, mut wanted: usize) -> io::Result<()> {
        while wanted > 0 {
            let done = self.receive(|datagram| {
                messages(datagram)
                    .filter_map(|message| message.acknowledgement())
                    .try_fold(0, |done: usize, answer| {
                        answer?;
                        Ok::<_, io::Error>(done + 1)
                    })
            })??;
            wanted = wanted.saturating_sub(done);
        }
        Ok(())
    }

    /// Sends one message that asks for an acknowledgement, and waits for it.
    pub fn call(&self, message: Message) -> io::Result<()> {
        self.send(&message.finish())?;
        self.acknowledged(1)
    }

    /// Gives the descriptor away, for use elsewhere.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl std::os::fd::AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let bytes = Message::new(7, flag::REQUEST, 1)
            .fixed(&[1, 2, 3])
            .text(1, "lo")
            .nest(2, |inner| inner.number(3, 0x0102_0304).short(4, 5))
            .finish();
        let found: Vec<_> = messages(&bytes).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].kind, 7);
        let outer: Vec<_> = attributes(&found[0].body[4..]).collect();
        assert_eq!(outer[0], (1, &b"lo\0"[..]));
        let inner: Vec<_> = attributes(outer[1].1).collect();
        assert_eq!(inner, [(3, &[1, 2, 3, 4][..]), (4, &[0, 5][..])]);
    }

    #[test]
    fn a_refusal_keeps_the_error_number() {
        let mut bytes = Message::new(KIND_ERROR, 0, 1)
            .fixed(&(-libc::EPERM).to_ne_bytes())
            .finish();
        bytes.extend_from_slice(&[0; 3]);
        let answer = messages(&bytes).next().unwrap().acknowledgement().unwrap();
        assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_walked(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for message in messages(&bytes) {
                let _ = message.acknowledgement();
                prop_assert!(attributes(message.body).count() <= bytes.len());
            }
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
