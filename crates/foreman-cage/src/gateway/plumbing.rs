//! The network of a cage, made from inside its namespace.
//!
//! Runs once, synchronously, in a child that has one thread. Afterwards nothing here is needed
//! again: the rules stay, and the sockets are passed out.

use super::gate_order;
use super::netlink::nft::{Expression, Header, Meta, Rejection, Transaction};
use super::netlink::{Protocol, Route, Socket, netfilter};
use super::sockets::{CATCH_PORT, FamilySockets, GateKind, Sockets, mark, open_gate};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A step of [`plumb`] failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}")]
pub struct PlumbError {
    /// What was tried, in words that follow "cannot".
    pub step: &'static str,
    /// The kernel's answer.
    pub source: io::Error,
}

impl From<PlumbError> for io::Error {
    fn from(error: PlumbError) -> Self {
        Self::new(error.source.kind(), format!("{error}: {}", error.source))
    }
}

fn step<T>(step: &'static str, result: io::Result<T>) -> Result<T, PlumbError> {
    result.map_err(|source| PlumbError { step, source })
}

/// The cage's own addresses: what its sockets are bound to when they choose none. An address that
/// is not a loopback one must exist, or the C library takes the network for absent.
pub(crate) const OWN_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// As [`OWN_V4`]; a unique local address that no network should use.
pub(crate) const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd66, 0x6f72, 0x656d, 0x616e, 0, 0, 0, 2);

/// Makes the network of a cage and the sockets that serve it. Must be called in a process with one
/// thread, inside the cage's new network namespace, with all capabilities over it.
///
/// A host without IPv6 makes a cage without IPv6. Kernel settings that only make holds longer or
/// answers quieter are tried, and left as they are where `/proc/sys` cannot be written.
///
/// # Errors
/// The step that failed and the kernel's answer. The namespace is then of no use.
pub fn plumb() -> Result<Sockets, PlumbError> {
    plumb_preferring(&gate_order::preference())
}

/// As [`plumb`], with the given kinds of gate only, in that order.
///
/// # Errors
/// As [`plumb`].
pub fn plumb_preferring(kinds: &[GateKind]) -> Result<Sockets, PlumbError> {
    const LOOPBACK: u32 = 1;
    tune();
    let mut route = step("open the cage's routing tables", Route::open())?;
    step("raise the cage's loopback device", route.link_up(LOOPBACK))?;
    let own = IpAddr::from(OWN_V4);
    step(
        "give the cage an IPv4 address",
        route.add_address(LOOPBACK, own, 32),
    )?;
    step("route IPv4 in the cage", route.add_any_ip(LOOPBACK, own))?;
    let v6 = has_v6() && {
        let own = IpAddr::from(OWN_V6);
        route.add_address(LOOPBACK, own, 128).is_ok() && route.add_any_ip(LOOPBACK, own).is_ok()
    };
    let (kind, gate) = make_gate(kinds)?;
    Ok(Sockets {
        kind,
        gate,
        v4: step(
            "open the cage's IPv4 sockets",
            FamilySockets::open(false, kind),
        )?,
        v6: match v6 {
            true => Some(step(
                "open the cage's IPv6 sockets",
                FamilySockets::open(true, kind),
            )?),
            false => None,
        },
    })
}

fn has_v6() -> bool {
    let settings = Path::new("/proc/sys/net/ipv6/conf");
    if !settings.is_dir() {
        return false;
    }
    for device in ["all", "default", "lo"] {
        // Switched off on the host is no reason to be without it here, where it leads nowhere.
        let _ = std::fs::write(settings.join(device).join("disable_ipv6"), "0");
    }
    true
}

/// Settings of the namespace; each is of use without the others.
fn tune() {
    for (name, value) in [
        // How often a held connection's first packet is repeated limits how long it can be held.
        ("ipv4/tcp_syn_retries", "127"),
        // Every address is local, so every ping would be answered, by nobody.
        ("ipv4/icmp_echo_ignore_all", "1"),
        ("ipv6/icmp/echo_ignore_all", "1"),
        ("ipv4/ping_group_range", "1\t0"),
        // Sources are whatever we write; the host's defaults are inherited.
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/lo/rp_filter", "0"),
        ("core/somaxconn", "4096"),
        ("ipv4/tcp_max_syn_backlog", "4096"),
    ] {
        let _ = std::fs::write(Path::new("/proc/sys/net").join(name), value);
    }
}

/// Opens the first kind of gate that this kernel has, and writes the rules for it.
fn make_gate(kinds: &[GateKind]) -> Result<(GateKind, OwnedFd), PlumbError> {
    let mut socket = step(
        "open the cage's packet filter",
        Socket::open(Protocol::Netfilter),
    )?;
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for &kind in kinds {
        // The queue first: rules without it would stand, and drop what they hold.
        match open_gate(kind).and_then(|gate| Ok((write_rules(&mut socket, kind)?, gate))) {
            Ok(((), gate)) => return Ok((kind, gate)),
            Err(error) => last = error,
        }
    }
    step("write the cage's packet filter rules", Err(last))
}

const GATE: &str = "gate";
const CATCH: &str = "catch";

fn write_rules(socket: &mut Socket, kind: GateKind) -> io::Result<()> {
    let mut table = Transaction::new(socket, "cage");
    table.prerouting(GATE, -200);
    table.prerouting(CATCH, -150);
    write_gate(&mut table, kind);
    write_catch(&mut table);
    table.commit()
}

/// Decides about first packets. Rejections stand here and not where packets are sent, because there
/// a refused datagram would fail with "operation not permitted".
fn write_gate(table: &mut Transaction<'_>, kind: GateKind) {
    use Expression::{Accept, Reject};
    table.rule(GATE, marked(mark::OURS).chain([Accept]));
    table.rule(GATE, marked(mark::ALLOWED).chain([Accept]));
    let refused = || marked(mark::REFUSED);
    table.rule(
        GATE,
        refused()
            .chain(transport(TCP))
            .chain([Reject(Rejection::Reset)]),
    );
    table.rule(GATE, refused().chain([Reject(Rejection::Port)]));
    table.rule(
        GATE,
        marked(mark::UNREACHABLE).chain([Reject(Rejection::Host)]),
    );
    for own in own_addresses() {
        for (protocol, rejection) in [(TCP, Rejection::Reset), (UDP, Rejection::Port)] {
            let catch = own.clone().into_iter().chain(to_port(protocol, CATCH_PORT));
            table.rule(GATE, catch.chain([Reject(rejection)]));
        }
        table.rule(GATE, own.into_iter().chain([Accept]));
    }
    for protocol in [TCP, UDP] {
        table.rule(GATE, to_port(protocol, 53).chain([Accept]));
    }
    table.rule(GATE, first_packet().chain(hold(kind)));
    // What is no first packet belongs to a connection that was let through, or to none.
    table.rule(GATE, transport(TCP).chain([Accept]));
    // Datagrams are held behind the socket that catches them.
    table.rule(GATE, transport(UDP).chain([Accept]));
    // The kernel's own error messages; nothing inside can make one.
    table.rule(GATE, transport(ICMP).chain([Accept]));
    table.rule(GATE, transport(ICMP_V6).chain([Accept]));
    table.rule(GATE, [Reject(Rejection::Prohibited)]);
}

/// Hands everything that goes elsewhere to our sockets.
fn write_catch(table: &mut Transaction<'_>) {
    use Expression::{Accept, LoadConstant, TransparentProxy};
    table.rule(CATCH, marked(mark::OURS).chain([Accept]));
    for own in own_addresses() {
        table.rule(CATCH, own.into_iter().chain([Accept]));
    }
    for protocol in [TCP, UDP] {
        table.rule(CATCH, to_port(protocol, 53).chain([Accept]));
        let port = LoadConstant(CATCH_PORT.to_be_bytes().to_vec());
        table.rule(
            CATCH,
            transport(protocol).chain([port, TransparentProxy, Accept]),
        );
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

fn marked(mark: u32) -> impl Iterator<Item = Expression> {
    [
        Expression::LoadMeta(Meta::Mark),
        Expression::Equals(mark.to_ne_bytes().to_vec()),
    ]
    .into_iter()
}

fn transport(protocol: u8) -> impl Iterator<Item = Expression> {
    let load = Expression::LoadMeta(Meta::TransportProtocol);
    [load, Expression::Equals(vec![protocol])].into_iter()
}

fn to_port(protocol: u8, port: u16) -> impl Iterator<Item = Expression> {
    let load = Expression::LoadPayload {
        header: Header::Transport,
        offset: 2,
        length: 2,
    };
    transport(protocol).chain([load, Expression::Equals(port.to_be_bytes().to_vec())])
}

/// TCP with SYN and without ACK.
fn first_packet() -> impl Iterator<Item = Expression> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let load = Expression::LoadPayload {
        header: Header::Transport,
        offset: 13,
        length: 1,
    };
    transport(TCP).chain([
        load,
        Expression::Mask(vec![SYN | ACK]),
        Expression::Equals(vec![SYN]),
    ])
}

fn hold(kind: GateKind) -> Vec<Expression> {
    match kind {
        GateKind::Queue => vec![Expression::Queue(netfilter::NUMBER)],
        GateKind::CompatQueue => vec![Expression::CompatQueue(netfilter::NUMBER)],
        GateKind::Log => {
            let log = Expression::Log {
                group: netfilter::NUMBER,
                bytes: netfilter::COPIED,
            };
            vec![log, Expression::Drop]
        }
    }
}

/// Matches packets to each of the cage's own addresses.
fn own_addresses() -> [Vec<Expression>; 4] {
    const V4: u8 = 2;
    const V6: u8 = 10;
    let to = |family: u8, offset: u32, address: &[u8]| {
        let length = u32::try_from(address.len()).unwrap_or(0);
        vec![
            Expression::LoadMeta(Meta::NetworkProtocol),
            Expression::Equals(vec![family]),
            Expression::LoadPayload {
                header: Header::Network,
                offset,
                length,
            },
            Expression::Equals(address.to_vec()),
        ]
    };
    [
        to(V4, 16, &[127]),
        to(V4, 16, &OWN_V4.octets()),
        to(V6, 24, &Ipv6Addr::LOCALHOST.octets()),
        to(V6, 24, &OWN_V6.octets()),
    ]
}
