//! The names of a cage: each name that is looked up gets an address of its own, for the whole run.
//!
//! The address leads nowhere. It only says, when the cage connects to it, which name was meant.
//! Addresses are given out in order and never again; when they are used up, new names fail.

use foreman_domain::Host;
use foreman_policy::{THIS_MACHINE, canonical_host};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// First address that is given to a name; those before are the cage's own.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 0);

/// Where the operator's own machine is reached from every cage, by its name or without.
pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Names of one run at most. The cage can look up as many as it likes.
pub(crate) const NAMES_AT_MOST: usize = 65_000;

/// The table of one run.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Arc<str>, u32>,
    by_index: Vec<Arc<str>>,
}

/// A name and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// The address; the same for the whole run.
    pub address: Ipv4Addr,
    /// True when it was given out just now.
    pub first_time: bool,
}

impl Names {
    /// The address of a canonical name. `None` when there are too many names.
    pub fn assign(&self, name: &str) -> Option<Assigned> {
        if name == THIS_MACHINE {
            return Some(Assigned {
                address: MACHINE,
                first_time: false,
            });
        }
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&index) = table.by_name.get(name) {
            return Some(Assigned {
                address: address_of(index),
                first_time: false,
            });
        }
        if table.by_index.len() >= NAMES_AT_MOST {
            return None;
        }
        let index = u32::try_from(table.by_index.len()).ok()?;
        let name: Arc<str> = name.into();
        table.by_index.push(name.clone());
        table.by_name.insert(name, index);
        Some(Assigned {
            address: address_of(index),
            first_time: true,
        })
    }

    /// The name that an address was given to.
    pub fn name_of(&self, address: IpAddr) -> Option<Arc<str>> {
        let IpAddr::V4(address) = address.to_canonical() else {
            return None;
        };
        if address == MACHINE {
            return Some(THIS_MACHINE.into());
        }
        let index = address.to_bits().checked_sub(FIRST.to_bits())?;
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.by_index.get(usize::try_from(index).ok()?).cloned()
    }

    /// Whom an address means: a name, or the bare address.
    pub fn host_of(&self, address: IpAddr) -> Host {
        match self.name_of(address) {
            Some(name) => Host::Name(name.as_ref().to_owned()),
            None => Host::Address(address.to_canonical()),
        }
    }
}

fn address_of(index: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST.to_bits() + index)
}

/// What a looked-up text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name that may exist; canonical.
    Ordinary(String),
    /// The cage itself.
    Localhost,
    /// A name that a public resolver answers with "no such name".
    Absent,
    /// A text that must not be asked for; why, as a sentence.
    Refused(String),
}

/// Sorts a looked-up text. Total over any text.
pub(crate) fn sort(text: &str) -> Kind {
    let name = match canonical_host(text) {
        Ok(Host::Name(name)) => name,
        Ok(Host::Address(_)) => return Kind::Absent,
        Err(error) => return Kind::Refused(format!("{error}, so it was not looked up")),
    };
    let under = |suffix: &str| {
        name == suffix
            || name
                .strip_suffix(suffix)
                .is_some_and(|head| head.ends_with('.'))
    };
    if under("localhost") {
        return Kind::Localhost;
    }
    if under("local") {
        return Kind::Refused(
            "names under .local are asked of the local network, which a cage does not see"
                .to_owned(),
        );
    }
    // Reserved names, and the one by which a browser asks whether it should bypass our DNS.
    let absent = ["invalid", "onion", "alt", "use-application-dns.net"];
    if absent.into_iter().any(under) || (under("arpa") && !under("home.arpa")) {
        return Kind::Absent;
    }
    Kind::Ordinary(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_keeps_its_address_and_an_address_its_name() {
        let names = Names::default();
        let first = names.assign("a.example").unwrap();
        let second = names.assign("b.example").unwrap();
        assert!(first.first_time && second.first_time);
        assert_ne!(first.address, second.address);
        let again = names.assign("a.example").unwrap();
        assert_eq!((again.address, again.first_time), (first.address, false));
        assert_eq!(
            names.host_of(first.address.into()),
            Host::Name("a.example".into())
        );
        let mapped = IpAddr::from(second.address.to_ipv6_mapped());
        assert_eq!(names.name_of(mapped).as_deref(), Some("b.example"));
    }

    #[test]
    fn this_machine_has_one_address_and_nothing_else_has_it() {
        let names = Names::default();
        let host = names.assign("host").unwrap();
        assert_eq!((host.address, host.first_time), (MACHINE, false));
        assert_eq!(names.host_of(MACHINE.into()), Host::Name("host".into()));
        let mapped = IpAddr::from(MACHINE.to_ipv6_mapped());
        assert_eq!(names.name_of(mapped).as_deref(), Some("host"));
        for other in ["host.example", "hosts", "a.host"] {
            assert_ne!(names.assign(other).unwrap().address, MACHINE, "{other}");
        }
        assert_eq!(sort("HOST."), Kind::Ordinary("host".into()));
    }

    #[test]
    fn addresses_nobody_was_given_have_no_name() {
        let names = Names::default();
        for text in [
            "198.18.0.3",
            "198.18.1.0",
            "198.19.255.255",
            "203.0.113.1",
            "2001:db8::1",
        ] {
            assert_eq!(names.name_of(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn too_many_names_are_refused_and_old_ones_stay() {
        let names = Names::default();
        for number in 0..NAMES_AT_MOST {
            assert!(names.assign(&format!("{number}.example")).is_some());
        }
        assert_eq!(names.assign("one.more.example"), None);
        assert_eq!(names.assign("0.example").unwrap().address, FIRST);
        let last = names
            .assign(&format!("{}.example", NAMES_AT_MOST - 1))
            .unwrap()
            .address;
        assert!(
            last.to_bits() >> 17 == FIRST.to_bits() >> 17,
            "{last} is outside of the range"
        );
    }

    #[test]
    fn special_names_are_told_apart() {
        assert_eq!(
            sort("Registry.Example."),
            Kind::Ordinary("registry.example".into())
        );
        assert_eq!(sort("localhost"), Kind::Localhost);
        assert_eq!(sort("a.localhost."), Kind::Localhost);
        assert!(matches!(sort("printer.local"), Kind::Refused(_)));
        assert!(matches!(sort("a b.example"), Kind::Refused(_)));
        assert_eq!(sort("203.0.113.1"), Kind::Absent);
        assert_eq!(sort("_dns.resolver.arpa"), Kind::Absent);
        assert_eq!(sort("notlocal"), Kind::Ordinary("notlocal".into()));
    }

    proptest! {
        #[test]
        fn any_text_can_be_sorted(text: String) {
            let _ = sort(&text);
        }
    }
}
