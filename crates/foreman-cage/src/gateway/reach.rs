//! Which addresses may be dialled: resolves allowed names and vets what comes out.
//!
//! An address that was vetted here is the one that is dialled; there is no second look-up behind it.

use super::netlink::{Delivery, Route};
use super::own_ports;
use foreman_domain::Host;
use foreman_policy::{AddressClass, classify, is_this_machine};
use ipnet::IpNet;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};

/// Look-ups that run at one time; each takes a thread.
const LOOKUPS_AT_ONCE: usize = 32;
/// How long connections share one look-up.
const SHARED_FOR: Duration = Duration::from_secs(3);
/// Look-ups that are remembered.
const REMEMBERED: usize = 1024;
const LONGEST_LOOKUP: Duration = Duration::from_secs(30);
/// Addresses of one name that are considered.
const ADDRESSES: usize = 16;

/// What vetting a destination gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Vetted {
    /// These may be dialled.
    Dial(Vec<IpAddr>),
    /// The name resolves to this private address, for which a rule must be asked.
    AskAgain(IpAddr),
    /// Never reachable; why, as a sentence.
    Forbidden(String),
    /// The name has no address; why, as a sentence.
    Unresolved(String),
}

/// Resolves and vets.
#[derive(Debug)]
pub(crate) struct Reach {
    route: Mutex<Option<Route>>,
    slots: Semaphore,
    recent: Mutex<HashMap<String, Recent>>,
}

#[derive(Debug, Clone)]
struct Recent {
    at: Instant,
    answer: Arc<OnceCell<Answer>>,
}

type Answer = Result<Vec<IpAddr>, String>;

impl Reach {
    /// With nothing looked up yet.
    pub fn new() -> Self {
        Self {
            route: Mutex::default(),
            slots: Semaphore::new(LOOKUPS_AT_ONCE),
            recent: Mutex::default(),
        }
    }

    /// Why an address can never be reached from a cage, as a sentence; `None` when a rule decides.
    pub fn why_forbidden(&self, address: IpAddr) -> Option<String> {
        let address = address.to_canonical();
        if let AddressClass::Floor(what) = classify(address) {
            return Some(format!("{address} is {what}, which no rule can open"));
        }
        match self.delivery(address) {
            Ok(Delivery::Here) => Some(format!(
                "{address} is an address of this machine itself, which no rule can open"
            )),
            Ok(Delivery::Away | Delivery::Nowhere) => None,
            Err(error) if is_no_route(&error) => None,
            Err(error) => Some(format!(
                "it could not be found out whether {address} is this machine itself: {}",
                words(&error)
            )),
        }
    }

    /// Why a port of this machine can never be reached from a cage, as a sentence; `None` when a rule decides.
    pub async fn why_own_port(&self, port: u16) -> Option<String> {
        let Ok(_slot) = self.slots.acquire().await else {
            return Some("the gateway is shutting down".to_owned());
        };
        let looking = tokio::task::spawn_blocking(move || own_ports::why_forbidden(port));
        let unknown = |why: &str| {
            format!("it could not be found out who listens on port {port} of this machine: {why}")
        };
        match looking.await {
            Ok(Ok(why)) => why,
            Ok(Err(error)) => Some(unknown(&words(&error))),
            Err(error) => Some(unknown(&error.to_string())),
        }
    }

    /// Which addresses of `host` may be dialled, when a rule allowed it together with the private
    /// addresses in `private`.
    pub async fn vet(&self, host: &Host, private: Option<IpNet>) -> Vetted {
        if is_this_machine(host) {
            // Never looked up: what is meant is this machine, whatever a resolver would say.
            return Vetted::Dial(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        match host {
            // Its rule names the address, so that a private one is meant.
            Host::Address(address) => match self.why_forbidden(*address) {
                Some(why) => Vetted::Forbidden(why),
                None => Vetted::Dial(vec![*address]),
            },
            Host::Name(name) => match self.resolve(name).await {
                Ok(addresses) => self.sort(name, &addresses, private),
                Err(why) => Vetted::Unresolved(why),
            },
        }
    }

    fn sort(&self, name: &str, addresses: &[IpAddr], private: Option<IpNet>) -> Vetted {
        let mut dial = Vec::new();
        let mut asked = None;
        let mut forbidden = None;
        for address in addresses.iter().map(IpAddr::to_canonical).take(ADDRESSES) {
            if let Some(why) = self.why_forbidden(address) {
                forbidden.get_or_insert(why);
                continue;
            }
            let within = private.is_some_and(|range| range.contains(&address));
            match classify(address) {
                AddressClass::Private if !within => {
                    asked.get_or_insert(address);
                }
                AddressClass::Public | AddressClass::Private => dial.push(address),
                AddressClass::Floor(_) => {}
            }
        }
        match (dial.is_empty(), asked, forbidden) {
            (false, ..) => Vetted::Dial(dial),
            (true, Some(address), _) => Vetted::AskAgain(address),
            (true, None, Some(why)) => {
                Vetted::Forbidden(format!("the name {name} leads to a forbidden place: {why}"))
            }
            (true, None, None) => Vetted::Unresolved(format!("the name {name} has no address")),
        }
    }

    /// The addresses of a name, by the system's resolver. Connections that ask for the same name
    /// within a moment share an answer, so that a thousand of them are one question.
    pub async fn resolve(&self, name: &str) -> Answer {
        let answer = self.shared(name);
        answer.get_or_init(|| self.resolve_now(name)).await.clone()
    }

    fn shared(&self, name: &str) -> Arc<OnceCell<Answer>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(known) = recent.get(name)
            && now.duration_since(known.at) < SHARED_FOR
        {
            return known.answer.clone();
        }
        recent.retain(|_, known| now.duration_since(known.at) < SHARED_FOR);
        let answer = Arc::new(OnceCell::new());
        if recent.len() < REMEMBERED {
            let known = Recent {
                at: now,
                answer: answer.clone(),
            };
            recent.insert(name.to_owned(), known);
        }
        answer
    }

    async fn resolve_now(&self, name: &str) -> Answer {
        let failed = |why: &str| format!("the name {name} could not be resolved: {why}");
        let Ok(_slot) = self.slots.acquire().await else {
            return Err(failed("shutting down"));
        };
        let lookup = tokio::net::lookup_host((name, 0));
        match tokio::time::timeout(LONGEST_LOOKUP, lookup).await {
            Ok(Ok(found)) => {
                let mut addresses: Vec<IpAddr> = Vec::new();
                for address in found.map(|found| found.ip().to_canonical()) {
                    if !addresses.contains(&address) {
                        addresses.push(address);
                    }
                }
                Ok(addresses)
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                let prefix = "failed to lookup address information: ";
                Err(failed(text.strip_prefix(prefix).unwrap_or(&text)))
            }
            Err(_) => Err(failed("the resolver did not answer in time")),
        }
    }

    /// Where the kernel would bring a packet. The socket is kept; after a failure a new one is made.
    fn delivery(&self, address: IpAddr) -> io::Result<Delivery> {
        let mut kept = self.route.lock().unwrap_or_else(PoisonError::into_inner);
        let mut route = match kept.take() {
            Some(route) => route,
            None => Route::open()?,
        };
        let delivery = route.delivery(address);
        if delivery.is_ok() || delivery.as_ref().is_err_and(is_no_route) {
            *kept = Some(route);
        }
        delivery
    }
}

fn is_no_route(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EACCES
                | libc::EINVAL
                | libc::EAFNOSUPPORT
                | libc::EOPNOTSUPP
        )
    )
}

/// An error as words, without the number.
pub(crate) fn words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(addresses: &[&str], private: Option<&str>) -> Vetted {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Reach::new().sort(
            "a.example",
            &addresses,
            private.map(|range| range.parse().unwrap()),
        )
    }

    #[test]
    fn only_addresses_that_a_rule_covers_are_dialled() {
        let public = "203.0.113.10".parse().unwrap();
        let private: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(
            sorted(&["127.0.0.1", "10.1.2.3", "203.0.113.10"], None),
            Vetted::Dial(vec![public])
        );
        assert_eq!(sorted(&["10.1.2.3"], None), Vetted::AskAgain(private));
        assert_eq!(
            sorted(&["10.1.2.3"], Some("10.1.0.0/16")),
            Vetted::Dial(vec![private])
        );
        assert_eq!(
            sorted(&["10.1.2.3"], Some("10.2.0.0/16")),
            Vetted::AskAgain(private)
        );
        assert!(matches!(
            sorted(&["::ffff:169.254.169.254"], None),
            Vetted::Forbidden(_)
        ));
        assert!(matches!(
            sorted(&["127.0.0.1", "10.1.2.3"], None),
            Vetted::AskAgain(_)
        ));
        assert!(matches!(sorted(&[], None), Vetted::Unresolved(_)));
    }

    #[tokio::test]
    async fn only_the_one_name_means_this_machine() {
        let reach = Reach::new();
        let vetted = reach.vet(&Host::Name("host".into()), None).await;
        let own: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        assert_eq!(vetted, Vetted::Dial(own));
        // Whatever a rule says about private addresses.
        let wide = Some("0.0.0.0/0".parse().unwrap());
        let localhost = reach.vet(&Host::Name("localhost".into()), wide).await;
        assert!(matches!(localhost, Vetted::Forbidden(_)), "{localhost:?}");
        let bare = reach
            .vet(&Host::Address(Ipv4Addr::LOCALHOST.into()), wide)
            .await;
        assert!(matches!(bare, Vetted::Forbidden(_)), "{bare:?}");
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_forbidden() {
        let vetted = Reach::new()
            .vet(&Host::Name("localhost".into()), None)
            .await;
        assert!(matches!(vetted, Vetted::Forbidden(_)), "{vetted:?}");
    }
}
