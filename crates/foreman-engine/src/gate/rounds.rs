//! A round of checks: a fresh cage over a fresh copy of one commit, carried by a shim of its own.
//!
//! Nothing of the run's agent takes part: its processes are dead, its home, temporary files and
//! worktree are not there, its git configuration neither. The commands are the order's. The shim goes
//! on with the run's journal, so that a round's events are the run's, as steps `check-N` (and
//! `check-N.K` in round K).
//!
//! The store knows of a round before anything of it exists, and of its end when all of it is gone. An
//! engine that finds an open round of the commit goes on with it, whether its shim lives or not; a shim
//! that is gone without a result leaves checks without one.

mod unchanged;

use crate::api::CheckResult;
use crate::details::RunDetails;
use crate::ending::read_exit;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, join};
use crate::follow::follow;
use crate::gate::check_plan::{CheckPlan, Round, check_step};
use crate::layout::private_dir;
use crate::live::LiveRun;
use crate::provision::copying::{Item, copy, stays_inside};
use crate::spec::give_away;
use crate::words::result_in_words;
use foreman_domain::{
    At, Code, EventKind, EventSeq, FailReason, Failure, Outcome, RunId, StepKind, StepResult,
    sanitize_line,
};
use foreman_git::{CleanCopy, Touched};
use foreman_shim::protocol::RunSpec;
use foreman_shim::protocol::{Continues, ExitRecord, HoldMode, RunFiles};
use foreman_store::{StoredRound, StoredRun};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for a stopped round to end, and for a killed one.
const STOPPING: Duration = Duration::from_secs(30);
/// Pause between looks whether it has.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a check's output that are kept with its result.
const TAIL: usize = 20;
/// Characters of such a line.
const LINE: usize = 500;

/// What happens to what a check tries and no rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attended {
    /// As for the run itself.
    AsOrdered,
    /// It is refused at once: the run is at rest, and nobody waits for it.
    Nobody,
}

impl Engine {
    /// Checks `head`, or goes on with an open round of it. Gives the results.
    ///
    /// Fails only with what says nothing about the commit (a full disk, a busy repository, the end of
    /// hosting); whatever else goes wrong is a round without results.
    pub async fn carry_round(
        self: &Arc<Self>,
        run: &RunId,
        head: &str,
        attended: Attended,
    ) -> Result<Vec<CheckResult>, Failure> {
        let turn = self.turn_at(&format!("round {run}"));
        let _turn = match Arc::clone(&turn).try_lock_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = turn.lock_owned().await;
                // Whoever had it may have checked the very same.
                if let Some(results) = self.results_for(run, head).await? {
                    return Ok(results);
                }
                turn
            }
        };
        let stored = self.store.run(run).await.or_fail()?;
        let details = RunDetails::of(&stored)?;
        let number = self
            .store
            .begin_round(self.epoch, run, head, At::now())
            .await
            .or_fail()?;
        let round = round_details(&details, number);
        let carried = self.carry(&stored, &round, number, head, attended).await;
        let (exit, trouble) = match carried {
            Ok(exit) => {
                let trouble = trouble(exit.as_ref());
                (exit, trouble)
            }
            Err(failure) if matches!(failure.code, Code::Busy | Code::DiskFull) => {
                return Err(failure);
            }
            Err(failure) => (None, Some(failure.message)),
        };
        let results = self
            .results_of(run, &details, number, exit.as_ref(), trouble.as_deref())
            .await?;
        let trouble = match trouble {
            None => self.changed_by_checks(run, &round).await?,
            trouble => trouble,
        };
        self.clear_away(run, &round).await?;
        let json = serde_json::to_string(&results).map_err(internal)?;
        self.store
            .end_round(
                self.epoch,
                run,
                number,
                &json,
                trouble.as_deref(),
                At::now(),
            )
            .await
            .or_fail()?;
        self.news.tell(run);
        Ok(results)
    }

    /// What the round changed of the commit's files, in words.
    async fn changed_by_checks(
        &self,
        run: &RunId,
        round: &RunDetails,
    ) -> Result<Option<String>, Failure> {
        let (place, noted) = (self.layout.check_copy(run), noted(round));
        let comparing = tokio::task::spawn_blocking(move || {
            unchanged::difference(&CleanCopy::tree_in(&place), &noted)
        });
        comparing.await.map_err(join)
    }

    /// What went wrong with the newest round of `head` although its checks may have passed.
    pub async fn trouble_of(&self, run: &RunId, head: &str) -> Result<Option<String>, Failure> {
        let newest = self.store.newest_round(run).await.or_fail()?;
        Ok(newest
            .filter(|round| round.head == head)
            .and_then(|round| round.trouble))
    }

    /// The results of a round of this commit that is over.
    async fn results_for(
        &self,
        run: &RunId,
        head: &str,
    ) -> Result<Option<Vec<CheckResult>>, Failure> {
        let newest = self.store.newest_round(run).await.or_fail()?;
        let results = newest
            .filter(|round| round.head == head)
            .and_then(|round| round.results);
        results
            .map(|json| serde_json::from_str(&json).map_err(internal))
            .transpose()
    }

    /// Goes on with rounds of runs at rest that an engine began and did not live to end.
    pub async fn resume_rounds(self: &Arc<Self>) -> Result<(), Failure> {
        for (run, head) in self.store.open_rounds().await.or_fail()? {
            let is_free = self
                .turn_at(&format!("round {run}"))
                .try_lock_owned()
                .is_ok();
            if !is_free || self.live.get(&run).is_some() {
                continue;
            }
            if self.store.run(&run).await.or_fail()?.state.is_live() {
                // Followed with its run.
                continue;
            }
            let engine = Arc::clone(self);
            self.tasks.spawn(async move {
                if let Err(error) = engine.carry_round(&run, &head, Attended::Nobody).await {
                    tracing::warn!(%run, %error, "checks that were cut short are not finished");
                }
            });
        }
        Ok(())
    }

    /// From the open round to the end of its shim; its exit record, if it left one.
    async fn carry(
        self: &Arc<Self>,
        stored: &StoredRun,
        round: &RunDetails,
        number: u32,
        head: &str,
        attended: Attended,
    ) -> Result<Option<ExitRecord>, Failure> {
        if round.shim().is_none() && !round.is_on_its_way() {
            round.void_spec()?;
            if !round.is_on_its_way() {
                self.start_round(stored, round, number, head, attended)
                    .await?;
            }
        }
        let live = self.live.replace(&stored.id, round.clone());
        let ended = tokio::select! {
            () = follow(self, &live) => true,
            () = self.cancel.cancelled() => false,
        };
        live.set_line(None);
        live.set_caught_up();
        self.live.remove_if(&stored.id, &live);
        if !ended {
            return Err(Failure::new(Code::Busy, "this engine stops hosting"));
        }
        self.drain_journal(&stored.id, round).await?;
        match read_exit(&round.files.exit, &stored.id)? {
            Ok(Some(exit)) => Ok(Some(exit)),
            Ok(None) => {
                round.cage_has_ended().await?;
                Ok(None)
            }
            Err(message) => Err(internal(message)),
        }
    }

    async fn start_round(
        self: &Arc<Self>,
        stored: &StoredRun,
        round: &RunDetails,
        number: u32,
        head: &str,
        attended: Attended,
    ) -> Result<(), Failure> {
        self.sure().await?;
        // Refused before anything is made.
        self.options.find_shim()?;
        self.clear_away(&stored.id, round).await?;
        // What the agent left in the tree may say them, so they are looked for in what a check says.
        let (secrets, _) = self.handed(&round.secrets).await?;
        let (blocks, holds) = self.store.highest_block(&stored.id).await.or_fail()?;
        let before = Continues {
            blocks,
            holds,
            at_rest: !stored.state.is_live(),
        };
        let hold = match attended {
            Attended::AsOrdered if !round.unattended => HoldMode::Hold,
            Attended::AsOrdered | Attended::Nobody => HoldMode::Refuse,
        };
        let (id, policy, place) = (
            stored.id.clone(),
            stored.policy.clone(),
            self.layout.check_copy(&stored.id),
        );
        let begun = round.clone();
        let (round, head) = (round.clone(), head.to_owned());
        let preparing = tokio::task::spawn_blocking(move || -> Result<RunSpec, Failure> {
            let plan = CheckPlan::read(&round)?;
            private_dir(place.parent().unwrap_or(Path::new("/")))?;
            let repo = round.repository()?;
            let copy = repo.clean_copy(&round.worktree, &head, &round.copied, &place)?;
            private_dir(&round_folder(&round))?;
            unchanged::note(&copy.tree, &noted(&round))?;
            put_copies(repo.root(), &copy.tree, &round.copied)?;
            give_away(&id, &[copy.tree.clone(), copy.git.clone()])?;
            Ok(plan.spec(Round {
                number,
                head: &head,
                details: &round,
                policy,
                hold,
                copy: &copy,
                before,
            }))
        });
        let started = match preparing.await.map_err(join)? {
            Ok(spec) => self.launch(&begun, spec, secrets).await.map(drop),
            Err(failure) => Err(failure),
        };
        // A supervisor that wrote down who it is has begun, however soon it ended.
        match started {
            Err(failure) if begun.shim().is_none() => Err(failure),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Ends a round of checks that is under way while its run is at rest, and waits for it.
    pub async fn stop_checks(&self, live: &Arc<LiveRun>) -> Result<(), Failure> {
        if let Ok(client) = live.line().await {
            self.pass_on_stop(live, &client).await;
        }
        let over = |engine: &Self| {
            let now = engine.live.get(&live.run);
            now.is_none_or(|now| !Arc::ptr_eq(&now, live))
        };
        for kills in [false, true] {
            let deadline = Instant::now() + STOPPING;
            while !over(self) && Instant::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
            if over(self) {
                return Ok(());
            }
            if !kills {
                live.details.kill_shim()?;
            }
        }
        Err(internal(format!(
            "the checks of run {} do not come to an end",
            live.run
        )))
    }

    /// Takes away what a round left on disk.
    async fn clear_away(&self, run: &RunId, round: &RunDetails) -> Result<(), Failure> {
        let (copy, folder) = (self.layout.check_copy(run), round_folder(round));
        let clearing = tokio::task::spawn_blocking(move || {
            CleanCopy::remove(&copy)?;
            CleanCopy::remove(&folder)
        });
        clearing.await.map_err(join)?.map_err(Failure::from)
    }

    /// The checks of a run, with their results for `head`; for whatever is being checked when that is
    /// not known yet.
    pub async fn checks_of(
        &self,
        run: &RunId,
        details: &RunDetails,
        head: Option<&str>,
    ) -> Result<Vec<CheckResult>, Failure> {
        if details.checks.is_empty() {
            return Ok(Vec::new());
        }
        let newest = self.store.newest_round(run).await.or_fail()?;
        let Some(round) = newest.filter(|round| head.is_none_or(|head| round.head == head)) else {
            return Ok(without_result(details, 1, "has not run"));
        };
        if let Some(results) = &round.results {
            return serde_json::from_str(results).map_err(|error| {
                internal(format!("the results of a check are unreadable: {error}"))
            });
        }
        if round.ended_at.is_some() {
            let why = round.trouble.as_deref().unwrap_or("it was given up");
            return Ok(without_result(
                details,
                round.round,
                &format!("has not run: {why}"),
            ));
        }
        self.so_far(run, details, &round).await
    }

    /// How far an open round is.
    async fn so_far(
        &self,
        run: &RunId,
        details: &RunDetails,
        round: &StoredRound,
    ) -> Result<Vec<CheckResult>, Failure> {
        let steps = self.store.steps(run).await.or_fail()?;
        let mut checks = without_result(details, round.round, "has not run");
        for check in &mut checks {
            let Some(step) = steps.iter().find(|step| step.name.0 == check.step) else {
                continue;
            };
            let how = match &step.result {
                Some(result) => result_in_words(result),
                None => "is running".to_owned(),
            };
            check.words = in_words(&check.command, &how);
            check.result.clone_from(&step.result);
        }
        Ok(checks)
    }

    async fn results_of(
        &self,
        run: &RunId,
        details: &RunDetails,
        number: u32,
        exit: Option<&ExitRecord>,
        trouble: Option<&str>,
    ) -> Result<Vec<CheckResult>, Failure> {
        let none = trouble.map_or("has not run".to_owned(), |why| {
            format!("has not run: {why}")
        });
        let mut checks = without_result(details, number, &none);
        let mut tails = self.tails(run, &checks).await?;
        for check in &mut checks {
            let result = exit.and_then(|exit| {
                let mut steps = exit.steps.iter();
                steps.find(|(name, _, _)| name.0 == check.step)
            });
            if let Some((_, _, result)) = result {
                check.words = in_words(&check.command, &result_in_words(result));
                check.result = Some(result.clone());
            }
            if let Some(at) = tails.iter().position(|(step, _)| *step == check.step) {
                check.tail = tails.swap_remove(at).1.into();
            }
        }
        Ok(checks)
    }

    /// The last lines that each check said.
    async fn tails(
        &self,
        run: &RunId,
        checks: &[CheckResult],
    ) -> Result<Vec<(String, VecDeque<String>)>, Failure> {
        let mut tails: Vec<(String, VecDeque<String>)> = checks
            .iter()
            .map(|check| (check.step.clone(), VecDeque::new()))
            .collect();
        let Some(after) = self.start_of(run, checks).await? else {
            return Ok(tails);
        };
        self.each_event(run, after, "output", |event| {
            if let (EventKind::Output { text, .. }, Some(step)) = (&event.kind, &event.step)
                && let Some((_, tail)) = tails.iter_mut().find(|(name, _)| *name == step.0)
            {
                if tail.len() == TAIL {
                    tail.pop_front();
                }
                tail.push_back(text.chars().take(LINE).collect());
            }
            ControlFlow::Continue(())
        })
        .await?;
        Ok(tails)
    }

    /// The event before the first check of a round.
    async fn start_of(
        &self,
        run: &RunId,
        checks: &[CheckResult],
    ) -> Result<Option<EventSeq>, Failure> {
        let mut start = None;
        self.each_event(run, EventSeq(0), "step_started", |event| {
            let step = event.step.as_ref();
            if step.is_some_and(|step| checks.iter().any(|check| check.step == step.0)) {
                start = Some(EventSeq(event.seq.0.saturating_sub(1)));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .await?;
        Ok(start)
    }
}

/// The checks that did not pass, in words.
pub(crate) fn not_passed(checks: &[CheckResult]) -> Vec<String> {
    let failed = checks.iter().filter(|check| !check.has_passed());
    failed.map(|check| check.words.clone()).collect()
}

fn without_result(details: &RunDetails, round: u32, how: &str) -> Vec<CheckResult> {
    let many = details.checks.len();
    let check = |(index, command): (usize, &String)| CheckResult {
        command: command.clone(),
        step: check_step(index, many, round).0,
        result: None,
        words: in_words(command, how),
        tail: Vec::new(),
    };
    details.checks.iter().enumerate().map(check).collect()
}

fn in_words(command: &str, how: &str) -> String {
    format!("`{}` {how}", sanitize_line(command))
}

/// The files of the operator's checkout that the run had, as they are there now, by the rule that they
/// were found by: through real folders, links that stay inside. What the commit itself has at such a
/// place is left as it is; see [`over_copies`].
fn put_copies(root: &Path, tree: &Path, copied: &[String]) -> Result<(), Failure> {
    let item = |path: &String| {
        let seen = root.join(path).symlink_metadata().ok()?;
        let link = match seen.is_symlink() {
            true => Some(std::fs::read_link(root.join(path)).ok()?),
            false => None,
        };
        let is_inside = link
            .as_ref()
            .is_none_or(|target| stays_inside(Path::new(path), target));
        let mut above = Path::new(path).ancestors().skip(1);
        let is_reached = above.all(|folder| {
            let meta = root.join(folder).symlink_metadata();
            let is_own = folder == Path::new("")
                || root.join(folder).join(".git").symlink_metadata().is_err();
            is_own && meta.is_ok_and(|meta| meta.is_dir())
        });
        let is_free = tree.join(path).symlink_metadata().is_err();
        let is_one = link.is_some() || seen.is_file();
        (is_free && is_one && is_inside && is_reached).then(|| Item {
            path: path.clone(),
            bytes: seen.len(),
            link,
        })
    };
    let items: Vec<Item> = copied.iter().filter_map(item).collect();
    copy(root, tree, &items)
}

/// Changes where a file of the operator's checkout would be copied to: checks see what the commit has
/// there instead. Compared without regard to case.
pub(crate) fn over_copies(touched: &[Touched], copied: &[String]) -> Vec<String> {
    let copied: Vec<String> = copied.iter().map(|path| path.to_lowercase()).collect();
    let is_at = |path: &str, other: &str| {
        path.strip_prefix(other)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    touched
        .iter()
        .filter(|one| {
            let path = one.path.to_lowercase();
            copied
                .iter()
                .any(|copied| is_at(&path, copied) || is_at(copied, &path))
        })
        .map(|one| sanitize_line(&one.path))
        .collect()
}

/// The run's record with the files and the nonce of a round. The journal and the socket are the run's.
fn round_details(details: &RunDetails, number: u32) -> RunDetails {
    let folder = details.folder().join(format!("checks-{number}"));
    let secret = Sha256::digest(format!("{} round {number}", details.nonce));
    let nonce: String = secret
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    RunDetails {
        files: RunFiles {
            exit: folder.join("exit.json"),
            identity: folder.join("identity.json"),
            bundle: folder.join("none.bundle"),
            log: folder.join("shim.log"),
            ..details.files.clone()
        },
        spec: folder.join("spec.json"),
        nonce,
        ..details.clone()
    }
}

/// Where the files of a fresh copy are noted down, out of the cage's reach.
fn noted(round: &RunDetails) -> PathBuf {
    round_folder(round).join("copy.json")
}

fn round_folder(round: &RunDetails) -> PathBuf {
    round.spec.parent().map(Path::to_owned).unwrap_or_default()
}

/// Why checks of a round that is over have no result, where that is known.
fn trouble(exit: Option<&ExitRecord>) -> Option<String> {
    let Some(exit) = exit else {
        return Some("the supervisor of the checks is gone and left no result".into());
    };
    let setup = exit
        .steps
        .iter()
        .find(|(_, kind, result)| *kind == StepKind::Setup && !result.is_success());
    if let Some((_, _, result)) =
        setup.filter(|(_, _, result)| !matches!(result, StepResult::Skipped { .. }))
    {
        return Some(format!("the setup {}", result_in_words(result)));
    }
    match &exit.verdict {
        Some(Outcome::Failed { reason }) => Some(match reason {
            FailReason::Provision { message, .. }
            | FailReason::Wall { message }
            | FailReason::Setup { message }
            | FailReason::Agent { message }
            | FailReason::Bound { message, .. }
            | FailReason::Harvest { message } => message.clone(),
        }),
        Some(Outcome::Cancelled { .. }) => Some("the checks were stopped".into()),
        Some(Outcome::Changes { .. } | Outcome::NoChanges | Outcome::Interrupted { .. }) | None => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_change_where_a_copied_file_would_be_is_told_of() {
        let touched = |path: &str| Touched {
            path: path.to_owned(),
            is_utf8: true,
            before: None,
            after: Some(0o100_644),
        };
        let copied = ["data/seed.db".to_owned(), "local".to_owned()];
        let all = ["DATA/seed.db", "data", "local/x", "data/other", "locals"].map(touched);
        assert_eq!(
            over_copies(&all, &copied),
            ["DATA/seed.db", "data", "local/x"]
        );
    }

    #[test]
    fn copies_come_through_real_folders_and_no_link_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let (root, tree) = (dir.path().join("repo"), dir.path().join("tree"));
        for path in ["repo/a/file", "outside/file", "repo/nested/.git/x"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::write(root.join("nested/file"), "x").unwrap();
        fs::create_dir(&tree).unwrap();
        symlink("../outside", root.join("door")).unwrap();
        symlink("../../outside/file", root.join("a/out")).unwrap();
        symlink("file", root.join("a/in")).unwrap();
        let copied = ["a/file", "a/in", "a/out", "door/file", "nested/file"];
        put_copies(&root, &tree, &copied.map(str::to_owned)).unwrap();
        for (path, is_there) in copied.iter().zip([true, true, false, false, false]) {
            assert_eq!(
                tree.join(path).symlink_metadata().is_ok(),
                is_there,
                "{path}"
            );
        }
    }
}
