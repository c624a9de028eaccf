//! After a run: what it changed, merging it, removing it with a snapshot, bringing it back.

use crate::api::{DiffFile, DiffView, MergeRequest, RunView};
use crate::details::RunDetails;
use crate::ending::outcome_to_go_back_to;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::tokens;
use crate::words::standing;
use foreman_domain::{At, Code, EventKind, Failure, Outcome, RunEvent, RunId, RunState};
use foreman_git::{Diff, GitError, Repository};
use foreman_store::{RequestKey, StoredRun};

impl Engine {
    /// The three-dot diff of a run and the token that a merge of it must name.
    pub async fn diff(&self, typed: &str) -> Result<DiffView, Failure> {
        let id = self.find_run(typed).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = reviewable_head(&run, &details).await?;
        let wants_refusal = matches!(run.state, RunState::Review { .. });
        let failed_checks = self.failed_checks(&id, &details).await?;
        let (mut diff, refusal) = git(&details, move |repo, details| {
            let mut diff = repo.diff(&details.worktree, &head)?;
            if !wants_refusal {
                return Ok((diff, None));
            }
            let by_hand = repo.verify(&details.worktree).into_iter();
            diff.flags.extend(by_hand.map(|what| {
                format!("{what}; what is shown is what was collected when the run ended")
            }));
            let refusal = repo.merge_refusal(&details.worktree, &head)?;
            Ok((diff, refusal))
        })
        .await?;
        let failed_checks = failed_checks.into_iter();
        diff.flags
            .extend(failed_checks.map(|check| format!("check {check}")));
        let refusal = match &run.state {
            RunState::Review { .. } => refusal,
            RunState::Cancelled { .. } => Some(format!(
                "the run was stopped before it was done; to take over what it had, merge {} by hand",
                details.worktree.branch
            )),
            state => Some(format!("the run is {}", standing(state))),
        };
        Ok(view(diff, refusal, &run))
    }

    /// Fast-forwards the base branch to what was reviewed.
    pub async fn merge(&self, request: MergeRequest, key: &RequestKey) -> Result<RunView, Failure> {
        let id = self.find_run(&request.run).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        let head = match &run.state {
            RunState::Review { head, .. } => head.clone(),
            // The same request, asked again after its engine went away.
            RunState::Merged { .. } if self.was_asked(key, &id).await? => {
                return self.view_of(&id).await;
            }
            RunState::Merged { commit } => {
                return Err(Failure::new(
                    Code::AlreadyDecided,
                    format!("run {id} was merged already (as {commit})"),
                ));
            }
            state => {
                return Err(Failure::new(
                    Code::Conflict,
                    format!(
                        "run {id} is {}, so there is nothing to merge",
                        standing(state)
                    ),
                ));
            }
        };
        let details = RunDetails::of(&run)?;
        let wanted = head.clone();
        let base_now = git(&details, move |repo, details| {
            Ok(repo.diff(&details.worktree, &wanted)?.base_now)
        })
        .await?;
        if request.expect != tokens::of_diff(&head, &base_now, run.revision) {
            return Err(Failure::new(
                Code::Stale,
                format!(
                    "the base branch or the policy of run {id} has moved since the diff was shown"
                ),
            )
            .hint(format!("Look again: `foreman diff {id}`.")));
        }
        let log = self.open_log(&id, &details).await?;
        self.store
            .note_request(self.epoch, key, id.as_str(), At::now())
            .await
            .or_fail()?;
        self.advance(&log, Vec::new(), RunEvent::MergeStarted)
            .await?;
        let merged = git(&details, move |repo, details| {
            repo.merge(&details.worktree, &head, &base_now)
        })
        .await;
        self.after_merge(&run, &log, merged).await?;
        self.view_of(&id).await
    }

    async fn after_merge(
        &self,
        run: &StoredRun,
        log: &crate::log::RunLog,
        merged: Result<String, Failure>,
    ) -> Result<(), Failure> {
        match merged {
            Ok(commit) => {
                self.advance(log, Vec::new(), RunEvent::Merged { commit })
                    .await?;
                Ok(())
            }
            Err(failure) => {
                let message = format!("not merged: {failure}");
                let back = outcome_to_go_back_to(run)?;
                let warning = vec![EventKind::Warning { message }];
                self.advance(log, warning, RunEvent::MergeRefused { back })
                    .await?;
                Err(failure)
            }
        }
    }

    async fn was_asked(&self, key: &RequestKey, id: &RunId) -> Result<bool, Failure> {
        let subject = self.store.subject_of_request(key).await.or_fail()?;
        Ok(subject.is_some_and(|subject| subject == id.as_str()))
    }

    /// Ends a merge that an engine began and did not live to finish: the operator's word for exactly
    /// this head and base was on record, so it is carried out if the base still stands where it did.
    pub async fn finish_interrupted_merge(&self, id: &RunId) -> Result<(), Failure> {
        let run = self.store.run(id).await.or_fail()?;
        if run.state != RunState::Merging {
            return Ok(());
        }
        let details = RunDetails::of(&run)?;
        let Outcome::Changes { head, base, .. } = outcome_to_go_back_to(&run)? else {
            return Ok(());
        };
        let merged = git(&details, move |repo, details| {
            repo.merge(&details.worktree, &head, &base)
        })
        .await;
        let log = self.open_log(id, &details).await?;
        match self.after_merge(&run, &log, merged).await {
            Err(failure) => {
                tracing::warn!(run = %id, %failure, "a merge that was cut short did not happen");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Removes a run's worktree and branch, after a snapshot. A merged run stays merged.
    pub async fn discard(&self, typed: &str) -> Result<RunView, Failure> {
        let id = self.find_run(typed).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        if matches!(run.state, RunState::Discarded { .. }) {
            return self.view_of(&id).await;
        }
        let is_merged = matches!(run.state, RunState::Merged { .. });
        let probe = RunEvent::Discarded {
            snapshot: String::new(),
        };
        if !is_merged && run.state.next(probe).is_err() {
            let failure = Failure::new(
                Code::Conflict,
                format!(
                    "run {id} is {}, so it cannot be discarded",
                    standing(&run.state)
                ),
            );
            return Err(match run.state.is_live() {
                true => failure.hint(format!("Stop it first: `foreman stop {id}`.")),
                false => failure,
            });
        }
        let details = RunDetails::of(&run)?;
        let log = self.open_log(&id, &details).await?;
        let run_id = id.clone();
        let snapshot = git(&details, move |repo, details| {
            repo.snapshot_and_remove(&run_id, &details.worktree, &details.shadow)
        })
        .await?;
        if is_merged {
            let message = format!("worktree and branch removed; {snapshot} keeps what was in them");
            self.append(&log, vec![tidied(message)]).await?;
        } else {
            self.advance(&log, Vec::new(), RunEvent::Discarded { snapshot })
                .await?;
        }
        drop(log);
        self.view_of(&id).await
    }

    /// Brings a discarded run's worktree and branch back; its state is what it was. Likewise those of
    /// a merged run that was cleaned up.
    pub async fn restore(&self, typed: &str, key: &RequestKey) -> Result<RunView, Failure> {
        let id = self.find_run(typed).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let is_merged = matches!(run.state, RunState::Merged { .. });
        let is_removed = match run.state {
            RunState::Discarded { .. } => true,
            RunState::Merged { .. } => !details.worktree.path.exists(),
            _ => false,
        };
        if !is_removed {
            if self.was_asked(key, &id).await? {
                return self.view_of(&id).await;
            }
            return Err(Failure::new(
                Code::Conflict,
                format!("run {id} is {}, not discarded", standing(&run.state)),
            ));
        }
        let back = outcome_to_go_back_to(&run)?;
        let log = self.open_log(&id, &details).await?;
        self.store
            .note_request(self.epoch, key, id.as_str(), At::now())
            .await
            .or_fail()?;
        let run_id = id.clone();
        git(&details, move |repo, details| {
            repo.restore(&run_id, &details.worktree, &details.shadow)
        })
        .await?;
        if is_merged {
            let message = "worktree and branch are back".to_owned();
            self.append(&log, vec![tidied(message)]).await?;
        } else {
            self.advance(&log, Vec::new(), RunEvent::Restored(back))
                .await?;
        }
        drop(log);
        self.view_of(&id).await
    }
}

/// What became of a merged run's worktree: its state says no more than that it is merged.
fn tidied(message: String) -> EventKind {
    EventKind::Progress {
        stage: "worktree".into(),
        message,
    }
}

/// Works on a run's repository off the runtime's threads.
async fn git<T: Send + 'static>(
    details: &RunDetails,
    work: impl FnOnce(&Repository, &RunDetails) -> Result<T, GitError> + Send + 'static,
) -> Result<T, Failure> {
    let details = details.clone();
    let working = tokio::task::spawn_blocking(move || {
        let repo = details.repository()?;
        work(&repo, &details).map_err(Failure::from)
    });
    working.await.map_err(join)?
}

/// The tip to show: of a run that has commits, whatever became of them since.
async fn reviewable_head(run: &StoredRun, details: &RunDetails) -> Result<String, Failure> {
    let none = |what: &str| {
        let message = format!("run {} is {} {what}", run.id, standing(&run.state));
        Failure::new(Code::Conflict, message)
    };
    match &run.outcome {
        Some(Outcome::Changes { head, .. }) => Ok(head.clone()),
        // A run that was stopped has what it had committed by then.
        Some(_) => git(details, |repo, details| {
            repo.collected_head(&details.worktree)
        })
        .await?
        .ok_or_else(|| {
            none("and has no commits to show").hint(format!(
                "What is in its worktree is kept: `foreman show {}` says where.",
                run.id
            ))
        }),
        None => Err(none("now; its commits are collected when it ends")),
    }
}

fn view(diff: Diff, refusal: Option<String>, run: &StoredRun) -> DiffView {
    DiffView {
        expect: tokens::of_diff(&diff.head, &diff.base_now, run.revision),
        head: diff.head,
        base: diff.base_now,
        files: diff
            .files
            .into_iter()
            .map(|file| DiffFile {
                path: file.path,
                change: file.change,
                added: file.added,
                removed: file.removed,
            })
            .collect(),
        patch: diff.patch,
        truncated: diff.truncated,
        flags: diff.flags,
        refusal,
    }
}
