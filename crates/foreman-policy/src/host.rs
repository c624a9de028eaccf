//! Host names and addresses in the one form that rules, cards and the gateway compare: lower case,
//! punycode, no trailing dot; addresses as addresses, whatever dress they came in.
//!
//! What is not plainly a name or an address is refused, never repaired: a name that one resolver reads
//! as an address (`127.1`, `0x7f.1`) must not pass as a name here.

use crate::HostPattern;
use crate::address::{AddressClass, classify_range};
use crate::error::{Fault, quoted};
use crate::floor::name_floor;
use foreman_domain::Host;
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Longest name as text, without its trailing dot.
const LONGEST_NAME: usize = 253;

/// Why a text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing was given.
    #[error("the host is empty")]
    Empty,
    /// A character that no host has, shown safely.
    #[error("the host {0} has characters that no host name has")]
    Character(String),
    /// Two dots in a row, or a dot at the start.
    #[error("the host {0} has an empty part between dots")]
    EmptyLabel(String),
    /// A name over 253 characters, or a part of it over 63.
    #[error("the host {0} is too long: 253 characters, and 63 between dots, are the most")]
    TooLong(String),
    /// Ends in a number, but is not an address in its usual form.
    #[error("the host {0} reads as an address but is not written as one")]
    OddAddress(String),
    /// International name that has no valid form.
    #[error("the host {0} is not a valid international name")]
    Idna(String),
}

/// Brings a name or an address into its one form.
///
/// # Errors
/// [`HostError`] for everything that is not plainly a name or an address.
pub fn canonical_host(text: &str) -> Result<Host, HostError> {
    if text.is_empty() {
        return Err(HostError::Empty);
    }
    if text.len() > LONGEST_NAME * 4 {
        return Err(HostError::TooLong(quoted(text)));
    }
    if let Some(address) = literal_address(text) {
        return Ok(Host::Address(address));
    }
    canonical_name(text).map(Host::Name)
}

fn literal_address(text: &str) -> Option<IpAddr> {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match bracketed {
        Some(inner) => IpAddr::V6(inner.parse::<Ipv6Addr>().ok()?),
        None => text.parse().ok()?,
    };
    Some(address.to_canonical())
}

fn canonical_name(text: &str) -> Result<String, HostError> {
    let shown = || quoted(text);
    let forbidden = |c: char| c.is_ascii() && !(c.is_ascii_alphanumeric() || "-_.".contains(c));
    // Before the mapping, which drops some characters without a word.
    if text
        .chars()
        .any(|c| forbidden(c) || c.is_control() || c.is_whitespace())
    {
        return Err(HostError::Character(shown()));
    }
    let mapped = Uts46::new()
        .to_ascii(
            text.as_bytes(),
            AsciiDenyList::EMPTY,
            Hyphens::Allow,
            DnsLength::Ignore,
        )
        .map_err(|_| HostError::Idna(shown()))?;
    let name = mapped.strip_suffix('.').unwrap_or(&mapped);
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(HostError::EmptyLabel(shown()));
    }
    if name.len() > LONGEST_NAME || name.split('.').any(|label| label.len() > 63) {
        return Err(HostError::TooLong(shown()));
    }
    // Once more, on what the mapping made: it turns full-width forms into ASCII.
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    if !name.bytes().all(plain) {
        return Err(HostError::Character(shown()));
    }
    if name.rsplit('.').next().is_some_and(is_number) {
        return Err(HostError::OddAddress(shown()));
    }
    Ok(name.to_owned())
}

/// A last label that some resolver takes for a part of an IPv4 address.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    digits(label)
        || label
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Suffixes under which strangers register names: a wildcard there opens other people's hosts.
pub(crate) fn is_shared_suffix(suffix: &str) -> bool {
    /// Top-level names that nobody can register in public.
    const NOT_PUBLIC: &[&str] = &[
        "internal", "intranet", "private", "corp", "home", "lan", "local", "test", "example",
    ];
    const REGISTRIES: &[&str] = &[
        "ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org",
    ];
    match suffix.rsplit_once('.') {
        None => !NOT_PUBLIC.contains(&suffix),
        Some((second, top)) => top.len() == 2 && REGISTRIES.contains(&second),
    }
}

impl HostPattern {
    /// True when the pattern speaks of this host. A name pattern never matches an address, and an
    /// address pattern never a name.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        let labels_before = |name: &str, suffix: &str| {
            let head = name.strip_suffix(suffix)?.strip_suffix('.')?;
            (!head.is_empty()).then(|| head.split('.').count())
        };
        match (self, host) {
            (Self::Name(wanted), Host::Name(name)) => wanted == name,
            (Self::OneLabelUnder(suffix), Host::Name(name)) => {
                labels_before(name, suffix) == Some(1)
            }
            (Self::AnyDepthUnder(suffix), Host::Name(name)) => {
                labels_before(name, suffix).is_some()
            }
            (Self::Address(range), Host::Address(address)) => {
                range.contains(&address.to_canonical())
            }
            (Self::Address(_), Host::Name(_))
            | (Self::Name(_) | Self::OneLabelUnder(_) | Self::AnyDepthUnder(_), Host::Address(_)) => {
                false
            }
        }
    }

    /// True for patterns of more than one host.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        match self {
            Self::Name(_) => false,
            Self::OneLabelUnder(_) | Self::AnyDepthUnder(_) => true,
            Self::Address(range) => range.prefix_len() < range.max_prefix_len(),
        }
    }

    /// Exactly this host.
    #[must_use]
    pub fn exactly(host: &Host) -> Self {
        match host {
            Host::Name(name) => Self::Name(name.clone()),
            Host::Address(address) => Self::Address(IpNet::from(address.to_canonical())),
        }
    }

    /// Sorts the narrower of two patterns that match the same host last.
    pub(crate) fn narrowness(&self) -> (u8, usize) {
        match self {
            Self::AnyDepthUnder(suffix) => (0, suffix.len()),
            Self::OneLabelUnder(suffix) => (1, suffix.len()),
            Self::Name(_) => (2, 0),
            Self::Address(range) => (2, usize::from(range.prefix_len())),
        }
    }

    /// Reads a pattern: a name, `*.suffix`, `**.suffix`, an address (v6 with or without brackets), a
    /// range.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        if text.contains("://") || text.contains('@') {
            return Err(Fault::new(format!("{} is not a host", quoted(text)))
                .hint("Write the host name only, without scheme, user or path."));
        }
        if text.contains('/') {
            return parse_range(text);
        }
        if !text.contains('*') {
            let host = canonical_host(text).map_err(|error| Fault::new(error.to_string()))?;
            return Self::checked(Self::exactly(&host), text);
        }
        let (any_depth, suffix) = match (text.strip_prefix("**."), text.strip_prefix("*.")) {
            (Some(suffix), _) => (true, suffix),
            (None, Some(suffix)) => (false, suffix),
            (None, None) => (false, ""),
        };
        if suffix.is_empty() || suffix.contains('*') {
            return Err(Fault::new(format!("{} is not a host pattern", quoted(text))).hint(
                "Write \"*.example.com\" for one name before the dot, \"**.example.com\" for any depth; \
                 a rule for every host is not possible.",
            ));
        }
        let Host::Name(suffix) =
            canonical_host(suffix).map_err(|error| Fault::new(error.to_string()))?
        else {
            return Err(
                Fault::new(format!("{} mixes a star with an address", quoted(text)))
                    .hint("Write a range of addresses as \"192.0.2.0/24\"."),
            );
        };
        if is_shared_suffix(&suffix) {
            return Err(Fault::new(format!(
                "{} would open hosts of many different owners",
                quoted(text)
            ))
            .hint("Name at least the owner's own domain, as \"*.example.com\"."));
        }
        let pattern = if any_depth {
            Self::AnyDepthUnder(suffix)
        } else {
            Self::OneLabelUnder(suffix)
        };
        Self::checked(pattern, text)
    }

    /// Refuses patterns that could never have an effect, because all they name is on the floor.
    fn checked(self, text: &str) -> Result<Self, Fault> {
        let floor = match &self {
            Self::Name(name) | Self::OneLabelUnder(name) | Self::AnyDepthUnder(name) => {
                name_floor(name)
            }
            Self::Address(range) => match classify_range(range) {
                Some(AddressClass::Floor(why)) => Some(why),
                _ => None,
            },
        };
        match floor {
            Some(why) => Err(Fault::new(format!(
                "{} is {why}, which no rule can open",
                quoted(text)
            ))),
            None => Ok(self),
        }
    }
}

fn parse_range(text: &str) -> Result<HostPattern, Fault> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let range = parse_net(inner).ok_or_else(|| {
        Fault::new(format!(
            "{} is neither a host nor a range of addresses",
            quoted(text)
        ))
        .hint("Write the host name only, or a range as \"192.0.2.0/24\".")
    })?;
    let narrowest_allowed = if range.addr().is_ipv4() { 8 } else { 16 };
    if range.prefix_len() < narrowest_allowed {
        return Err(
            Fault::new(format!("{} is far too wide a range", quoted(text))).hint(format!(
                "/{narrowest_allowed} is the widest; a few single addresses are better."
            )),
        );
    }
    HostPattern::Address(range).checked(text)
}

/// An address or a range, in its canonical form: no bits after the prefix, mapped IPv4 as IPv4.
pub(crate) fn parse_net(text: &str) -> Option<IpNet> {
    let range = match text.parse::<IpNet>() {
        Ok(range) => range.trunc(),
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    match range.addr().to_canonical() {
        IpAddr::V4(address) if range.addr().is_ipv6() => {
            IpNet::new(address.into(), range.prefix_len().checked_sub(96)?).ok()
        }
        _ => Some(range),
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::OneLabelUnder(suffix) => write!(out, "*.{suffix}"),
            Self::AnyDepthUnder(suffix) => write!(out, "**.{suffix}"),
            Self::Address(range) if self.is_wide() => range.fmt(out),
            Self::Address(range) => range.addr().fmt(out),
        }
    }
}

#[cfg(test)]
#[path = "host/tests.rs"]
mod tests;
