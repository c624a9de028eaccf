//! What kind of place an address is: public, private, or on the floor.
//!
//! An IPv6 address that carries an IPv4 address (mapped, compatible, translated, NAT64, 6to4, Teredo,
//! ISATAP) is as bad as the worst of the two, because something on the way may unwrap it.
//! Documentation ranges are public: there is no special case for tests and demos.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is. Ordered from harmless to forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressClass {
    /// Reachable when a rule allows the name that resolves to it, or the address itself.
    Public,
    /// Somebody's own network. A name that resolves to it needs a rule that names the address.
    Private,
    /// Never reachable from a cage; says what it is, as "a loopback address".
    Floor(&'static str),
}

const METADATA: AddressClass = AddressClass::Floor("a cloud metadata address");
const LOOPBACK: AddressClass = AddressClass::Floor("a loopback address");
const UNSPECIFIED: AddressClass = AddressClass::Floor("the unspecified address");
const THIS_NETWORK: AddressClass = AddressClass::Floor("an address of \"this network\"");
const LINK_LOCAL: AddressClass = AddressClass::Floor("a link-local address");
const MULTICAST: AddressClass = AddressClass::Floor("a multicast address");
const BROADCAST: AddressClass = AddressClass::Floor("the broadcast address");
const RESERVED: AddressClass = AddressClass::Floor("a reserved address");
const OWN_NAMES: AddressClass =
    AddressClass::Floor("an address that stands for a name inside a cage only");

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

/// First match counts; what matches none is public.
const V4: &[(Ipv4Net, AddressClass)] = &[
    (v4(169, 254, 169, 254, 32), METADATA), // most clouds
    (v4(169, 254, 170, 2, 32), METADATA),   // container credentials
    (v4(100, 100, 100, 200, 32), METADATA),
    (v4(168, 63, 129, 16, 32), METADATA),
    (v4(192, 0, 0, 192, 32), METADATA),
    (v4(0, 0, 0, 0, 32), UNSPECIFIED),
    (v4(0, 0, 0, 0, 8), THIS_NETWORK),
    (v4(127, 0, 0, 0, 8), LOOPBACK),
    (v4(169, 254, 0, 0, 16), LINK_LOCAL),
    (v4(224, 0, 0, 0, 4), MULTICAST),
    (v4(255, 255, 255, 255, 32), BROADCAST),
    (v4(240, 0, 0, 0, 4), RESERVED),
    (v4(198, 18, 0, 0, 15), OWN_NAMES),
    (v4(10, 0, 0, 0, 8), AddressClass::Private),
    (v4(172, 16, 0, 0, 12), AddressClass::Private),
    (v4(192, 168, 0, 0, 16), AddressClass::Private),
    (v4(100, 64, 0, 0, 10), AddressClass::Private), // carrier-grade NAT
    (v4(192, 0, 0, 0, 24), AddressClass::Private),  // protocol assignments
];

const fn v6(segments: [u16; 8], length: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), length)
}

/// First match counts; what matches none is public. Wrapped IPv4 is looked at besides.
const V6: &[(Ipv6Net, AddressClass)] = &[
    (v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32), METADATA),
    (v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], 128), METADATA),
    (v6([0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042], 128), METADATA),
    (
        v6([0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128),
        METADATA,
    ),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), UNSPECIFIED),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), LOOPBACK),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LINK_LOCAL),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), MULTICAST),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), AddressClass::Private), // unique local
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), AddressClass::Private), // site local, given up
    (
        v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),
        AddressClass::Private,
    ), // local-use NAT64
];

/// Says what kind of place `address` is. Total: every address has exactly one class.
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => {
            let own = V6
                .iter()
                .find(|(range, _)| range.contains(&address))
                .map_or(AddressClass::Public, |(_, class)| *class);
            if matches!(own, AddressClass::Floor(_)) {
                return own;
            }
            wrapped(address)
                .into_iter()
                .flatten()
                .map(classify_v4)
                .fold(own, AddressClass::max)
        }
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    V4.iter()
        .find(|(range, _)| range.contains(&address))
        .map_or(AddressClass::Public, |(_, class)| *class)
}

/// True when some address of the range is on the floor.
pub(crate) fn touches_floor(range: &IpNet) -> bool {
    let overlaps = |floor: &IpNet| range.contains(floor) || floor.contains(range);
    let on_floor = |class: &AddressClass| matches!(class, AddressClass::Floor(_));
    let v4 = V4
        .iter()
        .filter(|(_, class)| on_floor(class))
        .map(|(net, _)| IpNet::V4(*net));
    let v6 = V6
        .iter()
        .filter(|(_, class)| on_floor(class))
        .map(|(net, _)| IpNet::V6(*net));
    v4.chain(v6).any(|floor| overlaps(&floor))
}

/// What the whole range is, when it lies within one entry of the tables.
pub(crate) fn classify_range(range: &IpNet) -> Option<AddressClass> {
    if range.prefix_len() == range.max_prefix_len() {
        return Some(classify(range.addr()));
    }
    match range {
        IpNet::V4(range) => V4
            .iter()
            .find(|(net, _)| net.contains(range))
            .map(|(_, class)| *class),
        IpNet::V6(range) => V6
            .iter()
            .find(|(net, _)| net.contains(range))
            .map(|(_, class)| *class),
    }
}

/// The IPv4 addresses that an IPv6 address may be unwrapped to on its way.
fn wrapped(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let last = join(g, h);
    match (a, b, c, d, e, f) {
        // IPv4-compatible and IPv4-translated
        (0, 0, 0, 0, 0, 0) | (0, 0, 0, 0, 0xffff, 0) => [Some(last), None],
        // NAT64, well-known prefix
        (0x64, 0xff9b, 0, 0, 0, 0) => [Some(last), None],
        // NAT64, local-use prefix: as a /96, or as a /48 that goes around the octet of zeros. The way
        // that is not in use reads as all zeros.
        (0x64, 0xff9b, 1, ..) => {
            let around = join(d, (e & 0xff) << 8 | f >> 8);
            [last, around].map(|address| Some(address).filter(|address| !address.is_unspecified()))
        }
        // 6to4
        (0x2002, ..) => [Some(join(b, c)), None],
        // Teredo: server, and the client with all bits turned over
        (0x2001, 0, ..) => [Some(join(c, d)), Some(join(!g, !h))],
        // ISATAP
        (.., 0 | 0x0200, 0x5efe) => [Some(last), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(text: &str) -> AddressClass {
        classify(text.parse().unwrap())
    }

    #[test]
    fn floor_addresses_are_on_the_floor_in_every_dress() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "169.254.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.251",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            // wrapped
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:4136:e378:8000:63bf:80ff:fffe",
            "2001:db8::5efe:127.0.0.1",
        ] {
            assert!(
                matches!(class(text), AddressClass::Floor(_)),
                "{text}: {:?}",
                class(text)
            );
        }
    }

    #[test]
    fn private_addresses_are_private_in_every_dress() {
        for text in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "fc00::1",
            "fd12:3456::1",
            "fec0::1",
            "::ffff:10.0.0.1",
            "64:ff9b::192.168.0.1",
            "2002:c0a8:1::1",
            "64:ff9b:1::808:808",
        ] {
            assert_eq!(class(text), AddressClass::Private, "{text}");
        }
    }

    #[test]
    fn documentation_and_ordinary_addresses_are_public() {
        for text in [
            "192.0.2.1",
            "198.51.100.7",
            "203.0.113.9",
            "2001:db8::1",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "198.20.0.1",
            "2606:4700::1",
            "::ffff:1.1.1.1",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert_eq!(class(text), AddressClass::Public, "{text}");
        }
    }

    #[test]
    fn ranges_know_whether_they_touch_the_floor() {
        let touches = |text: &str| touches_floor(&text.parse().unwrap());
        assert!(touches("100.64.0.0/10") && touches("fd00::/8") && touches("127.0.0.0/30"));
        assert!(!touches("10.0.0.0/8") && !touches("203.0.113.0/24") && !touches("2001:db8::/32"));
    }

    proptest! {
        #[test]
        fn a_mapped_address_has_the_class_of_its_own(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            prop_assert_eq!(classify(plain.into()), classify(plain.to_ipv6_mapped().into()));
        }

        #[test]
        fn wrapping_never_makes_an_address_more_harmless(bits: u32) {
            let plain = Ipv4Addr::from_bits(bits);
            let nat64 = Ipv6Addr::from_bits(0x0064_ff9b << 96 | u128::from(bits));
            let six_to_four = Ipv6Addr::from_bits(0x2002 << 112 | u128::from(bits) << 80);
            prop_assert!(classify(nat64.into()) >= classify(plain.into()));
            prop_assert!(classify(six_to_four.into()) >= classify(plain.into()));
        }
    }
}
