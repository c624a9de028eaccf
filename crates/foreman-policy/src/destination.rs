//! Destinations as typed on a command line: `host:port`, `[v6]:port`, `udp:host:port`.

use crate::error::{Fault, PolicyError, quoted};
use crate::floor::{pattern_floor, port_floor};
use crate::{EgressRule, HostPattern, Layer, Origin, RuleId, Use, canonical_host};
use foreman_domain::{Host, Protocol, Subject};

/// Longest destination that is looked at; a host name has at most 253 characters.
const LONGEST: usize = 1_024;

/// Reads an item of `--allow` as a rule of the order: `host:port`, `*.suffix:port`, `[v6]:port`,
/// `range/prefix:port`, each maybe behind `udp:` or `tcp:`.
///
/// # Errors
/// A sentence when it is none of these, or names what no rule can open.
pub fn parse_allow(text: &str) -> Result<EgressRule, PolicyError> {
    let rule = || -> Result<EgressRule, Fault> {
        let (protocol, host, port) = split(text)?;
        let pattern = HostPattern::parse(host);
        let floor = match &pattern {
            Ok(pattern) => pattern_floor(protocol, pattern, port),
            Err(_) => port_floor(protocol, port),
        };
        if let Some(why) = floor {
            return Err(Fault::new(why));
        }
        let mut rule = EgressRule {
            origin: Origin {
                id: RuleId(String::new()),
                layer: Layer::Order,
                source: "--allow".into(),
                amendment: None,
                reason: None,
            },
            protocol,
            host: pattern?,
            port,
            resolves_to: None,
            applies: Use::Always,
            expires: None,
        };
        rule.origin.id = RuleId(format!("allow:{rule}"));
        Ok(rule)
    };
    rule().map_err(|fault| fault.in_argument("--allow"))
}

/// Reads a destination to ask about: `host:port`, `[v6]:port`, each maybe behind `udp:`, `tcp:`,
/// `udp ` or `tcp `.
///
/// # Errors
/// A sentence when it is none of these.
pub fn parse_destination(text: &str) -> Result<Subject, PolicyError> {
    let subject = || -> Result<Subject, Fault> {
        let (protocol, host, port) = split(text)?;
        let host: Host = canonical_host(host).map_err(|error| Fault::new(error.to_string()))?;
        Ok(Subject::Egress {
            protocol,
            host,
            port,
            resolved: None,
        })
    };
    subject().map_err(|fault| fault.in_argument("destination"))
}

fn split(text: &str) -> Result<(Protocol, &str, u16), Fault> {
    if text.len() > LONGEST {
        return Err(Fault::new(format!(
            "{} is too long for a destination",
            quoted(text)
        )));
    }
    let (protocol, rest) = protocol(text.trim());
    if rest.contains("://") {
        return Err(Fault::new(format!(
            "{} is an address of a page, not of a host",
            quoted(text)
        ))
        .hint("Write host and port only, as \"registry.example:443\"."));
    }
    let no_port = || {
        Fault::new(format!("{} has no port", quoted(text)))
            .hint("Write host and port, as \"registry.example:443\"; an IPv6 address in brackets.")
    };
    let (host, port) = match rest.strip_prefix('[') {
        Some(inner) => {
            let (host, port) = inner.split_once(']').ok_or_else(no_port)?;
            if !host.contains(':') {
                return Err(Fault::new(format!("{} cannot be read", quoted(text)))
                    .hint("Brackets are for IPv6 addresses only."));
            }
            (host, port.strip_prefix(':').ok_or_else(no_port)?)
        }
        None => {
            let (host, port) = rest.rsplit_once(':').ok_or_else(no_port)?;
            if host.contains(':') {
                return Err(Fault::new(format!("{} cannot be read", quoted(text))).hint(
                    "Put an IPv6 address in brackets, as \"[2001:db8::1]:443\"; the protocol can be \
                     tcp or udp.",
                ));
            }
            (host, port)
        }
    };
    Ok((protocol, host, port_number(port)?))
}

fn protocol(text: &str) -> (Protocol, &str) {
    for (name, protocol) in [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)] {
        let Some(head) = text.get(..name.len()) else {
            continue;
        };
        let Some(rest) = text.get(name.len()..) else {
            continue;
        };
        if !head.eq_ignore_ascii_case(name) {
            continue;
        }
        if let Some(rest) = rest.strip_prefix(' ') {
            return (protocol, rest.trim_start());
        }
        // "udp:443" is the port 443 of a host that is called udp.
        if let Some(rest) = rest.strip_prefix(':')
            && rest.contains(':')
        {
            return (protocol, rest);
        }
    }
    (Protocol::Tcp, text)
}

/// A port from 1 to 65535.
fn port_number(text: &str) -> Result<u16, Fault> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        _ => Err(Fault::new(format!("{} is not a port", quoted(text)))
            .hint("A port is a number from 1 to 65535.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn allow_items_become_rules_of_the_order() {
        for (text, wanted) in [
            ("Registry.example:443", "tcp registry.example:443"),
            ("*.example.com:443", "tcp *.example.com:443"),
            ("udp:time.example:123", "udp time.example:123"),
            ("tcp:registry.example:22", "tcp registry.example:22"),
            ("[2001:db8::1]:443", "tcp [2001:db8::1]:443"),
            ("udp:[2001:db8::/32]:123", "udp [2001:db8::/32]:123"),
            ("10.0.0.0/8:5432", "tcp 10.0.0.0/8:5432"),
            ("udp:443", "tcp udp:443"),
        ] {
            let rule = parse_allow(text).unwrap();
            assert_eq!(rule.to_string(), wanted, "{text}");
            assert_eq!(rule.origin.layer, Layer::Order);
        }
    }

    #[test]
    fn unreadable_destinations_are_refused_with_a_hint() {
        for text in [
            "",
            ":",
            "registry.example",
            "registry.example:",
            ":443",
            "registry.example:0",
            "registry.example:65536",
            "registry.example:+443",
            "registry.example:https",
            "2001:db8::1:443",
            "sctp:registry.example:443",
            "[2001:db8::1]",
            "[2001:db8::1]443",
            "[registry.example]:443",
            "[192.0.2.1]:443",
            "[10.0.0.0/8]:443",
            "https://registry.example:443",
            "registry example:443",
            "*:443",
        ] {
            assert!(parse_allow(text).is_err(), "{text}");
            assert!(parse_destination(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_floor_address_can_be_asked_about_but_not_allowed() {
        assert!(parse_destination("169.254.169.254:80").is_ok());
        let error = parse_allow("169.254.169.254:80").unwrap_err();
        assert!(error.message.contains("metadata"), "{error}");
    }

    #[test]
    fn ports_that_no_rule_can_open_are_not_allowed() {
        for text in [
            "udp:registry.example:443",
            "udp:registry.example:853",
            "registry.example:53",
        ] {
            assert!(
                parse_allow(text).is_err() && parse_destination(text).is_ok(),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_rule_reads_back_as_it_is_shown(rule in crate::rule::arbitrary::egress_rule()) {
            let rule = EgressRule { resolves_to: None, expires: None, ..rule };
            let read = parse_allow(&rule.to_string()).unwrap();
            prop_assert_eq!(EgressRule { origin: rule.origin.clone(), ..read }, rule);
        }

        #[test]
        fn a_subject_reads_back_as_it_is_shown(udp: bool, address: std::net::IpAddr, port in 1_u16..) {
            let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
            let host = Host::Address(address.to_canonical());
            let subject = Subject::Egress { protocol, host, port, resolved: None };
            prop_assert_eq!(parse_destination(&subject.to_string()), Ok(subject));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = parse_destination(&text);
            let _ = parse_allow(&text);
        }
    }
}
