//! What an engine left that died while it made a run ready: taken back, and begun anew by the next one,
//! because whoever asked was told that the run is there. Not for ever, and not for a run that nobody
//! thinks of any more: such a one ends as failed, and may be tried again.

use super::Step;
use super::undo::undo;
use crate::api::RunCreate;
use crate::create::Making;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, join};
use crate::log::RunLog;
use foreman_domain::{At, CancelCause, EventKind, EventSeq, FailReason, Failure, Outcome, RunId};
use foreman_store::StoredRun;
use std::time::Duration;

/// Progress of one preparation is far less.
const LOOKED_AT: u32 = 512;
/// How often a run is prepared anew by itself, and how old it may be for that.
const TRIES: usize = 3;
const STALE: Duration = Duration::from_secs(10 * 60);
/// The word that says so in its log.
const AGAIN: &str = "again";

impl Engine {
    /// What to make an abandoned run ready with, after what was made of it is taken back; none when it is
    /// to end instead. The caller knows that nothing was started.
    pub async fn to_go_on_with(
        &self,
        stored: &StoredRun,
        details: &RunDetails,
        log: &RunLog,
    ) -> Result<Option<Making>, Failure> {
        let age = At::now()
            .as_millis()
            .saturating_sub(stored.created_at.as_millis());
        if stored.stop_asked_at.is_some() || age > STALE.as_millis().try_into().unwrap_or(i64::MAX)
        {
            return Ok(None);
        }
        let Some(kept) = self.store.kept_request(&stored.id).await.or_fail()? else {
            return Ok(None);
        };
        let kinds = ["progress".to_owned()];
        let told = self
            .store
            .events(&stored.id, EventSeq(0), LOOKED_AT, &kinds)
            .await
            .or_fail()?;
        let is_again = |event: &&foreman_domain::Event| {
            matches!(&event.kind,
            EventKind::Progress { stage, .. } if stage == AGAIN)
        };
        if told.events.iter().filter(is_again).count() >= TRIES {
            return Ok(None);
        }
        let request: RunCreate = serde_json::from_str(&kept).map_err(internal)?;
        // Whatever stands in its way now is told as the end of the run, not here.
        let Ok(plan) = self.plan(&request).await else {
            return Ok(None);
        };
        let mut events = Vec::new();
        for step in Step::ALL.into_iter().rev() {
            self.undo_step(details, step, &mut events).await;
        }
        if !events.is_empty() {
            self.append(log, events).await?;
            return Ok(None);
        }
        let message = "the engine ended while it prepared the run; preparing it anew".to_owned();
        let stage = AGAIN.to_owned();
        self.append(log, vec![EventKind::Progress { stage, message }])
            .await?;
        let mut details = details.clone();
        if details.follows.is_none() {
            details
                .worktree
                .base_commit
                .clone_from(&plan.pre.base_commit);
            details.freshness = None;
        }
        details.copied.clear();
        Ok(Some(Making {
            details,
            plan,
            request,
            policy: stored.policy.clone(),
            is_new: false,
        }))
    }

    /// Takes back what was begun, and says how the run ended: as one that can be tried again, or, where
    /// the operator had asked for it, stopped. The caller knows that nothing was started.
    pub async fn undo_unstarted(
        &self,
        details: &RunDetails,
        events: &mut Vec<EventKind>,
    ) -> Outcome {
        let (begun, was_stopped) = match self.begun(details).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(run = details.worktree.run, %error, "how far it was is not known");
                (Vec::new(), false)
            }
        };
        let last = begun.last().copied();
        // Unknown is everything: an undo does nothing where nothing was done.
        let steps = if begun.is_empty() {
            Step::ALL.to_vec()
        } else {
            begun
        };
        for step in steps.into_iter().rev() {
            self.undo_step(details, step, events).await;
        }
        if was_stopped {
            return Outcome::Cancelled {
                by: CancelCause::Operator,
            };
        }
        let at = last.map_or_else(String::new, |step| format!(" (at \"{}\")", step.word()));
        Outcome::Failed {
            reason: FailReason::Provision {
                message: format!(
                    "the engine ended while it prepared the run{at}; nothing was started, and what was \
                     made is taken back"
                ),
                code: None,
                hint: Some(format!(
                    "Try again: `foreman retry {}`.",
                    details.worktree.run
                )),
            },
        }
    }

    /// Takes back one step, and tells what could not be.
    pub(super) async fn undo_step(
        &self,
        details: &RunDetails,
        step: Step,
        events: &mut Vec<EventKind>,
    ) {
        let owned = details.clone();
        let taking = tokio::task::spawn_blocking(move || undo(&owned, step));
        let taken = taking.await.map_err(join).and_then(|taken| taken);
        let message = match taken {
            Ok(None) => return,
            Ok(Some(kept)) => kept,
            Err(error) => format!(
                "what was made for the run was not taken away ({}): {error}",
                step.word()
            ),
        };
        events.push(EventKind::Warning { message });
    }

    /// Steps that were begun, in order, and whether the operator had asked to stop.
    async fn begun(&self, details: &RunDetails) -> Result<(Vec<Step>, bool), Failure> {
        let run = details.worktree.run.parse::<RunId>().map_err(internal)?;
        let kinds = ["progress".to_owned()];
        let told = self
            .store
            .events(&run, EventSeq(0), LOOKED_AT, &kinds)
            .await
            .or_fail()?;
        let mut begun: Vec<Step> = Vec::new();
        for event in told.events {
            if let EventKind::Progress { stage, .. } = &event.kind
                && let Some(step) = Step::of_word(stage)
                && !begun.contains(&step)
            {
                begun.push(step);
            }
        }
        let stop = self.store.run(&run).await.or_fail()?.stop_asked_at;
        Ok((begun, stop.is_some()))
    }
}
