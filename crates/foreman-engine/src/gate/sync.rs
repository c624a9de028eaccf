//! Bringing a run in Review onto its base branch as it is now, and taking over what was added to it by
//! hand. Either makes it another thing to review: earlier approvals and check results do not count for
//! it.

use crate::api::{SyncOutcome, SyncRequest, SyncView};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::gate::rounds::Attended;
use crate::review::git;
use crate::words::{count, standing};
use foreman_domain::{Code, EventKind, Failure, Outcome, RunEvent, RunId, RunState};
use foreman_git::{Sync, Synced};
use foreman_store::StoredRun;
use std::sync::Arc;

/// Letters of a commit's name in a sentence.
const SHORT: usize = 10;

impl Engine {
    /// Syncs a run and checks it again.
    pub async fn sync(self: &Arc<Self>, request: SyncRequest) -> Result<SyncView, Failure> {
        let id = self.find_run(&request.run).await?;
        let outcome = {
            let _turn = self.turn(&id).await;
            self.not_at_work(&id).await?;
            let run = self.store.run(&id).await.or_fail()?;
            self.bring_up(&run).await?
        };
        let run = self.store.run(&id).await.or_fail()?;
        let (details, head) = (RunDetails::of(&run)?, head_in_review(&run)?);
        let mut checks = self.checks_of(&id, &details, Some(&head)).await?;
        let has_moved = !matches!(outcome, SyncOutcome::Conflict { .. });
        // What failed may have failed for a reason outside of the commit: asked again, it runs again.
        if has_moved && checks.iter().any(|check| !check.has_passed()) {
            checks = self.carry_round(&id, &head, Attended::Nobody).await?;
        }
        Ok(SyncView {
            run: self.view_of(&id).await?,
            sync: outcome,
            checks_now: checks,
        })
    }

    /// Syncs a run; the caller has its turn and knows that nothing else is at work on it.
    pub async fn bring_up(&self, run: &StoredRun) -> Result<SyncOutcome, Failure> {
        let details = RunDetails::of(run)?;
        let mut head = head_in_review(run)?;
        if let Some(added) = self.take_over_added(run, &details, &head).await? {
            head = added;
        }
        let wanted = head.clone();
        let sync = git(&details, move |repo, details| {
            repo.prepare_sync(&details.worktree, &wanted)
        })
        .await?;
        match sync {
            Sync::UpToDate => Ok(SyncOutcome::UpToDate),
            Sync::Conflict {
                base,
                commit,
                paths,
            } => Ok(SyncOutcome::Conflict {
                base,
                commit,
                paths,
            }),
            Sync::Ready(synced) => {
                let json = serde_json::to_string(&synced).map_err(internal)?;
                self.store
                    .begin_sync(self.epoch, &run.id, &json)
                    .await
                    .or_fail()?;
                self.carry_sync_out(&run.id, &details, &synced).await?;
                Ok(SyncOutcome::Synced {
                    old_head: synced.old_head,
                    head: synced.head,
                    base: synced.base,
                    replayed: synced.replayed,
                    dropped: synced.dropped,
                    same_changes: synced.same_changes,
                })
            }
        }
    }

    /// Moves everything that a sync moves, and forgets it. Done again, it ends in the same place.
    async fn carry_sync_out(
        &self,
        run: &RunId,
        details: &RunDetails,
        synced: &Synced,
    ) -> Result<(), Failure> {
        self.sure().await?;
        let applied = synced.clone();
        let moved = git(details, move |repo, details| {
            repo.apply_sync(&details.worktree, &applied)
        })
        .await;
        if let Err(failure) = moved {
            // Neither says that it cannot be done: it is tried again.
            if !matches!(failure.code, Code::Busy | Code::DiskFull) {
                self.store.end_sync(self.epoch, run).await.or_fail()?;
            }
            return Err(failure);
        }
        let mut details = details.clone();
        details.worktree.base_commit.clone_from(&synced.base);
        if let Some(follows) = &mut details.follows {
            follows.base.clone_from(&synced.base);
        }
        let moved = Outcome::Changes {
            head: synced.head.clone(),
            base: synced.base.clone(),
            agent_succeeded: true,
        };
        self.count_changes(&mut details, &moved).await;
        self.store
            .set_details(self.fence(run).await?, run, &details.encode()?)
            .await
            .or_fail()?;
        let log = self.open_log(run, &details).await?;
        let now = self.store.run(run).await.or_fail()?;
        let is_told = matches!(&now.state, RunState::Review { head, base, .. }
            if *head == synced.head && *base == synced.base);
        if !is_told {
            let said = EventKind::Progress {
                stage: "sync".into(),
                message: in_words(synced, &details.worktree.base_branch),
            };
            let event = RunEvent::Moved {
                head: synced.head.clone(),
                base: synced.base.clone(),
            };
            self.advance(&log, vec![said], event).await?;
        }
        drop(log);
        self.store.end_sync(self.epoch, run).await.or_fail()?;
        self.news.tell(run);
        Ok(())
    }

    /// Finishes syncs that an engine began and did not live to finish.
    pub async fn finish_interrupted_syncs(&self) -> Result<(), Failure> {
        for (run, json) in self.store.open_syncs().await.or_fail()? {
            let Some(_turn) = self.try_turn(&run) else {
                continue;
            };
            if let Err(error) = self.finish_sync(&run, &json).await {
                tracing::warn!(%run, %error, "a sync that was cut short is not finished");
            }
        }
        Ok(())
    }

    async fn finish_sync(&self, run: &RunId, json: &str) -> Result<(), Failure> {
        let stored = self.store.run(run).await.or_fail()?;
        let synced: Synced = serde_json::from_str(json).map_err(internal)?;
        match stored.state {
            RunState::Review { .. } => {
                let details = RunDetails::of(&stored)?;
                self.carry_sync_out(run, &details, &synced).await
            }
            _ => self.store.end_sync(self.epoch, run).await.or_fail(),
        }
    }

    /// Makes commits that somebody added to the run's branch by hand a part of what there is to review.
    /// Gives the new tip when there were any. The caller has the run's turn.
    pub async fn take_over_added(
        &self,
        run: &StoredRun,
        details: &RunDetails,
        head: &str,
    ) -> Result<Option<String>, Failure> {
        let seen = head.to_owned();
        let added = git(details, move |repo, details| {
            repo.added_by_hand(&details.worktree, &seen)
        })
        .await?;
        let Some(tip) = added else { return Ok(None) };
        self.sure().await?;
        let wanted = tip.clone();
        git(details, move |repo, details| {
            repo.adopt(&details.worktree, &wanted)
        })
        .await?;
        let RunState::Review { base, .. } = &run.state else {
            return Ok(Some(tip));
        };
        let message = format!(
            "commits were added to {} by hand: {} is to be reviewed instead of {}",
            details.worktree.branch,
            short(&tip),
            short(head)
        );
        let mut details = details.clone();
        let moved = Outcome::Changes {
            head: tip.clone(),
            base: base.clone(),
            agent_succeeded: true,
        };
        self.count_changes(&mut details, &moved).await;
        self.store
            .set_details(self.fence(&run.id).await?, &run.id, &details.encode()?)
            .await
            .or_fail()?;
        let log = self.open_log(&run.id, &details).await?;
        let event = RunEvent::Moved {
            head: tip.clone(),
            base: base.clone(),
        };
        self.advance(&log, vec![EventKind::Warning { message }], event)
            .await?;
        Ok(Some(tip))
    }

    /// Refuses while the queue or a round of checks is at work on a run.
    pub async fn not_at_work(&self, run: &RunId) -> Result<(), Failure> {
        let newest = self.store.newest_merge(run).await.or_fail()?;
        if newest.is_some_and(|entry| !entry.standing.is_over()) {
            return Err(
                Failure::new(Code::Conflict, format!("run {run} is in the merge queue"))
                    .hint("Wait for it: `foreman merges`."),
            );
        }
        let round = self.store.newest_round(run).await.or_fail()?;
        let is_checked = round.is_some_and(|round| round.ended_at.is_none());
        if is_checked && self.live.get(run).is_some() {
            return Err(
                Failure::new(Code::Conflict, format!("run {run} is being checked")).hint(format!(
                    "Wait for it (`foreman show {run}`), or end the checks: `foreman stop {run}`."
                )),
            );
        }
        Ok(())
    }
}

/// The tip of a run that waits for a review.
pub(crate) fn head_in_review(run: &StoredRun) -> Result<String, Failure> {
    match &run.state {
        RunState::Review { head, .. } => Ok(head.clone()),
        state => Err(Failure::new(
            Code::Conflict,
            format!(
                "run {} is {}, so there is nothing to bring onto its base",
                run.id,
                standing(state)
            ),
        )),
    }
}

/// The beginning of a commit's name.
pub(crate) fn short(commit: &str) -> String {
    commit.chars().take(SHORT).collect()
}

fn in_words(synced: &Synced, base_branch: &str) -> String {
    let how = if synced.replayed {
        "the run's commits were replayed onto"
    } else {
        "the run was merged with"
    };
    let dropped = match synced.dropped {
        0 => String::new(),
        many => format!(
            "; {} had its changes already and went",
            count(many as usize, "commit", "commits")
        ),
    };
    format!(
        "{how} {base_branch} at {}: its tip is {} now{dropped}",
        short(&synced.base),
        short(&synced.head)
    )
}
