//! Asks the judge about one flow until there is something to dial, or an end.
//!
//! The first question about a name comes before anything is resolved. A name that an allowing rule
//! covers, but that resolves to a private address which the rule does not, is asked about once more
//! with that address.

use super::forward::Forward;
use super::judge::{Allowance, Attempt, Closed, Judge, Verdict};
use super::packet::Flow;
use super::proxy::{Endpoint, Way};
use super::reach::Vetted;
use super::shared::Shared;
use foreman_domain::{Host, Protocol};
use foreman_policy::is_this_machine;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// What the caller inside gets to see when there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// "Connection refused".
    Refused,
    /// "No route to host".
    Unreachable,
    /// Nothing: it is gone, or everything ends.
    Silence,
}

/// A flow that may go on.
#[derive(Debug)]
pub(crate) struct Granted {
    /// Whom it is to reach.
    pub host: Host,
    /// Where there.
    pub port: u16,
    /// Who carries it there, where it is not carried as it is.
    pub forward: Option<Arc<Forward>>,
    /// What came with the verdict.
    pub allowance: Allowance,
    /// What to dial.
    pub target: Target,
    /// Since when it is allowed.
    pub since: Instant,
}

/// What to dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One of these addresses.
    Direct(Vec<IpAddr>),
    /// The name or address, through this proxy.
    Proxy(Endpoint),
}

/// Ports where datagrams are refused at once, so that clients fall back to TCP without waiting.
fn falls_back_to_tcp(protocol: Protocol, port: u16) -> Option<&'static str> {
    match (protocol, port) {
        (Protocol::Udp, 443) => Some("HTTP/3 over UDP is refused so that clients use TCP instead"),
        (Protocol::Udp, 853) => {
            Some("DNS over QUIC is refused: the cage has a resolver of its own")
        }
        (Protocol::Tcp | Protocol::Udp, _) => None,
    }
}

impl<J: Judge> Shared<J> {
    /// Refuses what no judge has to be asked about: floor addresses and the ports above. True when
    /// it did, and told it. Cheap, because a cage may do it at any rate.
    pub fn refuses_at_once(&self, protocol: Protocol, flow: Flow) -> bool {
        let port = flow.destination.port();
        let host = self.host_of(flow);
        let why = match falls_back_to_tcp(protocol, port) {
            Some(why) => why.to_owned(),
            None => match &host {
                Host::Name(_) if protocol == Protocol::Udp && is_this_machine(&host) => {
                    "only TCP ports of this machine can be reached".to_owned()
                }
                Host::Name(_) => {
                    let forward = self.forward.as_ref();
                    match forward.and_then(|one| one.refuses(protocol, &host, port)) {
                        Some(why) => why,
                        None => return false,
                    }
                }
                Host::Address(address) => match self.reach.why_forbidden(*address) {
                    Some(why) => why,
                    None => return false,
                },
            },
        };
        self.refusals.tell(protocol, host, port, &why);
        true
    }

    /// Asks about a flow. On `Err` everything has been told to the judge.
    pub async fn inquire(
        &self,
        protocol: Protocol,
        flow: Flow,
        gone: &CancellationToken,
    ) -> Result<Granted, Denial> {
        let (mut host, mut port) = (self.host_of(flow), flow.destination.port());
        let forward = self.forward.clone().filter(|one| one.is_meant_by(&host));
        if let Some(forward) = &forward {
            // From here on it is a connection to that host, like any other.
            (host, port) = (forward.host.clone(), forward.host_port);
        }
        if is_this_machine(&host)
            && let Some(why) = self.reach.why_own_port(port).await
        {
            self.refusals.tell(protocol, host, port, &why);
            return Err(Denial::Refused);
        }
        let proxy = self.proxy_for(protocol, &host, port)?;
        let mut resolved = None;
        loop {
            let attempt = Attempt {
                protocol,
                host: host.clone(),
                port,
                by_proxy: proxy.is_some(),
                resolved,
                holder: self.probe(protocol, flow),
                gone: gone.clone(),
            };
            let verdict = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Denial::Silence),
                verdict = self.judge.judge(attempt) => verdict,
            };
            let allowance = match verdict {
                Verdict::Allow(allowance) => allowance,
                Verdict::Refuse => return Err(Denial::Refused),
            };
            let since = Instant::now();
            let granted = |target| Granted {
                host: host.clone(),
                port,
                forward: forward.clone(),
                allowance: allowance.clone(),
                target,
                since,
            };
            if let Some(proxy) = &proxy {
                return Ok(granted(Target::Proxy(proxy.clone())));
            }
            if let Some(address) = resolved {
                return Ok(granted(Target::Direct(vec![address])));
            }
            let vetted = self.reach.vet(&host, allowance.private);
            let ended = |how| self.judge.closed(allowance.connection, how);
            let vetted = tokio::select! {
                biased;
                () = self.cancel.cancelled() => Err(Denial::Silence),
                () = gone.cancelled() => Err(Denial::Silence),
                () = allowance.cut.cancelled() => Err(Denial::Refused),
                vetted = vetted => Ok(vetted),
            };
            match vetted {
                Ok(Vetted::Dial(addresses)) => return Ok(granted(Target::Direct(addresses))),
                Ok(Vetted::AskAgain(address)) => {
                    ended(Closed::Abandoned);
                    resolved = Some(address);
                }
                Ok(Vetted::Forbidden(why)) => {
                    self.refusals.tell(protocol, host, port, &why);
                    ended(Closed::Unreachable { why });
                    return Err(Denial::Refused);
                }
                Ok(Vetted::Unresolved(why)) => {
                    ended(Closed::Unreachable { why });
                    return Err(Denial::Unreachable);
                }
                Err(Denial::Refused) => {
                    ended(cut_before_it_was_open(since));
                    return Err(Denial::Refused);
                }
                Err(denial) => {
                    ended(Closed::Abandoned);
                    return Err(denial);
                }
            }
        }
    }

    /// The proxy that a flow goes through. Refuses what cannot go through the one it would have to.
    fn proxy_for(
        &self,
        protocol: Protocol,
        host: &Host,
        port: u16,
    ) -> Result<Option<Endpoint>, Denial> {
        if is_this_machine(host) {
            return Ok(None);
        }
        let why = match (self.proxies.way(host, port), protocol) {
            (Way::Direct, _) => return Ok(None),
            (Way::Proxy(endpoint), Protocol::Tcp) => return Ok(Some(endpoint)),
            (Way::Proxy(endpoint), Protocol::Udp) => {
                format!("datagrams cannot go through the operator's proxy {endpoint}")
            }
            (Way::Broken(why), _) => why,
        };
        self.refusals.tell(protocol, host.clone(), port, &why);
        Err(Denial::Refused)
    }
}

/// How an allowed flow ended that was cut before it carried anything.
pub(crate) fn cut_before_it_was_open(since: Instant) -> Closed {
    Closed::Ended {
        sent: 0,
        received: 0,
        millis: millis(since),
        cut: true,
    }
}

/// Milliseconds since then.
pub(crate) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
