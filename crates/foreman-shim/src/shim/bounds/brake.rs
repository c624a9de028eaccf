//! Pauses a cage and lets it go on, and keeps everybody else from starting something in it meanwhile.

use super::group::Group;
use crate::shim::shells::Shells;
use foreman_cage::{Cage, Paused};
use std::io;
use std::sync::Arc;
use tokio::sync::watch;

/// What a paused cage is paused by.
#[derive(Debug)]
pub(in crate::shim) enum Held {
    Signals(Paused),
    Frozen,
}

/// Whether a run is paused; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::shim) struct Brake {
    paused: Arc<watch::Sender<bool>>,
    shells: Shells,
}

impl Brake {
    pub(in crate::shim) fn new(shells: Shells) -> Self {
        Self {
            paused: Arc::new(watch::Sender::new(false)),
            shells,
        }
    }

    /// Waits until nothing keeps a step from starting.
    pub(in crate::shim) async fn is_free(&self) {
        let mut paused = self.paused.subscribe();
        if paused.wait_for(|paused| !*paused).await.is_err() {
            // The sender lives in `self`, so this cannot be.
            std::future::pending::<()>().await;
        }
    }

    /// Whether it is paused at this moment.
    pub(in crate::shim) fn is_pulled(&self) -> bool {
        *self.paused.borrow()
    }

    /// Pauses everything in the cage; no step begins until it goes on, and where a reason is given, no
    /// shell either.
    ///
    /// # Errors
    /// When it could not be paused: it may be running then.
    pub(super) async fn pull(
        &self,
        cage: &Cage,
        group: Option<&Group>,
        why: Option<&str>,
    ) -> io::Result<Held> {
        self.paused.send_replace(true);
        if let Some(why) = why {
            self.shells.bar(Some(why.to_owned())).await;
        }
        let held = match group {
            Some(group) => group.freeze().await.map(|()| Held::Frozen),
            None => cage.pause().await.map(Held::Signals),
        };
        if held.is_err() {
            self.open().await;
        }
        held
    }

    /// Pauses once more what has begun to run.
    ///
    /// # Errors
    /// As [`Brake::pull`].
    pub(super) async fn pull_again(
        cage: &Cage,
        group: Option<&Group>,
        held: &mut Held,
    ) -> io::Result<()> {
        match (held, group) {
            (Held::Signals(paused), _) => cage.pause_again(paused).await,
            (Held::Frozen, Some(group)) => group.freeze().await,
            (Held::Frozen, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Whether a paused cage has stayed so.
    pub(super) fn holds(cage: &Cage, group: Option<&Group>, held: &Held) -> bool {
        match (held, group) {
            (Held::Signals(paused), _) => cage.is_still(paused),
            (Held::Frozen, Some(group)) => group.is_frozen().unwrap_or(false),
            (Held::Frozen, None) => false,
        }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it stays frozen.
    pub(super) async fn release(
        &self,
        cage: &Cage,
        group: Option<&Group>,
        held: Held,
    ) -> io::Result<()> {
        let gone_on = match held {
            Held::Signals(paused) => {
                cage.go_on(paused);
                Ok(())
            }
            Held::Frozen => group.map_or(Ok(()), Group::thaw),
        };
        self.open().await;
        gone_on
    }

    async fn open(&self) {
        self.shells.bar(None).await;
        self.paused.send_replace(false);
    }
}
