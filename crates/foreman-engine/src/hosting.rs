//! Being the engine of a data directory: its lock, its epoch, its control socket, its tasks.
//!
//! The lock is the kernel's and ends with the process, so a killed engine never leaves it behind; the
//! epoch fences what an engine that lost it would still write.

use crate::HostOptions;
use crate::api::dispatch;
use crate::control::Server;
use crate::engine::{Engine, Session};
use crate::failures::OrFail;
use crate::layout::{Layout, unusable};
use foreman_domain::Failure;
use foreman_store::{RequestKey, Store};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for what was asked and is not finished when hosting ends.
const DRAIN: Duration = Duration::from_secs(20);

/// The lock of a data directory; held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
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
        let path = layout.lock();
        let fail = |error| unusable("the lock file", &path, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
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
    /// Released last: who takes it next must find everything at rest.
    lock: std::sync::Mutex<Option<Lock>>,
}

impl Hosting {
    /// Opens the database, takes the next epoch, looks after what is there, and serves.
    pub async fn start(
        options: HostOptions,
        layout: Layout,
        mut lock: Lock,
    ) -> Result<Arc<Self>, Failure> {
        let store = Store::open(&layout.database()).await.or_fail()?;
        let epoch = store.take_epoch().await.or_fail()?;
        let server = Server::bind(&layout.control_socket())?;
        let engine = Engine::new(options, layout, store, epoch);
        // Live runs are followed before anybody can ask about them.
        engine.reconcile().await?;
        engine.live.caught_up().await;
        lock.announce(&engine.layout)?;
        engine.tasks.spawn(server.serve(Arc::clone(&engine)));
        engine
            .tasks
            .spawn(crate::reconcile::keep_reconciling(Arc::clone(&engine)));
        Ok(Arc::new(Self {
            engine,
            lock: std::sync::Mutex::new(Some(lock)),
        }))
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
        // The socket goes before the lock: nobody may find a socket that a next engine has not made.
        let _ = std::fs::remove_file(self.engine.layout.control_socket());
        self.engine.store.clone().close().await;
        drop(
            self.lock
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .take(),
        );
    }
}
