//! The sockets of a cage's network namespace, made inside and used outside.
//!
//! None of them blocks, all are closed on exec. What they may do (take connections to any address,
//! send any packet) they may do in the cage's namespace only, wherever they are used from.

use super::netlink::netfilter::{enlarge_buffer, open_log, open_queue, set_option};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Port of the sockets that take everything. Outside of the usual range for outgoing connections,
/// and closed by rule to whoever addresses it by itself.
pub(crate) const CATCH_PORT: u16 = 61_953;
const DNS_PORT: u16 = 53;

/// Marks that tell our own packets, and our verdicts, to the rules.
pub(crate) mod mark {
    /// A held packet that may go on.
    pub const ALLOWED: u32 = 1;
    /// A held packet whose sender is told "connection refused".
    pub const REFUSED: u32 = 2;
    /// A held packet whose sender is told "host unreachable".
    pub const UNREACHABLE: u32 = 3;
    /// A packet that we send into the cage.
    pub const OURS: u32 = 5;
}

/// How the first packet of a connection is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind {
    /// The kernel's own `queue` statement.
    Queue,
    /// The same queue by way of the older NFQUEUE target.
    CompatQueue,
    /// Copied to us and dropped; sent again when allowed.
    Log,
}

impl GateKind {
    /// Every kind, the preferred one first.
    pub const PREFERENCE: [Self; 3] = [Self::Queue, Self::CompatQueue, Self::Log];

    /// A short name for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "nft queue",
            Self::CompatQueue => "nfqueue by nft_compat",
            Self::Log => "nflog",
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::Queue => b'q',
            Self::CompatQueue => b'c',
            Self::Log => b'l',
        }
    }

    fn of_tag(tag: u8) -> Option<Self> {
        Self::PREFERENCE.into_iter().find(|kind| kind.tag() == tag)
    }
}

/// Sockets of one address family.
#[derive(Debug)]
pub(crate) struct FamilySockets {
    /// Takes every TCP connection (transparent).
    pub tcp: OwnedFd,
    /// Takes DNS queries to any address.
    pub dns_udp: OwnedFd,
    /// Takes DNS connections to any address.
    pub dns_tcp: OwnedFd,
    /// Takes every other datagram (transparent), with its original destination.
    pub udp: OwnedFd,
    /// Sends packets into the cage; they carry the mark "ours".
    pub reply: OwnedFd,
    /// Sends a held packet again; it carries the mark "allowed". Only for [`GateKind::Log`].
    pub again: Option<OwnedFd>,
}

/// The sockets of one cage: what [`super::plumb`] makes and [`super::start`] takes.
#[derive(Debug)]
pub struct Sockets {
    pub(crate) kind: GateKind,
    pub(crate) gate: OwnedFd,
    pub(crate) v4: FamilySockets,
    pub(crate) v6: Option<FamilySockets>,
}

impl Sockets {
    /// How the first packet of a connection is held.
    #[must_use]
    pub fn gate(&self) -> GateKind {
        self.kind
    }

    /// Whether the cage has IPv6.
    #[must_use]
    pub fn has_v6(&self) -> bool {
        self.v6.is_some()
    }

    /// The descriptors and what they are, to pass over a Unix socket.
    #[must_use]
    pub fn into_fds(self) -> (Vec<OwnedFd>, Vec<u8>) {
        let description = vec![
            b'1',
            self.kind.tag(),
            if self.v6.is_some() { b'6' } else { b'4' },
        ];
        let mut fds = vec![self.gate];
        for family in [Some(self.v4), self.v6].into_iter().flatten() {
            fds.extend([
                family.tcp,
                family.dns_udp,
                family.dns_tcp,
                family.udp,
                family.reply,
            ]);
            fds.extend(family.again);
        }
        (fds, description)
    }

    /// The reverse of [`Sockets::into_fds`].
    ///
    /// # Errors
    /// `InvalidData` when the description is not one of ours or the number of descriptors is wrong.
    pub fn from_fds(fds: Vec<OwnedFd>, description: &[u8]) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "these are not a cage's sockets");
        let &[b'1', tag, family @ (b'4' | b'6')] = description else {
            return Err(wrong());
        };
        let kind = GateKind::of_tag(tag).ok_or_else(wrong)?;
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(wrong);
        let take_family = |next: &mut dyn FnMut() -> io::Result<OwnedFd>| {
            Ok::<_, io::Error>(FamilySockets {
                tcp: next()?,
                dns_udp: next()?,
                dns_tcp: next()?,
                udp: next()?,
                reply: next()?,
                again: if kind == GateKind::Log {
                    Some(next()?)
                } else {
                    None
                },
            })
        };
        let gate = next()?;
        let v4 = take_family(&mut next)?;
        let v6 = if family == b'6' {
            Some(take_family(&mut next)?)
        } else {
            None
        };
        if next().is_ok() {
            return Err(wrong());
        }
        Ok(Self { kind, gate, v4, v6 })
    }
}

/// Opens what holds the first packets.
pub(super) fn open_gate(kind: GateKind) -> io::Result<OwnedFd> {
    match kind {
        GateKind::Queue | GateKind::CompatQueue => open_queue(),
        GateKind::Log => open_log(),
    }
}

impl FamilySockets {
    /// Opens the sockets of one family in the network namespace of the calling thread.
    pub(super) fn open(v6: bool, kind: GateKind) -> io::Result<Self> {
        let options = FamilyOptions::of(v6);
        let tcp = options.bound(libc::SOCK_STREAM, CATCH_PORT, &[options.transparent])?;
        let dns_tcp = options.bound(libc::SOCK_STREAM, DNS_PORT, &[])?;
        // Transparent, so that the answer may come from the address that was asked.
        let asked = [options.transparent, options.packet_info];
        let dns_udp = options.bound(libc::SOCK_DGRAM, DNS_PORT, &asked)?;
        let original = [options.transparent, options.original_destination];
        let udp = options.bound(libc::SOCK_DGRAM, CATCH_PORT, &original)?;
        const UDP_BUFFER: libc::c_int = 2 << 20;
        // A smaller buffer only drops earlier.
        enlarge_buffer(udp.as_fd(), UDP_BUFFER);
        let reply = options.raw(mark::OURS)?;
        let again = match kind {
            GateKind::Log => Some(options.raw(mark::ALLOWED)?),
            GateKind::Queue | GateKind::CompatQueue => None,
        };
        Ok(Self {
            tcp,
            dns_udp,
            dns_tcp,
            udp,
            reply,
            again,
        })
    }
}

/// A socket option that is switched on.
type Switch = (libc::c_int, libc::c_int);

/// What differs between the families.
struct FamilyOptions {
    v6: bool,
    transparent: Switch,
    packet_info: Switch,
    original_destination: Switch,
}

impl FamilyOptions {
    fn of(v6: bool) -> Self {
        if v6 {
            let level = libc::IPPROTO_IPV6;
            Self {
                v6,
                transparent: (level, libc::IPV6_TRANSPARENT),
                packet_info: (level, libc::IPV6_RECVPKTINFO),
                original_destination: (level, libc::IPV6_RECVORIGDSTADDR),
            }
        } else {
            let level = libc::IPPROTO_IP;
            Self {
                v6,
                transparent: (level, libc::IP_TRANSPARENT),
                packet_info: (level, libc::IP_PKTINFO),
                original_destination: (level, libc::IP_RECVORIGDSTADDR),
            }
        }
    }

    fn open(&self, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
        let domain = if self.v6 {
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe { libc::socket(domain, kind, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// A socket on every address, listening when it is TCP.
    fn bound(&self, kind: libc::c_int, port: u16, switches: &[Switch]) -> io::Result<OwnedFd> {
        let socket = self.open(kind, 0)?;
        let fd = socket.as_fd();
        set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        if self.v6 {
            set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        for &(level, option) in switches {
            set_option(fd, level, option, 1)?;
        }
        let address: SocketAddr = if self.v6 {
            (Ipv6Addr::UNSPECIFIED, port).into()
        } else {
            (Ipv4Addr::UNSPECIFIED, port).into()
        };
        bind(fd, address)?;
        if kind == libc::SOCK_STREAM {
            const BACKLOG: libc::c_int = 4096;
            // SAFETY: no pointers; the result is checked.
            if unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(socket)
    }

    /// A socket that sends whole packets with a mark.
    fn raw(&self, mark: u32) -> io::Result<OwnedFd> {
        let socket = self.open(libc::SOCK_RAW, libc::IPPROTO_RAW)?;
        set_option(
            socket.as_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            mark.cast_signed(),
        )?;
        Ok(socket)
    }
}

fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let address = nix::sys::socket::SockaddrStorage::from(address);
    nix::sys::socket::bind(fd.as_raw_fd(), &address).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fds(count: usize) -> Vec<OwnedFd> {
        (0..count)
            .map(|_| std::fs::File::open("/dev/null").unwrap().into())
            .collect()
    }

    #[test]
    fn sockets_survive_being_passed() {
        for (description, count) in [(b"1q6", 11), (b"1c4", 6), (b"1l6", 13), (b"1l4", 7)] {
            let sockets = Sockets::from_fds(fds(count), description).unwrap();
            assert_eq!(sockets.has_v6(), description[2] == b'6');
            let (fds, again) = sockets.into_fds();
            assert_eq!((fds.len(), again.as_slice()), (count, &description[..]));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (description, count) in [
            (&b"1q6"[..], 10),
            (b"1q6", 12),
            (b"2q6", 11),
            (b"", 0),
            (b"1x4", 6),
        ] {
            assert!(
                Sockets::from_fds(fds(count), description).is_err(),
                "{description:?}"
            );
        }
    }
}
