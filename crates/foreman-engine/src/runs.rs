//! Runs as they are shown, followed, typed into and stopped.

mod behind;
mod filter;
mod in_full;
mod samples;
mod spent;

pub(crate) use behind::Behind;
pub(crate) use samples::Measured;
pub(crate) use spent::Counted;

use crate::api::{
    EventPage, EventsRequest, InputRequest, Nothing, ResizeRequest, RunList, RunView, Runs,
};
use crate::details::RunDetails;
use crate::ending::is_at_rest;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use crate::live::LiveRun;
use crate::words::count;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{
    At, Code, Event, EventSeq, Failure, Outcome, RunId, RunState, StepKind, sanitize_line,
};
use foreman_shim::client::ShimClient;
use foreman_store::{StoredRun, Way};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const DEFAULT_LIST: u32 = 50;
const LONGEST_LIST: u32 = 10_000;
const LONGEST_PAGE: u32 = 512;
const LONGEST_WAIT_MS: u32 = 30_000;
/// Far more than there are.
const MOST_KINDS: usize = 64;
/// Wait between asking, interrupting, terminating and killing.
const GRACE_MS: u32 = 5_000;
/// Longest wait for a run to end after it was asked to stop: the whole ladder and some more.
const STOPPING: Duration = Duration::from_secs(60);
/// The same while the agent's work is being collected, which the shim bounds by itself.
const COLLECTING: Duration = Duration::from_secs(25 * 60);
/// Longest input at once.
const INPUT_BYTES: usize = 1 << 20;

impl Engine {
    /// The run that is meant: an id, an unambiguous beginning of one, or `last`.
    pub async fn find_run(&self, typed: &str) -> Result<RunId, Failure> {
        if typed == "last" {
            let newest = self.store.runs(1).await.or_fail()?;
            return newest.into_iter().next().map(|run| run.id).ok_or_else(|| {
                Failure::new(Code::NotFound, "there is no run yet")
                    .hint("Start one: `foreman run`.")
            });
        }
        let unknown = || {
            Failure::new(
                Code::NotFound,
                format!("there is no run \"{}\"", sanitize_line(typed)),
            )
            .hint("See `foreman runs`.")
        };
        // An id never holds anything else, so nothing else needs to be looked up.
        let plausible = !typed.is_empty()
            && typed.len() <= RunId::LEN
            && typed
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !plausible {
            return Err(unknown());
        }
        let found = self.store.runs_beginning(typed, 5).await.or_fail()?;
        match found.as_slice() {
            [] => Err(unknown()),
            [one] => Ok(one.clone()),
            several => {
                let ids: Vec<_> = several.iter().map(RunId::to_string).collect();
                Err(Failure::new(
                    Code::BadInput,
                    format!(
                        "\"{typed}\" is the beginning of several runs: {}",
                        ids.join(", ")
                    ),
                )
                .hint("Type one more letter."))
            }
        }
    }

    /// Runs, newest first.
    pub async fn list_runs(&self, request: RunList) -> Result<Runs, Failure> {
        let limit = request.limit.unwrap_or(DEFAULT_LIST).min(LONGEST_LIST);
        // Taken first: what changes while the list is read is told again, and nothing is missed.
        let cursor = self.news.changes.now(self.epoch).to_string();
        let stored = match (&request.before, request.open) {
            (Some(_), true) => {
                let said =
                    "Open runs come as one list: ask for them without a run to begin before.";
                return Err(Failure::new(Code::BadInput, said));
            }
            (Some(before), false) => {
                let before = self.find_run(before).await?;
                self.store.runs_before(&before, limit).await.or_fail()?
            }
            (None, true) => self.store.open_runs(limit).await.or_fail()?,
            (None, false) => self.store.runs(limit).await.or_fail()?,
        };
        let older = match stored.last() {
            Some(oldest) if !request.open => self.store.count_before(&oldest.id).await.or_fail()?,
            _ => 0,
        };
        let mut runs = Vec::with_capacity(stored.len());
        for run in stored {
            let id = run.id.clone();
            match self.view(run).await {
                Ok(view) => runs.push(view),
                // One unreadable record never hides the others.
                Err(error) => tracing::warn!(run = %id, %error, "a run cannot be shown"),
            }
        }
        Ok(Runs {
            runs,
            older,
            cursor,
        })
    }

    /// One run, as it is now.
    pub async fn view_of(&self, run: &RunId) -> Result<RunView, Failure> {
        let stored = self.store.run(run).await.or_fail()?;
        self.view(stored).await
    }

    async fn view(&self, run: StoredRun) -> Result<RunView, Failure> {
        let details = RunDetails::of(&run)?;
        let head = tip_of(&run, &details);
        let checks = self.checks_of(&run.id, &details, head.as_deref()).await?;
        let failed_checks = checks.iter().filter(|check| !check.has_passed()).count();
        let failed_checks = u32::try_from(failed_checks).unwrap_or(u32::MAX);
        let repo_reachable = !details.repo_is_away();
        let repo_name = name_of(&details.repo);
        let spent = self.spent_of(&run, &details).await?;
        let behind = match run.state {
            RunState::Review { .. } => self.behind.of(&run.id),
            _ => None,
        };
        Ok(RunView {
            id: run.id,
            order: run.order,
            outside_scope: details.outside_scope,
            title: run.title,
            state: run.state,
            repo: details.repo,
            branch: details.worktree.branch,
            base_branch: details.worktree.base_branch,
            base: match details.follows {
                Some(follows) => follows.base,
                None => details.worktree.base_commit,
            },
            freshness: details.freshness,
            worktree: details.worktree.path,
            tier: details.tier,
            confinement: details.confinement,
            open_blocks: run.open_blocks,
            created_at: run.created_at,
            ended_at: run.ended_at,
            last_seq: run.last_seq,
            outcome: run.outcome,
            checks: checks.into_iter().map(|check| check.words).collect(),
            failed_checks,
            denied_unattended: run.denied_unattended,
            killed: run.killed,
            repo_reachable,
            last_event_at: run.last_event_at,
            subjects_blocked: run.blocked,
            subjects_allowed: run.allowed,
            changes: details.changes,
            behind,
            revision: run.revision,
            repo_name,
            bounds_kept: None,
            spent,
        })
    }

    /// A page of events; waits for news when asked to.
    pub async fn page_of_events(&self, request: EventsRequest) -> Result<EventPage, Failure> {
        let run = self.find_run(&request.run).await?;
        if request.kinds.len() > MOST_KINDS {
            return Err(Failure::new(
                Code::Usage,
                "there are not that many kinds of events",
            ));
        }
        let limit = request.limit.clamp(1, LONGEST_PAGE);
        if request.filter.kinds.len() > MOST_KINDS || request.filter.steps.len() > MOST_KINDS {
            return Err(Failure::new(Code::Usage, "the filter names too much"));
        }
        if let Some(before) = request.before {
            return self.page_before(&run, before, limit, &request).await;
        }
        let wait = Duration::from_millis(u64::from(request.wait_ms.min(LONGEST_WAIT_MS)));
        let deadline = Instant::now() + wait;
        let mut after = request.after;
        // Subscribed before the first look: news between look and wait is not missed.
        let mut news = self.news.subscribe(&run);
        loop {
            news.mark_unchanged();
            let stored = self.store.run(&run).await.or_fail()?;
            let page = match filter::is_empty(&request.filter) {
                true => {
                    let kinds = &request.kinds;
                    self.store
                        .events(&run, after, limit, kinds)
                        .await
                        .or_fail()?
                }
                false => {
                    let kinds = filter::kinds(&request.kinds, &request.filter);
                    let wanted = |event: &Event| filter::lets_through(&request.filter, event);
                    let way = Way::After(after);
                    let page = self.store.events_where(&run, way, limit, &kinds, wanted);
                    page.await.or_fail()?
                }
            };
            let ended = is_at_rest(&stored.state) && page.cursor >= page.last_seq;
            // A filtered page that found nothing yet moves its cursor: the caller asks on from there.
            let goes_on = page.cursor < page.last_seq;
            if !page.events.is_empty() || ended || goes_on || Instant::now() >= deadline {
                let first = page.events.first().map(|event| event.seq);
                return Ok(EventPage {
                    has_older: first.is_some_and(|first| first > EventSeq(1)),
                    first,
                    events: page.events,
                    cursor: page.cursor,
                    ended,
                });
            }
            if let Some(trouble) = self.live.get(&run).and_then(|live| live.trouble()) {
                // The shim needs no engine: only what it tells cannot be stored here.
                return Err(trouble.hint(format!(
                    "The run goes on. Make room, then `foreman attach {run}` shows it again."
                )));
            }
            after = page.cursor;
            let _ = tokio::time::timeout_at(deadline, news.changed()).await;
        }
    }

    /// The newest events before one of them.
    async fn page_before(
        &self,
        run: &RunId,
        before: EventSeq,
        limit: u32,
        request: &EventsRequest,
    ) -> Result<EventPage, Failure> {
        let stored = self.store.run(run).await.or_fail()?;
        let kinds = filter::kinds(&request.kinds, &request.filter);
        let wanted = |event: &Event| filter::lets_through(&request.filter, event);
        let way = Way::Before(before);
        let page = self.store.events_where(run, way, limit, &kinds, wanted);
        let page = page.await.or_fail()?;
        Ok(EventPage {
            first: page.events.first().map(|event| event.seq),
            has_older: page.cursor > EventSeq(1),
            events: page.events,
            cursor: page.cursor,
            ended: is_at_rest(&stored.state),
        })
    }

    /// Sends bytes to a run's terminal.
    pub async fn input(&self, request: InputRequest) -> Result<Nothing, Failure> {
        let bytes = STANDARD
            .decode(&request.bytes)
            .ok()
            .filter(|bytes| bytes.len() <= INPUT_BYTES)
            .ok_or_else(|| Failure::new(Code::Usage, "the input is not base64 of up to 1 MiB"))?;
        let live = self.live_run(&request.run).await?;
        live.line().await?.input(&bytes).await.or_fail()?;
        Ok(Nothing {})
    }

    /// Tells a run its terminal's size.
    pub async fn resize(&self, request: ResizeRequest) -> Result<Nothing, Failure> {
        let live = self.live_run(&request.run).await?;
        let (columns, rows) = (request.size.columns, request.size.rows);
        live.line().await?.resize(columns, rows).await.or_fail()?;
        Ok(Nothing {})
    }

    async fn live_run(&self, typed: &str) -> Result<Arc<LiveRun>, Failure> {
        let run = self.find_run(typed).await?;
        self.live
            .get(&run)
            .ok_or_else(|| Failure::new(Code::Conflict, format!("run {run} is not running")))
    }

    /// Stops a run. The wish is recorded first, so it holds whoever hosts next; "stopped" is said only
    /// when the cage is empty. A shim that does not end its run is killed, and its cage with it; one
    /// that is collecting what the agent did is given the time for it.
    pub async fn stop_run(self: &Arc<Self>, typed: &str) -> Result<RunView, Failure> {
        let run = self.find_run(typed).await?;
        let stored = self.store.run(&run).await.or_fail()?;
        if !stored.state.is_live() {
            if let Some(live) = self.live.get(&run) {
                self.stop_checks(&live).await?;
            }
            return self.view_of(&run).await;
        }
        self.store
            .ask_stop(self.fence(&run).await?, &run, At::now())
            .await
            .or_fail()?;
        if let Some(live) = self.live.get(&run) {
            match live.line().await {
                // One that is not reached now is told when it is ([`Engine::attach`]).
                Ok(client) => drop(self.pass_on_stop(&live, &client).await),
                Err(error) => tracing::warn!(%run, %error, "a stop waits for the shim"),
            }
        }
        let asked = Instant::now();
        if let Some(view) = self.wait_for_rest(&run, asked + STOPPING).await? {
            return Ok(view);
        }
        if self.is_collecting(&run).await?
            && let Some(view) = self.wait_for_rest(&run, asked + COLLECTING).await?
        {
            return Ok(view);
        }
        self.sure().await?;
        tracing::warn!(%run, "killing a shim that did not stop its run");
        match self.live.get(&run) {
            Some(live) => live.details.kill_shim()?,
            None => RunDetails::of(&self.store.run(&run).await.or_fail()?)?.kill_shim()?,
        }
        self.wait_for_rest(&run, Instant::now() + STOPPING)
            .await?
            .ok_or_else(|| internal(format!("run {run} was killed but does not come to its end")))
    }

    /// The run once it is at rest; `None` when it is not by then.
    async fn wait_for_rest(
        &self,
        run: &RunId,
        deadline: Instant,
    ) -> Result<Option<RunView>, Failure> {
        let mut news = self.news.subscribe(run);
        loop {
            news.mark_unchanged();
            let stored = self.store.run(run).await.or_fail()?;
            if !stored.state.is_live() {
                return self.view(stored).await.map(Some);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            let _ = tokio::time::timeout_at(deadline, news.changed()).await;
        }
    }

    async fn is_collecting(&self, run: &RunId) -> Result<bool, Failure> {
        let steps = self.store.steps(run).await.or_fail()?;
        Ok(steps
            .iter()
            .any(|step| matches!(step.kind, StepKind::Finish | StepKind::Harvest)))
    }

    /// Passes a recorded stop on to the shim; true when it has taken it.
    pub async fn pass_on_stop(&self, live: &LiveRun, client: &ShimClient) -> bool {
        match client.stop(GRACE_MS).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(run = %live.run, %error, "the shim did not take the stop");
                false
            }
        }
    }

    /// Runs that are going on, and the newest event of each, for the doctor.
    pub async fn live_in_words(&self) -> Result<Vec<String>, Failure> {
        let runs = self.store.unsettled_runs().await.or_fail()?;
        let mut lines = vec![count(runs.len(), "run is going on", "runs are going on")];
        for run in runs {
            let line = self.live.get(&run.id).is_some();
            let reached = if line { "followed" } else { "not reached" };
            lines.push(format!(
                "run {}: {}, {reached}, {} events",
                run.id,
                run.state.tag(),
                run.last_seq
            ));
        }
        Ok(lines)
    }
}

/// What a repository at this place is called.
pub(crate) fn name_of(repo: &Path) -> String {
    let name = repo.file_name().unwrap_or(repo.as_os_str());
    sanitize_line(&name.to_string_lossy())
}

/// The commit that a run's checks are about: what it ended with, or what it started from where it ended
/// without changes. Unknown while it goes on.
fn tip_of(run: &StoredRun, details: &RunDetails) -> Option<String> {
    match &run.outcome {
        Some(Outcome::Changes { head, .. }) => Some(head.clone()),
        Some(_) => Some(details.worktree.base_commit.clone()),
        None => None,
    }
}
