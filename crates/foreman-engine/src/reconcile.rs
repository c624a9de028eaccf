//! Comparing what should be with what is, and doing the difference: at start, when somebody says that
//! there is something to do, and every few seconds.
//!
//! What is to be done is decided by a pure function ([`plan`]) over what is stored and what is seen
//! ([`look`]), and done by steps that may be done again: the happy case and recovery take the same path.
//! The loop looks at runs that are not at rest; `foreman doctor` looks at everything, says what it would
//! do, and does it when told to ([`truths`]).

pub(crate) mod look;
pub(crate) mod plan;
mod truths;

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::Failure;
use foreman_store::StoredRun;
use plan::{DiskSeen, GitSeen, Step, Stored, Truth};
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3);

/// Reconciles until hosting ends.
pub(crate) async fn keep_reconciling(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.news.something_to_do() => {}
            () = engine.cancel.cancelled() => return,
        }
        if let Err(error) = engine.reconcile().await {
            tracing::warn!(%error, "reconciling failed");
        }
    }
}

impl Engine {
    /// Looks once at what is not at rest and begins what is to be done; what takes long goes on in tasks
    /// of its own. One bad run never keeps the others from it.
    pub async fn reconcile(self: &Arc<Self>) -> Result<(), Failure> {
        for run in self.store.unsettled_runs().await.or_fail()? {
            if let Err(error) = self.reconcile_run(&run) {
                tracing::warn!(run = %run.id, %error, "a run could not be looked after");
            }
        }
        self.reconcile_gate().await
    }

    fn reconcile_run(self: &Arc<Self>, run: &StoredRun) -> Result<(), Failure> {
        if self.live.get(&run.id).is_some() {
            return Ok(());
        }
        let details = RunDetails::of(run)?;
        let truth = Truth {
            run: run.id.to_string(),
            stored: Some(self.stored(run)),
            shim: look::shim_of(&details),
            cage: None,
            disk: DiskSeen::default(),
            git: GitSeen::NotLooked,
            repo: None,
        };
        for step in truth.steps() {
            self.begin(run, &step)?;
        }
        Ok(())
    }

    /// Where a run stands, and whether somebody sees to it already.
    fn stored(&self, run: &StoredRun) -> Stored {
        Stored {
            phase: look::phase(run),
            followed: self.live.get(&run.id).is_some(),
            // Whoever prepares, merges or ends the run right now has its turn; it is not abandoned.
            busy: self.try_turn(&run.id).is_none(),
        }
    }

    /// Begins a step that brings a run forward; true when it was one. Doing it again does no harm.
    fn begin(self: &Arc<Self>, run: &StoredRun, step: &Step) -> Result<bool, Failure> {
        let Some(turn) = self.try_turn(&run.id) else {
            return Ok(false);
        };
        match step {
            Step::Follow | Step::Settle => {
                // A shim that is just starting is kept from it, or followed.
                if self.adopt(run)? {
                    return Ok(true);
                }
                drop(turn);
                let (engine, id) = (Arc::clone(self), run.id.clone());
                self.tasks.spawn(async move {
                    if let Err(error) = engine.settle(&id).await {
                        tracing::warn!(run = %id, %error, "a run could not be brought to rest");
                    }
                });
            }
            Step::FinishMerge => {
                let (engine, id) = (Arc::clone(self), run.id.clone());
                self.tasks.spawn(async move {
                    let _turn = turn;
                    if let Err(error) = engine.finish_interrupted_merge(&id).await {
                        tracing::warn!(run = %id, %error, "a merge could not be brought to its end");
                    }
                });
            }
            Step::RemoveSocket
            | Step::RemoveEmptyFolders
            | Step::RemoveEmptyBranch { .. }
            | Step::Leave(_) => return Ok(false),
        }
        Ok(true)
    }
}
