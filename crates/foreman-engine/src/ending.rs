//! The end of a run: collecting its commits, deciding its outcome, writing it down. Idempotent: done
//! by whichever engine sees the shim gone, and safe to be cut short and begun again.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, io, join};
use crate::gate::check_plan::CheckPlan;
use crate::words::result_in_words;
use foreman_domain::{
    Block, BlockState, Code, EventKind, EventSeq, FailReason, Failure, InterruptReason, Outcome,
    RunEvent, RunId, RunState, StepKind, StepResult,
};
use foreman_git::Harvest;
use foreman_shim::protocol::ExitRecord;
use foreman_store::{BlockFilter, StoredRun};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

/// Longest exit record that is read: it has a line per step.
const EXIT_BYTES: u64 = 4 << 20;

impl Engine {
    /// Brings a run whose shim is gone to rest. Does nothing for one that is.
    pub async fn settle(self: &Arc<Self>, run: &RunId) -> Result<(), Failure> {
        let turn = self.turn(run).await;
        let stored = self.store.run(run).await.or_fail()?;
        if !stored.state.is_live() {
            return Ok(());
        }
        let details = RunDetails::of(&stored)?;
        let log = self.open_log(run, &details).await?;
        let mut events = Vec::new();
        let exit = match read_exit(&details.files.exit, run)? {
            Ok(exit) => exit,
            Err(message) => {
                events.push(EventKind::Warning { message });
                None
            }
        };
        if exit.is_none()
            && details.shim().is_none()
            && let Some(making) = self.to_go_on_with(&stored, &details, &log).await?
        {
            drop(log);
            self.make_ready_in_a_task(run.clone(), making, turn);
            return Ok(());
        }
        let (mut outcome, collected) = match (&exit, details.shim()) {
            (Some(exit), _) => {
                self.outcome_of(&stored, &details, exit, &mut events)
                    .await?
            }
            (None, Some(shim)) => {
                details.cage_has_ended().await?;
                events.extend(self.left_open(run).await?);
                (lost(&details, shim.pid), false)
            }
            (None, None) => (self.undo_unstarted(&details, &mut events).await, true),
        };
        if details.shim().is_some() {
            events.extend(self.give_back_login(&details).await?);
        }
        events.extend(defuse(&details).await?);
        let is_undone = exit.is_none() && details.shim().is_none();
        let mut kept = details.clone();
        self.take_first_place(&stored, &mut kept, &mut outcome, &mut events)
            .await?;
        self.count_changes(&mut kept, &outcome).await;
        self.note_for_order(&stored, kept, &outcome, is_undone, &mut events)
            .await?;
        if let Some(exit) = &exit {
            let fence = self.fence(run).await?;
            let killed = exit.killed;
            self.store.note_killed(fence, run, killed).await.or_fail()?;
        }
        let can_be_checked_again = matches!(outcome, Outcome::Changes { .. });
        // They quote names that the run chose. What is nothing any more without a secret is left out.
        let redactor = self.secrets_of(&details).await.redactor;
        let events = events
            .into_iter()
            .filter_map(|kind| redactor.data(kind).ok())
            .collect();
        self.advance(&log, events, RunEvent::Ended(outcome)).await?;
        drop(log);
        tidy(&details, collected);
        if !can_be_checked_again {
            CheckPlan::forget(&details);
        }
        self.news.tell(run);
        Ok(())
    }

    /// Says of what was held that it went with the cage, where no supervisor is left to say so.
    async fn left_open(&self, run: &RunId) -> Result<Vec<EventKind>, Failure> {
        let filter = BlockFilter {
            run: Some(run.clone()),
            open_only: true,
            ..BlockFilter::default()
        };
        let open = self.store.blocks(&filter).await.or_fail()?;
        let gone = open.into_iter().map(|stored| EventKind::Block {
            block: Block {
                state: BlockState::Gone,
                waiting: 0,
                ..stored.block
            },
        });
        Ok(gone.collect())
    }

    /// The outcome, and whether everything of the bundle is in the repository. A repository that is
    /// busy or not there and a disk that is full are no outcome: the caller tries again.
    async fn outcome_of(
        &self,
        stored: &StoredRun,
        details: &RunDetails,
        exit: &ExitRecord,
        events: &mut Vec<EventKind>,
    ) -> Result<(Outcome, bool), Failure> {
        let bundle = details.files.bundle.clone();
        if let Some(verdict) = &exit.verdict
            && !bundle.exists()
        {
            return Ok((verdict.clone(), true));
        }
        let already = self.commits_noted(&stored.id, exit.last_seq).await?;
        let (worktree, owned) = (details.worktree.clone(), details.clone());
        let harvesting = tokio::task::spawn_blocking(move || {
            owned
                .repository()?
                .harvest(&worktree, &bundle)
                .map_err(Failure::from)
        });
        let harvest = harvesting.await.map_err(join)?;
        match &harvest {
            Ok(harvest) => {
                events.extend(
                    harvest
                        .warnings
                        .iter()
                        .cloned()
                        .map(|message| EventKind::Warning { message }),
                );
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
            Err(failure) if matches!(failure.code, Code::Busy | Code::DiskFull) => {
                return Err(failure.clone());
            }
            // What is not there now may be put back; whoever does not want to wait stops the run.
            Err(failure) if stored.stop_asked_at.is_none() && details.repo_is_away() => {
                return Err(failure.clone());
            }
            Err(failure) => {
                let message = format!("the run's commits were not collected: {failure}");
                events.push(EventKind::Warning { message });
            }
        }
        let collected = harvest.is_ok();
        let outcome = decide(exit, harvest, &details.worktree.base_commit);
        Ok((outcome, collected))
    }

    /// Whether an engine that was cut short has noted the commits already.
    async fn commits_noted(&self, run: &RunId, after: EventSeq) -> Result<bool, Failure> {
        let kinds = ["commits".to_owned()];
        Ok(!self
            .store
            .events(run, after, 1, &kinds)
            .await
            .or_fail()?
            .events
            .is_empty())
    }
}

/// The outcome of a run whose shim came to its end. An agent's exit code 0 is no success by itself,
/// and its failure does not hide commits.
pub(crate) fn decide(exit: &ExitRecord, harvest: Result<Harvest, Failure>, base: &str) -> Outcome {
    if let Some(verdict) = &exit.verdict {
        return verdict.clone();
    }
    let of_kind = |wanted: StepKind| {
        exit.steps
            .iter()
            .find(|(_, kind, _)| *kind == wanted)
            .map(|(_, _, result)| result)
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
        Some(StepResult::Stopped { why }) => failed(FailReason::Bound {
            message: why.clone(),
            breach: exit.breach,
        }),
        Some(result) => {
            let message = format!("the agent {}", result_in_words(result));
            failed(FailReason::Agent { message })
        }
        None => failed(FailReason::Agent {
            message: "the agent was never started".into(),
        }),
    }
}

/// Makes the worktree safe to look at with git, now that no process can change it any more.
async fn defuse(details: &RunDetails) -> Result<Vec<EventKind>, Failure> {
    let worktree = details.worktree.clone();
    let defusing = move || worktree.take_nested_repositories_out_of_use();
    let sentences = match tokio::task::spawn_blocking(defusing).await.map_err(join)? {
        Ok(sentences) => sentences,
        Err(error) => vec![format!(
            "never run git in {}: it could not be searched for repositories that the run made \
             ({error})",
            details.worktree.path.display()
        )],
    };
    let mut sentences = sentences;
    sentences.extend(changed_submodules(details).await?);
    let warning = |message| EventKind::Warning { message };
    Ok(sentences.into_iter().map(warning).collect())
}

/// What the run changed in submodules, of which its commits hold nothing.
async fn changed_submodules(details: &RunDetails) -> Result<Vec<String>, Failure> {
    if details.shim().is_none() || !details.worktree.path.is_dir() {
        return Ok(Vec::new());
    }
    let owned = details.clone();
    let comparing = tokio::task::spawn_blocking(move || {
        let repo = owned.repository()?;
        Ok::<_, Failure>(repo.changed_submodules(&owned.worktree)?)
    });
    match comparing.await.map_err(join)? {
        Ok(sentences) => Ok(sentences),
        Err(error) => Ok(vec![format!(
            "whether the run changed files of submodules cannot be told: {error}"
        )]),
    }
}

fn lost(details: &RunDetails, pid: u32) -> Outcome {
    let message = format!(
        "the run's supervisor (process {pid}) is gone and left no result; the worktree is kept at {}",
        details.worktree.path.display()
    );
    Outcome::Interrupted {
        reason: InterruptReason::Lost { message },
    }
}

/// The exit record, if there is one; a sentence when it is none. It comes from our own shim, but is
/// bounded all the same.
pub(crate) fn read_exit(
    path: &Path,
    run: &RunId,
) -> Result<Result<Option<ExitRecord>, String>, Failure> {
    let fail = |error| io(format!("{} cannot be read", path.display()), &error);
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(None)),
        other => other.map_err(fail)?,
    };
    let mut bytes = Vec::new();
    file.take(EXIT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    Ok(match serde_json::from_slice::<ExitRecord>(&bytes) {
        Ok(exit) if exit.run == *run => Ok(Some(exit)),
        Ok(exit) => Err(format!("{} is of run {}", path.display(), exit.run)),
        Err(error) => Err(format!("{} is unreadable: {error}", path.display())),
    })
}

/// The spec holds the nonce and the agent's variables; nobody needs them any more. The bundle is
/// needed no more once its commits are in the repository.
fn tidy(details: &RunDetails, collected: bool) {
    let bundle = collected.then_some(&details.files.bundle);
    for path in [&details.spec, &details.files.socket]
        .into_iter()
        .chain(bundle)
    {
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a file of an ended run stays");
        }
    }
}

/// How a run that is at rest would be said to have ended.
pub(crate) fn outcome_to_go_back_to(stored: &StoredRun) -> Result<Outcome, Failure> {
    stored.outcome.clone().ok_or_else(|| {
        internal(format!(
            "run {} is {} but has no outcome",
            stored.id,
            stored.state.tag()
        ))
    })
}

/// True for states in which nothing of the run goes on by itself.
pub(crate) fn is_at_rest(state: &RunState) -> bool {
    !state.is_live() && !matches!(state, RunState::Merging)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{CancelCause, StepName};

    fn exit(agent: Option<StepResult>, verdict: Option<Outcome>) -> ExitRecord {
        let agent = agent.map(|result| (StepName("agent".into()), StepKind::Agent, result));
        ExitRecord {
            run: RunId::from_random(1),
            last_seq: EventSeq(1),
            steps: agent.into_iter().collect(),
            verdict,
            head: None,
            killed: 0,
            breach: None,
            fence: foreman_domain::Fence::default(),
        }
    }

    fn harvest(commits: u32) -> Result<Harvest, Failure> {
        Ok(Harvest {
            head: "aa".into(),
            commits,
            finished_by_us: false,
            warnings: vec![],
        })
    }

    fn reason(outcome: Outcome) -> FailReason {
        match outcome {
            Outcome::Failed { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_shim_knew_for_certain_wins() {
        let cancelled = Outcome::Cancelled {
            by: CancelCause::Operator,
        };
        let record = exit(Some(StepResult::Succeeded), Some(cancelled.clone()));
        assert_eq!(decide(&record, harvest(3), "bb"), cancelled);
    }

    #[test]
    fn commits_are_reviewed_however_the_agent_ended() {
        for (result, succeeded) in [
            (StepResult::Succeeded, true),
            (StepResult::Exited { code: 1 }, false),
            (StepResult::Stopped { why: "wall".into() }, false),
        ] {
            let outcome = decide(&exit(Some(result), None), harvest(1), "bb");
            assert!(matches!(
                outcome,
                Outcome::Changes { agent_succeeded, .. } if agent_succeeded == succeeded
            ));
        }
    }

    #[test]
    fn without_commits_the_agents_end_decides() {
        let ended = |result| decide(&exit(result, None), harvest(0), "bb");
        assert_eq!(ended(Some(StepResult::Succeeded)), Outcome::NoChanges);
        let stopped = Some(StepResult::Stopped {
            why: "memory".into(),
        });
        assert!(
            matches!(reason(ended(stopped)), FailReason::Bound { message, .. } if message == "memory")
        );
        let signalled = Some(StepResult::Signalled { signal: 9 });
        assert!(matches!(reason(ended(signalled)), FailReason::Agent { .. }));
        assert!(matches!(reason(ended(None)), FailReason::Agent { .. }));
    }

    #[test]
    fn commits_that_could_not_be_collected_are_never_taken_for_none() {
        let failed = Err(Failure::new(Code::BadRepository, "not a bundle"));
        let record = exit(Some(StepResult::Succeeded), None);
        let found = reason(decide(&record, failed, "bb"));
        assert!(matches!(found, FailReason::Harvest { message } if message == "not a bundle"));
    }

    #[test]
    fn an_exit_record_that_is_none_is_a_sentence_and_a_missing_one_is_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("exit.json");
        let run = RunId::from_random(1);
        assert_eq!(read_exit(&path, &run).unwrap(), Ok(None));
        std::fs::write(&path, "{").unwrap();
        assert!(read_exit(&path, &run).unwrap().is_err());
        let record = exit(None, None);
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
        assert_eq!(read_exit(&path, &run).unwrap(), Ok(Some(record)));
        assert!(read_exit(&path, &RunId::from_random(2)).unwrap().is_err());
    }
}
