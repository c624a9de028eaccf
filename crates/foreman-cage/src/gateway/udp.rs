//! UDP: holds the first datagrams of a flow until the judge has answered, then relays.
//!
//! Datagrams are caught by a transparent socket, so each of them comes here exactly once, first or
//! not. A flow has a socket of its own outside; what comes back is written into the cage as a packet
//! from the original destination. Refusals are ICMP messages, seen as "connection refused".
//!
//! Bounds: flows, datagrams and bytes held. Above them datagrams are dropped, as datagrams are.

use super::datagrams::Datagrams;
use super::inquiry::{Denial, Granted, Target, millis};
use super::judge::{Closed, Judge};
use super::packet::{Flow, Unreachable, datagram, datagram_unreachable};
use super::reach::words;
use super::shared::Shared;
use foreman_domain::Protocol;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;

/// Flows at one time, held and open.
pub(crate) const FLOWS_AT_MOST: usize = 1024;
/// Held for one flow at most.
const HELD_DATAGRAMS: usize = 16;
const HELD_BYTES: usize = 64 << 10;
/// A flow without datagrams for so long has ended.
const IDLE: Duration = Duration::from_secs(60);
/// After a refusal the flow is refused for so long without asking again.
const REFUSED_FOR: Duration = Duration::from_millis(100);

/// The flows of one cage.
#[derive(Debug)]
pub(crate) struct Flows<J> {
    shared: Arc<Shared<J>>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_flow: HashMap<Flow, State>,
}

#[derive(Debug)]
enum State {
    Held(Held),
    Open(Arc<Open>),
    /// Asked and refused just now.
    Refused(Unreachable),
}

#[derive(Debug)]
struct Held {
    since: Instant,
    gone: CancellationToken,
    datagrams: Vec<Vec<u8>>,
    bytes: usize,
}

/// A flow that is relayed.
#[derive(Debug)]
struct Open {
    socket: UdpSocket,
    start: Instant,
    /// Milliseconds from the start to the last datagram.
    used: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl<J: Judge> Flows<J> {
    /// With no flow yet.
    pub fn new(shared: Arc<Shared<J>>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            table: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes datagrams until cancelled.
    pub async fn run(self: Arc<Self>, socket: Datagrams) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let arrival = tokio::select! {
                biased;
                () = self.shared.cancel.cancelled() => return,
                arrival = socket.receive(&mut buffer) => arrival,
            };
            match arrival {
                Ok(Some(arrival)) => {
                    let flow = Flow::new(arrival.source, arrival.destination);
                    self.take(flow, buffer.get(..arrival.length).unwrap_or_default());
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot take a datagram of the cage");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn take(self: &Arc<Self>, flow: Flow, data: &[u8]) {
        if self.belongs_to_a_flow(flow, data) {
            return;
        }
        if self.shared.refuses_at_once(Protocol::Udp, flow) {
            return self.tell_unreachable(flow, data.len(), Unreachable::Port);
        }
        let mut table = self.table();
        if table.by_flow.len() >= FLOWS_AT_MOST {
            return;
        }
        let gone = CancellationToken::new();
        let mut held = Held {
            since: Instant::now(),
            gone: gone.clone(),
            datagrams: Vec::new(),
            bytes: 0,
        };
        held.push(data);
        table.by_flow.insert(flow, State::Held(held));
        drop(table);
        self.shared.held.notify_one();
        let flows = self.clone();
        self.shared
            .tasks
            .spawn(async move { flows.serve(flow, gone).await });
    }

    /// Deals with a datagram of a flow that is known.
    fn belongs_to_a_flow(&self, flow: Flow, data: &[u8]) -> bool {
        let mut table = self.table();
        match table.by_flow.get_mut(&flow) {
            Some(State::Held(held)) => held.push(data),
            Some(State::Open(open)) => {
                let open = open.clone();
                drop(table);
                self.send_outside(flow, &open, data);
            }
            Some(State::Refused(what)) => {
                let what = *what;
                drop(table);
                self.tell_unreachable(flow, data.len(), what);
            }
            None => return false,
        }
        true
    }

    fn tell_unreachable(&self, flow: Flow, length: usize, what: Unreachable) {
        self.shared
            .send_inside(&datagram_unreachable(flow, length, what), flow);
    }

    fn send_outside(&self, flow: Flow, open: &Open, data: &[u8]) {
        // A refusal of an earlier datagram is reported on the next one; that one is then sent again.
        for _ in 0..2 {
            match open.socket.try_send(data) {
                Ok(length) => {
                    open.touch();
                    open.sent.fetch_add(length as u64, Ordering::Relaxed);
                    return;
                }
                Err(error) => match mirrored(&error) {
                    Some(what) => self.tell_unreachable(flow, data.len(), what),
                    None => return,
                },
            }
        }
    }

    /// One flow, from its first datagram to its last.
    async fn serve(self: Arc<Self>, flow: Flow, gone: CancellationToken) {
        let granted = match self.shared.inquire(Protocol::Udp, flow, &gone).await {
            Ok(granted) => granted,
            Err(denial) => return self.deny(flow, denial).await,
        };
        let opened = match &granted.target {
            Target::Direct(addresses) => connect(addresses, flow.destination.port()).await,
            Target::Proxy(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        match opened {
            Ok(socket) => self.relay(flow, Arc::new(Open::new(socket)), granted).await,
            Err(error) => {
                let why = format!("{} could not be reached: {}", granted.host, words(&error));
                self.shared
                    .judge
                    .closed(granted.allowance.connection, Closed::Unreachable { why });
                self.deny(flow, Denial::Unreachable).await;
            }
        }
    }

    async fn deny(&self, flow: Flow, denial: Denial) {
        let what = match denial {
            Denial::Refused => Unreachable::Port,
            Denial::Unreachable => Unreachable::Host,
            Denial::Silence => {
                self.table().by_flow.remove(&flow);
                return;
            }
        };
        self.tell_unreachable(flow, 0, what);
        self.table().by_flow.insert(flow, State::Refused(what));
        tokio::select! {
            () = self.shared.cancel.cancelled() => {}
            () = tokio::time::sleep(REFUSED_FOR) => {}
        }
        self.table().by_flow.remove(&flow);
    }

    async fn relay(&self, flow: Flow, open: Arc<Open>, granted: Granted) {
        let first = self.table().by_flow.insert(flow, State::Open(open.clone()));
        if let Some(State::Held(held)) = first {
            held.datagrams
                .iter()
                .for_each(|data| self.send_outside(flow, &open, data));
        }
        let mut cut = false;
        loop {
            tokio::select! {
                biased;
                () = self.shared.cancel.cancelled() => break,
                () = granted.allowance.cut.cancelled() => {
                    cut = true;
                    break;
                }
                ready = open.socket.ready(Interest::READABLE | Interest::ERROR) => match ready {
                    Ok(ready) => {
                        if ready.is_error() {
                            self.mirror_error(flow, &open);
                        }
                        self.send_back(flow, &open);
                    }
                    Err(_) => break,
                },
                () = tokio::time::sleep(open.rest()) => {
                    if open.rest().is_zero() {
                        break;
                    }
                }
            }
        }
        self.table().by_flow.remove(&flow);
        let how = Closed::Ended {
            sent: open.sent.load(Ordering::Relaxed),
            received: open.received.load(Ordering::Relaxed),
            millis: millis(granted.since),
            cut,
        };
        self.shared.judge.closed(granted.allowance.connection, how);
    }

    /// Tells the caller inside what the other side answered to an earlier datagram.
    fn mirror_error(&self, flow: Flow, open: &Open) {
        let taken = open
            .socket
            .try_io(Interest::ERROR, || match open.socket.take_error()? {
                Some(error) => Ok(error),
                // Says that the error has been taken.
                None => Err(io::ErrorKind::WouldBlock.into()),
            });
        if let Ok(error) = taken
            && let Some(what) = mirrored(&error)
        {
            self.tell_unreachable(flow, 0, what);
        }
    }

    /// Writes what has come back into the cage; stops now and then to let others work.
    fn send_back(&self, flow: Flow, open: &Open) {
        const AT_ONCE: usize = 64;
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 << 10]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            for _ in 0..AT_ONCE {
                match open.socket.try_recv(buffer) {
                    Ok(length) => {
                        let data = buffer.get(..length).unwrap_or_default();
                        open.touch();
                        if let Some(packet) = datagram(flow.destination, flow.source, data) {
                            self.shared.send_inside(&packet, flow);
                            open.received.fetch_add(length as u64, Ordering::Relaxed);
                        }
                    }
                    Err(error) => {
                        if let Some(what) = mirrored(&error) {
                            self.tell_unreachable(flow, 0, what);
                        }
                        return;
                    }
                }
            }
        });
    }

    /// True while a flow waits for its end.
    pub fn holds_any(&self) -> bool {
        let table = self.table();
        let is_held = |state: &State| matches!(state, State::Held(_));
        table.by_flow.values().any(is_held)
    }

    /// Flows that have waited for longer than `age`, with what ends them.
    pub fn waiting(&self, age: Duration) -> Vec<(Flow, CancellationToken)> {
        let table = self.table();
        let waiting = table
            .by_flow
            .iter()
            .filter_map(|(flow, state)| match state {
                State::Held(held) if held.since.elapsed() > age => Some((*flow, held.gone.clone())),
                State::Held(_) | State::Open(_) | State::Refused(_) => None,
            });
        waiting.collect()
    }
}

impl Held {
    fn push(&mut self, data: &[u8]) {
        let bytes = self.bytes + data.len();
        if self.datagrams.len() < HELD_DATAGRAMS && bytes <= HELD_BYTES {
            self.datagrams.push(data.to_vec());
            self.bytes = bytes;
        }
    }
}

impl Open {
    fn new(socket: UdpSocket) -> Self {
        Self {
            socket,
            start: Instant::now(),
            used: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    fn touch(&self) {
        self.used.store(millis(self.start), Ordering::Relaxed);
    }

    /// How long it may still be quiet.
    fn rest(&self) -> Duration {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        (used + IDLE).saturating_sub(self.start.elapsed())
    }
}

/// A socket outside that talks to the first address it can talk to.
async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for &address in addresses {
        let any = match address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let connected = async {
            let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
            socket.connect(SocketAddr::new(address, port)).await?;
            // The runtime learns only now that it can be written; until then it would say no.
            socket.writable().await?;
            Ok(socket)
        };
        match connected.await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What an error of the outer socket is for the caller inside.
fn mirrored(error: &io::Error) -> Option<Unreachable> {
    match error.raw_os_error()? {
        libc::ECONNREFUSED => Some(Unreachable::Port),
        libc::EHOSTUNREACH | libc::ENETUNREACH => Some(Unreachable::Host),
        _ => None,
    }
}
