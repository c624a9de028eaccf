//! Being the engine of a data directory: its lock, its epoch, its control socket, its tasks.
//!
//! The lock is the kernel's and ends with the process, so a killed engine never leaves it behind. It is
//! not trusted alone, for a lock file can be deleted: while another engine's lease has not expired and
//! that engine is not known to have ended, it is joined or waited for. The epoch fences what an engine
//! that lost its place would still write; it finds that out by its next heartbeat and steps down.

use crate::HostOptions;
use crate::api::dispatch;
use crate::control::Server;
use crate::engine::{Engine, Session};
use crate::failures::{OrFail, internal};
use crate::layout::{Layout, unusable};
use crate::lease::{Attempt, Lease, TTL, keep_beating};
use foreman_domain::Failure;
use foreman_shim::ProcessIdentity;
use foreman_store::{RequestKey, Store, Taken};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for what was asked and is not finished when hosting ends.
const DRAIN: Duration = Duration::from_secs(20);

/// The lock of a data directory; held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// A file with its lock, or `None` while another process has that. The lock is the kernel's and ends
/// with the process.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, Failure> {
    let fail = |error| unusable("the lock file", path, &error);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
        .map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(fail(error)),
    }
}

/// Who holds a data directory, as that process wrote it down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub pid: u32,
    pub socket: PathBuf,
}

impl Lock {
    /// Takes the lock, or `None` while another process has it.
    pub fn take(layout: &Layout) -> Result<Option<Self>, Failure> {
        Ok(try_lock(&layout.lock())?.map(|file| Self { file }))
    }

    /// Who holds it, where that can be read.
    pub fn holder(layout: &Layout) -> Option<Holder> {
        serde_json::from_slice(&std::fs::read(layout.lock()).ok()?).ok()
    }

    /// Says who holds it, for those who want to join.
    fn announce(&mut self, layout: &Layout) -> Result<(), Failure> {
        let holder = Holder {
            pid: std::process::id(),
            socket: layout.control_socket(),
        };
        let text = serde_json::to_vec(&holder).map_err(crate::failures::internal)?;
        let mut write = || {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(&text)
        };
        write().map_err(|error| unusable("the lock file", &layout.lock(), &error))
    }
}

/// This process as the engine.
#[derive(Debug)]
pub(crate) struct Hosting {
    engine: Arc<Engine>,
    heart: tokio::task::JoinHandle<()>,
    /// Released last: who takes it next must find everything at rest.
    lock: std::sync::Mutex<Option<Lock>>,
}

/// What became of the wish to host.
#[derive(Debug)]
pub(crate) enum Begun {
    /// This process hosts.
    Hosting(Arc<Hosting>),
    /// The lock is there to be taken, but another engine's lease has not expired.
    Held {
        /// That engine's process, where it said so.
        pid: Option<u32>,
        /// When its lease ends unless it is renewed.
        expires_in: Duration,
    },
}

impl Hosting {
    /// Opens the database, takes the next epoch, looks after what is there, and serves.
    pub async fn start(
        options: HostOptions,
        layout: Layout,
        mut lock: Lock,
    ) -> Result<Begun, Failure> {
        let store = Store::open(&layout.database()).await.or_fail()?;
        let attempt = Attempt::begin()?;
        let epoch = match take_over(&store).await? {
            Taken::Ours(epoch) => epoch,
            Taken::Held { holder, expires_in } => {
                store.close().await;
                let pid = described(&holder).map(|engine| engine.pid);
                return Ok(Begun::Held { pid, expires_in });
            }
        };
        let server = Server::bind(&layout.control_socket())?;
        let lease = Lease::taken(attempt);
        let engine = Engine::new(options, layout, store, epoch, lease);
        // Not one of the tasks that are waited for: it beats until they have ended.
        let heart = tokio::spawn(keep_beating(Arc::clone(&engine)));
        engine.catch_up().await?;
        // Live runs are followed before anybody can ask about them.
        engine.reconcile().await?;
        engine.live.caught_up().await;
        lock.announce(&engine.layout)?;
        engine.tasks.spawn(server.serve(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::reconcile::keep_reconciling(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::orders::keep_dispatching(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::orders::keep_watching(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::disk::keep_disk(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::upkeep::keep_store(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::awake::keep_awake(Arc::clone(&engine)));
        Ok(Begun::Hosting(Arc::new(Self {
            engine,
            heart,
            lock: std::sync::Mutex::new(Some(lock)),
        })))
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// True once another engine is known to be in charge: whoever asks must ask that one.
    pub fn is_fenced(&self) -> bool {
        self.engine.lease.is_lost()
    }

    /// Answers a command of this very process.
    pub async fn call(
        &self,
        key: RequestKey,
        name: &'static str,
        params: serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let session = Session {
            engine: Arc::clone(&self.engine),
            key,
        };
        if crate::control::is_waiting(name) {
            return dispatch(&session, name, params).await;
        }
        // In a task of its own, so that a caller that loses interest leaves nothing half-made.
        let work = async move { dispatch(&session, name, params).await };
        self.engine
            .tasks
            .spawn(work)
            .await
            .map_err(crate::failures::join)?
    }

    /// Stops serving, lets what was asked finish, and gives the data directory back.
    pub async fn close(&self) {
        self.engine.cancel.cancel();
        self.engine.tasks.close();
        if tokio::time::timeout(DRAIN, self.engine.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some tasks of the engine did not end in time");
        }
        self.heart.abort();
        if !self.is_fenced() {
            // The socket goes before the lock: nobody may find a socket that a next engine has not
            // made. One of an engine that took over is not ours to remove.
            let _ = std::fs::remove_file(self.engine.layout.control_socket());
            if let Err(error) = self.engine.store.release(self.engine.epoch).await {
                tracing::warn!(%error, "the lease was not given back; the next engine may wait for it");
            }
        }
        self.engine.store.clone().close().await;
        drop(
            self.lock
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take(),
        );
    }
}

/// A host that is dropped without an end in good order leaves nothing that goes on in its name.
impl Drop for Hosting {
    fn drop(&mut self) {
        self.engine.cancel.cancel();
        self.heart.abort();
    }
}

/// Takes the store over; the lease of an engine whose process has ended is not waited for.
async fn take_over(store: &Store) -> Result<Taken, Failure> {
    let me = ProcessIdentity::of(std::process::id()).map_err(internal)?;
    let before = store.holder().await.or_fail()?;
    let has_ended = before
        .as_deref()
        .and_then(described)
        .is_some_and(|engine| engine == me || (engine.is_of_this_boot() && !engine.is_alive()));
    let known_dead = before.as_deref().filter(|_| has_ended);
    let me = serde_json::to_string(&me).map_err(internal)?;
    store.take_over(&me, TTL, known_dead).await.or_fail()
}

/// An engine's process, as it described itself.
fn described(holder: &str) -> Option<ProcessIdentity> {
    serde_json::from_str(holder).ok()
}
