//! Wakes readers that wait for a run's next event. A hint, never the event itself: whoever is woken
//! reads the store by its cursor, so a hint that is missed or doubled costs nothing.

use foreman_domain::RunId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// One level per run that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct News {
    runs: Mutex<HashMap<RunId, watch::Sender<u64>>>,
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

    /// The run has news.
    pub fn tell(&self, run: &RunId) {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = runs.get(run) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
