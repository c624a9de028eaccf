//! Merging a run that nobody reviews, for an order whose gate is `checks`: only when everything passed
//! and nothing at all was found that an operator should weigh. Never by default.
//!
//! What is asked, each with its own reason when the answer is no: the agent succeeded; there are checks,
//! and all of them passed for exactly this commit; nothing was held, refused or amended; no bound was
//! reached; no wall was missing; the run could write nowhere but in its worktree; no file outside of the
//! declared scope changed; nothing that steers checks, or that something loads by itself, changed
//! ([`foreman_git::steering`]), also not by a link of the base, where a file is copied to, or in a folder
//! that is watched for order files; the diff has no flag; nobody's hand was at worktree or branch; the
//! checks left the commit's files as they were.

use crate::api::{GateSummary, MergedOrWhyNot};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::gate::check_plan::CheckPlan;
use crate::gate::rounds::{not_passed, over_copies};
use crate::review::git;
use crate::words::standing;
use foreman_domain::{
    At, Code, EventKind, Failure, PathText, Revision, RunId, RunState, sanitize_line,
};
use foreman_git::{GitError, Repository, steering};
use foreman_policy::{Access, socket_gives_away};
use foreman_store::{AskedBy, MergeStanding, NewMerge, StoredRun};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The revision that every run starts with.
const FIRST_REVISION: Revision = Revision(1);
/// Between two looks whether the queue has come to it.
const LOOK: Duration = Duration::from_secs(60);

impl Engine {
    /// Merges a run by itself, or says why not. A run that was refused once is asked about again only
    /// when it has other commits by then. Waits for the queue of the repository.
    pub async fn merge_by_itself(self: &Arc<Self>, run: &RunId) -> Result<MergedOrWhyNot, Failure> {
        let newest = self.store.newest_merge(run).await.or_fail()?;
        let stored = self.store.run(run).await.or_fail()?;
        let is_asked = newest.as_ref().is_some_and(|entry| {
            let is_open = !entry.standing.is_over();
            let was_refused = entry.by == AskedBy::Checks
                && matches!(&stored.state, RunState::Review { head, .. } if *head == entry.head);
            is_open || was_refused
        });
        if !is_asked && matches!(stored.state, RunState::Review { .. }) {
            let reasons = self.why_not_by_itself(run).await?;
            self.put_into_queue(&stored, &reasons).await?;
        }
        loop {
            let entry = self.wait_for_queue(run, Instant::now() + LOOK).await?;
            match entry.map(|entry| entry.standing) {
                Some(MergeStanding::Merged { commit }) => {
                    return Ok(MergedOrWhyNot::Merged { commit });
                }
                Some(MergeStanding::Returned { reason }) => {
                    let reasons = vec![reason];
                    return Ok(MergedOrWhyNot::WhyNot { reasons });
                }
                Some(MergeStanding::Waiting | MergeStanding::Working)
                    if self.cancel.is_cancelled() =>
                {
                    return Err(Failure::new(Code::Busy, "this engine stops hosting"));
                }
                Some(MergeStanding::Waiting | MergeStanding::Working) => {}
                None => {
                    let state = self.store.run(run).await.or_fail()?.state;
                    return Ok(match state {
                        RunState::Merged { commit } => MergedOrWhyNot::Merged { commit },
                        state => MergedOrWhyNot::WhyNot {
                            reasons: vec![format!("the run is {}", standing(&state))],
                        },
                    });
                }
            }
        }
    }

    /// Records the question: to be worked on when there is no reason against it, else with its answer.
    async fn put_into_queue(
        self: &Arc<Self>,
        run: &StoredRun,
        reasons: &[String],
    ) -> Result<(), Failure> {
        let _turn = self.turn(&run.id).await;
        let RunState::Review { head, .. } = &run.state else {
            return Ok(());
        };
        let new = NewMerge {
            run: run.id.clone(),
            by: AskedBy::Checks,
            head: head.clone(),
            revision: run.revision,
            despite: None,
            at: At::now(),
            key: None,
        };
        if reasons.is_empty() {
            self.store.queue_merge(self.epoch, &new).await.or_fail()?;
            return self.work_queues().await;
        }
        let details = RunDetails::of(run)?;
        let log = self.open_log(&run.id, &details).await?;
        // They quote names that the run chose.
        let redactor = self.secrets_of(&details).await.redactor;
        let reason = redactor.text(&reasons.join("; ")).into_owned();
        let message = format!("not merged by itself: {reason}");
        self.append(&log, vec![EventKind::Warning { message }])
            .await?;
        drop(log);
        self.store
            .refuse_merge(self.epoch, &new, &reason)
            .await
            .or_fail()?;
        self.news.tell(&run.id);
        Ok(())
    }

    /// Every reason against merging a run without a review; empty when there is none.
    pub async fn why_not_by_itself(&self, run: &RunId) -> Result<Vec<String>, Failure> {
        let stored = self.store.run(run).await.or_fail()?;
        let details = RunDetails::of(&stored)?;
        let (head, agent_succeeded) = match &stored.state {
            RunState::Review {
                head,
                agent_succeeded,
                ..
            } => (head.clone(), *agent_succeeded),
            state => return Ok(vec![format!("the run is {}", standing(state))]),
        };
        let gate = self.gate_of(&stored, &details, &head).await?;
        let mut reasons = Vec::new();
        if !agent_succeeded {
            reasons.push("the agent itself did not succeed".to_owned());
        }
        if details.checks.is_empty() {
            reasons.push("its order has no checks, so nothing says that it works".to_owned());
        }
        let failed = not_passed(&gate.checks);
        reasons.extend(failed.into_iter().map(|check| format!("check {check}")));
        reasons.extend(of_gate(&gate));
        reasons.extend(of_run(&stored));
        let wanted = head.clone();
        let (flags, by_hand, is_weaker, others) = git(&details, move |repo, details| {
            let flags = repo.diff(&details.worktree, &wanted)?.flags;
            let plan = CheckPlan::read(details).ok();
            let is_weaker = plan.as_ref().is_none_or(CheckPlan::is_weaker);
            let commands = plan.map_or_else(|| details.checks.clone(), |plan| plan.commands());
            let others = of_places(repo, details, &wanted, &commands)?;
            Ok((flags, repo.verify(&details.worktree), is_weaker, others))
        })
        .await?;
        if is_weaker {
            reasons.push("it was let start although a wall was missing".to_owned());
        }
        reasons.extend(others);
        reasons.extend(self.trouble_of(run, &head).await?);
        reasons.extend(flags);
        reasons.extend(by_hand);
        Ok(reasons)
    }
}

/// Changes at places that are something else for a check: where it has a copied file, and behind links
/// of the base.
fn of_places(
    repo: &Repository,
    details: &RunDetails,
    head: &str,
    commands: &[String],
) -> Result<Vec<String>, GitError> {
    let touched = repo.touched(&details.worktree, head)?;
    let linked = repo.touched_by_links(&details.worktree, head, &touched)?;
    let words: Vec<&str> = commands.iter().map(String::as_str).collect();
    let copies = over_copies(&touched, &details.copied);
    let copies = copies.into_iter().map(|path| {
        format!("it changes {path}, where its order has a file of your checkout copied to")
    });
    let links = steering(&linked, &words);
    let links = links
        .into_iter()
        .map(|one| format!("it changes, by a link, {} ({})", one.path, one.what));
    Ok(copies.chain(links).collect())
}

fn of_gate(gate: &GateSummary) -> Vec<String> {
    let mut reasons = Vec::new();
    let lists = [
        (&gate.amendments, "its policy was decided about"),
        (&gate.open, "something was held"),
        (&gate.denied, "something was refused"),
        (&gate.bounds, "a bound was reached"),
        (
            &gate.outside_scope,
            "it changes a file outside of its scope",
        ),
        (&gate.steering, "it changes"),
        (&gate.secrets, "a secret"),
        (&gate.submodules, "it changes a link to another repository"),
    ];
    for (list, what) in lists {
        reasons.extend(list.iter().map(|one| format!("{what}: {one}")));
    }
    reasons
}

fn of_run(run: &StoredRun) -> Vec<String> {
    let mut reasons = Vec::new();
    if run.revision != FIRST_REVISION {
        reasons.push("its policy is not the one that it started with".to_owned());
    }
    if run.denied_unattended {
        reasons.push("something was refused because nobody attended".to_owned());
    }
    let writable = run
        .policy
        .paths
        .iter()
        .filter(|rule| rule.access == Access::Write)
        .map(|rule| {
            format!(
                "it could write to {} outside of its worktree, which its checks see, too",
                sanitize_line(&rule.path.to_string_lossy())
            )
        });
    reasons.extend(writable);
    let sockets = run.policy.sockets.iter();
    let sockets = sockets.filter_map(|rule| Some((rule, socket_gives_away(&rule.socket)?)));
    reasons.extend(
        sockets.map(|(rule, what)| {
            format!("it could connect to {}: {what}", PathText::of(&rule.socket))
        }),
    );
    reasons
}
