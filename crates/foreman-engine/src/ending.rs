//! The end of a run: collecting its commits, deciding its outcome, writing it down. Idempotent: done
//! by whichever engine sees the shim gone, and safe to be cut short and begun again.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, join};
use crate::words::result_in_words;
use foreman_domain::{
    EventKind, EventSeq, FailReason, Failure, InterruptReason, Outcome, RunEvent, RunId, RunState,
    StepKind, StepResult,
};
use foreman_git::Harvest;
use foreman_shim::protocol::ExitRecord;
use foreman_store::StoredRun;
use std::io::Read;
use std::path::Path;

/// Longest exit record that is read: it has a line per step.
const EXIT_BYTES: u64 = 4 << 20;

impl Engine {
    /// Brings a run whose shim is gone to rest. Does nothing for one that is.
    pub async fn settle(&self, run: &RunId) -> Result<(), Failure> {
        let _turn = self.turn(run).await;
        let stored = self.store.run(run).await.or_fail()?;
        if !stored.state.is_live() {
            return Ok(());
        }
        let details = RunDetails::of(&stored)?;
        let log = self.open_log(run, &details).await?;
        let mut events = Vec::new();
        let exit = read_exit(&details.files.exit, run)?;
        let outcome = match &exit {
            Some(exit) => self.outcome_of(&stored, &details, exit, &mut events).await?,
            None if !details.spec.exists() && details.shim().is_none() => {
                self.undo_unstarted(&details, &mut events).await
            }
            None => lost(&stored, &details),
        };
        let failed = matches!(
            outcome,
            Outcome::Failed { reason: FailReason::Harvest { .. } } | Outcome::Interrupted { .. }
        );
        let collected = !failed;
        self.advance(&log, events, RunEvent::Ended(outcome)).await?;
        drop(log);
        tidy(&details, collected);
        self.news.tell(run);
        Ok(())
    }

    async fn outcome_of(
        &self,
        stored: &StoredRun,
        details: &RunDetails,
        exit: &ExitRecord,
        events: &mut Vec<EventKind>,
    ) -> Result<Outcome, Failure> {
        let bundle = details.files.bundle.clone();
        if let Some(verdict) = &exit.verdict
            && !bundle.exists()
        {
            return Ok(verdict.clone());
        }
        let already = self.commits_noted(&stored.id, exit.last_seq).await?;
        let (worktree, owned) = (details.worktree.clone(), details.clone());
        let harvesting = tokio::task::spawn_blocking(move || {
            owned.repository()?.harvest(&worktree, &bundle).map_err(Failure::from)
        });
        let harvest = harvesting.await.map_err(join)?;
        match &harvest {
            Ok(harvest) => {
                events.extend(harvest.warnings.iter().cloned().map(|message| {
                    EventKind::Warning { message }
                }));
                if let Some(seen) = &exit.head
                    && *seen != harvest.head
                {
                    let message = format!(
                        "the commits that were collected end at {}, but the worktree's HEAD was at \
                         {seen}",
                        harvest.head
                    );
                    events.push(EventKind::Warning { message });
                }
                if harvest.commits > 0 && !already {
                    events.push(EventKind::Commits {
                        head: harvest.head.clone(),
                        count: harvest.commits,
                        finished_by_us: harvest.finished_by_us,
                    });
                }
            }
            Err(failure) => {
                let message = format!("the run's commits were not collected: {failure}");
                events.push(EventKind::Warning { message });
            }
        }
        Ok(decide(exit, harvest, &details.worktree.base_commit))
    }

    /// Whether an engine that was cut short has noted the commits already.
    async fn commits_noted(&self, run: &RunId, after: EventSeq) -> Result<bool, Failure> {
        let kinds = ["commits".to_owned()];
        Ok(!self.store.events(run, after, 1, &kinds).await.or_fail()?.events.is_empty())
    }
}

/// The outcome of a run whose shim came to its end. An agent's exit code 0 is no success by itself,
/// and its failure does not hide commits.
fn decide(exit: &ExitRecord, harvest: Result<Harvest, Failure>, base: &str) -> Outcome {
    if let Some(verdict) = &exit.verdict {
        return verdict.clone();
    }
    let of_kind = |wanted: StepKind| {
        exit.steps.iter().find(|(_, kind, _)| *kind == wanted).map(|(_, _, result)| result)
    };
    let failed = |reason| Outcome::Failed { reason };
    let agent = of_kind(StepKind::Agent);
    let harvest = match harvest {
        Ok(harvest) => harvest,
        Err(failure) => {
            let step = of_kind(StepKind::Harvest).filter(|result| !result.is_success());
            let message = match step {
                Some(result) => format!("collecting the commits {}", result_in_words(result)),
                None => failure.message,
            };
            return failed(FailReason::Harvest { message });
        }
    };
    if harvest.commits > 0 {
        return Outcome::Changes {
            head: harvest.head,
            base: base.to_owned(),
            agent_succeeded: agent.is_some_and(StepResult::is_success),
        };
    }
    match agent {
        Some(StepResult::Succeeded) => Outcome::NoChanges,
        Some(StepResult::Stopped { why }) => {
            failed(FailReason::Bound { message: why.clone() })
        }
        Some(result) => {
            let message = format!("the agent {}", result_in_words(result));
            failed(FailReason::Agent { message })
        }
        None => failed(FailReason::Agent { message: "the agent was never started".into() }),
    }
}

fn lost(stored: &StoredRun, details: &RunDetails) -> Outcome {
    let message = match details.shim() {
        Some(shim) => format!(
            "the run's supervisor (process {}) is gone and left no result; the worktree is kept at {}",
            shim.pid,
            details.worktree.path.display()
        ),
        None => format!("the run's supervisor never started; run {} was being prepared", stored.id),
    };
    Outcome::Interrupted { reason: InterruptReason::Lost { message } }
}

/// The exit record, if there is one. It comes from our own shim, but is bounded all the same.
fn read_exit(path: &Path, run: &RunId) -> Result<Option<ExitRecord>, Failure> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| {
            crate::failures::io(format!("{} cannot be read", path.display()), &error)
        })?,
    };
    let mut text = String::new();
    file.take(EXIT_BYTES).read_to_string(&mut text).map_err(|error| {
        crate::failures::io(format!("{} cannot be read", path.display()), &error)
    })?;
    let exit: ExitRecord = serde_json::from_str(&text)
        .map_err(|error| internal(format!("{} is unreadable: {error}", path.display())))?;
    if exit.run != *run {
        return Err(internal(format!("{} is of run {}", path.display(), exit.run)));
    }
    Ok(Some(exit))
}

/// The spec holds the nonce and the agent's variables; nobody needs them any more. The bundle is
/// needed no more once its commits are in the repository.
fn tidy(details: &RunDetails, collected: bool) {
    let bundle = collected.then_some(&details.files.bundle);
    for path in [&details.spec, &details.files.socket].into_iter().chain(bundle) {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a file of an ended run stays");
        }
    }
}

/// How a run that is at rest would be said to have ended.
pub(crate) fn outcome_to_go_back_to(stored: &StoredRun) -> Result<Outcome, Failure> {
    stored.outcome.clone().ok_or_else(|| {
        internal(format!("run {} is {} but has no outcome", stored.id, stored.state.tag()))
    })
}

/// True for states in which nothing of the run goes on by itself.
pub(crate) fn is_at_rest(state: &RunState) -> bool {
    !state.is_live() && !matches!(state, RunState::Merging)
}
