//! Capture of everything a cage sends: DNS, TCP, UDP. Nothing leaves before the judge allows it.
//!
//! The gateway knows packets, names and sockets. It does not know policies, blocks or operators: it
//! asks a [`Judge`] about each attempt and does what it answers.
//!
//! How: the cage's network namespace has no device but `lo`. Every address is local in it (AnyIP),
//! so whatever the cage sends arrives in the same namespace, where netfilter hands it to sockets
//! that [`plumb`] made and passed out. The only way on is through sockets that the gateway opens
//! itself, outside, after the judge allowed it. A mistake in a rule therefore fails closed.
//!
//! - TCP: the first packet of a connection waits, unanswered, in a netfilter queue. Allowed: the
//!   other side is dialled first, then the packet goes on, so that inside `connect` ends the way it
//!   ended outside. See `gate`, `dial` and `relay`.
//! - UDP: the first datagrams of a flow wait here. See `udp`.
//! - Names: each gets an address of `198.18.0.0/15` for the whole run; nothing is sent anywhere.
//!   See `names` and `dns`.
//!
//! Everything is bounded: names, holds, flows, open connections, bytes held. What is over a bound is
//! refused or dropped, never let through.
//!
//! What it is not: it does not look into what an allowed connection carries.

mod datagrams;
mod dial;
mod dns;
mod downfall;
mod forward;
mod gate;
mod gate_order;
mod holder;
mod inquiry;
mod judge;
mod names;
pub(crate) mod netlink;
mod own_ports;
mod packet;
mod plumbing;
mod proxy;
mod reach;
mod refusals;
mod relay;
mod resolver;
mod shared;
mod sockets;
mod sockets_of;
mod udp;
mod watch;

pub use forward::{Carried, Carrier, Forward, Outer};
pub(crate) use holder::argv;
pub use judge::{Allowance, Attempt, Closed, ConnectionId, HolderProbe, Judge, Route, Verdict};
pub(crate) use own_ports::listening_ports;
pub use plumbing::{PlumbError, plumb, plumb_preferring};
pub(crate) use relay::{Counts, Pipes, relay};
pub use sockets::{GateKind, Sockets};

use datagrams::{Datagrams, Packets};
use downfall::Downfall;
use gate::{Device, Gate};
use shared::Shared;
use sockets::FamilySockets;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a gateway needs to start.
#[derive(Debug)]
pub struct Config {
    /// The sockets that [`plumb`] made inside the cage.
    pub sockets: Sockets,
    /// Process 1 of the cage, as this process sees it: whose sockets the cage's sockets are.
    pub init_pid: u32,
    /// The operator's proxies; all absent when there are none.
    pub proxy: ProxyConfig,
    /// A name that only the cage knows, and where it leads.
    pub forward: Option<Forward>,
}

/// The operator's proxies, as the usual environment variables write them.
#[derive(Debug, Clone, Default)]
pub struct ProxyConfig {
    /// `https_proxy`: an `http://` proxy that takes CONNECT.
    pub https: Option<String>,
    /// `all_proxy`: a `socks5://`, `socks5h://` or `http://` proxy.
    pub all: Option<String>,
    /// `no_proxy`: destinations that are dialled directly.
    pub no_proxy: Option<String>,
}

/// A gateway at work.
#[derive(Debug)]
pub struct Gateway {
    tasks: TaskTracker,
    failure: Option<io::Error>,
    downfall: Arc<Downfall>,
    lately: refusals::Lately,
}

impl Gateway {
    /// Why it serves nothing, when it could not take the sockets over: the runtime has no IO, or
    /// there are no descriptors left. The cage is then without any network.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Forgets what it refused by itself so far, so that the next of it is told as a first one. For
    /// after probes, whose refusals nobody is to hear of.
    pub fn forget_refusals(&self) {
        self.lately.forget();
    }

    /// Waits until a part of it that must serve can serve no more; says why, as a sentence. The cage
    /// is then without some or all of its network. Waits for ever for a gateway that was cancelled.
    pub async fn failed(&self) -> String {
        self.downfall.happened().await
    }

    /// Waits until every task of the gateway has ended, after its token was cancelled.
    pub async fn join(self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The resolver that a cage's `/etc/resolv.conf` should name. Queries to any other address on port
/// 53 are answered just the same.
#[must_use]
pub fn resolver_address() -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, 1)
}

/// Starts to serve a cage; must be called on a tokio runtime. When `cancel` fires, all holds are
/// dropped, all connections are closed and [`Gateway::join`] ends.
///
/// Raises this process's soft limit of open files to the hard one, because each open connection of
/// the cage takes several.
///
/// It cannot let anything through by failing; whether it did is asked by [`Gateway::failure`] at
/// once, and by [`Gateway::failed`] later on.
#[must_use]
pub fn start<J: Judge>(config: Config, judge: Arc<J>, cancel: CancellationToken) -> Gateway {
    let tasks = TaskTracker::new();
    let downfall = Arc::new(Downfall::new(cancel.clone()));
    let lately = refusals::Lately::default();
    let failure = serve(config, judge, cancel, &tasks, (&downfall, &lately)).err();
    if let Some(error) = &failure {
        tracing::error!(%error, "the gateway could not start; the cage has no network");
    }
    Gateway {
        tasks,
        failure,
        downfall,
        lately,
    }
}

fn serve<J: Judge>(
    config: Config,
    judge: Arc<J>,
    cancel: CancellationToken,
    tasks: &TaskTracker,
    (downfall, lately): (&Arc<Downfall>, &refusals::Lately),
) -> io::Result<()> {
    let Sockets {
        kind,
        gate: device,
        v4,
        v6,
    } = config.sockets;
    let (v4, reply4, again4) = Servers::new(v4)?;
    let (v6, reply6, again6) = match v6.map(Servers::new).transpose()? {
        Some((servers, reply, again)) => (Some(servers), Some(reply), again),
        None => (None, None, None),
    };
    let packets = Arc::new(Packets::new(reply4, reply6));
    let device = match (kind, again4) {
        (GateKind::Log, Some(again4)) => {
            Device::log(device, Packets::new(again4, again6), packets.clone())?
        }
        (GateKind::Log, None) => return Err(io::ErrorKind::InvalidInput.into()),
        (GateKind::Queue | GateKind::CompatQueue, _) => Device::queue(device)?,
    };
    let shared = Arc::new(Shared {
        refusals: refusals::Refusals::new(judge.clone(), lately.clone()),
        judge,
        names: names::Names::default(),
        reach: reach::Reach::new(),
        proxies: proxy::Proxies::new(&config.proxy),
        forward: config.forward.map(Arc::new),
        packets,
        holders: Arc::new(holder::Holders::new(config.init_pid)),
        pipes: relay::Pipes::default(),
        open: Arc::new(Semaphore::new(connections_at_most())),
        held: Notify::new(),
        downfall: downfall.clone(),
        cancel,
        tasks: tasks.clone(),
    });
    let gate = Gate::new(shared.clone(), device);
    let flows = udp::Flows::new(shared.clone());
    tasks.spawn(downfall.of("TCP", gate.clone().run()));
    for servers in [Some(v4), v6].into_iter().flatten() {
        tasks.spawn(downfall.of("TCP", gate.clone().accept(servers.tcp)));
        tasks.spawn(downfall.of("UDP", flows.clone().run(servers.udp)));
        let (datagrams, connections) = (servers.dns_udp, servers.dns_tcp);
        tasks.spawn(downfall.of("DNS", resolver::run_udp(shared.clone(), datagrams)));
        tasks.spawn(downfall.of("DNS", resolver::run_tcp(shared.clone(), connections)));
    }
    tasks.spawn(downfall.of("holds", watch::run(shared.clone(), gate, flows)));
    let refusals = async move { shared.refusals.run(shared.cancel.clone()).await };
    tasks.spawn(downfall.of("refusals", refusals));
    Ok(())
}

/// The sockets of one family, on tokio.
struct Servers {
    tcp: TcpListener,
    udp: Datagrams,
    dns_udp: Datagrams,
    dns_tcp: TcpListener,
}

impl Servers {
    /// Takes sockets over; gives those back that are used by all families together.
    fn new(sockets: FamilySockets) -> io::Result<(Self, OwnedFd, Option<OwnedFd>)> {
        let listener = |socket: OwnedFd| {
            let socket = std::net::TcpListener::from(socket);
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        };
        let servers = Self {
            tcp: listener(sockets.tcp)?,
            udp: Datagrams::new(sockets.udp)?,
            dns_udp: Datagrams::new(sockets.dns_udp)?,
            dns_tcp: listener(sockets.dns_tcp)?,
        };
        Ok((servers, sockets.reply, sockets.again))
    }
}

/// How many connections may be open at one time: as many as there are descriptors for. The others
/// wait, unanswered, until one ends.
fn connections_at_most() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// A socket for each side and a pipe for each direction.
    const EACH: u64 = 6;
    const OTHERS: u64 = 512 + udp::FLOWS_AT_MOST as u64;
    const AT_MOST: u64 = 16_384;
    const AT_LEAST: u64 = 32;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return AT_LEAST as usize;
    };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    let connections = (limit.saturating_sub(OTHERS) / EACH).clamp(AT_LEAST, AT_MOST);
    usize::try_from(connections).unwrap_or(AT_LEAST as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{Host, Protocol};
    use std::time::Duration;

    struct Nobody;

    impl Judge for Nobody {
        async fn judge(&self, _: Attempt) -> Verdict {
            Verdict::Refuse
        }
        fn looked_up(&self, _: &str) {}
        fn closed(&self, _: ConnectionId, _: Closed) {}
        fn refused(&self, _: Protocol, _: Host, _: u16, _: &str) {}
    }

    fn listener() -> std::net::TcpListener {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap()
    }

    fn datagrams() -> OwnedFd {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.into()
    }

    fn started(gate: OwnedFd) -> (Gateway, CancellationToken) {
        let v4 = FamilySockets {
            tcp: listener().into(),
            dns_udp: datagrams(),
            dns_tcp: listener().into(),
            udp: datagrams(),
            reply: datagrams(),
            again: None,
        };
        let sockets = Sockets {
            kind: GateKind::Queue,
            gate,
            v4,
            v6: None,
        };
        let config = Config {
            sockets,
            init_pid: std::process::id(),
            proxy: ProxyConfig::default(),
            forward: None,
        };
        let cancel = CancellationToken::new();
        (start(config, Arc::new(Nobody), cancel.clone()), cancel)
    }

    #[tokio::test]
    async fn a_gateway_that_cannot_take_its_sockets_over_says_so() {
        let nothing = std::fs::File::open("/dev/null").unwrap();
        let (gateway, _cancel) = started(nothing.into());
        assert!(gateway.failure().is_some());
    }

    #[tokio::test]
    async fn a_gate_that_can_be_read_no_more_ends_the_gateway_with_a_reason() {
        // A listening socket is readable once somebody connects, and reading it always fails.
        let gate = listener();
        gate.set_nonblocking(true).unwrap();
        let _client = std::net::TcpStream::connect(gate.local_addr().unwrap()).unwrap();
        let (gateway, cancel) = started(gate.into());
        assert!(gateway.failure().is_none());
        let why = tokio::time::timeout(Duration::from_secs(20), gateway.failed());
        assert!(why.await.unwrap().contains("gate cannot be read"));
        cancel.cancel();
        gateway.join().await;
    }
}
