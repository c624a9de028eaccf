//! The kernel's end of the gate: hands over first segments, takes what becomes of them.

use crate::gateway::datagrams::{Packets, registered};
use crate::gateway::inquiry::Denial;
use crate::gateway::netlink::netfilter::{Release, packets, release};
use crate::gateway::packet::{
    FirstSegment, Unreachable, first_segment, first_segment_again, reset, segment_unreachable,
};
use crate::gateway::sockets::mark;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// A packet that waits in the kernel, or was dropped there after we got a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held(u32);

/// A packet that was handed over.
#[derive(Debug)]
pub(super) struct Seen {
    /// Names it.
    pub held: Held,
    /// What it is; `None` when that was not understood.
    pub first: Option<FirstSegment>,
}

/// Hands over first segments.
#[derive(Debug)]
pub(crate) struct Device {
    socket: AsyncFd<OwnedFd>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The kernel holds packets and takes a verdict.
    Queue,
    /// The kernel dropped them; we send them again, or the answer.
    Log {
        again: Packets,
        answers: Arc<Packets>,
    },
}

impl Device {
    /// A queue.
    pub fn queue(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: registered(socket)?,
            way: Way::Queue,
        })
    }

    /// A log, with what sends packets again and what answers them.
    pub fn log(socket: OwnedFd, again: Packets, answers: Arc<Packets>) -> io::Result<Self> {
        Ok(Self {
            socket: registered(socket)?,
            way: Way::Log { again, answers },
        })
    }

    /// Waits for packets; takes many at once, because the kernel drops what does not fit into its
    /// buffer.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Vec<Seen>> {
        const DATAGRAMS_AT_ONCE: usize = 256;
        loop {
            let mut ready = self.socket.readable().await?;
            let mut seen = Vec::new();
            let got = ready.try_io(|socket| {
                for _ in 0..DATAGRAMS_AT_ONCE {
                    let none = nix::sys::socket::MsgFlags::empty();
                    let length = nix::sys::socket::recv(socket.as_raw_fd(), buffer, none)?;
                    self.read(buffer.get(..length).unwrap_or_default(), &mut seen);
                }
                Ok(())
            });
            match got {
                // The kernel dropped what did not fit; its senders repeat it.
                Ok(Err(error))
                    if error.raw_os_error() != Some(libc::ENOBUFS) && seen.is_empty() =>
                {
                    return Err(error);
                }
                _ if seen.is_empty() => {}
                _ => return Ok(seen),
            }
        }
    }

    fn read(&self, datagram: &[u8], into: &mut Vec<Seen>) {
        let keeps_header = matches!(self.way, Way::Log { .. });
        into.extend(packets(datagram).map(|packet| {
            let mut first = first_segment(packet.bytes);
            if let Some(first) = &mut first
                && !keeps_header
            {
                first.header = Vec::new();
            }
            Seen {
                held: Held(packet.id),
                first,
            }
        }));
    }

    /// Forgets a packet without an answer.
    pub(super) fn drop_packet(&self, held: Held) {
        match self.way {
            Way::Queue => self.verdict(held, Release::Drop),
            Way::Log { .. } => {}
        }
    }

    /// Lets a segment go on to the listener.
    pub(super) fn let_through(&self, held: Held, first: &FirstSegment) {
        match &self.way {
            Way::Queue => self.verdict(held, Release::Accept(mark::ALLOWED)),
            Way::Log { again, .. } => {
                let packet = first_segment_again(first);
                send(again, &packet, first.flow.destination.ip());
            }
        }
    }

    /// Answers a segment.
    pub(super) fn release(&self, held: Held, first: &FirstSegment, denial: Denial) {
        let (mark, answer): (u32, fn(&FirstSegment) -> Vec<u8>) = match denial {
            Denial::Silence => return self.drop_packet(held),
            Denial::Refused => (mark::REFUSED, reset),
            Denial::Unreachable => (mark::UNREACHABLE, |first| {
                segment_unreachable(first, Unreachable::Host)
            }),
        };
        match &self.way {
            Way::Queue => self.verdict(held, Release::Repeat(mark)),
            Way::Log { answers, .. } => send(answers, &answer(first), first.flow.source.ip()),
        }
    }

    fn verdict(&self, held: Held, verdict: Release) {
        let message = release(held.0, verdict);
        let none = nix::sys::socket::MsgFlags::empty();
        let sent = nix::sys::socket::send(self.socket.get_ref().as_raw_fd(), &message, none);
        if let Err(error) = sent {
            tracing::debug!(%error, "a verdict was lost; its packet stays held");
        }
    }
}

fn send(packets: &Packets, packet: &[u8], to: std::net::IpAddr) {
    if let Err(error) = packets.send(packet, to) {
        tracing::debug!(%error, "a packet into the cage was lost");
    }
}
