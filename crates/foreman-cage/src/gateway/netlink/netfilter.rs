//! Packets that netfilter hands over: by a queue, which holds them, or by a log, which copies them.

use super::{Message, Protocol, Socket, attributes, flag, messages};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const SUBSYSTEM_QUEUE: u16 = 3;
const SUBSYSTEM_LOG: u16 = 4;

/// Number of the queue and of the log group; both are private to the network namespace.
pub(crate) const NUMBER: u16 = 1;

/// What of a packet is copied: its headers. Little, so that more packets fit into the buffer.
pub(crate) const COPIED: u32 = 160;

/// Packets held by the kernel at most; above that it drops.
const HELD_AT_MOST: u32 = 32_768;

/// Opens the queue. The descriptor does not block.
pub(crate) fn open_queue() -> io::Result<OwnedFd> {
    const CONFIGURE: u16 = SUBSYSTEM_QUEUE << 8 | 2;
    const BIND: u8 = 1;
    const COPY_PACKET: u8 = 2;
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let message = configure(&mut socket, CONFIGURE).attribute(1, &[BIND, 0, 0, 0]);
    socket.call(message)?;
    let [a, b, c, d] = COPIED.to_be_bytes();
    let message = configure(&mut socket, CONFIGURE).attribute(2, &[a, b, c, d, COPY_PACKET]);
    socket.call(message)?;
    let message = configure(&mut socket, CONFIGURE).number(3, HELD_AT_MOST);
    socket.call(message)?;
    tune(&socket)?;
    Ok(socket.into_fd())
}

/// Opens the log group. The descriptor does not block.
pub(crate) fn open_log() -> io::Result<OwnedFd> {
    const CONFIGURE: u16 = SUBSYSTEM_LOG << 8 | 1;
    const BIND: u8 = 1;
    const COPY_PACKET: u8 = 2;
    const FLUSH_EACH: u32 = 1;
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let message = configure(&mut socket, CONFIGURE).attribute(1, &[BIND]);
    socket.call(message)?;
    let [a, b, c, d] = COPIED.to_be_bytes();
    let message = configure(&mut socket, CONFIGURE).attribute(2, &[a, b, c, d, COPY_PACKET, 0]);
    socket.call(message)?;
    let message = configure(&mut socket, CONFIGURE).number(5, FLUSH_EACH);
    socket.call(message)?;
    tune(&socket)?;
    Ok(socket.into_fd())
}

fn configure(socket: &mut Socket, kind: u16) -> Message {
    Message::new(kind, flag::REQUEST | flag::ACK, socket.next_sequence()).fixed(&number_header())
}

/// `struct nfgenmsg` with the number of the queue or group.
fn number_header() -> [u8; 4] {
    let [high, low] = NUMBER.to_be_bytes();
    [0, 0, high, low]
}

/// A full buffer drops packets (their senders repeat them) instead of failing the socket.
fn tune(socket: &Socket) -> io::Result<()> {
    const BUFFER: libc::c_int = 4 << 20;
    let fd = socket.as_fd();
    let _ = set_option(fd, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1);
    // A smaller buffer only drops earlier.
    enlarge_buffer(fd, BUFFER);
    // SAFETY: no pointers; both results are checked.
    let done = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets an option that is one integer.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Makes a receive buffer as large as `bytes`, or as this process may.
pub(crate) fn enlarge_buffer(fd: BorrowedFd<'_>, bytes: libc::c_int) {
    if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes).is_err() {
        let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes);
    }
}

/// A packet that netfilter handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// Names the held packet; 0 when it was only copied.
    pub id: u32,
    /// Its first bytes, from the IP header on.
    pub bytes: &'a [u8],
}

/// The packets of a datagram from the queue or the log.
pub(crate) fn packets(datagram: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    const QUEUE_PACKET: u16 = SUBSYSTEM_QUEUE << 8;
    const LOG_PACKET: u16 = SUBSYSTEM_LOG << 8;
    messages(datagram).filter_map(|message| {
        let body = message.body.get(4..)?;
        match message.kind {
            QUEUE_PACKET => {
                let id = find(body, 1)?
                    .first_chunk()
                    .map(|id| u32::from_be_bytes(*id))?;
                Some(Packet {
                    id,
                    bytes: find(body, 10).unwrap_or_default(),
                })
            }
            LOG_PACKET => Some(Packet {
                id: 0,
                bytes: find(body, 9)?,
            }),
            _ => None,
        }
    })
}

fn find(body: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(body)
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// What becomes of a held packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// It is gone, without an answer.
    Drop,
    /// It goes on behind the chain that held it, with this mark.
    Accept(u32),
    /// It goes through the chain that held it again, with this mark.
    Repeat(u32),
}

/// The message that releases a held packet.
pub(crate) fn release(id: u32, release: Release) -> Vec<u8> {
    const VERDICT: u16 = SUBSYSTEM_QUEUE << 8 | 1;
    let (code, mark) = match release {
        Release::Drop => (0_u32, None),
        Release::Accept(mark) => (1, Some(mark)),
        Release::Repeat(mark) => (4, Some(mark)),
    };
    let mut header = [0; 8];
    header[..4].copy_from_slice(&code.to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    let message = Message::new(VERDICT, flag::REQUEST, 0)
        .fixed(&number_header())
        .attribute(2, &header);
    match mark {
        Some(mark) => message.number(3, mark).finish(),
        None => message.finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_queued_packet_is_read_with_its_number() {
        let bytes = Message::new(SUBSYSTEM_QUEUE << 8, 0, 0)
            .fixed(&[2, 0, 0, 1])
            .attribute(1, &[0, 0, 1, 2, 8, 0, 0])
            .attribute(10, b"packet")
            .finish();
        let found: Vec<_> = packets(&bytes).collect();
        assert_eq!(
            found,
            [Packet {
                id: 0x102,
                bytes: b"packet"
            }]
        );
    }

    proptest! {
        #[test]
        fn any_datagram_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(packets(&bytes).count() <= bytes.len());
        }

        #[test]
        fn any_body_of_a_packet_message_can_be_read(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            kind in prop_oneof![Just(SUBSYSTEM_QUEUE << 8), Just(SUBSYSTEM_LOG << 8)],
        ) {
            let bytes = Message::new(kind, 0, 0).fixed(&body).finish();
            prop_assert!(packets(&bytes).count() <= 1);
        }
    }
}
