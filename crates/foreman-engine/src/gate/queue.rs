//! The merge queue: per repository one run after the other is brought onto the base branch, checked
//! where that changed it, and merged; or goes back to Review with the reason.
//!
//! An approval for the queue covers the changes that were shown and not the base that they were shown
//! on: a sync that makes anything else of them takes it back. Entries are in the store; a worker takes
//! the oldest, and whichever engine hosts has one for each repository with work. What keeps one entry
//! (a full disk, a busy repository) never keeps the others.

use crate::api::{MergeEntry, MergeList, MergeRequest, Merges, QueueStanding, SyncOutcome};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::gate::rounds::{Attended, not_passed};
use crate::gate::sync::head_in_review;
use crate::secrets::no_secret_in;
use crate::words::standing;
use foreman_domain::{At, Code, EventKind, Failure, RunId, RunState, sanitize_line};
use foreman_store::{AskedBy, MergeFilter, MergeStanding, NewMerge, RequestKey, StoredMerge};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a base may move under one entry before it is returned.
const TRIES: u32 = 5;
const LONGEST_WAIT_MS: u32 = 30_000;
const MOST: u32 = 1_000;
/// Conflicting files that are named in a reason.
const NAMED: usize = 10;

/// What came of one entry.
enum Processed {
    Merged(String),
    Returned(String),
}

impl Engine {
    /// Approves a run for the queue of its repository.
    pub async fn queue(
        self: &Arc<Self>,
        request: MergeRequest,
        key: &RequestKey,
    ) -> Result<MergeEntry, Failure> {
        let id = self.find_run(&request.run).await?;
        if self.was_asked(key, &id).await?
            && let Some(entry) = self.store.newest_merge(&id).await.or_fail()?
        {
            return Ok(shown(entry));
        }
        let approved = {
            let _turn = self.turn(&id).await;
            self.not_at_work(&id).await?;
            let approved = self.approved(&id, &request).await?;
            self.refuse_secrets_in_queue(&id, &approved.head).await?;
            let new = NewMerge {
                run: id.clone(),
                by: AskedBy::Operator,
                head: approved.head,
                revision: approved.revision,
                despite: request.despite_checks.clone(),
                at: At::now(),
                key: Some(key.clone()),
            };
            self.store.queue_merge(self.epoch, &new).await.or_fail()?;
            id
        };
        self.news.tell(&approved);
        self.work_queues().await?;
        let entry = self.store.newest_merge(&approved).await.or_fail()?;
        entry.map(shown).ok_or_else(|| {
            crate::failures::internal(format!(
                "run {approved} is not in the queue that it was put in"
            ))
        })
    }

    /// The queue has nobody to ask: what says a secret is merged by hand, with a word about it.
    async fn refuse_secrets_in_queue(&self, run: &RunId, head: &str) -> Result<(), Failure> {
        let details = RunDetails::of(&self.store.run(run).await.or_fail()?)?;
        let secrets = self.secrets_in(&details, head).await?;
        no_secret_in(&secrets, false, "queued")
    }

    /// The queue; waits, when asked to, until no entry of the run is under way.
    pub async fn merges(&self, request: MergeList) -> Result<Merges, Failure> {
        let run = match &request.run {
            Some(run) => Some(self.find_run(run).await?),
            None => None,
        };
        let wait = Duration::from_millis(request.wait_ms.min(LONGEST_WAIT_MS).into());
        if let Some(run) = &run {
            self.wait_for_queue(run, Instant::now() + wait).await?;
        }
        let filter = MergeFilter {
            run: run.as_ref(),
            all: request.all,
            limit: MOST,
        };
        let merges = self.store.merges(filter).await.or_fail()?;
        Ok(Merges {
            merges: merges.into_iter().map(shown).collect(),
        })
    }

    /// The run's newest entry once it is over, or as it is at the deadline.
    pub async fn wait_for_queue(
        &self,
        run: &RunId,
        deadline: Instant,
    ) -> Result<Option<StoredMerge>, Failure> {
        let mut news = self.news.subscribe(run);
        loop {
            news.mark_unchanged();
            let entry = self.store.newest_merge(run).await.or_fail()?;
            let is_over = entry.as_ref().is_none_or(|entry| entry.standing.is_over());
            if is_over || Instant::now() >= deadline {
                return Ok(entry);
            }
            tokio::select! {
                _ = tokio::time::timeout_at(deadline, news.changed()) => {}
                () = self.cancel.cancelled() => return Ok(entry),
            }
        }
    }

    /// Sees to it that every repository with entries has its worker.
    pub async fn work_queues(self: &Arc<Self>) -> Result<(), Failure> {
        let filter = MergeFilter {
            limit: MOST,
            ..MergeFilter::default()
        };
        let open = self.store.merges(filter).await.or_fail()?;
        let repos: BTreeSet<String> = open.into_iter().map(|entry| entry.repo_key).collect();
        for repo in repos {
            let turn = self.turn_at(&format!("queue {repo}"));
            // One that works already takes what is new, too.
            let Ok(turn) = turn.try_lock_owned() else {
                continue;
            };
            let engine = Arc::clone(self);
            self.tasks.spawn(async move {
                let _turn = turn;
                engine.work_one_queue(&repo).await;
            });
        }
        Ok(())
    }

    async fn work_one_queue(self: &Arc<Self>, repo: &str) {
        let mut kept: BTreeSet<i64> = BTreeSet::new();
        while !self.cancel.is_cancelled() {
            let filter = MergeFilter {
                limit: MOST,
                ..MergeFilter::default()
            };
            let open = match self.store.merges(filter).await {
                Ok(open) => open,
                Err(error) => {
                    tracing::warn!(repo, %error, "the merge queue cannot be read");
                    return;
                }
            };
            let next = open
                .into_iter()
                .find(|entry| entry.repo_key == repo && !kept.contains(&entry.number));
            let Some(entry) = next else { return };
            if let Err(error) = self.work_entry(&entry).await {
                // It stays in the queue: the next round of work tries it again.
                tracing::warn!(run = %entry.run, %error, "a merge waits");
                kept.insert(entry.number);
            }
        }
    }

    async fn work_entry(self: &Arc<Self>, entry: &StoredMerge) -> Result<(), Failure> {
        self.stands(entry, &MergeStanding::Working).await?;
        let (engine, own) = (Arc::clone(self), entry.clone());
        // In a task of its own, so that a bug in it ends one entry and not the queue.
        let working = self.tasks.spawn(async move { engine.process(&own).await });
        let processed = match working.await.map_err(join).and_then(|processed| processed) {
            Err(failure) if matches!(failure.code, Code::Busy | Code::DiskFull) => {
                return Err(failure);
            }
            Err(failure) => Processed::Returned(failure.message),
            Ok(processed) => processed,
        };
        let standing = match processed {
            Processed::Merged(commit) => MergeStanding::Merged { commit },
            Processed::Returned(reason) => {
                self.tell_returned(&entry.run, &reason).await;
                MergeStanding::Returned { reason }
            }
        };
        self.stands(entry, &standing).await
    }

    async fn stands(&self, entry: &StoredMerge, standing: &MergeStanding) -> Result<(), Failure> {
        self.store
            .move_merge(self.epoch, entry.number, standing, At::now())
            .await
            .or_fail()?;
        self.news.tell(&entry.run);
        Ok(())
    }

    async fn process(self: &Arc<Self>, entry: &StoredMerge) -> Result<Processed, Failure> {
        let mut head = entry.head.clone();
        for _ in 0..TRIES {
            match self.bring_and_check(entry, &head).await? {
                Brought::Ready(tip) => head = tip,
                Brought::Over(processed) => return Ok(processed),
            }
            match self.merge_approved(entry, &head).await? {
                Some(processed) => return Ok(processed),
                None => continue,
            }
        }
        Ok(Processed::Returned(
            "its base branch moved again and again while it was checked".into(),
        ))
    }

    /// Sync and checks, until the run is one step from merged.
    async fn bring_and_check(
        self: &Arc<Self>,
        entry: &StoredMerge,
        approved: &str,
    ) -> Result<Brought, Failure> {
        let over = |reason: String| Ok(Brought::Over(Processed::Returned(reason)));
        let turn = self.turn(&entry.run).await;
        self.finish_interrupted_merge(&entry.run).await?;
        let run = self.store.run(&entry.run).await.or_fail()?;
        match &run.state {
            RunState::Merged { commit } => {
                return Ok(Brought::Over(Processed::Merged(commit.clone())));
            }
            RunState::Review { .. } => {}
            state => return over(format!("the run is {}", standing(state))),
        }
        if run.revision != entry.revision {
            return over("the policy of the run has moved since it was approved".into());
        }
        let before = head_in_review(&run)?;
        let details = RunDetails::of(&run)?;
        let added = self.take_over_added(&run, &details, &before).await?;
        if added.is_some() {
            return over("commits were added to it by hand since it was approved".into());
        }
        // Where an engine died between a sync and this, what was approved is what was synced.
        let is_synced = before != approved && self.is_sync_of(&run.id, approved, &before).await?;
        if before != approved && !is_synced {
            return over("it is another commit than the one that was approved".into());
        }
        let head = match self.bring_up(&run).await {
            Ok(SyncOutcome::UpToDate) => before,
            Ok(SyncOutcome::Synced {
                head, same_changes, ..
            }) => {
                if !same_changes {
                    return over(format!(
                        "on {} as it is now it changes something else than what was approved",
                        details.worktree.base_branch
                    ));
                }
                head
            }
            Ok(SyncOutcome::Conflict { paths, .. }) => {
                let named: Vec<String> = paths
                    .iter()
                    .take(NAMED)
                    .map(|path| sanitize_line(path))
                    .collect();
                return over(format!(
                    "it conflicts with {} in {}",
                    details.worktree.base_branch,
                    named.join(", ")
                ));
            }
            Err(failure) if matches!(failure.code, Code::Busy | Code::DiskFull) => {
                return Err(failure);
            }
            Err(failure) => return over(failure.message),
        };
        drop(turn);
        if entry.despite.is_none() {
            let mut checks = self.checks_of(&run.id, &details, Some(&head)).await?;
            if checks.iter().any(|check| check.result.is_none()) {
                checks = self.carry_round(&run.id, &head, Attended::Nobody).await?;
            }
            let failed = not_passed(&checks);
            if !failed.is_empty() {
                return over(format!("check {}", failed.join("; check ")));
            }
        }
        if entry.by == AskedBy::Checks {
            let reasons = self.why_not_by_itself(&run.id).await?;
            if !reasons.is_empty() {
                return over(reasons.join("; "));
            }
        }
        Ok(Brought::Ready(head))
    }

    /// True when what is in review now has just what `approved` changes, on another base.
    async fn is_sync_of(&self, run: &RunId, approved: &str, now: &str) -> Result<bool, Failure> {
        let details = RunDetails::of(&self.store.run(run).await.or_fail()?)?;
        let (approved, now) = (approved.to_owned(), now.to_owned());
        crate::review::git(&details, move |repo, details| {
            repo.is_sync_of(&details.worktree, &approved, &now)
        })
        .await
    }

    /// The fast-forward. None when the base has moved again meanwhile.
    async fn merge_approved(
        self: &Arc<Self>,
        entry: &StoredMerge,
        head: &str,
    ) -> Result<Option<Processed>, Failure> {
        let _turn = self.turn(&entry.run).await;
        let run = self.store.run(&entry.run).await.or_fail()?;
        if let RunState::Merged { commit } = &run.state {
            return Ok(Some(Processed::Merged(commit.clone())));
        }
        let is_same = head_in_review(&run)? == head && run.revision == entry.revision;
        if !is_same {
            let reason = "it has moved since it was approved".to_owned();
            return Ok(Some(Processed::Returned(reason)));
        }
        let details = RunDetails::of(&run)?;
        let wanted = head.to_owned();
        let (behind, base) = crate::review::git(&details, move |repo, details| {
            let behind = repo.commits_behind(&details.worktree, &wanted)?;
            Ok((behind, repo.base_now(&details.worktree)?))
        })
        .await?;
        if behind > 0 {
            return Ok(None);
        }
        let secrets = self.secrets_in(&details, head).await?;
        if let Err(failure) = no_secret_in(&secrets, false, "merged") {
            return Ok(Some(Processed::Returned(failure.message)));
        }
        let despite = entry.despite.as_deref();
        match self
            .fast_forward(&run, &details, (head, &base), despite)
            .await
        {
            Ok(commit) => Ok(Some(Processed::Merged(commit))),
            Err(failure) if failure.code == Code::Stale => Ok(None),
            Err(failure) if matches!(failure.code, Code::Busy | Code::DiskFull) => Err(failure),
            Err(failure) => Ok(Some(Processed::Returned(failure.message))),
        }
    }

    /// Says in the run's own events that it was returned.
    async fn tell_returned(&self, run: &RunId, reason: &str) {
        let telling = async {
            let details = RunDetails::of(&self.store.run(run).await.or_fail()?)?;
            let log = self.open_log(run, &details).await?;
            let message = format!("not merged: {reason}");
            self.append(&log, vec![EventKind::Warning { message }])
                .await
        };
        if let Err(error) = telling.await {
            tracing::warn!(%run, %error, "why a run was not merged is only in the queue");
        }
    }
}

enum Brought {
    /// The tip that may be merged.
    Ready(String),
    Over(Processed),
}

/// An entry as it is shown.
pub(crate) fn shown(entry: StoredMerge) -> MergeEntry {
    MergeEntry {
        number: entry.number,
        run: entry.run,
        standing: match entry.standing {
            MergeStanding::Waiting => QueueStanding::Waiting,
            MergeStanding::Working => QueueStanding::Working,
            MergeStanding::Merged { commit } => QueueStanding::Merged { commit },
            MergeStanding::Returned { reason } => QueueStanding::Returned { reason },
        },
        by_itself: entry.by == AskedBy::Checks,
        despite_checks: entry.despite,
        queued_at: entry.queued_at,
        ended_at: entry.ended_at,
    }
}

/// A commit and its policy revision that somebody approved.
pub(crate) struct Approved {
    pub head: String,
    pub base: String,
    pub revision: foreman_domain::Revision,
}
