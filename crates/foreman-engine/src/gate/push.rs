//! Sending what was reviewed to a branch of a remote.

use crate::api::{PushRequest, PushView};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::review::git;
use crate::secrets::no_secret_in;
use crate::tokens;
use crate::words::standing;
use foreman_domain::{At, Code, EventKind, Failure, Outcome, RunState};
use foreman_git::PushTo;
use foreman_store::RequestKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl Engine {
    /// Pushes. The token says what was reviewed; nothing else is ever sent.
    pub async fn push(&self, request: PushRequest, key: &RequestKey) -> Result<PushView, Failure> {
        let id = self.find_run(&request.run).await?;
        let _turn = self.turn(&id).await;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        let head = match (&run.state, &run.outcome) {
            (RunState::Review { head, .. }, _) => head.clone(),
            (RunState::Merged { .. }, Some(Outcome::Changes { head, .. })) => head.clone(),
            (state, _) => {
                return Err(Failure::new(
                    Code::Conflict,
                    format!(
                        "run {id} is {}, so there is nothing to push",
                        standing(state)
                    ),
                ));
            }
        };
        self.not_at_work(&id).await?;
        if let Some(tip) = self.take_over_added(&run, &details, &head).await? {
            return Err(Failure::new(
                Code::Stale,
                format!(
                    "commits were added to it by hand since it was reviewed: it is at {tip} now"
                ),
            )
            .hint(format!(
                "See what was added: `foreman diff {id} --since {head}`."
            )));
        }
        let base = git(&details, |repo, details| repo.base_now(&details.worktree)).await?;
        if request.expect != tokens::of_diff(&head, &base, run.revision) {
            return Err(Failure::new(
                Code::Stale,
                format!("run {id} or its base branch has moved since the diff was shown"),
            )
            .hint(format!("Look again: `foreman diff {id}`.")));
        }
        let secrets = self.secrets_in(&details, &head).await?;
        no_secret_in(&secrets, request.with_secrets, "pushed")?;
        let branch = request
            .branch
            .clone()
            .unwrap_or_else(|| details.worktree.branch.clone());
        if branch == details.worktree.base_branch {
            return Err(Failure::new(
                Code::Conflict,
                format!("{branch} is the base branch, and only a branch of the run's own is pushed to"),
            )
            .hint(format!(
                "Merge it (`foreman merge {id}`) and push {branch} by hand, or name another --branch."
            )));
        }
        let place = (request.remote.as_str(), branch.as_str());
        let left_at = match request.replace {
            true => self.store.pushed(&id, place).await.or_fail()?,
            false => None,
        };
        if request.replace && left_at.is_none() {
            return Err(Failure::new(
                Code::Conflict,
                format!("run {id} has pushed nothing to that branch before, so there is nothing to replace"),
            )
            .hint("Leave --replace out, or name another --branch."));
        }
        self.store
            .note_request(self.epoch, key, id.as_str(), At::now())
            .await
            .or_fail()?;
        let pushed = self
            .send(&details, &request.remote, &branch, &head, left_at)
            .await?;
        self.store
            .note_push(self.epoch, &id, place, &head, At::now())
            .await
            .or_fail()?;
        let log = self.open_log(&id, &details).await?;
        let message = format!(
            "pushed {head} to {branch} of {} ({})",
            request.remote, pushed.url
        );
        let told = EventKind::Progress {
            stage: "push".into(),
            message: foreman_domain::sanitize_line(&message),
        };
        self.append(&log, vec![told]).await?;
        drop(log);
        Ok(PushView {
            run: id,
            head,
            remote: request.remote,
            address: pushed.url,
            branch,
            web: pushed.web,
            said: pushed.said,
        })
    }

    async fn send(
        &self,
        details: &RunDetails,
        remote: &str,
        branch: &str,
        head: &str,
        left_at: Option<String>,
    ) -> Result<foreman_git::Pushed, Failure> {
        self.sure().await?;
        let stop = Arc::new(AtomicBool::new(false));
        let (remote, branch, head) = (remote.to_owned(), branch.to_owned(), head.to_owned());
        let seen = Arc::clone(&stop);
        let pushing = git(details, move |repo, details| {
            let to = PushTo {
                remote: &remote,
                branch: &branch,
                head: &head,
                base: &details.worktree.base_branch,
                replaces: left_at.as_deref(),
            };
            repo.push(&to, &seen)
        });
        tokio::pin!(pushing);
        tokio::select! {
            pushed = &mut pushing => pushed,
            () = self.cancel.cancelled() => {
                // What had begun is ended, and its end is waited for.
                stop.store(true, Ordering::Relaxed);
                pushing.await
            }
        }
    }
}
