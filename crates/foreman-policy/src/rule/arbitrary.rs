//! Rules, subjects and policies for property tests. Few names, ports and addresses, so that they meet.

use super::*;
use crate::AddressClass;
use crate::floor::port_floor;
use foreman_domain::{AmendmentId, Host, RunId};
use proptest::prelude::*;
use std::net::IpAddr;

pub(crate) fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![4 => Just(443_u16), 2 => Just(4_433_u16), 1 => 1_u16..]
}

pub(crate) fn name() -> impl Strategy<Value = String> {
    let label = prop_oneof![Just("a"), Just("b"), Just("xn--bcher-kva"), Just("my_host")];
    let domain = prop_oneof![
        Just("example.com"),
        Just("corp.example"),
        Just("example.net")
    ];
    (proptest::collection::vec(label, 0..3), domain).prop_map(|(labels, domain)| {
        labels
            .into_iter()
            .chain([domain])
            .collect::<Vec<_>>()
            .join(".")
    })
}

/// Addresses of all classes, wrapped ones included.
pub(crate) fn address() -> impl Strategy<Value = IpAddr> {
    let few = prop_oneof![
        Just("203.0.113.9"),
        Just("10.1.2.3"),
        Just("10.9.9.9"),
        Just("127.0.0.1"),
        Just("169.254.169.254"),
        Just("198.18.0.7"),
        Just("2001:db8::1"),
        Just("fd12::1"),
        Just("::1"),
        Just("::ffff:127.0.0.1"),
        Just("64:ff9b::a9fe:a9fe"),
        Just("2002:7f00:1::1"),
    ]
    .prop_map(|text: &str| text.parse().unwrap());
    prop_oneof![4 => few, 1 => any::<IpAddr>()]
}

fn private_range() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        Just("10.1.2.3/32"),
        Just("10.0.0.0/8"),
        Just("192.168.0.0/24"),
        Just("fd12::/64")
    ]
    .prop_map(|text: &str| text.parse().unwrap())
}

pub(crate) fn pattern() -> impl Strategy<Value = HostPattern> {
    let public = |range: &IpNet| {
        !matches!(
            crate::address::classify_range(range),
            Some(AddressClass::Floor(_))
        )
    };
    let range = (address(), 16_u8..=128).prop_map(|(address, length)| {
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        IpNet::new(address, length.min(most)).unwrap().trunc()
    });
    prop_oneof![
        3 => name().prop_map(HostPattern::Name),
        1 => name().prop_map(HostPattern::OneLabelUnder),
        1 => name().prop_map(HostPattern::AnyDepthUnder),
        2 => range.prop_filter("no rule for the floor", public).prop_map(HostPattern::Address),
    ]
}

pub(crate) fn layer() -> impl Strategy<Value = Layer> {
    prop_oneof![
        Just(Layer::Profile),
        Just(Layer::Project),
        Just(Layer::Order),
        Just(Layer::Amendment)
    ]
}

pub(crate) fn moment() -> impl Strategy<Value = At> {
    (0_i64..100).prop_map(At::from_millis)
}

fn origin() -> impl Strategy<Value = Origin> {
    let reason = proptest::option::of("\\PC{0,40}");
    (layer(), 0_u32..1_000_000, reason, any::<bool>()).prop_map(|(layer, id, reason, amended)| {
        Origin {
            id: RuleId(format!("{layer}:{id}")),
            layer,
            source: "a test".into(),
            amendment: amended.then(|| AmendmentId::new(RunId::from_random(1), id)),
            reason,
        }
    })
}

/// A rule that could stand in a file.
pub(crate) fn egress_rule() -> impl Strategy<Value = EgressRule> {
    let range = proptest::option::of(private_range());
    let expires = proptest::option::of(moment());
    (origin(), protocol(), pattern(), port(), range, expires).prop_map(
        |(origin, protocol, host, port, range, expires)| EgressRule {
            origin,
            protocol,
            resolves_to: range.filter(|_| !matches!(host, HostPattern::Address(_))),
            host,
            port: if port_floor(protocol, port).is_some() {
                4_433
            } else {
                port
            },
            applies: Use::Always,
            expires,
        },
    )
}

pub(crate) fn subject() -> impl Strategy<Value = Subject> {
    let host = prop_oneof![
        name().prop_map(Host::Name),
        address().prop_map(Host::Address)
    ];
    (protocol(), host, port(), proptest::option::of(address())).prop_map(
        |(protocol, host, port, resolved)| Subject::Egress {
            protocol,
            host,
            port,
            resolved,
        },
    )
}

/// A rule of any kind, "once" included, that also a hostile store could hold.
pub(crate) fn any_rule() -> impl Strategy<Value = EgressRule> {
    let once = proptest::option::of((subject(), 0_u64..10));
    let host = proptest::option::of((address(), 0_u8..=32));
    (egress_rule(), once, host).prop_map(|(mut rule, once, host)| {
        if let Some((subject, through)) = once {
            rule.applies = Use::Holds {
                subject,
                through: HoldId(through),
            };
        }
        if let Some((address, length)) = host {
            rule.host = HostPattern::Address(IpNet::new(address, length).unwrap());
        }
        rule
    })
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let denial = (origin(), subject()).prop_map(|(origin, subject)| Denial {
        origin,
        subject,
        reason: String::new(),
    });
    (
        proptest::collection::vec(any_rule(), 0..12),
        proptest::collection::vec(denial, 0..3),
    )
        .prop_map(|(egress, denials)| Policy {
            egress,
            denials,
            ..Policy::default()
        })
}
