//! Devices, addresses and routes.

use super::{Incoming, Message, Protocol, Socket, flag, messages};
use std::io;
use std::net::IpAddr;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// A connection to the kernel's tables of devices, addresses and routes.
#[derive(Debug)]
pub(crate) struct Route {
    socket: Socket,
}

/// Where the kernel would bring a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// To another machine.
    Away,
    /// To this machine, or to a group that it may belong to.
    Here,
    /// Nowhere: a route that drops or rejects.
    Nowhere,
}

impl Route {
    /// Opens one in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            socket: Socket::open(Protocol::Route)?,
        })
    }

    /// Raises a device.
    pub fn link_up(&mut self, index: u32) -> io::Result<()> {
        const UP: u32 = 1;
        let message = self.request(NEW_LINK, 0).fixed(&link_header(index, UP, UP));
        self.socket.call(message)
    }

    /// Makes a pair of devices: `near` here, `far` in the network namespace of process `pid`.
    pub fn add_veth(&mut self, near: &str, far: &str, pid: u32) -> io::Result<()> {
        const NAME: u16 = 3;
        const INFO: u16 = 18;
        const NAMESPACE_OF_PID: u16 = 19;
        const INFO_KIND: u16 = 1;
        const INFO_DATA: u16 = 2;
        const VETH_PEER: u16 = 1;
        let message = self
            .request(NEW_LINK, flag::CREATE | flag::EXCLUSIVE)
            .fixed(&link_header(0, 0, 0))
            .text(NAME, near)
            .nest(INFO, |info| {
                info.text(INFO_KIND, "veth").nest(INFO_DATA, |data| {
                    data.nest(VETH_PEER, |peer| {
                        peer.fixed(&link_header(0, 0, 0))
                            .text(NAME, far)
                            .native(NAMESPACE_OF_PID, pid)
                    })
                })
            });
        self.socket.call(message)
    }

    /// Adds an address to a device; an IPv6 one is usable at once (no duplicate detection).
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        const ADDRESS: u16 = 1;
        const LOCAL: u16 = 2;
        const NO_DUPLICATE_DETECTION: u8 = 0x02;
        let mut header = vec![family(address), prefix, NO_DUPLICATE_DETECTION, 0];
        header.extend_from_slice(&index.to_ne_bytes());
        let message = self
            .request(NEW_ADDRESS, flag::CREATE | flag::EXCLUSIVE)
            .fixed(&header)
            .attribute(LOCAL, &octets(address))
            .attribute(ADDRESS, &octets(address));
        self.socket.call(message)
    }

    /// Adds a default route by way of a neighbour.
    pub fn add_default_route(&mut self, gateway: IpAddr, index: u32) -> io::Result<()> {
        const GATEWAY: u16 = 5;
        let message = self
            .request(NEW_ROUTE, flag::CREATE | flag::EXCLUSIVE)
            .fixed(&route_header(
                family(gateway),
                TABLE_MAIN,
                SCOPE_UNIVERSE,
                TYPE_UNICAST,
            ))
            .attribute(GATEWAY, &octets(gateway))
            .native(OUTGOING, index);
        self.socket.call(message)
    }

    /// Makes every address of `source`'s family local (AnyIP), with `source` as the address that
    /// unbound sockets get.
    pub fn add_any_ip(&mut self, index: u32, source: IpAddr) -> io::Result<()> {
        const PREFERRED_SOURCE: u16 = 7;
        let message = self
            .request(NEW_ROUTE, flag::CREATE | flag::EXCLUSIVE)
            .fixed(&route_header(
                family(source),
                TABLE_LOCAL,
                SCOPE_HOST,
                TYPE_LOCAL,
            ))
            .native(OUTGOING, index)
            .attribute(PREFERRED_SOURCE, &octets(source));
        self.socket.call(message)
    }

    /// Asks where a packet to `address` would go from this namespace.
    pub fn delivery(&mut self, address: IpAddr) -> io::Result<Delivery> {
        const DESTINATION: u16 = 1;
        let mut header = route_header(family(address), 0, 0, 0);
        header[1] = if address.is_ipv4() { 32 } else { 128 };
        let sequence = self.socket.next_sequence();
        let message = Message::new(GET_ROUTE, flag::REQUEST, sequence)
            .fixed(&header)
            .attribute(DESTINATION, &octets(address));
        self.socket.send(&message.finish())?;
        self.socket.receive(|datagram| {
            let Some(answer) = messages(datagram).next() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            delivery_of(answer)
        })?
    }

    fn request(&mut self, kind: u16, flags: u16) -> Message {
        Message::new(
            kind,
            flag::REQUEST | flag::ACK | flags,
            self.socket.next_sequence(),
        )
    }
}

fn delivery_of(answer: Incoming<'_>) -> io::Result<Delivery> {
    const ROUTE_TYPE: usize = 7;
    if let Some(refused) = answer.acknowledgement() {
        refused?;
    }
    match answer.body.get(ROUTE_TYPE) {
        Some(&TYPE_UNICAST) if answer.kind == NEW_ROUTE => Ok(Delivery::Away),
        // local, broadcast, anycast, multicast
        Some(2..=5) if answer.kind == NEW_ROUTE => Ok(Delivery::Here),
        Some(_) if answer.kind == NEW_ROUTE => Ok(Delivery::Nowhere),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

const TABLE_MAIN: u8 = 254;
const TABLE_LOCAL: u8 = 255;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_HOST: u8 = 254;
const TYPE_UNICAST: u8 = 1;
const TYPE_LOCAL: u8 = 2;
const OUTGOING: u16 = 4;

/// `struct ifinfomsg`
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// `struct rtmsg`
fn route_header(family: u8, table: u8, scope: u8, kind: u8) -> [u8; 12] {
    const BY_STATIC_CONFIGURATION: u8 = 4;
    [
        family,
        0,
        0,
        0,
        table,
        BY_STATIC_CONFIGURATION,
        scope,
        kind,
        0,
        0,
        0,
        0,
    ]
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_delivered_here() {
        let delivery = Route::open()
            .unwrap()
            .delivery("127.0.0.1".parse().unwrap())
            .unwrap();
        assert_eq!(delivery, Delivery::Here);
    }
}
