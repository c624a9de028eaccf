//! The datagram sockets of a cage, used on tokio: what arrives comes with the address it was sent
//! to, and what is sent may come from any address.

use super::packet::canonical;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage,
    recvmsg, sendmsg, sendto,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use tokio::io::unix::AsyncFd;

/// A datagram that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// How many bytes it has; they are at the start of the buffer.
    pub length: usize,
    /// Who sent it.
    pub source: SocketAddr,
    /// Where it was sent to. The port is 0 where the socket only tells the address.
    pub destination: SocketAddr,
}

/// A socket that takes datagrams to any address.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: AsyncFd<OwnedFd>,
}

impl Datagrams {
    /// Takes over a socket that does not block.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: registered(socket)?,
        })
    }

    /// Waits for the next datagram. `None` for one without both addresses.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        loop {
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| receive_now(socket.as_raw_fd(), buffer)) {
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// Sends a datagram that seems to come from `from`. Gives up when the buffer is full: whoever
    /// asked will ask again.
    pub fn answer(&self, data: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        let data = [IoSlice::new(data)];
        let to = SockaddrStorage::from(to);
        let none = MsgFlags::empty();
        match from {
            IpAddr::V4(from) => {
                let address = libc::in_addr {
                    s_addr: u32::from_ne_bytes(from.octets()),
                };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: address,
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                sendmsg(
                    fd,
                    &data,
                    &[ControlMessage::Ipv4PacketInfo(&info)],
                    none,
                    Some(&to),
                )
            }
            IpAddr::V6(from) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: from.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                sendmsg(
                    fd,
                    &data,
                    &[ControlMessage::Ipv6PacketInfo(&info)],
                    none,
                    Some(&to),
                )
            }
        }
        .map(drop)
        .map_err(Into::into)
    }
}

/// Takes a descriptor over for waiting on tokio.
pub(crate) fn registered(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` keeps its descriptor, and the same one, until it is dropped; the
    // registration ends before it.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

fn receive_now(fd: RawFd, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    let mut control = nix::cmsg_space!(libc::sockaddr_in6, libc::in6_pktinfo);
    let mut slices = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut control), MsgFlags::empty())?;
    let source = message.address.as_ref().and_then(socket_address);
    let destination = message
        .cmsgs()?
        .find_map(|control| original_destination(&control));
    Ok(source
        .zip(destination)
        .map(|(source, destination)| Arrival {
            length: message.bytes,
            source: canonical(source),
            destination: canonical(destination),
        }))
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|address| SocketAddrV4::from(*address).into());
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|address| SocketAddrV6::from(*address).into())
    })
}

fn original_destination(control: &ControlMessageOwned) -> Option<SocketAddr> {
    match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some((v4_address(info.ipi_addr), 0).into()),
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            Some((Ipv6Addr::from(info.ipi6_addr.s6_addr), 0).into())
        }
        ControlMessageOwned::Ipv4OrigDstAddr(address) => {
            Some((v4_address(address.sin_addr), u16::from_be(address.sin_port)).into())
        }
        ControlMessageOwned::Ipv6OrigDstAddr(address) => {
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some((ip, u16::from_be(address.sin6_port)).into())
        }
        _ => None,
    }
}

fn v4_address(address: libc::in_addr) -> Ipv4Addr {
    Ipv4Addr::from(address.s_addr.to_ne_bytes())
}

/// Sends whole packets into the cage.
#[derive(Debug)]
pub(crate) struct Packets {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Packets {
    /// Takes over the raw sockets.
    pub fn new(v4: OwnedFd, v6: Option<OwnedFd>) -> Self {
        Self { v4, v6 }
    }

    /// Sends a packet to the address that its header names.
    pub fn send(&self, packet: &[u8], to: IpAddr) -> io::Result<()> {
        let none = MsgFlags::empty();
        match to {
            IpAddr::V4(to) => {
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                sendto(self.v4.as_raw_fd(), packet, &to, none)
            }
            IpAddr::V6(to) => {
                let socket = self.v6.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
                sendto(socket.as_raw_fd(), packet, &to, none)
            }
        }
        .map(drop)
        .map_err(Into::into)
    }
}
