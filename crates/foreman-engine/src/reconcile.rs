//! Comparing what should be with what is, at start and every few seconds, and doing the difference:
//! following live shims, bringing ended runs to rest, finishing merges that were cut short.
//!
//! One idempotent function; the happy case and recovery take the same path.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Failure, RunState};
use foreman_store::StoredRun;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3);

/// Reconciles until hosting ends.
pub(crate) async fn keep_reconciling(engine: Arc<Engine>) {
    loop {
        if let Err(error) = engine.reconcile().await {
            tracing::warn!(%error, "reconciling failed");
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
    }
}

impl Engine {
    /// Looks once, and does what is to be done. One bad run never keeps the others from it.
    pub async fn reconcile(self: &Arc<Self>) -> Result<(), Failure> {
        for run in self.store.unsettled_runs().await.or_fail()? {
            if let Err(error) = self.reconcile_run(&run).await {
                tracing::warn!(run = %run.id, %error, "a run could not be looked after");
            }
        }
        Ok(())
    }

    async fn reconcile_run(self: &Arc<Self>, run: &StoredRun) -> Result<(), Failure> {
        match &run.state {
            RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. } => {
                if self.live.get(&run.id).is_some() {
                    return Ok(());
                }
                // Whoever prepares the run right now has its turn; it is not abandoned.
                let Some(turn) = self.try_turn(&run.id) else { return Ok(()) };
                drop(turn);
                let details = RunDetails::of(run)?;
                if details.spec.exists() || details.shim().is_some() {
                    self.attach(run)
                } else {
                    self.settle(&run.id).await
                }
            }
            RunState::Merging => {
                let Some(_turn) = self.try_turn(&run.id) else { return Ok(()) };
                self.finish_interrupted_merge(&run.id).await
            }
            RunState::Review { .. }
            | RunState::NoChanges
            | RunState::Failed { .. }
            | RunState::Cancelled { .. }
            | RunState::Interrupted { .. }
            | RunState::Merged { .. }
            | RunState::Discarded { .. } => Ok(()),
        }
    }
}
