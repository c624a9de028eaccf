//! Packets as bytes: reads the first segment of a TCP connection, makes the packets that we send
//! into the cage.
//!
//! What comes in is untrusted. A packet that is not understood gives `None`, and its owner drops it.

use std::net::{IpAddr, SocketAddr};

/// Both ends of a connection or flow, as the caged side sees them. Both are of one family: an IPv6
/// socket that talks to a mapped IPv4 address sends IPv4 packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flow {
    /// The end inside the cage.
    pub source: SocketAddr,
    /// Where it wants to go.
    pub destination: SocketAddr,
}

impl Flow {
    /// A flow between these ends, mapped addresses unwrapped.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self {
            source: canonical(source),
            destination: canonical(destination),
        }
    }
}

/// Unwraps a mapped IPv4 address; forgets scope and flow label.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The first segment of a TCP connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FirstSegment {
    /// Its ends.
    pub flow: Flow,
    /// Its sequence number: tells a repeat from a new connection between the same ends.
    pub sequence: u32,
    /// The TCP header with its options, without data.
    pub header: Vec<u8>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

/// Reads an IP packet that holds the first segment of a connection: SYN without ACK.
pub(crate) fn first_segment(packet: &[u8]) -> Option<FirstSegment> {
    let (source, destination, segment) = match packet.first()? >> 4 {
        4 => read_v4(packet)?,
        6 => read_v6(packet)?,
        _ => return None,
    };
    let fixed = segment.first_chunk::<TCP_HEADER>()?;
    let header = usize::from(fixed[12] >> 4) * 4;
    let flags = fixed[13];
    if header < TCP_HEADER || flags & 0x12 != 0x02 {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    Some(FirstSegment {
        flow: Flow::new(
            SocketAddr::new(source, port(0)),
            SocketAddr::new(destination, port(2)),
        ),
        sequence: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        header: segment.get(..header)?.to_vec(),
    })
}

fn read_v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let fixed = packet.first_chunk::<20>()?;
    let header = usize::from(fixed[0] & 0x0f) * 4;
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff;
    if fixed[9] != TCP || header < 20 || fragment != 0 {
        return None;
    }
    let address =
        |at: usize| IpAddr::from([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    Some((address(12), address(16), packet.get(header..)?))
}

fn read_v6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    const LONGEST_CHAIN: usize = 8;
    let fixed = packet.first_chunk::<40>()?;
    let address = |at: usize| {
        let octets: Option<&[u8; 16]> = fixed.get(at..)?.first_chunk();
        octets.map(|octets| IpAddr::from(*octets))
    };
    let mut next = fixed[6];
    let mut rest = packet.get(40..)?;
    for _ in 0..LONGEST_CHAIN {
        match next {
            TCP => return Some((address(8)?, address(24)?, rest)),
            // hop-by-hop, routing, destination options
            0 | 43 | 60 => {
                let [following, length] = *rest.first_chunk::<2>()?;
                next = following;
                rest = rest.get((usize::from(length) + 1) * 8..)?;
            }
            _ => return None,
        }
    }
    None
}

/// The first segment once more, without data, with a checksum that is right (on a loopback device
/// it was left to hardware that does not exist).
pub(crate) fn first_segment_again(first: &FirstSegment) -> Vec<u8> {
    let mut segment = first.header.clone();
    put_checksum(
        &mut segment,
        16,
        first.flow.source.ip(),
        first.flow.destination.ip(),
        TCP,
    );
    ip_packet(
        first.flow.source.ip(),
        first.flow.destination.ip(),
        TCP,
        &segment,
    )
}

/// "Connection refused": a reset that answers the first segment.
pub(crate) fn reset(first: &FirstSegment) -> Vec<u8> {
    const RESET_AND_ACK: u8 = 0x14;
    let (from, to) = (first.flow.destination, first.flow.source);
    let mut segment = vec![0; TCP_HEADER];
    segment[0..2].copy_from_slice(&from.port().to_be_bytes());
    segment[2..4].copy_from_slice(&to.port().to_be_bytes());
    segment[8..12].copy_from_slice(&first.sequence.wrapping_add(1).to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = RESET_AND_ACK;
    put_checksum(&mut segment, 16, from.ip(), to.ip(), TCP);
    ip_packet(from.ip(), to.ip(), TCP, &segment)
}

/// What could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The port: seen as "connection refused".
    Port,
    /// The machine: seen as "no route to host".
    Host,
}

/// The message that answers a first segment.
pub(crate) fn segment_unreachable(first: &FirstSegment, what: Unreachable) -> Vec<u8> {
    let original = ip_packet(
        first.flow.source.ip(),
        first.flow.destination.ip(),
        TCP,
        &first.header,
    );
    unreachable(first.flow, what, &original)
}

/// The message that answers a datagram of `length` bytes.
pub(crate) fn datagram_unreachable(flow: Flow, length: usize, what: Unreachable) -> Vec<u8> {
    // The kernel finds the sender by the addresses and ports; the data does not matter.
    let header = udp_header(flow.source, flow.destination, length);
    let original = ip_packet(flow.source.ip(), flow.destination.ip(), UDP, &header);
    unreachable(flow, what, &original)
}

fn unreachable(flow: Flow, what: Unreachable, original: &[u8]) -> Vec<u8> {
    let (from, to) = (flow.destination.ip(), flow.source.ip());
    let (protocol, kind, code) = match (from, what) {
        (IpAddr::V4(_), Unreachable::Host) => (ICMP, 3, 1),
        (IpAddr::V4(_), Unreachable::Port) => (ICMP, 3, 3),
        (IpAddr::V6(_), Unreachable::Host) => (ICMP_V6, 1, 3),
        (IpAddr::V6(_), Unreachable::Port) => (ICMP_V6, 1, 4),
    };
    let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(original);
    if protocol == ICMP {
        let sum = finish_sum(add_words(0, &message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    } else {
        put_checksum(&mut message, 2, from, to, protocol);
    }
    ip_packet(from, to, protocol, &message)
}

/// A datagram into the cage. `None` when it is longer than a packet can be.
pub(crate) fn datagram(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Option<Vec<u8>> {
    const LONGEST: usize = 65_535 - 20 - UDP_HEADER;
    if data.len() > LONGEST {
        return None;
    }
    let mut segment = Vec::with_capacity(UDP_HEADER + data.len());
    segment.extend_from_slice(&udp_header(from, to, data.len()));
    segment.extend_from_slice(data);
    put_checksum(&mut segment, 6, from.ip(), to.ip(), UDP);
    Some(ip_packet(from.ip(), to.ip(), UDP, &segment))
}

fn udp_header(from: SocketAddr, to: SocketAddr, data: usize) -> [u8; UDP_HEADER] {
    let mut header = [0; UDP_HEADER];
    header[0..2].copy_from_slice(&from.port().to_be_bytes());
    header[2..4].copy_from_slice(&to.port().to_be_bytes());
    let length = u16::try_from(UDP_HEADER + data).unwrap_or(u16::MAX);
    header[4..6].copy_from_slice(&length.to_be_bytes());
    header
}

fn ip_packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    const HOPS: u8 = 64;
    let mut packet = Vec::with_capacity(40 + payload.len());
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = u16::try_from(20 + payload.len()).unwrap_or(u16::MAX);
            packet.extend_from_slice(&[0x45, 0]);
            packet.extend_from_slice(&length.to_be_bytes());
            packet.extend_from_slice(&[0, 0, 0x40, 0, HOPS, protocol, 0, 0]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            let sum = finish_sum(add_words(0, &packet));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
            packet.extend_from_slice(&[0x60, 0, 0, 0]);
            packet.extend_from_slice(&length.to_be_bytes());
            packet.extend_from_slice(&[protocol, HOPS]);
            packet.extend_from_slice(&wide(from));
            packet.extend_from_slice(&wide(to));
        }
    }
    packet.extend_from_slice(payload);
    packet
}

fn wide(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn put_checksum(segment: &mut [u8], at: usize, from: IpAddr, to: IpAddr, protocol: u8) {
    let length = u32::try_from(segment.len()).unwrap_or(0);
    if let Some(place) = segment.get_mut(at..at + 2) {
        place.copy_from_slice(&[0, 0]);
    }
    let addresses = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => add_words(add_words(0, &from.octets()), &to.octets()),
        (from, to) => add_words(add_words(0, &wide(from)), &wide(to)),
    };
    let sum = finish_sum(add_words(addresses + length + u32::from(protocol), segment));
    // In UDP a sum of zero means that there is none.
    let sum = if sum == 0 && protocol == UDP {
        0xffff
    } else {
        sum
    };
    if let Some(place) = segment.get_mut(at..at + 2) {
        place.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Adds 16-bit words; 64 KiB of them cannot overflow 32 bits.
fn add_words(start: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(start, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        sum + u32::from(u16::from_be_bytes([pair[0], low]))
    })
}

fn finish_sum(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(v6: bool) -> FirstSegment {
        let (source, destination) = if v6 {
            ("[2001:db8::2]:40000", "[2001:db8::1]:443")
        } else {
            ("198.18.0.2:40000", "203.0.113.10:443")
        };
        let mut header = vec![0; 24];
        header[0..2].copy_from_slice(&40_000_u16.to_be_bytes());
        header[2..4].copy_from_slice(&443_u16.to_be_bytes());
        header[4..8].copy_from_slice(&7_u32.to_be_bytes());
        header[12] = 6 << 4;
        header[13] = 0x02;
        FirstSegment {
            flow: Flow::new(source.parse().unwrap(), destination.parse().unwrap()),
            sequence: 7,
            header,
        }
    }

    /// The sum over a segment that has the right checksum is zero.
    fn sums_up(packet: &[u8]) -> bool {
        let v4 = packet[0] >> 4 == 4;
        let (addresses, segment) = if v4 {
            (&packet[12..20], &packet[20..])
        } else {
            (&packet[8..40], &packet[40..])
        };
        let protocol = u32::from(if v4 { packet[9] } else { packet[6] });
        let start = add_words(protocol + segment.len() as u32, addresses);
        finish_sum(add_words(start, segment)) == 0
    }

    #[test]
    fn a_segment_sent_again_reads_as_the_same() {
        for v6 in [false, true] {
            let packet = first_segment_again(&first(v6));
            assert!(sums_up(&packet));
            let read = first_segment(&packet).unwrap();
            assert_eq!((read.flow, read.sequence), (first(v6).flow, 7));
        }
    }

    #[test]
    fn answers_carry_right_checksums() {
        for v6 in [false, true] {
            assert!(sums_up(&reset(&first(v6))));
            let flow = first(v6).flow;
            assert!(sums_up(
                &datagram(flow.destination, flow.source, b"odd").unwrap()
            ));
        }
        assert!(sums_up(&segment_unreachable(
            &first(true),
            Unreachable::Host
        )));
    }

    #[test]
    fn options_in_front_of_the_segment_are_walked() {
        let plain = first_segment_again(&first(true));
        let mut packet = plain[..40].to_vec();
        packet[6] = 60;
        packet.extend_from_slice(&[TCP, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend_from_slice(&plain[40..]);
        assert_eq!(first_segment(&packet).unwrap().flow, first(true).flow);
    }

    #[test]
    fn what_is_no_first_segment_is_not_read_as_one() {
        let mut answer = first(false);
        answer.header[13] = 0x12;
        assert_eq!(first_segment(&first_segment_again(&answer)), None);
        let mut fragment = first_segment_again(&first(false));
        fragment[7] = 1;
        assert_eq!(first_segment(&fragment), None);
    }

    #[test]
    fn a_datagram_longer_than_a_packet_is_not_made() {
        let flow = first(false).flow;
        assert_eq!(datagram(flow.destination, flow.source, &[0; 65_508]), None);
        assert!(datagram(flow.destination, flow.source, &[0; 65_507]).is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = first_segment(&bytes);
        }

        #[test]
        fn any_damage_to_a_segment_can_be_read(
            v6: bool,
            at in 0_usize..84,
            value: u8,
            cut in 0_usize..84,
        ) {
            let mut packet = first_segment_again(&first(v6));
            let at = at % packet.len();
            packet[at] = value;
            packet.truncate(packet.len() - cut.min(packet.len()));
            if let Some(read) = first_segment(&packet) {
                let _ = (reset(&read), segment_unreachable(&read, Unreachable::Host));
                let _ = first_segment_again(&read);
            }
        }
    }
}
