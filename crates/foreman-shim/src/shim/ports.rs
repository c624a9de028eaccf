//! Ports of the cage that are published to the operator.
//!
//! Each is a listener of this process on 127.0.0.1 and nothing else. Whoever connects to it is connected to
//! the same port of the cage's own loopback; nothing in the cage can open such a connection, or learn of the
//! listener, which is no destination for a cage either (the gateway refuses ports of the engine's programs).
//! It lives here and not in the engine, so that it goes on without one, and ends with the run at the latest.

use super::feed::Feed;
use crate::protocol::PublishedPort;
use crate::wire::{Refusal, RpcError};
use foreman_cage::{Cage, carry};
use foreman_domain::EventKind;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Ports that are published at one time.
const MOST: usize = 16;
/// Connections of one port at one time.
const CONNECTIONS: usize = 64;
/// Longest wait for the connections of a port to end with it.
const LAST: Duration = Duration::from_secs(2);

/// What is to be published.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) port: u16,
    /// Where; the same number where that is free, else any, when absent.
    pub(super) to: Option<u16>,
    /// Whether the same number is meant and no other.
    pub(super) exact: bool,
    pub(super) by: String,
}

/// The published ports of a run; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Ports(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    feed: Feed,
    /// Held while one is opened or closed.
    door: tokio::sync::Mutex<Weak<Cage>>,
    open: Mutex<BTreeMap<u16, Arc<Published>>>,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Published {
    port: u16,
    at: u16,
    end: CancellationToken,
    /// Fires when it has ended, and that was told.
    ended: CancellationToken,
    open: AtomicU32,
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Ports {
    pub(super) fn new(feed: Feed) -> Self {
        Self(Arc::new(Inner {
            feed,
            door: tokio::sync::Mutex::default(),
            open: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// From here on ports can be published.
    pub(super) async fn open_door(&self, cage: &Arc<Cage>) {
        *self.0.door.lock().await = Arc::downgrade(cage);
    }

    /// Closes every port for good. Nobody holds the cage any more when this returns.
    pub(super) async fn finish(&self) {
        *self.0.door.lock().await = Weak::new();
        for published in self.0.open().values() {
            published.end.cancel();
        }
        self.0.tasks.close();
        let _ = timeout(LAST, self.0.tasks.wait()).await;
    }

    /// Publishes a port. Asking again for one that is published changes nothing.
    pub(super) async fn publish(&self, asked: Asked) -> Result<PublishedPort, RpcError> {
        let door = self.0.door.lock().await;
        let cage = door.upgrade().ok_or_else(no_cage)?;
        let known = self.0.open().get(&asked.port).cloned();
        if let Some(known) = known {
            return match asked.to {
                Some(to) if to != known.at => Err(Refusal::PortTaken.says(format!(
                    "Port {} is published at 127.0.0.1:{} already; close it first",
                    known.port, known.at
                ))),
                _ => Ok(known.view(&cage)),
            };
        }
        if self.0.open().len() >= MOST {
            let message =
                format!("{MOST} ports of this run are published already; close one first");
            return Err(Refusal::Busy.says(message));
        }
        let listener = listen(&asked).await?;
        let at = listener
            .local_addr()
            .map_err(|error| not_there(&asked, &error))?
            .port();
        let published = Arc::new(Published {
            port: asked.port,
            at,
            end: CancellationToken::new(),
            ended: CancellationToken::new(),
            open: AtomicU32::new(0),
            connections: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        });
        let view = published.view(&cage);
        self.0.feed.tell(EventKind::PortOpened {
            port: asked.port,
            to: at,
            by: asked.by,
            listening: view.listening,
        });
        self.0.open().insert(asked.port, Arc::clone(&published));
        let (inner, cage) = (Arc::clone(&self.0), Arc::downgrade(&cage));
        self.0
            .tasks
            .spawn(async move { inner.serve(listener, published, cage).await });
        Ok(view)
    }

    /// Those that are published.
    pub(super) async fn list(&self) -> Result<Vec<PublishedPort>, RpcError> {
        let cage = self.0.door.lock().await.upgrade().ok_or_else(no_cage)?;
        let open: Vec<_> = self.0.open().values().cloned().collect();
        Ok(open.iter().map(|published| published.view(&cage)).collect())
    }

    /// Closes a port and cuts its connections; what it was.
    pub(super) async fn close(&self, port: u16) -> Result<PublishedPort, RpcError> {
        let door = self.0.door.lock().await;
        let cage = door.upgrade().ok_or_else(no_cage)?;
        let known = self.0.open().get(&port).cloned();
        let Some(published) = known else {
            let message = format!("Port {port} of this run is not published");
            return Err(Refusal::NoPort.says(message));
        };
        published.end.cancel();
        published.ended.cancelled().await;
        Ok(published.view(&cage))
    }
}

fn no_cage() -> RpcError {
    Refusal::NoStep.says("There is no cage of this run now")
}

/// Listens where it was asked for.
async fn listen(asked: &Asked) -> Result<TcpListener, RpcError> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match bind(asked.to.unwrap_or(asked.port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if asked.to.is_some() || asked.exact => Err(not_there(asked, &error)),
        Err(_) => bind(0).await.map_err(|error| not_there(asked, &error)),
    }
}

fn not_there(asked: &Asked, error: &io::Error) -> RpcError {
    let at = asked.to.unwrap_or(asked.port);
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are not for ordinary accounts".to_owned()
        }
        _ => foreman_domain::without_error_numbers(&error.to_string()),
    };
    Refusal::PortTaken.says(format!("127.0.0.1:{at} cannot be had: {why}"))
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Published>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes connections until it is closed; then cuts those that are open, and tells.
    async fn serve(&self, listener: TcpListener, published: Arc<Published>, cage: Weak<Cage>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let carrying = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = published.end.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    // One too many is closed at once.
                    let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                        continue;
                    };
                    let (published, cage) = (Arc::clone(&published), cage.clone());
                    carrying.spawn(async move {
                        published.carry(stream, &cage).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to a published port cannot be taken");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(listener);
        carrying.close();
        let _ = timeout(LAST, carrying.wait()).await;
        self.open().remove(&published.port);
        self.feed.tell(EventKind::PortClosed {
            port: published.port,
            to: published.at,
            connections: published.connections.load(Ordering::Relaxed),
            sent: published.sent.load(Ordering::Relaxed),
            received: published.received.load(Ordering::Relaxed),
        });
        published.ended.cancel();
    }
}

impl Published {
    async fn carry(&self, outside: TcpStream, cage: &Weak<Cage>) {
        let _ = outside.set_nodelay(true);
        let reached = {
            let Some(cage) = cage.upgrade() else {
                return;
            };
            tokio::select! {
                biased;
                () = self.end.cancelled() => return,
                reached = cage.reach(self.port) => reached,
            }
        };
        let inside = match reached {
            Ok(inside) => inside,
            // Whoever connected sees it closed at once: nothing listens there, or not yet.
            Err(error) => {
                tracing::debug!(%error, port = self.port, "a port of the cage does not answer");
                return;
            }
        };
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let carried = carry(inside, outside, &self.end).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.sent.fetch_add(carried.sent, Ordering::Relaxed);
        self.received.fetch_add(carried.received, Ordering::Relaxed);
    }

    fn view(&self, cage: &Cage) -> PublishedPort {
        PublishedPort {
            port: self.port,
            at: self.at,
            // Where it cannot be seen, nothing was seen.
            listening: cage.listens(self.port).unwrap_or(false),
            open: self.open.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }
}
