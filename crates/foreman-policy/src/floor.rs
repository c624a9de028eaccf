//! The floor of destinations: what no rule, however written, can open.
//!
//! By address ([`crate::classify`]), by name, and by port. Judging, explaining and parsing all ask here,
//! so that a rule which could never count is refused where it is written.

use crate::HostPattern;
use crate::address::{AddressClass, classify};
use crate::host::canonical_host;
use crate::own_machine::{ONLY_TCP, THIS_MACHINE, is_this_machine};
use crate::path_floor::file_floor;
use crate::socket_floor::socket_floor;
use foreman_domain::{Host, Protocol, Subject};
use std::net::IpAddr;
use std::path::Path;

/// Why no rule can ever allow the subject, as a sentence; `None` when one can.
#[must_use]
pub fn subject_floor(subject: &Subject) -> Option<String> {
    let (protocol, host, port, resolved) = match subject {
        Subject::Egress {
            protocol,
            host,
            port,
            resolved,
        } => (protocol, host, port, resolved),
        // Whoever knows where the operator's home and the engine's data are asks with those besides.
        Subject::File { access, path } => {
            let why = file_floor(&path.to_path(), *access, Path::new("~"), &[])?;
            return Some(format!("{path} is {why}, which no rule can open"));
        }
        Subject::Socket { path } => {
            let why = socket_floor(&path.to_path(), &[])?;
            return Some(format!("{path} is {why}, which no rule can open"));
        }
        Subject::Bound { .. } | Subject::Question { .. } => return None,
    };
    if let Some(why) = port_floor(*protocol, *port) {
        return Some(why);
    }
    if *protocol == Protocol::Udp && is_this_machine(host) {
        return Some(ONLY_TCP.to_owned());
    }
    let address_floor = |address: IpAddr| match classify(address) {
        AddressClass::Floor(why) => Some(why),
        AddressClass::Public | AddressClass::Private => None,
    };
    let own = match host {
        Host::Address(address) => address_floor(*address),
        Host::Name(name) if canonical_host(name).as_ref() != Ok(host) => {
            return Some(
                "That is not a host name in its canonical form, so no rule can open it".into(),
            );
        }
        Host::Name(name) => name_floor(name),
    };
    if let Some(why) = own {
        return Some(format!("{host} is {why}, which no rule can open"));
    }
    let address = (*resolved)?;
    let why = address_floor(address)?;
    Some(format!(
        "{host} resolves to {address}, {why}, which no rule can open"
    ))
}

/// Why no rule can open a port of any host, as a sentence; `None` when one can.
#[must_use]
pub fn port_floor(protocol: Protocol, port: u16) -> Option<String> {
    match (protocol, port) {
        (_, 0) => Some("0 is not a port that can be reached".into()),
        (_, 53) => Some(
            "Port 53 is answered by the cage's own resolver, whatever the host, so no rule can open it"
                .into(),
        ),
        // QUIC and DNS over QUIC: programs use TCP instead, where a connection can be held.
        (Protocol::Udp, 443 | 853) => Some(format!(
            "UDP on port {port} is refused at once, so that programs use TCP instead; no rule can open it"
        )),
        _ => None,
    }
}

/// Why no rule can open a port of the hosts of a pattern, as a sentence; `None` when one can.
pub(crate) fn pattern_floor(protocol: Protocol, host: &HostPattern, port: u16) -> Option<String> {
    if let Some(why) = port_floor(protocol, port) {
        return Some(why);
    }
    let is_own = matches!(host, HostPattern::Name(name) if name == THIS_MACHINE);
    (protocol == Protocol::Udp && is_own).then(|| ONLY_TCP.to_owned())
}

/// Why a name is on the floor whatever it would resolve to, as "a name of the loopback address".
pub(crate) fn name_floor(name: &str) -> Option<&'static str> {
    const METADATA: &[&str] = &[
        "metadata.google.internal",
        "instance-data",
        "instance-data.ec2.internal",
    ];
    if name == "localhost" || name.ends_with(".localhost") {
        Some("a name of the loopback address")
    } else if METADATA.contains(&name) {
        Some("a name of the cloud metadata service")
    } else {
        None
    }
}
