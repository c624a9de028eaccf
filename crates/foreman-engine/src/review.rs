//! After a run: what it changed, merging it, removing it with a snapshot, bringing it back.

use crate::api::{
    ChangeCounts, DiffFile, DiffFileRequest, DiffFileView, DiffRequest, DiffView, GateSummary,
    MergeRequest, RefusedFor, RunRef, RunView,
};
use crate::details::RunDetails;
use crate::ending::outcome_to_go_back_to;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::gate::check_plan::CheckPlan;
use crate::gate::queue::Approved;
use crate::gate::rounds::not_passed;
use crate::gate::sync::short;
use crate::secrets::no_secret_in;
use crate::tokens;
use crate::words::standing;
use foreman_domain::{
    At, Code, EventKind, Failure, Outcome, RunEvent, RunId, RunState, sanitize_line,
};
use foreman_git::{Diff, GitError, Repository};
use foreman_store::{RequestKey, StoredRun};
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Engine {
    /// The three-dot diff of a run and the token that a merge of it must name; or only what came after
    /// a commit of it.
    pub async fn diff(&self, request: DiffRequest) -> Result<DiffView, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = reviewable_head(&run, &details).await?;
        let patch = request.patch;
        if let Some(commit) = request.commit {
            if request.since.is_some() {
                let message = "either one commit is shown, or what came since one";
                return Err(Failure::new(Code::Usage, message));
            }
            let which = (commit, head);
            return self.diff_of_commit(&run, &details, which, patch).await;
        }
        if let Some(since) = request.since {
            return self.diff_since(&run, &details, (since, head), patch).await;
        }
        let wants_refusal = matches!(run.state, RunState::Review { .. });
        let gate = self.gate_of(&run, &details, &head).await?;
        let (mut diff, refusal) = git(&details, move |repo, details| {
            let mut diff = match patch {
                true => repo.diff(&details.worktree, &head)?,
                false => repo.diff_without_patch(&details.worktree, &head)?,
            };
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
        let failed_checks = not_passed(&gate.checks);
        let failed = failed_checks.iter().map(|check| format!("check {check}"));
        diff.flags.extend(failed);
        let refusal = match &run.state {
            RunState::Review { .. } => refusal
                .map(|why| (RefusedFor::Repository, why))
                .or_else(|| Some((RefusedFor::Secret, gate.secrets.first()?.clone())))
                .or_else(|| Some((RefusedFor::Checks, without_a_pass(&failed_checks)?))),
            RunState::Cancelled { .. } => Some((
                RefusedFor::State,
                format!(
                    "the run was stopped before it was done; to take over what it had, merge {} by hand",
                    details.worktree.branch
                ),
            )),
            state => Some((RefusedFor::State, format!("the run is {}", standing(state)))),
        };
        let mut shown = view(diff, refusal, &run);
        shown.flags.splice(0..0, gate.secrets.iter().cloned());
        shown.gate = Some(gate);
        self.without_secrets(shown, &details).await
    }

    /// What a reviewer of a run weighs beside its diff.
    pub async fn gate(&self, request: RunRef) -> Result<GateSummary, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = reviewable_head(&run, &details).await?;
        self.gate_of(&run, &details, &head).await
    }

    /// What a run changed in one file.
    pub async fn diff_file(&self, request: DiffFileRequest) -> Result<DiffFileView, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = reviewable_head(&run, &details).await?;
        let base = git(&details, |repo, details| repo.base_now(&details.worktree)).await?;
        let whole = tokens::of_diff(&head, &base, run.revision);
        let shown = match &request.commit {
            Some(commit) => tokens::of_commit(&whole, commit),
            None => whole,
        };
        if request.expect != shown {
            return Err(moved(&id));
        }
        let path = request.path;
        let file = match request.commit {
            Some(commit) => self.file_of_commit(&details, (commit, head), path).await?,
            None => {
                git(&details, move |repo, details| {
                    repo.diff_file(&details.worktree, &head, &path)
                })
                .await?
            }
        };
        let redactor = self.secrets_of(&details).await.redactor;
        Ok(DiffFileView {
            patch: redactor.text(&file.patch).into_owned(),
            truncated: file.truncated,
            binary: file.binary,
            old_size: file.old_size,
            new_size: file.new_size,
        })
    }

    /// What is shown of a run's changes, without values of secrets in any of its texts.
    pub(crate) async fn without_secrets<T: Serialize + DeserializeOwned>(
        &self,
        shown: T,
        details: &RunDetails,
    ) -> Result<T, Failure> {
        if details.secrets.is_empty() {
            return Ok(shown);
        }
        let redactor = self.secrets_of(details).await.redactor;
        redactor.data(shown).map_err(|_| {
            crate::failures::internal("a diff is nothing any more without the secrets in it")
        })
    }

    /// Counts what a run's commits change, to be kept with it: listing runs never asks git.
    pub(crate) async fn count_changes(&self, details: &mut RunDetails, outcome: &Outcome) {
        let Outcome::Changes { head, .. } = outcome else {
            return;
        };
        let wanted = head.clone();
        let counting = git(details, move |repo, details| {
            repo.count_changes(&details.worktree, &wanted)
        });
        details.changes = match counting.await {
            Ok((files, added, removed)) => Some(ChangeCounts {
                files,
                added,
                removed,
            }),
            // Nothing is kept from its end by a count.
            Err(failure) => {
                tracing::warn!(run = details.worktree.run, %failure, "changes were not counted");
                None
            }
        };
    }

    async fn diff_since(
        &self,
        run: &StoredRun,
        details: &RunDetails,
        (since, head): (String, String),
        with_patch: bool,
    ) -> Result<DiffView, Failure> {
        let base = git(details, |repo, details| repo.base_now(&details.worktree)).await?;
        let diff = git(details, move |repo, _| {
            repo.diff_since(&since, &head, with_patch)
        })
        .await?;
        let expect = tokens::of_diff(&diff.head, &base, run.revision);
        let mut shown = view(diff, None, run);
        shown.expect = expect;
        self.without_secrets(shown, details).await
    }

    /// Fast-forwards the base branch to what was reviewed.
    pub async fn merge(&self, request: MergeRequest, key: &RequestKey) -> Result<RunView, Failure> {
        let id = self.find_run(&request.run).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        // The same request, asked again after its engine went away.
        if matches!(run.state, RunState::Merged { .. }) && self.was_asked(key, &id).await? {
            return self.view_of(&id).await;
        }
        self.not_at_work(&id).await?;
        let approved = self.approved(&id, &request).await?;
        let details = RunDetails::of(&run)?;
        let head = &approved.head;
        let checks = self.checks_of(&id, &details, Some(head)).await?;
        if let Some(why) = without_a_pass(&not_passed(&checks))
            && request.despite_checks.is_none()
            && self.is_fast_forward(&details, head).await?
        {
            return Err(Failure::new(Code::Conflict, why).hint(format!(
                "Run them again: `foreman sync {id}`; or say why it is to be merged all the same: \
                 --despite-checks REASON."
            )));
        }
        let secrets = self.secrets_in(&details, head).await?;
        no_secret_in(&secrets, request.with_secrets, "merged")?;
        self.store
            .note_request(self.epoch, key, id.as_str(), At::now())
            .await
            .or_fail()?;
        let despite = request.despite_checks.as_deref();
        self.fast_forward(&run, &details, (head, &approved.base), despite)
            .await?;
        self.view_of(&id).await
    }

    /// Whether there is nothing about the base branch that refuses a merge before its checks do.
    async fn is_fast_forward(&self, details: &RunDetails, head: &str) -> Result<bool, Failure> {
        let head = head.to_owned();
        git(details, move |repo, details| {
            Ok(repo.commits_behind(&details.worktree, &head)? == 0)
        })
        .await
    }

    /// What a token approves, when it still is what there is to review. Commits that were added to it
    /// by hand meanwhile are what is to be reviewed from now on. The caller has the run's turn.
    pub(crate) async fn approved(
        &self,
        id: &RunId,
        request: &MergeRequest,
    ) -> Result<Approved, Failure> {
        let run = self.store.run(id).await.or_fail()?;
        let head = match &run.state {
            RunState::Review { head, .. } => head.clone(),
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
        if request
            .despite_checks
            .as_ref()
            .is_some_and(|reason| reason.trim().is_empty())
        {
            return Err(Failure::new(Code::Usage, "--despite-checks needs a reason"));
        }
        let details = RunDetails::of(&run)?;
        if let Some(tip) = self.take_over_added(&run, &details, &head).await? {
            return Err(Failure::new(
                Code::Stale,
                format!(
                    "commits were added to {} by hand since it was reviewed: it is at {} now, not at {}",
                    details.worktree.branch,
                    short(&tip),
                    short(&head)
                ),
            )
            .hint(format!(
                "See what was added: `foreman diff {id} --since {head}`; then decide about all of it."
            )));
        }
        let base = git(&details, |repo, details| repo.base_now(&details.worktree)).await?;
        if request.expect != tokens::of_diff(&head, &base, run.revision) {
            return Err(moved(id));
        }
        Ok(Approved {
            head,
            base,
            revision: run.revision,
        })
    }

    /// Moves the base branch from `base` to `head`; gives its new tip. The caller has the run's turn.
    pub(crate) async fn fast_forward(
        &self,
        run: &StoredRun,
        details: &RunDetails,
        (head, base): (&str, &str),
        despite: Option<&str>,
    ) -> Result<String, Failure> {
        self.sure().await?;
        let log = self.open_log(&run.id, details).await?;
        let mut before: Vec<EventKind> = self
            .secrets_in(details, head)
            .await?
            .into_iter()
            .map(|message| EventKind::Warning { message })
            .collect();
        if let Some(reason) = despite {
            let message = format!(
                "to be merged although its checks did not pass: {}",
                sanitize_line(reason)
            );
            before.push(EventKind::Warning { message });
        }
        self.advance(&log, before, RunEvent::MergeStarted).await?;
        let (wanted, expected) = (head.to_owned(), base.to_owned());
        let merged = git(details, move |repo, details| {
            repo.merge(&details.worktree, &wanted, &expected)
        })
        .await;
        let commit = merged.clone();
        self.after_merge(run, &log, merged).await?;
        CheckPlan::forget(details);
        commit
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

    pub(crate) async fn was_asked(&self, key: &RequestKey, id: &RunId) -> Result<bool, Failure> {
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
        self.not_at_work(&id).await?;
        self.take_down(&id).await?;
        self.view_of(&id).await
    }

    /// As [`Engine::discard`], by a caller that has the run's turn; gives the snapshot's ref. What does
    /// not go is tried again later, and is not said to be gone before.
    pub(crate) async fn take_down(&self, id: &RunId) -> Result<String, Failure> {
        let run = self.store.run(id).await.or_fail()?;
        if let RunState::Discarded { snapshot } = run.state {
            self.removal_ended(id).await?;
            return Ok(snapshot);
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
        let log = self.open_log(id, &details).await?;
        // The journal may have known more than the store did.
        if let RunState::Discarded { snapshot } = self.store.run(id).await.or_fail()?.state {
            self.removal_ended(id).await?;
            return Ok(snapshot);
        }
        self.removal_begins(id).await?;
        let run_id = id.clone();
        let removed = git(&details, move |repo, details| {
            let snapshot = repo.snapshot_and_remove(&run_id, &details.worktree, &details.shadow)?;
            // Sessions and lent logins; nothing of it is work. A run that goes on with a session has its own copy.
            if let Some(home) = &details.agent_home {
                foreman_git::remove_folder(home)?;
            }
            Ok(snapshot)
        })
        .await;
        let snapshot = match removed {
            Ok(snapshot) => snapshot,
            Err(failure) => return Err(self.removal_failed(id, failure).await),
        };
        if is_merged {
            let message = format!("worktree and branch removed; {snapshot} keeps what was in them");
            self.append(&log, vec![tidied(message)]).await?;
        } else {
            let snapshot = snapshot.clone();
            self.advance(&log, Vec::new(), RunEvent::Discarded { snapshot })
                .await?;
        }
        self.removal_ended(id).await?;
        Ok(snapshot)
    }

    /// Brings a discarded run's worktree and branch back; its state is what it was. Likewise those of
    /// a merged run that was cleaned up.
    pub async fn restore(&self, typed: &str, key: &RequestKey) -> Result<RunView, Failure> {
        let id = self.find_run(typed).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let is_half_removed = self.is_being_removed(&id).await?;
        let is_removed = match run.state {
            RunState::Discarded { .. } => true,
            RunState::Merged { .. } => !details.worktree.path.exists(),
            _ => is_half_removed && !details.worktree.path.exists(),
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
        self.removal_ended(&id).await?;
        if !matches!(run.state, RunState::Discarded { .. }) {
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
pub(crate) async fn git<T: Send + 'static>(
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

/// What was shown of a run is not what there is any more.
pub(crate) fn moved(id: &RunId) -> Failure {
    Failure::new(
        Code::Stale,
        format!(
            "the base branch, the commits or the policy of run {id} have moved since the diff was shown"
        ),
    )
    .hint(format!("Look again: `foreman diff {id}`."))
}

/// The tip to show: of a run that has commits, whatever became of them since.
pub(crate) async fn reviewable_head(
    run: &StoredRun,
    details: &RunDetails,
) -> Result<String, Failure> {
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

pub(crate) fn view(diff: Diff, refusal: Option<(RefusedFor, String)>, run: &StoredRun) -> DiffView {
    let (refused_for, refusal) = refusal.unzip();
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
                generated: file.generated,
                flags: file.flags,
            })
            .collect(),
        patch: diff.patch,
        truncated: diff.truncated,
        flags: diff.flags,
        uncommitted: diff.uncommitted,
        refusal,
        refused_for,
        gate: None,
    }
}

/// Why a merge waits for checks, when some did not pass.
fn without_a_pass(failed_checks: &[String]) -> Option<String> {
    (!failed_checks.is_empty()).then(|| format!("check {}", failed_checks.join("; check ")))
}
