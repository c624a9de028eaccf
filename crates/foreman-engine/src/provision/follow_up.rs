//! Going on from what was reviewed: a new attempt of the same order that starts at a run's reviewed
//! commits, with the comments as its prompt.
//!
//! While it works its base is the commit it starts from, so that nothing that was reviewed is collected
//! twice and nothing new is lost. When it waits for a review itself, its base is what the first run built
//! on: diff and gate show everything. Only then does it take the first run's place, at its order and in
//! the words of both logs; until then the first run stays what there is to review.

use crate::api::{FollowUp, RunCreate, RunView};
use crate::create::GoingOn;
use crate::details::{Follows, RunDetails};
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::orders::with_prompt;
use crate::words::standing;
use foreman_domain::{Code, EventKind, Failure, Outcome, RunId, RunState};
use foreman_store::{RequestKey, StoreError, StoredRun};
use std::sync::Arc;

/// The stable word of its progress in the logs.
pub(crate) const FOLLOW_UP: &str = "follow_up";
/// As long as an order's prompt may be.
const LONGEST_MESSAGE: usize = 120 * 1024;

impl Engine {
    /// Makes a new attempt that starts from the reviewed commits of a run.
    pub async fn follow_up(
        self: &Arc<Self>,
        asked: FollowUp,
        key: &RequestKey,
    ) -> Result<RunView, Failure> {
        // The same request, asked again by a caller that lost its engine.
        if let Some(view) = self.created_before(key).await? {
            return Ok(view);
        }
        check_message(&asked.message)?;
        let id = self.find_run(&asked.run).await?;
        let first = self.store.run(&id).await.or_fail()?;
        self.go_on_from(first, &asked.message, false, key).await
    }

    /// Makes a new attempt that starts from what a run left, with the message as its prompt. Its agent goes on with its
    /// own session where it can, unless it is to start afresh.
    pub(crate) async fn go_on_from(
        self: &Arc<Self>,
        first: StoredRun,
        message: &str,
        afresh: bool,
        key: &RequestKey,
    ) -> Result<RunView, Failure> {
        let id = first.id.clone();
        let details = RunDetails::of(&first)?;
        let is_of_an_order = match self.store.order(&first.order).await {
            Ok(_) => true,
            Err(StoreError::NoOrder(_)) => false,
            Err(error) => return Err(error).or_fail(),
        };
        let head = match &first.state {
            RunState::Review { head, .. } => head.clone(),
            // It did nothing that there is to review, but may have asked something. An order that is done is done.
            RunState::NoChanges if !is_of_an_order => details.worktree.base_commit.clone(),
            _ => return Err(nothing_reviewed(&first)),
        };
        let follows = Follows {
            run: id.clone(),
            head,
            base: details.worktree.base_commit.clone(),
        };
        let mut request = self.asked_of(&first, message).await?;
        request.base = Some(details.worktree.base_branch.clone());
        request.title.get_or_insert(first.title.clone());
        let going_on = GoingOn {
            follows,
            memory: self.memory_of(&first, &details, &request, afresh).await?,
            freshness: details.freshness,
        };
        let view =
            Box::pin(self.create_run_from(Some(first.order), request, Some(going_on), key)).await?;
        let message = format!("run {} goes on from here, with the comments on it", view.id);
        self.tell_first(id, message);
        Ok(view)
    }

    /// What the first run was asked to do, with the message in the place of its prompt.
    async fn asked_of(&self, first: &StoredRun, message: &str) -> Result<RunCreate, Failure> {
        match self.store.order(&first.order).await {
            Ok(order) => return with_prompt(&order, message),
            // A run that was started by hand has no recorded order.
            Err(StoreError::NoOrder(_)) => {}
            Err(error) => return Err(error).or_fail(),
        }
        let Some(kept) = self.store.kept_request(&first.id).await.or_fail()? else {
            return Err(Failure::new(
                Code::NotFound,
                format!("what run {} was asked to do is not kept any more", first.id),
            )
            .hint("Give the command again: `foreman run`."));
        };
        let mut request: RunCreate = serde_json::from_str(&kept).map_err(internal)?;
        crate::orders::place_prompt(&mut request, message, false);
        Ok(request)
    }

    /// Has a follow-up that ended with commits take the first run's place. Done again, it changes nothing.
    pub(crate) async fn take_first_place(
        self: &Arc<Self>,
        run: &StoredRun,
        details: &mut RunDetails,
        outcome: &mut Outcome,
        events: &mut Vec<EventKind>,
    ) -> Result<(), Failure> {
        let Some(follows) = details.follows.clone() else {
            return Ok(());
        };
        let Outcome::Changes { base, .. } = outcome else {
            events.push(EventKind::Progress {
                stage: FOLLOW_UP.into(),
                message: format!(
                    "it has nothing new for review: run {} stays what there is",
                    follows.run
                ),
            });
            return Ok(());
        };
        base.clone_from(&follows.base);
        details.worktree.base_commit.clone_from(&follows.base);
        self.store
            .hand_over_order(self.epoch, &run.order, &follows.run, &run.id)
            .await
            .or_fail()?;
        events.push(EventKind::Progress {
            stage: FOLLOW_UP.into(),
            message: format!(
                "it is what there is to review now, instead of run {}",
                follows.run
            ),
        });
        let message = format!("run {} is newer: review that one instead", run.id);
        self.tell_first(follows.run, message);
        Ok(())
    }

    /// A line in the log of the run that is followed up, once nobody else has it.
    fn tell_first(self: &Arc<Self>, first: RunId, message: String) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let telling = async {
                let _turn = engine.turn(&first).await;
                let details = RunDetails::of(&engine.store.run(&first).await.or_fail()?)?;
                let log = engine.open_log(&first, &details).await?;
                let stage = FOLLOW_UP.into();
                let said = vec![EventKind::Progress { stage, message }];
                engine.append(&log, said).await.map(drop)
            };
            if let Err(error) = telling.await {
                // The other run's log has it.
                tracing::warn!(run = %first, %error, "a follow-up was not noted");
            }
        });
    }
}

pub(crate) fn check_message(message: &str) -> Result<(), Failure> {
    let refuse = |what: &str| Err(Failure::new(Code::BadInput, what));
    if message.trim().is_empty() {
        return Err(Failure::new(Code::Usage, "a follow-up needs a message")
            .hint("Say what is to be done: `foreman follow-up RUN -m MESSAGE`."));
    }
    if message.contains('\0') {
        return refuse("the message holds a NUL byte, which no program can be given");
    }
    if message.len() > LONGEST_MESSAGE {
        return refuse("the message is longer than 120 KiB");
    }
    Ok(())
}

/// Why a run has nothing to go on from.
fn nothing_reviewed(run: &StoredRun) -> Failure {
    let (id, stands) = (&run.id, standing(&run.state));
    let refuse = |what: &str| {
        let message = format!("run {id} is {stands}, so {what}");
        Failure::new(Code::Conflict, message)
    };
    match &run.state {
        state if state.is_live() => {
            refuse("there is nothing to go on from yet").hint("Wait until it is in review.")
        }
        RunState::Merging | RunState::Merged { .. } => {
            refuse("its commits are in the base branch already")
                .hint("Start another run from there: `foreman run`.")
        }
        RunState::Discarded { .. } => refuse("its commits are not there to go on from")
            .hint(format!("Bring them back first: `foreman restore {id}`.")),
        _ => refuse("it has no reviewed commits to go on from").hint(format!(
            "Try it again from the start: `foreman retry {id}`."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_program_can_be_given_is_refused_with_a_sentence() {
        for (message, word) in [("  \n", "needs"), ("a\0b", "NUL")] {
            let refused = check_message(message).unwrap_err();
            assert!(refused.message.contains(word), "{refused}");
        }
        let long = check_message(&"x".repeat(LONGEST_MESSAGE + 1)).unwrap_err();
        assert!(long.message.contains("120 KiB"));
        assert!(check_message("rename it").is_ok());
    }
}
