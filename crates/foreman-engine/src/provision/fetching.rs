//! Asking a remote for the tip of a branch: once for all runs that ask at the same time.

use super::Provisioning;
use crate::failures::join;
use foreman_domain::Failure;
use foreman_git::{FetchLimits, Fetched, Upstream};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long an answer counts for others who ask: runs that start together.
const SHARED: Duration = Duration::from_secs(10);
/// The most that is fetched for a base.
const BYTES: u64 = 2 << 30;
/// Between two looks at whether the run is to stop.
const LOOK: Duration = Duration::from_millis(250);
/// Lines of git that wait to be told; more are dropped.
const LINES: usize = 64;

/// What remotes answered lately.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    known: Mutex<HashMap<String, (Instant, Fetched)>>,
}

impl Fetches {
    fn lately(&self, what: &str) -> Option<Fetched> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| at.elapsed() < SHARED);
        known.get(what).map(|(_, fetched)| fetched.clone())
    }

    fn note(&self, what: &str, fetched: &Fetched) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(what.to_owned(), (Instant::now(), fetched.clone()));
    }
}

impl Provisioning<'_> {
    /// Fetches what `upstream` holds, or takes the answer that another run got just now. Tells what git
    /// says. Ends early when the run is to stop, or when this engine does.
    pub(super) async fn fetch(
        &self,
        upstream: &Upstream,
        limit: Duration,
    ) -> Result<Fetched, Failure> {
        let repo = &self.plan.repo;
        let what = format!(
            "fetch {} {} {}",
            repo.slug(),
            upstream.remote,
            upstream.branch
        );
        let turn = self.engine.turn_at(&what);
        let _turn = loop {
            tokio::select! {
                turn = Arc::clone(&turn).lock_owned() => break turn,
                () = tokio::time::sleep(LOOK) => {
                    if let Some(why) = self.why_not_wait().await? {
                        return Ok(why);
                    }
                }
            }
        };
        if let Some(fetched) = self.engine.fetches.lately(&what) {
            return Ok(fetched);
        }
        let (lines, mut heard) = mpsc::channel::<String>(LINES);
        let stop = Arc::new(AtomicBool::new(false));
        let (repo, upstream, flag, name) = (
            repo.clone(),
            upstream.clone(),
            Arc::clone(&stop),
            self.id.to_string(),
        );
        let limits = FetchLimits {
            time: limit,
            bytes: BYTES,
        };
        let mut fetching = tokio::task::spawn_blocking(move || {
            repo.fetch_base(&name, &upstream, limits, &flag, &mut |line| {
                // A full channel drops the line: what git says is a courtesy.
                let _ = lines.try_send(line.to_owned());
            })
        });
        let mut cut = None;
        let fetched = loop {
            tokio::select! {
                fetched = &mut fetching => break fetched.map_err(join)??,
                Some(line) = heard.recv() => self.say(&format!("git: {line}")).await?,
                () = tokio::time::sleep(LOOK), if cut.is_none() => {
                    cut = self.why_not_wait().await?;
                    stop.store(cut.is_some(), Ordering::Relaxed);
                }
            }
        };
        while let Ok(line) = heard.try_recv() {
            self.say(&format!("git: {line}")).await?;
        }
        match (fetched, cut) {
            (Fetched::Stopped, Some(why)) => Ok(why),
            (fetched, _) => {
                self.engine.fetches.note(&what, &fetched);
                Ok(fetched)
            }
        }
    }

    /// What becomes of waiting for a remote when there is a reason not to.
    async fn why_not_wait(&self) -> Result<Option<Fetched>, Failure> {
        if self.is_to_stop().await? {
            return Ok(Some(Fetched::Stopped));
        }
        Ok(self
            .engine
            .cancel
            .is_cancelled()
            .then(|| Fetched::Unreached("the engine was being closed".to_owned())))
    }
}
