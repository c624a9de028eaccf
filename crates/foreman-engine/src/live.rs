//! Runs whose shims this engine follows, and the line to each shim.

use crate::details::RunDetails;
use crate::runs::{Counted, Measured};
use foreman_domain::{Code, Failure, Revision, RunId};
use foreman_shim::client::{Applied, ShimClient};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Longest wait for a line to a shim that is being connected to.
const LINE: Duration = Duration::from_secs(5);
/// Longest wait for what happened while nobody hosted.
const CATCHING_UP: Duration = Duration::from_secs(2);
/// Results of the newest revisions that are kept for whoever asked for them.
const KEPT_RESULTS: usize = 64;

/// Runs by id.
#[derive(Debug, Default)]
pub(crate) struct LiveRuns {
    runs: Mutex<HashMap<RunId, Arc<LiveRun>>>,
}

impl LiveRuns {
    /// The run, while it is followed.
    pub fn get(&self, run: &RunId) -> Option<Arc<LiveRun>> {
        self.lock().get(run).cloned()
    }

    /// Every run that is followed.
    pub fn ids(&self) -> Vec<RunId> {
        self.lock().keys().cloned().collect()
    }

    /// Takes a run in; `None` when it is followed already.
    pub fn insert(&self, run: &RunId, details: RunDetails) -> Option<Arc<LiveRun>> {
        let mut runs = self.lock();
        if runs.contains_key(run) {
            return None;
        }
        let live = Arc::new(LiveRun::new(run, details));
        runs.insert(run.clone(), Arc::clone(&live));
        Some(live)
    }

    /// Waits until what the followed runs had to tell when they were met is stored, but not for long:
    /// a shim that does not answer must not keep everybody else waiting.
    pub async fn caught_up(&self) {
        let runs: Vec<_> = self.lock().values().map(Arc::clone).collect();
        let all = async {
            for run in runs {
                // Ends with an error when the run is let go, and then there is nothing to wait for.
                let _ = run.caught_up.subscribe().wait_for(|done| *done).await;
            }
        };
        if tokio::time::timeout(CATCHING_UP, all).await.is_err() {
            tracing::warn!("serving before every live run has told what happened meanwhile");
        }
    }

    /// Follows another shim of a run from now on.
    pub fn replace(&self, run: &RunId, details: RunDetails) -> Arc<LiveRun> {
        let live = Arc::new(LiveRun::new(run, details));
        self.lock().insert(run.clone(), Arc::clone(&live));
        live
    }

    /// Lets a run go that is over.
    pub fn remove(&self, run: &RunId) {
        self.lock().remove(run);
    }

    /// Lets a shim of a run go, unless another one is followed by now.
    pub fn remove_if(&self, run: &RunId, live: &Arc<LiveRun>) {
        let mut runs = self.lock();
        if runs.get(run).is_some_and(|known| Arc::ptr_eq(known, live)) {
            runs.remove(run);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<LiveRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run that is followed.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub run: RunId,
    pub details: RunDetails,
    line: watch::Sender<Option<Arc<ShimClient>>>,
    caught_up: watch::Sender<bool>,
    trouble: Mutex<Option<Failure>>,
    /// Held while policy revisions are given to the shim, which takes them in order only.
    pub applying: tokio::sync::Mutex<Standing>,
    /// What it used lately. Held while the shim is asked.
    pub measured: tokio::sync::Mutex<Measured>,
    /// What its agent has used so far.
    pub spent: tokio::sync::Mutex<Counted>,
}

/// What the shim has in force, as far as this engine told it.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The shim's revision.
    pub revision: Revision,
    results: VecDeque<(Revision, Applied)>,
}

impl Standing {
    /// Notes what a revision did.
    pub fn note(&mut self, revision: Revision, applied: Applied) {
        self.revision = self.revision.max(revision);
        self.results.push_back((revision, applied));
        if self.results.len() > KEPT_RESULTS {
            self.results.pop_front();
        }
    }

    /// What a revision did.
    pub fn result(&self, revision: Revision) -> Option<Applied> {
        self.results
            .iter()
            .find(|(known, _)| *known == revision)
            .map(|(_, applied)| *applied)
    }
}

impl LiveRun {
    fn new(run: &RunId, details: RunDetails) -> Self {
        Self {
            run: run.clone(),
            details,
            line: watch::channel(None).0,
            caught_up: watch::channel(false).0,
            trouble: Mutex::default(),
            applying: tokio::sync::Mutex::default(),
            measured: tokio::sync::Mutex::default(),
            spent: tokio::sync::Mutex::default(),
        }
    }

    /// What keeps its events from being stored, for whoever waits for them; `None` once that is over.
    pub fn set_trouble(&self, trouble: Option<Failure>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// What keeps its events from being stored.
    pub fn trouble(&self) -> Option<Failure> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Everything it had to tell when it was met is stored, or it is over.
    pub fn set_caught_up(&self) {
        self.caught_up.send_replace(true);
    }

    /// The line to the shim is up, or down.
    pub fn set_line(&self, client: Option<Arc<ShimClient>>) {
        self.line.send_replace(client);
    }

    /// The line to the shim; waits a little for one that is being made.
    pub async fn line(&self) -> Result<Arc<ShimClient>, Failure> {
        let mut line = self.line.subscribe();
        let found = tokio::time::timeout(LINE, line.wait_for(Option::is_some)).await;
        if let Ok(Ok(client)) = found
            && let Some(client) = client.as_ref()
        {
            return Ok(Arc::clone(client));
        }
        Err(Failure::new(
            Code::Environment,
            format!("the supervisor of run {} does not answer", self.run),
        )
        .hint(format!("Its log is {}.", self.details.files.log.display())))
    }
}
