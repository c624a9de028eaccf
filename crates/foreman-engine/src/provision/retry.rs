//! Trying a run again: a new attempt of the same order, by the same request.
//!
//! "Re-runnable" means exactly this: what prepares a run (fetch, copies, setup) is done anew in a new
//! worktree, from the base as it is now, and never over what an earlier attempt left. The earlier run and
//! its worktree stay as they are, to be looked at and discarded.

use crate::api::{Retried, RunCreate, RunRetry};
use crate::create::{GoingOn, Memory};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::words::standing;
use foreman_domain::{Code, Failure, RunState};
use foreman_store::{RequestKey, StoreError};
use std::sync::Arc;

impl Engine {
    /// Makes a new attempt of what a run was asked to do.
    pub async fn retry(
        self: &Arc<Self>,
        asked: RunRetry,
        key: &RequestKey,
    ) -> Result<Retried, Failure> {
        // The same request, asked again by a caller that lost its engine.
        if let Some(view) = self.created_before(key).await? {
            return Ok(Retried {
                run: view,
                terminal: asked.terminal.is_some(),
            });
        }
        let id = self.find_run(&asked.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let refuse = |why: String| Err(Failure::new(Code::Conflict, why));
        match &run.state {
            RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. } => {
                return Err(Failure::new(
                    Code::Conflict,
                    format!(
                        "run {id} is {}, so it cannot be tried again",
                        standing(&run.state)
                    ),
                )
                .hint(format!("Stop it first: `foreman stop {id}`.")));
            }
            RunState::Merging | RunState::Merged { .. } => {
                return refuse(format!(
                    "run {id} is {}, so there is nothing to try again",
                    standing(&run.state)
                ));
            }
            RunState::Review { .. }
            | RunState::NoChanges
            | RunState::Failed { .. }
            | RunState::Cancelled { .. }
            | RunState::Interrupted { .. }
            | RunState::Discarded { .. } => {}
        }
        match self.store.order(&run.order).await {
            Err(StoreError::NoOrder(_)) => {}
            Ok(_) => {
                return Err(Failure::new(
                    Code::Conflict,
                    format!("run {id} is an attempt of the order {}", run.order),
                )
                .hint(format!(
                    "Its order is tried again: `foreman order dispatch {}`.",
                    run.order
                )));
            }
            Err(error) => return Err(error).or_fail(),
        }
        let Some(kept) = self.store.kept_request(&id).await.or_fail()? else {
            return Err(Failure::new(
                Code::NotFound,
                format!("what run {id} was asked to do is not kept any more"),
            )
            .hint("Give the command again: `foreman run`."));
        };
        let mut request: RunCreate = serde_json::from_str(&kept).map_err(internal)?;
        request.title.get_or_insert(run.title.clone());
        if request.terminal.is_some() {
            request.terminal = asked.terminal;
            if request.terminal.is_none() {
                return Err(Failure::new(
                    Code::Usage,
                    format!("the agent of run {id} had a terminal, and there is none here"),
                )
                .hint("Try it again on a terminal."));
            }
        }
        let terminal = request.terminal.is_some();
        let details = RunDetails::of(&run)?;
        let going_on = details.follows.map(|follows| GoingOn {
            follows,
            freshness: details.freshness,
            memory: match (details.resumes, details.afresh) {
                (Some(resumes), _) if resumes.home.is_dir() => Memory::Resumes(resumes),
                (Some(_), _) => Memory::Afresh("its session was removed".to_owned()),
                (None, Some(why)) => Memory::Afresh(why),
                (None, None) => Memory::None,
            },
        });
        let run = Box::pin(self.create_run_from(Some(run.order), request, going_on, key)).await?;
        Ok(Retried { run, terminal })
    }
}
