//! What the queue keeps in memory: who is being started, and what wakes it. Nothing in it needs to
//! outlive the engine.

use foreman_domain::{OrderId, RunId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Mutex as Turn, Notify};

/// The queue of this engine.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Held while orders are looked at and chosen: two decisions never count the same place.
    pub(super) turn: Turn<()>,
    /// Fires when something happened that may let an order start.
    pub(super) news: Notify,
    /// Fires when watched folders changed.
    pub(super) files: Notify,
    /// Orders are dispatched: this process stays.
    open: AtomicBool,
    starting: Mutex<BTreeSet<OrderId>>,
    /// Commits that this engine has asked the gate about.
    gated: Mutex<BTreeSet<(RunId, String)>>,
}

impl Queue {
    /// From now on orders are dispatched.
    pub fn open(&self) {
        self.open.store(true, Ordering::Release);
        self.wake();
        self.files.notify_one();
    }

    /// Whether orders are dispatched.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Something happened that may let an order start. A hint: whoever is woken looks for himself.
    pub fn wake(&self) {
        self.news.notify_one();
    }

    /// Orders that are being started and may not have a run yet.
    pub(super) fn starting(&self) -> BTreeSet<OrderId> {
        self.lock().clone()
    }

    /// From now on this order is being started; false when it was already.
    pub(super) fn begin(&self, order: &OrderId) -> bool {
        self.lock().insert(order.clone())
    }

    /// It has a run, or it does not come to one.
    pub(super) fn end(&self, order: &OrderId) {
        self.lock().remove(order);
        self.wake();
    }

    /// True when this engine has not asked the gate about these commits.
    pub(super) fn begin_gate(&self, run: &RunId, head: &str) -> bool {
        let mut gated = self.gated.lock().unwrap_or_else(PoisonError::into_inner);
        gated.insert((run.clone(), head.to_owned()))
    }

    /// The gate could not be asked.
    pub(super) fn end_gate(&self, run: &RunId, head: &str) {
        let mut gated = self.gated.lock().unwrap_or_else(PoisonError::into_inner);
        gated.remove(&(run.clone(), head.to_owned()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<OrderId>> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
