//! `[[egress]]`: what may be reached.

use super::PolicyFile;
use super::section::Section;
use crate::address::{AddressClass, classify_range, touches_floor};
use crate::error::{Fault, PolicyError, quoted};
use crate::floor::{pattern_floor, port_floor};
use crate::host::parse_net;
use crate::{EgressRule, HostPattern, Origin, THIS_MACHINE, Use, port_gives_away};
use foreman_domain::{At, Protocol};
use ipnet::IpNet;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toml_edit::{Item, Value};

/// Longest reason of a rule, in characters.
pub(crate) const LONGEST_REASON: usize = 500;

const KEYS: &[&str] = &[
    "host",
    "port",
    "protocol",
    "resolves_to",
    "expires",
    "reason",
];

pub(super) fn read(
    section: &Section<'_>,
    origin: Origin,
    file: &mut PolicyFile,
) -> Result<(), PolicyError> {
    section.only(KEYS)?;
    let host = section.needed_text("host")?;
    let protocol = protocol(section)?;
    let rule = EgressRule {
        origin,
        protocol,
        host: HostPattern::parse(host).map_err(|fault| {
            let fault = with_port_hint(host, fault);
            section.at_value("host", fault)
        })?,
        port: port(section, protocol)?,
        resolves_to: None,
        applies: Use::Always,
        expires: expires(section)?,
    };
    if let Some(why) = pattern_floor(protocol, &rule.host, rule.port) {
        return Err(section.at_start(Fault::new(why)));
    }
    let rule = EgressRule {
        resolves_to: resolves_to(section, &rule.host)?,
        ..rule
    };
    refuse_second(section, &rule, file)?;
    warn(section, &rule, &mut file.warnings);
    file.egress.push(rule);
    Ok(())
}

fn with_port_hint(host: &str, fault: Fault) -> Fault {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => fault
            .hint(format!(
                "Write the port as a key of its own: port = {}.",
                &port[..port.len().min(5)]
            )),
        _ => fault,
    }
}

fn protocol(section: &Section<'_>) -> Result<Protocol, PolicyError> {
    match section.text("protocol")? {
        None | Some("tcp") => Ok(Protocol::Tcp),
        Some("udp") => Ok(Protocol::Udp),
        Some(other) => Err(section.at_value(
            "protocol",
            Fault::new(format!("{} is not a protocol", quoted(other)))
                .hint("Write \"tcp\" or \"udp\"."),
        )),
    }
}

fn port(section: &Section<'_>, protocol: Protocol) -> Result<u16, PolicyError> {
    let number = section
        .number("port")?
        .ok_or_else(|| section.missing("port"))?;
    let Ok(port) = u16::try_from(number) else {
        let fault = Fault::new(format!("{number} is not a port"));
        return Err(section.at_value("port", fault.hint("A port is a number from 1 to 65535.")));
    };
    match port_floor(protocol, port) {
        None => Ok(port),
        Some(why) => Err(section.at_value("port", Fault::new(why))),
    }
}

pub(super) fn expires(section: &Section<'_>) -> Result<Option<At>, PolicyError> {
    let text = match section.get("expires") {
        None => return Ok(None),
        Some(Item::Value(Value::Datetime(time))) => time.value().to_string(),
        Some(_) => section.needed_text("expires")?.to_owned(),
    };
    expiry(&text)
        .map(Some)
        .map_err(|fault| section.at_value("expires", fault))
}

/// A date (the rule holds through that day, in UTC) or a point in time with its offset.
fn expiry(text: &str) -> Result<At, Fault> {
    let day = |text: &str| {
        // Only the plain form: the library would read a date off longer texts, too.
        let date = (text.len() == 10)
            .then(|| text.parse::<Date>().ok())
            .flatten()?;
        TimeZone::UTC
            .to_timestamp(date.tomorrow().ok()?.at(0, 0, 0, 0))
            .ok()
    };
    let moment = if text.len() <= 64 {
        text.parse::<Timestamp>().ok()
    } else {
        None
    };
    moment.or_else(|| day(text)).map(At).ok_or_else(|| {
        Fault::new(format!("{} is not a date", quoted(text))).hint(
            "Write a day, as \"2027-01-31\", or a time with its offset, as \"2027-01-31T12:00:00Z\".",
        )
    })
}

fn resolves_to(section: &Section<'_>, host: &HostPattern) -> Result<Option<IpNet>, PolicyError> {
    let Some(text) = section.text("resolves_to")? else {
        return Ok(None);
    };
    let refuse = |fault: Fault| Err(section.at_value("resolves_to", fault));
    if is_own(host) {
        return refuse(
            Fault::new("\"host\" is this machine's own loopback and resolves to nothing else")
                .hint("Remove resolves_to."),
        );
    }
    if matches!(host, HostPattern::Address(_)) {
        return refuse(
            Fault::new("an address does not resolve to anything").hint("Remove resolves_to."),
        );
    }
    let Some(range) = parse_net(text) else {
        return refuse(
            Fault::new(format!(
                "{} is neither an address nor a range",
                quoted(text)
            ))
            .hint("Write it as \"10.1.2.3\" or \"10.1.2.0/24\"."),
        );
    };
    match classify_range(&range) {
        Some(AddressClass::Private) => Ok(Some(range)),
        Some(AddressClass::Floor(why)) => refuse(Fault::new(format!(
            "{range} is {why}, which no rule can open"
        ))),
        Some(AddressClass::Public) | None => refuse(
            Fault::new(format!("{range} is not within a private range"))
                .hint("Public addresses need no resolves_to; remove it or name a private range."),
        ),
    }
}

fn refuse_second(
    section: &Section<'_>,
    rule: &EgressRule,
    file: &PolicyFile,
) -> Result<(), PolicyError> {
    let same = |earlier: &&EgressRule| {
        (earlier.protocol, earlier.port) == (rule.protocol, rule.port) && earlier.host == rule.host
    };
    let Some(earlier) = file.egress.iter().find(same) else {
        return Ok(());
    };
    let (what, hint) = if (earlier.expires, earlier.resolves_to) == (rule.expires, rule.resolves_to)
    {
        ("repeats", "Remove one of them.")
    } else {
        (
            "contradicts",
            "They differ in expires or resolves_to; keep the one that is meant.",
        )
    };
    let plain = EgressRule {
        resolves_to: None,
        ..rule.clone()
    };
    Err(section.at_start(
        Fault::new(format!(
            "the rule for {plain} {what} that of {}",
            earlier.origin.source
        ))
        .hint(hint),
    ))
}

fn is_own(host: &HostPattern) -> bool {
    matches!(host, HostPattern::Name(name) if name == THIS_MACHINE)
}

fn warn(section: &Section<'_>, rule: &EgressRule, warnings: &mut Vec<String>) {
    if let HostPattern::Address(range) = &rule.host
        && touches_floor(range)
    {
        warnings.push(format!(
            "{}, line {}: the range has addresses that stay refused (loopback, metadata and their like)",
            section.source().shown_name(),
            section.line()
        ));
    }
    if is_own(&rule.host)
        && let Some(what) = port_gives_away(rule.port)
    {
        warnings.push(format!("{} opens {what}", rule.origin.source));
    }
}
