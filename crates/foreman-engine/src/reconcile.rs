//! Comparing what should be with what is, at start and every few seconds, and doing the difference:
//! following live shims, bringing ended runs to rest, finishing merges that were cut short.
//!
//! One idempotent function; the happy case and recovery take the same path.

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
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
        if let Err(error) = engine.reconcile().await {
            tracing::warn!(%error, "reconciling failed");
        }
    }
}

impl Engine {
    /// Looks once and begins what is to be done; what takes long goes on in tasks of its own. One bad
    /// run never keeps the others from it.
    pub async fn reconcile(self: &Arc<Self>) -> Result<(), Failure> {
        for run in self.store.unsettled_runs().await.or_fail()? {
            if let Err(error) = self.reconcile_run(&run) {
                tracing::warn!(run = %run.id, %error, "a run could not be looked after");
            }
        }
        Ok(())
    }

    fn reconcile_run(self: &Arc<Self>, run: &StoredRun) -> Result<(), Failure> {
        if self.live.get(&run.id).is_some() {
            return Ok(());
        }
        // Whoever prepares, merges or ends the run right now has its turn; it is not abandoned.
        let Some(turn) = self.try_turn(&run.id) else {
            return Ok(());
        };
        match &run.state {
            RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. } => {
                if self.adopt(run)? {
                    return Ok(());
                }
                drop(turn);
                let (engine, id) = (Arc::clone(self), run.id.clone());
                self.tasks.spawn(async move {
                    if let Err(error) = engine.settle(&id).await {
                        tracing::warn!(run = %id, %error, "a run could not be brought to rest");
                    }
                });
            }
            RunState::Merging => {
                let (engine, id) = (Arc::clone(self), run.id.clone());
                self.tasks.spawn(async move {
                    let _turn = turn;
                    if let Err(error) = engine.finish_interrupted_merge(&id).await {
                        tracing::warn!(run = %id, %error, "a merge could not be brought to its end");
                    }
                });
            }
            RunState::Review { .. }
            | RunState::NoChanges
            | RunState::Failed { .. }
            | RunState::Cancelled { .. }
            | RunState::Interrupted { .. }
            | RunState::Merged { .. }
            | RunState::Discarded { .. } => {}
        }
        Ok(())
    }
}
