//! TCP: holds the first segment of each connection until the judge has answered and the other side
//! was dialled, then lets it go on and joins both connections.
//!
//! One task per connection, from its first segment to its last byte. Repeats of a held segment are
//! dropped; so is everything above [`HOLDS_AT_MOST`], because the sender repeats it.

mod device;

pub(crate) use device::Device;

use super::dial::{self, Obstacle, Outside};
use super::forward::{Forward, Outer};
use super::inquiry::{Denial, Granted, Target, cut_before_it_was_open, millis};
use super::judge::{Allowance, Closed, Judge};
use super::packet::{FirstSegment, Flow, canonical};
use super::reach::words;
use super::relay::{Counts, relay, reset};
use super::shared::Shared;
use device::{Held, Seen};
use foreman_domain::Protocol;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

/// Connections that are held at one time.
const HOLDS_AT_MOST: usize = 16_384;

/// Failures of the gate in a row after which it is given up.
const FAILURES_AT_MOST: u32 = 3;

/// How long the inner handshake may take once it was let through.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(30);

/// Holds and joins the TCP connections of one cage.
#[derive(Debug)]
pub(crate) struct Gate<J> {
    shared: Arc<Shared<J>>,
    device: Device,
    holds: Mutex<Holds>,
}

#[derive(Debug, Default)]
struct Holds {
    by_flow: HashMap<Flow, Hold>,
    last_number: u64,
}

/// A connection between its first segment and its inner handshake.
#[derive(Debug)]
struct Hold {
    /// Tells it from a later one between the same ends.
    number: u64,
    sequence: u32,
    since: Instant,
    gone: CancellationToken,
    /// Takes the inner connection, once it may be made.
    passing: Option<oneshot::Sender<TcpStream>>,
}

impl<J: Judge> Gate<J> {
    /// Holds what this device hands over.
    pub fn new(shared: Arc<Shared<J>>, device: Device) -> Arc<Self> {
        Arc::new(Self {
            shared,
            device,
            holds: Mutex::default(),
        })
    }

    fn holds(&self) -> std::sync::MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes first segments until cancelled, or until they cannot be taken any more.
    pub async fn run(self: Arc<Self>) {
        let mut buffer = vec![0; 64 << 10];
        let mut failures = 0;
        loop {
            let seen = tokio::select! {
                biased;
                () = self.shared.cancel.cancelled() => return,
                seen = self.device.receive(&mut buffer) => seen,
            };
            match seen {
                Ok(seen) => {
                    failures = 0;
                    seen.into_iter().for_each(|seen| self.take(seen));
                }
                Err(error) => {
                    // Nothing is let through meanwhile.
                    tracing::error!(%error, "the cage's gate cannot be read");
                    failures += 1;
                    if failures == FAILURES_AT_MOST {
                        let why = format!("the cage's gate cannot be read: {}", words(&error));
                        return self.shared.downfall.tell(why);
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    fn take(self: &Arc<Self>, seen: Seen) {
        let Seen { held, first } = seen;
        let Some(first) = first else {
            return self.device.drop_packet(held);
        };
        if self.shared.refuses_at_once(Protocol::Tcp, first.flow) {
            return self.device.release(held, &first, Denial::Refused);
        }
        let Some((number, gone)) = self.register(held, &first) else {
            return;
        };
        self.shared.held.notify_one();
        let gate = self.clone();
        self.shared
            .tasks
            .spawn(async move { gate.serve(held, first, number, gone).await });
    }

    /// Makes a hold of a segment that is none yet. Otherwise it has been dealt with.
    fn register(&self, held: Held, first: &FirstSegment) -> Option<(u64, CancellationToken)> {
        let mut holds = self.holds();
        let full = holds.by_flow.len() >= HOLDS_AT_MOST;
        let number = holds.last_number + 1;
        let gone = CancellationToken::new();
        let hold = Hold {
            number,
            sequence: first.sequence,
            since: Instant::now(),
            gone: gone.clone(),
            passing: None,
        };
        match holds.by_flow.entry(first.flow) {
            Entry::Occupied(known) if known.get().sequence == first.sequence => {
                let passes = known.get().passing.is_some();
                drop(holds);
                if passes {
                    // What was let through got lost, for example because the listener was full.
                    self.device.let_through(held, first);
                } else {
                    self.device.drop_packet(held);
                }
                return None;
            }
            Entry::Occupied(mut known) => {
                // A new connection between the same ends: the old one is no more.
                known.insert(hold).gone.cancel();
            }
            Entry::Vacant(_) if full => {
                drop(holds);
                self.device.drop_packet(held);
                return None;
            }
            Entry::Vacant(place) => {
                place.insert(hold);
            }
        }
        holds.last_number = number;
        Some((number, gone))
    }

    /// One connection, from its first segment to its last byte.
    async fn serve(
        self: Arc<Self>,
        held: Held,
        first: FirstSegment,
        number: u64,
        gone: CancellationToken,
    ) {
        let flow = first.flow;
        let granted = match self.shared.inquire(Protocol::Tcp, flow, &gone).await {
            Ok(granted) => granted,
            Err(denial) => return self.finish(held, &first, number, denial),
        };
        let (outside, open) = match self.dial(&granted, &gone).await {
            Ok(dialled) => dialled,
            Err(denial) => return self.finish(held, &first, number, denial),
        };
        let Granted {
            allowance,
            since,
            forward,
            ..
        } = granted;
        let Some(inside) = self.join(held, &first, number, &allowance).await else {
            reset(outside.stream);
            let cut = allowance.cut.is_cancelled();
            let how = if cut {
                cut_before_it_was_open(since)
            } else {
                Closed::Abandoned
            };
            return self.shared.judge.closed(allowance.connection, how);
        };
        match forward {
            Some(forward) => {
                self.hand_on(&forward, inside, outside, allowance, since)
                    .await;
            }
            None => self.carry(inside, outside, allowance, since).await,
        }
        drop(open);
    }

    /// Answers a hold and forgets it; in this order, so that a repeat is not a new hold.
    fn finish(&self, held: Held, first: &FirstSegment, number: u64, denial: Denial) {
        self.device.release(held, first, denial);
        self.forget(first.flow, number);
    }

    fn forget(&self, flow: Flow, number: u64) {
        let mut holds = self.holds();
        if holds
            .by_flow
            .get(&flow)
            .is_some_and(|hold| hold.number == number)
        {
            holds.by_flow.remove(&flow);
        }
    }

    /// Connects to the other side; tells the judge when that fails.
    async fn dial(
        &self,
        granted: &Granted,
        gone: &CancellationToken,
    ) -> Result<(Outside, OwnedSemaphorePermit), Denial> {
        let shared = &self.shared;
        let port = granted.port;
        let dialled = async {
            let closed = |_| Obstacle::Unreachable("the gateway is shutting down".to_owned());
            let open = shared.open.clone().acquire_owned().await.map_err(closed)?;
            let outside = match &granted.target {
                Target::Direct(addresses) => {
                    let stream = dial::direct(addresses, port).await?;
                    Outside {
                        stream,
                        early: Vec::new(),
                    }
                }
                Target::Proxy(endpoint) => {
                    dial::by_proxy(&shared.reach, endpoint, &granted.host, port).await?
                }
            };
            Ok((outside, open))
        };
        let (denial, how) = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => (Denial::Silence, Closed::Abandoned),
            () = gone.cancelled() => (Denial::Silence, Closed::Abandoned),
            () = granted.allowance.cut.cancelled() => {
                (Denial::Refused, cut_before_it_was_open(granted.since))
            }
            dialled = dialled => match dialled {
                Ok(dialled) => return Ok(dialled),
                Err(Obstacle::Refused(why)) => (Denial::Refused, Closed::Unreachable { why }),
                Err(Obstacle::Unreachable(why)) => {
                    (Denial::Unreachable, Closed::Unreachable { why })
                }
            },
        };
        shared.judge.closed(granted.allowance.connection, how);
        Err(denial)
    }

    /// Lets the segment through and waits for the inner connection that it makes.
    async fn join(
        &self,
        held: Held,
        first: &FirstSegment,
        number: u64,
        allowance: &Allowance,
    ) -> Option<TcpStream> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut holds = self.holds();
            match holds.by_flow.get_mut(&first.flow) {
                Some(hold) if hold.number == number => hold.passing = Some(sender),
                // Its place was taken by a later connection.
                Some(_) | None => {
                    drop(holds);
                    self.device.drop_packet(held);
                    return None;
                }
            }
        }
        self.device.let_through(held, first);
        let inside = tokio::select! {
            biased;
            () = self.shared.cancel.cancelled() => None,
            () = allowance.cut.cancelled() => None,
            inside = tokio::time::timeout(LONGEST_HANDSHAKE, receiver) => inside.ok()?.ok(),
        };
        self.forget(first.flow, number);
        inside
    }

    async fn carry(
        &self,
        inside: TcpStream,
        outside: Outside,
        allowance: Allowance,
        since: Instant,
    ) {
        let counts = Counts::default();
        let Outside { stream, early } = outside;
        let shared = &self.shared;
        let relayed = relay(
            inside,
            stream,
            &early,
            &counts,
            &shared.pipes,
            &allowance.cut,
        );
        let cut = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => false,
            cut = relayed => cut,
        };
        let how = Closed::Ended {
            sent: counts.sent.load(Ordering::Relaxed),
            received: counts.received.load(Ordering::Relaxed),
            millis: millis(since),
            cut,
        };
        shared.judge.closed(allowance.connection, how);
    }

    /// As [`Self::carry`], by somebody who speaks with both sides.
    async fn hand_on(
        &self,
        forward: &Forward,
        inside: TcpStream,
        outside: Outside,
        allowance: Allowance,
        since: Instant,
    ) {
        let counts = Arc::new(Counts::default());
        let outer = Outer::new(outside.stream, outside.early, counts.clone());
        let (cut, carried) = tokio::select! {
            biased;
            () = self.shared.cancel.cancelled() => (false, Ok(())),
            () = allowance.cut.cancelled() => (true, Ok(())),
            carried = forward.carrier.carry(inside, outer) => (false, carried),
        };
        let how = match carried {
            Ok(()) => Closed::Ended {
                sent: counts.sent.load(Ordering::Relaxed),
                received: counts.received.load(Ordering::Relaxed),
                millis: millis(since),
                cut,
            },
            Err(why) => Closed::Unreachable { why },
        };
        self.shared.judge.closed(allowance.connection, how);
    }

    /// Takes inner connections from a listener until cancelled. One that nobody waits for was not
    /// let through by us, and is reset.
    pub async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.shared.cancel.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((inside, _)) => self.hand_over(inside),
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection of the cage");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn hand_over(&self, inside: TcpStream) {
        // The address that a transparent listener gives its end is where the caller wanted to go.
        let (Ok(source), Ok(destination)) = (inside.peer_addr(), inside.local_addr()) else {
            return reset(inside);
        };
        let flow = Flow {
            source: canonical(source),
            destination: canonical(destination),
        };
        let waiting = self
            .holds()
            .by_flow
            .get_mut(&flow)
            .and_then(|hold| hold.passing.take());
        let _ = inside.set_nodelay(true);
        let unwanted = match waiting {
            Some(sender) => sender.send(inside).err(),
            None => Some(inside),
        };
        unwanted.into_iter().for_each(reset);
    }

    /// True while a connection waits for its end or for the other side.
    pub fn holds_any(&self) -> bool {
        let holds = self.holds();
        holds.by_flow.values().any(|hold| hold.passing.is_none())
    }

    /// Holds that have waited for longer than `age`, with what ends them.
    pub fn waiting(&self, age: Duration) -> Vec<(Flow, CancellationToken)> {
        let holds = self.holds();
        let old = |hold: &Hold| hold.passing.is_none() && hold.since.elapsed() > age;
        let waiting = holds.by_flow.iter().filter(|(_, hold)| old(hold));
        waiting
            .map(|(flow, hold)| (*flow, hold.gone.clone()))
            .collect()
    }
}
