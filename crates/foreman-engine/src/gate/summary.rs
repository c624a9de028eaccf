//! What a reviewer weighs beside the diff, gathered from the store and the repository.

use crate::api::GateSummary;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::gate::check_plan::CheckPlan;
use crate::gate::order_files::in_watched;
use crate::gate::queue::shown;
use crate::gate::scope::covers;
use crate::review::git;
use foreman_domain::{
    AmendmentState, BlockState, Decision, EventKind, EventSeq, Failure, RunState, sanitize_line,
};
use foreman_git::{Touched, steering};
use foreman_schedule::ScopeClaim;
use foreman_store::{BlockFilter, StoredRun};
use std::ops::ControlFlow;

/// The most entries of one list.
const MOST: usize = 200;
const GITLINK: u32 = 0o160_000;

impl Engine {
    /// The summary of a run whose tip is `head`.
    pub async fn gate_of(
        &self,
        run: &StoredRun,
        details: &RunDetails,
        head: &str,
    ) -> Result<GateSummary, Failure> {
        let wanted = head.to_owned();
        let watched = self.watched_places().await?;
        let (touched, base_moved, mut steered) = git(details, move |repo, details| {
            let touched = repo.touched(&details.worktree, &wanted)?;
            let files = in_watched(&touched, repo.root(), repo.common_dir(), &watched);
            let behind = repo.commits_behind(&details.worktree, &wanted)?;
            Ok((touched, behind, files))
        })
        .await?;
        if matches!(run.state, RunState::Review { .. }) {
            self.tell_behind(&run.id, base_moved);
        }
        let commands = commands_of(details).await;
        let words: Vec<&str> = commands.iter().map(String::as_str).collect();
        let found = steering(&touched, &words);
        // First: what is merged there starts programs.
        steered.truncate(MOST);
        steered.extend(
            found
                .into_iter()
                .map(|one| format!("{} ({})", one.path, one.what)),
        );
        let claim = self.claim_of(&run.order).await?;
        let (open, denied) = self.blocks_in_words(run).await?;
        let queue = self.store.newest_merge(&run.id).await.or_fail()?;
        let summary = GateSummary {
            amendments: self.amendments_in_words(run).await?,
            open,
            denied,
            secrets: self.secrets_in(details, head).await?,
            bounds: self.bounds_in_words(run).await?,
            outside_scope: outside(&touched, claim.as_ref()),
            steering: steered,
            submodules: touched
                .iter()
                .filter(|one| [one.before, one.after].contains(&Some(GITLINK)))
                .map(|one| sanitize_line(&one.path))
                .take(MOST)
                .collect(),
            checks: self.checks_of(&run.id, details, Some(head)).await?,
            // What is merged is in the base: others may have gone on from there.
            base_moved: match run.state {
                RunState::Merged { .. } => 0,
                _ => base_moved,
            },
            queue: queue.map(shown),
        };
        if details.secrets.is_empty() {
            return Ok(summary);
        }
        // Paths and outputs are the run's own words.
        let redactor = self.secrets_of(details).await.redactor;
        redactor
            .data(summary)
            .map_err(|_| internal("a summary is nothing any more without the secrets in it"))
    }

    async fn amendments_in_words(&self, run: &StoredRun) -> Result<Vec<String>, Failure> {
        let stored = self.store.amendments_of_run(&run.id).await.or_fail()?;
        let words = |one: &foreman_store::StoredAmendment| {
            let what = match (&one.amendment.decision, one.amendment.state) {
                (_, AmendmentState::Revoked) => "taken back",
                (Decision::Allow, _) => "amended",
                (Decision::Deny { .. }, _) => "denied",
            };
            format!("{what}: {}", sanitize_line(&one.amendment.words))
        };
        Ok(stored.iter().take(MOST).map(words).collect())
    }

    /// Subjects that are open or went undecided, and those that were refused.
    async fn blocks_in_words(
        &self,
        run: &StoredRun,
    ) -> Result<(Vec<String>, Vec<String>), Failure> {
        let filter = BlockFilter {
            run: Some(run.id.clone()),
            ..BlockFilter::default()
        };
        let (mut open, mut denied) = (Vec::new(), Vec::new());
        for stored in self.store.blocks(&filter).await.or_fail()? {
            let subject = sanitize_line(&stored.block.what());
            match &stored.block.state {
                BlockState::Open => open.push(format!("{subject} is held")),
                BlockState::Expired => open.push(format!("{subject} was given up undecided")),
                BlockState::Gone => {
                    open.push(format!("{subject} was not waited for and stays undecided"));
                }
                BlockState::Denied { by, .. } => {
                    denied.push(format!("{subject} ({})", by_in_words(*by)));
                }
                BlockState::Amended { .. } => {}
            }
        }
        open.truncate(MOST);
        denied.truncate(MOST);
        Ok((open, denied))
    }

    async fn bounds_in_words(&self, run: &StoredRun) -> Result<Vec<String>, Failure> {
        let mut reached = Vec::new();
        self.each_event(&run.id, EventSeq(0), "bound", |event| {
            if let EventKind::Bound {
                bound,
                figure,
                limit,
                reached: true,
                ..
            } = &event.kind
                && reached.len() < MOST
            {
                reached.push(sanitize_line(&format!("{bound}: {figure} of {limit}")));
            }
            ControlFlow::Continue(())
        })
        .await?;
        Ok(reached)
    }
}

/// What checks of the run are made of, also once their plan is gone.
async fn commands_of(details: &RunDetails) -> Vec<String> {
    let owned = details.clone();
    let read = tokio::task::spawn_blocking(move || CheckPlan::read(&owned));
    match read.await {
        Ok(Ok(plan)) => plan.commands(),
        Ok(Err(_)) | Err(_) => details.checks.clone(),
    }
}

fn outside(touched: &[Touched], claim: Option<&ScopeClaim>) -> Vec<String> {
    let patterns = claim.map(|claim| &claim.patterns);
    let Some(patterns) = patterns.filter(|patterns| !patterns.is_empty()) else {
        return Vec::new();
    };
    touched
        .iter()
        .filter(|one| !one.is_utf8 || !covers(patterns, &one.path))
        .map(|one| sanitize_line(&one.path))
        .take(MOST)
        .collect()
}

fn by_in_words(by: foreman_domain::Decider) -> &'static str {
    match by {
        foreman_domain::Decider::Operator => "denied by you",
        foreman_domain::Decider::Unattended => "nobody attended",
        foreman_domain::Decider::Floor => "refused by the floor",
        foreman_domain::Decider::Limit => "given up within a limit",
        foreman_domain::Decider::Profile => "refused by the profile of its agent",
    }
}
