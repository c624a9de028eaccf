//! What the agent of a run has used, by its own word, for whoever keeps the bounds of that.

use foreman_domain::{AgentEvent, BoundKind, Spent, Tally};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::shim) struct SharedTally(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    tally: Mutex<Tally>,
    changed: Notify,
}

impl SharedTally {
    /// Counts what the agent said.
    pub(super) fn take_in(&self, event: &AgentEvent) {
        let mut tally = self.0.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if tally.take_in(event) {
            self.0.changed.notify_one();
        }
    }

    /// Waits until a figure has changed.
    pub(in crate::shim) async fn news(&self) {
        self.0.changed.notified().await;
    }

    /// The figure that is compared with a bound; none where it was never told.
    pub(in crate::shim) fn of(&self, bound: BoundKind) -> Option<u64> {
        let spent = self.spent();
        match bound {
            BoundKind::Tokens => spent.tokens,
            BoundKind::Cost => spent.cost_microusd,
            BoundKind::Turns => Some(spent.turns),
            BoundKind::Wall
            | BoundKind::Cpu
            | BoundKind::Memory
            | BoundKind::Processes
            | BoundKind::Disk
            | BoundKind::Output
            | BoundKind::OpenFiles => None,
        }
    }

    fn spent(&self) -> Spent {
        let tally = self.0.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.spent()
    }
}
