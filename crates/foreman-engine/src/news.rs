//! Wakes readers that wait for a run's next event, or for any change at all. A hint, never the event
//! itself: whoever is woken reads the store by its cursor, so a hint that is missed or doubled costs
//! nothing.

use crate::changes::{Changes, Subject};
use foreman_domain::{BlockId, OrderId, RunId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// One level per run that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct News {
    runs: Mutex<HashMap<RunId, watch::Sender<u64>>>,
    /// Something is to be looked at before its time.
    nudge: tokio::sync::Notify,
    /// What changed, for those who watch everything.
    pub changes: Changes,
}

impl News {
    /// From now on, [`watch::Receiver::changed`] ends when the run has news.
    pub fn subscribe(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, sender| sender.receiver_count() > 0);
        runs.entry(run.clone())
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    /// There may be something to do that nobody does yet.
    pub fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Waits until somebody said so.
    pub async fn something_to_do(&self) {
        self.nudge.notified().await;
    }

    /// The order has changed, and is in the store.
    pub fn tell_order(&self, order: &OrderId) {
        self.changes.tell(Subject::Order(order.clone()));
    }

    /// The block has changed, and is in the store.
    pub fn tell_block(&self, block: &BlockId) {
        self.changes.tell(Subject::Block(block.clone()));
    }

    /// The run has news, and they are in the store.
    pub fn tell(&self, run: &RunId) {
        self.changes.tell(Subject::Run(run.clone()));
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = runs.get(run) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
